//! Random admission: each miss is admitted with a fixed probability.
//!
//! A line that is accessed often is admitted soon, one accessed once rarely: the simplest filter
//! that spares flash, and the null model of every cleverer one. Source: folklore; CacheLib's random
//! policy.
//!
//! State: 32 B.

use super::super::Tag;
use super::Admission;
use crate::Footprint;
use crate::registry::{Build, Entry, Setting};
use thermocline_units::{LineId, Rng};

pub(crate) const ENTRY: Entry = Entry {
    name: "random",
    summary: "admits each miss with a fixed probability",
    source: "folklore; CacheLib",
    settings: &[Setting {
        name: "p",
        default: "0.1",
        unit: "probability",
        help: "share of misses that are admitted; 0 to 1",
    }],
    build: Build::Admission(|geometry, settings| {
        let probability = settings.number("p", 0.0, 1.0)?;
        Ok(Box::new(Random { probability, rng: Rng::seeded(geometry.seed) }))
    }),
};

/// Admits at random.
#[derive(Debug)]
struct Random {
    probability: f64,
    rng: Rng,
}

impl Admission for Random {
    fn reserve(&mut self, _universe: u32) {}

    fn on_hit(&mut self, _line: LineId, _tag: Tag) {}

    fn admit(&mut self, _line: LineId, _tag: Tag) -> bool {
        self.rng.unit_f64() < self.probability
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: size_of::<Random>() as u64, index: 0 }
    }
}

#[cfg(test)]
mod tests;
