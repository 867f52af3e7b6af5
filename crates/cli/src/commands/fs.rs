//! `thermocline fs`: what the file systems on an image or a device keep where. Changes nothing.
//!
//! 1. The whole, or its partitions, are looked at for ext2/3/4, XFS and btrfs.
//! 2. Each one found is surveyed into a catalog; one that cannot be read is said, and the next goes
//!    on.
//! 3. Metadata is added up by kind, files by the size classes of HintStor (Ge et al. 2022, table
//!    2).
//!
//! Reads through the page cache, whose clean pages it lets go of first: what a mounted XFS or btrfs
//! wrote goes past that cache. What the kernel has not written yet is not seen.

use crate::error::CliError;
use crate::output;
use crate::table;
use rustix::fs::{Advice, fadvise};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use thermocline_fs::{
    Blocks, Catalog, Entry, FileKind, FsError, Limits, ReadError, Summary, survey, systems,
};
use thermocline_units::Bytes;
use thermocline_units::text::count as thousands;

const EXAMPLES: &str = "\
Examples:
  thermocline fs disk.img                    metadata by kind, files by size, the largest ones
  thermocline fs /dev/sdb --top 30
  thermocline fs disk.img --json

Exit status: 0 every file system was read, 1 one could not be, 2 there is none that is known.";

/// First bytes of the size classes of HintStor.
const CLASSES: [Bytes; 6] = [
    Bytes(0),
    Bytes::from_kib(256),
    Bytes::from_mib(1),
    Bytes::from_mib(10),
    Bytes::from_mib(100),
    Bytes::from_gib(1),
];

/// Options of the look.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// An image or a block device, with or without partitions.
    #[arg(value_name = "FILE|DEVICE")]
    path: PathBuf,
    /// Number of the largest files that are listed.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A file or a block device, as a survey reads it.
struct Volume {
    file: File,
    size: Bytes,
}

impl Volume {
    fn open(path: &Path) -> Result<Volume, CliError> {
        let wrong = |error| CliError::input(format!("{}: {error}", path.display()));
        let mut file = File::open(path).map_err(wrong)?;
        let size = Bytes(file.seek(SeekFrom::End(0)).map_err(wrong)?);
        // Only cached pages are at stake, so a file system that refuses this does no harm.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        Ok(Volume { file, size })
    }
}

impl Blocks for Volume {
    fn size(&self) -> Bytes {
        self.size
    }

    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
        self.file.read_exact_at(into, offset.0).map_err(|error| ReadError(error.to_string()))
    }
}

/// Findings about one file system.
struct Report {
    summary: Summary,
    /// Ranges and bytes of each kind of metadata.
    metadata: BTreeMap<&'static str, (u64, Bytes)>,
    /// Files, their sizes, and their bytes on the volume, for each of [`CLASSES`].
    classes: [(u64, Bytes, Bytes); CLASSES.len()],
    /// Path, size and extents of the largest files.
    largest: Vec<(String, Bytes, usize)>,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let mut volume = Volume::open(&args.path)?;
    let name = args.path.display();
    let failed = |error: FsError| CliError::failed(format!("{name}: {error}"));
    let found = systems(&mut volume).map_err(failed)?;
    if found.is_empty() {
        let known = "ext2, ext3, ext4, XFS or btrfs";
        return Err(CliError::input(format!("{name} holds no {known}, nor partitions with one")));
    }
    let (mut reports, mut unread) = (Vec::new(), Vec::new());
    for system in found {
        match look(&mut volume, system.at, args.top) {
            Ok(report) => reports.push(report),
            Err(error) => unread.push(error.to_string()),
        }
    }
    let text = if args.json {
        let value = as_json(&volume, &reports, &unread);
        serde_json::to_string_pretty(&value).map_err(CliError::failed)? + "\n"
    } else {
        reports.iter().map(as_text).collect::<Vec<_>>().join("\n")
    };
    output::print(&text)?;
    match unread.is_empty() {
        true => Ok(()),
        false => Err(CliError::failed(format!("{name}: {}", unread.join("; ")))),
    }
}

fn look(volume: &mut Volume, at: Bytes, top: usize) -> Result<Report, FsError> {
    let mut catalog = Catalog::default();
    let summary = survey(volume, at, &mut |found| catalog.apply(&found), Limits::default())?;
    let mut metadata = BTreeMap::new();
    for (stretch, what) in catalog.metadata() {
        let (ranges, bytes) = metadata.entry(what.name()).or_insert((0, Bytes(0)));
        *ranges += 1;
        bytes.0 += stretch.length.0;
    }
    let mut classes = [(0, Bytes(0), Bytes(0)); CLASSES.len()];
    let regular = || catalog.files().filter(|entry| entry.file.kind == FileKind::Regular);
    for entry in regular() {
        let class = CLASSES.partition_point(|from| *from <= entry.file.size) - 1;
        let (files, sizes, bytes) = &mut classes[class];
        *files += 1;
        sizes.0 = sizes.0.saturating_add(entry.file.size.0);
        bytes.0 += on_volume(entry);
    }
    let mut largest: Vec<&Entry> = regular().collect();
    largest.sort_by_key(|entry| (std::cmp::Reverse(entry.file.size), entry.file.id));
    let line = |entry: &Entry| {
        // Names are foreign bytes: what would move a terminal's cursor is escaped.
        let path = String::from_utf8_lossy(&catalog.path(entry.file.id)).escape_debug().to_string();
        (path, entry.file.size, entry.extents.len())
    };
    let largest = largest.into_iter().take(top).map(line).collect();
    Ok(Report { summary, metadata, classes, largest })
}

fn on_volume(entry: &Entry) -> u64 {
    entry.extents.iter().map(|extent| extent.stretch.length.0).sum()
}

fn class_name(index: usize) -> String {
    match CLASSES.get(index + 1) {
        Some(to) => format!("{} to {to}", CLASSES[index]),
        None => format!("{} and more", CLASSES[index]),
    }
}

fn as_text(report: &Report) -> String {
    let (summary, mut text) = (&report.summary, String::new());
    let metadata: u64 = report.metadata.values().map(|(_, bytes)| bytes.0).sum();
    let share = metadata as f64 * 100.0 / summary.size.0 as f64;
    let (kind, size, at) = (summary.kind, summary.size, summary.at.0);
    let (files, directories, links) = (summary.files, summary.directories, summary.symlinks);
    let _ = writeln!(text, "{kind} of {size} at byte {at}");
    let _ = writeln!(text, "{files} files, {directories} directories, {links} symbolic links");
    let _ = writeln!(text, "metadata: {} ({share:.1} %)\n", Bytes(metadata));
    let mut kinds = table::plain(["METADATA", "RANGES", "BYTES"]);
    for (what, (ranges, bytes)) in &report.metadata {
        kinds.add_row([what.to_string(), thousands(*ranges), bytes.to_string()]);
    }
    table::align_numbers(&mut kinds);
    let _ = writeln!(text, "{kinds}\n");
    let mut classes = table::plain(["FILES OF", "COUNT", "SIZES", "ON THE VOLUME"]);
    for (index, (count, sizes, bytes)) in report.classes.iter().enumerate() {
        let numbers = [thousands(*count), sizes.to_string(), bytes.to_string()];
        classes.add_row([vec![class_name(index)], numbers.to_vec()].concat());
    }
    table::align_numbers(&mut classes);
    let _ = writeln!(text, "{classes}\n");
    if !report.largest.is_empty() {
        let mut largest = table::plain(["LARGEST FILES", "SIZE", "EXTENTS"]);
        for (path, size, extents) in &report.largest {
            largest.add_row([path.clone(), size.to_string(), thousands(*extents as u64)]);
        }
        table::align_numbers(&mut largest);
        let _ = writeln!(text, "{largest}\n");
    }
    let _ = writeln!(text, "read: {} in {} reads", summary.read, summary.reads);
    for (count, what) in [
        (summary.torn, "structures contradict themselves and were skipped; look again"),
        (summary.cut, "extents are beyond the limit for one file, and left out"),
        (summary.shared, "tree nodes are shared by snapshots; their files are told once"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "note: {count} {what}");
        }
    }
    text
}

fn as_json(volume: &Volume, reports: &[Report], unread: &[String]) -> Value {
    let systems = reports.iter().map(|report| {
        let summary = &report.summary;
        let metadata = report.metadata.iter().map(
            |(what, (ranges, bytes))| json!({ "what": what, "ranges": ranges, "bytes": bytes.0 }),
        );
        let classes = report.classes.iter().enumerate().map(|(index, (count, sizes, bytes))| {
            json!({
                "from_bytes": CLASSES[index].0,
                "to_bytes": CLASSES.get(index + 1).map(|to| to.0),
                "files": count,
                "size_bytes": sizes.0,
                "volume_bytes": bytes.0,
            })
        });
        let largest = report.largest.iter().map(|(path, size, extents)| {
            json!({ "path": path, "size_bytes": size.0, "extents": extents })
        });
        json!({
            "kind": summary.kind.to_string(),
            "at_bytes": summary.at.0,
            "size_bytes": summary.size.0,
            "files": summary.files,
            "directories": summary.directories,
            "symlinks": summary.symlinks,
            "others": summary.others,
            "extents": summary.extents,
            "metadata": metadata.collect::<Vec<_>>(),
            "classes": classes.collect::<Vec<_>>(),
            "largest": largest.collect::<Vec<_>>(),
            "read_bytes": summary.read.0,
            "reads": summary.reads,
            "torn": summary.torn,
            "cut": summary.cut,
            "shared_nodes": summary.shared,
        })
    });
    json!({
        "size_bytes": volume.size.0,
        "systems": systems.collect::<Vec<_>>(),
        "unread": unread,
    })
}
