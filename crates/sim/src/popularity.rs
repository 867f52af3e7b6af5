//! Popularity of a trace's addresses over time, working sets, sizes, directions.
//!
//! The sources' Figures 17, 18 and 22 (Tai 2015): accesses to 1 MiB bins over time, and how many
//! bins are accessed in an interval. The volumes of a trace are laid end to end. The map is reduced
//! to at most 200 rows; cells add up, so that nothing is lost but position.

use crate::workload::{Head, Workload};
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, Bar, HeatMap, Histogram, LineChart, Page, Series};
use thermocline_units::{Bytes, ChunkId, LineId, Nanos};

/// Rows of the map at most.
const ROWS_MAX: u64 = 200;
/// Columns aimed at when no interval is given.
const COLUMNS_AIM: u64 = 240;
/// Columns at most.
const COLUMNS_MAX: u64 = 2000;

/// Intervals that people think in, from which one is chosen.
const INTERVALS_S: [f64; 16] = [
    0.001, 0.01, 0.1, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0,
    21600.0, 86400.0,
];

/// One interval of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Column {
    reads: u64,
    writes: u64,
    /// Distinct lines touched.
    lines: u64,
    /// Distinct chunks touched.
    chunks: u64,
}

/// A figure of one interval.
type Figure<'a> = &'a dyn Fn(&Column) -> f64;

/// A trace over address and time.
#[derive(Debug, Clone, PartialEq)]
pub struct Popularity {
    interval: Nanos,
    line: Bytes,
    chunk: Bytes,
    columns: Vec<Column>,
    /// Chunks in a row of the map.
    chunks_per_row: u64,
    /// Accesses, row after row, lowest address first.
    cells: Vec<f64>,
    /// Requests by the power of two at or below their size.
    sizes: [u64; 40],
}

/// An interval that would make too many columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("intervals of {interval} cut {span} into more than {COLUMNS_MAX} columns; use longer ones")]
pub struct TooFine {
    interval: Nanos,
    span: Nanos,
}

impl Popularity {
    /// Counts a workload that is cut into lines and chunks; `interval` is chosen when not given.
    ///
    /// # Errors
    /// When the interval is too short for the trace.
    ///
    /// # Panics
    /// When the workload is not cut into chunks.
    pub fn of(workload: &Workload, interval: Option<Nanos>) -> Result<Popularity, TooFine> {
        let last = workload.blocks.last().and_then(|block| block.heads.last());
        let span = last.map_or(Nanos(0), |head| head.time);
        let interval = interval.unwrap_or_else(|| chosen(span)).max(Nanos(1));
        let columns = span.0 / interval.0 + 1;
        if columns > COLUMNS_MAX {
            return Err(TooFine { interval, span });
        }
        let ground = Ground::of(workload);
        let rows = ground.chunks.div_ceil(ground.chunks_per_row);
        let mut popularity = Popularity {
            interval,
            line: workload.names.line_bytes(),
            chunk: workload.names.chunk_bytes().expect("the caller cuts into chunks"),
            columns: vec![Column::default(); columns as usize],
            chunks_per_row: ground.chunks_per_row,
            cells: vec![0.0; (rows * columns) as usize],
            sizes: [0; 40],
        };
        popularity.count_all(workload, &ground);
        Ok(popularity)
    }

    fn count_all(&mut self, workload: &Workload, ground: &Ground) {
        let mut line_seen = vec![u32::MAX; workload.names.distinct_lines() as usize];
        let mut chunk_seen = vec![u32::MAX; workload.names.distinct_chunks() as usize];
        for block in &workload.blocks {
            let chunks = block.chunks.as_ref().expect("the caller cuts into chunks");
            for (i, head) in block.heads.iter().enumerate().filter(|(_, head)| !head.discard) {
                let column = (head.time.0 / self.interval.0) as u32;
                self.count(head, column);
                for line in &block.lines.ids[block.lines.of(i)] {
                    let new = std::mem::replace(&mut line_seen[line.index()], column) != column;
                    self.columns[column as usize].lines += u64::from(new);
                }
                for chunk in &chunks.ids[chunks.of(i)] {
                    let new = std::mem::replace(&mut chunk_seen[chunk.index()], column) != column;
                    self.columns[column as usize].chunks += u64::from(new);
                    let row = ground.rows[chunk.index()] as usize;
                    self.cells[row * self.columns.len() + column as usize] += 1.0;
                }
            }
        }
    }

    fn count(&mut self, head: &Head, column: u32) {
        let column = &mut self.columns[column as usize];
        *(if head.tag.is_write() { &mut column.writes } else { &mut column.reads }) += 1;
        self.sizes[head.length.max(1).ilog2() as usize] += 1;
    }

    /// The map of popularity.
    pub fn map(&self) -> HeatMap {
        HeatMap {
            title: "Popularity over address and time".to_string(),
            note: format!("accesses to chunks of {} in intervals of {}", self.chunk, self.interval),
            x: self.time(),
            y: Axis::linear("address, volumes end to end", Quantity::Bytes),
            colour: Axis::log("accesses", Quantity::Count),
            cell_width: self.interval.as_secs_f64(),
            cell_height: (self.chunks_per_row * self.chunk.0) as f64,
            columns: self.columns.len(),
            cells: self.cells.clone(),
        }
    }

    /// All pictures on one self-contained page.
    pub fn to_html(&self, traces: &str, version: &str, command: &str) -> String {
        let lines = |column: &Column| column.lines as f64 * self.line.0 as f64;
        let chunks = |column: &Column| column.chunks as f64;
        let working_set = self.over_time(
            "Working set of each interval",
            Axis::linear("distinct data", Quantity::Bytes),
            vec![("working set", &lines)],
        );
        let accessed = self.over_time(
            "Chunks accessed in each interval",
            Axis::linear("chunks", Quantity::Count),
            vec![("chunks", &chunks)],
        );
        let seconds = self.interval.as_secs_f64();
        let reads = |column: &Column| column.reads as f64 / seconds;
        let writes = |column: &Column| column.writes as f64 / seconds;
        let rates = self.over_time(
            "Requests a second",
            Axis::linear("requests/s", Quantity::Count),
            vec![("reads", &reads), ("writes", &writes)],
        );
        Page::new("Where and when the trace goes")
            .lede(format!("{traces}; intervals of {}", self.interval))
            .chart(&self.map())
            .chart(&working_set)
            .chart(&accessed)
            .chart(&rates)
            .chart(&self.size_histogram())
            .made_by(version, command)
            .to_html()
    }

    /// The time axis that all panels share.
    fn time(&self) -> Axis {
        let columns = self.columns.len();
        let end = self.interval.as_secs_f64() * columns as f64;
        Axis::linear("time", Quantity::Seconds).between(0.0, end).shared_by(columns)
    }

    fn over_time(&self, title: &str, y: Axis, series: Vec<(&str, Figure<'_>)>) -> LineChart {
        let seconds = self.interval.as_secs_f64();
        let points = |of: Figure<'_>| {
            // In the middle of its interval; where nothing was asked there is nothing to show.
            let point = |(i, column): (usize, &Column)| {
                let idle = column.reads + column.writes == 0;
                ((i as f64 + 0.5) * seconds, if idle { f64::NAN } else { of(column) })
            };
            self.columns.iter().enumerate().map(point).collect()
        };
        LineChart {
            title: title.to_string(),
            note: String::new(),
            x: self.time(),
            y,
            series: series.into_iter().map(|(name, of)| Series::new(name, points(of))).collect(),
        }
    }

    fn size_histogram(&self) -> Histogram {
        let used = self.sizes.iter().enumerate().filter(|(_, count)| **count > 0);
        let bar = |(i, count): (usize, &u64)| Bar {
            from: (i as f64).exp2(),
            to: (i as f64 + 1.0).exp2(),
            height: *count as f64,
        };
        Histogram {
            title: "Sizes of requests".to_string(),
            note: "from each power of two to below the next".to_string(),
            x: Axis::log("size", Quantity::Bytes),
            y: Axis::linear("requests", Quantity::Count),
            bars: used.map(bar).collect(),
        }
    }
}

/// Volumes laid end to end, and cut into rows.
struct Ground {
    /// Chunks of all volumes.
    chunks: u64,
    chunks_per_row: u64,
    /// The row of each chunk, by number.
    rows: Vec<u32>,
}

impl Ground {
    fn of(workload: &Workload) -> Ground {
        let names = &workload.names;
        let all = || (0..names.distinct_chunks()).map(|id| names.chunk(LineId(id)));
        let mut ends = vec![0_u64; names.volumes.len()];
        for chunk in all() {
            let end = &mut ends[chunk.volume.0 as usize];
            *end = (*end).max(u64::from(chunk.index) + 1);
        }
        let mut starts = Vec::with_capacity(ends.len());
        let mut total = 0;
        for end in ends {
            starts.push(total);
            total += end;
        }
        let chunks = total.max(1);
        let chunks_per_row = chunks.div_ceil(ROWS_MAX);
        let row = |chunk: ChunkId| {
            let at = starts[chunk.volume.0 as usize] + u64::from(chunk.index);
            (at / chunks_per_row) as u32
        };
        Ground { chunks, chunks_per_row, rows: all().map(row).collect() }
    }
}

/// The interval people think in that gives about [`COLUMNS_AIM`] columns.
fn chosen(span: Nanos) -> Nanos {
    let wanted = span.as_secs_f64() / COLUMNS_AIM as f64;
    let longest = INTERVALS_S[INTERVALS_S.len() - 1];
    let seconds = INTERVALS_S.into_iter().find(|seconds| *seconds >= wanted);
    Nanos((seconds.unwrap_or(longest.max(wanted)) * 1e9) as u64)
}

#[cfg(test)]
mod tests;
