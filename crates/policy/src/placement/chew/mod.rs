//! ChewAnalyzer: chunks are classified level by level until there is a pool for them.
//!
//! 1. An epoch's accesses give each chunk an intensity, and shares of writes, of random accesses,
//!    and of overwrites (see `activity`). A chunk that was not accessed keeps its group and its
//!    place.
//! 2. On each level of the library ([`library`]) the chunks that have no pool yet are classified;
//!    the heaviest first, each gets the first pool of its pattern if that has space and time left
//!    (eq. 3.5). With `accept=group` a pattern's chunks get it all together, or none does.
//! 3. On the last level the other pools of the pattern are tried, too.
//! 4. What is left over is taken by weight: the fastest pool with space.
//! 5. Rises go heaviest first. A chunk whose pool is slower than where it is leaves only when its
//!    place is needed, the lightest first, those that were not accessed before them; with
//!    `demote=always` it goes in any case.
//!
//! Source: 000 ch. 3, Algorithm 1 with the case study of §3.4. As printed the first chunk that
//! fails sends all of its level to the next, placed or not, and any level that succeeds ends the
//! search: this is the reading that can run. The source's performance of a pool (IOPS, throughput
//! for sequential chunks on disks) is the pool's share of time here (see `demand`). When something
//! moves, deadlines and proactive parts are the machine's.
//!
//! State: 86 B a chunk: 62 of activity, 24 of the last verdict, from which `explain` tells. O(1) an
//! access; O(chunks met × levels) an epoch, O(n log n) over those that some pool takes.

pub mod library;
mod pools;
mod reasons;
mod spelling;

use self::library::{Library, LibraryError, Profile, Thresholds};
use self::pools::{Refusal, Status};
use super::activity::{Activity, Counts};
use super::demand::Demand;
use super::plan::Plan;
use super::{Budget, ChunkAccess, Move, Placement, VolumeView, order};
use crate::Footprint;
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

const TOP: Setting = Setting {
    name: "top",
    default: "300",
    unit: "units of 512 B a second",
    help: "intensity, and weight, from which on a chunk is intense",
};
const LOW: Setting = Setting {
    name: "low",
    default: "10",
    unit: "units of 512 B a second",
    help: "intensity, and weight, below which a chunk belongs on the slowest pool",
};
const VERY: Setting = Setting {
    name: "very-intense",
    default: "500",
    unit: "weight",
    help: "weight from which on reads, too, belong on the fastest pool",
};
const WRITE: Setting =
    Setting { name: "write", default: "2", unit: "reads", help: "what a write weighs" };
const RANDOM: Setting = Setting {
    name: "random",
    default: "2",
    unit: "sequential accesses",
    help: "what a random access weighs",
};
const OVERWRITE: Setting = Setting {
    name: "overwrite",
    default: "2",
    unit: "other writes",
    help: "what writing again in the same epoch weighs",
};
const PEAK: Setting = Setting {
    name: "peak",
    default: "1",
    unit: "fraction of a pool's time",
    help: "how busy chunks may make a pool",
};
const ACCEPT: Setting = Setting {
    name: "accept",
    default: "chunk",
    unit: "chunk or group",
    help: "whether each chunk, or only all of a pattern together, get their pool",
};
const DEMOTE: Setting = Setting {
    name: "demote",
    default: "needed",
    unit: "needed or always",
    help: "when chunks that belong on a slower pool go there",
};

const LIBRARY: Setting = Setting {
    name: "library",
    default: CASE_STUDY,
    unit: "three-pools or a TOML file",
    help: "taxonomy, thresholds and pools by pattern; top, low, weights are those of three-pools",
};
/// The library whose thresholds and weights are settings.
const CASE_STUDY: &str = "three-pools";

pub(crate) const ENTRY: Entry = Entry {
    name: "chew",
    summary: "classifies chunks by intensity, writes, randomness and overwrites until a pool fits",
    source: "ChewAnalyzer, 000 ch. 3",
    settings: &[LIBRARY, TOP, LOW, VERY, WRITE, RANDOM, OVERWRITE, PEAK, ACCEPT, DEMOTE],
    build: Build::Placement(|settings| Ok(Box::new(Chew::from_settings(settings)?))),
};

/// How it decides, beside its library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The share of a pool's time that chunks may take, above 0.
    pub peak: f64,
    /// Whether a pattern's chunks get their pool all together or not at all.
    pub accept: Accept,
    /// When chunks go to a slower pool.
    pub demote: Demote,
}

impl Default for Options {
    fn default() -> Options {
        Options { peak: 1.0, accept: Accept::Chunk, demote: Demote::Needed }
    }
}

/// Who is accepted by a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Each chunk that fits.
    Chunk,
    /// All chunks of a pattern, if they fit together.
    Group,
}

/// When chunks go to a slower pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demote {
    /// When a better one needs their place.
    Needed,
    /// As soon as they belong there.
    Always,
}

/// A placement by `library`; settings of the registry do not concern it.
///
/// # Errors
/// When the library cannot be used; the message says why.
pub fn build(library: Library, options: Options) -> Result<Box<dyn Placement>, LibraryError> {
    library.check()?;
    Ok(Box::new(Chew::new(library, options)))
}

/// Where a verdict was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Found {
    /// There is none yet.
    #[default]
    Nowhere,
    /// On a level, counted from 0.
    Level(u8),
    /// Among what was left over.
    Left,
}

/// What was decided about a chunk when it was last accessed.
#[derive(Debug, Clone, Copy, Default)]
struct Verdict {
    profile: Profile,
    to: PoolId,
    found: Found,
    /// One bit a level on which the pool had space but no time.
    late: u8,
}

/// See the module.
#[derive(Debug)]
struct Chew {
    library: Library,
    options: Options,
    activity: Activity,
    verdicts: Vec<Verdict>,
    /// Of the view: how many pools there are, and 1 over the epoch's seconds.
    pools: u16,
    per_second: f64,
}

impl Chew {
    fn new(library: Library, options: Options) -> Chew {
        let (activity, verdicts) = (Activity::default(), Vec::new());
        Chew { library, options, activity, verdicts, pools: 0, per_second: 1.0 }
    }

    fn from_settings(settings: &Settings) -> Result<Chew, SettingsError> {
        let library = library_from(settings)?;
        let options = Options {
            peak: settings.number("peak", 1e-6, 100.0)?,
            accept: [Accept::Chunk, Accept::Group]
                [settings.choice("accept", &["chunk", "group"])?],
            demote: [Demote::Needed, Demote::Always]
                [settings.choice("demote", &["needed", "always"])?],
        };
        Ok(Chew::new(library, options))
    }

    /// Gives every chunk that was touched a verdict.
    fn judge(&mut self, view: &dyn VolumeView) {
        let mut status = Status::of(view, &self.activity, self.options.peak);
        let mut open: Vec<u32> = self.activity.touched().collect();
        for &number in &open {
            let profile = profile(self.activity.counts(number), self.library.unit, self.per_second);
            self.verdicts[number as usize] = Verdict { profile, ..Verdict::default() };
        }
        let last = self.library.levels.len() - 1;
        for level in 0..=last {
            match self.options.accept {
                Accept::Chunk => self.place_chunks(&open, level, &mut status),
                Accept::Group => self.place_groups(&open, level, &mut status),
            }
            open.retain(|&number| self.verdicts[number as usize].found == Found::Nowhere);
        }
        for number in self.heaviest_first(open.into_iter(), last) {
            let to = status.fastest_with_space().unwrap_or(self.activity.home(number));
            self.settle(number, (to, Found::Left), &mut status);
        }
    }

    /// Chunks by their weight on a level.
    fn heaviest_first(&self, chunks: impl Iterator<Item = u32>, level: usize) -> Vec<u32> {
        let last = self.library.levels[level].weight;
        let place = |number: u32| {
            let weight = self.library.weight(&self.verdicts[number as usize].profile, last);
            order::place(weight, self.activity.home(number), number)
        };
        let mut places: Vec<u64> = chunks.map(place).collect();
        order::sort(&mut places);
        places.into_iter().map(order::number).collect()
    }

    fn settle(&mut self, number: u32, (to, found): (PoolId, Found), status: &mut Status) {
        status.take(to, &self.demand(number));
        let verdict = &mut self.verdicts[number as usize];
        (verdict.to, verdict.found) = (to, found);
    }

    /// The pools that the pattern of a chunk may have on this level.
    fn choices(&self, number: u32, level: usize) -> impl Iterator<Item = PoolId> {
        let rule = self.library.rule(&self.verdicts[number as usize].profile, level);
        let tiers = if level + 1 < self.library.levels.len() { 1 } else { rule.pools.len() };
        let count = self.pools;
        // More than one top choice: pools in the middle are equally good.
        rule.pools[..tiers].iter().flat_map(move |tier| tier.pools(count))
    }

    #[inline]
    fn demand(&self, number: u32) -> Demand {
        self.activity.counts(number).demand(self.per_second)
    }

    /// The first pool that takes a chunk on this level, or what the pools lacked.
    fn choose(&self, number: u32, level: usize, status: &Status) -> Result<PoolId, Refusal> {
        let demand = self.demand(number);
        let mut refused = Refusal::Space;
        for pool in self.choices(number, level) {
            match status.refuses(pool, &demand) {
                None => return Ok(pool),
                Some(Refusal::Time) => refused = Refusal::Time,
                Some(Refusal::Space) => {}
            }
        }
        Err(refused)
    }

    fn refuse(&mut self, number: u32, level: usize, refusal: Refusal) {
        self.verdicts[number as usize].late |= u8::from(refusal == Refusal::Time) << level;
    }

    /// Gives each of `open` its pool, as long as that takes it.
    fn place_chunks(&mut self, open: &[u32], level: usize, status: &mut Status) {
        // Pools only fill up: whom they refuse now need not be sorted.
        let mut taken = Vec::new();
        for &number in open {
            match self.choose(number, level, status) {
                Ok(_) => taken.push(number),
                Err(refusal) => self.refuse(number, level, refusal),
            }
        }
        for number in self.heaviest_first(taken.into_iter(), level) {
            match self.choose(number, level, status) {
                Ok(to) => self.settle(number, (to, Found::Level(level as u8)), status),
                Err(refusal) => self.refuse(number, level, refusal),
            }
        }
    }

    /// Gives the chunks of each pattern their pool if all of them fit.
    fn place_groups(&mut self, open: &[u32], level: usize, status: &mut Status) {
        for rule in 0..self.library.levels[level].rules.len() {
            let has = |number: &u32| {
                let profile = &self.verdicts[*number as usize].profile;
                self.library.rule_number(profile, level) == rule
            };
            let group: Vec<u32> = open.iter().copied().filter(has).collect();
            let mut trial = status.clone();
            let refused = group.iter().find_map(|&number| {
                let to = self.choose(number, level, &trial);
                let demand = self.demand(number);
                to.map(|to| trial.take(to, &demand)).err()
            });
            match refused {
                None => self.place_chunks(&group, level, status),
                Some(why) => group.iter().for_each(|&number| self.refuse(number, level, why)),
            }
        }
    }

    /// Wishes what brings the chunks where the verdicts say.
    fn plan(&self, view: &dyn VolumeView) -> Plan {
        let to = |number: u32| self.verdicts[number as usize].to;
        let moving = |number: &u32| to(*number) != self.activity.home(*number);
        let mut plan = Plan::new(view);
        let moving = self.activity.touched().filter(moving);
        for number in self.heaviest_first(moving, self.library.levels.len() - 1) {
            let (chunk, from) = (self.activity.chunks.id(number), self.activity.home(number));
            match self.options.demote {
                Demote::Needed if to(number) > from => plan.may_fall(chunk, from, to(number)),
                _ => plan.wish(chunk, from, to(number)),
            }
        }
        for number in self.activity.standing() {
            if !self.activity.counts(number).is_touched() {
                plan.may_yield(self.activity.chunks.id(number), self.activity.home(number));
            }
        }
        plan
    }
}

/// The library that the settings name, or spell out.
fn library_from(settings: &Settings) -> Result<Library, SettingsError> {
    let own = settings.text("library");
    if own != CASE_STUDY {
        let shaped = [TOP, LOW, VERY, WRITE, RANDOM, OVERWRITE];
        if let Some(Setting { name, .. }) =
            shaped.iter().find(|setting| settings.text(setting.name) != setting.default)
        {
            return Err(settings.wrong(
                name,
                "no such setting beside a library of one's own: it stands in the library"
                    .to_string(),
            ));
        }
        return Library::parse(own).map_err(|error| {
            let value = own.split('{').next().unwrap_or_default().to_string();
            let expected = format!("three-pools or a library; {}", error.problem);
            SettingsError::Value { key: "library".to_string(), value, expected }
        });
    }
    let threshold = |key| settings.number(key, 0.0, 1e12);
    let weight = |key| settings.number(key, 1.0, 1e6);
    let thresholds = Thresholds {
        low: threshold("low")?,
        top: threshold("top")?,
        very_intense: threshold("very-intense")?,
    };
    Ok(Library {
        write: weight("write")?,
        random: weight("random")?,
        overwrite: weight("overwrite")?,
        ..Library::three_pools(thresholds)
    })
}

/// What a chunk was like.
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

impl Placement for Chew {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.activity.look(view);
        self.pools = view.pool_count();
        self.per_second = 1.0 / view.epoch().as_secs_f64();
        self.verdicts.resize(self.activity.chunks.len() as usize, Verdict::default());
        self.judge(view);
        self.plan(view).propose(budget, moves);
        self.activity.advance();
    }

    fn explain(&self, chunk: ChunkId) -> Vec<String> {
        self.reasons(chunk)
    }

    fn footprint(&self) -> Footprint {
        let verdicts = self.verdicts.capacity() * size_of::<Verdict>();
        Footprint { resident: 0, index: self.activity.bytes() + verdicts as u64 }
    }
}

#[cfg(test)]
mod tests;
