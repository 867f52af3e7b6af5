//! A trace as a stream of blocks: what is replayed without ever being held whole.

use super::dense::{Address, Addressed, DenseIds};
use super::{Block, Cut, Head, Mix, Touches, Unit, WorkloadError};
use std::ops::Range;
use thermocline_policy::cache::Tag;
use thermocline_trace::{Batch, Op, Request, TraceReader};
use thermocline_units::{Bytes, LineId};

/// Lines one request may touch: 4 GiB in lines of 512 B.
pub(super) const TOUCHES_PER_REQUEST_MAX: u64 = 1 << 23;
/// Requests after which a block is closed, unless told otherwise: enough that many replays taking
/// turns over blocks do not live off each other's cold caches.
const BLOCK_REQUESTS: usize = 1 << 16;
/// Touches after which a block is closed.
const BLOCK_TOUCHES: usize = 1 << 20;
/// Touches that are numbered at once, or a few more: enough that memory works ahead of lookups.
const PENDING_TOUCHES: usize = 1 << 12;

/// Cuts a trace into blocks of lines (and chunks) with dense numbers.
pub struct Stream<'a> {
    reader: &'a mut dyn TraceReader,
    batch: Batch,
    unit: Unit,
    lines: DenseIds,
    chunks: Option<(Unit, DenseIds)>,
    /// Volumes that a block has named.
    volumes: usize,
    block_requests: usize,
    pending_lines: Vec<Address>,
    pending_chunks: Vec<Address>,
    /// Heads of the block whose objects have numbers. Objects wait in their heads, lines in
    /// `pending_lines`.
    numbered: usize,
    /// Requests of the trace so far, of every kind.
    seen: u64,
    flushes: u64,
}

impl<'a> Stream<'a> {
    /// A stream of `reader`'s requests.
    pub fn new(reader: &'a mut dyn TraceReader, cut: Cut) -> Stream<'a> {
        Stream {
            reader,
            batch: Batch::default(),
            unit: cut.unit,
            lines: DenseIds::new(cut.unit),
            chunks: cut.chunk.map(Unit::Lines).map(|unit| (unit, DenseIds::new(unit))),
            volumes: 0,
            block_requests: BLOCK_REQUESTS,
            pending_lines: Vec::new(),
            pending_chunks: Vec::new(),
            numbered: 0,
            seen: 0,
            flushes: 0,
        }
    }

    /// Clears `block` and fills it with what comes next; whether anything came.
    ///
    /// # Errors
    /// When the trace cannot be read or is larger than the numbers.
    pub fn fill(&mut self, block: &mut Block) -> Result<bool, WorkloadError> {
        block.clear();
        self.numbered = 0;
        while block.heads.len() < self.block_requests && block.lines.ids.len() < BLOCK_TOUCHES {
            let mut batch = std::mem::take(&mut self.batch);
            self.reader.read_batch(&mut batch)?;
            if batch.requests.is_empty() {
                break;
            }
            let mut requests = batch.requests.as_slice();
            while !requests.is_empty() {
                requests = &requests[self.take_objects(requests, block)..];
                if let Some((request, others)) = requests.split_first() {
                    let taken = self.take(request, block);
                    taken.map_err(|error| error.in_input(self.reader))?;
                    requests = others;
                }
            }
            if self.pending(block) >= PENDING_TOUCHES {
                self.settle(block).map_err(|error| error.in_input(self.reader))?;
            }
            self.batch = batch;
        }
        self.settle(block).map_err(|error| error.in_input(self.reader))?;
        block.new_volumes.extend_from_slice(&self.reader.volumes()[self.volumes..]);
        self.volumes += block.new_volumes.len();
        Ok(!block.heads.is_empty())
    }

    /// Closes blocks after about so many requests.
    pub(crate) fn close_after(&mut self, requests: usize) {
        self.block_requests = requests;
    }

    /// Bytes of memory that numbering takes.
    pub fn bytes(&self) -> u64 {
        self.lines.bytes() + self.chunks.as_ref().map_or(0, |(_, ids)| ids.bytes())
    }

    /// Flushes so far, which no policy sees.
    pub fn flushes(&self) -> u64 {
        self.flushes
    }

    /// Bytes of input read so far.
    pub fn bytes_read(&self) -> u64 {
        self.reader.bytes_read()
    }

    /// Repairs by the reader so far.
    pub fn repairs(&self) -> Vec<String> {
        self.reader.repairs()
    }

    /// Touches of lines that wait for their numbers.
    fn pending(&self, block: &Block) -> usize {
        match self.unit {
            Unit::Objects => block.heads.len() - self.numbered,
            Unit::Lines(_) => self.pending_lines.len(),
        }
    }

    /// Takes reads and writes of objects, column by column, up to the first request that needs
    /// more thought; how many.
    fn take_objects(&mut self, requests: &[Request], block: &mut Block) -> usize {
        if self.unit != Unit::Objects || self.chunks.is_some() {
            return 0;
        }
        let start = block.heads.len();
        let mut taken = requests.len();
        let strange = take_heads(requests, &mut block.heads);
        if strange != 0 {
            block.heads.truncate(start);
            let plain = plain_ones(requests);
            taken = plain.len();
            take_heads(plain, &mut block.heads);
        }
        self.seen += taken as u64;
        let before = (block.lines.ids.len() + start - self.numbered) as u32;
        block.lines.ends.extend((1..=taken as u32).map(|i| before + i));
        let tags = block.heads[start..].iter().map(|head| head.tag);
        block.tags.extend(tags.clone());
        block.mix.writes |= tags.fold(false, |writes, tag| writes | tag.is_write());
        taken
    }

    fn take(&mut self, request: &Request, block: &mut Block) -> Result<(), WorkloadError> {
        self.seen += 1;
        if request.op == Op::Flush || request.length.0 == 0 {
            self.flushes += u64::from(request.op == Op::Flush);
            return Ok(());
        }
        if request.volume.0 > Tag::VOLUME_MAX {
            return Err(WorkloadError::Volumes { place: String::new(), max: Tag::VOLUME_MAX + 1 });
        }
        check_length(self.unit, request, self.seen)?;
        let before = block.lines.ids.len() + self.pending(block);
        let object = usize::from(self.unit == Unit::Objects && request.op != Op::Trim);
        if request.op == Op::Trim {
            self.discard(request, block)?;
        } else {
            if object == 0 {
                add(self.unit, request, &mut self.pending_lines);
            }
            if let (Some((unit, _)), Some(chunks)) = (&self.chunks, &mut block.chunks) {
                add(*unit, request, &mut self.pending_chunks);
                chunks.ends.push((chunks.ids.len() + self.pending_chunks.len()) as u32);
            }
        }
        let after = block.lines.ids.len() + self.pending(block) + object;
        block.lines.ends.push(after as u32);
        let tag = Tag::new(request.volume.0, request.op == Op::Write);
        block.tags.extend(std::iter::repeat_n(tag, after.saturating_sub(before)));
        block.mix.writes |= tag.is_write();
        block.mix.discards |= request.op == Op::Trim;
        block.mix.spans |= after != before + 1;
        block.heads.push(Head {
            time: request.time,
            offset: request.offset,
            length: u32::try_from(request.length.0).unwrap_or(u32::MAX),
            tag,
            discard: request.op == Op::Trim,
        });
        if request.op == Op::Trim {
            self.numbered = block.heads.len();
        }
        Ok(())
    }

    /// A discard touches only units that it covers whole and that were seen before.
    fn discard(&mut self, request: &Request, block: &mut Block) -> Result<(), WorkloadError> {
        self.settle(block)?;
        known(&self.lines, self.unit, request, &mut block.lines.ids);
        if let (Some((unit, ids)), Some(chunks)) = (&self.chunks, &mut block.chunks) {
            known(ids, *unit, request, &mut chunks.ids);
            chunks.ends.push(chunks.ids.len() as u32);
        }
        Ok(())
    }

    /// Numbers what is pending.
    fn settle(&mut self, block: &mut Block) -> Result<(), WorkloadError> {
        let too_many = |_| WorkloadError::Lines { place: String::new(), max: LineId::MAX.0 };
        let Touches { ids, new, .. } = &mut block.lines;
        if self.unit == Unit::Objects {
            self.lines.number(&block.heads[self.numbered..], ids, new).map_err(too_many)?;
            self.numbered = block.heads.len();
        } else {
            self.lines.number(&self.pending_lines, ids, new).map_err(too_many)?;
            self.pending_lines.clear();
        }
        if let (Some((_, numbers)), Some(chunks)) = (&mut self.chunks, &mut block.chunks) {
            let Touches { ids, new, .. } = chunks;
            numbers.number(&self.pending_chunks, ids, new).map_err(too_many)?;
            self.pending_chunks.clear();
        }
        Ok(())
    }
}

impl Addressed for Head {
    /// The address of a read or write of an object.
    #[inline(always)]
    fn address(&self) -> Address {
        Address { volume: self.tag.volume(), unit: self.offset.0 }
    }
}

/// The requests before the first that needs more thought than an object's plain read or write.
fn plain_ones(requests: &[Request]) -> &[Request] {
    let plain = requests.iter().take_while(|request| strangeness(request) == 0).count();
    &requests[..plain]
}

/// Appends the heads of reads and writes of objects. They mean nothing unless what it returns is 0:
/// then no request needs more thought.
#[inline(always)]
fn take_heads(requests: &[Request], heads: &mut Vec<Head>) -> u64 {
    let mut strange = 0;
    heads.extend(requests.iter().map(|request| {
        strange |= strangeness(request);
        let volume = request.volume.0 & Tag::VOLUME_MAX;
        Head {
            time: request.time,
            offset: request.offset,
            length: request.length.0 as u32,
            tag: Tag::new(volume, request.op == Op::Write),
            discard: false,
        }
    }));
    strange
}

/// Zero for a read or write of 1 to 2³² − 1 bytes below byte 2⁶³ of a volume that a tag can carry.
/// Shifts, because comparisons cost twice as much.
#[inline(always)]
fn strangeness(request: &Request) -> u64 {
    const { assert!(Op::Read as u8 | Op::Write as u8 == 1 && Tag::VOLUME_MAX >> 15 == 0) };
    let (offset, length) = (request.offset.0, request.length.0);
    offset >> 63
        | (length | length.wrapping_sub(1)) >> 32
        | u64::from(request.volume.0 >> 15)
        | u64::from(request.op as u8 >> 1)
}

/// That a request touches no more lines than can be taken; `index` counts requests from 1.
pub(super) fn check_length(unit: Unit, request: &Request, index: u64) -> Result<(), WorkloadError> {
    let overflows = request.offset.0.checked_add(request.length.0).is_none();
    let too_long = overflows
        || request.op != Op::Trim
            && (request.length.0 > u64::from(u32::MAX)
                || count(unit, request) > TOUCHES_PER_REQUEST_MAX);
    if too_long {
        let (length, max) = (request.length, TOUCHES_PER_REQUEST_MAX);
        return Err(WorkloadError::Huge { place: String::new(), index, length, max });
    }
    Ok(())
}

/// The units that `request` touches.
pub(super) fn units(unit: Unit, request: &Request) -> Range<u64> {
    let first = match unit {
        Unit::Objects => request.offset.0,
        Unit::Lines(Bytes(bytes)) => request.offset.0 / bytes,
    };
    first..first + count(unit, request)
}

/// Number of units that the request touches.
fn count(unit: Unit, request: &Request) -> u64 {
    match unit {
        Unit::Objects => 1,
        Unit::Lines(Bytes(bytes)) => (request.end().0 - 1) / bytes - request.offset.0 / bytes + 1,
    }
}

/// Appends the units that `request` touches.
#[inline(always)]
fn add(unit: Unit, request: &Request, pending: &mut Vec<Address>) {
    let volume = request.volume.0;
    match unit {
        Unit::Objects => pending.push(Address { volume, unit: request.offset.0 }),
        Unit::Lines(_) => {
            pending.extend(units(unit, request).map(|unit| Address { volume, unit }));
        }
    }
}

/// Appends the units that `request` covers whole and that have numbers.
pub(super) fn known(ids: &DenseIds, unit: Unit, request: &Request, out: &mut Vec<LineId>) {
    let volume = request.volume.0;
    let units = match unit {
        Unit::Objects => request.offset.0..request.offset.0 + 1,
        Unit::Lines(Bytes(bytes)) => request.offset.0.div_ceil(bytes)..request.end().0 / bytes,
    };
    if units.end.saturating_sub(units.start) <= u64::from(ids.len()) {
        out.extend(units.filter_map(|unit| ids.get(Address { volume, unit })));
    } else {
        // The range is larger than everything seen: walk what was seen instead.
        let start = out.len();
        let inside = ids.units_of(volume).filter(|(unit, _)| units.contains(unit));
        out.extend(inside.map(|(_, id)| id));
        out[start..].sort_unstable();
    }
}

impl Touches {
    fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
        self.new.clear();
    }
}

impl Block {
    fn clear(&mut self) {
        self.heads.clear();
        self.tags.clear();
        self.lines.clear();
        self.mix = Mix::default();
        self.new_volumes.clear();
        if let Some(chunks) = &mut self.chunks {
            chunks.clear();
        }
    }
}

#[cfg(test)]
mod tests;
