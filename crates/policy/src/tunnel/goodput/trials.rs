//! Tours, which measure costs, and trials, which measure what a rival saves where no shadow tells.

use super::saving::{Saving, Share};
use super::{CREDIT, Goodput};
use crate::tunnel::{Choice, ChunkSize, Kind, Why};
use thermocline_units::Bytes;

const fn of(bytes: u64) -> ChunkSize {
    match ChunkSize::new(bytes) {
        Some(size) => size,
        None => panic!("a power of two"),
    }
}

/// Far apart in chunks a byte, and one of each kind.
pub(super) const TOUR: [Choice; 4] =
    [Choice::None, Choice::Fixed(of(4096)), Choice::Content(of(512)), Choice::Content(of(16_384))];

/// Bytes of a step of the tour.
const STEP: f64 = 1048576.0;
/// A step whose choice does not come back (a rule may overrule it) ends after so many steps' bytes.
const PATIENCE: f64 = 16.0;
/// Costs matter while the processor could cut less than so many times what the link carries.
const NEAR: f64 = 2.0;
/// Greatest addition of a halving of the size to a saving, over the variance of saving a byte at
/// all, r · (1 − r): what made a trial worthwhile on version series and mail, rounded up.
const PROMISE: f64 = 0.2;
/// A class lasts as long again as it has lasted, and so many bytes at least.
const LASTS: f64 = 1024.0 * 1048576.0;
/// After this share of `relearn`, a trial that has saved less than [`HOPELESS`] of what the choice
/// in force saves is given up.
const GLANCE: f64 = 0.25;
const HOPELESS: f64 = 0.05;
/// A trial compares with sizes this many doublings away.
const STRIDE: i32 = 2;

pub(super) enum Phase {
    /// Costs are being measured.
    Touring { step: usize, left: f64, patience: f64 },
    /// The choice in force is in force.
    Settled,
    /// A rival is.
    Trying { rival: Choice, passed: f64, bytes: f64, saved: f64 },
}

impl Phase {
    pub(super) fn tour() -> Phase {
        Phase::Touring { step: 0, left: STEP, patience: PATIENCE * STEP }
    }
}

impl Goodput {
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Settled)
    }

    /// Starts a tour or a trial, if one is due and can be afforded.
    pub(super) fn start_exploring(&mut self) {
        let allowed = self.knobs.explore * self.seen;
        let tour = TOUR.len() as f64 * STEP;
        let due = self.seen - self.toured >= self.knobs.reprobe && self.is_near_the_processor();
        if due && self.explored + tour <= allowed {
            self.toured = self.seen;
            self.phase = Phase::tour();
            return;
        }
        let told = self.running.told.is_some_and(|at| self.seen - at <= 2.0 * self.knobs.reprobe);
        if told || self.knobs.explore <= 0.0 {
            return;
        }
        let doubting = self.current == Choice::None;
        let told = self.real[self.current.index()].weight >= 0.5 * self.knobs.age;
        if !doubting && (self.steady < 2.0 * self.knobs.relearn || !told) {
            return;
        }
        let whole = 2.0 * self.knobs.relearn;
        let affords = |bytes: f64| self.explored + bytes <= allowed;
        let rival = match self.promising() {
            Some(rival) if affords(whole * (1.0 - CREDIT)) => Some(rival),
            None if doubting && affords(self.knobs.relearn) => self.doubt(),
            _ => None,
        };
        if let Some(rival) = rival {
            self.phase = Phase::Trying { rival, passed: 0.0, bytes: 0.0, saved: 0.0 };
            self.why_trying(0.0);
        }
    }

    /// True if the processor could become the limit, so that costs matter.
    fn is_near_the_processor(&self) -> bool {
        let share = self.known(self.current).map_or(0.0, |share| share.mean);
        self.cores / self.cost.of(self.current) < NEAR * self.carried(share)
    }

    fn why_trying(&mut self, passed: f64) {
        let left = Bytes((2.0 * self.knobs.relearn - passed).max(0.0) as u64);
        self.why = Why::Trying { instead_of: self.current, left };
    }

    /// The choice to try where there is no chunking: the start, after a while.
    fn doubt(&self) -> Option<Choice> {
        let start = self.knobs.start;
        let saving = &self.real[start.index()];
        let long_ago = self.seen - saving.at >= self.knobs.reprobe;
        long_ago.then_some(start)
    }

    /// The rival that could gain most, if one could that has not been tried lately.
    fn promising(&self) -> Option<Choice> {
        let current = self.known(self.current)?;
        let mine = self.goodput(self.current, current.mean);
        let basis = if self.current == Choice::None { self.knobs.start } else { self.current };
        let (size, share) = (basis.size()?, self.known(basis)?);
        let content = basis.kind() == Kind::Content;
        let kind = |size| if content { Choice::Content(size) } else { Choice::Fixed(size) };
        let other = |size| if content { Choice::Fixed(size) } else { Choice::Content(size) };
        let far = ChunkSize::MAX;
        let rivals = [
            kind(size.moved(-STRIDE)),
            kind(size.moved(-1)),
            kind(size.moved(1)),
            kind(size.moved(STRIDE)),
            other(size),
            other(far),
        ];
        let mut most = None;
        for rival in rivals {
            if rival == self.current || self.known(rival).is_some() {
                continue;
            }
            let hoped = self.goodput(rival, self.hope(rival, basis, share));
            let needed =
                most.map_or(mine * (1.0 + 2.0 * self.knobs.margin), |(_, goodput)| goodput);
            if hoped > needed && self.is_worth_a_trial(rival, share.mean, hoped / mine) {
                most = Some((rival, hoped));
            }
        }
        most.map(|(rival, _)| rival)
    }

    /// True if a gain by the factor `hoped` would pay for a trial that saves half of `share`.
    fn is_worth_a_trial(&self, rival: Choice, share: f64, hoped: f64) -> bool {
        let mine = self.known(self.current).map_or(0.0, |mine| mine.mean);
        let now = 1.0 / self.goodput(self.current, mine);
        let cold = 1.0 / self.goodput(rival, 0.5 * share);
        let cost = 2.0 * self.knobs.relearn * (cold - now).max(0.0);
        now * (1.0 - 1.0 / hoped) * self.seen.max(LASTS) > cost
    }

    /// The most that `rival` may save, where `basis` saves `share`.
    fn hope(&self, rival: Choice, basis: Choice, share: Share) -> f64 {
        let bytes = |choice: Choice| choice.size().map_or(1.0, |size| f64::from(size.bytes()));
        let halvings = (bytes(basis) / bytes(rival)).log2().max(0.0);
        let to_content = rival.kind() == Kind::Content && basis.kind() == Kind::Fixed;
        let steps = halvings + f64::from(u8::from(to_content));
        let re = share.mean.clamp(0.0, 1.0);
        re + PROMISE * steps * re * (1.0 - re)
    }

    /// A sample during a tour or a trial.
    pub(super) fn explore(&mut self, choice: Choice, bytes: f64, saved: f64) {
        self.explored += bytes;
        match &mut self.phase {
            Phase::Settled => {}
            Phase::Touring { step, left, patience } => {
                *patience -= bytes;
                if choice == TOUR[*step] {
                    *left -= bytes;
                }
                if *left <= 0.0 || *patience <= 0.0 {
                    *step += 1;
                    (*left, *patience) = (STEP, PATIENCE * STEP);
                    if *step == TOUR.len() {
                        self.phase = Phase::Settled;
                    }
                }
            }
            Phase::Trying { rival, passed, bytes: cut, saved: spared } => {
                *passed += bytes;
                let (rival, passed) = (*rival, *passed);
                if choice == rival {
                    (*cut, *spared) = (*cut + bytes, *spared + saved);
                }
                let (cut, spared, relearn) = (*cut, *spared, self.knobs.relearn);
                let mine = self.known(self.current).map_or(0.0, |share| share.mean);
                let in_vain = spared < (HOPELESS * mine).max(0.0) * cut;
                let doubted = self.current == Choice::None && spared < self.knobs.margin * cut;
                let given_up = in_vain && cut >= GLANCE * relearn || doubted && cut >= relearn;
                if choice == rival && (given_up || cut >= relearn) {
                    self.tried(rival, bytes, saved);
                }
                self.why_trying(passed);
                if given_up || passed >= 2.0 * self.knobs.relearn {
                    self.end_trial(rival);
                }
            }
        }
    }

    /// Share saved by the choice in force, which saves `share` now, when the cache had been filled
    /// for as long as a trial fills it: that is what a rival is compared with. When the class has
    /// changed since, that is out of date.
    fn at_this_stage(&self, share: f64) -> f64 {
        match self.early.share() {
            Some(early) if early.mean <= share && early.mean >= 0.3 * share => early.mean,
            _ => share,
        }
    }

    fn tried(&mut self, rival: Choice, bytes: f64, saved: f64) {
        let real = &mut self.real[rival.index()];
        if self.seen - real.at > self.knobs.relearn {
            *real = Saving::default();
        }
        real.add(bytes, saved, self.knobs.age, self.seen);
    }

    fn end_trial(&mut self, rival: Choice) {
        self.phase = Phase::Settled;
        let goodput = |choice, share: Option<f64>| Some(self.goodput(choice, share?));
        let theirs = self.real[rival.index()].share().map(|share| share.mean);
        let mine = self.known(self.current).map(|share| self.at_this_stage(share.mean));
        let (theirs, mine) = (goodput(rival, theirs), goodput(self.current, mine));
        let better = match (theirs, mine) {
            (Some(theirs), Some(mine)) => theirs > mine * (1.0 + self.knobs.margin),
            _ => false,
        };
        if better {
            self.switch(rival);
            // The trial has filled the cache, and measured.
            self.steady = 2.0 * self.knobs.relearn;
            self.filled = true;
            self.returned = true;
            self.early = self.real[rival.index()];
        } else {
            // The cache has none of the trial's bytes in chunks of the choice in force.
            self.refill(-self.knobs.relearn);
            self.returned = true;
        }
    }
}
