//! The two zones of flash shared by virtual machines (Tai 2015 §4.3.2): which chunk is in which.
//!
//! A zone is a set of chunks that *should* be on flash; what is there now, the machine knows. A
//! chunk is in one zone at most, except under the algorithms as printed, which let a chunk sit in
//! both and so waste a place. State: 1 B a chunk.

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

/// The form of an algorithm: as printed, or with its errors mended.
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

/// Zone membership by chunk number.
#[derive(Debug, Default)]
pub(super) struct Zones {
    /// Bits of the zones a chunk is in.
    of: Vec<u8>,
}

impl Zones {
    /// Makes room for chunks below `chunks`.
    pub(super) fn cover(&mut self, chunks: u32) {
        if self.of.len() < chunks as usize {
            self.of.resize(chunks as usize, 0);
        }
    }

    #[inline]
    pub(super) fn has(&self, number: u32, zone: Zone) -> bool {
        self.of[number as usize] & zone as u8 != 0
    }

    /// True if `chunk` is in any zone.
    #[inline]
    pub(super) fn any(&self, number: u32) -> bool {
        self.of[number as usize] != 0
    }

    #[inline]
    pub(super) fn enter(&mut self, number: u32, zone: Zone) {
        self.of[number as usize] |= zone as u8;
    }

    #[inline]
    pub(super) fn leave(&mut self, number: u32, zone: Zone) {
        self.of[number as usize] &= !(zone as u8);
    }

    /// Puts exactly `members` into `zone`; `touched` names every chunk that may be in it now.
    pub(super) fn refill<'a>(
        &mut self,
        zone: Zone,
        touched: &[Candidate],
        members: impl IntoIterator<Item = &'a Candidate>,
    ) {
        touched.iter().for_each(|c| self.leave(c.number, zone));
        members.into_iter().for_each(|c| self.enter(c.number, zone));
    }

    /// Chunks of `touched`, which names every chunk in a zone or on flash, that must change place.
    pub(super) fn difference(&self, touched: &[Candidate]) -> Difference {
        let mut difference = Difference::default();
        for candidate in touched {
            if self.any(candidate.number) {
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
