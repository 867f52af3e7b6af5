//! Classes of I/O, and the rules that say what is in them: Open CAS's grammar, and its file.
//!
//! A rule is conditions between `&` and `|`, evaluated from left to right without precedence:
//! `metadata`, `direct`, `done` (always true), `file_size`, `request_size`, `lba`, `wlth`, `stream`
//! with a comparison (`file_size:lt:262144`; eq, ne, lt, gt, le, ge), `directory:/var/log`,
//! `extension:log`, `file_name_prefix:core`, `process_name:rsync`, `io_direction:write`,
//! `usage:archival`. `stream` and `usage` are ours. `pid`, `core_id` and `io_class` speak of what a
//! block volume cannot know, or of other rules, and are refused.
//!
//! The file is Open CAS's, lines of `id,rule,eviction priority,allocation`; a fifth column, ours,
//! names pools in order of preference: `fastest`, `between` (none with two pools), `slowest`. Where
//! it is missing, an allocation above 0 means the fastest pool. The first rule that holds decides.
//! What none holds for is class 0, `unclassified`, of which hints want nothing.

use super::{Facts, Life, Usage};
use std::fmt::Write;
use std::sync::{Arc, OnceLock};
use thermocline_units::{Bytes, PoolId};

/// Classes at most, as in Open CAS (0 to 32) and one to spare.
pub const CLASSES_MAX: usize = 34;
/// Conditions of a rule at most.
const CONDITIONS_MAX: usize = 16;

/// Place of a class among the pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// The first pool.
    Fastest,
    /// Those that are neither first nor last.
    Between,
    /// The last pool.
    Slowest,
}

impl Tier {
    const ALL: [(Tier, &str); 3] =
        [(Tier::Fastest, "fastest"), (Tier::Between, "between"), (Tier::Slowest, "slowest")];

    /// The pools meant, of so many.
    pub fn pools(self, count: u16) -> impl Iterator<Item = PoolId> {
        let last = count.saturating_sub(1);
        let range = match self {
            Tier::Fastest => 0..count.min(1),
            Tier::Between => 1..last.max(1),
            Tier::Slowest => last..count,
        };
        range.map(PoolId)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compare {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

impl Compare {
    const ALL: [(Compare, &str); 6] = [
        (Compare::Eq, "eq"),
        (Compare::Ne, "ne"),
        (Compare::Lt, "lt"),
        (Compare::Gt, "gt"),
        (Compare::Le, "le"),
        (Compare::Ge, "ge"),
    ];

    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Compare::Eq => left == right,
            Compare::Ne => left != right,
            Compare::Lt => left < right,
            Compare::Gt => left > right,
            Compare::Le => left <= right,
            Compare::Ge => left >= right,
        }
    }
}

/// Quantity that a comparison looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    FileSize,
    RequestSize,
    Lba,
    Life,
    Stream,
}

impl Quantity {
    const ALL: [(Quantity, &str); 5] = [
        (Quantity::FileSize, "file_size"),
        (Quantity::RequestSize, "request_size"),
        (Quantity::Lba, "lba"),
        (Quantity::Life, "wlth"),
        (Quantity::Stream, "stream"),
    ];

    fn of(self, facts: &Facts, at: Bytes) -> Option<u64> {
        match self {
            Quantity::FileSize => facts.file_size.map(|size| size.0),
            Quantity::RequestSize => facts.request_size.map(|size| size.0),
            Quantity::Lba => Some(at.0 / 512),
            Quantity::Life => (facts.life != Life::NotSet).then_some(facts.life as u64),
            Quantity::Stream => (facts.stream != 0).then_some(u64::from(facts.stream)),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    Always,
    Metadata,
    Direct,
    Number(Quantity, Compare, u64),
    Directory(String),
    Extension(String),
    NamePrefix(String),
    Process(String),
    Writes(bool),
    Usage(Usage),
}

impl Condition {
    fn holds(&self, facts: &Facts, at: Bytes) -> bool {
        match self {
            Condition::Always => true,
            Condition::Metadata => facts.metadata,
            Condition::Direct => facts.direct,
            Condition::Number(quantity, compare, value) => {
                quantity.of(facts, at).is_some_and(|found| compare.holds(found, *value))
            }
            Condition::Directory(path) => facts.directory.as_deref().is_some_and(|found| {
                found.strip_prefix(path.as_str()).is_some_and(|rest| {
                    rest.is_empty() || rest.starts_with('/') || path.ends_with('/')
                })
            }),
            Condition::Extension(wanted) => facts.extension() == Some(wanted),
            Condition::NamePrefix(prefix) => {
                facts.file_name.as_deref().is_some_and(|name| name.starts_with(prefix.as_str()))
            }
            Condition::Process(name) => facts.process.as_deref() == Some(name),
            Condition::Writes(writes) => facts.writes == Some(*writes),
            Condition::Usage(usage) => facts.usage == *usage,
        }
    }
}

/// Conditions from left to right; each but the first is joined by and (true) or or (false).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule(Vec<(bool, Condition)>);

impl Rule {
    fn holds(&self, facts: &Facts, at: Bytes) -> bool {
        self.0.iter().fold(true, |held, (and, condition)| {
            let holds = condition.holds(facts, at);
            if *and { held && holds } else { held || holds }
        })
    }
}

/// A class of I/O.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its rule as it was written: its name.
    pub name: String,
    rule: Rule,
    /// 0 is kept longest, 255 goes first.
    pub priority: u8,
    /// Share of the fastest pool that it may take, 0 to 1.
    pub allocation: f64,
    /// Pools for it, best first; empty: wherever the placement likes.
    pub tiers: Vec<Tier>,
}

/// The table. Class 0 is `unclassified`. Clones share it.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes(Arc<[Class]>);

/// A table that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct RulesError {
    /// Counted from 1.
    pub line: usize,
    /// Fault: what was found, what was expected.
    pub what: String,
}

/// HintStor's classification: metadata, then streams by their use, then files by size. With two
/// pools files below 10 MB are for the fast one; with three, those below 256 KB for the first,
/// those below 100 MB for the second (Ge et al. 2022 §4.2). Write-life hints are ours.
const STANDARD: &str = "\
IO class id,IO class name,Eviction priority,Allocation,Pools
1,metadata,0,1.00,fastest
2,usage:random-write,1,1.00,fastest between
3,usage:write-intensive,2,1.00,fastest between
4,usage:mixed,3,1.00,between fastest
5,usage:read-intensive,4,1.00,between fastest
6,usage:archival|usage:sequential-write,200,0.00,slowest
7,wlth:eq:2,5,1.00,fastest between
8,wlth:eq:5,190,0.00,slowest
9,file_size:lt:262144,10,1.00,fastest between
10,file_size:lt:1048576,11,1.00,between fastest
11,file_size:lt:10485760,12,1.00,between fastest
12,file_size:lt:104857600,13,0.00,between slowest
13,file_size:lt:1073741824,14,0.00,slowest
14,file_size:ge:1073741824,15,0.00,slowest
";

impl Default for Classes {
    fn default() -> Classes {
        static TABLE: OnceLock<Classes> = OnceLock::new();
        let parse = || Classes::parse(STANDARD).expect("the standard table is right");
        TABLE.get_or_init(parse).clone()
    }
}

impl Classes {
    /// Reads a table.
    ///
    /// # Errors
    /// When a line is not what the module says; `line` and `what` say which and why.
    pub fn parse(text: &str) -> Result<Classes, RulesError> {
        let mut classes = vec![Class {
            name: "unclassified".to_string(),
            rule: Rule(vec![(true, Condition::Always)]),
            priority: 255,
            allocation: 0.0,
            tiers: Vec::new(),
        }];
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line.starts_with("IO class id") {
                continue;
            }
            let wrong = |what| RulesError { line: at + 1, what };
            let Some(class) = class(line).map_err(wrong)? else { continue };
            if classes.len() == CLASSES_MAX {
                return Err(wrong(format!("there are more than {} classes", CLASSES_MAX - 1)));
            }
            classes.push(class);
        }
        Ok(Classes(classes.into()))
    }

    /// The class of bytes at `at`: the first whose rule holds.
    pub fn of(&self, facts: &Facts, at: Bytes) -> u8 {
        let found = self.0.iter().skip(1).position(|class| class.rule.holds(facts, at));
        found.map_or(0, |index| index as u8 + 1)
    }

    /// The class of this number; class 0 when there is none.
    pub fn get(&self, class: u8) -> &Class {
        self.0.get(usize::from(class)).unwrap_or(&self.0[0])
    }

    /// Number of the class of this name.
    pub fn named(&self, name: &str) -> Option<u8> {
        self.0.iter().position(|class| class.name == name).map(|index| index as u8)
    }

    /// Number of classes, class 0 included.
    #[expect(clippy::len_without_is_empty, reason = "class 0 is always there")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The table as a file.
    pub fn to_text(&self) -> String {
        let mut text =
            String::from("IO class id,IO class name,Eviction priority,Allocation,Pools\n");
        for (id, class) in self.0.iter().enumerate() {
            let name = |tier: &Tier| {
                let found = Tier::ALL.iter().find(|(other, _)| other == tier);
                found.expect("all of them have names").1
            };
            let pools: Vec<&str> = class.tiers.iter().map(name).collect();
            let Class { name, priority, allocation, .. } = class;
            let _ = writeln!(text, "{id},{name},{priority},{allocation:.2},{}", pools.join(" "));
        }
        text
    }
}

/// A line's class; `None` for `unclassified`, which is always there.
fn class(line: &str) -> Result<Option<Class>, String> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    let (name, priority, allocation, pools) = match cells[..] {
        [_, name, priority, allocation] => (name, priority, allocation, None),
        [_, name, priority, allocation, pools] => (name, priority, allocation, Some(pools)),
        _ => return Err("a class is `id,rule,eviction priority,allocation[,pools]`".to_string()),
    };
    let id =
        cells[0].parse::<u8>().map_err(|_| format!("`{}` is no number of a class", cells[0]))?;
    if id == 0 || name == "unclassified" {
        return Ok(None);
    }
    let priority = if priority.is_empty() { "255" } else { priority };
    let priority = priority.parse().map_err(|_| {
        format!("`{priority}` is no eviction priority; give 0 (kept longest) to 255")
    })?;
    let share = allocation.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    let allocation =
        share.ok_or_else(|| format!("`{allocation}` is no allocation; give 0.00 to 1.00"))?;
    let tiers = match pools {
        Some(pools) => pools.split_whitespace().map(tier).collect::<Result<_, _>>()?,
        None if allocation > 0.0 => vec![Tier::Fastest],
        None => Vec::new(),
    };
    let rule = rule(name)?;
    Ok(Some(Class { name: name.to_string(), rule, priority, allocation, tiers }))
}

fn tier(word: &str) -> Result<Tier, String> {
    let found = Tier::ALL.iter().find(|(_, name)| *name == word);
    found.map(|(tier, _)| *tier).ok_or_else(|| {
        format!("`{word}` is no place among pools; write fastest, between or slowest")
    })
}

fn rule(text: &str) -> Result<Rule, String> {
    let mut conditions = Vec::new();
    let (mut rest, mut and) = (text, true);
    loop {
        let end = rest.find(['&', '|']).unwrap_or(rest.len());
        conditions.push((and, condition(rest[..end].trim())?));
        if conditions.len() > CONDITIONS_MAX {
            return Err(format!("a rule has at most {CONDITIONS_MAX} conditions"));
        }
        if end == rest.len() {
            return Ok(Rule(conditions));
        }
        and = rest.as_bytes()[end] == b'&';
        rest = &rest[end + 1..];
    }
}

fn condition(text: &str) -> Result<Condition, String> {
    let (key, value) = text.split_once(':').map_or((text, None), |(key, value)| (key, Some(value)));
    if let Some((quantity, _)) = Quantity::ALL.iter().find(|(_, name)| *name == key) {
        let (compare, number) =
            value.and_then(|value| value.split_once(':')).unwrap_or(("", value.unwrap_or("")));
        let found = Compare::ALL.iter().find(|(_, name)| *name == compare);
        let number = number.parse::<u64>();
        return match (found, number) {
            (Some((compare, _)), Ok(number)) => Ok(Condition::Number(*quantity, *compare, number)),
            _ => Err(format!("`{text}`: write {key}:lt:4096, with eq, ne, lt, gt, le or ge")),
        };
    }
    // Open CAS takes texts with and without the comparison.
    let word = value.map(|value| value.strip_prefix("eq:").unwrap_or(value));
    let needed = || match word {
        Some(word) if !word.is_empty() => Ok(word.to_string()),
        _ => Err(format!("`{text}`: write {key}:VALUE")),
    };
    match key {
        "done" => Ok(Condition::Always),
        "metadata" => Ok(Condition::Metadata),
        "direct" => Ok(Condition::Direct),
        "directory" => Ok(Condition::Directory(needed()?)),
        "extension" => Ok(Condition::Extension(needed()?)),
        "file_name_prefix" => Ok(Condition::NamePrefix(needed()?)),
        "process_name" => Ok(Condition::Process(needed()?)),
        "io_direction" => match needed()?.as_str() {
            "read" => Ok(Condition::Writes(false)),
            "write" => Ok(Condition::Writes(true)),
            other => Err(format!("`{other}` is no direction; write read or write")),
        },
        "usage" => {
            let name = needed()?;
            let names = || Usage::ALL.map(Usage::name).join(", ");
            let usage = Usage::named(&name);
            Ok(Condition::Usage(usage.ok_or_else(|| format!("`{name}` is none of {}", names()))?))
        }
        _ => Err(format!(
            "`{key}` is no condition; known are metadata, direct, done, file_size, request_size, lba, \
             wlth, stream, directory, extension, file_name_prefix, process_name, io_direction, usage"
        )),
    }
}
