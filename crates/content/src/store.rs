//! The store: its state, and the distribution of the device's answers.
//!
//! `submit` takes requests, `poll` takes the device's completions and hands out answers. Between
//! its own requests a store keeps working (commits, checkpoints, sweeps, cleaning), so `next_event`
//! may name a moment at which `poll` has nothing to hand out.

use crate::blocks::Blocks;
use crate::checkpoint::Checkpoint;
use crate::clean::Cleaner;
use crate::commit::Commit;
use crate::format::VolumeRecord;
use crate::layout::Layout;
use crate::locks::Locks;
use crate::name::{BLOCK, ContentId, Domain};
use crate::open_error::OpenError;
use crate::opening::Opening;
use crate::reading::Read;
use crate::request::{Answer, Completed, Quotas, RequestError, RequestId, Tag};
use crate::room::Room;
use crate::segments::Segments;
use crate::settings::Settings;
use crate::status::Counters;
use crate::sweep::Sweep;
use crate::tree::{Nodes, Ref};
use crate::writing::Write;
use std::collections::{BTreeMap, BTreeSet};
use thermocline_ports::{Completion, Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, Slab, VolumeId};

/// Bit that is set in tickets of device requests that no client waits for (cleaning, discards). A
/// device with priorities may serve the others first.
pub const BACKGROUND: u64 = 1 << 63;

/// State of a store: only a ready one takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// It is being formatted or opened.
    Opening,
    /// It takes requests.
    Ready,
    /// It cannot be opened.
    Refused(OpenError),
    /// Its device failed, and the store could not continue. Everything that was flushed is found
    /// when the store is opened again.
    Stopped(DeviceError),
}

/// A volume in memory.
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) size: Bytes,
    pub(crate) domain: Domain,
    pub(crate) read_only: bool,
    pub(crate) quotas: Quotas,
    pub(crate) mapped: u64,
    pub(crate) version: u64,
    /// Volume that it was made of; 0: none.
    pub(crate) origin: VolumeId,
    pub(crate) tag: Tag,
    pub(crate) root: u32,
    pub(crate) level: u8,
}

impl Volume {
    /// The volume that a record describes, with this node as its root.
    pub(crate) fn of(record: VolumeRecord, root: u32, nodes: &Nodes) -> Volume {
        let blocks = record.size.0.div_ceil(u64::from(BLOCK));
        Volume {
            name: record.name,
            size: record.size,
            domain: record.domain,
            read_only: record.read_only,
            quotas: record.quotas,
            mapped: record.mapped,
            version: record.version,
            origin: record.origin,
            tag: record.tag,
            root,
            level: nodes.root_level(blocks),
        }
    }

    /// A volume that shares the map of this one, whose number is `id`.
    pub(crate) fn copy(
        &self,
        id: VolumeId,
        name: String,
        read_only: bool,
        nodes: &mut Nodes,
    ) -> Volume {
        nodes.share(self.root);
        Volume { name, read_only, origin: id, tag: Tag::default(), ..self.clone() }
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.size.0.div_ceil(u64::from(BLOCK))
    }
}

/// Counts that follow from references; made anew at each opening.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Blocks that some leaf names.
    pub(crate) referenced: u32,
    /// Blocks charged, by volume.
    pub(crate) charged: BTreeMap<VolumeId, u64>,
}

impl Ledger {
    pub(crate) fn note(&mut self, blocks: &mut Blocks, change: Ref) {
        match change {
            Ref::Add(number) => {
                if blocks.add_ref(number) {
                    self.referenced += 1;
                    *self.charged.entry(blocks.owner(number)).or_default() += 1;
                }
            }
            Ref::Drop(number) => {
                if blocks.drop_ref(number) {
                    self.referenced -= 1;
                    if let Some(charged) = self.charged.get_mut(&blocks.owner(number)) {
                        *charged -= 1;
                    }
                }
            }
        }
    }
}

/// Purpose of a device request.
#[derive(Debug, Clone)]
pub(crate) enum Task {
    /// The flush at the beginning of an opening.
    OpenFlush,
    /// A read of an opening, by the number of its step.
    Open(u32),
    /// Superblocks of a former store, while formatting.
    Erase {
        place: u64,
        tries: u32,
    },
    /// A run of blocks of a read.
    Fetch {
        read: u32,
        run: u32,
    },
    /// Read of a stored block that may have the contents of a written one.
    Verify {
        write: u32,
        piece: u32,
        number: u32,
        place: u32,
    },
    /// Write of new blocks, from this address on.
    Fill {
        write: u32,
        place: u32,
        numbers: Vec<u32>,
    },
    /// The flush of a commit.
    CommitFlush,
    /// Write of blocks of the journal: the first within the commit, their count, failures so far.
    Journal {
        first: u32,
        count: u32,
        tries: u32,
    },
    /// Write of blocks of a checkpoint; address and contents are kept for a retry.
    Node {
        place: u32,
        data: Payload,
        tries: u32,
    },
    CheckpointFlush,
    Super {
        place: u64,
        data: Payload,
        tries: u32,
    },
    /// Write of a segment's trailer.
    Seal {
        segment: u32,
        data: Payload,
        tries: u32,
    },
    Wipe {
        segment: u32,
        tries: u32,
    },
    Discard {
        segment: u32,
    },
    /// Requests of a cleaning.
    CleanTrailer,
    CleanRead,
    CleanWrite {
        place: u32,
        first: u32,
        count: u32,
    },
}

/// A block whose data is on its way to the device.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) content: ContentId,
    /// Writes that wait for it.
    pub(crate) waiters: Vec<u32>,
}

/// A block whose full hash is remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) number: u32,
    pub(crate) generation: u32,
    pub(crate) content: ContentId,
}

/// A de-duplicating block store on one device.
pub struct Store<D> {
    pub(crate) device: D,
    pub(crate) settings: Settings,
    pub(crate) layout: Layout,
    pub(crate) identity: u64,
    pub(crate) service: Service,
    pub(crate) now: Nanos,
    pub(crate) tasks: Slab<Task>,
    pub(crate) answers: Vec<Answer>,
    landed: Vec<Completion>,
    pub(crate) opening: Option<Opening>,
    pub(crate) blocks: Blocks,
    pub(crate) nodes: Nodes,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    pub(crate) ledger: Ledger,
    pub(crate) segments: Segments,
    pub(crate) commit: Commit,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) reads: Slab<Read>,
    pub(crate) writes: Slab<Write>,
    pub(crate) locks: Locks,
    pub(crate) room: Room,
    pub(crate) sweep: Sweep,
    pub(crate) cleaner: Cleaner,
    /// Blocks that are not swept, with the number of their pins.
    pub(crate) pins: BTreeMap<u32, u32>,
    /// Pins that clients asked for, among them.
    pub(crate) client_pins: BTreeMap<u32, u32>,
    pub(crate) fresh: BTreeMap<u32, Fresh>,
    /// Blocks whose writes failed, while other writes that found them still hold them.
    pub(crate) failed: BTreeSet<u32>,
    pub(crate) known: Vec<Option<Known>>,
    /// Current generation, which new numbers get.
    pub(crate) generation: u32,
    pub(crate) next_volume: u32,
    /// True if blocks were written since the device was last flushed.
    pub(crate) is_volatile: bool,
    pub(crate) counters: Counters,
    /// Count of steps; `poll` repeats until it does not change any more.
    pub(crate) steps: u64,
    /// True if a request came since the last poll.
    pub(crate) is_touched: bool,
}

impl<D: Device> Store<D> {
    /// An empty store on `device` with this layout.
    pub(crate) fn bare(device: D, settings: Settings, layout: Layout) -> Store<D> {
        Store {
            device,
            settings,
            layout,
            identity: 0,
            service: Service::Opening,
            now: Nanos(0),
            tasks: Slab::default(),
            answers: Vec::new(),
            landed: Vec::new(),
            opening: None,
            blocks: Blocks::new(),
            nodes: Nodes::new(settings.fanout),
            volumes: BTreeMap::new(),
            ledger: Ledger::default(),
            segments: Segments::new(layout),
            commit: Commit::new(0, 0),
            checkpoint: Checkpoint::default(),
            reads: Slab::default(),
            writes: Slab::default(),
            locks: Locks::default(),
            room: Room::default(),
            sweep: Sweep::default(),
            cleaner: Cleaner::default(),
            pins: BTreeMap::new(),
            client_pins: BTreeMap::new(),
            fresh: BTreeMap::new(),
            failed: BTreeSet::new(),
            known: vec![None; settings.known_blocks as usize],
            generation: 1,
            next_volume: 1,
            is_volatile: false,
            counters: Counters::default(),
            steps: 0,
            is_touched: false,
        }
    }

    /// State of the store: only a ready one takes requests.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// The device, for the caller to wait for.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Ends the store and returns its device. Changes that were not flushed may be lost.
    pub fn into_device(self) -> D {
        self.device
    }

    /// Takes the device's completions up to `now`, continues all work, and appends answers.
    pub fn poll(&mut self, now: Nanos, answers: &mut Vec<Answer>) {
        self.now = self.now.max(now);
        self.is_touched = false;
        loop {
            let mut landed = std::mem::take(&mut self.landed);
            self.device.poll(now, &mut landed);
            let is_empty = landed.is_empty();
            for completion in landed.drain(..) {
                self.land(completion);
            }
            self.landed = landed;
            loop {
                let before = self.steps;
                self.pump();
                if self.steps == before {
                    break;
                }
            }
            if is_empty {
                break;
            }
        }
        answers.append(&mut self.answers);
    }

    /// Virtual time at which `poll` must be called next; `None` when nothing is in flight, or when
    /// the device cannot tell in advance (a real device).
    pub fn next_event(&self) -> Option<Nanos> {
        if !self.answers.is_empty() || (self.service == Service::Ready && self.has_chores()) {
            return Some(self.now);
        }
        self.device.next_event()
    }

    /// True if there is work that does not wait for the device.
    fn has_chores(&self) -> bool {
        self.is_touched || self.nodes.has_doomed() || self.sweep.is_marking()
    }

    /// Sends a request to the device.
    pub(crate) fn send(&mut self, task: Task, io: Io) {
        let is_background = matches!(
            task,
            Task::CleanTrailer | Task::CleanRead | Task::CleanWrite { .. } | Task::Discard { .. }
        );
        let ticket =
            u64::from(self.tasks.insert(task)) | if is_background { BACKGROUND } else { 0 };
        self.device.submit(self.now, Ticket(ticket), io);
    }

    /// Passes a completion of the device to the part that sent the request.
    fn land(&mut self, completion: Completion) {
        let Completion { ticket, result } = completion;
        let task = self.tasks.remove((ticket.0 & !BACKGROUND) as u32);
        if matches!(self.service, Service::Stopped(_) | Service::Refused(_)) {
            return;
        }
        match task {
            Task::OpenFlush => self.opening_flushed(result),
            Task::Open(step) => self.opening_read(step, result),
            Task::Erase { place, tries } => self.erased(place, tries, result),
            Task::Fetch { read, run } => self.fetched(read, run, result),
            Task::Verify { write, piece, number, place } => {
                self.verified(write, piece, number, place, result);
            }
            Task::Fill { write, place, numbers } => self.filled(write, place, numbers, result),
            Task::CommitFlush => self.commit_flushed(result),
            Task::Journal { first, count, tries } => {
                self.journal_written(first, count, tries, result);
            }
            Task::Node { place, data, tries } => self.node_written(place, data, tries, result),
            Task::CheckpointFlush => self.checkpoint_flushed(result),
            Task::Super { place, data, tries } => self.super_written(place, data, tries, result),
            Task::Seal { segment, data, tries } => self.seal_written(segment, data, tries, result),
            Task::Wipe { segment, tries } => self.wiped(segment, tries, result),
            Task::Discard { segment } => self.segments.free(segment),
            Task::CleanTrailer => self.clean_trailer_read(result),
            Task::CleanRead => self.clean_read(result),
            Task::CleanWrite { place, first, count } => {
                self.clean_written(place, first, count, result);
            }
        }
    }

    /// Runs each part once, as far as it can go on without the device.
    fn pump(&mut self) {
        if self.service != Service::Ready {
            if self.service == Service::Opening {
                self.pump_checkpoint();
            }
            return;
        }
        self.reap();
        self.pump_cleaner();
        self.pump_room();
        self.pump_sweep();
        self.pump_segments();
        self.pump_commit();
        self.pump_checkpoint();
    }

    /// Frees some of the nodes without references.
    fn reap(&mut self) {
        let Store { nodes, blocks, ledger, .. } = self;
        nodes.reap(64, &mut |change| ledger.note(blocks, change));
    }

    /// Stops the store, and answers all waiting requests with an error.
    pub(crate) fn stop(&mut self, error: DeviceError) {
        self.service = Service::Stopped(error);
        let mut waiting: Vec<RequestId> = Vec::new();
        waiting.extend(self.writes.iter().map(|(_, write)| write.id));
        waiting.extend(self.reads.iter().filter_map(|(_, read)| read.client()));
        waiting.extend(self.commit.waiting());
        let stopped = Err(RequestError::Stopped);
        let answers = waiting.into_iter().map(|id| Answer { id, result: stopped.clone() });
        self.answers.extend(answers);
        self.writes = Slab::default();
        self.reads = Slab::default();
    }

    pub(crate) fn answer(&mut self, id: RequestId, result: Result<Completed, RequestError>) {
        self.steps += 1;
        self.answers.push(Answer { id, result });
    }

    // Pins and what is known of blocks.

    pub(crate) fn pin(&mut self, number: u32) {
        *self.pins.entry(number).or_default() += 1;
    }

    pub(crate) fn unpin(&mut self, number: u32) {
        let count = self.pins.get_mut(&number).expect("only what is pinned is unpinned");
        *count -= 1;
        if *count == 0 {
            self.pins.remove(&number);
        }
    }

    pub(crate) fn remember(&mut self, number: u32, content: ContentId) {
        let at = number as usize & (self.known.len() - 1);
        let generation = self.blocks.entry(number).generation;
        self.known[at] = Some(Known { number, generation, content });
    }

    pub(crate) fn recall(&self, number: u32) -> Option<ContentId> {
        let known = self.known[number as usize & (self.known.len() - 1)]?;
        let is_it =
            known.number == number && known.generation == self.blocks.entry(number).generation;
        is_it.then_some(known.content)
    }

    pub(crate) fn forget(&mut self, number: u32) {
        let at = number as usize & (self.known.len() - 1);
        if self.known[at].is_some_and(|known| known.number == number) {
            self.known[at] = None;
        }
    }
}

/// The offset of an address, in bytes.
pub(crate) fn offset(address: u64) -> Bytes {
    Bytes(address * u64::from(BLOCK))
}
