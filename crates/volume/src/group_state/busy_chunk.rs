//! Requests under way, by chunk: the sub-requests of clients' requests, and what a chunk in use
//! waits for.

use crate::io::request::{Priority, RequestError};
use crate::io::scheduler::Lane;
use crate::map::Place;
use crate::settings::POOLS_MAX;
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
    pub(crate) request: u32,
    pub(crate) chunk: ChunkId,
    /// Bytes within the chunk.
    pub(crate) range: Range<u32>,
    pub(crate) verb: Verb,
    pub(crate) fua: bool,
    pub(crate) priority: Priority,
    /// The pool whose queue it waits in, or whose place it has.
    pub(crate) lane: Lane,
    /// Its number among all sub-requests, in the order in which they were begun.
    pub(crate) order: u64,
    pub(crate) outstanding: u32,
    /// Pools that failed a write, and that did it: one bit each.
    pub(crate) failed: u64,
    pub(crate) succeeded: u64,
    pub(crate) error: Option<RequestError>,
    /// Places to which its runs were sent, on a chunk in two parts. Places, because the sides may
    /// change under it: what was above may be the base by the time it is answered.
    pub(crate) sent: Vec<(Range<u32>, Place)>,
    /// Copies that could not be read, and sides of a mirrored chunk that failed it. Places, because
    /// the chunk may leave a pool and come back to it meanwhile.
    pub(crate) avoided: Vec<Place>,
    /// True if its chunk answers, because lines could not.
    pub(crate) passes_lines: bool,
    /// Pools that could not open a slot for the chunk.
    pub(crate) unfit: u64,
    /// Destination of an operation that a write brings its blocks to.
    pub(crate) feeds: Option<Place>,
    /// The pool on which the sub-request has just placed its new chunk.
    pub(crate) placed_on: Option<PoolId>,
}

impl SubRequest {
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
    pub(crate) running: Vec<u32>,
    pub(crate) waiting: VecDeque<u32>,
    /// The sub-request for whose write a slot is being sought (none yet) or made ready.
    pub(crate) opening: Option<(u32, Option<Place>)>,
    /// True if the journal is being told that the copies may differ from now on.
    pub(crate) intent: bool,
    /// Copies that the journal still calls equal to the others, and that take no more writes.
    pub(crate) dropping: u32,
    /// True if a sub-request waits until the journal has taken what is queued.
    pub(crate) awaits_room: bool,
    /// True if sub-requests are being let in right now.
    pub(crate) easing: bool,
    pub(crate) operation: Option<u32>,
    /// Sub-requests begun, among all, when a write to the chunk last began or ended: reads that
    /// began no later may have met it.
    pub(crate) written: u64,
    /// True if blocks of a copy are being written again.
    pub(crate) repairing: bool,
    /// Slots that the chunk has left, and the order before which sub-requests may still be on them.
    pub(crate) left: Vec<(u64, Place)>,
}

const _: () = assert!(POOLS_MAX <= u64::BITS as usize, "a set of pools has a bit for each");

/// The bit of a pool, in sets of pools.
pub(crate) fn bit(pool: PoolId) -> u64 {
    1 << pool.0
}

impl BusyChunk {
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
