//! Per-access policies: what a cache of equal lines keeps.
//!
//! A policy is written as a [`Replacement`] (one access at a time, plus two prefetch hooks) and
//! gets [`CachePolicy`], the joint that the laboratory, the engine and Python hold, from it:
//! batches with the state of coming accesses already on its way to the processor.
//!
//! Lines are dense numbers ([`LineId`]); whoever feeds the policy owns the map from addresses. A
//! policy neither knows what is dirty nor what an access costs: the caller does.

pub mod admission;
mod arc;
mod arrivals;
mod belady;
mod car;
mod clock;
mod elru;
mod fifo;
pub(crate) mod foreign;
mod lane;
mod links;
mod lirs;
mod log;
mod lru;
mod lru_2;
mod lru_sweep;
mod merlin;
mod pair;
mod partition;
mod s3_fifo;
mod s3_shadow;
mod sets;
mod sieve;
mod single;
mod sketch;
mod two_q;
mod w_tiny_lfu;

pub use foreign::{ForeignCache, ForeignPolicy};
pub(crate) use links::{Links, NONE, Queue, Slots};
pub use lru_sweep::LruSweep;
pub use sets::{Placed, SetRule, Sets};

use crate::Footprint;
use thermocline_units::{LineId, Nanos};

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] = &[
    fifo::ENTRY,
    clock::ENTRY,
    lru::ENTRY,
    elru::ENTRY,
    lru_2::ENTRY,
    two_q::ENTRY,
    arc::ENTRY,
    car::ENTRY,
    sieve::ENTRY,
    lirs::ENTRY,
    s3_fifo::ENTRY,
    s3_shadow::ENTRY,
    w_tiny_lfu::ENTRY,
    merlin::ENTRY,
    sets::ENTRIES[0],
    sets::ENTRIES[1],
    sets::ENTRIES[2],
    belady::ENTRY,
];

/// Policies that share a cache out among volumes, and so must know how many there are.
pub(crate) const SHARED: &[crate::registry::Entry] =
    &[partition::equal::ENTRY, partition::ucp::ENTRY, partition::eci::ENTRY];

/// Makes an index from line to word hold lines below `universe`; 0 is "not here".
fn grow(index: &mut Vec<u32>, universe: u32) {
    if index.len() < universe as usize {
        index.resize(universe as usize, 0);
    }
}

/// The volume that a line belongs to, and whether this access writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Tag(u16);

impl Tag {
    /// The largest volume number a tag can carry.
    pub const VOLUME_MAX: u32 = (1 << 15) - 1;

    /// A tag for an access of `volume`.
    ///
    /// # Panics
    /// When `volume` exceeds [`Tag::VOLUME_MAX`].
    pub const fn new(volume: u32, write: bool) -> Tag {
        assert!(volume <= Tag::VOLUME_MAX, "more volumes than a tag can carry");
        Tag((volume as u16) << 1 | write as u16)
    }

    /// The volume's number.
    pub const fn volume(self) -> u32 {
        (self.0 >> 1) as u32
    }

    /// True if the access writes.
    pub const fn is_write(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The effect of one access on the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Outcome(u32);

impl Outcome {
    /// The line was resident.
    pub const HIT: Outcome = Outcome(u32::MAX);
    /// A miss; the line was admitted into free room.
    pub const ADMITTED: Outcome = Outcome(u32::MAX - 1);
    /// A miss; the line was not admitted, and nothing was evicted. If the line was resident and the
    /// access wrote it, the policy has dropped it.
    pub const BYPASSED: Outcome = Outcome(u32::MAX - 2);

    /// No answer: nothing that an access can do.
    pub(crate) const NOTHING: Outcome = Outcome(u32::MAX - 3);

    /// The outcome that a program outside writes as `code`: the first three are these constants as
    /// they are numbered here, from the largest number down; others name the line that left.
    #[inline]
    pub const fn from_code(code: u32) -> Outcome {
        Outcome(code)
    }

    /// The number that [`Outcome::from_code`] takes.
    #[inline]
    pub const fn code(self) -> u32 {
        self.0
    }

    /// A miss; the line was admitted and `victim` left.
    #[inline]
    pub(crate) const fn evicting(victim: LineId) -> Outcome {
        debug_assert!(victim.0 <= LineId::MAX.0);
        Outcome(victim.0)
    }

    /// True if the line was resident.
    #[inline]
    pub const fn is_hit(self) -> bool {
        self.0 == Outcome::HIT.0
    }

    /// True if the line is resident after the access.
    #[inline]
    pub const fn is_resident(self) -> bool {
        self.0 != Outcome::BYPASSED.0
    }

    /// The line that left, if one did.
    #[inline]
    pub const fn evicted(self) -> Option<LineId> {
        if self.0 <= LineId::MAX.0 { Some(LineId(self.0)) } else { None }
    }
}

/// A replacement rule over equal lines, one access at a time.
///
/// The caller guarantees that `reserve(n)` has been called before a line ≥ the last `n` is named.
/// The implementer must evict at most one line per access, never hold more than its capacity, and
/// keep every operation O(1) amortised (state it where it is not).
pub trait Replacement: Send {
    /// Lines below `universe` may be named from now on. Never shrinks.
    fn reserve(&mut self, universe: u32);

    /// Accesses `line`, which is resident afterwards.
    fn access(&mut self, line: LineId) -> Outcome;

    /// True if `line` is resident. Changes nothing.
    fn contains(&self, line: LineId) -> bool;

    /// Drops `line` if it is resident (a discard, or a write around the cache); whether it was.
    /// Ghost entries may be kept or dropped.
    fn invalidate(&mut self, line: LineId) -> bool;

    /// Notes how many blocks share the content of `line`, if it is resident; most policies do not
    /// care.
    fn set_shares(&mut self, _line: LineId, _count: u32) {}

    /// Lines resident now.
    fn resident(&self) -> u32;

    /// Memory in use now, from the sizes of the structures.
    fn footprint(&self) -> Footprint;

    /// First hint: `line` comes in about [`PREFETCH_FAR`] accesses.
    #[inline]
    fn prefetch_far(&self, _line: LineId) {}

    /// Second hint: `line` comes in about [`PREFETCH_NEAR`] accesses; what `prefetch_far` fetched
    /// has arrived and may be looked at.
    #[inline]
    fn prefetch_near(&self, _line: LineId) {}
}

/// Accesses between the first hint and the access itself.
pub(crate) const PREFETCH_FAR: usize = 24;
/// Accesses between the second hint and the access itself.
pub(crate) const PREFETCH_NEAR: usize = 12;

/// A cache policy as everybody outside this folder holds it.
///
/// The caller guarantees `lines.len() == tags.len() == out.len()`, and `reserve` as for
/// [`Replacement`].
///
/// ```
/// use thermocline_policy::cache::{CachePolicy, Tag};
/// use thermocline_policy::registry::{Built, Geometry, PolicySpec};
/// use thermocline_units::{Bytes, LineId};
///
/// let geometry = Geometry { lines: 2, line_bytes: Bytes(4096), volumes: 1, seed: 1 };
/// let built = PolicySpec::parse("lru").unwrap().build(&geometry, None).unwrap();
/// let Built::Cache(mut lru) = built else { panic!("lru is a cache") };
/// lru.reserve(3);
/// let mut hits = 0;
/// for line in [0, 1, 0, 2, 1] {
///     hits += u32::from(lru.access(LineId(line), Tag::default()).is_hit());
/// }
/// assert_eq!((hits, lru.resident()), (1, 2));
/// assert!(lru.contains(LineId(1)) && !lru.contains(LineId(0)));
/// ```
pub trait CachePolicy: Send {
    /// Lines below `universe` may be named from now on. Never shrinks.
    fn reserve(&mut self, universe: u32);

    /// Accesses the lines in order and writes what each did.
    fn access_batch(&mut self, lines: &[LineId], tags: &[Tag], out: &mut [Outcome]);

    /// One access; same meaning as a batch of one.
    fn access(&mut self, line: LineId, tag: Tag) -> Outcome;

    /// True if `line` is resident. Changes nothing.
    fn contains(&self, line: LineId) -> bool;

    /// Drops `line` if it is resident; whether it was.
    fn invalidate(&mut self, line: LineId) -> bool;

    /// Notes how many blocks share the content of `line`, if it is resident; most policies do not
    /// care.
    fn set_shares(&mut self, _line: LineId, _count: u32) {}

    /// Lines resident now.
    fn resident(&self) -> u32;

    /// Memory in use now.
    fn footprint(&self) -> Footprint;

    /// Called at the end of every epoch, with the time; lets partitions resize.
    fn end_epoch(&mut self, _now: Nanos) {}

    /// The reason why its answers no longer count, if there is one: only policies from outside
    /// fail. Whoever runs it ends the run.
    fn failure(&self) -> Option<&str> {
        None
    }
}

impl<R: Replacement> CachePolicy for R {
    fn reserve(&mut self, universe: u32) {
        Replacement::reserve(self, universe);
    }

    fn access_batch(&mut self, lines: &[LineId], tags: &[Tag], out: &mut [Outcome]) {
        assert!(
            lines.len() == tags.len() && lines.len() == out.len(),
            "one tag and outcome a line"
        );
        for (i, (&line, out)) in lines.iter().zip(out).enumerate() {
            if let Some(&coming) = lines.get(i + PREFETCH_FAR) {
                self.prefetch_far(coming);
            }
            if let Some(&coming) = lines.get(i + PREFETCH_NEAR) {
                self.prefetch_near(coming);
            }
            *out = Replacement::access(self, line);
        }
    }

    fn access(&mut self, line: LineId, _tag: Tag) -> Outcome {
        Replacement::access(self, line)
    }

    fn contains(&self, line: LineId) -> bool {
        Replacement::contains(self, line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        Replacement::invalidate(self, line)
    }

    fn set_shares(&mut self, line: LineId, count: u32) {
        Replacement::set_shares(self, line, count);
    }

    fn resident(&self) -> u32 {
        Replacement::resident(self)
    }

    fn footprint(&self) -> Footprint {
        Replacement::footprint(self)
    }
}

#[cfg(test)]
mod tests;
