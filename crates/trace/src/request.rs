//! One block request, the same whatever format it came from.

use thermocline_units::{Bytes, Nanos, VolumeId};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Op {
    /// Reads a range.
    Read = 0,
    /// Writes a range.
    Write = 1,
    /// Makes earlier writes durable; has no range.
    Flush = 2,
    /// Discards a range.
    Trim = 3,
}

/// A digest of one 4 KiB block's content, as the trace recorded it (MD5 of FIU; shorter digests are
/// padded with zeroes at the end).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ContentHash(pub [u8; 16]);

/// Range of a request's content hashes in [`Batch::hashes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct HashRange {
    /// Index of the first.
    pub start: u32,
    /// Number of hashes; 0 where the trace has none.
    pub count: u32,
}

/// One block request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Issue time since the trace's time zero (its first request).
    pub time: Nanos,
    /// The volume (disk, LUN, VM disk) it addresses; names are in `TraceReader::volumes`.
    pub volume: VolumeId,
    /// Its kind.
    pub op: Op,
    /// First byte addressed.
    pub offset: Bytes,
    /// Bytes addressed; 0 for a flush.
    pub length: Bytes,
    /// Time that the recorded device took, where the trace says so.
    pub response: Option<Nanos>,
    /// Content hashes, one a 4 KiB block, where the trace has them.
    pub hashes: HashRange,
}

impl Request {
    /// One past the last byte addressed.
    pub fn end(&self) -> Bytes {
        Bytes(self.offset.0 + self.length.0)
    }
}

/// A block of requests, reused from call to call.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The requests, in trace order.
    pub requests: Vec<Request>,
    /// Content hashes the requests refer to.
    pub hashes: Vec<ContentHash>,
}

impl Batch {
    /// Requests at most in one batch.
    pub const CAPACITY: usize = 256;

    /// Content hashes after which a reader ends a batch early, so that its memory stays bounded:
    /// 4 MiB, and what its last request adds.
    pub(crate) const HASHES_MAX: usize = 1 << 18;

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.hashes.clear();
    }

    /// The content hashes of one of its requests.
    ///
    /// # Panics
    /// When the request is another batch's, and its hashes lie beyond those of this one.
    pub fn hashes_of(&self, request: &Request) -> &[ContentHash] {
        let start = request.hashes.start as usize;
        let end = start + request.hashes.count as usize;
        assert!(end <= self.hashes.len(), "a request's hashes are in its own batch");
        self.hashes.get(start..end).unwrap_or_default()
    }

    /// Appends a request's content hashes and says where they lie.
    ///
    /// # Panics
    /// When a batch would hold more than 2³² hashes.
    pub fn push_hashes(&mut self, hashes: &[ContentHash]) -> HashRange {
        if hashes.is_empty() {
            return HashRange::default();
        }
        let lengths = (u32::try_from(self.hashes.len()), u32::try_from(hashes.len()));
        let (Ok(start), Ok(count)) = lengths else {
            panic!("a batch holds less than 2^32 hashes");
        };
        self.hashes.extend_from_slice(hashes);
        HashRange { start, count }
    }
}
