//! `dedup estimate`: what a tunnel would save of some files.
//!
//! Each file is a flow, one after the other in the order of their names, through the tunnel's own
//! sending half. Every chunking starts with an empty cache.

use crate::processor::{Spent, Stopwatch};
use crate::progress::{Amount, ProgressSink};
use crate::table::Table;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline_chunking::Chunking;
use thermocline_tunnel::{Encoded, Trial};
use thermocline_units::Bytes;

const READ_BYTES: usize = 1 << 20;

/// The chunkings of the published table, and what they are compared with.
pub const CHUNKINGS: &str = "none,fixed:128B,fixed:512B,fixed:2KiB,fixed:8KiB,\
                             rabin16:128B,rabin16:512B,rabin16:2KiB,rabin16:8KiB,\
                             gear:2KiB,rabin-source:2KiB,modp,maxp";

/// An estimate that could not be made, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DedupError(String);

/// Figures of one chunking.
#[derive(Debug)]
pub struct Row {
    /// The chunking.
    pub chunking: Chunking,
    /// Counts of the bytes.
    pub totals: Encoded,
    /// Time that it took.
    pub took: Duration,
}

/// Figures of all chunkings.
#[derive(Debug)]
pub struct Estimate {
    /// The files, with their lengths.
    pub files: Vec<(PathBuf, u64)>,
    /// One a chunking.
    pub rows: Vec<Row>,
}

impl Estimate {
    /// Cuts the files below `paths` by each of `chunkings`, with a cache of so many bytes.
    ///
    /// # Errors
    /// When a file cannot be read, there is none, or the cache is empty or 1 TiB and more.
    pub fn of(
        paths: &[PathBuf],
        chunkings: &[Chunking],
        cache: Bytes,
        sink: &dyn ProgressSink,
    ) -> Result<Estimate, DedupError> {
        if cache.0 == 0 || cache.0 >= 1 << 40 {
            return Err(DedupError(format!("--cache {cache} must be above 0 and below 1 TiB")));
        }
        let files = files_below(paths)?;
        let bytes: u64 = files.iter().map(|(_, length)| length).sum();
        let mut rows = Vec::new();
        for &chunking in chunkings {
            sink.begin(&chunking.to_string(), Amount::Bytes(Some(bytes)));
            rows.push(try_out(&files, chunking, cache, sink)?);
        }
        Ok(Estimate { files, rows })
    }

    /// The rows as JSON, with the number of files.
    pub fn to_json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "chunking": row.chunking.to_string(),
                "expected_bytes": row.chunking.expected().map(|size| size.0),
                "bytes": row.totals.bytes,
                "chunks": row.totals.chunks,
                "references": row.totals.references,
                "saved_bytes": row.totals.saved,
                "sent_bytes": row.totals.sent,
                "bytes_per_s": row.bytes_per_s(),
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "files": self.files.len(), "chunkings": rows })
    }

    /// The rows as columns, by the names of the CSV.
    pub fn to_table(&self) -> Table {
        let mut table = Table::default();
        table.text("chunking", &self.rows, |row| row.chunking.to_string());
        let expected = |row: &Row| row.chunking.expected().map(|size| size.0 as f64);
        table.number("expected_bytes", &self.rows, expected);
        table.count("bytes", &self.rows, |row| row.totals.bytes);
        table.count("chunks", &self.rows, |row| row.totals.chunks);
        table.count("references", &self.rows, |row| row.totals.references);
        table.count("saved_bytes", &self.rows, |row| row.totals.saved);
        table.count("sent_bytes", &self.rows, |row| row.totals.sent);
        table.number("bytes_per_s", &self.rows, |row| Some(row.bytes_per_s()));
        table
    }
}

fn try_out(
    files: &[(PathBuf, u64)],
    chunking: Chunking,
    cache: Bytes,
    sink: &dyn ProgressSink,
) -> Result<Row, DedupError> {
    let mut trial = Trial::new(cache, chunking);
    let mut took = Spent::default();
    let mut buffer = vec![0; READ_BYTES];
    for (path, _) in files {
        let named = |error| DedupError(format!("{}: {error}", path.display()));
        let mut file = File::open(path).map_err(named)?;
        loop {
            let length = file.read(&mut buffer).map_err(named)?;
            let started = Stopwatch::start();
            match length {
                0 => trial.end_flow(),
                _ => trial.push(&buffer[..length]),
            }
            took += started.spent();
            if length == 0 {
                break;
            }
            sink.more(length as u64);
        }
    }
    let took = Duration::from_secs_f64(took.wall_s);
    Ok(Row { chunking, totals: trial.totals(), took })
}

impl Row {
    /// Mean size of a chunk, if there is one.
    pub fn mean(&self) -> Option<Bytes> {
        self.totals.bytes.checked_div(self.totals.chunks).map(Bytes)
    }

    /// Share of all bytes that `of` bytes are.
    pub fn part(&self, of: u64) -> f64 {
        of as f64 / self.totals.bytes.max(1) as f64
    }

    /// Bytes cut and looked up a second.
    pub fn bytes_per_s(&self) -> f64 {
        self.totals.bytes as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// Regular files with their lengths: those that were named, and those below named folders, in the
/// order of their names. Links inside folders are not followed.
///
/// # Errors
/// When one cannot be read, or there is none.
pub fn files_below(paths: &[PathBuf]) -> Result<Vec<(PathBuf, u64)>, DedupError> {
    let mut files = Vec::new();
    for path in paths {
        let named = |error| DedupError(format!("{}: {error}", path.display()));
        let met = std::fs::metadata(path).map_err(named)?;
        if met.is_dir() {
            below(path, &mut files)?;
        } else if met.is_file() {
            files.push((path.clone(), met.len()));
        } else {
            let path = path.display();
            return Err(DedupError(format!("{path} is neither a file nor a folder")));
        }
    }
    match files.is_empty() {
        true => Err(DedupError("there is no file in what was named".to_string())),
        false => Ok(files),
    }
}

fn below(folder: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<(), DedupError> {
    let named = |error| DedupError(format!("{}: {error}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(named)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(named)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let met = entry.metadata().map_err(named)?;
        if met.is_dir() {
            below(&entry.path(), files)?;
        } else if met.is_file() {
            files.push((entry.path(), met.len()));
        }
    }
    Ok(())
}
