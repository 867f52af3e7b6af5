//! Outcome of a run: counts from the change on, and means over seeds.

use thermocline_units::{Latencies, Nanos};

/// Windows in which what is carried is compared with what is offered.
pub(super) const WINDOW: Nanos = Nanos(10_000_000);
/// Windows in a row that must carry it.
const WINDOWS: usize = 10;
/// Share of the offered load that counts as all of it.
const CARRIED: f64 = 0.99;
/// A packet that takes longer is late.
pub(super) const LATE: Nanos = Nanos(1_000_000);

/// One scheduler, one seed; from the change on.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Packets that came.
    pub offered: u64,
    /// Packets that left.
    pub carried: u64,
    /// Packets that took longer than 1 ms.
    pub late: u64,
    /// Packets that were lost; functions drop none here.
    pub lost: u64,
    /// Packets that left after a later one of their flow; 0 unless the machine is wrong.
    pub overtaken: u64,
    /// Times from offer to exit, of all tenants.
    pub latencies: Latencies,
    /// Times of packets that were offered while a slot was loaded, by tenant.
    pub while_loading: Vec<Latencies>,
    /// The same packets in a run in which nothing happens, by tenant.
    pub undisturbed: Vec<Latencies>,
    /// Time from the change until the offered load is carried; `None`: not in this run.
    pub settled: Option<Nanos>,
    /// Loads of slots.
    pub loads: u64,
    /// Flows that moved.
    pub moved: u64,
    /// States of flows that were lost.
    pub states_lost: u64,
    /// Seconds from the change to the end.
    pub seconds: f64,
}

impl Outcome {
    /// Largest growth of a tenant's p99 while a slot was loaded, over the run in which nothing
    /// happens; of those tenants of which `is_meant` says so. `None` without such packets.
    pub fn growth(&self, is_meant: impl Fn(usize) -> bool) -> Option<f64> {
        let tenants = self.while_loading.iter().zip(&self.undisturbed).enumerate();
        let growth =
            tenants.filter(|(tenant, _)| is_meant(*tenant)).filter_map(|(_, (with, without))| {
                let (with, without) = (with.quantile(0.99), without.quantile(0.99));
                (with.0 > 0 && without.0 > 0).then(|| with.0 as f64 / without.0 as f64 - 1.0)
            });
        growth.reduce(f64::max)
    }
}

/// A scheduler over all seeds.
#[derive(Debug, Clone)]
pub struct Row {
    /// The policy as the user named it.
    pub policy: String,
    /// Outcomes, a seed each.
    pub outcomes: Vec<Outcome>,
}

impl Row {
    /// The mean of a figure.
    pub fn mean(&self, of: impl Fn(&Outcome) -> f64) -> f64 {
        mean(&self.outcomes, of)
    }

    /// Latencies of all seeds.
    pub fn latencies(&self) -> Latencies {
        let mut all = Latencies::default();
        self.outcomes.iter().for_each(|outcome| all.add(&outcome.latencies));
        all
    }

    /// Mean time until the offered load is carried; `None` if one seed never gets there.
    pub fn settled_s(&self) -> Option<f64> {
        let times: Option<Vec<f64>> =
            self.outcomes.iter().map(|o| o.settled.map(Nanos::as_secs_f64)).collect();
        times.map(|times| times.iter().sum::<f64>() / times.len().max(1) as f64)
    }
}

pub(super) fn mean(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> f64 {
    outcomes.iter().map(of).sum::<f64>() / outcomes.len().max(1) as f64
}

/// The beginning of the first of ten windows in a row in which what came was carried.
pub(super) fn settled(offered: &[u64], carried: &[u64]) -> Option<Nanos> {
    let is_carried: Vec<bool> = offered
        .iter()
        .zip(carried)
        .map(|(offered, carried)| *carried as f64 >= *offered as f64 * CARRIED)
        .collect();
    let first = is_carried.windows(WINDOWS).position(|windows| windows.iter().all(|is| *is))?;
    Some(Nanos(first as u64 * WINDOW.0))
}
