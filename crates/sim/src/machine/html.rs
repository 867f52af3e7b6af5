//! The report of `lab volume` as a page: time lines, what each pool did, the full table.

use super::results::{LatencyRow, PoolUse, Run, SliceRow, VolumeReport};
use thermocline_charts::format::{Quantity, bytes};
use thermocline_charts::{
    Axis, BarChart, BarSeries, Cell, LineChart, Page, Series, Stacking, Table,
};
use thermocline_units::text::counted;

/// Function that gives a slice's value in a time line.
type OfSlice = fn(&SliceRow) -> f64;

/// A column of a table: heading, kind, value.
type Column<T> = (&'static str, Quantity, fn(&T) -> f64);

const RUN_COLUMNS: [Column<Run>; 15] = [
    ("mean", Quantity::Seconds, |run| run.all.mean_s),
    ("p50", Quantity::Seconds, |run| run.all.p50_s),
    ("p99", Quantity::Seconds, |run| run.all.p99_s),
    ("p99.9", Quantity::Seconds, |run| run.all.p999_s),
    ("longest", Quantity::Seconds, |run| run.all.max_s),
    ("p99 while moving", Quantity::Seconds, |run| run.while_moving.p99_s),
    ("p99 otherwise", Quantity::Seconds, |run| run.while_still.p99_s),
    ("requests/s", Quantity::Count, |run| run.iops),
    ("bytes/s", Quantity::Bytes, |run| run.bytes_per_s),
    ("fastest pool", Quantity::Share, |run| run.fast_share),
    ("queue", Quantity::Plain, |run| run.queue_mean),
    ("moves", Quantity::Count, |run| run.moves_done as f64),
    ("moves failed", Quantity::Count, |run| run.moves_failed as f64),
    ("migrated", Quantity::Bytes, |run| run.migrated_bytes as f64),
    ("journal", Quantity::Bytes, |run| run.journal_bytes as f64),
];

const POOL_COLUMNS: [Column<PoolUse>; 14] = [
    ("reads", Quantity::Count, |pool| pool.reads.count as f64),
    ("read mean", Quantity::Seconds, |pool| pool.reads.mean_s),
    ("read p99", Quantity::Seconds, |pool| pool.reads.p99_s),
    ("writes", Quantity::Count, |pool| pool.writes.count as f64),
    ("write mean", Quantity::Seconds, |pool| pool.writes.mean_s),
    ("write p99", Quantity::Seconds, |pool| pool.writes.p99_s),
    ("bytes read", Quantity::Bytes, |pool| pool.read_bytes as f64),
    ("bytes written", Quantity::Bytes, |pool| pool.written_bytes as f64),
    ("moved in", Quantity::Bytes, |pool| pool.copied_in_bytes as f64),
    ("moved out", Quantity::Bytes, |pool| pool.copied_out_bytes as f64),
    ("busy", Quantity::Share, |pool| pool.busy_share),
    ("queue mean", Quantity::Plain, |pool| pool.queue_mean),
    ("queue max", Quantity::Count, |pool| f64::from(pool.queue_max)),
    ("write amplification", Quantity::Plain, |pool| pool.write_amplification().unwrap_or(f64::NAN)),
];

impl VolumeReport {
    /// The report as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, command: &str) -> String {
        let mut page = Page::new("A tiered volume under this load").lede(self.lede());
        for note in &self.notes {
            page = page.paragraph(&format!("{note}."));
        }
        page = page.section("Latency").chart(&self.latency_bars());
        page = self.time_line(page, "Mean latency", log_seconds(), |slice| slice.mean_s);
        page = self.time_line(page, "99th percentile of the latency", log_seconds(), |s| s.p99_s);
        page = page.section("Placement");
        let share = || Axis::linear("requests", Quantity::Share).between(0.0, 1.0);
        let title = format!("Requests that {} served", self.fastest());
        page = self.time_line(page, &title, share(), |slice| slice.fast_share);
        let migrated = Axis::linear("migrated in a slice", Quantity::Bytes);
        page = self.time_line(page, "Migrated", migrated, |slice| slice.migrated_bytes as f64);
        page = page.chart(&self.served());
        page = page.section("Load");
        let rate = Axis::linear("answers a second", Quantity::Count);
        page = self.time_line(page, "Requests answered", rate, |slice| slice.iops);
        page = page.section("Pools");
        for run in &self.runs {
            page = page.chart(&self.fill(run)).table(&pool_table(run));
        }
        page = page.section("All figures").table(&self.run_table());
        page.made_by(self.version, command).to_html()
    }

    fn fastest(&self) -> &str {
        self.pools.first().map_or("the fastest pool", |pool| pool.pool.as_str())
    }

    fn lede(&self) -> String {
        let pools: Vec<String> = self
            .pools
            .iter()
            .map(|pool| {
                format!("{} ({}, {})", pool.pool, bytes(pool.size_bytes as f64), pool.profile)
            })
            .collect();
        let arrivals = match (self.closed, self.speed) {
            (Some(outstanding), _) => format!("{outstanding} always under way"),
            (None, Some(speed)) if speed != 1.0 => format!("{speed} times as fast as recorded"),
            _ => "at the times of the trace".to_string(),
        };
        format!(
            "{} to {}, {}, over {} in chunks of {}. Pools: {}. Placements decide \
             every {}. Traces: {}.",
            counted(self.requests, "request"),
            counted(self.volumes, "volume"),
            arrivals,
            bytes(self.touched_bytes as f64),
            bytes(self.chunk_bytes as f64),
            pools.join(", "),
            self.epochs(),
            self.traces.join(", "),
        )
    }

    fn latency_bars(&self) -> BarChart {
        let series = |name: &str, of: fn(&LatencyRow) -> f64| BarSeries {
            name: name.to_string(),
            values: self.runs.iter().map(|run| of(&run.all)).collect(),
        };
        BarChart {
            title: "Latency of reads and writes".to_string(),
            note: String::new(),
            y: Axis::linear("latency", Quantity::Seconds),
            group_label: String::new(),
            groups: self.runs.iter().map(|run| run.policy.clone()).collect(),
            series: vec![series("mean", |row| row.mean_s), series("p99", |row| row.p99_s)],
            stacking: Stacking::Beside,
        }
    }

    /// One curve a policy; slices in which nothing was answered have no point.
    fn time_line(&self, page: Page, title: &str, y: Axis, of: OfSlice) -> Page {
        let series = self.runs.iter().map(|run| {
            let answered = whole(&run.slices).iter().filter(|slice| slice.iops > 0.0);
            let points = answered.map(|slice| (middle(slice), of(slice))).collect();
            Series::new(&run.policy, points)
        });
        page.chart(&LineChart {
            title: title.to_string(),
            note: String::new(),
            x: Axis::linear("time", Quantity::Seconds),
            y,
            series: series.collect(),
        })
    }

    fn fill(&self, run: &Run) -> LineChart {
        let series = self.pools.iter().enumerate().map(|(index, pool)| {
            let points = run.slices.iter().map(|slice| (slice.end_s, slice.fill[index])).collect();
            Series::new(&pool.pool, points)
        });
        LineChart {
            title: format!("Chunks on each pool, {}", run.policy),
            note: String::new(),
            x: Axis::linear("time", Quantity::Seconds),
            y: Axis::linear("in use", Quantity::Share).between(0.0, 1.0),
            series: series.collect(),
        }
    }

    /// Bytes that each pool served, a bar a policy.
    fn served(&self) -> BarChart {
        let series = self.pools.iter().enumerate().map(|(index, pool)| BarSeries {
            name: pool.pool.clone(),
            values: self
                .runs
                .iter()
                .map(|run| run.served_bytes().nth(index).unwrap_or(0) as f64)
                .collect(),
        });
        BarChart {
            title: "Bytes that each pool served".to_string(),
            note: "without migrations".to_string(),
            y: Axis::linear("served", Quantity::Bytes),
            group_label: String::new(),
            groups: self.runs.iter().map(|run| run.policy.clone()).collect(),
            series: series.collect(),
            stacking: Stacking::Stacked,
        }
    }

    fn run_table(&self) -> Table {
        let heads = std::iter::once("policy").chain(RUN_COLUMNS.iter().map(|(head, ..)| *head));
        let mut table = Table::new("Reads and writes", heads);
        for run in &self.runs {
            let cells = RUN_COLUMNS.iter().map(|(_, kind, of)| Cell::number(*kind, of(run)));
            table.row(std::iter::once(Cell::text(&run.policy)).chain(cells));
        }
        table
    }
}

/// Without the last slice where it is a remnant: a handful of answers says nothing about a tail.
fn whole(slices: &[SliceRow]) -> &[SliceRow] {
    let width = |slice: &SliceRow| slice.end_s - slice.start_s;
    match slices {
        [rest @ .., before, last] if width(last) < width(before) / 2.0 => &slices[..rest.len() + 1],
        all => all,
    }
}

fn log_seconds() -> Axis {
    Axis::log("latency", Quantity::Seconds)
}

fn middle(slice: &SliceRow) -> f64 {
    (slice.start_s + slice.end_s) / 2.0
}

fn pool_table(run: &Run) -> Table {
    let heads = std::iter::once("pool").chain(POOL_COLUMNS.iter().map(|(head, ..)| *head));
    let mut table = Table::new(format!("Pools under {}", run.policy), heads);
    for pool in &run.pools {
        let cells = POOL_COLUMNS.iter().map(|(_, kind, of)| Cell::number(*kind, of(pool)));
        table.row(std::iter::once(Cell::text(&pool.pool)).chain(cells));
    }
    table
}
