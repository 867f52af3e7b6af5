//! MOST: tiering, and mirrors of the hottest chunks by which load is balanced at once.
//!
//! 1. *Fast loop.* L_P and L_C are the smoothed latencies of the fastest pool and of the next one.
//!    When L_P exceeds (1 + `theta`) · L_C, `step` more of the requests to mirrored blocks go to
//!    the slower side; when it is below (1 − `theta`) · L_C, so much less. Otherwise nothing moves.
//! 2. *Slow loop*, at an epoch's end, by what the fast loop said last:
//!    - overloaded, and all requests to mirrored blocks diverted: the hottest chunks of the fastest
//!      pool are mirrored, up to `mirrors` of all slots; beyond that hotter ones take the place of
//!      colder mirrors. Nothing moves up.
//!    - underloaded, and none diverted: the hottest chunks below rise, for free room or a colder
//!      chunk that is not mirrored.
//! 3. Where less than `reserve` of the next pool is free, the coldest mirrors there are given up.
//! 4. No more bytes move than `limit` a second of the epoch.
//!
//! `balance=marginal` is ours (not in the source): it compares what one more request costs all
//! others, L + x · dL/dx, instead of L. Where these are equal the mean latency is least; where
//! latencies are equal it is not. See `mirrors` for the curve.
//!
//! Source: MOST (Cerberus), FAST 2026. Differs: its segments of 2 MiB are the machine's chunks, its
//! loop of 200 ms turns every 100; where new data goes is the machine's business; blocks that are
//! newer on one side are made equal again when a chunk has rested, by the machine, and not by
//! their rewrite distance; pools below the second are the second's lower part.
//!
//! State: 62 B a chunk, 16 B a mirrored one (`warmth`). O(1) an access, O(n log n) an epoch.

use super::mirrors::{Balance, Balanced, Load, Router, SECOND, of_all_slots, slots};
use super::plan::{Plan, Rooms};
use super::warmth::{Warm, Warmth};
use super::{Budget, ChunkAccess, FLASH, Move, Placement, PoolChange, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Bytes, Nanos};

const BALANCE: Setting = Setting {
    name: "balance",
    default: "latency",
    unit: "latency or marginal",
    help: "what is to be equal on both sides: the latency, or what one more request costs all",
};
const THETA: Setting = Setting {
    name: "theta",
    default: "0.05",
    unit: "fraction",
    help: "differences below this are none",
};
const STEP: Setting = Setting {
    name: "step",
    default: "0.02",
    unit: "share of requests",
    help: "by how much the diverted share changes in 100 ms",
};
const MIRRORS: Setting = Setting {
    name: "mirrors",
    default: "0.2",
    unit: "share of all slots",
    help: "chunks mirrored at most",
};
const RESERVE: Setting = Setting {
    name: "reserve",
    default: "0.025",
    unit: "share of the pool",
    help: "kept free of mirrors on the second pool",
};
const LIMIT: Setting = Setting {
    name: "limit",
    default: "64MiB",
    unit: "bytes a second",
    help: "moved at most, over the length of an epoch",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "most",
    summary: "mirrors the hottest chunks and balances their load a few times a second",
    source: "MOST, FAST 2026",
    settings: &[BALANCE, THETA, STEP, MIRRORS, RESERVE, LIMIT],
    build: Build::Placement(|settings| Ok(Box::new(Most::new(settings)?))),
};

/// MOST: tiers, and mirrors of the hottest chunks.
#[derive(Debug)]
struct Most {
    balance: Balance,
    mirrors: f64,
    reserve: f64,
    limit: Bytes,
    warmth: Warmth,
}

impl Most {
    fn new(settings: &Settings) -> Result<Most, SettingsError> {
        let share = |name| settings.number(name, 0.0, 1.0);
        let marginal = settings.choice("balance", &["latency", "marginal"])? == 1;
        let balanced = if marginal { Balanced::Marginal } else { Balanced::Latency };
        Ok(Most {
            balance: Balance::new(balanced, share("theta")?, share("step")?),
            mirrors: share("mirrors")?,
            reserve: share("reserve")?,
            limit: settings.bytes("limit")?,
            warmth: Warmth::default(),
        })
    }

    /// Gives up the coldest mirrors while the second pool is short of room.
    fn reclaim(&self, ranked: &mut [Warm], rooms: &mut Rooms, view: &dyn VolumeView) -> Vec<Move> {
        let least = (slots(view, SECOND) as f64 * self.reserve) as i128;
        let mut moves = Vec::new();
        let mirrored = ranked.iter_mut().rev().filter(|warm| warm.mirror == Some(SECOND));
        for cold in mirrored {
            if rooms.free(SECOND) >= least {
                break;
            }
            moves.push(Move::to(cold.chunk, cold.home));
            rooms.give_back(SECOND);
            cold.mirror = None;
        }
        moves
    }

    /// Mirrors the hottest chunks of the fastest pool, in place of colder mirrors if it must be.
    fn enlarge(&self, ranked: &[Warm], rooms: &mut Rooms, view: &dyn VolumeView) -> Vec<Move> {
        let least = (slots(view, SECOND) as f64 * self.reserve) as i128;
        let mut colder = ranked.iter().rev().filter(|warm| warm.mirror.is_some()).peekable();
        let mut count = ranked.iter().filter(|warm| warm.mirror.is_some()).count();
        let most = of_all_slots(view, self.mirrors) as usize;
        let mut moves = Vec::new();
        let hot = |warm: &&Warm| warm.home == FLASH && warm.mirror.is_none() && warm.warmth > 0.0;
        for hot in ranked.iter().filter(hot) {
            if count < most && rooms.free(SECOND) > least {
                rooms.take(SECOND);
                count += 1;
            } else {
                let colder = colder.next_if(|cold| cold.warmth * 2.0 < hot.warmth);
                let Some(cold) = colder else { break };
                moves.push(Move::to(cold.chunk, cold.home));
            }
            moves.push(Move::mirror(hot.chunk, SECOND));
        }
        moves
    }
}

impl Placement for Most {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.warmth.record(access);
    }

    fn pools_changed(&mut self, change: PoolChange) {
        self.balance.pools_changed(change);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        let mut ranked = self.warmth.ranked(view);
        if view.pool_count() < 2 {
            return;
        }
        self.balance.look(view);
        let bytes = self.limit.0 as f64 * view.epoch().as_secs_f64();
        let most = budget.moves.min((bytes / view.chunk_size().0 as f64) as u64);
        let mut rooms = Rooms::of(view);
        let mut proposed = self.reclaim(&mut ranked, &mut rooms, view);
        match self.balance.load {
            Load::Over if self.balance.diverts_all() => {
                proposed.extend(self.enlarge(&ranked, &mut rooms, view));
            }
            // Room that mirrors leave is there when they have left.
            Load::Under if self.balance.share() <= 0.0 && proposed.is_empty() => {
                promote(&ranked, view, Budget { moves: most }, &mut proposed);
            }
            _ => {}
        }
        moves.extend(proposed.into_iter().take(most as usize));
    }

    fn router(&mut self) -> Option<&mut dyn Router> {
        Some(&mut self.balance)
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.warmth.bytes() }
    }
}

/// Classic promotion: the hottest below the fastest pool rise, for chunks that are colder.
fn promote(ranked: &[Warm], view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
    let alone = || ranked.iter().filter(|warm| warm.mirror.is_none());
    let mut free = view.capacity_chunks(FLASH).saturating_sub(view.used_chunks(FLASH));
    let mut coldest = alone().rev().filter(|warm| warm.home == FLASH);
    let (mut plan, mut leaving) = (Plan::new(view), Vec::new());
    for hot in alone().filter(|warm| warm.home != FLASH && warm.warmth > 0.0) {
        if free > 0 {
            free -= 1;
        } else {
            let Some(cold) = coldest.next().filter(|cold| cold.warmth < hot.warmth) else { break };
            leaving.push(cold.chunk);
        }
        plan.wish(hot.chunk, hot.home, FLASH);
    }
    leaving.iter().rev().for_each(|&chunk| plan.may_yield(chunk, FLASH));
    plan.propose(budget, moves);
}

#[cfg(test)]
mod tests;
