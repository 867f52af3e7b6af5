//! The bytes of a saved cache: its header, the heads of its chunks, and its end, little-endian.
//! Drawn in docs/formats/tunnel-cache.md.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use super::{SavedError, wrong};
use crate::store::{CHUNK_BYTES_MAX, Name};
use bytes::{Buf, BufMut};

const MAGIC: &[u8; 8] = b"TCTUNNEL";
const VERSION: u32 = 1;
/// Magic, version, length of the head of a chunk; two runs, seed, next name, count of chunks.
pub(super) const HEADER_BYTES: usize = 8 + 4 + 4 + 16 + 16 + 8 + 8 + 8;
/// Name, fingerprint, length with the mark of use.
pub(super) const CHUNK_HEAD_BYTES: usize = 8 + 8 + 4;
/// The checksum at the end.
pub(super) const SUM_BYTES: usize = 8;
const USED: u32 = 1 << 31;

const _: () = assert!(CHUNK_BYTES_MAX < USED as usize, "a length leaves the mark of use alone");

/// Fields of the header that differ from file to file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Run in which this end's names were given.
    pub(super) epoch: [u8; 16],
    /// Run of the other end whose names are in the file; zero: none.
    pub(super) peer_epoch: [u8; 16],
    pub(super) seed: u64,
    pub(super) next_name: u64,
    /// Number of chunks.
    pub(super) count: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = bytes.as_mut_slice();
        rest.put_slice(MAGIC);
        rest.put_u32_le(VERSION);
        rest.put_u32_le(CHUNK_HEAD_BYTES as u32);
        rest.put_slice(&self.epoch);
        rest.put_slice(&self.peer_epoch);
        for number in [self.seed, self.next_name, self.count] {
            rest.put_u64_le(number);
        }
        assert!(rest.is_empty(), "the header is full");
        bytes
    }

    /// Reads the header.
    ///
    /// # Errors
    /// When it is none, or of another version.
    pub(super) fn decode(header: &[u8; HEADER_BYTES]) -> Result<Header, SavedError> {
        let Some(mut header) = header.strip_prefix(MAGIC) else {
            return Err(wrong(0, "not a saved cache of a tunnel: it does not begin with TCTUNNEL"));
        };
        let (version, head) = (header.get_u32_le(), header.get_u32_le());
        if (version, head) != (VERSION, CHUNK_HEAD_BYTES as u32) {
            return Err(wrong(8, format!("version {version} of the layout; this program reads 1")));
        }
        let (mut epoch, mut peer_epoch) = ([0; 16], [0; 16]);
        header.copy_to_slice(&mut epoch);
        header.copy_to_slice(&mut peer_epoch);
        Ok(Header {
            epoch,
            peer_epoch,
            seed: header.get_u64_le(),
            next_name: header.get_u64_le(),
            count: header.get_u64_le(),
        })
    }
}

/// Fields before the bytes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkHead {
    pub(super) name: Name,
    pub(super) fingerprint: u64,
    pub(super) is_used: bool,
    /// Length of the chunk, bytes, below 2³¹.
    pub(super) length: u32,
}

impl ChunkHead {
    pub(super) fn encode(&self) -> [u8; CHUNK_HEAD_BYTES] {
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        let mut rest = bytes.as_mut_slice();
        rest.put_u64_le(self.name.packed());
        rest.put_u64_le(self.fingerprint);
        rest.put_u32_le(self.length | if self.is_used { USED } else { 0 });
        assert!(rest.is_empty(), "the head is full");
        bytes
    }

    pub(super) fn decode(head: &[u8; CHUNK_HEAD_BYTES]) -> ChunkHead {
        let mut head = head.as_slice();
        let (name, fingerprint) = (Name::unpacked(head.get_u64_le()), head.get_u64_le());
        let length = head.get_u32_le();
        ChunkHead { name, fingerprint, is_used: length & USED != 0, length: length & !USED }
    }
}

/// The end of the file.
pub(super) fn encode_sum(sum: u64) -> [u8; SUM_BYTES] {
    sum.to_le_bytes()
}
