//! The four operations as live state machines: a chunk is copied while it is in use.
//!
//! ```text
//! queued ──► copying ──► switching ──► over
//!               │            │
//!               └────────────┴──► failed or cancelled: the copy is given up
//! ```
//!
//! *Copying.* The chunk is copied piece by piece, each piece read from a copy and written to the
//! destination. A block counts as present at the destination once a copy of it arrived that no
//! foreground write overlapped. MIGRATE, REPLICATE and PREFETCH *mirror*: a write goes to the
//! original, and to the destination as well where blocks of it are present. REDIRECT *forwards*:
//! whole blocks go to the destination alone, and become present with that; the journal keeps the
//! bits. MIRROR leaves both sides for good, whichever of them has a block
//! ([`crate::map::overlay`]), and a mirrored chunk is brought together on one of them by MIGRATE.
//! No piece is started that a write under way overlaps.
//!
//! *Switching.* With all blocks present, the record that names the destination is queued. It waits
//! for up to a tenth of a second for those of others, because each commit flushes both pools. Until
//! it is durable writes go to both places, so that either map is right; a write that fails on the
//! destination meanwhile queues a second record, which takes the first one back. The record of a
//! move names the old copy behind the new one, as one that may differ: the new pool may die in that
//! very commit. When it is durable another record drops the old copy, and its slot is free after
//! that; flushes and forced writes wait for it, so nothing that was promised is on one of them
//! only.
//!
//! The throttle ([`rate_control`]): bytes a second and requests in flight for each pool, and
//! operations hold back while the foreground uses the pool, up to a bound on their patience.
//!
//! This file says what begins and what is cancelled; [`copying`] copies, [`feeding`] uses what
//! clients read and write anyway, [`switching`] ends an operation, [`proposal`] keeps what a
//! placement wants next, [`refusal`] says what makes no sense.

pub(crate) mod active;
pub(crate) mod evacuation;
pub(crate) mod kept;
pub(crate) mod operation;
pub(crate) mod rate_control;

mod copying;
pub(crate) mod feeding;
mod proposal;
mod refusal;
pub(crate) mod switching;

pub use proposal::{Flow, Proposed};

use crate::below::Below;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::journal::commit::SWITCHES_TOGETHER;
use crate::map::copies::keep_prefetched;
use crate::map::overlay::{Blocks, Goal};
use crate::map::place::{Place, Role};
use crate::moves::active::{ActiveOperation, Stage};
use crate::moves::operation::{
    Finished, MovesDropped, Operation, OperationId, OperationKind, OperationStatus, Outcome,
    Refusal,
};
use proposal::{Proposal, WINDOW};
pub(crate) use refusal::refuse;
use refusal::{goal_of, is_prefetched_there};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use switching::take_back;
use thermocline_policy::placement::{How, Move};
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// Copies that are to be made anew; beyond it the oldest wish is forgotten.
const WISHES_MAX: usize = 4096;

/// All operations of a group.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    pub(in crate::moves) queue: VecDeque<(OperationId, Operation)>,
    /// Chunks that have an operation queued or under way.
    pub(in crate::moves) chunks: BTreeMap<ChunkId, OperationId>,
    pub(in crate::moves) wishes: VecDeque<Operation>,
    pub(in crate::moves) ids: u64,
    /// Moves given up because the part that was brought first was slower, since opening.
    pub(in crate::moves) trials_lost: u64,
    /// Bytes that clients' reads brought to destinations, since opening.
    pub(in crate::moves) fed: u64,
    pub(in crate::moves) proposal: Proposal,
    /// The chunk behind which the next ones are looked for that leave a draining pool.
    pub(crate) left_last: Option<ChunkId>,
    finished: Vec<Finished>,
}

impl Moves {
    /// Asks for an operation later, when there is leisure.
    pub(crate) fn wish(&mut self, operation: Operation) {
        if self.wishes.len() == WISHES_MAX {
            self.wishes.pop_front();
        }
        self.wishes.push_back(operation);
        assert!(self.wishes.len() <= WISHES_MAX, "wishes are bounded");
    }

    /// Proposed moves that were given up, since opening.
    pub(crate) fn dropped(&self) -> MovesDropped {
        let Proposal { expired, worn, .. } = self.proposal;
        MovesDropped { expired, slower: self.trials_lost, worn }
    }

    /// Bytes that clients' reads brought to destinations, since opening.
    pub(crate) fn fed(&self) -> Bytes {
        Bytes(self.fed)
    }

    /// Number of the moves that a placement still wants.
    pub(crate) fn proposed(&self) -> usize {
        self.proposal.waiting()
    }

    /// Operations that have not begun.
    pub(crate) fn queued(&self) -> impl Iterator<Item = OperationStatus> + '_ {
        let status =
            |&(id, operation)| OperationStatus { id, operation, from: None, copied: Bytes(0) };
        self.queue.iter().map(status)
    }

    pub(crate) fn take_wish(&mut self) -> Option<Operation> {
        self.wishes.pop_front()
    }

    pub(crate) fn has_wishes(&self) -> bool {
        !self.wishes.is_empty()
    }

    pub(crate) fn next_id(&mut self) -> OperationId {
        self.ids += 1;
        OperationId(self.ids)
    }

    pub(crate) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Operations queued and under way.
    pub(crate) fn count(&self) -> usize {
        self.chunks.len()
    }

    /// Queues an operation, which begins at the next opportunity.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub(crate) fn enqueue(
        &mut self,
        group: &GroupState,
        operation: Operation,
    ) -> Result<OperationId, Refusal> {
        refuse(self, group, &operation)?;
        let id = self.next_id();
        let before = self.chunks.insert(operation.chunk, id);
        assert!(before.is_none(), "a chunk has one operation, queued or under way");
        self.queue.push_back((id, operation));
        Ok(id)
    }

    /// Ends an operation that is queued as cancelled; true if it was.
    pub(crate) fn cancel_queued(&mut self, id: OperationId) -> bool {
        let found = self.queue.iter().position(|(queued, _)| *queued == id);
        let Some(at) = found else { return false };
        let (_, operation) = self.queue.remove(at).expect("just found");
        let known = self.chunks.remove(&operation.chunk);
        assert_eq!(known, Some(id), "a chunk has one operation, under its id");
        self.end_at_once(id, operation, Outcome::Cancelled, None, false);
        true
    }

    /// Lets an operation that is copying end as cancelled; true if it is.
    pub(crate) fn cancel_copying(&mut self, group: &mut GroupState, id: OperationId) -> bool {
        let copying = |copy: &ActiveOperation| copy.id == id && copy.is_copying();
        let found = group.operations.iter_mut().find(|(_, copy)| copying(copy));
        let Some((_, copy)) = found else { return false };
        assert_eq!(self.chunks.get(&copy.what.chunk), Some(&id), "its chunk is known");
        copy.cancelled = true;
        true
    }

    /// Drops what has not begun on a volume that is deleted: its number is given again, and another
    /// volume's chunks would be copied.
    pub(crate) fn forget_volume(&mut self, volume: VolumeId) {
        self.wishes.retain(|wish| wish.chunk.volume != volume);
        self.proposal.forget_volume(volume);
        let of_volume = self.queue.iter().filter(|(_, what)| what.chunk.volume == volume);
        let queued: Vec<OperationId> = of_volume.map(|(id, _)| *id).collect();
        for id in queued {
            let cancelled = self.cancel_queued(id);
            assert!(cancelled, "it is queued");
        }
    }

    /// Forgets what the placement wanted.
    pub(crate) fn drop_proposal(&mut self, now: Nanos) {
        self.proposal.replace(now, Vec::new());
        assert_eq!(self.proposed(), 0, "nothing is wanted any more");
    }

    /// Cancels everything that can be cancelled.
    pub(crate) fn cancel_all(&mut self, group: &mut GroupState, now: Nanos) {
        self.drop_proposal(now);
        let queued: Vec<OperationId> = self.queue.iter().map(|(id, _)| *id).collect();
        for id in queued {
            self.cancel_queued(id);
        }
        assert_eq!(self.chunks.len(), group.operations.len(), "what is left is under way");
        for (_, copy) in group.operations.iter_mut() {
            copy.cancelled = true;
        }
    }

    /// `proposed`: whether the placement wanted it.
    pub(crate) fn begin_operation(
        &mut self,
        below: &mut Below,
        id: OperationId,
        what: Operation,
        proposed: bool,
    ) {
        let known = self.chunks.remove(&what.chunk);
        assert!(known.is_none_or(|known| known == id), "a chunk has one operation");
        if let Err(refusal) = refuse(self, below.group, &what) {
            let gone = matches!(refusal, Refusal::Unmapped | Refusal::NotReady);
            let outcome = if gone { Outcome::Cancelled } else { Outcome::Failed };
            return self.end_at_once(id, what, outcome, None, proposed);
        }
        if is_prefetched_there(below.group, &what) {
            met("prefetched copy kept");
            let from = below.group.pool_of(what.chunk);
            keep_prefetched(
                below.group,
                below.checksums,
                what.chunk,
                what.to,
                what.kind == OperationKind::Migrate,
            );
            return self.end_at_once(id, what, Outcome::Done, from, proposed);
        }
        let chunk = what.chunk;
        kept::drop_for_operation(below.group, below.checksums, chunk);
        self.chunks.insert(chunk, id);
        let base = below.group.map.entry(chunk).first().expect("refused otherwise");
        let goal = goal_of(below.group, &what);
        let above = below.group.map.overlay(chunk).map(|overlay| overlay.place);
        let above = above.unwrap_or_else(|| {
            below.group.lines.make_room(&mut below.group.pools, what.to);
            let slots = &mut below.group.pools[what.to].slots;
            let (slot, _) = slots.take().expect("refused otherwise");
            Place { pool: what.to, slot }
        });
        let goal = goal.or_else(|| begin_sides(below.group, &what, above));
        let (source, destination) =
            if goal == Some(Goal::Base) { (above, base) } else { (base, above) };
        if what.kind == OperationKind::Prefetch {
            below.group.pools[what.to].count_copy(Role::Prefetched);
        }
        assert!(source != destination, "an operation goes somewhere else");
        let chunk_bytes = below.group.pools.chunk_bytes();
        let copy = ActiveOperation::new(id, what, (source, destination), chunk_bytes);
        let copy = ActiveOperation { proposed, goal, ..copy };
        let index = below.group.operations.insert(copy);
        below.group.map.hold(chunk.volume);
        below.group.busy_chunk_of(chunk).set_operation(Some(index));
        self.advance(below, index);
    }

    /// Ends an operation for which nothing was to be copied.
    fn end_at_once(
        &mut self,
        id: OperationId,
        operation: Operation,
        outcome: Outcome,
        from: Option<PoolId>,
        proposed: bool,
    ) {
        self.finished.push(Finished { id, operation, outcome, from, proposed });
    }

    /// Begins the next operation that may; false if there is none.
    pub(crate) fn begin_next(&mut self, below: &mut Below) -> bool {
        if !has_turn(below.group) {
            return false;
        }
        let count = below.group.operations.len() + self.queue.len();
        assert_eq!(self.chunks.len(), count, "each operation is known by its chunk");
        if let Some((id, operation)) = self.queue.pop_front() {
            self.begin_operation(below, id, operation, false);
        } else if let Some((id, operation)) = self.next_move(below.group) {
            self.begin_operation(below, id, operation, true);
        } else {
            return false;
        }
        true
    }

    /// The placement's proposal since this was last asked; none: there was none. Only the last
    /// proposal is kept.
    pub(crate) fn take_proposed(&mut self) -> Option<Proposed> {
        self.proposal.told.take()
    }

    /// Moves that the placement has proposed and that have not ended.
    pub(crate) fn pending(&self, group: &GroupState) -> usize {
        let under_way = group.operations.iter().filter(|(_, copy)| copy.proposed);
        self.proposal.waiting() + under_way.count()
    }

    /// Takes a proposal over at the end of an epoch; `directed`: chunks that hints move, `flows`:
    /// what it moves, where it is not empty.
    pub(crate) fn take_over(
        &mut self,
        now: Nanos,
        moves: Vec<Move>,
        directed: BTreeSet<ChunkId>,
        flows: Option<Proposed>,
    ) {
        assert_eq!(flows.is_none(), moves.is_empty(), "what is proposed is told");
        if flows.is_some() {
            self.proposal.told = flows;
        }
        self.proposal.replace(now, moves);
        self.proposal.directed = directed;
    }

    /// A slot is free: a move may begin that had no room.
    pub(crate) fn look_again(&mut self) {
        self.proposal.look_again();
    }

    /// True if some operation might begin.
    pub(crate) fn can_begin(&self, group: &GroupState) -> bool {
        (self.has_queued() || self.proposal.is_worth_a_look()) && has_turn(group)
    }

    /// Number of moves, among those that may begin next, that wait for a slot of a pool.
    pub(crate) fn arrivals(&self, group: &GroupState, pool: PoolId) -> u32 {
        let next = self.proposal.moves.iter().take(WINDOW);
        let waits = |planned: &&Move| {
            let Move { chunk, to, how } = **planned;
            let operation = Operation { kind: kind_of(how), chunk, to };
            to == pool && group.map.has(chunk) && needs_slot(group, &operation)
        };
        next.filter(waits).count() as u32
    }

    /// Takes the operations that have ended.
    pub(crate) fn take_finished(&mut self, out: &mut Vec<Finished>) {
        out.append(&mut self.finished);
    }

    /// The group is out of service: all operations end as failed.
    pub(crate) fn fail_all(&mut self, group: &GroupState) {
        let (known, told) = (self.chunks.len(), self.finished.len());
        let queued = std::mem::take(&mut self.queue).into_iter();
        let under_way = group.operations.iter().map(|(_, copy)| (copy.id, copy.what));
        let ended = queued.chain(under_way).map(|(id, operation)| {
            let (outcome, from, proposed) = (Outcome::Failed, None, false);
            Finished { id, operation, outcome, from, proposed }
        });
        self.finished.extend(ended);
        assert_eq!(self.finished.len() - told, known, "each operation ends once");
        self.chunks.clear();
    }

    /// The next move that can begin.
    fn next_move(&mut self, group: &mut GroupState) -> Option<(OperationId, Operation)> {
        self.proposal.expire(group.now, group.settings.copying.deadline);
        if !self.proposal.is_worth_a_look() || group.service != Service::Ready {
            return None;
        }
        let mut at = 0;
        while at < self.proposal.moves.len().min(WINDOW) {
            let Move { chunk, to, how } = self.proposal.moves[at];
            if group.map.has(chunk) && group.map.entry(chunk).is_pinned() {
                self.proposal.moves.remove(at);
                continue;
            }
            let operation = Operation { kind: kind_of(how), chunk, to };
            if let Some(arrival) = self.proposal.kept_away(group, at) {
                // The arrival first: it stands behind, or is the move itself.
                self.proposal.moves.remove(arrival);
                self.proposal.worn += 1;
                if arrival > at {
                    self.proposal.moves.remove(at);
                    self.proposal.worn += 1;
                }
                continue;
            }
            match refuse(self, group, &operation) {
                // Who leaves for it goes first: the placement has planned for these lines.
                Ok(()) if !self.proposal.is_directed(chunk) && lines_stand(group, &operation) => {
                    at += 1;
                }
                Ok(()) => {
                    assert!(!self.chunks.contains_key(&chunk), "a chunk has one operation");
                    let size = group.chunk_size();
                    if !is_prefetched_there(group, &operation) {
                        group.pools[to].wear.spend(size);
                    }
                    self.proposal.moves.remove(at);
                    return Some((self.next_id(), operation));
                }
                Err(Refusal::NoRoom | Refusal::Busy) => at += 1,
                Err(refusal) => {
                    self.proposal.moves.remove(at);
                    // A placement that knows no mirrors met one: it is brought together first, and
                    // goes where it shall go when it is proposed again.
                    let in_two = refusal == Refusal::InTwoParts;
                    if let Some(home) = home_of_mirror(group, chunk).filter(|_| in_two) {
                        self.proposal.moves.insert(at, Move::to(chunk, home));
                    }
                }
            }
        }
        self.proposal.stuck = true;
        None
    }
}

/// True if a placement's move would take a slot that it wants for lines itself.
fn lines_stand(group: &GroupState, operation: &Operation) -> bool {
    let to = operation.to;
    let full = group.lines.are_planned_on(to) && group.pools[to].slots.free() == 0;
    let stand = full && needs_slot(group, operation);
    met_if(stand, "move refused for lines that a placement wants");
    stand
}

/// True if an operation takes a slot when it begins.
fn needs_slot(group: &GroupState, operation: &Operation) -> bool {
    !is_prefetched_there(group, operation) && goal_of(group, operation).is_none()
}

/// The operation that a placement's move is.
fn kind_of(how: How) -> OperationKind {
    match how {
        How::Move => OperationKind::Migrate,
        How::Mirror => OperationKind::Mirror,
    }
}

/// Puts a chunk in two parts, of which `above` is one, where that is what an operation does;
/// what it strives for then.
fn begin_sides(group: &mut GroupState, what: &Operation, above: Place) -> Option<Goal> {
    let (goal, blocks) = match what.kind {
        OperationKind::Redirect => (Goal::Above, Blocks::redirected(group.pools.chunk_bytes())),
        OperationKind::Mirror => (Goal::Both, Blocks::mirrored(group.pools.chunk_bytes())),
        _ => return None,
    };
    assert!(group.pools[above.pool].slots.is_taken(above.slot), "its slot is nobody else's");
    group.map.add_overlay(what.chunk, above, blocks);
    Some(goal)
}

/// A pool died: operations that fill a copy there fail.
pub(crate) fn operations_lose(group: &mut GroupState, pool: PoolId) {
    let hit: Vec<u32> = group
        .operations
        .iter()
        .filter(|(_, copy)| {
            let either = copy.goal == Some(Goal::Both) && copy.source.pool == pool;
            copy.destination.pool == pool || either
        })
        .map(|(index, _)| index)
        .collect();
    for index in hit {
        match group.operations[index].stage {
            Stage::Copying => group.operations[index].failed = true,
            Stage::Switching => take_back(group, index),
        }
    }
    let fills = |copy: &ActiveOperation| copy.destination.pool == pool && !copy.failed;
    assert!(!group.operations.iter().any(|(_, copy)| fills(copy)), "nothing arrives there");
}

/// True if another operation may begin beside those under way. Those that wait for their switch
/// to be durable do not count among the `concurrent`, while there is room for their records.
fn has_turn(group: &GroupState) -> bool {
    let concurrent = group.settings.copying.concurrent as usize;
    let all = group.operations.iter();
    let copying = all.filter(|(_, copy)| copy.is_copying()).count();
    let most = match group.records_half_pile_up() {
        true => concurrent,
        false => concurrent + SWITCHES_TOGETHER,
    };
    copying < concurrent && group.operations.len() < most
}

/// The pool of a mirrored chunk's first side.
fn home_of_mirror(group: &GroupState, chunk: ChunkId) -> Option<PoolId> {
    let mirrored = group.map.has(chunk) && group.map.mirror(chunk).is_some();
    group.map.entry(mirrored.then_some(chunk)?).first().map(|home| home.pool)
}

#[cfg(test)]
mod tests;
