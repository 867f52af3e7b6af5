//! Hints, kept over restarts in the file `hints.json` of the data folder.
//!
//! Kept are ranges with their classes, wishes and ends, and how far each source was right about
//! each class; not what is known of single ranges, and not prefetches, which are done. At most
//! [`RANGES_MAX`] ranges: a document of millions would hold the loop up. Volumes are kept by name.
//! What does not fit any more (a volume or a class that is gone) is left out, and told.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thermocline_policy::hints::Wishes;
use thermocline_policy::hints::store::{Held, Hints};
use thermocline_units::{Nanos, VolumeId};

use crate::api::HintLevel;

/// Ranges that are kept at most.
const RANGES_MAX: usize = 1 << 16;
/// Version of the document.
const VERSION: u32 = 2;
/// The version before, whose scores are of accesses beside the mean: its ranges are taken, and its
/// scores are not. Any other version is not read.
const VERSION_BY_ACCESSES: u32 = 1;

/// The document.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptHints {
    version: u32,
    /// The group's identity, in hexadecimal.
    group: String,
    sources: Vec<KeptSource>,
}

/// A source.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptSource {
    name: String,
    /// Scores by class.
    scores: BTreeMap<String, f64>,
    ranges: Vec<KeptRange>,
}

/// A range that it spoke of.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRange {
    level: HintLevel,
    /// The volume; `None`: every one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    start: u64,
    end: u64,
    class: String,
    #[serde(default)]
    pin: bool,
    #[serde(default)]
    demote: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    background_ms: Option<u32>,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
}

/// Moments of the loop's clock and of the calendar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    pub(crate) now: Nanos,
    pub(crate) wall_ms: u64,
}

impl KeptHints {
    /// All that is held now; `None`: nothing was said, or too much.
    pub(crate) fn of(
        hints: &Hints,
        group: u64,
        clocks: Clocks,
        name: impl Fn(VolumeId) -> Option<String>,
    ) -> Option<KeptHints> {
        if hints.is_empty() || hints.len() > RANGES_MAX {
            return None;
        }
        let mut sources: BTreeMap<&str, KeptSource> = BTreeMap::new();
        for source in hints.sources() {
            let scores = source.scores();
            let scores =
                scores.map(|(class, score)| (hints.classes().get(class).name.clone(), score.value));
            let (name, scores) = (source.name.clone(), scores.collect());
            sources.insert(&source.name, KeptSource { name, scores, ranges: Vec::new() });
        }
        for held in hints.held(clocks.now) {
            let volume = match held.volume.map(&name) {
                Some(None) => continue, // It is being deleted.
                volume => volume.flatten(),
            };
            let left = |until: Nanos| until.saturating_sub(clocks.now).0 / 1_000_000;
            let range = KeptRange {
                level: HintLevel::of(held.level),
                volume,
                start: held.range.0,
                end: held.range.1,
                class: held.class.to_string(),
                pin: held.wishes.pin,
                demote: held.wishes.demote,
                background_ms: held.wishes.background_ms,
                expires_at_ms: held.until.map(|until| clocks.wall_ms + left(until)),
            };
            sources.get_mut(held.source).expect("it is a source").ranges.push(range);
        }
        let sources = sources.into_values().filter(|source| !source.ranges.is_empty());
        Some(KeptHints {
            version: VERSION,
            group: format!("{group:x}"),
            sources: sources.collect(),
        })
    }

    /// Reads a document of this group; the error says what is wrong with it.
    pub(crate) fn read(text: &[u8], group: u64) -> Result<KeptHints, String> {
        let mut kept: KeptHints =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        match kept.version {
            VERSION => {}
            VERSION_BY_ACCESSES => kept.sources.iter_mut().for_each(|one| one.scores.clear()),
            version => {
                let known = format!("{VERSION_BY_ACCESSES} and {VERSION}");
                return Err(format!("it has version {version}; this program reads {known}"));
            }
        }
        let own = format!("{group:x}");
        if kept.group != own {
            return Err(format!("it is of group {}, not of this one, {own}", kept.group));
        }
        Ok(kept)
    }

    /// Gives everything back: `take` takes a range, `score` an accuracy of a source about a class.
    /// Ranges taken, and ranges left out.
    pub(crate) fn give_back(
        &self,
        clocks: Clocks,
        volume: impl Fn(&str) -> Option<VolumeId>,
        mut take: impl FnMut(&Held<'_>) -> bool,
        mut score: impl FnMut(&str, &str, f64),
    ) -> (u64, u64) {
        let (mut taken, mut left_out) = (0, 0);
        for source in &self.sources {
            for range in &source.ranges {
                let expired = range.expires_at_ms.is_some_and(|at| at <= clocks.wall_ms);
                if expired {
                    continue;
                }
                let until = range.expires_at_ms.map(|at| {
                    let more = (at - clocks.wall_ms).saturating_mul(1_000_000);
                    Nanos(clocks.now.0.saturating_add(more))
                });
                let of = range.volume.as_deref().map(&volume);
                let held = Held {
                    source: &source.name,
                    level: range.level.level(),
                    volume: of.flatten(),
                    range: (range.start, range.end),
                    class: &range.class,
                    wishes: Wishes {
                        pin: range.pin,
                        demote: range.demote,
                        background_ms: range.background_ms,
                    },
                    until,
                };
                if of != Some(None) && take(&held) {
                    taken += 1;
                } else {
                    left_out += 1;
                }
            }
            source.scores.iter().for_each(|(class, &value)| score(&source.name, class, value));
        }
        (taken, left_out)
    }
}

#[cfg(test)]
mod tests;
