//! The jobs of a sweep: which traces a plan means, in which order.
//!
//! The list is made once, when a sweep begins, and kept: files that appear later do not shift the
//! numbers. Its text is one JSON object a line.

use super::buckets::{Bucket, Buckets, Object, SCHEME, parts_of};
use super::plan::{Plan, PlanError, TraceGroup, TraceOrigin};
use crate::source::Source;
use crate::synth::from_words;
use glob::{MatchOptions, Pattern};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use thermocline_trace::ReadOptions;
use walkdir::WalkDir;

/// Jobs of a sweep.
const JOBS_MAX: usize = 10_000_000;
/// Meaning of patterns: `*` stays within a part of a name.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// One trace with one seed, for all policies and sizes: plain data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Number in the list, from 1.
    pub number: u64,
    /// Family of the trace.
    pub family: String,
    /// Name of the trace, as the plan finds it: the same on every machine.
    pub name: String,
    /// Place of the trace.
    pub trace: JobTrace,
    /// Seed of everything random.
    pub seed: u64,
}

/// Place of the trace of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum JobTrace {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// Its length when the list was made.
        bytes: u64,
        /// Its format; `None` finds it from the content.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        format: Option<String>,
        /// Its columns.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        columns: Option<String>,
        /// Its event that counts.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        blkparse_event: Option<char>,
    },
    /// An object of a bucket.
    Object {
        /// The bucket.
        bucket: Bucket,
        /// The object, as it was when the list was made.
        object: Object,
        /// Its format; `None` finds it from the content.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        format: Option<String>,
        /// Its columns.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        columns: Option<String>,
        /// Its event that counts.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        blkparse_event: Option<char>,
    },
    /// Words of a workload that is made.
    Synth(String),
}

/// The jobs of a plan; its patterns are relative to `folder`, and `buckets` is the way to those of
/// buckets.
///
/// # Errors
/// When a pattern is none, or matches no file or object, or one whose path is not UTF-8, or when a
/// bucket cannot be listed.
pub fn list(
    plan: &Plan,
    folder: &Path,
    origin: &str,
    buckets: &dyn Buckets,
) -> Result<Vec<Job>, PlanError> {
    let mut jobs: Vec<Job> = Vec::new();
    let mut known: BTreeSet<(&str, String)> = BTreeSet::new();
    for group in &plan.groups {
        let error = |problem: String| PlanError {
            origin: origin.to_string(),
            line: Some(group.line),
            problem,
        };
        for (name, trace) in traces(group, folder, buckets).map_err(error)? {
            // A report takes rows of one name for seeds of one trace.
            if !known.insert((&group.family, name.clone())) {
                let family = &group.family;
                return Err(error(format!(
                    "family `{family}` has `{name}` twice; give it once, or in another family"
                )));
            }
            for seed in &plan.seeds {
                if jobs.len() == JOBS_MAX {
                    return Err(error(format!("the plan has more than {JOBS_MAX} jobs")));
                }
                jobs.push(Job {
                    number: jobs.len() as u64 + 1,
                    family: group.family.clone(),
                    name: name.clone(),
                    trace: trace.clone(),
                    seed: *seed,
                });
            }
        }
    }
    Ok(jobs)
}

fn traces(
    group: &TraceGroup,
    folder: &Path,
    buckets: &dyn Buckets,
) -> Result<Vec<(String, JobTrace)>, String> {
    match &group.origin {
        TraceOrigin::Synth(words) => {
            Ok(words.iter().map(|w| (w.clone(), JobTrace::Synth(w.clone()))).collect())
        }
        TraceOrigin::Files { patterns, bucket, format, columns, blkparse_event } => {
            let mut found: Vec<(String, JobTrace)> = Vec::new();
            let mut places = BTreeSet::new();
            for pattern in patterns {
                if let Some(parts) = parts_of(pattern) {
                    let (name, keys) = parts?;
                    let ca_file = bucket.ca_file.as_ref().map(|file| folder.join(file));
                    if let Some(path) = ca_file.as_ref().filter(|path| path.to_str().is_none()) {
                        return Err(format!(
                            "{}: the name of a folder above `ca-file` is not UTF-8, and a list of \
                             jobs holds such names only; rename the folder",
                            path.display()
                        ));
                    }
                    let bucket = Bucket { name: name.to_string(), ca_file, ..bucket.clone() };
                    for object in objects(pattern, keys, &bucket, buckets)? {
                        let name = format!("{SCHEME}{name}/{}", object.key);
                        // Two patterns match it.
                        if !places.insert(PathBuf::from(&name)) {
                            continue;
                        }
                        let (format, columns) = (format.clone(), columns.clone());
                        let trace = JobTrace::Object {
                            bucket: bucket.clone(),
                            object,
                            format,
                            columns,
                            blkparse_event: *blkparse_event,
                        };
                        found.push((name, trace));
                    }
                    continue;
                }
                for (name, path, bytes) in files(pattern, folder)? {
                    // Two patterns match it, or it is reached through a link as well.
                    if !places.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                        continue;
                    }
                    let (format, columns) = (format.clone(), columns.clone());
                    let trace = JobTrace::File {
                        path,
                        bytes,
                        format,
                        columns,
                        blkparse_event: *blkparse_event,
                    };
                    found.push((name, trace));
                }
            }
            Ok(found)
        }
    }
}

/// The objects of a bucket whose keys match, by key.
fn objects(
    pattern: &str,
    keys: &str,
    bucket: &Bucket,
    buckets: &dyn Buckets,
) -> Result<Vec<Object>, String> {
    let no_pattern = |error| format!("`{pattern}` is no pattern of names: {error}");
    let names = Pattern::new(keys).map_err(no_pattern)?;
    let told = |error: String| format!("`{pattern}`: {error}");
    buckets.check(bucket).map_err(told)?;
    let parts: Vec<&str> = keys.split('/').collect();
    let is_wild = |part: &&str| part.contains(['*', '?', '[']);
    let named = parts.iter().take_while(|part| !is_wild(part)).count();
    let mut found = if named == parts.len() {
        buckets.find(bucket, keys).map_err(told)?.into_iter().collect()
    } else {
        let walk = Walk { bucket, buckets, parts: &parts };
        walk.below(&parts[..named].join("/"), named).map_err(told)?
    };
    found.retain(|object| names.matches_with(&object.key, OPTIONS));
    if found.is_empty() {
        return Err(format!("`{pattern}` matches no object of the bucket"));
    }
    found.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(found)
}

/// A walk through the folders of a bucket that the parts of a pattern match.
struct Walk<'a> {
    bucket: &'a Bucket,
    buckets: &'a dyn Buckets,
    parts: &'a [&'a str],
}

impl Walk<'_> {
    /// Objects below `prefix` that may match the parts from number `at` on.
    fn below(&self, prefix: &str, at: usize) -> Result<Vec<Object>, String> {
        if self.parts[at] == "**" {
            return self.buckets.below(self.bucket, prefix, JOBS_MAX);
        }
        let (folders, objects) = self.buckets.folder(self.bucket, prefix)?;
        if at + 1 == self.parts.len() {
            return Ok(objects);
        }
        let part = Pattern::new(self.parts[at]).map_err(|error| error.to_string())?;
        let mut found = Vec::new();
        for folder in folders {
            let name = folder.rsplit('/').next().unwrap_or_default();
            if part.matches_with(name, OPTIONS) {
                found.extend(self.below(&folder, at + 1)?);
            }
        }
        Ok(found)
    }
}

/// Name, path and length of every file that matches, by name. Links are followed, except one that
/// leads back to a folder above it.
fn files(pattern: &str, folder: &Path) -> Result<Vec<(String, PathBuf, u64)>, String> {
    let no_pattern = |error| format!("`{pattern}` is no pattern of file names: {error}");
    let (named, rest) = without_wildcards(Path::new(pattern));
    let above = folder.join(named);
    let names = Pattern::new(&rest.to_string_lossy()).map_err(no_pattern)?;
    let deep = rest.components().any(|part| part.as_os_str() == "**");
    let depth = if deep { usize::MAX } else { rest.components().count() };
    let mut found = Vec::new();
    for entry in WalkDir::new(&above).follow_links(true).max_depth(depth) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if error.loop_ancestor().is_some() => continue,
            Err(error) if error.depth() == 0 => break,
            Err(error) => return Err(format!("`{pattern}`: {error}")),
        };
        let path = entry.path();
        let below = path.strip_prefix(&above).unwrap_or(path);
        if !entry.file_type().is_file() || !is_match(&names, below, path)? {
            continue;
        }
        if path.to_str().is_none() {
            return Err(format!(
                "{}: the name of a folder above the trace is not UTF-8, and a list of jobs holds \
                 such names only; rename the folder",
                path.display()
            ));
        }
        let bytes = entry.metadata().map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
        found.push((name, path.to_path_buf(), bytes.len()));
    }
    if found.is_empty() {
        return Err(format!("`{pattern}` matches no file in {}", folder.display()));
    }
    found.sort();
    Ok(found)
}

/// True if a file is named by a pattern; `below` is its path as the pattern sees it.
///
/// # Errors
/// When the name is not UTF-8, so that no pattern could name it, and no result either.
fn is_match(names: &Pattern, below: &Path, path: &Path) -> Result<bool, String> {
    match below.to_str() {
        Some(below) => Ok(below.is_empty() || names.matches_with(below, OPTIONS)),
        // What it might have been is seen by its name with marks in place of the wrong bytes.
        None if names.matches_with(&below.to_string_lossy(), OPTIONS) => {
            Err(format!("{}: the name is not UTF-8; rename the file", path.display()))
        }
        None => Ok(false),
    }
}

/// The folders of a path before its first part with wildcards, and the rest.
fn without_wildcards(path: &Path) -> (PathBuf, PathBuf) {
    let is_wild =
        |part: &Component<'_>| part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let parts: Vec<Component<'_>> = path.components().collect();
    let wild = parts.iter().position(is_wild).unwrap_or(parts.len());
    (parts[..wild].iter().collect(), parts[wild..].iter().collect())
}

/// The list as text, a line a job.
pub fn write_jobs(jobs: &[Job]) -> String {
    jobs.iter().map(|job| job.line() + "\n").collect()
}

/// Reads what [`write_jobs`] wrote; `origin` names it in messages.
///
/// # Errors
/// When a line is no job, or the numbers do not count from 1.
pub fn parse_jobs(text: &str, origin: &str) -> Result<Vec<Job>, PlanError> {
    let mut jobs = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let error =
            |problem: String| PlanError { origin: origin.to_string(), line: Some(i + 1), problem };
        let job: Job = serde_json::from_str(line).map_err(|e| error(e.to_string()))?;
        if job.number != i as u64 + 1 {
            return Err(error(format!("job {} stands where job {} belongs", job.number, i + 1)));
        }
        jobs.push(job);
    }
    Ok(jobs)
}

impl Job {
    /// Its line in the list, the same wherever the job was sent: it identifies the job.
    pub(super) fn line(&self) -> String {
        serde_json::to_string(self).expect("a job is plain")
    }

    /// The trace, and how it is read: from `file`, unless it is made.
    pub(super) fn source(&self, file: Option<&Path>) -> Result<(Source, ReadOptions), String> {
        let mut options = ReadOptions { format: None, columns: None, blkparse_event: None };
        match &self.trace {
            JobTrace::File { format, columns, blkparse_event, .. }
            | JobTrace::Object { format, columns, blkparse_event, .. } => {
                options.format = format
                    .as_ref()
                    .map(|text| text.parse())
                    .transpose()
                    .map_err(|error: thermocline_trace::ParseFormatError| error.to_string())?;
                options.columns =
                    columns.as_ref().map(|text| text.parse()).transpose().map_err(
                        |error: thermocline_trace::ParseColumnMapError| error.to_string(),
                    )?;
                options.blkparse_event = *blkparse_event;
                let file = file.ok_or("its object was not copied yet")?;
                Ok((Source::File(file.to_path_buf()), options))
            }
            JobTrace::Synth(words) => {
                let mut spec = from_words(words).map_err(|error| error.to_string())?;
                if !words.contains("seed=") {
                    spec.seed = self.seed;
                }
                Ok((Source::Synth(Box::new(spec)), options))
            }
        }
    }
}
