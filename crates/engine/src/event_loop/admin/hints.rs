//! Hints: taken, told, withdrawn.

use super::AdminApi;
use crate::api::{
    HintLevel, HintScore, HintSource, HintsDone, HintsStatus, HintsTaken, JudgedRange, NewHint,
    PoolPins,
};
use crate::kept_hints::{Clocks, KeptHints};
use crate::learnt;
use crate::surveys::Surveyed;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use thermocline_admin::api::{Refused, Severity};
use thermocline_admin::past::wall_clock;
use thermocline_policy::hints::rules::Classes;
use thermocline_policy::hints::store::{Hint, HintError, RANGES_MAX, Source, TRUST};
use thermocline_policy::hints::{Facts, Judged, Level, Usage, Waits, Wishes};
use thermocline_ports_os::Worth;
use thermocline_units::{Bytes, Nanos, VolumeId};
use thermocline_volume::HintRefusal;

/// Judged ranges that are told at most.
const JUDGED_MAX: usize = 64;

impl AdminApi<'_> {
    /// Takes hints of a source, the first of them number `first` of its document, one by one: one
    /// that makes no sense does not keep the others out.
    pub fn hint(&mut self, source: &str, first: usize, hints: &[NewHint]) -> HintsTaken {
        let mut taken = HintsTaken::default();
        for (index, hint) in (first..).zip(hints) {
            match self.take_hint(source, hint) {
                Ok(prefetched) => {
                    taken.taken += 1;
                    taken.prefetched_chunks += prefetched;
                }
                Err(message) => taken.refuse(index, message),
            }
        }
        taken
    }

    /// Takes a hint; the chunks that it prefetches.
    fn take_hint(&mut self, source: &str, wish: &NewHint) -> Result<u64, String> {
        let level = wish.level.unwrap_or(HintLevel::Range);
        let volume = match (&wish.volume, level) {
            (None, HintLevel::System) => None,
            (Some(name), level) if level != HintLevel::System => {
                Some(self.volume(name).map_err(|refused| refused.message)?)
            }
            (None, _) => return Err("name the `volume`, or take the level `system`".to_string()),
            (Some(_), _) => return Err("a hint for the whole system has no `volume`".to_string()),
        };
        let end = match wish.length_bytes {
            None => u64::MAX,
            Some(length) => wish.offset_bytes.saturating_add(length),
        };
        let now = self.engine.now();
        let until = moment(now, "expires_seconds", wish.expires_seconds)?;
        let due = moment(now, "prefetch_within_seconds", wish.prefetch_within_seconds)?;
        let facts = wish.facts()?;
        let range = (wish.offset_bytes, end);
        let (level, wishes) = (level.level(), wish.wishes());
        let hint = Hint { source, level, volume, range, facts: &facts, wishes, until };
        let group = &mut self.engine.group;
        group.hint(now, &hint).map_err(|refusal| refusal.to_string())?;
        match volume.filter(|_| wish.prefetch) {
            Some(volume) => {
                group.prefetch(now, volume, range, due).map_err(|error| error.to_string())
            }
            None => Ok(0),
        }
    }

    /// Takes what a survey of a volume's file system says, and withdraws what is no longer so. What
    /// there is no room for is left out: it costs speed.
    pub(crate) fn surveyed(&mut self, volume: VolumeId, source: &str, said: &[Surveyed]) {
        let now = self.engine.now();
        let group = &mut self.engine.group;
        for said in said {
            match said {
                Surveyed::Anew => _ = group.forget_hints(source),
                Surveyed::Void(range) => {
                    group.withdraw_hint(source, Level::File, volume, range.clone());
                }
                Surveyed::Here(range, facts) => {
                    let (level, wishes, until) = (Level::File, Wishes::default(), None);
                    let (volume, range) = (Some(volume), (range.start, range.end));
                    let hint = Hint { source, level, volume, range, facts, wishes, until };
                    let _ = group.hint(now, &hint);
                }
            }
        }
    }

    /// Takes what the holder of a volume says of its parts, instead of what it said before. What
    /// there is no room for is left out: it costs speed.
    pub(crate) fn note_worth(
        &mut self,
        volume: VolumeId,
        source: &str,
        parts: &[(Bytes, Bytes, Worth)],
    ) {
        let now = self.engine.now();
        let group = &mut self.engine.group;
        group.forget_hints(source);
        for &(Bytes(start), Bytes(end), worth) in parts {
            let facts = &match worth {
                Worth::Metadata => Facts { metadata: true, ..Facts::default() },
                Worth::Shared => Facts { usage: Usage::ReadIntensive, ..Facts::default() },
            };
            let (level, wishes, until) = (Level::Range, Wishes::default(), None);
            let (volume, range) = (Some(volume), (start, end));
            let hint = Hint { source, level, volume, range, facts, wishes, until };
            let _ = group.hint(now, &hint);
        }
    }

    /// Hints at a glance.
    pub fn hints(&self) -> HintsStatus {
        let (hints, counts) = (self.engine.group.hints(), self.engine.group.hint_counts());
        let score = |source: &Source| {
            let scores = source.scores().map(|(class, score)| HintScore {
                class: hints.classes().get(class).name.clone(),
                score: score.value,
                followed: score.value >= TRUST,
                chunks: score.chunks,
                accesses: score.accesses,
                bytes: score.bytes,
                proved_bytes: score.proved,
                saved_seconds: score.waits.saved,
                lost_seconds: score.waits.lost,
            });
            scores.collect()
        };
        let sources = hints.sources().iter().map(|source| HintSource {
            name: source.name.clone(),
            taken: source.taken,
            refused: source.refused,
            ranges: source.ranges as u64,
            scores: score(source),
        });
        HintsStatus {
            ranges: hints.len() as u64,
            ranges_most: RANGES_MAX as u64,
            memory_bytes: hints.memory(),
            done: HintsDone {
                claimed_chunks: counts.claimed,
                placed_chunks: counts.placed,
                moves: counts.moves,
                moves_dropped: counts.dropped,
                redirected_chunks: counts.redirected,
                requests_waited: counts.waited,
                prefetched_chunks: counts.prefetched,
                refused_chunks: counts.refused,
            },
            sources: sources.collect(),
            judged: self.judged_ranges(),
            pins: self.pool_pins(),
            classes: hints.classes().to_text(),
        }
    }

    /// Ranges that saved or cost most lately; those that are not followed first.
    fn judged_ranges(&self) -> Vec<JudgedRange> {
        let group = &self.engine.group;
        let hints = group.hints();
        let mut judged = hints.judged();
        judged.sort_by(|a, b| {
            let most = |one: &Judged| one.lately.saved.max(one.lately.lost);
            a.followed.cmp(&b.followed).then(most(b).total_cmp(&most(a)))
        });
        let names: BTreeMap<VolumeId, String> =
            group.volumes().map(|status| (status.id, status.name)).collect();
        let chunk = group.chunk_size().0;
        let told = judged.iter().filter_map(|one| {
            Some(JudgedRange {
                source: hints.sources().get(usize::from(one.source))?.name.clone(),
                class: hints.classes().get(one.class).name.clone(),
                volume: names.get(&one.chunks.0.volume)?.clone(),
                offset_bytes: u64::from(one.chunks.0.index) * chunk,
                length_bytes: u64::from(one.chunks.1) * chunk,
                saved_seconds: one.lately.saved,
                lost_seconds: one.lately.lost,
                score: one.value,
                followed: one.followed,
            })
        });
        told.take(JUDGED_MAX).collect()
    }

    /// Time that users waited less, and longer, because of hints, since the start.
    pub(crate) fn hint_waits(&self) -> Waits {
        let sources = self.engine.group.hints().sources().iter();
        let all = sources.flat_map(Source::scores).map(|(_, score)| score.waits);
        all.fold(Waits::default(), |sum, one| Waits {
            saved: sum.saved + one.saved,
            lost: sum.lost + one.lost,
        })
    }

    /// Pins by pool, fastest first.
    pub(crate) fn pool_pins(&self) -> Vec<PoolPins> {
        let group = &self.engine.group;
        let name = |id| group.pool_status(id).expect("ids below the count exist").name;
        let pools = group.pools_there().iter().zip(group.hints().pins());
        let told = pools.map(|(&id, pins)| PoolPins {
            pool: name(id),
            budget_chunks: pins.budget,
            held_chunks: pins.held,
            wrong_chunks: pins.wrong,
            beyond_chunks: pins.beyond,
            by_name_chunks: pins.by_name,
            saved_seconds: pins.waits.saved,
            lost_seconds: pins.waits.lost,
        });
        told.collect()
    }

    /// The file of hints for the next start; `None`: there are none, or more than are kept.
    pub fn kept_hints(&self) -> Option<Vec<u8>> {
        let group = &self.engine.group;
        let names: BTreeMap<VolumeId, String> =
            group.volumes().map(|status| (status.id, status.name)).collect();
        let name = |id| names.get(&id).cloned();
        let kept = KeptHints::of(group.hints(), group.identity(), self.clocks(), name)?;
        Some(serde_json::to_vec(&kept).expect("it is plain data"))
    }

    /// Takes back what is in the file at `path`, if that is of this group. Whatever keeps it from
    /// that is told as an event, and the file is set aside: somebody gave those hints, and the
    /// next write would go over them.
    pub fn recall_hints(&mut self, path: &Path) {
        let group = self.engine.group.identity();
        let kept = match learnt::read(path) {
            Ok(None) => return,
            Ok(Some(text)) => KeptHints::read(&text, group),
            Err(error) => Err(error.to_string()),
        };
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => {
                let kept =
                    if learnt::set_aside(path) { ", it is kept as hints.json.unread" } else { "" };
                let text = format!("{}: {error}{kept}; hints must be given again", path.display());
                return self.engine.event(Severity::Warning, "hints", text);
            }
        };
        let clocks = self.clocks();
        let volumes: BTreeMap<String, VolumeId> =
            self.engine.group.volumes().map(|status| (status.name.clone(), status.id)).collect();
        let (mut scores, mut unknown) = (Vec::new(), BTreeSet::new());
        let group = &mut self.engine.group;
        let (taken, left_out) = kept.give_back(
            clocks,
            |name| volumes.get(name).copied(),
            |held| {
                let taken = group.put_back_hint(clocks.now, held);
                if let Err(HintRefusal::Hint(HintError::Class(class))) = &taken {
                    unknown.insert(class.clone());
                }
                taken.is_ok()
            },
            |source, class, score| scores.push((source.to_string(), class.to_string(), score)),
        );
        for (source, class, score) in scores {
            self.engine.group.put_back_score(&source, &class, score);
        }
        if taken + left_out > 0 {
            let text = match taken {
                1 => format!("1 range of hints is known again, {left_out} no longer fit"),
                _ => format!("{taken} ranges of hints are known again, {left_out} no longer fit"),
            };
            self.engine.event(Severity::Info, "hints", text);
        }
        self.keep_unknown(path, &unknown);
    }

    /// Sets a file of hints aside that names classes which the table does not have: the next write
    /// would go over these names, and the right table would find nothing.
    fn keep_unknown(&mut self, path: &Path, unknown: &BTreeSet<String>) {
        if unknown.is_empty() {
            return;
        }
        let names: Vec<&str> = unknown.iter().map(String::as_str).collect();
        let kept = if learnt::set_aside(path) {
            "; the file is kept as hints.json.unread: stop the engine, configure the table that has \
             them (`classes` of `[hints]`), rename it back and start again, or give those hints again"
        } else {
            "; those hints must be given again"
        };
        let names = names.join(", ");
        let text = format!("{}: the table of classes does not have {names}{kept}", path.display());
        self.engine.event(Severity::Warning, "hints", text);
    }

    fn clocks(&self) -> Clocks {
        Clocks { now: self.engine.now(), wall_ms: wall_clock() }
    }

    /// Withdraws everything that a source said.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn forget_hints(&mut self, source: &str) -> Result<(), Refused> {
        if self.engine.group.forget_hints(source) {
            return Ok(());
        }
        let names: Vec<&str> =
            self.engine.group.hints().sources().iter().map(|known| known.name.as_str()).collect();
        let known = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        Err(Refused::missing(format!("no hints came from {source}; sources are: {known}")))
    }

    /// Sets the share of each pool's chunks that may be pinned, 0 to 1.
    pub fn set_pin_share(&mut self, share: f64) {
        self.engine.group.set_pin_share(share);
    }

    /// Takes another table of classes; hints given before are forgotten.
    ///
    /// # Errors
    /// When it is no table.
    pub fn set_hint_classes(&mut self, text: &str) -> Result<(), Refused> {
        let classes = Classes::parse(text).map_err(Refused::invalid)?;
        let count = classes.len() - 1;
        self.engine.group.set_hint_classes(classes);
        let text = format!("hints are sorted into {count} classes from now on");
        self.engine.event(Severity::Info, "hints", text);
        Ok(())
    }
}

/// The moment so many seconds from now; `key` is what the document calls them.
fn moment(now: Nanos, key: &str, seconds: Option<f64>) -> Result<Option<Nanos>, String> {
    match seconds {
        None => Ok(None),
        Some(seconds) if (0.001..=1e9).contains(&seconds) => {
            Ok(Some(Nanos(now.0 + (seconds * 1e9) as u64)))
        }
        Some(_) => Err(format!("`{key}` is 0.001 to 1,000,000,000")),
    }
}
