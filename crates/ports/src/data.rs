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
pub enum Data {
    /// So many zero bytes.
    Zeroes(u32),
    /// These bytes.
    Bytes(Buffer),
}

impl Data {
    /// No bytes: what a completion without contents carries.
    pub const EMPTY: Data = Data::Zeroes(0);

    /// How many bytes.
    pub fn len(&self) -> u32 {
        match self {
            Data::Zeroes(length) => *length,
            Data::Bytes(bytes) => u32::try_from(bytes.len()).expect("requests are below 4 GiB"),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes in `range`, without copying.
    ///
    /// # Panics
    /// When the range ends beyond the data.
    pub fn slice(&self, range: Range<u32>) -> Data {
        assert!(range.start <= range.end && range.end <= self.len(), "slice beyond the data");
        match self {
            Data::Zeroes(_) => Data::Zeroes(range.end - range.start),
            Data::Bytes(bytes) => {
                Data::Bytes(bytes.slice(range.start as usize..range.end as usize))
            }
        }
    }

    /// Copies into `target`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn copy_to(&self, target: &mut [u8]) {
        match self {
            Data::Zeroes(length) => {
                assert_eq!(*length as usize, target.len(), "lengths differ");
                target.fill(0);
            }
            Data::Bytes(bytes) => target.copy_from_slice(bytes),
        }
    }

    /// The contents as a buffer; zeroes are written out.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() as usize];
        self.copy_to(&mut bytes);
        bytes
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data::Bytes(Buffer::from(bytes))
    }
}

impl PartialEq for Data {
    /// Equal contents; how they are held does not matter.
    fn eq(&self, other: &Data) -> bool {
        match (self, other) {
            (Data::Zeroes(a), Data::Zeroes(b)) => a == b,
            (Data::Bytes(a), Data::Bytes(b)) => a == b,
            (Data::Zeroes(length), Data::Bytes(bytes))
            | (Data::Bytes(bytes), Data::Zeroes(length)) => {
                bytes.len() == *length as usize && bytes.iter().all(|&byte| byte == 0)
            }
        }
    }
}

impl Eq for Data {}
