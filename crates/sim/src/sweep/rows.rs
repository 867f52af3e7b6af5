//! Rows of a job as Parquet, described in docs/formats/sweep.md.
//!
//! Two files a job: results, whose bytes depend on the inputs alone, and times, which are measured.
//! Every column but the first few may be null: a trace that cannot be read has nothing else.

use crate::lab::{Get, Row, columns};
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Facts that all rows of a job share.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) job: u64,
    pub(super) name: String,
    pub(super) seed: u64,
    /// Bytes and hash of the file; `None` for what is made or could not be read.
    pub(super) file: Option<(u64, String)>,
    /// Requests, distinct lines, and time from the first to the last request, nanoseconds.
    pub(super) seen: Option<(u64, u64, u64)>,
}

/// One policy at one size, or what went wrong.
#[derive(Debug, Clone)]
pub(super) struct ResultRow {
    /// Policy and size; `None` when the trace itself is at fault.
    pub(super) cell: Option<(String, String)>,
    pub(super) outcome: Result<Box<Row>, String>,
}

/// The cells of one column; `None` is null.
enum Cells {
    Text(Vec<Option<String>>),
    Count(Vec<Option<u64>>),
    Number(Vec<Option<f64>>),
}

type Filled = (String, Cells);

/// Facts for a file's own metadata: key, value.
pub(super) type Metadata = Vec<(&'static str, String)>;

/// Writes the results of a job.
pub(super) fn write_results(
    facts: &Facts,
    rows: &[ResultRow],
    metadata: &Metadata,
    out: impl Write + Send,
) -> Result<(), ParquetError> {
    let mut filled = keys(facts, rows);
    let n = rows.len();
    let seen = facts.seen;
    let file = facts.file.as_ref();
    filled.extend([
        ("trace_bytes".to_string(), Cells::Count(vec![file.map(|(bytes, _)| *bytes); n])),
        ("trace_blake3".to_string(), Cells::Text(vec![file.map(|(_, hash)| hash.clone()); n])),
        ("trace_requests".to_string(), Cells::Count(vec![seen.map(|seen| seen.0); n])),
        ("trace_distinct_lines".to_string(), Cells::Count(vec![seen.map(|seen| seen.1); n])),
        ("trace_ns".to_string(), Cells::Count(vec![seen.map(|seen| seen.2); n])),
        ("error".to_string(), {
            Cells::Text(rows.iter().map(|row| row.outcome.as_ref().err().cloned()).collect())
        }),
    ]);
    for (name, get) in columns() {
        if matches!(name.as_str(), "policy" | "size") {
            continue; // a key, and there for errors too
        }
        filled.push((name, measure(rows, &get)));
    }
    write("sweep_results", filled, metadata, out)
}

/// Writes what the machine needed for a job: the same rows, with times.
pub(super) fn write_times(
    facts: &Facts,
    rows: &[ResultRow],
    metadata: &Metadata,
    out: impl Write + Send,
) -> Result<(), ParquetError> {
    let mut filled = keys(facts, rows);
    let mut push = |name: &str, get| {
        filled.push((name.to_string(), measure(rows, &Get::Number(get))));
    };
    push("processor_s", |row| row.processor_s);
    push("replay_s", |row| row.replay_s);
    write("sweep_times", filled, metadata, out)
}

fn keys(facts: &Facts, rows: &[ResultRow]) -> Vec<Filled> {
    let n = rows.len();
    let cells = || rows.iter().map(|row| row.cell.as_ref());
    vec![
        ("job".to_string(), Cells::Count(vec![Some(facts.job); n])),
        ("trace".to_string(), Cells::Text(vec![Some(facts.name.clone()); n])),
        ("seed".to_string(), Cells::Count(vec![Some(facts.seed); n])),
        ("policy".to_string(), Cells::Text(cells().map(|c| c.map(|c| c.0.clone())).collect())),
        ("size".to_string(), Cells::Text(cells().map(|c| c.map(|c| c.1.clone())).collect())),
    ]
}

fn measure(rows: &[ResultRow], get: &Get) -> Cells {
    let good = || rows.iter().map(|row| row.outcome.as_ref().ok());
    match get {
        Get::Text(get) => Cells::Text(good().map(|row| row.map(|r| get(r).to_string())).collect()),
        Get::Count(get) => Cells::Count(good().map(|row| row.map(|r| get(r))).collect()),
        Get::Number(get) => Cells::Number(good().map(|row| row.map(|r| get(r))).collect()),
    }
}

fn write(
    schema: &str,
    filled: Vec<Filled>,
    metadata: &Metadata,
    out: impl Write + Send,
) -> Result<(), ParquetError> {
    let fields: Vec<_> = filled.iter().map(field).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder(schema).with_fields(fields).build()?;
    let pair = |(key, value): &(&str, String)| KeyValue::new(key.to_string(), value.clone());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata.iter().map(pair).collect()))
        .build();
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, cells) in filled {
        let mut writer = group.next_column()?.expect("one writer a column");
        match cells {
            Cells::Text(cells) => {
                let (present, levels) = split(cells);
                let texts: Vec<ByteArray> = present.iter().map(|t| t.as_str().into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?;
            }
            Cells::Count(cells) => {
                let (present, levels) = split(cells);
                // Counts stay below 2⁶³: no trace holds as many bytes.
                let counts: Vec<i64> =
                    present.iter().map(|n| i64::try_from(*n).unwrap_or(i64::MAX)).collect();
                writer.typed::<Int64Type>().write_batch(&counts, Some(&levels), None)?;
            }
            Cells::Number(cells) => {
                let (present, levels) = split(cells);
                writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    file.close().map(|_| ())
}

fn field((name, cells): &Filled) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match cells {
        Cells::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Cells::Count(_) => (PhysicalType::INT64, None),
        Cells::Number(_) => (PhysicalType::DOUBLE, None),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()?;
    Ok(Arc::new(field))
}

/// The values that are there, and for each row whether one is.
fn split<T>(cells: Vec<Option<T>>) -> (Vec<T>, Vec<i16>) {
    let levels = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
    (cells.into_iter().flatten().collect(), levels)
}

/// One row of results as a report needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measured {
    /// Job.
    pub job: u64,
    /// Family of the trace.
    pub family: String,
    /// Name of the trace.
    pub trace: String,
    /// Seed.
    pub seed: u64,
    /// Policy; empty when the trace itself is at fault.
    pub policy: String,
    /// Size; empty when the trace itself is at fault.
    pub size: String,
    /// Reason for missing figures.
    pub error: Option<String>,
    /// Reads and writes counted.
    pub requests: u64,
    /// Those of them served by flash alone.
    pub request_hits: u64,
    /// Lines touched.
    pub lines: u64,
    /// Those of them on flash.
    pub line_hits: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Those of them on flash.
    pub byte_hits: u64,
    /// I/O cost at real sizes, seconds.
    pub cost_s: f64,
    /// Disk-head time, seconds.
    pub disk_head_s: f64,
    /// Bytes written to flash.
    pub flash_written: u64,
    /// Processor time, seconds, where it was measured.
    pub processor_s: Option<f64>,
}

/// Origin of a file of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// Version that wrote it.
    pub(super) version: String,
    /// Hash of the plan.
    pub(super) plan_blake3: String,
    /// Hash of the job's line in the list of jobs: plans that are equal mean other jobs where
    /// their traces are others.
    pub(super) job_blake3: String,
}

impl Origin {
    /// Keys and values in the metadata of a file.
    pub(super) fn metadata(&self) -> Metadata {
        vec![
            ("thermocline.version", self.version.clone()),
            ("thermocline.plan_blake3", self.plan_blake3.clone()),
            ("thermocline.job_blake3", self.job_blake3.clone()),
        ]
    }
}

/// Rows of a file of results or times; `None`: it is none, broken, also in its rows alone, or of
/// another origin.
pub(super) fn read_rows_of(
    file: impl ChunkReader + 'static,
    origin: &Origin,
) -> Option<Vec<Measured>> {
    let reader = SerializedFileReader::new(file).ok()?;
    (origin_of(&reader)? == *origin).then(|| rows_in(&reader).ok())?
}

fn origin_of(reader: &SerializedFileReader<impl ChunkReader + 'static>) -> Option<Origin> {
    let known = reader.metadata().file_metadata().key_value_metadata()?;
    let of = |key: &str| known.iter().find(|pair| pair.key == key)?.value.clone();
    Some(Origin {
        version: of("thermocline.version")?,
        plan_blake3: of("thermocline.plan_blake3")?,
        job_blake3: of("thermocline.job_blake3")?,
    })
}

/// Rows of a file of results or times that are read at most.
const ROWS_MAX: i64 = 1 << 20;

/// Reads a file of results or of times. Columns that a report does not need are skipped.
///
/// # Errors
/// When it is no such file; the text says what is wrong, without the file's name.
pub fn read_rows(file: impl ChunkReader + 'static) -> Result<Vec<Measured>, String> {
    rows_in(&SerializedFileReader::new(file).map_err(|error| error.to_string())?)
}

fn rows_in(
    reader: &SerializedFileReader<impl ChunkReader + 'static>,
) -> Result<Vec<Measured>, String> {
    let metadata = reader.metadata().file_metadata();
    let schema = metadata.schema();
    if !matches!(schema.name(), "sweep_results" | "sweep_times") {
        return Err("not a file of a sweep's results".to_string());
    }
    if let Some(nested) = schema.get_fields().iter().find(|field| !field.is_primitive()) {
        return Err(format!("column `{}` is nested; a sweep writes none such", nested.name()));
    }
    if !(0..=ROWS_MAX).contains(&metadata.num_rows()) {
        return Err(format!("{} rows: a job has at most {ROWS_MAX}", metadata.num_rows()));
    }
    // The reader takes these for granted, and panics on others.
    let columns = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
    let mut numbers = columns.flat_map(|column| {
        let first = column.dictionary_page_offset().unwrap_or_default();
        [column.data_page_offset(), first, column.compressed_size()]
    });
    if numbers.any(|number| number < 0) {
        return Err("a column has a place or a length below 0".to_string());
    }
    let known = metadata.key_value_metadata();
    let family = known.into_iter().flatten().find(|pair| pair.key == "thermocline.family");
    let family = family.and_then(|pair| pair.value.clone());
    let family = family.ok_or("its metadata names no `thermocline.family`")?;
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    let mut measured = Vec::new();
    for row in rows {
        let row = row.map_err(|error| error.to_string())?;
        let mut next = Measured { family: family.clone(), ..Measured::default() };
        for (name, field) in row.get_column_iter() {
            next.take(name, field)?;
        }
        measured.push(next);
    }
    Ok(measured)
}

impl Measured {
    /// Takes one cell over, when it is one that is needed.
    fn take(&mut self, name: &str, field: &Field) -> Result<(), String> {
        match name {
            "job" => self.job = count(name, field)?,
            "seed" => self.seed = count(name, field)?,
            "trace" => self.trace = text(name, field)?.unwrap_or_default(),
            "policy" => self.policy = text(name, field)?.unwrap_or_default(),
            "size" => self.size = text(name, field)?.unwrap_or_default(),
            "error" => self.error = text(name, field)?,
            "reads_requests" | "writes_requests" => add(&mut self.requests, name, field)?,
            "reads_request_hits" | "writes_request_hits" => {
                add(&mut self.request_hits, name, field)?;
            }
            "reads_lines" | "writes_lines" => add(&mut self.lines, name, field)?,
            "reads_line_hits" | "writes_line_hits" => add(&mut self.line_hits, name, field)?,
            "reads_bytes" | "writes_bytes" => add(&mut self.bytes, name, field)?,
            "reads_byte_hits" | "writes_byte_hits" => add(&mut self.byte_hits, name, field)?,
            "flash_written_bytes" => self.flash_written = count(name, field)?,
            "cost_real_s" => self.cost_s = number(name, field)?.unwrap_or(0.0),
            "disk_head_s" => self.disk_head_s = number(name, field)?.unwrap_or(0.0),
            "processor_s" => self.processor_s = number(name, field)?,
            _ => {}
        }
        Ok(())
    }
}

fn add(sum: &mut u64, name: &str, field: &Field) -> Result<(), String> {
    let more = count(name, field)?;
    *sum = sum.checked_add(more).ok_or_else(|| format!("column `{name}` is beyond counting"))?;
    Ok(())
}

/// A count; null is none.
fn count(name: &str, field: &Field) -> Result<u64, String> {
    match field {
        Field::Null => Ok(0),
        Field::Long(n) if *n >= 0 => Ok(n.unsigned_abs()),
        other => Err(format!("column `{name}` holds {other}, not a count")),
    }
}

fn number(name: &str, field: &Field) -> Result<Option<f64>, String> {
    match field {
        Field::Null => Ok(None),
        Field::Double(n) if n.is_finite() && *n >= 0.0 => Ok(Some(*n)),
        other => Err(format!("column `{name}` holds {other}, not a number from 0 up")),
    }
}

fn text(name: &str, field: &Field) -> Result<Option<String>, String> {
    match field {
        Field::Null => Ok(None),
        Field::Str(text) => Ok(Some(text.clone())),
        other => Err(format!("column `{name}` holds {other}, not text")),
    }
}
