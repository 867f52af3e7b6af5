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
mod replay;

use crate::blocks::Entry;
use crate::checkpoint::Mode;
use crate::commit::{Commit, Waiter};
use crate::format::{
    BLOCK_BYTES, Head, Kind, Record, Superblock, decode_records, decode_trailer,
    looks_like_superblock, looks_like_trailer, open_block,
};
use crate::layout::Layout;
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::segments::{Segments, State};
use crate::settings::{Settings, VOLUME_BLOCKS_MAX};
use crate::store::{Service, Store, Task, offset};
use crate::tree::Nodes;
use queue::{Queue, Step, TRIES_MAX, What};
use replay::Replay;
use thermocline_ports::{Device, DeviceError, Io, Payload};
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Blocks of the journal read at once.
const JOURNAL_READ: u32 = 256;

/// A store being opened.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    queue: Queue,
    supers: Vec<Vec<u8>>,
    superblock: Option<Superblock>,
    /// Blocks of the root, and their records.
    chain: Vec<u32>,
    root: Vec<Record>,
    journal: Vec<u8>,
    damaged_trailers: u32,
}

impl<D: Device> Store<D> {
    /// Makes a new store; all data on the device is lost. `identity` distinguishes it from other
    /// stores. Call `poll` until [`Store::service`] is not [`Service::Opening`].
    ///
    /// # Errors
    /// When the settings are out of range, or the device is too small.
    pub fn format(
        now: Nanos,
        device: D,
        settings: Settings,
        identity: u64,
    ) -> Result<Store<D>, OpenError> {
        let layout = layout_for(&device, &settings)?;
        let mut store = Store::bare(device, settings, layout);
        (store.now, store.identity) = (now, identity);
        store.commit = Commit::new(1, 0);
        store.segments.use_for_nodes(0);
        // A former store's superblocks may have higher numbers.
        for place in [0, layout.device_blocks - 2] {
            store.send_erase(place, 0);
        }
        Ok(store)
    }

    fn send_erase(&mut self, place: u64, tries: u32) {
        let data = Payload::Zeroes(2 * BLOCK);
        self.send(
            Task::Erase { place, tries },
            Io::Write { offset: offset(place), data, fua: true },
        );
    }

    pub(crate) fn erased(&mut self, place: u64, tries: u32, result: Result<Payload, DeviceError>) {
        match result {
            Ok(_) if self.tasks.is_empty() => self.checkpoint.want(Mode::Instead),
            Ok(_) => {}
            Err(DeviceError::Io | DeviceError::TimedOut) if tries < TRIES_MAX => {
                self.send_erase(place, tries + 1);
            }
            Err(error) => self.refuse(OpenError::Device(error)),
        }
    }

    /// Opens the store on a device, with everything that was flushed. The layout is that of the
    /// device; the settings for it have no effect. Call `poll` as for [`Store::format`].
    ///
    /// # Errors
    /// When the settings are out of range, or the device is too small for any store.
    pub fn open(now: Nanos, device: D, settings: Settings) -> Result<Store<D>, OpenError> {
        if !settings.are_sound() {
            return Err(OpenError::Settings);
        }
        let have = device.geometry().size.0 / u64::from(BLOCK);
        let smallest = Layout::of_device(have, 16, 16);
        let layout = smallest.ok_or(OpenError::TooSmall { have, need: 212 })?;
        let mut store = Store::bare(device, settings, layout);
        store.now = now;
        store.opening = Some(Opening::default());
        store.send(Task::OpenFlush, Io::Flush);
        Ok(store)
    }

    /// Flushes the device, because data that is read next may be only in its cache.
    pub(crate) fn opening_flushed(&mut self, result: Result<Payload, DeviceError>) {
        if let Err(error) = result {
            met("flush failed before an opening");
            return self.refuse(OpenError::Device(error));
        }
        let last = self.layout.device_blocks - 2;
        let opening = self.opening.as_mut().expect("it has just begun");
        for address in [0, last] {
            opening.queue.add(address, 2, What::Supers);
        }
        self.send_steps();
    }

    pub(crate) fn refuse(&mut self, error: OpenError) {
        self.service = Service::Refused(error);
        self.opening = None;
    }

    fn send_steps(&mut self) {
        while let Some(opening) = &mut self.opening
            && let Some((number, address, blocks)) = opening.queue.begin()
        {
            let io = Io::Read { offset: offset(address), length: blocks * BLOCK };
            self.send(Task::Open(number), io);
        }
    }

    pub(crate) fn opening_read(&mut self, step: u32, result: Result<Payload, DeviceError>) {
        let Some(opening) = &mut self.opening else { return };
        let Some(step) = opening.queue.end(step) else { return };
        let outcome = match result {
            Ok(payload) => self.take_step(step, &payload.to_vec()),
            Err(_) if opening.queue.again(&step) => {
                met("opening read again");
                Ok(())
            }
            Err(error) => match step.what {
                What::Supers => Ok(()),
                What::Trailer { .. } => {
                    opening.damaged_trailers += 1;
                    Ok(())
                }
                _ => Err(OpenError::Device(error)),
            },
        };
        if let Err(error) = outcome {
            return self.refuse(error);
        }
        self.send_steps();
        let is_done = self.opening.as_ref().is_some_and(|opening| opening.queue.is_done());
        if is_done && let Err(error) = self.go_on() {
            self.refuse(error);
        }
    }

    fn take_step(&mut self, step: Step, bytes: &[u8]) -> Result<(), OpenError> {
        let opening = self.opening.as_mut().expect("opening");
        match step.what {
            What::Supers => {
                opening.supers.extend(bytes.chunks(BLOCK_BYTES).map(<[u8]>::to_vec));
                Ok(())
            }
            What::Root => self.take_root(step.address as u32, bytes),
            What::Journal { first } => {
                let at = first as usize * BLOCK_BYTES;
                opening.journal[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            What::Trailer { segment } => self.take_trailer(segment, bytes),
            What::Nodes(nodes) => {
                for (address, id) in nodes {
                    let at = (u64::from(address) - step.address) as usize * BLOCK_BYTES;
                    self.take_node(address, id, &bytes[at..at + BLOCK_BYTES])?;
                }
                Ok(())
            }
        }
    }

    /// Goes on when all reads of the current phase have ended.
    fn go_on(&mut self) -> Result<(), OpenError> {
        let opening = self.opening.as_mut().expect("opening");
        match opening.superblock {
            None => self.choose_superblock(),
            Some(superblock) => {
                let opening = self.opening.take().expect("opening");
                self.rebuild(superblock, opening)
            }
        }
    }

    /// Chooses the superblock with the highest number among the valid ones (step 1).
    fn choose_superblock(&mut self) -> Result<(), OpenError> {
        let blocks = self.device.geometry().size.0 / u64::from(BLOCK);
        let opening = self.opening.as_mut().expect("opening");
        let found = opening.supers.iter().filter_map(|block| Superblock::decode(block, blocks));
        let Some(superblock) = found.max_by_key(|superblock| superblock.number) else {
            let any = opening.supers.iter().any(|block| looks_like_superblock(block));
            return Err(if any { OpenError::Superblock } else { OpenError::NoStore });
        };
        self.layout = superblock.layout;
        self.identity = superblock.identity;
        let layout = superblock.layout;
        self.settings.segment.0 = u64::from(layout.segment_blocks) * u64::from(BLOCK);
        self.settings.journal_blocks = layout.journal_blocks;
        self.settings.fanout = superblock.fanout;
        self.nodes = Nodes::new(superblock.fanout);
        self.segments = Segments::new(layout);
        let ring = layout.journal_blocks;
        opening.superblock = Some(superblock);
        opening.journal = vec![0; ring as usize * BLOCK_BYTES];
        opening.queue.add_root(superblock.root);
        for first in (0..ring).step_by(JOURNAL_READ as usize) {
            let address = layout.journal(u64::from(first));
            let blocks = JOURNAL_READ.min(ring - first);
            opening.queue.add(address, blocks, What::Journal { first });
        }
        for segment in 0..layout.segments {
            let address = u64::from(layout.trailer(segment));
            opening.queue.add(address, layout.trailer_blocks(), What::Trailer { segment });
        }
        self.send_steps();
        Ok(())
    }

    fn take_root(&mut self, address: u32, block: &[u8]) -> Result<(), OpenError> {
        let opening = self.opening.as_mut().expect("opening");
        let superblock = opening.superblock.expect("chosen before");
        let index = opening.chain.len() as u64;
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
        opening.root.extend(records.ok_or(OpenError::Root(address))?);
        opening.chain.push(address);
        if head.extra != 0 {
            let is_fit = self.layout.is_slot(head.extra) && !opening.chain.contains(&head.extra);
            if !is_fit {
                return Err(OpenError::Root(address));
            }
            opening.queue.add_root(head.extra);
            return Ok(());
        }
        let opening = self.opening.as_mut().expect("opening");
        let roots = opening.root.iter().filter_map(|record| match record {
            Record::Volume(volume) if volume.root != 0 => {
                let blocks = volume.size.0.div_ceil(u64::from(BLOCK)).min(VOLUME_BLOCKS_MAX);
                Some((self.nodes.root_level(blocks), volume.root))
            }
            _ => None,
        });
        for (level, address) in roots.collect::<Vec<_>>() {
            opening.queue.expect(&mut self.nodes, &self.layout, level, address)?;
        }
        Ok(())
    }

    fn take_node(&mut self, address: u32, id: u32, block: &[u8]) -> Result<(), OpenError> {
        let bad = OpenError::Node(address);
        let (head, payload) = open_block(Kind::Node, block).ok_or(bad.clone())?;
        let level = self.nodes.level(id);
        let is_it = head.identity == self.identity
            && head.sequence == u64::from(address)
            && head.extra == u32::from(level)
            && payload.len() == self.settings.fanout as usize * 4;
        if !is_it {
            return Err(bad);
        }
        let (words, _) = payload.as_chunks::<4>();
        let mut entries: Box<[u32]> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        if level > 0 {
            let opening = self.opening.as_mut().expect("opening");
            for entry in entries.iter_mut().filter(|entry| **entry != 0) {
                *entry = opening.queue.expect(&mut self.nodes, &self.layout, level - 1, *entry)?;
                self.nodes.share(*entry);
            }
        }
        if entries.iter().all(|&entry| entry == 0) {
            return Err(bad);
        }
        self.nodes.fill(id, entries);
        Ok(())
    }

    /// Blocks are where their newest trailer says.
    fn take_trailer(&mut self, segment: u32, bytes: &[u8]) -> Result<(), OpenError> {
        let slots = self.layout.slots();
        let Some(trailer) = decode_trailer(bytes, self.identity, segment, slots) else {
            let opening = self.opening.as_mut().expect("opening");
            opening.damaged_trailers += u32::from(looks_like_trailer(bytes));
            return Ok(());
        };
        self.replay().add_trailer(segment, trailer)
    }

    fn replay(&mut self) -> Replay<'_> {
        Replay {
            layout: &self.layout,
            index_bits: self.settings.index_bits,
            nodes: &mut self.nodes,
            blocks: &mut self.blocks,
            volumes: &mut self.volumes,
            segments: &mut self.segments,
            next_volume: &mut self.next_volume,
            generation: &mut self.generation,
        }
    }

    /// Rebuilds the state and begins the checkpoint (steps 3 to 5).
    fn rebuild(&mut self, superblock: Superblock, opening: Opening) -> Result<(), OpenError> {
        for record in &opening.root {
            match record {
                Record::Volume(volume) => {
                    let root = match volume.root {
                        0 => 0,
                        address => opening.queue.node(address),
                    };
                    self.nodes.share(root);
                    self.replay().add_volume(volume, root)?;
                }
                record => self.replay().apply(record)?,
            }
        }
        let mut replay = self.replay();
        let next = journal::read(&opening.journal, &superblock, |record| replay.apply(record))?;
        met_if(next > superblock.journal_start, "journal replayed");
        self.nodes.reap(usize::MAX, &mut |_| {});
        self.settle_segments();
        self.claim_nodes(&opening)?;
        self.count_references(opening.damaged_trailers)?;
        self.generation += 1;
        self.checkpoint.number = superblock.number;
        self.checkpoint.chain = opening.chain;
        let generation = match mutant("journal_keeps_its_generation") {
            true => superblock.journal_generation,
            false => superblock.number + 1,
        };
        self.commit = Commit::new(generation, next);
        self.checkpoint.want(Mode::Instead);
        Ok(())
    }

    /// Keeps all blocks that the current superblock names from being overwritten.
    fn claim_nodes(&mut self, opening: &Opening) -> Result<(), OpenError> {
        let places: Vec<u32> =
            opening.queue.node_places().chain(opening.chain.iter().copied()).collect();
        for &place in &places {
            let segment = self.segments.of(place);
            match self.segments.get(segment).state {
                State::Nodes => {}
                State::Free => self.segments.use_for_nodes(segment),
                _ => return Err(OpenError::Contradiction(place)),
            }
            if !self.segments.claim_node_place(place) {
                return Err(OpenError::Contradiction(place));
            }
        }
        // Those that the replay gave up are noted by the nodes, and free after the checkpoint.
        Ok(())
    }

    /// Frees open segments without blocks.
    fn settle_segments(&mut self) {
        let Store { segments, blocks, .. } = self;
        segments.keep_entries(|place, stored| {
            let entry = blocks.entry(stored.number);
            entry.place == place && entry.generation == stored.generation
        });
    }

    /// Counts references, and checks that all mapped blocks exist (step 4).
    fn count_references(&mut self, damaged: u32) -> Result<(), OpenError> {
        for place in 0..self.nodes.slots() {
            for &number in self.nodes.leaf_at(place).iter().filter(|&&number| number != 0) {
                if !self.blocks.is_used(number) {
                    return Err(OpenError::MissingBlock { number, damaged });
                }
                let change = crate::tree::Ref::Add(number);
                self.ledger.note(&mut self.blocks, change);
            }
        }
        for volume in self.volumes.values() {
            let inside = self.nodes.count_in(volume.root, volume.level, 0, volume.blocks());
            let whole = self.nodes.count_in(volume.root, volume.level, 0, u64::MAX / 2);
            if inside != volume.mapped || whole != inside {
                return Err(OpenError::Record("a map has other blocks than its volume counts"));
            }
        }
        let all = self.layout.segments as usize * self.layout.segment_blocks as usize;
        let mut places: Vec<u64> = vec![0; all.div_ceil(64)];
        let first = self.layout.first_slot(0);
        for number in 1..=self.blocks.top() {
            let entry = self.blocks.entry(number);
            let place = entry.place;
            if place == 0 {
                continue;
            }
            if entry.refs == 0 {
                met("block of no map freed while opening");
                self.blocks.restore(number, Entry::default());
                continue;
            }
            let segment = self.segments.of(place);
            let state = self.segments.get(segment).state;
            let is_there = matches!(state, State::Sealed | State::Open);
            let (word, bit) = ((place - first) as usize / 64, 1 << ((place - first) % 64));
            if !is_there || places[word] & bit != 0 {
                return Err(OpenError::Contradiction(place));
            }
            places[word] |= bit;
            self.segments.get_mut(segment).live += 1;
            self.blocks.find_by_hash(number);
        }
        self.blocks.count_free();
        Ok(())
    }

    /// Begins service after the checkpoint of the opening.
    pub(crate) fn begin_service(&mut self) {
        for segment in self.segments.resume() {
            met("segment sealed after an opening");
            self.commit.join(Waiter::Seal(segment));
        }
        self.segments.find_emptied();
    }
}

fn layout_for<D: Device>(device: &D, settings: &Settings) -> Result<Layout, OpenError> {
    if !settings.are_sound() {
        return Err(OpenError::Settings);
    }
    let have = device.geometry().size.0 / u64::from(BLOCK);
    let (journal, segment) = (settings.journal_blocks, settings.segment_blocks());
    let need = u64::from(journal) + 4 + u64::from(crate::layout::SEGMENTS_MIN) * u64::from(segment);
    Layout::of_device(have, journal, segment).ok_or(OpenError::TooSmall { have, need })
}
