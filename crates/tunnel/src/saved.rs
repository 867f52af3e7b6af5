//! A cache as bytes, which outlive the process: `docs/formats/tunnel-cache.md`.
//!
//! Names are what must not go wrong: a name that is given twice stands for two chunks. The bytes
//! therefore hold the next name, and whoever reads them makes sure that they are read once (the
//! gateway takes the file away before it uses what was in it).

mod format;

use crate::config::Cache;
use crate::store::{CHUNK_BYTES_MAX, Chunk, Owner};
use format::{CHUNK_HEAD_BYTES, ChunkHead, HEADER_BYTES, Header, SUM_BYTES};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;
use twox_hash::XxHash3_64;

/// A reason that saved bytes are not a cache.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Other bytes than a cache's.
    #[error("byte {at}: {what}")]
    Format {
        /// Offset of what is wrong, bytes.
        at: u64,
        /// The fault there, and what was expected.
        what: String,
    },
}

/// A hash of what goes by.
struct Hashed<T> {
    inner: T,
    hasher: XxHash3_64,
    at: u64,
}

impl<T> Hashed<T> {
    fn new(inner: T) -> Hashed<T> {
        Hashed { inner, hasher: XxHash3_64::with_seed(0), at: 0 }
    }

    fn add_to_hash(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.at += bytes.len() as u64;
    }
}

impl<T: Write> Hashed<T> {
    fn write_hashed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.add_to_hash(bytes);
        self.inner.write_all(bytes)
    }
}

impl<T: Read> Hashed<T> {
    fn read_hashed(&mut self, bytes: &mut [u8], what: &str) -> Result<(), SavedError> {
        self.inner.read_exact(bytes).map_err(|error| self.cut_off(error, what))?;
        self.add_to_hash(bytes);
        Ok(())
    }

    fn cut_off(&self, error: io::Error, what: &str) -> SavedError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong(self.at, format!("it ends within {what}")),
            _ => SavedError::Io(error),
        }
    }
}

fn wrong(at: u64, what: impl Into<String>) -> SavedError {
    SavedError::Format { at, what: what.into() }
}

impl Cache {
    /// Writes all chunks and what names mean, oldest chunk first. Whoever goes on using this cache
    /// afterwards makes the bytes worthless: names given from then on would be given again.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_saved(&self, out: impl Write) -> io::Result<()> {
        let mut out = Hashed::new(out);
        let header = Header {
            epoch: self.epoch,
            peer_epoch: self.peer_epoch,
            seed: self.shared.seed(),
            next_name: self.shared.next_name(),
            count: self.chunks() as u64,
        };
        out.write_hashed(&header.encode())?;
        for chunk in self.shared.store.all_chunks() {
            let Chunk { name, fingerprint, is_used, bytes } = chunk;
            let head = ChunkHead { name, fingerprint, is_used, length: bytes.len() as u32 };
            out.write_hashed(&head.encode())?;
            out.write_hashed(bytes)?;
        }
        let sum = out.hasher.finish();
        out.inner.write_all(&format::encode_sum(sum))?;
        out.inner.flush()
    }

    /// The cache that was saved, with room for `capacity` bytes of chunks; of more, the oldest ones
    /// are dropped. Nothing is kept of bytes that are not whole.
    ///
    /// # Errors
    /// Those of `input`, and bytes that are not a saved cache from the first to the last.
    ///
    /// # Panics
    /// If the capacity is 1 TiB or more.
    pub fn read_saved(input: impl Read, capacity: Bytes) -> Result<Cache, SavedError> {
        let mut input = Hashed::new(input);
        let mut header = [0; HEADER_BYTES];
        input.read_hashed(&mut header, "the header")?;
        let Header { epoch, peer_epoch, seed, next_name, count } = Header::decode(&header)?;
        if next_name >= 1 << 63 {
            return Err(wrong(56, "the next name is 2^63 or more"));
        }
        let mut cache = Cache::new(capacity, epoch, seed);
        cache.peer_epoch = peer_epoch;
        let forgets = mutant("next_name_is_not_saved");
        cache.shared.go_on_from(if forgets { 0 } else { next_name });
        let mut bytes = Vec::new();
        for _ in 0..count {
            cache.read_saved_chunk(&mut input, next_name, &mut bytes)?;
        }
        let (expected, mut sum) = (input.hasher.finish(), [0; SUM_BYTES]);
        let read = input.inner.read_exact(&mut sum);
        read.map_err(|error| input.cut_off(error, "the checksum"))?;
        if sum != format::encode_sum(expected) {
            return Err(wrong(input.at, "the checksum is not that of the bytes before it"));
        }
        match input.inner.read(&mut [0])? {
            0 => Ok(cache),
            _ => Err(wrong(input.at + SUM_BYTES as u64, "bytes behind the end")),
        }
    }

    fn read_saved_chunk(
        &mut self,
        input: &mut Hashed<impl Read>,
        next_name: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), SavedError> {
        let at = input.at;
        let mut head = [0; CHUNK_HEAD_BYTES];
        input.read_hashed(&mut head, "the head of a chunk")?;
        let ChunkHead { name, fingerprint, is_used, length } = ChunkHead::decode(&head);
        let length = length as usize;
        if length == 0 || length > CHUNK_BYTES_MAX {
            let what = format!("a chunk of {length} bytes; 1 to {CHUNK_BYTES_MAX} were expected");
            return Err(wrong(at + 16, what));
        }
        if name.owner == Owner::Us && name.number >= next_name {
            return Err(wrong(at, "a name that was not given yet"));
        }
        bytes.resize(length, 0);
        input.read_hashed(bytes, "a chunk")?;
        self.shared.store.take_in(&Chunk { name, fingerprint, is_used, bytes });
        Ok(())
    }
}
