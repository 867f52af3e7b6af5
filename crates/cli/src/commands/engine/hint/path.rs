//! `thermocline hint path`: what is said of files becomes hints of the ranges where they lie.
//!
//! Files of a run lie on one file system. What has no place on the device of its own is left out,
//! and said.

use super::{EngineArgs, Saying, all_taken, summary};
use crate::error::CliError;
use crate::output;
use hyper::Method;
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thermocline_engine::api::{
    HINTS_AT_ONCE, HINTS_VERSION, HintLevel, HintsTaken, NewHint, NewHints,
};
use thermocline_filehints::files::extents::LeftOut;
use thermocline_filehints::files::{FileFacts, Place, ranges_of};
use thermocline_units::Bytes;
use thermocline_units::text::counted;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Files, all on one file system that is mounted from a volume.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Everything in directories, as far as it is on the same file system.
    #[arg(long, short)]
    recursive: bool,
    /// The volume, where the device does not tell.
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Name of the source.
    #[arg(long, value_name = "NAME", default_value = "path")]
    source: String,
    /// Print the document that would be sent, and send nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    saying: Saying,
}

/// Counts of what was sent.
#[derive(Serialize)]
struct Sent {
    volume: String,
    files: u64,
    ranges: u64,
    bytes: u64,
    left_out: LeftOut,
    taken: HintsTaken,
}

pub(super) fn run(engine: &EngineArgs, args: Args) -> Result<(), CliError> {
    let client = engine.client();
    let first = args.paths.first().expect("clap asks for one");
    let place = Place::of(first, &client, args.volume.as_deref())?;
    let mut sent = Sent {
        volume: place.volume.clone(),
        files: 0,
        ranges: 0,
        bytes: 0,
        left_out: LeftOut::default(),
        taken: HintsTaken::default(),
    };
    let mut hints = Vec::new();
    let saying = args.saying.hint();
    for file in files(&args.paths, args.recursive, place.device)? {
        let (found, left_out) = hints_of(&place, &saying, &file)?;
        sent.files += 1;
        sent.ranges += found.len() as u64;
        sent.bytes += found.iter().filter_map(|hint| hint.length_bytes).sum::<u64>();
        sent.left_out += left_out;
        hints.extend(found);
    }
    let document = |hints: &[NewHint]| NewHints {
        version: HINTS_VERSION,
        source: args.source.clone(),
        hints: hints.to_vec(),
    };
    if args.dry_run {
        let json = serde_json::to_string_pretty(&document(&hints)).expect("hints are plain");
        return output::print(&(json + "\n"));
    }
    for part in hints.chunks(HINTS_AT_ONCE) {
        sent.taken.add(client.send(Method::POST, "/v1/hints", &document(part))?);
    }
    engine.answer(&sent, text)?;
    all_taken(&sent.taken)
}

fn text(sent: &Sent) -> String {
    let Sent { volume, files, ranges, bytes, left_out, taken } = sent;
    let (bytes, files) = (Bytes(*bytes), counted(*files, "file"));
    let ranges = counted(*ranges, "range");
    let mut out = format!("{files}: {bytes} in {ranges} of {volume}\n");
    if let Some(left_out) = left_out.text() {
        out += &format!("left out: {left_out}\n");
    }
    out + &format!("{}\n", summary(taken))
}

/// The files that are meant, directories gone through in the order of names.
fn files(paths: &[PathBuf], recursive: bool, device: u64) -> Result<Vec<PathBuf>, CliError> {
    let mut files = Vec::new();
    let mut waiting: Vec<(PathBuf, bool)> =
        paths.iter().rev().map(|path| (path.clone(), true)).collect();
    while let Some((path, named)) = waiting.pop() {
        let failed = |error| CliError::input(format!("{}: {error}", path.display()));
        // Links are followed where they are named, not where they are met.
        let status = if named { path.metadata() } else { path.symlink_metadata() };
        let status = status.map_err(failed)?;
        if status.dev() != device {
            if named {
                let name = path.display();
                return Err(CliError::input(format!(
                    "{name} is on another file system than the first path; say it in a run of its \
                     own"
                )));
            }
        } else if status.is_file() {
            files.push(path);
        } else if status.is_dir() && (recursive || !named) {
            let entries = std::fs::read_dir(&path).map_err(failed)?;
            let mut inside: Vec<PathBuf> = entries
                .map(|entry| entry.map(|one| one.path()))
                .collect::<Result<_, _>>()
                .map_err(failed)?;
            inside.sort_unstable_by(|left, right| right.cmp(left));
            waiting.extend(inside.into_iter().map(|path| (path, false)));
        } else if named {
            let what = if status.is_dir() { "a directory; add --recursive" } else { "no file" };
            return Err(CliError::input(format!("{} is {what}", path.display())));
        }
    }
    Ok(files)
}

fn hints_of(
    place: &Place,
    saying: &NewHint,
    path: &Path,
) -> Result<(Vec<NewHint>, LeftOut), CliError> {
    let failed = |error: std::io::Error| CliError::input(format!("{}: {error}", path.display()));
    // What turned into a FIFO meanwhile must not hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?.into();
    let size = file.metadata().map_err(failed)?.len();
    let (ranges, left_out) = ranges_of(place, &file, 0..u64::MAX).map_err(failed)?;
    let full = path.canonicalize().map_err(failed)?;
    let facts = FileFacts::new(&place.mount, &full, size).ok_or_else(|| {
        let point = place.mount.point.display();
        CliError::input(format!("{} is not below {point}", path.display()))
    })?;
    Ok((place.hints(HintLevel::File, saying, &facts, &ranges), left_out))
}
