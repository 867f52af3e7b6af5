//! Buffers that direct I/O accepts: aligned to 4 KiB in memory.

use bytes::Bytes as Buffer;

/// What the strictest devices ask of addresses in memory.
pub(crate) const ALIGNMENT: usize = 4096;

/// A region of memory that direct I/O accepts: it begins at a multiple of 4 KiB.
#[derive(Debug)]
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// `length` zero bytes at an aligned address.
    pub fn zeroed(length: usize) -> Aligned {
        let bytes = vec![0; length + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Aligned { bytes, start, length }
    }

    /// A copy of `contents` at an aligned address.
    pub(crate) fn copy_of(contents: &[u8]) -> Aligned {
        let mut aligned = Aligned::zeroed(contents.len());
        aligned.as_mut_slice().copy_from_slice(contents);
        aligned
    }

    /// The region.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    /// The region as a shared buffer.
    pub fn freeze(self) -> Buffer {
        let range = self.start..self.start + self.length;
        Buffer::from(self.bytes).slice(range)
    }
}

/// Whether direct I/O takes this buffer as it is.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0
}
