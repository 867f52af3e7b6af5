//! Reading ahead of streams: bytes that a client is about to ask for are asked of the bucket
//! before.
//!
//! 1. A read that begins near the end of an earlier one goes on with that one's *stream*. Near, for
//!    clients send several requests at once, and these overtake each other.
//! 2. A stream that has read a quarter of a segment in at least two reads, and left out next to
//!    nothing, is read ahead of: by as much as it has read, at most as much as the settings say,
//!    and at most its share of half of the memory.
//! 3. Bytes are fetched and kept by *segments* of an object, [`SEGMENT_BLOCKS`] at most. A segment
//!    is of one generation, which never changes: a newer one is asked for anew. It is dropped when
//!    all of it was read, or when room is wanted, the one that was used longest ago first.
//! 4. What is dropped unread counts against reading beyond a stream's own object, as long as it is
//!    more than what was read: chunks that follow each other in a volume need not do so on a
//!    device.
//!
//! State: [`STREAMS_MAX`] streams, and segments of [`WINDOWS`] times the settings' bytes at most.

use super::format::{BLOCK, Generation};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use thermocline_units::Bytes;
use thermocline_units::mutants::mutant;

/// Blocks of a segment, at most: 1 MiB.
pub(super) const SEGMENT_BLOCKS: u32 = 256;
/// Streams that are followed at once.
const STREAMS_MAX: usize = 16;
/// Distance from a stream's end, either way, at which a read still belongs to it.
const SLACK: u64 = 512 << 10;
/// Bytes kept at most, in windows of one stream.
const WINDOWS: u64 = 4;
/// Segments on their way at once.
const COMING_MAX: usize = 8;
/// Bytes that may have been fetched in vain before anything has proved useful.
const CREDIT: u64 = 4 << 20;
/// Bytes from which on both accounts are halved, so that what was long ago counts little.
const MEMORY: u64 = 64 << 20;

/// Place of a segment: the extent, and its number there.
pub(super) type Key = (u32, u32);

/// A run of reads, one after the other.
#[derive(Debug)]
struct Stream {
    /// Its beginning, and the end of its farthest read, in bytes of the device.
    start: u64,
    end: u64,
    /// Bytes that it has read.
    read: u64,
    reads: u32,
    used: u64,
}

impl Stream {
    fn new(range: &Range<u64>, used: u64) -> Stream {
        let read = range.end - range.start;
        Stream { start: range.start, end: range.end, read, reads: 1, used }
    }

    fn goes_on(&mut self, range: &Range<u64>, used: u64) {
        (self.start, self.end) = (self.start.min(range.start), self.end.max(range.end));
        self.read += range.end - range.start;
        self.reads = self.reads.saturating_add(1);
        self.used = used;
    }

    fn span(&self) -> u64 {
        self.end - self.start
    }

    /// True if it has left out next to nothing of where it was.
    fn is_dense(&self) -> bool {
        self.span() <= self.read + self.read / 4
    }
}

#[derive(Debug)]
struct Segment {
    generation: Generation,
    /// Blocks of the extent.
    blocks: Range<u32>,
    state: State,
    /// Bytes of it that were read.
    served: u64,
    used: u64,
}

#[derive(Debug)]
enum State {
    /// A segment that was asked for. Parts of reads wait for it.
    Coming {
        waiting: Vec<u32>,
    },
    There(Arc<Vec<u8>>),
}

/// Answer to a read that looks for blocks.
#[derive(Debug)]
pub(super) enum Found {
    /// A segment that was never asked for, or is of another generation.
    Nothing,
    /// On its way.
    Coming,
    /// Bytes from this block of the extent on.
    There(Arc<Vec<u8>>, u32),
}

/// Streams, and what was fetched ahead of them.
#[derive(Debug)]
pub(super) struct ReadAhead {
    /// Bytes ahead of a stream; 0: nothing is read ahead.
    most: u64,
    streams: Vec<Stream>,
    segments: BTreeMap<Key, Segment>,
    /// Bytes of all segments.
    held: u64,
    coming: usize,
    clock: u64,
    /// Bytes that were read of dropped segments, and those that were not; fading.
    useful: u64,
    vain: u64,
    fetched: Bytes,
    read: Bytes,
}

/// Number of the segment of an extent that a block is in.
fn segment_of(block: u32) -> u32 {
    block / SEGMENT_BLOCKS
}

/// Cuts bytes of an extent at its segments.
pub(super) fn cut_at_segments(range: &Range<u32>) -> impl Iterator<Item = Range<u32>> + use<> {
    let (start, end, step) = (range.start, range.end, SEGMENT_BLOCKS * BLOCK);
    let first = start / step;
    (first..end.div_ceil(step))
        .map(move |n| (n * step).max(start)..(n + 1).saturating_mul(step).min(end))
}

fn bytes_in(blocks: &Range<u32>) -> u64 {
    blocks.len() as u64 * u64::from(BLOCK)
}

impl ReadAhead {
    /// Reads ahead of each stream by so many bytes at most; 0: not at all.
    pub(super) fn new(most: Bytes) -> ReadAhead {
        ReadAhead {
            most: most.0,
            streams: Vec::new(),
            segments: BTreeMap::new(),
            held: 0,
            coming: 0,
            clock: 0,
            useful: 0,
            vain: 0,
            fetched: Bytes(0),
            read: Bytes(0),
        }
    }

    /// Bytes that were asked for ahead of streams, and those of them that were read from dropped
    /// segments, since the start.
    pub(super) fn totals(&self) -> (Bytes, Bytes) {
        (self.fetched, self.read)
    }

    /// Bytes in memory.
    #[cfg(test)]
    fn held(&self) -> Bytes {
        Bytes(self.held)
    }

    /// True if what was fetched beyond streams' own objects has been read more often than not.
    pub(super) fn is_trusted(&self) -> bool {
        self.vain <= self.useful + CREDIT
    }

    /// Takes note of a read of bytes of a device with extents of `extent` bytes, and says which
    /// bytes to have at hand next.
    pub(super) fn note_read(&mut self, range: &Range<u64>, extent: u32) -> Option<Range<u64>> {
        if self.most == 0 {
            return None;
        }
        self.clock += 1;
        let near = |stream: &&mut Stream| range.start.abs_diff(stream.end) <= SLACK.min(self.most);
        let Some(stream) = self.streams.iter_mut().find(near) else {
            if self.streams.len() == STREAMS_MAX {
                let oldest = (0..STREAMS_MAX).min_by_key(|&at| self.streams[at].used);
                self.streams.swap_remove(oldest.expect("there are some"));
            }
            self.streams.push(Stream::new(range, self.clock));
            return None;
        };
        stream.goes_on(range, self.clock);
        let segment = u64::from(extent.min(SEGMENT_BLOCKS * BLOCK));
        let has_read_enough = stream.read >= segment / 4 && stream.reads >= 2;
        if !stream.is_dense() && stream.read > 4 * (range.end - range.start) {
            *stream = Stream::new(range, self.clock); // Reads here and there, or a jump.
            return None;
        }
        let is_one = has_read_enough && stream.is_dense();
        let (end, span) = (stream.end, stream.span());
        // What is fetched for one stream must not push out what others have not read yet.
        let followed = self.streams.iter().filter(|stream| stream.reads >= 2 && stream.is_dense());
        let share = self.most * WINDOWS / 2 / followed.count().max(1) as u64;
        is_one.then(|| end..end + span.min(self.most).min(share))
    }

    /// True if something of an extent is kept or on its way.
    pub(super) fn knows(&self, extent: u32) -> bool {
        self.segments.range((extent, 0)..=(extent, u32::MAX)).next().is_some()
    }

    /// Looks for blocks of one segment of a generation.
    pub(super) fn find(
        &mut self,
        extent: u32,
        generation: Generation,
        blocks: &Range<u32>,
    ) -> Found {
        let key = (extent, segment_of(blocks.start));
        let Some(segment) = self.segments.get_mut(&key) else { return Found::Nothing };
        let is_other = segment.generation != generation && !mutant("read_ahead_of_any_generation");
        let covers = segment.blocks.start <= blocks.start && blocks.end <= segment.blocks.end;
        if is_other || !covers {
            return Found::Nothing;
        }
        self.clock += 1;
        segment.used = self.clock;
        segment.served += bytes_in(blocks);
        match &segment.state {
            State::Coming { .. } => Found::Coming,
            State::There(data) => {
                let found = Found::There(data.clone(), segment.blocks.start);
                if segment.served >= bytes_in(&segment.blocks) {
                    self.drop_segment(key);
                }
                found
            }
        }
    }

    /// Lets a part of a read wait for a segment that is coming, which [`ReadAhead::find`] has said.
    pub(super) fn wait(&mut self, extent: u32, blocks: &Range<u32>, part: u32) {
        let segment = self.segments.get_mut(&(extent, segment_of(blocks.start)));
        match segment.map(|segment| &mut segment.state) {
            Some(State::Coming { waiting }) => waiting.push(part),
            _ => unreachable!("it was found on its way"),
        }
    }

    /// Makes room for blocks of one segment of a generation, and notes them as coming. `None`: they
    /// are there or on their way, or there is no room.
    pub(super) fn ask(
        &mut self,
        extent: u32,
        generation: Generation,
        blocks: Range<u32>,
    ) -> Option<Key> {
        assert!(!blocks.is_empty(), "something is asked for");
        let key = (extent, segment_of(blocks.start));
        assert_eq!(key.1, segment_of(blocks.end - 1), "of one segment");
        let old = self.segments.get(&key);
        let is_stale = old.is_some_and(|old| {
            old.generation != generation && matches!(old.state, State::There(_))
        });
        if is_stale {
            self.drop_segment(key);
        } else if old.is_some() {
            return None;
        }
        if self.coming == COMING_MAX || !self.make_room(bytes_in(&blocks)) {
            return None;
        }
        self.clock += 1;
        self.held += bytes_in(&blocks);
        self.fetched.0 += bytes_in(&blocks);
        self.coming += 1;
        let state = State::Coming { waiting: Vec::new() };
        let segment = Segment { generation, blocks, state, served: 0, used: self.clock };
        self.segments.insert(key, segment);
        Some(key)
    }

    /// A segment has come, or could not be had. Says which parts waited for it, and from which
    /// block of the extent on its bytes are.
    pub(super) fn arrived(&mut self, key: Key, data: Option<Arc<Vec<u8>>>) -> (Vec<u32>, u32) {
        self.coming -= 1;
        let segment = self.segments.get_mut(&key).expect("what comes was asked for");
        let first = segment.blocks.start;
        let is_there = data.is_some();
        let state = State::There(data.unwrap_or_default());
        let State::Coming { waiting } = std::mem::replace(&mut segment.state, state) else {
            unreachable!("each segment comes once")
        };
        if !is_there {
            self.held -= bytes_in(&segment.blocks);
            self.segments.remove(&key);
        } else if segment.served >= bytes_in(&segment.blocks) {
            self.drop_segment(key);
        }
        (waiting, first)
    }

    /// Drops segments that are there, the one used longest ago first, until so many bytes fit.
    fn make_room(&mut self, bytes: u64) -> bool {
        while self.held + bytes > self.most.saturating_mul(WINDOWS) {
            let there = self.segments.iter().filter(|(_, s)| matches!(s.state, State::There(_)));
            let Some((&key, _)) = there.min_by_key(|(_, segment)| segment.used) else {
                return false;
            };
            self.drop_segment(key);
        }
        true
    }

    fn drop_segment(&mut self, key: Key) {
        let segment = self.segments.remove(&key).expect("it is kept");
        let bytes = bytes_in(&segment.blocks);
        let useful = segment.served.min(bytes);
        self.held -= bytes;
        self.useful += useful;
        self.read.0 += useful;
        self.vain += bytes - useful;
        if self.useful + self.vain > MEMORY {
            self.useful /= 2;
            self.vain /= 2;
        }
        assert!(self.held == 0 || !self.segments.is_empty(), "bytes held are of segments");
    }
}

#[cfg(test)]
mod tests;
