//! Access counts of chunks since each was first met, old accesses fading.
//!
//! An access adds one; every `age-every` epochs all counters shift right by one bit (Tai 2015
//! §4.3.2), so that relative frequency survives and an access counts half after each period. A
//! chunk whose counter has faded to zero is no longer in the working set. The source does not say
//! how often to age; decision 0015 gives our period. Counters saturate.
//!
//! State: 4 B a chunk.

use crate::registry::{Setting, Settings, SettingsError};

pub(super) const AGE_EVERY: Setting = Setting {
    name: "age-every",
    default: "288",
    unit: "epochs",
    help: "after how many epochs all frequency counters halve (288 × 5 min = a day)",
};

/// Access counters by chunk number.
#[derive(Debug)]
pub(super) struct Frequency {
    counts: Vec<u32>,
    period_epochs: u64,
    epochs: u64,
}

impl Frequency {
    pub(super) fn read(settings: &Settings) -> Result<Frequency, SettingsError> {
        let period_epochs = settings.count("age-every", 1, u64::MAX)?;
        Ok(Frequency { counts: Vec::new(), period_epochs, epochs: 0 })
    }

    #[inline]
    pub(super) fn record(&mut self, number: u32) {
        self.cover(number + 1);
        let count = &mut self.counts[number as usize];
        *count = count.saturating_add(1);
    }

    /// Makes room for chunks below `chunks`.
    pub(super) fn cover(&mut self, chunks: u32) {
        if self.counts.len() < chunks as usize {
            self.counts.resize(chunks as usize, 0);
        }
    }

    #[inline]
    pub(super) fn count(&self, number: u32) -> u32 {
        self.counts[number as usize]
    }

    /// Ends an epoch: ages the counters when their period is over.
    pub(super) fn advance(&mut self) {
        self.epochs += 1;
        if self.epochs.is_multiple_of(self.period_epochs) {
            self.counts.iter_mut().for_each(|count| *count >>= 1);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.counts.capacity() as u64 * 4
    }
}
