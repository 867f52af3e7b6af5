//! The machines of a group, and what goes from one to another.
//!
//! Each event goes to the machine that it is for, together with the state that all of them share
//! ([`crate::group_state`]). What the machine leaves to others ([`Effect`]) is carried out when its
//! step has ended. No machine calls another one back.
//!
//! The machines, each with state of its own:
//!
//! - [`crate::io`]: requests of clients, and their way to the devices and back;
//! - [`crate::moves`]: operations, which copy chunks while they are in use;
//! - [`crate::scrub`] compares copies and repairs them; [`crate::map::block_checksums`] keeps
//!   checksums;
//! - [`crate::journal::settling`] lets the journal take its steps, and says what became durable;
//! - [`crate::epoch`]: hints, placements, and how well SLAs were kept;
//! - [`crate::deletion`] frees the chunks of deleted volumes; [`crate::moves::evacuation`] says
//!   what leaves pools that are drained; [`crate::housekeeping`] asks all what is due by the clock.
//!
//! Below them, in the shared state:
//!
//! - [`crate::pools`]: devices, slots, the order of speed, and requests under way;
//! - [`crate::map`]: where chunks are; [`crate::map::copies`] drops copies;
//! - [`crate::lines`]: copies of single blocks in slots that no chunk needs;
//! - [`crate::journal`] makes changes of the map durable, and writes the map out.
//!
//! How fast copying goes says [`thermocline_policy::migration`]; small questions, such as which
//! pool or which copy, are answered by [`thermocline_policy::tactics`].

use crate::below::Below;
use crate::deletion::Deletion;
use crate::epoch::epochs::Epochs;
use crate::epoch::hinting::Hinting;
use crate::epoch::view::View;
use crate::format::Record;
use crate::fsck::check_recovered;
use crate::group_state::GroupState;
use crate::group_state::effect::Effect;
use crate::group_state::service::Service;
use crate::housekeeping::Rounds;
use crate::io::hazards::{drop_durable, intent_durable, room_may_be_there};
use crate::io::leaving::Leaving;
use crate::io::path::Path;
use crate::io::request::{Reply, Request, RequestError};
use crate::io::requests::Requests;
use crate::io::routing::Routing;
use crate::io::scheduler::Lane;
use crate::journal::commit::Waiter;
use crate::journal::settling::{
    Settlement, checkpoint_in_force, checkpoint_is_due, commit_can_start,
};
use crate::map::block_checksums::BlockChecksums;
use crate::map::place::Place;
use crate::moves::Moves;
use crate::moves::feeding::feed;
use crate::moves::kept::KeptCopies;
use crate::moves::operation::{Operation, OperationId, Refusal};
use crate::moves::rate_control::CopyThrottle;
use crate::opening::error::OpenError;
use crate::opening::recovery::Recovered;
use crate::pools::flight::{Flight, Owner};
use crate::scrub::Scrub;
use thermocline_ports::{DeviceError, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, Nanos, PoolId};

/// The machines of a group over the state that they share.
pub(crate) struct Machines {
    pub(crate) state: GroupState,
    pub(crate) requests: Requests,
    pub(crate) leaving: Leaving,
    pub(crate) epochs: Epochs,
    pub(crate) rounds: Rounds,
    pub(crate) deletion: Deletion,
    pub(crate) settlement: Settlement,
    pub(crate) moves: Moves,
    pub(crate) kept: KeptCopies,
    pub(crate) copy_throttle: CopyThrottle,
    pub(crate) routing: Routing,
    pub(crate) scrub: Scrub,
    pub(crate) checksums: BlockChecksums,
    pub(crate) hinting: Hinting,
}

impl Machines {
    /// Machines with nothing under way.
    pub(crate) fn new(state: GroupState) -> Machines {
        Machines {
            requests: Requests::new(state.settings.depth),
            leaving: Leaving::default(),
            epochs: Epochs::new(state.settings.epoch),
            rounds: Rounds::default(),
            deletion: Deletion::default(),
            settlement: Settlement::default(),
            moves: Moves::default(),
            kept: KeptCopies::default(),
            copy_throttle: CopyThrottle::default(),
            routing: Routing::default(),
            scrub: Scrub::default(),
            checksums: BlockChecksums::default(),
            hinting: Hinting::default(),
            state,
        }
    }

    /// Takes over what was read from the devices.
    ///
    /// # Errors
    /// When pools and map do not agree; nothing was written then.
    pub(crate) fn adopt(&mut self, recovered: Recovered) -> Result<(), OpenError> {
        let Recovered { superblock, wishes, tables_lost, .. } = recovered;
        assert!(self.requests.is_idle() && !self.has_operations(), "nothing is under way");
        self.state.adopt(&superblock);
        check_recovered(&self.state)?;
        wishes.into_iter().for_each(|wish| self.moves.wish(wish));
        self.checksums.note_broken(tables_lost);
        if self.state.pools.keep_checksums() {
            let mapped = |chunk: &ChunkId| self.state.map.entry(*chunk).first().is_some();
            let chunks: Vec<ChunkId> = self.state.map.chunks().filter(mapped).collect();
            let mut watch = |chunk| self.checksums.watch(&mut self.state, Nanos(0), chunk);
            chunks.into_iter().for_each(&mut watch);
        }
        self.state.map.name_old_volumes();
        Ok(())
    }

    /// Ends formatting and recovery alike.
    pub(crate) fn first_checkpoint(&mut self) {
        assert_eq!(self.state.service, Service::Opening, "a group is opened once");
        self.state.journal.want_checkpoint();
        if !mutant("opened_without_room_for_its_map") {
            // Room may have been given that no superblock knew of when the power failed.
            self.state.grow_areas_when_short();
        }
        self.settlement.pump_checkpoint(&mut self.state);
    }

    /// Takes a request that counts for the lane `share`, or answers it at once with an error; true
    /// if it was taken.
    pub(crate) fn take_request(&mut self, now: Nanos, request: Request, share: Lane) -> bool {
        self.state.now = self.state.now.max(now);
        let range = match Requests::range_of(&self.state, &request) {
            Ok(range) => range,
            Err(error) => {
                let reply = Reply { id: request.id, result: Err(error) };
                self.requests.reply(&self.state, &mut self.epochs, reply);
                return false;
            }
        };
        assert_eq!(self.state.service, Service::Ready, "others are refused");
        self.epochs.asked(now, &request);
        let priority = self.hinting.lower(now, &request, range);
        self.requests.take(&mut self.state, request, (share, priority), range);
        true
    }

    /// A device's answer came to something that is under way; false: the group is out of service,
    /// and nothing follows from it.
    pub(crate) fn answered(
        &mut self,
        now: Nanos,
        pool: PoolId,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) -> bool {
        if result == Err(DeviceError::Gone) {
            self.settlement.pool_died(&mut self.state, &mut self.checksums, pool);
            assert!(!self.state.pools[pool].is_alive(), "a device that is gone is given up");
        }
        // What is read on a pool that was given up may be old: a failed flush has forgotten writes.
        let given_up = !self.state.pools[pool].is_alive() && !mutant("dead_pool_believed");
        let result = if given_up { Err(DeviceError::Gone) } else { result };
        if matches!(self.state.service, Service::Failed(_)) {
            return false;
        }
        self.tell_owner(now, pool, flight, result);
        if self.state.lines.take_freed() {
            self.leaving.slots_came(&mut self.state);
        }
        self.carry_out(now);
        true
    }

    /// Tells the one that has sent a request to a device of its end.
    fn tell_owner(
        &mut self,
        now: Nanos,
        pool: PoolId,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        assert!(!matches!(self.state.service, Service::Failed(_)), "nobody is told any more");
        let Machines { state, checksums, settlement, leaving, .. } = self;
        match flight.owner {
            Owner::SubRequest { sub_request, at } => {
                self.path().sub_request_io_done(now, sub_request, at, flight, result)
            }
            Owner::Copy { operation } => {
                let (moves, mut below) = self.moves_and_below(now);
                moves.copy_io_done(&mut below, operation, flight, result);
            }
            Owner::Scrub { copy } => {
                let (scrub, mut below) = self.scrub_and_below(now);
                scrub.scrub_io_done(&mut below, copy, flight.bytes, result);
            }
            Owner::Repair { index } => {
                let (scrub, mut below) = self.scrub_and_below(now);
                scrub.repair_done(&mut below, index, &result);
            }
            Owner::TableRead { load } => checksums.table_read(state, now, load, result),
            Owner::TableWrite => self.scrub.table_written(result.is_ok()),
            Owner::Flush => settlement.flush_answered(state, checksums, now, flight, result.err()),
            Owner::Journal | Owner::Checkpoint | Owner::Super => {
                settlement.journal_answered(state, checksums, now, flight, result.is_err());
            }
            Owner::LineRead { read } => {
                let answer = state.lines.read_ended(&mut state.pools, read, result);
                self.path().line_answered(now, answer);
            }
            Owner::LineFill { fill } => {
                state.lines.fill_ended(&mut state.pools, fill, result.is_ok());
            }
            Owner::Probe { slot } => leaving.probe_done(state, now, Place { pool, slot }, result),
            Owner::Clean { slot } => {
                leaving.clean_done(state, Place { pool, slot }, result.is_ok());
            }
            Owner::Open(_) => unreachable!("the group is opened"),
        }
    }

    /// Does all that can be done now.
    pub(crate) fn pump(&mut self, now: Nanos) {
        if matches!(self.state.service, Service::Failed(_)) {
            return;
        }
        self.settlement.settle_journal(&mut self.state);
        self.carry_out(now);
        loop {
            self.path().pump_foreground(now);
            self.carry_out(now);
            self.pump_moves(now);
            let (scrub, mut below) = self.scrub_and_below(now);
            scrub.pump(&mut below);
            self.carry_out(now);
            self.settlement.pump_commit(&mut self.state);
            self.carry_out(now);
            self.settlement.pump_checkpoint(&mut self.state);
            self.carry_out(now);
            self.pump_closing();
            let more = self.requests.has_work()
                || commit_can_start(&self.state)
                || checkpoint_is_due(&self.state)
                || self.moves.can_begin(&self.state);
            if !more || matches!(self.state.service, Service::Failed(_)) {
                break;
            }
        }
        assert!(!self.state.has_effects(), "nothing is left to others");
    }

    /// Does what machines left to others, each with what follows from it before the next.
    pub(crate) fn carry_out(&mut self, now: Nanos) {
        while let Some(effect) = self.state.take_effect() {
            // A pool may be gone with the step of the journal that this follows from.
            self.tell_of_pools(now);
            let rest = self.state.set_effects_aside();
            self.route(now, effect);
            self.state.put_effects_back(rest);
        }
        assert!(!self.state.has_effects(), "what follows from effects is carried out, too");
    }

    fn route(&mut self, now: Nanos, effect: Effect) {
        assert!(!self.state.has_effects(), "what follows from an effect comes after it");
        match effect {
            Effect::Eased(chunk) if self.state.map.is_busy(chunk) => {
                self.path().chunk_eased(now, chunk);
            }
            Effect::Eased(_) => {}
            Effect::Mend { chunk, blocks } => self.scrub.mend(chunk, blocks),
            Effect::Tables(chunk) => self.scrub.request_tables(chunk),
            Effect::Left(chunk, place) => self.leaving.leave(&mut self.state, now, chunk, place),
            Effect::Parted(chunk, place) => {
                let state = self.state.durable_state(chunk);
                self.state.journal.change(&Record::Chunk(chunk, state), chunk, &[place]);
            }
            Effect::SlotFree => self.moves.look_again(),
            Effect::Space(sub_request) => self.path().space_may_be_free(now, sub_request),
            Effect::Durable(waiter) => self.tell(now, waiter),
            Effect::InForce(states) => {
                checkpoint_in_force(&mut self.state, &mut self.checksums, &states);
            }
            Effect::Failed => {
                for id in self.requests.drain_requests() {
                    let reply = Reply { id, result: Err(RequestError::NotReady) };
                    self.requests.reply(&self.state, &mut self.epochs, reply);
                }
                self.moves.fail_all(&self.state);
            }
            Effect::Ended(chunk) => self.scrub.operation_ended(chunk),
            Effect::Wish(operation) => self.moves.wish(operation),
            Effect::Read(read) => {
                let (moves, mut below) = self.moves_and_below(now);
                feed(moves, &mut below, &read);
            }
            Effect::Kept(chunk, pool) => self.kept.add(&self.state, chunk, pool),
        }
    }

    /// Tells all who know pools by rank of what has changed.
    pub(crate) fn tell_of_pools(&mut self, now: Nanos) {
        let there = self.state.pools.ranks().there().len();
        assert!(there > 0, "the last pool is not removed");
        for change in self.state.pools.take_changes() {
            self.epochs.pools_changed(now, change);
            self.hinting.hints.pools_changed(change);
        }
    }

    /// Tells somebody who waited for a commit.
    fn tell(&mut self, now: Nanos, waiter: Waiter) {
        assert_ne!(self.state.service, Service::Opening, "nobody waits before it is open");
        match waiter {
            Waiter::Flush(request) => {
                let result = self.settlement.flush_result(self.requests.volume_of(request));
                self.requests.end_flush(&mut self.state, &mut self.epochs, request, result);
            }
            Waiter::SubRequest(sub_request) => {
                let chunk = self.state.sub_requests[sub_request].chunk();
                if self.settlement.took_part_of(&self.state, chunk) {
                    self.state.sub_requests[sub_request].fail(RequestError::Io);
                }
                self.requests.end_sub_request(&mut self.state, &mut self.epochs, sub_request);
            }
            Waiter::Intent(chunk) => {
                intent_durable(&mut self.state, &mut self.checksums, now, chunk);
            }
            Waiter::Dropped(chunk) => drop_durable(&mut self.state, chunk),
            Waiter::Region(region) => self.checksums.region_opened(&mut self.state, region),
            Waiter::Room(chunk) => room_may_be_there(&mut self.state, chunk),
            Waiter::Space(sub_request) => self.path().space_may_be_free(now, sub_request),
            Waiter::Switch(operation) => {
                let (moves, mut below) = self.moves_and_below(now);
                moves.switch_durable(&mut below, operation);
            }
            Waiter::Checkpoint(_) => unreachable!("the journal tells its checkpoint itself"),
        }
    }

    /// The path of requests.
    fn path(&mut self) -> Path<'_> {
        let is_open = self.state.service != Service::Opening;
        assert!(is_open || self.requests.is_idle(), "no requests before it is open");
        let Machines {
            state: group,
            checksums,
            requests,
            leaving,
            scrub,
            moves,
            hinting,
            routing,
            epochs,
            ..
        } = self;
        Path { group, checksums, requests, leaving, scrub, moves, hinting, routing, epochs }
    }

    /// The scrub, and what it stands on.
    fn scrub_and_below(&mut self, now: Nanos) -> (&mut Scrub, Below<'_>) {
        let Machines { scrub, state: group, checksums, copy_throttle, .. } = self;
        (scrub, Below { now, group, checksums, copy_throttle })
    }

    /// Operations, and what they stand on.
    pub(crate) fn moves_and_below(&mut self, now: Nanos) -> (&mut Moves, Below<'_>) {
        let Machines { moves, state: group, checksums, copy_throttle, .. } = self;
        (moves, Below { now, group, checksums, copy_throttle })
    }

    /// The group as a placement sees it.
    pub(crate) fn view(&self) -> View<'_> {
        self.epochs.view(&self.state, &self.requests.slas)
    }

    /// Queues an operation, and lets it begin if it may.
    ///
    /// # Errors
    /// When it makes no sense now; nothing has changed then.
    pub(crate) fn begin(
        &mut self,
        now: Nanos,
        operation: Operation,
    ) -> Result<OperationId, Refusal> {
        let id = self.moves.enqueue(&self.state, operation)?;
        assert!(self.moves.has_queued(), "it begins with what can be done now");
        self.state.now = self.state.now.max(now);
        self.pump(now);
        Ok(id)
    }

    /// Starts queued operations, and takes the next step of those under way.
    fn pump_moves(&mut self, now: Nanos) {
        self.copy_throttle.begin_round();
        loop {
            let (moves, mut below) = self.moves_and_below(now);
            let begun = moves.begin_next(&mut below);
            self.carry_out(now);
            if !begun {
                break;
            }
        }
        for index in self.state.operations.oldest_first() {
            let (moves, mut below) = self.moves_and_below(now);
            moves.advance(&mut below, index);
            self.carry_out(now);
        }
        assert!(!self.state.has_effects(), "each step was followed by what it left");
    }

    /// True if operations are queued or under way.
    pub(crate) fn has_operations(&self) -> bool {
        self.moves.has_queued() || !self.state.operations.is_empty()
    }

    /// Frees the chunks of deleted volumes on which nothing is under way any more.
    pub(crate) fn bury_volumes(&mut self) {
        let Machines { deletion, state, checksums, settlement, leaving, .. } = self;
        deletion.bury_volumes(state, checksums, settlement, leaving);
    }

    /// Stops taking requests and ends operations; all that is left becomes durable.
    pub(crate) fn close(&mut self, now: Nanos) {
        assert_eq!(self.state.service, Service::Ready, "only a group in service closes");
        self.state.service = Service::Closing;
        self.moves.cancel_all(&mut self.state, now);
        self.scrub.stop();
        self.state.now = self.state.now.max(now);
        self.pump(now);
    }

    /// Once every sub-request and operation has ended: makes what is left durable, then closes.
    fn pump_closing(&mut self) {
        if self.state.service != Service::Closing
            || !self.requests.is_idle()
            || self.has_operations()
        {
            return;
        }
        self.bury_volumes();
        self.checksums.close_regions(&mut self.state);
        let dirty = self.state.pools.any_dirty() && !mutant("closed_with_volatile_writes");
        if !self.state.journal.is_settled() || self.state.has_changes() || dirty {
            self.state.journal.want_commit();
        } else if self.state.journal.is_current() && !self.state.journal.is_empty() {
            // What was stopped in order needs no journal: no damage to it can be taken for its end.
            self.state.journal.want_checkpoint();
        } else if self.state.journal.is_current() && self.state.pools.is_quiet() {
            assert!(self.state.journal.is_empty() && !self.state.has_changes());
            self.state.service = Service::Closed;
        }
    }
}
