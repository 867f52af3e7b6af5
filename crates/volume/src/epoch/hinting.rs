//! Hints at work: what the machine does with what is said of data (HintStor, Ge et al. 2022 §3.3).
//!
//! - A chunk that is written first goes to the pools of its class, in their order, while they have
//!   room; without a hint, or without room there, where the settings say.
//! - A write to a chunk on a slower pool than its class wants, which a tactic calls busy, lets the
//!   chunk be redirected: writes go to the faster pool from then on.
//! - Requests to ranges of background tasks join the scheduler's waiting queue, with a deadline.
//! - So are the chunks of a far pool, with hints or without: no pool here is as bad a place for
//!   writes.
//! - At an epoch's end `policy::hints::director` proposes moves beside the placement's.
//! - A prefetch wishes a copy in a reserve of each chunk of a range.
//!
//! No hint is needed for anything to be right: all of this chooses among what may be done anyway.
//! Without hints and far pools it costs one look at an empty list a request, and at the chunk's
//! pool a write.

use crate::group_state::GroupState;
use crate::io::request::{Action, Priority, Request};
use crate::map::place::Place;
use crate::moves::operation::{Operation, OperationId, OperationKind, Refusal};
use crate::moves::{Moves, refuse};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thermocline_policy::hints::director::Directed;
use thermocline_policy::hints::store::{HintError, Hints};
use thermocline_policy::placement::{Move, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Chunks of prefetches that have not begun; beyond it more are refused.
pub const HINT_WISHES_MAX: usize = 65_536;
/// Redirections that have not begun, at most: each new one is looked for among them.
const REDIRECTS_MAX: usize = 256;
/// Hints that writes look at between two rounds of housekeeping, a tenth of a second: where a chunk
/// has thousands of them, each look takes tens of microseconds.
const LOOKS_MAX: u32 = 64;

/// Reason why a hint was not taken. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HintRefusal {
    /// The hint itself.
    #[error(transparent)]
    Hint(#[from] HintError),
    /// There is no such volume.
    #[error("there is no volume {0}")]
    NoVolume(VolumeId),
    /// A range that begins beyond the volume.
    #[error("the range begins at {}, beyond the end of a volume of {}", Bytes(*.0), Bytes(*.1))]
    Beyond(u64, u64),
    /// The group is not in service.
    #[error("the volume group is not in service")]
    NotReady,
}

/// Counts of what hints led to since opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HintCounts {
    /// Chunks that went where their class wants when they were written first.
    pub placed: u64,
    /// Redirections that writes began.
    pub redirected: u64,
    /// Requests that were let wait.
    pub waited: u64,
    /// Chunks of prefetches that were wished.
    pub prefetched: u64,
    /// Prefetches and redirections for which there was no room when their turn came.
    pub refused: u64,
    /// Moves that the director proposed.
    pub moves: u64,
    /// Moves of placements that it dropped.
    pub dropped: u64,
    /// Chunks that hints claimed at the end of the last epoch.
    pub claimed: u64,
}

/// Hints in force, and the wishes that follow from them.
#[derive(Debug, Default)]
pub(crate) struct Hinting {
    pub(crate) hints: Hints,
    counts: HintCounts,
    /// Redirections, the latest first.
    wishes: VecDeque<Operation>,
    /// Prefetches, by when they are needed and the how manieth was wished.
    prefetches: BTreeMap<(Nanos, u64), Operation>,
    /// Both kinds, where the chunk was busy: they have their next turn after all others, for a
    /// chunk can be busy for minutes.
    later: VecDeque<Operation>,
    later_prefetches: BTreeMap<(Nanos, u64), Operation>,
    /// Chunks whose hints writes have looked at since the last round of housekeeping.
    looks: u32,
}

impl Hinting {
    /// Counts of what hints led to.
    pub(crate) fn counts(&self) -> HintCounts {
        self.counts
    }

    /// The next copy that is wished, redirections first, and its place among prefetches.
    pub(crate) fn next_wish(&mut self) -> Option<(Option<(Nanos, u64)>, Operation)> {
        let redirection = self.wishes.pop_front().map(|wish| (None, wish));
        let prefetch = || self.prefetches.pop_first().map(|(place, wish)| (Some(place), wish));
        redirection.or_else(prefetch)
    }

    /// A round of granting wishes begins. Wishes whose chunks were busy come again in a later round
    /// than that, and only when no other is left: so each has one turn a round at most.
    pub(crate) fn begin_round(&mut self) {
        self.looks = 0;
        if self.wishes.is_empty() {
            std::mem::swap(&mut self.wishes, &mut self.later);
        }
        if self.prefetches.is_empty() {
            std::mem::swap(&mut self.prefetches, &mut self.later_prefetches);
        }
        assert!(self.later.is_empty() || !self.wishes.is_empty(), "nobody waits for nobody");
    }

    /// Counts what became of a wish, and puts it back where it must wait: behind the others where
    /// its chunk is busy. False: no other one would be taken either.
    pub(crate) fn note_started(
        &mut self,
        place: Option<(Nanos, u64)>,
        wish: Operation,
        started: Result<OperationId, Refusal>,
    ) -> bool {
        let prefetch = wish.kind == OperationKind::Prefetch;
        assert_eq!(place.is_some(), prefetch, "prefetches have their places");
        match started {
            Ok(_) if wish.kind == OperationKind::Redirect => self.counts.redirected += 1,
            Ok(_) | Err(Refusal::AlreadyThere | Refusal::Unmapped) => {}
            Err(Refusal::Busy) => self.put_off(place, wish),
            Err(Refusal::QueueFull) => {
                self.put_back(place, wish);
                return false;
            }
            Err(_) => self.counts.refused += 1,
        }
        true
    }

    /// Puts a wish back to where it was.
    fn put_back(&mut self, place: Option<(Nanos, u64)>, wish: Operation) {
        let before = match place {
            Some(place) => self.prefetches.insert(place, wish),
            None => {
                self.wishes.push_front(wish);
                None
            }
        };
        assert!(before.is_none(), "each wish has a place of its own");
    }

    /// Lets a wish wait until all others have had their turn.
    fn put_off(&mut self, place: Option<(Nanos, u64)>, wish: Operation) {
        let before = match place {
            Some(place) => self.later_prefetches.insert(place, wish),
            None => {
                self.later.push_back(wish);
                None
            }
        };
        assert!(before.is_none(), "each wish has a place of its own");
    }
}

impl Hinting {
    /// Forgets what was said and wished of a volume that is deleted: its number is given again.
    pub(crate) fn forget_volume(&mut self, volume: VolumeId) {
        self.hints.forget_volume(volume);
        for wishes in [&mut self.wishes, &mut self.later] {
            wishes.retain(|wish| wish.chunk.volume != volume);
        }
        for wishes in [&mut self.prefetches, &mut self.later_prefetches] {
            wishes.retain(|_, wish| wish.chunk.volume != volume);
        }
        let mut left = self.wishes.iter().chain(self.prefetches.values());
        assert!(left.all(|wish| wish.chunk.volume != volume), "nothing is wished of it");
    }

    /// Notes prefetches for [`prefetch`](crate::Group::prefetch), to be begun at the next
    /// opportunity.
    pub(crate) fn wish_prefetches(
        &mut self,
        group: &GroupState,
        volume: VolumeId,
        range: (u64, u64),
        due: Option<Nanos>,
    ) -> Result<u64, HintRefusal> {
        let (start, end) = range_within(group, Some(volume), range)?;
        let chunk_size = u64::from(group.pools.chunk_bytes());
        let (first, end) = (start / chunk_size, end.div_ceil(chunk_size));
        let mut wished = 0;
        for index in first..end {
            if self.prefetches.len() + self.later_prefetches.len() >= HINT_WISHES_MAX {
                break;
            }
            let chunk = ChunkId { volume, index: index as u32 };
            let Some(home) = group.pool_of(chunk) else { continue };
            let to = group.pools.ranks().faster_than(home).find(|&to| {
                let pool = &group.pools[to];
                pool.takes_chunks() && pool.reserve > 0
            });
            if let Some(to) = to {
                let operation = Operation { kind: OperationKind::Prefetch, chunk, to };
                let number = self.counts.prefetched + wished;
                let place = (due.unwrap_or(Nanos(u64::MAX)), number);
                let before = self.prefetches.insert(place, operation);
                assert!(before.is_none(), "each wish has a place of its own");
                wished += 1;
            }
        }
        self.counts.prefetched += wished;
        Ok(wished)
    }

    /// Lets the requests of background tasks wait.
    pub(crate) fn lower(&mut self, now: Nanos, request: &Request, range: (u64, u64)) -> Priority {
        if self.hints.is_empty() || matches!(request.action, Action::Flush) {
            return request.priority;
        }
        assert!(range.0 <= range.1, "a range does not end before it begins");
        let wait = self.hints.wait(now, request.volume, range.0..range.1);
        let Some(wait) = wait.filter(|_| request.priority == Priority::Foreground) else {
            return request.priority;
        };
        self.counts.waited += 1;
        Priority::Background { deadline: Nanos(now.0 + wait.0) }
    }

    /// Pools for a chunk's first write, best first; empty without a hint.
    pub(crate) fn pools_for(&self, group: &GroupState, chunk: ChunkId) -> Vec<PoolId> {
        let Hinting { hints, .. } = self;
        if hints.is_empty() {
            return Vec::new();
        }
        let Some(hint) = hints.of(group.now, chunk, group.chunk_size()) else {
            return Vec::new();
        };
        let order = group.pools.ranks().there().iter().copied();
        let taking: Vec<PoolId> = order.filter(|&pool| group.pools[pool].takes_chunks()).collect();
        if hint.demoted {
            return taking.last().map(|&slowest| near(group, slowest)).into_iter().collect();
        }
        hints.preference(hint.class, &taking).map(|pool| near(group, pool)).collect()
    }

    /// A chunk was placed where its class wants; without its hint it `would` be on another pool.
    pub(crate) fn note_placed(
        &mut self,
        group: &GroupState,
        chunk: ChunkId,
        place: Place,
        pools: &[PoolId],
        would: Option<PoolId>,
    ) {
        if !pools.contains(&place.pool) {
            return;
        }
        assert!(group.map.has(chunk), "a chunk is placed in a volume that exists");
        self.counts.placed += 1;
        let hint = self.hints.of(group.now, chunk, group.chunk_size());
        if let (Some(hint), Some(would)) = (hint, would.filter(|would| *would != place.pool)) {
            self.hints.note_placed(chunk, hint, group.pools.ranks().rank_of(would));
        }
    }

    /// A write comes to a chunk: wishes it redirected, where its class wants a faster pool and the
    /// one that it is on is busy, or where that one is far.
    pub(crate) fn redirect_write(&mut self, group: &GroupState, moves: &Moves, chunk: ChunkId) {
        let Some(home) = group.pool_of(chunk) else { return };
        let far = group.pools[home].is_far();
        if self.hints.is_empty() && !far {
            return;
        }
        let is_busy =
            |in_flight| group.settings.tactics.redirection.ask(|tactic| tactic.is_busy(in_flight));
        let busy = is_busy(group.pools[home].in_flight)
            && group.pools.ranks().faster_than(home).next().is_some();
        if !busy && !far || self.looks >= LOOKS_MAX || !group.map.is_simple(chunk) {
            return;
        }
        self.looks += 1;
        let wanted = self.pools_for(group, chunk).into_iter();
        let wanted =
            wanted.take_while(|&pool| group.pools.ranks().compare_speed(pool, home).is_lt());
        let here = group.pools.ranks().faster_than(home).rev().filter(|_| far);
        let better = wanted.chain(here).find(|&to| {
            let pool = &group.pools[to];
            let suits = !pool.is_far() && (far || !is_busy(pool.in_flight));
            suits && pool.takes_chunks() && pool.free_beside_reserve() > 0
        });
        let Some(to) = better else { return };
        let operation = Operation { kind: OperationKind::Redirect, chunk, to };
        let room = self.wishes.len() + self.later.len() < REDIRECTS_MAX;
        let is_wished = self.wishes.contains(&operation) || self.later.contains(&operation);
        if room && !is_wished && refuse(moves, group, &operation).is_ok() {
            self.wishes.push_front(operation);
        }
        assert!(self.wishes.len() + self.later.len() <= REDIRECTS_MAX, "wishes are bounded");
    }

    /// True if hints wish copies that have not begun.
    pub(crate) fn has_wishes(&self) -> bool {
        let Hinting { wishes, prefetches, later, later_prefetches, looks, .. } = self;
        let redirects = wishes.len() + later.len();
        redirects + prefetches.len() + later_prefetches.len() > 0 || *looks > 0
    }

    /// Puts what hints want among a placement's moves; the chunks that hints move.
    pub(crate) fn direct(
        &mut self,
        now: Nanos,
        view: &dyn VolumeView,
        moves: &mut Vec<Move>,
    ) -> BTreeSet<ChunkId> {
        if self.hints.is_empty() && !view.has_pins() {
            return BTreeSet::new();
        }
        let mut hints = std::mem::take(&mut self.hints);
        let before = moves.len() as u64;
        let Directed { claimed, proposed, dropped, chunks } = hints.direct(now, view, moves);
        assert_eq!(before + proposed - dropped, moves.len() as u64, "each move is counted");
        self.hints = hints;
        let counts = &mut self.counts;
        counts.claimed = claimed;
        counts.moves += proposed;
        counts.dropped += dropped;
        chunks
    }
}

/// The part of a hint's range that lies in its volume.
///
/// # Errors
/// When there is no such volume, or the range begins beyond its end.
pub(crate) fn range_within(
    group: &GroupState,
    volume: Option<VolumeId>,
    (start, end): (u64, u64),
) -> Result<(u64, u64), HintRefusal> {
    let Some(id) = volume else { return Ok((start, end)) };
    let size = group.map.living(id).ok_or(HintRefusal::NoVolume(id))?.size().0;
    if start >= size {
        return Err(HintRefusal::Beyond(start, size));
    }
    Ok((start, end.min(size)))
}

/// `pool`, or in place of a far one the slowest that is here: what goes to a far pool goes
/// there as a whole, by a move.
fn near(group: &GroupState, pool: PoolId) -> PoolId {
    let here = |pool: &PoolId| !group.pools[*pool].is_far();
    let mut slowest = std::iter::once(pool).chain(group.pools.ranks().faster_than(pool).rev());
    slowest.find(here).unwrap_or(pool)
}

#[cfg(test)]
mod tests;
