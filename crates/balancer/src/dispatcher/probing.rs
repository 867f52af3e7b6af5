//! Probes: which backends are asked on account of a request, and what of their answers is believed.
//!
//! An answer is judged as a load report is: what cannot be is refused, and a queue shorter than
//! what this balancer has there since before it asked counts as that, and against the backend. So
//! a backend that claims to be idle gets no more than one that is silent.

use super::Dispatcher;
use crate::reports::{LoadReport, QUEUE_MAX, ReportError};
use thermocline_policy::balance::{Probe, Probing};
use thermocline_units::{Nanos, SiteId};

/// A backend that is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The backend to probe.
    pub site: SiteId,
    /// Requests that had been sent there by then.
    sent: u64,
}

impl Dispatcher {
    /// The probing that the rule wants for the request that has just arrived.
    pub fn probing(&self) -> Probing {
        self.balancer.probing()
    }

    /// Backends to probe on account of the request that has just arrived, appended to `out`. Told
    /// once a request.
    pub fn probes(&mut self, now: Nanos, out: &mut Vec<Asked>) {
        self.asked.clear();
        self.balancer.probes(now, &mut self.asked);
        let board = self.balancer.board();
        let may_have_any = |site: &SiteId| self.backends[site.index()].is_wanted();
        debug_assert!(self.asked.iter().all(may_have_any), "who gets nothing is not asked");
        let asked = self.asked.iter();
        out.extend(asked.map(|site| Asked { site: *site, sent: board.site(*site).sent() }));
    }

    /// A backend has answered: its load, and what requests take there now, where it told.
    ///
    /// # Errors
    /// When the answer cannot be used; nothing has changed then.
    pub fn probed(
        &mut self,
        now: Nanos,
        asked: &Asked,
        answer: &LoadReport,
        latency: Option<Nanos>,
    ) -> Result<(), ReportError> {
        let (site, age_max) = (asked.site, self.settings.report_age_max);
        let backend = self.backends.get_mut(site.index()).filter(|backend| !backend.gone);
        let backend = backend.ok_or(ReportError::Unknown)?;
        let answer = backend.trust.admit(now, answer, age_max);
        let answer = answer.inspect_err(|_| backend.counters.reports_refused += 1)?;
        let known = self.balancer.board().site(site);
        let since = known.sent().saturating_sub(asked.sent);
        let own = u64::from(known.outstanding()).saturating_sub(since) as u32;
        assert!(answer.taken <= now, "an answer is of the past");
        assert!(own <= known.outstanding(), "only what is outstanding can wait there");
        let is_true = answer.queue >= own;
        let in_flight = answer.queue.max(own);
        self.balancer.probed(now, site, &Probe { taken: answer.taken, in_flight, latency });
        self.judge(now, site, is_true);
        Ok(())
    }

    /// A backend told its load with the answer to a request of this balancer: a rule that probes
    /// takes it for an answer to a probe. [`Dispatcher::reported`] has found it believable.
    pub fn told_with_answer(
        &mut self,
        now: Nanos,
        site: SiteId,
        report: &LoadReport,
        latency: Option<Nanos>,
    ) {
        if self.balancer.probing() == Probing::None {
            return;
        }
        assert!(report.queue <= QUEUE_MAX, "the report was found believable");
        let known = self.balancer.board().site(site);
        let own = u64::from(known.outstanding()).saturating_sub(known.unseen());
        let in_flight = report.queue.max(own) as u32;
        let taken = now.saturating_sub(report.age);
        self.balancer.probed(now, site, &Probe { taken, in_flight, latency });
    }
}
