//! Making changes of the map durable: commit cycles.
//!
//! Every change of the map is queued as a record, in the order in which it became true. A cycle
//!
//! 1. takes the records queued so far, with the blocks that arrived in overlays;
//! 2. flushes every pool that was written since its last flush, unless all records only say that
//!    writes are to come;
//! 3. writes the records to the journal on all its homes, forced to the medium;
//! 4. tells everybody who waited, and lets go of the slots that the records free.
//!
//! So data is durable before a record says where it is, and a slot is not reused before the record
//! that frees it is durable. One cycle runs at a time; whoever comes meanwhile shares the next. A
//! flush of a client is a cycle, with or without records.

use crate::flight::{Flight, Owner};
use crate::format::{BLOCK_BYTES, BlockKind, Record, Stamp, encode_record, seal_commit_block};
use crate::group::{Group, payload};
use crate::layout::journal_offset;
use crate::map::{ChunkState, Place};
use crate::opening::OpenError;
use crate::regions::Region;
use crate::request::RequestError;
use std::collections::{BTreeSet, VecDeque};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

/// Journal blocks that one cycle may write.
pub(crate) const COMMIT_BLOCKS_MAX: u64 = 32;

/// Bytes of the record by which a chunk gets its first slot.
const OPENING_BYTES: usize = 20;

/// Blocks by which a cycle may grow when one of its flushes ends a pool.
const FOR_A_DEATH: u64 = 1;

const _: () =
    assert!(COMMIT_BLOCKS_MAX + FOR_A_DEATH <= u16::MAX as u64, "a block counts those before it");

/// Who waits for a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A client's flush.
    Flush(u32),
    /// A forced write whose chunk is not yet durable where it is.
    Part(u32),
    /// Writes to a chunk whose copies are about to differ.
    Intent(ChunkId),
    /// Writes to a chunk that has lost a copy.
    Dropped(ChunkId),
    /// Writes to a region of chunks.
    Region(Region),
    /// Parts that must not add to what is queued.
    Room(ChunkId),
    /// A part that found no free slot.
    Space(u32),
    /// An operation's switch.
    Switch(u32),
    /// A checkpoint that covers all that is queued; which attempt at one.
    Checkpoint(u64),
}

/// A record on its way to the journal.
#[derive(Debug)]
struct Change {
    bytes: Vec<u8>,
    /// True if what was written before must be durable before it.
    needs_flush: bool,
    /// Slots that nobody refers to once the record is durable.
    left: Vec<(ChunkId, Place)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Idle,
    Flushing,
    Writing,
    /// A flush without records, for a checkpoint that takes them in.
    FlushingAlone,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Commit {
    stage: Stage,
    /// True if a cycle shall run although nobody waits.
    pub(crate) wanted: bool,
    queue: VecDeque<Change>,
    queued_bytes: usize,
    /// Slots being made ready, each of which will queue a record.
    pub(crate) openings: usize,
    /// Records of the cycle under way.
    taken: Vec<Change>,
    /// Waiters of the cycle under way.
    waiters: Vec<Waiter>,
    /// Waiters of a later one, with the number of records that must be taken before it serves them:
    /// those that were queued when the first cycle after their arrival began.
    later_waiters: VecDeque<(u64, Waiter)>,
    /// Waiters that have come since a cycle last began.
    next_waiters: Vec<Waiter>,
    /// Records that were ever queued.
    records: u64,
    outstanding: u32,
    /// Pools that died with writes that were not yet flushed, since a cycle last ended.
    lost: BTreeSet<PoolId>,
    /// Volumes whose next flush fails: a pool died with something that only it had, and nobody was
    /// told yet.
    untold: BTreeSet<VolumeId>,
    pub(crate) generation: u64,
    /// Sequence of the next block to be written.
    pub(crate) next: u64,
    /// Sequence of the first block that a recovery needs.
    pub(crate) start: u64,
    /// Blocks of the cycle under way.
    blocks: u64,
    /// Where the journal is.
    pub(crate) homes: Vec<PoolId>,
    /// True if the cycle under way has written its records and waits for homes to be in force.
    awaits_homes: bool,
    /// True if a superblock that never came in force may be durable on a pool that has died. If it
    /// comes back, that one counts, and the journal of the homes that it names, until there is a
    /// younger one.
    superseded: bool,
    /// Records and waiters of cycles that were written meanwhile.
    held: (Vec<Change>, Vec<Waiter>),
}

impl Commit {
    pub(crate) fn new(generation: u64, homes: Vec<PoolId>) -> Commit {
        Commit {
            stage: Stage::Idle,
            wanted: false,
            queue: VecDeque::new(),
            queued_bytes: 0,
            openings: 0,
            taken: Vec::new(),
            waiters: Vec::new(),
            later_waiters: VecDeque::new(),
            next_waiters: Vec::new(),
            records: 0,
            outstanding: 0,
            lost: BTreeSet::new(),
            untold: BTreeSet::new(),
            generation,
            next: 0,
            start: 0,
            blocks: 0,
            homes,
            awaits_homes: false,
            superseded: false,
            held: (Vec::new(), Vec::new()),
        }
    }

    fn queue(&mut self, record: &Record, chunk: ChunkId, left: &[Place]) {
        let mut bytes = Vec::with_capacity(24);
        encode_record(record, &mut bytes);
        let left = left.iter().map(|&place| (chunk, place)).collect();
        self.queued_bytes += bytes.len();
        self.records += 1;
        self.queue.push_back(Change { bytes, needs_flush: true, left });
    }

    /// Queues a record that says that writes are to come; whether what was written before must be
    /// durable before it.
    pub(crate) fn queue_announcement(&mut self, record: &Record, needs_flush: bool) {
        self.queue(record, ChunkId::default(), &[]);
        let change = self.queue.back_mut().expect("just queued");
        change.needs_flush = needs_flush;
    }

    /// True if the cycle under way says only that writes are to come, and tells nobody else.
    fn only_announces(&self) -> bool {
        let waits_for_word = |waiter: &Waiter| {
            matches!(waiter, Waiter::Intent(_) | Waiter::Region(_) | Waiter::Room(_))
        };
        let told = self.waiters.iter().all(waits_for_word);
        told && !self.taken.is_empty() && !self.taken.iter().any(|change| change.needs_flush)
    }

    /// Queues a record that frees nothing.
    pub(crate) fn queue_record(&mut self, record: Record) {
        self.queue(&record, ChunkId::default(), &[]);
    }

    /// Queues a record in front of all others that are not yet on their way to the journal:
    /// whatever they say about the pool was not flushed there, and must not outlive this.
    pub(crate) fn queue_death(&mut self, pool: PoolId) {
        let mut bytes = Vec::new();
        encode_record(&Record::PoolDead(pool), &mut bytes);
        let change = Change { bytes, needs_flush: true, left: Vec::new() };
        if self.stage == Stage::Flushing {
            met_if(!self.taken.is_empty(), "death record in front of a commit under way");
            match mutant("death_record_last") {
                true => self.taken.push(change),
                false => self.taken.insert(0, change),
            }
        } else {
            self.queued_bytes += change.bytes.len();
            self.records += 1;
            // Who waits for the last record queued waits for one more.
            self.later_waiters.iter_mut().for_each(|(records, _)| *records += 1);
            met_if(!self.queue.is_empty(), "death record in front of others");
            match mutant("death_record_last") {
                true => self.queue.push_back(change),
                false => self.queue.push_front(change),
            }
        }
    }

    /// True if a waiter is served by a cycle that starts now. Who waits for room is not when no
    /// record is queued and slots that are being made ready take the room: an empty cycle would let
    /// it look again, find no room and wait, for ever.
    fn someone_waits(&self, has_changes: bool) -> bool {
        let room_comes = has_changes || self.openings == 0;
        let for_room = |waiter: &Waiter| matches!(waiter, Waiter::Room(_) | Waiter::Space(_));
        let served = |waiter: &Waiter| room_comes || !for_room(waiter);
        !self.later_waiters.is_empty() || self.next_waiters.iter().any(served)
    }

    /// Moves the waiters into the cycle whose records are all taken. Whoever has come since a cycle
    /// last began may wait for the last record that is queued now.
    fn take_waiters(&mut self) {
        let records = self.records;
        self.later_waiters.extend(self.next_waiters.drain(..).map(|waiter| (records, waiter)));
        let left = match mutant("flush_answered_with_records_left") {
            true => 0,
            false => self.queue.len() as u64,
        };
        while let Some((_, waiter)) =
            self.later_waiters.pop_front_if(|(by, _)| *by + left <= records)
        {
            self.waiters.push(waiter);
        }
    }

    /// Joins the next cycle.
    pub(crate) fn join(&mut self, waiter: Waiter) {
        self.next_waiters.push(waiter);
    }

    /// True if a record waits for durability.
    pub(crate) fn has_records(&self) -> bool {
        !self.queue.is_empty() || !self.taken.is_empty()
    }

    /// True if some queued record will free a slot.
    pub(crate) fn will_free(&self) -> bool {
        self.changes().any(|change| !change.left.is_empty())
    }

    /// Records that nothing may rely on yet.
    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.queue.iter().chain(&self.taken).chain(&self.held.0)
    }

    /// True if nothing is queued, under way or wanted.
    pub(crate) fn is_settled(&self) -> bool {
        self.stage == Stage::Idle
            && !self.has_records()
            && self.waiters.is_empty()
            && self.later_waiters.is_empty()
            && self.next_waiters.is_empty()
            && self.held.0.is_empty()
            && self.held.1.is_empty()
    }

    /// True if the checkpoint in force has everything: a recovery would find no block to replay.
    pub(crate) fn is_empty(&self) -> bool {
        self.next == self.start
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.stage == Stage::Idle
    }

    /// A superblock that is younger than the one in force may come back.
    pub(crate) fn supersede(&mut self) {
        self.superseded = true;
    }

    /// Unflushed writes to `pool` are gone: the next flush says so.
    pub(crate) fn note_loss(&mut self, pool: PoolId) {
        self.lost.insert(pool);
    }

    /// The volume is deleted: what it lost concerns nobody.
    pub(crate) fn forget_losses(&mut self, volume: VolumeId) {
        self.untold.remove(&volume);
    }

    pub(crate) fn home_lost(&mut self, pool: PoolId) {
        self.homes.retain(|&home| home != pool);
    }

    /// Slots that queued records will free.
    pub(crate) fn places_left(&self) -> impl Iterator<Item = Place> + '_ {
        self.changes().flat_map(|change| change.left.iter().map(|&(_, place)| place))
    }
}

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
        let someone = self.commit.someone_waits(self.has_changes());
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
