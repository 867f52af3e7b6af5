//! Workload of applications: units that idle or burst, slot by slot, and MMPP(2) in a burst.
//!
//! 1. At a slot's start each unit keeps its state, idle or bursty, with probability `persistence`,
//!    and draws it anew otherwise.
//! 2. A unit that idles is a Poisson process. A bursty one alternates between a peak and a lull,
//!    exponential spans both, at rates whose mean is that of bursty slots; the slot begins in
//!    either by the share of time that is spent in it.
//! 3. Sizes are exponential, places uniform in the unit.
//!
//! Units of the same rate stand in one group: the next request of all of them together is one draw
//! of the gap, one of the group and one of the unit, and a change of state moves a unit from group
//! to group. Exact, because exponential gaps forget.
//!
//! Source: Tai 2015 §4.1.3.1; it names the process and gives no parameters. Times are milliseconds,
//! sizes KiB.

use super::config::{Burst, Class, Rates};
use thermocline_units::Rng;

/// A request of an application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Request {
    /// Time in ms since the beginning.
    pub(super) at: f64,
    /// The unit, among all units numbered by application.
    pub(super) unit: u32,
    /// Its size.
    pub(super) kib: f32,
    /// Offset in the unit, as a fraction of what is left beside it.
    pub(super) place: f32,
}

/// Idle, in the lull of a burst, at its peak.
const LEVELS: usize = 3;
const GROUPS: usize = 2 * LEVELS;
const PEAK: usize = 2;

#[derive(Debug, Clone, Copy)]
struct Unit {
    class: Class,
    bursty: bool,
    /// Its group, and where it stands in it.
    group: usize,
    index: usize,
    /// End of the peak or the lull.
    until: f64,
}

/// Requests of applications, slot by slot.
#[derive(Debug)]
pub(super) struct Workload {
    rng: Rng,
    units: Vec<Unit>,
    groups: [Vec<u32>; GROUPS],
    /// Requests a ms and unit, by group.
    rates: [f64; GROUPS],
    burst: Burst,
    /// The share of bursty slots.
    share: f64,
    mean_kib: f64,
    started: bool,
}

impl Workload {
    /// Units of these classes; `share` of their slots are bursty.
    pub(super) fn new(
        classes: impl Iterator<Item = Class>,
        rates: &Rates,
        burst: Burst,
        share: f64,
        seed: u64,
    ) -> Workload {
        let idle = |class| Unit { class, bursty: false, group: 0, index: 0, until: f64::INFINITY };
        let mut by_group = [0.0; GROUPS];
        for class in [Class::Strict, Class::Loose] {
            let pace = rates.of(class);
            let peaks = burst.of(class);
            let levels = [pace.idle, pace.bursty * peaks.lull(), pace.bursty * peaks.rate];
            let first = class as usize * LEVELS;
            by_group[first..first + LEVELS].copy_from_slice(&levels.map(|kib| kib / rates.request));
        }
        Workload {
            rng: Rng::seeded(seed),
            units: classes.map(idle).collect(),
            groups: Default::default(),
            rates: by_group,
            burst,
            share,
            mean_kib: rates.request,
            started: false,
        }
    }

    /// True for the units that burst in the slot that was filled last.
    pub(super) fn bursty(&self) -> impl Iterator<Item = bool> {
        self.units.iter().map(|unit| unit.bursty)
    }

    /// Appends the requests of the slot from `start` to `end`, in order of time.
    pub(super) fn fill(&mut self, start: f64, end: f64, requests: &mut Vec<Request>) {
        self.begin(start);
        let mut now = start;
        let mut turn = self.next_turn();
        loop {
            let total: f64 = self.totals().sum();
            let gap = self.rng.exponential(1.0 / total);
            if now + gap < turn.min(end) {
                now += gap;
                let unit = self.draw(total);
                let kib = self.rng.exponential(self.mean_kib) as f32;
                let place = self.rng.unit_f64() as f32;
                requests.push(Request { at: now, unit, kib, place });
            } else if turn < end {
                now = turn;
                self.turn_at(turn);
                turn = self.next_turn();
            } else {
                return;
            }
        }
    }

    /// Draws who bursts, and how it begins.
    fn begin(&mut self, start: f64) {
        self.groups.iter_mut().for_each(Vec::clear);
        for number in 0..self.units.len() {
            if !self.started || self.rng.unit_f64() >= self.burst.persistence {
                self.units[number].bursty = self.rng.unit_f64() < self.share;
            }
            let Unit { class, bursty, .. } = self.units[number];
            let peaks = self.rng.unit_f64() < self.burst.of(class).share;
            let level = if bursty { 1 + usize::from(peaks) } else { 0 };
            self.enter(number, level, start);
        }
        self.started = true;
    }

    /// Puts a unit into the group of its level, until that ends.
    fn enter(&mut self, number: usize, level: usize, now: f64) {
        let unit = &mut self.units[number];
        let peaks = self.burst.of(unit.class);
        unit.until = match level {
            0 => f64::INFINITY,
            PEAK => now + self.rng.exponential(peaks.ms),
            _ => now + self.rng.exponential(peaks.lull_ms()),
        };
        unit.group = unit.class as usize * LEVELS + level;
        unit.index = self.groups[unit.group].len();
        self.groups[unit.group].push(number as u32);
    }

    fn next_turn(&self) -> f64 {
        self.units.iter().map(|unit| unit.until).fold(f64::INFINITY, f64::min)
    }

    /// Turns every unit whose peak or lull ends at `now`.
    fn turn_at(&mut self, now: f64) {
        for number in 0..self.units.len() {
            let Unit { class, group, index, until, .. } = self.units[number];
            if until > now {
                continue;
            }
            self.groups[group].swap_remove(index);
            if let Some(&moved) = self.groups[group].get(index) {
                self.units[moved as usize].index = index;
            }
            let level = group - class as usize * LEVELS;
            self.enter(number, if level == PEAK { 1 } else { PEAK }, now);
        }
    }

    /// Requests a ms, by group.
    fn totals(&self) -> impl Iterator<Item = f64> {
        self.groups.iter().zip(&self.rates).map(|(units, rate)| units.len() as f64 * rate)
    }

    /// Draws the unit that asks next, when all together ask at the rate `total`.
    fn draw(&mut self, total: f64) -> u32 {
        let mut left = self.rng.unit_f64() * total;
        let mut chosen = None;
        for (group, rate) in self.totals().enumerate().filter(|(_, rate)| *rate > 0.0) {
            chosen = Some(group);
            if left < rate {
                break;
            }
            left -= rate;
        }
        let group = &self.groups[chosen.expect("a request came from a group that asks")];
        group[self.rng.below(group.len() as u64) as usize]
    }
}
