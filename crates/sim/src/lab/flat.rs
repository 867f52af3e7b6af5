//! Rows as flat, named columns: CSV and Parquet.
//!
//! One list of columns serves both, so that a name means the same everywhere; nested values of the
//! JSON become `reads_requests`, `flash_writes_bytes` and so on. Hits by volume are only in the
//! JSON.

use super::curve::{Curve, Curves, Point};
use super::results::{Report, Row, SideRow, TrafficRow};
use crate::table::{Column as Values, Table};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// One cell.
enum Cell {
    Text(String),
    Count(u64),
    Number(f64),
}

/// Function that reads one count from a part of a row.
type Count<T> = fn(&T) -> u64;

/// Function by which a row fills a column; its kind is that of the cells.
pub(crate) enum Get {
    Text(fn(&Row) -> &str),
    Count(Box<dyn Fn(&Row) -> u64>),
    Number(fn(&Row) -> f64),
}

/// One column: its name, and how a row fills it.
pub(crate) type Column = (String, Get);

fn text_of(name: &str, get: fn(&Row) -> &str) -> Column {
    (name.to_string(), Get::Text(get))
}

fn count_of(name: &str, get: impl Fn(&Row) -> u64 + 'static) -> Column {
    (name.to_string(), Get::Count(Box::new(get)))
}

fn number_of(name: &str, get: fn(&Row) -> f64) -> Column {
    (name.to_string(), Get::Number(get))
}

impl Get {
    fn cell(&self, row: &Row) -> Cell {
        match self {
            Get::Text(get) => Cell::Text(get(row).to_string()),
            Get::Count(get) => Cell::Count(get(row)),
            Get::Number(get) => Cell::Number(get(row)),
        }
    }
}

fn side(prefix: &'static str, of: fn(&Row) -> &SideRow) -> Vec<Column> {
    let parts: [(&str, Count<SideRow>); 6] = [
        ("requests", |s| s.requests),
        ("request_hits", |s| s.request_hits),
        ("lines", |s| s.lines),
        ("line_hits", |s| s.line_hits),
        ("bytes", |s| s.bytes),
        ("byte_hits", |s| s.byte_hits),
    ];
    let make = |(name, get): (&str, Count<SideRow>)| {
        count_of(&format!("{prefix}_{name}"), move |row| get(of(row)))
    };
    parts.into_iter().map(make).collect()
}

fn traffic(prefix: &'static str, of: fn(&Row) -> &TrafficRow) -> Vec<Column> {
    let parts: [(&str, Count<TrafficRow>); 3] = [
        ("operations", |t| t.operations),
        ("sequential", |t| t.sequential),
        ("bytes", |t| t.bytes),
    ];
    let make = |(name, get): (&str, Count<TrafficRow>)| {
        count_of(&format!("{prefix}_{name}"), move |row| get(of(row)))
    };
    parts.into_iter().map(make).collect()
}

/// All columns, in the order of the file.
pub(crate) fn columns() -> Vec<Column> {
    let mut columns = vec![
        text_of("policy", |row| &row.policy),
        text_of("size", |row| &row.size),
        count_of("capacity_bytes", |row| row.capacity_bytes),
        count_of("capacity_units", |row| row.capacity_units.into()),
        count_of("unit_bytes", |row| row.unit_bytes),
        number_of("request_hit_ratio", |row| row.request_hit_ratio),
        number_of("line_hit_ratio", |row| row.line_hit_ratio),
        number_of("byte_hit_ratio", |row| row.byte_hit_ratio),
        count_of("line_misses", |row| row.line_misses),
        number_of("cost_source_s", |row| row.cost_source_s),
        number_of("cost_real_s", |row| row.cost_real_s),
        number_of("disk_head_s", |row| row.disk_head_s),
        count_of("flash_written_bytes", |row| row.flash_written_bytes),
        count_of("moved_bytes", |row| row.moved_bytes),
        count_of("admitted", |row| row.admitted),
        count_of("evicted", |row| row.evicted),
        count_of("written_back", |row| row.written_back),
        count_of("memory_resident_bytes", |row| row.memory_resident_bytes),
        count_of("memory_index_bytes", |row| row.memory_index_bytes),
    ];
    columns.extend(side("reads", |row| &row.reads));
    columns.extend(side("writes", |row| &row.writes));
    columns.extend(traffic("flash_reads", |row| &row.flash_reads));
    columns.extend(traffic("flash_writes", |row| &row.flash_writes));
    columns.extend(traffic("disk_reads", |row| &row.disk_reads));
    columns.extend(traffic("disk_writes", |row| &row.disk_writes));
    columns
}

/// Writes the rows as CSV with a header, quoted where RFC 4180 asks for it.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_csv(rows: &[Row], out: &mut impl Write) -> std::io::Result<()> {
    let columns = columns();
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in rows {
        let cells: Vec<String> = columns.iter().map(|(_, get)| csv(get.cell(row))).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

fn csv(cell: Cell) -> String {
    match cell {
        Cell::Text(text) => quoted(&text),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
    }
}

/// A text as CSV takes it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

/// Writes the rows as one Parquet row group.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_parquet(rows: &[Row], out: impl Write + Send) -> Result<(), ParquetError> {
    let columns = columns();
    let filled: Vec<Vec<Cell>> =
        columns.iter().map(|(_, get)| rows.iter().map(|row| get.cell(row)).collect()).collect();
    let mut fields = Vec::new();
    for ((name, _), cells) in columns.iter().zip(&filled) {
        fields.push(Arc::new(field(name, cells.first())?));
    }
    let schema = Type::group_type_builder("lab_cache").with_fields(fields).build()?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), properties)?;
    let mut group = file.next_row_group()?;
    for cells in filled {
        let mut writer = group.next_column()?.expect("one writer a column");
        match cells.first() {
            Some(Cell::Text(_)) => {
                let texts: Vec<ByteArray> =
                    cells.iter().map(|c| ByteArray::from(text(c).as_str())).collect();
                writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
            }
            Some(Cell::Number(_)) => {
                let numbers: Vec<f64> = cells.iter().map(number).collect();
                writer.typed::<DoubleType>().write_batch(&numbers, None, None)?;
            }
            _ => {
                let counts: Vec<i64> = cells.iter().map(count).collect();
                writer.typed::<Int64Type>().write_batch(&counts, None, None)?;
            }
        }
        writer.close()?;
    }
    group.close()?;
    file.close().map(|_| ())
}

fn field(name: &str, first: Option<&Cell>) -> Result<Type, ParquetError> {
    let (physical, logical) = match first {
        Some(Cell::Text(_)) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Some(Cell::Number(_)) => (PhysicalType::DOUBLE, None),
        _ => (PhysicalType::INT64, None),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::REQUIRED)
        .with_logical_type(logical)
        .build()
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
    }
}

/// Counts stay below 2⁶³: no trace holds as many bytes.
fn count(cell: &Cell) -> i64 {
    match cell {
        Cell::Count(count) => i64::try_from(*count).unwrap_or(i64::MAX),
        _ => 0,
    }
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Text(_) => f64::NAN,
        Cell::Count(count) => *count as f64,
        Cell::Number(number) => *number,
    }
}

impl Report {
    /// The rows as columns, with the time of each replay and whether it was told the future; hits
    /// by volume are not among them.
    pub fn to_table(&self) -> Table {
        let mut table = Table::default();
        for (name, cell) in columns() {
            let cells = self.rows.iter().map(|row| cell.cell(row));
            table.add(name, values(cells.collect()));
        }
        table.number("replay_s", &self.rows, |row| Some(row.replay_s));
        table.flag("clairvoyant", &self.rows, |row| row.clairvoyant);
        table
    }
}

/// Cells of one column, which are all of one kind.
fn values(cells: Vec<Cell>) -> Values {
    match cells.first() {
        Some(Cell::Text(_)) => Values::Text(cells.iter().map(text).collect()),
        Some(Cell::Number(_)) => {
            Values::Number(cells.iter().map(|cell| Some(number(cell))).collect())
        }
        _ => Values::Count(cells.iter().map(|cell| count(cell).unsigned_abs()).collect()),
    }
}

impl Curves {
    /// The points as columns: a row a point.
    pub fn to_table(&self) -> Table {
        let points: Vec<(&Curve, &Point)> = self
            .curves
            .iter()
            .flat_map(|curve| curve.points.iter().map(move |p| (curve, p)))
            .collect();
        let mut table = Table::default();
        table.text("policy", &points, |(curve, _)| curve.policy.clone());
        table.count("bytes", &points, |(_, point)| point.bytes);
        table.number("miss_ratio", &points, |(_, point)| Some(point.miss_ratio));
        table.number("error", &points, |(_, point)| Some(point.error));
        table.flag("adjusted", &points, |(curve, _)| curve.adjusted);
        table.number("rate", &points, |_| Some(self.rate));
        table
    }
}

/// Writes miss-ratio curves as CSV with a header: a row a point.
///
/// # Errors
/// When `out` fails.
pub fn write_curves_csv(curves: &Curves, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "policy,bytes,miss_ratio,error,adjusted,rate")?;
    for curve in &curves.curves {
        for Point { bytes, miss_ratio, error } in &curve.points {
            let (policy, adjusted) = (quoted(&curve.policy), curve.adjusted);
            let rate = curves.rate;
            writeln!(out, "{policy},{bytes},{miss_ratio},{error},{adjusted},{rate}")?;
        }
    }
    Ok(())
}
