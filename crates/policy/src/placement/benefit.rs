//! `benefit`: what saves users most time, by latencies under load, with wear and copying priced in.
//!
//! 1. A chunk's demand is that of past epochs, faded (see `demand`). On an idle pool its requests
//!    would wait b seconds a second; the pool's load makes that longer (see `pools`).
//! 2. What a chunk costs on a pool is what users wait more with it there than without: its own
//!    wait, and what it adds to everybody else's. So the pool that is best for a chunk is the one
//!    with the least *marginal* latency, not the one with the least latency: that is where the mean
//!    over all users is least. Writes cost `wear` in addition where pools wear out.
//! 3. At an epoch's end chunks are asked in the order of what the best pool would save them. One
//!    moves when it saves more in `payback` epochs than copying it takes both pools, and more than
//!    the chunk whose place it needs loses. The pools' loads follow each decision, so that they are
//!    not overrun.
//! 4. A chunk whose pool has become the dearer one moves down by the same rule. Chunks without
//!    demand yield, the others yield the cheaper the earlier.
//! 5. With `mirrors` above 0 chunks may be on the two fastest pools at once (see `mirrored`), and a
//!    fast loop divides their requests ten times a second by the marginal latencies of both.
//!
//! Source: ours; the features are ChewAnalyzer's (Ge 2017 ch. 3), the marginal latency that of
//! optimal routing. Equal to `edt:by=time` in what it looks at; different in that load, not rank,
//! says what a pool is worth.
//!
//! State: 82 B a chunk: 58 of activity, 24 of faded demand; with mirrors 2 B more. O(1) an access;
//! O(n log n + n × pools) an epoch over all chunks met.

mod mirrored;
mod pools;

use self::mirrored::Mirrored;
use self::pools::{Loaded, Share};
use super::activity::Activity;
use super::demand::{Demand, Faded};
use super::mirrors::{Balance, Balanced, Router};
use super::plan::{Plan, Rooms};
use super::{Budget, ChunkAccess, Move, Placement, PoolChange, VolumeView, order};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Nanos, PoolId};

const MEMORY: Setting = Setting {
    name: "memory",
    default: "0.5",
    unit: "fraction",
    help: "share of earlier epochs in what a chunk is taken to demand",
};
const PAYBACK: Setting = Setting {
    name: "payback",
    default: "4",
    unit: "epochs",
    help: "within which a move must have saved more time than it takes",
};
const WEAR: Setting = Setting {
    name: "wear",
    default: "0",
    unit: "seconds of waiting a GiB",
    help: "what it is worth not to write a GiB to a pool that wears out",
};
const MIRRORS: Setting = Setting {
    name: "mirrors",
    default: "0",
    unit: "share of all slots",
    help: "chunks on both of the two fastest pools at most; 0: none",
};
const STEP: Setting = Setting {
    name: "step",
    default: "0.1",
    unit: "share of requests",
    help: "by how much the share that mirrors divert changes in 100 ms",
};
/// Differences of marginal latencies below this are none.
const THETA: f64 = 0.05;

pub(crate) const ENTRY: Entry = Entry {
    name: "benefit",
    summary: "moves what saves most waiting at the pools' present load, copying and wear priced in",
    source: "ours: marginal latencies over ChewAnalyzer's features",
    settings: &[MEMORY, PAYBACK, WEAR, MIRRORS, STEP],
    build: Build::Placement(|settings| Ok(Box::new(Benefit::new(settings)?))),
};

/// The placement `benefit`.
#[derive(Debug)]
struct Benefit {
    memory: f64,
    payback: f64,
    wear: f64,
    activity: Activity,
    demands: Faded,
    pools: Vec<Loaded>,
    /// `None`: nothing is mirrored.
    mirrored: Option<Mirrored>,
}

/// Candidates whose demands are asked for ahead of their turn.
const AHEAD: usize = 16;

/// A decision under way.
struct Choice<'a> {
    benefit: &'a Benefit,
    pools: Vec<Loaded>,
    rooms: Rooms,
    /// Chunks of each pool that might yield, the cheapest last, with what they would lose.
    residents: Vec<Vec<(f64, u32)>>,
    /// Seconds of an epoch times `payback`.
    horizon: f64,
    chunk_bytes: f64,
    /// Marks by chunk: true if it has its new place.
    settled: Vec<bool>,
}

impl Benefit {
    fn new(settings: &Settings) -> Result<Benefit, SettingsError> {
        let most = settings.number("mirrors", 0.0, 1.0)?;
        let balance = Balance::new(Balanced::Marginal, THETA, settings.number("step", 0.0, 1.0)?);
        Ok(Benefit {
            memory: settings.number("memory", 0.0, 0.999)?,
            payback: settings.number("payback", 0.001, 1e9)?,
            wear: settings.number("wear", 0.0, 1e12)?,
            activity: Activity::default(),
            demands: Faded::default(),
            pools: Vec::new(),
            mirrored: (most > 0.0).then(|| Mirrored::new(most, balance)),
        })
    }

    /// The other pool of a mirrored chunk.
    fn other(&self, number: u32) -> Option<PoolId> {
        self.mirrored.as_ref()?.other(number)
    }

    /// Pool of a chunk; of two pools the faster.
    fn pool_of(&self, number: u32) -> PoolId {
        let home = self.activity.pool_of(number);
        self.other(number).map_or(home, |other| other.min(home))
    }

    /// Adds what a chunk demands to the pools it is on.
    fn join(&mut self, number: u32) {
        let demand = self.demands.of(number);
        if demand.is_none() {
            return;
        }
        let (home, other) = (self.activity.pool_of(number), self.other(number));
        let diverted = self.mirrored.as_ref().map_or(0.0, |mirrored| mirrored.balance.share());
        let sides = match other {
            None => [(home, 1.0), (home, 0.0)],
            Some(other) => [(home.min(other), 1.0 - diverted), (home.max(other), diverted)],
        };
        for (pool, part) in sides {
            let pool = &mut self.pools[usize::from(pool.0)];
            let share = pool.share(&demand).part(part);
            pool.join(share);
        }
    }

    /// The pools as they are loaded by the chunks that are there.
    fn load(&mut self, view: &dyn VolumeView) {
        let count = usize::from(view.pool_count());
        self.pools.resize_with(count, Loaded::default);
        for (pool, loaded) in (0..).map(PoolId).zip(&mut self.pools) {
            loaded.reset(&view.traits(pool), self.wear);
        }
        for number in 0..self.demands.len() {
            self.join(number);
        }
        for (pool, loaded) in (0..).map(PoolId).zip(&mut self.pools) {
            loaded.learn(&view.load(pool), &view.traits(pool), view.epoch());
        }
    }

    /// Chunks that might move by what the best pool saves them, the most first; those with demand.
    fn candidates(&self) -> Vec<u64> {
        let saved = |number: u32| {
            let demand = self.demands.of(number);
            let home = self.pool_of(number);
            let costs = self.pools.iter().map(|pool| pool.cost(pool.share(&demand)));
            let least = costs.fold(f64::INFINITY, f64::min);
            let here = &self.pools[usize::from(home.0)];
            let saved = here.saved_without(here.share(&demand)) - least;
            (saved > 0.0).then(|| order::place(saved, home, number))
        };
        let with_demand = (0..self.demands.len()).filter(|&n| !self.demands.of(n).is_none());
        let mut places: Vec<u64> = with_demand.filter_map(saved).collect();
        order::sort(&mut places);
        places
    }
}

impl<'a> Choice<'a> {
    fn new(benefit: &'a Benefit, view: &dyn VolumeView) -> Choice<'a> {
        let pools = benefit.pools.clone();
        let mut residents = vec![Vec::new(); pools.len()];
        let slowest = pools.len() - 1;
        for number in 0..benefit.demands.len() {
            let home = usize::from(benefit.pool_of(number).0);
            if home < slowest {
                let demand = benefit.demands.of(number);
                let (here, below) = (&pools[home], &pools[home + 1]);
                let lost =
                    below.cost(below.share(&demand)) - here.saved_without(here.share(&demand));
                residents[home].push((lost, number));
            }
        }
        for pool in &mut residents {
            pool.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        }
        Choice {
            benefit,
            pools,
            rooms: Rooms::of(view),
            residents,
            horizon: view.epoch().as_secs_f64() * benefit.payback,
            chunk_bytes: view.chunk_size().0 as f64,
            settled: vec![false; benefit.demands.len() as usize],
        }
    }

    fn carry(&mut self, number: u32, from: PoolId, to: PoolId) {
        let demand = self.benefit.demands.of(number);
        let (source, destination) = (self.share(from, &demand), self.share(to, &demand));
        self.pools[usize::from(from.0)].leave(source);
        self.pools[usize::from(to.0)].join(destination);
        self.rooms.carry(from, to);
        self.settled[number as usize] = true;
    }

    fn share(&self, pool: PoolId, demand: &Demand) -> Share {
        self.pools[usize::from(pool.0)].share(demand)
    }

    /// The cheapest chunk of `pool` that has no new place yet, and what it loses.
    fn cheapest(&mut self, pool: PoolId) -> Option<(f64, u32)> {
        let residents = &mut self.residents[usize::from(pool.0)];
        while residents.last().is_some_and(|&(_, number)| self.settled[number as usize]) {
            residents.pop();
        }
        residents.last().copied()
    }

    /// Destination of a chunk, if moving pays; and the chunk whose place it takes there.
    fn destination(&mut self, number: u32, from: PoolId) -> Option<(PoolId, Option<u32>)> {
        let demand = self.benefit.demands.of(number);
        let here = &self.pools[usize::from(from.0)];
        let saved = here.saved_without(here.share(&demand));
        let mut best: Option<(f64, PoolId, Option<u32>)> = None;
        for to in (0..self.pools.len() as u16).map(PoolId).filter(|&to| to != from) {
            let mut gain = saved - self.pools[usize::from(to.0)].cost(self.share(to, &demand));
            let mut copies = self.copying(number, from, to);
            let mut victim = None;
            if !self.rooms.has_room(to) {
                let Some((lost, cheapest)) = self.cheapest(to) else { continue };
                let Some(below) = self.rooms.below(to) else { continue };
                gain -= lost;
                copies += self.copying(cheapest, to, below);
                victim = Some(cheapest);
            }
            let net = gain * self.horizon - copies;
            if net > 0.0 && best.as_ref().is_none_or(|best| net > best.0) {
                best = Some((net, to, victim));
            }
        }
        best.map(|(_, to, victim)| (to, victim))
    }

    /// Seconds of waiting that copying a chunk is taken to cost; none where it is on both.
    fn copying(&self, number: u32, from: PoolId, to: PoolId) -> f64 {
        if self.benefit.other(number).is_some_and(|other| other == to || other == from) {
            return 0.0;
        }
        let [from, to] = [from, to].map(|pool| &self.pools[usize::from(pool.0)]);
        from.reading(self.chunk_bytes) + to.writing(self.chunk_bytes)
    }
}

impl Placement for Benefit {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn pools_changed(&mut self, change: PoolChange) {
        change.shift(&mut self.pools, Loaded::default());
        if let Some(mirrored) = &mut self.mirrored {
            mirrored.pools_changed(change);
        }
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        match &mut self.mirrored {
            None => self.activity.look(view),
            Some(mirrored) => mirrored.look(view, &mut self.activity),
        }
        self.demands.fade(&self.activity, view.epoch(), self.memory);
        self.load(view);
        let mut choice = Choice::new(self, view);
        let mut plan = Plan::new(view);
        let mut victims = Vec::new();
        let candidates = self.candidates();
        for (at, number) in candidates.iter().map(|&place| order::number(place)).enumerate() {
            if let Some(&next) = candidates.get(at + AHEAD) {
                self.demands.prefetch(order::number(next));
            }
            if choice.settled[number as usize] {
                continue;
            }
            let home = self.pool_of(number);
            let Some((to, victim)) = choice.destination(number, home) else { continue };
            if let Some(victim) = victim {
                let below = choice.rooms.below(to).expect("a destination without room has it");
                choice.carry(victim, to, below);
                victims.push((victim, to, below));
            }
            choice.carry(number, home, to);
            plan.wish(self.activity.chunks.id(number), home, to);
        }
        // What yields first is told last.
        for &(number, from, to) in victims.iter().rev() {
            plan.may_fall(self.activity.chunks.id(number), from, to);
        }
        match &self.mirrored {
            None => plan.propose(budget, moves),
            Some(mirrored) => {
                let mut planned = Vec::new();
                plan.propose(budget, &mut planned);
                let of = (&self.activity, &self.demands);
                mirrored.propose(of, &self.pools[0], view, planned, moves);
                moves.truncate(usize::try_from(budget.moves).unwrap_or(usize::MAX));
            }
        }
        self.activity.advance();
    }

    fn router(&mut self) -> Option<&mut dyn Router> {
        let mirrored = self.mirrored.as_mut()?;
        Some(&mut mirrored.balance)
    }

    fn footprint(&self) -> Footprint {
        Footprint { resident: 0, index: self.activity.bytes() + self.demands.bytes() }
    }
}

#[cfg(test)]
mod tests;
