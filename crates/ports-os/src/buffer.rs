//! Buffers that direct I/O accepts: aligned to 4 KiB in memory, and used again.
//!
//! A buffer that nobody holds any more goes to a store of its thread, by size class, and the next
//! one of that class is taken from there: no allocation, no clearing of memory that is about to be
//! overwritten, and no page faults. Without that a request of 1 MiB makes the C library take its
//! memory from the kernel and give it back, some hundred page faults a request, which cost more
//! than moving its contents. The store holds at most [`SPARE_MAX`] buffers a class, and at most
//! [`SPARE_BYTES_MAX`] in all.

use bytes::Bytes as Buffer;
use std::cell::RefCell;

/// Alignment in memory that the strictest devices ask for.
pub(crate) const ALIGNMENT: usize = 4096;
/// Size classes: 4 KiB, 8 KiB, … 32 MiB, the largest request that clients may send.
const CLASSES: usize = 14;
/// Buffers of a class that are kept: 16 MiB of those of 128 KiB.
const SPARE_MAX: usize = 128;
/// Bytes of all buffers that are kept: what a client has under way that keeps 64 requests of 1 MiB
/// going.
const SPARE_BYTES_MAX: usize = 64 << 20;

/// Buffers that nobody holds.
#[derive(Default)]
struct Spare {
    classes: [Vec<Vec<u8>>; CLASSES],
    bytes: usize,
}

impl Spare {
    fn take(&mut self, class: usize) -> Option<Vec<u8>> {
        let buffer = self.classes[class].pop()?;
        self.bytes -= buffer.len();
        Some(buffer)
    }

    /// Keeps a buffer, or lets it go where there are enough.
    fn put(&mut self, class: usize, buffer: Vec<u8>) {
        let fits = self.bytes + buffer.len() <= SPARE_BYTES_MAX;
        if fits && self.classes[class].len() < SPARE_MAX {
            self.bytes += buffer.len();
            self.classes[class].push(buffer);
        }
    }
}

thread_local! {
    static SPARE: RefCell<Spare> = RefCell::default();
}

/// A region of memory that direct I/O accepts: it begins at a multiple of 4 KiB.
#[derive(Debug)]
pub struct Aligned {
    /// Larger than the region by the alignment; empty only when dropped.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

/// The class that holds `length` bytes, when one does.
fn class(length: usize) -> Option<usize> {
    let class = length.div_ceil(ALIGNMENT).max(1).next_power_of_two().trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

impl Aligned {
    /// `length` bytes at an aligned address, with whatever they held before: for what will be
    /// overwritten whole.
    pub fn used(length: usize) -> Aligned {
        let spare = class(length).and_then(|class| {
            SPARE.try_with(|spare| spare.borrow_mut().take(class)).ok().flatten()
        });
        let room = class(length).map_or(length, |class| ALIGNMENT << class);
        let bytes = spare.unwrap_or_else(|| vec![0; room + ALIGNMENT]);
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Aligned { bytes, start, length }
    }

    /// `length` zero bytes at an aligned address.
    pub fn zeroed(length: usize) -> Aligned {
        let mut aligned = Aligned::used(length);
        aligned.as_mut_slice().fill(0);
        aligned
    }

    /// A copy of `contents` at an aligned address.
    pub(crate) fn copy_of(contents: &[u8]) -> Aligned {
        let mut aligned = Aligned::used(contents.len());
        aligned.as_mut_slice().copy_from_slice(contents);
        aligned
    }

    /// The region.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }

    /// The region as a shared buffer; what it stands on is used again when the last share goes.
    pub fn freeze(self) -> Buffer {
        Buffer::from_owner(self)
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        let Some(class) = class(self.length) else { return };
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().put(class, bytes));
    }
}

/// True if direct I/O takes this buffer as it is.
pub(crate) fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(ALIGNMENT) == 0
}

#[cfg(test)]
mod tests;
