//! The default controller: the choice with the highest goodput.
//!
//! 1. *Objective.* goodput = min(link / (1 − RE), cores / cost): what the link carries after what
//!    is saved, or what the processor can cut. Of choices within `margin` of the best, the one
//!    that costs the least processor time. So a slow link gets small chunks, a fast one large
//!    chunks, and flows without redundancy get none.
//! 2. *Cost* is learnt on line: `cost.rs`. A *tour* through four choices that lie far apart, 1 MiB
//!    each, opens a class and is repeated every `reprobe` bytes.
//! 3. *RE of the choice in force* is measured once `relearn` bytes have passed since it was chosen
//!    and, where it replaced another, its saving has stopped rising: before, the cache has few of
//!    its chunks (`tunnel/mod.rs`), and what is seen means little.
//! 4. *RE of the others* is estimated by shadows, where the tunnel has them. An estimate is scaled
//!    by what the choice in force really saved over its own estimate, so that shadows which see too
//!    little (a sample, a window) or promise too much compare fairly.
//! 5. *Shadows cost processor time.* They run all the time while the processor has a tenth to
//!    spare; else in windows of `relearn` bytes, as many as keep them below `explore` of all time.
//! 6. *Without shadows* a rival is tried on `2 · relearn` bytes, half of them to fill the cache.
//!    Only rivals are tried that could gain: smaller ones where the link is the limit, larger ones
//!    and fixed ones where the processor is (`trials.rs`). A class that got no chunking is tried
//!    again after `reprobe` bytes, and given up after `relearn` when nothing is saved. Trials and
//!    tours are at most `explore` of all bytes, and [`CREDIT`] trials at the start.
//! 7. *A switch* must be worth it: the gain exceeds two standard errors of the two RE ratios; it
//!    pays for the bytes that filling took (`relearn` at least) at about half the saving, if the
//!    class lasts as long again as it has lasted; and it has been so at [`CONFIRMED`] decisions
//!    running, one each MiB. Between choices that are alike it switches only when a fifth of the
//!    processor time is saved.
//!
//! Evidence is forgotten over `age` bytes; shadows' over up to 8 times as many while nothing
//! changes (`saving.rs`). A class that changes its nature is followed within 512 MiB where shadows
//! run all the time, 1 GiB where they run in windows, and 3 GiB without them, with the settings as
//! they are: `tests.rs` holds it to that, and says what it misses.
//!
//! Source: ours; the objective answers what Ge 2017 ch. 4.3.3 leaves to "expectations". Duration: a
//! decision is O(21) each MiB, other calls O(1). State: 4 KiB a class.

mod cost;
mod judge;
mod saving;
#[cfg(test)]
mod tests;
mod trials;

use super::{Choice, Choices, Conditions, Controller, Estimate, Sample, Why, steady};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use cost::Cost;
use saving::{Saving, Told};
use thermocline_units::{Bytes, Nanos};
use trials::{Phase, TOUR};

pub(crate) const ENTRY: Entry = Entry {
    name: "goodput",
    summary: "the highest of min(link / (1 - RE), processor / cost), both learnt",
    source: "ours, after VNRE, Ge 2017 ch. 4.3",
    settings: &[
        Setting {
            name: "start",
            default: "2KiB",
            unit: "size",
            help: "content-defined chunks of this size while nothing is known",
        },
        Setting {
            name: "age",
            default: "64MiB",
            unit: "bytes",
            help: "RE ratios are means over so many bytes; more: steadier, slower to follow",
        },
        Setting {
            name: "relearn",
            default: "64MiB",
            unit: "bytes",
            help: "after a switch, until the cache has the new chunks; about the reuse distance",
        },
        Setting {
            name: "reprobe",
            default: "2GiB",
            unit: "bytes",
            help: "after so many, costs are measured again, and no chunking is doubted",
        },
        Setting {
            name: "explore",
            default: "0.03",
            unit: "share",
            help: "of bytes for trials, and of processor time for shadows, at most",
        },
        Setting {
            name: "margin",
            default: "0.02",
            unit: "share of goodput",
            help: "choices so near to the best are alike: the cheapest is taken",
        },
        Setting {
            name: "link",
            default: "12MiB",
            unit: "bytes a second",
            help: "what a link is taken to carry while nobody has told",
        },
    ],
    build: Build::Tunnel(|settings| Ok(Box::new(Goodput::read(settings)?))),
};

/// Trials at the start, beyond the share of `explore`.
const CREDIT: f64 = 3.0;
/// Bytes between two decisions.
const DECISION: f64 = 1048576.0;
/// Decisions running that must agree before a switch.
const CONFIRMED: u32 = 8;
/// Bounds of byte settings.
const BYTES_MIN: u64 = 1 << 16;
const BYTES_MAX: u64 = 1 << 50;

/// Settings.
struct Knobs {
    start: Choice,
    age: f64,
    relearn: f64,
    reprobe: f64,
    explore: f64,
    margin: f64,
    link: f64,
}

struct Goodput {
    knobs: Knobs,
    link: Option<Bytes>,
    cores: f64,
    cost: Cost,
    /// Measured while in force, and tried.
    real: [Saving; Choice::COUNT],
    /// Savings told by shadows.
    shadow: Told,
    /// Factor for shadows' estimates.
    scale: f64,
    running: Shadows,
    phase: Phase,
    toured: f64,
    current: Choice,
    before: Choice,
    /// Bytes of the class.
    seen: f64,
    /// Bytes that the choice in force has cut since it was chosen.
    /// Below 0 after a trial, which leaves a hole.
    steady: f64,
    /// True if the cache has its chunks.
    filled: bool,
    /// Shares that it saved lately while it is not: quickly and slowly forgotten.
    rise: [Saving; 2],
    /// Bytes that filling took, the last times.
    warm: f64,
    /// True if it came back after a trial: what was known of it holds.
    returned: bool,
    /// Share that it saved of its second `relearn` bytes in force.
    early: Saving,
    /// Share that it saved when it had been in force for long.
    standing: Option<f64>,
    /// Bytes at which the next decision is due.
    due: f64,
    /// Bytes of tours and trials.
    explored: f64,
    confirmed: u32,
    why: Why,
}

/// Costs of shadows, and the time in which they run. Times are seconds, the rest bytes of the
/// class.
#[derive(Default)]
struct Shadows {
    spent: f64,
    ran: f64,
    /// Processing of everything else.
    processing: f64,
    spare: bool,
    open_until: f64,
    told: Option<f64>,
}

impl Shadows {
    /// Seconds for a byte.
    fn cost(&self) -> f64 {
        if self.ran > 0.0 { self.spent / self.ran } else { 0.0 }
    }
}

impl Goodput {
    fn read(settings: &Settings) -> Result<Goodput, SettingsError> {
        let bytes = |key: &str| match settings.bytes(key)?.0 {
            right @ BYTES_MIN..=BYTES_MAX => Ok(right as f64),
            _ => Err(settings.wrong(key, "a size from 64KiB to 1024TiB".to_string())),
        };
        let link = settings.bytes("link")?.0;
        if link == 0 {
            return Err(settings.wrong("link", "a size above 0".to_string()));
        }
        let knobs = Knobs {
            start: Choice::Content(steady::size(settings, "start")?),
            age: bytes("age")?,
            relearn: bytes("relearn")?,
            reprobe: bytes("reprobe")?,
            explore: settings.number("explore", 0.0, 0.5)?,
            margin: settings.number("margin", 0.0, 0.5)?,
            link: link as f64,
        };
        Ok(Goodput::new(knobs))
    }

    fn new(knobs: Knobs) -> Goodput {
        let start = knobs.start;
        Goodput {
            link: None,
            cores: Conditions::default().cores(),
            cost: Cost::new(knobs.reprobe),
            real: [Saving::default(); Choice::COUNT],
            shadow: Told::new(),
            scale: 1.0,
            running: Shadows::default(),
            phase: Phase::tour(),
            toured: 0.0,
            current: start,
            before: start,
            seen: 0.0,
            steady: 0.0,
            filled: false,
            rise: Default::default(),
            warm: knobs.relearn,
            returned: false,
            early: Saving::default(),
            standing: None,
            due: 0.0,
            explored: 0.0,
            confirmed: 0,
            why: Why::Learning { left: Bytes(knobs.relearn as u64) },
            knobs,
        }
    }

    /// Puts `choice` in force; the cache has none of its chunks.
    fn switch(&mut self, choice: Choice) {
        self.before = self.current;
        self.current = choice;
        self.returned = false;
        self.early = Saving::default();
        self.standing = None;
        self.confirmed = 0;
        self.refill(0.0);
    }

    /// The cache must be filled with chunks of the choice in force, as if `steady` were there.
    fn refill(&mut self, steady: f64) {
        self.steady = steady;
        self.filled = false;
        self.rise = Default::default();
    }

    /// True if the cache has the chunks of the choice in force.
    fn is_steady(&self) -> bool {
        self.current == Choice::None || self.filled
    }

    /// A sample of the choice in force.
    fn measure(&mut self, bytes: f64, saved: f64) {
        self.steady += bytes;
        let relearn = self.knobs.relearn;
        if !self.returned && (relearn..2.0 * relearn).contains(&self.steady) {
            self.early.add(bytes, saved, relearn, self.seen);
        }
        if !self.is_steady() {
            self.fill(bytes, saved);
            return;
        }
        let real = &mut self.real[self.current.index()];
        real.add(bytes, saved, self.knobs.age, self.seen);
        self.notice_change();
        self.rescale();
    }

    /// Watches the saving rise while the cache fills: it is full when `relearn` bytes have passed
    /// and the share of a quarter of them is not above the share of all, or after a long time.
    fn fill(&mut self, bytes: f64, saved: f64) {
        /// Times `relearn` that are waited for at most.
        const LONGEST: f64 = 16.0;
        const LEVEL: f64 = 0.01;
        const STEEP: f64 = 0.08;
        let relearn = self.knobs.relearn;
        let [fast, slow] = &mut self.rise;
        fast.add(bytes, saved, 0.25 * relearn, self.seen);
        slow.add(bytes, saved, relearn, self.seen);
        let (Some(now), Some(before)) = (fast.share(), slow.share()) else { return };
        let error = (now.variance + before.variance).sqrt();
        let rises = now.mean - before.mean > error + LEVEL.max(STEEP * before.mean);
        // At the start, and after a trial, no other choice has been given up for it.
        let replaced = self.before != self.current && !self.returned;
        let rises = rises && replaced;
        if self.steady >= relearn && (!rises || self.steady >= LONGEST * relearn) {
            self.filled = true;
            if !self.returned {
                self.warm = (0.5 * (self.warm + self.steady)).max(relearn);
                // What is known of an earlier time in force is out of date now.
                self.real[self.current.index()] = Saving::default();
            }
        }
    }

    /// Forgets what trials found when the choice in force saves another share than it did: the
    /// class has changed, so they found it of another.
    fn notice_change(&mut self) {
        /// Times `relearn` in force, after which its share stands.
        const STANDS: f64 = 4.0;
        const CHANGE: f64 = 0.1;
        let index = self.current.index();
        let Some(share) = self.real[index].share() else { return };
        let told = self.real[index].weight >= self.knobs.age;
        let stands = told && self.steady >= STANDS * self.knobs.relearn;
        match self.standing {
            None if stands => self.standing = Some(share.mean),
            Some(standing) if (share.mean - standing).abs() > CHANGE => {
                let mine = self.real[index];
                self.real = [Saving::default(); Choice::COUNT];
                self.real[index] = mine;
                self.standing = None;
                self.early = Saving::default();
            }
            _ => {}
        }
    }

    /// Compares what the choice in force saves with what its shadow says.
    fn rescale(&mut self) {
        /// Share added to both, so that two savings near zero are alike.
        const NEAR_ZERO: f64 = 0.005;
        if self.current == Choice::None {
            return;
        }
        let real = self.real[self.current.index()].share();
        let shadow = self.shadow.of(self.current).share();
        if let (Some(real), Some(shadow)) = (real, shadow) {
            let scale = (real.mean.max(0.0) + NEAR_ZERO) / (shadow.mean.max(0.0) + NEAR_ZERO);
            self.scale = scale.clamp(0.001, 4.0);
        }
    }

    /// Without chunking nothing tells any more what shadows are worth: their scale comes back to 1
    /// by a factor of 2 each `reprobe` bytes, so that it is tried again.
    fn doubt_scale(&mut self) {
        if self.current == Choice::None {
            let factor = (DECISION / self.knobs.reprobe).exp2();
            self.scale = match self.scale < 1.0 {
                true => (self.scale * factor).min(1.0),
                false => (self.scale / factor).max(1.0),
            };
        }
    }

    /// Lets shadows run or rest.
    fn run_shadows(&mut self) {
        let extra = self.running.cost();
        let share = self.known(self.current).map_or(0.0, |share| share.mean);
        let cores = self.cores / (self.cost.of(self.current) + extra);
        self.running.spare = cores >= 1.1 * self.carried(share);
        let next = self.running.spent + extra * self.knobs.relearn;
        let affordable = next <= self.knobs.explore * self.running.processing;
        if affordable && !self.running.spare && self.running.open_until <= self.seen {
            self.running.open_until = self.seen + self.knobs.relearn;
        }
    }

    fn shadows_run(&self) -> bool {
        let Shadows { spare, open_until, .. } = self.running;
        self.seen < self.knobs.relearn || spare || self.seen < open_until
    }
}

impl Controller for Goodput {
    fn choose(&mut self, _now: Nanos) -> Choice {
        match self.phase {
            Phase::Touring { step, .. } => TOUR[step],
            Phase::Trying { rival, .. } => rival,
            Phase::Settled => self.current,
        }
    }

    fn observe(&mut self, _now: Nanos, sample: &Sample) {
        if sample.bytes.0 == 0 {
            return;
        }
        let bytes = sample.bytes.0 as f64;
        let saved = bytes - sample.sent.0 as f64;
        self.seen += bytes;
        self.cost.observe(sample, self.seen);
        self.running.processing += sample.processing.as_secs_f64();
        if self.shadows_run() {
            self.running.ran += bytes;
        }
        match self.phase {
            Phase::Settled if sample.choice == self.current => self.measure(bytes, saved),
            Phase::Settled => {}
            _ => self.explore(sample.choice, bytes, saved),
        }
        if self.seen >= self.due {
            self.due = self.seen + DECISION;
            self.cost.fit(self.seen);
            self.doubt_scale();
            self.run_shadows();
            self.decide();
        }
    }

    fn conditions(&mut self, _now: Nanos, conditions: &Conditions) {
        self.link = conditions.link.filter(|link| link.0 > 0);
        self.cores = conditions.cores();
    }

    fn estimate(&mut self, _now: Nanos, estimate: &Estimate) {
        self.running.spent += estimate.processing.as_secs_f64();
        if estimate.bytes.0 == 0 {
            return;
        }
        self.running.told = Some(self.seen);
        let (bytes, saved) = (estimate.bytes.0 as f64, estimate.would_save.0 as f64);
        let (age, seen) = (self.knobs.age, self.seen);
        self.shadow.add(estimate.choice, (bytes, saved), age, seen);
    }

    fn wanted(&self) -> Choices {
        if self.shadows_run() { Choices::CUTTING } else { Choices::EMPTY }
    }

    fn why(&self) -> Why {
        self.why
    }
}
