//! Column map of the `csv` format: where in a text with columns the parts of a request stand.
//!
//! Spelled on a command line as `key=value` pairs joined by commas, for example
//! `time=0:us,offset=lba:512,size=2:512,op=3,volume=4`:
//!
//! | key | value | default |
//! |---|---|---|
//! | `offset` | column, `:` unit (`512`, `4KiB`) | required; bytes |
//! | `size` | column, `:` unit; or `fixed:4KiB` | required; bytes |
//! | `time` | column, `:` unit `s`, `ms`, `us`, `ns`, `100ns` | no times; seconds |
//! | `op`, `volume` | column | all reads; the input's name |
//! | `hashes` | column of content hashes, hexadecimal, joined by `;` | none |
//! | `response` | column, `:` unit as for `time` | unknown; seconds |
//! | `sep` | `comma`, `tab`, `semicolon`, `pipe`, `blank` | `comma` |
//! | `header` | `yes`, `no`, `auto` | `auto` |
//! | `read`, `write` | words joined by <code>&#124;</code>, any case | `r`, `read`; `w`, `write` |
//! | `flush`, `trim` | the same | `f`, `flush`; `t`, `trim`, `d`, `discard` |
//!
//! A column is a position counted from 0, or a name in the header line. Numbers as op words
//! (`read=0,write=1`) must be given: published traces disagree about them.

use crate::request::Op;
use std::str::FromStr;
use thermocline_units::Bytes;

/// Advice when a map is missing.
pub(crate) const NEEDED: &str = "a text with columns needs a column map, for example \
     --columns time=0:us,offset=1:512,size=2:512,op=3";

/// Positions a column may have.
const POSITION_MAX: usize = 255;

/// A column of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    /// Counted from 0.
    Position(usize),
    /// A column as the header line spells it.
    Named(String),
}

/// A column whose numbers count `unit` bytes or nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scaled {
    pub(crate) column: Column,
    pub(crate) unit: u64,
}

/// Unit of a request's length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Length {
    Column(Scaled),
    Fixed(u64),
}

/// Presence of a header in the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    Yes,
    No,
    Auto,
}

/// Columns of a request's parts in a text; see the module for its spelling.
///
/// ```
/// use thermocline_trace::ColumnMap;
/// let map: ColumnMap = "time=0:us,offset=lba:512,size=2:512,op=3".parse().unwrap();
/// assert!("time=0".parse::<ColumnMap>().is_err()); // where is the offset?
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnMap {
    pub(crate) separator: u8,
    pub(crate) header: Header,
    pub(crate) time: Option<Scaled>,
    pub(crate) offset: Scaled,
    pub(crate) length: Length,
    pub(crate) response: Option<Scaled>,
    pub(crate) op: Option<Column>,
    pub(crate) volume: Option<Column>,
    pub(crate) hashes: Option<Column>,
    pub(crate) words: Vec<(String, Op)>,
}

/// A column map that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column map: {problem}; write it like time=0:us,offset=1:512,size=2:512,op=3,volume=4")]
pub struct ParseColumnMapError {
    /// The fault in it.
    pub problem: String,
}

fn wrong(problem: String) -> ParseColumnMapError {
    ParseColumnMapError { problem }
}

/// The entries of a map as they are read.
#[derive(Default)]
struct Entries {
    separator: Option<u8>,
    header: Option<Header>,
    time: Option<Scaled>,
    offset: Option<Scaled>,
    length: Option<Length>,
    response: Option<Scaled>,
    op: Option<Column>,
    volume: Option<Column>,
    hashes: Option<Column>,
    words: Vec<(String, Op)>,
}

impl FromStr for ColumnMap {
    type Err = ParseColumnMapError;

    fn from_str(text: &str) -> Result<ColumnMap, ParseColumnMapError> {
        let mut entries = Entries::default();
        for entry in text.split(',').filter(|entry| !entry.trim().is_empty()) {
            let (key, value) = entry
                .split_once('=')
                .ok_or_else(|| wrong(format!("`{entry}` is not key=value")))?;
            entries.take(key.trim(), value.trim())?;
        }
        entries.finish()
    }
}

/// Puts a value in its place, once.
fn set<T>(place: &mut Option<T>, key: &str, value: T) -> Result<(), ParseColumnMapError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(wrong(format!("`{key}` is given twice"))),
    }
}

impl Entries {
    fn take(&mut self, key: &str, value: &str) -> Result<(), ParseColumnMapError> {
        match key {
            "sep" => set(&mut self.separator, key, separator(value)?),
            "header" => set(&mut self.header, key, header(value)?),
            "time" => set(&mut self.time, key, scaled(value, time_unit, 1_000_000_000)?),
            "response" => set(&mut self.response, key, scaled(value, time_unit, 1_000_000_000)?),
            "offset" => set(&mut self.offset, key, scaled(value, byte_unit, 1)?),
            "size" => set(&mut self.length, key, length(value)?),
            "op" => set(&mut self.op, key, column(value)?),
            "volume" => set(&mut self.volume, key, column(value)?),
            "hashes" => set(&mut self.hashes, key, column(value)?),
            "read" => self.take_words(Op::Read, value),
            "write" => self.take_words(Op::Write, value),
            "flush" => self.take_words(Op::Flush, value),
            "trim" => self.take_words(Op::Trim, value),
            _ => Err(wrong(format!(
                "`{key}` is none of offset, size, time, op, volume, response, hashes, sep, header, \
                 read, write, flush, trim"
            ))),
        }
    }

    fn take_words(&mut self, op: Op, value: &str) -> Result<(), ParseColumnMapError> {
        for word in value.split('|') {
            let word = word.trim().to_ascii_lowercase();
            if word.is_empty() || self.words.iter().any(|(known, _)| *known == word) {
                return Err(wrong(format!("the op word `{word}` is empty or given twice")));
            }
            self.words.push((word, op));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ColumnMap, ParseColumnMapError> {
        const USUAL: [(&str, Op); 10] = [
            ("r", Op::Read),
            ("read", Op::Read),
            ("w", Op::Write),
            ("write", Op::Write),
            ("f", Op::Flush),
            ("flush", Op::Flush),
            ("t", Op::Trim),
            ("trim", Op::Trim),
            ("d", Op::Trim),
            ("discard", Op::Trim),
        ];
        for (word, op) in USUAL {
            if !self.words.iter().any(|(known, _)| known == word) {
                self.words.push((word.to_string(), op));
            }
        }
        let map = ColumnMap {
            separator: self.separator.unwrap_or(b','),
            header: self.header.unwrap_or(Header::Auto),
            time: self.time,
            offset: self.offset.ok_or_else(|| wrong("`offset` is missing".to_string()))?,
            length: self.length.ok_or_else(|| wrong("`size` is missing".to_string()))?,
            response: self.response,
            op: self.op,
            volume: self.volume,
            hashes: self.hashes,
            words: self.words,
        };
        if map.header == Header::No && map.uses_names() {
            return Err(wrong("columns have names but `header=no` denies them".to_string()));
        }
        Ok(map)
    }
}

impl ColumnMap {
    /// The map of the CSV that this project writes, told by its header line.
    pub(crate) fn of_own_header(line: &[u8]) -> Option<ColumnMap> {
        let behind = line.strip_prefix(crate::write::HEADER.as_bytes())?;
        let hashes = match behind {
            b"" => "",
            b",hashes" => ",hashes=hashes",
            _ => return None,
        };
        let map = format!("{}{hashes},header=yes", crate::write::COLUMNS);
        map.parse().ok()
    }

    /// All columns it uses.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        let length = match &self.length {
            Length::Column(scaled) => Some(&scaled.column),
            Length::Fixed(_) => None,
        };
        [
            self.time.as_ref().map(|scaled| &scaled.column),
            Some(&self.offset.column),
            length,
            self.response.as_ref().map(|scaled| &scaled.column),
            self.op.as_ref(),
            self.volume.as_ref(),
            self.hashes.as_ref(),
        ]
        .into_iter()
        .flatten()
    }

    /// True if a column is given by its name.
    pub(crate) fn uses_names(&self) -> bool {
        self.columns().any(|column| matches!(column, Column::Named(_)))
    }
}

fn separator(value: &str) -> Result<u8, ParseColumnMapError> {
    match value {
        "comma" => Ok(b','),
        "tab" => Ok(b'\t'),
        "semicolon" | ";" => Ok(b';'),
        "pipe" | "|" => Ok(b'|'),
        "blank" => Ok(b' '),
        _ => Err(wrong(format!("`{value}` is none of comma, tab, semicolon, pipe, blank"))),
    }
}

fn header(value: &str) -> Result<Header, ParseColumnMapError> {
    match value {
        "yes" => Ok(Header::Yes),
        "no" => Ok(Header::No),
        "auto" => Ok(Header::Auto),
        _ => Err(wrong(format!("`header={value}` is none of yes, no, auto"))),
    }
}

fn column(value: &str) -> Result<Column, ParseColumnMapError> {
    if value.is_empty() {
        return Err(wrong("a column is missing".to_string()));
    }
    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Column::Named(value.to_string()));
    }
    match value.parse() {
        Ok(position) if position <= POSITION_MAX => Ok(Column::Position(position)),
        _ => Err(wrong(format!("there is no column {value}; the last may be {POSITION_MAX}"))),
    }
}

/// `column` or `column:unit`.
fn scaled(
    value: &str,
    unit_of: fn(&str) -> Option<u64>,
    usual: u64,
) -> Result<Scaled, ParseColumnMapError> {
    let Some((name, unit)) = value.rsplit_once(':') else {
        return Ok(Scaled { column: column(value)?, unit: usual });
    };
    let unit = unit_of(unit).ok_or_else(|| wrong(format!("`{unit}` in `{value}` is no unit")))?;
    Ok(Scaled { column: column(name)?, unit })
}

fn length(value: &str) -> Result<Length, ParseColumnMapError> {
    match value.strip_prefix("fixed:") {
        Some(size) => byte_unit(size)
            .map(Length::Fixed)
            .ok_or_else(|| wrong(format!("`{size}` is not a size like 4KiB"))),
        None => Ok(Length::Column(scaled(value, byte_unit, 1)?)),
    }
}

fn byte_unit(text: &str) -> Option<u64> {
    text.parse::<Bytes>().ok().map(|bytes| bytes.0).filter(|bytes| *bytes > 0)
}

fn time_unit(text: &str) -> Option<u64> {
    match text {
        "s" => Some(1_000_000_000),
        "ms" => Some(1_000_000),
        "us" | "µs" => Some(1_000),
        "100ns" => Some(100),
        "ns" => Some(1),
        _ => None,
    }
}
