//! Characters of a workload, by name. Nothing is counted here; `trace stat` and
//! `trace chunks` count.

use crate::ExperimentError;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_policy::placement::chew::analysis::Mix;
use thermocline_policy::placement::chew::library::{Library, Thresholds};
use thermocline_sim::chunks::{ChunkOptions, ChunkReport, Seen};
use thermocline_sim::source::{Source, open_all};
use thermocline_trace::ReadOptions;
use thermocline_trace::stat::{Characterisation, Characteristics, Timing};
use thermocline_units::{Bytes, ChunkId, Nanos};

/// A character of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Character {
    /// Bytes read.
    Read,
    /// Bytes written.
    Written,
    /// Reads over writes.
    ReadsOverWrites,
    /// One past the last byte accessed.
    Volume,
    /// Distinct data.
    WorkingSet,
    /// Share of the chunk accesses within five minutes after the one before.
    Reaccessed,
    /// Share of the chunks of 1 MiB with fewer than ten accesses a day.
    Rare,
    /// Share of those with a thousand or more.
    Frequent,
    /// Distinct chunks of 1 MiB in five minutes.
    Active,
    /// The most of them, over the mean.
    Spike,
    /// Share of the accesses to the 5 % of its chunks with the most.
    #[serde(rename = "top-5-io")]
    Top5Io,
    /// The same of 20 %.
    #[serde(rename = "top-20-io")]
    Top20Io,
    /// Share of the bytes in the 5 % with the most.
    #[serde(rename = "top-5-data")]
    Top5Data,
    /// The same of 20 %.
    #[serde(rename = "top-20-data")]
    Top20Data,
    /// Share of the chunks, once a window, with fewer than two accesses.
    Inactive,
    /// Share of the accessed chunks, once a window, that are sequential.
    Sequential,
    /// Random, and mostly read.
    RandomRead,
    /// Random, and mostly written.
    RandomWrite,
    /// Written, and sequential.
    SequentialWrite,
    /// Written, and neither sequential nor overwritten.
    FullyRandomWrite,
    /// Written, and mostly overwritten.
    Overwritten,
    /// Windows with more than 5 % of such chunks.
    OverwrittenWindows,
    /// Share of the chunks that are of the same pattern in the next window, of those accessed in
    /// both.
    Steady,
    /// Share of the most accessed 5 % of a window's chunks that are so in the next, too.
    StaysHot,
}

/// A unit that people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Gib,
    Percent,
    Times,
    Count,
}

impl Character {
    fn words(self) -> (&'static str, Unit) {
        match self {
            Character::Read => ("read", Unit::Gib),
            Character::Written => ("written", Unit::Gib),
            Character::ReadsOverWrites => ("reads over writes", Unit::Times),
            Character::Top5Io => ("accesses, top 5 %", Unit::Percent),
            Character::Top20Io => ("accesses, top 20 %", Unit::Percent),
            Character::Top5Data => ("bytes, top 5 %", Unit::Percent),
            Character::Top20Data => ("bytes, top 20 %", Unit::Percent),
            Character::Volume => ("volume", Unit::Gib),
            Character::WorkingSet => ("working set", Unit::Gib),
            Character::Reaccessed => ("again within 5 min", Unit::Percent),
            Character::Rare => ("bins below 10 a day", Unit::Percent),
            Character::Frequent => ("bins from 1,000 a day", Unit::Percent),
            Character::Active => ("bins in 5 min", Unit::Count),
            Character::Spike => ("most bins over mean", Unit::Times),
            Character::Inactive => ("inactive chunks", Unit::Percent),
            Character::Sequential => ("sequential", Unit::Percent),
            Character::RandomRead => ("random read", Unit::Percent),
            Character::RandomWrite => ("random write", Unit::Percent),
            Character::SequentialWrite => ("sequential write", Unit::Percent),
            Character::FullyRandomWrite => ("fully random write", Unit::Percent),
            Character::Overwritten => ("overwritten", Unit::Percent),
            Character::OverwrittenWindows => ("windows above 5 % overwritten", Unit::Count),
            Character::Steady => ("same pattern in next window", Unit::Percent),
            Character::StaysHot => ("top 5 % stays top", Unit::Percent),
        }
    }

    /// Its name in claims.
    pub(super) fn name(self) -> &'static str {
        self.words().0
    }

    /// The head of a column.
    pub(super) fn heading(self) -> String {
        let (name, unit) = self.words();
        let unit = match unit {
            Unit::Gib => ", GiB",
            Unit::Percent => ", %",
            Unit::Times | Unit::Count => "",
        };
        format!("{name}{unit}")
    }

    /// True of amounts, which grow with the number of requests.
    fn is_amount(self) -> bool {
        matches!(self, Character::Read | Character::Written)
    }

    /// True of chunks in windows.
    fn is_of_windows(self) -> bool {
        self >= Character::Top5Io
    }
}

/// Lengths by which a workload is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cutting {
    pub(super) chunk: Bytes,
    pub(super) window: Nanos,
    /// The part of the source's requests that there are.
    pub(super) part: f64,
}

/// Each character of one draw of a workload, in the units of their headings; `None` of what the
/// trace does not tell.
pub(super) fn characters(
    source: &Source,
    cutting: Cutting,
    wanted: &[Character],
) -> Result<Vec<Option<f64>>, ExperimentError> {
    let open = || open_all(std::slice::from_ref(source), &ReadOptions::default());
    let found = Characterisation::read(&mut *open()?, &|_| ())?;
    let mut windows = None;
    if wanted.iter().any(|one| one.is_of_windows()) {
        let Cutting { chunk, window, .. } = cutting;
        let options =
            ChunkOptions { chunk, window, library: Library::three_pools(Thresholds::default()) };
        let mut memory = Memory::default();
        let mut each = |seen: Seen<'_>| memory.see(seen);
        let report = ChunkReport::read(&mut *open()?, &options, &mut each, &|_| ())?;
        memory.turn();
        windows = Some((report, memory));
    }
    let value = |&character: &Character| {
        let value = match &windows {
            Some((report, memory)) if character.is_of_windows() => {
                of_windows(character, report, memory)
            }
            _ => of_whole(character, &found.whole),
        }?;
        Some(match (character.words().1, character.is_amount()) {
            (Unit::Gib, true) => value / cutting.part / f64::from(1 << 30),
            (Unit::Gib, false) => value / f64::from(1 << 30),
            (Unit::Percent, _) => value * 100.0,
            (Unit::Times | Unit::Count, _) => value,
        })
    };
    Ok(wanted.iter().map(value).collect())
}

fn of_whole(character: Character, found: &Characteristics) -> Option<f64> {
    let timing = |of: fn(&Timing) -> Option<f64>| found.timing.as_ref().and_then(of);
    match character {
        Character::Read => Some(found.reads.bytes as f64),
        Character::Written => Some(found.writes.bytes as f64),
        Character::ReadsOverWrites => found.read_write_ratio_requests(),
        Character::Volume => Some(found.size.0 as f64),
        Character::WorkingSet => Some(found.footprint.0 as f64),
        Character::Reaccessed => timing(|timing| timing.chunk_reaccess.of_accesses),
        Character::Rare => timing(|timing| timing.rare_chunks),
        Character::Frequent => timing(|timing| timing.frequent_chunks),
        Character::Active => timing(|timing| Some(timing.active_chunks_mean)),
        Character::Spike => {
            timing(|timing| Some(timing.active_chunks_max as f64 / timing.active_chunks_mean))
        }
        _ => None,
    }
}

fn of_windows(character: Character, report: &ChunkReport, memory: &Memory) -> Option<f64> {
    let total = &report.total;
    let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let accessed = |part: u64| share(part, total.accessed);
    match character {
        Character::Top5Io => memory.share_of_top(5, |all| all.0),
        Character::Top20Io => memory.share_of_top(20, |all| all.0),
        Character::Top5Data => memory.share_of_top(5, |all| all.1),
        Character::Top20Data => memory.share_of_top(20, |all| all.1),
        Character::Inactive => {
            let all: u64 = report.frequencies.iter().map(|row| row.chunks).sum();
            share(all - total.active, all)
        }
        Character::Sequential => accessed(total.sequential),
        Character::RandomRead => accessed(total.random_read),
        Character::RandomWrite => accessed(total.random_write),
        Character::SequentialWrite => accessed(total.sequential_write),
        Character::FullyRandomWrite => accessed(total.fully_random_write),
        Character::Overwritten => accessed(total.overwritten),
        Character::OverwrittenWindows => {
            let above =
                |row: &&thermocline_sim::chunks::WindowRow| row.share(row.overwritten) > 0.05;
            Some(report.windows.iter().filter(above).count() as f64)
        }
        Character::Steady => share(memory.steady.0, memory.steady.1),
        Character::StaysHot => share(memory.hot.0, memory.hot.1),
        _ => None,
    }
}

/// The window before, and what stayed of it.
#[derive(Default)]
struct Memory {
    window: u64,
    now: BTreeMap<ChunkId, (Mix, u64)>,
    before: BTreeMap<ChunkId, Mix>,
    hot_before: BTreeSet<ChunkId>,
    /// Chunks of the same pattern as in the window before, of so many accessed in both.
    steady: (u64, u64),
    /// Chunks that stayed among the most accessed, of so many that were.
    hot: (u64, u64),
    /// Accesses and bytes of each chunk in all windows.
    all: BTreeMap<ChunkId, (u64, u64)>,
}

impl Memory {
    fn see(&mut self, seen: Seen<'_>) {
        while self.window < seen.window {
            self.turn();
        }
        let accesses = seen.chunk.reads + seen.chunk.writes;
        self.now.insert(seen.chunk.chunk, (seen.chunk.mix(), accesses));
        let all = self.all.entry(seen.chunk.chunk).or_default();
        let bytes = seen.chunk.read_bytes.0 + seen.chunk.written_bytes.0;
        *all = (all.0 + accesses, all.1 + bytes);
    }

    /// The part of something that lies on those `percent` % of the chunks that have the most of
    /// it, rounded up to a whole number.
    fn share_of_top(&self, percent: usize, of: impl Fn(&(u64, u64)) -> u64) -> Option<f64> {
        let mut weights: Vec<u64> = self.all.values().map(of).collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        let top: u64 = weights[..(weights.len() * percent).div_ceil(100)].iter().sum();
        let all: u64 = weights.iter().sum();
        (all > 0).then(|| top as f64 / all as f64)
    }

    /// Ends the window under way.
    fn turn(&mut self) {
        let mut ranked: Vec<(u64, ChunkId)> =
            self.now.iter().map(|(&chunk, &(_, accesses))| (accesses, chunk)).collect();
        ranked.sort_unstable_by(|a, b| b.cmp(a));
        ranked.truncate(ranked.len().div_ceil(20));
        let hot: BTreeSet<ChunkId> = ranked.into_iter().map(|(_, chunk)| chunk).collect();
        if self.window > 0 {
            self.hot.0 += hot.intersection(&self.hot_before).count() as u64;
            self.hot.1 += self.hot_before.len() as u64;
        }
        self.hot_before = hot;
        let now = std::mem::take(&mut self.now);
        for (chunk, (mix, _)) in &now {
            if let Some(before) = self.before.get(chunk) {
                self.steady.0 += u64::from(before == mix);
                self.steady.1 += 1;
            }
        }
        self.before = now.into_iter().map(|(chunk, (mix, _))| (chunk, mix)).collect();
        self.window += 1;
    }
}
