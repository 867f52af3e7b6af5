//! Writes native traces: Parquet files that carry how they were made.
//!
//! Requests are gathered as columns and written a row group at a time ([`ROW_GROUP_ROWS`]), so
//! memory is bounded. Encodings: times as deltas, offsets plain, what repeats (volume, op, length)
//! through dictionaries, all under zstd level 1. The schema is decided with the first row group:
//! the column of content hashes exists when one of its requests has any, or the settings say so.

use super::malformed;
use super::schema::{self, VERSION, VERSION_KEY};
use super::values::OPS;
use crate::{Batch, ContentHash, Request, TraceError, TraceWriter};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;
use std::io::Write;
use std::sync::Arc;

/// Requests in a row group: large enough to compress well, small enough that DuckDB and polars have
/// one for each core early on; 12 MiB of buffers here.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 18;

/// The fastest level; times and offsets gain little from higher ones.
const ZSTD_LEVEL: i32 = 1;

/// Contents of the file besides the requests.
#[derive(Debug, Clone, Default)]
pub struct ParquetSettings {
    /// Facts that the file shall tell about itself (source, how it was made), as pairs of key and
    /// value; keys begin with `thermocline.`. The writer adds the layout's version and its own
    /// name.
    pub about: Vec<(String, String)>,
    /// True if the file has a column of content hashes; `None`: when the first row group has any.
    pub hashes: Option<bool>,
}

/// A native trace being written. Without a call to `finish` the file is not readable.
pub struct ParquetWriter<W: Write + Send> {
    name: String,
    state: State<W>,
    settings: ParquetSettings,
    /// The volumes' names as the file's strings; index is the `VolumeId`.
    volumes: Vec<ByteArray>,
    ops: [ByteArray; OPS.len()],
    pending: Pending,
    latest_ns: i64,
    rows: u64,
}

enum State<W: Write + Send> {
    /// The schema is not decided yet.
    Waiting(W),
    Open {
        file: SerializedFileWriter<W>,
        hashes: bool,
    },
    Finished,
}

/// The columns of the row group that is being gathered.
#[derive(Default)]
struct Pending {
    time: Vec<i64>,
    volume: Vec<u32>,
    op: Vec<u8>,
    offset: Vec<i64>,
    length: Vec<i64>,
    response: Vec<i64>,
    response_defs: Vec<i16>,
    hashes: Vec<ContentHash>,
    hash_counts: Vec<u32>,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Will write to `output`, called `name` in messages.
    pub fn new(output: W, name: &str, settings: ParquetSettings) -> ParquetWriter<W> {
        ParquetWriter {
            name: name.to_string(),
            state: State::Waiting(output),
            settings,
            volumes: Vec::new(),
            ops: OPS.map(|(_, word)| ByteArray::from(word)),
            pending: Pending::default(),
            latest_ns: 0,
            rows: 0,
        }
    }

    /// Checks what the format cannot hold.
    fn check(&mut self, request: &Request) -> Result<(), TraceError> {
        let number = self.rows + self.pending.time.len() as u64 + 1;
        let refuse = |problem: String| {
            Err(malformed(&self.name, format!("request {number} cannot be written: {problem}")))
        };
        let end = request.offset.0.checked_add(request.length.0);
        if end.is_none_or(|end| end > i64::MAX as u64) {
            return refuse("it ends beyond 8 EiB".to_string());
        }
        let Ok(time) = i64::try_from(request.time.0) else {
            return refuse("its time is beyond 292 years".to_string());
        };
        if request.response.is_some_and(|response| i64::try_from(response.0).is_err()) {
            return refuse("its response time is beyond 292 years".to_string());
        }
        if time < self.latest_ns {
            return refuse(format!(
                "time runs backwards, from {} to {time} ns; sort the trace first",
                self.latest_ns
            ));
        }
        self.latest_ns = time;
        Ok(())
    }

    /// Writes the gathered requests as a row group.
    fn flush(&mut self) -> Result<(), TraceError> {
        let hashes = self.open()?;
        let State::Open { file, .. } = &mut self.state else {
            unreachable!("open() leaves the file open")
        };
        if !hashes && !self.pending.hashes.is_empty() {
            let problem = "content hashes appear after the first row group was written without; \
                           ask for their column (hashes: yes) or leave them out (hashes: no)";
            return Err(malformed(&self.name, problem));
        }
        let names = Names { volumes: &self.volumes, ops: &self.ops };
        file.next_row_group()
            .and_then(|group| write_group(group, &self.pending, &names, hashes))
            .map_err(|error| failed(&self.name, error))?;
        self.rows += self.pending.time.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Decides the schema and writes the file's head, once; whether there are hashes.
    fn open(&mut self) -> Result<bool, TraceError> {
        let output = match std::mem::replace(&mut self.state, State::Finished) {
            State::Waiting(output) => output,
            State::Open { file, hashes } => {
                self.state = State::Open { file, hashes };
                return Ok(hashes);
            }
            State::Finished => {
                return Err(malformed(&self.name, "nothing can be written after the end"));
            }
        };
        let hashes = self.settings.hashes.unwrap_or(!self.pending.hashes.is_empty());
        let file = schema::written(hashes)
            .and_then(|schema| {
                let properties = properties(&self.settings.about);
                SerializedFileWriter::new(output, Arc::new(schema), properties)
            })
            .map_err(|error| failed(&self.name, error))?;
        self.state = State::Open { file, hashes };
        Ok(hashes)
    }
}

impl<W: Write + Send> TraceWriter for ParquetWriter<W> {
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError> {
        let known = self.volumes.len();
        self.volumes.extend(volumes.iter().skip(known).map(|name| ByteArray::from(name.as_str())));
        for request in &batch.requests {
            self.check(request)?;
            let hashes = match self.settings.hashes {
                Some(false) => &[],
                _ => batch.hashes_of(request),
            };
            self.pending.push(request, hashes);
            if self.pending.time.len() == ROW_GROUP_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        if self.pending.time.is_empty() {
            self.open()?;
        } else {
            self.flush()?;
        }
        match std::mem::replace(&mut self.state, State::Finished) {
            State::Open { file, .. } => {
                let mut output = file.into_inner().map_err(|error| failed(&self.name, error))?;
                output.flush().map_err(|source| TraceError::Io { input: self.name.clone(), source })
            }
            State::Waiting(_) | State::Finished => Ok(()),
        }
    }
}

impl Pending {
    fn push(&mut self, request: &Request, hashes: &[ContentHash]) {
        self.time.push(request.time.0 as i64);
        self.volume.push(request.volume.0);
        self.op.push(request.op as u8);
        self.offset.push(request.offset.0 as i64);
        self.length.push(request.length.0 as i64);
        self.response.extend(request.response.map(|response| response.0 as i64));
        self.response_defs.push(i16::from(request.response.is_some()));
        self.hashes.extend_from_slice(hashes);
        self.hash_counts.push(hashes.len() as u32);
    }

    fn clear(&mut self) {
        self.time.clear();
        self.volume.clear();
        self.op.clear();
        self.offset.clear();
        self.length.clear();
        self.response.clear();
        self.response_defs.clear();
        self.hashes.clear();
        self.hash_counts.clear();
    }
}

/// The strings that numbers stand for.
struct Names<'a> {
    volumes: &'a [ByteArray],
    ops: &'a [ByteArray],
}

/// Strings made and written at a time.
const STRINGS_AT_A_TIME: usize = 1024;

fn write_group<W: Write + Send>(
    mut group: SerializedRowGroupWriter<'_, W>,
    rows: &Pending,
    names: &Names<'_>,
    hashes: bool,
) -> Result<(), ParquetError> {
    column::<_, Int64Type>(&mut group, |c| c.write_batch(&rows.time, None, None))?;
    column::<_, ByteArrayType>(&mut group, |c| {
        strings(c, rows.volume.iter().map(|volume| &names.volumes[*volume as usize]))
    })?;
    column::<_, ByteArrayType>(&mut group, |c| {
        strings(c, rows.op.iter().map(|op| &names.ops[usize::from(*op)]))
    })?;
    column::<_, Int64Type>(&mut group, |c| c.write_batch(&rows.offset, None, None))?;
    column::<_, Int64Type>(&mut group, |c| c.write_batch(&rows.length, None, None))?;
    column::<_, Int64Type>(&mut group, |c| {
        c.write_batch(&rows.response, Some(&rows.response_defs), None)
    })?;
    if hashes {
        column::<_, ByteArrayType>(&mut group, |c| hash_lists(c, rows))?;
    }
    group.close().map(drop)
}

/// Writes the next column of the row group.
fn column<W: Write + Send, T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    write: impl FnOnce(&mut ColumnWriterImpl<'_, T>) -> Result<usize, ParquetError>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has as many columns as are written");
    write(column.typed::<T>())?;
    column.close()
}

fn strings<'a>(
    column: &mut ColumnWriterImpl<'_, ByteArrayType>,
    words: impl Iterator<Item = &'a ByteArray>,
) -> Result<usize, ParquetError> {
    let mut words = words.cloned();
    let mut written = 0;
    loop {
        let some: Vec<ByteArray> = words.by_ref().take(STRINGS_AT_A_TIME).collect();
        if some.is_empty() {
            return Ok(written);
        }
        written += column.write_batch(&some, None, None)?;
    }
}

/// Levels of the list: 0 no list (a request without hashes is null), 2 an element.
fn hash_lists(
    column: &mut ColumnWriterImpl<'_, ByteArrayType>,
    rows: &Pending,
) -> Result<usize, ParquetError> {
    let values: Vec<ByteArray> =
        rows.hashes.iter().map(|hash| ByteArray::from(hash.0.to_vec())).collect();
    let (mut defs, mut reps) = (Vec::new(), Vec::new());
    for &count in &rows.hash_counts {
        defs.extend(std::iter::repeat_n(2i16, count as usize));
        reps.extend((0..count).map(|element| i16::from(element > 0)));
        if count == 0 {
            defs.push(0);
            reps.push(0);
        }
    }
    column.write_batch(&values, Some(&defs), Some(&reps))
}

fn properties(about: &[(String, String)]) -> WriterPropertiesPtr {
    let path = |name: &str| ColumnPath::new(vec![name.to_string()]);
    let mut pairs = vec![KeyValue::new(VERSION_KEY.to_string(), VERSION.to_string())];
    pairs.extend(about.iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone())));
    let zstd = ZstdLevel::try_new(ZSTD_LEVEL).expect("a level that zstd has");
    let builder = WriterProperties::builder()
        .set_created_by(format!("thermocline {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(zstd))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
        .set_key_value_metadata(Some(pairs))
        .set_column_dictionary_enabled(path(schema::TIME), false)
        .set_column_encoding(path(schema::TIME), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(path(schema::OFFSET), false)
        .set_column_dictionary_enabled(path(schema::RESPONSE), false);
    let hash_elements = vec![schema::HASHES.to_string(), "list".into(), "element".into()];
    Arc::new(builder.set_column_dictionary_enabled(ColumnPath::new(hash_elements), false).build())
}

fn failed(name: &str, error: ParquetError) -> TraceError {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    TraceError::Io { input: name.to_string(), source }
}
