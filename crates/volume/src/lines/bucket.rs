//! One lent slot: the lines in it, and what is under way on them.
//!
//! A *frame* is 4 KiB of the slot. It is `Empty`, `Filling` (contents are on their way to the
//! device), `Overtaken` (the same, but a write has begun since: they will not count) or `Whole`.
//! A frame that is being filled or read is *pinned*: it gets no other line, and no other contents.
//!
//! Lines find their set by a hash, and are told apart by their full name: two lines with one hash
//! exclude each other. State: 28 B a frame, 8 of them the replacement's.

use crate::map::place::Place;
use crate::settings::BLOCK;
use thermocline_policy::cache::{SetRule, Sets};
use thermocline_units::ChunkId;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Frames that a line may be in.
const WAYS: u32 = 16;

/// The name of a line: a block of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub(super) chunk: ChunkId,
    /// Number of the block of 4 KiB within the chunk.
    pub(super) block: u32,
}

impl Line {
    /// The line whose contents begin at byte `at` of a chunk.
    pub(super) fn at(chunk: ChunkId, at: u32) -> Line {
        assert!(at.is_multiple_of(BLOCK), "lines are whole blocks");
        Line { chunk, block: at / BLOCK }
    }

    /// 64 well-mixed bits (the finaliser of SplitMix64).
    pub(super) fn hash(&self) -> u64 {
        let chunk = u64::from(self.chunk.volume.0) << 32 | u64::from(self.chunk.index);
        let mut z = chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.block.into());
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The number by which the replacement knows it; it knows no more than 2³² − 1.
    fn number(&self) -> u32 {
        (self.hash() >> 32) as u32 % u32::MAX
    }
}

/// Contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Contents {
    #[default]
    Empty,
    Filling,
    Overtaken,
    Whole,
}

#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    line: Line,
    /// CRC-32C of the contents.
    sum: u32,
    readers: u16,
    contents: Contents,
}

impl Frame {
    fn is_pinned(&self) -> bool {
        self.readers > 0 || matches!(self.contents, Contents::Filling | Contents::Overtaken)
    }
}

/// A line that is read from, or written to, the device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) frame: u32,
    /// CRC-32C of the contents.
    pub(super) sum: u32,
}

/// A lent slot.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) place: Place,
    /// False if the slot goes back as soon as nothing is under way on it.
    pub(super) serves: bool,
    index: Sets,
    frames: Vec<Frame>,
    /// Device requests under way on it.
    pins: u32,
    whole: u32,
}

impl Bucket {
    /// A slot of `chunk_bytes` without lines.
    pub(super) fn new(place: Place, chunk_bytes: u32) -> Bucket {
        let count = chunk_bytes / BLOCK;
        assert!(count > 0, "a slot has room for a line");
        Bucket {
            place,
            serves: true,
            index: Sets::new(count, WAYS, SetRule::S3Fifo),
            frames: vec![Frame::default(); count as usize],
            pins: 0,
            whole: 0,
        }
    }

    /// Number of lines that can be read.
    pub(super) fn whole(&self) -> u32 {
        self.whole
    }

    /// Device requests under way on the slot.
    pub(super) fn pins(&self) -> u32 {
        self.pins
    }

    /// True if a device request is under way on the slot.
    pub(super) fn is_pinned(&self) -> bool {
        self.pins > 0
    }

    /// True if a line is being filled.
    fn is_filling(&self) -> bool {
        self.frames.iter().any(|frame| frame.is_pinned() && frame.readers == 0)
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        self.index.bytes() + (self.frames.capacity() * size_of::<Frame>()) as u64
    }

    /// The frame that is the line's, whatever is in it.
    fn find(&self, line: &Line) -> Option<u32> {
        let frame = self.index.find(line.number())?;
        (self.frames[frame as usize].line == *line).then_some(frame)
    }

    fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    /// True if the line can be read.
    pub(super) fn has(&self, line: &Line) -> bool {
        let frame = self.find(line).map(|frame| &self.frames[frame as usize]);
        frame.is_some_and(|frame| frame.contents == Contents::Whole && frame.readers < u16::MAX)
    }

    /// Begins to read a line that can be read.
    pub(super) fn begin_read(&mut self, line: &Line) -> Held {
        assert!(self.serves && self.has(line), "what is read is there");
        let frame = self.find(line).expect("it is there");
        self.index.hit(frame);
        self.pins += 1;
        let state = self.frame_mut(frame);
        state.readers += 1;
        Held { frame, sum: state.sum }
    }

    /// A read has ended; with `wrong`, its contents were not what was written there.
    pub(super) fn end_read(&mut self, held: Held, wrong: bool) {
        assert!(self.pins > 0, "each read ends once");
        self.pins -= 1;
        let state = self.frame_mut(held.frame);
        assert!(state.readers > 0, "a read pins its frame");
        state.readers -= 1;
        // A frame is not written while somebody reads it, so these are the contents that were read.
        if wrong && state.contents == Contents::Whole {
            self.empty(held.frame);
        }
    }

    /// Begins to fill a line that a client has missed; `None`: it has no frame now, or is there.
    pub(super) fn admit(&mut self, line: &Line, sum: u32) -> Option<Held> {
        assert!(self.serves, "a slot that goes back gets no lines");
        if let Some(frame) = self.index.find(line.number()) {
            let state = self.frames[frame as usize];
            let is_there = state.line == *line && state.contents == Contents::Whole;
            if state.is_pinned() || is_there {
                return None;
            }
            if state.line == *line {
                self.index.hit(frame);
                return Some(self.begin_fill(frame, sum));
            }
            self.empty(frame);
            self.index.remove(frame);
        }
        let frames = &self.frames;
        let may_leave = |_: &Sets, frame: u32| !frames[frame as usize].is_pinned();
        let placed = self.index.place(line.number(), may_leave)?;
        self.empty(placed.slot);
        self.frame_mut(placed.slot).line = *line;
        Some(self.begin_fill(placed.slot, sum))
    }

    /// Begins to fill a line that has a frame and was written; `None`: it has none, or somebody
    /// reads the frame.
    pub(super) fn renew(&mut self, line: &Line, sum: u32) -> Option<Held> {
        assert!(self.serves, "a slot that goes back gets no lines");
        let frame = self.find(line)?;
        let state = self.frames[frame as usize];
        let may = !state.is_pinned() && state.contents == Contents::Empty;
        may.then(|| self.begin_fill(frame, sum))
    }

    fn begin_fill(&mut self, frame: u32, sum: u32) -> Held {
        assert!(self.serves, "a slot that goes back is not filled");
        self.empty(frame);
        self.pins += 1;
        let state = self.frame_mut(frame);
        (state.contents, state.sum) = (Contents::Filling, sum);
        Held { frame, sum }
    }

    /// A fill has ended, well or not.
    pub(super) fn end_fill(&mut self, held: Held, good: bool) {
        assert!(self.pins > 0, "each fill ends once");
        self.pins -= 1;
        let serves = self.serves;
        let state = self.frame_mut(held.frame);
        let overtaken = state.contents == Contents::Overtaken && !mutant("overtaken_fill_counts");
        met_if(overtaken, "fill overtaken by a write");
        let counts = good && !overtaken && serves;
        state.contents = if counts { Contents::Whole } else { Contents::Empty };
        self.whole += u32::from(counts);
        assert!(self.whole as usize <= self.frames.len(), "no more lines are whole than there are");
    }

    /// The contents of a frame are nothing any more.
    fn empty(&mut self, frame: u32) {
        let state = self.frame_mut(frame);
        let was_whole = state.contents == Contents::Whole;
        state.contents = Contents::Empty;
        assert!(self.whole > 0 || !was_whole, "what is whole was counted");
        self.whole -= u32::from(was_whole);
    }

    /// The contents of a line change, or cease to be.
    pub(super) fn invalidate(&mut self, line: &Line) {
        if let Some(frame) = self.find(line) {
            self.void(frame);
        }
    }

    /// The same, for all lines that are so.
    pub(super) fn invalidate_all(&mut self, is_so: impl Fn(&Line) -> bool) {
        for frame in 0..self.frames.len() as u32 {
            if is_so(&self.frames[frame as usize].line) {
                self.void(frame);
            }
        }
        let left = |frame: &Frame| frame.contents == Contents::Whole && is_so(&frame.line);
        assert!(!self.frames.iter().any(left), "none of them can be read");
    }

    fn void(&mut self, frame: u32) {
        match self.frames[frame as usize].contents {
            Contents::Empty | Contents::Overtaken => {}
            Contents::Filling => self.frame_mut(frame).contents = Contents::Overtaken,
            Contents::Whole => {
                met_if(self.frames[frame as usize].readers > 0, "line written while it was read");
                self.empty(frame);
            }
        }
        let contents = self.frames[frame as usize].contents;
        assert!(contents != Contents::Whole, "what is void cannot be read");
    }

    /// Takes the slot out of service: no line of it is read or filled any more.
    pub(super) fn retire(&mut self) {
        assert!(self.serves, "a slot goes back once");
        if self.is_filling() {
            met("slot taken back with fills under way");
        }
        if self.frames.iter().any(|frame| frame.readers > 0) {
            met("slot taken back under a hit");
        }
        self.serves = false;
    }
}
