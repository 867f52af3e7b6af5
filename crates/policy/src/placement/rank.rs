//! Ranking chunks: the hottest of a set, in linear time.
//!
//! One order everywhere: hotter first; of equally hot chunks the one already on flash (it costs no
//! move), then the one with the lower chunk id. No two chunks rank equal, so every selection is
//! unique and a run is repeatable.

use super::heat::HeatMap;
use std::cmp::Reverse;

/// A chunk with what ranks it. Sorts hottest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// Bits of a temperature, or a frequency; larger is hotter.
    heat: Reverse<u64>,
    /// Bit 63: not on flash. Below it the volume (31 bits) and the chunk's index (32 bits).
    tie: u64,
    pub(super) number: u32,
}

impl Candidate {
    fn new(map: &HeatMap, number: u32, heat: u64) -> Candidate {
        let chunk = map.chunks.id(number);
        debug_assert!(chunk.volume.0 < 1 << 31, "a volume's number has 31 bits");
        let id = u64::from(chunk.volume.0) << 32 | u64::from(chunk.index);
        let tie = u64::from(!map.is_on_flash(number)) << 63 | id;
        Candidate { heat: Reverse(heat), tie, number }
    }

    /// `chunk` ranked by its temperature; `map.look` must have been called.
    #[inline]
    pub(super) fn by_temperature(map: &HeatMap, number: u32) -> Candidate {
        // Bits of floats that are not negative order as the floats do.
        Candidate::new(map, number, map.temperature(number).to_bits())
    }

    /// `chunk` ranked by a count.
    #[inline]
    pub(super) fn by_count(map: &HeatMap, number: u32, count: u32) -> Candidate {
        Candidate::new(map, number, count.into())
    }

    pub(super) fn is_on_flash(&self) -> bool {
        self.tie >> 63 == 0
    }

    pub(super) fn is_cold(&self) -> bool {
        self.heat.0 == 0
    }
}

/// Reorders `candidates` so that the `count` hottest come first, and splits there; neither part is
/// sorted. O(n).
pub(super) fn hottest(
    candidates: &mut [Candidate],
    count: usize,
) -> (&mut [Candidate], &mut [Candidate]) {
    if count > 0 && count < candidates.len() {
        candidates.select_nth_unstable(count - 1);
    }
    candidates.split_at_mut(count.min(candidates.len()))
}
