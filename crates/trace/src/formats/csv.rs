//! Any text with columns, described by a [`ColumnMap`].
//!
//! Fields may stand in double quotes, which then hide separators; a quote inside is doubled, as
//! RFC 4180 has it, and a line end inside is not supported. With `blank` as separator, several in
//! a row count as one. Numbers of time, response, offset and size may have a fraction; offset and
//! size must come to whole bytes. When
//! columns have names, the first line must be the header; otherwise it is taken for one when its
//! offset is no number. Where there is a column of content hashes the file's order is kept,
//! otherwise requests are sorted within the window.

use super::Problem;
use super::arc::NO_TIMES;
use super::capture::hex_into;
use super::columns::{Column, ColumnMap, Header, Length, Scaled};
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, bytes_field, fraction, fraction_field, split_around};
use crate::order::OrderRule;
use crate::request::{ContentHash, HashRange, Op, Request};
use std::borrow::Cow;
use thermocline_units::Nanos;

/// Hexadecimal digits of a content hash.
const HASH_DIGITS_MAX: usize = 32;

/// Columns a line may have; what stands behind them is not looked at.
const COLUMNS_MAX: usize = 256;

/// Parser of a text with columns.
#[derive(Debug)]
pub(crate) struct Csv {
    map: ColumnMap,
    volume: String,
    header_done: bool,
    requests: u64,
}

impl Csv {
    pub(crate) fn new(map: ColumnMap, volume: String) -> Csv {
        let header_done = map.header == Header::No;
        Csv { map, volume, header_done, requests: 0 }
    }

    /// Replaces names by positions, from the header line.
    fn resolve(&mut self, header: &Fields<'_>) -> Result<(), Problem> {
        let position = |column: &mut Column| -> Result<(), Problem> {
            if let Column::Named(name) = column {
                let is_it = |field: &&[u8]| field.eq_ignore_ascii_case(name.as_bytes());
                let found = header.all().iter().position(is_it);
                let Some(index) = found else {
                    let names: Vec<String> = header
                        .all()
                        .iter()
                        .take(NAMES_SHOWN)
                        .map(|name| Excerpt(name).to_string())
                        .collect();
                    let names = names.join(", ");
                    return Err(Problem::new(format!(
                        "the header has no column `{name}`; it has {names}"
                    )));
                };
                *column = Column::Position(index);
            }
            Ok(())
        };
        let map = &mut self.map;
        position(&mut map.offset.column)?;
        if let Length::Column(scaled) = &mut map.length {
            position(&mut scaled.column)?;
        }
        for scaled in [&mut map.time, &mut map.response].into_iter().flatten() {
            position(&mut scaled.column)?;
        }
        for column in [&mut map.op, &mut map.volume, &mut map.hashes].into_iter().flatten() {
            position(column)?;
        }
        Ok(())
    }

    /// True if the first line is the header, as far as the map leaves it open.
    fn opens_with_header(&self, first: &Fields<'_>) -> bool {
        match self.map.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => {
                self.map.uses_names()
                    || first
                        .at(&self.map.offset.column)
                        .is_some_and(|field| !field.is_empty() && fraction(field, 1).is_none())
            }
        }
    }

    fn op(&self, fields: &Fields<'_>) -> Result<Op, Problem> {
        let Some(column) = &self.map.op else { return Ok(Op::Read) };
        let word = fields.required("the op", column)?;
        self.map
            .words
            .iter()
            .find(|(known, _)| word.eq_ignore_ascii_case(known.as_bytes()))
            .map(|(_, op)| *op)
            .ok_or_else(|| {
                Problem::new(format!(
                    "the op word `{}` is not known; say what it means, like read={0}",
                    Excerpt(word)
                ))
            })
    }
}

/// Column names shown in a message.
const NAMES_SHOWN: usize = 12;

/// The fields of one line.
struct Fields<'a> {
    places: [&'a [u8]; COLUMNS_MAX],
    count: usize,
}

impl<'a> Fields<'a> {
    fn of(line: &'a [u8], separator: u8) -> Result<Fields<'a>, Problem> {
        let mut fields = Fields { places: [&[]; COLUMNS_MAX], count: 0 };
        let mut rest = Some(line);
        for place in &mut fields.places {
            let Some(text) = rest else { break };
            let text = match separator {
                b'\t' => text,
                _ => text.trim_ascii_start(),
            };
            if text.is_empty() && separator == b' ' {
                break;
            }
            let (field, tail) = match text {
                [b'"', inner @ ..] => quoted(inner, separator)?,
                _ => {
                    let end = memchr::memchr(separator, text);
                    match end.and_then(|end| split_around(text, end)) {
                        Some((field, tail)) => (field.trim_ascii(), Some(tail)),
                        None => (text.trim_ascii(), None),
                    }
                }
            };
            *place = field;
            fields.count += 1;
            rest = tail;
        }
        Ok(fields)
    }

    fn all(&self) -> &[&'a [u8]] {
        self.places.get(..self.count).unwrap_or_default()
    }

    fn at(&self, column: &Column) -> Option<&'a [u8]> {
        match column {
            Column::Position(index) => self.all().get(*index).copied(),
            Column::Named(_) => None,
        }
    }

    fn required(&self, what: &str, column: &Column) -> Result<&'a [u8], Problem> {
        match (self.at(column), column) {
            (Some(field), _) => Ok(field),
            (None, Column::Position(index)) => Err(Problem::new(format!(
                "{what} is missing: the line has {} columns and it should be column {index}, \
                 counted from 0",
                self.count
            ))),
            (None, Column::Named(name)) => {
                Err(Problem::new(format!("there is no header with a column `{name}`")))
            }
        }
    }

    fn time(&self, what: &str, scaled: &Scaled) -> Result<u64, Problem> {
        fraction_field(what, self.required(what, &scaled.column)?, scaled.unit)
    }

    fn bytes(&self, what: &str, scaled: &Scaled) -> Result<u64, Problem> {
        bytes_field(what, self.required(what, &scaled.column)?, scaled.unit)
    }
}

/// Text in quotes up to the closing one, and the text behind the separator that follows.
fn quoted(inner: &[u8], separator: u8) -> Result<(&[u8], Option<&[u8]>), Problem> {
    let mut from = 0;
    let next_quote = |from: usize| Some(from + memchr::memchr(b'"', inner.get(from..)?)?);
    while let Some((field, behind)) = next_quote(from).and_then(|end| split_around(inner, end)) {
        if behind.first() == Some(&b'"') {
            from = field.len() + 2;
            continue;
        }
        let behind = if separator == b'\t' { behind } else { behind.trim_ascii_start() };
        return match behind {
            [] => Ok((field, None)),
            [first, tail @ ..] if *first == separator => Ok((field, Some(tail))),
            tail if separator == b' ' => Ok((field, Some(tail))),
            _ => Err(Problem::new(format!(
                "a quoted field goes on behind its quote: `{}`",
                Excerpt(inner)
            ))),
        };
    }
    Err(Problem::new(format!("a quote is not closed: `{}`", Excerpt(inner))))
}

/// A field with its doubled quotes made single.
fn unquoted(field: &[u8]) -> Cow<'_, [u8]> {
    if !field.windows(2).any(|pair| pair == b"\"\"") {
        return Cow::Borrowed(field);
    }
    let mut plain = Vec::with_capacity(field.len());
    let mut bytes = field.iter().peekable();
    while let Some(byte) = bytes.next() {
        plain.push(*byte);
        if *byte == b'"' {
            bytes.next_if(|next| **next == b'"');
        }
    }
    Cow::Owned(plain)
}

/// Appends the hashes of a field, hexadecimal and joined by `;`.
fn take_hashes(field: &[u8], hashes: &mut Vec<ContentHash>) -> Result<HashRange, Problem> {
    let start = hashes.len() as u32;
    for digits in field.split(|byte| *byte == b';').filter(|digits| !digits.is_empty()) {
        if digits.len() > HASH_DIGITS_MAX || !digits.len().is_multiple_of(2) {
            return Err(Problem::new(format!(
                "the hash `{}` has {} digits; it may have {HASH_DIGITS_MAX}, in pairs",
                Excerpt(digits),
                digits.len()
            )));
        }
        let mut hash = ContentHash::default();
        hex_into(digits, &mut hash.0)?;
        hashes.push(hash);
    }
    Ok(HashRange { start, count: hashes.len() as u32 - start })
}

impl LineFormat for Csv {
    fn layout(&self) -> &str {
        "columns as the column map says"
    }

    fn order(&self) -> OrderRule {
        if self.map.hashes.is_some() {
            OrderRule::Steady(Nanos(0))
        } else {
            OrderRule::Window(Nanos(0))
        }
    }

    fn is_header(&self, _line: &[u8]) -> bool {
        false
    }

    fn repairs(&self, repairs: &mut Vec<String>) {
        if self.map.time.is_none() {
            repairs.push(NO_TIMES.to_string());
        }
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let fields = Fields::of(line, self.map.separator)?;
        if !self.header_done {
            self.header_done = true;
            if self.opens_with_header(&fields) {
                self.resolve(&fields)?;
                return Ok(None);
            }
        }
        let op = self.op(&fields)?;
        let (offset, length) = match (&self.map.length, op) {
            (_, Op::Flush) => (0, 0),
            (Length::Fixed(length), _) => (fields.bytes("the offset", &self.map.offset)?, *length),
            (Length::Column(scaled), _) => {
                (fields.bytes("the offset", &self.map.offset)?, fields.bytes("the size", scaled)?)
            }
        };
        let time = match &self.map.time {
            Some(scaled) => fields.time("the time", scaled)?,
            None => self.requests,
        };
        let volume = match &self.map.volume {
            Some(column) => {
                let name = unquoted(fields.required("the volume", column)?);
                context.volumes.id_of(&name)?
            }
            None => context.volumes.id_of(self.volume.as_bytes())?,
        };
        let mut found = request(time, volume, op, offset, length);
        if let Some(scaled) = &self.map.response {
            let field = fields.required("the response time", &scaled.column)?;
            if !field.is_empty() {
                let response = fraction_field("the response time", field, scaled.unit)?;
                found.response = (response > 0).then_some(Nanos(response));
            }
        }
        if let Some(column) = &self.map.hashes {
            let field = fields.required("the column of hashes", column)?;
            found.hashes = take_hashes(field, context.hashes)?;
        }
        self.requests += 1;
        Ok(Some(found))
    }
}
