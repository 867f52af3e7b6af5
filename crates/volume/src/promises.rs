//! What volumes are promised, and what was kept of it.
//!
//! A promise is told by whoever drives the group, at every start; nothing of it is on the devices.
//! Each request that reads or changes data is judged when it is answered: from its submission, the
//! queues of this machine included. A flush is not, for how long it takes is what other requests
//! left behind; nor is a request that failed. Requests of strict volumes go before others in the
//! scheduler.
//!
//! State: 48 B a volume that is promised something.

use std::collections::BTreeMap;
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_units::{Nanos, VolumeId};

/// SLA of a volume, and how well it was kept since it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Its kind.
    pub sla: Sla,
    /// Requests that were answered.
    pub answered: u64,
    /// Of these, answered later than promised.
    pub violations: u64,
    /// By how much these were later, all together.
    pub excess: Nanos,
}

/// Promises by volume.
#[derive(Debug, Default)]
pub(crate) struct Promises(BTreeMap<VolumeId, Promise>);

impl Promises {
    pub(crate) fn of(&self, volume: VolumeId) -> Option<&Promise> {
        self.0.get(&volume)
    }

    /// True if requests of `volume` go before others.
    pub(crate) fn is_strict(&self, volume: VolumeId) -> bool {
        self.of(volume).is_some_and(|promise| promise.sla.class == SlaClass::Strict)
    }

    /// A request of `volume` was answered after `took`.
    pub(crate) fn judge(&mut self, volume: VolumeId, took: Nanos) {
        let Some(promise) = self.0.get_mut(&volume) else { return };
        promise.answered += 1;
        if took > promise.sla.latency {
            promise.violations += 1;
            let excess = took.saturating_sub(promise.sla.latency);
            promise.excess = Nanos(promise.excess.0.saturating_add(excess.0));
        }
    }

    pub(crate) fn are_made(&self) -> bool {
        !self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (VolumeId, &Promise)> {
        self.0.iter().map(|(&volume, promise)| (volume, promise))
    }

    /// Promises a volume something, or nothing any more; counts begin at 0 when it is something
    /// else than before.
    ///
    /// # Panics
    /// When a latency of 0 is promised.
    pub(crate) fn set(&mut self, volume: VolumeId, sla: Option<Sla>) {
        if self.of(volume).map(|promise| promise.sla) == sla {
            return;
        }
        self.forget(volume);
        if let Some(sla) = sla {
            assert!(sla.latency.0 > 0, "no request takes no time");
            let promise = Promise { sla, answered: 0, violations: 0, excess: Nanos(0) };
            self.0.insert(volume, promise);
        }
    }

    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.0.remove(&volume);
    }
}
