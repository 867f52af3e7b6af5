//! A trace made ready for replay: requests, and the lines or chunks each of them touches as dense
//! numbers.
//!
//! A trace comes in [`Block`]s. [`Stream`] makes one after another, so that memory does not grow
//! with the length of the trace; [`Workload`] keeps them all, where a replay has to know the whole
//! trace beforehand (shares of the working set, the clairvoyant bound) or to run it more than once.
//! Offsets are split into lines as addressed: a request of 6 KiB at 3 KiB touches the 4 KiB lines
//! 0, 1 and 2.
//!
//! Memory: 37–59 B a distinct line while reading, 16 B afterwards; a workload held whole adds 30 B
//! a request and 6 B a line touched.

mod dense;
mod names;
mod sample;
mod stream;
#[cfg(test)]
pub(crate) mod tests;

pub use names::Names;
pub use sample::{Sample, SampleSize, Touch};
pub use stream::Stream;

use dense::Address;
use thermocline_policy::cache::Tag;
use thermocline_trace::{TraceError, TraceReader};
use thermocline_units::{Bytes, LineId, Nanos};

/// A trace that cannot become a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The trace itself could not be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace holds no read and no write.
    #[error("the trace holds no read and no write: there is nothing to cache")]
    Empty,
    /// More volumes than the laboratory tells apart.
    #[error(
        "{place}the trace has more than {max} volumes; choose some with `trace convert --volume`"
    )]
    Volumes {
        /// The input and the place in it, with `: `; empty where it is not known.
        place: String,
        /// Number that it can tell apart.
        max: u32,
    },
    /// More distinct lines than fit in 32 bits.
    #[error("{place}the trace has more than {max} distinct lines; use larger ones (`--line`)")]
    Lines {
        /// The input and the place in it, with `: `; empty where it is not known.
        place: String,
        /// Number that fit.
        max: u32,
    },
    /// One request touches absurdly many lines.
    #[error(
        "{place}request {index} is {length} long: more than {max} lines; is the trace's unit right?"
    )]
    Huge {
        /// The input and the place in it, with `: `; empty where it is not known.
        place: String,
        /// Number of the request, counted from 1.
        index: u64,
        /// Its length.
        length: Bytes,
        /// The bound.
        max: u64,
    },
}

impl WorkloadError {
    /// The same with the place that `reader` has come to.
    fn in_input(self, reader: &dyn TraceReader) -> WorkloadError {
        let position = reader.position();
        let at = if position.is_empty() { position } else { position + ": " };
        match self {
            WorkloadError::Volumes { max, .. } => WorkloadError::Volumes { place: at, max },
            WorkloadError::Lines { max, .. } => WorkloadError::Lines { place: at, max },
            WorkloadError::Huge { index, length, max, .. } => {
                WorkloadError::Huge { place: at, index, length, max }
            }
            other => other,
        }
    }
}

/// Kind of a cached unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Lines of this many bytes; a request touches every line it overlaps.
    Lines(Bytes),
    /// Each request is one object of unit size, named by volume and offset: what libCacheSim
    /// simulates with `--ignore-obj-size 1`.
    Objects,
}

impl Unit {
    /// Bytes of one; objects count as one byte each.
    pub fn line_bytes(self) -> Bytes {
        match self {
            Unit::Lines(bytes) => bytes,
            Unit::Objects => Bytes(1),
        }
    }
}

/// Cutting of a trace.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Lines or objects.
    pub unit: Unit,
    /// Also cut into chunks of this size, for placements.
    pub chunk: Option<Bytes>,
}

/// One read, write or discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Issue time.
    pub time: Nanos,
    /// First byte.
    pub offset: Bytes,
    /// Bytes, below 4 GiB.
    pub length: u32,
    /// Volume and direction.
    pub tag: Tag,
    /// A discard: its lines are dropped, nothing is accessed.
    pub discard: bool,
}

/// Lines or chunks touched, request by request.
#[derive(Debug, Clone, Default)]
pub struct Touches {
    /// Units touched, in order.
    pub ids: Vec<LineId>,
    /// For request `i`, one past its last touch in `ids`.
    pub ends: Vec<u32>,
    /// Addresses touched for the first time, in the order of their numbers.
    new: Vec<Address>,
}

impl Touches {
    /// The touches of request `i`.
    #[inline]
    pub fn of(&self, i: usize) -> std::ops::Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        start..self.ends[i] as usize
    }
}

/// A run of consecutive requests and what they touch.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// Reads, writes and discards, in order.
    pub heads: Vec<Head>,
    /// Lines (or objects) touched.
    pub lines: Touches,
    /// One tag for every line touched.
    pub tags: Vec<Tag>,
    /// Chunks touched, for placements.
    pub chunks: Option<Touches>,
    /// Parts of a request to look for in it.
    pub mix: Mix,
    /// Names of volumes not seen before.
    new_volumes: Vec<String>,
}

/// Parts of requests that occur in a block, so that nobody looks for others, request by request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mix {
    /// Writes.
    pub writes: bool,
    /// Discards.
    pub discards: bool,
    /// Requests that touch more than one line, or none.
    pub spans: bool,
}

impl Mix {
    /// Every request reads one line.
    pub(crate) fn is_reads_of_one_line(self) -> bool {
        self == Mix::default()
    }
}

impl Block {
    /// An empty block for `cut`.
    pub fn new(cut: Cut) -> Block {
        Block { chunks: cut.chunk.map(|_| Touches::default()), ..Block::default() }
    }

    /// Lines touched for the first time, before [`Names::learn`] takes them over.
    pub(crate) fn new_lines(&self) -> u32 {
        self.lines.new.len() as u32
    }

    /// Reads and writes in it.
    pub fn requests(&self) -> u64 {
        self.heads.iter().filter(|head| !head.discard).count() as u64
    }
}

/// A trace held whole.
#[derive(Debug)]
pub struct Workload {
    /// Names that the numbers stand for.
    pub names: Names,
    /// All requests, in order.
    pub blocks: Vec<Block>,
    /// Flushes in the trace, which no policy sees.
    pub flushes: u64,
    /// Repairs by the reader.
    pub repairs: Vec<String>,
    /// Lines touched.
    touches: u64,
}

impl Workload {
    /// Reads a whole trace. `progress` is told the bytes of input read so far after every block.
    ///
    /// # Errors
    /// When the trace cannot be read, holds nothing to cache, or is larger than the numbers.
    pub fn read(
        reader: &mut dyn TraceReader,
        cut: Cut,
        progress: &dyn Fn(u64),
    ) -> Result<Workload, WorkloadError> {
        let mut stream = Stream::new(reader, cut);
        let mut names = Names::new(cut);
        let mut blocks = Vec::new();
        loop {
            let mut block = Block::new(cut);
            if !stream.fill(&mut block)? {
                break;
            }
            names.learn(&mut block);
            block.lines.new = Vec::new();
            blocks.push(block);
            progress(stream.bytes_read());
        }
        if blocks.iter().all(|block| block.requests() == 0) {
            return Err(WorkloadError::Empty);
        }
        let touches = blocks.iter().map(|block| block.lines.ids.len() as u64).sum();
        Ok(Workload {
            flushes: stream.flushes(),
            repairs: stream.repairs(),
            names,
            blocks,
            touches,
        })
    }

    /// Bytes of memory it occupies.
    pub fn bytes(&self) -> u64 {
        let touches = |t: &Touches| (t.ids.capacity() * 4 + t.ends.capacity() * 4) as u64;
        let block = |block: &Block| {
            (block.heads.capacity() * size_of::<Head>() + block.tags.capacity() * 2) as u64
                + touches(&block.lines)
                + block.chunks.as_ref().map_or(0, touches)
        };
        self.names.bytes() + self.blocks.iter().map(block).sum::<u64>()
    }

    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.blocks.iter().map(Block::requests).sum()
    }

    /// Reads, writes and discards.
    pub fn heads(&self) -> u64 {
        self.blocks.iter().map(|block| block.heads.len() as u64).sum()
    }

    /// Time of the last request; 0 when there is none.
    pub(crate) fn last_time(&self) -> Nanos {
        let last = self.blocks.iter().rev().find_map(|block| block.heads.last());
        last.map_or(Nanos(0), |head| head.time)
    }

    /// Lines touched.
    pub fn touches(&self) -> u64 {
        self.touches
    }

    /// Distinct lines.
    pub fn distinct(&self) -> f64 {
        f64::from(self.names.distinct_lines())
    }

    /// Distinct lines times their size.
    pub fn working_set(&self) -> Bytes {
        Bytes(self.distinct() as u64 * self.names.line_bytes().0)
    }
}
