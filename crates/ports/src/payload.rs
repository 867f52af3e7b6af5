//! The bytes of a request: shared, sliced without copying, or known to be zeroes.
//!
//! A write to two replicas, or across two chunks, hands slices of one buffer to several devices; a
//! read hands the device's buffer up to whoever asked. Zeroes are a length, not a buffer: ranges
//! never written read as zeroes without I/O, and the laboratory, which has no contents, moves
//! zeroes of the right length.

use bytes::Bytes as Buffer;
use std::ops::Range;

/// Contents of a read or a write; cheap to clone and to slice.
#[derive(Debug, Clone)]
pub enum Payload {
    /// A number of zero bytes.
    Zeroes(u32),
    /// These bytes.
    Bytes(Buffer),
}

impl Payload {
    /// No bytes: what a completion without contents carries.
    pub const EMPTY: Payload = Payload::Zeroes(0);

    /// Number of bytes.
    pub fn len(&self) -> u32 {
        match self {
            Payload::Zeroes(length) => *length,
            Payload::Bytes(bytes) => u32::try_from(bytes.len()).expect("requests are below 4 GiB"),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in `range`, without copying.
    ///
    /// # Panics
    /// When the range ends beyond the payload.
    pub fn slice(&self, range: Range<u32>) -> Payload {
        assert!(range.start <= range.end && range.end <= self.len(), "slice beyond the payload");
        match self {
            Payload::Zeroes(_) => Payload::Zeroes(range.end - range.start),
            Payload::Bytes(bytes) => {
                Payload::Bytes(bytes.slice(range.start as usize..range.end as usize))
            }
        }
    }

    /// Copies into `target`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy_to(&self, target: &mut [u8]) {
        match self {
            Payload::Zeroes(length) => {
                assert_eq!(*length as usize, target.len(), "lengths differ");
                target.fill(0);
            }
            Payload::Bytes(bytes) => target.copy_from_slice(bytes),
        }
    }

    /// The contents as a buffer; zeroes are written out.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Payload::Zeroes(length) => vec![0; *length as usize],
            Payload::Bytes(bytes) => bytes.to_vec(),
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Payload {
        Payload::Bytes(Buffer::from(bytes))
    }
}

impl PartialEq for Payload {
    /// Equal contents; how they are held does not matter.
    fn eq(&self, other: &Payload) -> bool {
        match (self, other) {
            (Payload::Zeroes(a), Payload::Zeroes(b)) => a == b,
            (Payload::Bytes(a), Payload::Bytes(b)) => a == b,
            (Payload::Zeroes(length), Payload::Bytes(bytes))
            | (Payload::Bytes(bytes), Payload::Zeroes(length)) => {
                bytes.len() == *length as usize && bytes.iter().all(|&byte| byte == 0)
            }
        }
    }
}

impl Eq for Payload {}
