//! Algorithm 1 of ChewAnalyzer (Ge 2017 §3.3, in the reading that can run): which pool each case
//! gets.
//!
//! A *case* is what is classified and placed as one: a chunk for `chew`, a run of chunks for
//! `chew-pp`. Cases have numbers; what is asked about them is answered by [`Cases`].
//!
//! 1. Each open case gets a profile: intensity, and shares of writes, random accesses, overwrites.
//! 2. On each level of the library those that have no pool yet are taken heaviest first; each gets
//!    the first pool of its pattern if that has space and time left (eq. 3.5). With `accept=group`
//!    the cases of a pattern get it all together, or none does.
//! 3. On the last level the other pools of the pattern are tried, too.
//! 4. What is left over is taken by weight: the fastest pool with space.
//!
//! Pools only fill up while cases are placed, so a pool that refused a case once refuses it on
//! every later level; it is not asked again, but for the reason. Most cases are cold, fit only the
//! last rule of every level, and its pools have refused them on the first: they are set aside.
//!
//! State: 24 B a case, and 32 B while it is placed. O(cases × levels), O(n log n) over those that
//! some pool takes.

use super::library::{Library, Tier, WEIGHTS};
use super::pools::{Refusal, Status};
use super::settings::{Accept, Measured, Options};
use super::taxonomy::{Profile, Taxonomy};
use crate::placement::activity::{Activity, Counts};
use crate::placement::demand::Demand;
use crate::placement::{Pattern, VolumeView, order};
use thermocline_units::{Bytes, PoolId, prefetch};

/// The cases to classify, by number.
pub(super) trait Cases {
    /// Requests for a case in the epoch.
    fn counts(&self, case: u32) -> &Counts;

    /// Its pool; of several pools the slowest.
    fn pool_of(&self, case: u32) -> PoolId;

    /// Chunks for which `pool` must have room to take it.
    fn room(&self, case: u32, pool: PoolId) -> u64;
}

impl Cases for Activity {
    #[inline]
    fn counts(&self, case: u32) -> &Counts {
        Activity::counts(self, case)
    }

    #[inline]
    fn pool_of(&self, case: u32) -> PoolId {
        Activity::pool_of(self, case)
    }

    #[inline]
    fn room(&self, _: u32, _: PoolId) -> u64 {
        1
    }
}

/// Cases that are asked for ahead of their turn, when they are taken by weight.
const AHEAD: usize = 16;

/// The place where a verdict was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Found {
    /// There is none yet.
    #[default]
    Nowhere,
    /// On a level, counted from 0.
    Level(u8),
    /// Not yet, but on no level.
    Aside,
    /// Among what was left over.
    Left,
}

/// The decision about a case when it was last accessed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Verdict {
    pub(super) profile: Profile,
    pub(super) to: PoolId,
    pub(super) found: Found,
    /// One bit a level on which the pool had space but no time.
    pub(super) late: u8,
    /// One bit a pool that has refused the case; pools from the 17th on are asked anew.
    refused: u16,
}

const _: () = assert!(size_of::<Verdict>() == 24);

/// Outcome of an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing yet; there is no other pool for it on its level.
    Only,
    /// Nothing yet; or no pool of its level takes it, as its verdict says already.
    First,
    Accepted,
    /// The pool has no time left for it.
    Late,
    /// The pool has no space left for it.
    Full,
}

/// A pool that would take a case, and the share of its time.
#[derive(Debug, Clone, Copy)]
struct Offer {
    time: f64,
    case: u32,
    pool: PoolId,
    kind: Kind,
}

const _: () = assert!(size_of::<Offer>() == 16);

/// A case that no pool of its pattern takes: why, and the bits of the pools that refused it.
struct Refused {
    why: Refusal,
    pools: u16,
}

/// The bit of a pool; none for the 17th and those beyond.
#[inline]
fn bit(pool: PoolId) -> u16 {
    1_u16.checked_shl(pool.0.into()).unwrap_or(0)
}

/// Algorithm 1: gives each case its pool.
#[derive(Debug)]
pub(super) struct Classifier {
    pub(super) taxonomy: Taxonomy,
    pub(super) options: Options,
    verdicts: Vec<Verdict>,
    /// Facts of the view: how many pools there are, and 1 over the epoch's seconds.
    pools: u16,
    per_second: f64,
    /// Factor from a chunk's intensity to that of a chunk of the library's size.
    scale: f64,
}

impl Classifier {
    pub(super) fn new(library: Library, options: Options) -> Classifier {
        let taxonomy = Taxonomy::new(library);
        Classifier {
            taxonomy,
            options,
            verdicts: Vec::new(),
            pools: 0,
            per_second: 1.0,
            scale: 1.0,
        }
    }

    /// Begins an epoch's end, with `cases` numbers.
    pub(super) fn begin(&mut self, view: &dyn VolumeView, cases: usize) {
        self.pools = view.pool_count();
        self.taxonomy.set_pools(self.pools);
        self.weigh(view);
        self.per_second = 1.0 / view.epoch().as_secs_f64();
        let chunk = view.chunk_size().0 as f64;
        self.scale = self.options.of.map_or(1.0, |of| of.0 as f64 / chunk);
        self.verdicts.resize(cases, Verdict::default());
    }

    /// Takes those weights that are measured from the pool in the middle, of two pools the fastest:
    /// the case study asks with its weights whether a chunk is too much for that one.
    fn weigh(&mut self, view: &dyn VolumeView) {
        let Measured { write, random } = self.options.measured;
        if write.is_none() && !random {
            return;
        }
        let middle = Tier::Middle.pools(self.pools).next().expect("there is always one");
        let (traits, library) = (view.traits(middle), self.taxonomy.library());
        let takes = |pattern: Pattern| 1.0 / traits.of(pattern).per_second.max(1) as f64;
        let ratio = |dear: f64, cheap: f64| (dear / cheap).clamp(*WEIGHTS.start(), *WEIGHTS.end());
        let write = write.map_or(library.write, |wear| {
            let wear = if traits.overwrites.is_some() { wear } else { 1.0 };
            ratio(takes(Pattern::RandomWrite) * wear, takes(Pattern::RandomRead))
        });
        let random = match random {
            true => ratio(takes(Pattern::RandomRead), takes(Pattern::SequentialRead)),
            false => library.random,
        };
        self.taxonomy.weigh(write, random);
    }

    /// The last verdict about a case.
    #[inline]
    pub(super) fn verdict(&self, case: u32) -> &Verdict {
        &self.verdicts[case as usize]
    }

    /// The same, if there ever was one.
    pub(super) fn known(&self, case: u32) -> Option<&Verdict> {
        self.verdicts.get(case as usize).filter(|verdict| verdict.found != Found::Nowhere)
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.verdicts.capacity() * size_of::<Verdict>()) as u64
    }

    /// Size of the chunk that intensities are scaled to; `None`: they are as measured.
    pub(super) fn scaled_to(&self) -> Option<Bytes> {
        self.options.of.filter(|_| self.scale != 1.0)
    }

    pub(super) fn profile(&self, counts: &Counts) -> Profile {
        profile(counts, self.taxonomy.library().unit, self.per_second * self.scale)
    }

    /// Gives every case that is told a verdict. They are told by ascending number.
    pub(super) fn judge(&mut self, cases: &impl Cases, told: &[u32], status: &mut Status) {
        for &case in told {
            let profile = self.profile(cases.counts(case));
            self.verdicts[case as usize] = Verdict { profile, ..Verdict::default() };
        }
        let mut open = told.to_vec();
        let mut begun = Vec::new();
        for level in 0..self.taxonomy.level_count() {
            begun.push(status.clone());
            match self.options.accept {
                Accept::Chunk => self.place_each(cases, &open, level, status),
                Accept::Group => self.place_groups(cases, &open, level, status),
            }
            if level == 0 && self.options.accept == Accept::Chunk {
                self.set_aside(&open);
            }
            open.retain(|&case| self.verdict(case).found == Found::Nowhere);
        }
        let without =
            |case: &u32| matches!(self.verdict(*case).found, Found::Nowhere | Found::Aside);
        let left: Vec<u32> = told.iter().copied().filter(without).collect();
        self.place_left(cases, &left, &begun, status);
    }

    /// Sets those of `open` aside that no level beyond the first can place.
    fn set_aside(&mut self, open: &[u32]) {
        let choices =
            (1..self.taxonomy.level_count()).map(|level| self.taxonomy.last_choices(level));
        // A pool without a bit has refused nobody.
        let pools = choices.flatten().try_fold(0, |pools, &pool| match bit(pool) {
            0 => None,
            bit => Some(pools | bit),
        });
        let (Some(pools), cold_below) = (pools, self.taxonomy.cold_below()) else { return };
        for &case in open {
            let verdict = &mut self.verdicts[case as usize];
            let cold = f64::from(verdict.profile.intensity) < cold_below;
            if verdict.found == Found::Nowhere && cold && verdict.refused & pools == pools {
                verdict.found = Found::Aside;
            }
        }
    }

    /// Gives cases that no pool of their pattern takes the fastest pool with space, by weight.
    /// `begun` are the pools as they were when each level began.
    fn place_left(
        &mut self,
        cases: &impl Cases,
        left: &[u32],
        begun: &[Status],
        status: &mut Status,
    ) {
        let mut places = self.places(cases, left.iter().copied(), self.taxonomy.level_count() - 1);
        order::sort(&mut places);
        for (at, case) in places.iter().map(|&place| order::number(place)).enumerate() {
            if let Some(&next) = places.get(at + AHEAD) {
                prefetch(&self.verdicts, order::number(next) as usize);
            }
            if self.verdict(case).found == Found::Aside {
                self.tell_late(cases, case, begun);
            }
            let fits = |pool| status.has_space(pool, cases.room(case, pool));
            let to = (0..self.pools).map(PoolId).find(|&pool| fits(pool));
            let to = to.unwrap_or(cases.pool_of(case));
            status.take(to, cases.room(case, to), 0.0);
            let verdict = &mut self.verdicts[case as usize];
            (verdict.to, verdict.found) = (to, Found::Left);
        }
    }

    /// On which levels a case that was set aside would have been refused for want of time.
    fn tell_late(&mut self, cases: &impl Cases, case: u32, begun: &[Status]) {
        for (level, status) in begun.iter().enumerate().skip(1) {
            let has_space = |pool: &PoolId| status.has_space(*pool, cases.room(case, *pool));
            if self.taxonomy.last_choices(level).iter().any(has_space) {
                self.refuse(case, level, Refusal::Time);
            }
        }
    }

    /// Charges what was left over for the time of its pools; [`Classifier::judge`] does not, as
    /// nothing that it decides depends on it.
    pub(super) fn charge_left(&self, cases: &impl Cases, judged: &[u32], status: &mut Status) {
        for &case in judged {
            let Verdict { to, found, .. } = *self.verdict(case);
            if found == Found::Left {
                status.take(to, 0, status.time(to, &self.demand(cases, case)));
            }
        }
    }

    /// Takes back what a case takes of its pool.
    pub(super) fn release(&self, cases: &impl Cases, case: u32, status: &mut Status) {
        let to = self.verdict(case).to;
        let time = status.time(to, &self.demand(cases, case));
        status.release(to, cases.room(case, to), time);
    }

    /// Cases by the weight in which all dimensions count.
    pub(super) fn heaviest_first(
        &self,
        cases: &impl Cases,
        chosen: impl Iterator<Item = u32>,
    ) -> impl Iterator<Item = u32> {
        let mut places = self.places(cases, chosen, self.taxonomy.level_count() - 1);
        order::sort(&mut places);
        places.into_iter().map(order::number)
    }

    /// The places of cases in the order of their weight on a level.
    fn places(
        &self,
        cases: &impl Cases,
        chosen: impl Iterator<Item = u32>,
        level: usize,
    ) -> Vec<u64> {
        chosen
            .map(|case| order::place(self.weight(case, level), cases.pool_of(case), case))
            .collect()
    }

    #[inline]
    fn weight(&self, case: u32, level: usize) -> f64 {
        self.taxonomy.weight_on(&self.verdict(case).profile, level)
    }

    #[inline]
    fn demand(&self, cases: &impl Cases, case: u32) -> Demand {
        cases.counts(case).demand(self.per_second)
    }

    /// The first pool that takes a case on this level.
    fn choose(
        &self,
        cases: &impl Cases,
        case: u32,
        level: usize,
        status: &Status,
    ) -> Result<Offer, Refused> {
        let verdict = self.verdict(case);
        let choices = self.taxonomy.choices(&verdict.profile, level);
        let mut refused = Refused { why: Refusal::Space, pools: 0 };
        for &pool in choices {
            refused.pools |= bit(pool);
            if !status.has_space(pool, cases.room(case, pool)) {
                continue;
            }
            if verdict.refused & bit(pool) == 0 {
                let time = status.time(pool, &self.demand(cases, case));
                if status.has_time(pool, time) {
                    let kind = if choices.len() == 1 { Kind::Only } else { Kind::First };
                    return Ok(Offer { time, case, pool, kind });
                }
            }
            refused.why = Refusal::Time;
        }
        Err(refused)
    }

    fn refuse(&mut self, case: u32, level: usize, why: Refusal) {
        self.verdicts[case as usize].late |= u8::from(why == Refusal::Time) << level;
    }

    /// Gives each of `open` its pool, as long as that takes it.
    fn place_each(&mut self, cases: &impl Cases, open: &[u32], level: usize, status: &mut Status) {
        // Whom pools refuse now need not be sorted.
        let mut offers = Vec::with_capacity(open.len());
        for &case in open {
            match self.choose(cases, case, level, status) {
                Ok(offer) => offers.push(offer),
                Err(refused) => self.note(case, level, &refused),
            }
        }
        self.accept(cases, &mut offers, level, status);
        // Verdicts are written in their order: by weight they would be far apart.
        for offer in offers {
            let verdict = &mut self.verdicts[offer.case as usize];
            match offer.kind {
                Kind::Accepted => {
                    (verdict.to, verdict.found) = (offer.pool, Found::Level(level as u8));
                }
                Kind::Late | Kind::Full => {
                    let why = if offer.kind == Kind::Late { Refusal::Time } else { Refusal::Space };
                    self.note(offer.case, level, &Refused { why, pools: bit(offer.pool) });
                }
                Kind::Only | Kind::First => {}
            }
        }
    }

    /// Accepts offers as long as the pools can, the heaviest first.
    fn accept(
        &mut self,
        cases: &impl Cases,
        offers: &mut [Offer],
        level: usize,
        status: &mut Status,
    ) {
        let place = |(number, offer): (u32, &Offer)| {
            order::place(self.weight(offer.case, level), cases.pool_of(offer.case), number)
        };
        let mut places: Vec<u64> = (0..).zip(offers.iter()).map(place).collect();
        order::sort(&mut places);
        for (at, number) in places.iter().map(|&place| order::number(place)).enumerate() {
            if let Some(&next) = places.get(at + AHEAD) {
                prefetch(offers, order::number(next) as usize);
            }
            let Offer { time, case, pool, kind } = offers[number as usize];
            let space = status.has_space(pool, cases.room(case, pool));
            let offer = match (space && status.has_time(pool, time), kind) {
                (true, _) => Offer { time, case, pool, kind: Kind::Accepted },
                (false, Kind::Only) => {
                    let kind = if space { Kind::Late } else { Kind::Full };
                    Offer { time, case, pool, kind }
                }
                // Another pool of its pattern may take it.
                (false, _) => match self.choose(cases, case, level, status) {
                    Ok(offer) => Offer { kind: Kind::Accepted, ..offer },
                    Err(refused) => {
                        self.note(case, level, &refused);
                        continue;
                    }
                },
            };
            if offer.kind == Kind::Accepted {
                status.take(offer.pool, cases.room(case, offer.pool), offer.time);
            }
            offers[number as usize] = offer;
        }
    }

    /// Pools have refused a case for good.
    fn note(&mut self, case: u32, level: usize, refused: &Refused) {
        self.refuse(case, level, refused.why);
        self.verdicts[case as usize].refused |= refused.pools;
    }

    /// Gives the cases of each pattern their pool if all of them fit.
    fn place_groups(
        &mut self,
        cases: &impl Cases,
        open: &[u32],
        level: usize,
        status: &mut Status,
    ) {
        for rule in 0..self.taxonomy.library().levels[level].rules.len() {
            let has =
                |case: &u32| self.taxonomy.rule_number(&self.verdict(*case).profile, level) == rule;
            let group: Vec<u32> = open.iter().copied().filter(has).collect();
            let mut trial = status.clone();
            let refused = group.iter().find_map(|&case| {
                let chosen = self.choose(cases, case, level, &trial);
                let taken = chosen.map(|Offer { pool, time, .. }| {
                    trial.take(pool, cases.room(case, pool), time);
                });
                taken.err().map(|refused| refused.why)
            });
            match refused {
                None => self.place_each(cases, &group, level, status),
                Some(why) => group.iter().for_each(|&case| self.refuse(case, level, why)),
            }
        }
    }
}

/// Characters of a case by its counts.
pub(super) fn profile(counts: &Counts, unit: Bytes, per_second: f64) -> Profile {
    let share = |part: u64, all: u64| if all > 0 { part as f32 / all as f32 } else { 0.0 };
    let units = counts.bytes() as f64 / unit.0 as f64;
    Profile {
        intensity: (units * per_second) as f32,
        writes: share(counts.bytes_written(), counts.bytes()),
        random: share(counts.random(), counts.accesses()),
        overwritten: share(counts.overwrites.into(), counts.writes()),
    }
}
