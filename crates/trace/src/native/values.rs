//! Decoding of a column's values: to numbers, interned names, content hashes.
//!
//! One implementation of [`Decode`] for each physical type that a trace's columns may have. Numbers
//! are `i64` throughout; [`MISSING`] stands for a NaN, which is how pandas writes a null in a
//! column of numbers. Does not know pages.

use super::encoding::{Cursor, Problem};
use super::op_name;
use crate::volumes::Volumes;
use crate::{ContentHash, Op};

/// The number that stands for "none" where a float column holds NaN.
pub(super) const MISSING: i64 = i64::MIN;

/// Turns plain-encoded values into those a trace needs.
pub(super) trait Decode {
    /// Type that one value becomes.
    type Value: Copy + Default;

    /// Appends `count` plain-encoded values to `out`.
    fn plain(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: usize,
        out: &mut Vec<Self::Value>,
    ) -> Result<(), Problem>;

    /// The value of a delta-coded number; `None` where the type is not a number.
    fn number(&self, _number: i64) -> Option<Self::Value> {
        None
    }

    /// Bytes of a plain-encoded value; `None` where they vary.
    fn width(&self) -> Option<usize> {
        None
    }
}

/// Storage of a column of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// INT32, signed.
    Int32,
    /// INT32 with an unsigned logical type.
    UInt32,
    /// INT64; unsigned ones beyond `i64::MAX` become negative and are refused as out of range.
    Int64,
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
}

/// Numbers, each multiplied by `scale` (timestamps in µs or ms).
#[derive(Debug, Clone, Copy)]
pub(super) struct Number {
    pub(super) stored: Stored,
    pub(super) scale: i64,
}

impl Number {
    fn scaled(self, number: i64) -> i64 {
        number.checked_mul(self.scale).unwrap_or(MISSING)
    }

    fn whole(self, number: f64) -> Result<i64, Problem> {
        if number.is_nan() {
            return Ok(MISSING);
        }
        // Whole numbers of this size are exact in an f64; larger ones have lost their last digits.
        const EXACT_MAX: f64 = (1u64 << 53) as f64;
        if number.fract() != 0.0 || number.abs() > EXACT_MAX {
            return Err(format!("{number} is not a whole number below 2^53; store integers"));
        }
        Ok(self.scaled(number as i64))
    }
}

/// The `N`-byte pieces of the next `count` values.
fn pieces<'a, const N: usize>(
    cursor: &mut Cursor<'a>,
    count: usize,
) -> Result<impl Iterator<Item = [u8; N]> + 'a, Problem> {
    let bytes = cursor.take(count.saturating_mul(N))?;
    Ok(bytes.as_chunks::<N>().0.iter().copied())
}

impl Decode for Number {
    type Value = i64;

    fn plain(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: usize,
        out: &mut Vec<i64>,
    ) -> Result<(), Problem> {
        let this = *self;
        match this.stored {
            Stored::Int32 => out.extend(
                pieces(cursor, count)?.map(|b| this.scaled(i64::from(i32::from_le_bytes(b)))),
            ),
            Stored::UInt32 => out.extend(
                pieces(cursor, count)?.map(|b| this.scaled(i64::from(u32::from_le_bytes(b)))),
            ),
            Stored::Int64 => {
                out.extend(pieces(cursor, count)?.map(|b| this.scaled(i64::from_le_bytes(b))));
            }
            Stored::Float => {
                for bytes in pieces(cursor, count)? {
                    out.push(this.whole(f64::from(f32::from_le_bytes(bytes)))?);
                }
            }
            Stored::Double => {
                for bytes in pieces(cursor, count)? {
                    out.push(this.whole(f64::from_le_bytes(bytes))?);
                }
            }
        }
        Ok(())
    }

    fn number(&self, number: i64) -> Option<i64> {
        match self.stored {
            Stored::Int32 => Some(self.scaled(i64::from(number as i32))),
            Stored::UInt32 => Some(self.scaled(i64::from(number as u32))),
            Stored::Int64 => Some(self.scaled(number)),
            Stored::Float | Stored::Double => None,
        }
    }

    fn width(&self) -> Option<usize> {
        match self.stored {
            Stored::Int32 | Stored::UInt32 | Stored::Float => Some(4),
            Stored::Int64 | Stored::Double => Some(8),
        }
    }
}

/// Strings, each looked up once and known by number from then on.
pub(super) trait Vocabulary {
    /// The number of `word`.
    fn number(&mut self, word: &[u8]) -> Result<i64, Problem>;
}

/// A column of strings.
pub(super) struct Text<V>(pub(super) V);

impl<V: Vocabulary> Decode for Text<V> {
    type Value = i64;

    fn plain(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: usize,
        out: &mut Vec<i64>,
    ) -> Result<(), Problem> {
        for _ in 0..count {
            let length = cursor.length()?;
            out.push(self.0.number(cursor.take(length)?)?);
        }
        Ok(())
    }
}

impl Vocabulary for Volumes {
    fn number(&mut self, word: &[u8]) -> Result<i64, Problem> {
        self.id_of(word).map(|volume| i64::from(volume.0)).map_err(|problem| problem.to_string())
    }
}

/// Operation names; each becomes its `Op` as a number.
#[derive(Default)]
pub(super) struct OpNames;

/// The operations by their numbers.
pub(super) const OPS: [(Op, &str); 4] = [
    (Op::Read, op_name(Op::Read)),
    (Op::Write, op_name(Op::Write)),
    (Op::Flush, op_name(Op::Flush)),
    (Op::Trim, op_name(Op::Trim)),
];

impl Vocabulary for OpNames {
    fn number(&mut self, word: &[u8]) -> Result<i64, Problem> {
        let same = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        OPS.iter()
            .position(|(_, name)| same(name) || same(&name[..1]))
            .or_else(|| same("discard").then_some(Op::Trim as usize))
            .map(|index| index as i64)
            .ok_or_else(|| {
                format!("op `{}`; it is read, write, flush or trim", word.escape_ascii())
            })
    }
}

/// Content hashes: binary strings of at most 16 bytes, all `Some(n)` long or each with its length.
pub(super) struct Hashes {
    pub(super) length: Option<usize>,
}

impl Decode for Hashes {
    type Value = ContentHash;

    fn plain(
        &mut self,
        cursor: &mut Cursor<'_>,
        count: usize,
        out: &mut Vec<ContentHash>,
    ) -> Result<(), Problem> {
        for _ in 0..count {
            let length = match self.length {
                Some(length) => length,
                None => cursor.length()?,
            };
            let digest = cursor.take(length)?;
            let mut hash = ContentHash::default();
            match hash.0.get_mut(..length) {
                Some(place) => place.copy_from_slice(digest),
                None => return Err(format!("a content hash of {length} bytes; at most 16 fit")),
            }
            out.push(hash);
        }
        Ok(())
    }

    fn width(&self) -> Option<usize> {
        self.length
    }
}
