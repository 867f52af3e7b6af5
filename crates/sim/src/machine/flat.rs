//! Runs as CSV: a line a policy and pool, with the whole run's figures repeated in each.

use super::results::{LatencyRow, PoolUse, Run, VolumeReport};
use crate::table::Table;
use std::fmt::Write;

/// A column: its name, and its value.
type Column<T> = (&'static str, fn(&T) -> f64);

const OF_RUN: [Column<Run>; 22] = [
    ("span_s", |run| run.span_s),
    ("requests", |run| run.requests as f64),
    ("failed", |run| run.failed as f64),
    ("iops", |run| run.iops),
    ("bytes_per_s", |run| run.bytes_per_s),
    ("fast_share", |run| run.fast_share),
    ("queue_mean", |run| run.queue_mean),
    ("queue_max", |run| run.queue_max as f64),
    ("waited", |run| run.waited as f64),
    ("moves_proposed", |run| run.moves_proposed as f64),
    ("moves_dropped", |run| run.moves_dropped as f64),
    ("moves_done", |run| run.moves_done as f64),
    ("moves_failed", |run| run.moves_failed as f64),
    ("moves_cancelled", |run| run.moves_cancelled as f64),
    ("moves_pending", |run| run.moves_pending as f64),
    ("migrated_bytes", |run| run.migrated_bytes as f64),
    ("journal_bytes", |run| run.journal_bytes as f64),
    ("map_memory_bytes", |run| run.map_memory_bytes as f64),
    ("reads_of_nothing", |run| run.reads_of_nothing as f64),
    ("cpu_s", |run| run.cpu_s),
    ("requests_per_cpu_s", |run| run.requests_per_cpu_s),
    ("while_moving_p99_s", |run| run.while_moving.p99_s),
];

const OF_POOL: [Column<PoolUse>; 13] = [
    ("pool_chunks_total", |pool| f64::from(pool.chunks_total)),
    ("pool_chunks_used", |pool| f64::from(pool.chunks_used)),
    ("pool_read_bytes", |pool| pool.read_bytes as f64),
    ("pool_written_bytes", |pool| pool.written_bytes as f64),
    ("pool_copied_in_bytes", |pool| pool.copied_in_bytes as f64),
    ("pool_copied_out_bytes", |pool| pool.copied_out_bytes as f64),
    ("pool_metadata_bytes", |pool| pool.metadata_bytes as f64),
    ("pool_busy_share", |pool| pool.busy_share),
    ("pool_queue_mean", |pool| pool.queue_mean),
    ("pool_queue_max", |pool| f64::from(pool.queue_max)),
    ("pool_flash_host_bytes", |pool| pool.flash_host_bytes as f64),
    ("pool_flash_programmed_bytes", |pool| pool.flash_programmed_bytes as f64),
    ("pool_write_amplification", |pool| pool.write_amplification().unwrap_or(1.0)),
];

const OF_LATENCY: [Column<LatencyRow>; 6] = [
    ("count", |row| row.count as f64),
    ("mean_s", |row| row.mean_s),
    ("p50_s", |row| row.p50_s),
    ("p99_s", |row| row.p99_s),
    ("p999_s", |row| row.p999_s),
    ("max_s", |row| row.max_s),
];

/// Latencies that get columns of their own: prefix, and where they are.
type Latency<T> = (&'static str, fn(&T) -> &LatencyRow);

const LATENCIES: [Latency<Run>; 5] = [
    ("all", |run| &run.all),
    ("reads", |run| &run.reads),
    ("writes", |run| &run.writes),
    ("flushes", |run| &run.flushes),
    ("discards", |run| &run.discards),
];

const POOL_LATENCIES: [Latency<PoolUse>; 2] =
    [("pool_reads", |pool| &pool.reads), ("pool_writes", |pool| &pool.writes)];

impl VolumeReport {
    /// The runs as CSV with a header.
    pub fn to_csv(&self) -> String {
        let mut out = String::from("policy,pool");
        let mut head = |name: &str| write!(out, ",{name}").expect("a String takes every text");
        OF_RUN.iter().for_each(|(name, _)| head(name));
        let parts = LATENCIES.iter().map(|(prefix, _)| prefix);
        for prefix in parts.chain(POOL_LATENCIES.iter().map(|(prefix, _)| prefix)) {
            OF_LATENCY.iter().for_each(|(name, _)| head(&format!("{prefix}_{name}")));
        }
        OF_POOL.iter().for_each(|(name, _)| head(name));
        out.push('\n');
        for run in &self.runs {
            for pool in &run.pools {
                line(run, pool, &mut out);
            }
        }
        out
    }
}

impl VolumeReport {
    /// The runs as columns, by the names of the CSV: a row a policy and pool.
    pub fn to_table(&self) -> Table {
        let rows: Vec<(&Run, &PoolUse)> = self
            .runs
            .iter()
            .flat_map(|run| run.pools.iter().map(move |pool| (run, pool)))
            .collect();
        let mut table = Table::default();
        table.text("policy", &rows, |(run, _)| run.policy.clone());
        table.text("pool", &rows, |(_, pool)| pool.pool.clone());
        for (name, of) in OF_RUN {
            table.number(name, &rows, |(run, _)| Some(of(run)));
        }
        for (prefix, part) in LATENCIES {
            for (name, of) in OF_LATENCY {
                let name = format!("{prefix}_{name}");
                table.number(&name, &rows, |(run, _)| Some(of(part(run))));
            }
        }
        for (prefix, part) in POOL_LATENCIES {
            for (name, of) in OF_LATENCY {
                let name = format!("{prefix}_{name}");
                table.number(&name, &rows, |(_, pool)| Some(of(part(pool))));
            }
        }
        for (name, of) in OF_POOL {
            table.number(name, &rows, |(_, pool)| Some(of(pool)));
        }
        table
    }
}

fn line(run: &Run, pool: &PoolUse, out: &mut String) {
    let mut cells = vec![quoted(&run.policy), quoted(&pool.pool)];
    cells.extend(OF_RUN.iter().map(|(_, of)| of(run).to_string()));
    let of_run = LATENCIES.iter().map(|(_, of)| of(run));
    for row in of_run.chain(POOL_LATENCIES.iter().map(|(_, of)| of(pool))) {
        cells.extend(OF_LATENCY.iter().map(|(_, of)| of(row).to_string()));
    }
    cells.extend(OF_POOL.iter().map(|(_, of)| of(pool).to_string()));
    out.push_str(&cells.join(","));
    out.push('\n');
}

/// A cell that may hold commas or quotes.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
