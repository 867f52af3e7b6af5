//! The choices as policies: the same for every segment, whatever comes of it.
//!
//! These are what a controller is compared with; and what a rule names when somebody knows better.
//!
//! Source: VNRE, Ge 2017 ch. 4.4.2 (its four "fixed policies"). State: 3 B.

use super::{Choice, ChunkSize, Controller, Why};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::Nanos;

pub(crate) const NONE: Entry = Entry {
    name: "none",
    summary: "relays flows without looking for redundancy",
    source: "VNRE, Ge 2017 ch. 4.3.1, state 00",
    settings: &[],
    build: Build::Tunnel(|_| Ok(Box::new(Steady(Choice::None)))),
};

pub(crate) const FIXED: Entry = Entry {
    name: "fixed",
    summary: "cuts flows every so many bytes",
    source: "VNRE, Ge 2017 ch. 4.3.1, state 01",
    settings: &[SIZE],
    build: Build::Tunnel(|settings| Ok(Box::new(Steady(Choice::Fixed(size(settings, "size")?))))),
};

pub(crate) const CONTENT: Entry = Entry {
    name: "content",
    summary: "cuts flows where their content says (content-defined chunking)",
    source: "VNRE, Ge 2017 ch. 4.3.1, state 11",
    settings: &[SIZE],
    build: Build::Tunnel(|settings| Ok(Box::new(Steady(Choice::Content(size(settings, "size")?))))),
};

const SIZE: Setting = Setting {
    name: "size",
    default: "4KiB",
    unit: "size",
    help: "expected chunk size, a power of two from 128 B to 64 KiB",
};

/// Reads a chunk size.
pub(super) fn size(settings: &Settings, key: &str) -> Result<ChunkSize, SettingsError> {
    ChunkSize::new(settings.bytes(key)?.0)
        .ok_or_else(|| settings.wrong(key, "a power of two from 128 to 64KiB".to_string()))
}

struct Steady(Choice);

impl Controller for Steady {
    fn choose(&mut self, _now: Nanos) -> Choice {
        self.0
    }

    fn why(&self) -> Why {
        Why::Set
    }
}
