//! Names of blocks: by contents, and by number.

use std::fmt;

/// Bytes of a block.
pub const BLOCK: u32 = 4096;

/// The name of a block's contents: their BLAKE3-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub [u8; 32]);

impl ContentId {
    /// The name of `contents`; 4 KiB take about 1.5 µs.
    pub fn of(contents: &[u8]) -> ContentId {
        ContentId(*blake3::hash(contents).as_bytes())
    }

    /// The first eight bytes, mixed with the domain: what indices hold. Equal contents of two
    /// domains have nothing in common there. Only the first `bits` count.
    pub(crate) fn short(&self, domain: Domain, bits: u8) -> u64 {
        let head = u64::from_le_bytes(self.0[..8].try_into().expect("eight of 32 bytes"));
        let mixed = head ^ u64::from(domain.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed & !(u64::MAX.checked_shr(u32::from(bits)).unwrap_or(0))
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "…")
    }
}

/// A stored block by number: eight bytes that stand for its [`ContentId`] as long as the block is
/// stored. A number is used again after its block was swept, with a higher generation, so a name
/// of a former block never meets a later one's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId {
    /// Number of the block, from 1.
    pub number: u32,
    /// Sweeps and openings of the store before the number was given.
    pub generation: u32,
}

/// A set of volumes that may know of each other's contents: a tenant. Blocks are shared within one
/// domain only, also when another holds the same contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Domain(pub u32);
