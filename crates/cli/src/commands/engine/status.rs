//! `thermocline status`: a running engine at a glance.

use super::{EngineArgs, micros, scrub, shadow, span, volume};
use crate::error::CliError;
use crate::listeners::moment;
use crate::table;
use std::fmt::Write;
use thermocline_admin::api::{Event, Severity};
use thermocline_engine::api::{Lines, Moves, MovesDropped, Parts, Pool, Status};
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted};

const EXAMPLES: &str = "\
Examples:
  thermocline status
  thermocline status --data /mnt/pools --json | jq '.pools[].state'";

/// The engine at a glance.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let status: Status = client.get("/v1/status")?;
    let events: Vec<Event> = client.get("/v1/events")?;
    args.engine.answer(&status, |status| text(status, &events))
}

/// A line for each shadow of a tactic.
fn tactic_shadows(status: &Status, out: &mut String) {
    for tactic in &status.tactics {
        for shadow in &tactic.shadows {
            let _ = writeln!(
                out,
                "tactic {} ({}): its shadow {} would have answered {} of {} questions otherwise",
                tactic.tactic, tactic.kind, shadow.tactic, shadow.differed, shadow.asked
            );
        }
    }
}

fn text(status: &Status, events: &[Event]) -> String {
    let mut out = format!(
        "{}, up {}, {}, {} under way\n",
        status.service,
        span(status.uptime_seconds),
        counted(status.connections, "client"),
        counted(status.in_flight, "request")
    );
    let epoch = match status.policy.spec.as_str() {
        "none" => String::new(),
        _ => format!(", asked every {}", span(status.epoch_seconds)),
    };
    let _ = write!(
        out,
        "policy {}{epoch}; {} to go",
        status.policy.spec,
        counted(status.operations_pending, "move")
    );
    let MovesDropped { expired, slower, worn } = status.moves_dropped;
    if expired + slower > 0 {
        let _ = write!(out, ", {expired} given up at their deadline, {slower} after a trial");
    }
    if worn > 0 {
        let _ = write!(out, ", {worn} dropped for their pool's moves-a-day");
    }
    out.push('\n');
    if let Some(moves) = &status.moves {
        out.push_str(&moves_line(moves, &status.pools));
    }
    let Parts { chunks, most, diverted_reads, diverted_writes } = status.parts;
    if chunks > 0 {
        let _ = write!(out, "{chunks} of at most {most} chunks are mirrored or redirected");
        if let (Some(reads), Some(writes)) = (diverted_reads, diverted_writes) {
            let (reads, writes) = (reads * 100.0, writes * 100.0);
            let _ = write!(
                out,
                "; the slower side answers {reads:.0} % of reads and {writes:.0} % of writes"
            );
        }
        out.push('\n');
    }
    out.push_str(&lines(&status.lines, status.chunk_bytes));
    if let Some(share) = status.fastest_pool_share {
        let _ = writeln!(out, "the fastest pool served {:.0} % of what was read", share * 100.0);
    }
    for volume in &status.volumes {
        let _ = writeln!(out, "volume {}", volume::line(volume));
    }
    out.push('\n');
    out.push_str(&pools(status.chunk_bytes, &status.pools));
    let found = &status.scrub;
    if found.state == "running" || found.checksum_errors + found.undecided_blocks > 0 {
        let _ = write!(out, "\n{}", scrub::text(found));
    }
    tactic_shadows(status, &mut out);
    if !status.shadows.is_empty() {
        let _ = write!(out, "\n{}", shadow::text(&status.shadows));
    }
    let troubles: Vec<&Event> =
        events.iter().filter(|event| event.severity != Severity::Info).collect();
    if !troubles.is_empty() {
        out.push_str("\nlast warnings, which may be over:\n");
    }
    for event in troubles.iter().rev().take(5).rev() {
        let _ = writeln!(out, "{} {}: {}", moment(event.at_ms), event.subject, event.text);
    }
    out
}

/// Line about lines of 4 KiB; nothing where there are none.
fn lines(lines: &Lines, chunk_bytes: u64) -> String {
    if lines.slots_lent + lines.hits == 0 {
        return String::new();
    }
    let lent = Bytes(lines.slots_lent * chunk_bytes);
    let reads = lines.hits + lines.misses;
    let ratio = lines.hits as f64 * 100.0 / reads.max(1) as f64;
    format!(
        "{lent} of the fastest pool hold {} single blocks; they answered {ratio:.0} % of {reads} \
         short reads of slower pools\n",
        lines.lines
    )
}

/// Line about the policy's moves, running or last.
fn moves_line(moves: &Moves, pools: &[Pool]) -> String {
    let name = |id: u16| pools.iter().find(|pool| pool.id == id).map_or("?", |pool| &pool.name);
    let flows = moves.flows.iter().map(|flow| {
        let (moved, planned) = (Bytes(flow.moved_bytes), Bytes(flow.planned_bytes));
        format!("{moved} of {planned} from {} to {}", name(flow.from), name(flow.to))
    });
    let flows = flows.collect::<Vec<_>>().join(", ");
    let (verb, time) = (if moves.over { "moved" } else { "moves" }, span(moves.seconds));
    format!("{} {verb} {flows} in {time}\n", moves.policy)
}

/// A line a pool; those that were removed are left out.
pub(super) fn pools(chunk_bytes: u64, pools: &[Pool]) -> String {
    let mut table = table::plain([
        "pool",
        "state",
        "used",
        "of",
        "reads",
        "writes",
        "read p50",
        "p99",
        "write p50",
        "p99",
        "errors",
    ]);
    for pool in pools.iter().filter(|pool| !pool.is_removed()) {
        table.add_row([
            pool.name.clone(),
            pool.state.clone(),
            Bytes(pool.chunks_used * chunk_bytes).to_string(),
            Bytes(pool.chunks_total * chunk_bytes).to_string(),
            count(pool.counters.reads),
            count(pool.counters.writes),
            micros(pool.read_latency.p50_us),
            micros(pool.read_latency.p99_us),
            micros(pool.write_latency.p50_us),
            micros(pool.write_latency.p99_us),
            count(pool.counters.errors),
        ]);
    }
    table::align_numbers(&mut table);
    // Counts first, then the 99th percentiles.
    let table = table::fitted(&table, &[4, 5, 9, 7, 10]);
    format!("{table}\n{}{}{}", bare(pools), caches(pools), buckets(pools))
}

/// Line about pools that have no block checksums; nothing when there are none.
fn bare(pools: &[Pool]) -> String {
    let bare = pools.iter().filter(|pool| !pool.is_removed() && !pool.checksums);
    let bare: Vec<&str> = bare.map(|pool| pool.name.as_str()).collect();
    match bare.is_empty() {
        true => String::new(),
        false => format!("no block checksums on {}\n", bare.join(", ")),
    }
}

/// A line a bucket; nothing when there is none.
fn buckets(pools: &[Pool]) -> String {
    let mut table = table::plain([
        "bucket of",
        "objects",
        "stored",
        "unsent",
        "puts",
        "gets",
        "deletes",
        "failed",
        "sent",
        "received",
        "cost",
        "a month",
    ]);
    let price = |price: Option<f64>| price.map_or("–".to_string(), |price| format!("{price:.2}"));
    let mut errors = String::new();
    for pool in pools {
        let Some(bucket) = &pool.bucket else { continue };
        table.add_row([
            pool.name.clone(),
            count(bucket.objects),
            Bytes(bucket.stored_bytes).to_string(),
            Bytes(bucket.unsent_bytes).to_string(),
            count(bucket.puts + bucket.lists),
            count(bucket.gets),
            count(bucket.deletes),
            count(bucket.failed),
            Bytes(bucket.sent_bytes).to_string(),
            Bytes(bucket.received_bytes).to_string(),
            price(bucket.cost),
            price(bucket.cost_month),
        ]);
        if let Some(error) = &bucket.last_error {
            let _ = writeln!(errors, "{}: {error}", pool.name);
        }
    }
    if table.row_count() == 0 {
        return String::new();
    }
    table::align_numbers(&mut table);
    format!("\n{}\n{errors}", table::fitted(&table, &[6, 5, 4, 9, 8, 3]))
}

/// A line a block cache; nothing when there is none.
fn caches(pools: &[Pool]) -> String {
    let mut table = table::plain([
        "cache of",
        "policy",
        "used",
        "of",
        "dirty",
        "read hits",
        "written",
        "around",
        "filled",
        "taken back",
    ]);
    let cached = pools.iter().filter_map(|pool| Some((pool, pool.cache.as_ref()?)));
    for (pool, cache) in cached {
        table.add_row([
            pool.name.clone(),
            cache.policy.clone(),
            Bytes(cache.cached_bytes).to_string(),
            Bytes(cache.size_bytes).to_string(),
            Bytes(cache.dirty_bytes).to_string(),
            cache.hit_ratio.map_or("–".to_string(), |ratio| format!("{:.1} %", ratio * 100.0)),
            Bytes(cache.written_bytes).to_string(),
            Bytes(cache.written_around_bytes).to_string(),
            Bytes(cache.filled_bytes).to_string(),
            Bytes(cache.written_back_bytes).to_string(),
        ]);
    }
    if table.row_count() == 0 {
        return String::new();
    }
    table::align_numbers(&mut table);
    format!("\n{}\n", table::fitted(&table, &[8, 7, 9, 1]))
}
