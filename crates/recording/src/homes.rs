//! Table of every chunk's pool: a volume as a placement sees it.
//!
//! The recorder keeps the last epoch's table to write down only what changed; the replay builds the
//! same table from those changes and shows it to a placement. State: 2 B a chunk, up to the last
//! one that ever lived anywhere.

use std::collections::BTreeMap;
use thermocline_policy::placement::{PoolChange, PoolLoad, PoolTraits, Sla, VolumeView};
use thermocline_trace::recording::{
    CHUNKS_MAX, Epoch, Homes as Run, PoolFill, SecondCopy, VOLUMES_MAX,
};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::settings::POOLS_MAX;

/// Nowhere.
const NOWHERE: u16 = u16::MAX;
/// Above the pool stands that of a second copy, plus one, and [`KEPT`] if a move has left it.
const SECOND_SHIFT: u32 = 8;
const KEPT: u16 = 0x80;

const _: () = assert!(POOLS_MAX < KEPT as usize - 1);

/// The pool of an entry, and its second copy.
fn places(home: u16) -> (Option<PoolId>, Option<SecondCopy>) {
    if home == NOWHERE {
        return (None, None);
    }
    let (pool, second) = (home & ((1 << SECOND_SHIFT) - 1), home >> SECOND_SHIFT);
    let second = (second & !KEPT).checked_sub(1).map(|other| match second & KEPT {
        0 => SecondCopy::Mirror(PoolId(other)),
        _ => SecondCopy::Kept(PoolId(other)),
    });
    (Some(PoolId(pool)), second)
}

/// The part of an entry that says so much of a second copy.
fn second_bits(second: SecondCopy) -> u16 {
    let kept = if matches!(second, SecondCopy::Kept(_)) { KEPT } else { 0 };
    ((second.pool().0 + 1) | kept) << SECOND_SHIFT
}

/// Entries of all tables together: 512 MiB of memory, which is 256 TiB in chunks of 1 MiB.
const ENTRIES_MAX: usize = 1 << 28;

/// Pools by volume and chunk.
#[derive(Debug, Default)]
pub(super) struct Homes {
    volumes: Vec<Vec<u16>>,
    entries: usize,
}

impl Homes {
    /// Forgets everything, keeps the memory.
    pub(super) fn clear(&mut self) {
        self.volumes.iter_mut().for_each(|volume| volume.fill(NOWHERE));
    }

    /// `count` chunks from `first` on live on `pool` now; false when the table would be larger than
    /// is believed.
    pub(super) fn set(&mut self, first: ChunkId, count: u32, pool: Option<PoolId>) -> bool {
        let (volume, from) = (first.volume.0 as usize, first.index as usize);
        let until = from + count as usize;
        if first.volume.0 >= VOLUMES_MAX || until > CHUNKS_MAX as usize {
            return false;
        }
        if self.volumes.len() <= volume {
            self.volumes.resize_with(volume + 1, Vec::new);
        }
        let homes = &mut self.volumes[volume];
        if homes.len() < until {
            self.entries += until - homes.len();
            if self.entries > ENTRIES_MAX {
                return false;
            }
            homes.resize(until, NOWHERE);
        }
        homes[from..until].fill(pool.map_or(NOWHERE, |pool| pool.0));
        true
    }

    /// `count` chunks from `first` on, which live somewhere and have no second copy yet, have this
    /// one.
    pub(super) fn set_second(&mut self, first: ChunkId, count: u32, second: SecondCopy) {
        let bits = second_bits(second);
        let homes = &mut self.volumes[first.volume.0 as usize];
        let from = first.index as usize;
        homes[from..from + count as usize].iter_mut().for_each(|home| *home |= bits);
    }

    /// Pools are at other places. A chunk on one that is gone is nowhere, and a second copy there
    /// is none any more.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        for home in self.volumes.iter_mut().flatten() {
            let (Some(pool), second) = places(*home) else { continue };
            let second = second.and_then(|second| {
                let pool = change.place_of(second.pool())?;
                Some(match second {
                    SecondCopy::Mirror(_) => SecondCopy::Mirror(pool),
                    SecondCopy::Kept(_) => SecondCopy::Kept(pool),
                })
            });
            let pool = change.place_of(pool);
            *home = pool.map_or(NOWHERE, |pool| pool.0 | second.map_or(0, second_bits));
        }
    }

    /// Shows every chunk that has a second copy, by ascending id.
    fn visit_seconds(&self, visit: &mut dyn FnMut(ChunkId, SecondCopy)) {
        for (number, homes) in self.volumes.iter().enumerate() {
            let volume = VolumeId(number as u32);
            for (index, &home) in homes.iter().enumerate() {
                if let (Some(_), Some(second)) = places(home) {
                    visit(ChunkId { volume, index: index as u32 }, second);
                }
            }
        }
    }

    #[inline]
    fn get(&self, chunk: ChunkId) -> u16 {
        let volume = self.volumes.get(chunk.volume.0 as usize);
        volume.and_then(|homes| homes.get(chunk.index as usize)).copied().unwrap_or(NOWHERE)
    }

    /// Pool of a chunk; `None`: nowhere.
    pub(super) fn pool_of(&self, chunk: ChunkId) -> Option<PoolId> {
        places(self.get(chunk)).0
    }

    fn of(&self, volume: usize) -> &[u16] {
        self.volumes.get(volume).map_or(&[], |homes| homes)
    }

    /// Tells how `self` differs from `before`, in runs by ascending id.
    pub(super) fn changes(&self, before: &Homes, mut tell: impl FnMut(Run)) {
        for number in 0..self.volumes.len().max(before.volumes.len()) {
            let volume = VolumeId(number as u32);
            let (now, then) = (self.of(number), before.of(number));
            let at = |homes: &[u16], index: usize| homes.get(index).copied().unwrap_or(NOWHERE);
            let mut run: Option<Run> = None;
            for index in 0..now.len().max(then.len()) {
                let home = at(now, index);
                let chunk = ChunkId { volume, index: index as u32 };
                let (pool, second) = places(home);
                let changed = home != at(then, index);
                match &mut run {
                    Some(run) if changed && (run.pool, run.second) == (pool, second) => {
                        run.count += 1;
                    }
                    _ => {
                        let next = changed.then_some(Run { chunk, count: 1, pool, second });
                        std::mem::replace(&mut run, next).into_iter().for_each(&mut tell);
                    }
                }
            }
            run.into_iter().for_each(&mut tell);
        }
    }
}

/// View of a placement, by a recording.
///
/// A recording of version 1 does not say how long its epochs were, nor what pools can do and did:
/// then an epoch lasts from the one before to this, pools are what is assumed, and did nothing. The
/// placements of its time read none of that.
#[derive(Debug)]
pub(super) struct RecordedView {
    pub(super) homes: Homes,
    chunk: Bytes,
    at: Nanos,
    length: Nanos,
    volumes: u32,
    pub(super) pools: Vec<Pool>,
    /// SLAs, by volume.
    pub(super) slas: BTreeMap<VolumeId, Sla>,
}

/// A pool at an epoch's end.
#[derive(Debug)]
pub(super) struct Pool {
    capacity: u64,
    used: u64,
    load: PoolLoad,
    traits: PoolTraits,
}

impl Pool {
    /// A pool that has joined, before the end of an epoch tells more of it.
    fn unknown(pool: PoolId, pools: u16) -> Pool {
        let (load, traits) = (PoolLoad::default(), PoolTraits::assumed(pool, pools));
        Pool { capacity: 0, used: 0, load, traits }
    }

    fn of(fill: &PoolFill, pool: PoolId, pools: u16) -> Pool {
        let (load, rest) = PoolLoad::from_figures(&fill.figures).unwrap_or_default();
        let traits = PoolTraits::from_figures(rest);
        Pool {
            capacity: fill.capacity,
            used: fill.used,
            load,
            traits: traits.unwrap_or_else(|| PoolTraits::assumed(pool, pools)),
        }
    }
}

impl RecordedView {
    /// The view of a machine with chunks of this size, before its first epoch.
    pub(super) fn of(chunk: Bytes) -> RecordedView {
        RecordedView {
            homes: Homes::default(),
            chunk,
            at: Nanos(0),
            length: Nanos(1),
            volumes: 0,
            pools: Vec::new(),
            slas: BTreeMap::new(),
        }
    }

    /// End of the last epoch.
    pub(super) fn at(&self) -> Nanos {
        self.at
    }

    /// A pool has joined, or is gone; false when there is no such place.
    pub(super) fn pools_changed(&mut self, change: PoolChange) -> bool {
        let count = self.pools.len();
        let fits = match change {
            PoolChange::Joined(pool) => usize::from(pool.0) <= count && count < POOLS_MAX,
            PoolChange::Left(pool) => usize::from(pool.0) < count,
        };
        // Before the first epoch no pool is known, and nothing is anywhere.
        if fits && count > 0 {
            match change {
                PoolChange::Joined(pool) => {
                    self.pools.insert(usize::from(pool.0), Pool::unknown(pool, count as u16 + 1));
                }
                PoolChange::Left(pool) => _ = self.pools.remove(usize::from(pool.0)),
            }
            self.homes.pools_changed(change);
        }
        fits || count == 0
    }

    /// The epoch's pools. False when there are fewer than before and nothing said that they are
    /// gone.
    pub(super) fn turn_to(&mut self, epoch: &Epoch) -> bool {
        let kept = epoch.pools.len() >= self.pools.len();
        self.volumes = epoch.volumes;
        let since = epoch.at.saturating_sub(std::mem::replace(&mut self.at, epoch.at));
        self.length = epoch.length.unwrap_or(since).max(Nanos(1));
        let count = epoch.pools.len() as u16;
        let pools = (0..count).map(PoolId).zip(&epoch.pools);
        self.pools = pools.map(|(pool, fill)| Pool::of(fill, pool, count)).collect();
        kept
    }
}

impl VolumeView for RecordedView {
    fn chunk_size(&self) -> Bytes {
        self.chunk
    }

    fn epoch(&self) -> Nanos {
        self.length
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        self.pools[usize::from(pool.0)].traits
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        self.pools[usize::from(pool.0)].load
    }

    fn volume_count(&self) -> u32 {
        self.volumes
    }

    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.slas.get(&volume).copied()
    }

    fn pool_count(&self) -> u16 {
        self.pools.len() as u16
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.pools[usize::from(pool.0)].capacity
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        self.homes.pool_of(chunk).unwrap_or(PoolId(self.pool_count() - 1))
    }

    fn holds(&self, chunk: ChunkId) -> bool {
        self.homes.pool_of(chunk).is_some()
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        self.pools[usize::from(pool.0)].used
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        for (number, homes) in self.homes.volumes.iter().enumerate() {
            let volume = VolumeId(number as u32);
            for (index, &home) in homes.iter().enumerate() {
                if places(home).0 == Some(pool) {
                    visit(ChunkId { volume, index: index as u32 });
                }
            }
        }
    }

    fn visit_mirrors(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        self.homes.visit_seconds(&mut |chunk, second| {
            if let SecondCopy::Mirror(pool) = second {
                visit(chunk, pool);
            }
        });
    }

    /// Only engines make recordings.
    fn lends_lines(&self) -> bool {
        true
    }

    fn visit_kept(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        self.homes.visit_seconds(&mut |chunk, second| {
            if let SecondCopy::Kept(pool) = second {
                visit(chunk, pool);
            }
        });
    }
}

#[cfg(test)]
mod tests;
