//! Foresight: the rules of `by-cost` with the demand to come. A bound, in the laboratory only.
//!
//! 1. The level of a function is the highest demand from now until `ahead` later, looked at a
//!    hundred times.
//! 2. Slots are full at `high`; nothing is kept in reserve, because nothing comes unexpected.
//!
//! Ours. The laboratory runs it with several values of `ahead` and takes the best after the fact.
//! It is no proven optimum. State: that of `by-cost`.

use super::by_cost::{ByCost, Rules};
use super::{Act, Coming, FunctionId, Scheduler, View};
use crate::registry::{Build, Entry, Setting};
use thermocline_units::Nanos;

/// Looks into the future of a plan.
const LOOKS: u64 = 100;

pub(crate) const ENTRY: Entry = Entry {
    name: "foresight",
    summary: "by-cost with the demand to come; a bound",
    source: "ours",
    settings: &[
        Setting { name: "ahead", default: "100ms", unit: "duration", help: "how far it sees" },
        Setting {
            name: "high",
            default: "0.9",
            unit: "share of the slots' rate",
            help: "above it a function gets a slot more",
        },
    ],
    build: Build::AccelBound(|settings, coming| {
        let rules = Rules {
            from: 0.0,
            high: settings.number("high", 0.05, 1.0)?,
            fade: Nanos(1),
            linger: Nanos(0),
            horizon: settings.duration("ahead")?.max(Nanos::from_secs(1)),
            price: 1.0,
            prefetch: false,
            prefetch_at: 1.0,
        };
        let ahead = settings.duration("ahead")?;
        Ok(Box::new(Foresight { ahead, coming, inner: ByCost::new(rules) }))
    }),
};

/// Schedules by the demand to come.
struct Foresight {
    ahead: Nanos,
    coming: Box<dyn Coming>,
    inner: ByCost,
}

impl Foresight {
    fn highest(&self, now: Nanos, function: FunctionId) -> f64 {
        let at = |look: u64| Nanos(now.0 + self.ahead.0 / LOOKS * look);
        let looks = (0..=LOOKS).map(|look| self.coming.offered(function, at(look)));
        looks.fold(0.0, f64::max)
    }
}

impl Scheduler for Foresight {
    fn plan(&mut self, view: &View<'_>, plan: &mut Vec<Act>) {
        let levels: Vec<f64> =
            view.function_ids().map(|function| self.highest(view.now, function)).collect();
        self.inner.plan_for(view, &levels, plan);
    }
}
