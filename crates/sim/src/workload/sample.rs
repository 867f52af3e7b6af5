//! Spatial sampling: the part of a workload whose lines fall below a hash threshold.
//!
//! SHARDS (Waldspurger et al., FAST'15) for curves of any policy by miniature simulation (ATC'17):
//! keep a line with probability `rate`, replay what is left at capacities scaled by `rate`. Requests
//! lose lines, so only line hits are estimated, never request hits.

use super::{Address, DenseIds, Sampling, Touches, Workload};
use thermocline_policy::mrc::shards::Sampler;
use thermocline_units::LineId;

/// Sets volumes apart in the sampler's key space: 2⁴⁴ lines of 4 KiB are 64 PiB.
const VOLUME_SHIFT: u32 = 44;

impl Workload {
    /// The workload reduced to the lines that `sampler` keeps.
    pub fn sample(&self, sampler: &Sampler) -> Workload {
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
            sampling: Sampling { rate: self.sampling.rate * sampler.rate(), ..self.sampling },
        };
        for (i, head) in self.heads.iter().enumerate() {
            let before = sampled.lines.ids.len();
            for id in &self.lines.ids[self.lines.of(i)] {
                let Address { volume, unit } = self.lines.addresses[id.index()];
                if !sampler.keeps(u64::from(volume) << VOLUME_SHIFT ^ unit) {
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
