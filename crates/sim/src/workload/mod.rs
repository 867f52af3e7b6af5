//! A trace made ready for replay: requests, and the lines or chunks each of them touches as dense
//! numbers.
//!
//! The trace is read once; every policy at every size then replays the same arrays. Memory: 24 B a
//! request, 6 B a line touched, 48–80 B a distinct line; [`Workload::bytes`] says how much it came to. Offsets are split into lines as addressed: a request of 6 KiB at 3 KiB touches
//! the 4 KiB lines 0, 1 and 2.

mod dense;
mod sample;
#[cfg(test)]
pub(crate) mod tests;

use dense::{Address, DenseIds};
use thermocline_policy::cache::Tag;
use thermocline_trace::{Batch, Op, Request, TraceError, TraceReader};
use thermocline_units::{Bytes, LineId, Nanos, VolumeId};

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
    #[error("the trace has more than {max} volumes; choose some with `trace convert --volume`")]
    Volumes {
        /// How many it can tell apart.
        max: u32,
    },
    /// More distinct lines or touches than fit in 32 bits.
    #[error(
        "the trace touches more than {max} lines; use larger lines (`--line`) or a part of the \
         trace (`trace convert --until`)"
    )]
    Lines {
        /// How many fit.
        max: u32,
    },
    /// One request touches absurdly many lines.
    #[error("request {index} is {length} long: more than {max} lines; is the trace's unit right?")]
    Huge {
        /// Which request, counted from 1.
        index: u64,
        /// Its length.
        length: Bytes,
        /// The bound.
        max: u64,
    },
}

/// What a cached unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Lines of this many bytes; a request touches every line it overlaps.
    Lines(Bytes),
    /// Each request is one object of unit size, named by volume and offset: what libCacheSim
    /// simulates with `--ignore-obj-size 1`.
    Objects,
}

/// One read or write of the workload.
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
#[derive(Debug)]
pub struct Touches {
    /// Bytes of one unit; 0 for objects.
    pub unit_bytes: Bytes,
    /// Units touched, in order.
    pub ids: Vec<LineId>,
    /// For request `i`, one past its last touch in `ids`.
    pub ends: Vec<u32>,
    /// Distinct units.
    pub distinct: u32,
    /// Volume and unit number by id.
    addresses: Vec<Address>,
    /// Ids by address.
    index: DenseIds,
}

impl Touches {
    /// The touches of request `i`.
    pub fn of(&self, i: usize) -> std::ops::Range<usize> {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        start..self.ends[i] as usize
    }

    /// Volume and number of a unit; for objects, their offset.
    pub fn address(&self, id: LineId) -> (VolumeId, u64) {
        let address = self.addresses[id.index()];
        (VolumeId(address.volume), address.unit)
    }

    /// The id of a unit, if the trace ever touches it.
    pub fn find(&self, volume: VolumeId, unit: u64) -> Option<LineId> {
        self.index.get(Address { volume: volume.0, unit })
    }

    fn bytes(&self) -> u64 {
        let arrays = self.ids.len() * 4 + self.ends.len() * 4 + self.addresses.len() * 16;
        arrays as u64 + self.index.bytes()
    }
}

/// A trace ready for replay.
#[derive(Debug)]
pub struct Workload {
    /// What a line is.
    pub unit: Unit,
    /// Reads, writes and discards, in order.
    pub heads: Vec<Head>,
    /// Volume names by id.
    pub volumes: Vec<String>,
    /// Lines (or objects) touched.
    pub lines: Touches,
    /// One tag for every line touched.
    pub tags: Vec<Tag>,
    /// Chunks touched, for placements.
    pub chunks: Option<Touches>,
    /// Flushes in the trace, which no cache policy sees.
    pub flushes: u64,
    /// What the reader repaired.
    pub repairs: Vec<String>,
    /// What sampling left out.
    pub sampling: Sampling,
}

/// How much of the lines a workload holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Share of the distinct lines kept, 0 < rate ≤ 1.
    pub rate: f64,
    /// Lines touched before sampling.
    pub touches: u64,
}

impl Sampling {
    /// Whether every line is there.
    pub fn is_whole(&self) -> bool {
        self.rate == 1.0
    }
}

/// How a workload is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Lines or objects.
    pub unit: Unit,
    /// Also cut into chunks of this size, for placements.
    pub chunk: Option<Bytes>,
}

/// Lines one request may touch: 4 GiB in lines of 512 B.
const TOUCHES_PER_REQUEST_MAX: u64 = 1 << 23;

impl Workload {
    /// Reads a whole trace. `progress` is told the bytes of input read so far after every batch.
    ///
    /// # Errors
    /// When the trace cannot be read, holds nothing to cache, or is larger than the ids.
    pub fn read(
        reader: &mut dyn TraceReader,
        cut: Cut,
        progress: &dyn Fn(u64),
    ) -> Result<Workload, WorkloadError> {
        let mut builder = Builder::new(cut);
        let mut batch = Batch::default();
        loop {
            reader.read_batch(&mut batch)?;
            if batch.requests.is_empty() {
                break;
            }
            for request in &batch.requests {
                builder.take(request)?;
            }
            builder.settle()?;
            progress(reader.bytes_read());
        }
        builder.finish(reader)
    }

    /// Bytes of memory it occupies.
    pub fn bytes(&self) -> u64 {
        self.heads.len() as u64 * size_of::<Head>() as u64
            + self.tags.len() as u64 * size_of::<Tag>() as u64
            + self.lines.bytes()
            + self.chunks.as_ref().map_or(0, Touches::bytes)
    }

    /// Bytes of one line; objects count as one byte each.
    pub fn line_bytes(&self) -> Bytes {
        match self.unit {
            Unit::Lines(bytes) => bytes,
            Unit::Objects => Bytes(1),
        }
    }

    /// Distinct lines times their size, before sampling.
    pub fn working_set(&self) -> Bytes {
        Bytes(self.distinct() as u64 * self.line_bytes().0)
    }

    /// Distinct lines, before sampling (then an estimate).
    pub fn distinct(&self) -> f64 {
        f64::from(self.lines.distinct) / self.sampling.rate
    }
}

/// Collects a workload batch by batch.
struct Builder {
    heads: Vec<Head>,
    flushes: u64,
    seen: u64,
    lines: Cutter,
    chunks: Option<Cutter>,
    tags: Vec<Tag>,
    unit: Unit,
}

/// Cuts requests into units of one size and numbers them.
struct Cutter {
    unit: Unit,
    ids: DenseIds,
    /// Touches of the requests since the last `settle`.
    pending: Vec<Address>,
    touches: Vec<LineId>,
    ends: Vec<u32>,
}

impl Cutter {
    fn new(unit: Unit) -> Cutter {
        Cutter {
            unit,
            ids: DenseIds::new(),
            pending: Vec::new(),
            touches: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// How many units the request touches.
    fn count(&self, request: &Request) -> u64 {
        match self.unit {
            Unit::Objects => 1,
            Unit::Lines(bytes) => (request.end().0 - 1) / bytes.0 - request.offset.0 / bytes.0 + 1,
        }
    }

    fn access(&mut self, request: &Request) -> Result<u64, WorkloadError> {
        let count = self.count(request);
        let volume = request.volume.0;
        match self.unit {
            Unit::Objects => self.pending.push(Address { volume, unit: request.offset.0 }),
            Unit::Lines(bytes) => {
                let first = request.offset.0 / bytes.0;
                self.pending.extend((first..first + count).map(|unit| Address { volume, unit }));
            }
        }
        self.end_request()?;
        Ok(count)
    }

    /// A discard touches only units it covers whole and that were seen before.
    fn discard(&mut self, request: &Request) -> Result<u64, WorkloadError> {
        self.settle()?;
        let before = self.touches.len();
        let volume = request.volume.0;
        let (first, end) = match self.unit {
            Unit::Objects => (request.offset.0, request.offset.0 + 1),
            Unit::Lines(bytes) => (request.offset.0.div_ceil(bytes.0), request.end().0 / bytes.0),
        };
        if end.saturating_sub(first) <= u64::from(self.ids.len()) {
            let known = (first..end).filter_map(|unit| self.ids.get(Address { volume, unit }));
            self.touches.extend(known);
        } else {
            // Larger than everything seen: walk what was seen instead of the range.
            let all = self.ids.addresses();
            let inside = |a: &Address| a.volume == volume && (first..end).contains(&a.unit);
            let known = all.iter().enumerate().filter(|(_, a)| inside(a));
            self.touches.extend(known.map(|(id, _)| LineId(id as u32)));
        }
        self.end_request()?;
        Ok((self.touches.len() - before) as u64)
    }

    fn end_request(&mut self) -> Result<(), WorkloadError> {
        let end = u32::try_from(self.touches.len() + self.pending.len());
        let end = end.ok().filter(|end| *end < LineId::MAX.0);
        self.ends.push(end.ok_or(WorkloadError::Lines { max: LineId::MAX.0 })?);
        Ok(())
    }

    /// Numbers what is pending.
    fn settle(&mut self) -> Result<(), WorkloadError> {
        let numbered = self.ids.number(&self.pending, &mut self.touches);
        self.pending.clear();
        numbered.map_err(|_| WorkloadError::Lines { max: LineId::MAX.0 })
    }

    fn finish(mut self) -> Result<Touches, WorkloadError> {
        self.settle()?;
        let unit_bytes = match self.unit {
            Unit::Lines(bytes) => bytes,
            Unit::Objects => Bytes(0),
        };
        Ok(Touches {
            unit_bytes,
            ids: self.touches,
            ends: self.ends,
            distinct: self.ids.len(),
            addresses: self.ids.addresses(),
            index: self.ids,
        })
    }
}

impl Builder {
    fn new(cut: Cut) -> Builder {
        Builder {
            heads: Vec::new(),
            flushes: 0,
            seen: 0,
            lines: Cutter::new(cut.unit),
            chunks: cut.chunk.map(|bytes| Cutter::new(Unit::Lines(bytes))),
            tags: Vec::new(),
            unit: cut.unit,
        }
    }

    fn take(&mut self, request: &Request) -> Result<(), WorkloadError> {
        self.seen += 1;
        if request.op == Op::Flush || request.length.0 == 0 {
            self.flushes += u64::from(request.op == Op::Flush);
            return Ok(());
        }
        if request.volume.0 > Tag::VOLUME_MAX {
            return Err(WorkloadError::Volumes { max: Tag::VOLUME_MAX + 1 });
        }
        let discard = request.op == Op::Trim;
        self.check_length(request, discard)?;
        let tag = Tag::new(request.volume.0, request.op == Op::Write);
        let count = if discard {
            if let Some(chunks) = &mut self.chunks {
                chunks.discard(request)?;
            }
            self.lines.discard(request)?
        } else {
            if let Some(chunks) = &mut self.chunks {
                chunks.access(request)?;
            }
            self.lines.access(request)?
        };
        self.tags.extend(std::iter::repeat_n(tag, count as usize));
        self.heads.push(Head {
            time: request.time,
            offset: request.offset,
            length: u32::try_from(request.length.0).unwrap_or(u32::MAX),
            tag,
            discard,
        });
        Ok(())
    }

    fn check_length(&self, request: &Request, discard: bool) -> Result<(), WorkloadError> {
        let overflows = request.offset.0.checked_add(request.length.0).is_none();
        let too_long = overflows
            || !discard
                && (request.length.0 > u64::from(u32::MAX)
                    || self.lines.count(request) > TOUCHES_PER_REQUEST_MAX);
        if too_long {
            return Err(WorkloadError::Huge {
                index: self.seen,
                length: request.length,
                max: TOUCHES_PER_REQUEST_MAX,
            });
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), WorkloadError> {
        if let Some(chunks) = &mut self.chunks {
            chunks.settle()?;
        }
        self.lines.settle()
    }

    fn finish(self, reader: &dyn TraceReader) -> Result<Workload, WorkloadError> {
        if self.heads.iter().all(|head| head.discard) {
            return Err(WorkloadError::Empty);
        }
        let lines = self.lines.finish()?;
        Ok(Workload {
            unit: self.unit,
            heads: self.heads,
            volumes: reader.volumes().to_vec(),
            sampling: Sampling { rate: 1.0, touches: lines.ids.len() as u64 },
            lines,
            tags: self.tags,
            chunks: self.chunks.map(Cutter::finish).transpose()?,
            flushes: self.flushes,
            repairs: reader.repairs(),
        })
    }
}
