//! Checkpoints: everything that the journal says, written so that the journal can begin anew.
//!
//! 1. All nodes of maps that are not on the device get addresses and are frozen, and the root is
//!    written down: volumes, numbers given next, and the blocks of segments without a trailer. That
//!    is a moment; what changes later does not show.
//! 2. Nodes and root are written to free places, which nothing durable names.
//! 3. The device is flushed, and the superblock is forced. It names the new root, and the first
//!    journal block behind the moment. Only now are the old root and the nodes that it alone named
//!    free.
//!
//! A checkpoint *beside* commits begins with a commit that takes all records there are; others go
//! on meanwhile. A checkpoint *instead* of a commit makes the records durable that wait, when the
//! journal has no room for them, and when a store is formatted or opened; commits wait for it.

use crate::commit::Stage;
use crate::durability::TRIES_MAX;
use crate::format::{
    Head, Kind, PAYLOAD_BYTES, Record, Superblock, VolumeRecord, encode_record, seal_block,
};
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::settings::TRIM_RESERVE;
use crate::store::{Service, Store, Task, offset};
use thermocline_ports::{Device, DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Device requests of a checkpoint in flight at once: a checkpoint is not urgent.
const WRITES_MAX: u32 = 2;
/// Nodes of one request.
const RUN_MAX: usize = 64;

/// Relation of a checkpoint to commits: beside them, or instead of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Beside,
    Instead,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    Idle,
    Nodes,
    Flush,
    Supers,
}

/// State of the checkpoint that is under way or wanted.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    wanted: Option<Mode>,
    phase: Phase,
    holds_commits: bool,
    /// Number of the superblock in force, or under way.
    pub(crate) number: u64,
    /// Number of records that are durable once a checkpoint instead of a commit is done.
    mark: Option<u64>,
    journal_start: u64,
    /// Frozen nodes not yet sent, the next one last.
    nodes: Vec<(u32, u32)>,
    /// Blocks of the root not yet sent.
    root_blocks: Vec<(u32, Vec<u8>)>,
    outstanding: u32,
    /// Addresses that are free when it is done.
    released: Vec<u32>,
    /// The root in force, or under way.
    pub(crate) chain: Vec<u32>,
    /// Checkpoints done.
    pub(crate) done: u64,
}

impl Checkpoint {
    pub(crate) fn want(&mut self, mode: Mode) {
        self.wanted = self.wanted.max(Some(mode));
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.is_some() && self.phase == Phase::Idle
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.wanted.is_none()
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// True if records must wait for it.
    pub(crate) fn holds_commits(&self) -> bool {
        self.holds_commits || (self.wanted == Some(Mode::Instead) && self.phase == Phase::Idle)
    }

    /// Addresses that nothing durable will name after it.
    pub(crate) fn released(&self) -> &[u32] {
        &self.released
    }
}

impl<D: Device> Store<D> {
    /// Places that a root may need, at most.
    pub(crate) fn root_need(&self) -> u32 {
        let slots = u64::from(self.layout.slots());
        let blocks = (self.segments.unsealed.len() as u64 + 3) * (slots * 54 + 20);
        let volumes = (self.volumes.len() as u64 + 1) * 130;
        let payload = PAYLOAD_BYTES as u64 - 130;
        (blocks.div_ceil(payload) + volumes.div_ceil(payload)) as u32 + 2
    }

    /// Begins or goes on with a checkpoint.
    pub(crate) fn pump_checkpoint(&mut self) {
        let idle = self.commit.stage == Stage::Idle;
        match self.checkpoint.phase {
            Phase::Idle if self.checkpoint.wanted == Some(Mode::Instead) && idle => {
                self.capture(Mode::Instead);
            }
            // Nobody may commit for long: then nothing is in its way either.
            Phase::Idle if self.checkpoint.is_wanted() && idle && self.commit.is_settled() => {
                self.capture(Mode::Beside);
            }
            _ => {}
        }
        if self.checkpoint.phase == Phase::Nodes {
            self.send_nodes();
        }
    }

    /// Step 1.
    pub(crate) fn capture(&mut self, mode: Mode) {
        let need = self.nodes.dirty() + self.root_need();
        while self.segments.node_places() < need {
            if !self.segments.grow_nodes(0) {
                return match self.service {
                    Service::Opening => self.refuse(OpenError::NoRoom),
                    _ => self.stop(DeviceError::NoSpace),
                };
            }
        }
        self.checkpoint.wanted = None;
        self.checkpoint.number += 1;
        self.checkpoint.holds_commits = mode == Mode::Instead;
        self.checkpoint.mark = (mode == Mode::Instead).then(|| self.commit.cover());
        met_if(mode == Mode::Instead, "checkpoint instead of a commit");
        met_if(mode == Mode::Beside, "checkpoint beside commits");
        self.checkpoint.journal_start = self.commit.next + self.commit.taken.len() as u64;
        let roots: Vec<u32> = self.volumes.values().map(|volume| volume.root).collect();
        let Store { nodes, segments, .. } = self;
        let place = || segments.take_node_place().expect("counted before");
        let (mut frozen, left) = nodes.freeze(&roots, place);
        frozen.sort_unstable_by(|a, b| b.cmp(a));
        self.checkpoint.released = left;
        let old = std::mem::take(&mut self.checkpoint.chain);
        self.checkpoint.released.extend(old);
        self.checkpoint.nodes = frozen;
        self.write_root();
        self.checkpoint.phase = Phase::Nodes;
    }

    /// The root, in blocks that are not sent yet.
    fn write_root(&mut self) {
        let mut pages: Vec<Vec<u8>> = vec![Vec::new()];
        let mut record = Vec::new();
        for statement in self.root_records() {
            record.clear();
            encode_record(&statement, &mut record);
            if pages.last().is_some_and(|page| page.len() + record.len() > PAYLOAD_BYTES) {
                pages.push(Vec::new());
            }
            pages.last_mut().expect("there is one").extend_from_slice(&record);
        }
        met_if(pages.len() > 1, "root of several blocks");
        let take = |_: &Vec<u8>| self.segments.take_node_place().expect("counted before");
        let chain: Vec<u32> = pages.iter().map(take).collect();
        for (index, page) in pages.iter().enumerate() {
            let head = Head {
                identity: self.identity,
                generation: self.checkpoint.number,
                sequence: index as u64,
                part: 0,
                extra: chain.get(index + 1).copied().unwrap_or(0),
            };
            let mut block = Vec::with_capacity(BLOCK as usize);
            seal_block(Kind::Root, head, page, &mut block);
            self.checkpoint.root_blocks.push((chain[index], block));
        }
        self.checkpoint.chain = chain;
    }

    fn root_records(&self) -> Vec<Record> {
        let mut records = vec![Record::Next {
            volume: self.next_volume,
            generation: self.generation,
            segment: self.segments.next_sequence,
        }];
        for (&id, volume) in &self.volumes {
            records.push(Record::Volume(VolumeRecord {
                id,
                name: volume.name.clone(),
                size: volume.size,
                domain: volume.domain,
                read_only: volume.read_only,
                quotas: volume.quotas,
                mapped: volume.mapped,
                version: volume.version,
                origin: volume.origin,
                tag: volume.tag,
                root: self.nodes.disk(volume.root),
            }));
        }
        for (&segment, unsealed) in &self.segments.unsealed {
            if mutant("root_forgets_open_segments") {
                break;
            }
            let (sequence, class) = (unsealed.sequence, unsealed.class);
            records.push(Record::Open { segment, sequence, class });
            let first = self.layout.first_slot(segment);
            let entries = (first..).zip(&unsealed.entries);
            records
                .extend(entries.filter_map(|(place, entry)| Some(Record::Block(place, (*entry)?))));
        }
        records
    }

    /// Step 2.
    fn send_nodes(&mut self) {
        while self.checkpoint.outstanding < WRITES_MAX {
            let mut data = Vec::new();
            let Some(&(first, _)) = self.checkpoint.nodes.last() else { break };
            let mut next = first;
            while let Some(&(place, id)) = self.checkpoint.nodes.last()
                && place == next
                && data.len() < RUN_MAX * BLOCK as usize
            {
                self.checkpoint.nodes.pop();
                next += 1;
                let (payload, level) = self.nodes.thaw(place, id);
                let head = Head {
                    identity: self.identity,
                    generation: self.checkpoint.number,
                    sequence: u64::from(place),
                    part: 0,
                    extra: u32::from(level),
                };
                seal_block(Kind::Node, head, &payload, &mut data);
            }
            self.counters.map_blocks += u64::from(next - first);
            self.send_node(first, Payload::from(data), 0);
        }
        while self.checkpoint.outstanding < WRITES_MAX
            && let Some((place, block)) = self.checkpoint.root_blocks.pop()
        {
            self.counters.map_blocks += 1;
            self.send_node(place, Payload::from(block), 0);
        }
        let is_sent = self.checkpoint.nodes.is_empty() && self.checkpoint.root_blocks.is_empty();
        // The commit with which it began must be durable, or its journal would begin with a hole.
        let is_covered = self.commit.next >= self.checkpoint.journal_start;
        if is_sent && self.checkpoint.outstanding == 0 && is_covered {
            self.checkpoint.phase = Phase::Flush;
            // Blocks count as volatile still: a commit must not rely on a flush that has not ended.
            self.send(Task::CheckpointFlush, Io::Flush);
        }
    }

    fn send_node(&mut self, place: u32, data: Payload, tries: u32) {
        self.checkpoint.outstanding += 1;
        let io = Io::Write { offset: offset(u64::from(place)), data: data.clone(), fua: false };
        self.send(Task::Node { place, data, tries }, io);
    }

    pub(crate) fn node_written(
        &mut self,
        place: u32,
        data: Payload,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.checkpoint.outstanding -= 1;
        match result {
            Ok(_) => {}
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_node(place, data, tries + 1);
            }
            Err(error) => self.fail(error),
        }
    }

    /// Step 3.
    pub(crate) fn checkpoint_flushed(&mut self, result: Result<Payload, DeviceError>) {
        if let Err(error) = result {
            return self.fail(error);
        }
        let checkpoint = &mut self.checkpoint;
        checkpoint.phase = Phase::Supers;
        let superblock = Superblock {
            identity: self.identity,
            number: checkpoint.number,
            layout: self.layout,
            fanout: self.settings.fanout,
            journal_generation: self.commit.generation,
            journal_start: checkpoint.journal_start,
            root: checkpoint.chain[0],
        };
        let data = Payload::from(superblock.encode());
        for place in self.layout.supers(self.checkpoint.number) {
            self.send_super(place, data.clone(), 0);
        }
    }

    fn send_super(&mut self, place: u64, data: Payload, tries: u32) {
        self.checkpoint.outstanding += 1;
        let fua = !mutant("superblock_not_forced");
        let io = Io::Write { offset: offset(place), data: data.clone(), fua };
        self.send(Task::Super { place, data, tries }, io);
    }

    pub(crate) fn super_written(
        &mut self,
        place: u64,
        data: Payload,
        tries: u32,
        result: Result<Payload, DeviceError>,
    ) {
        self.checkpoint.outstanding -= 1;
        match result {
            Ok(_) if self.checkpoint.outstanding == 0 => self.checkpoint_done(),
            Ok(_) => {}
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_super(place, data, tries + 1);
            }
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: DeviceError) {
        match self.service {
            Service::Opening => self.refuse(OpenError::Device(error)),
            _ => self.stop(error),
        }
    }

    fn checkpoint_done(&mut self) {
        met("checkpoint done");
        let checkpoint = &mut self.checkpoint;
        checkpoint.phase = Phase::Idle;
        checkpoint.done += 1;
        checkpoint.holds_commits = false;
        self.counters.checkpoints += 1;
        self.commit.start = checkpoint.journal_start;
        if let Some(mark) = checkpoint.mark.take() {
            self.commit.covered(mark);
        }
        self.release_places();
        if self.service == Service::Opening {
            self.service = Service::Ready;
            self.begin_service();
        }
        self.serve();
    }

    fn release_places(&mut self) {
        let spare = self.nodes.dirty() + 2 * self.root_need() + 2 * TRIM_RESERVE;
        for place in std::mem::take(&mut self.checkpoint.released) {
            self.segments.leave_node_place(place, spare);
        }
    }
}
