//! State that the flows of one end share: the store, the next name, and working memory of zstd.

use crate::shadow::Shadows;
use crate::store::Store;
use thermocline_units::Bytes;

/// zstd's level for literals: the fastest one that finds matches and codes entropy.
const ZSTD_LEVEL: i32 = 1;

/// The store of one end and what fills it.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) shadows: Shadows,
    next_name: u64,
    /// Keeps fingerprints from being guessed.
    seed: u64,
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

impl Shared {
    pub(crate) fn new(capacity: Bytes, seed: u64) -> Shared {
        let level_is_valid = "level 1 is valid and needs no dictionary";
        Shared {
            store: Store::new(capacity, seed.rotate_left(32)),
            shadows: Shadows::new(capacity),
            next_name: 0,
            seed,
            compressor: zstd::bulk::Compressor::new(ZSTD_LEVEL).expect(level_is_valid),
            decompressor: zstd::bulk::Decompressor::new().expect("there is no dictionary"),
        }
    }

    /// A fingerprint of a chunk within a scope: chunks of other scopes are not found by it.
    pub(crate) fn fingerprint(&self, scope: u64, chunk: &[u8]) -> u64 {
        twox_hash::XxHash3_64::oneshot_with_seed(self.seed ^ scope, chunk)
    }

    /// The number of the next chunk that this end names.
    pub(crate) fn name(&mut self) -> u64 {
        self.next_name += 1;
        self.next_name - 1
    }

    /// The number that the next chunk will have, while none is named.
    pub(crate) fn next_name(&self) -> u64 {
        self.next_name
    }

    /// Names chunks from this number on.
    pub(crate) fn go_on_from(&mut self, next_name: u64) {
        self.next_name = next_name;
    }

    /// The number that fingerprints are made with.
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// One zstd frame; `None` if zstd refuses.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.compressor.compress(bytes).ok()
    }

    /// The bytes of a zstd frame, if they are `length` or fewer.
    pub(crate) fn decompress(&mut self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        self.decompressor.decompress(frame, length).ok()
    }
}
