//! From a failing plan to the shortest one that fails in the same way.
//!
//! 1. Everything after the failing step goes.
//! 2. Runs of steps are taken out, halves first, then ever shorter ones, then single steps, as long
//!    as what is left fails alike (delta debugging: Zeller & Hildebrandt, Simplifying and Isolating
//!    Failure-Inducing Input, 2002).
//! 3. Pools, settings and single steps are made simpler, and 2 begins again while that helps.
//!
//! Failures are alike when their texts are, numbers aside. Disks draw from their seed request by
//! request, so a shorter plan meets other latencies; what is found is a minimum of its
//! neighbourhood only.

use crate::plan::{Plan, Span, Step};
use crate::run::{Extras, Failure, run};
use thermocline_volume::Copying;

/// Runs that shrinking may take.
const RUNS_MAX: u32 = 4000;

/// Characters of a failure's text that say what kind it is.
const KIND_CHARACTERS: usize = 48;

/// A failing plan, ever shorter.
struct Shrinker {
    plan: Plan,
    failure: Failure,
    extras: Extras,
    runs: u32,
}

/// The shortest plan found, and how it fails.
pub(crate) fn shrink(plan: &Plan, failure: &Failure, extras: Extras) -> (Plan, Failure) {
    let mut shrinker = Shrinker { plan: plan.clone(), failure: failure.clone(), extras, runs: 0 };
    let mut end = plan.clone();
    end.steps.truncate(failure.step + 1);
    shrinker.keeps_failing(end);
    loop {
        let before = shrinker.plan.clone();
        shrinker.take_out();
        shrinker.simplify();
        if shrinker.plan.steps == before.steps || shrinker.runs >= RUNS_MAX {
            return (shrinker.plan, shrinker.failure);
        }
    }
}

impl Shrinker {
    /// True if `plan` fails alike; then it is the one to go on with.
    fn keeps_failing(&mut self, plan: Plan) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        match run(&plan, self.extras) {
            Err(failure) if kind(&failure) == kind(&self.failure) => {
                self.plan = plan;
                self.failure = failure;
                true
            }
            _ => false,
        }
    }

    fn take_out(&mut self) {
        let mut length = self.plan.steps.len().div_ceil(2);
        while length > 0 {
            let mut at = 0;
            while at < self.plan.steps.len() {
                let mut shorter = self.plan.clone();
                let end = (at + length).min(shorter.steps.len());
                shorter.steps.drain(at..end);
                if !self.keeps_failing(shorter) {
                    at += length;
                }
            }
            length /= 2;
        }
    }

    fn simplify(&mut self) {
        while self.plan.pools.len() > 1 {
            let mut simpler = self.plan.clone();
            simpler.pools.pop();
            if !self.keeps_failing(simpler) {
                break;
            }
        }
        let mut simpler = self.plan.clone();
        (simpler.settings.checksums, simpler.settings.added_checksums) = (false, false);
        let Copying { feeds, keeps, .. } = simpler.settings.copying;
        simpler.settings.copying =
            Copying { rate_per_second: None, feeds, keeps, ..Copying::default() };
        self.keeps_failing(simpler);
        for at in 0..self.plan.steps.len() {
            for step in simpler_than(&self.plan.steps[at]) {
                let mut simpler = self.plan.clone();
                simpler.steps[at] = step;
                if self.keeps_failing(simpler) {
                    break;
                }
            }
        }
    }
}

/// The text of a failure without its numbers.
fn kind(failure: &Failure) -> String {
    let letters = failure.what.chars().filter(|c| !c.is_ascii_digit());
    letters.take(KIND_CHARACTERS).collect()
}

/// Simpler steps to try in its place, simplest first.
fn simpler_than(step: &Step) -> Vec<Step> {
    let spans = |span: Span| {
        let start = Span { sector: 0, ..span };
        let aligned = Span { sector: span.sector / 128 * 128, sectors: 128, ..span };
        let smallest = Span { sectors: 1, ..span };
        let tried = [Span { volume: 0, sectors: 1, ..start }, Span { volume: 0, ..start }];
        let tried = tried.into_iter().chain([aligned, start, smallest]);
        tried.filter(move |other| *other != span && other.sectors <= span.sectors)
    };
    match *step {
        Step::Read(span) => spans(span).map(Step::Read).collect(),
        Step::Discard(span) => spans(span).map(Step::Discard).collect(),
        Step::Write { span, fua, patience } => {
            let mut steps: Vec<Step> =
                spans(span).map(|span| Step::Write { span, fua: false, patience: None }).collect();
            if fua || patience.is_some() {
                steps.push(Step::Write { span, fua: false, patience: None });
            }
            steps
        }
        Step::WriteZeroes { span, fua } => {
            spans(span).map(|span| Step::WriteZeroes { span, fua }).collect()
        }
        Step::Wait { us } if us > 1 => vec![Step::Wait { us: us / 8 }, Step::Wait { us: us / 2 }],
        Step::Events { count } if count > 1 => {
            vec![Step::Events { count: count / 4 }, Step::Events { count: count - 1 }]
        }
        Step::CreateVolume { sectors } => {
            let small = sectors.min(512);
            vec![Step::CreateVolume { sectors: small }; usize::from(small != sectors)]
        }
        _ => Vec::new(),
    }
}
