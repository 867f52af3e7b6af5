//! Requests under way, by chunk: the sub-requests of clients' requests, and what a chunk in use
//! waits for.

use crate::io::request::{Priority, RequestError};
use crate::io::scheduler::Lane;
use crate::map::place::Place;
use crate::settings::{COPIES_MAX, POOLS_MAX};
use std::collections::VecDeque;
use std::ops::Range;
use thermocline_ports::Payload;
use thermocline_units::{ChunkId, PoolId};

/// Action of a sub-request on its chunk.
#[derive(Debug, Clone)]
pub(crate) enum Verb {
    Read,
    Write(Payload),
    Zero,
    Discard,
}

/// The part of a request that concerns one chunk.
#[derive(Debug)]
pub(crate) struct SubRequest {
    pub(in crate::io) request: u32,
    pub(in crate::io) chunk: ChunkId,
    /// Bytes within the chunk.
    pub(in crate::io) range: Range<u32>,
    pub(in crate::io) verb: Verb,
    pub(in crate::io) fua: bool,
    pub(in crate::io) priority: Priority,
    /// The pool whose queue it waits in, or whose place it has.
    pub(in crate::io) lane: Lane,
    /// Its number among all sub-requests, in the order in which they were begun.
    pub(in crate::io) order: u64,
    pub(in crate::io) outstanding: u32,
    /// Pools that failed a write, and that did it: one bit each.
    pub(in crate::io) failed: u64,
    pub(in crate::io) succeeded: u64,
    pub(in crate::io) error: Option<RequestError>,
    /// Places to which its runs were sent, on a chunk in two parts. Places, because the sides may
    /// change under it: what was above may be the base by the time it is answered.
    pub(in crate::io) sent: Vec<(Range<u32>, Place)>,
    /// Copies that could not be read, and sides of a mirrored chunk that failed it. Places, because
    /// the chunk may leave a pool and come back to it meanwhile.
    pub(in crate::io) avoided: Vec<Place>,
    /// True if its chunk answers, because lines could not.
    pub(in crate::io) passes_lines: bool,
    /// Pools that could not open a slot for the chunk.
    pub(in crate::io) unfit: u64,
    /// Destination of an operation that a write brings its blocks to.
    pub(in crate::io) feeds: Option<Place>,
    /// The pool on which the sub-request has just placed its new chunk.
    pub(in crate::io) placed_on: Option<PoolId>,
}

impl SubRequest {
    /// A part of request number `request` in front of everything, in no lane, that has not begun.
    pub(in crate::io) fn new(
        request: u32,
        chunk: ChunkId,
        range: Range<u32>,
        verb: Verb,
    ) -> SubRequest {
        SubRequest {
            request,
            chunk,
            range,
            verb,
            fua: false,
            priority: Priority::Foreground,
            lane: Lane::NONE,
            order: 0,
            outstanding: 0,
            failed: 0,
            succeeded: 0,
            error: None,
            sent: Vec::new(),
            avoided: Vec::new(),
            passes_lines: false,
            unfit: 0,
            feeds: None,
            placed_on: None,
        }
    }

    pub(crate) fn chunk(&self) -> ChunkId {
        self.chunk
    }

    /// Bytes within the chunk.
    pub(crate) fn range(&self) -> &Range<u32> {
        &self.range
    }

    /// Its number among all sub-requests, in the order in which they were begun; 0: it has not.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    /// True if it writes a client's bytes.
    pub(crate) fn has_contents(&self) -> bool {
        matches!(self.verb, Verb::Write(_))
    }

    /// True if a run of it was sent to this place of a chunk in two parts.
    pub(crate) fn was_sent_to(&self, place: Place) -> bool {
        self.sent.iter().any(|(_, to)| *to == place)
    }

    /// Lets it end with this error.
    pub(crate) fn fail(&mut self, error: RequestError) {
        self.error = Some(error);
    }

    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb, Verb::Read)
    }

    pub(crate) fn overlaps(&self, range: &Range<u32>) -> bool {
        self.range.start < range.end && range.start < self.range.end
    }
}

/// A chunk with sub-requests or an operation under way.
#[derive(Debug, Default)]
pub(crate) struct BusyChunk {
    pub(in crate::io) running: Vec<u32>,
    pub(in crate::io) waiting: VecDeque<u32>,
    /// The sub-request for whose write a slot is being sought (none yet) or made ready.
    pub(in crate::io) opening: Option<(u32, Option<Place>)>,
    /// True if the journal is being told that the copies may differ from now on.
    pub(in crate::io) intent: bool,
    /// Copies that the journal still calls equal to the others, and that take no more writes.
    pub(in crate::io) dropping: u32,
    /// True if a sub-request waits until the journal has taken what is queued.
    pub(in crate::io) awaits_room: bool,
    /// True if sub-requests are being let in right now.
    pub(in crate::io) easing: bool,
    pub(in crate::io) operation: Option<u32>,
    /// Sub-requests begun, among all, when a write to the chunk last began or ended: reads that
    /// began no later may have met it.
    pub(in crate::io) written: u64,
    /// True if blocks of a copy are being written again.
    pub(in crate::io) repairing: bool,
    /// Slots that the chunk has left, and the order before which sub-requests may still be on them.
    pub(in crate::io) left: Vec<(u64, Place)>,
}

const _: () = assert!(POOLS_MAX <= u64::BITS as usize, "a set of pools has a bit for each");

/// The bit of a pool, in sets of pools.
pub(crate) fn bit(pool: PoolId) -> u64 {
    1 << pool.0
}

impl BusyChunk {
    /// Sub-requests on it.
    pub(crate) fn running(&self) -> &[u32] {
        &self.running
    }

    /// The operation on it.
    pub(crate) fn operation(&self) -> Option<u32> {
        self.operation
    }

    /// An operation begins on it, or ends.
    ///
    /// # Panics
    /// When one begins beside another, or ends that never began.
    pub(crate) fn set_operation(&mut self, operation: Option<u32>) {
        let before = std::mem::replace(&mut self.operation, operation);
        assert_ne!(before.is_some(), operation.is_some(), "a chunk has one operation");
    }

    /// True if the journal is being told that the copies may differ from now on.
    pub(crate) fn is_announcing(&self) -> bool {
        self.intent
    }

    /// True if blocks of a copy are being written again.
    pub(crate) fn is_repaired(&self) -> bool {
        self.repairing
    }

    /// Slots that the chunk has left, and that sub-requests may still be on.
    pub(crate) fn slots_left(&self) -> impl Iterator<Item = Place> + '_ {
        self.left.iter().map(|&(_, place)| place)
    }

    /// The sub-request for whose write a slot is being made ready, and the slot.
    pub(crate) fn slot_that_opens(&self) -> Option<(u32, Place)> {
        self.opening.and_then(|(sub_request, place)| Some((sub_request, place?)))
    }

    /// The journal is told that the copies may differ from now on; false: it is being told already.
    pub(crate) fn announce(&mut self) -> bool {
        !std::mem::replace(&mut self.intent, true)
    }

    /// A copy was dropped that the journal still calls equal to the others.
    pub(crate) fn begin_drop(&mut self) {
        self.dropping += 1;
        assert!(self.dropping < COPIES_MAX as u32, "a copy stays, whatever is dropped");
    }

    /// Blocks of a copy are written again.
    ///
    /// # Panics
    /// When others are already.
    pub(crate) fn begin_repair(&mut self) {
        assert!(!std::mem::replace(&mut self.repairing, true), "one repair at a time");
    }

    /// All blocks of a copy that were wrong have been written again.
    pub(crate) fn end_repair(&mut self) {
        self.repairing = false;
    }

    /// A write to the chunk began or ended when so many sub-requests had begun.
    pub(crate) fn note_write(&mut self, begun: u64) {
        debug_assert!(self.written <= begun, "the number of sub-requests grows");
        self.written = begun;
    }

    /// True if a write began or ended since the `order`th sub-request began: a read that it was may
    /// have met it.
    pub(crate) fn was_written_since(&self, order: u64) -> bool {
        self.written >= order
    }

    /// True if nobody is on the chunk, and nothing is waited for.
    pub(crate) fn is_over(&self) -> bool {
        self.running.is_empty()
            && self.waiting.is_empty()
            && self.opening.is_none()
            && self.operation.is_none()
            && !self.repairing
            && self.left.is_empty()
            && self.dropping == 0
            && !self.intent
    }
}

#[cfg(test)]
pub(crate) mod tests;
