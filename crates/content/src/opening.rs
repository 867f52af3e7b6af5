//! Formatting a store, and opening it after a shutdown or a crash.
//!
//! 1. The device is flushed. A program that was killed may have left a superblock in the device's
//!    cache; if it were used and then lost, the blocks that the one before it names might be
//!    overwritten already. The superblocks and their copies are read; the valid one with the
//!    highest number counts.
//! 2. The root that it names is read, the whole journal, the trailers of all segments, and the
//!    nodes of all maps, level by level.
//! 3. The places of blocks are taken from trailers (the newest place of the highest generation),
//!    then from the root, then from the journal. The journal is replayed up to the first block that
//!    is not valid. That is its end only if no block of a later commit exists. A commit is written
//!    when the one before it is durable, so a later block proves that something durable was
//!    damaged, and the store is refused.
//! 4. References are counted. Blocks that no map names are freed. All blocks that a map names
//!    must exist.
//! 5. A checkpoint is taken, with a new generation of the journal. Until its superblock is durable,
//!    nothing that the crash left is overwritten, so a crash at this point changes nothing.

mod journal;
mod queue;
mod rebuild;
mod replay;

use crate::format::{
    BLOCK_BYTES, Head, Kind, Record, Superblock, decode_entries, decode_records, decode_trailer,
    looks_like_superblock, looks_like_trailer, open_block,
};
use crate::journal::{Journal, Waiter};
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::segments::Segments;
use crate::settings::VOLUME_BLOCKS_MAX;
use crate::state::{Mode, StoreState};
use crate::tasks::{Task, offset};
use crate::tree::Nodes;
use queue::{Queue, Step, What};
use replay::Replay;
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Blocks of the journal read at once.
const JOURNAL_READ: u32 = 256;

/// A store being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    queue: Queue,
    /// Blocks that the device has.
    device_blocks: u64,
    supers: Vec<Vec<u8>>,
    superblock: Option<Superblock>,
    /// Blocks of the root, and their records.
    chain: Vec<u32>,
    root: Vec<Record>,
    journal: Vec<u8>,
    damaged_trailers: u32,
}

/// The checkpoint in force that an opening has found: number and root.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) number: u64,
    pub(crate) chain: Vec<u32>,
}

impl Opening {
    /// Begins to open the store on a device of so many blocks: flushes it, because data that is
    /// read next may be only in its cache.
    pub(crate) fn begin(state: &mut StoreState, device_blocks: u64) -> Opening {
        state.send(Task::OpenFlush, Io::Flush);
        Opening {
            queue: Queue::default(),
            device_blocks,
            supers: Vec::new(),
            superblock: None,
            chain: Vec::new(),
            root: Vec::new(),
            journal: Vec::new(),
            damaged_trailers: 0,
        }
    }

    /// The device was flushed, or was not.
    pub(crate) fn flushed(&mut self, state: &mut StoreState, result: Result<Payload, DeviceError>) {
        if let Err(error) = result {
            met("flush failed before an opening");
            return state.refuse(OpenError::Device(error));
        }
        for address in [0, state.layout.device_blocks - 2] {
            self.queue.add(address, 2, What::Supers);
        }
        self.send_steps(state);
    }

    fn send_steps(&mut self, state: &mut StoreState) {
        while let Some((number, address, blocks)) = self.queue.begin() {
            let io = Io::Read { offset: offset(address), length: blocks * BLOCK };
            state.send(Task::Open(number), io);
        }
    }

    /// Something was read, or was not. Returns the checkpoint in force when all is read and the
    /// state is rebuilt.
    pub(crate) fn read(
        &mut self,
        state: &mut StoreState,
        step: u32,
        result: Result<Payload, DeviceError>,
    ) -> Option<Found> {
        let step = self.queue.end(step)?;
        let found = self.take(state, step, result).and_then(|()| {
            self.send_steps(state);
            match self.queue.is_done() {
                true => self.go_on(state),
                false => Ok(None),
            }
        });
        found.unwrap_or_else(|error| {
            state.refuse(error);
            None
        })
    }

    fn take(
        &mut self,
        state: &mut StoreState,
        step: Step,
        result: Result<Payload, DeviceError>,
    ) -> Result<(), OpenError> {
        match result {
            Ok(payload) => self.take_step(state, step, &payload.to_vec()),
            Err(_) if self.queue.again(&step) => {
                met("opening read again");
                Ok(())
            }
            Err(error) => match step.what {
                What::Supers => Ok(()),
                What::Trailer { .. } => {
                    self.damaged_trailers += 1;
                    Ok(())
                }
                _ => Err(OpenError::Device(error)),
            },
        }
    }

    fn take_step(
        &mut self,
        state: &mut StoreState,
        step: Step,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        match step.what {
            What::Supers => {
                self.supers.extend(bytes.chunks(BLOCK_BYTES).map(<[u8]>::to_vec));
                Ok(())
            }
            What::Root => self.take_root(state, step.address as u32, bytes),
            What::Journal { first } => {
                let at = first as usize * BLOCK_BYTES;
                self.journal[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            What::Trailer { segment } => self.take_trailer(state, segment, bytes),
            What::Nodes(nodes) => {
                for (address, id) in nodes {
                    let at = (u64::from(address) - step.address) as usize * BLOCK_BYTES;
                    self.take_node(state, address, id, &bytes[at..at + BLOCK_BYTES])?;
                }
                Ok(())
            }
        }
    }

    /// Goes on when all reads of the current phase have ended.
    fn go_on(&mut self, state: &mut StoreState) -> Result<Option<Found>, OpenError> {
        match self.superblock {
            None => {
                self.choose_superblock(state)?;
                Ok(None)
            }
            Some(superblock) => self.rebuild(state, superblock).map(Some),
        }
    }

    /// Chooses the superblock with the highest number among the valid ones (step 1).
    fn choose_superblock(&mut self, state: &mut StoreState) -> Result<(), OpenError> {
        let found =
            self.supers.iter().filter_map(|block| Superblock::decode(block, self.device_blocks));
        let Some(superblock) = found.max_by_key(|superblock| superblock.number) else {
            let any = self.supers.iter().any(|block| looks_like_superblock(block));
            return Err(if any { OpenError::Superblock } else { OpenError::NoStore });
        };
        state.layout = superblock.layout;
        state.identity = superblock.identity;
        let layout = superblock.layout;
        state.settings.segment.0 = u64::from(layout.segment_blocks) * u64::from(BLOCK);
        state.settings.journal_blocks = layout.journal_blocks;
        state.settings.fanout = superblock.fanout;
        state.nodes = Nodes::new(superblock.fanout);
        state.segments = Segments::new(layout);
        let ring = layout.journal_blocks;
        self.superblock = Some(superblock);
        self.journal = vec![0; ring as usize * BLOCK_BYTES];
        self.queue.add_root(superblock.root);
        for first in (0..ring).step_by(JOURNAL_READ as usize) {
            let address = layout.journal(u64::from(first));
            let blocks = JOURNAL_READ.min(ring - first);
            self.queue.add(address, blocks, What::Journal { first });
        }
        for segment in 0..layout.segments {
            let address = u64::from(layout.trailer(segment));
            self.queue.add(address, layout.trailer_blocks(), What::Trailer { segment });
        }
        self.send_steps(state);
        Ok(())
    }

    fn take_root(
        &mut self,
        state: &mut StoreState,
        address: u32,
        block: &[u8],
    ) -> Result<(), OpenError> {
        let superblock = self.superblock.expect("chosen before");
        let index = self.chain.len() as u64;
        let Some((head, payload)) = open_block(Kind::Root, block) else {
            return Err(OpenError::Root(address));
        };
        let expected = Head {
            identity: superblock.identity,
            generation: superblock.number,
            sequence: index,
            part: 0,
            extra: head.extra,
        };
        let records = decode_records(payload).filter(|_| head == expected);
        self.root.extend(records.ok_or(OpenError::Root(address))?);
        self.chain.push(address);
        if head.extra != 0 {
            let is_fit = state.layout.is_slot(head.extra) && !self.chain.contains(&head.extra);
            if !is_fit {
                return Err(OpenError::Root(address));
            }
            self.queue.add_root(head.extra);
            return Ok(());
        }
        let roots = self.root.iter().filter_map(|record| match record {
            Record::Volume(volume) if volume.root != 0 => {
                let blocks = volume.size.0.div_ceil(u64::from(BLOCK)).min(VOLUME_BLOCKS_MAX);
                Some((state.nodes.root_level(blocks), volume.root))
            }
            _ => None,
        });
        for (level, address) in roots.collect::<Vec<_>>() {
            self.queue.expect(&mut state.nodes, &state.layout, level, address)?;
        }
        Ok(())
    }

    fn take_node(
        &mut self,
        state: &mut StoreState,
        address: u32,
        id: u32,
        block: &[u8],
    ) -> Result<(), OpenError> {
        let bad = OpenError::Node(address);
        let (head, payload) = open_block(Kind::Node, block).ok_or(bad.clone())?;
        let level = state.nodes.level(id);
        let is_it = head.identity == state.identity
            && head.sequence == u64::from(address)
            && head.extra == u32::from(level)
            && payload.len() == state.settings.fanout as usize * 4;
        if !is_it {
            return Err(bad);
        }
        let mut entries = decode_entries(payload);
        if level > 0 {
            for entry in entries.iter_mut().filter(|entry| **entry != 0) {
                *entry = self.queue.expect(&mut state.nodes, &state.layout, level - 1, *entry)?;
                state.nodes.share(*entry);
            }
        }
        if entries.iter().all(|&entry| entry == 0) {
            return Err(bad);
        }
        state.nodes.fill(id, entries);
        Ok(())
    }

    /// Blocks are where their newest trailer says.
    fn take_trailer(
        &mut self,
        state: &mut StoreState,
        segment: u32,
        bytes: &[u8],
    ) -> Result<(), OpenError> {
        let slots = state.layout.slots();
        let Some(trailer) = decode_trailer(bytes, state.identity, segment, slots) else {
            self.damaged_trailers += u32::from(looks_like_trailer(bytes));
            return Ok(());
        };
        replay(state).add_trailer(segment, trailer)
    }

    /// Rebuilds the state, and has the checkpoint of the opening begun (steps 3 to 5).
    fn rebuild(
        &mut self,
        state: &mut StoreState,
        superblock: Superblock,
    ) -> Result<Found, OpenError> {
        for record in &self.root {
            match record {
                Record::Volume(volume) => {
                    let root = match volume.root {
                        0 => 0,
                        address => self.queue.node(address),
                    };
                    state.nodes.share(root);
                    replay(state).add_volume(volume, root)?;
                }
                record => replay(state).apply(record)?,
            }
        }
        let mut replay = replay(state);
        let next = journal::read(&self.journal, &superblock, |record| replay.apply(record))?;
        met_if(next > superblock.journal_start, "journal replayed");
        state.nodes.reap(usize::MAX, &mut |_| {});
        rebuild::settle_segments(state);
        let chain = std::mem::take(&mut self.chain);
        rebuild::claim_nodes(state, self.queue.node_places().chain(chain.iter().copied()))?;
        rebuild::count_references(state, self.damaged_trailers)?;
        state.generation += 1;
        let generation = match mutant("journal_keeps_its_generation") {
            true => superblock.journal_generation,
            false => superblock.number + 1,
        };
        state.journal = Journal::new(generation, next);
        state.wants.checkpoint(Mode::Instead);
        Ok(Found { number: superblock.number, chain })
    }
}

/// The structures into which records and trailers are put.
fn replay(state: &mut StoreState) -> Replay<'_> {
    Replay {
        layout: &state.layout,
        index_bits: state.settings.index_bits,
        nodes: &mut state.nodes,
        blocks: &mut state.blocks,
        volumes: &mut state.volumes,
        segments: &mut state.segments,
        next_volume: &mut state.next_volume,
        generation: &mut state.generation,
    }
}

/// Begins service after the checkpoint of the opening.
pub(crate) fn begin_service(state: &mut StoreState) {
    for segment in state.segments.resume() {
        met("segment sealed after an opening");
        state.journal.join(Waiter::Seal(segment));
    }
    state.segments.find_emptied();
}
