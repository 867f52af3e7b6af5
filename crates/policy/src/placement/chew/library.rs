//! ChewAnalyzer's taxonomy and pattern-to-pool library: plain data that users may write themselves.
//!
//! A library has levels; a level has rules, of which the first that a chunk fits names its pattern
//! and the pools for it, in order of preference. Reading one from a file is the business of whoever
//! can read files.

use thermocline_units::{Bytes, PoolId};

/// Levels of a library at most.
pub const LEVELS_MAX: usize = 8;
/// Range of the weights of writes, random accesses and overwrites.
pub const WEIGHTS: std::ops::RangeInclusive<f64> = 1.0..=1e6;
/// Bytes of a library spelled out, at most: a recording has 4,096 for a policy with all its
/// settings, of which the others take less than 1,024.
pub const SPELLED_BYTES_MAX: usize = 3072;
/// Bytes of a name of a library, a level or a pattern, at most.
pub const NAME_BYTES_MAX: usize = 48;
const _: () = assert!(LEVELS_MAX * 8 <= u64::BITS as usize);
/// Characters that names may not have, because they separate policies, their settings, or the parts
/// of a library that is spelled out.
pub(crate) const NAME_FORBIDDEN: [char; 12] =
    [':', '+', ',', ';', '|', '@', '&', '>', '[', ']', '{', '}'];

/// A place in the order of pools, whatever their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The first pool.
    Fastest,
    /// The pools between first and last, in order; of two pools the first.
    Middle,
    /// The last pool.
    Slowest,
}

impl Tier {
    /// All of them.
    pub const ALL: [Tier; 3] = [Tier::Fastest, Tier::Middle, Tier::Slowest];

    /// Key as libraries write it.
    pub fn key(self) -> &'static str {
        match self {
            Tier::Fastest => "fastest",
            Tier::Middle => "middle",
            Tier::Slowest => "slowest",
        }
    }

    /// The pools that it means among `count`, in order.
    pub fn pools(self, count: u16) -> impl Iterator<Item = PoolId> {
        let last = count.saturating_sub(1);
        let range = match self {
            Tier::Fastest => 0..1,
            Tier::Middle if count <= 2 => 0..1,
            Tier::Middle => 1..last,
            Tier::Slowest => last..last + 1,
        };
        range.map(PoolId)
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Fastest => "the fastest pool",
            Tier::Middle => "a pool in the middle",
            Tier::Slowest => "the slowest pool",
        }
    }
}

/// Numbers from `from` on, below `to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// The first that belongs to it.
    pub from: f64,
    /// The first beyond it.
    pub to: f64,
}

impl Range {
    /// Every number.
    pub const ANY: Range = Range { from: f64::NEG_INFINITY, to: f64::INFINITY };

    /// Numbers from `from` on.
    pub const fn from(from: f64) -> Range {
        Range { from, to: f64::INFINITY }
    }

    /// Numbers below `to`.
    pub const fn below(to: f64) -> Range {
        Range { from: f64::NEG_INFINITY, to }
    }

    /// Numbers from `from` on, below `to`.
    pub const fn between(from: f64, to: f64) -> Range {
        Range { from, to }
    }
}

/// Conditions of a rule: a chunk must fit all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct When {
    /// Units a second, see [`Library::unit`].
    pub intensity: Range,
    /// The weight of the rule's level.
    pub weight: Range,
    /// Share of writes among its units, 0 to 1.
    pub writes: Range,
    /// Share of random ones among its accesses, 0 to 1.
    pub random: Range,
    /// Share of overwrites among its writes, 0 to 1.
    pub overwritten: Range,
}

impl When {
    /// Whatever it is like.
    pub const ALWAYS: When = When {
        intensity: Range::ANY,
        weight: Range::ANY,
        writes: Range::ANY,
        random: Range::ANY,
        overwritten: Range::ANY,
    };
    /// Conditions that a rule may have, as libraries write them.
    pub const KEYS: [&'static str; 5] = ["intensity", "weight", "writes", "random", "overwritten"];

    /// Every range with its key.
    pub fn ranges(&self) -> [(&'static str, Range); 5] {
        let ranges = [self.intensity, self.weight, self.writes, self.random, self.overwritten];
        std::array::from_fn(|at| (When::KEYS[at], ranges[at]))
    }

    /// The range of a key; `None`: there is no such key.
    pub fn range_mut(&mut self, key: &str) -> Option<&mut Range> {
        match key {
            "intensity" => Some(&mut self.intensity),
            "weight" => Some(&mut self.weight),
            "writes" => Some(&mut self.writes),
            "random" => Some(&mut self.random),
            "overwritten" => Some(&mut self.overwritten),
            _ => None,
        }
    }
}

/// A pattern and the pools for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Name of the pattern.
    pub pattern: String,
    /// Conditions of the chunks that have it.
    pub when: When,
    /// Pools for them. On all levels but the last only the first counts.
    pub pools: Vec<Tier>,
}

/// The dimensions of a weight: each takes in those before it (eq. 3.3, 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    /// Units a second.
    Intensity,
    /// A write counts [`Library::write`] times.
    Write,
    /// A random access counts [`Library::random`] times.
    Random,
    /// An overwrite counts [`Library::overwrite`] times.
    Overwrite,
}

impl Dimension {
    /// All of them, in their order.
    pub const ALL: [Dimension; 4] =
        [Dimension::Intensity, Dimension::Write, Dimension::Random, Dimension::Overwrite];

    /// Key as libraries write it.
    pub fn key(self) -> &'static str {
        match self {
            Dimension::Intensity => "intensity",
            Dimension::Write => "write",
            Dimension::Random => "random",
            Dimension::Overwrite => "overwrite",
        }
    }
}

/// One step of the classification.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// The last dimension of its weight.
    pub weight: Dimension,
    /// Tried in order; the first that fits holds.
    pub rules: Vec<Rule>,
}

/// All of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Library {
    /// Name under which its policy is shown.
    pub name: String,
    /// Requests are counted in units of so many bytes; the source's tool splits them into 512 B.
    pub unit: Bytes,
    /// Weight of a write, in reads.
    pub write: f64,
    /// Weight of a random access, in sequential ones.
    pub random: f64,
    /// Weight of an overwrite, in other writes.
    pub overwrite: f64,
    /// From the coarsest to the finest.
    pub levels: Vec<Level>,
}

/// A library that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern-to-pool library: {problem}")]
pub struct LibraryError {
    /// The level that it is about, counted from 0; `None`: all of it.
    pub level: Option<usize>,
    /// The rule of that level, counted from 0; `None`: all of it.
    pub rule: Option<usize>,
    /// The fault, and what would be right.
    pub problem: String,
}

impl LibraryError {
    pub(super) fn whole(problem: String) -> LibraryError {
        LibraryError { level: None, rule: None, problem }
    }
}

/// Thresholds of the case study (Ge 2017 §3.4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Units a second from which on a chunk has few I/Os no longer.
    pub low: f64,
    /// From which on it is among the top, and its weight is intense.
    pub top: f64,
    /// The weight from which on it is very intense.
    pub very_intense: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { low: 10.0, top: 300.0, very_intense: 500.0 }
    }
}

fn rule(pattern: &str, when: When, pools: &[Tier]) -> Rule {
    Rule { pattern: pattern.to_string(), when, pools: pools.to_vec() }
}

impl Level {
    fn check(&self) -> Result<(), LibraryError> {
        let name = &self.name;
        check_name(name).map_err(LibraryError::whole)?;
        if self.rules.last().is_none_or(|rule| rule.when != When::ALWAYS) {
            let problem = format!("level `{name}` must end with a rule that always fits");
            return Err(LibraryError::whole(problem));
        }
        for (number, rule) in self.rules.iter().enumerate() {
            rule.check(name).map_err(|problem| LibraryError {
                rule: Some(number),
                ..LibraryError::whole(problem)
            })?;
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self, level: &str) -> Result<(), String> {
        let pattern = &self.pattern;
        check_name(pattern)?;
        if self.pools.is_empty() {
            return Err(format!("pattern `{pattern}` of level `{level}` names no pool"));
        }
        for (key, Range { from, to }) in self.when.ranges() {
            // What is no number compares with nothing.
            if from.partial_cmp(&to) != Some(std::cmp::Ordering::Less) {
                return Err(format!("`{key}` of `{pattern}` goes from {from} to below {to}"));
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = !name.contains(NAME_FORBIDDEN) && !name.chars().any(char::is_control);
    if plain && name.trim() == name && (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    let forbidden: String = NAME_FORBIDDEN.iter().collect();
    Err(format!("the name `{name}`: names have 1 to {NAME_BYTES_MAX} bytes without {forbidden}"))
}

impl Library {
    /// The case study of three pools, SCM, SSD and disk (Ge 2017 §3.4). The source gives the
    /// thresholds and the weight of a write, 2; that of random accesses and of overwrites, 2 each,
    /// are ours.
    pub fn three_pools(thresholds: Thresholds) -> Library {
        let level = |name: &str, weight, rules| Level { name: name.to_string(), weight, rules };
        Library {
            name: "three-pools".to_string(),
            unit: Bytes(512),
            write: 2.0,
            random: 2.0,
            overwrite: 2.0,
            levels: vec![
                level("intensity", Dimension::Intensity, intensity_rules(thresholds)),
                level("reads and writes", Dimension::Write, write_rules(thresholds)),
                level("randomness", Dimension::Random, random_rules(thresholds)),
                level("overwrites", Dimension::Overwrite, overwrite_rules(thresholds)),
            ],
        }
    }

    /// # Errors
    /// When it has no levels or too many, a level has a chunk for which no rule says anything, a
    /// rule names no pool or a range that is empty, a name or a number is none, or it is too long
    /// for a recording.
    pub fn check(&self) -> Result<(), LibraryError> {
        let wrong = |problem: String| Err(LibraryError::whole(problem));
        if self.levels.is_empty() || self.levels.len() > LEVELS_MAX {
            return wrong(format!("{} levels; it has 1 to {LEVELS_MAX}", self.levels.len()));
        }
        for (name, weight) in
            [("write", self.write), ("random", self.random), ("overwrite", self.overwrite)]
        {
            if !WEIGHTS.contains(&weight) {
                return wrong(format!("weight {name} = {weight}; it lies from 1 to 1000000"));
            }
        }
        if self.unit.0 == 0 {
            return wrong("a unit of 0 B; use 512 B or 4 KiB".to_string());
        }
        check_name(&self.name).or_else(wrong)?;
        for (number, level) in self.levels.iter().enumerate() {
            level.check().map_err(|error| LibraryError { level: Some(number), ..error })?;
        }
        match self.spelled_out().len() {
            ..=SPELLED_BYTES_MAX => Ok(()),
            bytes => wrong(format!(
                "spelled out it has {bytes} B, and {SPELLED_BYTES_MAX} fit into a recording; use \
                 fewer rules or shorter names"
            )),
        }
    }
}

/// More than half.
fn most() -> Range {
    Range::from(0.5_f64.next_up())
}

fn intensity_rules(at: Thresholds) -> Vec<Rule> {
    let from = |from: f64| When { intensity: Range::from(from), ..When::ALWAYS };
    vec![
        rule("top I/Os", from(at.top), &[Tier::Fastest]),
        rule("2nd high I/Os", from(at.low), &[Tier::Middle]),
        rule("low I/Os", When::ALWAYS, &[Tier::Slowest]),
    ]
}

fn write_rules(at: Thresholds) -> Vec<Rule> {
    let from = |from: f64| When { weight: Range::from(from), ..When::ALWAYS };
    vec![
        rule("very intensive", from(at.very_intense), &[Tier::Fastest]),
        rule("intensive write", When { writes: most(), ..from(at.top) }, &[Tier::Fastest]),
        rule("intensive read", from(at.top), &[Tier::Middle]),
        rule("moderate read/write", from(at.low), &[Tier::Middle]),
        rule("low I/Os", When::ALWAYS, &[Tier::Slowest]),
    ]
}

fn random_rules(at: Thresholds) -> Vec<Rule> {
    let from = |from: f64| When { weight: Range::from(from), ..When::ALWAYS };
    let sequential = When { random: Range::below(0.5), ..from(at.top) };
    vec![
        rule("sequential access", sequential, &[Tier::Slowest]),
        rule("intensive random write", When { writes: most(), ..from(at.top) }, &[Tier::Fastest]),
        rule("intensive random read", from(at.top), &[Tier::Middle]),
        rule("moderate read/write", from(at.low), &[Tier::Middle]),
        rule("low I/Os", When::ALWAYS, &[Tier::Slowest]),
    ]
}

fn overwrite_rules(at: Thresholds) -> Vec<Rule> {
    let from = |from: f64| When { weight: Range::from(from), ..When::ALWAYS };
    let written = When { writes: most(), ..from(at.top) };
    let sequential = When { random: Range::below(0.5), ..from(at.top) };
    let overwritten = When { overwritten: most(), ..written };
    vec![
        rule("overwritten", overwritten, &[Tier::Fastest, Tier::Middle]),
        rule("sequential access", sequential, &[Tier::Slowest, Tier::Middle]),
        rule("fully random write", written, &[Tier::Fastest, Tier::Middle]),
        rule("random read", from(at.top), &[Tier::Middle, Tier::Fastest]),
        rule("moderate read/write", from(at.low), &[Tier::Middle, Tier::Slowest]),
        rule("low I/Os", When::ALWAYS, &[Tier::Slowest]),
    ]
}
