//! Room of a store and of its volumes: how much of it is used, and when the administrator is told.
//!
//! Pure: figures come in, events for people come out.

use crate::api::{RoomLevel, StoreVolume};
use crate::reminders::Reminders;
use std::collections::BTreeMap;
use thermocline_admin::api::Severity;
use thermocline_hostcache::Shortage;
use thermocline_units::{Bytes, Nanos};

/// Percent of a bound at which there is a warning, and at which it is urgent.
const WARNING_PERCENT: u64 = 80;
const CRITICAL_PERCENT: u64 = 95;
/// Percent of a bound that must have become free before a lower level is told, so that what goes to
/// and fro is told once.
const SLACK_PERCENT: u64 = 2;

/// Level at which a bound is used.
pub(crate) fn level(used: u64, bound: u64) -> RoomLevel {
    let reaches = |percent: u64| u128::from(used) * 100 >= u128::from(bound) * u128::from(percent);
    match () {
        () if used >= bound => RoomLevel::Full,
        () if reaches(CRITICAL_PERCENT) => RoomLevel::Critical,
        () if reaches(WARNING_PERCENT) => RoomLevel::Warning,
        () => RoomLevel::Ok,
    }
}

/// The worse of a volume's levels.
pub(crate) fn level_of(volume: &StoreVolume) -> RoomLevel {
    bounds(volume).map(|(_, used, bound)| level(used, bound)).max().unwrap_or_default()
}

/// Bounds that a volume has: name, bytes used, bytes allowed.
fn bounds(volume: &StoreVolume) -> impl Iterator<Item = (Shortage, u64, u64)> {
    let logical = volume.logical_quota_bytes.map(|bound| (volume.mapped_bytes, bound));
    let physical = volume.physical_quota_bytes.map(|bound| (volume.charged_bytes, bound));
    let all = [(Shortage::Logical, logical), (Shortage::Physical, physical)];
    // Nothing is written to a snapshot.
    let all = all.into_iter().filter(|_| !volume.read_only);
    all.filter_map(|(which, of)| of.map(|(used, bound)| (which, used, bound)))
}

/// Name of a bound for people.
fn name_of(bound: Shortage) -> &'static str {
    match bound {
        Shortage::Store => "room",
        Shortage::Logical => "logical quota",
        Shortage::Physical => "physical quota",
    }
}

fn advice(bound: Shortage) -> &'static str {
    match bound {
        Shortage::Store => "delete volumes or snapshots, or trim in guests",
        Shortage::Logical | Shortage::Physical => {
            "raise it (`thermocline store volume quota`), or trim in the guest"
        }
    }
}

/// An event for people: its severity, what it is about, and its text.
pub(crate) type Told = (Severity, String, String);

/// Refused writes of a volume.
#[derive(Debug, Default)]
struct Refused {
    blocks: u64,
    told: Reminders<Shortage>,
}

/// Events about room that were told.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Levels that were told, by volume and bound; volume 0 is the store.
    levels: BTreeMap<(u32, Shortage), RoomLevel>,
    refused: BTreeMap<u32, Refused>,
}

impl Watch {
    /// Takes note that blocks of a volume found no room; what is to be told of it, unless that was
    /// told lately.
    pub(crate) fn refused(
        &mut self,
        now: Nanos,
        volume: u32,
        blocks: u64,
        shortage: Shortage,
    ) -> Option<(Severity, String)> {
        assert!(blocks > 0, "something was refused");
        let it = self.refused.entry(volume).or_default();
        it.blocks += blocks;
        if !it.told.is_due(shortage, now) {
            return None;
        }
        let what = match shortage {
            Shortage::Store => "the store is full".to_string(),
            bound => format!("its {} is used up", name_of(bound)),
        };
        let text = format!("a write was refused: {what}; {}", advice(shortage));
        Some((Severity::Error, text))
    }

    /// Blocks of a volume that found no room since the start.
    pub(crate) fn refused_blocks(&self, volume: u32) -> u64 {
        self.refused.get(&volume).map_or(0, |refused| refused.blocks)
    }

    /// Looks at the store (bytes used, bytes it can hold) and at its volumes by number; what is to
    /// be told of it.
    pub(crate) fn look(
        &mut self,
        (used, capacity): (u64, u64),
        volumes: &[(u32, StoreVolume)],
    ) -> Vec<Told> {
        let is_there = |of: u32| of == 0 || volumes.iter().any(|(number, _)| *number == of);
        self.levels.retain(|(of, _), _| is_there(*of));
        self.refused.retain(|of, _| is_there(*of));
        let mut told = Vec::new();
        told.extend(self.one((0, "store"), Shortage::Store, used, capacity));
        for (number, volume) in volumes {
            for (bound, used, most) in bounds(volume) {
                told.extend(self.one((*number, &volume.name), bound, used, most));
            }
        }
        told
    }

    fn one(
        &mut self,
        (of, name): (u32, &str),
        bound: Shortage,
        used: u64,
        most: u64,
    ) -> Option<Told> {
        let before = self.levels.get(&(of, bound)).copied().unwrap_or_default();
        let slack = (u128::from(most) * u128::from(SLACK_PERCENT) / 100) as u64;
        let now = match level(used, most) {
            higher if higher > before => higher,
            _ => before.min(level(used.saturating_add(slack), most)),
        };
        self.levels.insert((of, bound), now);
        let figures = format!(
            "{} of {} of its {} {} used",
            Bytes(used),
            Bytes(most),
            name_of(bound),
            if now > before { "are" } else { "are still" }
        );
        let (severity, text) = match now {
            same if same == before => return None,
            RoomLevel::Ok => (Severity::Info, figures),
            RoomLevel::Warning => (Severity::Warning, format!("{figures}; {}", advice(bound))),
            RoomLevel::Critical | RoomLevel::Full => (
                Severity::Error,
                format!("{figures}: writes are refused at the end; {}", advice(bound)),
            ),
        };
        Some((severity, name.to_string(), text))
    }
}

#[cfg(test)]
mod tests;
