//! Reads: of clients, of names, and of the blocks that a short write changes in part.
//!
//! Adjacent blocks are read in one request. Each block is compared with the hash under which it was
//! stored. A segment is not written again while it is read.

use crate::name::{BLOCK, BlockId, ContentId, Domain};
use crate::request::{Completed, Mapped, RequestError, RequestId};
use crate::store::{Store, Task, offset};
use thermocline_ports::{Device, DeviceError, Io, Payload};
use thermocline_units::VolumeId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

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
    Edge { write: u32, piece: u32 },
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
pub(crate) struct Read {
    id: RequestId,
    volume: VolumeId,
    wanted: For,
    buffer: Vec<u8>,
    names: Vec<Mapped>,
    runs: Vec<Run>,
    outstanding: u32,
    error: Option<RequestError>,
}

impl Read {
    /// Request of the client that waits for it; `None` if a write does.
    pub(crate) fn client(&self) -> Option<RequestId> {
        (!matches!(self.wanted, For::Edge { .. })).then_some(self.id)
    }
}

impl<D: Device> Store<D> {
    /// Reads blocks of a volume that has them.
    pub(crate) fn read_blocks(
        &mut self,
        id: RequestId,
        volume: VolumeId,
        first: u32,
        count: u32,
        wanted: For,
    ) {
        let (root, level) = (self.volumes[&volume].root, self.volumes[&volume].level);
        let mut runs: Vec<Run> = Vec::new();
        let mut names = Vec::new();
        for index in 0..count {
            let number = self.nodes.get(root, level, first + index);
            if wanted == For::Names {
                let known = if number == 0 { None } else { self.recall(number) };
                let known = known.map(|content| Mapped::Block(self.blocks.id(number), content));
                names.push(known.unwrap_or(Mapped::Zeroes));
                if known.is_some() {
                    continue;
                }
            }
            if number == 0 {
                continue;
            }
            let entry = self.blocks.entry(number);
            let (place, short, id) = (entry.place, entry.short, self.blocks.id(number));
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
        let read = self.send_read(read);
        if outstanding == 0 {
            self.end_read(read, count);
        }
    }

    /// Reads a stored block by its number.
    pub(crate) fn read_by_number(&mut self, id: RequestId, block: BlockId) {
        let is_there = block.number != 0
            && self.blocks.is_used(block.number)
            && self.blocks.id(block.number) == block
            && !self.fresh.contains_key(&block.number)
            && !self.failed.contains(&block.number);
        if !is_there {
            met("block that was swept is asked for by its number");
            return self.answer(id, Ok(Completed::Unknown));
        }
        let entry = self.blocks.entry(block.number);
        let blocks = vec![(block, entry.short)];
        let runs = vec![Run { first: 0, place: entry.place, blocks }];
        self.send_read(Read {
            id,
            volume: VolumeId(0),
            wanted: For::Block,
            buffer: vec![0; BLOCK as usize],
            names: Vec::new(),
            runs,
            outstanding: 1,
            error: None,
        });
    }

    /// True if contents match the short hash in the volume's domain. Without a domain (a block that
    /// was requested by its number), a match in the domain of any volume counts.
    fn is_stored_as(&self, domain: Option<Domain>, content: ContentId, short: u64) -> bool {
        let bits = self.settings.index_bits;
        match domain {
            Some(domain) => content.short(domain, bits) == short,
            None => self.volumes.values().any(|it| content.short(it.domain, bits) == short),
        }
    }

    fn send_read(&mut self, read: Read) -> u32 {
        let runs = read.runs.clone();
        let read = self.reads.insert(read);
        for (run, Run { place, blocks, .. }) in runs.iter().enumerate() {
            let segment = self.segments.of(*place);
            self.segments.get_mut(segment).readers += 1;
            let length = blocks.len() as u32 * BLOCK;
            let io = Io::Read { offset: offset(u64::from(*place)), length };
            self.send(Task::Fetch { read, run: run as u32 }, io);
        }
        read
    }

    pub(crate) fn fetched(&mut self, id: u32, run: u32, result: Result<Payload, DeviceError>) {
        let verifies = self.settings.verify_reads && !mutant("reads_not_verified");
        let read = &mut self.reads[id];
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
        let domain = self.volumes.get(&volume).map(|volume| volume.domain);
        // A volume that was deleted meanwhile has no domain: its client hears of that.
        found.retain(|_| domain.is_some() || wanted == For::Block);
        for (index, ((block, short), content)) in blocks.into_iter().zip(found).enumerate() {
            let number = block.number;
            // Its number may be another block's by now.
            let is_there = self.blocks.is_used(number) && self.blocks.id(number) == block;
            if !self.is_stored_as(domain, content, short) {
                // What no volume has any more has no domain whose hash could be told.
                let is_wanted = is_there && self.blocks.entry(number).refs > 0;
                match wanted == For::Block && !is_wanted {
                    true => self.reads[id].buffer.clear(),
                    false => self.reads[id].error = Some(RequestError::Damaged { number }),
                }
                continue;
            }
            if is_there {
                self.remember(number, content);
            }
            if wanted == For::Names {
                self.reads[id].names[first as usize + index] = Mapped::Block(block, content);
            }
        }
        let segment = self.segments.of(place);
        self.segments.get_mut(segment).readers -= 1;
        if is_done {
            let count = self.reads[id].buffer.len() as u32 / BLOCK;
            self.end_read(id, count);
        }
    }

    fn end_read(&mut self, read: u32, count: u32) {
        let Read { id, volume, wanted, buffer, names, error, .. } = self.reads.remove(read);
        if let Some(RequestError::Damaged { .. }) = error {
            met("damaged block found");
            self.counters.damaged += 1;
        }
        let gone = wanted != For::Block && !self.volumes.contains_key(&volume);
        let error = if gone { Some(RequestError::NoVolume(volume)) } else { error };
        match (wanted, error) {
            (For::Edge { write, piece }, error) => {
                let old = if buffer.is_empty() {
                    Payload::Zeroes(count * BLOCK)
                } else {
                    Payload::from(buffer)
                };
                self.edge_read(write, piece, error.map_or(Ok(old), Err));
            }
            (_, Some(error)) => self.answer(id, Err(error)),
            (For::Client { length, .. }, None) if buffer.is_empty() => {
                self.answer(id, Ok(Completed::Read(Payload::Zeroes(length))));
            }
            (For::Client { from, length }, None) => {
                let payload = Payload::from(buffer).slice(from..from + length);
                self.answer(id, Ok(Completed::Read(payload)));
            }
            (For::Block, None) if buffer.is_empty() => self.answer(id, Ok(Completed::Unknown)),
            (For::Block, None) => self.answer(id, Ok(Completed::Read(Payload::from(buffer)))),
            (For::Names, None) => self.answer(id, Ok(Completed::Identified(names))),
        }
    }

    /// The name of a block's contents, if the block is there and its name is remembered.
    pub fn name_of(&self, block: BlockId) -> Option<ContentId> {
        let is_there = self.blocks.is_used(block.number) && self.blocks.id(block.number) == block;
        self.recall(block.number).filter(|_| is_there)
    }

    /// Version of a volume's map, and the numbers of `count` blocks from block `first` on, without
    /// I/O; `None` in the list stands for zeroes. The list ends at the end of the volume. Returns
    /// `None` if there is no such volume.
    pub fn map(
        &self,
        volume: VolumeId,
        first: u32,
        count: u32,
    ) -> Option<(u64, Vec<Option<BlockId>>)> {
        let it = self.volumes.get(&volume)?;
        let end = (u64::from(first) + u64::from(count)).min(it.blocks()) as u32;
        let number = |block| self.nodes.get(it.root, it.level, block);
        let ids = (first..end)
            .map(|block| Some(number(block)).filter(|&n| n != 0).map(|n| self.blocks.id(n)));
        Some((it.version, ids.collect()))
    }
}
