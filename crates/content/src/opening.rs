//! Making a store, and finding it again after a shutdown or a crash.
//!
//! 1. The superblocks are read, with their copies; the highest whole one counts.
//! 2. The root it names is read, the whole journal, and the trailers of all segments; and the nodes
//!    of all maps, level by level.
//! 3. Blocks are where trailers say, in the newest place of their highest generation; then where
//!    the root says, then where the journal says. The journal is replayed up to the first block
//!    that is not whole. That is its end only if no block of a later commit is there: one is
//!    written when the one before is durable, so such a block says that something durable was
//!    damaged, and
//!    the store is refused.
//! 4. References are counted; what no map names is free. Everything that a map names must be there.
//! 5. A checkpoint is taken, with a new generation of the journal. Until its superblock is durable
//!    nothing that the crash left is written over: a crash now changes nothing.

use crate::blocks::Entry;
use crate::checkpoint::Mode;
use crate::commit::{Commit, Waiter};
use crate::format::{
    BLOCK_BYTES, Head, Kind, Record, Stored, Superblock, decode_records, decode_trailer,
    looks_like_superblock, looks_like_trailer, open_block,
};
use crate::layout::Layout;
use crate::name::BLOCK;
use crate::open_error::OpenError;
use crate::segments::{Segments, State};
use crate::settings::{Settings, VOLUME_BLOCKS_MAX};
use crate::store::{Service, Store, Task, offset};
use crate::tree::Nodes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_ports::{Device, DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Nanos, VolumeId};

/// Reads under way at once.
const READS_MAX: usize = 16;
/// How often a read is tried.
const TRIES_MAX: u32 = 3;
/// Blocks of the journal read at once.
const JOURNAL_READ: u32 = 256;
/// Nodes read at once, and blocks between two of them that are read for nothing.
const NODE_READ: u32 = 128;
const NODE_GAP: u32 = 8;

#[derive(Debug, Clone)]
enum What {
    Supers,
    Root,
    Journal { first: u32 },
    Trailer { segment: u32 },
    Nodes(Vec<(u32, u32)>),
}

#[derive(Debug, Clone)]
struct Step {
    address: u64,
    blocks: u32,
    what: What,
    tries: u32,
}

/// A store being opened.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    todo: VecDeque<Step>,
    under_way: BTreeMap<u32, Step>,
    next_step: u32,
    supers: Vec<Vec<u8>>,
    superblock: Option<Superblock>,
    /// Blocks of the root, and what they say.
    chain: Vec<u32>,
    root: Vec<Record>,
    journal: Vec<u8>,
    /// Nodes by address.
    nodes: BTreeMap<u32, u32>,
    /// Of those, nodes to be read.
    unread: BTreeMap<u32, u32>,
    damaged_trailers: u32,
}

impl<D: Device> Store<D> {
    /// A new store; what is on the device is lost. `identity` tells it from others. Serve `poll`
    /// until [`Store::service`] is not [`Service::Opening`].
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

    /// The store that is on a device, with everything that was flushed; what settings say of the
    /// layout does not count. As for [`Store::format`], serve `poll` first.
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
        let mut opening = Opening::default();
        for address in [0, layout.device_blocks - 2] {
            opening.add(Step { address, blocks: 2, what: What::Supers, tries: 0 });
        }
        store.opening = Some(opening);
        store.send_steps();
        Ok(store)
    }

    pub(crate) fn refuse(&mut self, error: OpenError) {
        self.service = Service::Refused(error);
        self.opening = None;
    }

    fn send_steps(&mut self) {
        while let Some(opening) = &mut self.opening
            && opening.under_way.len() < READS_MAX
        {
            opening.gather_nodes();
            let Some(step) = opening.todo.pop_front() else { break };
            let number = opening.next_step;
            opening.next_step = opening.next_step.wrapping_add(1);
            let (address, length) = (step.address, step.blocks * BLOCK);
            opening.under_way.insert(number, step);
            let io = Io::Read { offset: offset(address), length };
            self.send(Task::Open(number), io);
        }
    }

    pub(crate) fn opening_read(&mut self, step: u32, result: Result<Payload, DeviceError>) {
        let Some(opening) = &mut self.opening else { return };
        let Some(mut step) = opening.under_way.remove(&step) else { return };
        let outcome = match result {
            Ok(payload) => self.take_step(step, &payload.to_vec()),
            Err(_) if step.tries < TRIES_MAX => {
                met("opening read again");
                step.tries += 1;
                opening.todo.push_front(step);
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
        let is_done = self.opening.as_ref().is_some_and(|opening| {
            opening.todo.is_empty() && opening.under_way.is_empty() && opening.unread.is_empty()
        });
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

    /// All that was asked for is here.
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

    /// Step 1.
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
        opening.read_root(superblock.root);
        for first in (0..ring).step_by(JOURNAL_READ as usize) {
            let address = layout.journal(u64::from(first));
            let blocks = JOURNAL_READ.min(ring - first);
            opening.add(Step { address, blocks, what: What::Journal { first }, tries: 0 });
        }
        for segment in 0..layout.segments {
            let address = u64::from(layout.trailer(segment));
            let (blocks, what) = (layout.trailer_blocks(), What::Trailer { segment });
            opening.add(Step { address, blocks, what, tries: 0 });
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
            opening.read_root(head.extra);
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
            opening.expect(&mut self.nodes, &self.layout, level, address)?;
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
                *entry = opening.expect(&mut self.nodes, &self.layout, level - 1, *entry)?;
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
        let sequence = trailer.head.generation;
        if sequence >= u64::MAX / 2 {
            return Err(OpenError::Record("a segment's sequence is out of range"));
        }
        self.segments.found(segment, sequence);
        let first = self.layout.first_slot(segment);
        for (place, entry) in (first..).zip(trailer.entries) {
            let Some(stored) = entry else { continue };
            self.check_number(&stored)?;
            let other = self.blocks.entry(stored.number);
            let is_newer = match other.place {
                0 => true,
                place => {
                    let there = self.segments.get(self.segments.of(place)).sequence;
                    (stored.generation, sequence) > (other.generation, there)
                }
            };
            met_if(other.place != 0, "two trailers name a block");
            if is_newer {
                self.restore(place, &stored);
            }
        }
        Ok(())
    }

    /// Numbers are given from 1 on, and there are not more than slots.
    fn check_number(&self, stored: &Stored) -> Result<(), OpenError> {
        let most = u64::from(self.layout.segments) * u64::from(self.layout.slots());
        let is_sound = stored.number != 0
            && u64::from(stored.number) <= most
            && stored.generation < u32::MAX / 2;
        match is_sound {
            true => Ok(()),
            false => Err(OpenError::Record("a block's number is out of range")),
        }
    }

    fn restore(&mut self, place: u32, stored: &Stored) {
        self.generation = self.generation.max(stored.generation);
        self.blocks.restore(
            stored.number,
            Entry {
                short: stored.content.short(stored.domain, self.settings.index_bits),
                place,
                generation: stored.generation,
                refs: 0,
                owner: stored.owner.0,
            },
        );
    }

    /// Steps 3 to 5.
    fn rebuild(&mut self, superblock: Superblock, opening: Opening) -> Result<(), OpenError> {
        for record in &opening.root {
            match record {
                Record::Volume(volume) => {
                    let root = match volume.root {
                        0 => 0,
                        address => opening.nodes[&address],
                    };
                    self.nodes.share(root);
                    self.check_volume(volume)?;
                    self.add_volume(volume.clone(), root);
                }
                record => self.apply_record(record)?,
            }
        }
        let next = self.replay_journal(&superblock, &opening)?;
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

    fn check_volume(&self, volume: &crate::format::VolumeRecord) -> Result<(), OpenError> {
        let blocks = volume.size.0.div_ceil(u64::from(BLOCK));
        let is_taken = self.volumes.values().any(|other| other.name == volume.name);
        let is_sound = blocks > 0
            && blocks <= VOLUME_BLOCKS_MAX
            && volume.id.0 < u32::MAX / 2
            && volume.version < u64::MAX / 2
            && volume.mapped <= blocks
            && volume.size.0.is_multiple_of(512)
            && !is_taken
            && !self.volumes.contains_key(&volume.id)
            && self.volumes.len() < crate::settings::VOLUMES_MAX;
        match is_sound {
            true => Ok(()),
            false => Err(OpenError::Record("a volume is there twice, or of no size")),
        }
    }

    /// Replays the journal; the sequence of the block behind its end.
    fn replay_journal(
        &mut self,
        superblock: &Superblock,
        opening: &Opening,
    ) -> Result<u64, OpenError> {
        let ring = u64::from(self.layout.journal_blocks);
        let blocks = || opening.journal.chunks(BLOCK_BYTES);
        let whole = || blocks().filter_map(|block| open_block(Kind::Journal, block));
        let ours = || whole().filter(|(head, _)| head.identity == superblock.identity);
        if ours().any(|(head, _)| head.generation > superblock.journal_generation) {
            return Err(OpenError::SuperblockLost);
        }
        // Everything before the first block of the last commit was durable.
        let durable = ours()
            .filter(|(head, _)| head.generation == superblock.journal_generation)
            .map(|(head, _)| head.sequence.saturating_sub(u64::from(head.part)))
            .max()
            .unwrap_or(0);
        let mut sequence = superblock.journal_start;
        while sequence < superblock.journal_start + ring {
            let at = (sequence % ring) as usize * BLOCK_BYTES;
            let block = open_block(Kind::Journal, &opening.journal[at..at + BLOCK_BYTES]);
            let is_it = |head: &Head| {
                head.identity == superblock.identity
                    && head.generation == superblock.journal_generation
                    && head.sequence == sequence
            };
            match block.filter(|(head, _)| is_it(head)) {
                Some((_, payload)) => {
                    let records = decode_records(payload);
                    for record in records.ok_or(OpenError::Journal { block: sequence })? {
                        self.apply_record(&record)?;
                    }
                }
                None if durable > sequence => {
                    return Err(OpenError::Journal { block: sequence });
                }
                None => break,
            }
            sequence += 1;
        }
        met_if(sequence > superblock.journal_start, "journal replayed");
        Ok(sequence)
    }

    fn apply_record(&mut self, record: &Record) -> Result<(), OpenError> {
        match record {
            Record::Next { volume, generation, segment } => {
                if *volume >= u32::MAX / 2
                    || *generation >= u32::MAX / 2
                    || *segment >= u64::MAX / 2
                {
                    return Err(OpenError::Record("a number given next is out of range"));
                }
                self.next_volume = self.next_volume.max(*volume);
                self.generation = self.generation.max(*generation);
                self.segments.next_sequence = self.segments.next_sequence.max(*segment);
            }
            Record::Volume(volume) => {
                if volume.root != 0 {
                    return Err(OpenError::Record("a new volume has a map"));
                }
                self.check_volume(volume)?;
                self.next_volume = self.next_volume.max(volume.id.0 + 1);
                self.add_volume(volume.clone(), 0);
            }
            Record::Clone { id, from, read_only, name } => {
                let taken = self.volumes.values().any(|volume| volume.name == *name);
                let is_new = !self.volumes.contains_key(id) && id.0 < u32::MAX / 2;
                if !self.volumes.contains_key(from) || !is_new || taken {
                    return Err(OpenError::Record("a clone of nothing, or one there already"));
                }
                self.next_volume = self.next_volume.max(id.0 + 1);
                self.copy_volume(*id, *from, name.clone(), *read_only);
            }
            Record::Deleted(volume) => {
                let gone = self.volumes.remove(volume);
                self.nodes.release(gone.ok_or(OpenError::Record("no volume to delete"))?.root);
            }
            Record::Quotas(volume, quotas) => {
                let volume = self.volumes.get_mut(volume);
                volume.ok_or(OpenError::Record("no volume to bound"))?.quotas = *quotas;
            }
            Record::Open { segment, sequence, class } => {
                if *segment >= self.layout.segments || *class > 1 || *sequence >= u64::MAX / 2 {
                    return Err(OpenError::Record("a segment that is not there was opened"));
                }
                self.segments.reopen(*segment, *class, *sequence);
            }
            Record::Block(place, stored) => {
                self.check_number(stored)?;
                if !self.layout.is_slot(*place) {
                    return Err(OpenError::Record("a block lies outside all segments"));
                }
                // An open segment may list a block that was swept, whose number another has.
                let there = self.blocks.entry(stored.number);
                let is_old = there.place != 0 && there.generation > stored.generation;
                met_if(is_old, "record of a block that was swept");
                if !is_old || mutant("former_generation_believed") {
                    self.restore(*place, stored);
                    self.segments.reenter(*place, stored);
                }
            }
            Record::Map { volume, first, numbers } => self.replay_map(*volume, *first, numbers)?,
            Record::Zero { volume, first, count } => self.replay_zero(*volume, *first, *count)?,
            Record::Generation(generation) => {
                if *generation >= u32::MAX / 2 {
                    return Err(OpenError::Record("a generation is out of range"));
                }
                self.generation = self.generation.max(*generation);
            }
        }
        Ok(())
    }

    fn replay_map(
        &mut self,
        volume: VolumeId,
        first: u32,
        numbers: &[u32],
    ) -> Result<(), OpenError> {
        let it = self.volumes.get_mut(&volume).ok_or(OpenError::Record("a map of no volume"))?;
        if u64::from(first) + numbers.len() as u64 > it.blocks() {
            return Err(OpenError::Record("a map goes on behind its volume's end"));
        }
        for (block, &number) in (first..).zip(numbers) {
            let old = self.nodes.get(it.root, it.level, block);
            if old == number {
                continue;
            }
            let block = u64::from(block);
            it.root = self.nodes.set(it.root, it.level, block, number, &mut |_| {});
            it.mapped = (it.mapped + u64::from(number != 0)).saturating_sub(u64::from(old != 0));
            it.version += 1;
        }
        Ok(())
    }

    fn replay_zero(&mut self, volume: VolumeId, first: u32, count: u32) -> Result<(), OpenError> {
        let it = self.volumes.get_mut(&volume).ok_or(OpenError::Record("zeroes of no volume"))?;
        let (first, end) = (u64::from(first), u64::from(first) + u64::from(count));
        if end > it.blocks() {
            return Err(OpenError::Record("zeroes go on behind their volume's end"));
        }
        let gone = self.nodes.count_in(it.root, it.level, first, end);
        it.root = self.nodes.zero(it.root, it.level, first, end, &mut |_| {});
        it.mapped = it.mapped.saturating_sub(gone);
        it.version += gone;
        Ok(())
    }

    /// Keeps everything that the superblock in force names from being written over.
    fn claim_nodes(&mut self, opening: &Opening) -> Result<(), OpenError> {
        let places: Vec<u32> = opening.nodes.keys().chain(&opening.chain).copied().collect();
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

    /// Drops open segments on which nothing is.
    fn settle_segments(&mut self) {
        let Store { segments, blocks, .. } = self;
        segments.keep_entries(|place, stored| {
            let entry = blocks.entry(stored.number);
            entry.place == place && entry.generation == stored.generation
        });
    }

    /// Step 4.
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

    /// The store is open, and its checkpoint done.
    pub(crate) fn begin_service(&mut self) {
        for segment in self.segments.resume() {
            met("segment sealed after an opening");
            self.commit.join(Waiter::Seal(segment));
        }
        self.segments.find_emptied();
    }
}

impl Opening {
    fn add(&mut self, step: Step) {
        self.todo.push_back(step);
    }

    fn read_root(&mut self, address: u32) {
        let step = Step { address: u64::from(address), blocks: 1, what: What::Root, tries: 0 };
        self.todo.push_front(step);
    }

    /// The node at an address; it is read if it is new.
    fn expect(
        &mut self,
        nodes: &mut Nodes,
        layout: &Layout,
        level: u8,
        address: u32,
    ) -> Result<u32, OpenError> {
        if !layout.is_slot(address) {
            return Err(OpenError::Node(address));
        }
        if let Some(&id) = self.nodes.get(&address) {
            let is_same = nodes.level(id) == level;
            return if is_same { Ok(id) } else { Err(OpenError::Node(address)) };
        }
        let id = nodes.expect(level, address);
        self.nodes.insert(address, id);
        self.unread.insert(address, id);
        Ok(id)
    }

    /// Makes steps of nodes that are to be read, of neighbours one.
    fn gather_nodes(&mut self) {
        while let Some((first, id)) = self.unread.pop_first() {
            let mut nodes = vec![(first, id)];
            let mut last = first;
            while let Some((&next, &id)) = self.unread.first_key_value()
                && next - last <= NODE_GAP
                && next - first < NODE_READ
            {
                self.unread.pop_first();
                nodes.push((next, id));
                last = next;
            }
            let (address, blocks) = (u64::from(first), last - first + 1);
            self.add(Step { address, blocks, what: What::Nodes(nodes), tries: 0 });
        }
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
