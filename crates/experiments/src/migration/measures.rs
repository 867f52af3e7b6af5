//! Measures of a run, as the source defines them (Tai 2015 §4.1.3.1): mean response, share of
//! requests above their service level, and by how much those are above it.

use super::config::{Class, Sla};
use super::disks::Answer;
use serde::Serialize;

/// Counts and sums of answers, times in ms.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    answers: u64,
    response: f64,
    violations: u64,
    excess: f64,
}

impl Sums {
    fn add(&mut self, response: f64, sla: f64) {
        self.answers += 1;
        self.response += response;
        if response > sla {
            self.violations += 1;
            self.excess += response - sla;
        }
    }

    fn and(self, other: &Sums) -> Sums {
        Sums {
            answers: self.answers + other.answers,
            response: self.response + other.response,
            violations: self.violations + other.violations,
            excess: self.excess + other.excess,
        }
    }

    fn service(&self) -> Served {
        let answers = self.answers.max(1) as f64;
        Served {
            response_ms: self.response / answers,
            violations_percent: self.violations as f64 / answers * 100.0,
            excess_ms: self.excess / self.violations.max(1) as f64,
        }
    }
}

/// Service of requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Served {
    /// Mean response (M_Resp).
    pub response_ms: f64,
    /// Share of requests above their service level (V_Ratio).
    pub violations_percent: f64,
    /// Mean excess of these over it (V_Time).
    pub excess_ms: f64,
}

/// Measures of one run.
#[derive(Debug, Clone, Serialize)]
pub struct Measures {
    /// All requests.
    pub all: Served,
    /// Those of strict applications.
    pub strict: Served,
    /// Figures by application, the strict ones first.
    pub applications: Vec<Served>,
    /// Share of time that each disk was busy, the fast ones first.
    pub busy: Vec<f64>,
    /// Mean response of requests to units while they moved (Mgr_Resp); 0 when none moved.
    pub moving_response_ms: f64,
    /// Share of bursty slots of loose applications whose unit was, or was sent, on the fast tier
    /// (Mgr_Ratio).
    pub migrated_percent: f64,
}

/// Answers of a run.
#[derive(Debug)]
pub(super) struct Tally {
    classes: Vec<Class>,
    /// SLAs by application, ms.
    slas: Vec<f64>,
    applications: Vec<Sums>,
    moving: Sums,
    /// Bursty slots that were judged, and those whose unit is on the fast tier for it.
    bursts: u64,
    lifted: u64,
}

impl Tally {
    pub(super) fn new(classes: &[Class], sla: Sla) -> Tally {
        Tally {
            slas: classes.iter().map(|class| sla.of(*class).as_secs_f64() * 1e3).collect(),
            applications: vec![Sums::default(); classes.len()],
            classes: classes.to_vec(),
            moving: Sums::default(),
            bursts: 0,
            lifted: 0,
        }
    }

    pub(super) fn note(&mut self, application: usize, answer: &Answer) {
        let sla = self.slas[application];
        self.applications[application].add(answer.response, sla);
        if answer.moving {
            self.moving.add(answer.response, sla);
        }
    }

    pub(super) fn judge_burst(&mut self, lifted: bool) {
        self.bursts += 1;
        self.lifted += u64::from(lifted);
    }

    pub(super) fn measures(&self, busy: Vec<f64>) -> Measures {
        let sum = |of: &dyn Fn(Class) -> bool| {
            let those =
                self.applications.iter().zip(&self.classes).filter(|(_, class)| of(**class));
            those.fold(Sums::default(), |all, (sums, _)| all.and(sums)).service()
        };
        Measures {
            all: sum(&|_| true),
            strict: sum(&|class| class == Class::Strict),
            applications: self.applications.iter().map(Sums::service).collect(),
            busy,
            moving_response_ms: self.moving.service().response_ms,
            migrated_percent: self.lifted as f64 / self.bursts.max(1) as f64 * 100.0,
        }
    }
}
