//! Driving a per-epoch placement over two pools: flash (0) and disk (1).
//!
//! Requests are served by the pool each chunk lives on; nothing is admitted on a miss. At the end
//! of every epoch the placement proposes moves, which are carried out in order in I/Os of 128
//! KiB (Tai 2015 §4.2.3.1): arrivals read disk and write flash, dirty departures read flash and
//! write disk, clean ones cost nothing. A request is a hit when all its chunks are on flash.
//!
//! Virtual time jumps over idle epochs: the placement is asked at the end of each of them all the
//! same, because its counters age, but no more often than [`IDLE_EPOCHS_MAX`] times in a row.

use super::counts::{Counts, Side, VolumeCounts};
use super::{Epochs, ReplayOptions, WarmUp};
use crate::workload::{Block, Head, Names};
use std::collections::BTreeSet;
use thermocline_policy::Footprint;
use thermocline_policy::placement::{
    Budget, ChunkAccess, How, Move, Placement, PoolLoad, PoolTraits, VolumeView,
};
use thermocline_units::{Bytes, ChunkId, LineId, Nanos, PoolId};

/// The I/O size of migrations, and what the source charges flash managers' accesses as.
pub(crate) const IO_BYTES: Bytes = Bytes::from_kib(128);
/// Epochs without a request that a placement is told of before time jumps.
const IDLE_EPOCHS_MAX: u32 = 64;

const FLASH: PoolId = PoolId(0);
const DISK: PoolId = PoolId(1);

/// A placement in the middle of a replay.
pub(crate) struct FlashReplay {
    placement: Box<dyn Placement>,
    pools: Pools,
    epochs: Epochs,
    warm_up: WarmUp,
    moves: Vec<Move>,
}

impl FlashReplay {
    /// Before the first request, with `capacity` chunks of flash.
    pub(crate) fn new(
        placement: Box<dyn Placement>,
        capacity: u64,
        options: &ReplayOptions,
    ) -> FlashReplay {
        FlashReplay {
            placement,
            pools: Pools::new(capacity),
            epochs: Epochs::new(options.epoch),
            warm_up: WarmUp::new(options.warmup),
            moves: Vec::new(),
        }
    }

    /// Replays what comes next.
    ///
    /// # Panics
    /// When the block was not cut into chunks, or the placement breaks its contract.
    pub(crate) fn feed(&mut self, names: &Names, block: &Block) {
        let chunks = block.chunks.as_ref().expect("placements need blocks cut into chunks");
        self.pools.reserve(names);
        let counted_from = self.warm_up.ends_in(&block.heads);
        for (i, head) in block.heads.iter().enumerate() {
            self.end_epochs(names, head.time);
            // Epochs that end before the first request that counts belong to the warm-up.
            if Some(i) == counted_from {
                self.pools.counts.restart();
            }
            let ids = &chunks.ids[chunks.of(i)];
            if head.discard {
                ids.iter().for_each(|id| self.pools.discard(names, *id));
                continue;
            }
            self.pools.serve(names, head, ids);
            for part in parts(names, head, ids) {
                let write = head.tag.is_write();
                let Part { chunk, bytes, .. } = part;
                let offset = Bytes(part.offset % names.chunk_bytes().map_or(1, |size| size.0));
                self.placement.observe(&ChunkAccess { at: head.time, chunk, offset, bytes, write });
            }
        }
    }

    /// The counts, and the placement's memory.
    pub(crate) fn finish(self) -> (Counts, Footprint) {
        (self.pools.counts, self.placement.footprint())
    }

    /// Reason for which its placement failed, if it did: only those from outside do.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.placement.failure()
    }

    fn end_epochs(&mut self, names: &Names, now: Nanos) {
        let mut idle = 0;
        while let Some(end) = self.epochs.passed(now) {
            idle += 1;
            if idle > IDLE_EPOCHS_MAX {
                continue;
            }
            self.moves.clear();
            let view = View { pools: &self.pools, names, epoch: self.epochs.length() };
            self.placement.propose(end, &view, Budget::UNLIMITED, &mut self.moves);
            for proposed in &self.moves {
                self.pools.carry_out(names, *proposed);
            }
        }
    }
}

/// The part of a request inside one chunk.
struct Part {
    id: LineId,
    chunk: ChunkId,
    offset: u64,
    bytes: Bytes,
}

/// A request, chunk by chunk.
fn parts<'a>(
    names: &'a Names,
    head: &'a Head,
    ids: &'a [LineId],
) -> impl Iterator<Item = Part> + 'a {
    let size = names.chunk_bytes().expect("only replayed with chunks").0;
    let end = head.offset.0 + u64::from(head.length);
    ids.iter().map(move |&id| {
        let chunk = names.chunk(id);
        let start = u64::from(chunk.index) * size;
        let offset = head.offset.0.max(start);
        Part { id, chunk, offset, bytes: Bytes(end.min(start + size) - offset) }
    })
}

/// Place of one chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    on_flash: bool,
    dirty: bool,
}

/// Lines (not chunks, so that caches and placements can be compared) and bytes of a request.
#[derive(Debug, Clone, Copy, Default)]
struct Hits {
    lines: u64,
    bytes: u64,
}

/// Both pools: what is where, and what was done.
struct Pools {
    places: Vec<Place>,
    capacity: u64,
    on_flash: BTreeSet<ChunkId>,
    counts: Counts,
}

/// A placement's view of them.
struct View<'a> {
    pools: &'a Pools,
    names: &'a Names,
    epoch: Nanos,
}

impl VolumeView for View<'_> {
    fn chunk_size(&self) -> Bytes {
        self.names.chunk_bytes().expect("only replayed with chunks")
    }

    fn epoch(&self) -> Nanos {
        self.epoch
    }

    /// This replay counts and costs nothing while it runs: the pools are the assumed ones, and did
    /// nothing.
    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, self.pool_count())
    }

    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }

    fn volume_count(&self) -> u32 {
        self.names.volumes.len() as u32
    }

    fn pool_count(&self) -> u16 {
        2
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        if pool == FLASH { self.pools.capacity } else { u64::MAX }
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        if self.pools.on_flash.contains(&chunk) { FLASH } else { DISK }
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        let flash = self.pools.on_flash.len() as u64;
        if pool == FLASH { flash } else { self.pools.places.len() as u64 - flash }
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let on_flash = &self.pools.on_flash;
        if pool == FLASH {
            on_flash.iter().copied().for_each(visit);
            return;
        }
        let all = (0..self.names.distinct_chunks()).map(|id| self.names.chunk(LineId(id)));
        let on_disk: BTreeSet<ChunkId> = all.filter(|chunk| !on_flash.contains(chunk)).collect();
        on_disk.into_iter().for_each(visit);
    }
}

impl Pools {
    fn new(capacity: u64) -> Pools {
        Pools { places: Vec::new(), capacity, on_flash: BTreeSet::new(), counts: Counts::default() }
    }

    fn reserve(&mut self, names: &Names) {
        self.places.resize(names.distinct_chunks() as usize, Place::default());
        self.counts.volumes.resize(names.volumes.len(), VolumeCounts::default());
    }

    fn serve(&mut self, names: &Names, head: &Head, ids: &[LineId]) {
        let write = head.tag.is_write();
        let line = names.line_bytes().0;
        let mut all = Hits { lines: 0, bytes: head.length.into() };
        let (mut hits, mut hit) = (Hits::default(), true);
        for Part { id, chunk, offset, bytes } in parts(names, head, ids) {
            let lines = (offset + bytes.0).div_ceil(line) - offset / line;
            let charged = bytes.0.div_ceil(IO_BYTES.0);
            all.lines += lines;
            let place = &mut self.places[id.index()];
            let counts = &mut self.counts;
            let source = &mut counts.source;
            let ios = match (place.on_flash, write) {
                (true, false) => &mut source.flash_reads,
                (true, true) => &mut source.flash_writes,
                (false, false) => &mut source.disk_reads,
                (false, true) => &mut source.disk_writes,
            };
            *ios += charged;
            if place.on_flash {
                place.dirty |= write;
                hits.lines += lines;
                hits.bytes += bytes.0;
                counts.flash(write, bytes.0);
            } else {
                hit = false;
                counts.disk.access(write, chunk.volume, offset, bytes.0);
            }
        }
        self.count_request(head, all, hits, u64::from(hit));
    }

    fn count_request(&mut self, head: &Head, all: Hits, hits: Hits, hit: u64) {
        let side: &mut Side =
            if head.tag.is_write() { &mut self.counts.writes } else { &mut self.counts.reads };
        side.requests += 1;
        side.request_hits += hit;
        side.lines += all.lines;
        side.line_hits += hits.lines;
        side.bytes += all.bytes;
        side.byte_hits += hits.bytes;
        let volume = &mut self.counts.volumes[head.tag.volume() as usize];
        volume.requests += 1;
        volume.request_hits += hit;
    }

    /// A discarded chunk's content is gone; it leaves flash without a write-back.
    fn discard(&mut self, names: &Names, id: LineId) {
        let place = std::mem::take(&mut self.places[id.index()]);
        if place.on_flash {
            self.on_flash.remove(&names.chunk(id));
        }
    }

    fn carry_out(&mut self, names: &Names, proposed: Move) {
        let Move { chunk, to, how } = proposed;
        if how == How::Mirror {
            return; // What is counted here is what flash alone would serve.
        }
        let id = names.find_chunk(chunk).expect("a placement moves only chunks it has observed");
        let place = &mut self.places[id.index()];
        assert_ne!(place.on_flash, to == FLASH, "a placement moves nothing that is there already");
        let dirty = std::mem::take(&mut place.dirty);
        place.on_flash = to == FLASH;
        let size = names.chunk_bytes().expect("only replayed with chunks");
        if to == FLASH {
            self.on_flash.insert(chunk);
            assert!(self.on_flash.len() as u64 <= self.capacity, "a placement overfilled flash");
            self.counts.admitted += 1;
            self.copy(chunk, size, true);
        } else {
            self.on_flash.remove(&chunk);
            self.counts.evicted += 1;
            if dirty {
                self.counts.written_back += 1;
                self.copy(chunk, size, false);
            }
        }
    }

    /// Copies a whole chunk in I/Os of 128 KiB, to flash or to disk.
    fn copy(&mut self, chunk: ChunkId, size: Bytes, to_flash: bool) {
        let start = u64::from(chunk.index) * size.0;
        let mut done = 0;
        while done < size.0 {
            let bytes = IO_BYTES.0.min(size.0 - done);
            self.counts.disk.access(!to_flash, chunk.volume, start + done, bytes);
            self.counts.flash(to_flash, bytes);
            done += bytes;
        }
        let ios = size.0.div_ceil(IO_BYTES.0);
        let source = &mut self.counts.source;
        if to_flash {
            source.disk_reads += ios;
            source.flash_writes += ios;
        } else {
            source.flash_reads += ios;
            source.disk_writes += ios;
        }
        self.counts.moved += size.0;
    }
}
