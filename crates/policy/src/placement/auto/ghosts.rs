//! Pairs that are watched, whether they are moved or not: what came of each prediction.
//!
//! 1. A *pair* is a chunk that should come to a pool, and the chunk that would make room for it
//!    there, if any. It is born with a prediction: seconds of waiting a second that the exchange
//!    saves. Some pairs of each birth are watched, the best and a sample of the others.
//! 2. At each epoch's end a pair's *return* is what the exchange would have saved in that epoch, by
//!    what was asked of both, over what was predicted.
//! 3. A pair's *class* is who predicted it, the pool, the binary logarithm of the prediction, and
//!    what else speaks for it: whether the chunks around are asked for as much, or a little, and
//!    whether the next longer memory says the same. A class keeps count, sum and squares of its
//!    returns, all of them fading.
//! 4. A class *earns* its mean return less [`SURE`] standard errors, never more than 1. Its
//!    *horizon* is the age of its oldest pair so far, at most [`WATCHED`] births: nobody extends
//!    what came beyond what was seen.
//!
//! State: 28 B a watched pair, at most [`BATCH`] a birth and predictor, for [`WATCHED`] births.

use super::pulse::{LANES, Pulse};
use crate::placement::PoolChange;
use crate::placement::price::Price;
use std::collections::VecDeque;
use thermocline_units::PoolId;

/// Number of predictors: the lanes, and what the epoch asked of the chunks around.
pub(super) const PREDICTORS: usize = LANES.len() + 1;
/// Epochs from one birth of a predictor to the next.
pub(super) const PERIODS: [u32; PREDICTORS] = [1, 4, 16, 1];
/// Births for which a pair is watched.
const WATCHED: u32 = 8;
/// Pairs watched of one birth for one pool.
const BATCH: usize = 128;
/// Standard errors that a class's mean return is lowered by.
const SURE: f64 = 2.0;
/// Returns from which on a class says something.
const RETURNS_MIN: f64 = 12.0;
/// Half-life of a class's returns, in births of its predictor.
const MEMORY: f64 = 16.0;
/// A return counts for no more than this, as one lucky pair does not make a class; and for no less
/// than that, where the victim was wanted badly.
const RETURNS: std::ops::RangeInclusive<f64> = -200.0..=4.0;
/// Classes by what speaks for a pair, see [`Pair::signs`].
const SIGNS: usize = 6;
/// Classes by the logarithm of the prediction.
const SIZES: usize = 40;
/// Pools that have classes of their own; those below share the last one's.
const POOLS: usize = 4;

/// A chunk that should come to a pool, and the one that would go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) chunk: u32,
    pub(super) victim: Option<u32>,
    pub(super) from: u8,
    pub(super) to: u8,
    pub(super) predictor: u8,
    /// Signs that speak for it: 0 to 2 for the chunks around, and 3 more when the next longer
    /// memory says half as much or more.
    pub(super) signs: u8,
    /// Seconds of waiting a second, above 0.
    pub(super) predicted: f32,
}

impl Pair {
    /// Its class.
    fn class(&self) -> usize {
        // From a microsecond a second on, by factors of two.
        let size = (f64::from(self.predicted) * 1e6).max(1.0).log2() as usize;
        let pool = usize::from(self.to).min(POOLS - 1);
        let who = (usize::from(self.predictor) * POOLS + pool) * SIGNS + usize::from(self.signs);
        who * SIZES + size.min(SIZES - 1)
    }

    /// The same between pools at other places; `None`: one of them is gone.
    pub(super) fn after(self, change: PoolChange) -> Option<Pair> {
        let place = |pool: u8| change.place_of(PoolId(pool.into())).map(|pool| pool.0 as u8);
        Some(Pair { from: place(self.from)?, to: place(self.to)?, ..self })
    }

    /// Seconds a second that the exchange would have saved in the epoch.
    pub(super) fn came(&self, pulse: &Pulse, prices: &[Price]) -> f64 {
        let [from, to] = [self.from, self.to].map(|pool| &prices[usize::from(pool)]);
        let saved = |number: u32| {
            let asked = pulse.now(number);
            from.of(&asked) - to.of(&asked)
        };
        saved(self.chunk) - self.victim.map_or(0.0, saved)
    }
}

/// Returns of a class, fading.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Returns {
    pub(super) count: f64,
    sum: f64,
    squares: f64,
    /// Age of its oldest pair so far, in epochs.
    oldest: u32,
}

impl Returns {
    /// Count, sum and squares, and the age of the oldest pair.
    pub(super) fn parts(&self) -> ([f64; 3], u32) {
        ([self.count, self.sum, self.squares], self.oldest)
    }

    /// Returns of these parts; `None`: there are no such returns.
    pub(super) fn of([count, sum, squares]: [f64; 3], oldest: u32) -> Option<Returns> {
        let good = count >= 0.0 && squares >= 0.0;
        good.then_some(Returns { count, sum, squares, oldest })
    }

    fn fade(&mut self, keep: f64) {
        self.count *= keep;
        self.sum *= keep;
        self.squares *= keep;
    }

    fn add(&mut self, returned: f64, age: u32) {
        let returned = returned.clamp(*RETURNS.start(), *RETURNS.end());
        self.count += 1.0;
        self.sum += returned;
        self.squares += returned * returned;
        self.oldest = self.oldest.max(age);
    }

    /// Mean return; 0 of none.
    pub(super) fn mean(&self) -> f64 {
        if self.count > 0.0 { self.sum / self.count } else { 0.0 }
    }

    /// Share of the prediction that is earned for certain, 0 to 1.
    pub(super) fn earned(&self) -> f64 {
        if self.count < RETURNS_MIN {
            return 0.0;
        }
        let mean = self.mean();
        let spread = (self.squares / self.count - mean * mean).max(0.0);
        (mean - SURE * (spread / self.count).sqrt()).clamp(0.0, 1.0)
    }

    /// Epochs for which it is known to last.
    pub(super) fn horizon(&self) -> u32 {
        self.oldest
    }
}

/// A watched pair.
#[derive(Debug, Clone, Copy)]
struct Ghost {
    pair: Pair,
    born: u32,
}

/// Pairs that are watched, and the returns of their classes.
#[derive(Debug)]
pub(super) struct Ghosts {
    watched: [VecDeque<Ghost>; PREDICTORS],
    classes: Vec<Returns>,
    epoch: u32,
}

impl Default for Ghosts {
    fn default() -> Ghosts {
        Ghosts {
            watched: Default::default(),
            classes: vec![Returns::default(); PREDICTORS * POOLS * SIGNS * SIZES],
            epoch: 0,
        }
    }
}

impl Ghosts {
    /// Takes in what the epoch brought for all that are watched.
    pub(super) fn judge(&mut self, pulse: &Pulse, prices: &[Price]) {
        self.epoch += 1;
        for (predictor, classes) in self.classes.chunks_mut(POOLS * SIGNS * SIZES).enumerate() {
            let keep = 0.5_f64.powf(1.0 / (MEMORY * f64::from(PERIODS[predictor])));
            classes.iter_mut().for_each(|class| class.fade(keep));
        }
        for (watched, period) in self.watched.iter_mut().zip(PERIODS) {
            let old = |ghost: &Ghost| self.epoch - ghost.born > WATCHED * period;
            while watched.front().is_some_and(old) {
                watched.pop_front();
            }
            for Ghost { pair, born } in watched.iter() {
                let pools = usize::from(pair.from.max(pair.to));
                if pools < prices.len() {
                    let returned = pair.came(pulse, prices) / f64::from(pair.predicted);
                    self.classes[pair.class()].add(returned, self.epoch - born);
                }
            }
        }
    }

    /// Pools are at other places: so are what is watched and the classes of each.
    pub(super) fn pools_changed(&mut self, change: PoolChange) {
        for watched in &mut self.watched {
            let moved = std::mem::take(watched).into_iter();
            let moved =
                moved.filter_map(|ghost| Some(Ghost { pair: ghost.pair.after(change)?, ..ghost }));
            *watched = moved.collect();
        }
        const OF_POOL: usize = SIGNS * SIZES;
        for classes in self.classes.chunks_mut(POOLS * OF_POOL) {
            match change {
                PoolChange::Joined(PoolId(at)) if usize::from(at) < POOLS => {
                    let behind = &mut classes[usize::from(at) * OF_POOL..];
                    behind.rotate_right(OF_POOL);
                    behind[..OF_POOL].fill(Returns::default());
                }
                PoolChange::Left(PoolId(at)) if usize::from(at) < POOLS => {
                    let behind = &mut classes[usize::from(at) * OF_POOL..];
                    behind.rotate_left(OF_POOL);
                    let last = behind.len() - OF_POOL;
                    behind[last..].fill(Returns::default());
                }
                _ => {}
            }
        }
    }

    /// Epochs so far.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Counts epochs on from here.
    pub(super) fn go_on_at(&mut self, epoch: u32) {
        self.epoch = epoch;
    }

    /// Classes with returns, by number.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u32, &Returns)> {
        (0..).zip(&self.classes).filter(|(_, returns)| returns.count > 0.0)
    }

    /// Gives a class its returns; `None`: there is no such class.
    pub(super) fn set_class(&mut self, number: u32, returns: Returns) -> Option<()> {
        *self.classes.get_mut(number as usize)? = returns;
        Some(())
    }

    /// True if a predictor's pairs are born in this epoch.
    pub(super) fn is_birth(&self, predictor: usize) -> bool {
        self.epoch.is_multiple_of(PERIODS[predictor])
    }

    /// Watches some of these pairs, best first, all of one predictor and pool.
    pub(super) fn watch(&mut self, pairs: &[Pair]) {
        let best = pairs.len().min(BATCH / 2);
        let rest = &pairs[best..];
        let sample = rest.iter().step_by((rest.len() / (BATCH / 2)).max(1)).take(BATCH / 2);
        for pair in pairs[..best].iter().chain(sample) {
            let ghost = Ghost { pair: *pair, born: self.epoch };
            self.watched[usize::from(pair.predictor)].push_back(ghost);
        }
    }

    /// Returns of pairs of this one's class.
    pub(super) fn returns(&self, pair: &Pair) -> &Returns {
        &self.classes[pair.class()]
    }

    /// Number of returns of a predictor, fading, and their mean; 0 of none.
    pub(super) fn returned(&self, predictor: usize) -> (f64, f64) {
        let classes = self.classes.chunks(POOLS * SIGNS * SIZES).nth(predictor);
        let classes = classes.expect("every predictor has classes");
        let add = |(count, sum): (f64, f64), of: &Returns| (count + of.count, sum + of.sum);
        let (count, sum) = classes.iter().fold((0.0, 0.0), add);
        (count, if count > 0.0 { sum / count } else { 0.0 })
    }

    pub(super) fn bytes(&self) -> u64 {
        let watched: usize = self.watched.iter().map(VecDeque::capacity).sum();
        (watched * size_of::<Ghost>() + self.classes.capacity() * size_of::<Returns>()) as u64
    }
}
