//! Accesses to chunks: in the running epoch, and lately on three time scales.
//!
//! 1. A read is sequential when it begins within 512 KiB of the end of the access before it in its
//!    volume, or exactly where the last one in its own chunk ended: disks read ahead, for several
//!    readers at once. A write is sequential when it follows the access before it within 64 KiB.
//!    Of writes that only go on where the last one in their chunk ended, every second one counts as
//!    sequential: how many of alternating streams a disk merges depends on its queue. All others
//!    are random. A random access asks for one operation, what it carries beyond 4 KiB is streamed.
//! 2. At an epoch's end `look` learns where every chunk is, and where it was when it was met first:
//!    there it would still be if nobody had moved anything. A chunk that is on no pool has no first
//!    one; when it is written again, it begins anew.
//! 3. `fade` takes the epoch into the three [`LANES`], moving averages with half-lives of 1, 8 and
//!    64 epochs. A lane that has seen less than its half-life weighs all that it has seen alike.
//!
//! State: 83 B a chunk: 12 of address, 20 of counters, 3 for where it is, was, and has left a copy,
//! 48 of averages.
//! O(1) an access, O(chunks met) an epoch.

use super::format::Remembered;
use crate::placement::chunks::Chunks;
use crate::placement::price::Ask;
use crate::placement::{ChunkAccess, PoolChange, VolumeView};
use thermocline_units::{Bytes, ChunkId, PoolId};

/// Time scales that are remembered: half-lives in epochs.
pub(super) const LANES: [f32; 3] = [1.0, 8.0, 64.0];
/// Bytes of a unit that is streamed.
const UNIT: u64 = 4096;
/// Greatest distance of a sequential read from the end of the access before, bytes.
const NEAR: u64 = 512 << 10;

/// Greatest distance of a sequential write past the end of the access before, bytes.
const NEXT: u64 = 64 << 10;

/// Requests for a chunk in an epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// Units as in [`Ask`].
    units: [u32; 4],
    /// End of the last access in the chunk, at most 2³⁰; the highest bit is set if the last write
    /// that went on among others was spared its seek.
    end: u32,
}

/// Requests for chunks, in the running epoch and lately.
#[derive(Debug)]
pub(super) struct Pulse {
    pub(super) chunks: Chunks,
    counts: Vec<Count>,
    pools: Vec<u8>,
    /// Pool on which a move has left a copy that is still good; [`NOWHERE`]: there is none.
    kept: Vec<u8>,
    /// Pool on which it was met; [`NOWHERE`]: it is on none now.
    firsts: Vec<u8>,
    lanes: [Vec<Ask>; LANES.len()],
    /// Ends of the last accesses by volume.
    tails: Vec<u64>,
    chunk_size: u64,
    per_second: f32,
    epochs: u32,
}

/// See [`Count::end`].
const SPARED: u32 = 1 << 31;

/// A chunk that is on no pool yet, or of which no copy is kept.
pub(super) const NOWHERE: u8 = u8::MAX;

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse {
            chunks: Chunks::default(),
            counts: Vec::new(),
            pools: Vec::new(),
            kept: Vec::new(),
            firsts: Vec::new(),
            lanes: Default::default(),
            tails: Vec::new(),
            chunk_size: Bytes::from_mib(1).0,
            per_second: 1.0,
            epochs: 0,
        }
    }
}

impl Pulse {
    /// One for a machine's chunks that has met none.
    pub(super) fn of(view: &dyn VolumeView) -> Pulse {
        Pulse { chunk_size: view.chunk_size().0, ..Pulse::default() }
    }

    /// Counts an access.
    #[inline]
    pub(super) fn record(&mut self, access: &ChunkAccess) {
        let number = self.chunks.number(access.chunk) as usize;
        if number >= self.counts.len() {
            self.counts.resize(number + 1, Count::default());
        }
        let volume = access.chunk.volume.0 as usize;
        if volume >= self.tails.len() {
            self.tails.resize(volume + 1, u64::MAX / 2);
        }
        let begin = u64::from(access.chunk.index)
            .wrapping_mul(self.chunk_size)
            .wrapping_add(access.offset.0);
        let last = std::mem::replace(&mut self.tails[volume], begin.wrapping_add(access.bytes.0));
        let count = &mut self.counts[number];
        let (end, spared) = (count.end & !SPARED, count.end & SPARED != 0);
        let goes_on = access.offset.0 == u64::from(end);
        let (sequential, spared) = match access.write {
            false => (begin.abs_diff(last) <= NEAR || goes_on, spared),
            true if begin.wrapping_sub(last) <= NEXT => (true, spared),
            true => (goes_on && !spared, goes_on && !spared),
        };
        let side = usize::from(access.write);
        let end = u32::try_from(access.offset.0 + access.bytes.0).unwrap_or(SPARED).min(SPARED - 1);
        count.end = end | if spared { SPARED } else { 0 };
        let mut units = access.bytes.0.div_ceil(UNIT);
        if !sequential {
            count.units[side] = count.units[side].saturating_add(1);
            units = units.saturating_sub(1);
        }
        let streamed = &mut count.units[side + 2];
        *streamed = streamed.saturating_add(u32::try_from(units).unwrap_or(u32::MAX));
    }

    /// Takes note of where every chunk is.
    pub(super) fn look(&mut self, view: &dyn VolumeView) {
        self.chunk_size = view.chunk_size().0;
        self.per_second = (1.0 / view.epoch().as_secs_f64()) as f32;
        let slowest = view.pool_count() - 1;
        self.pools.clear();
        for pool in 0..=slowest {
            view.visit_pool(PoolId(pool), &mut |chunk| {
                let number = self.chunks.number(chunk) as usize;
                if number >= self.pools.len() {
                    self.pools.resize(number + 1, NOWHERE);
                }
                self.pools[number] = pool as u8;
            });
        }
        let count = self.chunks.len() as usize;
        self.pools.resize(count, NOWHERE);
        self.firsts.resize(count, NOWHERE);
        self.settle_firsts(view);
        self.counts.resize(count, Count::default());
        self.kept.clear();
        self.kept.resize(count, NOWHERE);
        view.visit_kept(&mut |chunk, pool| {
            if let Some(number) = self.chunks.find(chunk) {
                self.kept[number as usize] = pool.0 as u8;
            }
        });
    }

    /// Pools are at other places. A chunk whose first pool is gone begins anew where it is.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        let places = self.pools.iter_mut().chain(&mut self.kept).chain(&mut self.firsts);
        places.for_each(|place| *place = change.place_code(*place, NOWHERE));
    }

    /// Gives chunks that came to a pool their first one, and takes it from those that are on none.
    fn settle_firsts(&mut self, view: &dyn VolumeView) {
        let slowest = (view.pool_count() - 1) as u8;
        let homes = self.pools.iter_mut().zip(&mut self.firsts);
        for (number, (home, first)) in (0..).zip(homes) {
            let held = *home != NOWHERE || view.holds(self.chunks.id(number));
            // What was met and is nowhere counts as on the slowest pool, as the view has it.
            *home = if *home == NOWHERE { slowest } else { *home };
            *first = match (held, *first) {
                (false, _) => NOWHERE,
                (true, NOWHERE) => *home,
                // Its pool may have been removed between two starts.
                (true, first) => first.min(slowest),
            };
        }
    }

    /// Takes the epoch into the averages.
    pub(super) fn fade(&mut self) {
        self.epochs = self.epochs.saturating_add(1);
        for (lane, half_life) in self.lanes.iter_mut().zip(LANES) {
            lane.resize(self.counts.len(), [0.0; 4]);
            let newest = (1.0 - 0.5_f32.powf(1.0 / half_life)).max(1.0 / self.epochs as f32);
            for (average, count) in lane.iter_mut().zip(&self.counts) {
                for (average, units) in average.iter_mut().zip(count.units) {
                    *average += (units as f32 * self.per_second - *average) * newest;
                }
            }
        }
    }

    /// Epochs so far.
    pub(super) fn epochs(&self) -> u32 {
        self.epochs
    }

    /// The chunks that were asked for most over the longest memory, at most so many, with their
    /// averages, by descending heat.
    pub(super) fn hottest(&self, most: usize) -> Vec<Remembered> {
        let averages = |number: usize| {
            std::array::from_fn(|lane: usize| {
                self.lanes[lane].get(number).copied().unwrap_or_default()
            })
        };
        let known = 0..self.firsts.len().min(self.chunks.len() as usize);
        let mut chunks: Vec<(f32, usize)> = known
            .map(|number| (averages(number)[LANES.len() - 1].iter().sum::<f32>(), number))
            .filter(|&(heat, number)| heat > 0.0 && self.firsts[number] != NOWHERE)
            .collect();
        chunks.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        chunks.truncate(most);
        let of = |(_, number): (f32, usize)| {
            (self.chunks.id(number as u32), self.firsts[number], averages(number))
        };
        chunks.into_iter().map(of).collect()
    }

    /// Goes on after so many epochs, from averages of chunks; one that has met none yet.
    pub(super) fn go_on(&mut self, epochs: u32, chunks: &[Remembered]) {
        assert_eq!(self.chunks.len(), 0, "it begins");
        self.epochs = epochs;
        for (chunk, first, lanes) in chunks {
            let number = self.chunks.number(*chunk) as usize;
            if number < self.firsts.len() {
                continue; // It was told twice.
            }
            self.firsts.push(*first);
            self.counts.push(Count::default());
            self.lanes.iter_mut().zip(lanes).for_each(|(lane, average)| lane.push(*average));
        }
    }

    /// Chunks met; their numbers are below this.
    pub(super) fn len(&self) -> u32 {
        self.counts.len() as u32
    }

    /// True if a chunk was met before the last epoch ended: it has a pool and averages.
    pub(super) fn knows(&self, number: u32) -> bool {
        (number as usize) < self.pools.len().min(self.lanes[0].len())
    }

    /// Requests for a chunk in the epoch, a second.
    #[inline]
    pub(super) fn now(&self, number: u32) -> Ask {
        self.counts[number as usize].units.map(|units| units as f32 * self.per_second)
    }

    /// Requests counted for a chunk, a second of `seconds`.
    pub(super) fn within(&self, number: u32, seconds: f64) -> Ask {
        self.counts[number as usize].units.map(|units| (f64::from(units) / seconds) as f32)
    }

    /// Requests for a chunk lately, a second.
    #[inline]
    pub(super) fn lately(&self, lane: usize, number: u32) -> Ask {
        self.lanes[lane][number as usize]
    }

    /// Pool of a chunk at the last `look`.
    #[inline]
    pub(super) fn pool_of(&self, number: u32) -> usize {
        usize::from(self.pools[number as usize])
    }

    /// Pool of a chunk at the last `look`; of one that was met since, the slowest that there may
    /// be.
    #[inline]
    pub(super) fn known_pool_of(&self, number: u32) -> usize {
        self.pools.get(number as usize).map_or(usize::MAX, |&home| usize::from(home))
    }

    /// Pools of kept copies, by chunk.
    pub(super) fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// True if a move of the chunk to a pool copies nothing: its last one has left a copy there, as
    /// of the last `look`.
    #[inline]
    pub(super) fn is_kept_on(&self, number: u32, pool: usize) -> bool {
        self.kept.get(number as usize).is_some_and(|&kept| usize::from(kept) == pool)
    }

    /// Pool on which it would be if nothing had been moved; `None`: it was on no pool at the last
    /// `look`, and cannot be moved.
    #[inline]
    pub(super) fn first_home(&self, number: u32) -> Option<usize> {
        let first = self.firsts[number as usize];
        (first != NOWHERE).then_some(usize::from(first))
    }

    /// Pools of chunks at the last `look`; [`NOWHERE`] for those that were on none.
    pub(super) fn places(&self) -> impl Iterator<Item = u8> {
        let places = self.pools.iter().zip(&self.firsts);
        places.map(|(&home, &first)| if first == NOWHERE { NOWHERE } else { home })
    }

    /// Requests of the epoch for the chunks around each, the nearer ones weighing more; by chunk.
    pub(super) fn around(&self) -> Vec<Ask> {
        let mut around = vec![[0.0; 4]; self.counts.len()];
        for number in 0..self.len() {
            let asked = self.now(number);
            if asked == [0.0; 4] {
                continue;
            }
            let ChunkId { volume, index } = self.chunks.id(number);
            for (distance, weight) in WEIGHTS {
                let both = [index.checked_sub(distance), index.checked_add(distance)];
                for index in both.into_iter().flatten() {
                    let Some(near) = self.chunks.find(ChunkId { volume, index }) else { continue };
                    let sum = &mut around[near as usize];
                    sum.iter_mut().zip(asked).for_each(|(sum, more)| *sum += more * weight);
                }
            }
        }
        around
    }

    /// Starts the next epoch.
    pub(super) fn advance(&mut self) {
        self.counts.iter_mut().for_each(|count| count.units = [0; 4]);
    }

    pub(super) fn bytes(&self) -> u64 {
        let lanes: usize = self.lanes.iter().map(|lane| lane.capacity() * size_of::<Ask>()).sum();
        let vectors = lanes
            + self.counts.capacity() * size_of::<Count>()
            + self.pools.capacity()
            + self.kept.capacity()
            + self.firsts.capacity()
            + self.tails.capacity() * 8;
        self.chunks.bytes() + vectors as u64
    }
}

/// Weights of the chunks around one, by distance; both sides together weigh 1.
const WEIGHTS: [(u32, f32); 4] = [(1, 0.25), (2, 0.125), (3, 0.0625), (4, 0.0625)];

const _: () = assert!(size_of::<Count>() == 20 && size_of::<Ask>() == 16);

#[cfg(test)]
mod tests;
