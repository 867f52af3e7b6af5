//! Workload of guests, made from stated ratios.
//!
//! A *content* is a number; 0 is zeroes. Contents of the image come first, what all guests write in
//! step next, then those that only one volume has. In [`Order::Same`] all guests do the same in the
//! same order (a scan, a boot, a patch, a build); in [`Order::Own`] each does as it likes.

use serde::Deserialize;
use thermocline_units::{Nanos, Rng};

/// First content that guests write in step, and of the pool that they write from.
const SHARED_FROM: u64 = 1 << 40;
/// First content that only one volume has; each guest has a range of its own.
const PRIVATE_FROM: u64 = 1 << 48;

/// Order of a guest's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// From the first block to the last.
    Scan,
    /// All guests the same blocks, drawn by popularity.
    Same,
    /// Each guest its own, drawn by popularity.
    Own,
}

/// A kind of load.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// Blocks of the image and of each clone.
    pub image_blocks: u32,
    /// Share of a clone's blocks that no other has.
    pub private: f64,
    /// Share of the image's blocks that repeat another of it.
    pub repeated: f64,
    /// Order of requests.
    pub order: Order,
    /// Requests of a guest; of a scan: passes over the volume.
    pub requests: u32,
    /// Blocks of a request.
    pub run: u32,
    /// Share of requests that write.
    pub writes: f64,
    /// Share of written blocks whose content other guests write, too.
    pub shared_writes: f64,
    /// Contents that guests share in [`Order::Own`].
    pub pool: u32,
    /// Popularity of blocks: the exponent of a power law, 0 for none.
    pub skew: f64,
    /// Mean time between the beginnings of guests.
    pub stagger: Nanos,
}

impl Load {
    pub(super) fn image(&self, rng: &mut Rng) -> Vec<u64> {
        let mut image: Vec<u64> = Vec::with_capacity(self.image_blocks as usize);
        for block in 0..u64::from(self.image_blocks) {
            let repeats = block > 0 && rng.unit_f64() < self.repeated;
            let content = if repeats { image[rng.below(block) as usize] } else { block + 1 };
            image.push(content);
        }
        image
    }

    pub(super) fn private_blocks(&self, guest: u32, rng: &mut Rng) -> Vec<(u32, u64)> {
        let blocks = (0..self.image_blocks).filter(|_| rng.unit_f64() < self.private);
        blocks.map(|block| (block, private(guest, u64::from(block)))).collect()
    }
}

fn private(guest: u32, number: u64) -> u64 {
    PRIVATE_FROM + (u64::from(guest) << 40) + number
}

/// A guest's next step.
pub(super) enum Step {
    Read { block: u32, count: u32 },
    Write { block: u32, contents: Vec<u64> },
}

/// A guest at work.
pub(super) struct Guest {
    load: Load,
    number: u32,
    /// The same for all guests where they do the same, and its own.
    common: Rng,
    own: Rng,
    done: u32,
    written: u64,
}

impl Guest {
    pub(super) fn new(load: &Load, number: u32, seed: u64) -> Guest {
        let own = Rng::seeded(seed ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let common = match load.order {
            Order::Own => Rng::seeded(seed.rotate_left(32) ^ u64::from(number) << 7),
            _ => Rng::seeded(seed.rotate_left(32)),
        };
        // Private blocks of the volume have the first numbers.
        let written = u64::from(load.image_blocks);
        Guest { load: load.clone(), number, common, own, done: 0, written }
    }

    pub(super) fn starts_after(&mut self) -> Nanos {
        let mean = self.load.stagger.0 as f64;
        Nanos((f64::from(self.number) * mean * (0.5 + self.own.unit_f64())) as u64)
    }

    pub(super) fn next(&mut self) -> Option<Step> {
        let Load { image_blocks, run, order, requests, writes, skew, .. } = self.load;
        let at = self.done;
        self.done += 1;
        let runs = image_blocks.div_ceil(run);
        if order == Order::Scan {
            let block = at % runs * run;
            let count = run.min(image_blocks - block);
            return (at / runs < requests).then_some(Step::Read { block, count });
        }
        if at == requests {
            return None;
        }
        // Popular runs lie together; which they are is the same for all guests.
        let place = self.common.unit_f64().powf(1.0 / (1.0 - skew.clamp(0.0, 0.95)));
        let block = ((place * f64::from(runs)) as u32).min(runs - 1) * run;
        let count = run.min(image_blocks - block);
        if self.common.unit_f64() >= writes {
            return Some(Step::Read { block, count });
        }
        let contents = (0..count).map(|block| self.content(at, block)).collect();
        Some(Step::Write { block, contents })
    }

    fn content(&mut self, at: u32, block: u32) -> u64 {
        if self.own.unit_f64() >= self.load.shared_writes {
            self.written += 1;
            return private(self.number, self.written);
        }
        match self.load.order {
            Order::Own => SHARED_FROM + self.own.below(u64::from(self.load.pool.max(1))),
            _ => SHARED_FROM + u64::from(at) * 256 + u64::from(block),
        }
    }
}
