//! LARC: a line is admitted when it misses a second time while a ghost queue of adaptive length
//! remembers the first.
//!
//! 1. The ghost queue Qr holds numbers of lines that missed once, in order; its target length Cr
//!    starts at the least share of the capacity C.
//! 2. A hit in the cache: Cr ← max(least · C, Cr − C / (C − Cr)): hits mean that what is cached is
//!    good.
//! 3. A miss: Cr ← min(most · C, Cr + C / Cr): misses mean that more candidates should be watched.
//!    If Qr holds the line it leaves Qr and is admitted; otherwise it enters Qr, which is cut to
//!    Cr.
//!
//! Source: Huang, Wei, Chen et al., "Improving flash-based disk cache with lazy adaptive
//! replacement", MSST 2013. There the cache behind it is LRU (`larc+lru`); here it is any. A
//! published port admits directly while the cache is not full; this follows the paper.
//!
//! State: 5 B × `most` a cached line (4.5 B), 4 B a distinct line. O(1) amortised: Qr shrinks by no
//! more than it grew.

use super::super::Tag;
use super::super::log::{Log, Words, room_for};
use super::Admission;
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

pub(crate) const ENTRY: Entry = Entry {
    name: "larc",
    summary: "admits a line on its second miss, within a ghost queue of adaptive length",
    source: "LARC, MSST 2013",
    settings: &[
        Setting {
            name: "least",
            default: "0.1",
            unit: "fraction of the cache",
            help: "shortest ghost queue",
        },
        Setting {
            name: "most",
            default: "0.9",
            unit: "fraction of the cache",
            help: "longest ghost queue",
        },
    ],
    build: Build::Admission(|geometry, settings| {
        Ok(Box::new(Larc::read(geometry.lines, settings)?))
    }),
};

const FLAGS: u32 = 1;
const GHOST: u32 = 1;

/// Lazy adaptive replacement's admission.
#[derive(Debug)]
struct Larc {
    words: Words<FLAGS>,
    ghosts: Log<FLAGS>,
    capacity: f64,
    /// Target length of the ghost queue, in lines.
    target: f64,
    least: f64,
    most: f64,
}

impl Larc {
    fn read(capacity: u32, settings: &Settings) -> Result<Larc, SettingsError> {
        room_for::<FLAGS>("larc", capacity, 1.5)?;
        let (least, most) =
            (settings.number("least", 0.0, 0.99)?, settings.number("most", 0.0, 0.99)?);
        let longest = (f64::from(capacity) * most).max(1.0);
        // Targets of less than one line would never admit anything.
        let shortest = (f64::from(capacity) * least).max(1.0).min(longest);
        let live = longest as u32 + 1;
        Ok(Larc {
            words: Words::new(),
            ghosts: Log::new(live, live / 4 + 16, GHOST, &[GHOST]),
            capacity: f64::from(capacity),
            target: shortest,
            least: shortest,
            most: longest,
        })
    }

    fn trim(&mut self) {
        while f64::from(self.ghosts.len()) > self.target {
            let forgotten = self.ghosts.pop(&self.words).expect("longer than a positive target");
            self.words.clear(forgotten);
        }
    }
}

impl Admission for Larc {
    fn reserve(&mut self, universe: u32) {
        self.words.reserve(universe);
    }

    fn on_hit(&mut self, _line: LineId, _tag: Tag) {
        let others = (self.capacity - self.target).max(1.0);
        self.target = (self.target - self.capacity / others).max(self.least);
    }

    fn admit(&mut self, line: LineId, _tag: Tag) -> bool {
        self.target = (self.target + self.capacity / self.target).min(self.most);
        if self.words.flags(line) == GHOST {
            self.ghosts.forget();
            self.words.clear(line);
            return true;
        }
        self.ghosts.push(&mut self.words, line, GHOST);
        self.trim();
        false
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: self.ghosts.bytes(), index: self.words.bytes() }
    }
}

#[cfg(test)]
mod tests;
