//! MODP and MAXP: the cut points of packet-level redundancy elimination.
//!
//! Both look at the fingerprints of `rabin_source`, one window in [`SAMPLING_PERIOD`] on average:
//!
//! - MODP takes windows whose fingerprint is 0 modulo the period (Spring and Wetherall, "A
//!   Protocol-Independent Technique for Eliminating Redundant Network Traffic", SIGCOMM 2000).
//! - MAXP takes windows whose fingerprint is the greatest within half a period on both sides (Anand
//!   et al., SIGMETRICS 2009; Aggarwal et al., "EndRE", NSDI 2010).
//!
//! In those papers a window that was seen before is grown to both sides until bytes differ. Here
//! the windows are ends of chunks, and chunks are what is found again: there is no growing.

use crate::candidates::{Candidates, Marks};
use crate::rabin_source::{self, fingerprints};

/// One window in this many is taken, on average.
pub const SAMPLING_PERIOD: u32 = 32;

const HALF: usize = SAMPLING_PERIOD as usize / 2;

/// MODP's candidates.
#[derive(Debug, Clone, Copy)]
pub struct ModP;

impl Candidates for ModP {
    fn window(&self) -> usize {
        rabin_source::WINDOW
    }

    fn mark(&self, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
        fingerprints(bytes, |at, value| {
            if value.is_multiple_of(u64::from(SAMPLING_PERIOD)) {
                marks.set(at, true);
            }
        });
    }
}

/// MAXP's candidates. A chunk ends half a period after the window with the greatest fingerprint,
/// when it is known to be that, so that candidates depend on earlier bytes only.
#[derive(Debug, Clone, Copy)]
pub struct MaxP;

impl Candidates for MaxP {
    fn window(&self) -> usize {
        rabin_source::WINDOW + 2 * HALF
    }

    fn mark(&self, bytes: &[u8], marks: &mut Marks) {
        marks.clear(bytes.len());
        let mut values = vec![0; bytes.len()];
        fingerprints(bytes, |at, value| values[at] = value);
        for at in self.window() - 1..bytes.len() {
            let (before, from) = values[at - 2 * HALF..=at].split_at(HALF);
            let (middle, after) = (from[0], &from[1..]);
            // Strictly greater than what came before: equal neighbours (runs) take none.
            if before.iter().all(|&v| v < middle) && after.iter().all(|&v| v <= middle) {
                marks.set(at, true);
            }
        }
    }
}
