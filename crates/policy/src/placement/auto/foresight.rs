//! Future accesses, which a clairvoyant placement is told.
//!
//! The same pairs and prices as those of `auto`, with a certain future for a prediction: what will
//! be asked of each chunk over the next [`AHEAD`] epochs. The best exchange over any of these spans
//! goes first; so it knows both what is worth a short visit and what should stay for good. It is
//! no upper bound in the strict sense: it looks at one exchange at a time, by prices.

use super::ghosts::PREDICTORS;
use super::pulse::Pulse;
use crate::placement::price::Ask;
use crate::placement::{ChunkAccess, VolumeView};
use thermocline_units::Nanos;

/// Epochs that an oracle looks ahead, by predictor.
pub(super) const AHEAD: [u32; PREDICTORS] = [1, 8, 64, 1 << 20];

/// Somebody who knows the accesses to come.
pub trait Foresight: Send + std::fmt::Debug {
    /// Shows the accesses of the next `span`, in order, when `passed` have been observed in
    /// `elapsed`; how long the span is that they fill, at most `span`.
    fn ahead(
        &self,
        passed: u64,
        elapsed: Nanos,
        span: Nanos,
        visit: &mut dyn FnMut(&ChunkAccess),
    ) -> Nanos;
}

/// Somebody who knows nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoForesight;

impl Foresight for NoForesight {
    fn ahead(&self, _: u64, _: Nanos, span: Nanos, _: &mut dyn FnMut(&ChunkAccess)) -> Nanos {
        span
    }
}

/// Looks ahead by asking somebody who knows.
#[derive(Debug)]
pub(super) struct Ahead {
    foresight: Box<dyn Foresight>,
    passed: u64,
    elapsed: Nanos,
    asked: [Vec<Ask>; PREDICTORS],
    /// Epochs that each of these fills.
    spans: [f64; PREDICTORS],
}

impl Ahead {
    pub(super) fn new(foresight: Box<dyn Foresight>) -> Ahead {
        Ahead {
            foresight,
            passed: 0,
            elapsed: Nanos(0),
            asked: Default::default(),
            spans: [1.0; PREDICTORS],
        }
    }

    /// An access has been observed.
    #[inline]
    pub(super) fn pass(&mut self) {
        self.passed += 1;
    }

    /// Looks ahead from the end of an epoch; `pulse` meets whatever will be asked for.
    pub(super) fn look(&mut self, pulse: &mut Pulse, view: &dyn VolumeView) {
        self.elapsed = Nanos(self.elapsed.0.saturating_add(view.epoch().0));
        let ahead = self.asked.iter_mut().zip(&mut self.spans).zip(AHEAD);
        for ((asked, epochs_filled), epochs) in ahead {
            let span = Nanos(view.epoch().0.saturating_mul(epochs.into()));
            let mut future = Pulse::of(view);
            let record = &mut |access: &ChunkAccess| future.record(access);
            let filled = self.foresight.ahead(self.passed, self.elapsed, span, record);
            let seconds = span.min(filled).as_secs_f64().max(1e-9);
            *epochs_filled = seconds / view.epoch().as_secs_f64();
            asked.clear();
            for number in 0..future.len() {
                let here = pulse.chunks.number(future.chunks.id(number)) as usize;
                if here >= asked.len() {
                    asked.resize(here + 1, [0.0; 4]);
                }
                asked[here] = future.within(number, seconds);
            }
        }
    }

    /// Requests that will be asked of a chunk, a second.
    pub(super) fn asked(&self, predictor: usize, number: u32) -> Ask {
        self.asked[predictor].get(number as usize).copied().unwrap_or_default()
    }

    /// Epochs for which that is so.
    pub(super) fn epochs(&self, predictor: usize) -> f64 {
        self.spans[predictor]
    }
}
