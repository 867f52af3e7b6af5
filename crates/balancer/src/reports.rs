//! Load reports: what a backend says of itself, and how far it is believed.
//!
//! 1. Numbers that cannot be are refused, not corrected: an age above the limit, a queue above
//!    [`QUEUE_MAX`], more than [`BALANCERS_MAX`] balancers. A time in the future cannot be said: a
//!    report tells its age, and needs no common clock.
//! 2. A queue shorter than what this balancer itself had sent there before the report was made, and
//!    is still waiting for, is untrue. It counts as what is known: a backend that claims to be idle
//!    gets no more than one that is silent.
//! 3. Untrue reports in a row, [`UNTRUE_MAX`] of them, silence a backend for [`SILENCE`]: it is
//!    picked by own counts then. A few may be chance, because requests take time to get there.
//!
//! A backend that claims to be busier than it is harms only itself: it is not refused.

use thermocline_policy::balance::Report;
use thermocline_units::Nanos;

/// No queue is longer: more requests than a process has file descriptors.
pub(crate) const QUEUE_MAX: u64 = 1 << 20;
/// Most balancers before one server; more are not put there.
pub(crate) const BALANCERS_MAX: u64 = 1 << 16;
const _: () = assert!(QUEUE_MAX <= u32::MAX as u64, "a board counts a queue in 32 bits");
const _: () = assert!(BALANCERS_MAX <= u32::MAX as u64, "a board counts balancers in 32 bits");

/// Untrue reports in a row that silence a backend.
const UNTRUE_MAX: u32 = 8;
/// For how long.
const SILENCE: Nanos = Nanos::from_secs(60);

/// A backend's report of its load; docs/formats/load-report.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// Requests waiting or in service, of all balancers.
    pub queue: u64,
    /// Requests that have ever arrived; 0 when it does not count.
    pub arrivals: u64,
    /// Balancers that send there; 0 when it does not know.
    pub balancers: u64,
    /// Time since the backend looked.
    pub age: Nanos,
}

/// A reason not to use a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// A report older than what can be of use.
    #[error("the report is {age} old; at most {max} is of use")]
    Old {
        /// Its age.
        age: Nanos,
        /// The limit.
        max: Nanos,
    },
    /// The queue cannot be that long.
    #[error("a queue of {0} requests cannot be; at most 1,048,576")]
    Queue(u64),
    /// There cannot be so many balancers.
    #[error("{0} balancers cannot be; at most 65,536")]
    Balancers(u64),
    /// A server that has told too many queues that cannot have been.
    #[error(
        "it reported queues shorter than what waits there, again and again; not believed for {0}"
    )]
    Silenced(Nanos),
    /// There is no such backend.
    #[error("there is no such backend")]
    Unknown,
}

/// Trust in a backend's reports.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trust {
    untrue: u32,
    silent_until: Option<Nanos>,
}

impl Trust {
    /// Checks what can be checked without knowing the backend's queue.
    pub(crate) fn admit(
        &mut self,
        now: Nanos,
        report: &LoadReport,
        age_max: Nanos,
    ) -> Result<Report, ReportError> {
        if report.age > age_max {
            return Err(ReportError::Old { age: report.age, max: age_max });
        }
        if report.queue > QUEUE_MAX {
            return Err(ReportError::Queue(report.queue));
        }
        if report.balancers > BALANCERS_MAX {
            return Err(ReportError::Balancers(report.balancers));
        }
        match self.silent_until {
            Some(until) if now < until => {
                return Err(ReportError::Silenced(until.saturating_sub(now)));
            }
            _ => self.silent_until = None,
        }
        assert!(self.untrue < UNTRUE_MAX, "so many untrue ones in a row have silenced it");
        let taken = now.saturating_sub(report.age);
        assert!(now.saturating_sub(taken) <= age_max, "what is believed was seen lately");
        Ok(Report {
            taken,
            queue: report.queue as u32,
            arrivals: report.arrivals,
            balancers: report.balancers as u32,
        })
    }

    /// Counts whether a report was true; `true` when the backend has now been silenced.
    pub(crate) fn judge(&mut self, now: Nanos, is_true: bool) -> bool {
        assert!(self.silent_until.is_none(), "reports of one that is silenced are not used");
        self.untrue = if is_true { 0 } else { self.untrue + 1 };
        let silenced = self.untrue >= UNTRUE_MAX;
        if silenced {
            self.untrue = 0;
            self.silent_until = Some(Nanos(now.0 + SILENCE.0));
        }
        assert!(self.untrue < UNTRUE_MAX, "the row ends with the silence");
        silenced
    }
}
