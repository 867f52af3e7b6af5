//! Spatial sampling: the part of a workload whose lines a sampler keeps.
//!
//! SHARDS (Waldspurger et al., FAST'15) for curves of any policy by miniature simulation (ATC'17):
//! keep a line with probability `rate`, replay what is left at capacities scaled by `rate`.
//! Requests lose lines, so only line hits are estimated, never request hits.

use super::dense::{Address, DenseIds};
use super::{Block, Cut, Names, Sampling, Touches, Workload};
use thermocline_policy::mrc::shards::Sampler;
use thermocline_units::LineId;

/// Sets volumes apart in the sampler's key space: 2⁴⁴ lines of 4 KiB are 64 PiB.
const VOLUME_SHIFT: u32 = 44;

impl Workload {
    /// The workload reduced to the lines that `sampler` keeps; without chunks.
    pub fn sample(&self, sampler: &Sampler) -> Workload {
        let cut = Cut { unit: self.names.unit(), chunk: None };
        let mut names = Names::new(cut);
        names.volumes.clone_from(&self.names.volumes);
        let keeps = |id: LineId| {
            let (volume, unit) = self.names.line(id);
            sampler.keeps(u64::from(volume.0) << VOLUME_SHIFT ^ unit)
        };
        let kept: Vec<bool> =
            (0..self.names.distinct_lines()).map(|id| keeps(LineId(id))).collect();
        let mut addresses = Vec::new();
        let blocks = self.blocks.iter().map(|block| {
            let (sampled, touched) = reduced(block, &self.names, &kept);
            addresses.extend(touched);
            sampled
        });
        let mut blocks: Vec<Block> = blocks.collect();
        let mut numbers = DenseIds::new(cut.unit);
        let mut addresses = addresses.as_slice();
        for block in &mut blocks {
            let (own, others) = addresses.split_at(block.tags.len());
            let Touches { ids, new, .. } = &mut block.lines;
            numbers.number(own, ids, new).expect("a part has no more lines than the whole");
            names.learn(block);
            addresses = others;
        }
        Workload {
            names,
            blocks,
            flushes: self.flushes,
            repairs: self.repairs.clone(),
            sampling: Sampling { rate: self.sampling.rate * sampler.rate(), ..self.sampling },
        }
    }
}

/// What is left of a block, its touches not yet numbered, and their addresses.
fn reduced(block: &Block, names: &Names, kept: &[bool]) -> (Block, Vec<Address>) {
    let mut sampled = Block { mix: block.mix, ..Block::default() };
    let mut addresses = Vec::new();
    for (i, head) in block.heads.iter().enumerate() {
        let before = addresses.len();
        let touched = block.lines.ids[block.lines.of(i)].iter().filter(|id| kept[id.index()]);
        addresses.extend(touched.map(|id| names.address(*id)));
        if addresses.len() > before {
            sampled.tags.resize(addresses.len(), head.tag);
            sampled.lines.ends.push(addresses.len() as u32);
            sampled.heads.push(*head);
            sampled.mix.spans |= addresses.len() != before + 1;
        }
    }
    (sampled, addresses)
}
