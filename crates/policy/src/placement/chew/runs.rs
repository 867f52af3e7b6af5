//! ChewAnalyzer++: runs of chunks are classified and moved as one; what matters is looked at in
//! parts.
//!
//! 1. A volume is cut into aligned *runs* of `span` bytes, each a case of Algorithm 1 (`classify`)
//!    with the accesses of all its chunks. A run that is placed moves all its chunks, those that
//!    nobody accessed too.
//! 2. A run that got a pool above the slowest, or none that its pattern asks for, is *split* when
//!    its `parts` parts differ in pattern; one without a pool of its pattern in any case. What it
//!    took is given back, and the parts are cases of Algorithm 1 in its place (Algorithm 2).
//! 3. A split run stays split. When all its parts had one pattern, the same, for `stable` epochs,
//!    it is *merged*: classified and moved as one again.
//! 4. Chunks of a run or part that nobody accessed stay until their place is needed.
//!
//! Source: Ge 2017 §3.3.4 and Algorithm 2. The source's volumes have chunks of any size from Ch0
//! on; here they are runs of the volume's chunks (docs/decisions/0033), and Ch0 is the larger of a
//! part and a chunk. Thresholds hold for a run and for a part alike, as in the source: a part is
//! hot if it deserves the pool by itself. The source splits every run on a fast pool and would
//! split what it has just merged: that parts must differ is ours, and so is the run that finds no
//! pool.
//!
//! State: 62 B a chunk that lives (58 of activity, 4 for its run), and 28 B a run and 78 B for it
//! and each of its parts. O(1) an access; O(chunks that live) and the cost of `chew` over runs an
//! epoch. With runs of one chunk it is `chew`.

use super::classify::{Cases, Classifier, Found};
use super::pools::Status;
use super::settings::{
    ACCEPT, DEMOTE, LIBRARY, LOW, OVERWRITE, Options, PEAK, RANDOM, TOP, VERY, WEAR, WRITE, read,
};
use super::wish;
use crate::Footprint;
use crate::placement::activity::{Activity, Counts};
use crate::placement::chew::library::Library;
use crate::placement::chunks::Chunks;
use crate::placement::plan::Plan;
use crate::placement::{Budget, ChunkAccess, Move, Placement, VolumeView};
use crate::registry::{Build, Entry, Setting, Settings, SettingsError};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId};

const SPAN: Setting = Setting {
    name: "span",
    default: "256MiB",
    unit: "size",
    help: "bytes of a run, which is classified and moved as one",
};
const PARTS: Setting = Setting {
    name: "parts",
    default: "4",
    unit: "parts",
    help: "how many parts a run is split into; a part is a chunk at least",
};
const STABLE: Setting = Setting {
    name: "stable",
    default: "4",
    unit: "epochs",
    help: "how long all parts must keep one pattern before their run is merged",
};

pub(crate) const ENTRY: Entry = Entry {
    name: "chew-pp",
    summary: "chew over runs of chunks: splits runs on fast pools, merges what is stable",
    source: "ChewAnalyzer++, Ge 2017 §3.3.4",
    settings: &[
        SPAN, PARTS, STABLE, LIBRARY, TOP, LOW, VERY, WRITE, RANDOM, WEAR, OVERWRITE, PEAK, ACCEPT,
        DEMOTE,
    ],
    build: Build::Placement(|settings| Ok(Box::new(ChewRuns::from_settings(settings)?))),
};

/// Partition of a volume into runs, in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    run: u32,
    part: u32,
    /// Cases of a run: itself first, then its parts; itself only when a part would be all of it.
    cases: u32,
}

impl Cut {
    fn new(span: Bytes, parts: u32, chunk: Bytes) -> Cut {
        let run = u32::try_from(span.0 / chunk.0).unwrap_or(u32::MAX).max(1);
        let part = run.div_ceil(parts).max(1);
        let count = run.div_ceil(part);
        Cut { run, part, cases: if count > 1 { 1 + count } else { 1 } }
    }

    /// The run of a chunk, as the id of a chunk of that size.
    fn run_of(self, chunk: ChunkId) -> ChunkId {
        ChunkId { index: chunk.index / self.run, ..chunk }
    }

    /// A run's own case.
    fn whole(self, run: u32) -> u32 {
        run * self.cases
    }

    /// The case of the part that a chunk is in.
    fn part_of(self, run: u32, chunk: ChunkId) -> u32 {
        let part = if self.cases > 1 { 1 + chunk.index % self.run / self.part } else { 0 };
        self.whole(run) + part
    }

    /// The cases of a run's parts.
    fn parts(self, run: u32) -> std::ops::Range<u32> {
        self.whole(run) + 1..self.whole(run) + self.cases
    }
}

/// A run from epoch to epoch.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// The pattern that all its parts had in the last epoch, if they had one.
    pattern: Option<u64>,
    /// For how many epochs; only of runs that are split.
    stable: u16,
    split: bool,
}

/// Runs and parts at an epoch's end, as cases.
#[derive(Debug, Default)]
struct Pieces {
    counts: Vec<Counts>,
    /// The slowest pool that one of its chunks is on.
    pools: Vec<PoolId>,
    /// Chunks that have no place of their own in the status: touched, or above the slowest pool.
    standing: Vec<u32>,
    /// Other chunks: on the slowest pool, not touched.
    resting: Vec<u32>,
    slowest: PoolId,
}

impl Cases for Pieces {
    #[inline]
    fn counts(&self, case: u32) -> &Counts {
        &self.counts[case as usize]
    }

    #[inline]
    fn pool_of(&self, case: u32) -> PoolId {
        self.pools[case as usize]
    }

    fn room(&self, case: u32, pool: PoolId) -> u64 {
        let resting = if pool == self.slowest { 0 } else { self.resting[case as usize] };
        u64::from(self.standing[case as usize]) + u64::from(resting)
    }
}

impl Pieces {
    fn clear(&mut self, cases: usize, slowest: PoolId) {
        self.slowest = slowest;
        self.counts.clear();
        self.counts.resize(cases, Counts::default());
        self.pools.clear();
        self.pools.resize(cases, PoolId(0));
        for chunks in [&mut self.standing, &mut self.resting] {
            chunks.clear();
            chunks.resize(cases, 0);
        }
    }

    /// Takes a chunk into a case.
    fn take(&mut self, case: u32, counts: &Counts, home: PoolId) {
        let case = case as usize;
        let touched = counts.is_touched();
        if touched {
            self.counts[case].add(counts);
        }
        self.pools[case] = self.pools[case].max(home);
        let stands = touched || home != self.slowest;
        self.standing[case] += u32::from(stands);
        self.resting[case] += u32::from(!stands);
    }

    /// Takes one case into another.
    fn gather(&mut self, case: u32, into: u32) {
        let (from, to) = (case as usize, into as usize);
        let counts = self.counts[from];
        self.counts[to].add(&counts);
        self.pools[to] = self.pools[to].max(self.pools[from]);
        self.standing[to] += self.standing[from];
        self.resting[to] += self.resting[from];
    }

    fn is_touched(&self, case: u32) -> bool {
        self.counts(case).is_touched()
    }

    /// True if it has any chunk.
    fn is_there(&self, case: u32) -> bool {
        self.standing[case as usize] + self.resting[case as usize] > 0
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<Counts>()
            + self.pools.capacity() * size_of::<PoolId>()
            + (self.standing.capacity() + self.resting.capacity()) * 4
    }
}

/// ChewAnalyzer++: classifies and moves runs of chunks as one.
#[derive(Debug)]
struct ChewRuns {
    classifier: Classifier,
    span: Bytes,
    parts: u32,
    stable: u16,
    activity: Activity,
    /// Runs and parts in chunks, once the size of a chunk is known.
    cut: Cut,
    /// Numbers of runs, and by chunk its run's.
    numbers: Chunks,
    run_of: Vec<u32>,
    runs: Vec<Run>,
    pieces: Pieces,
}

impl ChewRuns {
    fn from_settings(settings: &Settings) -> Result<ChewRuns, SettingsError> {
        let (library, options) = read(settings)?;
        let span = settings.bytes("span")?;
        if !(4096..=1 << 46).contains(&span.0) {
            return Err(settings.wrong("span", "a size from 4KiB to 64TiB".to_string()));
        }
        let parts = settings.count("parts", 1, 1024)? as u32;
        let stable = settings.count("stable", 1, 10_000)? as u16;
        Ok(ChewRuns::new((library, options), span, parts, stable))
    }

    fn new((library, options): (Library, Options), span: Bytes, parts: u32, stable: u16) -> Self {
        ChewRuns {
            classifier: Classifier::new(library, options),
            span,
            parts,
            stable,
            activity: Activity::default(),
            cut: Cut { run: 1, part: 1, cases: 1 },
            numbers: Chunks::default(),
            run_of: Vec::new(),
            runs: Vec::new(),
            pieces: Pieces::default(),
        }
    }

    /// Takes note of every chunk that lives, and of the runs that they are.
    fn look(&mut self, view: &dyn VolumeView) {
        self.cut = Cut::new(self.span, self.parts, view.chunk_size());
        match self.cut.run {
            1 => self.activity.look(view),
            _ => self.activity.look_everywhere(view),
        }
        for number in self.run_of.len() as u32..self.activity.chunks.len() {
            let run = self.cut.run_of(self.activity.chunks.id(number));
            self.run_of.push(self.numbers.number(run));
        }
        self.runs.resize(self.numbers.len() as usize, Run::default());
        let cases = self.runs.len() * self.cut.cases as usize;
        self.classifier.begin(view, cases);
        self.pieces.clear(cases, PoolId(view.pool_count() - 1));
        for (number, &run) in (0..).zip(&self.run_of) {
            let case = self.cut.part_of(run, self.activity.chunks.id(number));
            self.pieces.take(case, self.activity.counts(number), self.activity.pool_of(number));
        }
        for run in 0..self.numbers.len() {
            for part in self.cut.parts(run) {
                self.pieces.gather(part, self.cut.whole(run));
            }
        }
    }

    /// The pattern that all parts of a run have; `None` when they differ.
    fn pattern(&self, run: u32) -> Option<u64> {
        let there = self.cut.parts(run).filter(|&part| self.pieces.is_there(part));
        let mut patterns = there.map(|part| {
            let profile = self.classifier.profile(self.pieces.counts(part));
            self.classifier.taxonomy.pattern(&profile)
        });
        let first = patterns.next()?;
        patterns.all(|pattern| pattern == first).then_some(first)
    }

    /// Merges the runs whose parts were alike for long enough.
    fn merge(&mut self) {
        for number in 0..self.numbers.len() {
            if !self.runs[number as usize].split {
                continue;
            }
            let pattern = self.pattern(number);
            let run = &mut self.runs[number as usize];
            run.stable = match pattern {
                Some(_) if pattern == run.pattern => run.stable.saturating_add(1),
                Some(_) => 1,
                None => 0,
            };
            run.pattern = pattern;
            if run.stable >= self.stable {
                *run = Run::default();
            }
        }
    }

    /// The cases that a run is now.
    fn cases(&self, run: u32) -> std::ops::Range<u32> {
        let whole = self.cut.whole(run);
        if self.runs[run as usize].split { self.cut.parts(run) } else { whole..whole + 1 }
    }

    /// The cases of all runs that were accessed.
    fn touched(&self) -> Vec<u32> {
        let cases = (0..self.numbers.len()).flat_map(|run| self.cases(run));
        cases.filter(|&case| self.pieces.is_touched(case)).collect()
    }

    /// Algorithm 2: gives the parts of what competes for fast pools places of their own.
    fn split(&mut self, status: &mut Status) {
        let mut parts = Vec::new();
        for run in 0..self.numbers.len() {
            let whole = self.cut.whole(run);
            if self.cut.cases == 1
                || self.runs[run as usize].split
                || !self.pieces.is_touched(whole)
            {
                continue;
            }
            let verdict = self.classifier.verdict(whole);
            let nowhere = verdict.found == Found::Left;
            let competes = verdict.to < self.pieces.slowest && self.pattern(run).is_none();
            if nowhere || competes {
                self.classifier.release(&self.pieces, whole, status);
                self.runs[run as usize].split = true;
                parts.extend(self.cut.parts(run).filter(|&part| self.pieces.is_touched(part)));
            }
        }
        self.classifier.judge(&self.pieces, &parts, status);
    }

    /// The case that a chunk is in now.
    fn case_of(&self, number: u32) -> u32 {
        let run = self.run_of[number as usize];
        match self.runs[run as usize].split {
            true => self.cut.part_of(run, self.activity.chunks.id(number)),
            false => self.cut.whole(run),
        }
    }

    /// Wishes what brings all chunks of what was accessed where the verdicts say.
    fn plan(&self, view: &dyn VolumeView) -> Plan {
        let (classifier, activity) = (&self.classifier, &self.activity);
        let mut plan = Plan::new(view);
        let members = Members::of(self);
        for case in classifier.heaviest_first(&self.pieces, self.touched().into_iter()) {
            let to = classifier.verdict(case).to;
            for &number in members.of_case(case) {
                let from = activity.pool_of(number);
                if from != to {
                    let chunk = activity.chunks.id(number);
                    wish(&mut plan, classifier.options.demote, chunk, (from, to));
                }
            }
        }
        for number in activity.standing() {
            if !self.pieces.is_touched(self.case_of(number)) {
                plan.may_yield(activity.chunks.id(number), activity.pool_of(number));
            }
        }
        plan
    }
}

/// The chunks of every case, while moves are planned: 8 B a chunk.
struct Members {
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Members {
    fn of(runs: &ChewRuns) -> Members {
        let mut starts = vec![0_u32; runs.pieces.counts.len() + 1];
        let cases: Vec<u32> = (0..runs.activity.chunks.len()).map(|n| runs.case_of(n)).collect();
        cases.iter().for_each(|&case| starts[case as usize + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut numbers = vec![0; cases.len()];
        for (number, &case) in (0..).zip(&cases) {
            let at = &mut next[case as usize];
            numbers[*at as usize] = number;
            *at += 1;
        }
        Members { starts, numbers }
    }

    fn of_case(&self, case: u32) -> &[u32] {
        let case = case as usize;
        &self.numbers[self.starts[case] as usize..self.starts[case + 1] as usize]
    }
}

impl Placement for ChewRuns {
    #[inline]
    fn observe(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    fn propose(&mut self, _: Nanos, view: &dyn VolumeView, budget: Budget, moves: &mut Vec<Move>) {
        self.look(view);
        self.merge();
        let (peak, chunks) = (self.classifier.options.peak, self.activity.touched());
        let mut status = Status::of(view, &self.activity, chunks, peak);
        let touched = self.touched();
        self.classifier.judge(&self.pieces, &touched, &mut status);
        self.classifier.charge_left(&self.pieces, &touched, &mut status);
        self.split(&mut status);
        self.plan(view).propose(budget, moves);
        self.activity.advance();
    }

    fn explain(&self, chunk: ChunkId) -> Vec<String> {
        let known = |number: &u32| (*number as usize) < self.run_of.len();
        let Some(number) = self.activity.chunks.find(chunk).filter(known) else {
            return Vec::new();
        };
        let mut lines = self.classifier.reasons(self.case_of(number));
        if !lines.is_empty() && self.cut.run > 1 {
            lines.insert(0, self.belongs(number));
        }
        lines
    }

    fn footprint(&self) -> Footprint {
        let runs = self.run_of.capacity() * 4 + self.runs.capacity() * size_of::<Run>();
        let own = self.activity.bytes() + self.numbers.bytes() + self.classifier.bytes();
        Footprint { resident: 0, index: own + (runs + self.pieces.bytes()) as u64 }
    }
}

impl ChewRuns {
    /// The run that a chunk belongs to, in words.
    fn belongs(&self, number: u32) -> String {
        let (run, index) = (self.run_of[number as usize], self.activity.chunks.id(number).index);
        let first = index - index % self.cut.run;
        let last = |first: u32, count: u32| first + (count - 1);
        let whole = last(first, self.cut.run);
        if !self.runs[run as usize].split {
            return format!("it goes with its run, chunks {first} to {whole}");
        }
        let part = first + index % self.cut.run / self.cut.part * self.cut.part;
        let end = last(part, self.cut.part).min(whole);
        format!("its run, chunks {first} to {whole}, is split; it goes with chunks {part} to {end}")
    }
}

#[cfg(test)]
mod tests;
