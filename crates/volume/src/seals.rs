//! Seals: a CRC-32C for every block of 4 KiB of a chunk that is not being written, stored apart.
//!
//! 1. A chunk that was not written for a while is read, all copies of it, and compared (the scrub
//!    does it); its checksums are written to the seal of each of its slots; then a record says that
//!    the chunk is sealed. The commit cycle of the record flushes data and seals first.
//! 2. Reads of a sealed chunk are verified block by block, those of operations too. A copy that
//!    does not agree is treated as unreadable: another one serves, and it is made anew.
//! 3. Before the first write to a sealed chunk a record says durably that the seal is broken. So no
//!    crash leaves a sealed chunk with contents that its seal does not know.
//!
//! What is hot is not verified: its seal would have to be written with every write. Contents that
//! rot between a write and its sealing are sealed as they are.
//!
//! A seal: CRC-32C of the rest (4 bytes), chunk index (4), then 4 bytes a block. State: 4 bytes a
//! block for chunks whose seal is in memory, [`crate::settings::Limits::seals_cached`] of them.

use crate::flight::Owner;
use crate::foreground::bit;
use crate::format::Record;
use crate::group::Group;
use crate::layout::{head_bytes, seal_bytes};
use crate::map::{NONE, Place};
use crate::settings::BLOCK;
use std::collections::{BTreeMap, VecDeque};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{Bytes, ChunkId, Nanos, Slab};

/// A chunk is sealed when it was not written for so long.
const QUIET: Nanos = Nanos(10_000_000_000);
/// Chunks that one round of housekeeping looks at.
const WATCHED_PER_ROUND: usize = 256;

/// What became of seals since the group was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SealStatus {
    /// Chunks sealed.
    pub sealed: u64,
    /// Seals broken by writes and moves.
    pub broken: u64,
    /// Seals that could not be read, or were rotten themselves.
    pub lost: u64,
}

/// A seal on its way into memory.
#[derive(Debug)]
struct Load {
    chunk: ChunkId,
    /// Pools whose seal was not good, one bit each: copies come and go while it is sought.
    tried: u64,
}

/// A chunk without a seal.
#[derive(Debug, Clone, Copy)]
struct Watched {
    chunk: ChunkId,
    since: Nanos,
    /// The stamp of its writes then, once it was taken.
    stamp: Option<(u16, u32)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Seals {
    cached: BTreeMap<ChunkId, Box<[u32]>>,
    /// Cached chunks, oldest first; may name some that are gone.
    order: VecDeque<ChunkId>,
    loads: Slab<Load>,
    loading: BTreeMap<ChunkId, u32>,
    /// Chunks without a seal, longest quiet first.
    watched: VecDeque<Watched>,
    pub(crate) status: SealStatus,
}

impl Seals {
    pub(crate) fn has_watched(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Whether contents that start at byte `at` of a chunk have the checksums of its seal; so does
    /// anything of a chunk whose seal is not at hand, and what was not read by whole blocks because
    /// the chunk had no seal then.
    pub(crate) fn agree(&self, chunk: ChunkId, at: u32, payload: &Payload) -> bool {
        let Some(sums) = self.cached.get(&chunk).filter(|_| at.is_multiple_of(BLOCK)) else {
            return true;
        };
        let first = (at / BLOCK) as usize;
        let found = checksums(payload);
        let sums = sums.get(first..first + found.len());
        if mutant("first_block_verified_only") {
            return sums.is_some_and(|sums| sums.first() == found.first());
        }
        sums.is_some_and(|sums| *sums == *found)
    }

    /// Keeps the checksums of one more chunk; of more than `most`, the oldest go.
    pub(crate) fn keep(&mut self, chunk: ChunkId, sums: Box<[u32]>, most: usize) {
        if self.cached.insert(chunk, sums).is_none() {
            self.order.push_back(chunk);
        }
        while self.cached.len() > most {
            let oldest = self.order.pop_front().expect("every cached chunk is in the order");
            met("cache of checksums evicted");
            self.cached.remove(&oldest);
        }
    }

    fn forget(&mut self, chunk: ChunkId) {
        if self.cached.remove(&chunk).is_some() {
            self.order.retain(|&other| other != chunk);
        }
    }
}

/// The CRC-32C of each whole block.
pub(crate) fn checksums(payload: &Payload) -> Vec<u32> {
    const ZERO_BLOCK: [u8; BLOCK as usize] = [0; BLOCK as usize];
    match payload {
        Payload::Zeroes(length) => {
            vec![crc32c::crc32c(&ZERO_BLOCK); (length / BLOCK) as usize]
        }
        Payload::Bytes(bytes) => bytes.chunks_exact(BLOCK as usize).map(crc32c::crc32c).collect(),
    }
}

/// A seal as stored.
pub(crate) fn encode_seal(chunk: ChunkId, sums: &[u32], chunk_size: u32) -> Payload {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&chunk.index.to_le_bytes());
    bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
    bytes.resize(seal_bytes(chunk_size) as usize, 0);
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    Payload::from(bytes)
}

/// The checksums of a stored seal; `None` when it is rotten or another chunk's.
pub(crate) fn decode_seal(chunk: ChunkId, bytes: &[u8], chunk_size: u32) -> Option<Box<[u32]>> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if word(0)? != crc32c::crc32c(bytes.get(4..)?) || word(4)? != chunk.index {
        return None;
    }
    (0..(chunk_size / BLOCK) as usize).map(|block| word(8 + 4 * block)).collect()
}

impl Group {
    /// What became of seals since the group was opened.
    pub fn seal_status(&self) -> SealStatus {
        self.seals.status
    }

    pub(crate) fn is_as_sealed(&self, chunk: ChunkId, at: u32, payload: &Payload) -> bool {
        !self.map.entry(chunk).is_sealed() || self.seals.agree(chunk, at, payload)
    }

    fn seal_address(&self, place: Place) -> Bytes {
        let pool = self.pool(place.pool);
        let (ring, area) = (self.settings.journal_blocks, self.area_blocks);
        let head = head_bytes(ring, area, pool.has_region);
        Bytes(head + u64::from(place.slot) * seal_bytes(self.chunk_size))
    }

    /// Whether reads of the chunk can be verified, or need not be; fetches its seal if not.
    pub(crate) fn seal_is_at_hand(&mut self, now: Nanos, chunk: ChunkId, writes: bool) -> bool {
        let sealed = self.map.entry(chunk).is_sealed();
        if writes || !sealed || self.seals.cached.contains_key(&chunk) {
            return true;
        }
        if !self.seals.loading.contains_key(&chunk) {
            let load = self.seals.loads.insert(Load { chunk, tried: 0 });
            self.seals.loading.insert(chunk, load);
            self.load_seal(now, load);
        }
        !self.map.entry(chunk).is_sealed() || self.seals.cached.contains_key(&chunk)
    }

    /// Reads the seal at the next copy, or gives it up.
    fn load_seal(&mut self, now: Nanos, load: u32) {
        let Load { chunk, tried } = self.seals.loads[load];
        let able = |place: &Place| tried & bit(place.pool) == 0 && self.pool(place.pool).is_alive();
        let untried = self.map.copies(chunk).map(|copy| copy.place).find(able);
        match untried {
            Some(place) => {
                self.seals.loads[load].tried |= bit(place.pool);
                let offset = self.seal_address(place);
                let io = Io::Read { offset, length: seal_bytes(self.chunk_size) as u32 };
                self.send(now, place.pool, Owner::SealRead { load }, io);
            }
            None => {
                self.seals.loads.remove(load);
                self.seals.loading.remove(&chunk);
                self.seals.status.lost += 1;
                self.unseal(now, chunk);
            }
        }
    }

    /// A seal was read, or could not be.
    pub(crate) fn seal_read(
        &mut self,
        now: Nanos,
        load: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let chunk = self.seals.loads[load].chunk;
        if !self.map.has(chunk) || !self.map.entry(chunk).is_sealed() {
            self.seals.loads.remove(load);
            self.seals.loading.remove(&chunk);
        } else {
            let bytes = result.map(|payload| payload.to_vec()).unwrap_or_default();
            match decode_seal(chunk, &bytes, self.chunk_size) {
                Some(sums) => {
                    self.seals.keep(chunk, sums, self.settings.limits.seals_cached);
                    self.seals.loads.remove(load);
                    self.seals.loading.remove(&chunk);
                }
                None if mutant("seal_sought_once") => {
                    self.seals.loads[load].tried = u64::MAX;
                    self.load_seal(now, load);
                }
                None => self.load_seal(now, load),
            }
        }
        if self.map.has(chunk) && self.map.entry(chunk).traffic != NONE {
            self.traffic_eased(now, chunk);
        }
    }

    /// The seal counts no more, in memory and with the next commit in the journal.
    fn unseal(&mut self, now: Nanos, chunk: ChunkId) {
        self.break_seal(now, chunk);
        let state = self.durable_state(chunk);
        self.change(Record::Chunk(chunk, state), chunk, &[]);
    }

    /// The journal knows that the seal counts no more: it is forgotten.
    pub(crate) fn break_seal(&mut self, now: Nanos, chunk: ChunkId) {
        if !self.settings.checksums {
            return;
        }
        if self.map.entry(chunk).is_sealed() {
            self.map.entry_mut(chunk).set_sealed(false);
            self.seals.status.broken += 1;
            self.watch(now, chunk);
        }
        self.seals.forget(chunk);
    }

    /// Notes a chunk that may be sealed when it has been quiet.
    pub(crate) fn watch(&mut self, now: Nanos, chunk: ChunkId) {
        let entry = self.map.entry_mut(chunk);
        if self.settings.checksums && !std::mem::replace(&mut entry.watched, true) {
            self.seals.watched.push_back(Watched { chunk, since: now, stamp: None });
        }
    }

    /// Hands chunks that were not written for a while to the scrub, which seals them.
    pub(crate) fn seal_quiet_chunks(&mut self, now: Nanos) {
        if !self.settings.checksums {
            return;
        }
        for _ in 0..WATCHED_PER_ROUND {
            let Some(&Watched { chunk, since, stamp: then }) = self.seals.watched.front() else {
                break;
            };
            if now.saturating_sub(since) < QUIET && then.is_some() {
                break;
            }
            self.seals.watched.pop_front();
            if !self.map.has(chunk) {
                continue;
            }
            let entry = self.map.entry_mut(chunk);
            entry.watched = false;
            let stamp = entry.write_stamp();
            let quiet = entry.traffic == NONE && then == Some(stamp);
            if entry.first().is_none() || entry.is_sealed() {
                continue;
            }
            if quiet {
                self.scrub.request(chunk);
            } else {
                entry.watched = true;
                self.seals.watched.push_back(Watched { chunk, since: now, stamp: Some(stamp) });
            }
        }
    }

    /// Writes the seals of the chunk that was just compared from end to end.
    pub(crate) fn write_seals(&mut self, now: Nanos, chunk: ChunkId, sums: &[u32]) -> u32 {
        let payload = encode_seal(chunk, sums, self.chunk_size);
        let places: Vec<Place> = self.map.copies(chunk).map(|copy| copy.place).collect();
        for &place in &places {
            let offset = self.seal_address(place);
            let fua = !mutant("seal_not_forced");
            let write = Io::Write { offset, data: payload.clone(), fua };
            self.send(now, place.pool, Owner::SealWrite, write);
        }
        places.len() as u32
    }

    /// The seals are written, and nobody wrote to the chunk meanwhile.
    pub(crate) fn seal(&mut self, chunk: ChunkId, sums: Box<[u32]>) {
        self.map.entry_mut(chunk).set_sealed(true);
        self.seals.keep(chunk, sums, self.settings.limits.seals_cached);
        self.seals.status.sealed += 1;
        let state = self.durable_state(chunk);
        self.change(Record::Chunk(chunk, state), chunk, &[]);
    }
}
