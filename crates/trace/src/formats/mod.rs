//! The trace formats, one file each, and the names they go by.
//!
//! A format is a parser of one line ([`text::LineFormat`]) or of one record
//! ([`binary::RecordFormat`]); reading, order, limits and messages are shared. A new format is one
//! file, one line of `Format::TABLE` and one arm of [`reader_of`].
//!
//! | format | disorder | why |
//! |---|---|---|
//! | msr, spc, systor17, alibaba, blkparse, csv | window, none beyond | recorded at completion |
//! | fio-iolog v3 | window, none beyond | several jobs in one log |
//! | tencent | window, 10 s beyond | whole seconds, several machines' logs joined |
//! | vscsi | steady, 1 s | written by one hypervisor in its order |
//! | oracle-general | steady, 10 s | records refer to each other by position; whole seconds |
//! | fiu, capture | steady, 1 s and none | content hashes lie in the file's order |
//! | recording | steady, 1 s | written by one engine in its order |
//! | arc, fio-iolog v2 | – | no times, or only waits, which cannot run backwards |

mod alibaba;
mod arc;
pub(crate) mod binary;
mod blkparse;
mod capture;
mod columns;
mod csv;
mod detect;
mod fio_iolog;
mod fiu;
mod msr;
mod oracle_general;
mod problem;
mod spc;
mod systor;
mod tencent;
pub(crate) mod text;
mod vscsi;

pub use columns::{ColumnMap, ParseColumnMapError};
pub(crate) use detect::detect;
pub(crate) use problem::{FAILED_BEFORE, Problem, ReaderState};

use crate::error::{Place, TraceError};
use crate::input::Source;
use crate::open::ReadOptions;
use crate::recording::{EventReader, RequestReader};
use crate::{TraceReader, formats::binary::BinaryReader, formats::text::TextReader};
use std::{fmt, str::FromStr};

/// A format a trace may be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// MSR Cambridge.
    Msr,
    /// CloudPhysics vscsi, versions 1 and 2.
    Vscsi,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// SPC: UMass Financial and WebSearch.
    Spc,
    /// SYSTOR '17.
    Systor17,
    /// Alibaba block traces.
    Alibaba,
    /// Tencent cloud block storage.
    Tencent,
    /// FIU with content hashes.
    Fiu,
    /// Text output of blkparse.
    Blkparse,
    /// fio's I/O log.
    FioIolog,
    /// The ARC paper's `.lis`.
    Arc,
    /// Our own recorder's text.
    Capture,
    /// Any text in columns, with a column map.
    Csv,
    /// The native format.
    Parquet,
    /// A recording of a live volume.
    Recording,
}

impl Format {
    /// All formats, with name and one-line description.
    const TABLE: [(Format, &'static str, &'static str); 15] = [
        (
            Format::Msr,
            "msr",
            "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime in 100 ns",
        ),
        (Format::Vscsi, "vscsi", "CloudPhysics vscsi, binary records of version 1 or 2"),
        (
            Format::OracleGeneral,
            "oracle-general",
            "libCacheSim's oracleGeneral, binary; an object id is taken as a 512-byte sector",
        ),
        (
            Format::Spc,
            "spc",
            "SPC (Financial, WebSearch): ASU,LBA,Size,Opcode,Timestamp in seconds",
        ),
        (Format::Systor17, "systor17", "SYSTOR '17: Timestamp,Response,IOType,LUN,Offset,Size"),
        (
            Format::Alibaba,
            "alibaba",
            "Alibaba block: device_id,opcode,offset,length,timestamp in µs",
        ),
        (Format::Tencent, "tencent", "Tencent CBS: Timestamp,Offset,Size,IOType,VolumeID; sectors"),
        (Format::Fiu, "fiu", "FIU: time pid process lba size op major minor MD5s of the content"),
        (
            Format::Blkparse,
            "blkparse",
            "default text output of blkparse; Q events unless told otherwise",
        ),
        (Format::FioIolog, "fio-iolog", "fio's I/O log, version 2 (no times) or 3"),
        (
            Format::Arc,
            "arc",
            "the ARC paper's .lis: start count ignored number; 512 B pages, no times",
        ),
        (
            Format::Capture,
            "capture",
            "our recorder's text: ns,op,offset,len,hashes of 4 KiB blocks",
        ),
        (
            Format::Csv,
            "csv",
            "any text in columns, with a column map, or as this project writes it",
        ),
        (
            Format::Parquet,
            "parquet",
            "the native format: Parquet, which pandas and DuckDB open too",
        ),
        (Format::Recording, "recording", "what `thermocline up --record` writes, binary"),
    ];

    /// All formats, in the order help lists them.
    pub fn all() -> impl Iterator<Item = Format> {
        Self::TABLE.iter().map(|row| row.0)
    }

    /// The name to give on a command line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Description in one line.
    pub fn description(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Format, &'static str, &'static str) {
        let Some(row) = Self::TABLE.iter().find(|row| row.0 == self) else {
            unreachable!("every format is in the table")
        };
        row
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A format name that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a trace format; choose one of {}", names())]
pub struct ParseFormatError {
    /// The text as written.
    pub text: String,
}

/// The names of all formats, for messages.
pub(crate) fn names() -> String {
    Format::all().map(Format::name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Format {
    type Err = ParseFormatError;

    fn from_str(text: &str) -> Result<Format, ParseFormatError> {
        Format::all()
            .find(|format| format.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ParseFormatError { text: text.to_string() })
    }
}

/// The reader of `source`, which is in `format`.
///
/// # Errors
/// When the beginning cannot be of the format, or the format needs what `options` do not say.
pub(crate) fn reader_of(
    format: Format,
    source: Source,
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    let volume = volume_name(&source.name);
    Ok(match format {
        Format::Msr => Box::new(TextReader::new(source, msr::Msr::default())),
        Format::Vscsi => {
            let version = vscsi::version_of(source.sample())
                .ok_or_else(|| source.malformed(Place::Byte(0), vscsi::NO_VERSION.to_string()))?;
            Box::new(BinaryReader::new(source, vscsi::Vscsi::new(version, volume)))
        }
        Format::OracleGeneral => {
            Box::new(BinaryReader::new(source, oracle_general::OracleGeneral::default()))
        }
        Format::Spc => Box::new(TextReader::new(source, spc::Spc)),
        Format::Systor17 => Box::new(TextReader::new(source, systor::Systor17)),
        Format::Alibaba => Box::new(TextReader::new(source, alibaba::Alibaba)),
        Format::Tencent => Box::new(TextReader::new(source, tencent::Tencent)),
        Format::Fiu => Box::new(TextReader::new(source, fiu::Fiu)),
        Format::Blkparse => {
            Box::new(TextReader::new(source, blkparse::Blkparse::new(options.blkparse_event)))
        }
        Format::FioIolog => Box::new(TextReader::new(source, fio_iolog::FioIolog::default())),
        Format::Arc => Box::new(TextReader::new(source, arc::ArcLines::new(volume))),
        Format::Capture => Box::new(TextReader::new(source, capture::Capture::new(volume))),
        Format::Csv => {
            let own = || ColumnMap::of_own_header(first_line(source.sample()));
            let Some(columns) = options.columns.clone().or_else(own) else {
                return Err(source.malformed(Place::Whole, columns::NEEDED.to_string()));
            };
            Box::new(TextReader::new(source, csv::Csv::new(columns, volume)))
        }
        Format::Recording => Box::new(RequestReader::new(EventReader::new(source)?)),
        Format::Parquet => unreachable!("a stream of Parquet is handed back"),
    })
}

/// The first line of a beginning, without its end and byte-order mark.
pub(crate) fn first_line(sample: &[u8]) -> &[u8] {
    let line = sample.split(|byte| *byte == b'\n').next().unwrap_or(sample);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// The volume of formats that name none: the input's name without folders and extensions.
fn volume_name(input: &str) -> String {
    let file = input.rsplit(['/', '\\']).next().unwrap_or(input);
    let stem = file.split('.').find(|part| !part.is_empty()).unwrap_or("");
    let printable: String = stem.chars().filter(|c| !c.is_control()).take(128).collect();
    if printable.is_empty() || printable == "-" { "volume".to_string() } else { printable }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
