//! Random choices of a seed: the store's settings, its disk's faults, contents of blocks.

use crate::model::{Value, ZERO};
use thermocline_content::{BLOCK, Settings};
use thermocline_policy::tactics::StoreTactics;
use thermocline_ports::faulty::{Background, Faults};
use thermocline_units::{Bytes, Nanos, Rng};

/// Contents that are used repeatedly.
const PALETTE: u64 = 24;

pub(super) fn draw_settings(rng: &mut Rng, faults: &Faults) -> Settings {
    let segment = if rng.below(2) == 0 { 16 } else { 16 + rng.below(24) };
    let few_bits = faults.flip == 0.0 && rng.below(3) == 0;
    Settings {
        segment: Bytes(segment * u64::from(BLOCK)),
        journal_blocks: 16 + rng.below(12) as u32,
        fanout: 8 + rng.below(9) as u32,
        known_blocks: 1 << (rng.below(4) * 2),
        index_bits: if few_bits { 3 } else { 64 },
        verify_reads: true,
        discard: rng.below(2) == 0,
        clean_below_percent: [0, 10, 30, 50][rng.below(4) as usize],
        tactics: draw_tactics(rng.clone()),
    }
}

/// Drawn beside the rest, so that plans of seeds stay as they were.
fn draw_tactics(mut rng: Rng) -> StoreTactics {
    let names = ["clean-cost-benefit", "clean-greedy", "clean-oldest"];
    StoreTactics::of(&[names[rng.below(3) as usize]]).expect("these are tactics")
}

pub(super) fn draw_faults(rng: &mut Rng) -> Faults {
    let latency_mean = Nanos::from_micros(100);
    let background = [Background::Garbage, Background::Zeroes][rng.below(2) as usize];
    let mut faults = Faults { latency_mean, background, delay: 0.02, ..Faults::NONE };
    if rng.below(4) == 0 {
        faults.fail = 0.004;
        faults.time_out = 0.001;
        faults.forgets = rng.below(2) == 0;
    }
    if rng.below(10) == 0 {
        faults.flip = 0.004;
    }
    faults
}

/// Contents: some that are repeated, and stamps that are unique.
pub(super) struct Values {
    next: u32,
}

impl Default for Values {
    fn default() -> Values {
        Values { next: 1_000_000 }
    }
}

impl Values {
    /// Zeroes, one of the repeated contents, or a new one.
    pub(super) fn any(&mut self, rng: &mut Rng) -> Value {
        match rng.below(8) {
            0 => ZERO,
            1..=4 => {
                let first = rng.below(PALETTE) as u32 * 8 + 1;
                std::array::from_fn(|sector| first + sector as u32)
            }
            _ => self.new_one(),
        }
    }

    /// Contents that no block had before.
    pub(super) fn new_one(&mut self) -> Value {
        self.next += 8;
        std::array::from_fn(|sector| self.next + sector as u32)
    }

    /// A stamp that no sector had before.
    pub(super) fn stamp(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}
