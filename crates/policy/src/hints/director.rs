//! Moves that hints want, beside any placement.
//!
//! 1. A chunk whose hint belongs to a class with pools is *claimed*. It should be on the first of
//!    them that has room; a demoted chunk on the slowest pool; a pinned one stays where it is.
//! 2. Claimed chunks that should rise go first, by their class's eviction priority. Of the fastest
//!    pool a class takes no more than its allocation. Where a pool is full, who is not claimed for
//!    it makes room, the least accessed first, then claims of classes that go earlier.
//! 3. Then those that should go down.
//! 4. What the placement proposed of claimed chunks is dropped when it leads out of their pools,
//!    and what it proposed of chunks that make room is dropped. The rest goes on: one of its moves
//!    to each of the director's, so that neither starves the other.
//!
//! A chunk below its first choice rises when it can; one above it, on a pool that its class names,
//! too, stays. One with further copies stays as well: the move would be refused for ever where one
//! of them is, and its room waited for. No chunk is moved twice in an epoch.
//!
//! Source: HintStor's levels 1 and 2 (Ge et al. 2022 §4.2), with bounds that are ours. O(chunks log
//! chunks) an epoch; nothing where there are no hints.

use super::accounts::{ADMINISTRATOR, Followed, Owner};
use super::rules::Tier;
use super::store::{ChunkHint, Hints, Living};
use crate::placement::{Move, VolumeView};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thermocline_units::{ChunkId, Nanos, PoolId};

/// Moves of one epoch at most.
const MOVES_MAX: usize = 4096;

/// Figures of the director at an epoch's end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directed {
    /// Chunks that hints claim.
    pub claimed: u64,
    /// Moves that it proposed.
    pub proposed: u64,
    /// Moves of the placement that it dropped.
    pub dropped: u64,
    /// Chunks of the moves that it proposed.
    pub chunks: BTreeSet<ChunkId>,
}

/// A claimed chunk.
#[derive(Debug, Clone, Copy)]
struct Claim {
    chunk: ChunkId,
    home: PoolId,
    source: u8,
    class: u8,
    demoted: bool,
    accesses: u64,
    /// Its first choice among pools that take chunks.
    wanted: PoolId,
}

/// Room and residents of pools, while moves are chosen.
struct Board<'a> {
    hints: &'a Hints,
    view: &'a dyn VolumeView,
    /// Places for chunks; below 0 where chunks have taken what is kept free of them, so that the
    /// first who leave make no room.
    free: Vec<i128>,
    /// Free places, by pool, when not enough chunks there gave way to a claim: later claims, which
    /// are kept no longer, need not ask again.
    kept: Vec<i128>,
    /// Chunks that may make room, by pool, with their classes, the next one last.
    residents: Vec<Vec<(Rank, ChunkId, u8)>>,
    moved: BTreeSet<ChunkId>,
    /// Chunks of each class on the fastest pool.
    fastest: BTreeMap<u8, u64>,
    /// Pools that take chunks, fastest first.
    pools: &'a [PoolId],
    moves: Vec<Move>,
    /// The same moves, with whose hints they follow.
    followed: Vec<Followed>,
}

/// Rank of claims: who makes room later. Claims for this pool by priority; then by accesses.
type Rank = (bool, u8, u64);

impl Hints {
    /// Scores the epoch that ends, and puts what hints want among the `moves` of a placement.
    pub fn direct(&mut self, now: Nanos, view: &dyn VolumeView, moves: &mut Vec<Move>) -> Directed {
        if self.is_empty() && !view.has_pins() {
            return Directed::default();
        }
        self.expire(now);
        let (mut living, sums) = self.living(now, view);
        self.score(view, &living, &sums);
        self.hold_pins(view, &mut living);
        let pools = taking(view);
        let claims: Vec<Claim> = living.iter().filter_map(|one| self.claim(one, &pools)).collect();
        let board = Board::new(self, view, &pools, &living);
        let (directed, followed) = board.choose(claims.clone());
        self.accounts.follow(&followed);
        let claims: BTreeMap<ChunkId, &Claim> =
            claims.iter().map(|claim| (claim.chunk, claim)).collect();
        let moved: BTreeSet<ChunkId> = directed.iter().map(|step| step.chunk).collect();
        let before = moves.len();
        moves.retain(|step| {
            !moved.contains(&step.chunk) && self.leaves(step, &living, &claims, &pools)
        });
        let told = Directed {
            claimed: claims.len() as u64,
            proposed: directed.len() as u64,
            dropped: (before - moves.len()) as u64,
            chunks: moved,
        };
        interleave(directed, moves);
        told
    }

    /// True if a move of the placement is left to it; else whoever prevents it is charged for that.
    fn leaves(
        &mut self,
        step: &Move,
        living: &[Living],
        claims: &BTreeMap<ChunkId, &Claim>,
        pools: &[PoolId],
    ) -> bool {
        let at = living.binary_search_by_key(&step.chunk, |one| one.chunk);
        let one = at.ok().map(|at| &living[at]);
        if one.is_some_and(|one| one.pinned) {
            // The machine refuses it; it is told here what that costs.
            self.accounts.prevent(step.chunk, (ADMINISTRATOR, 0), step.to);
            return true;
        }
        let hint = one.and_then(|one| one.hint).map(|(_, hint)| hint);
        if let Some(hint) = hint.filter(|hint| hint.pinned) {
            self.accounts.prevent(step.chunk, (hint.source, hint.class), step.to);
            return false;
        }
        let Some(claim) = claims.get(&step.chunk) else { return true };
        let allowed = self.allows(claim, step.to, pools);
        if !allowed {
            self.accounts.begin(step.chunk, claim.owner(), step.to);
        }
        allowed
    }

    /// Destinations of a chunk of `class` when it is written first: pools in order of preference,
    /// of those with a class only; the caller knows which have room. `pools`: those that take
    /// chunks, fastest first. A pool that was removed, or is being drained, is nobody's fastest.
    pub fn preference(&self, class: u8, pools: &[PoolId]) -> impl Iterator<Item = PoolId> {
        let places = move |tier: &Tier| tier.pools(pools.len() as u16);
        let places = self.classes().get(class).tiers.iter().flat_map(places);
        places.map(|place| pools[usize::from(place.0)])
    }

    /// True if a class names a pool.
    fn names(&self, class: u8, pool: PoolId, pools: &[PoolId]) -> bool {
        self.preference(class, pools).any(|named| named == pool)
    }

    /// True if a claimed chunk may be on a pool.
    fn allows(&self, claim: &Claim, pool: PoolId, pools: &[PoolId]) -> bool {
        match claim.demoted {
            true => pool == claim.wanted,
            false => self.names(claim.class, pool, pools),
        }
    }

    /// The pool where a hint would have its chunk: the first choice of its class among `pools`,
    /// those that take chunks; `None`: it does not mind.
    pub(super) fn wanted(&self, hint: &ChunkHint, pools: &[PoolId]) -> Option<PoolId> {
        match (hint.pinned, hint.demoted) {
            (true, _) => None,
            (false, true) => pools.last().copied(),
            (false, false) => self.preference(hint.class, pools).next(),
        }
    }

    fn claim(&self, one: &Living, pools: &[PoolId]) -> Option<Claim> {
        let (_, hint) = one.hint.filter(|_| !one.pinned)?;
        let Living { chunk, home, accesses, .. } = *one;
        let (wanted, accesses) = (self.wanted(&hint, pools)?, accesses.all());
        let ChunkHint { source, class, demoted, .. } = hint;
        Some(Claim { chunk, home, source, class, demoted, accesses, wanted })
    }
}

impl Claim {
    fn owner(&self) -> Owner {
        (self.source, self.class)
    }
}

/// Pools that take chunks, fastest first.
pub(super) fn taking(view: &dyn VolumeView) -> Vec<PoolId> {
    let takes = |pool: &PoolId| view.capacity_chunks(*pool) > 0;
    (0..view.pool_count()).map(PoolId).filter(takes).collect()
}

impl<'a> Board<'a> {
    fn new(
        hints: &'a Hints,
        view: &'a dyn VolumeView,
        pools: &'a [PoolId],
        living: &[Living],
    ) -> Board<'a> {
        let all = || (0..view.pool_count()).map(PoolId);
        let free =
            |pool| i128::from(view.capacity_chunks(pool)) - i128::from(view.used_chunks(pool));
        let mut board = Board {
            hints,
            view,
            free: all().map(free).collect(),
            kept: all().map(|_| i128::MIN).collect(),
            residents: all().map(|_| Vec::new()).collect(),
            moved: BTreeSet::new(),
            fastest: BTreeMap::new(),
            pools,
            moves: Vec::new(),
            followed: Vec::new(),
        };
        for one in living {
            let hint = one.hint.map(|(_, hint)| hint);
            let class = hint.map_or(0, |hint| hint.class);
            if Some(&one.home) == pools.first() {
                *board.fastest.entry(class).or_insert(0) += 1;
            }
            let movable = hint.is_none_or(|hint| !hint.pinned)
                && !one.pinned
                && !view.is_replicated(one.chunk);
            if movable {
                let at_home = hints.names(class, one.home, pools);
                let priority = u8::MAX - hints.classes().get(class).priority;
                let rank = (at_home, priority, one.accesses.all());
                board.residents[usize::from(one.home.0)].push((rank, one.chunk, class));
            }
        }
        for residents in &mut board.residents {
            residents.sort_unstable_by_key(|&(rank, chunk, _)| (std::cmp::Reverse(rank), chunk));
        }
        board
    }

    fn choose(mut self, mut claims: Vec<Claim>) -> (Vec<Move>, Vec<Followed>) {
        let priority = |claim: &Claim| self.hints.classes().get(claim.class).priority;
        claims.retain(|claim| {
            let stays =
                claim.wanted > claim.home && self.hints.allows(claim, claim.home, self.pools);
            claim.home != claim.wanted && !stays && !self.view.is_replicated(claim.chunk)
        });
        // Those who rise, the most important first; then those who fall.
        claims.sort_by_key(|claim| {
            let falls = claim.wanted > claim.home;
            (falls, priority(claim), std::cmp::Reverse(claim.accesses), claim.chunk)
        });
        for claim in claims {
            if self.moves.len() >= MOVES_MAX {
                break;
            }
            self.place(&claim);
        }
        assert_eq!(self.moves.len(), self.followed.len(), "each move has its reason");
        (self.moves, self.followed)
    }

    /// Brings a claim to the best pool of its class that it can have.
    fn place(&mut self, claim: &Claim) {
        if self.moved.contains(&claim.chunk) {
            return; // It made room for another.
        }
        let class = self.hints.classes().get(claim.class);
        if claim.wanted > claim.home {
            if self.free[usize::from(claim.wanted.0)] > 0 {
                self.carry((claim.chunk, claim.class), claim.wanted, claim, claim.home);
            }
            return;
        }
        let choices: Vec<PoolId> = self.hints.preference(claim.class, self.pools).collect();
        for to in choices.into_iter().take_while(|&to| to != claim.home) {
            let most = self.view.capacity_chunks(to) as f64 * class.allocation;
            let taken = self.fastest.get(&claim.class).copied().unwrap_or(0) as f64;
            if Some(&to) == self.pools.first() && taken + 1.0 > most {
                continue;
            }
            if self.free[usize::from(to.0)] > 0 || self.make_room(to, claim) {
                self.carry((claim.chunk, claim.class), to, claim, claim.home);
                return;
            }
        }
    }

    /// Lets so many residents of `pool` go down that there is room for a claim; whether there is
    /// then. None goes where too few can.
    fn make_room(&mut self, pool: PoolId, claim: &Claim) -> bool {
        let priority = self.hints.classes().get(claim.class).priority;
        let free = self.free[usize::from(pool.0)];
        let below = self.free[usize::from(pool.0) + 1..].iter().map(|&free| free.max(0));
        if free <= self.kept[usize::from(pool.0)] || below.sum::<i128>() < 1 - free {
            return false;
        }
        let residents = &mut self.residents[usize::from(pool.0)];
        while residents.pop_if(|(_, chunk, _)| self.moved.contains(chunk)).is_some() {}
        // Who is claimed here stays for claims that are kept no longer.
        let gives_way = |(at_home, rank, _): Rank| !at_home || u8::MAX - rank > priority;
        let there = residents.iter().rev().filter(|(_, chunk, _)| !self.moved.contains(chunk));
        let leaving: Vec<(Rank, ChunkId, u8)> = there
            .take_while(|(rank, ..)| gives_way(*rank))
            .take((1 - free) as usize)
            .copied()
            .collect();
        if (leaving.len() as i128) < 1 - free {
            self.kept[usize::from(pool.0)] = free;
            return false;
        }
        for (_, chunk, class) in leaving {
            let to = self.below(pool).expect("there is room for all of them");
            self.carry((chunk, class), to, claim, pool);
        }
        true
    }

    /// The first pool below with room.
    fn below(&self, pool: PoolId) -> Option<PoolId> {
        let mut below = (pool.0 + 1..self.view.pool_count()).map(PoolId);
        below.find(|to| self.free[usize::from(to.0)] > 0)
    }

    /// Moves a chunk of a class, for a claim: the claim's own, or one that makes room for it.
    fn carry(&mut self, (chunk, class): (ChunkId, u8), to: PoolId, claim: &Claim, from: PoolId) {
        self.free[usize::from(from.0)] += 1;
        self.free[usize::from(to.0)] -= 1;
        for (pool, step) in [(from, -1), (to, 1)] {
            if Some(&pool) == self.pools.first() {
                let count = self.fastest.entry(class).or_insert(0);
                *count = count.saturating_add_signed(step);
            }
        }
        self.moved.insert(chunk);
        self.moves.push(Move::to(chunk, to));
        let room_for = Some(claim.chunk).filter(|own| *own != chunk);
        self.followed.push(Followed { chunk, was: from, to, owner: claim.owner(), room_for });
    }
}

/// Puts `first` and what is in `moves` there in turn, each in its order.
fn interleave(first: Vec<Move>, moves: &mut Vec<Move>) {
    let mut own: VecDeque<Move> = first.into();
    let mut others: VecDeque<Move> = std::mem::take(moves).into();
    while !own.is_empty() || !others.is_empty() {
        moves.extend(own.pop_front());
        moves.extend(others.pop_front());
    }
}

#[cfg(test)]
mod tests;
