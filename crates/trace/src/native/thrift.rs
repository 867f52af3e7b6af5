//! A walk over a Parquet footer before the library decodes it.
//!
//! The footer is Thrift in its compact protocol. The library skips fields that it does not know,
//! and a list of booleans costs it a step an element but not a byte: a few forged bytes keep it
//! busy for minutes. Here every element must have its byte, so the walk, and then the library,
//! takes time in proportion to the footer. Checks shape only; what the fields mean is the
//! library's.

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
    Walk { rest: footer }.structure(DEPTH_MAX)
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
        let count = usize::try_from(count).ok().filter(|count| *count <= self.rest.len());
        self.rest = &self.rest[count.ok_or("a value reaches beyond its end")?..];
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

    fn structure(&mut self, depth: u32) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its values are nested too deeply")?;
        loop {
            let head = self.byte()?;
            if head == 0 {
                return Ok(());
            }
            if head >> 4 == 0 {
                self.varint()?; // the field's number, when it is not given as a step
            }
            let kind = head & 0xf;
            if !BOOLEANS.contains(&kind) {
                self.value(kind, depth)?;
            }
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
            kind if LISTS.contains(&kind) => self.list(depth),
            MAP => self.map(depth),
            STRUCT => self.structure(depth),
            _ => Err("it has a value of an unknown kind"),
        }
    }

    fn list(&mut self, depth: u32) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its values are nested too deeply")?;
        let head = self.byte()?;
        let count = if head >> 4 == 0xf { self.varint()? } else { u64::from(head >> 4) };
        self.elements(&[head & 0xf], count, depth)
    }

    fn map(&mut self, depth: u32) -> Result<(), &'static str> {
        let depth = depth.checked_sub(1).ok_or("its values are nested too deeply")?;
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.elements(&[kinds >> 4, kinds & 0xf], count, depth)
    }

    /// `count` groups of values of these kinds.
    fn elements(&mut self, kinds: &[u8], count: u64, depth: u32) -> Result<(), &'static str> {
        if count == 0 {
            return Ok(());
        }
        if kinds.iter().any(|kind| BOOLEANS.contains(kind)) {
            return Err("it has a list of booleans, which no footer has");
        }
        if count > self.rest.len() as u64 {
            return Err("a list has more elements than bytes");
        }
        for _ in 0..count {
            for kind in kinds {
                self.value(*kind, depth)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
