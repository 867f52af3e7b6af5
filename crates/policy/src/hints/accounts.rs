//! Accounts of hints: how much less, or longer, users waited because hints were followed.
//!
//! 1. *Prices.* At an epoch's end [`Price`]s of pools are learnt, those by which `auto` decides. A
//!    request counts as random, with the mean bytes that requests carried in the epoch.
//! 2. *Accounts.* When a hint moves a chunk, or places its first write, an account begins with the
//!    pool where the chunk was, or would have gone. At each epoch's end it gets what the chunk's
//!    requests cost there less what they cost where the chunk is: time saved, or lost. What other
//!    chunks lose that made room for it is on its account, too.
//! 3. *What is not followed* is judged by what would have been: the price at home less that on the
//!    pool of the class, and less what the chunk there would lose that had to leave: the one that
//!    did before, or else a mean one.
//! 4. *Pins.* A pin is charged for the move of the placement that it prevents: what the chunk's
//!    requests cost where it stays, less what they would cost there.
//! 5. *Value* of an account, 0 wrong to 1 right: `(saved + 3u) / (saved + lost + 4u)`, which is
//!    [`NEUTRAL`] without evidence. `u` is what an account must show before it counts:
//!    [`EVIDENCE`] requests on the dearest instead of the cheapest pool, and the wait for a mean
//!    chunk. All sums forget, with [`KEPT`] an epoch. So quiet data says nothing, whatever was said
//!    of it, and a hint is wrong when users wait for it, or for what it pushed away. Each time that
//!    a chunk's hint is found wrong, it must be right for twice as long before it is followed there
//!    again: nothing moves to and fro for ever.
//!
//! An account says nothing of what a placement would have made of the chunk later on. Sources:
//! prices as `auto`; the rest is ours. State: at most [`ACCOUNTS_MAX`] of each kind, some 60 B
//! each. O(chunks) an epoch.

use super::store::{Living, TRUST};
use crate::placement::price::{Ask, Price};
use crate::placement::{Accesses, PoolChange, PoolLoad, VolumeView};
use std::collections::BTreeMap;
use thermocline_units::{ChunkId, PoolId, VolumeId};

/// Accounts, chunks that made room, and pins that are charged, at most: of each. What comes beyond
/// it is not followed up.
pub(super) const ACCOUNTS_MAX: usize = 1 << 17;
/// Value without evidence.
pub(super) const NEUTRAL: f64 = 0.75;
/// Requests that make an account count, where the mean chunk has none.
const EVIDENCE: f64 = 8.0;
/// Share of sums that the next epoch keeps.
const KEPT: f64 = 0.7;
/// Accounts with less than this share of `u` are forgotten when nothing adds to them.
const NOTHING: f64 = 0.01;
/// Epochs for which a pin is charged after the placement last proposed to move its chunk.
const PIN_EPOCHS: u8 = 16;
/// Times that an account was found wrong, at most: then it must be right for 1,024 epochs.
const STRIKES_MAX: u8 = 10;
/// Number of the source that stands for administrators, who pin by name.
pub(super) const ADMINISTRATOR: u8 = u8::MAX;

const UNIT: f64 = 4096.0;

/// Source and class of a hint.
pub(super) type Owner = (u8, u8);

/// Time that users waited less, and longer, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Waits {
    /// Time saved.
    pub saved: f64,
    /// Time lost.
    pub lost: f64,
}

impl Waits {
    /// Adds seconds: saved if above 0, else lost.
    pub(super) fn add(&mut self, gain: f64) {
        self.saved += gain.max(0.0);
        self.lost += (-gain).max(0.0);
    }

    /// Adds another's times.
    pub(super) fn join(&mut self, other: Waits) {
        self.saved += other.saved;
        self.lost += other.lost;
    }

    fn forget(&mut self) {
        self.saved *= KEPT;
        self.lost *= KEPT;
    }

    fn sum(&self) -> f64 {
        self.saved + self.lost
    }

    fn value(&self, unit: f64) -> f64 {
        if self.sum() == 0.0 {
            return NEUTRAL;
        }
        (self.saved + 3.0 * unit) / (self.sum() + 4.0 * unit)
    }
}

/// Account of a chunk.
#[derive(Debug, Clone, Copy)]
struct Account {
    owner: Owner,
    /// Pool before its hint was followed; of a pin, the pool where the placement wants it.
    was: PoolId,
    lately: Waits,
    /// Epochs for which a pin is still charged.
    left: u8,
    /// True if it is known which chunk makes room for it.
    has_victim: bool,
    /// Times that it was found wrong.
    strikes: u8,
    /// Epochs in which it must be right before it is followed again.
    barred: u16,
}

impl Account {
    fn new(owner: Owner, was: PoolId) -> Account {
        let lately = Waits::default();
        Account { owner, was, lately, left: 0, has_victim: false, strikes: 0, barred: 0 }
    }

    fn is_trusted(&self, unit: f64) -> bool {
        self.barred == 0 && self.lately.value(unit) >= TRUST
    }

    /// An epoch has been charged: each time that the hint is found wrong, it must be right for
    /// twice as long.
    fn judge(&mut self, unit: f64) {
        if self.lately.value(unit) >= TRUST {
            self.barred = self.barred.saturating_sub(1);
        } else if self.barred == 0 {
            self.strikes = (self.strikes + 1).min(STRIKES_MAX);
            self.barred = 1 << self.strikes;
        }
    }
}

/// A chunk that made room for another one.
#[derive(Debug, Clone, Copy)]
struct Displaced {
    by: ChunkId,
    was: PoolId,
    to: PoolId,
}

/// A move of the director, for its hint's account.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    pub(super) chunk: ChunkId,
    pub(super) was: PoolId,
    pub(super) to: PoolId,
    /// Owner of the hint that it follows.
    pub(super) owner: Owner,
    /// The chunk that it makes room for.
    pub(super) room_for: Option<ChunkId>,
}

/// A part of a volume of one source and class, and what came of following it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Number of the source.
    pub source: u8,
    /// Its class.
    pub class: u8,
    /// Chunks of one volume.
    pub chunks: (ChunkId, u32),
    /// Time saved and lost lately: the last epoch in full, those before it less and less.
    pub lately: Waits,
    /// 0 wrong, 1 right.
    pub value: f64,
    /// True if it is followed.
    pub followed: bool,
}

/// Finding of an epoch about a source and class.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Finding {
    /// Bytes of chunks that its hints decide, and of those of which something is known.
    pub(super) bytes: u64,
    pub(super) proved: u64,
    /// Values, weighted by bytes.
    pub(super) weighed: f64,
    pub(super) waits: Waits,
}

/// Pins on a pool, and the time that they cost or save.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PinScore {
    /// Chunks that hints pin, and are held.
    pub held: u64,
    /// Chunks that hints pin, which are not held: they cost more than they save.
    pub wrong: u64,
    /// Chunks that hints pin, which are not held: they are beyond the budget.
    pub beyond: u64,
    /// Chunks that administrators pinned, which are always held.
    pub by_name: u64,
    /// Chunks of the pool that hints may pin beside those.
    pub budget: u64,
    /// Time that pins saved and lost since the start.
    pub waits: Waits,
}

/// Prices of pools, for requests of the mean size.
#[derive(Debug, Default)]
struct Prices {
    pools: Vec<Price>,
    /// Units of 4 KiB that a read, and a write, carries beyond the first.
    beyond: [f64; 2],
    /// Seconds that users waited in the epoch, for all requests.
    waited: f64,
}

impl Prices {
    fn learn(&mut self, view: &dyn VolumeView) {
        let seconds = view.epoch().as_secs_f64();
        let loads: Vec<PoolLoad> =
            (0..view.pool_count()).map(|pool| view.load(PoolId(pool))).collect();
        self.pools.resize_with(loads.len(), Price::default);
        self.waited = 0.0;
        let (mut units, mut requests) = ([0.0; 2], [0.0; 2]);
        for ((pool, price), load) in (0..).map(PoolId).zip(&mut self.pools).zip(&loads) {
            let counts = [load.reads, load.writes].map(|count| count as f64);
            let bytes = [load.read_bytes, load.written_bytes].map(|bytes| bytes.0 as f64);
            let more = [0, 1].map(|side| (bytes[side] / UNIT - counts[side]).max(0.0));
            let asked: [f64; 4] = [counts[0], counts[1], more[0], more[1]];
            let asked: Ask = asked.map(|count| (count / seconds) as f32);
            price.learn(&view.traits(pool), load, asked, view.epoch());
            self.waited +=
                load.latency().map_or(0.0, |mean| mean.as_secs_f64()) * load.requests() as f64;
            for side in [0, 1] {
                units[side] += more[side];
                requests[side] += counts[side];
            }
        }
        self.beyond = [0, 1].map(|side| units[side] / f64::max(requests[side], 1.0));
    }

    /// Seconds that users wait for so many reads and writes on a pool.
    fn of(&self, pool: PoolId, reads: f64, writes: f64) -> f64 {
        let asked = [reads, writes, reads * self.beyond[0], writes * self.beyond[1]];
        let price = self.pools.get(usize::from(pool.0));
        price.map_or(0.0, |price| price.of(&asked.map(|count| count as f32)))
    }

    /// Seconds saved for these accesses on `to` instead of `from`.
    fn gain(&self, accesses: Accesses, from: PoolId, to: PoolId) -> f64 {
        let (reads, writes) = (accesses.reads as f64, accesses.writes as f64);
        self.of(from, reads, writes) - self.of(to, reads, writes)
    }

    /// Seconds between a request on the dearest and on the cheapest pool.
    fn gap(&self) -> f64 {
        let prices = (0..self.pools.len() as u16).map(|pool| self.of(PoolId(pool), 0.5, 0.5));
        let (low, high) = prices.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), one| {
            (low.min(one), high.max(one))
        });
        (high - low).max(0.0)
    }
}

/// Residents of a pool in the mean, and its room.
#[derive(Debug, Clone, Copy, Default)]
struct Residents {
    chunks: u64,
    reads: u64,
    writes: u64,
    is_full: bool,
}

/// Accounts of all hints that were followed.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    prices: Prices,
    chunks: BTreeMap<ChunkId, Account>,
    displaced: BTreeMap<ChunkId, Displaced>,
    pins: BTreeMap<ChunkId, Account>,
    /// Seconds that users waited for a mean chunk lately.
    mean: f64,
    /// Seconds that make an account count.
    unit: f64,
}

impl Accounts {
    /// Pools are at other places. What a hint did with a pool that is gone is forgotten.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        change.shift(&mut self.prices.pools, Price::default());
        let keep = |_: &ChunkId, account: &mut Account| {
            let was = change.place_of(account.was);
            account.was = was.unwrap_or(account.was);
            was.is_some()
        };
        self.chunks.retain(keep);
        self.pins.retain(keep);
        self.displaced.retain(|_, displaced| {
            let ends = [displaced.was, displaced.to].map(|pool| change.place_of(pool));
            let [Some(was), Some(to)] = ends else { return false };
            (displaced.was, displaced.to) = (was, to);
            true
        });
    }

    /// Memory that they take, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let entry = |bytes: usize| 2 * (size_of::<ChunkId>() + bytes) as u64;
        let accounts = (self.chunks.len() + self.pins.len()) as u64 * entry(size_of::<Account>());
        accounts + self.displaced.len() as u64 * entry(size_of::<Displaced>())
    }

    /// True if a hint of `owner` for the chunk is followed, as far as the chunk itself says.
    pub(super) fn trusts(&self, chunk: ChunkId, owner: Owner) -> bool {
        let account = self.chunks.get(&chunk).filter(|account| account.owner == owner);
        account.is_none_or(|account| account.is_trusted(self.unit))
    }

    /// True if a pin of `owner` is held, as far as the chunk itself says.
    pub(super) fn trusts_pin(&self, chunk: ChunkId) -> bool {
        let account = self.pins.get(&chunk);
        account.is_none_or(|account| account.is_trusted(self.unit))
    }

    /// Begins an account for a chunk whose hint is being followed: it was on `was`, or would be.
    pub(super) fn begin(&mut self, chunk: ChunkId, owner: Owner, was: PoolId) {
        let known = self.chunks.get(&chunk).map(|known| known.owner);
        if known != Some(owner) && (known.is_some() || self.chunks.len() < ACCOUNTS_MAX) {
            self.chunks.insert(chunk, Account::new(owner, was));
        }
        assert!(self.chunks.len() <= ACCOUNTS_MAX, "accounts are bounded");
    }

    /// Forgets what is known of hints of a source, whose number another one gets.
    pub(super) fn forget_source(&mut self, source: u8) {
        self.chunks.retain(|_, account| account.owner.0 != source);
        self.pins.retain(|_, account| account.owner.0 != source);
    }

    /// Forgets what is known of a volume that is gone.
    pub(super) fn forget_volume(&mut self, volume: VolumeId) {
        self.chunks.retain(|chunk, _| chunk.volume != volume);
        self.displaced.retain(|chunk, _| chunk.volume != volume);
        self.pins.retain(|chunk, _| chunk.volume != volume);
    }

    /// Takes note of the director's moves.
    pub(super) fn follow(&mut self, followed: &[Followed]) {
        for &Followed { chunk, was, to, owner, room_for } in followed {
            let Some(by) = room_for else {
                self.begin(chunk, owner, was);
                continue;
            };
            if self.displaced.len() < ACCOUNTS_MAX || self.displaced.contains_key(&chunk) {
                let displaced = self.displaced.entry(chunk).or_insert(Displaced { by, was, to });
                (displaced.by, displaced.to) = (by, to);
            }
        }
        assert!(self.displaced.len() <= ACCOUNTS_MAX, "chunks that made room are bounded");
    }

    /// Takes note that a pin keeps a chunk from where a placement wants it.
    pub(super) fn prevent(&mut self, chunk: ChunkId, owner: Owner, to: PoolId) {
        if self.pins.len() < ACCOUNTS_MAX || self.pins.contains_key(&chunk) {
            let account = self.pins.entry(chunk).or_insert(Account::new(owner, to));
            (account.owner, account.was, account.left) = (owner, to, PIN_EPOCHS);
        }
        assert!(self.pins.len() <= ACCOUNTS_MAX, "pins that are charged are bounded");
    }

    /// Ends an epoch in which clients asked for something: prices are learnt, and accounts and pins
    /// are charged. `wanted`: the pool where a chunk's hint would have it. Returns what is known of
    /// each source and class, at source × `classes` + class, and adds what pins cost to `pins`.
    pub(super) fn settle(
        &mut self,
        view: &dyn VolumeView,
        living: &[Living],
        (sources, classes): (usize, usize),
        wanted: &dyn Fn(&Living) -> Option<PoolId>,
        pins: &mut [PinScore],
    ) -> Vec<Finding> {
        self.prices.learn(view);
        let mean = self.prices.waited / living.len().max(1) as f64;
        self.mean = self.mean * KEPT + mean;
        self.unit = (EVIDENCE * self.prices.gap() + self.mean).max(f64::MIN_POSITIVE);
        let accounts = self.chunks.values_mut().chain(self.pins.values_mut());
        accounts.for_each(|account| {
            account.lately.forget();
            account.has_victim = false;
        });
        self.prune(living);
        let mut findings = vec![Finding::default(); sources * classes];
        let mut note = |(source, class): Owner, gain: f64| {
            let at = usize::from(source) * classes + usize::from(class);
            if let Some(finding) = findings.get_mut(at) {
                finding.waits.add(gain);
            }
        };
        let residents = residents(view, living);
        for one in living {
            self.charge_displaced(one, &mut note);
        }
        for one in living {
            self.charge(one, &residents, wanted, &mut note);
            self.charge_pin(one, pins);
        }
        let unit = self.unit;
        let accounts = self.chunks.values_mut().chain(self.pins.values_mut());
        accounts.for_each(|account| account.judge(unit));
        for one in living {
            let Some(said) = &one.said else { continue };
            let at = usize::from(said.hint.source) * classes + usize::from(said.hint.class);
            let Some(finding) = findings.get_mut(at) else { continue };
            let account = self.chunks.get(&one.chunk);
            let lately = account.map_or(Waits::default(), |account| account.lately);
            finding.bytes += said.bytes;
            finding.weighed += said.bytes as f64 * lately.value(self.unit);
            finding.proved += if lately.sum() > 0.0 { said.bytes } else { 0 };
        }
        findings
    }

    /// Forgets accounts of chunks that are gone, or of which somebody else decides now, and those
    /// that say nothing any more.
    fn prune(&mut self, living: &[Living]) {
        let find = |chunk: &ChunkId| {
            let at = living.binary_search_by_key(chunk, |one| one.chunk);
            at.ok().map(|at| &living[at])
        };
        let nothing = self.unit * NOTHING;
        self.chunks.retain(|chunk, account| {
            find(chunk).is_some_and(|one| {
                let decides = one.said.as_ref().is_some_and(|said| said.owner() == account.owner);
                let counts = account.barred > 0 || account.lately.sum() > nothing;
                decides && (one.home != account.was || counts)
            })
        });
        let chunks = &self.chunks;
        // One that is back shows what a hint would cost that is not followed.
        self.displaced.retain(|chunk, displaced| {
            let followed = find(&displaced.by).is_some_and(Living::is_followed);
            let away = find(chunk).is_some_and(|one| one.home != displaced.was);
            chunks.contains_key(&displaced.by) && find(chunk).is_some() && (away || !followed)
        });
        self.pins.retain(|chunk, account| {
            account.left = account.left.saturating_sub(1);
            let pinned = find(chunk).is_some_and(|one| one.pinned || one.is_pinned_by_hint());
            pinned && (account.left > 0 || account.lately.sum() > nothing)
        });
    }

    /// Charges what a chunk lost that made room for another one to the hint of that one.
    fn charge_displaced(&mut self, one: &Living, note: &mut impl FnMut(Owner, f64)) {
        let Some(&Displaced { by, was, to }) = self.displaced.get(&one.chunk) else { return };
        let Some(account) = self.chunks.get_mut(&by) else { return };
        account.has_victim = true;
        if one.home == was {
            // It would have to go again.
            account.lately.add(self.prices.gain(one.accesses, was, to));
        } else {
            let gain = self.prices.gain(one.accesses, was, one.home);
            account.lately.add(gain);
            note(account.owner, gain);
        }
    }

    /// Charges a chunk's own hint.
    fn charge(
        &mut self,
        one: &Living,
        residents: &[Residents],
        wanted: &dyn Fn(&Living) -> Option<PoolId>,
        note: &mut impl FnMut(Owner, f64),
    ) {
        let Some(said) = &one.said else { return };
        let followed = one.is_followed();
        let to = wanted(one);
        let away = to.filter(|&to| to != one.home);
        if let (false, Some(to)) = (followed, away) {
            let gain = self.would_gain(one, to, &residents[usize::from(to.0)]);
            if gain != 0.0 {
                self.begin(one.chunk, said.owner(), one.home);
            }
            if let Some(account) = self.chunks.get_mut(&one.chunk) {
                account.lately.add(gain);
            }
            return;
        }
        if let Some(account) = self.chunks.get_mut(&one.chunk) {
            let gain = self.prices.gain(one.accesses, account.was, one.home);
            account.lately.add(gain);
            note(account.owner, gain);
        }
    }

    /// Gain of a chunk on `to`, had its hint been followed: less what a mean chunk there would lose
    /// that made room for it.
    fn would_gain(&self, one: &Living, to: PoolId, there: &Residents) -> f64 {
        let own = self.prices.gain(one.accesses, one.home, to);
        let has_victim = self.chunks.get(&one.chunk).is_some_and(|account| account.has_victim);
        if to > one.home || !there.is_full || there.chunks == 0 || has_victim {
            return own;
        }
        let mean = |count: u64| count as f64 / there.chunks as f64;
        let (reads, writes) = (mean(there.reads), mean(there.writes));
        own - (self.prices.of(one.home, reads, writes) - self.prices.of(to, reads, writes))
    }

    fn charge_pin(&mut self, one: &Living, pins: &mut [PinScore]) {
        let Some(account) = self.pins.get_mut(&one.chunk).filter(|account| account.left > 0) else {
            return;
        };
        let gain = self.prices.gain(one.accesses, account.was, one.home);
        account.lately.add(gain);
        if let Some(score) = pins.get_mut(usize::from(one.home.0)) {
            score.waits.add(gain);
        }
    }

    /// Waits because of a chunk's hint lately, and its value; `None`: nothing is known.
    pub(super) fn of(&self, chunk: ChunkId, owner: Owner) -> Option<(Waits, f64)> {
        let account = self.chunks.get(&chunk).filter(|account| account.owner == owner)?;
        Some((account.lately, account.lately.value(self.unit)))
    }

    /// Waits because of a chunk's pin lately, and its value; `None`: no placement would move it.
    pub(super) fn of_pin(&self, chunk: ChunkId) -> Option<(Waits, f64)> {
        let account = self.pins.get(&chunk)?;
        Some((account.lately, account.lately.value(self.unit)))
    }

    /// Ranges of which something is known, by volume and place: neighbours of one owner that are
    /// all right, or all wrong, are one.
    pub(super) fn judged(&self) -> Vec<Judged> {
        let mut judged: Vec<Judged> = Vec::new();
        for (&chunk, account) in self.chunks.iter().filter(|(_, one)| one.lately.sum() > 0.0) {
            let trusted = account.is_trusted(self.unit);
            let (source, class) = account.owner;
            if let Some(last) = judged.last_mut()
                && (last.source, last.class, last.followed) == (source, class, trusted)
                && last.chunks.0.volume == chunk.volume
                && last.chunks.0.index + last.chunks.1 == chunk.index
            {
                last.chunks.1 += 1;
                last.lately.join(account.lately);
                last.value = last.lately.value(self.unit * f64::from(last.chunks.1));
                continue;
            }
            let (lately, value) = (account.lately, account.lately.value(self.unit));
            let chunks = (chunk, 1);
            let one = Judged { source, class, chunks, lately, value, followed: trusted };
            judged.push(one);
        }
        judged
    }
}

/// Residents of each pool, and whether it is full.
fn residents(view: &dyn VolumeView, living: &[Living]) -> Vec<Residents> {
    let mut residents: Vec<Residents> = (0..view.pool_count())
        .map(PoolId)
        .map(|pool| {
            let is_full = view.used_chunks(pool) >= view.capacity_chunks(pool);
            Residents { is_full, ..Residents::default() }
        })
        .collect();
    for one in living {
        let there = &mut residents[usize::from(one.home.0)];
        there.chunks += 1;
        there.reads = there.reads.saturating_add(one.accesses.reads);
        there.writes = there.writes.saturating_add(one.accesses.writes);
    }
    residents
}
