//! A block device in a bucket: an extent is an object, written anew as a whole.
//!
//! 1. The device is cut into extents. Each is an object per generation; what the newest record
//!    about it names is what counts, and an extent without one reads as zeroes.
//! 2. A write is done when it is in memory, in the extent's layer ([`mod@super::layer`]). Layers
//!    have a bound; who finds it reached waits until extents went to the bucket.
//! 3. An extent goes to the bucket as a new generation, its layer over the old one: when it was
//!    written from end to end, when room is wanted, and when somebody flushes. What is written
//!    meanwhile is a new layer over the one on its way.
//! 4. A flush ([`mod@super::upload_round`]) brings every layer that there is to the bucket, and
//!    then writes one record that names the new generations. It is answered when that record is
//!    there. The old generations are deleted after that.
//! 5. A read takes what the layers have, and asks the bucket for the blocks of the rest, from the
//!    first to the last. Those that follow a stream of reads are asked for before
//!    ([`mod@super::read_ahead`]).
//!
//! While the store fails, flushes and writers that want room wait, and it is tried again and again,
//! until they have waited for as long as the settings say: the machine above gives a pool up for
//! good that cannot be flushed, and a bucket comes back. Reads are answered with an error.
//!
//! So the contract holds: what was flushed is named by a record; what was not is old or new, by
//! whole extents. An answer of the bucket that is not what was written is an I/O error, never data.
//! State: 8 B an extent, and the layers.

use super::ObjectSettings;
use super::bucket::BucketError;
use super::format::{BLOCK, Generation, Name, Shape};
use super::layer::{Layer, blocks_of, fill_from, missing_in, span_of};
use super::opening::Opened;
use super::read_ahead::{Found, Key, ReadAhead, SEGMENT_BLOCKS, cut_at_segments};
use super::traffic::{BucketStatus, Traffic};
use super::upload_round::UploadRound;
use super::worker::{Answer, Job, Worker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::mutants::mutant;
use thermocline_units::{Bytes, Nanos, Slab};

/// Extents on their way to the bucket at once.
pub(super) const UPLOADS_MAX: usize = 8;

/// While the store fails: between tries, and between looks whether it is time, in nanoseconds.
const RETRY_PAUSE: Nanos = Nanos::from_secs(1);
const RETRY_LOOK: i64 = 100_000_000;

/// Bytes that were written to an extent.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Layer of what was written since the last generation began its way.
    pub(super) open: Layer,
    /// On its way, with its generation.
    pub(super) sealed: Option<(Arc<Layer>, Generation)>,
    /// Number of the write that began the open layer.
    pub(super) since: u64,
    /// True if its last way failed: it is not tried again before somebody flushes.
    pub(super) sulks: bool,
}

/// A read under way.
#[derive(Debug)]
struct Read {
    ticket: Ticket,
    /// Bytes of the device.
    range: Range<u64>,
    out: Vec<u8>,
    /// Parts not answered.
    outstanding: u32,
    error: Option<DeviceError>,
}

/// A part of a read that the bucket was asked for.
#[derive(Debug)]
struct Part {
    read: u32,
    extent: u32,
    /// Bytes of the extent.
    range: Range<u32>,
    /// Sectors that the layers did not have, by block.
    missing: Vec<u8>,
    /// The blocks that were asked for.
    blocks: Range<u32>,
    generation: Generation,
}

/// Something that the bucket was asked for.
#[derive(Debug)]
enum Asked {
    Part(Part),
    /// A segment ahead of a stream.
    Ahead(Key),
}

/// A device in a bucket of an object store.
#[derive(Debug)]
pub struct ObjectDevice {
    pub(super) worker: Worker,
    pub(super) shape: Shape,
    pub(super) identity: u64,
    pub(super) owner: u64,
    pub(super) epoch: u64,
    /// Generations counted in this opening.
    pub(super) count: u64,
    /// Generations that the log names, by extent.
    pub(super) named: Vec<Generation>,
    /// Number of these.
    pub(super) objects: u64,
    /// Generations that are in the bucket, and that no record names yet.
    pub(super) fresh: BTreeMap<u32, Generation>,
    pub(super) gathered: BTreeMap<u32, Gathered>,
    /// Extents whose open layer is whole.
    pub(super) whole: BTreeSet<u32>,
    pub(super) uploading: usize,
    /// Blocks of all layers; at most so many.
    pub(super) blocks_held: usize,
    blocks_max: usize,
    /// Writes since the opening.
    writes: u64,
    /// Writes that wait for room.
    waiting: VecDeque<(Ticket, Io)>,
    reads: Slab<Read>,
    asked: Slab<Asked>,
    ahead: ReadAhead,
    pub(super) round: UploadRound,
    /// The latest moment it was told of.
    pub(super) now: Nanos,
    /// Time from which on the store fails; `None`: it does not.
    pub(super) failing_since: Option<Nanos>,
    /// Time at which the store is tried again.
    pub(super) retry_at: Option<Nanos>,
    patience: Nanos,
    /// Records of the log behind a map, at most.
    pub(super) map_records: usize,
    /// True if nothing may be written any more: the device is only looked at, or another program
    /// has it.
    pub(super) lost: bool,
    pub(super) done: Vec<Completion>,
    path: PathBuf,
    traffic: Arc<Traffic>,
}

/// The blocks from a piece of a segment's bytes to the segment's end, in an extent of `length`
/// bytes.
fn to_segment_end(piece: &Range<u32>, length: u32) -> Range<u32> {
    let first = piece.start / BLOCK;
    let end = (first / SEGMENT_BLOCKS + 1) * SEGMENT_BLOCKS;
    first..end.min(length.div_ceil(BLOCK))
}

/// The device's error for a bucket's.
pub(super) fn device_error(error: &BucketError) -> DeviceError {
    match error {
        BucketError::TimedOut(_) => DeviceError::TimedOut,
        _ => DeviceError::Io,
    }
}

impl ObjectDevice {
    pub(super) fn new(
        opened: Opened,
        worker: Worker,
        settings: &ObjectSettings,
        path: PathBuf,
        traffic: Arc<Traffic>,
        writable: bool,
    ) -> ObjectDevice {
        let round = UploadRound::new(&opened);
        let Opened { identity, shape, named, epoch, owner, .. } = opened;
        let objects = named.iter().filter(|&&named| named != Generation::NONE).count() as u64;
        let mut device = ObjectDevice {
            worker,
            shape,
            identity,
            owner,
            epoch,
            count: 0,
            named,
            objects,
            fresh: BTreeMap::new(),
            gathered: BTreeMap::new(),
            whole: BTreeSet::new(),
            uploading: 0,
            blocks_held: 0,
            blocks_max: (settings.buffer.0 / u64::from(BLOCK)).max(1) as usize,
            writes: 0,
            waiting: VecDeque::new(),
            reads: Slab::default(),
            asked: Slab::default(),
            ahead: ReadAhead::new(settings.read_ahead),
            round,
            now: Nanos(0),
            failing_since: None,
            retry_at: None,
            patience: settings.patience,
            map_records: settings.map_records,
            lost: !writable,
            done: Vec::new(),
            path,
            traffic,
        };
        device.sweep();
        device
    }

    /// Its address: `s3://bucket/prefix`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Readable when something is answered; for `poll(2)`.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.worker.readiness()
    }

    /// True if answers wait that need no kernel.
    pub fn has_answers(&self) -> bool {
        !self.done.is_empty()
    }

    /// Blocks until something was answered; returns at once when nothing is in flight.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&mut self) -> std::io::Result<()> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if self.has_answers() || self.is_idle() {
            return Ok(());
        }
        let mut fds = [PollFd::from_borrowed_fd(self.worker.readiness(), PollFlags::IN)];
        // Whoever waits passes a later moment when it is time to try again.
        let timeout = self.retry_at.map(|_| Timespec { tv_sec: 0, tv_nsec: RETRY_LOOK });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// True if nobody waits for anything.
    fn is_idle(&self) -> bool {
        self.reads.is_empty() && self.waiting.is_empty() && self.round.is_idle()
    }

    /// Traffic with the store, contents of the bucket, and the cost of both.
    pub fn status(&self) -> BucketStatus {
        let held = Bytes(self.blocks_held as u64 * u64::from(BLOCK));
        let status = self.traffic.status(self.objects, self.shape.extent, held);
        let (read_ahead, read_ahead_used) = self.ahead.totals();
        BucketStatus { read_ahead, read_ahead_used, ..status }
    }

    /// The generation that an extent's layers lie over.
    pub(super) fn current(&self, extent: u32) -> Generation {
        let named = self.named[extent as usize];
        self.fresh.get(&extent).copied().unwrap_or(named)
    }

    pub(super) fn name(&self, extent: u32, generation: Generation) -> Name {
        Name { identity: self.identity, extent, generation }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, result: Result<Payload, DeviceError>) {
        self.done.push(Completion { ticket, result });
    }

    /// Cuts bytes of the device at its extents: (extent, bytes of the extent).
    fn cut(&self, range: &Range<u64>) -> Vec<(u32, Range<u32>)> {
        let (first, last) =
            (self.shape.extent_of(range.start), self.shape.extent_of(range.end - 1));
        let part = |extent| {
            let bytes = self.shape.bytes_of(extent);
            let from = range.start.max(bytes.start) - bytes.start;
            let to = range.end.min(bytes.end) - bytes.start;
            (extent, from as u32..to as u32)
        };
        (first..=last).map(part).collect()
    }

    fn start_read(&mut self, ticket: Ticket, range: Range<u64>) {
        let out = vec![0; (range.end - range.start) as usize];
        let parts = self.cut(&range);
        let wish = self.ahead.note_read(&range, self.shape.extent);
        let read = self.reads.insert(Read { ticket, range, out, outstanding: 1, error: None });
        for (extent, range) in parts {
            match self.ahead.knows(extent) {
                true => {
                    cut_at_segments(&range).for_each(|piece| self.read_part(read, extent, piece))
                }
                false => self.read_part(read, extent, range),
            }
        }
        self.part_ended(read);
        if let Some(wish) = wish {
            self.read_ahead(wish);
        }
    }

    /// Asks for bytes of the device that nobody has asked for yet, to the end of their last
    /// segment.
    fn read_ahead(&mut self, wish: Range<u64>) {
        let last = match self.ahead.is_trusted() {
            true => self.shape.size.0,
            false => self.shape.bytes_of(self.shape.extent_of(wish.start - 1)).end,
        };
        let wish = wish.start..wish.end.min(last);
        if wish.is_empty() {
            return;
        }
        for (extent, part) in self.cut(&wish) {
            let (generation, length) = (self.current(extent), self.shape.length_of(extent));
            if generation == Generation::NONE {
                continue;
            }
            for piece in cut_at_segments(&part) {
                let blocks = to_segment_end(&piece, length);
                let Some(key) = self.ahead.ask(extent, generation, blocks.clone()) else {
                    continue;
                };
                let tag = self.asked.insert(Asked::Ahead(key));
                let name = self.name(extent, generation);
                self.worker.send(Job::Read { tag, name, blocks, length });
            }
        }
    }

    /// Takes what the layers have, and asks for the rest.
    fn read_part(&mut self, read: u32, extent: u32, range: Range<u32>) {
        let mut missing = missing_in(&range);
        let state = &mut self.reads[read];
        let at = self.shape.bytes_of(extent).start + u64::from(range.start) - state.range.start;
        let out = &mut state.out[at as usize..at as usize + range.len()];
        if let Some(gathered) = self.gathered.get(&extent) {
            gathered.open.fill(&range, out, &mut missing);
            if let Some((sealed, _)) = &gathered.sealed {
                sealed.fill(&range, out, &mut missing);
            }
        }
        let generation = self.current(extent);
        if generation == Generation::NONE {
            return;
        }
        let Some(blocks) = span_of(&missing, blocks_of(&range).start) else { return };
        let found = self.ahead.find(extent, generation, &blocks);
        self.reads[read].outstanding += 1;
        let part = Part { read, extent, range, missing, blocks, generation };
        match found {
            Found::Nothing => self.ask(part),
            Found::Coming => {
                let blocks = part.blocks.clone();
                let tag = self.asked.insert(Asked::Part(part));
                self.ahead.wait(extent, &blocks, tag);
            }
            Found::There(base, first) => {
                self.fill(&part, &base, first);
                self.part_ended(part.read);
            }
        }
    }

    /// Asks the bucket for a part of a read.
    fn ask(&mut self, part: Part) {
        let (name, length) =
            (self.name(part.extent, part.generation), self.shape.length_of(part.extent));
        let blocks = part.blocks.clone();
        let tag = self.asked.insert(Asked::Part(part));
        self.worker.send(Job::Read { tag, name, blocks, length });
    }

    /// Fills a part of a read from bytes that begin with block `first` of its extent.
    fn fill(&mut self, part: &Part, base: &[u8], first: u32) {
        let state = &mut self.reads[part.read];
        let start = self.shape.bytes_of(part.extent).start + u64::from(part.range.start);
        let at = (start - state.range.start) as usize;
        let out = &mut state.out[at..at + part.range.len()];
        fill_from(base, first, &part.range, out, &part.missing);
    }

    /// The bucket answered what it was asked for.
    fn read_answered(&mut self, tag: u32, result: Result<Vec<u8>, BucketError>) {
        match self.asked.remove(tag) {
            Asked::Part(part) => self.part_answered(part, result),
            Asked::Ahead(key) => self.ahead_answered(key, result),
        }
    }

    /// A segment has come. Those who waited for one that could not be had ask for themselves, so
    /// that its error is theirs only if they get it, too.
    fn ahead_answered(&mut self, key: Key, result: Result<Vec<u8>, BucketError>) {
        let data = result.ok().map(Arc::new);
        let (waiting, first) = self.ahead.arrived(key, data.clone());
        for tag in waiting {
            let Asked::Part(part) = self.asked.remove(tag) else { unreachable!("parts wait") };
            match &data {
                Some(base) => {
                    self.fill(&part, base, first);
                    self.part_ended(part.read);
                }
                None => self.ask(part),
            }
        }
    }

    /// The bucket answered a part of a read.
    fn part_answered(&mut self, part: Part, result: Result<Vec<u8>, BucketError>) {
        match result {
            Ok(base) => self.fill(&part, &base, part.blocks.start),
            // Deleted meanwhile, for a newer one is there.
            Err(BucketError::Missing(_)) if self.current(part.extent) != part.generation => {
                self.read_part(part.read, part.extent, part.range);
            }
            Err(error) => {
                self.traffic.note_error(&error);
                let state = &mut self.reads[part.read];
                state.error = state.error.or(Some(device_error(&error)));
            }
        }
        self.part_ended(part.read);
    }

    fn part_ended(&mut self, read: u32) {
        self.reads[read].outstanding -= 1;
        if self.reads[read].outstanding == 0 {
            let Read { ticket, out, error, .. } = self.reads.remove(read);
            let result = error.map_or_else(|| Ok(Payload::from(out)), Err);
            self.answer(ticket, result);
        }
    }

    /// Takes writes in their order, as far as there is room.
    pub(super) fn admit(&mut self) {
        while let Some((_, io)) = self.waiting.front() {
            let (offset, length) = io.range().expect("only requests with a range wait");
            let mut blocks = length.0.div_ceil(u64::from(BLOCK)) + 1;
            if !matches!(io, Io::Write { .. }) {
                // Whole extents of zeroes take nothing.
                blocks = blocks.min(2 * u64::from(self.shape.extent / BLOCK));
            }
            if self.blocks_held > 0 && self.blocks_held + blocks as usize > self.blocks_max {
                return;
            }
            let (ticket, io) = self.waiting.pop_front().expect("just seen");
            let range = offset.0..offset.0 + length.0;
            let fua = match io {
                Io::Write { data, fua, .. } => {
                    self.write(&range, &data);
                    fua
                }
                _ => {
                    self.zero(&range);
                    false
                }
            };
            match fua {
                true if !mutant("forced_write_answered_from_memory") => self.round.join(ticket),
                _ => self.answer(ticket, Ok(Payload::EMPTY)),
            }
        }
    }

    fn write(&mut self, range: &Range<u64>, data: &Payload) {
        let mut from = 0;
        for (extent, part) in self.cut(range) {
            let piece = data.slice(from..from + part.len() as u32);
            from += part.len() as u32;
            self.write_layer(extent, &part, &piece);
        }
    }

    fn write_layer(&mut self, extent: u32, part: &Range<u32>, piece: &Payload) {
        self.writes += 1;
        let (writes, length) = (self.writes, self.shape.length_of(extent));
        let gathered = self.gathered.entry(extent).or_default();
        if gathered.open.is_empty() {
            gathered.since = writes;
        }
        let before = gathered.open.block_count();
        gathered.open.write(part.start, piece);
        self.blocks_held += gathered.open.block_count() - before;
        if gathered.open.covers(length) {
            self.whole.insert(extent);
        }
    }

    /// Makes bytes read as zeroes: whole extents lose their objects, and of the others only what is
    /// not zeroes already is written.
    fn zero(&mut self, range: &Range<u64>) {
        for (extent, part) in self.cut(range) {
            if part.len() as u32 == self.shape.length_of(extent) {
                self.drop_extent(extent);
            } else if self.current(extent) != Generation::NONE
                || self.gathered.contains_key(&extent)
            {
                let zeroes = Payload::Zeroes(part.len() as u32);
                self.write_layer(extent, &part, &zeroes);
            }
        }
    }

    fn drop_extent(&mut self, extent: u32) {
        let is_blank = self.current(extent) == Generation::NONE;
        if is_blank && !self.gathered.contains_key(&extent) {
            return;
        }
        self.writes += 1;
        let gathered = self.gathered.entry(extent).or_default();
        self.blocks_held -= gathered.open.block_count();
        gathered.since = self.writes;
        gathered.open.drop_all();
        self.whole.insert(extent);
    }

    /// Refuses writers that wait for room, which will not come.
    pub(super) fn turn_away_writers(&mut self, error: DeviceError) {
        for (ticket, _) in std::mem::take(&mut self.waiting) {
            self.answer(ticket, Err(error));
        }
    }

    /// True if writers wait for room.
    pub(super) fn is_pressed(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn take(&mut self, answer: Answer) {
        match answer {
            Answer::Read { tag, result } => self.read_answered(tag, result),
            Answer::Written { extent, generation, result } => {
                self.written(extent, generation, result);
            }
            Answer::Committed(commit) => self.committed(commit),
            Answer::Mapped { sequence, result } => self.mapped(sequence, result.is_ok()),
            Answer::Listed { digit, result } => self.listed(digit, result),
            Answer::Lost => self.lose(),
        }
    }

    /// True if whoever waits shall wait on, because the store fails, and not for too long yet.
    pub(super) fn holds_on(&mut self) -> bool {
        let Some(since) = self.failing_since else { return false };
        let holds = self.now.saturating_sub(since) < self.patience;
        if holds {
            self.retry_at = self.retry_at.or(Some(Nanos(self.now.0 + RETRY_PAUSE.0)));
        }
        holds
    }

    /// Takes note of a failure of the bucket, for people; and whether it may pass.
    pub(super) fn failed(&mut self, error: &BucketError) {
        self.traffic.note_error(error);
        match error {
            BucketError::TimedOut(_) | BucketError::NoBucket(_) | BucketError::Refused(_) => {
                self.failing_since = self.failing_since.or(Some(self.now));
            }
            _ => self.failing_since = None,
        }
    }

    /// Another program has the device.
    pub(super) fn lose(&mut self) {
        self.lost = true;
        self.turn_away_writers(DeviceError::Gone);
        self.round_lost();
    }
}

impl Device for ObjectDevice {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.shape.size, discard_zeroes: true, far: true }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        self.now = self.now.max(now);
        let range = io.range().map(|(offset, length)| offset.0..offset.0 + length.0);
        if let Some(range) = &range {
            let sector = u64::from(thermocline_ports::SECTOR);
            let whole = (range.start | range.end).is_multiple_of(sector);
            let inside = range.end <= self.shape.size.0 && range.start < range.end;
            assert!(whole && inside, "{range:?} is no range of {:?}", self.shape);
        }
        if self.lost && !matches!(io, Io::Read { .. }) {
            return self.answer(ticket, Err(DeviceError::Gone));
        }
        match (io, range) {
            (Io::Read { .. }, Some(range)) => self.start_read(ticket, range),
            (Io::Flush, _) | (_, None) => self.round.join(ticket),
            (io, Some(_)) => self.waiting.push_back((ticket, io)),
        }
        self.pump();
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.now = self.now.max(now);
        self.worker.hush();
        while let Some(answer) = self.worker.next() {
            self.take(answer);
        }
        self.pump();
        done.append(&mut self.done);
    }

    /// Time at which a store that failed is tried again; else only the world knows.
    fn next_event(&self) -> Option<Nanos> {
        self.retry_at
    }
}
