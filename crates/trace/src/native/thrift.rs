//! A walk over a Parquet footer before the library decodes it.
//!
//! The footer is Thrift in its compact protocol. The library skips fields that it does not know,
//! and a list of booleans costs it a step an element but not a byte: a few forged bytes keep it
//! busy for minutes. Here every element must have its byte, and known fields (`shape.rs`) the kind
//! that the library reads them as, so that both walk the same values; the walk, and then the
//! library, takes time in proportion to the footer. What the fields mean is the library's.

mod shape;

use shape::{Kind, Shape};

/// Nested values at most; the library stops there as well.
const DEPTH_MAX: u32 = 64;

const BOOLEANS: [u8; 2] = [1, 2];
const BYTE: u8 = 3;
const VARINTS: [u8; 3] = [4, 5, 6];
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LISTS: [u8; 2] = [9, 10];
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Walks the one struct that `footer` holds.
///
/// # Errors
/// Says what cannot be: a value that is cut off, more elements than bytes, deep nesting.
pub(super) fn check(footer: &[u8]) -> Result<(), &'static str> {
    Walk { rest: footer }.structure(shape::FILE, DEPTH_MAX)
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, &'static str> {
        let (first, rest) = self.rest.split_first().ok_or("it is cut off")?;
        self.rest = rest;
        Ok(*first)
    }

    fn skip(&mut self, count: u64) -> Result<(), &'static str> {
        let count = usize::try_from(count).ok();
        let rest = count.and_then(|count| self.rest.get(count..));
        self.rest = rest.ok_or("a value reaches beyond its end")?;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a number is longer than ten bytes")
    }

    fn structure(&mut self, known: Shape, depth: u32) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its values are nested too deeply")?;
        let mut number = 0_u64;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            number = match head >> 4 {
                0 => {
                    let zigzag = self.varint()?;
                    (zigzag >> 1) ^ (zigzag & 1).wrapping_neg()
                }
                step => number.wrapping_add(step.into()),
            } & 0xffff;
            let kind = head & 0xf;
            let wanted = known.iter().find(|(field, _)| *field == number).map(|(_, kind)| *kind);
            if let Some(wanted) = wanted {
                self.known(wanted, kind, depth)?;
            } else if !BOOLEANS.contains(&kind) {
                self.value(kind, depth)?;
            }
        }
    }

    /// A value that must be of the wanted kind.
    fn known(&mut self, wanted: Kind, kind: u8, depth: u32) -> Result<(), &'static str> {
        let alike = match wanted {
            Kind::Boolean => BOOLEANS.contains(&kind),
            Kind::Byte => kind == BYTE,
            Kind::Number => VARINTS.contains(&kind),
            Kind::Double => kind == DOUBLE,
            Kind::Binary => kind == BINARY,
            Kind::Struct(_) => kind == STRUCT,
            Kind::List(_) => LISTS.contains(&kind),
        };
        if !alike {
            return Err("a field is of another kind than the format gives it");
        }
        match wanted {
            Kind::Boolean => Ok(()),
            Kind::Struct(shape) => self.structure(shape, depth),
            Kind::List(element) => self.list(Some(*element), depth),
            _ => self.value(kind, depth),
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Result<(), &'static str> {
        match kind {
            BYTE => self.skip(1),
            kind if VARINTS.contains(&kind) => self.varint().map(|_| ()),
            DOUBLE => self.skip(8),
            BINARY => {
                let length = self.varint()?;
                self.skip(length)
            }
            kind if LISTS.contains(&kind) => self.list(None, depth),
            MAP => self.map(depth),
            STRUCT => self.structure(&[], depth),
            _ => Err("it has a value of an unknown kind"),
        }
    }

    fn list(&mut self, wanted: Option<Kind>, depth: u32) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its values are nested too deeply")?;
        let head = self.byte()?;
        let count = if head >> 4 == 0xf { self.varint()? } else { u64::from(head >> 4) };
        self.elements(&[(head & 0xf, wanted)], count, depth)
    }

    fn map(&mut self, depth: u32) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its values are nested too deeply")?;
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.elements(&[(kinds >> 4, None), (kinds & 0xf, None)], count, depth)
    }

    /// `count` groups of values of these kinds.
    fn elements(
        &mut self,
        kinds: &[(u8, Option<Kind>)],
        count: u64,
        depth: u32,
    ) -> Result<(), &'static str> {
        if count == 0 {
            return Ok(());
        }
        if kinds.iter().any(|(kind, _)| BOOLEANS.contains(kind)) {
            return Err("it has a list of booleans, which no footer has");
        }
        if count > self.rest.len() as u64 {
            return Err("a list has more elements than bytes");
        }
        for _ in 0..count {
            for (kind, wanted) in kinds {
                match wanted {
                    Some(wanted) => self.known(*wanted, *kind, depth)?,
                    None => self.value(*kind, depth)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
