//! Flash shared by several VMs as one LRU partition each; who gets how much differs.
//!
//! - [`equal`]: equal parts for ever, the baseline;
//! - [`ucp`]: sizes that maximise the hits of all VMs together, from their miss-ratio curves;
//! - [`eci`]: sizes by useful re-references, and no writes for VMs whose writes earn nothing.
//!
//! A VM is a [`Tag`]'s volume. Sizes change at the end of an epoch; lines move lazily: a VM above
//! its quota loses its oldest lines one by one to the misses of VMs below theirs, so that no access
//! evicts more than one line. Partitions that are sized lend what is free.
//! State: 18 B a line of capacity (8 slot, 8 links, 2 owner), 4 B a distinct line, and what the
//! sharing rule keeps.

mod demand;
pub(super) mod eci;
pub(super) mod equal;
mod lists;
mod lookahead;
pub(super) mod ucp;

use self::lists::Partitions;
use super::{CachePolicy, Outcome, PREFETCH_FAR, PREFETCH_NEAR, Tag};
use crate::Footprint;
use thermocline_units::{LineId, Nanos};

/// Division of the cache: who gets how much, and who may write.
trait Sharing: Send {
    /// Lines below `universe` may be named from now on.
    fn reserve(&mut self, _universe: u32) {}

    /// Takes note of an access. O(log sample) at most.
    fn observe(&mut self, line: LineId, tag: Tag);

    /// True if writes of `volume` go past the cache.
    fn writes_around(&self, _volume: u32) -> bool {
        false
    }

    /// Ends an epoch: may set new quotas.
    fn end_epoch(&mut self, partitions: &mut Partitions);

    /// Bytes in use now: those that grow with capacity or VMs, those that grow with distinct lines.
    fn footprint(&self) -> Footprint;
}

/// A cache in partitions that `S` sizes.
#[derive(Debug)]
struct Partitioned<S> {
    partitions: Partitions,
    sharing: S,
}

impl<S: Sharing> CachePolicy for Partitioned<S> {
    fn reserve(&mut self, universe: u32) {
        self.partitions.reserve(universe);
        self.sharing.reserve(universe);
    }

    fn access_batch(&mut self, lines: &[LineId], tags: &[Tag], out: &mut [Outcome]) {
        assert!(
            lines.len() == tags.len() && lines.len() == out.len(),
            "one tag and outcome a line"
        );
        for i in 0..lines.len() {
            if let Some(&coming) = lines.get(i + PREFETCH_FAR) {
                self.partitions.prefetch_far(coming);
            }
            if let Some(&coming) = lines.get(i + PREFETCH_NEAR) {
                self.partitions.prefetch_near(coming);
            }
            out[i] = self.access(lines[i], tags[i]);
        }
    }

    fn access(&mut self, line: LineId, tag: Tag) -> Outcome {
        self.sharing.observe(line, tag);
        if tag.is_write() && self.sharing.writes_around(tag.volume()) {
            self.partitions.invalidate(line);
            return Outcome::BYPASSED;
        }
        self.partitions.access(line, tag.volume())
    }

    fn contains(&self, line: LineId) -> bool {
        self.partitions.contains(line)
    }

    fn invalidate(&mut self, line: LineId) -> bool {
        self.partitions.invalidate(line)
    }

    fn resident(&self) -> u32 {
        self.partitions.resident()
    }

    fn footprint(&self) -> Footprint {
        let (lists, sharing) = (self.partitions.footprint(), self.sharing.footprint());
        Footprint {
            resident: lists.resident + sharing.resident,
            index: lists.index + sharing.index,
        }
    }

    fn end_epoch(&mut self, _now: Nanos) {
        self.sharing.end_epoch(&mut self.partitions);
    }
}

#[cfg(test)]
mod tests;
