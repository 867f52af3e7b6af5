//! EDT's dynamic tier manager: each extent on the tier on which what it consumes costs least.
//!
//! 1. A chunk (the source's extent) consumes of a pool the larger of two shares: of its space, one
//!    chunk of its capacity; of its time, see `demand`. Demands fade with `memory`.
//! 2. Its ideal pool is the one on which consumption × power is least; with `by=cost` × price of
//!    the pool, with `by=time` the time alone counts. Of equals the slowest.
//! 3. *Throttling correction*: a pool is overloaded whose mean latency in the epoch, beside that
//!    of an idle pool of its traits, was `throttle` × the least that it ever was: a device that is
//!    slower than its traits say is not overloaded for that. An overloaded pool takes no chunks,
//!    and its heaviest ones leave until `shed` of its time is free.
//! 4. Chunks are placed by falling consumption, first fit: where it is, if that is its ideal pool
//!    and has room in space and in time (up to `headroom`); else on the ideal pool; else on the
//!    next cheapest with room in both. Where none has time left it stays where there is space.
//! 5. What moves up goes best first, what moves down makes room for it (see `plan`).
//!
//! Source: Guerra, Pucha, Glider, Belluomini, Rangaswami, "Cost Effective Storage using Extent
//! Based Dynamic Tiering" (FAST 2011), from notes of it; extents of 64 MB and epochs of 30 min are
//! from memory. Differs: the corrector runs once an epoch, not once a minute (a shorter epoch does
//! both more often); a pool is one array; random reads and writes cost apart; pools are not powered
//! down; `by=time` is our reading for experiments in which only latency is judged. Power and price
//! that nobody measured are settings of ours.
//!
//! State: 82 B a chunk: 58 of activity, 24 of faded demand. O(1) an access; O(n log n + n × pools)
//! an epoch over all chunks met.

mod packing;

use self::packing::{Packing, Seat};
use super::activity::Activity;
use super::demand::{Costs, Faded};
use super::plan::Plan;
use super::{Budget, ChunkAccess, Move, Pattern, Placement, PoolChange, PoolTraits, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Nanos, PoolId};

const BY: Setting = Setting {
    name: "by",
    default: "time",
    unit: "time, power or cost",
    help: "what an extent shall consume least of",
};
const MEMORY: Setting = Setting {
    name: "memory",
    default: "0.5",
    unit: "fraction",
    help: "share of earlier epochs in what a chunk is taken to demand",
};
const HEADROOM: Setting = Setting {
    name: "headroom",
    default: "0.8",
    unit: "fraction of a pool's time",
    help: "how busy chunks may make a pool",
};
const THROTTLE: Setting = Setting {
    name: "throttle",
    default: "5",
    unit: "times the least latency",
    help: "mean latency from which on a pool is overloaded",
};
const SHED: Setting = Setting {
    name: "shed",
    default: "0.1",
    unit: "fraction of a pool's time",
    help: "what an overloaded pool gets rid of",
};
const WATTS: Setting = Setting {
    name: "watts",
    default: "12/4/8",
    unit: "watts by pool, fastest first",
    help: "power of pools of which nobody said; the last holds for those beyond",
};
const PRICES: Setting = Setting {
    name: "prices",
    default: "0.2/0.1/0.02",
    unit: "price of a GiB by pool, fastest first",
    help: "price of pools of which nobody said; the last holds for those beyond",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "edt",
    summary: "packs chunks where what they consume of space or time costs least; sheds overload",
    source: "EDT, FAST 2011",
    settings: &[BY, MEMORY, HEADROOM, THROTTLE, SHED, WATTS, PRICES],
    build: Build::Placement(|settings| Ok(Box::new(Edt::new(settings)?))),
};

/// The cost that shall be least.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Time,
    Power,
    Cost,
}

/// EDT: each extent on the tier on which its consumption costs least.
#[derive(Debug)]
struct Edt {
    by: By,
    memory: f64,
    headroom: f64,
    throttle: f64,
    shed: f64,
    watts: Vec<f64>,
    prices: Vec<f64>,
    activity: Activity,
    demands: Faded,
    /// The least, by pool, that an epoch's latency ever was, in idle latencies; at least 1.
    least: Vec<f64>,
}

impl Edt {
    fn new(settings: &Settings) -> Result<Edt, SettingsError> {
        Ok(Edt {
            by: [By::Time, By::Power, By::Cost]
                [settings.choice("by", &["time", "power", "cost"])?],
            memory: settings.number("memory", 0.0, 0.999)?,
            headroom: settings.number("headroom", 0.01, 1.0)?,
            throttle: settings.number("throttle", 1.0, 1e6)?,
            shed: settings.number("shed", 0.0, 1.0)?,
            watts: settings.numbers("watts", 1e-6, 1e6)?,
            prices: settings.numbers("prices", 1e-9, 1e6)?,
            activity: Activity::default(),
            demands: Faded::default(),
            least: Vec::new(),
        })
    }

    /// Value of a share of the pool.
    fn rate(&self, pool: usize, traits: &PoolTraits, capacity_gib: f64) -> f64 {
        let listed =
            |list: &[f64]| *list.get(pool).unwrap_or_else(|| list.last().expect("not empty"));
        match self.by {
            By::Time => 1.0,
            By::Power => {
                traits.milliwatts.map_or_else(|| listed(&self.watts), |mw| mw as f64 / 1e3)
            }
            By::Cost => {
                let price = traits.price_per_gib.map(|millionths| millionths as f64 / 1e6);
                price.unwrap_or_else(|| listed(&self.prices)) * capacity_gib
            }
        }
    }

    /// The pools as seats for chunks.
    fn seats(&mut self, view: &dyn VolumeView) -> Vec<Seat> {
        self.least.resize(usize::from(view.pool_count()), f64::INFINITY);
        for (pool, least) in (0..).map(PoolId).zip(&mut self.least) {
            *least = slowness(view, pool).map_or(*least, |now| now.max(1.0).min(*least));
        }
        let gib = view.chunk_size().0 as f64 / f64::from(1 << 30);
        let seat = |pool: u16| {
            let (id, traits) = (PoolId(pool), view.traits(PoolId(pool)));
            let capacity = view.capacity_chunks(id);
            let free = i128::from(capacity) - i128::from(view.used_chunks(id));
            let least = self.least[usize::from(pool)];
            Seat {
                costs: Costs::of(&traits),
                share: 1.0 / capacity.max(1) as f64,
                rate: self.rate(usize::from(pool), &traits, capacity as f64 * gib),
                by_time: self.by == By::Time,
                overloaded: slowness(view, id).is_some_and(|now| now > least * self.throttle),
                free,
                time: self.headroom,
            }
        };
        (0..view.pool_count()).map(seat).collect()
    }
}

/// Mean latency of the epoch's requests, in what the same mix would take on the idle pool; none
/// without requests.
fn slowness(view: &dyn VolumeView, pool: PoolId) -> Option<f64> {
    let (load, traits) = (view.load(pool), view.traits(pool));
    let alone = |pattern| traits.of(pattern).latency.as_secs_f64();
    let time = |count: u64, bytes: u64, random, stream: Pattern| {
        let beyond = (bytes / 4096).saturating_sub(count) as f64;
        count as f64 * alone(random) + beyond / traits.of(stream).per_second as f64
    };
    let reads = time(load.reads, load.read_bytes.0, Pattern::RandomRead, Pattern::SequentialRead);
    let writes =
        time(load.writes, load.written_bytes.0, Pattern::RandomWrite, Pattern::SequentialWrite);
    let idle = (reads + writes) / load.requests() as f64;
    load.latency().map(|latency| latency.as_secs_f64() / idle)
}

impl Placement for Edt {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn pools_changed(&mut self, change: PoolChange) {
        change.shift(&mut self.least, f64::INFINITY);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.activity.look(view);
        self.demands.fade(&self.activity, view.epoch(), self.memory);
        let seats = self.seats(view);
        let activity = &self.activity;
        let known = (0..self.demands.len())
            .map(|number| (number, activity.pool_of(number), self.demands.of(number)));
        let mut packing = Packing::new(seats, known);
        packing.correct(self.shed);
        let mut plan = Plan::new(view);
        packing.place(|number, from, to| {
            if from != to {
                plan.wish(activity.chunks.id(number), from, to);
            }
        });
        plan.propose(budget, moves);
        self.activity.advance();
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.activity.bytes() + self.demands.bytes() }
    }
}

#[cfg(test)]
mod tests;
