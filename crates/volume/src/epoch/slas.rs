//! SLAs of volumes, and how well they were kept.
//!
//! An SLA is told by whoever drives the group, at every start; nothing of it is on the devices.
//! Each request that reads or changes data is judged when it is answered: from its submission, the
//! queues of this machine included. A flush is not, for how long it takes is what other requests
//! left behind; nor is a request that failed. Requests of strict volumes go before others in the
//! scheduler.
//!
//! State: 48 B a volume with an SLA.

use std::collections::BTreeMap;
use thermocline_policy::migration::Answered;
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_units::{Nanos, VolumeId};

/// SLA of a volume, and how well it was kept since it was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlaRecord {
    /// Its kind.
    pub sla: Sla,
    /// Requests that were answered.
    pub answered: u64,
    /// Those of them answered later than the SLA says.
    pub violations: u64,
    /// Sum of the times by which these were later.
    pub excess: Nanos,
}

/// SLAs by volume.
#[derive(Debug, Default)]
pub(crate) struct Slas(BTreeMap<VolumeId, SlaRecord>);

impl Slas {
    pub(crate) fn of(&self, volume: VolumeId) -> Option<&SlaRecord> {
        self.0.get(&volume)
    }

    /// True if requests of `volume` go before others.
    pub(crate) fn is_strict(&self, volume: VolumeId) -> bool {
        self.of(volume).is_some_and(|record| record.sla.class == SlaClass::Strict)
    }

    /// A request of `volume` was answered after `took`.
    pub(crate) fn judge(&mut self, volume: VolumeId, took: Nanos) {
        let Some(record) = self.0.get_mut(&volume) else { return };
        record.answered += 1;
        if took > record.sla.latency {
            record.violations += 1;
            let excess = took.saturating_sub(record.sla.latency);
            record.excess = Nanos(record.excess.0.saturating_add(excess.0));
        }
        assert!(record.violations <= record.answered, "only what was answered was late");
    }

    pub(crate) fn are_set(&self) -> bool {
        !self.0.is_empty()
    }

    /// Answers so far, by volume.
    pub(crate) fn answered(&self) -> impl Iterator<Item = Answered> {
        self.0.iter().map(|(&volume, record)| Answered {
            volume,
            answered: record.answered,
            late: record.violations,
        })
    }

    /// Gives a volume an SLA, or takes it away; counts begin at 0 when it is
    /// another one than before.
    ///
    /// # Panics
    /// When a latency of 0 is asked for.
    pub(crate) fn set(&mut self, volume: VolumeId, sla: Option<Sla>) {
        if self.of(volume).map(|record| record.sla) == sla {
            return;
        }
        self.forget(volume);
        if let Some(sla) = sla {
            assert!(sla.latency.0 > 0, "no request takes no time");
            let record = SlaRecord { sla, answered: 0, violations: 0, excess: Nanos(0) };
            self.0.insert(volume, record);
        }
    }

    pub(crate) fn forget(&mut self, volume: VolumeId) {
        self.0.remove(&volume);
    }
}

#[cfg(test)]
mod tests;
