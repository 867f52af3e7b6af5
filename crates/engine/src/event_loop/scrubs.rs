//! Scrubs by the calendar, and what verifying finds, told as events.
//!
//! When the last scrub of all pools ended is kept in a small file, so that restarts neither put
//! scrubs off for ever nor bring one each. Before the first one has ended, the file has the time of
//! the first start, behind the word `since`: the interval begins there, and no scrub ended then.

use super::Engine;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline_admin::api::Severity;
use thermocline_admin::past::wall_clock;
use thermocline_units::Nanos;
use thermocline_volume::{Finding, FindingKind, ScrubRun};

/// An engine that has just started has other things to do.
const AFTER_THE_START: Nanos = Nanos::from_secs(600);

/// Word before the time from which an interval counts when no scrub has ended yet.
const SINCE: &str = "since";

/// Scrubs by the calendar.
#[derive(Default)]
pub(super) struct Scrubs {
    /// Time between two scrubs of all pools; `None`: when somebody asks.
    pub(super) every: Option<Duration>,
    /// File with the time of the last one's end, or from which on the first one counts.
    memory: Option<PathBuf>,
    /// Start of the interval when none has ended yet, in milliseconds since 1970.
    since_ms: Option<u64>,
    /// Time of the end of the last one of all pools, in milliseconds since 1970.
    pub(super) last_end_ms: Option<u64>,
    /// The run whose end has been told.
    told: u64,
    /// True if it was cancelled.
    pub(super) cancelled: bool,
    findings: Vec<Finding>,
    untold: u64,
}

impl Scrubs {
    /// True if the end of this run has been told.
    pub(super) fn has_told(&self, run: &ScrubRun) -> bool {
        run.ended && run.number <= self.told
    }

    /// True if it is time. A last time in the future was told by a clock that was wrong, and says
    /// nothing.
    fn is_due(&self, now_ms: u64) -> bool {
        let last = self.last_end_ms.or(self.since_ms);
        let (Some(every), Some(last)) = (self.every, last) else { return false };
        now_ms.checked_sub(last).is_none_or(|passed| u128::from(passed) >= every.as_millis())
    }

    /// Remembers that all pools have been scrubbed; what went wrong, if something did.
    fn note_end(&mut self, now_ms: u64) -> Option<String> {
        self.last_end_ms = Some(now_ms);
        let failed = self.remember(&format!("{now_ms}\n"))?;
        Some(format!("{failed}; the next start does not know of this scrub"))
    }

    /// Reads what `memory` has kept. Where it has nothing, an interval begins now; what went wrong,
    /// if something did.
    fn recall(&mut self, memory: &Path, now_ms: u64) -> Option<String> {
        let known = std::fs::read_to_string(memory).unwrap_or_default();
        self.memory = Some(memory.to_path_buf());
        let known = known.trim();
        match known.strip_prefix(SINCE) {
            Some(since) => self.since_ms = since.trim().parse().ok(),
            None => self.last_end_ms = known.parse().ok(),
        }
        if self.every.is_none() || self.last_end_ms.or(self.since_ms).is_some() {
            return None;
        }
        self.since_ms = Some(now_ms);
        let failed = self.remember(&format!("{SINCE} {now_ms}\n"))?;
        Some(format!("{failed}; the next start puts scrubs off once more"))
    }

    fn remember(&self, text: &str) -> Option<String> {
        let path = self.memory.as_ref()?;
        let failed = std::fs::write(path, text).err()?;
        Some(format!("{}: {failed}", path.display()))
    }
}

impl Engine {
    /// Scrubs all pools so often; the file `memory` has the end of the last time.
    pub(super) fn schedule_scrubs(&mut self, every: Option<Duration>, memory: PathBuf) {
        self.scrubs.every = every;
        let failed = self.scrubs.recall(&memory, wall_clock());
        self.tell_failed(failed);
    }

    /// Begins what is due, tells what has ended and what was found; once a second.
    pub(super) fn watch_scrubs(&mut self) {
        self.tell_ended_scrub();
        let now = self.now();
        let runs = self.group.scrub_status().run.is_some_and(|run| !run.ended);
        if !runs && now >= AFTER_THE_START && self.scrubs.is_due(wall_clock()) {
            self.event(Severity::Info, "scrub", "has begun, as it is due".to_string());
            self.scrubs.cancelled = false;
            self.group.scrub(now);
        }
    }

    /// Tells what was found since the last look, and the end of a run that has ended since.
    pub(super) fn tell_ended_scrub(&mut self) {
        self.tell_findings();
        let run = self.group.scrub_status().run;
        if let Some(run) = run.filter(|run| run.ended && !self.scrubs.has_told(run)) {
            self.scrubs.told = run.number;
            self.tell_end(&run);
        }
    }

    fn tell_end(&mut self, run: &ScrubRun) {
        let status = self.group.scrub_status();
        let whole = run.pool.is_none() && !std::mem::take(&mut self.scrubs.cancelled);
        let what = if run.passed < run.total { "was stopped" } else { "has ended" };
        let text = format!(
            "{what}; {} chunks were passed over; since the start: {} blocks repaired, {} cannot be \
             repaired, in {} copies differ without a checksum",
            run.skipped, status.repaired, status.unrepairable, status.undecided
        );
        let bad = status.unrepairable + status.undecided > 0;
        let severity = if bad { Severity::Warning } else { Severity::Info };
        self.event(severity, "scrub", text);
        if whole {
            let failed = self.scrubs.note_end(wall_clock());
            self.tell_failed(failed);
        }
    }

    fn tell_failed(&mut self, failed: Option<String>) {
        if let Some(text) = failed {
            self.event(Severity::Warning, "scrub", text);
        }
    }

    fn tell_findings(&mut self) {
        let mut findings = std::mem::take(&mut self.scrubs.findings);
        self.group.take_findings(&mut findings);
        for finding in findings.drain(..) {
            let (severity, text) = self.told(&finding);
            self.event(severity, "scrub", text);
        }
        self.scrubs.findings = findings;
        let untold = self.group.findings_untold();
        let more = untold - std::mem::replace(&mut self.scrubs.untold, untold);
        if more > 0 {
            self.event(Severity::Warning, "scrub", format!("{more} findings more were not told"));
        }
    }

    fn told(&self, finding: &Finding) -> (Severity, String) {
        let Finding { kind, volume, offset, length, pool } = finding;
        let name = pool.and_then(|pool| Some(self.group.pool_status(pool)?.name));
        let name = name.unwrap_or_default();
        let volume = self.group.volumes().find(|known| known.id == *volume);
        let volume = volume.map_or("(deleted)".to_string(), |volume| volume.name);
        let at = format!("volume {volume}, {length} at {offset} (byte {})", offset.0);
        match kind {
            FindingKind::Repaired => {
                (Severity::Warning, format!("{at}: the copy on {name} was wrong and is repaired"))
            }
            FindingKind::Dropped => {
                let text = format!(
                    "{at}: the copy on {name} cannot be repaired in place; another one is made"
                );
                (Severity::Warning, text)
            }
            FindingKind::Unrepairable => {
                let text = format!(
                    "{at}: no copy is as it was written; reads fail; write it anew from a backup"
                );
                (Severity::Error, text)
            }
            FindingKind::Undecided => {
                let text = format!(
                    "{at}: copies differ, and no checksum says which is right; nothing was changed; write it anew"
                );
                (Severity::Error, text)
            }
            FindingKind::ChecksumsLost => {
                let text = format!(
                    "{at}: the checksums are lost; until there are new ones reads are not verified"
                );
                (Severity::Warning, text)
            }
        }
    }
}

#[cfg(test)]
mod tests;
