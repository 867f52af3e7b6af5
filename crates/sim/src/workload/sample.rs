//! Spatial sampling: the part of a workload whose lines fall below a hash threshold.
//!
//! SHARDS (Waldspurger et al., FAST'15) for curves of any policy by miniature simulation (ATC'17):
//! keep a line with probability `rate`, replay what is left at capacities scaled by `rate`. Requests
//! lose lines, so only line hits are estimated, never request hits.

use super::{DenseIds, Sampling, Touches, Workload};
use thermocline_units::LineId;

impl Workload {
    /// The workload reduced to a fraction `rate` (0 < rate < 1) of its distinct lines.
    ///
    /// # Panics
    /// When `rate` is outside its range.
    pub fn sample(&self, rate: f64, seed: u64) -> Workload {
        assert!(rate > 0.0 && rate < 1.0, "a sampling rate lies between 0 and 1");
        let mut renumbered = vec![u32::MAX; self.lines.distinct as usize];
        let mut distinct = 0;
        let mut sampled = Workload {
            unit: self.unit,
            heads: Vec::new(),
            volumes: self.volumes.clone(),
            lines: Touches {
                unit_bytes: self.lines.unit_bytes,
                ids: Vec::new(),
                ends: Vec::new(),
                distinct: 0,
                addresses: Vec::new(),
                index: DenseIds::new(),
            },
            tags: Vec::new(),
            chunks: None,
            flushes: self.flushes,
            repairs: self.repairs.clone(),
            sampling: Sampling { rate: self.sampling.rate * rate, ..self.sampling },
        };
        for (i, head) in self.heads.iter().enumerate() {
            let before = sampled.lines.ids.len();
            for id in &self.lines.ids[self.lines.of(i)] {
                if !keeps(*id, rate, seed) {
                    continue;
                }
                let number = &mut renumbered[id.index()];
                if *number == u32::MAX {
                    *number = distinct;
                    distinct += 1;
                    sampled.lines.addresses.push(self.lines.addresses[id.index()]);
                }
                sampled.lines.ids.push(LineId(*number));
                sampled.tags.push(head.tag);
            }
            if sampled.lines.ids.len() > before {
                sampled.lines.ends.push(sampled.lines.ids.len() as u32);
                sampled.heads.push(*head);
            }
        }
        sampled.lines.distinct = distinct;
        sampled
    }
}

/// Whether the hash of `id` falls below the threshold of `rate`.
fn keeps(id: LineId, rate: f64, seed: u64) -> bool {
    let mut z = (u64::from(id.0) ^ seed.rotate_left(17)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) as f64) < rate * u64::MAX as f64
}
