//! Reads: of clients, of names, and of the blocks that a short write changes in part.
//!
//! Adjacent blocks are read in one request. Each block is compared with the hash under which it was
//! stored. A segment is not written again while it is read.

use crate::name::{BLOCK, BlockId, ContentId, Domain};
use crate::request::{Completed, Mapped, RequestError, RequestId};
use crate::state::{Edge, Effect, StoreState};
use crate::tasks::{Task, offset};
use thermocline_ports::{DeviceError, Io, Payload};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;
use thermocline_units::{Slab, VolumeId};

/// Purpose of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// A client's read of these bytes of the blocks.
    Client { from: u32, length: u32 },
    /// A client that asks for names.
    Names,
    /// A client that asks for a block by its number.
    Block,
    /// A piece of a write, which changes its block in part.
    Edge(Edge),
}

#[derive(Debug, Clone)]
struct Run {
    /// Index of its first block in the read.
    first: u32,
    place: u32,
    /// Names and short hashes, as they were when the read began.
    blocks: Vec<(BlockId, u64)>,
}

/// A read under way.
#[derive(Debug)]
struct Read {
    id: RequestId,
    volume: VolumeId,
    wanted: For,
    buffer: Vec<u8>,
    names: Vec<Mapped>,
    runs: Vec<Run>,
    outstanding: u32,
    error: Option<RequestError>,
}

/// The reads under way.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    under_way: Slab<Read>,
}

impl Reads {
    /// Number of reads under way.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    /// Gives all reads up, and returns the requests of clients that wait for them.
    pub(crate) fn give_up(&mut self) -> Vec<RequestId> {
        let given_up = std::mem::take(&mut self.under_way);
        let is_client = |read: &&Read| !matches!(read.wanted, For::Edge(_));
        given_up.iter().map(|(_, read)| read).filter(is_client).map(|read| read.id).collect()
    }

    /// Reads blocks of a volume that has them.
    pub(crate) fn read_blocks(
        &mut self,
        state: &mut StoreState,
        id: RequestId,
        volume: VolumeId,
        first: u32,
        count: u32,
        wanted: For,
    ) {
        let (root, level) = (state.volumes[&volume].root, state.volumes[&volume].level);
        let mut runs: Vec<Run> = Vec::new();
        let mut names = Vec::new();
        for index in 0..count {
            let number = state.nodes.get(root, level, first + index);
            if wanted == For::Names {
                let known = if number == 0 { None } else { state.recall(number) };
                let known = known.map(|content| Mapped::Block(state.blocks.id(number), content));
                names.push(known.unwrap_or(Mapped::Zeroes));
                if known.is_some() {
                    continue;
                }
            }
            if number == 0 {
                continue;
            }
            let entry = state.blocks.entry(number);
            let (place, short, id) = (entry.place, entry.short, state.blocks.id(number));
            match runs.last_mut() {
                Some(run)
                    if run.place + run.blocks.len() as u32 == place
                        && run.first + run.blocks.len() as u32 == index =>
                {
                    run.blocks.push((id, short));
                }
                _ => runs.push(Run { first: index, place, blocks: vec![(id, short)] }),
            }
        }
        let buffer = if runs.is_empty() { Vec::new() } else { vec![0; (count * BLOCK) as usize] };
        let outstanding = runs.len() as u32;
        let read = Read { id, volume, wanted, buffer, names, runs, outstanding, error: None };
        let read = self.send_read(state, read);
        if outstanding == 0 {
            self.end(state, read, count);
        }
    }

    /// Reads a stored block that is there, by its number.
    pub(crate) fn read_by_number(&mut self, state: &mut StoreState, id: RequestId, block: BlockId) {
        assert!(state.blocks.id(block.number) == block, "a block that is there");
        let entry = state.blocks.entry(block.number);
        let blocks = vec![(block, entry.short)];
        let runs = vec![Run { first: 0, place: entry.place, blocks }];
        self.send_read(
            state,
            Read {
                id,
                volume: VolumeId(0),
                wanted: For::Block,
                buffer: vec![0; BLOCK as usize],
                names: Vec::new(),
                runs,
                outstanding: 1,
                error: None,
            },
        );
    }

    fn send_read(&mut self, state: &mut StoreState, read: Read) -> u32 {
        let runs = read.runs.clone();
        let read = self.under_way.insert(read);
        for (run, Run { place, blocks, .. }) in runs.iter().enumerate() {
            let segment = state.segments.of(*place);
            state.segments.get_mut(segment).readers += 1;
            let length = blocks.len() as u32 * BLOCK;
            let io = Io::Read { offset: offset(u64::from(*place)), length };
            state.send(Task::Fetch { read, run: run as u32 }, io);
        }
        read
    }

    /// A run of blocks was read, or was not.
    pub(crate) fn fetched(
        &mut self,
        state: &mut StoreState,
        id: u32,
        run: u32,
        result: Result<Payload, DeviceError>,
    ) {
        let read = &mut self.under_way[id];
        // A name that is asked for follows from the bytes.
        let verifies = (state.settings.verify_reads && !mutant("reads_not_verified"))
            || read.wanted == For::Names;
        let Run { first, place, blocks } = read.runs[run as usize].clone();
        let (volume, wanted) = (read.volume, read.wanted);
        let mut found = Vec::new();
        match result {
            Err(error) => read.error = Some(RequestError::Device(error)),
            Ok(payload) => {
                let start = (first * BLOCK) as usize;
                let target = &mut read.buffer[start..start + blocks.len() * BLOCK as usize];
                payload.copy_to(target);
                if verifies {
                    found.extend(target.chunks(BLOCK as usize).map(ContentId::of));
                }
            }
        }
        read.outstanding -= 1;
        let is_done = read.outstanding == 0;
        let domain = state.volumes.get(&volume).map(|volume| volume.domain);
        // A volume that was deleted meanwhile has no domain: its client hears of that.
        found.retain(|_| domain.is_some() || wanted == For::Block);
        for (index, ((block, short), content)) in blocks.into_iter().zip(found).enumerate() {
            let number = block.number;
            // Its number may be another block's by now.
            let is_there = state.blocks.is_used(number) && state.blocks.id(number) == block;
            if !is_stored_as(state, domain, content, short) {
                // What no volume has any more has no domain whose hash could be told.
                let is_wanted = is_there && state.blocks.entry(number).refs > 0;
                match wanted == For::Block && !is_wanted {
                    true => self.under_way[id].buffer.clear(),
                    false => self.under_way[id].error = Some(RequestError::Damaged { number }),
                }
                continue;
            }
            if is_there {
                state.remember(number, content);
            }
            if wanted == For::Names {
                self.under_way[id].names[first as usize + index] = Mapped::Block(block, content);
            }
        }
        let segment = state.segments.of(place);
        state.segments.get_mut(segment).readers -= 1;
        if is_done {
            let count = self.under_way[id].buffer.len() as u32 / BLOCK;
            self.end(state, id, count);
        }
    }

    fn end(&mut self, state: &mut StoreState, read: u32, count: u32) {
        let read = self.under_way.remove(read);
        let Read { id, volume, wanted, buffer, names, error, .. } = read;
        if let Some(RequestError::Damaged { .. }) = error {
            met("damaged block found");
            state.counters.damaged += 1;
        }
        let gone = wanted != For::Block && !state.volumes.contains_key(&volume);
        let error = if gone { Some(RequestError::NoVolume(volume)) } else { error };
        match (wanted, error) {
            (For::Edge(edge), Some(error)) => {
                state.emit(Effect::EdgeRead { edge, result: Err(error) });
            }
            (For::Edge(edge), None) => {
                let old = match buffer.is_empty() {
                    true => Payload::Zeroes(count * BLOCK),
                    false => Payload::from(buffer),
                };
                state.emit(Effect::EdgeRead { edge, result: Ok(old) });
            }
            (_, Some(error)) => state.answer(id, Err(error)),
            (For::Client { length, .. }, None) if buffer.is_empty() => {
                state.answer(id, Ok(Completed::Read(Payload::Zeroes(length))));
            }
            (For::Client { from, length }, None) => {
                let payload = Payload::from(buffer).slice(from..from + length);
                state.answer(id, Ok(Completed::Read(payload)));
            }
            (For::Block, None) if buffer.is_empty() => state.answer(id, Ok(Completed::Unknown)),
            (For::Block, None) => state.answer(id, Ok(Completed::Read(Payload::from(buffer)))),
            (For::Names, None) => state.answer(id, Ok(Completed::Identified(names))),
        }
    }
}

/// True if contents match the short hash in the volume's domain. Without a domain (a block that
/// was requested by its number), a match in the domain of any volume counts.
fn is_stored_as(
    state: &StoreState,
    domain: Option<Domain>,
    content: ContentId,
    short: u64,
) -> bool {
    let bits = state.settings.index_bits;
    match domain {
        Some(domain) => content.short(domain, bits) == short,
        None => state.volumes.values().any(|it| content.short(it.domain, bits) == short),
    }
}
