//! One column of one row group, page by page.
//!
//! Invariants: a page is decoded whole into buffers that are reused; at most [`PAGE_VALUES_MAX`]
//! values are decoded at a time, whatever the file claims, and of lists no more are given out than
//! were asked for and the last of them holds; rows come in order. Does not know what
//! the values mean ([`super::values`]).

use super::encoding::{Cursor, Piece, Problem, delta_binary_packed, hybrid, joined_streams};
use super::values::Decode;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};

/// Values of one page at most: sixteen times the largest page that common writers make, and 128 MiB
/// of numbers. A damaged count beyond it must not make us allocate.
const PAGE_VALUES_MAX: u32 = 1 << 24;

/// A column's rows, as far as they are asked for.
pub(super) struct Column<D: Decode> {
    pub(super) decode: D,
    pages: Option<Box<dyn PageReader>>,
    max_def: u8,
    max_rep: u8,
    dictionary: Vec<D::Value>,
    /// The current page: values without nulls, and where in them we are.
    values: Vec<D::Value>,
    value_at: usize,
    /// The page's levels; `defs` is empty where no value of the page is null.
    defs: Vec<u8>,
    reps: Vec<u8>,
    /// Levels (values and nulls) of the page, and where in them we are.
    levels: usize,
    level_at: usize,
}

impl<D: Decode> Column<D> {
    /// A column without rows; `max_def` and `max_rep` are its schema's levels.
    pub(super) fn new(decode: D, max_def: u8, max_rep: u8) -> Column<D> {
        Column {
            decode,
            pages: None,
            max_def,
            max_rep,
            dictionary: Vec::new(),
            values: Vec::new(),
            value_at: 0,
            defs: Vec::new(),
            reps: Vec::new(),
            levels: 0,
            level_at: 0,
        }
    }

    /// Goes on with the pages of the next row group.
    pub(super) fn begin(&mut self, pages: Box<dyn PageReader>) {
        self.pages = Some(pages);
        self.dictionary.clear();
        (self.levels, self.level_at) = (0, 0);
    }

    /// Replaces `values` by those of the next `rows` rows; `valid` says which are not null and
    /// stays empty where none is null.
    pub(super) fn rows(
        &mut self,
        rows: usize,
        values: &mut Vec<D::Value>,
        valid: &mut Vec<bool>,
    ) -> Result<(), Problem> {
        values.clear();
        valid.clear();
        while values.len() < rows {
            if self.level_at == self.levels && !self.next_page()? {
                return Err(format!("{} rows are missing", rows - values.len()));
            }
            let count = (rows - values.len()).min(self.levels - self.level_at);
            if self.defs.is_empty() {
                let some = self.values.get(self.value_at..self.value_at + count);
                values.extend_from_slice(some.ok_or_else(fewer_values)?);
                self.value_at += count;
                if !valid.is_empty() {
                    valid.resize(values.len(), true);
                }
            } else {
                valid.resize(values.len(), true);
                self.nullable_rows(count, values, valid);
            }
            self.level_at += count;
        }
        Ok(())
    }

    fn nullable_rows(&mut self, count: usize, values: &mut Vec<D::Value>, valid: &mut Vec<bool>) {
        if self.values.is_empty() {
            values.resize(values.len() + count, D::Value::default());
            valid.resize(values.len(), false);
            return;
        }
        for def in self.defs.iter().skip(self.level_at).take(count) {
            let present = *def == self.max_def;
            let value = self.values.get(self.value_at).filter(|_| present);
            values.push(value.copied().unwrap_or_default());
            valid.push(present);
            self.value_at += usize::from(present);
        }
    }

    /// Replaces `values` by the elements of the next lists, and `counts` by each list's length: of
    /// `rows` lists, or of fewer, at least one, when those hold `most` elements already. How many
    /// lists it is, is answered.
    ///
    /// # Errors
    /// Besides damage, when one list alone has more than `most` elements.
    pub(super) fn lists(
        &mut self,
        (rows, most): (usize, usize),
        values: &mut Vec<D::Value>,
        counts: &mut Vec<u32>,
    ) -> Result<usize, Problem> {
        values.clear();
        counts.clear();
        loop {
            if self.level_at == self.levels && !self.next_page()? {
                break;
            }
            if self.reps.get(self.level_at).is_none_or(|rep| *rep == 0) {
                if counts.len() == rows || (!counts.is_empty() && values.len() >= most) {
                    return Ok(counts.len());
                }
                counts.push(0);
            }
            let present = self.defs.get(self.level_at).is_none_or(|def| *def == self.max_def);
            if present {
                let Some(count) = counts.last_mut() else {
                    return Err("a list begins in its middle".to_string());
                };
                *count += 1;
                if *count as usize > most {
                    return Err(format!("a row of more than {most} elements; split the request"));
                }
                values.push(*self.values.get(self.value_at).ok_or_else(fewer_values)?);
                self.value_at += 1;
            }
            self.level_at += 1;
        }
        match rows - counts.len() {
            0 => Ok(rows),
            missing => Err(format!("{missing} rows are missing")),
        }
    }

    /// Decodes the next data page; false at the end of the row group.
    fn next_page(&mut self) -> Result<bool, Problem> {
        let Some(pages) = &mut self.pages else { return Ok(false) };
        loop {
            let page = match pages.get_next_page() {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(false),
                Err(error) => return Err(error.to_string()),
            };
            match page {
                Page::DictionaryPage { buf, num_values, .. } => {
                    let count = bounded(num_values)?;
                    self.dictionary.clear();
                    self.decode.plain(&mut Cursor::new(&buf), count, &mut self.dictionary)?;
                }
                Page::DataPage { buf, num_values, encoding, .. } => {
                    let mut cursor = Cursor::new(&buf);
                    let count = bounded(num_values)?;
                    let reps = level_bytes(&mut cursor, self.max_rep)?;
                    let defs = level_bytes(&mut cursor, self.max_def)?;
                    self.data(count, reps, defs, encoding, cursor)?;
                    return Ok(true);
                }
                Page::DataPageV2 {
                    buf,
                    num_values,
                    encoding,
                    def_levels_byte_len,
                    rep_levels_byte_len,
                    ..
                } => {
                    let mut cursor = Cursor::new(&buf);
                    let count = bounded(num_values)?;
                    let reps = cursor.take(rep_levels_byte_len as usize)?;
                    let defs = cursor.take(def_levels_byte_len as usize)?;
                    self.data(count, reps, defs, encoding, cursor)?;
                    return Ok(true);
                }
            }
        }
    }

    /// Decodes a data page's levels and values.
    fn data(
        &mut self,
        count: usize,
        reps: &[u8],
        defs: &[u8],
        encoding: Encoding,
        cursor: Cursor<'_>,
    ) -> Result<(), Problem> {
        levels(reps, self.max_rep, count, &mut self.reps)?;
        levels(defs, self.max_def, count, &mut self.defs)?;
        let present = match self.max_def {
            0 => count,
            max => self.defs.iter().filter(|def| **def == max).count(),
        };
        if present == count {
            self.defs.clear();
        }
        (self.levels, self.level_at, self.value_at) = (count, 0, 0);
        self.values.clear();
        self.page_values(present, encoding, cursor)?;
        assert_eq!(self.values.len(), present, "a page's values were decoded to the last");
        Ok(())
    }

    fn page_values(
        &mut self,
        count: usize,
        encoding: Encoding,
        mut cursor: Cursor<'_>,
    ) -> Result<(), Problem> {
        match encoding {
            Encoding::PLAIN => self.decode.plain(&mut cursor, count, &mut self.values),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                self.dictionary_values(count, cursor)
            }
            Encoding::DELTA_BINARY_PACKED => {
                if self.decode.number(0).is_none() {
                    return Err("delta coding of what are not integers".to_string());
                }
                let (decode, values) = (&self.decode, &mut self.values);
                delta_binary_packed(&mut cursor, count, |n| values.extend(decode.number(n)))
            }
            Encoding::BYTE_STREAM_SPLIT => {
                let width = self.decode.width().ok_or("byte streams of what varies in length")?;
                let joined = joined_streams(&mut cursor, width, count)?;
                self.decode.plain(&mut Cursor::new(&joined), count, &mut self.values)
            }
            other => Err(format!(
                "the encoding {other}, which is not read here; write the file with plain or \
                 dictionary encoding"
            )),
        }
    }

    fn dictionary_values(&mut self, count: usize, mut cursor: Cursor<'_>) -> Result<(), Problem> {
        if count == 0 {
            return Ok(());
        }
        let width = u32::from(cursor.u8()?);
        let (dictionary, values) = (&self.dictionary, &mut self.values);
        let mut beyond = None;
        let mut value_of = |code: u32| {
            dictionary.get(code as usize).copied().unwrap_or_else(|| {
                beyond = Some(code);
                D::Value::default()
            })
        };
        values.reserve(count);
        hybrid(&mut cursor, width, count, |piece| match piece {
            Piece::Run(code, repeat) => values.resize(values.len() + repeat, value_of(code)),
            Piece::Values(codes) => values.extend(codes.iter().map(|code| value_of(*code))),
        })?;
        match beyond {
            None => Ok(()),
            Some(code) => Err(format!(
                "entry {code} of a dictionary that has {} entries",
                self.dictionary.len()
            )),
        }
    }
}

/// The level bytes of a version-1 page: none where the schema needs none.
fn level_bytes<'a>(cursor: &mut Cursor<'a>, max: u8) -> Result<&'a [u8], Problem> {
    if max == 0 {
        return Ok(&[]);
    }
    let length = cursor.length()?;
    cursor.take(length)
}

/// Decodes `count` levels from 0 to `max`; none where `max` is 0.
fn levels(bytes: &[u8], max: u8, count: usize, out: &mut Vec<u8>) -> Result<(), Problem> {
    out.clear();
    if max == 0 {
        return Ok(());
    }
    let width = u8::BITS - max.leading_zeros();
    let mut largest = 0;
    out.reserve(count);
    hybrid(&mut Cursor::new(bytes), width, count, |piece| match piece {
        Piece::Run(level, repeat) => {
            largest = largest.max(level);
            out.resize(out.len() + repeat, level as u8);
        }
        Piece::Values(some) => {
            largest = some.iter().copied().fold(largest, u32::max);
            out.extend(some.iter().map(|level| *level as u8));
        }
    })?;
    if largest > u32::from(max) {
        return Err(format!("a level of {largest} where {max} is the largest"));
    }
    Ok(())
}

#[cold]
fn fewer_values() -> Problem {
    "a page holds fewer values than its levels tell".to_string()
}

fn bounded(count: u32) -> Result<usize, Problem> {
    if count > PAGE_VALUES_MAX {
        return Err(format!("a page of {count} values; at most {PAGE_VALUES_MAX} are read"));
    }
    Ok(count as usize)
}
