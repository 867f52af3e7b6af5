//! One policy over the requests of one seed.
//!
//! For each request, in order of time:
//! 1. what has left its site since is told to the balancer that had sent it; probes that have
//!    reached a site by now look at it, and their answers come back to the balancer;
//! 2. the balancer is given the reports that have reached it: of every site the last one, and the
//!    one before, for rules that look at differences. A balancer hears no report between two of its
//!    requests: it would only have replaced it by the next;
//! 3. it is told of the arrival, sends its probes, and picks; a rule that awaits its probes picks
//!    when their trip is over;
//! 4. the site takes the request, and its departure is known.
//!
//! What a site spends on answers to probes makes the requests wait that are sent there afterwards;
//! those that were there already keep their departures, which are known.

use super::jobs::{self, Job};
use super::pace::Pace;
use super::scenario::{Probes, Scenario, View};
use super::trail::Trail;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use thermocline_policy::balance::{Balancer, Probe, Probing, Report, Rule, Truth};
use thermocline_units::{Latencies, Nanos, Rng, SiteId};

/// Measures of a run.
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
    /// Probes of all requests, and how many those were.
    pub(super) probes: u64,
    pub(super) placed: u64,
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
    pace: Pace,
    busy: u64,
}

impl Site {
    pub(super) fn all(speeds: &[f64], paces: &[Pace]) -> Vec<Site> {
        let site = |(speed, pace): (&f64, &Pace)| Site {
            speed: *speed,
            free_at: Nanos(0),
            pace: pace.clone(),
            busy: 0,
        };
        speeds.iter().zip(paces).map(site).collect()
    }

    /// Takes a request at its end of the queue: when it starts and when it is done. Time after
    /// `end` does not count as busy.
    pub(super) fn take(&mut self, at: Nanos, work: Nanos, end: Nanos) -> (Nanos, Nanos) {
        let start = self.free_at.max(at);
        let done = self.pace.done(start, Nanos((work.0 as f64 / self.speed) as u64));
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

/// Latencies of requests at a site, by how many they met there: an answer to a probe tells the
/// latency of a request now, not of others that met more or fewer (Prequal, NSDI 2024).
#[derive(Debug, Default)]
struct LatencyByLoad {
    /// Nanoseconds, index by requests met; 0 where none has met so many.
    means: Vec<f64>,
}

/// Weight of a new latency in the mean.
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

    /// Latency of a request that meets `present`, by the nearest count that is known.
    fn at(&self, present: u32) -> Option<Nanos> {
        let present = (present as usize).min(MET_MAX);
        let known = |at: usize| self.means.get(at).copied().filter(|mean| *mean > 0.0);
        let nearest = (0..=MET_MAX).find_map(|off| {
            known(present + off).or_else(|| present.checked_sub(off).and_then(known))
        });
        nearest.map(|mean| Nanos(mean as u64))
    }
}

/// A request at its site; the first of them leaves first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Leaving {
    done: Nanos,
    index: u32,
    site: SiteId,
    /// Requests that it met there.
    met: u32,
    sent: Nanos,
}

/// A probe that has not reached its site.
#[derive(Debug, Clone, Copy)]
struct Sent {
    looks: Nanos,
    balancer: usize,
    site: SiteId,
}

/// Requests and probes that have not arrived; each queue is in order of time, since every trip
/// takes as long.
#[derive(Debug, Default)]
struct UnderWay {
    probes: VecDeque<Sent>,
    answers: VecDeque<(Nanos, usize, SiteId, Probe)>,
    /// Requests that await their probes.
    awaiting: VecDeque<(Nanos, u32)>,
}

/// The next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Leaves,
    Looks,
    Answers,
    Places,
}

/// A policy at work.
pub(super) struct Machine<'a> {
    scenario: &'a Scenario,
    jobs: &'a [Job],
    sites: Vec<Site>,
    watched: Vec<Watched>,
    balancers: Vec<Balancer>,
    /// Times at which each balancer last heard reports that were taken.
    heard: Vec<Option<Nanos>>,
    leaving: BinaryHeap<Reverse<Leaving>>,
    under_way: UnderWay,
    queues: Vec<u32>,
    rng: Rng,
    probes: Vec<SiteId>,
    clairvoyant: bool,
    measures: Measures,
    /// Requests at the beginning that are not counted.
    warmup: usize,
    end: Nanos,
}

impl<'a> Machine<'a> {
    /// `rule` is called once a balancer.
    pub(super) fn new(
        scenario: &'a Scenario,
        jobs: &'a [Job],
        paces: &[Pace],
        seed: u64,
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
            sites: Site::all(&scenario.speeds, paces),
            watched: (0..count).map(|_| Watched::default()).collect(),
            balancers: (0..scenario.balancers).map(balancer).collect(),
            heard: vec![None; scenario.balancers as usize],
            leaving: BinaryHeap::new(),
            under_way: UnderWay::default(),
            queues: vec![0; count],
            rng: Rng::seeded(jobs::seed_of(seed, jobs::STREAM_OF_SITES)),
            probes: Vec::new(),
            clairvoyant: false,
            measures: Measures::default(),
            warmup: 0,
            end: jobs.last().map_or(Nanos(0), |job| job.at),
        }
    }

    /// Runs it; the first `warmup` requests are not counted. A `clairvoyant` rule is told the
    /// truth.
    pub(super) fn run(mut self, clairvoyant: bool, warmup: usize) -> Measures {
        (self.clairvoyant, self.warmup) = (clairvoyant, warmup);
        for (index, job) in self.jobs.iter().enumerate() {
            self.advance(job.at);
            self.arrive(index as u32);
        }
        while let Some(&(at, _)) = self.under_way.awaiting.back() {
            self.advance(at);
        }
        self.measures.busy = self.sites.iter().map(|site| site.busy_share(self.end)).collect();
        self.measures
    }

    /// Everything that happens until `now`, in order.
    fn advance(&mut self, now: Nanos) {
        loop {
            let times = [
                (self.leaving.peek().map(|Reverse(leaving)| leaving.done), Next::Leaves),
                (self.under_way.probes.front().map(|probe| probe.looks), Next::Looks),
                (self.under_way.answers.front().map(|answer| answer.0), Next::Answers),
                (self.under_way.awaiting.front().map(|request| request.0), Next::Places),
            ];
            let due = |(at, next): (Option<Nanos>, Next)| at.map(|at| (at, next));
            match times.into_iter().filter_map(due).min() {
                Some((at, next)) if at <= now => self.step(next),
                _ => return,
            }
        }
    }

    fn step(&mut self, next: Next) {
        let under_way = &mut self.under_way;
        match next {
            Next::Leaves => self.leave(),
            Next::Looks => {
                let sent = under_way.probes.pop_front().expect("a probe looks next");
                let answer = self.look(sent.looks, sent.balancer, sent.site);
                let back = self.scenario.probe_cost.trip.0.div_ceil(2);
                let heard = Nanos(sent.looks.0 + back);
                self.under_way.answers.push_back((heard, sent.balancer, sent.site, answer));
            }
            Next::Answers => {
                let answer = under_way.answers.pop_front().expect("an answer comes next");
                let (at, balancer, site, probe) = answer;
                self.balancers[balancer].probed(at, site, &probe);
            }
            Next::Places => {
                let (at, index) = under_way.awaiting.pop_front().expect("one is placed next");
                let site = self.pick(at, index);
                self.take(at, index, site);
            }
        }
    }

    /// The request that leaves next.
    fn leave(&mut self) {
        let Some(Reverse(leaving)) = self.leaving.pop() else { return };
        let Leaving { done, index, site, met, sent } = leaving;
        let latency = done.saturating_sub(sent);
        let watched = &mut self.watched[site.index()];
        watched.present -= 1;
        watched.latencies.add(met, latency);
        let idle = watched.present == 0;
        let balancer = self.jobs[index as usize].balancer as usize;
        self.balancers[balancer].completed(done, site, Some(latency));
        if idle {
            let told = self.rng.below(self.balancers.len() as u64) as usize;
            self.balancers[told].idle(done, site);
        }
    }

    /// Times of the last report that can be known at `now`, and of the one before it.
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

    /// Gives the reports that have come by `now` to a balancer.
    fn report(&mut self, now: Nanos, balancer: usize) {
        let taken = self.taken(now);
        let [_, Some(last)] = taken else { return };
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
                self.balancers[balancer].reported(now, SiteId(index as u16), report);
            }
        }
    }

    /// A request comes to its balancer.
    fn arrive(&mut self, index: u32) {
        let job = &self.jobs[index as usize];
        let (now, number) = (job.at, job.balancer as usize);
        self.report(now, number);
        self.balancers[number].arrived(now);
        let probing = match self.scenario.probes {
            Probes::None => Probing::None,
            Probes::Fresh | Probes::Late => self.balancers[number].probing(),
        };
        let trip = self.scenario.probe_cost.trip;
        if probing == Probing::Awaited {
            self.probe(number, now);
            if trip.0 > 0 {
                self.under_way.awaiting.push_back((Nanos(now.0 + trip.0), index));
                return;
            }
        }
        let site = self.pick(now, index);
        if probing == Probing::Aside {
            self.probe(number, now);
        }
        self.take(now, index, site);
    }

    /// A site takes a request.
    fn take(&mut self, now: Nanos, index: u32, site: SiteId) {
        let job = &self.jobs[index as usize];
        let (start, done) = self.sites[site.index()].take(now, job.work, self.end);
        let watched = &mut self.watched[site.index()];
        watched.arrivals.push(now);
        watched.departures.push(done);
        let met = watched.present;
        self.leaving.push(Reverse(Leaving { done, index, site, met, sent: now }));
        watched.present += 1;
        self.measures.placed += 1;
        if index as usize >= self.warmup {
            self.measures.count(job.at, start, done);
            self.note_mood(job);
        }
    }

    /// Picks a site for a request.
    fn pick(&mut self, now: Nanos, index: u32) -> SiteId {
        let job = &self.jobs[index as usize];
        let number = job.balancer as usize;
        if self.clairvoyant {
            let present = self.watched.iter().map(|watched| watched.present);
            self.queues.iter_mut().zip(present).for_each(|(queue, present)| *queue = present);
            let truth = Truth { bursting: job.burst, queues: &self.queues };
            self.balancers[number].told(&truth);
        }
        let site = self.balancers[number].pick(now, &[]).expect("every site is up");
        self.balancers[number].dispatched(now, site);
        site
    }

    /// Sends the probes of a request that has just come; without a trip they are answered at once.
    fn probe(&mut self, balancer: usize, now: Nanos) {
        let mut probes = std::mem::take(&mut self.probes);
        self.balancers[balancer].probes(now, &mut probes);
        self.measures.probes += probes.len() as u64;
        let trip = self.scenario.probe_cost.trip;
        for site in probes.drain(..) {
            if trip.0 > 0 {
                let looks = Nanos(now.0 + trip.0 / 2);
                self.under_way.probes.push_back(Sent { looks, balancer, site });
            } else {
                let answer = self.look(now, balancer, site);
                self.balancers[balancer].probed(now, site, &answer);
            }
        }
        self.probes = probes;
    }

    /// Looks at a site for a probe, which makes work there.
    fn look(&mut self, now: Nanos, balancer: usize, site: SiteId) -> Probe {
        let work = self.scenario.probe_cost.work;
        if work.0 > 0 {
            self.sites[site.index()].take(now, work, self.end);
        }
        let watched = &self.watched[site.index()];
        let known = self.balancers[balancer].board().site(site).report();
        let (taken, in_flight) = match (self.scenario.probes, known) {
            (Probes::Late, Some(report)) => (report.taken, report.queue),
            (Probes::Late, None) => (now, 0),
            (Probes::Fresh | Probes::None, _) => (now, watched.present),
        };
        Probe { taken, in_flight, latency: watched.latencies.at(in_flight) }
    }

    fn note_mood(&mut self, job: &Job) {
        let mood = self.balancers[job.balancer as usize].mood();
        let measures = &mut self.measures;
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
