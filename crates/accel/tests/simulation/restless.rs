//! A scheduler that plans at random, impossible acts included.

use thermocline_policy::accel::{Act, FunctionId, Scheduler, View};
use thermocline_units::Rng;

pub(crate) struct Restless(pub(crate) Rng);

impl Scheduler for Restless {
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>) {
        for _ in 0..self.0.below(3) {
            let slot = self.0.below(view.slots.len() as u64) as usize;
            let other = self.0.below(view.slots.len() as u64) as usize;
            let function = FunctionId(self.0.below(view.functions.len() as u64) as u16);
            plan.push(match self.0.below(8) {
                0..=2 => Act::Provision { slot, function },
                3 => Act::Prefetch { slot, function },
                4 | 5 => Act::Reload { slot, function },
                6 => Act::Release { slot },
                _ => Act::Move { from: slot, to: other },
            });
        }
    }
}
