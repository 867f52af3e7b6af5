//! Algorithm 1 of ChewAnalyzer (000 §3.3, in the reading that can run): which pool each case gets.
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
//! every later level; it is not asked again, but for the reason.
//!
//! State: 24 B a case. O(cases × levels), O(n log n) over those that some pool takes.

use super::library::{Library, Profile};
use super::pools::{Refusal, Status};
use super::settings::{Accept, Options};
use crate::placement::activity::{Activity, Counts};
use crate::placement::demand::Demand;
use crate::placement::{VolumeView, order};
use thermocline_units::{Bytes, PoolId};

/// What is classified, by number.
pub(super) trait Cases {
    /// What the epoch asked of a case.
    fn counts(&self, case: u32) -> &Counts;

    /// Where it is; of several pools the slowest.
    fn home(&self, case: u32) -> PoolId;

    /// Chunks for which `pool` must have room to take it.
    fn room(&self, case: u32, pool: PoolId) -> u64;
}

impl Cases for Activity {
    #[inline]
    fn counts(&self, case: u32) -> &Counts {
        Activity::counts(self, case)
    }

    #[inline]
    fn home(&self, case: u32) -> PoolId {
        Activity::home(self, case)
    }

    #[inline]
    fn room(&self, _: u32, _: PoolId) -> u64 {
        1
    }
}

/// Where a verdict was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Found {
    /// There is none yet.
    #[default]
    Nowhere,
    /// On a level, counted from 0.
    Level(u8),
    /// Among what was left over.
    Left,
}

/// What was decided about a case when it was last accessed.
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

/// A case that no pool of its pattern takes: why, and the bits of the pools that refused it.
struct Refused {
    why: Refusal,
    pools: u16,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Classifier {
    pub(super) library: Library,
    pub(super) options: Options,
    verdicts: Vec<Verdict>,
    /// Of the view: how many pools there are, and 1 over the epoch's seconds.
    pools: u16,
    per_second: f64,
}

impl Classifier {
    pub(super) fn new(library: Library, options: Options) -> Classifier {
        Classifier { library, options, verdicts: Vec::new(), pools: 0, per_second: 1.0 }
    }

    /// Begins an epoch's end, with `cases` numbers.
    pub(super) fn begin(&mut self, view: &dyn VolumeView, cases: usize) {
        self.pools = view.pool_count();
        self.per_second = 1.0 / view.epoch().as_secs_f64();
        self.verdicts.resize(cases, Verdict::default());
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

    pub(super) fn profile(&self, counts: &Counts) -> Profile {
        profile(counts, self.library.unit, self.per_second)
    }

    /// Gives every case of `open` a verdict. They are told by ascending number.
    pub(super) fn judge(&mut self, cases: &impl Cases, mut open: Vec<u32>, status: &mut Status) {
        for &case in &open {
            let profile = self.profile(cases.counts(case));
            self.verdicts[case as usize] = Verdict { profile, ..Verdict::default() };
        }
        let last = self.library.levels.len() - 1;
        for level in 0..=last {
            match self.options.accept {
                Accept::Chunk => self.place_each(cases, &open, level, status),
                Accept::Group => self.place_groups(cases, &open, level, status),
            }
            open.retain(|&case| self.verdict(case).found == Found::Nowhere);
        }
        for case in self.heaviest_first(cases, open.into_iter()) {
            let fits = |pool| status.has_space(pool, cases.room(case, pool));
            let to = (0..self.pools).map(PoolId).find(|&pool| fits(pool));
            let to = to.unwrap_or(cases.home(case));
            let time = status.time(to, &self.demand(cases, case));
            self.settle(cases, case, (to, time, Found::Left), status);
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
    ) -> Vec<u32> {
        self.by_weight(cases, chosen, self.library.levels.len() - 1)
    }

    /// Cases by their weight on a level.
    fn by_weight(
        &self,
        cases: &impl Cases,
        chosen: impl Iterator<Item = u32>,
        level: usize,
    ) -> Vec<u32> {
        let last = self.library.levels[level].weight;
        let place = |case: u32| {
            let weight = self.library.weight(&self.verdict(case).profile, last);
            order::place(weight, cases.home(case), case)
        };
        let mut places: Vec<u64> = chosen.map(place).collect();
        order::sort(&mut places);
        places.into_iter().map(order::number).collect()
    }

    fn settle(
        &mut self,
        cases: &impl Cases,
        case: u32,
        (to, time, found): (PoolId, f64, Found),
        status: &mut Status,
    ) {
        status.take(to, cases.room(case, to), time);
        let verdict = &mut self.verdicts[case as usize];
        (verdict.to, verdict.found) = (to, found);
    }

    /// The pools that the pattern of a case may have on this level.
    #[inline]
    fn choices(&self, profile: &Profile, level: usize) -> impl Iterator<Item = PoolId> {
        let rule = self.library.rule(profile, level);
        let tiers = if level + 1 < self.library.levels.len() { 1 } else { rule.pools.len() };
        let count = self.pools;
        // More than one top choice: pools in the middle are equally good.
        rule.pools[..tiers].iter().flat_map(move |tier| tier.pools(count))
    }

    #[inline]
    fn demand(&self, cases: &impl Cases, case: u32) -> Demand {
        cases.counts(case).demand(self.per_second)
    }

    /// The first pool that takes a case on this level, and the time that it takes.
    fn choose(
        &self,
        cases: &impl Cases,
        case: u32,
        level: usize,
        status: &Status,
    ) -> Result<(PoolId, f64), Refused> {
        let verdict = self.verdict(case);
        let mut refused = Refused { why: Refusal::Space, pools: 0 };
        for pool in self.choices(&verdict.profile, level) {
            let bit = 1_u16.checked_shl(pool.0.into()).unwrap_or(0);
            refused.pools |= bit;
            if !status.has_space(pool, cases.room(case, pool)) {
                continue;
            }
            if verdict.refused & bit == 0 {
                let time = status.time(pool, &self.demand(cases, case));
                if status.has_time(pool, time) {
                    return Ok((pool, time));
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
        let mut taken = Vec::new();
        for &case in open {
            match self.choose(cases, case, level, status) {
                Ok(_) => taken.push(case),
                Err(refused) => self.note(case, level, &refused),
            }
        }
        for case in self.by_weight(cases, taken.into_iter(), level) {
            match self.choose(cases, case, level, status) {
                Ok((to, time)) => {
                    let found = Found::Level(level as u8);
                    self.settle(cases, case, (to, time, found), status);
                }
                Err(refused) => self.note(case, level, &refused),
            }
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
        for rule in 0..self.library.levels[level].rules.len() {
            let has =
                |case: &u32| self.library.rule_number(&self.verdict(*case).profile, level) == rule;
            let group: Vec<u32> = open.iter().copied().filter(has).collect();
            let mut trial = status.clone();
            let refused = group.iter().find_map(|&case| {
                let chosen = self.choose(cases, case, level, &trial);
                let taken = chosen.map(|(to, time)| trial.take(to, cases.room(case, to), time));
                taken.err().map(|refused| refused.why)
            });
            match refused {
                None => self.place_each(cases, &group, level, status),
                Some(why) => group.iter().for_each(|&case| self.refuse(case, level, why)),
            }
        }
    }
}

/// What counts are like.
fn profile(counts: &Counts, unit: Bytes, per_second: f64) -> Profile {
    let share = |part: u64, all: u64| if all > 0 { part as f32 / all as f32 } else { 0.0 };
    let units = counts.bytes() as f64 / unit.0 as f64;
    Profile {
        intensity: (units * per_second) as f32,
        writes: share(counts.bytes_written(), counts.bytes()),
        random: share(counts.random(), counts.accesses()),
        overwritten: share(counts.overwrites.into(), counts.writes()),
    }
}
