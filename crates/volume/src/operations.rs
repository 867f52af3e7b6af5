//! Operations come and go: what is accepted, what begins, what is cancelled.

use crate::copying::{Copy, MIRROR_CHUNK_MAX, REDIRECT_CHUNK_MAX, Stage};
use crate::group::{Group, Service};
use crate::layout::{self, Need};
use crate::map::{NONE, Place};
use crate::operation::{Finished, Operation, OperationId, OperationKind, Outcome, Refusal};
use crate::overlay::{Blocks, Goal, Overlay, Side};
use crate::presence::Presence;
use crate::settings::{COPIES_MAX, OPERATIONS_QUEUED_MAX};
use thermocline_policy::migration::Trial;
use thermocline_units::situations::met;
use thermocline_units::{ChunkId, Nanos, PoolId};

impl Group {
    /// Queues an operation, which begins at the next opportunity.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub(crate) fn enqueue(&mut self, operation: Operation) -> Result<OperationId, Refusal> {
        self.refuse(&operation)?;
        let id = self.copier.next_id();
        let before = self.copier.chunks.insert(operation.chunk, id);
        assert!(before.is_none(), "a chunk has one operation, queued or under way");
        self.copier.queue.push_back((id, operation));
        Ok(id)
    }

    /// Ends an operation that is queued as cancelled; true if it was.
    pub(crate) fn cancel_queued(&mut self, id: OperationId) -> bool {
        let found = self.copier.queue.iter().position(|(queued, _)| *queued == id);
        let Some(at) = found else { return false };
        let (_, operation) = self.copier.queue.remove(at).expect("just found");
        self.copier.chunks.remove(&operation.chunk);
        self.end_at_once(id, operation, Outcome::Cancelled, None, false);
        true
    }

    /// Lets an operation that is copying end as cancelled; true if it is.
    pub(crate) fn cancel_copying(&mut self, id: OperationId) -> bool {
        let copying = |copy: &Copy| copy.id == id && copy.is_copying();
        let found = self.copier.operations.iter_mut().find(|(_, copy)| copying(copy));
        let Some((_, copy)) = found else { return false };
        copy.cancelled = true;
        true
    }

    /// Cancels everything that can be cancelled.
    pub(crate) fn cancel_all(&mut self, now: Nanos) {
        self.proposal.replace(now, Vec::new());
        let queued: Vec<OperationId> = self.copier.queue.iter().map(|(id, _)| *id).collect();
        for id in queued {
            self.cancel_queued(id);
        }
        for (_, copy) in self.copier.operations.iter_mut() {
            copy.cancelled = true;
        }
    }

    pub(crate) fn refuse(&self, operation: &Operation) -> Result<(), Refusal> {
        if self.service != Service::Ready {
            return Err(Refusal::NotReady);
        }
        let chunk = operation.chunk;
        let volume = self.map.volume(chunk.volume);
        let alive = volume.is_some_and(|volume| !volume.deleting) && self.map.has(chunk);
        if !alive || self.map.entry(chunk).first().is_none() {
            return Err(Refusal::Unmapped);
        }
        let pool = self.pools.find(operation.to).ok_or(Refusal::NoPool)?;
        let resumes = self.goal_of(operation).is_some() && pool.is_alive();
        if !pool.takes_chunks() && !resumes {
            return Err(Refusal::NoPool);
        }
        if self.copier.chunks.contains_key(&chunk) {
            return Err(Refusal::Busy);
        }
        if self.copier.chunks.len() >= OPERATIONS_QUEUED_MAX {
            return Err(Refusal::QueueFull);
        }
        self.refuse_for_copies(operation)
    }

    pub(crate) fn refuse_for_copies(&self, operation: &Operation) -> Result<(), Refusal> {
        let chunk = operation.chunk;
        if let Some(overlay) = self.map.overlay(chunk) {
            return match self.goal_of(operation) {
                Some(goal) if goal == Goal::Both && overlay.blocks.is_at(goal) => {
                    Err(Refusal::AlreadyThere)
                }
                Some(_) => Ok(()),
                None => Err(Refusal::InTwoParts),
            };
        }
        let there = self.map.copies(chunk).any(|copy| copy.place.pool == operation.to);
        if there && !self.is_prefetched_there(operation) {
            return Err(Refusal::AlreadyThere);
        }
        let copies = self.map.copies(chunk).filter(|copy| copy.place.pool != operation.to).count();
        let adds = matches!(operation.kind, OperationKind::Replicate | OperationKind::Prefetch);
        let redirects = matches!(operation.kind, OperationKind::Redirect | OperationKind::Mirror);
        if adds && copies >= COPIES_MAX || redirects && copies > 1 {
            return Err(Refusal::TooManyCopies);
        }
        let pool = &self.pools[operation.to];
        let mirrors = operation.kind == OperationKind::Mirror;
        let from_far = self.pool_of(chunk).is_some_and(|home| self.pools[home].is_far());
        if redirects && pool.is_far() || mirrors && from_far {
            return Err(Refusal::Far);
        }
        let full = match operation.kind {
            OperationKind::Prefetch => pool.prefetched >= pool.reserve || pool.slots.free() == 0,
            OperationKind::Redirect => {
                pool.free_beside_reserve() == 0
                    || self.overlay_room() == 0
                    || self.pools.chunk_bytes() > REDIRECT_CHUNK_MAX
            }
            OperationKind::Mirror => {
                pool.free_beside_reserve() == 0
                    || self.overlay_room() == 0
                    || self.pools.chunk_bytes() > MIRROR_CHUNK_MAX
            }
            _ => pool.free_beside_reserve() == 0,
        };
        if full || pool.is_full() { Err(Refusal::NoRoom) } else { Ok(()) }
    }

    /// True if a prefetched copy is where a chunk shall have an ordinary one: nothing is to copy.
    fn is_prefetched_there(&self, operation: &Operation) -> bool {
        let stays = matches!(operation.kind, OperationKind::Migrate | OperationKind::Replicate);
        let mut copies = self.map.copies(operation.chunk);
        stays && copies.any(|copy| copy.prefetched && copy.place.pool == operation.to)
    }

    /// Goal of an operation on a chunk that is in two parts already; `None` when it
    /// is not, or the operation makes no sense there.
    fn goal_of(&self, operation: &Operation) -> Option<Goal> {
        let blocks = &self.map.overlay(operation.chunk)?.blocks;
        let on = |side| self.map.place_on(operation.chunk, side).pool == operation.to;
        match operation.kind {
            OperationKind::Redirect | OperationKind::Migrate if on(Side::Above) => {
                Some(Goal::Above)
            }
            OperationKind::Migrate if on(Side::Base) && blocks.is_mirror() => Some(Goal::Base),
            OperationKind::Mirror if blocks.is_mirror() && (on(Side::Above) || on(Side::Base)) => {
                Some(Goal::Both)
            }
            _ => None,
        }
    }

    /// Number of chunks more that may be in two parts: the checkpoint has room for their bits.
    pub(crate) fn overlay_room(&self) -> usize {
        // As many volumes as there may be: another one shall not need an overlay's room.
        let need = Need { volumes: self.settings.limits.volumes, ..self.need() };
        let (blocks, limits) = (self.area_capacity(), &self.settings.limits);
        let most = layout::overlays_max(blocks, need, self.pools.chunk_bytes(), limits);
        most.saturating_sub(self.copier.overlays)
    }

    /// The operation on a chunk, by its number in the copier.
    pub(crate) fn operation_on(&self, chunk: ChunkId) -> Option<u32> {
        let traffic = self.map.entry(chunk).traffic;
        if traffic == NONE { None } else { self.traffic[traffic].operation }
    }

    /// `proposed`: whether the placement wanted it.
    pub(crate) fn begin_operation(
        &mut self,
        now: Nanos,
        id: OperationId,
        what: Operation,
        proposed: bool,
    ) {
        self.copier.chunks.remove(&what.chunk);
        if let Err(refusal) = self.refuse(&what) {
            let gone = matches!(refusal, Refusal::Unmapped | Refusal::NotReady);
            let outcome = if gone { Outcome::Cancelled } else { Outcome::Failed };
            return self.end_at_once(id, what, outcome, None, proposed);
        }
        if self.is_prefetched_there(&what) {
            met("prefetched copy kept");
            let from = self.pool_of(what.chunk);
            self.keep_prefetched(what.chunk, what.to, what.kind == OperationKind::Migrate);
            return self.end_at_once(id, what, Outcome::Done, from, proposed);
        }
        let chunk = what.chunk;
        self.copier.chunks.insert(chunk, id);
        let base = self.map.entry(chunk).first().expect("refused otherwise");
        let goal = self.goal_of(&what);
        let above = self.map.overlay(chunk).map(|overlay| overlay.place);
        let above = above.unwrap_or_else(|| {
            let slots = &mut self.pools[what.to].slots;
            let (slot, _) = slots.take().expect("refused otherwise");
            Place { pool: what.to, slot }
        });
        let goal = goal.or_else(|| self.begin_sides(&what, above));
        let (source, destination) =
            if goal == Some(Goal::Base) { (above, base) } else { (base, above) };
        if what.kind == OperationKind::Prefetch {
            self.pools[what.to].prefetched += 1;
        }
        assert!(source != destination, "an operation goes somewhere else");
        let copy = Copy {
            id,
            what,
            proposed,
            trial: Trial::default(),
            goal,
            stage: Stage::Copying,
            destination,
            source,
            presence: Presence::none(self.pools.chunk_bytes()),
            piece: None,
            cursor: 0,
            spoils: 0,
            failed_sources: 0,
            cancelled: false,
            failed: false,
            held_since: None,
        };
        let index = self.copier.operations.insert(copy);
        self.map.hold(chunk.volume);
        let traffic = self.traffic_of(chunk);
        assert!(self.traffic[traffic].operation.is_none(), "a chunk has one operation");
        self.traffic[traffic].operation = Some(index);
        self.advance(now, index);
    }

    /// Puts a chunk in two parts, of which `above` is one, where that is what an operation does;
    /// what it strives for then.
    fn begin_sides(&mut self, what: &Operation, above: Place) -> Option<Goal> {
        let (goal, blocks) = match what.kind {
            OperationKind::Redirect => (Goal::Above, Blocks::redirected(self.pools.chunk_bytes())),
            OperationKind::Mirror => (Goal::Both, Blocks::mirrored(self.pools.chunk_bytes())),
            _ => return None,
        };
        assert!(self.map.overlay(what.chunk).is_none(), "a chunk has two parts at most");
        let overlay = Overlay { place: above, blocks, unsaved: true };
        self.map.extra_mut(what.chunk).overlay = Some(overlay);
        self.copier.unsaved_overlays.push(what.chunk);
        self.copier.overlays += 1;
        Some(goal)
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
        self.finished_out.push(Finished { id, operation, outcome, from, proposed });
    }

    /// A pool died: operations that fill a copy there fail.
    pub(crate) fn operations_lose(&mut self, pool: PoolId) {
        let hit: Vec<u32> = self
            .copier
            .operations
            .iter()
            .filter(|(_, copy)| {
                let either = copy.goal == Some(Goal::Both) && copy.source.pool == pool;
                copy.destination.pool == pool || either
            })
            .map(|(index, _)| index)
            .collect();
        for index in hit {
            match self.copier.operations[index].stage {
                Stage::Copying => self.copier.operations[index].failed = true,
                Stage::Switching => self.take_back(index),
            }
        }
    }
}
