//! Goodput of each choice, and the decision to switch.

use super::saving::Share;
use super::{CONFIRMED, Goodput};
use crate::tunnel::{Choice, Limit, Why};
use thermocline_units::Bytes;

/// A cheaper choice that is alike otherwise must save this share of processor time.
const CHEAPER: f64 = 0.2;
/// Bytes of a shadow before it counts.
const HEARD: f64 = 1048576.0;
/// Standard errors that a gain must exceed.
const ERRORS: f64 = 2.0;
/// Share of the margin, over the class's whole life, that a merely cheaper choice may cost.
const IDLE: f64 = 0.25;
/// Share at and below which a choice saves nothing: cutting is all cost, however little it is.
const NOTHING: f64 = 0.001;
/// No saving is taken for more: the link carries references.
const SHARE_MAX: f64 = 0.9995;

/// A choice, what it saves, and the goodput of that.
#[derive(Clone, Copy)]
struct Worth {
    choice: Choice,
    share: Share,
    goodput: f64,
}

impl Goodput {
    /// Bytes a second that the link carries when `share` of them are saved.
    pub(super) fn carried(&self, share: f64) -> f64 {
        let link = self.link.map_or(self.knobs.link, |link| link.0 as f64);
        link / (1.0 - share.clamp(-1.0, SHARE_MAX))
    }

    /// Goodput of a choice that saves `share`, in bytes a second.
    pub(super) fn goodput(&self, choice: Choice, share: f64) -> f64 {
        self.carried(share).min(self.cores / self.cost.of(choice))
    }

    /// Share that `choice` saves, if that is known.
    pub(super) fn known(&self, choice: Choice) -> Option<Share> {
        let index = choice.index();
        if choice == Choice::None {
            // What it saves, compression does, which shadows need not be scaled for.
            let known = self.fresh(choice).or(self.real[index].share());
            return Some(known.unwrap_or(Share { mean: 0.0, variance: 0.0 }));
        }
        let real = self.real[index].share();
        match self.shadowed(choice) {
            Some(shadow) if choice == self.current => {
                real.map(|real| Share { variance: shadow.variance, ..real }).or(Some(shadow))
            }
            Some(shadow) => Some(shadow),
            None if choice == self.current => real,
            None => real.filter(|_| self.seen - self.real[index].at <= 4.0 * self.knobs.reprobe),
        }
    }

    /// Share that `choice` saves by shadows, scaled; if they said so lately.
    fn shadowed(&self, choice: Choice) -> Option<Share> {
        let share = self.fresh(choice)?;
        let mean = (share.mean * self.scale).min(SHARE_MAX);
        Some(Share { mean, variance: share.variance * self.scale * self.scale })
    }

    /// Share that `choice` saves by shadows, if they said so lately.
    fn fresh(&self, choice: Choice) -> Option<Share> {
        let shadow = self.shadow.of(choice);
        let fresh = self.seen - shadow.at <= self.knobs.reprobe;
        shadow.share().filter(|_| fresh && shadow.weight >= HEARD)
    }

    fn worth(&self, choice: Choice) -> Option<Worth> {
        let share = self.known(choice)?;
        Some(Worth { choice, share, goodput: self.goodput(choice, share.mean) })
    }

    /// Decides anew, when the choice in force can be judged.
    pub(super) fn decide(&mut self) {
        if !self.is_settled() {
            return;
        }
        let left = Bytes((self.knobs.relearn - self.steady).max(0.0) as u64);
        if !self.is_steady() {
            let first = self.before == self.current;
            self.why = match first {
                true => Why::Learning { left },
                false => Why::Relearning { from: self.before, left },
            };
            return;
        }
        let Some(mine) = self.worth(self.current) else { return };
        let best = self.best();
        self.why = self.reason(&mine);
        if best.choice == self.current || !self.pays(&mine, &best) {
            self.confirmed = 0;
        } else {
            self.confirmed += 1;
            if self.confirmed >= CONFIRMED {
                return self.switch(best.choice);
            }
        }
        self.start_exploring();
    }

    /// The cheapest of those within the margin of the best.
    fn best(&self) -> Worth {
        let known = || Choice::all().filter_map(|choice| self.worth(choice));
        let most = known().map(|worth| worth.goodput).fold(0.0, f64::max);
        let alike = known().filter(|worth| worth.goodput >= most * (1.0 - self.knobs.margin));
        let best = alike
            .min_by(|a, b| self.cost.of(a.choice).total_cmp(&self.cost.of(b.choice)))
            .expect("none is always known, and one is the best");
        match best.share.mean <= NOTHING {
            true => self.worth(Choice::None).unwrap_or(best),
            false => best,
        }
    }

    /// True if leaving `mine` for `best` gains more than it costs.
    fn pays(&self, mine: &Worth, best: &Worth) -> bool {
        let margin = self.knobs.margin;
        let (now, then) = (1.0 / mine.goodput, 1.0 / best.goodput);
        let cold = 1.0 / self.goodput(best.choice, best.share.mean * 0.5);
        // What was never filled is not lost.
        let lost = if mine.choice == Choice::None { self.warm } else { self.warm.min(self.steady) };
        let relearning = lost * (cold - now).max(0.0);
        let error = ERRORS * (mine.share.variance + best.share.variance).sqrt();
        let alike = best.goodput <= mine.goodput * (1.0 + margin);
        if alike && best.choice == Choice::None && mine.share.mean + error <= NOTHING {
            return true;
        }
        if alike {
            let cheaper = self.cost.of(best.choice) <= (1.0 - CHEAPER) * self.cost.of(mine.choice);
            let as_good = best.goodput >= mine.goodput * (1.0 - margin / 2.0);
            return cheaper && as_good && relearning <= IDLE * margin * now * self.seen;
        }
        let surely = match best.choice {
            // That of a choice by itself, not beside others.
            Choice::None => best.goodput > self.goodput(mine.choice, mine.share.mean + error),
            choice => self.goodput(choice, best.share.mean - error) > mine.goodput,
        };
        surely && (now - then) * self.seen > relearning
    }

    fn reason(&self, mine: &Worth) -> Why {
        let others = Choice::all().filter(|choice| *choice != mine.choice);
        let next =
            others.filter_map(|choice| self.worth(choice)).fold(None, |next, worth| match next {
                Some(Worth { goodput, .. }) if goodput >= worth.goodput => next,
                _ => Some(worth),
            });
        let (next, next_goodput) =
            next.map_or((mine.choice, mine.goodput), |next| (next.choice, next.goodput));
        let limit = match self.carried(mine.share.mean) <= mine.goodput {
            true => Limit::Link,
            false => Limit::Processor,
        };
        let (goodput, re) = (mine.goodput, mine.share.mean);
        Why::Best { goodput, re, limit, next, next_goodput }
    }
}
