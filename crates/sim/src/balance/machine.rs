//! One policy over the requests of one seed.
//!
//! For each request, in order of time:
//! 1. what has left its site since is told to the balancer that had sent it;
//! 2. the balancer is given the reports that have reached it: of every site the last one, and the
//!    one before, for rules that look at differences. A balancer hears no report between two of its
//!    requests: it would only have replaced it by the next;
//! 3. it is told of the arrival, its probes are answered, and it picks;
//! 4. the site takes the request, and its departure is known.

use super::jobs::{self, Job};
use super::scenario::{Probes, Scenario, View};
use super::trail::Trail;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thermocline_policy::balance::{Balancer, Probe, Probing, Report, Rule, Truth};
use thermocline_units::{Latencies, Nanos, Rng, SiteId};

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Measures {
    pub(super) wait: Latencies,
    pub(super) response: Latencies,
    /// Share of the time that each site was busy.
    pub(super) busy: Vec<f64>,
    /// Arrivals at which the rule knew whether a burst was on, and those at which it said so.
    pub(super) knew: u64,
    pub(super) said: u64,
    /// Candidates, over all arrivals at which the rule named them, and how many those were.
    pub(super) candidates: f64,
    pub(super) named: u64,
}

impl Measures {
    pub(super) fn count(&mut self, arrived: Nanos, started: Nanos, done: Nanos) {
        self.wait.record(started.saturating_sub(arrived));
        self.response.record(done.saturating_sub(arrived));
    }
}

/// A FIFO server.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub(super) speed: f64,
    pub(super) free_at: Nanos,
    busy: u64,
}

impl Site {
    pub(super) fn new(speed: f64) -> Site {
        Site { speed, free_at: Nanos(0), busy: 0 }
    }

    /// Takes a request at its end of the queue: when it starts and when it is done. Time after
    /// `end` does not count as busy.
    pub(super) fn take(&mut self, at: Nanos, work: Nanos, end: Nanos) -> (Nanos, Nanos) {
        let start = self.free_at.max(at);
        let done = Nanos(start.0 + (work.0 as f64 / self.speed) as u64);
        self.free_at = done;
        self.busy += done.min(end).saturating_sub(start).0;
        (start, done)
    }

    pub(super) fn busy_share(&self, end: Nanos) -> f64 {
        self.busy as f64 / end.0.max(1) as f64
    }
}

/// A site as balancers may see it.
#[derive(Debug, Default)]
struct Watched {
    arrivals: Trail,
    departures: Trail,
    /// Waiting and in service, at this moment.
    present: u32,
    latencies: LatencyByLoad,
}

/// What requests took at a site, by how many they met there: what answers to probes tell is what
/// a request would take now, not what others took that met more or fewer (Prequal, NSDI 2024).
#[derive(Debug, Default)]
struct LatencyByLoad {
    /// Nanoseconds, index by requests met; 0 where none has met so many.
    means: Vec<f64>,
}

/// How fast means follow latencies.
const LATENCY_WEIGHT: f64 = 0.125;

/// Requests met from which on no difference is made.
const MET_MAX: usize = 255;

impl LatencyByLoad {
    fn add(&mut self, met: u32, latency: Nanos) {
        let met = (met as usize).min(MET_MAX);
        if self.means.len() <= met {
            self.means.resize(met + 1, 0.0);
        }
        let mean = &mut self.means[met];
        let weight = if *mean == 0.0 { 1.0 } else { LATENCY_WEIGHT };
        *mean += (latency.0 as f64 - *mean) * weight;
    }

    /// What a request takes that meets `present`, by the nearest count that is known.
    fn at(&self, present: u32) -> Option<Nanos> {
        let present = (present as usize).min(MET_MAX);
        let known = |at: usize| self.means.get(at).copied().filter(|mean| *mean > 0.0);
        let nearest = (0..=MET_MAX).find_map(|off| {
            known(present + off).or_else(|| present.checked_sub(off).and_then(known))
        });
        nearest.map(|mean| Nanos(mean as u64))
    }
}

/// A policy at work.
pub(super) struct Machine<'a> {
    scenario: &'a Scenario,
    jobs: &'a [Job],
    sites: Vec<Site>,
    watched: Vec<Watched>,
    balancers: Vec<Balancer>,
    /// When each balancer last heard reports that were taken.
    heard: Vec<Option<Nanos>>,
    /// Departure, request, site, requests that it met there.
    leaving: BinaryHeap<Reverse<(Nanos, u32, SiteId, u32)>>,
    queues: Vec<u32>,
    rng: Rng,
    probes: Vec<SiteId>,
    clairvoyant: bool,
}

impl<'a> Machine<'a> {
    /// `rule` is called once a balancer.
    pub(super) fn new(
        scenario: &'a Scenario,
        jobs: &'a [Job],
        seed: u64,
        clairvoyant: bool,
        rule: &dyn Fn() -> Box<dyn Rule>,
    ) -> Machine<'a> {
        let count = scenario.speeds.len();
        let balancer = |number: u32| {
            let stream = jobs::STREAM_OF_RULES + u64::from(number);
            let mut balancer = Balancer::new(rule(), jobs::seed_of(seed, stream));
            for speed in &scenario.speeds {
                balancer.add_site(if scenario.weights_known { *speed } else { 1.0 });
            }
            balancer
        };
        Machine {
            scenario,
            jobs,
            sites: scenario.speeds.iter().map(|speed| Site::new(*speed)).collect(),
            watched: (0..count).map(|_| Watched::default()).collect(),
            balancers: (0..scenario.balancers).map(balancer).collect(),
            heard: vec![None; scenario.balancers as usize],
            leaving: BinaryHeap::new(),
            queues: vec![0; count],
            rng: Rng::seeded(jobs::seed_of(seed, jobs::STREAM_OF_SITES)),
            probes: Vec::new(),
            clairvoyant,
        }
    }

    /// Runs it; the first `warmup` requests are not counted.
    pub(super) fn run(mut self, warmup: usize) -> Measures {
        let end = self.jobs.last().map_or(Nanos(0), |job| job.at);
        let mut measures = Measures::default();
        for (index, job) in self.jobs.iter().enumerate() {
            self.leave(job.at);
            self.report(job);
            let site = self.place(job);
            let (start, done) = self.sites[site.index()].take(job.at, job.work, end);
            let watched = &mut self.watched[site.index()];
            watched.arrivals.push(job.at);
            watched.departures.push(done);
            self.leaving.push(Reverse((done, index as u32, site, watched.present)));
            watched.present += 1;
            if index >= warmup {
                measures.count(job.at, start, done);
                self.note_mood(job, &mut measures);
            }
        }
        measures.busy = self.sites.iter().map(|site| site.busy_share(end)).collect();
        measures
    }

    /// Everything that has left its site by `now`.
    fn leave(&mut self, now: Nanos) {
        while let Some(&Reverse((done, index, site, met))) = self.leaving.peek()
            && done <= now
        {
            self.leaving.pop();
            let job = &self.jobs[index as usize];
            let latency = done.saturating_sub(job.at);
            let watched = &mut self.watched[site.index()];
            watched.present -= 1;
            watched.latencies.add(met, latency);
            let idle = watched.present == 0;
            self.balancers[job.balancer as usize].completed(done, site, Some(latency));
            if idle {
                let told = self.rng.below(self.balancers.len() as u64) as usize;
                self.balancers[told].idle(done, site);
            }
        }
    }

    /// When the last report that can be known at `now` was taken, and the one before it.
    fn taken(&self, now: Nanos) -> [Option<Nanos>; 2] {
        let delay = self.scenario.delay;
        let back = |from: Nanos, by: Nanos| (from >= by).then(|| Nanos(from.0 - by.0));
        if delay.0 == 0 {
            return [Some(now), Some(now)];
        }
        let last = match self.scenario.view {
            View::Exact => back(now, delay),
            View::Refresh => Some(Nanos(now.0 / delay.0 * delay.0)),
            View::Transit => back(Nanos(now.0 / delay.0 * delay.0), delay),
        };
        [last.and_then(|last| back(last, delay)), last]
    }

    /// Gives the reports that have come to whoever gets `job`.
    fn report(&mut self, job: &Job) {
        let taken = self.taken(job.at);
        let [_, Some(last)] = taken else { return };
        let balancer = job.balancer as usize;
        if self.heard[balancer] == Some(last) && self.scenario.view != View::Exact {
            return;
        }
        self.heard[balancer] = Some(last);
        for (index, watched) in self.watched.iter_mut().enumerate() {
            let arrivals = watched.arrivals.count(taken[0], taken[1]);
            let departures = watched.departures.count(taken[0], taken[1]);
            for which in 0..2 {
                let Some(taken) = taken[which] else { continue };
                let report = Report {
                    taken,
                    queue: (arrivals[which] - departures[which]) as u32,
                    arrivals: arrivals[which],
                    balancers: self.scenario.balancers,
                };
                self.balancers[balancer].reported(job.at, SiteId(index as u16), report);
            }
        }
    }

    /// Where `job` goes.
    fn place(&mut self, job: &Job) -> SiteId {
        let now = job.at;
        let number = job.balancer as usize;
        self.balancers[number].arrived(now);
        let probing = self.balancers[number].probing();
        if probing == Probing::Awaited {
            self.probe(number, now);
        }
        if self.clairvoyant {
            let present = self.watched.iter().map(|watched| watched.present);
            self.queues.iter_mut().zip(present).for_each(|(queue, present)| *queue = present);
            let truth = Truth { bursting: job.burst, queues: &self.queues };
            self.balancers[number].told(&truth);
        }
        let site = self.balancers[number].pick(now, &[]).expect("every site is up");
        self.balancers[number].dispatched(now, site);
        if probing == Probing::Aside {
            self.probe(number, now);
        }
        site
    }

    fn probe(&mut self, number: usize, now: Nanos) {
        let mut probes = std::mem::take(&mut self.probes);
        let balancer = &mut self.balancers[number];
        balancer.probes(now, &mut probes);
        for site in probes.drain(..) {
            let watched = &self.watched[site.index()];
            let known = balancer.board().site(site).report();
            let (taken, in_flight) = match (self.scenario.probes, known) {
                (Probes::Late, Some(report)) => (report.taken, report.queue),
                (Probes::Late, None) => (now, 0),
                (Probes::Fresh, _) => (now, watched.present),
            };
            let latency = watched.latencies.at(in_flight);
            balancer.probed(now, site, &Probe { taken, in_flight, latency });
        }
        self.probes = probes;
    }

    fn note_mood(&self, job: &Job, measures: &mut Measures) {
        let mood = self.balancers[job.balancer as usize].mood();
        if let Some(bursting) = mood.bursting {
            measures.said += 1;
            measures.knew += u64::from(bursting == job.burst);
        }
        if let Some(candidates) = mood.candidates {
            measures.candidates += candidates;
            measures.named += 1;
        }
    }
}
