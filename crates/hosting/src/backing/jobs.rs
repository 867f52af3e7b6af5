//! Jobs under way between a server and its store, one for each request of the server.

use thermocline_content::{Action, BLOCK, Completed, ContentId, QuotaKind, RequestError, Tag};
use thermocline_hostcache::{Content, Hash, Shortage, StoreItem};
use thermocline_ports::{DeviceError, Payload};
use thermocline_units::{Bytes, VolumeId};

/// A job.
#[derive(Debug)]
pub(super) enum Job {
    /// Nothing but its end is wanted.
    Done(u32),
    Fetch(u32),
    /// A fencing number, once all earlier writes of the volume have ended.
    Fence {
        op: u32,
        volume: u32,
        tag: Tag,
    },
    Lookup {
        op: u32,
        volume: u32,
        block: u32,
        count: u32,
    },
    Map {
        op: u32,
        volume: u32,
        base: bool,
        block: u32,
        count: u32,
    },
    Write(Write),
    Find(Find),
    /// Order of an administrator, and what is to be done, until it has begun.
    Order(u64, Option<Action>),
}

impl Job {
    /// The server's number of it.
    pub(super) fn op(&self) -> Option<u32> {
        match self {
            Job::Done(op) | Job::Fetch(op) => Some(*op),
            Job::Lookup { op, .. } | Job::Map { op, .. } | Job::Fence { op, .. } => Some(*op),
            Job::Write(write) => Some(write.op),
            Job::Find(find) => Some(find.op),
            Job::Order(..) => None,
        }
    }
}

/// Future of a written block: nothing because its content is unknown, zeroes, or a content.
pub(super) type Future = Option<Option<ContentId>>;

/// Room that a request did not get, if it failed for that.
pub(super) fn shortage_of(error: &RequestError) -> Option<Shortage> {
    match error {
        RequestError::NoSpace | RequestError::Device(DeviceError::NoSpace) => Some(Shortage::Store),
        RequestError::Quota(QuotaKind::Logical) => Some(Shortage::Logical),
        RequestError::Quota(QuotaKind::Physical) => Some(Shortage::Physical),
        _ => None,
    }
}

/// A write, taken apart.
#[derive(Debug)]
pub(super) struct Write {
    op: u32,
    volume: u32,
    block: u32,
    items: Vec<StoreItem>,
    /// Future of each block, or the room that it did not get.
    results: Vec<Result<Future, Shortage>>,
    parts: Vec<Part>,
    under_way: usize,
    has_failed: bool,
}

/// Neighbours of one kind, by their places among the items.
#[derive(Debug, Clone, Copy)]
struct Part {
    from: usize,
    until: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Zeroes,
    Data,
    Names,
}

impl Write {
    pub(super) fn new(op: u32, volume: u32, block: u32, items: Vec<StoreItem>) -> Write {
        let results = vec![Ok(None); items.len()];
        let (parts, under_way, has_failed) = (Vec::new(), 0, false);
        Write { op, volume, block, items, results, parts, under_way, has_failed }
    }

    /// Questions to the store; `name_of` knows contents of a volume's domain by their numbers.
    pub(super) fn begin(
        &mut self,
        name_of: impl Fn(VolumeId, u64) -> Option<ContentId>,
    ) -> Vec<(usize, Action)> {
        for (item, result) in self.items.iter().zip(&mut self.results) {
            *result = Ok(match item {
                StoreItem::Unknown => None,
                StoreItem::Zero => Some(None),
                StoreItem::Number(number) => name_of(VolumeId(self.volume), *number).map(Some),
                StoreItem::Hash(hash) | StoreItem::Data(_, hash) => Some(Some(ContentId(*hash))),
            });
        }
        for (at, (item, result)) in self.items.iter().zip(&self.results).enumerate() {
            let kind = match (item, result) {
                (_, Ok(None) | Err(_)) => continue,
                (StoreItem::Zero, _) => Kind::Zeroes,
                (StoreItem::Data(..), _) => Kind::Data,
                _ => Kind::Names,
            };
            match self.parts.last_mut() {
                Some(part) if part.kind == kind && part.until == at => part.until += 1,
                _ => self.parts.push(Part { from: at, until: at + 1, kind }),
            }
        }
        self.under_way = self.parts.len();
        (0..self.parts.len()).map(|part| (part, self.action(self.parts[part]))).collect()
    }

    fn action(&self, part: Part) -> Action {
        let Part { from, until, kind } = part;
        let (volume, fua) = (VolumeId(self.volume), false);
        let offset = Bytes((u64::from(self.block) + from as u64) * u64::from(BLOCK));
        match kind {
            Kind::Zeroes => {
                let length = Bytes((until - from) as u64 * u64::from(BLOCK));
                Action::Zero { volume, offset, length, fua }
            }
            Kind::Names => {
                let names = self.results[from..until].iter();
                let name = |name: &Result<Future, _>| name.ok().flatten().flatten();
                let contents = names.map(|of| name(of).expect("it has a name")).collect();
                Action::WriteKnown { volume, offset, contents, fua }
            }
            Kind::Data => {
                let blocks = self.items[from..until].iter().map(|item| match item {
                    StoreItem::Data(bytes, _) => bytes,
                    other => unreachable!("{other:?} has no bytes"),
                });
                let data = match &blocks.collect::<Vec<_>>()[..] {
                    [one] => Payload::Bytes((*one).clone()),
                    blocks => {
                        let mut data = Vec::with_capacity(blocks.len() * BLOCK as usize);
                        blocks.iter().for_each(|bytes| data.extend_from_slice(bytes));
                        Payload::from(data)
                    }
                };
                Action::Write { volume, offset, data, fua }
            }
        }
    }

    /// A part has ended; what is to be asked instead of it. Names that were asked for together are
    /// asked for one by one when not all of them are known.
    pub(super) fn part_ended(
        &mut self,
        part: usize,
        result: Result<Completed, RequestError>,
    ) -> Vec<(usize, Action)> {
        self.under_way -= 1;
        let Part { from, until, kind } = self.parts[part];
        match result {
            Ok(Completed::Unknown) if until - from > 1 => {
                let first = self.parts.len();
                let single = |from| Part { from, until: from + 1, kind };
                self.parts.extend((from..until).map(single));
                self.under_way += until - from;
                (first..self.parts.len())
                    .map(|part| (part, self.action(self.parts[part])))
                    .collect()
            }
            Ok(Completed::Unknown) => {
                self.results[from] = Ok(None);
                Vec::new()
            }
            Ok(_) => Vec::new(),
            Err(error) => {
                match shortage_of(&error) {
                    Some(shortage) => self.results[from..until].fill(Err(shortage)),
                    None => self.has_failed = true,
                }
                Vec::new()
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.under_way == 0
    }

    /// Volume, first block and how many.
    pub(super) fn range(&self) -> (u32, u32, u32) {
        (self.volume, self.block, self.items.len() as u32)
    }

    /// The server's number, and what became of each block; `None`: it failed.
    pub(super) fn results(self) -> (u32, Option<Vec<Result<Future, Shortage>>>) {
        (self.op, (!self.has_failed).then_some(self.results))
    }
}

/// A search of contents by their hashes.
#[derive(Debug)]
pub(super) struct Find {
    op: u32,
    hashes: Vec<Hash>,
    contents: Vec<Option<Content>>,
    under_way: usize,
}

impl Find {
    pub(super) fn new(op: u32, hashes: Vec<Hash>) -> Find {
        Find { op, contents: vec![None; hashes.len()], hashes, under_way: 0 }
    }

    /// The hash that was searched at this place.
    pub(super) fn hash(&self, at: usize) -> Hash {
        self.hashes[at]
    }

    pub(super) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// One of its questions is answered; the server's number and all answers when it was the last.
    pub(super) fn ended(
        &mut self,
        at: usize,
        content: Option<Content>,
    ) -> Option<(u32, Vec<Option<Content>>)> {
        self.under_way -= 1;
        if content.is_some() {
            self.contents[at] = content;
        }
        (self.under_way == 0).then(|| (self.op, std::mem::take(&mut self.contents)))
    }
}
