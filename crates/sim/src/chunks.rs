//! Characters of the chunks of a trace, window by window: the source's Tables 3.1, 3.2 and 3.4 and
//! Figures 3.1, 3.2 and 3.8 to 3.11 (Ge 2017 ch. 3) for any trace, chunk size and window.
//!
//! 1. Reads and writes are cut at chunks and told to ChewAnalyzer's own eyes
//!    ([`thermocline_policy::placement::chew::analysis`]); nothing is classified here.
//! 2. At each window's end the chunks accessed are counted by class and by the library's rules.
//!
//! A trace is read once, as a stream. State: 62 B a chunk accessed, and a row a window.

use crate::source::each_batch;
use serde::Serialize;
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, LineChart, Page, Series};
use thermocline_policy::placement::ChunkAccess;
use thermocline_policy::placement::chew::analysis::{Analyzer, ChunkWindow, Mix, Order, Writing};
use thermocline_policy::placement::chew::library::{Library, LibraryError};
use thermocline_trace::{Op, Request, TraceError, TraceReader};
use thermocline_units::{Bytes, ChunkId, Nanos};

/// Windows of a trace at most.
pub(crate) const WINDOWS_MAX: u64 = 1 << 20;
/// Chunks at most, by their number in a volume.
const CHUNKS_MAX: u64 = 1 << 32;

/// A report that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A size or a length is none.
    #[error("{0}")]
    Options(String),
}

/// Options for cutting a trace.
#[derive(Debug, Clone)]
pub struct ChunkOptions {
    /// Bytes of a chunk: a power of two from 4 KiB to 64 GiB.
    pub chunk: Bytes,
    /// Length of a window, above 0.
    pub window: Nanos,
    /// Library whose rules are counted.
    pub library: Library,
}

impl ChunkOptions {
    fn check(&self) -> Result<(), ChunkError> {
        let (chunk, sizes) = (self.chunk, Bytes::from_kib(4)..=Bytes::from_gib(64));
        if !chunk.0.is_power_of_two() || !sizes.contains(&chunk) {
            let problem = format!("chunks of {chunk}: use a power of two from 4KiB to 64GiB");
            return Err(ChunkError::Options(problem));
        }
        if self.window.0 == 0 {
            let problem = "a window of 0 s: a window lasts some time, 20m for example";
            return Err(ChunkError::Options(problem.to_string()));
        }
        Ok(())
    }
}

/// A chunk in a window, for whoever wants each of them.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Counted from 0.
    pub window: u64,
    /// Characters of the chunk.
    pub chunk: &'a ChunkWindow,
}

/// The chunks of one window, or the sum over all windows.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct WindowRow {
    /// Counted from 0.
    pub window: u64,
    /// Time of its beginning, in seconds from the first request.
    pub at_s: f64,
    /// Reads, counted once a chunk.
    pub reads: u64,
    /// Writes, counted once a chunk.
    pub writes: u64,
    /// Chunks accessed.
    pub accessed: u64,
    /// Rule 1: with two accesses or more.
    pub active: u64,
    /// Rules 2 and 3.
    pub sequential: u64,
    /// Rule 3.
    pub random_read: u64,
    /// Rule 3.
    pub random_write: u64,
    /// Rule 4.
    pub sequential_write: u64,
    /// Rule 4.
    pub fully_random_write: u64,
    /// Rule 4.
    pub overwritten: u64,
    /// Chunks by level and rule of the library.
    pub patterns: Vec<Vec<u64>>,
}

impl WindowRow {
    fn new(library: &Library, window: u64, at_s: f64) -> WindowRow {
        let patterns = library.levels.iter().map(|level| vec![0; level.rules.len()]).collect();
        WindowRow { window, at_s, patterns, ..WindowRow::default() }
    }

    /// A count as a share of the chunks accessed; 0 where there are none.
    pub fn share(&self, count: u64) -> f64 {
        if self.accessed > 0 { count as f64 / self.accessed as f64 } else { 0.0 }
    }

    fn take(&mut self, chunk: &ChunkWindow) {
        self.reads += chunk.reads;
        self.writes += chunk.writes;
        self.accessed += 1;
        self.active += u64::from(chunk.is_active());
        self.sequential += u64::from(chunk.order() == Order::Sequential);
        self.random_read += u64::from(chunk.mix() == Mix::RandomRead);
        self.random_write += u64::from(chunk.mix() == Mix::RandomWrite);
        match chunk.writing() {
            Some(Writing::Sequential) => self.sequential_write += 1,
            Some(Writing::FullyRandom) => self.fully_random_write += 1,
            Some(Writing::Overwritten) => self.overwritten += 1,
            None => {}
        }
        for (level, rules) in self.patterns.iter_mut().enumerate() {
            rules[chunk.rule(level)] += 1;
        }
    }

    fn add(&mut self, row: &WindowRow) {
        for (sum, more) in [
            (&mut self.reads, row.reads),
            (&mut self.writes, row.writes),
            (&mut self.accessed, row.accessed),
            (&mut self.active, row.active),
            (&mut self.sequential, row.sequential),
            (&mut self.random_read, row.random_read),
            (&mut self.random_write, row.random_write),
            (&mut self.sequential_write, row.sequential_write),
            (&mut self.fully_random_write, row.fully_random_write),
            (&mut self.overwritten, row.overwritten),
        ] {
            *sum += more;
        }
        let sums = self.patterns.iter_mut().flatten();
        sums.zip(row.patterns.iter().flatten()).for_each(|(sum, more)| *sum += more);
    }
}

/// Chunks, once a window, by how often they were accessed in it (Figure 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Frequency {
    /// Accesses in a window, at least.
    pub from: u64,
    /// And at most.
    pub to: u64,
    /// Number of chunks, once a window; without accesses: those of all volumes up to the last chunk
    /// accessed.
    pub chunks: u64,
    /// The accesses to them.
    pub accesses: u64,
}

/// Findings about the chunks of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChunkReport {
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Seconds of a window.
    pub window_s: f64,
    /// The library's name.
    pub library: String,
    /// Names of its levels, each with those of its patterns.
    pub levels: Vec<(String, Vec<String>)>,
    /// Chunks of all volumes, up to the last one accessed in each.
    pub chunks: u64,
    /// Every window up to the last with an access.
    pub windows: Vec<WindowRow>,
    /// The sum of all.
    pub total: WindowRow,
    /// 0 accesses, 1, 2 to 3, 4 to 7, …
    pub frequencies: Vec<Frequency>,
}

/// A line of a chart: chunks by window.
struct Line {
    name: String,
    counts: Vec<u64>,
}

/// A report being made.
struct Maker<'a> {
    options: &'a ChunkOptions,
    analyzer: Analyzer,
    /// Time of the first request.
    start: Option<Nanos>,
    /// The window under way.
    window: u64,
    rows: Vec<WindowRow>,
    /// Chunks and accesses by power of two.
    frequencies: [(u64, u64); 64],
    /// Ends of volumes, one past the last chunk.
    ends: Vec<u64>,
}

impl ChunkReport {
    /// Reads a trace to its end; `each` is shown every chunk in every window in which it was
    /// accessed, `progress` is told bytes of input.
    ///
    /// # Errors
    /// When the trace cannot be read, or an option is out of its range.
    pub fn read(
        reader: &mut dyn TraceReader,
        options: &ChunkOptions,
        each: &mut dyn FnMut(Seen<'_>),
        progress: &dyn Fn(u64),
    ) -> Result<ChunkReport, ChunkError> {
        options.check()?;
        let analyzer = Analyzer::new(options.library.clone(), options.chunk)?;
        let mut maker = Maker {
            options,
            analyzer,
            start: None,
            window: 0,
            rows: Vec::new(),
            frequencies: [(0, 0); 64],
            ends: Vec::new(),
        };
        each_batch(reader, |requests, reader| {
            requests.iter().try_for_each(|request| maker.take(request, each))?;
            progress(reader.bytes_read());
            Ok::<(), ChunkError>(())
        })?;
        Ok(maker.finish(each))
    }

    /// Shares of classes and of the last level's patterns over the windows.
    pub fn charts(&self) -> Vec<LineChart> {
        let line = |name: &str, count: &dyn Fn(&WindowRow) -> u64| Line {
            name: name.to_string(),
            counts: self.windows.iter().map(count).collect(),
        };
        let (last, patterns) = self.levels.last().expect("a library has levels");
        let level = self.levels.len() - 1;
        let pattern = |(rule, name): (usize, &String)| line(name, &|row| row.patterns[level][rule]);
        let orders = [
            line("sequential", &|row| row.sequential),
            line("random read", &|row| row.random_read),
            line("random write", &|row| row.random_write),
        ];
        let writings = [
            line("sequential write", &|row| row.sequential_write),
            line("fully random write", &|row| row.fully_random_write),
            line("overwritten", &|row| row.overwritten),
        ];
        let patterns: Vec<Line> = patterns.iter().enumerate().map(pattern).collect();
        vec![
            self.chart("Taxonomy rule 3", &orders),
            self.chart("Taxonomy rule 4", &writings),
            self.chart(&format!("{}, {last}", self.library), &patterns),
        ]
    }

    fn chart(&self, title: &str, lines: &[Line]) -> LineChart {
        let series = lines.iter().map(|Line { name, counts }| {
            let points = self.windows.iter().zip(counts);
            Series::new(name, points.map(|(row, &count)| (row.at_s, row.share(count))).collect())
        });
        LineChart {
            title: format!("{title}: share of the chunks accessed"),
            note: format!("chunks of {}", Bytes(self.chunk_bytes)),
            x: Axis::linear("time", Quantity::Seconds),
            y: Axis::linear("share of chunks", Quantity::Share).between(0.0, 1.0),
            series: series.collect(),
        }
    }

    /// The charts on a page of their own; `traces` says what of, `version` and `command`
    /// how it was made.
    pub fn to_html(&self, traces: &str, version: &str, command: &str) -> String {
        let mut page = Page::new(format!("Chunks of {traces}")).section("Patterns by window");
        for chart in self.charts() {
            page = page.chart(&chart);
        }
        page.made_by(version, command).to_html()
    }
}

impl Maker<'_> {
    fn take(
        &mut self,
        request: &Request,
        each: &mut dyn FnMut(Seen<'_>),
    ) -> Result<(), ChunkError> {
        if !matches!(request.op, Op::Read | Op::Write) || request.length.0 == 0 {
            return Ok(());
        }
        let start = *self.start.get_or_insert(request.time);
        let window = request.time.saturating_sub(start).0 / self.options.window.0;
        if window >= WINDOWS_MAX {
            let length = self.options.window;
            return Err(ChunkError::Options(format!(
                "windows of {length} cut the trace into more than {WINDOWS_MAX}; use longer ones"
            )));
        }
        while self.window < window {
            self.end_window(each);
        }
        let chunk = self.options.chunk.0;
        let end = request.offset.0.saturating_add(request.length.0);
        let last = (end - 1) / chunk;
        if last >= CHUNKS_MAX {
            let problem = "a request lies beyond the last chunk that is counted; use larger ones";
            return Err(ChunkError::Options(problem.to_string()));
        }
        let volume = request.volume.0 as usize;
        if self.ends.len() <= volume {
            self.ends.resize(volume + 1, 0);
        }
        self.ends[volume] = self.ends[volume].max(last + 1);
        for index in request.offset.0 / chunk..=last {
            let first = request.offset.0.max(index * chunk);
            let bytes = end.min((index + 1).saturating_mul(chunk)) - first;
            self.analyzer.observe(&ChunkAccess {
                at: request.time,
                chunk: ChunkId { volume: request.volume, index: index as u32 },
                offset: Bytes(first - index * chunk),
                bytes: Bytes(bytes),
                write: request.op == Op::Write,
            });
        }
        Ok(())
    }

    fn end_window(&mut self, each: &mut dyn FnMut(Seen<'_>)) {
        let (window, length) = (self.window, self.options.window);
        let at_s = window as f64 * length.as_secs_f64();
        let mut row = WindowRow::new(&self.options.library, window, at_s);
        let frequencies = &mut self.frequencies;
        self.analyzer.end_window(length, &mut |chunk| {
            row.take(chunk);
            let accesses = chunk.reads + chunk.writes;
            let (chunks, sum) = &mut frequencies[accesses.ilog2() as usize];
            (*chunks, *sum) = (*chunks + 1, *sum + accesses);
            each(Seen { window, chunk });
        });
        self.rows.push(row);
        self.window += 1;
    }

    fn finish(mut self, each: &mut dyn FnMut(Seen<'_>)) -> ChunkReport {
        if self.start.is_some() {
            self.end_window(each);
        }
        let ChunkOptions { chunk, window, library } = self.options;
        let mut total = WindowRow::new(library, 0, 0.0);
        self.rows.iter().for_each(|row| total.add(row));
        let chunks: u64 = self.ends.iter().sum();
        let idle = chunks * self.rows.len() as u64 - total.accessed;
        let mut frequencies = vec![Frequency { from: 0, to: 0, chunks: idle, accesses: 0 }];
        let found = self.frequencies.iter().rposition(|(chunks, _)| *chunks > 0);
        for (bits, &(chunks, accesses)) in self.frequencies.iter().enumerate() {
            if found.is_some_and(|last| bits <= last) {
                let from = 1_u64 << bits;
                frequencies.push(Frequency { from, to: from + (from - 1), chunks, accesses });
            }
        }
        let patterns = |rules: &[thermocline_policy::placement::chew::library::Rule]| {
            rules.iter().map(|rule| rule.pattern.clone()).collect()
        };
        let levels = library.levels.iter();
        ChunkReport {
            chunk_bytes: chunk.0,
            window_s: window.as_secs_f64(),
            library: library.name.clone(),
            levels: levels.map(|level| (level.name.clone(), patterns(&level.rules))).collect(),
            chunks,
            windows: self.rows,
            total,
            frequencies,
        }
    }
}

#[cfg(test)]
mod tests;
