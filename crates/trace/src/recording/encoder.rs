//! From what a machine tells to blocks of records.
//!
//! 1. A request is held back until something else is told. Accesses that are its next parts, at its
//!    own time, are only counted: in an idle machine that is all of them.
//! 2. Whatever else comes first writes the request with that count, then itself.
//! 3. Times and places are written as differences from the record before.
//! 4. A block is closed when it is full, at an epoch's end, and with the first record that comes
//!    [`PATIENCE`] after its first: so much is lost at most when the process dies.
//!
//! No clock, no I/O. State: one block, and what the last record said.

use super::format::{
    BLOCK_FULL, FIGURES_MAX, PAIRS_MAX, RUN_MAX, SEEN_MAX, TEXT_MAX, places_code, tag,
};
use super::format::{put, put_difference, put_text};
use super::{Access, Ask, Asked, Epoch, Homes, Routed};
use std::collections::VecDeque;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Longest time that a block stays open.
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Offsets and lengths are counted in these.
pub(super) const SECTOR: u64 = 512;

/// Encoder of a recording.
#[derive(Debug)]
pub struct Encoder {
    chunk: Bytes,
    block: Vec<u8>,
    /// The time of the open block's first record.
    begun: Option<Nanos>,
    closed: VecDeque<Vec<u8>>,
    held: Option<Held>,
    asked: u64,
    last: Last,
}

/// Values that differences are taken from.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Last {
    pub(super) at: u64,
    pub(super) volume: u32,
    /// One past the last sector asked for.
    pub(super) sector: u64,
    /// The last chunk accessed, found or moved.
    pub(super) chunk: u64,
}

/// A request that is not written yet.
#[derive(Debug, Clone, Copy)]
struct Held {
    asked: Asked,
    parts: u64,
    seen: u64,
}

impl Held {
    fn expects(&self, access: &Access, chunk: Bytes) -> bool {
        self.seen < self.parts.min(SEEN_MAX) && self.asked.part(self.seen, chunk) == *access
    }
}

impl Encoder {
    /// A recording of a machine with chunks of `chunk` bytes, a power of two from 512. `about` says
    /// what else is worth knowing, in at most 15 pairs; the keys begin with `thermocline.`.
    ///
    /// # Panics
    /// When the chunk size is none, there are more pairs, or one is longer than 4096 bytes.
    pub fn new(chunk: Bytes, about: &[(String, String)]) -> Encoder {
        assert!(chunk.0.is_power_of_two() && chunk.0 >= SECTOR, "a chunk of {chunk}");
        assert!(about.len() < PAIRS_MAX, "at most {} pairs", PAIRS_MAX - 1);
        let mut block = vec![tag::HEAD];
        put(&mut block, chunk.0);
        put(&mut block, about.len() as u64);
        for (key, value) in about {
            put_text(&mut block, key);
            put_text(&mut block, value);
        }
        let closed = VecDeque::from([block]);
        let last = Last::default();
        Encoder { chunk, block: Vec::new(), begun: None, closed, held: None, asked: 0, last }
    }

    /// A request has come; its number, counted from 0, for [`Encoder::answered`].
    ///
    /// # Panics
    /// When its range is not in sectors of 512 bytes, or its volume or last chunk is beyond
    /// [`super::VOLUMES_MAX`] or [`super::CHUNKS_MAX`].
    pub fn asked(&mut self, asked: &Asked) -> u64 {
        let end = asked.offset.0 + asked.length.0;
        assert!((asked.offset.0 | asked.length.0).is_multiple_of(SECTOR), "not in sectors");
        let in_reach = end.div_ceil(self.chunk.0) <= u64::from(super::CHUNKS_MAX);
        assert!(in_reach && asked.volume.0 < super::VOLUMES_MAX, "beyond what is recorded");
        self.write_held();
        self.held = Some(Held { asked: *asked, parts: asked.part_count(self.chunk), seen: 0 });
        self.asked += 1;
        self.asked - 1
    }

    /// Request `number` has been answered, `took` after it came.
    pub fn answered(&mut self, number: u64, took: Nanos, done: bool) {
        self.write_held();
        self.block.push(if done { tag::ANSWERED } else { tag::FAILED });
        put(&mut self.block, self.asked - number);
        put(&mut self.block, took.0);
        self.close_if_full(None);
    }

    /// The placement has seen an access.
    pub fn accessed(&mut self, access: &Access) {
        if let Some(held) = self.held.as_mut().filter(|held| held.expects(access, self.chunk)) {
            held.seen += 1;
            return;
        }
        self.write_held();
        let kind = if access.write { tag::WRITES_CHUNK } else { tag::READS_CHUNK };
        self.begin(kind, access.chunk.volume);
        self.put_time(access.at);
        self.put_chunk(access.chunk);
        put(&mut self.block, access.bytes.0.div_ceil(SECTOR));
        put(&mut self.block, access.offset.0 / SECTOR);
        self.close_if_full(Some(access.at));
    }

    /// A placement takes over: its name with all settings; empty for none.
    pub fn placed(&mut self, at: Nanos, name: &str) {
        self.write_held();
        let end = name.floor_char_boundary(TEXT_MAX);
        self.block.push(tag::PLACED);
        self.put_time(at);
        put_text(&mut self.block, &name[..end]);
        self.close_if_full(Some(at));
    }

    /// A pool has joined at this place in the order of speed, or the one there is gone.
    pub fn pools(&mut self, at: Nanos, place: PoolId, gone: bool) {
        self.write_held();
        self.block.push(tag::POOLS | if gone { tag::GONE } else { 0 });
        self.put_time(at);
        put(&mut self.block, u64::from(place.0));
        self.close_if_full(Some(at));
    }

    /// An epoch ends. What the placement sees, then what it proposes, then
    /// [`Encoder::epoch_ended`] must follow.
    ///
    /// # Panics
    /// When a pool has more than 64 figures.
    pub fn epoch(&mut self, epoch: &Epoch) {
        self.write_held();
        self.block.push(tag::EPOCH);
        self.put_time(epoch.at);
        put(&mut self.block, epoch.budget.wrapping_add(1));
        put(&mut self.block, u64::from(epoch.volumes));
        put(&mut self.block, epoch.length.unwrap_or_default().0);
        put(&mut self.block, epoch.pools.len() as u64);
        for pool in &epoch.pools {
            put(&mut self.block, pool.capacity);
            put(&mut self.block, pool.used);
            self.put_figures(&pool.figures);
        }
        self.close_if_full(None);
    }

    /// Writes where some chunks live that lived elsewhere, or nowhere, at the last epoch's end.
    pub fn homes(&mut self, homes: &Homes) {
        self.write_held();
        let mut homes = *homes;
        while homes.count > 0 {
            let count = homes.count.min(RUN_MAX);
            self.begin(tag::HOMES, homes.chunk.volume);
            self.put_chunk(homes.chunk);
            put(&mut self.block, u64::from(count - 1));
            put(&mut self.block, places_code(homes.pool, homes.second));
            self.last.chunk += u64::from(count - 1);
            self.close_if_full(None);
            homes.chunk.index += count;
            homes.count -= count;
        }
    }

    /// The placement proposes a move, or that the chunk be mirrored.
    pub fn proposed(&mut self, chunk: ChunkId, to: PoolId, mirror: bool) {
        self.write_held();
        self.begin(tag::MOVE | if mirror { tag::MIRRORED } else { 0 }, chunk.volume);
        self.put_chunk(chunk);
        put(&mut self.block, u64::from(to.0));
        self.close_if_full(None);
    }

    /// Writes a changed promise to a volume: the placement sees these figures; none for no promise.
    ///
    /// # Panics
    /// When there are more than 64 figures.
    pub fn promised(&mut self, volume: VolumeId, figures: &[u64]) {
        self.write_held();
        self.begin(tag::PROMISED, volume);
        self.put_figures(figures);
        self.close_if_full(None);
    }

    /// The placement's router was asked, and decided.
    ///
    /// # Panics
    /// When a pool has more than 64 figures.
    pub fn routed(&mut self, routed: &Routed) {
        self.write_held();
        self.block.push(tag::ROUTED);
        self.put_time(routed.at);
        put(&mut self.block, routed.pools.len() as u64);
        for figures in &routed.pools {
            self.put_figures(figures);
        }
        routed.shares.iter().for_each(|&share| put(&mut self.block, u64::from(share)));
        self.close_if_full(Some(routed.at));
    }

    /// That was all of the epoch.
    pub fn epoch_ended(&mut self) {
        self.write_held();
        self.block.push(tag::EPOCH_END);
        self.close();
    }

    /// The recording ends as it should; [`Encoder::take_block`] has the rest.
    pub fn end(&mut self) {
        self.write_held();
        self.block.push(tag::END);
        self.close();
    }

    /// The next closed block, for [`super::Packer::pack`].
    pub fn take_block(&mut self) -> Option<Vec<u8>> {
        self.closed.pop_front()
    }

    fn write_held(&mut self) {
        let Some(Held { asked, parts, seen }) = self.held.take() else { return };
        let all = seen == parts;
        let kind = match asked.ask {
            Ask::Read => tag::READ,
            Ask::Write => tag::WRITE,
            Ask::Flush => tag::FLUSH,
            Ask::Trim => tag::TRIM,
            Ask::Zero => tag::ZERO,
        };
        let forced = if asked.forced { tag::FORCED } else { 0 };
        self.begin(kind | forced | if all { tag::SEEN } else { 0 }, asked.volume);
        self.put_time(asked.at);
        if asked.ask != Ask::Flush {
            let (sector, sectors) = (asked.offset.0 / SECTOR, asked.length.0 / SECTOR);
            put_difference(&mut self.block, self.last.sector, sector);
            put(&mut self.block, sectors);
            self.last.sector = sector + sectors;
            if !all {
                put(&mut self.block, seen);
            }
        }
        self.close_if_full(Some(asked.at));
    }

    /// The first byte, and the volume unless it is the one before.
    fn begin(&mut self, kind: u8, volume: VolumeId) {
        if volume.0 == self.last.volume {
            self.block.push(kind);
        } else {
            self.block.push(kind | tag::VOLUME);
            put(&mut self.block, u64::from(volume.0));
            self.last.volume = volume.0;
        }
    }

    fn put_figures(&mut self, figures: &[u64]) {
        assert!(figures.len() <= FIGURES_MAX, "{} figures", figures.len());
        put(&mut self.block, figures.len() as u64);
        figures.iter().for_each(|&figure| put(&mut self.block, figure));
    }

    fn put_time(&mut self, at: Nanos) {
        put_difference(&mut self.block, self.last.at, at.0);
        self.last.at = at.0;
    }

    fn put_chunk(&mut self, chunk: ChunkId) {
        let index = u64::from(chunk.index);
        put_difference(&mut self.block, self.last.chunk, index);
        self.last.chunk = index;
    }

    fn close_if_full(&mut self, at: Option<Nanos>) {
        if let Some(at) = at {
            let begun = *self.begun.get_or_insert(at);
            if at.saturating_sub(begun) >= PATIENCE {
                return self.close();
            }
        }
        if self.block.len() >= BLOCK_FULL {
            self.close();
        }
    }

    fn close(&mut self) {
        let room = self.block.len().max(BLOCK_FULL / 8);
        self.closed.push_back(std::mem::replace(&mut self.block, Vec::with_capacity(room)));
        self.begun = None;
    }
}
