//! Fields of structures on disk, by offset, in either byte order.
//!
//! Invariant: never panics. A field that reaches beyond the bytes reads as zero, which is what an
//! absent field means in all three formats; where zero would mislead, the reader checks the length
//! of the structure first.

/// A structure whose numbers are little-endian: ext, btrfs, partition tables.
#[derive(Clone, Copy)]
pub(crate) struct Little<'a>(pub(crate) &'a [u8]);

/// A structure whose numbers are big-endian: XFS, the journal of ext.
#[derive(Clone, Copy)]
pub(crate) struct Big<'a>(pub(crate) &'a [u8]);

/// Bytes from `at` on; empty beyond the end.
pub(crate) fn rest(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// `length` bytes from `at`; empty when they are not all there.
pub(crate) fn piece(bytes: &[u8], at: usize, length: usize) -> &[u8] {
    at.checked_add(length).and_then(|end| bytes.get(at..end)).unwrap_or_default()
}

fn fixed<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    piece(bytes, at, N).try_into().unwrap_or([0; N])
}

impl Little<'_> {
    pub(crate) fn u8(self, at: usize) -> u8 {
        fixed::<1>(self.0, at)[0]
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(fixed(self.0, at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(fixed(self.0, at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(fixed(self.0, at))
    }

    /// A number in two halves: low 32 bits at `low`, high ones at `high`.
    pub(crate) fn halves(self, low: usize, high: usize) -> u64 {
        u64::from(self.u32(low)) | u64::from(self.u32(high)) << 32
    }

    pub(crate) fn id(self, at: usize) -> [u8; 16] {
        fixed(self.0, at)
    }
}

impl Big<'_> {
    pub(crate) fn u8(self, at: usize) -> u8 {
        fixed::<1>(self.0, at)[0]
    }

    pub(crate) fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes(fixed(self.0, at))
    }

    pub(crate) fn u32(self, at: usize) -> u32 {
        u32::from_be_bytes(fixed(self.0, at))
    }

    pub(crate) fn u64(self, at: usize) -> u64 {
        u64::from_be_bytes(fixed(self.0, at))
    }

    pub(crate) fn id(self, at: usize) -> [u8; 16] {
        fixed(self.0, at)
    }
}
