//! Scrubs: begun, told, stopped.

use super::AdminApi;
use crate::api::{NewScrub, Scrub};
use std::path::PathBuf;
use std::time::Duration;
use thermocline_admin::api::{Refused, Severity};
use thermocline_units::PoolId;
use thermocline_volume::{PoolState, ScrubRun};

impl AdminApi<'_> {
    /// The scrub under way or the last one, and what has been found.
    pub fn scrub(&self) -> Scrub {
        let group = &self.engine.group;
        let (status, scrubs) = (group.scrub_status(), &self.engine.scrubs);
        let name = |id: PoolId| group.pool_status(id).expect("it was scrubbed").name;
        let share = |run: ScrubRun| run.passed as f64 / run.total.max(1) as f64;
        let state = match status.run {
            None => "none",
            // Whoever waits for the end is told when it was, so it has been written down before.
            Some(run) if scrubs.has_told(&run) => "ended",
            Some(_) => "running",
        };
        Scrub {
            state: state.to_string(),
            pool: status.run.and_then(|run| run.pool).map(name),
            progress: status.run.map_or(0.0, |run| if run.total == 0 { 1.0 } else { share(run) }),
            skipped_chunks: status.run.map_or(0, |run| run.skipped),
            chunks: status.chunks,
            read_bytes: status.read.0,
            checksum_errors: status.checksum_errors,
            unreadable: status.unreadable,
            repaired_blocks: status.repaired,
            replaced_copies: status.dropped,
            unrepairable_blocks: status.unrepairable,
            undecided_blocks: status.undecided,
            written_tables: group.checksum_status().checksummed,
            outdated_tables: group.checksum_status().broken,
            repaired_tables: status.tables_repaired,
            lost_tables: group.checksum_status().lost,
            every_seconds: scrubs.every.map(|every| every.as_secs_f64()),
            last_end_ms: scrubs.last_end_ms,
        }
    }

    /// Begins to read and verify what pools hold.
    ///
    /// # Errors
    /// When there is no such pool, it is out of service, or a scrub is under way.
    pub fn begin_scrub(&mut self, wish: &NewScrub) -> Result<Scrub, Refused> {
        self.engine.tell_ended_scrub();
        if self.scrub().state == "running" {
            return Err(Refused::conflict("a scrub is under way; stop it first"));
        }
        let pool = wish.pool.as_deref().map(|name| self.pool_named(name)).transpose()?;
        let now = self.engine.now();
        let text = match pool {
            None => {
                self.engine.group.scrub(now);
                "has begun".to_string()
            }
            Some(id) => {
                let status = self.engine.group.pool_status(id).expect("it was just found");
                if matches!(status.state, PoolState::Dead | PoolState::Removed) {
                    let text = format!("pool {} is out of service", status.name);
                    return Err(Refused::conflict(text));
                }
                self.engine.group.scrub_pool(now, id);
                format!("of pool {} has begun", status.name)
            }
        };
        self.engine.scrubs.cancelled = false;
        self.engine.event(Severity::Info, "scrub", text);
        Ok(self.scrub())
    }

    /// Stops the scrub that is under way.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn stop_scrub(&mut self) -> Result<Scrub, Refused> {
        if !self.engine.group.cancel_scrub() {
            return Err(Refused::missing("no scrub is under way"));
        }
        self.engine.scrubs.cancelled = true;
        Ok(self.scrub())
    }

    /// Lets all pools be scrubbed so often; the end of the last time is kept in `memory`.
    pub fn schedule_scrubs(&mut self, every: Option<Duration>, memory: PathBuf) {
        self.engine.schedule_scrubs(every, memory);
    }
}
