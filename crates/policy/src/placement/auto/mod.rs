//! The placement that needs no choice: it moves what has proved to save more than copying costs.
//!
//! 1. `pulse` counts what is asked of chunks, and remembers it on three time scales. Each of these,
//!    and what the epoch asked of the chunks around, is a *predictor*.
//! 2. `price` says what users wait for that on each pool, from its traits and what the machine
//!    measured, and what a copy makes them wait.
//! 3. At an epoch's end each predictor pairs the chunks that a pool would serve best with those it
//!    would miss least there, best with worst, while the exchange saves anything.
//! 4. `ghosts` watches a sample of these pairs, moved or not, and learns by class what really came
//!    of such predictions, and for how long.
//! 5. A pair moves when what its class earns for certain, over the time that this is known to last,
//!    is more than `margin` times what copying costs; the best first, each chunk once, and for no
//!    more in all than `ledger` allows.
//!
//! So without evidence nothing moves: where all chunks are asked for alike, what comes of a
//! prediction is nothing. What a placement cannot know is bounded: what is spent on copies is at
//! most `spend` of what users wait anyway, and half of what was saved.
//!
//! 6. `division` says how many slots of the fastest pool hold lines of 4 KiB instead of chunks, by
//!    the same prices. Chunks that must go for them are moved down, those first that lose least.
//!
//! Chunks of volumes with a strict SLA make room for chunks of such volumes only. Pinned chunks
//! stay by the machine's rule.
//!
//! Source: ours. Ghosts that prove a decision before it is made are known from caches (ARC, Megiddo
//! and Modha, FAST 2003); a lower confidence bound as price of admission from bandits (Auer et al.,
//! 2002).
//!
//! State: 84 B a chunk, the watched pairs, at most 0.6 MiB a pool, and at most 2 MiB of `division`.
//! O(1) an access, but for those that `division` samples; O(chunks met + n log n over
//! [`CONSIDERED`] a pool) an epoch.

mod division;
mod foresight;
mod format;
mod ghosts;
mod ledger;
mod pairing;
mod pulse;
mod reasons;
mod refusals;

pub use self::foresight::Foresight;
pub(crate) use self::foresight::NoForesight;

use self::division::{Division, Facts, PRIOR};
use self::foresight::Ahead;
use self::ghosts::{Ghosts, PREDICTORS, Pair};
use self::ledger::Ledger;
use self::pulse::{LANES, NOWHERE, Pulse};
use self::refusals::Refusals;
use super::plan::{Plan, Rooms};
use super::price::{Ask, Price};
use super::{Account, Budget, ChunkAccess, Move, Placement, PoolChange, Unreadable, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{ChunkId, Nanos, PoolId};

const MODE: Setting = Setting {
    name: "mode",
    default: "act",
    unit: "act, recommend",
    help: "recommend: it watches and tells, and moves nothing",
};
const MARGIN: Setting = Setting {
    name: "margin",
    default: "3",
    unit: "ratio",
    help: "how many times what a copy costs a move must have proved to save",
};
const SPEND: Setting = Setting {
    name: "spend",
    default: "0.02",
    unit: "share",
    help: "of what users wait anyway, so much may be spent on copies beside half of what was saved",
};
const TRUST: Setting = Setting {
    name: "trust",
    default: "0",
    unit: "share",
    help: "of a prediction that counts before anything was seen of its kind",
};
const LINES: Setting = Setting {
    name: "lines",
    default: "0",
    unit: "gain, or a share from 0 to 1",
    help: "slots of the fastest pool that hold lines of 4 KiB: as many as gain most, or a share",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "auto",
    summary: "moves what has proved to save more waiting than copying costs, and else nothing",
    source: "ours: ghost pairs with priced copies, docs/decisions/0050",
    settings: &[MODE, MARGIN, SPEND, TRUST, LINES],
    build: Build::Placement(|settings| Ok(Box::new(Auto::new(settings)?))),
};

pub(crate) const ORACLE: Entry = Entry {
    name: "oracle",
    summary: "knows what will be asked for, and moves what saves more waiting than copying costs",
    source: "the bound of auto: the same prices and pairs, with the future for a prediction",
    settings: &[],
    build: Build::Foreseeing(|_, foresight| Ok(Box::new(Auto::foreseeing(foresight)))),
};

/// Time between two decisions where nobody says otherwise: its memories are 5 s, 40 s and 5 min
/// long.
pub const EPOCH: Nanos = Nanos::from_secs(5);
/// [`EPOCH`], as it is written.
pub const EPOCH_TEXT: &str = "5s";

/// Chunks that a predictor looks at for one pool, on either side.
const CONSIDERED: usize = 4096;

/// The placement `auto`.
#[derive(Debug)]
struct Auto {
    acts: bool,
    margin: f64,
    spend: f64,
    trust: f64,
    pulse: Pulse,
    prices: Vec<Price>,
    ghosts: Ghosts,
    ledger: Ledger,
    division: Division,
    refusals: Refusals,
    /// Places of chunks at the last epoch's end, beyond all pools for those on none, and of their
    /// kept copies.
    before: Vec<u8>,
    kept_before: Vec<u8>,
    /// The last epoch's decision, for `explain`.
    last: Decision,
    /// The future, for an oracle.
    ahead: Option<Ahead>,
}

/// Figures of an epoch's end.
#[derive(Debug, Clone, Copy, Default)]
struct Decision {
    /// Pairs that predicted something, that were worth their copy, that were proposed.
    predicted: u64,
    worth: u64,
    proposed: u64,
    /// Seconds in each second that those proposed promise to save.
    promised: f64,
}

/// A pair that is worth its copies.
#[derive(Debug, Clone, Copy)]
struct Deal {
    pair: Pair,
    /// Seconds of waiting: what it brings beyond what it costs, and what it costs.
    net: f64,
    cost: f64,
    /// Seconds a second, for so many epochs.
    promised: f64,
    horizon: f64,
}

impl Auto {
    fn new(settings: &Settings) -> Result<Auto, SettingsError> {
        let acts = settings.choice("mode", &["act", "recommend"])? == 0;
        let division = Division::new(settings)?;
        Ok(Auto {
            acts,
            margin: settings.number("margin", 0.0, 1e6)?,
            spend: settings.number("spend", 0.0, 1e6)?,
            trust: settings.number("trust", 0.0, 1.0)?,
            // Who only recommends lends nothing, and would count on lines that are not there.
            division: if acts { division } else { Division::default() },
            ..Auto::fresh()
        })
    }

    /// The bound: it is told the future, needs no evidence and may spend what it likes. It has the
    /// margin all the same: prices of copies are means, and what they do to a queue at a bad moment
    /// is more (with a margin of 1 it lost half on uniform reads).
    fn foreseeing(foresight: Box<dyn Foresight>) -> Auto {
        Auto { ahead: Some(Ahead::new(foresight)), ..Auto::fresh() }
    }

    fn fresh() -> Auto {
        Auto {
            acts: true,
            margin: 4.0,
            spend: f64::INFINITY,
            trust: 1.0,
            pulse: Pulse::default(),
            prices: Vec::new(),
            ghosts: Ghosts::default(),
            ledger: Ledger::default(),
            division: Division::default(),
            refusals: Refusals::default(),
            before: Vec::new(),
            kept_before: Vec::new(),
            last: Decision::default(),
            ahead: None,
        }
    }

    /// Learns what the epoch did: prices, what was saved and spent, what came of what is watched.
    fn learn(&mut self, view: &dyn VolumeView) {
        let (count, seconds) = (usize::from(view.pool_count()), view.epoch().as_secs_f64());
        let mut asked = vec![[0.0f32; 4]; count];
        for number in 0..self.pulse.len() {
            let sum = &mut asked[self.pulse.pool_of(number)];
            sum.iter_mut().zip(self.pulse.now(number)).for_each(|(sum, more)| *sum += more);
        }
        // What lines have served did not come to the chunks' pools.
        for (home, served) in self.division.served(seconds).into_iter().enumerate().skip(1) {
            let served = (served as f32).min(asked[home][0]);
            asked[home][0] -= served;
            asked[0][0] += served;
        }
        self.prices.resize_with(count, Price::default);
        for ((pool, price), asked) in (0..).map(PoolId).zip(&mut self.prices).zip(asked) {
            let load = view.load(pool);
            price.learn(&view.traits(pool), &load, asked, view.epoch());
            let waited = load.latency().map_or(0.0, |mean| mean.as_secs_f64());
            self.ledger.waited += waited * load.requests() as f64;
        }
        let bytes = view.chunk_size().0 as f64;
        for number in 0..self.pulse.len() {
            // Nothing was copied for what a discard took, nor for what is written first.
            let Some(first) = self.pulse.first_home(number) else { continue };
            let home = self.pulse.pool_of(number);
            let before = self.before.get(number as usize).map_or(home, |&home| usize::from(home));
            if home != before && before < count {
                self.ledger.moved += 1;
                if !self.went_back(number, home) {
                    self.ledger.spent += self.copy_cost(bytes, before, home);
                }
            }
            if home != first {
                let asked = self.pulse.now(number);
                let saved = self.prices[first].of(&asked) - self.prices[home].of(&asked);
                self.ledger.saved += saved * seconds;
            }
        }
        for (home, served) in self.division.served(seconds).into_iter().enumerate().skip(1) {
            let read = [1.0, 0.0, 0.0, 0.0];
            let saved = self.prices[home].of(&read) - self.prices[0].of(&read);
            self.ledger.saved += served * saved * seconds;
        }
        self.before.clear();
        self.before.extend(self.pulse.places());
        self.kept_before.clear();
        self.kept_before.extend_from_slice(self.pulse.kept());
        self.ledger.settle(&self.pulse, &self.prices, seconds);
        self.ghosts.judge(&self.pulse, &self.prices);
        self.pulse.fade();
    }

    /// Pools are at other places, and so is all that is known by a pool's place.
    fn shift(&mut self, change: PoolChange) {
        self.pulse.pools_changed(change);
        change.shift(&mut self.prices, Price::default());
        let before = self.before.iter_mut().chain(&mut self.kept_before);
        before.for_each(|place| *place = change.place_code(*place, NOWHERE));
        self.ledger.pools_changed(change);
        self.ghosts.pools_changed(change);
        self.division.pools_changed(change);
    }

    /// Seconds that users wait for a copy from one pool to another.
    fn copy_cost(&self, bytes: f64, from: usize, to: usize) -> f64 {
        self.prices[from].copy(bytes, 0) + self.prices[to].copy(bytes, 1)
    }

    /// True if a chunk that came to a pool in this epoch had a copy there that no write of the
    /// epoch has made old, so that nothing was copied.
    fn went_back(&self, number: u32, home: usize) -> bool {
        let kept = self.kept_before.get(number as usize);
        let [_, written, _, streamed] = self.pulse.now(number);
        kept.is_some_and(|&kept| usize::from(kept) == home) && written + streamed == 0.0
    }

    /// Seconds that users wait for a move of a chunk: nothing where a copy of it has been kept.
    fn move_cost(&self, bytes: f64, number: u32, from: usize, to: usize) -> f64 {
        if self.pulse.is_kept_on(number, to) { 0.0 } else { self.copy_cost(bytes, from, to) }
    }

    /// Requests that a predictor expects for a chunk.
    fn expected(&self, predictor: usize, around: &[Ask], number: u32) -> Ask {
        if let Some(ahead) = &self.ahead {
            return ahead.asked(predictor, number);
        }
        match predictor {
            0..LANES_END => self.pulse.lately(predictor, number),
            // Of who is there, what it was asked itself says more.
            _ if self.pulse.pool_of(number) == 0 => self.pulse.lately(0, number),
            _ => around[number as usize],
        }
    }

    /// Worth of a pair, if it is worth its copies.
    fn worth(&self, pair: Pair, view: &dyn VolumeView) -> Option<Deal> {
        let (bytes, seconds) = (view.chunk_size().0 as f64, view.epoch().as_secs_f64());
        let returns = self.ghosts.returns(&pair);
        let (earned, horizon) = match &self.ahead {
            Some(ahead) => (1.0, ahead.epochs(pair.predictor.into())),
            None => {
                let earned = returns.earned().max(self.trust) * self.ledger.honour();
                (earned, f64::from(returns.horizon().max(1)))
            }
        };
        let promised = f64::from(pair.predicted) * earned;
        let [from, to] = [pair.from, pair.to].map(usize::from);
        let mut cost = self.copy_cost(bytes, from, to);
        if let Some(victim) = pair.victim {
            cost += self.move_cost(bytes, victim, to, from);
        }
        let net = promised * seconds * horizon - self.margin * cost;
        (promised > 0.0 && net > 0.0).then_some(Deal { pair, net, cost, promised, horizon })
    }

    /// All pairs of all predictors that are worth their copies, the best first.
    fn deals(&mut self, view: &dyn VolumeView, rooms: &Rooms) -> Vec<Deal> {
        let around = self.pulse.around();
        let mut deals: Vec<Deal> = Vec::new();
        for predictor in 0..PREDICTORS {
            for to in 0..self.prices.len() - 1 {
                let pairs = self.pairs(predictor, to, &around, view, rooms);
                self.last.predicted += pairs.len() as u64;
                deals.extend(pairs.iter().filter_map(|pair| self.worth(*pair, view)));
                if self.ahead.is_none() && self.ghosts.is_birth(predictor) {
                    self.ghosts.watch(&pairs);
                }
            }
        }
        deals.sort_unstable_by(|a, b| {
            let order = |deal: &Deal| (deal.pair.chunk, deal.pair.to, deal.pair.predictor);
            b.net.total_cmp(&a.net).then(order(a).cmp(&order(b)))
        });
        deals
    }

    /// Chunks that may leave the fastest pool for the pool `to`, with what they lose by it, those
    /// first that lose least.
    fn residents(&self, view: &dyn VolumeView, to: usize) -> Vec<(f32, u32)> {
        // Moves of a pinned chunk are refused: it would be chosen each time, and paid for.
        let stays = |number: u32| {
            view.is_pinned(self.pulse.chunks.id(number))
                || self.refusals.rests(number)
                || self.is_strict(number, view)
        };
        let there = (0..self.pulse.len()).filter(|&n| self.pulse.pool_of(n) == 0 && !stays(n));
        let mut there: Vec<(f32, u32)> =
            there.map(|number| (self.loses(number, 0, &[], 0, to), number)).collect();
        let at_first = there.iter().filter(|(_, number)| self.pulse.first_home(*number) == Some(0));
        let (count, sum) = at_first.fold((0, 0.0), |(n, sum), (lost, _)| (n + 1, sum + lost));
        let others = if count > 0 { sum / count as f32 } else { 0.0 };
        let seen = self.pulse.epochs() as f32;
        // Where nobody stands for the others, each speaks for itself.
        let weigh = |lost: f32| match count {
            0 => lost,
            _ => (lost * seen + others * PRIOR) / (seen + PRIOR),
        };
        there.iter_mut().for_each(|(lost, _)| *lost = weigh(*lost));
        there.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        there
    }

    /// Lets `division` decide, and says which chunks must leave the fastest pool for lines, the one
    /// that loses most first. `rooms` are those before the decision.
    fn divide(
        &mut self,
        view: &dyn VolumeView,
        rooms: &Rooms,
        deals: &[Deal],
        purse: f64,
    ) -> Vec<u32> {
        if !self.division.is_on() || self.ahead.is_some() {
            return Vec::new();
        }
        let free = rooms.free(PoolId(0)).max(0) as u64;
        // Where they would go: the next pool below may be full, and one further down is slower.
        let below = rooms.below(PoolId(0));
        let to = usize::from(below.map_or(1, |pool| pool.0));
        let mut there = self.residents(view, to);
        there.truncate(below.map_or(0, |pool| rooms.free(pool).max(0) as usize));
        let losses: Vec<f32> = there.iter().map(|(lost, _)| *lost).collect();
        let to_fastest = |deal: &&Deal| deal.pair.to == 0 && deal.pair.victim.is_some();
        let mut coming: Vec<u32> =
            deals.iter().filter(to_fastest).map(|deal| deal.pair.chunk).collect();
        coming.sort_unstable();
        coming.dedup();
        let copy = self.copy_cost(view.chunk_size().0 as f64, 0, to);
        // A copy to a pool that cannot keep up delays all who come until it has caught up, which
        // is more than any price tells. Lines can wait; exchanges relieve the pool, and go on.
        let pays = copy > 0.0 && !self.prices[to].is_overloaded();
        let facts = Facts {
            slots: view.capacity_chunks(PoolId(0)),
            free,
            losses: &losses,
            copy: self.margin * copy,
            copies: if pays { purse / copy } else { 0.0 },
            exchanges: coming.len() as u64,
            epoch_s: view.epoch().as_secs_f64(),
        };
        self.division.decide(&self.prices, &facts);
        let leave = self.division.wanted().saturating_sub(free).min(there.len() as u64);
        let leavers: Vec<u32> =
            there[..leave as usize].iter().rev().map(|(_, number)| *number).collect();
        self.refusals.note(&leavers, |number| self.pulse.pool_of(number) == 0);
        leavers
    }

    /// Takes the best deals that do not stand in each other's way, for what the ledger allows.
    fn choose(&mut self, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        let before = Rooms::of(view);
        let mut rooms = Rooms::of(view);
        rooms.set_aside(PoolId(0), self.division.wanted());
        let deals = self.deals(view, &rooms);
        self.last.worth = deals.len() as u64;
        let mut purse = self.ledger.purse(self.spend);
        let mut settled = vec![false; self.pulse.len() as usize];
        let leavers = self.divide(view, &before, &deals, purse);
        let mut rooms = Rooms::of(view);
        rooms.set_aside(PoolId(0), self.division.wanted());
        let (mut plan, mut victims) = (Plan::new(view), Vec::new());
        plan.set_aside(PoolId(0), self.division.wanted());
        for number in leavers {
            let Some(to) = rooms.below(PoolId(0)) else { break };
            settled[number as usize] = true;
            rooms.carry(PoolId(0), to);
            purse -= self.move_cost(view.chunk_size().0 as f64, number, 0, usize::from(to.0));
            plan.wish(self.pulse.chunks.id(number), PoolId(0), to);
        }
        for deal in deals {
            let Deal { pair, cost, .. } = deal;
            let (from, to) = (PoolId(pair.from.into()), PoolId(pair.to.into()));
            let both = [Some(pair.chunk), pair.victim];
            let taken = both.iter().flatten().any(|&number| settled[number as usize]);
            if taken || cost > purse || pair.victim.is_none() && !rooms.has_room(to) {
                continue;
            }
            purse -= cost;
            both.iter().flatten().for_each(|&number| settled[number as usize] = true);
            self.last.proposed += 1;
            self.last.promised += deal.promised;
            plan.wish(self.pulse.chunks.id(pair.chunk), from, to);
            match pair.victim {
                Some(victim) => victims.push((victim, to, from)),
                None => rooms.carry(from, to),
            }
            if self.acts && self.ahead.is_none() {
                self.ledger.deal(pair, deal.promised, deal.horizon as u32);
            }
        }
        // What yields first is told last.
        for &(victim, from, to) in victims.iter().rev() {
            plan.may_fall(self.pulse.chunks.id(victim), from, to);
        }
        if self.acts {
            plan.propose(budget, moves);
        }
    }
}

const LANES_END: usize = LANES.len();

impl Placement for Auto {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.pulse.record(access);
        if self.division.is_on()
            && let Some(number) = self.pulse.chunks.find(access.chunk)
        {
            let home = self.pulse.known_pool_of(number);
            self.division.observe(access, number, home);
        }
        if let Some(ahead) = &mut self.ahead {
            ahead.pass();
        }
    }

    fn pools_changed(&mut self, change: PoolChange) {
        self.shift(change);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        if let Some(ahead) = &mut self.ahead {
            ahead.look(&mut self.pulse, view);
        }
        self.pulse.look(view);
        self.division.look(view);
        self.learn(view);
        self.last = Decision::default();
        if view.pool_count() > 1 {
            self.choose(view, budget, moves);
        }
        self.pulse.advance();
        self.division.advance();
    }

    fn lines(&self) -> Option<u64> {
        // Who was not asked to divide says nothing: then the share counts that somebody set.
        let divides = self.division.is_on() && self.ahead.is_none();
        divides.then(|| self.division.wanted())
    }

    fn explain(&self, chunk: ChunkId) -> Vec<String> {
        self.reasons(chunk)
    }

    fn account(&self) -> Option<Account> {
        Some(self.ledger.account(self.acts, &self.last))
    }

    fn epoch(&self) -> Option<Nanos> {
        Some(EPOCH)
    }

    fn learnt(&self) -> Option<Vec<u8>> {
        self.ahead.is_none().then(|| Auto::learnt(self))
    }

    fn learn_from(
        &mut self,
        learnt: &[u8],
        exists: &dyn Fn(ChunkId) -> bool,
    ) -> Result<(), Unreadable> {
        Auto::learn_from(self, learnt, exists)
    }

    fn footprint(&self) -> Footprint {
        let own = self.pulse.bytes() + self.ghosts.bytes() + self.ledger.bytes();
        let own = own + self.division.bytes() + self.refusals.bytes();
        let before = self.before.capacity() + self.kept_before.capacity();
        Footprint { resident: 0, index: own + before as u64 }
    }
}

#[cfg(test)]
mod tests;
