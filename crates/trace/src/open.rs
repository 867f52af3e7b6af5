//! Opening a trace: unpack it, tell its format, give its reader.
//!
//! Opens no file: the bytes come from whoever has them. Parquet is read from its end, so a stream
//! of it is handed back ([`Opened::Parquet`]): held in memory, it would grow with the trace.

use crate::TraceReader;
use crate::error::{Place, TraceError};
use crate::formats::{self, ColumnMap, Format};
use crate::input::{Compression, Source};
use crate::recording::format::MAGIC as RECORDING_MAGIC;
use std::io::Read;

/// Options for reading a trace, as far as its content does not say so itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format; told from the content when not given.
    pub format: Option<Format>,
    /// The columns of a [`Format::Csv`] text; implies that format.
    pub columns: Option<ColumnMap>,
    /// The event of [`Format::Blkparse`] that counts as a request; `Q` when not given.
    pub blkparse_event: Option<char>,
}

/// The bytes a Parquet file begins with.
const PARQUET_MAGIC: &[u8] = b"PAR1";

/// A stream that was looked at.
pub enum Opened {
    /// A trace that is read as it comes.
    Reader(Box<dyn TraceReader>),
    /// Parquet, unpacked. Put it into a file, and give that to [`crate::native::open_parquet`].
    Parquet(Box<dyn Read + Send>),
}

/// Opens a trace called `name` in messages, which is not Parquet. Takes what [`open_stream`] takes.
///
/// # Errors
/// As there, and when it is Parquet.
pub fn open(
    input: Box<dyn Read + Send>,
    name: &str,
    options: &ReadOptions,
) -> Result<Box<dyn TraceReader>, TraceError> {
    match open_stream(input, name, options)? {
        Opened::Reader(reader) => Ok(reader),
        Opened::Parquet(_) => Err(TraceError::Malformed {
            input: name.to_string(),
            place: Place::Whole,
            problem: "Parquet is read from its end; name a file that is not packed".to_string(),
        }),
    }
}

/// Opens a stream called `name` in messages. Takes gzip (of any number of members), zstd (frames)
/// and xz (streams) as it comes, told by their first bytes.
///
/// # Errors
/// When the input is empty or cannot be read, when its packing is damaged, and when its format
/// cannot be told or does not fit the options. Each says what to do.
pub fn open_stream(
    input: Box<dyn Read + Send>,
    name: &str,
    options: &ReadOptions,
) -> Result<Opened, TraceError> {
    let mut source = Source::new(input, name)?;
    if source.sample().is_empty() {
        // Reading on brings the error that left the beginning empty, if there was one.
        source.read_at(&mut [0], Place::Whole)?;
        return Err(source.malformed(Place::Whole, "the input is empty".to_string()));
    }
    if let (Some(outer), Some(inner)) = (source.compression(), Compression::of(source.sample())) {
        return Err(source.malformed(
            Place::Whole,
            format!("packed twice, {} inside {}; unpack it once first", inner.name(), outer.name()),
        ));
    }
    let format = match (options.format, &options.columns) {
        (Some(format), None) => format,
        (None | Some(Format::Csv), Some(_)) => Format::Csv,
        (None, None) if source.sample().starts_with(PARQUET_MAGIC) => Format::Parquet,
        (None, None) if source.sample().starts_with(RECORDING_MAGIC) => Format::Recording,
        (None, None) => formats::detect(&source)?,
        (Some(format), Some(_)) => {
            return Err(source.malformed(
                Place::Whole,
                format!("a column map was given, but {format} has its own columns; leave one out"),
            ));
        }
    };
    match format {
        Format::Parquet => Ok(Opened::Parquet(Box::new(source))),
        _ => formats::reader_of(format, source, options).map(Opened::Reader),
    }
}
