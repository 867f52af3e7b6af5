//! Contents that the driver writes: sectors that name their write and their place.
//!
//! A sector is 32 times the same 16 bytes: the number of the write that made it, and where in
//! which volume it belongs. So a sector read back says which write it is of; and one that comes
//! from another place, another volume, a torn sector or nowhere is recognised as such.

use std::fmt;
use thermocline_ports::{Payload, SECTOR};

/// The upper 16 bits of the first word; contents from elsewhere lack them.
const MARK: u64 = 0x7c1d << 48;
const NUMBER: u64 = (1 << 48) - 1;
const REPEAT: usize = 16;

/// Place of a sector: its volume, by number of birth, and its place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) birth: u32,
    pub(crate) sector: u32,
}

/// Content of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    /// Zeroes throughout.
    Zeroes,
    /// This place's contents of that write.
    Write(u64),
    /// Contents of a write that belong elsewhere.
    Stray { write: u64, birth: u32, sector: u32 },
    /// Nothing that was ever written whole.
    Garbage,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Zeroes => write!(f, "zeroes"),
            Seen::Write(write) => write!(f, "write {write}"),
            Seen::Stray { write, birth, sector } => {
                write!(f, "write {write} of volume #{birth}, sector {sector}")
            }
            Seen::Garbage => write!(f, "garbage"),
        }
    }
}

/// Contents for `sectors` sectors from `first` on.
pub(crate) fn payload(write: u64, first: Place, sectors: u32) -> Payload {
    let mut bytes = Vec::with_capacity((sectors * SECTOR) as usize);
    for sector in first.sector..first.sector + sectors {
        let mut stamp = [0; REPEAT];
        stamp[..8].copy_from_slice(&(MARK | write & NUMBER).to_le_bytes());
        stamp[8..12].copy_from_slice(&first.birth.to_le_bytes());
        stamp[12..].copy_from_slice(&sector.to_le_bytes());
        for _ in 0..SECTOR as usize / REPEAT {
            bytes.extend_from_slice(&stamp);
        }
    }
    Payload::from(bytes)
}

/// Says whose the contents of one sector are that was read at `place`.
pub(crate) fn identify(bytes: &[u8], place: Place) -> Seen {
    assert_eq!(bytes.len(), SECTOR as usize);
    if bytes[REPEAT..] != bytes[..bytes.len() - REPEAT] {
        return Seen::Garbage;
    }
    let first = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let birth = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
    let sector = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
    if first == 0 && birth == 0 && sector == 0 {
        return Seen::Zeroes;
    }
    if first & !NUMBER != MARK {
        return Seen::Garbage;
    }
    let write = first & NUMBER;
    match (Place { birth, sector }) == place {
        true => Seen::Write(write),
        false => Seen::Stray { write, birth, sector },
    }
}
