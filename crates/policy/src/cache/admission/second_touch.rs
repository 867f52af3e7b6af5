//! Second touch: a line is admitted on its n-th miss while a shadow queue remembers the earlier
//! ones.
//!
//! 1. The shadow holds numbers and miss counts of the lines whose first miss is most recent, in
//!    order of that first miss, at most `window` × capacity of them.
//! 2. A miss of a line in the shadow counts one more; with the `touches`-th the line leaves the
//!    shadow and is admitted. A miss of another line enters the shadow, whose oldest is dropped if
//!    need be.
//!
//! Source: CacheLib's RejectFirst (Berg et al., "The CacheLib caching engine", OSDI 2020). There
//! the shadow is a row of Bloom filters that roll over; here it is exact and rolls line by line, at
//! 5 B a remembered line, so that no false positive admits a line too early.
//!
//! State: 5 B × `window` a cached line, 4 B a distinct line. O(1) amortised.

use super::super::Tag;
use super::super::log::{Log, Words, room_for, share};
use super::Admission;
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "second-touch",
    summary: "admits a line on its second miss within a shadow of fixed length",
    source: "RejectFirst of CacheLib, OSDI 2020",
    settings: &[
        Setting {
            name: "touches",
            default: "2",
            unit: "misses",
            help: "the miss that admits; 1 to 8",
        },
        Setting {
            name: "window",
            default: "1",
            unit: "multiple of the cache",
            help: "lines that the shadow remembers; 0.01 to 4",
        },
    ],
    build: Build::Admission(|geometry, settings| {
        Ok(Box::new(SecondTouch::read(geometry.lines, settings)?))
    }),
};

/// Presence in the shadow, and misses so far less one.
const FLAGS: u32 = 4;
const SHADOW: u32 = 1;
const COUNT_SHIFT: u32 = 1;

/// Admits on the n-th miss.
#[derive(Debug)]
struct SecondTouch {
    words: Words<FLAGS>,
    shadow: Log<FLAGS>,
    window: u32,
    touches: u32,
}

impl SecondTouch {
    fn read(capacity: u32, settings: &Settings) -> Result<SecondTouch, SettingsError> {
        let window = settings.number("window", 0.01, 4.0)?;
        room_for::<FLAGS>("second-touch", capacity, window.max(1.0) * 1.5)?;
        let window = share(capacity, window).max(1);
        Ok(SecondTouch {
            words: Words::new(),
            shadow: Log::new(window + 1, window / 4 + 16, SHADOW, &[SHADOW]),
            window,
            touches: settings.count("touches", 1, 8)? as u32,
        })
    }

    fn enter(&mut self, line: LineId) {
        if self.shadow.len() == self.window {
            let forgotten = self.shadow.pop(&self.words).expect("the window is above zero");
            self.words.clear(forgotten);
        }
        self.shadow.push(&mut self.words, line, SHADOW);
    }
}

impl Admission for SecondTouch {
    fn reserve(&mut self, universe: u32) {
        self.words.reserve(universe);
    }

    fn on_hit(&mut self, _line: LineId, _tag: Tag) {}

    fn admit(&mut self, line: LineId, _tag: Tag) -> bool {
        let flags = self.words.flags(line);
        let known = flags & SHADOW == SHADOW;
        let misses = if known { (flags >> COUNT_SHIFT) + 2 } else { 1 };
        if misses >= self.touches {
            if known {
                self.shadow.forget();
                self.words.clear(line);
            }
            return true;
        }
        if known {
            self.words.set_flags(line, ((misses - 1) << COUNT_SHIFT) | SHADOW);
        } else {
            self.enter(line);
        }
        false
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: self.shadow.bytes(), index: self.words.bytes() }
    }
}

#[cfg(test)]
mod tests;
