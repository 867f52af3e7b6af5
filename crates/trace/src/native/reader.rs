//! Reads native traces, row group by row group, page by page.
//!
//! Invariants: the memory held is one page of each column and a batch, whose content hashes are
//! bounded, whatever the file's size; times never
//! run backwards; `offset + length` fits in 63 bits. Files of other tools are read when their
//! columns have the right names ([`super::schema`]); their times are counted from the first row.

use super::column::Column;
use super::footer::{check_compression, check_layout, check_shape, check_version};
use super::malformed;
use super::schema::{self, Columns, Found};
use super::values::{Decode, Hashes, MISSING, Number, OPS, OpNames, Text};
use crate::formats::{FAILED_BEFORE, ReaderState};
use crate::volumes::Volumes;
use crate::{Batch, ContentHash, HashRange, Op, Request, TraceError, TraceReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;
use thermocline_units::{Bytes, Nanos, VolumeId};

/// Opens the Parquet trace in `input`, called `name` in messages.
///
/// # Errors
/// When it is not Parquet, is damaged, or has not the columns of a trace.
pub fn open_parquet<R: ChunkReader + 'static>(
    input: R,
    name: &str,
) -> Result<Box<dyn TraceReader>, TraceError> {
    Ok(Box::new(ParquetReader::new(input, name)?))
}

/// A native trace being read.
pub struct ParquetReader<R: ChunkReader + 'static> {
    input: Arc<R>,
    name: String,
    metadata: ParquetMetaData,
    next_row_group: usize,
    /// Rows of the open row group, and how many of them are still to come.
    group_rows: u64,
    group_rows_left: u64,
    /// Rows given out.
    rows: u64,
    /// Compressed bytes of the row groups that are done, and of the open one.
    done_bytes: u64,
    group_bytes: u64,
    /// Time taken off every time: `Some(0)` in our own files.
    origin: Option<i64>,
    latest: i64,
    state: ReaderState,
    columns: OpenColumns,
    scratch: Scratch,
}

struct OpenColumns {
    time: Leaf<Number>,
    volume: Option<Leaf<Text<Volumes>>>,
    op: Leaf<Text<OpNames>>,
    offset: Leaf<Number>,
    length: Leaf<Number>,
    response: Option<Leaf<Number>>,
    hashes: Option<Leaf<Hashes>>,
    /// Name of the volume in a file without that column.
    only_volume: [String; 1],
}

struct Leaf<D: Decode> {
    leaf: usize,
    column: Column<D>,
}

/// One batch of each column.
#[derive(Default)]
struct Scratch {
    time: Vec<i64>,
    volume: Vec<i64>,
    op: Vec<i64>,
    offset: Vec<i64>,
    length: Vec<i64>,
    response: Vec<i64>,
    response_valid: Vec<bool>,
    hash_counts: Vec<u32>,
}

impl<R: ChunkReader + 'static> ParquetReader<R> {
    /// Reads the file's footer.
    ///
    /// # Errors
    /// When it is not Parquet, is damaged, or has not the columns of a trace.
    pub fn new(input: R, name: &str) -> Result<ParquetReader<R>, TraceError> {
        check_shape(&input).map_err(|problem| malformed(name, problem))?;
        let metadata = ParquetMetaDataReader::new()
            .parse_and_finish(&input)
            .map_err(|error| malformed(name, format!("not a readable Parquet file: {error}")))?;
        let fail = |problem: String| malformed(name, problem);
        check_layout(&metadata, input.len()).map_err(fail)?;
        let schema = metadata.file_metadata().schema_descr();
        let columns = Columns::find(schema).map_err(fail)?;
        let ours = check_version(&metadata).map_err(fail)?;
        let origin = (ours && !Columns::calendar_time(schema)).then_some(0);
        Ok(ParquetReader {
            input: Arc::new(input),
            name: name.to_string(),
            metadata,
            next_row_group: 0,
            group_rows: 0,
            group_rows_left: 0,
            rows: 0,
            done_bytes: 0,
            group_bytes: 0,
            origin,
            latest: 0,
            state: ReaderState::default(),
            columns: OpenColumns::new(&columns),
            scratch: Scratch::default(),
        })
    }

    /// Requests in the file.
    #[cfg(test)]
    pub(crate) fn request_count(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows() as u64).sum()
    }

    /// Opens the next row group that has rows; false at the end.
    fn next_group(&mut self) -> Result<bool, String> {
        while self.group_rows_left == 0 {
            let Some(group) = self.metadata.row_groups().get(self.next_row_group) else {
                return Ok(false);
            };
            self.next_row_group += 1;
            self.done_bytes += self.group_bytes;
            self.group_rows = group.num_rows() as u64;
            self.group_rows_left = self.group_rows;
            self.group_bytes = group.columns().iter().map(|c| c.compressed_size() as u64).sum();
            self.columns.begin(&self.input, group.columns(), self.group_rows)?;
        }
        Ok(true)
    }

    /// Appends the next rows to `batch`; false at the end.
    fn read_rows(&mut self, batch: &mut Batch) -> Result<bool, String> {
        if !self.next_group()? {
            return Ok(false);
        }
        let rows = self.group_rows_left.min(Batch::CAPACITY as u64) as usize;
        batch.hashes.clear();
        let rows = self.columns.read(rows, &mut self.scratch, &mut batch.hashes)?;
        self.assemble(rows, batch)?;
        self.group_rows_left -= rows as u64;
        self.rows += rows as u64;
        Ok(true)
    }

    /// Puts the rows in `scratch` together.
    fn assemble(&mut self, rows: usize, batch: &mut Batch) -> Result<(), String> {
        let scratch = &self.scratch;
        let Some(first) = scratch.time.first() else { return Ok(()) };
        let origin = *self.origin.get_or_insert(*first);
        let mut hash_start = 0;
        batch.requests.reserve(rows);
        let columns = scratch.time.iter().zip(&scratch.op).zip(&scratch.offset);
        let columns = columns.zip(&scratch.length).enumerate();
        for (row, (((&time, &op), &offset), &length)) in columns {
            let wrong = |problem: String| format!("row {}: {problem}", self.rows + row as u64 + 1);
            if time == MISSING || time < origin {
                return Err(wrong(early(time, origin)));
            }
            let time = time.wrapping_sub(origin);
            if time < self.latest {
                return Err(wrong(backwards(time, self.latest)));
            }
            self.latest = time;
            if offset < 0 || length < 0 || offset.checked_add(length).is_none() {
                return Err(wrong(format!(
                    "offset {offset} and length {length}; neither may be missing or negative, nor \
                     their sum beyond 8 EiB"
                )));
            }
            let response = scratch.response(row);
            if response.is_some_and(|ns| ns < 0) {
                return Err(wrong("the response time is negative".to_string()));
            }
            let count = scratch.hash_counts.get(row).copied().unwrap_or(0);
            let Some(&(op, _)) = OPS.get(op as usize) else {
                return Err(wrong(format!("there is no op of number {op}")));
            };
            if length == 0 && op != Op::Flush {
                let number = self.rows + row as u64 + 1;
                self.state.note_zero_sized(|| format!("row {number}"));
                hash_start += count;
                continue;
            }
            batch.requests.push(Request {
                time: Nanos(time as u64),
                volume: VolumeId(scratch.volume.get(row).map_or(0, |id| *id as u32)),
                op,
                offset: Bytes(offset as u64),
                length: Bytes(length as u64),
                response: response.map(|ns| Nanos(ns as u64)),
                hashes: HashRange { start: if count == 0 { 0 } else { hash_start }, count },
            });
            hash_start += count;
        }
        Ok(())
    }
}

fn early(time: i64, origin: i64) -> String {
    match time {
        MISSING => format!("{} is missing", schema::TIME),
        _ if origin == 0 => format!("{} is negative ({time})", schema::TIME),
        _ => backwards(time, origin),
    }
}

fn backwards(time: i64, latest: i64) -> String {
    format!(
        "time runs backwards, from {latest} to {time} ns; sort the file by {0} (in DuckDB: ORDER BY \
         {0})",
        schema::TIME
    )
}

impl Scratch {
    fn response(&self, row: usize) -> Option<i64> {
        let value = *self.response.get(row)?;
        let valid = self.response_valid.get(row).copied().unwrap_or(true);
        (valid && value != MISSING).then_some(value)
    }
}

impl OpenColumns {
    fn new(found: &Columns) -> OpenColumns {
        let number = |found: &Found<Number>| Leaf::new(found, found.stored);
        OpenColumns {
            time: number(&found.time),
            volume: found.volume.as_ref().map(|f| Leaf::new(f, Text(Volumes::default()))),
            op: Leaf::new(&found.op, Text(OpNames)),
            offset: number(&found.offset),
            length: number(&found.length),
            response: found.response.as_ref().map(number),
            hashes: found.hashes.as_ref().map(|f| Leaf::new(f, f.hashes())),
            only_volume: ["0".to_string()],
        }
    }

    /// Goes on with a row group of `rows` rows.
    fn begin<R: ChunkReader + 'static>(
        &mut self,
        input: &Arc<R>,
        chunks: &[ColumnChunkMetaData],
        rows: u64,
    ) -> Result<(), String> {
        self.time.begin(input, chunks, rows)?;
        self.op.begin(input, chunks, rows)?;
        self.offset.begin(input, chunks, rows)?;
        self.length.begin(input, chunks, rows)?;
        if let Some(volume) = &mut self.volume {
            volume.begin(input, chunks, rows)?;
        }
        if let Some(response) = &mut self.response {
            response.begin(input, chunks, rows)?;
        }
        if let Some(hashes) = &mut self.hashes {
            hashes.begin(input, chunks, rows)?;
        }
        Ok(())
    }

    /// Reads the next `rows` rows of every column, fewer where they hold many hashes; how many.
    fn read(
        &mut self,
        mut rows: usize,
        into: &mut Scratch,
        hashes: &mut Vec<ContentHash>,
    ) -> Result<usize, String> {
        if let Some(column) = &mut self.hashes {
            let most = (rows, Batch::HASHES_MAX);
            let read = column.column.lists(most, hashes, &mut into.hash_counts);
            rows = read.map_err(|problem| in_column(schema::HASHES, &problem))?;
        }
        let mut valid = std::mem::take(&mut into.response_valid);
        self.time.rows(rows, &mut into.time, &mut valid, schema::TIME)?;
        self.op.rows(rows, &mut into.op, &mut valid, schema::OP)?;
        self.offset.rows(rows, &mut into.offset, &mut valid, schema::OFFSET)?;
        self.length.rows(rows, &mut into.length, &mut valid, schema::LENGTH)?;
        if let Some(volume) = &mut self.volume {
            volume.rows(rows, &mut into.volume, &mut valid, schema::VOLUME)?;
        }
        if let Some(response) = &mut self.response {
            let read = response.column.rows(rows, &mut into.response, &mut valid);
            read.map_err(|problem| in_column(schema::RESPONSE, &problem))?;
        }
        into.response_valid = valid;
        Ok(rows)
    }
}

fn in_column(name: &str, problem: &str) -> String {
    format!("column `{name}`: {problem}")
}

impl<D: Decode> Leaf<D> {
    fn new<S>(found: &Found<S>, decode: D) -> Leaf<D> {
        Leaf { leaf: found.leaf, column: Column::new(decode, found.max_def, found.max_rep) }
    }

    fn begin<R: ChunkReader + 'static>(
        &mut self,
        input: &Arc<R>,
        chunks: &[ColumnChunkMetaData],
        rows: u64,
    ) -> Result<(), String> {
        let missing = || format!("the row group has no column {}", self.leaf);
        let chunk = chunks.get(self.leaf).ok_or_else(missing)?;
        check_compression(chunk)?;
        let rows = usize::try_from(rows).map_err(|_| format!("{rows} rows in one row group"))?;
        let pages = SerializedPageReader::new(Arc::clone(input), chunk, rows, None)
            .map_err(|error| in_column(&chunk.column_path().string(), &error.to_string()))?;
        self.column.begin(Box::new(pages));
        Ok(())
    }

    /// The next `rows` rows of a column in which no row may be null.
    fn rows(
        &mut self,
        rows: usize,
        values: &mut Vec<D::Value>,
        valid: &mut Vec<bool>,
        name: &str,
    ) -> Result<(), String> {
        self.column.rows(rows, values, valid).map_err(|problem| in_column(name, &problem))?;
        match valid.iter().position(|valid| !valid) {
            None => Ok(()),
            Some(_) => Err(format!("column `{name}` holds nulls; every request needs one")),
        }
    }
}

impl<R: ChunkReader + 'static> TraceReader for ParquetReader<R> {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        if self.state.failed {
            return Err(malformed(&self.name, FAILED_BEFORE));
        }
        // A batch of which nothing is kept is not the end.
        while batch.requests.is_empty() {
            match self.read_rows(batch) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(problem) => {
                    self.state.failed = true;
                    batch.clear();
                    return Err(malformed(&self.name, problem));
                }
            }
        }
        Ok(())
    }

    fn repairs(&self) -> Vec<String> {
        let mut repairs = Vec::new();
        self.state.repairs(&mut repairs);
        repairs
    }

    fn volumes(&self) -> &[String] {
        match &self.columns.volume {
            Some(volume) => volume.column.decode.0.names(),
            None => &self.columns.only_volume,
        }
    }

    fn about(&self) -> Vec<(String, String)> {
        let pairs = self.metadata.file_metadata().key_value_metadata().into_iter().flatten();
        pairs
            .filter(|pair| pair.key.starts_with(schema::KEY_PREFIX))
            .filter(|pair| pair.key != schema::VERSION_KEY)
            .filter_map(|pair| Some((pair.key.clone(), pair.value.clone()?)))
            .collect()
    }

    fn bytes_read(&self) -> u64 {
        if self.group_rows == 0 {
            return 0;
        }
        let given = (self.group_rows - self.group_rows_left) as u128;
        let share = u128::from(self.group_bytes) * given / u128::from(self.group_rows);
        self.done_bytes + share as u64
    }
}
