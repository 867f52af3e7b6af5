//! The two zones of flash shared by virtual machines (001 §4.3.2): which bin is in which.
//!
//! A zone is a set of bins that *should* be on flash; what is there now, the machine knows. A bin is
//! in one zone at most, except under the algorithms as printed, which let a bin sit in both and so
//! waste a place. State: 1 B a bin.

use super::difference::Difference;
use super::rank::Candidate;
use crate::registry::{Setting, Settings, SettingsError};

pub(super) const PRIVATE: Setting = Setting {
    name: "private",
    default: "0.5",
    unit: "fraction of flash",
    help: "size of the private zone; the rest is public",
};
pub(super) const FORM: Setting = Setting {
    name: "form",
    default: "corrected",
    unit: "corrected or printed",
    help: "the algorithm with its errors mended, or as the source prints it",
};

/// Whether an algorithm runs with its errors mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Corrected,
    Printed,
}

impl Form {
    pub(super) fn read(settings: &Settings) -> Result<Form, SettingsError> {
        let chosen = settings.choice("form", &["corrected", "printed"])?;
        Ok([Form::Corrected, Form::Printed][chosen])
    }
}

/// One of the two zones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Zone {
    Private = 1,
    Public = 2,
}

/// Zone membership by bin number.
#[derive(Debug, Default)]
pub(super) struct Zones {
    /// Bits of the zones a bin is in.
    of: Vec<u8>,
}

impl Zones {
    /// Makes room for bins below `bins`.
    pub(super) fn cover(&mut self, bins: u32) {
        if self.of.len() < bins as usize {
            self.of.resize(bins as usize, 0);
        }
    }

    #[inline]
    pub(super) fn has(&self, bin: u32, zone: Zone) -> bool {
        self.of[bin as usize] & zone as u8 != 0
    }

    /// Whether `bin` is in any zone.
    #[inline]
    pub(super) fn any(&self, bin: u32) -> bool {
        self.of[bin as usize] != 0
    }

    #[inline]
    pub(super) fn enter(&mut self, bin: u32, zone: Zone) {
        self.of[bin as usize] |= zone as u8;
    }

    #[inline]
    pub(super) fn leave(&mut self, bin: u32, zone: Zone) {
        self.of[bin as usize] &= !(zone as u8);
    }

    /// Puts exactly `members` into `zone`; `touched` names every bin that may be in it now.
    pub(super) fn refill<'a>(
        &mut self,
        zone: Zone,
        touched: &[Candidate],
        members: impl IntoIterator<Item = &'a Candidate>,
    ) {
        touched.iter().for_each(|c| self.leave(c.bin, zone));
        members.into_iter().for_each(|c| self.enter(c.bin, zone));
    }

    /// Which of `touched`, which names every bin in a zone or on flash, must change place.
    pub(super) fn difference(&self, touched: &[Candidate]) -> Difference {
        let mut difference = Difference::default();
        for candidate in touched {
            if self.any(candidate.bin) {
                difference.keep(*candidate);
            } else {
                difference.leave(*candidate);
            }
        }
        difference
    }

    pub(super) fn bytes(&self) -> u64 {
        self.of.capacity() as u64
    }
}
