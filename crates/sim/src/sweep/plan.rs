//! The plan of a sweep, as a user writes it: TOML, described in docs/formats/sweep.md.
//!
//! Reading a plan opens no file. Every error names the line. What is read is checked as far as it
//! can be without a trace and without loading a library: policies of the registry exist, sizes are
//! sizes, families can be names of folders.

use super::buckets::{self, Bucket};
use super::libraries::Libraries;
use crate::lab::{CacheSize, LabError, LabOptions};
use crate::replay::cost::Profile;
use crate::replay::{ReplayOptions, Warmup, WriteMode};
use crate::synth::from_words;
use crate::workload::{Cut, Unit};
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use thermocline_policy::placement::{CHUNK_TEXT, EPOCH_TEXT};
use thermocline_policy::registry::PolicySpec;
use thermocline_trace::{ColumnMap, Format};
use thermocline_units::{Bytes, Nanos};
use toml::Spanned;

/// Version of the format of plans.
const FORMAT: u64 = 1;
/// Policies times sizes of one job: all of them are in memory at once.
const CELLS_MAX: usize = 4096;
/// Seeds of a plan.
const SEEDS_MAX: usize = 1000;
/// Letters in the name of a family.
const FAMILY_MAX: usize = 64;
/// Smallest line or chunk, bytes.
const LINE_MIN: u64 = 512;

/// A plan that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}: {problem}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct PlanError {
    /// The plan's name.
    pub origin: String,
    /// Line, from 1; `None` where the whole plan is meant.
    pub line: Option<usize>,
    /// The fault, and what would do.
    pub problem: String,
}

/// A sweep as it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The contest that every job runs.
    pub contest: Contest,
    /// Seeds, each once.
    pub seeds: Vec<u64>,
    /// Groups of traces, in the order of the plan.
    pub groups: Vec<TraceGroup>,
}

/// Policies, sizes and model that every job runs on its trace: plain data, sent with each job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contest {
    /// Title of the sweep; may be empty.
    pub title: String,
    /// Policies, as [`PolicySpec::parse`] takes them, or of a library beside the plan, as
    /// `./mine.so:name:key=value`.
    pub policies: Vec<String>,
    /// Sizes, as [`CacheSize`] is written.
    pub sizes: Vec<String>,
    /// The policy that others are compared with; one of `policies`.
    pub baseline: String,
    /// Bytes of a line; `None` for objects of unit size.
    pub line_bytes: Option<u64>,
    /// Bytes of a chunk, which flash managers move.
    pub chunk_bytes: u64,
    /// Nanoseconds between decisions of flash managers.
    pub epoch_ns: u64,
    /// Mode of writes: back, through or around.
    pub write: String,
    /// Part of the trace that is not counted, as [`Warmup`] is written.
    pub warmup: String,
}

/// A contest made ready: everything parsed.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    pub(super) specs: Vec<PolicySpec>,
    pub(super) sizes: Vec<CacheSize>,
    pub(super) replay: ReplayOptions,
    pub(super) cut: Cut,
}

/// Traces that are found in one way and belong to one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceGroup {
    /// Family, by which a report groups: also the name of a folder.
    pub family: String,
    /// Line of the plan, from 1.
    pub line: usize,
    /// Their origin.
    pub origin: TraceOrigin,
}

/// Origin of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceOrigin {
    /// Files by name or pattern, relative to the plan's folder, and objects of buckets.
    Files {
        /// Names and patterns; those of buckets begin with `s3://`.
        patterns: Vec<String>,
        /// Settings by which their buckets are asked; without a name.
        bucket: Bucket,
        /// Format of all of them; `None` finds it from the content.
        format: Option<String>,
        /// Columns of a text in columns, as [`ColumnMap`] is written.
        columns: Option<String>,
        /// Event of a blkparse trace that counts as a request.
        blkparse_event: Option<char>,
    },
    /// Workloads that are made, in words such as `mixed,requests=1M`. The seed of a job is that of
    /// the workload where the words name none.
    Synth(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: Spanned<u64>,
    #[serde(default)]
    title: String,
    policies: Spanned<Vec<Spanned<String>>>,
    sizes: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    seeds: Option<Spanned<Vec<u64>>>,
    #[serde(default)]
    baseline: Option<Spanned<String>>,
    #[serde(default)]
    model: WrittenModel,
    #[serde(default)]
    traces: Vec<Spanned<WrittenGroup>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WrittenModel {
    line: Option<Spanned<String>>,
    objects: Option<Spanned<bool>>,
    chunk: Option<Spanned<String>>,
    epoch: Option<Spanned<String>>,
    write: Option<Spanned<String>>,
    warmup: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenGroup {
    family: Spanned<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    synth: Vec<Spanned<String>>,
    format: Option<Spanned<String>>,
    columns: Option<Spanned<String>>,
    blkparse_event: Option<char>,
    s3: Option<Spanned<Bucket>>,
}

impl Plan {
    /// Reads a plan; `origin` names it in messages.
    ///
    /// # Errors
    /// When it is not a plan, or what it asks for does not exist.
    ///
    /// ```
    /// use thermocline_sim::sweep::Plan;
    /// let text = "format = 1\npolicies = [\"lru\"]\nsizes = [\"10%\"]\n\
    ///     [[traces]]\nfamily = \"made\"\nsynth = [\"web,requests=10k\"]\n";
    /// assert!(Plan::parse(text, "plan.toml").is_ok());
    /// let error = Plan::parse(&text.replace("lru", "lur"), "plan.toml").unwrap_err();
    /// assert!(error.to_string().starts_with("plan.toml, line 2: there is no policy `lur`"));
    /// ```
    pub fn parse(text: &str, origin: &str) -> Result<Plan, PlanError> {
        let reader = Reader { text, origin };
        let written: Written = toml::from_str(text).map_err(|error| {
            let start = error.span().map(|span| span.start);
            let line = start.map(|start| reader.line(start));
            let problem = error.message().trim_end().to_string();
            PlanError { origin: origin.to_string(), line, problem }
        })?;
        reader.plan(written)
    }
}

/// Knows the text, for the lines of errors.
struct Reader<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        let before = self.text.as_bytes().iter().take(at);
        before.filter(|byte| **byte == b'\n').count() + 1
    }

    fn error<T>(&self, at: &Spanned<T>, problem: impl ToString) -> PlanError {
        let line = Some(self.line(at.span().start));
        PlanError { origin: self.origin.to_string(), line, problem: problem.to_string() }
    }

    /// The value as written, or `usual` when nothing is; it must be a `T`.
    fn value<T: FromStr<Err: ToString>>(
        &self,
        written: Option<&Spanned<String>>,
        usual: &str,
    ) -> Result<T, PlanError> {
        match written {
            None => Ok(usual.parse().ok().expect("what is usual is right")),
            Some(text) => {
                text.as_ref().parse::<T>().map_err(|error| self.error(text, error.to_string()))
            }
        }
    }

    fn plan(&self, written: Written) -> Result<Plan, PlanError> {
        if *written.format.as_ref() != FORMAT {
            let problem = format!(
                "format = {}: this version reads plans of format {FORMAT}",
                written.format.as_ref()
            );
            return Err(self.error(&written.format, problem));
        }
        let seeds = self.seeds(written.seeds.as_ref())?;
        let contest = self.contest(&written)?;
        if written.traces.is_empty() {
            let problem = "the plan names no trace; add a table `[[traces]]` with a `family`, and \
                           `files` or `synth`";
            return Err(PlanError {
                origin: self.origin.to_string(),
                line: None,
                problem: problem.to_string(),
            });
        }
        let groups = written.traces.iter().map(|group| self.group(group));
        Ok(Plan { contest, seeds, groups: groups.collect::<Result<_, _>>()? })
    }

    fn seeds(&self, written: Option<&Spanned<Vec<u64>>>) -> Result<Vec<u64>, PlanError> {
        let Some(seeds) = written else { return Ok(vec![1]) };
        let list = seeds.as_ref();
        if list.is_empty() || list.len() > SEEDS_MAX {
            return Err(self.error(seeds, format!("name 1 to {SEEDS_MAX} seeds")));
        }
        // Parquet counts to 2^63.
        if let Some(seed) = list.iter().find(|seed| i64::try_from(**seed).is_err()) {
            return Err(self.error(seeds, format!("seed {seed}: use one below 2^63")));
        }
        let mut seen = list.clone();
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.error(seeds, format!("seed {} is there twice", pair[0])));
        }
        Ok(list.clone())
    }

    fn contest(&self, written: &Written) -> Result<Contest, PlanError> {
        let policies = self.words(&written.policies, "policies")?;
        let sizes = self.words(&written.sizes, "sizes")?;
        if policies.len() * sizes.len() > CELLS_MAX {
            let problem = format!(
                "{} policies at {} sizes: a job keeps at most {CELLS_MAX} caches in memory; split \
                 the plan",
                policies.len(),
                sizes.len()
            );
            return Err(self.error(&written.policies, problem));
        }
        for policy in written.policies.as_ref() {
            check_written(policy.as_ref()).map_err(|error| self.error(policy, error))?;
        }
        for size in written.sizes.as_ref() {
            size.as_ref().parse::<CacheSize>().map_err(|error| self.error(size, error))?;
        }
        let model = &written.model;
        let objects = model.objects.as_ref().is_some_and(|objects| *objects.as_ref());
        let line = self.power_of_two(model.line.as_ref(), "4KiB")?;
        let chunk = self.power_of_two(model.chunk.as_ref(), CHUNK_TEXT)?;
        if let (true, Some(line)) = (objects, &model.line) {
            return Err(self.error(line, "objects have no lines; leave `line` or `objects` out"));
        }
        if let (false, true, Some(at)) =
            (objects, chunk < line, model.chunk.as_ref().or(model.line.as_ref()))
        {
            return Err(
                self.error(at, format!("a chunk of {chunk} is smaller than a line of {line}"))
            );
        }
        let epoch: Nanos = self.value(model.epoch.as_ref(), EPOCH_TEXT)?;
        if let (Nanos(0), Some(at)) = (epoch, &model.epoch) {
            return Err(
                self.error(at, format!("an epoch lasts some time; the default is {EPOCH_TEXT}"))
            );
        }
        self.value::<WriteMode>(model.write.as_ref(), "back")?;
        self.value::<Warmup>(model.warmup.as_ref(), "0")?;
        let text = |value: &Option<Spanned<String>>, usual: &str| {
            value.as_ref().map_or(usual.to_string(), |value| value.as_ref().clone())
        };
        Ok(Contest {
            title: written.title.clone(),
            baseline: self.baseline(written.baseline.as_ref(), &policies)?,
            policies,
            sizes,
            line_bytes: (!objects).then_some(line.0),
            chunk_bytes: chunk.0,
            epoch_ns: epoch.0,
            write: text(&model.write, "back"),
            warmup: text(&model.warmup, "0"),
        })
    }

    /// The stated baseline; LRU or else the first policy when none is.
    fn baseline(
        &self,
        written: Option<&Spanned<String>>,
        policies: &[String],
    ) -> Result<String, PlanError> {
        match written {
            Some(name) if !policies.contains(name.as_ref()) => Err(self.error(
                name,
                format!("the baseline `{}` is not among the policies", name.as_ref()),
            )),
            Some(name) => Ok(name.as_ref().clone()),
            None if policies.iter().any(|policy| policy == "lru") => Ok("lru".to_string()),
            None => Ok(policies[0].clone()),
        }
    }

    /// A list of words, each once.
    fn words(
        &self,
        list: &Spanned<Vec<Spanned<String>>>,
        what: &str,
    ) -> Result<Vec<String>, PlanError> {
        if list.as_ref().is_empty() {
            return Err(self.error(list, format!("name at least one of `{what}`")));
        }
        let mut words: Vec<String> = Vec::new();
        for word in list.as_ref() {
            let text = word.as_ref().trim().to_string();
            if words.contains(&text) {
                return Err(self.error(word, format!("`{text}` is there twice")));
            }
            words.push(text);
        }
        Ok(words)
    }

    fn power_of_two(
        &self,
        written: Option<&Spanned<String>>,
        usual: &str,
    ) -> Result<Bytes, PlanError> {
        let size: Bytes = self.value(written, usual)?;
        match written {
            Some(at) if size.0 < LINE_MIN || !size.0.is_power_of_two() => {
                Err(self.error(at, format!("{size}: use a power of two from {LINE_MIN} up")))
            }
            _ => Ok(size),
        }
    }

    fn group(&self, written: &Spanned<WrittenGroup>) -> Result<TraceGroup, PlanError> {
        let group = written.as_ref();
        let family = group.family.as_ref().clone();
        let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let good = family.chars().all(letters) && family.starts_with(|c: char| c != '.');
        if !good || family.is_empty() || family.len() > FAMILY_MAX {
            let problem = format!(
                "`{family}` cannot be a family: use letters, digits, `-`, `_` and `.`, at most \
                 {FAMILY_MAX}; it becomes the name of a folder"
            );
            return Err(self.error(&group.family, problem));
        }
        let origin = match (group.files.is_empty(), group.synth.is_empty()) {
            (false, true) => self.files(group)?,
            (true, false) => self.synth(group)?,
            _ => {
                let problem = format!("family `{family}`: name either `files` or `synth`");
                return Err(self.error(&group.family, problem));
            }
        };
        Ok(TraceGroup { family, line: self.line(group.family.span().start), origin })
    }

    fn files(&self, group: &WrittenGroup) -> Result<TraceOrigin, PlanError> {
        if let Some(format) = &group.format {
            format.as_ref().parse::<Format>().map_err(|error| self.error(format, error))?;
        }
        if let Some(columns) = &group.columns {
            columns.as_ref().parse::<ColumnMap>().map_err(|error| self.error(columns, error))?;
        }
        let mut in_buckets = false;
        for pattern in &group.files {
            let problem = match buckets::parts_of(pattern) {
                Some(Err(problem)) => problem,
                None if pattern.contains("://") => format!(
                    "`{pattern}`: a sweep reads files, and buckets by s3://; copy the traces, or \
                     mount their place"
                ),
                parts => {
                    in_buckets |= parts.is_some();
                    continue;
                }
            };
            return Err(self.error(&group.family, problem));
        }
        let bucket = match &group.s3 {
            Some(at) if !in_buckets => {
                return Err(self.error(at, "`s3` needs a pattern of `files` like s3://BUCKET/…"));
            }
            Some(at) if !at.as_ref().name.is_empty() => {
                return Err(self.error(at, "`files` name the bucket; leave `name` out"));
            }
            written => written.as_ref().map(|at| at.as_ref().clone()).unwrap_or_default(),
        };
        let text = |value: &Option<Spanned<String>>| value.as_ref().map(|v| v.as_ref().clone());
        Ok(TraceOrigin::Files {
            patterns: group.files.clone(),
            bucket,
            format: text(&group.format),
            columns: text(&group.columns),
            blkparse_event: group.blkparse_event,
        })
    }

    fn synth(&self, group: &WrittenGroup) -> Result<TraceOrigin, PlanError> {
        if let Some(at) = group.format.as_ref().or(group.columns.as_ref()) {
            return Err(self.error(at, "a made workload has no format and no columns"));
        }
        if let Some(at) = &group.s3 {
            return Err(self.error(at, "a made workload is in no bucket"));
        }
        for words in &group.synth {
            from_words(words.as_ref()).map_err(|error| self.error(words, error))?;
        }
        Ok(TraceOrigin::Synth(group.synth.iter().map(|words| words.as_ref().clone()).collect()))
    }
}

/// Checks a policy as far as this is possible without loading a library.
fn check_written(text: &str) -> Result<(), String> {
    match thermocline_plugins::split(text.trim()) {
        None => policy(text, &Libraries::default()).map(|_| ()),
        Some((_, rest)) if rest.split(':').next().unwrap_or_default().is_empty() => {
            Err(format!("`{text}` names a library and no policy of it; write `./mine.so:name`"))
        }
        Some(_) => thermocline_plugins::check_filter(text.trim()).map_err(|e| e.to_string()),
    }
}

/// The policy that a text names, which must keep something.
fn policy(text: &str, libraries: &Libraries) -> Result<PolicySpec, String> {
    let spec = match libraries.policy(text) {
        Some(own) => own?,
        None => PolicySpec::parse(text).map_err(|error| error.to_string())?,
    };
    let kind = spec.entry.build.kind();
    if spec.foresees_volumes() {
        return Err(LabError::OnlyVolumes { policy: text.to_string() }.to_string());
    }
    let keeps = spec.is_placement() || matches!(kind, "cache" | "bound");
    if keeps { Ok(spec) } else { Err(format!("`{text}` is a {kind} and keeps nothing")) }
}

impl Contest {
    /// Everything parsed again: a contest may have come from another process.
    pub(super) fn ready(&self, libraries: &Libraries) -> Result<Ready, String> {
        let specs: Vec<PolicySpec> =
            self.policies.iter().map(|text| policy(text, libraries)).collect::<Result<_, _>>()?;
        let sizes = self.sizes.iter().map(|text| text.parse().map_err(|e| format!("{e}")));
        let sizes: Vec<CacheSize> = sizes.collect::<Result<_, _>>()?;
        if specs.is_empty() || sizes.is_empty() || specs.len() * sizes.len() > CELLS_MAX {
            return Err(format!("a contest has 1 to {CELLS_MAX} policies times sizes"));
        }
        if self.epoch_ns == 0 {
            return Err("an epoch lasts some time".to_string());
        }
        let size = |bytes: u64| {
            let good = bytes >= LINE_MIN && bytes.is_power_of_two();
            if good {
                Ok(Bytes(bytes))
            } else {
                Err(format!("{bytes} is no size of a line or chunk"))
            }
        };
        let unit = match self.line_bytes {
            None => Unit::Objects,
            Some(bytes) => Unit::Lines(size(bytes)?),
        };
        let chunks = self.line_bytes.is_some() && specs.iter().any(PolicySpec::is_placement);
        let chunk = chunks.then(|| size(self.chunk_bytes)).transpose()?;
        if chunk.is_some_and(|chunk| chunk < unit.line_bytes()) {
            return Err("a chunk is smaller than a line".to_string());
        }
        let replay = ReplayOptions {
            write_mode: self.write.parse()?,
            warmup: self.warmup.parse()?,
            epoch: Nanos(self.epoch_ns),
        };
        Ok(Ready { specs, sizes, replay, cut: Cut { unit, chunk } })
    }
}

impl Ready {
    /// Options of a job with this seed.
    pub(super) fn options(&self, seed: u64) -> LabOptions {
        LabOptions { replay: self.replay, profile: Profile::source(), seed }
    }
}
