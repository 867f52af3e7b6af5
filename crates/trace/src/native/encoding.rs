//! Parquet's value encodings, decoded from bytes in memory.
//!
//! Source: Apache Parquet, "Encodings" (parquet-format 2.11, Encodings.md). Every function takes
//! bytes from outside: it returns an error in words where they contradict themselves, never panics
//! and never makes more values than it was asked for. Does not know columns or pages.

/// The fault in the bytes, for the end of a sentence that names the place.
pub(super) type Problem = String;

/// A reading position in a page.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes }
    }

    /// The bytes not yet taken.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            return Err(self.ends_early(count));
        };
        self.bytes = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let Some((taken, rest)) = self.bytes.split_first_chunk() else {
            return Err(self.ends_early(N));
        };
        self.bytes = rest;
        Ok(*taken)
    }

    #[cold]
    fn ends_early(&self, count: usize) -> Problem {
        let left = self.bytes.len();
        format!("a page ends early: {count} more bytes were promised, {left} are left")
    }

    pub(super) fn u8(&mut self) -> Result<u8, Problem> {
        self.array().map(u8::from_le_bytes)
    }

    /// A length of four little-endian bytes.
    pub(super) fn length(&mut self) -> Result<usize, Problem> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    /// An unsigned LEB128 number.
    fn varint(&mut self) -> Result<u64, Problem> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a variable-length number is longer than 64 bits".to_string())
    }

    /// A signed number, zigzag over LEB128.
    fn zigzag(&mut self) -> Result<i64, Problem> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }
}

/// Reads the `width` bits (≤ 64) that start at bit `position`, least significant first. The caller
/// guarantees that they lie within `bytes`.
#[inline(always)]
fn bits(bytes: &[u8], position: usize, width: u32) -> u64 {
    let (byte, shift) = (position / 8, (position % 8) as u32);
    if width <= 56
        && let Some(near) = bytes.get(byte..).and_then(|tail| tail.first_chunk::<8>())
    {
        return (u64::from_le_bytes(*near) >> shift) & ((1 << width) - 1);
    }
    let mut window = [0u8; 16];
    let tail = bytes.get(byte..).unwrap_or_default();
    match window.get_mut(..tail.len()) {
        Some(place) => place.copy_from_slice(tail),
        None => window = *tail.first_chunk().unwrap_or(&window),
    }
    let value = u128::from_le_bytes(window) >> shift;
    (value & ((1u128 << width) - 1)) as u64
}

/// Values of a bit-packed group.
const GROUP: usize = 8;

/// A piece of what the RLE/bit-packed hybrid holds.
pub(super) enum Piece<'a> {
    /// One value, so many times.
    Run(u32, usize),
    /// Different values, at most eight.
    Values(&'a [u32]),
}

/// Decodes `count` numbers of `width` bits from the RLE/bit-packed hybrid, in pieces.
pub(super) fn hybrid(
    cursor: &mut Cursor<'_>,
    width: u32,
    count: usize,
    mut out: impl FnMut(Piece<'_>),
) -> Result<(), Problem> {
    if width > 32 {
        return Err(format!("a bit width of {width}; at most 32 is possible"));
    }
    let mut left = count;
    while left > 0 {
        let header = cursor.varint()?;
        let length = usize::try_from(header >> 1).unwrap_or(usize::MAX);
        if length == 0 {
            return Err("a run of no values".to_string());
        }
        if header & 1 == 0 {
            let value = bits(cursor.take((width as usize).div_ceil(8))?, 0, width) as u32;
            out(Piece::Run(value, length.min(left)));
            left -= length.min(left);
            continue;
        }
        // Groups of eight; the last group of a page may be padded, or cut off behind its last
        // value.
        let values = length.saturating_mul(GROUP).min(left);
        let promised = length.saturating_mul(width as usize);
        let needed = (values * width as usize).div_ceil(8);
        let packed = cursor.take(promised.min(cursor.rest().len()).max(needed))?;
        for group in 0..values.div_ceil(GROUP) {
            let some = GROUP.min(values - group * GROUP);
            let start = group * width as usize;
            let values = unpacked(packed.get(start..).unwrap_or_default(), width, some);
            out(Piece::Values(values.get(..some).unwrap_or_default()));
        }
        left -= values;
    }
    Ok(())
}

/// The first `some` of the eight numbers of `width` bits at the start of `packed`.
#[inline(always)]
fn unpacked(packed: &[u8], width: u32, some: usize) -> [u32; GROUP] {
    if width <= 8
        && let Some(near) = packed.first_chunk::<8>()
    {
        // All eight lie in one word.
        let word = u64::from_le_bytes(*near);
        let mask = (1u64 << width) - 1;
        return std::array::from_fn(|index| ((word >> (index as u32 * width)) & mask) as u32);
    }
    let mut values = [0; GROUP];
    for (index, value) in values.get_mut(..some).unwrap_or_default().iter_mut().enumerate() {
        *value = bits(packed, index * width as usize, width) as u32;
    }
    values
}

/// Values of a block of DELTA_BINARY_PACKED at most; writers use 128 or 256.
const DELTA_BLOCK_VALUES_MAX: u64 = 1 << 16;

/// Decodes DELTA_BINARY_PACKED: `count` numbers exactly.
pub(super) fn delta_binary_packed(
    cursor: &mut Cursor<'_>,
    count: usize,
    mut out: impl FnMut(i64),
) -> Result<(), Problem> {
    let (block, miniblocks) = (cursor.varint()?, cursor.varint()?);
    let total = cursor.varint()?;
    let whole = (1..=block / 8).contains(&miniblocks) && block % (miniblocks * 8) == 0;
    if block > DELTA_BLOCK_VALUES_MAX || !whole {
        return Err(format!("delta blocks of {block} values in {miniblocks} parts are impossible"));
    }
    if total != count as u64 {
        return Err(format!("{total} delta-coded values where {count} were promised"));
    }
    let per_miniblock = (block / miniblocks) as usize;
    let mut value = cursor.zigzag()?;
    if count == 0 {
        return Ok(());
    }
    out(value);
    let mut left = count - 1;
    while left > 0 {
        let smallest = cursor.zigzag()?;
        let widths = cursor.take(miniblocks as usize)?;
        for &width in widths {
            if left == 0 {
                break;
            }
            if width > 64 {
                return Err(format!("a bit width of {width}; at most 64 is possible"));
            }
            let values = per_miniblock.min(left);
            let packed = cursor.take(per_miniblock / 8 * usize::from(width))?;
            for index in 0..values {
                let delta = bits(packed, index * usize::from(width), u32::from(width)) as i64;
                value = value.wrapping_add(smallest).wrapping_add(delta);
                out(value);
            }
            left -= values;
        }
        if per_miniblock == 0 {
            return Err("delta blocks without values".to_string());
        }
    }
    Ok(())
}

/// Puts BYTE_STREAM_SPLIT together again: `count` values of `width` bytes, plain. The streams hold
/// the values' first bytes, then their second bytes, and so on.
pub(super) fn joined_streams(
    cursor: &mut Cursor<'_>,
    width: usize,
    count: usize,
) -> Result<Vec<u8>, Problem> {
    let streams = cursor.take(width.saturating_mul(count))?;
    let mut joined = vec![0; streams.len()];
    for (byte, stream) in streams.chunks_exact(count.max(1)).enumerate() {
        let places = joined.iter_mut().skip(byte).step_by(width);
        places.zip(stream).for_each(|(place, piece)| *place = *piece);
    }
    Ok(joined)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
