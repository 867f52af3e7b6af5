//! A library made ready for use: which rule a profile fits, what it weighs, and which pools that
//! means.
//!
//! Rules are tried for every case on every level. So of each rule only the ranges are kept that
//! leave something out, its pools are looked up once for so many pools as there are, and of each
//! level it is known below which intensity only the last rule is left: most cases are cold.

use super::library::{Dimension, Level, Library, Range, Rule};
use thermocline_units::PoolId;

/// Characters of a case in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Profile {
    /// Units a second.
    pub(super) intensity: f32,
    pub(super) writes: f32,
    pub(super) random: f32,
    pub(super) overwritten: f32,
}

/// A range that a quantity must lie in.
#[derive(Debug, Clone, Copy)]
struct Check {
    /// The quantity, in the order of [`super::library::When::KEYS`].
    quantity: usize,
    range: Range,
}

/// A rule, ready for use.
#[derive(Debug, Clone, Default)]
struct Ready {
    checks: Vec<Check>,
    /// Its pools in order of preference; on all levels but the last those of the first choice.
    pools: Vec<PoolId>,
}

/// A level, ready for use.
#[derive(Debug)]
struct ReadyLevel {
    weight: Dimension,
    rules: Vec<Ready>,
    /// Cases of a lower intensity fit no rule but the last.
    cold_below: f64,
}

/// A library made ready for use.
#[derive(Debug)]
pub(super) struct Taxonomy {
    library: Library,
    levels: Vec<ReadyLevel>,
    /// For how many pools.
    pools: u16,
}

impl Taxonomy {
    pub(super) fn new(library: Library) -> Taxonomy {
        let ready = |rule: &Rule| {
            let ranges = rule.when.ranges().into_iter().enumerate();
            let asked = ranges.filter(|(_, (_, range))| *range != Range::ANY);
            let checks = asked.map(|(quantity, (_, range))| Check { quantity, range }).collect();
            Ready { checks, pools: Vec::new() }
        };
        let ready = |level: &Level| ReadyLevel {
            weight: level.weight,
            rules: level.rules.iter().map(ready).collect(),
            cold_below: cold_below(&library, level),
        };
        let levels = library.levels.iter().map(ready).collect();
        Taxonomy { library, levels, pools: 0 }
    }

    /// Gives writes and random accesses other weights, as pools have shown them.
    pub(super) fn weigh(&mut self, write: f64, random: f64) {
        if (self.library.write, self.library.random) == (write, random) {
            return;
        }
        (self.library.write, self.library.random) = (write, random);
        for (ready, level) in self.levels.iter_mut().zip(&self.library.levels) {
            ready.cold_below = cold_below(&self.library, level);
        }
    }

    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    /// Number of levels.
    #[inline]
    pub(super) fn level_count(&self) -> usize {
        self.levels.len()
    }

    /// Looks up pools, of which there are `count`.
    pub(super) fn set_pools(&mut self, count: u16) {
        if self.pools == count {
            return;
        }
        self.pools = count;
        let last = self.levels.len() - 1;
        let levels = self.levels.iter_mut().zip(&self.library.levels);
        for (number, (ready, level)) in levels.enumerate() {
            for (ready, rule) in ready.rules.iter_mut().zip(&level.rules) {
                let tiers = if number < last { 1 } else { rule.pools.len() };
                // More than one top choice: pools in the middle are equally good.
                ready.pools =
                    rule.pools[..tiers].iter().flat_map(|tier| tier.pools(count)).collect();
            }
        }
    }

    /// The weight of a case with dimensions up to `last`.
    #[inline]
    fn weight(&self, profile: &Profile, last: Dimension) -> f64 {
        let [intensity, writes, random, overwritten] =
            [profile.intensity, profile.writes, profile.random, profile.overwritten].map(f64::from);
        let library = &self.library;
        let more = |share: f64, factor: f64| 1.0 + share * (factor - 1.0);
        let written = match last {
            Dimension::Intensity => 1.0,
            Dimension::Write | Dimension::Random => library.write,
            Dimension::Overwrite => library.write * more(overwritten, library.overwrite),
        };
        let random = if last >= Dimension::Random { more(random, library.random) } else { 1.0 };
        intensity * more(writes, written) * random
    }

    /// The weight of a case on a level, counted from 0.
    #[inline]
    pub(super) fn weight_on(&self, profile: &Profile, level: usize) -> f64 {
        self.weight(profile, self.levels[level].weight)
    }

    /// Number of the rule of a level that a case fits.
    #[inline]
    pub(super) fn rule_number(&self, profile: &Profile, level: usize) -> usize {
        let ReadyLevel { rules, cold_below, .. } = &self.levels[level];
        if f64::from(profile.intensity) < *cold_below {
            return rules.len() - 1;
        }
        let weight = self.weight_on(profile, level);
        let Profile { intensity, writes, random, overwritten } = *profile;
        let [intensity, writes, random, overwritten] =
            [intensity, writes, random, overwritten].map(f64::from);
        let quantities = [intensity, weight, writes, random, overwritten];
        let fits = |check: &Check| {
            let number = quantities[check.quantity];
            check.range.from <= number && number < check.range.to
        };
        let rule = rules.iter().position(|rule| rule.checks.iter().all(fits));
        rule.expect("the last rule of a level always fits")
    }

    /// The rule of a level that a case fits.
    pub(super) fn rule(&self, profile: &Profile, level: usize) -> &Rule {
        &self.library.levels[level].rules[self.rule_number(profile, level)]
    }

    /// The pools that a case may have on a level, in order.
    #[inline]
    pub(super) fn choices(&self, profile: &Profile, level: usize) -> &[PoolId] {
        &self.levels[level].rules[self.rule_number(profile, level)].pools
    }

    /// Below which intensity a case fits only the last rules of all levels but the first.
    pub(super) fn cold_below(&self) -> f64 {
        let beyond = self.levels[1..].iter().map(|level| level.cold_below);
        beyond.fold(f64::INFINITY, f64::min)
    }

    /// The pools of a level's last rule.
    #[inline]
    pub(super) fn last_choices(&self, level: usize) -> &[PoolId] {
        &self.levels[level].rules.last().expect("a level has rules").pools
    }

    /// The rules that a case fits, a byte a level: two cases of the same pattern have the same.
    pub(super) fn pattern(&self, profile: &Profile) -> u64 {
        let rule = |level: usize| self.rule_number(profile, level).min(usize::from(u8::MAX)) as u64;
        (0..self.levels.len()).fold(0, |pattern, level| pattern << 8 | rule(level))
    }
}

/// Below which intensity every rule of a level but the last asks for more, of intensity or of
/// weight; a weight is at most so many times the intensity as all factors together.
fn cold_below(library: &Library, level: &Level) -> f64 {
    let Library { write, random, overwrite, .. } = *library;
    let most = match level.weight {
        Dimension::Intensity => 1.0,
        Dimension::Write => write,
        Dimension::Random => write * random,
        Dimension::Overwrite => write * random * overwrite,
    };
    let (_, others) = level.rules.split_last().expect("a level has a rule that always fits");
    let least = |of: fn(&Rule) -> f64| others.iter().map(of).fold(f64::INFINITY, f64::min);
    let intensity = least(|rule| rule.when.intensity.from);
    let weight = least(|rule| rule.when.weight.from);
    // A little less, because weights are rounded.
    intensity.max(weight / most * 0.999)
}
