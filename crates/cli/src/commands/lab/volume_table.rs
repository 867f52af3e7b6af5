//! The results of `lab volume` for people: what was run, a table of policies, one of their pools, a
//! verdict.

use crate::table;
use comfy_table::Table;
use std::fmt::Write;
use thermocline_charts::format::{bytes, count, plain, seconds, share};
use thermocline_sim::machine::{LatencyRow, PoolUse, Run, VolumeReport};
use thermocline_units::text::counted;

/// A column: heading, and how a row fills it.
type Column<T> = (&'static str, fn(&T) -> String);

const RUNS: [Column<Run>; 13] = [
    ("policy", |run| run.policy.clone()),
    ("mean", |run| seconds(run.all.mean_s)),
    ("p50", |run| seconds(run.all.p50_s)),
    ("p99", |run| seconds(run.all.p99_s)),
    ("p99.9", |run| seconds(run.all.p999_s)),
    ("longest", |run| seconds(run.all.max_s)),
    ("p99 while\nmoving", |run| tail(&run.while_moving)),
    ("p99\notherwise", |run| tail(&run.while_still)),
    ("requests\na second", |run| plain(run.iops)),
    ("fastest\npool", |run| share(run.fast_share)),
    ("queue", |run| plain(run.queue_mean)),
    ("moves", |run| count(run.moves_done)),
    ("migrated", |run| bytes(run.migrated_bytes as f64)),
];

/// Columns of pools, with the policy in front.
const POOLS: [Column<PoolUse>; 11] = [
    ("pool", |pool| pool.pool.clone()),
    ("in use", |pool| share(f64::from(pool.chunks_used) / f64::from(pool.chunks_total.max(1)))),
    ("reads", |pool| count(pool.reads.count)),
    ("mean", |pool| mean(&pool.reads)),
    ("p99", |pool| tail(&pool.reads)),
    ("writes", |pool| count(pool.writes.count)),
    ("mean", |pool| mean(&pool.writes)),
    ("p99", |pool| tail(&pool.writes)),
    ("busy", |pool| share(pool.busy_share)),
    ("queue mean\nand max", |pool| format!("{}, {}", plain(pool.queue_mean), pool.queue_max)),
    ("flash written\n(amplified)", |pool| match pool.write_amplification() {
        Some(times) => format!("{} (× {times:.2})", bytes(pool.flash_host_bytes as f64)),
        None => "–".to_string(),
    }),
];

fn mean(latency: &LatencyRow) -> String {
    if latency.count == 0 { "–".to_string() } else { seconds(latency.mean_s) }
}

fn tail(latency: &LatencyRow) -> String {
    if latency.count == 0 { "–".to_string() } else { seconds(latency.p99_s) }
}

/// The report as text.
pub(crate) fn text(report: &VolumeReport) -> String {
    let mut out = String::new();
    write(report, &mut out).expect("a String takes every text");
    out
}

fn write(report: &VolumeReport, out: &mut impl Write) -> std::fmt::Result {
    writeln!(
        out,
        "{} to {} in {}{}; {} touched in chunks of {}, epochs of {}",
        counted(report.requests, "request"),
        counted(report.volumes, "volume"),
        seconds(report.trace_span_s),
        arrivals(report),
        bytes(report.touched_bytes as f64),
        bytes(report.chunk_bytes as f64),
        report.epochs(),
    )?;
    for pool in &report.pools {
        let (size, profile) = (bytes(pool.size_bytes as f64), &pool.profile);
        writeln!(out, "pool {}: {size} on {profile}, {}", pool.pool, pool.about)?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    let runs = table::fitted(&runs(report), &[7, 6, 10, 8, 2, 4, 5]);
    writeln!(out, "\nLatency of reads and writes\n{runs}")?;
    let pools = table::fitted(&pools(report), &[10, 11, 3, 6, 8, 5]);
    writeln!(out, "\nPools\n{pools}")?;
    if report.runs.iter().any(|run| run.pools.iter().any(|pool| pool.cache.is_some())) {
        let caches = table::fitted(&caches(report), &[10, 8, 7, 3, 2]);
        writeln!(out, "\nBlock caches\n{caches}")?;
    }
    if report.runs.iter().any(|run| run.lines.is_some()) {
        writeln!(out, "\nLines of 4 KiB on the fastest pool\n{}", lines(report))?;
    }
    if report.runs.iter().any(|run| !run.tactic_shadows.is_empty()) {
        writeln!(out, "\nShadows of tactics\n{}", tactic_shadows(report))?;
    }
    for run in &report.runs {
        troubles(run, out)?;
    }
    writeln!(out, "{}", verdict(report))
}

fn arrivals(report: &VolumeReport) -> String {
    match (report.closed, report.speed) {
        (Some(outstanding), _) => format!(", run with {outstanding} always under way"),
        (None, Some(speed)) if speed != 1.0 => format!(", run {speed} times as fast"),
        _ => String::new(),
    }
}

fn runs(report: &VolumeReport) -> Table {
    let mut table = table::plain(RUNS.map(|(heading, _)| heading));
    for run in &report.runs {
        table.add_row(RUNS.map(|(_, cell)| cell(run)));
    }
    table::align_numbers(&mut table);
    table
}

fn tactic_shadows(report: &VolumeReport) -> Table {
    let heads = ["policy", "kind", "in force", "shadow", "questions", "answered otherwise"];
    let mut table = table::plain(heads);
    for run in &report.runs {
        for told in &run.tactic_shadows {
            let otherwise = match told.asked {
                0 => "–".to_string(),
                asked => share(told.differed as f64 / asked as f64),
            };
            let cells = [run.policy.clone(), told.kind.to_string(), told.in_force.clone()];
            let counts = [told.shadow.clone(), count(told.asked), otherwise];
            table.add_row(cells.into_iter().chain(counts));
        }
    }
    table::align_numbers(&mut table);
    table
}

fn pools(report: &VolumeReport) -> Table {
    let heads = std::iter::once("policy").chain(POOLS.iter().map(|(heading, _)| *heading));
    let mut table = table::plain(heads);
    for run in &report.runs {
        for (index, pool) in run.pools.iter().enumerate() {
            let policy = if index == 0 { run.policy.clone() } else { String::new() };
            let cells = POOLS.iter().map(|(_, cell)| cell(pool));
            table.add_row(std::iter::once(policy).chain(cells));
        }
    }
    table::align_numbers(&mut table);
    table
}

fn caches(report: &VolumeReport) -> Table {
    let heads = [
        "policy",
        "pool",
        "on",
        "by",
        "of",
        "read hits",
        "written",
        "around",
        "filled",
        "taken back",
        "dirty",
    ];
    let mut table = table::plain(heads);
    for run in &report.runs {
        for pool in &run.pools {
            let Some(cache) = &pool.cache else { continue };
            let size = |value: u64| bytes(value as f64);
            table.add_row([
                run.policy.clone(),
                pool.pool.clone(),
                cache.profile.clone(),
                cache.policy.clone(),
                size(cache.size_bytes),
                cache
                    .hit_ratio
                    .map_or("–".to_string(), |ratio| format!("{:.1} %", ratio * 100.0)),
                size(cache.written_bytes),
                size(cache.written_around_bytes),
                size(cache.filled_bytes),
                size(cache.written_back_bytes),
                size(cache.dirty_bytes),
            ]);
        }
    }
    table::align_numbers(&mut table);
    table
}

fn lines(report: &VolumeReport) -> Table {
    let mut table =
        table::plain(["policy", "lent", "lines", "read hits", "filled", "wrong", "memory"]);
    for run in &report.runs {
        let Some(lines) = &run.lines else { continue };
        let ratio = lines.hit_ratio();
        table.add_row([
            run.policy.clone(),
            bytes((u64::from(lines.slots_lent) * report.chunk_bytes) as f64),
            count(lines.lines),
            ratio.map_or("–".to_string(), |ratio| format!("{:.1} %", ratio * 100.0)),
            bytes(lines.filled_bytes as f64),
            count(lines.wrong),
            bytes(lines.memory_bytes as f64),
        ]);
    }
    table::align_numbers(&mut table);
    table
}

/// Writes what a reader must know before believing the figures of a run.
fn troubles(run: &Run, out: &mut impl Write) -> std::fmt::Result {
    let policy = &run.policy;
    if run.failed > 0 {
        writeln!(
            out,
            "note: {policy}: {} requests failed, and count in no latency",
            count(run.failed)
        )?;
    }
    if run.moves_failed + run.moves_dropped > 0 {
        let (dropped, proposed) = (count(run.moves_dropped), count(run.moves_proposed));
        let failed = count(run.moves_failed);
        writeln!(
            out,
            "note: {policy}: of {proposed} moves proposed {dropped} never began and {failed} failed"
        )?;
    }
    if run.moves_pending > 0 {
        let pending = count(run.moves_pending);
        writeln!(out, "note: {policy}: {pending} moves were not done when the load ended")?;
    }
    if run.waited > 0 {
        let (waited, most) = (count(run.waited), count(run.waited_max));
        writeln!(
            out,
            "note: {policy}: the machine cannot keep up; {waited} requests waited in front of it, up \
             to {most} at once"
        )?;
    }
    Ok(())
}

/// Ratio up to which two 99th percentiles count as equal: each is up to 0.8 % off.
const P99_STEP: f64 = 1.016;

/// Verdict: which policy is best, and against what.
fn verdict(report: &VolumeReport) -> String {
    let by_mean = |a: &&Run, b: &&Run| a.all.mean_s.total_cmp(&b.all.mean_s);
    let best = report.runs.iter().min_by(by_mean);
    let tail = report.runs.iter().min_by(|a, b| a.all.p99_s.total_cmp(&b.all.p99_s));
    let (Some(best), Some(tail)) = (best, tail) else { return String::new() };
    let mut text = format!("Lowest mean latency: {} ({})", best.policy, seconds(best.all.mean_s));
    let base = report.runs.iter().find(|run| run.policy == "static" && run.policy != best.policy);
    if let Some(base) = base.filter(|base| base.all.mean_s > 0.0) {
        let less = 1.0 - best.all.mean_s / base.all.mean_s;
        text += &format!(", {} less than static", share(less));
    }
    // Percentiles come from a histogram, so that nearer ones cannot be told apart.
    let equal = report.runs.iter().filter(|run| run.all.p99_s <= tail.all.p99_s * P99_STEP);
    let equal: Vec<&str> = equal.map(|run| run.policy.as_str()).collect();
    text += &format!(". Lowest p99: {} ({}).", equal.join(", "), seconds(tail.all.p99_s));
    let others = |run: &&Run| !["static", "oracle"].contains(&run.policy.as_str());
    let told =
        report.runs.iter().filter(others).filter_map(|run| {
            Some(format!("{} {}", run.policy, share(report.share_of_gain(run)?)))
        });
    let told: Vec<String> = told.collect();
    match told[..] {
        [] => text,
        _ => text + &format!("\nShare of the possible gain in mean latency: {}.", told.join(", ")),
    }
}
