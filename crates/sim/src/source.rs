//! Sources of traces: files, the standard input, and the synthetic generator.
//!
//! A file that begins with Parquet's magic is given to the native reader as a file, because Parquet
//! is read from its end; everything else is a stream. Several sources become one multi-VM workload.
//! Does not decide formats: that is `thermocline_trace::open`.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thermocline_trace::native::open_parquet;
use thermocline_trace::synth::{Synth, SynthSpec};
use thermocline_trace::{
    Batch, Format, Opened, Place, ReadOptions, Request, TraceError, TraceReader,
};

/// The first and the last four bytes of every Parquet file.
const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Hands the requests of a trace to `take`, batch by batch, with the reader behind each.
///
/// # Errors
/// When the trace cannot be read, or `take` has one.
pub(crate) fn each_batch<E: From<TraceError>>(
    reader: &mut dyn TraceReader,
    mut take: impl FnMut(&[Request], &dyn TraceReader) -> Result<(), E>,
) -> Result<(), E> {
    let mut batch = Batch::default();
    loop {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            return Ok(());
        }
        take(&batch.requests, reader)?;
    }
}

/// One trace, as a user names it.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// The standard input, written `-`.
    Stdin,
    /// Requests that are made, not read.
    Synth(Box<SynthSpec>),
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Source, Self::Err> {
        Ok(match text {
            "-" => Source::Stdin,
            path => Source::File(PathBuf::from(path)),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Stdin => write!(f, "<stdin>"),
            Source::Synth(spec) => {
                let (vms, requests, seed) = (spec.vms.len(), spec.requests, spec.seed);
                write!(f, "<synthetic: {vms} VMs, {requests} requests, seed {seed}>")
            }
        }
    }
}

impl Source {
    /// Opens it for reading.
    ///
    /// # Errors
    /// When it cannot be opened or its format is not recognised; the message names it.
    pub fn open(&self, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        match self {
            Source::File(path) => open_file(path, options),
            Source::Stdin => open_stream(Box::new(std::io::stdin()), &self.to_string(), options),
            Source::Synth(spec) => match Synth::new(spec) {
                Ok(synth) => Ok(Box::new(synth)),
                Err(error) => Err(TraceError::Malformed {
                    input: self.to_string(),
                    place: Place::Whole,
                    problem: error.to_string(),
                }),
            },
        }
    }

    /// Bytes of the file, for progress; `None` where it is not known before the end.
    pub fn size_bytes(&self) -> Option<u64> {
        match self {
            Source::File(path) => {
                let metadata = std::fs::metadata(path).ok()?;
                metadata.is_file().then_some(metadata.len())
            }
            Source::Stdin | Source::Synth(_) => None,
        }
    }
}

/// Traces that a run reads, and how.
#[derive(Debug, Clone)]
pub struct Traces {
    /// The traces, in the order in which they are named.
    pub sources: Vec<Source>,
    /// Their format and columns.
    pub options: ReadOptions,
}

impl Traces {
    /// Opens the one trace, or all of them merged.
    ///
    /// # Errors
    /// When one cannot be opened, none is named, or the standard input is named twice.
    pub fn open(&self) -> Result<Box<dyn TraceReader>, TraceError> {
        let refused = |input: &str, problem: &str| {
            let (input, problem) = (input.to_string(), problem.to_string());
            Err(TraceError::Malformed { input, place: Place::Whole, problem })
        };
        if self.sources.is_empty() {
            return refused("no trace is named", "give a TRACE, or --synth PRESET");
        }
        let stdins = self.sources.iter().filter(|source| **source == Source::Stdin).count();
        if stdins > 1 {
            return refused("`-` is given twice", "there is one standard input");
        }
        open_all(&self.sources, &self.options)
    }

    /// True if every trace can be opened a second time and is the same then.
    pub(crate) fn can_be_read_again(&self) -> bool {
        let again = |source: &Source| match source {
            Source::File(path) => std::fs::metadata(path).is_ok_and(|met| met.is_file()),
            Source::Stdin => false,
            Source::Synth(_) => true,
        };
        self.sources.iter().all(again)
    }

    /// Bytes of all files together, for progress; `None` where one is not known beforehand.
    pub fn size_bytes(&self) -> Option<u64> {
        self.sources.iter().map(Source::size_bytes).sum()
    }

    /// Names of the traces, for reports.
    pub fn names(&self) -> Vec<String> {
        self.sources.iter().map(ToString::to_string).collect()
    }
}

/// Opens `sources` as one workload: one alone as it is, several merged by time, each from its own
/// time zero.
///
/// # Errors
/// When one of them cannot be opened, or there is none.
pub fn open_all(
    sources: &[Source],
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let mut readers = Vec::with_capacity(sources.len());
    for source in sources {
        readers.push((source.prefix(), source.open(options)?));
    }
    match readers.len() {
        1 => Ok(readers.remove(0).1),
        _ => Ok(Box::new(thermocline_trace::Merge::new(readers))),
    }
}

impl Source {
    /// Prefix of volume names when two sources use the same: the file's name up to its first dot.
    fn prefix(&self) -> String {
        match self {
            Source::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.split('.').next().unwrap_or_default().to_string()
            }
            Source::Stdin => "stdin".to_string(),
            Source::Synth(_) => "synthetic".to_string(),
        }
    }
}

fn open_file(path: &Path, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
    let name = path.display().to_string();
    let io = |source| TraceError::Io { input: name.clone(), source };
    let mut file = File::open(path).map_err(io)?;
    let parquet = match options.format {
        Some(format) => format == Format::Parquet,
        None => begins_with_magic(&mut file).map_err(io)?,
    };
    if parquet {
        return open_parquet(file, &name);
    }
    open_stream(Box::new(file), &name, options)
}

/// Opens what can be read once only. Parquet is read from its end, and goes to a file without a
/// name in the folder for temporary files first.
fn open_stream(
    input: Box<dyn Read + Send>,
    name: &str,
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let mut parquet = match thermocline_trace::open_stream(input, name, options)? {
        Opened::Reader(reader) => return Ok(reader),
        Opened::Parquet(parquet) => parquet,
    };
    let spooled = tempfile::tempfile().and_then(|mut file| {
        std::io::copy(&mut parquet, &mut file)?;
        Ok(file)
    });
    let folder = std::env::temp_dir();
    let file = spooled.map_err(|source| TraceError::Io {
        input: format!("{name}, put into {}", folder.display()),
        source,
    })?;
    open_parquet(file, name)
}

/// True if the file is Parquet by its first bytes; leaves the position at the start. Pipes and
/// devices cannot be looked at twice and are never taken for Parquet here.
fn begins_with_magic(file: &mut File) -> std::io::Result<bool> {
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let mut magic = Vec::with_capacity(PARQUET_MAGIC.len());
    file.by_ref().take(PARQUET_MAGIC.len() as u64).read_to_end(&mut magic)?;
    file.rewind()?;
    Ok(magic == PARQUET_MAGIC)
}
