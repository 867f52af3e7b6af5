//! The steps of a commit cycle; who waits for which, and what is queued, is [`super::Commit`]'s.

use super::{COMMIT_BLOCKS_MAX, Change, FOR_A_DEATH, OPENING_BYTES, Stage, Waiter};
use crate::flight::{Flight, Owner};
use crate::format::{BLOCK_BYTES, BlockKind, Record, Stamp, seal_commit_block};
use crate::group::{Group, payload};
use crate::layout::journal_offset;
use crate::map::{ChunkState, Place};
use crate::opening::OpenError;
use crate::request::RequestError;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId};

impl Group {
    /// Wants a cycle for what is queued, although nobody waits for it.
    pub(crate) fn want_commit_of_changes(&mut self) {
        let queued = !self.commit.queue.is_empty();
        self.commit.wanted |= queued || !self.copier.unsaved_overlays.is_empty();
    }

    /// True if the map in memory is ahead of the journal.
    pub(crate) fn has_changes(&self) -> bool {
        self.commit.has_records() || !self.copier.unsaved_overlays.is_empty()
    }

    /// True if somebody wants a cycle and none is under way.
    fn cycle_is_wanted(&self) -> bool {
        let hurried = !self.copier.is_copying();
        let someone = self.commit.someone_waits(self.has_changes(), hurried);
        let wanted = self.commit.wanted && (self.has_changes() || self.any_dirty());
        self.commit.stage == Stage::Idle && (someone || wanted)
    }

    /// True if a cycle would start now.
    pub(crate) fn cycle_can_start(&self) -> bool {
        let alone = self.commit.is_idle() && self.checkpoint.awaits_flush().is_some();
        alone || self.cycle_is_wanted() && self.journal_room() > 0
    }

    /// Starts a cycle when somebody wants one.
    pub(crate) fn pump_commit(&mut self) {
        if !self.cycle_can_start() {
            // When it is the journal that has no room, the checkpoint under way will make it.
            return;
        }
        if self.checkpoint.awaits_flush().is_some() {
            self.commit.stage = Stage::FlushingAlone;
            self.flush_dirty_pools();
            if self.commit.outstanding == 0 {
                self.flushed();
            }
            return;
        }
        self.commit.wanted = false;
        if mutant("blocks_of_sides_not_saved") {
            self.copier.unsaved_overlays.clear();
        }
        self.save_overlays();
        self.take_changes();
        self.commit.stage = Stage::Flushing;
        let announces = self.commit.only_announces();
        met_if(announces && self.any_dirty(), "commit without a flush");
        if !announces {
            self.flush_dirty_pools();
        }
        if self.commit.outstanding == 0 {
            self.write_journal();
        }
    }

    pub(crate) fn any_dirty(&self) -> bool {
        self.pools.iter().any(|pool| pool.dirty && pool.is_alive())
    }

    /// Blocks that a cycle may write now. A quarter of the ring is kept for the cycle that ends a
    /// checkpoint: it must be able to write all that is queued, or no room would ever be made.
    pub(crate) fn journal_room(&self) -> u64 {
        let used = self.commit.next - self.commit.start;
        let ring = u64::from(self.settings.journal_blocks);
        let kept = if self.checkpoint.is_covering() { 0 } else { ring / 4 };
        ring.saturating_sub(used + kept + FOR_A_DEATH)
    }

    /// True if so much is queued that nobody may add to it before the next cycle.
    pub(crate) fn records_pile_up(&self) -> bool {
        self.bytes_queued() > self.bytes_queued_max()
    }

    /// True if records that nobody waits for must leave the rest of the room to others.
    pub(crate) fn records_half_pile_up(&self) -> bool {
        self.bytes_queued() > self.bytes_queued_max() / 2
    }

    fn bytes_queued(&self) -> usize {
        self.commit.queued_bytes + self.commit.openings * OPENING_BYTES
    }

    fn bytes_queued_max(&self) -> usize {
        let blocks = (u64::from(self.settings.journal_blocks) / 8).min(COMMIT_BLOCKS_MAX / 2);
        blocks as usize * self.settings.limits.usable()
    }

    /// Queues a record about `chunk`; once it is durable, nobody refers to the slots in `left`.
    pub(crate) fn change(&mut self, record: Record, chunk: ChunkId, left: &[Place]) {
        if mutant("slot_reused_before_the_record") {
            self.commit.queue(&record, chunk, &[]);
            for &place in left {
                self.leave(self.now, chunk, place);
            }
            return;
        }
        self.commit.queue(&record, chunk, left);
    }

    /// Blocks in use, as a share of the ring.
    pub(crate) fn journal_fill(&self) -> f64 {
        let used = self.commit.next - self.commit.start;
        used as f64 / f64::from(self.settings.journal_blocks)
    }

    /// Moves as many records into the cycle as fit, with those who wait for no others. Who waits
    /// for records that do not fit is served by the cycle that takes the last of them, whatever is
    /// queued behind it meanwhile: a checkpoint that waited for an empty queue would never end.
    fn take_changes(&mut self) {
        let limit = self.settings.limits.commit_blocks.min(self.journal_room());
        let payload = self.settings.limits.block_payload;
        let (mut blocks, mut used) = (0, payload);
        while let Some(change) = self.commit.queue.front() {
            if used + change.bytes.len() > payload {
                if blocks == limit {
                    break;
                }
                blocks += 1;
                used = 0;
            }
            used += change.bytes.len();
            let change = self.commit.queue.pop_front().expect("looked at it");
            self.commit.queued_bytes -= change.bytes.len();
            self.commit.taken.push(change);
        }
        self.commit.blocks = blocks;
        met_if(!self.commit.queue.is_empty(), "commit took a part of the queue");
        self.commit.take_waiters();
    }

    fn flush_dirty_pools(&mut self) {
        if mutant("record_before_its_data") {
            // Taken for flushed: a group that closes would try for ever.
            return self.pools.iter_mut().for_each(|pool| pool.dirty = false);
        }
        for index in 0..self.pools.len() {
            let pool = &mut self.pools[index];
            if pool.dirty && pool.is_alive() {
                pool.dirty = false;
                if mutant("third_pool_not_flushed") && index >= 2 {
                    continue;
                }
                self.commit.outstanding += 1;
                self.send(self.now, PoolId(index as u16), Owner::Flush, Io::Flush);
            }
        }
    }

    /// A pool is flushed, or is not.
    pub(crate) fn flush_done(
        &mut self,
        now: Nanos,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        let forgot = matches!(result, Err(DeviceError::Io | DeviceError::NoSpace))
            && !mutant("failed_flush_tried_again");
        met_if(forgot, "flush failed");
        if forgot && !self.pool(flight.pool).is_far() {
            self.flush_failed(flight.pool);
            if matches!(self.service, crate::group::Service::Failed(_)) {
                return;
            }
        } else if self.goes_again(now, flight, result.is_err()) {
            return;
        }
        self.commit.outstanding -= 1;
        if result.is_err() && !mutant("failed_flush_not_reported") {
            self.commit.note_loss(flight.pool);
        }
        if self.commit.outstanding == 0 {
            self.flushed();
        }
    }

    /// Every pool is flushed that was to be.
    fn flushed(&mut self) {
        if self.commit.stage != Stage::FlushingAlone {
            return self.write_journal();
        }
        self.commit.stage = Stage::Idle;
        if let Some(attempt) = self.checkpoint.awaits_flush() {
            self.checkpoint.covered(attempt);
        }
    }

    /// Step 3: the records, on every home.
    fn write_journal(&mut self) {
        self.commit.stage = Stage::Writing;
        if self.commit.taken.is_empty() {
            self.commit.blocks = 0;
            return self.cycle_written(self.now);
        }
        let (blocks, count) = self.seal_journal_blocks();
        self.commit.blocks = count;
        let ring = u64::from(self.settings.journal_blocks);
        let first = self.commit.next % ring;
        let head = (ring - first).min(count) as usize * BLOCK_BYTES;
        met_if(count > 1, "commit of several blocks");
        met_if(head < blocks.len(), "commit across the ring's end");
        met_if(self.commit.next >= ring, "journal ring wrapped");
        let targets = self.journal_targets();
        let homes = &self.commit.homes;
        met_if(
            !homes.is_empty() && targets.len() > homes.len(),
            "commit written to a coming replica",
        );
        for home in targets {
            for (at, bytes) in [(first, &blocks[..head]), (0, &blocks[head..])] {
                if !bytes.is_empty() {
                    if at == 0 && first != 0 && mutant("commit_without_its_wrapped_part") {
                        continue;
                    }
                    let (offset, fua) = (journal_offset(at), !mutant("journal_not_forced"));
                    let write = Io::Write { offset, data: payload(bytes), fua };
                    self.commit.outstanding += 1;
                    self.send(self.now, home, Owner::Journal, write);
                }
            }
        }
        if self.commit.outstanding == 0 {
            self.fail(OpenError::NoHome);
        }
    }

    /// The homes in force, and those that a checkpoint under way will put in force.
    fn journal_targets(&self) -> Vec<PoolId> {
        let mut targets = self.commit.homes.clone();
        for &home in self.checkpoint.coming_homes() {
            let left_out = mutant("coming_replicas_without_journal") && !targets.is_empty();
            if !left_out && !targets.contains(&home) && self.pool(home).is_alive() {
                targets.push(home);
            }
        }
        targets
    }

    fn seal_journal_blocks(&self) -> (Vec<u8>, u64) {
        let mut blocks = Vec::new();
        let payload = self.settings.limits.block_payload;
        let mut records: Vec<u8> = Vec::with_capacity(payload);
        let mut count = 0;
        let mut seal = |records: &mut Vec<u8>| {
            let stamp = Stamp {
                identity: self.identity,
                generation: self.commit.generation,
                sequence: self.commit.next + count,
            };
            let before = if mutant("block_forgets_its_commit") { 0 } else { count as u16 };
            seal_commit_block(BlockKind::Journal, stamp, before, records, &mut blocks);
            records.clear();
            count += 1;
        };
        for change in &self.commit.taken {
            if records.len() + change.bytes.len() > payload {
                seal(&mut records);
            }
            records.extend_from_slice(&change.bytes);
        }
        seal(&mut records);
        (blocks, count)
    }

    /// A home wrote journal blocks, or did not.
    pub(crate) fn journal_io_done(
        &mut self,
        now: Nanos,
        flight: &Flight,
        result: Result<Payload, DeviceError>,
    ) {
        if self.goes_again(now, flight, result.is_err()) {
            return;
        }
        self.commit.outstanding -= 1;
        if self.commit.outstanding > 0 || matches!(self.service, crate::group::Service::Failed(_)) {
            return;
        }
        if self.commit.homes.is_empty() {
            // Every home in force has died. Where superblocks that name others are on their way,
            // the records are durable there, and count as soon as those are in force.
            met("commit waited for replicas to be in force");
            self.commit.awaits_homes = self.checkpoint.is_being_sealed();
            if !self.commit.awaits_homes {
                self.fail(OpenError::NoHome);
            }
            return;
        }
        self.cycle_written(now);
    }

    /// The records are on every home. They count, unless a superblock may come back that names
    /// homes which lack them: then they do as soon as a younger one is in force. Only the
    /// checkpoint that makes that one does not wait for it.
    fn cycle_written(&mut self, now: Nanos) {
        let superseded = self.commit.superseded || self.has_lost_a_coming_home();
        if !superseded || mutant("commit_counts_though_superseded") {
            return self.cycle_done(now);
        }
        met("commit waited for a younger superblock");
        self.commit.next += std::mem::take(&mut self.commit.blocks);
        self.commit.stage = Stage::Idle;
        self.commit.held.0.append(&mut self.commit.taken);
        for waiter in std::mem::take(&mut self.commit.waiters) {
            match waiter {
                Waiter::Checkpoint(attempt) => self.checkpoint.covered(attempt),
                waiter => self.commit.held.1.push(waiter),
            }
        }
    }

    /// A checkpoint is in force, and nothing younger than its superblock can come back.
    pub(crate) fn release_held(&mut self) {
        self.commit.superseded = false;
        let (taken, waiters) = std::mem::take(&mut self.commit.held);
        if !taken.is_empty() || !waiters.is_empty() {
            self.settle_cycle(self.now, taken, waiters);
        }
    }

    /// A checkpoint has put homes in force: ends the cycle whose records only those have.
    pub(crate) fn homes_in_force(&mut self) {
        if std::mem::take(&mut self.commit.awaits_homes) {
            match self.commit.homes.is_empty() {
                true => self.fail(OpenError::NoHome),
                false => self.cycle_done(self.now),
            }
        }
    }

    /// Step 4.
    fn cycle_done(&mut self, now: Nanos) {
        self.commit.next += self.commit.blocks;
        self.commit.stage = Stage::Idle;
        let taken = std::mem::take(&mut self.commit.taken);
        let waiters = std::mem::take(&mut self.commit.waiters);
        self.settle_cycle(now, taken, waiters);
    }

    /// Tells everybody who waited, and lets go of slots.
    fn settle_cycle(&mut self, now: Nanos, taken: Vec<Change>, waiters: Vec<Waiter>) {
        let lost = std::mem::take(&mut self.commit.lost);
        if !lost.is_empty() && !mutant("loss_told_to_nobody") {
            let lose = |chunk: &ChunkId| self.has_lost_part(*chunk, &lost);
            let volumes = self.map.chunks().filter(lose).map(|chunk| chunk.volume);
            self.commit.untold = volumes.chain(self.commit.untold.iter().copied()).collect();
        }
        let mut told = Vec::new();
        // Switches first: the slots that they leave are in `taken`.
        for &waiter in &waiters {
            if let Waiter::Switch(operation) = waiter {
                self.switch_durable(now, operation);
            }
        }
        for (chunk, place) in taken.into_iter().flat_map(|change| change.left) {
            self.leave(now, chunk, place);
        }
        for waiter in waiters {
            match waiter {
                Waiter::Flush(request) => {
                    let volume = self.requests[request].volume;
                    let untold = self.commit.untold.contains(&volume);
                    let result =
                        if !lost.is_empty() || untold { Err(RequestError::Io) } else { Ok(()) };
                    told.push(volume);
                    self.end_flush(request, result);
                }
                Waiter::Part(part) => {
                    if self.has_lost_part(self.parts[part].chunk, &lost) {
                        self.parts[part].error = Some(RequestError::Io);
                    }
                    self.end_part(part);
                }
                Waiter::Intent(chunk) => self.intent_durable(now, chunk),
                Waiter::Dropped(chunk) => self.drop_durable(now, chunk),
                Waiter::Region(region) => self.region_opened(now, region),
                Waiter::Room(chunk) => {
                    // Who waited may have gone with the mirror that it would have announced.
                    if self.map.is_busy(chunk) {
                        let traffic = self.traffic_of(chunk);
                        self.traffic[traffic].awaits_room = false;
                        self.traffic_eased(now, chunk);
                    }
                }
                Waiter::Space(part) => self.space_may_be_free(now, part),
                Waiter::Switch(_) => {}
                Waiter::Checkpoint(attempt) => self.checkpoint.covered(attempt),
            }
        }
        self.commit.untold.retain(|volume| !told.contains(volume));
    }

    /// Puts the group out of service: no pool is left that could hold the journal.
    pub(crate) fn fail(&mut self, error: OpenError) {
        if matches!(self.service, crate::group::Service::Failed(_)) {
            return;
        }
        self.service = crate::group::Service::Failed(error);
        self.fail_everyone();
    }

    /// Queues a record for every chunk in two parts whose blocks changed sides since its last one.
    fn save_overlays(&mut self) {
        for chunk in std::mem::take(&mut self.copier.unsaved_overlays) {
            if !self.map.has(chunk) {
                continue;
            }
            let overlay = self.map.overlay_mut(chunk);
            if overlay.is_some_and(|overlay| std::mem::replace(&mut overlay.unsaved, false)) {
                let state: ChunkState = self.durable_state(chunk);
                self.change(Record::Chunk(chunk, state), chunk, &[]);
            }
        }
    }
}
