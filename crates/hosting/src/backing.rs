//! The store behind a storage server: what the server asks, said in a store's own words.
//!
//! 1. Requests begin in the order in which they were handed out. One that reads a map waits for
//!    writes of the same blocks that were handed out before it (`ranges`), so that it sees them. A
//!    fence waits for all writes of its volume, and an administrator's write keeps the order, too.
//! 2. A block's number is its number in the store and its generation: never used again.
//! 3. The store gets [`UNDER_WAY_MAX`] requests at once, in order. The others wait here, because it
//!    refuses more than it can keep, and a refused write would cost a host its volume.
//! 4. A write is taken apart into runs of zeroes, of bytes and of names; what becomes of each block
//!    is read from the map before anybody else may write there.
//!
//! A machine over any device: no I/O of its own, no clock.

mod format;
mod jobs;
#[cfg(test)]
mod tests;

use super::ranges::Ranges;
use format::Lease;
use jobs::{Find, Future, Job, Write};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use thermocline_content::{
    Action, BLOCK, BlockId, Completed, ContentId, Differences, Domain, Mapped, REQUESTS_MAX,
    Request, RequestError, RequestId, Service, Store, VolumeStatus,
};
use thermocline_hostcache::{
    BLOCK_BYTES, Content, Outcome, Shortage, StoreAnswer, StoreRequest, VolumeInfo,
};
use thermocline_ports::Device;
use thermocline_units::{Bytes, Nanos, Slab, VolumeId};

const _: () = assert!(BLOCK_BYTES == BLOCK as usize, "blocks are the same on both sides");

/// Requests that the store has at once.
const UNDER_WAY_MAX: usize = 1024;
const _: () = assert!(UNDER_WAY_MAX <= REQUESTS_MAX, "the store takes them");
/// Domains of a server: bits of a number of 64.
pub(super) const DOMAINS: u32 = 64;
/// Blocks that are remembered as the places of contents.
const PLACES_MAX: usize = 1 << 16;
/// Entries of maps that are looked at for one answer at most.
const MAP_STEPS_MAX: u64 = 1 << 16;

/// The end of something that was asked.
#[derive(Debug)]
pub(super) enum Told {
    /// Answer to the server's operation of this number.
    Server(u32, StoreAnswer),
    /// Outcome of an administrator's order of this number.
    Order(u64, Result<Completed, RequestError>),
}

/// A store behind a server.
pub(super) struct Backing<D> {
    store: Store<D>,
    next: u64,
    jobs: Slab<Job>,
    /// Jobs by requests of the store, also those that wait; of writes and searches, with the part.
    asked: BTreeMap<u64, (u32, usize)>,
    /// Requests that the store has not got yet.
    waiting: VecDeque<Request>,
    ranges: Ranges,
    /// Requests that have not begun.
    backlog: VecDeque<(u32, StoreRequest)>,
    told: Vec<Told>,
    /// Writes of volumes that found no room: volume, blocks, and what was short.
    refused: Vec<(u32, u64, Shortage)>,
    /// Places where contents were met last: clones have the same at the same place.
    places: BTreeMap<u64, u32>,
    /// Jobs that have their blocks since the last one gave its blocks back.
    ready: VecDeque<u64>,
    /// They are being gone on with.
    is_going_on: bool,
}

/// The server's number of a stored block.
fn number_of(block: BlockId) -> u64 {
    u64::from(block.generation) << 32 | u64::from(block.number)
}

fn block_of(number: u64) -> BlockId {
    BlockId { number: number as u32, generation: (number >> 32) as u32 }
}

fn offset(block: u32) -> Bytes {
    Bytes(u64::from(block) * u64::from(BLOCK))
}

impl<D: Device> Backing<D> {
    pub(super) fn new(store: Store<D>) -> Backing<D> {
        Backing {
            store,
            next: 0,
            jobs: Slab::default(),
            asked: BTreeMap::new(),
            waiting: VecDeque::new(),
            ranges: Ranges::default(),
            backlog: VecDeque::new(),
            told: Vec::new(),
            refused: Vec::new(),
            places: BTreeMap::new(),
            ready: VecDeque::new(),
            is_going_on: false,
        }
    }

    pub(super) fn store(&self) -> &Store<D> {
        &self.store
    }

    pub(super) fn store_mut(&mut self) -> &mut Store<D> {
        &mut self.store
    }

    /// Takes the writes that found no room: volume, number of blocks, and what was short.
    pub(super) fn take_refused(&mut self) -> Vec<(u32, u64, Shortage)> {
        std::mem::take(&mut self.refused)
    }

    /// Time at which [`Backing::poll`] will next have something to do; as for the store.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        if self.told.is_empty() { self.store.next_event() } else { Some(Nanos(0)) }
    }

    /// Takes a request of the server.
    pub(super) fn begin(&mut self, now: Nanos, op: u32, request: StoreRequest) {
        self.backlog.push_back((op, request));
        self.begin_waiting(now);
    }

    /// Takes an administrator's order. A write has its turn as those of hosts have.
    pub(super) fn order(&mut self, now: Nanos, number: u64, action: Action) {
        let place = match &action {
            Action::Write { volume, offset, data, .. } => {
                let first = u32::try_from(offset.0 / u64::from(BLOCK)).unwrap_or(u32::MAX);
                let blocks = first..first.saturating_add(data.len().div_ceil(BLOCK));
                Some((volume.0, blocks))
            }
            _ => None,
        };
        let job = self.jobs.insert(Job::Order(number, Some(action)));
        match place {
            Some((volume, blocks)) => self.in_turn(now, job, volume, blocks, true),
            None => self.go_on(now, job),
        }
    }

    /// Lets the store go on; appends what has ended.
    pub(super) fn poll(&mut self, now: Nanos, told: &mut Vec<Told>) {
        let mut answers = Vec::new();
        loop {
            self.store.poll(now, &mut answers);
            if answers.is_empty() {
                break;
            }
            for answer in answers.drain(..) {
                let known = self.asked.remove(&answer.id.0);
                let (job, part) = known.expect("the store answers what it was asked");
                self.ended(now, job, part, answer.result);
            }
            self.begin_waiting(now);
            self.hand_over(now);
        }
        told.append(&mut self.told);
    }

    fn begin_waiting(&mut self, now: Nanos) {
        while self.asked.len() < UNDER_WAY_MAX
            && let Some((op, request)) = self.backlog.pop_front()
        {
            self.begin_one(now, op, request);
        }
    }

    fn ask(&mut self, now: Nanos, job: u32, part: usize, action: Action) {
        self.next += 1;
        self.asked.insert(self.next, (job, part));
        self.waiting.push_back(Request { id: RequestId(self.next), action });
        self.hand_over(now);
    }

    /// Gives the store the requests that it has room for.
    fn hand_over(&mut self, now: Nanos) {
        while self.asked.len() - self.waiting.len() < UNDER_WAY_MAX
            && let Some(request) = self.waiting.pop_front()
        {
            self.store.submit(now, request);
        }
        assert!(self.asked.len() >= self.waiting.len(), "what waits is asked");
    }

    fn answer(&mut self, op: u32, answer: StoreAnswer) {
        self.told.push(Told::Server(op, answer));
    }

    fn begin_one(&mut self, now: Nanos, op: u32, request: StoreRequest) {
        let whole = 0..u32::MAX;
        match request {
            StoreRequest::Open { name } => {
                let info = self.volume_named(&name).and_then(|volume| self.info(&volume));
                self.answer(op, StoreAnswer::Volume(info));
            }
            StoreRequest::Fence { volume, fence, holder, lease } => {
                let tag = Lease { fence, holder, duration: lease }.tag();
                let job = self.jobs.insert(Job::Fence { op, volume, tag });
                self.in_turn(now, job, volume, whole, true);
            }
            StoreRequest::Flush { .. } => {
                let job = self.jobs.insert(Job::Done(op));
                self.ask(now, job, 0, Action::Flush);
            }
            StoreRequest::Fetch { number } => {
                let job = self.jobs.insert(Job::Fetch(op));
                self.ask(now, job, 0, Action::Fetch { block: block_of(number) });
            }
            StoreRequest::Lookup { volume, block, count } => {
                let count = u32::from(count);
                let job = self.jobs.insert(Job::Lookup { op, volume, block, count });
                self.in_turn(now, job, volume, block..block + count, false);
            }
            StoreRequest::Map { volume, base, block, count } => {
                let job = self.jobs.insert(Job::Map { op, volume, base, block, count });
                self.in_turn(now, job, volume, whole, false);
            }
            StoreRequest::Write { volume, block, items } => {
                let blocks = block..block + items.len() as u32;
                let job = self.jobs.insert(Job::Write(Write::new(op, volume, block, items)));
                self.in_turn(now, job, volume, blocks, true);
            }
            StoreRequest::Sharers { number, volumes, cap } => {
                let sharers = self.sharers(number, &volumes, cap);
                self.answer(op, StoreAnswer::Sharers(sharers));
            }
            StoreRequest::Find { hashes, domains } => self.find(now, op, &hashes, domains),
        }
    }

    /// Begins a job when its blocks are free of writes that were handed out before.
    fn in_turn(&mut self, now: Nanos, job: u32, volume: u32, blocks: Range<u32>, writes: bool) {
        if self.ranges.ask(u64::from(job), volume, blocks, writes) {
            self.go_on(now, job);
        }
    }

    /// The job has its blocks.
    fn go_on(&mut self, now: Nanos, job: u32) {
        match &mut self.jobs[job] {
            &mut Job::Lookup { volume, block, count, .. } => {
                let (volume, offset) = (VolumeId(volume), offset(block));
                self.ask(now, job, 0, Action::Identify { volume, offset, blocks: count });
                // The store looks at the map before it gets what comes later.
                self.give_back(now, job);
            }
            &mut Job::Fence { volume, tag, .. } => {
                self.ask(now, job, 0, Action::SetTag { volume: VolumeId(volume), tag });
            }
            Job::Order(_, action) => {
                let action = action.take().expect("an order begins once");
                self.ask(now, job, 0, action);
            }
            &mut Job::Map { op, volume, base, block, count } => {
                let (answer, _) = self.map_part(volume, base, block, count);
                self.give_back(now, job);
                self.jobs.remove(job);
                self.answer(op, answer);
            }
            Job::Write(write) => {
                let store = &self.store;
                let actions = write.begin(|of, number| store.name_of(of, block_of(number)));
                for (part, action) in actions {
                    self.ask(now, job, part, action);
                }
                self.write_ended(now, job);
            }
            other => unreachable!("{other:?} has no blocks"),
        }
    }

    fn give_back(&mut self, now: Nanos, job: u32) {
        self.ready.extend(self.ranges.end(u64::from(job)));
        // Jobs that end at once free the next ones: in this loop, not one within the other, because
        // a host may have thousands of them wait for one block.
        if std::mem::replace(&mut self.is_going_on, true) {
            return;
        }
        while let Some(next) = self.ready.pop_front() {
            self.go_on(now, next as u32);
        }
        self.is_going_on = false;
    }

    fn ended(
        &mut self,
        now: Nanos,
        job: u32,
        part: usize,
        result: Result<Completed, RequestError>,
    ) {
        match &mut self.jobs[job] {
            Job::Write(write) => {
                for (part, action) in write.part_ended(part, result) {
                    self.ask(now, job, part, action);
                }
                return self.write_ended(now, job);
            }
            Job::Find(_) => return self.found(job, part, result),
            _ => {}
        }
        self.give_back(now, job);
        match (self.jobs.remove(job), result) {
            (Job::Order(number, _), result) => self.told.push(Told::Order(number, result)),
            (Job::Done(op) | Job::Fence { op, .. }, Ok(_)) => self.answer(op, StoreAnswer::Done),
            (Job::Fetch(op), Ok(Completed::Read(data))) => {
                self.answer(op, StoreAnswer::Block(Some(data.to_vec().into())));
            }
            (Job::Fetch(op), Ok(_)) => self.answer(op, StoreAnswer::Block(None)),
            (Job::Lookup { op, volume, block, .. }, Ok(Completed::Identified(names))) => {
                let contents = (block..).zip(names).map(|(block, name)| match name {
                    Mapped::Zeroes => None,
                    Mapped::Block(id, content) => Some(self.content((volume, block), id, content)),
                });
                let contents = contents.collect();
                self.answer(op, StoreAnswer::Contents(contents));
            }
            (job, _) => {
                let op = job.op().expect("orders were told above");
                self.answer(op, StoreAnswer::Failed);
            }
        }
    }

    fn content(&mut self, (volume, block): (u32, u32), id: BlockId, content: ContentId) -> Content {
        let number = number_of(id);
        if self.places.len() >= PLACES_MAX && !self.places.contains_key(&number) {
            self.places.pop_first();
        }
        self.places.insert(number, block);
        let shares = self.store.shares_at(VolumeId(volume), block, id);
        Content { number, hash: content.0, shares }
    }

    /// Answers a write none of whose parts is under way any more.
    fn write_ended(&mut self, now: Nanos, job: u32) {
        let Job::Write(write) = &self.jobs[job] else { unreachable!("it writes") };
        if !write.is_over() {
            return;
        }
        let (volume, first, count) = write.range();
        let map = self.store.map(VolumeId(volume), first, count);
        let Job::Write(write) = self.jobs.remove(job) else { unreachable!("it writes") };
        let (op, results) = write.results();
        let written = results.zip(map).filter(|(results, (_, ids))| results.len() == ids.len());
        let answer = match written {
            None => StoreAnswer::Failed,
            Some((results, (_, ids))) => {
                let blocks = (first..).zip(results.into_iter().zip(ids));
                type Ended = (Result<Future, Shortage>, Option<BlockId>);
                let one = |(block, (result, id)): (u32, Ended)| match (result, id) {
                    (Err(shortage), _) => {
                        self.refused.push((volume, 1, shortage));
                        Outcome::Refused(shortage)
                    }
                    (Ok(None), _) => Outcome::Unknown,
                    (Ok(Some(Some(name))), Some(id)) => {
                        Outcome::Written(self.content((volume, block), id, name))
                    }
                    (Ok(Some(_)), _) => Outcome::Zero,
                };
                StoreAnswer::Written(blocks.map(one).collect())
            }
        };
        self.answer(op, answer);
        self.give_back(now, job);
    }

    /// Blocks that have a content now: those at the place where it was met last.
    fn sharers(&self, number: u64, volumes: &[u32], cap: u32) -> Vec<(u32, u32)> {
        let Some(&block) = self.places.get(&number) else { return Vec::new() };
        let has_it = |volume: &u32| {
            let map = self.store.map(VolumeId(*volume), block, 1);
            let ids = map.map(|(_, ids)| ids).unwrap_or_default();
            // What is being written is not told of.
            ids.first() == Some(&Some(block_of(number))) && !self.ranges.has(*volume, block)
        };
        let blocks = volumes.iter().filter(|volume| has_it(volume)).map(|volume| (*volume, block));
        blocks.take(cap as usize).collect()
    }

    fn find(&mut self, now: Nanos, op: u32, hashes: &[[u8; 32]], domains: u64) {
        let there: BTreeSet<u32> =
            self.store.volumes().iter().map(|volume| volume.domain.0).collect();
        let wanted = there.into_iter().filter(|&domain| domain < DOMAINS);
        let wanted: Vec<u32> = wanted.filter(|domain| domains >> domain & 1 == 1).collect();
        let job = self.jobs.insert(Job::Find(Find::new(op, hashes.to_vec())));
        let mut asked = 0;
        for (at, hash) in hashes.iter().enumerate() {
            for &domain in &wanted {
                if asked < UNDER_WAY_MAX {
                    asked += 1;
                    let (domain, content) = (Domain(domain), ContentId(*hash));
                    self.find_mut(job).begin();
                    self.ask(now, job, at, Action::Pin { domain, content });
                }
            }
        }
        if asked == 0 {
            self.jobs.remove(job);
            self.answer(op, StoreAnswer::Contents(vec![None; hashes.len()]));
        }
    }

    fn find_mut(&mut self, job: u32) -> &mut Find {
        match &mut self.jobs[job] {
            Job::Find(find) => find,
            other => unreachable!("{other:?} is no search"),
        }
    }

    fn found(&mut self, job: u32, at: usize, result: Result<Completed, RequestError>) {
        let mut content = None;
        if let Ok(Completed::Pinned(id)) = result {
            let hash = self.find_mut(job).hash(at);
            content =
                Some(Content { number: number_of(id), hash, shares: self.store.share_count(id) });
            // It is told, not promised: a sweep may take it.
            self.store.unpin_block(id);
        }
        if let Some((op, contents)) = self.find_mut(job).ended(at, content) {
            self.jobs.remove(job);
            self.answer(op, StoreAnswer::Contents(contents));
        }
    }

    // Volumes.

    pub(super) fn volume_named(&self, name: &str) -> Option<VolumeStatus> {
        self.store.volume_named(name)
    }

    /// A volume's name, if it is there.
    pub(super) fn name_of(&self, volume: u32) -> Option<String> {
        self.store.volume(VolumeId(volume)).map(|it| it.name)
    }

    /// A volume as hosts see it; `None`: not one that hosts can use.
    pub(super) fn info(&self, volume: &VolumeStatus) -> Option<VolumeInfo> {
        let blocks = u32::try_from(volume.size.0 / u64::from(BLOCK)).ok()?;
        let domain = u8::try_from(volume.domain.0).ok()?;
        if u32::from(domain) >= DOMAINS || blocks == 0 {
            return None;
        }
        let image = self.store.volume(volume.origin);
        // What an image holds must never change.
        let image = image.filter(|image| image.read_only && image.size == volume.size);
        let Lease { fence, holder, duration } = Lease::of(volume.tag);
        Some(VolumeInfo {
            volume: volume.id.0,
            blocks,
            domain,
            base: image.map_or(0, |image| image.id.0),
            read_only: volume.read_only,
            fence,
            holder,
            lease: duration,
        })
    }

    /// A part of a volume's map, or of its image's, and the entries of maps that were looked at.
    fn map_part(&self, volume: u32, base: bool, block: u32, count: u32) -> (StoreAnswer, u64) {
        let info = self.store.volume(VolumeId(volume)).and_then(|it| self.info(&it));
        // Without its image nothing can be said of what differs from it.
        let Some(info) = info.filter(|info| info.base != 0) else {
            return (StoreAnswer::Failed, 0);
        };
        let image = VolumeId(info.base);
        let part = match base {
            true => self.store.map(image, block, count).map(|(_, ids)| {
                let end = block.saturating_add(ids.len() as u32);
                let steps = ids.len() as u64;
                let blocks = (block..).zip(ids).collect();
                Differences { blocks, next: Some(end).filter(|&end| end < info.blocks), steps }
            }),
            false => self.store.differences((VolumeId(volume), image), block, count, MAP_STEPS_MAX),
        };
        let Some(Differences { blocks, next, steps }) = part else {
            return (StoreAnswer::Failed, 0);
        };
        let mut runs: Vec<(u32, Vec<Option<Content>>)> = Vec::new();
        for (at, id) in blocks {
            // The server needs the number only.
            let content = id.map(|id| Content {
                number: number_of(id),
                hash: self.store.name_of(VolumeId(volume), id).map_or([0; 32], |name| name.0),
                shares: self.store.share_count(id),
            });
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u32 == at => run.push(content),
                _ => runs.push((at, vec![content])),
            }
        }
        (StoreAnswer::Map(runs, next), steps)
    }

    /// The store cannot go on, and why.
    pub(super) fn trouble(&self) -> Option<String> {
        match self.store.service() {
            Service::Stopped(error) => Some(format!("the device failed: {error}")),
            Service::Refused(error) => Some(error.to_string()),
            Service::Opening | Service::Ready => None,
        }
    }
}
