//! The columns of a native trace: their names, how they are written, how they are found in a file.
//!
//! Files from other tools may store a column otherwise than we do; [`Found`] says what is accepted,
//! and the errors say what to do about the rest. Drawn in `docs/formats/trace-parquet.md`.

use super::encoding::Problem;
use super::values::{Hashes, Number, Stored};
use parquet::basic::{
    ConvertedType as Converted, LogicalType, Repetition, TimeUnit, Type as Physical,
};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};
use std::sync::Arc;

/// Version of the layout in the metadata; readers refuse later ones.
pub(super) const VERSION: u32 = 1;
/// Beginning of our metadata keys; other tools' own (`ARROW:schema`, `pandas`) are left alone.
pub(super) const KEY_PREFIX: &str = "thermocline.";
/// Metadata key of the layout's version; a file that has it was written by this crate.
pub(super) const VERSION_KEY: &str = "thermocline.trace.version";

pub(super) const TIME: &str = "time_ns";
pub(super) const VOLUME: &str = "volume";
pub(super) const OP: &str = "op";
/// Not `offset`, which is a reserved word in SQL.
pub(super) const OFFSET: &str = "offset_bytes";
pub(super) const LENGTH: &str = "length_bytes";
pub(super) const RESPONSE: &str = "response_ns";
pub(super) const HASHES: &str = "hashes";

/// Bytes of a content hash in the file at most.
pub(super) const HASH_BYTES: i32 = 16;

/// The schema we write; `hashes` only where the trace has any.
pub(super) fn written(with_hashes: bool) -> parquet::errors::Result<Type> {
    let integer = |name, repetition| {
        Type::primitive_type_builder(name, Physical::INT64).with_repetition(repetition).build()
    };
    let string = |name| {
        Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build()
    };
    let mut fields = vec![
        integer(TIME, Repetition::REQUIRED)?,
        string(VOLUME)?,
        string(OP)?,
        integer(OFFSET, Repetition::REQUIRED)?,
        integer(LENGTH, Repetition::REQUIRED)?,
        integer(RESPONSE, Repetition::OPTIONAL)?,
    ];
    if with_hashes {
        fields.push(hash_list()?);
    }
    Type::group_type_builder("trace")
        .with_fields(fields.into_iter().map(Arc::new).collect())
        .build()
}

fn hash_list() -> parquet::errors::Result<Type> {
    // Not of fixed length: pandas (pyarrow) refuses lists of fixed-length binary strings.
    let element = Type::primitive_type_builder("element", Physical::BYTE_ARRAY)
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let list = Type::group_type_builder("list")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(element)])
        .build()?;
    Type::group_type_builder(HASHES)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(Some(LogicalType::List))
        .with_fields(vec![Arc::new(list)])
        .build()
}

/// Names that are read for ours.
const ALIASES: [(&str, &str); 2] = [(OFFSET, "offset"), (LENGTH, "length")];

/// A column of the file: where it is and how it is stored.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<S> {
    /// Its number among the file's leaf columns.
    pub(super) leaf: usize,
    pub(super) max_def: u8,
    pub(super) max_rep: u8,
    pub(super) stored: S,
}

/// The trace's columns in a file.
pub(super) struct Columns {
    pub(super) time: Found<Number>,
    pub(super) volume: Option<Found<()>>,
    pub(super) op: Found<()>,
    pub(super) offset: Found<Number>,
    pub(super) length: Found<Number>,
    pub(super) response: Option<Found<Number>>,
    pub(super) hashes: Option<Found<usize>>,
}

/// Mark in the place of a hash length: each hash comes with its own.
pub(super) const VARIABLE_LENGTH: usize = 0;

impl Columns {
    /// Finds the columns, by name.
    pub(super) fn find(schema: &SchemaDescriptor) -> Result<Columns, Problem> {
        Ok(Columns {
            time: required(schema, TIME, number)?,
            volume: optional(schema, VOLUME, string)?,
            op: required(schema, OP, string)?,
            offset: required(schema, OFFSET, number)?,
            length: required(schema, LENGTH, number)?,
            response: optional(schema, RESPONSE, number)?,
            hashes: optional(schema, HASHES, hashes)?,
        })
    }

    /// True if times are points of a calendar rather than nanoseconds since the start.
    pub(super) fn calendar_time(schema: &SchemaDescriptor) -> bool {
        schema.columns().iter().any(|column| {
            column.path().parts() == [TIME]
                && matches!(column.logical_type_ref(), Some(LogicalType::Timestamp(_)))
        })
    }
}

fn required<S>(
    schema: &SchemaDescriptor,
    name: &str,
    stored: fn(&ColumnDescriptor) -> Result<S, Problem>,
) -> Result<Found<S>, Problem> {
    optional(schema, name, stored)?.ok_or_else(|| {
        let names: Vec<&str> = schema.root_schema().get_fields().iter().map(|f| f.name()).collect();
        format!(
            "the column `{name}` is missing; a trace has {TIME}, {OP}, {OFFSET} and {LENGTH}, and \
             may have {VOLUME}, {RESPONSE} and {HASHES}; found: {}. Rename the columns, as in \
             DuckDB's COPY (SELECT … AS {name}, …)",
            names.join(", ")
        )
    })
}

fn optional<S>(
    schema: &SchemaDescriptor,
    name: &str,
    stored: fn(&ColumnDescriptor) -> Result<S, Problem>,
) -> Result<Option<Found<S>>, Problem> {
    let leaf_of = |name: &str| {
        let is_it = |part: &String| part == name;
        schema.columns().iter().position(|column| column.path().parts().first().is_some_and(is_it))
    };
    let alias = || {
        let (_, alias) = ALIASES.iter().find(|(ours, _)| *ours == name)?;
        leaf_of(alias)
    };
    let Some(leaf) = leaf_of(name).or_else(alias) else { return Ok(None) };
    let column = schema.column(leaf);
    let level = |level: i16| u8::try_from(level).map_err(|_| format!("`{name}` is nested"));
    Ok(Some(Found {
        leaf,
        max_def: level(column.max_def_level())?,
        max_rep: level(column.max_rep_level())?,
        stored: stored(&column)?,
    }))
}

/// The column's name and type, for the errors below.
fn described(column: &ColumnDescriptor) -> String {
    match column.logical_type_ref() {
        Some(logical) => format!("`{}` is {logical:?}", column.path().string()),
        None if column.converted_type() != Converted::NONE => {
            format!("`{}` is {}", column.path().string(), column.converted_type())
        }
        None => format!("`{}` is {}", column.path().string(), column.physical_type()),
    }
}

fn flat(column: &ColumnDescriptor) -> bool {
    column.path().parts().len() == 1 && column.max_rep_level() == 0
}

fn number(column: &ColumnDescriptor) -> Result<Number, Problem> {
    let refused =
        || format!("{}, not a number; cast it to a 64-bit integer (BIGINT)", described(column));
    if !flat(column) {
        return Err(refused());
    }
    // Older writers give the older kind of type only.
    let converted = column.logical_type_ref().is_none().then(|| column.converted_type());
    let converted = converted.unwrap_or(Converted::NONE);
    let unsigned = match column.logical_type_ref() {
        Some(LogicalType::Integer(int)) => !int.is_signed,
        _ => matches!(
            converted,
            Converted::UINT_8 | Converted::UINT_16 | Converted::UINT_32 | Converted::UINT_64
        ),
    };
    let stored = match column.physical_type() {
        Physical::INT32 if unsigned => Stored::UInt32,
        Physical::INT32 => Stored::Int32,
        Physical::INT64 => Stored::Int64,
        Physical::FLOAT => Stored::Float,
        Physical::DOUBLE => Stored::Double,
        _ => return Err(refused()),
    };
    let scale = match column.logical_type_ref() {
        Some(LogicalType::Integer(_)) => 1,
        None => match converted {
            Converted::TIMESTAMP_MILLIS => 1_000_000,
            Converted::TIMESTAMP_MICROS => 1_000,
            Converted::NONE
            | Converted::INT_8
            | Converted::INT_16
            | Converted::INT_32
            | Converted::INT_64
            | Converted::UINT_8
            | Converted::UINT_16
            | Converted::UINT_32
            | Converted::UINT_64 => 1,
            _ => return Err(refused()),
        },
        Some(LogicalType::Timestamp(timestamp)) => match timestamp.unit {
            TimeUnit::NANOS => 1,
            TimeUnit::MICROS => 1_000,
            TimeUnit::MILLIS => 1_000_000,
        },
        Some(_) => return Err(refused()),
    };
    Ok(Number { stored, scale })
}

fn string(column: &ColumnDescriptor) -> Result<(), Problem> {
    if flat(column) && column.physical_type() == Physical::BYTE_ARRAY {
        return Ok(());
    }
    Err(format!("{}, not a string; cast it (VARCHAR)", described(column)))
}

fn hashes(column: &ColumnDescriptor) -> Result<usize, Problem> {
    let refused = || {
        format!("{}, not a list of binary strings of at most {HASH_BYTES} bytes", described(column))
    };
    if column.max_rep_level() != 1 {
        return Err(refused());
    }
    match column.physical_type() {
        Physical::BYTE_ARRAY => Ok(VARIABLE_LENGTH),
        Physical::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length())
            .ok()
            .filter(|length| (1..=HASH_BYTES as usize).contains(length))
            .ok_or_else(refused),
        _ => Err(refused()),
    }
}

impl Found<usize> {
    /// Decoding of the hashes.
    pub(super) fn hashes(&self) -> Hashes {
        Hashes { length: (self.stored != VARIABLE_LENGTH).then_some(self.stored) }
    }
}
