//! Cutting by another unit, an accelerator: which pieces it gets, and when it has failed.
//!
//! 1. A flow's next piece goes to the unit if the unit computes the flow's method, the piece is
//!    long enough to be worth it, and fewer jobs are with the unit than it takes. Shorter pieces
//!    wait for more bytes, up to a flush. Everything else is cut by this processor at once.
//! 2. An answer is checked before it is used (`chunking::check`). A job that the unit says has
//!    failed is cut here; so many in a row, a false answer, none in time, or a unit that is gone
//!    are a failure of the unit ([`UnitFault`]).
//! 3. A unit that failed gets nothing more, until the caller says that it is back. What it had is
//!    cut here at once, and what it still answers is not heard.
//!
//! The unit itself is the caller's: jobs leave as effects, and answers come back. Memory: each flow
//! has one job at most with the unit, whose bytes the flow's own bounds include.

use crate::encoder::Encoder;
use std::collections::{BTreeMap, VecDeque};
use thermocline_chunking::Lie;
use thermocline_ports::Ticket;
use thermocline_ports::accelerator::{Abilities, AcceleratorError, Done, Fingerprint, Job};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};
use thermocline_units::{Bytes, Nanos, Rng};

/// Failed jobs in a row with which a unit has failed.
const FAILURES_IN_A_ROW: u32 = 3;

/// Settings for cutting by a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffloadSettings {
    /// Abilities of the unit. The fingerprint is Rabin16 if it has all of them.
    pub abilities: Abilities,
    /// Shorter pieces are cut by this processor.
    pub least: Bytes,
    /// Longest time from a job to its answer.
    pub patience: Nanos,
    /// One chunk in so many is cut again here to check an answer; 1: all of them. 1 or more.
    pub check_one_in: u64,
}

impl OffloadSettings {
    /// The defaults for a unit with these abilities: 16 KiB, 1 s, one in 8.
    pub fn new(abilities: Abilities) -> OffloadSettings {
        let (least, patience) = (Bytes::from_kib(16), Nanos::from_secs(1));
        OffloadSettings { abilities, least, patience, check_one_in: 8 }
    }

    /// The fingerprint by which content is cut, by the unit and in its place.
    pub fn fingerprint(&self) -> Fingerprint {
        self.abilities.only.unwrap_or(Fingerprint::Rabin16)
    }
}

/// A reason that a unit has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnitFault {
    /// A job that was not answered in time.
    #[error("it did not answer a job in time")]
    Late,
    /// Its answer is false.
    #[error("its answer is false: {0}")]
    Lied(Lie),
    /// A failure that it tells, or what else is wrong with it.
    #[error("{0}")]
    Failed(AcceleratorError),
}

/// Counts of what a unit did, and what was done in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OffloadCounts {
    /// Jobs that were given to it.
    pub jobs: u64,
    /// Bytes that it cut, and that were used.
    pub bytes: u64,
    /// Jobs that were cut here, because it failed or its answer was false.
    pub jobs_failed: u64,
    /// Answers that were false.
    pub lies: u64,
}

impl OffloadCounts {
    /// Adds another's counts.
    pub fn add(&mut self, other: &OffloadCounts) {
        self.jobs += other.jobs;
        self.bytes += other.bytes;
        self.jobs_failed += other.jobs_failed;
        self.lies += other.lies;
    }
}

/// A job with the unit.
struct Asked {
    flow: u32,
    bytes: u64,
    until: Nanos,
}

/// The side of an end that gives work to a unit.
pub(crate) struct Offload {
    settings: OffloadSettings,
    is_up: bool,
    rng: Rng,
    next: u64,
    /// Jobs by ticket, which is also the order in which their time ends.
    asked: BTreeMap<Ticket, Asked>,
    jobs: VecDeque<(Ticket, Job)>,
    failures_in_a_row: u32,
    faults: VecDeque<UnitFault>,
    counts: OffloadCounts,
}

impl Offload {
    /// A unit that is up. `seed` draws the chunks that are checked.
    ///
    /// # Panics
    /// If one chunk in none is to be checked.
    pub(crate) fn new(settings: OffloadSettings, seed: u64) -> Offload {
        assert!(settings.check_one_in > 0, "one in none cannot be checked");
        Offload {
            settings,
            is_up: true,
            rng: Rng::seeded(seed),
            next: 0,
            asked: BTreeMap::new(),
            jobs: VecDeque::new(),
            failures_in_a_row: 0,
            faults: VecDeque::new(),
            counts: OffloadCounts::default(),
        }
    }

    /// Counts so far.
    pub(crate) fn counts(&self) -> OffloadCounts {
        self.counts
    }

    /// The next job for the unit.
    pub(crate) fn next_job(&mut self) -> Option<(Ticket, Job)> {
        self.jobs.pop_front()
    }

    /// The next failure that the caller has not heard of.
    pub(crate) fn next_fault(&mut self) -> Option<UnitFault> {
        self.faults.pop_front()
    }

    /// Time at which a job is late.
    pub(crate) fn next_deadline(&self) -> Option<Nanos> {
        self.asked.values().next().map(|asked| asked.until)
    }

    /// Gives a flow's next piece to the unit, if it should have it; true if the piece is not to be
    /// cut here now: the unit has it, or it waits for more bytes.
    pub(crate) fn takes(&mut self, now: Nanos, number: u32, encoder: &mut Encoder) -> bool {
        if encoder.is_asked() {
            return true;
        }
        let Abilities { buffer_max, queue_depth, .. } = self.settings.abilities;
        let is_busy = self.asked.len() >= queue_depth as usize;
        met_if(self.is_up && is_busy, "a unit has as many jobs as it takes");
        let piece = encoder.piece();
        if !self.is_up || is_busy || piece == 0 {
            return false;
        }
        if piece < self.settings.least.0 {
            return !encoder.piece_is_whole();
        }
        let Some(job) = encoder.ask(buffer_max.0) else { return false };
        if !self.settings.abilities.include(&job) {
            encoder.withdraw();
            return false;
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        let until = Nanos(now.0.saturating_add(self.settings.patience.0));
        let bytes = u64::from(job.data.len());
        self.asked.insert(ticket, Asked { flow: number, bytes, until });
        self.jobs.push_back((ticket, job));
        self.counts.jobs += 1;
        true
    }

    /// The flow that an answer belongs to; `None` if nobody waits for it any more.
    pub(crate) fn flow_of(&self, done: &Done) -> Option<u32> {
        let asked = self.asked.get(&done.ticket);
        met_if(asked.is_none(), "an answer came that nobody waits for");
        asked.map(|asked| asked.flow)
    }

    /// Takes an answer for a flow's piece; `encoder` is `None` if the flow is gone. What does not
    /// hold is withdrawn, and to be cut here. True if the unit has failed with it:
    /// [`Offload::fail`] it.
    pub(crate) fn answered(&mut self, done: Done, encoder: Option<&mut Encoder>) -> bool {
        let asked = self.asked.remove(&done.ticket).expect("its flow was asked for");
        let fault = match (done.result, encoder) {
            (Ok(_), None) => return false,
            (Ok(answer), Some(encoder)) => {
                match encoder.answered(&answer, self.settings.check_one_in, &mut self.rng) {
                    Ok(()) => {
                        met("a unit's answer was used");
                        self.failures_in_a_row = 0;
                        self.counts.bytes += asked.bytes;
                        return false;
                    }
                    Err(lie) => {
                        met("a false answer was found");
                        self.counts.lies += 1;
                        UnitFault::Lied(lie)
                    }
                }
            }
            (Err(error), encoder) => {
                if let Some(encoder) = encoder {
                    encoder.withdraw();
                    // Here, not by the unit once more: it might fail with these bytes each time.
                    encoder.cut();
                }
                self.failures_in_a_row += 1;
                let may_try = error == AcceleratorError::Failed;
                if may_try && self.failures_in_a_row < FAILURES_IN_A_ROW {
                    met("a job failed, and the unit goes on");
                    self.counts.jobs_failed += 1;
                    return false;
                }
                UnitFault::Failed(error)
            }
        };
        self.counts.jobs_failed += 1;
        self.faults.push_back(fault);
        true
    }

    /// True if a job is late: [`Offload::fail`] the unit.
    pub(crate) fn is_late(&mut self, now: Nanos) -> bool {
        let is_late = self.next_deadline().is_some_and(|until| until <= now);
        if is_late && !mutant("a_lost_job_is_waited_for") {
            met("a unit did not answer in time");
            self.faults.push_back(UnitFault::Late);
            return true;
        }
        false
    }

    /// The unit has failed: it gets nothing more. The flows whose pieces it had, which are to be
    /// withdrawn and cut here.
    pub(crate) fn fail(&mut self) -> Vec<u32> {
        self.is_up = false;
        self.failures_in_a_row = 0;
        self.jobs.clear();
        self.counts.jobs_failed += self.asked.len() as u64;
        let asked = std::mem::take(&mut self.asked);
        if mutant("what_a_failed_unit_had_is_forgotten") {
            return Vec::new();
        }
        asked.into_values().map(|asked| asked.flow).collect()
    }

    /// The unit is back: it gets jobs again.
    pub(crate) fn is_back(&mut self) {
        assert!(self.is_up || self.asked.is_empty(), "what it had was withdrawn");
        met_if(!self.is_up, "a unit came back");
        self.is_up = true;
    }
}
