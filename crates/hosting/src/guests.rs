//! Requests of NBD clients, which may begin and end within blocks, made requests of whole blocks.
//!
//! 1. A read asks for the blocks around it. A write of whole blocks goes to the agent as it is.
//! 2. A write that begins or ends within a block has its blocks alone (`ranges`): the blocks at its
//!    edges are read, changed and written; whole blocks go beside other such writes.
//! 3. Zeroes go in stretches of [`ZEROES_MAX`]: a request may be of gibibytes.
//! 4. A request is answered when all of its parts are done; with FUA all of them are durable.
//!
//! Tells who waits by a name that it is given; knows nothing of sockets.

use super::ranges::Ranges;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thermocline_hostcache::{Agent, BLOCK_BYTES, Event, Gone, Shortage, Ticket, VolumeKey};
use thermocline_ports::Payload;
use thermocline_units::{Nanos, Slab};
use thermocline_volume::Action;

/// Requests under way at once: an agent takes few thousand parts.
const REQUESTS_MAX: usize = 1000;
/// Blocks of zeroes that go at once.
const ZEROES_MAX: u32 = 4096;
const BLOCK: u64 = BLOCK_BYTES as u64;

/// Reason why a request of a client failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// The volume is not here any more.
    Shutdown,
    /// Outside of the volume.
    Range,
    /// The server could not do it, or too much waits.
    Io,
    /// There is no room for a write.
    NoSpace(Shortage),
}

impl From<Gone> for Failure {
    fn from(gone: Gone) -> Failure {
        match gone {
            Gone::Volume => Failure::Shutdown,
            Gone::Outside => Failure::Range,
            Gone::TooMany | Gone::Server(_) => Failure::Io,
            Gone::NoRoom(shortage) => Failure::NoSpace(shortage),
        }
    }
}

/// The end of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended<W> {
    /// The one who waits for it.
    pub(super) who: W,
    /// Bytes that were read; nothing where nothing was to be read.
    pub(super) result: Result<Option<Payload>, Failure>,
}

/// Bytes that change a block in part, or zeroes.
#[derive(Debug)]
struct Edge {
    block: u32,
    from: usize,
    data: Payload,
}

#[derive(Debug)]
enum Kind {
    /// These bytes of the blocks that are read.
    Read {
        from: usize,
        length: usize,
    },
    Flush,
    /// A write: blocks that change in part, those that change as a whole, zeroes.
    Change {
        edges: Vec<Edge>,
        whole: Option<(u32, Payload)>,
        zeroes: Range<u32>,
        fua: bool,
    },
}

#[derive(Debug)]
struct Op<W> {
    who: W,
    volume: VolumeKey,
    kind: Kind,
    /// Parts that the agent has not answered.
    left: usize,
    failure: Option<Failure>,
    read: Option<Payload>,
}

/// Purpose of a part.
#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    /// The block of this edge is being read.
    Edge(usize),
}

/// Requests of guests.
pub(super) struct Guests<W> {
    ops: Slab<Op<W>>,
    /// Number of requests of each volume that has some.
    of_volume: BTreeMap<VolumeKey, usize>,
    parts: BTreeMap<Ticket, (u32, Part)>,
    ranges: Ranges,
    /// Requests that have their blocks.
    ready: VecDeque<u32>,
    ended: Vec<Ended<W>>,
    /// Writes that found no room.
    refused: Vec<(VolumeKey, Shortage)>,
}

impl<W> Default for Guests<W> {
    fn default() -> Guests<W> {
        Guests {
            ops: Slab::default(),
            of_volume: BTreeMap::new(),
            parts: BTreeMap::new(),
            ranges: Ranges::default(),
            ready: VecDeque::new(),
            ended: Vec::new(),
            refused: Vec::new(),
        }
    }
}

impl<W> Guests<W> {
    /// True if another request of some volume may begin.
    pub(super) fn have_room(&self) -> bool {
        self.ops.len() < REQUESTS_MAX
    }

    /// True if another request of a volume may begin. A volume takes half of the places that
    /// others leave: one that cannot go on, whose clients come again and again, must not take those
    /// of all. Flushes of volumes that are given back may take more than all places.
    pub(super) fn have_room_for(&self, volume: VolumeKey) -> bool {
        let own = self.of_volume.get(&volume).copied().unwrap_or(0);
        own < REQUESTS_MAX.saturating_sub(self.ops.len())
    }

    /// True if nothing is under way.
    #[cfg(test)]
    fn are_idle(&self) -> bool {
        self.ops.is_empty()
    }

    /// Those that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<Ended<W>> {
        std::mem::take(&mut self.ended)
    }

    /// Writes that found no room since this was asked last.
    pub(super) fn take_refused(&mut self) -> Vec<(VolumeKey, Shortage)> {
        std::mem::take(&mut self.refused)
    }

    /// Begins a request, whose range lies within the volume.
    pub(super) fn begin(
        &mut self,
        agent: &mut Agent,
        now: Nanos,
        who: W,
        volume: VolumeKey,
        action: Action,
    ) {
        let (blocks, kind) = match action {
            Action::Read { offset, length } => {
                let (from, length) = ((offset.0 % BLOCK) as usize, length as usize);
                let blocks = around(offset.0, length as u64);
                let op = self.insert(who, volume, Kind::Read { from, length });
                let count = blocks.end - blocks.start;
                let asked = agent.read(now, volume, blocks.start, count);
                return self.asked(op, asked);
            }
            Action::Flush => {
                let op = self.insert(who, volume, Kind::Flush);
                let asked = agent.flush(now, volume);
                return self.asked(op, asked);
            }
            Action::Write { offset, payload, fua } => {
                (around(offset.0, payload.len().into()), change(offset.0, &payload, fua))
            }
            Action::WriteZeroes { offset, length, fua } => {
                (around(offset.0, length.0), zeroes(offset.0, length.0, fua))
            }
            // What is not a whole block stays as it is.
            Action::Discard { offset, length } => {
                let zeroes = within(offset.0, length.0);
                let kind = Kind::Change { edges: Vec::new(), whole: None, zeroes, fua: false };
                (within(offset.0, length.0), kind)
            }
        };
        let is_alone = matches!(&kind, Kind::Change { edges, .. } if !edges.is_empty());
        let op = self.insert(who, volume, kind);
        if self.ranges.ask(u64::from(op), volume.0, blocks, is_alone) {
            self.ready.push_back(op);
        }
        self.go_on(agent, now);
    }

    fn insert(&mut self, who: W, volume: VolumeKey, kind: Kind) -> u32 {
        *self.of_volume.entry(volume).or_default() += 1;
        self.ops.insert(Op { who, volume, kind, left: 0, failure: None, read: None })
    }

    fn asked(&mut self, op: u32, asked: Result<Ticket, Gone>) {
        self.asked_for(op, asked, Part::Whole);
        self.finish_if_over(op);
    }

    fn asked_for(&mut self, op: u32, asked: Result<Ticket, Gone>, part: Part) {
        match asked {
            Ok(ticket) => {
                self.ops[op].left += 1;
                self.parts.insert(ticket, (op, part));
            }
            Err(gone) => {
                self.ops[op].failure.get_or_insert(gone.into());
            }
        }
    }

    /// Begins the changes that have their blocks.
    fn go_on(&mut self, agent: &mut Agent, now: Nanos) {
        while let Some(op) = self.ready.pop_front() {
            let Kind::Change { edges, .. } = &self.ops[op].kind else { continue };
            let blocks: Vec<u32> = edges.iter().map(|edge| edge.block).collect();
            let volume = self.ops[op].volume;
            for (at, &block) in blocks.iter().enumerate() {
                let asked = agent.read(now, volume, block, 1);
                self.asked_for(op, asked, Part::Edge(at));
            }
            self.write_whole(agent, now, op);
            self.finish_if_over(op);
        }
    }

    /// Sends what needs nothing to be read first.
    fn write_whole(&mut self, agent: &mut Agent, now: Nanos, op: u32) {
        let volume = self.ops[op].volume;
        let Kind::Change { whole, fua, .. } = &mut self.ops[op].kind else { return };
        let fua = *fua;
        if let Some((block, data)) = whole.take() {
            let asked = match &data {
                Payload::Bytes(bytes) => agent.write(now, volume, block, bytes, fua),
                Payload::Zeroes(length) => {
                    agent.zero(now, volume, block, length / BLOCK_BYTES as u32, fua)
                }
            };
            self.asked_for(op, asked, Part::Whole);
        }
        self.zero_on(agent, now, op);
    }

    /// Sends the next stretch of zeroes.
    fn zero_on(&mut self, agent: &mut Agent, now: Nanos, op: u32) {
        let it = &mut self.ops[op];
        let volume = it.volume;
        let Kind::Change { zeroes, fua, .. } = &mut it.kind else { return };
        if zeroes.start >= zeroes.end || it.failure.is_some() {
            return;
        }
        let (first, count) = (zeroes.start, (zeroes.end - zeroes.start).min(ZEROES_MAX));
        zeroes.start += count;
        let asked = agent.zero(now, volume, first, count, *fua);
        self.asked_for(op, asked, Part::Whole);
    }

    /// Takes what happened to requests of guests; other events are given back.
    pub(super) fn hear(&mut self, agent: &mut Agent, now: Nanos, event: Event) -> Option<Event> {
        let (ticket, outcome) = match event {
            Event::Read { ticket, bytes } => (ticket, Ok(Some(bytes))),
            Event::Done { ticket } => (ticket, Ok(None)),
            Event::Failed { ticket, why } => (ticket, Err(why)),
            other => return Some(other),
        };
        let (op, part) = self.parts.remove(&ticket)?;
        self.ops[op].left -= 1;
        match (outcome, part) {
            (Err(why), _) => {
                self.ops[op].failure.get_or_insert(why.into());
            }
            (Ok(Some(bytes)), Part::Whole) => {
                if let Kind::Read { from, length } = self.ops[op].kind {
                    let payload = Payload::from(bytes).slice(from as u32..(from + length) as u32);
                    self.ops[op].read = Some(payload);
                }
            }
            (Ok(Some(mut bytes)), Part::Edge(at)) => {
                let it = &mut self.ops[op];
                let volume = it.volume;
                if let Kind::Change { edges, fua, .. } = &it.kind {
                    let Edge { block, from, data } = &edges[at];
                    data.copy_to(&mut bytes[*from..*from + data.len() as usize]);
                    let asked = agent.write(now, volume, *block, &bytes, *fua);
                    self.asked_for(op, asked, Part::Whole);
                }
            }
            (Ok(None), _) => self.zero_on(agent, now, op),
        }
        self.finish_if_over(op);
        self.go_on(agent, now);
        None
    }

    fn finish_if_over(&mut self, op: u32) {
        let it = &self.ops[op];
        let has_more = match &it.kind {
            Kind::Change { zeroes, .. } => it.failure.is_none() && !zeroes.is_empty(),
            Kind::Read { .. } | Kind::Flush => false,
        };
        if it.left > 0 || has_more {
            return;
        }
        let Op { who, volume, failure, read, .. } = self.ops.remove(op);
        let own = self.of_volume.get_mut(&volume).expect("it was counted when it came");
        *own -= 1;
        if *own == 0 {
            self.of_volume.remove(&volume);
        }
        if let Some(Failure::NoSpace(shortage)) = failure {
            self.refused.push((volume, shortage));
        }
        let result = failure.map_or(Ok(read), Err);
        self.ended.push(Ended { who, result });
        self.ready.extend(self.ranges.end(u64::from(op)).into_iter().map(|op| op as u32));
    }
}

/// Blocks that a range touches.
fn around(offset: u64, length: u64) -> Range<u32> {
    (offset / BLOCK) as u32..(offset + length).div_ceil(BLOCK) as u32
}

/// Blocks that a range covers.
fn within(offset: u64, length: u64) -> Range<u32> {
    let first = offset.div_ceil(BLOCK) as u32;
    first..(((offset + length) / BLOCK) as u32).max(first)
}

/// Parts of blocks at the ends of a range; `data` are its bytes.
fn edges(offset: u64, data: &Payload) -> Vec<Edge> {
    let end = offset + u64::from(data.len());
    let (touched, whole) = (around(offset, data.len().into()), within(offset, data.len().into()));
    let part = |block: u32| {
        let start = u64::from(block) * BLOCK;
        let (from, until) = (offset.max(start), end.min(start + BLOCK));
        let data = data.slice((from - offset) as u32..(until - offset) as u32);
        Edge { block, from: (from - start) as usize, data }
    };
    let mut blocks: Vec<u32> = [touched.start, touched.end - 1].into();
    blocks.dedup();
    blocks.into_iter().filter(|block| !whole.contains(block)).map(part).collect()
}

fn change(offset: u64, data: &Payload, fua: bool) -> Kind {
    let whole = within(offset, data.len().into());
    let edges = edges(offset, data);
    let whole = (!whole.is_empty()).then(|| {
        let start = u64::from(whole.start) * BLOCK - offset;
        let length = u64::from(whole.end - whole.start) * BLOCK;
        (whole.start, data.slice(start as u32..(start + length) as u32))
    });
    Kind::Change { edges, whole, zeroes: 0..0, fua }
}

fn zeroes(offset: u64, length: u64, fua: bool) -> Kind {
    let zeroes = within(offset, length);
    // Edges are less than a block each: of a long range only its ends are looked at.
    let (end, head) = (offset + length, (BLOCK - offset % BLOCK).min(length));
    let mut all = edges(offset, &Payload::Zeroes(head as u32));
    let tail = (end % BLOCK).min(length);
    if tail > 0 && !around(offset, head).contains(&((end / BLOCK) as u32)) {
        all.extend(edges(end - tail, &Payload::Zeroes(tail as u32)));
    }
    all.retain(|edge| !zeroes.contains(&edge.block));
    Kind::Change { edges: all, whole: None, zeroes, fua }
}

#[cfg(test)]
mod tests;
