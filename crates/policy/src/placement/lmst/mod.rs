//! LMsT: a chunk migrates only when that breaks no service level and pays within two windows.
//!
//! At the end of a window (epoch):
//! 1. *Load.* Each chunk's rate is λ_A = mean + α·σ of its rates in past windows (eq. 4), here
//!    exponentially weighted. A pool's rate λ_D is the sum over its chunks, its service rate µ_D
//!    the mean over the patterns that it serves (eq. 5), or, with `service=measured`, what its
//!    completions in the window show. See `queue`.
//! 2. *Selection.* A chunk with more than `hot` on any but the fastest tier is a forward candidate;
//!    one with less than `cold` above the slowest, whose volume's SLA is at least `loose`, a
//!    backward one. Its destination is the least loaded pool with room of a faster (or slower)
//!    tier; pools that are alike are one tier (see `tiers`).
//! 3. *Validation.* Both pools must keep up (eq. 7); the queue of its class at the destination may
//!    not exceed what the SLA lets wait (eq. 8, times `tail`); a forward migration must shorten the
//!    response times of both pools together, before, while and after it happens, by more than `e`
//!    (eq. 9 to 16).
//!    A volume's own SLA counts before the settings `sla` and `loose`.
//! 4. *Trigger.* A migration takes β · chunk / Δλ (eq. 17). Backward ones go first, coldest first,
//!    then forward ones, hottest first; a pool serves one at a time; what does not end within the
//!    window is dropped.
//!
//! Source: Tai 2015 §4.1. `form=corrected` mends what cannot run as printed: migration takes
//! `share` of what is left of a disk's rate, not all of it, under which every response time is
//! endless; benefit is positive when time is saved; pools are weighed by their rates; eq. 11 and 14
//! end with the next window's term, which the print lost. `form=printed` validates no forward
//! migration, ever. Further differences: chunks are of the machine's size, not of 1 GB, so
//! thresholds are smaller; the lowest priority of migration I/O is the machine's. NMsT, the
//! source's base line, is `static`; SMsT is the machine's copying with locked chunks.
//!
//! State: 66 B a chunk: 58 of activity, 8 of mean and variance. O(1) an access; O(chunks met +
//! candidates log candidates) an epoch.

mod queue;
mod tiers;

use self::queue::{Mix, Queue};
use self::tiers::Tiers;
use super::activity::Activity;
use super::plan::Rooms;
use super::zones::{FORM, Form};
use super::{Budget, ChunkAccess, Move, Placement, Sla, SlaClass, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};

const ALPHA: Setting = Setting {
    name: "alpha",
    default: "0.3",
    unit: "standard deviations",
    help: "how far above its mean a chunk's rate is expected",
};
const MEMORY: Setting = Setting {
    name: "memory",
    default: "0.5",
    unit: "fraction",
    help: "share of earlier windows in mean and deviation",
};
const HOT: Setting = Setting {
    name: "hot",
    default: "64KiB",
    unit: "bytes a second and chunk",
    help: "rate above which a chunk shall come to a faster pool",
};
const COLD: Setting = Setting {
    name: "cold",
    default: "1KiB",
    unit: "bytes a second and chunk",
    help: "rate below which a chunk may go to a slower pool",
};
const SLA: Setting = Setting {
    name: "sla",
    default: "20ms",
    unit: "latency, or latencies by volume as 1ms/20ms",
    help: "latency of volumes without an SLA; the last holds for volumes beyond",
};
const LOOSE: Setting = Setting {
    name: "loose",
    default: "10ms",
    unit: "latency",
    help: "such volumes are loose from here on: their cold chunks may leave faster pools",
};
const TAIL: Setting = Setting {
    name: "tail",
    default: "1",
    unit: "times the mean",
    help: "what of the latency the SLA bounds; 4.6 is the 99th percentile of M/M/1",
};
const E: Setting = Setting {
    name: "e",
    default: "0",
    unit: "fraction",
    help: "benefit in response time that a forward migration must exceed",
};
const BETA: Setting = Setting {
    name: "beta",
    default: "1.1",
    unit: "chunks",
    help: "what a migration copies, for what is written meanwhile",
};
const SHARE: Setting = Setting {
    name: "share",
    default: "0.5",
    unit: "fraction",
    help: "what of a pool's spare rate a migration takes, with form=corrected",
};

const SERVICE: Setting = Setting {
    name: "service",
    default: "measured",
    unit: "profile or measured",
    help: "where a pool's service rate comes from: its profile, or requests that it completed",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "lmst",
    summary: "moves chunks when both pools keep their service levels and responses get faster",
    source: "LMsT, Tai 2015 §4.1",
    settings: &[ALPHA, MEMORY, HOT, COLD, SLA, LOOSE, TAIL, E, BETA, SHARE, SERVICE, FORM],
    build: Build::Placement(|settings| Ok(Box::new(Lmst::new(settings)?))),
};

/// A chunk's rate in past windows, in bytes a second.
#[derive(Debug, Clone, Copy, Default)]
struct Rate {
    mean: f32,
    variance: f32,
}

impl Rate {
    /// Takes a window in, with `memory` of what was before.
    fn note(&mut self, rate: f32, memory: f32) {
        let (off, newest) = (rate - self.mean, 1.0 - memory);
        self.mean += newest * off;
        self.variance = memory * (self.variance + newest * off * off);
        // A millionth of a byte a second is nothing: rates end, and do not fade for ever.
        if self.mean < 1e-6 {
            *self = Rate::default();
        }
    }
}

/// A chunk that might migrate.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    chunk: ChunkId,
    home: PoolId,
    rate: f64,
}

/// LMsT: migrates a chunk only when that breaks no service level and pays.
#[derive(Debug)]
struct Lmst {
    alpha: f64,
    memory: f32,
    hot: f64,
    cold: f64,
    /// SLAs in seconds, by volume; the last holds for those beyond.
    slas: Vec<f64>,
    loose: f64,
    /// SLAs, by volume, as of the last `propose`.
    of_volumes: Vec<Option<Sla>>,
    tail: f64,
    e: f64,
    beta: f64,
    share: f64,
    /// True if service rates are read off completions.
    measures: bool,
    form: Form,
    activity: Activity,
    rates: Vec<Rate>,
}

/// A window that is being filled with migrations.
struct Window<'a> {
    lmst: &'a Lmst,
    queues: Vec<Queue>,
    rooms: Rooms,
    /// Seconds of the window that each pool is busy with migrations.
    busy: Vec<f64>,
    length: f64,
    /// Bytes of a migration.
    bytes: f64,
}

impl Lmst {
    fn new(settings: &Settings) -> Result<Lmst, SettingsError> {
        Ok(Lmst {
            alpha: settings.number("alpha", 0.0, 100.0)?,
            memory: settings.number("memory", 0.0, 0.999)? as f32,
            hot: settings.bytes("hot")?.0 as f64,
            cold: settings.bytes("cold")?.0 as f64,
            slas: settings.durations("sla")?.iter().map(|sla| sla.as_secs_f64()).collect(),
            loose: settings.duration("loose")?.as_secs_f64(),
            of_volumes: Vec::new(),
            tail: settings.number("tail", 0.01, 1000.0)?,
            e: settings.number("e", -1000.0, 1.0)?,
            beta: settings.number("beta", 1.0, 100.0)?,
            share: settings.number("share", 0.01, 0.99)?,
            measures: settings.choice("service", &["profile", "measured"])? == 1,
            form: Form::read(settings)?,
            activity: Activity::default(),
            rates: Vec::new(),
        })
    }

    /// SLA of the chunk's volume.
    fn sla_of(&self, chunk: ChunkId) -> Option<Sla> {
        self.of_volumes.get(chunk.volume.0 as usize).copied().flatten()
    }

    /// The latency that the chunk's volume may expect, in seconds.
    fn sla(&self, chunk: ChunkId) -> f64 {
        if let Some(sla) = self.sla_of(chunk) {
            return sla.latency.as_secs_f64();
        }
        let last = *self.slas.last().expect("a setting has at least one value");
        self.slas.get(chunk.volume.0 as usize).copied().unwrap_or(last)
    }

    /// True if cold chunks of the volume may leave faster pools.
    fn is_loose(&self, chunk: ChunkId) -> bool {
        match self.sla_of(chunk) {
            Some(sla) => sla.class == SlaClass::Loose,
            None => self.sla(chunk) >= self.loose,
        }
    }

    /// Takes the window into the rates of all chunks.
    fn note(&mut self, epoch: Nanos) {
        self.rates.resize(self.activity.chunks.len() as usize, Rate::default());
        for (number, rate) in (0..).zip(&mut self.rates) {
            let bytes = self.activity.counts(number).bytes() as f64;
            rate.note((bytes / epoch.as_secs_f64()) as f32, self.memory);
        }
    }

    /// λ_A of a chunk, in bytes a second.
    fn expected(&self, number: u32) -> f64 {
        let Rate { mean, variance } = self.rates[number as usize];
        f64::from(mean) + self.alpha * f64::from(variance).sqrt()
    }

    /// The pools as queues, with what their chunks bring.
    fn queues(&self, view: &dyn VolumeView) -> Vec<Queue> {
        let mut mixes = vec![Mix::default(); usize::from(view.pool_count())];
        for number in self.activity.touched() {
            mixes[usize::from(self.activity.pool_of(number).0)].add(self.activity.counts(number));
        }
        let all = mixes.iter().fold(Mix::default(), |all, mix| all.and(mix));
        let seconds = view.epoch().as_secs_f64();
        let of = |(pool, mix): (PoolId, &Mix)| {
            let traits = view.traits(pool);
            let queue = Queue::new(&traits, mix.or(&all));
            if self.measures { queue.measured(&traits, &view.load(pool), seconds) } else { queue }
        };
        let mut queues: Vec<Queue> = (0..).map(PoolId).zip(&mixes).map(of).collect();
        for number in 0..self.rates.len() as u32 {
            let rate = self.expected(number);
            if rate > 0.0 {
                let sla = self.sla(self.activity.chunks.id(number));
                queues[usize::from(self.activity.pool_of(number).0)].join(rate, sla);
            }
        }
        queues
    }

    /// Backward candidates, coldest first, and forward ones, hottest first.
    fn select(&self, tiers: &Tiers) -> (Vec<Candidate>, Vec<Candidate>) {
        let (mut backward, mut forward) = (Vec::new(), Vec::new());
        for number in 0..self.rates.len() as u32 {
            let (chunk, home) = (self.activity.chunks.id(number), self.activity.pool_of(number));
            let candidate = Candidate { chunk, home, rate: self.expected(number) };
            if candidate.rate > self.hot && !tiers.faster(home).is_empty() {
                forward.push(candidate);
            } else if candidate.rate < self.cold
                && !tiers.slower(home).is_empty()
                && self.is_loose(chunk)
            {
                backward.push(candidate);
            }
        }
        let order =
            |a: &Candidate, b: &Candidate| a.rate.total_cmp(&b.rate).then(a.chunk.cmp(&b.chunk));
        backward.sort_unstable_by(order);
        forward.sort_unstable_by(|a, b| order(b, a));
        (backward, forward)
    }
}

impl Window<'_> {
    /// The least loaded pool of `pools` with room.
    fn destination(&self, pools: std::ops::Range<u16>) -> Option<PoolId> {
        let load = |pool: PoolId| self.queues[usize::from(pool.0)].load();
        let with_room = pools.map(PoolId).filter(|&pool| self.rooms.has_room(pool));
        with_room.min_by(|&a, &b| load(a).total_cmp(&load(b)))
    }

    /// True if a validated migration of `candidate` to `to` ends within the window, if it begins
    /// `from` on; it is then taken in.
    fn migrate(&mut self, candidate: &Candidate, to: PoolId, from: f64, forward: bool) -> bool {
        let (home, there) = (usize::from(candidate.home.0), usize::from(to.0));
        let (source, destination) = (&self.queues[home].as_source(), &self.queues[there]);
        let (rate, sla) = (candidate.rate, self.lmst.sla(candidate.chunk));
        let keeps_up = source.spare(0.0) > 0.0 && destination.spare(rate) > 0.0;
        if !keeps_up || destination.waiting(sla, rate) * self.lmst.tail > destination.bearable(sla)
        {
            return false;
        }
        let spare = source.spare(0.0).min(destination.spare(0.0));
        let extra = match self.lmst.form {
            Form::Corrected => spare * self.lmst.share,
            Form::Printed => spare,
        };
        let takes = self.bytes / extra;
        let start = from.max(self.busy[home]).max(self.busy[there]);
        if start + takes > self.length {
            return false;
        }
        let migration = queue::Migration { rate, extra, takes, window: self.length };
        let pays = migration.benefit(source, destination, self.lmst.form) > self.lmst.e;
        if forward && !pays {
            return false;
        }
        (self.busy[home], self.busy[there]) = (start + takes, start + takes);
        self.queues[home].leave(rate, sla);
        self.queues[there].join(rate, sla);
        self.rooms.carry(candidate.home, to);
        true
    }
}

impl Placement for Lmst {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.activity.look(view);
        self.note(view.epoch());
        let volumes = (0..view.volume_count()).map(VolumeId);
        self.of_volumes = volumes.map(|volume| view.sla(volume)).collect();
        let tiers = Tiers::of(view);
        let (backward, forward) = self.select(&tiers);
        let mut window = Window {
            lmst: self,
            queues: self.queues(view),
            rooms: Rooms::of(view),
            busy: vec![0.0; usize::from(view.pool_count())],
            length: view.epoch().as_secs_f64(),
            bytes: self.beta * view.chunk_size().0 as f64,
        };
        let mut proposed = Vec::new();
        for candidate in &backward {
            let to = window.destination(tiers.slower(candidate.home));
            if let Some(to) = to.filter(|&to| window.migrate(candidate, to, 0.0, false)) {
                proposed.push(Move::to(candidate.chunk, to));
            }
        }
        let begin = window.busy.iter().copied().fold(0.0, f64::max);
        for candidate in &forward {
            let to = window.destination(tiers.faster(candidate.home));
            if let Some(to) = to.filter(|&to| window.migrate(candidate, to, begin, true)) {
                proposed.push(Move::to(candidate.chunk, to));
            }
        }
        proposed.truncate(usize::try_from(budget.moves).unwrap_or(usize::MAX));
        moves.append(&mut proposed);
        self.activity.advance();
    }

    fn footprint(&self) -> Footprint {
        let rates = self.rates.capacity() * size_of::<Rate>();
        Footprint { resident: 0, index: self.activity.bytes() + rates as u64 }
    }
}

#[cfg(test)]
mod tests;
