//! A stochastic multi-queue over chunks, after dm-cache's `smq`.
//!
//! 1. Chunks stand on 64 levels. The first access of a chunk in each `period` lifts it by the level
//!    jump, and makes it the most recently used.
//! 2. The jump follows how good the levels are: of a period's accesses, those to the upper quarter
//!    of the levels are hits. Below 1/16 of hits the levels are poor and chunks jump by 4, below
//!    1/8 by 2, else by 1.
//! 3. At the epoch's end all levels are filled anew, equally, in the order of level, then of last
//!    use.
//! 4. A chunk on a high enough level rises to the fastest pool: while that has free room, on level
//!    32; afterwards the better the fastest pool serves, the lower: level 64 − t, t from a table by
//!    the share of accesses that it served. One that was written last needs two levels more.
//! 5. Room is made by chunks on the fastest pool below the level of promotion, lowest first, which
//!    go to the next pool with room.
//!
//! Source: Linux' `dm-cache-policy-smq` as of 2016, by its design; the numbers above are its own.
//! Differs: it is a policy of small blocks with a hotspot queue of larger ones in front, of which
//! the chunk is one; what it decides for each request is decided here once an epoch; its hits are
//! counted by level in the cache too, ours by pool; the level of promotion never exceeds the
//! highest level.
//!
//! State: 29 B a chunk: 12 of address, 16 of level and use, 1 for where it is. O(1) an access; O(n
//! log n) an epoch over all chunks met.

use super::chunks::Chunks;
use super::plan::Plan;
use super::{Budget, ChunkAccess, FLASH, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

const PERIOD: Setting = Setting {
    name: "period",
    default: "1s",
    unit: "duration",
    help: "only the first access of a chunk in each period lifts it",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "smq",
    summary: "a multi-queue of 64 levels with a moving level of promotion, as in dm-cache",
    source: "dm-cache's smq policy (Linux, 2016), at the grain of chunks",
    settings: &[PERIOD],
    build: Build::Placement(|settings| Ok(Box::new(Smq::new(settings)?))),
};

const LEVELS: u8 = 64;
/// Accesses from this level on are hits of the levels.
const HIT_LEVEL: u8 = LEVELS / 4 * 3;
/// Levels from the top that are promoted, by sixteenths of accesses that the fastest pool served.
const PROMOTED: [u8; 17] = [1, 1, 1, 2, 4, 6, 7, 8, 7, 6, 4, 4, 3, 3, 2, 2, 1];
/// Levels that a chunk needs in addition when it was written last.
const WRITTEN_MORE: u8 = 2;

/// Use of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Use {
    /// Time of its last lifting, among all liftings.
    last: u64,
    /// Period of its last use; 0: never.
    period: u32,
    level: u8,
    written: bool,
}

/// Hits and misses.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    hits: u64,
    all: u64,
}

impl Share {
    fn count(&mut self, hit: bool) {
        self.all += 1;
        self.hits += u64::from(hit);
    }

    /// Hits in sixteenths of all; `None` of nothing.
    fn sixteenths(self) -> Option<u64> {
        (self.hits * 16).checked_div(self.all)
    }
}

/// A stochastic multi-queue over chunks.
#[derive(Debug)]
struct Smq {
    period_ns: u64,
    chunks: Chunks,
    uses: Vec<Use>,
    on_flash: Vec<bool>,
    liftings: u64,
    period: u32,
    jump: u8,
    /// Shares of the levels in the period, and of the fastest pool in the epoch.
    levels: Share,
    served: Share,
    promoted: u8,
}

impl Smq {
    fn new(settings: &Settings) -> Result<Smq, SettingsError> {
        Ok(Smq {
            period_ns: settings.duration("period")?.0.max(1),
            chunks: Chunks::default(),
            uses: Vec::new(),
            on_flash: Vec::new(),
            liftings: 0,
            period: 0,
            jump: 1,
            levels: Share::default(),
            served: Share::default(),
            promoted: PROMOTED[0],
        })
    }

    /// Begins another period when it is time.
    #[inline]
    fn pass(&mut self, at: Nanos) {
        // Truncated: two accesses 2³² periods apart may count as one.
        let period = (at.0 / self.period_ns) as u32 | 1 << 31;
        if period == self.period {
            return;
        }
        self.period = period;
        let levels = std::mem::take(&mut self.levels);
        self.jump = match (levels.hits * 16, levels.hits * 8) {
            (sixteen, _) if sixteen < levels.all => 4,
            (_, eight) if eight < levels.all => 2,
            _ => 1,
        };
    }

    fn cover(&mut self, number: u32) {
        let count = number as usize + 1;
        if self.uses.len() < count {
            self.uses.resize(count, Use::default());
            self.on_flash.resize(count, false);
        }
    }

    fn look(&mut self, view: &dyn VolumeView) {
        self.on_flash.fill(false);
        view.visit_pool(FLASH, &mut |chunk| {
            let number = self.chunks.number(chunk);
            self.cover(number);
            self.on_flash[number as usize] = true;
        });
    }

    /// Fills all levels equally; the chunks in order, lowest first.
    fn fill_levels(&mut self) -> Vec<u32> {
        let count = u64::from(self.chunks.len());
        let place = |(number, used): (u32, &Use)| {
            u128::from(used.level) << 96 | u128::from(used.last) << 32 | u128::from(number)
        };
        let mut order: Vec<u128> = (0..).zip(&self.uses).map(place).collect();
        order.sort_unstable();
        let order: Vec<u32> = order.into_iter().map(|place| place as u32).collect();
        for (rank, &number) in (1..).zip(&order) {
            self.uses[number as usize].level = ((rank * u64::from(LEVELS) - 1) / count) as u8;
        }
        order
    }

    /// Levels from the top that are promoted.
    fn promoted(&mut self, view: &dyn VolumeView) -> u8 {
        let served = std::mem::take(&mut self.served);
        if let Some(sixteenths) = served.sixteenths() {
            self.promoted = PROMOTED[sixteenths as usize];
        }
        let free = view.used_chunks(FLASH) < view.capacity_chunks(FLASH);
        if free { LEVELS / 2 } else { self.promoted }
    }
}

impl Placement for Smq {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.pass(access.at);
        let number = self.chunks.number(access.chunk);
        self.cover(number);
        self.served.count(self.on_flash[number as usize]);
        let used = &mut self.uses[number as usize];
        self.levels.count(used.level >= HIT_LEVEL);
        used.written = access.write;
        if used.period != self.period {
            used.period = self.period;
            used.level = (used.level + self.jump).min(LEVELS - 1);
            self.liftings += 1;
            used.last = self.liftings;
        }
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.look(view);
        let order = self.fill_levels();
        let level = LEVELS - self.promoted(view);
        let mut plan = Plan::new(view);
        for &number in order.iter().rev() {
            let (used, chunk) = (&self.uses[number as usize], self.chunks.id(number));
            let more = if used.written { WRITTEN_MORE } else { 0 };
            if self.on_flash[number as usize] {
                if used.level < level {
                    plan.may_yield(chunk, FLASH);
                }
            } else if used.period > 0 && used.level >= (level + more).min(LEVELS - 1) {
                plan.wish(chunk, view.pool_of(chunk), FLASH);
            }
        }
        plan.propose(budget, moves);
    }

    fn footprint(&self) -> Footprint {
        let vectors = self.uses.capacity() * size_of::<Use>() + self.on_flash.capacity();
        Footprint { resident: 0, index: self.chunks.bytes() + vectors as u64 }
    }
}

const _: () = assert!(size_of::<Use>() == 16);

#[cfg(test)]
mod tests;
