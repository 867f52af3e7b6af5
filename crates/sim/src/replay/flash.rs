//! Driving a per-epoch placement over two pools: flash (0) and disk (1).
//!
//! Requests are served by the pool each chunk lives on; nothing is admitted on a miss. At the end of
//! every epoch the placement proposes moves, which are carried out in order in operations of 128 KiB
//! (001 §4.2.3.1): arrivals read disk and write flash, dirty departures read flash and write disk,
//! clean ones cost nothing. A request is a hit when all its chunks are on flash.
//!
//! Virtual time jumps over idle epochs: the placement is asked at the end of each of them all the
//! same, because its counters age, but no more often than [`IDLE_EPOCHS_MAX`] times in a row.

use super::counts::{Counts, Side};
use super::{Epochs, ReplayOptions};
use crate::workload::{Head, Touches, Workload};
use std::collections::BTreeSet;
use thermocline_policy::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use thermocline_units::{Bytes, ChunkId, LineId, Nanos, PoolId, VolumeId};

/// The operation size of migrations, and what the source charges flash managers' accesses as.
pub(crate) const OPERATION: Bytes = Bytes::from_kib(128);
/// Epochs without a request that a placement is told of before time jumps.
const IDLE_EPOCHS_MAX: u32 = 64;

const FLASH: PoolId = PoolId(0);
const DISK: PoolId = PoolId(1);

/// Replays `workload` through `placement` with `capacity` chunks of flash.
///
/// # Panics
/// When the workload was not cut into chunks, or the placement breaks its contract.
pub fn replay_flash(
    workload: &Workload,
    placement: &mut dyn Placement,
    capacity: u64,
    options: &ReplayOptions,
    progress: &dyn Fn(u64),
) -> Counts {
    let chunks = workload.chunks.as_ref().expect("placements need a workload cut into chunks");
    let first_counted = options.warmup.first_counted(&workload.heads);
    let mut driver = Driver::new(workload, chunks, capacity);
    let mut epochs = Epochs::new(options.epoch);
    for (i, head) in workload.heads.iter().enumerate() {
        if i == first_counted {
            driver.counts.restart();
        }
        let mut idle = 0;
        while let Some(end) = epochs.passed(head.time) {
            if idle < IDLE_EPOCHS_MAX {
                driver.end_epoch(end, placement);
            }
            idle += 1;
        }
        let touches = chunks.of(i);
        if head.discard {
            for at in touches {
                driver.discard(chunks.ids[at]);
            }
            continue;
        }
        driver.serve(head, touches.clone());
        for (portion, at) in touches.clone().enumerate() {
            let (chunk, bytes) = driver.portion(head, touches.len(), portion, chunks.ids[at]);
            let access = ChunkAccess { at: head.time, chunk, bytes, write: head.tag.is_write() };
            placement.observe(&access);
        }
        progress(workload.lines.of(i).len() as u64);
    }
    driver.counts
}

/// Where one chunk is.
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

struct Driver<'a> {
    line: Bytes,
    chunks: &'a Touches,
    places: Vec<Place>,
    volumes: u32,
    capacity: u64,
    on_flash: BTreeSet<ChunkId>,
    counts: Counts,
    moves: Vec<Move>,
}

impl VolumeView for Driver<'_> {
    fn volume_count(&self) -> u32 {
        self.volumes
    }

    fn pool_count(&self) -> u16 {
        2
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        if pool == FLASH { self.capacity } else { u64::MAX }
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        if self.on_flash.contains(&chunk) { FLASH } else { DISK }
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        let flash = self.on_flash.len() as u64;
        if pool == FLASH { flash } else { self.places.len() as u64 - flash }
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        if pool == FLASH {
            self.on_flash.iter().copied().for_each(visit);
            return;
        }
        let all = (0..self.chunks.distinct).map(|id| self.chunk(LineId(id)));
        let on_disk: BTreeSet<ChunkId> = all.filter(|c| !self.on_flash.contains(c)).collect();
        on_disk.into_iter().for_each(visit);
    }
}

impl<'a> Driver<'a> {
    fn chunk(&self, id: LineId) -> ChunkId {
        let (volume, unit) = self.chunks.address(id);
        ChunkId { volume, index: unit as u32 }
    }

    fn new(workload: &Workload, chunks: &'a Touches, capacity: u64) -> Driver<'a> {
        Driver {
            line: workload.line_bytes(),
            chunks,
            places: vec![Place::default(); chunks.distinct as usize],
            volumes: workload.volumes.len() as u32,
            capacity,
            on_flash: BTreeSet::new(),
            counts: Counts::new(workload.volumes.len()),
            moves: Vec::new(),
        }
    }

    /// Which chunk, and how many of the request's bytes lie in it.
    fn portion(&self, head: &Head, count: usize, portion: usize, id: LineId) -> (ChunkId, Bytes) {
        let (volume, unit) = self.chunks.address(id);
        let size = self.chunks.unit_bytes.0;
        let end = head.offset.0 + u64::from(head.length);
        let from = if portion == 0 { head.offset.0 } else { unit * size };
        let to = if portion + 1 == count { end } else { (unit + 1) * size };
        (ChunkId { volume, index: unit as u32 }, Bytes(to - from))
    }

    fn serve(&mut self, head: &Head, touches: std::ops::Range<usize>) {
        let write = head.tag.is_write();
        let count = touches.len();
        let mut all = Hits { lines: 0, bytes: head.length.into() };
        let (mut hits, mut hit) = (Hits::default(), true);
        for (portion, at) in touches.enumerate() {
            let id = self.chunks.ids[at];
            let (chunk, bytes) = self.portion(head, count, portion, id);
            let offset = if portion == 0 {
                head.offset.0
            } else {
                u64::from(chunk.index) * self.chunks.unit_bytes.0
            };
            let lines = (offset + bytes.0).div_ceil(self.line.0) - offset / self.line.0;
            let charged = bytes.0.div_ceil(OPERATION.0);
            all.lines += lines;
            let place = &mut self.places[id.index()];
            let counts = &mut self.counts;
            if place.on_flash {
                place.dirty |= write;
                hits.lines += lines;
                hits.bytes += bytes.0;
                counts.flash(write, bytes.0);
                let n = if write {
                    &mut counts.source.flash_writes
                } else {
                    &mut counts.source.flash_reads
                };
                *n += charged;
            } else {
                hit = false;
                counts.disk(write, chunk.volume, offset, bytes.0);
                let n = if write {
                    &mut counts.source.disk_writes
                } else {
                    &mut counts.source.disk_reads
                };
                *n += charged;
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
    fn discard(&mut self, id: LineId) {
        let place = std::mem::take(&mut self.places[id.index()]);
        if place.on_flash {
            self.on_flash.remove(&self.chunk(id));
        }
    }

    fn end_epoch(&mut self, end: Nanos, placement: &mut dyn Placement) {
        let mut moves = std::mem::take(&mut self.moves);
        moves.clear();
        placement.propose(end, self, Budget::UNLIMITED, &mut moves);
        for proposed in &moves {
            self.carry_out(*proposed);
        }
        self.moves = moves;
    }

    fn carry_out(&mut self, proposed: Move) {
        let Move { chunk, to } = proposed;
        let id = self.chunks.find(chunk.volume, chunk.index.into());
        let id = id.expect("a placement moves only chunks it has observed");
        let place = &mut self.places[id.index()];
        assert_ne!(place.on_flash, to == FLASH, "a placement moves nothing that is there already");
        let dirty = std::mem::take(&mut place.dirty);
        place.on_flash = to == FLASH;
        if to == FLASH {
            self.on_flash.insert(chunk);
            assert!(self.on_flash.len() as u64 <= self.capacity, "a placement overfilled flash");
            self.counts.admitted += 1;
            self.copy(chunk, true);
        } else {
            self.on_flash.remove(&chunk);
            self.counts.evicted += 1;
            if dirty {
                self.counts.written_back += 1;
                self.copy(chunk, false);
            }
        }
    }

    /// Copies a whole chunk in operations of 128 KiB, to flash or to disk.
    fn copy(&mut self, chunk: ChunkId, to_flash: bool) {
        let size = self.chunks.unit_bytes.0;
        let start = u64::from(chunk.index) * size;
        let mut done = 0;
        while done < size {
            let bytes = OPERATION.0.min(size - done);
            self.counts.disk(!to_flash, VolumeId(chunk.volume.0), start + done, bytes);
            self.counts.flash(to_flash, bytes);
            done += bytes;
        }
        let operations = size.div_ceil(OPERATION.0);
        let source = &mut self.counts.source;
        if to_flash {
            source.disk_reads += operations;
            source.flash_writes += operations;
        } else {
            source.flash_reads += operations;
            source.disk_writes += operations;
        }
        self.counts.moved += size;
    }
}
