//! A placement's proposal on its way: which of its moves is next.
//!
//! A proposal is in order: a departure that makes room stands before the arrival that needs it. So
//! a move whose destination is full waits while earlier ones are under way; moves behind it that
//! have room may go first, within a window. The next epoch's proposal replaces what has not begun;
//! with a deadline, what has not begun by then is dropped before that.
//!
//! A move to a pool whose wear budget is used up is dropped, and with it the departure that makes
//! room for it: the chunk would leave a fast pool for nothing.

use crate::group::{Group, Service};
use crate::operation::{Operation, OperationId, OperationKind, Refusal};
use std::collections::{BTreeMap, VecDeque};
use thermocline_policy::placement::{How, Move, VolumeView};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

/// Moves looked at to find one that can begin.
const WINDOW: usize = 32;

/// A placement's proposal at an epoch's end, where it was not empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Proposed {
    /// By origin and destination, in their order.
    pub flows: BTreeMap<(PoolId, PoolId), Flow>,
}

/// Chunks that shall go from one pool to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    /// Number of chunks.
    pub chunks: u64,
    /// Number of requests for them in the epoch that ended.
    pub requests: u64,
}

/// Moves that a placement wants, in the order of their worth.
#[derive(Debug, Default)]
pub(crate) struct Proposal {
    /// The last one, until somebody has taken note.
    told: Option<Proposed>,
    moves: VecDeque<Move>,
    /// True if nothing in the window could begin when it was last looked at.
    stuck: bool,
    /// Moment at which it was made.
    since: Nanos,
    /// Moves whose deadline passed before they began, since opening.
    pub(crate) expired: u64,
    /// Moves to a pool whose wear budget was used up, since opening.
    pub(crate) worn: u64,
}

impl Proposal {
    /// Puts these moves, best first, in the place of those that have not begun yet.
    pub(crate) fn replace(&mut self, now: Nanos, moves: Vec<Move>) {
        self.moves = moves.into();
        self.stuck = false;
        self.since = now;
    }

    /// Drops what has not begun by its deadline.
    fn expire(&mut self, now: Nanos, deadline: Option<Nanos>) {
        let late = |deadline: Nanos| now.saturating_sub(self.since) >= deadline;
        if deadline.is_some_and(late) {
            self.expired += self.moves.len() as u64;
            self.moves.clear();
        }
    }

    /// An operation has ended, or a slot is free.
    pub(crate) fn look_again(&mut self) {
        self.stuck = false;
    }

    /// True if a move might begin.
    pub(crate) fn is_worth_a_look(&self) -> bool {
        !self.stuck && !self.moves.is_empty()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.moves.len()
    }
}

impl Group {
    /// The placement's proposal since this was last asked; none: there was none. Only the last
    /// proposal is kept.
    pub fn take_proposed(&mut self) -> Option<Proposed> {
        self.proposal.told.take()
    }

    /// Moves that the placement has proposed and that have not ended.
    pub fn moves_pending(&self) -> usize {
        let under_way = self.copier.operations.iter().filter(|(_, copy)| copy.proposed);
        self.proposal.waiting() + under_way.count()
    }

    /// Takes a proposal over at the end of an epoch.
    pub(crate) fn take_over(&mut self, now: Nanos, moves: Vec<Move>) {
        if !moves.is_empty() {
            let mut proposed = Proposed::default();
            for planned in &moves {
                // A mirror that is brought together where it is moves nothing.
                let from = self.pool_of(planned.chunk).filter(|from| *from != planned.to);
                let Some(from) = from else { continue };
                let flow = proposed.flows.entry((from, planned.to)).or_default();
                flow.chunks += 1;
                flow.requests += self.view().accesses(planned.chunk);
            }
            self.proposal.told = Some(proposed);
        }
        self.proposal.replace(now, moves);
    }

    /// The pool of a mirrored chunk's first side.
    fn home_of_mirror(&self, chunk: ChunkId) -> Option<PoolId> {
        let mirrored = self.map.has(chunk) && self.map.mirror(chunk).is_some();
        self.map.entry(mirrored.then_some(chunk)?).first().map(|home| home.pool)
    }

    /// The move that a wear budget keeps away: the one at `at`, or the next one to the pool that
    /// this one leaves, which stands right behind the departures that make room for it.
    fn kept_away(&mut self, at: usize) -> Option<usize> {
        let Move { chunk, to, .. } = self.proposal.moves[at];
        if self.is_worn(to) {
            return Some(at);
        }
        let left = self.pool_of(chunk).filter(|&left| left != to && self.is_worn(left))?;
        let behind = self.proposal.moves.iter().enumerate().skip(at + 1).take(WINDOW);
        behind.filter(|(_, planned)| planned.to == left).map(|(at, _)| at).next()
    }

    /// True if moves may not write another chunk to a pool now.
    fn is_worn(&mut self, pool: PoolId) -> bool {
        let size = Bytes(u64::from(self.pools.chunk_bytes()));
        self.pools.find_mut(pool).is_some_and(|pool| !pool.wear.allows(self.now, size))
    }

    /// The next move that can begin.
    pub(crate) fn next_move(&mut self) -> Option<(OperationId, Operation)> {
        self.proposal.expire(self.now, self.settings.copying.deadline);
        if !self.proposal.is_worth_a_look() || self.service != Service::Ready {
            return None;
        }
        let mut at = 0;
        while at < self.proposal.moves.len().min(WINDOW) {
            let Move { chunk, to, how } = self.proposal.moves[at];
            if self.map.has(chunk) && self.map.entry(chunk).tag.pinned {
                self.proposal.moves.remove(at);
                continue;
            }
            let kind = match how {
                How::Move => OperationKind::Migrate,
                How::Mirror => OperationKind::Mirror,
            };
            let operation = Operation { kind, chunk, to };
            if let Some(arrival) = self.kept_away(at) {
                // The arrival first: it stands behind, or is the move itself.
                self.proposal.moves.remove(arrival);
                self.proposal.worn += 1;
                if arrival > at {
                    self.proposal.moves.remove(at);
                    self.proposal.worn += 1;
                }
                continue;
            }
            match self.refuse(&operation) {
                Ok(()) => {
                    let size = Bytes(u64::from(self.pools.chunk_bytes()));
                    self.pools[to].wear.spend(size);
                    self.proposal.moves.remove(at);
                    return Some((self.copier.next_id(), operation));
                }
                Err(Refusal::NoRoom | Refusal::Busy) => at += 1,
                Err(refusal) => {
                    self.proposal.moves.remove(at);
                    // A placement that knows no mirrors met one: it is brought together first, and
                    // goes where it shall go when it is proposed again.
                    let in_two = refusal == Refusal::InTwoParts;
                    if let Some(home) = self.home_of_mirror(chunk).filter(|_| in_two) {
                        self.proposal.moves.insert(at, Move::to(chunk, home));
                    }
                }
            }
        }
        self.proposal.stuck = true;
        None
    }
}
