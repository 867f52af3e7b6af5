//! Results of runs, by name: for tables, JSON and pictures. Times are seconds, sizes bytes.

use super::drive::Ended;
use super::run::MachineError;

use super::load::Load;
use super::meter::Slice;
use super::pools::PoolPlan;
use super::run::{Arrivals, MachineOptions};
use serde::Serialize;
use thermocline_blockcache::{LINE, Status};
use thermocline_policy::tactics::{Disagreement, VolumeTactics};
use thermocline_ports::model::Counters;
use thermocline_units::{ChunkId, Latencies, text};
use thermocline_volume::{LinesStatus, traits_of};

/// Facts that all runs of one report share.
pub(super) struct Scene<'a> {
    pub(super) load: &'a Load,
    pub(super) pools: &'a [PoolPlan],
    /// Chunks that each pool holds.
    pub(super) chunks: &'a [u64],
    pub(super) touched: &'a [ChunkId],
    pub(super) options: &'a MachineOptions,
}

/// Latencies of requests, seconds; all zero when there were none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LatencyRow {
    /// Requests.
    pub count: u64,
    /// Mean, exact.
    pub mean_s: f64,
    /// Median, to 0.8 %.
    pub p50_s: f64,
    /// 99th percentile, to 0.8 %.
    pub p99_s: f64,
    /// 99.9th percentile, to 0.8 %.
    pub p999_s: f64,
    /// Longest, exact.
    pub max_s: f64,
}

impl From<&Latencies> for LatencyRow {
    fn from(latencies: &Latencies) -> LatencyRow {
        let part = |part: f64| latencies.quantile(part).as_secs_f64();
        LatencyRow {
            count: latencies.count(),
            mean_s: latencies.mean().as_secs_f64(),
            p50_s: part(0.5),
            p99_s: part(0.99),
            p999_s: part(0.999),
            max_s: latencies.max().as_secs_f64(),
        }
    }
}

/// Use of one pool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolUse {
    /// Its name.
    pub pool: String,
    /// Chunks that it can hold.
    pub chunks_total: u32,
    /// Chunks on it at the end.
    pub chunks_used: u32,
    /// Latency of reads that it served; a request over several pools counts for the slowest.
    pub reads: LatencyRow,
    /// Latency of writes that it served.
    pub writes: LatencyRow,
    /// Bytes read from it for clients.
    pub read_bytes: u64,
    /// Bytes written to it for clients.
    pub written_bytes: u64,
    /// Bytes that migrations wrote to it.
    pub copied_in_bytes: u64,
    /// Bytes that migrations read from it.
    pub copied_out_bytes: u64,
    /// Bytes of journal and checkpoints written to it.
    pub metadata_bytes: u64,
    /// Share of the time during which its device had something to do.
    pub busy_share: f64,
    /// Requests in its device: mean over the time.
    pub queue_mean: f64,
    /// Requests in its device: the most.
    pub queue_max: u32,
    /// Bytes written to its flash from outside, in whole pages; 0 when it is none.
    pub flash_host_bytes: u64,
    /// Bytes programmed on its flash, cleaning included; 0 when it is none.
    pub flash_programmed_bytes: u64,
    /// Use of the block cache in front of its device.
    pub cache: Option<CacheUse>,
}

/// Use of a block cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheUse {
    /// The profile of its device.
    pub profile: String,
    /// Name of the rule by which its lines leave.
    pub policy: String,
    /// Bytes that it has room for.
    pub size_bytes: u64,
    /// Share of the bytes read that the fast device answered, of those that did not go around it;
    /// none when nothing was read.
    pub hit_ratio: Option<f64>,
    /// Bytes of writes that the fast device took.
    pub written_bytes: u64,
    /// Bytes of writes that went around it.
    pub written_around_bytes: u64,
    /// Bytes kept after a read of the slow device.
    pub filled_bytes: u64,
    /// Bytes taken back to the slow device.
    pub written_back_bytes: u64,
    /// Bytes that only the fast device had at the end.
    pub dirty_bytes: u64,
    /// Bytes programmed on its flash, cleaning included; 0 when it is none.
    pub flash_programmed_bytes: u64,
    /// Memory of the index.
    pub memory_bytes: u64,
}

/// Use of lines of 4 KiB. Reads that lines answered count for the pools of their chunks elsewhere
/// in a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinesUse {
    /// Slots, each of a chunk, that were lent to them at the end.
    pub slots_lent: u32,
    /// Lines that could be read at the end.
    pub lines: u64,
    /// Reads that lines answered, in parts or whole.
    pub hits: u64,
    /// Reads of few blocks that lines could have answered, and did not.
    pub misses: u64,
    /// Bytes written to lines.
    pub filled_bytes: u64,
    /// Lines that could not be read, or had other contents than were written.
    pub wrong: u64,
    /// Memory of the index.
    pub memory_bytes: u64,
}

impl LinesUse {
    fn of(now: &LinesStatus) -> Option<LinesUse> {
        now.pool.map(|_| LinesUse {
            slots_lent: now.lent,
            lines: now.lines,
            hits: now.hits,
            misses: now.misses,
            filled_bytes: now.fills * u64::from(LINE),
            wrong: now.wrong,
            memory_bytes: now.memory.0,
        })
    }

    /// Share of reads of few blocks that lines answered; `None`: there were none.
    pub fn hit_ratio(&self) -> Option<f64> {
        let reads = self.hits + self.misses;
        (reads > 0).then(|| self.hits as f64 / reads as f64)
    }
}

impl PoolUse {
    /// Bytes programmed for each byte written; `None` when it is no flash or was not written.
    pub fn write_amplification(&self) -> Option<f64> {
        let host = self.flash_host_bytes;
        (host > 0).then(|| self.flash_programmed_bytes as f64 / host as f64)
    }
}

/// A point of the time lines: reads and writes of one slice of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SliceRow {
    /// Beginning of the slice, seconds since the first request.
    pub start_s: f64,
    /// Its end.
    pub end_s: f64,
    /// Answers a second.
    pub iops: f64,
    /// Mean latency.
    pub mean_s: f64,
    /// 99th percentile of the latency.
    pub p99_s: f64,
    /// Share of the requests that the fastest pool served.
    pub fast_share: f64,
    /// Bytes that migrations wrote.
    pub migrated_bytes: u64,
    /// Share of each pool that is in use at its end.
    pub fill: Vec<f64>,
}

/// One policy's run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// The policy as the user wrote it.
    pub policy: String,
    /// Length of its epochs.
    pub epoch_s: f64,
    /// From the first request to the last answer.
    pub span_s: f64,
    /// Requests answered, of any kind.
    pub requests: u64,
    /// Requests among them answered with an error; they count in no latency.
    pub failed: u64,
    /// Reads and writes a second.
    pub iops: f64,
    /// Bytes read and written a second.
    pub bytes_per_s: f64,
    /// Reads and writes.
    pub all: LatencyRow,
    /// Reads.
    pub reads: LatencyRow,
    /// Writes.
    pub writes: LatencyRow,
    /// Flushes.
    pub flushes: LatencyRow,
    /// Discards.
    pub discards: LatencyRow,
    /// Reads of chunks that hold nothing: no device is asked.
    pub reads_of_nothing: u64,
    /// Reads and writes asked while operations were queued or under way.
    pub while_moving: LatencyRow,
    /// Reads and writes asked while there were none.
    pub while_still: LatencyRow,
    /// Share of reads and writes that the fastest pool served alone.
    pub fast_share: f64,
    /// Requests asked and not answered: mean over the time.
    pub queue_mean: f64,
    /// Requests asked and not answered: the most.
    pub queue_max: u64,
    /// Requests that waited in front of the machine, which had as many as it takes.
    pub waited: u64,
    /// The most that waited there at once.
    pub waited_max: u64,
    /// Moves that the placement proposed.
    pub moves_proposed: u64,
    /// Moves among these that never began: no room, gone, or overtaken by the next epoch's.
    pub moves_dropped: u64,
    /// Migrations done.
    pub moves_done: u64,
    /// Migrations that failed: no room when their turn came.
    pub moves_failed: u64,
    /// Migrations cancelled.
    pub moves_cancelled: u64,
    /// Migrations queued or under way at the end.
    pub moves_pending: u64,
    /// Bytes that migrations wrote.
    pub migrated_bytes: u64,
    /// Bytes of journal and checkpoints written, all copies counted.
    pub journal_bytes: u64,
    /// Memory of the chunk map.
    pub map_memory_bytes: u64,
    /// Answers of the tactics' shadows beside those of the tactics in force.
    pub tactic_shadows: Vec<TacticShadow>,
    /// Processor time of the run, without populating.
    pub cpu_s: f64,
    /// Requests for each second of processor time.
    pub requests_per_cpu_s: f64,
    /// Pools, fastest first.
    pub pools: Vec<PoolUse>,
    /// Use of lines of 4 KiB on the fastest pool; none where no slot was ever lent to them.
    pub lines: Option<LinesUse>,
    /// The time lines.
    pub slices: Vec<SliceRow>,
}

/// A tactic that followed as a shadow: asked the same as the one in force.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TacticShadow {
    /// The kind of both.
    pub kind: &'static str,
    /// The tactic in force, as it was written.
    pub in_force: String,
    /// The shadow, as it was written.
    pub shadow: String,
    /// Questions.
    pub asked: u64,
    /// Those of them that it would have answered otherwise.
    pub differed: u64,
}

impl TacticShadow {
    fn of(told: Disagreement) -> TacticShadow {
        let Disagreement { kind, in_force, shadow, asked, differed } = told;
        TacticShadow { kind: kind.name(), in_force, shadow, asked, differed }
    }
}

/// A pool as it was made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolRow {
    /// Its name.
    pub pool: String,
    /// The profile of its device.
    pub profile: String,
    /// Description of the device.
    pub about: String,
    /// Bytes for clients.
    pub size_bytes: u64,
    /// Bytes of it that are kept free for prefetched copies.
    pub reserve_bytes: u64,
}

/// A whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VolumeReport {
    /// Version of thermocline.
    pub version: &'static str,
    /// The traces, as named on the command line.
    pub traces: Vec<String>,
    /// Requests of the trace, of any kind.
    pub requests: u64,
    /// Volumes.
    pub volumes: u64,
    /// Bytes of the chunks that the trace reads or writes.
    pub touched_bytes: u64,
    /// From the first request to the last, in the trace.
    pub trace_span_s: f64,
    /// Factor by which requests come faster than in the trace; `None` in a closed loop.
    pub speed: Option<f64>,
    /// Requests that are always under way; `None` in an open loop.
    pub closed: Option<u32>,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Length of an epoch.
    pub epoch_s: f64,
    /// Migration throttle of each pool; `None`: no limit.
    pub rate_bytes_per_s: Option<u64>,
    /// True if a chunk is locked while it is copied.
    pub locking: bool,
    /// Pools, fastest first.
    pub pools: Vec<PoolRow>,
    /// Notes on what was assumed, and what was repaired or left out.
    pub notes: Vec<String>,
    /// One a policy.
    pub runs: Vec<Run>,
}

impl VolumeReport {
    /// Length of an epoch in words, with those placements that have another one.
    pub fn epochs(&self) -> String {
        let own = self.runs.iter().filter(|run| run.epoch_s != self.epoch_s);
        let own: Vec<String> =
            own.map(|run| format!("{} {}", run.policy, text::seconds(run.epoch_s))).collect();
        match own[..] {
            [] => text::seconds(self.epoch_s),
            _ => format!("{} ({})", text::seconds(self.epoch_s), own.join(", ")),
        }
    }

    /// Share of the possible gain in mean latency that a run came to: 0 as `static`, 1 as the best
    /// run, where one of them knew the future (`oracle`). `None`: not both were run, or a twentieth
    /// or less could be gained, of which a share says nothing.
    pub fn share_of_gain(&self, run: &Run) -> Option<f64> {
        let named = |name: &str| self.runs.iter().find(|run| run.policy == name);
        let (base, _) = (named("static")?.all.mean_s, named("oracle")?);
        let best = self.runs.iter().map(|run| run.all.mean_s).fold(base, f64::min);
        (best < 0.95 * base).then(|| (base - run.all.mean_s) / (base - best))
    }

    /// The report of `runs`. `assumed`: nobody named the pools.
    pub fn new(
        load: &Load,
        pools: &[PoolPlan],
        options: &MachineOptions,
        traces: Vec<String>,
        assumed: bool,
        runs: Vec<Run>,
    ) -> VolumeReport {
        let touched = load.touched(options.chunk).len() as u64;
        let row = |plan: &PoolPlan| PoolRow {
            pool: plan.name.clone(),
            profile: plan.profile_name.clone(),
            about: plan.profile.about.clone(),
            size_bytes: plan.size.chunks(options.chunk, touched) * options.chunk.0,
            reserve_bytes: plan.reserve.0,
        };
        let (speed, closed) = match options.arrivals {
            Arrivals::Open { speed } => (Some(speed), None),
            Arrivals::Closed { outstanding } => (None, Some(outstanding)),
        };
        VolumeReport {
            version: env!("CARGO_PKG_VERSION"),
            traces,
            requests: load.demands.len() as u64,
            volumes: load.extents.len() as u64,
            touched_bytes: touched * options.chunk.0,
            trace_span_s: load.span().as_secs_f64(),
            speed,
            closed,
            chunk_bytes: options.chunk.0,
            epoch_s: options.epoch.as_secs_f64(),
            rate_bytes_per_s: options.copying.rate_per_second.map(|rate| rate.0),
            locking: options.copying.locking,
            pools: pools.iter().map(row).collect(),
            notes: notes(load, pools, options, assumed),
            runs,
        }
    }
}

fn notes(load: &Load, pools: &[PoolPlan], options: &MachineOptions, assumed: bool) -> Vec<String> {
    let mut notes = load.repairs.clone();
    if load.left_out > 0 {
        notes.push(format!("{} requests without length or beyond 64 TiB left out", load.left_out));
    }
    if assumed {
        notes.push(
            "pools assumed: an NVMe SSD of 10 % of the chunks touched over a 7,200 rpm disk of 100 \
             %; name yours with --pools"
                .to_string(),
        );
    }
    notes.push(if options.populate {
        "populated before time zero: each chunk touched was written once, by ascending address"
            .to_string()
    } else {
        "thin: chunks exist from their first write on".to_string()
    });
    let usual = VolumeTactics::default();
    let other = options.tactics.in_force().into_iter().zip(usual.in_force());
    let other: Vec<&str> =
        other.filter(|(now, usual)| now != usual).map(|((_, name), _)| name).collect();
    if !other.is_empty() {
        notes.push(format!("tactics: {}", other.join(", ")));
    }
    let at_once = pools.iter().map(|plan| Some(traits_of(&plan.profile).at_once()));
    let piece = options.copying.piece_among(at_once);
    if options.tactics.trial.tactic().share() > 0 && piece >= options.chunk {
        notes.push(format!(
            "moves bring {piece} at a time, which is a whole chunk, so the tactic {} tries nothing; \
             use a smaller --piece",
            options.tactics.trial.name()
        ));
    }
    notes
}

impl Run {
    /// That every request was served, where runs are compared with each other: latencies of what
    /// was left over say nothing.
    ///
    /// # Errors
    /// When requests failed.
    pub fn served_all(&self) -> Result<(), MachineError> {
        if self.failed == 0 {
            return Ok(());
        }
        let (policy, failed, requests) = (self.policy.clone(), self.failed, self.requests);
        Err(MachineError::Unserved { policy, failed, requests })
    }

    pub(super) fn new(scene: &Scene<'_>, policy: &str, ended: &Ended, cpu_s: f64) -> Run {
        let Ended { stage, meter, waited, proposed } = ended;
        let pending = stage.group.operations_pending() as u64;
        let accepted = meter.moves.done + meter.moves.failed + meter.moves.cancelled + pending;
        let shadows = stage.group.settings().tactics.disagreements();
        let span_s = meter.span(stage).as_secs_f64().max(1e-9);
        let [reads, writes] = meter.sides();
        let mut all = reads.clone();
        all.add(&writes);
        let pools: Vec<PoolUse> =
            (0..scene.pools.len()).map(|pool| pool_use(scene, ended, pool, span_s)).collect();
        let fast = meter.reads_of(0).count() + meter.writes_of(0).count();
        let (queue_mean, queue_max) = meter.outstanding();
        Run {
            policy: policy.to_string(),
            epoch_s: scene.options.epoch.as_secs_f64(),
            span_s,
            requests: meter.asked(),
            failed: meter.failed(),
            iops: all.count() as f64 / span_s,
            bytes_per_s: meter.bytes as f64 / span_s,
            all: (&all).into(),
            reads: (&reads).into(),
            writes: (&writes).into(),
            flushes: (&meter.flushes).into(),
            discards: (&meter.discards).into(),
            reads_of_nothing: meter.reads_of(scene.pools.len()).count(),
            while_moving: (&meter.moving).into(),
            while_still: (&meter.still).into(),
            fast_share: fast as f64 / all.count().max(1) as f64,
            queue_mean,
            queue_max,
            waited: waited.0,
            waited_max: waited.1 as u64,
            moves_proposed: *proposed,
            moves_dropped: proposed.saturating_sub(accepted),
            moves_done: meter.moves.done,
            moves_failed: meter.moves.failed,
            moves_cancelled: meter.moves.cancelled,
            moves_pending: pending,
            migrated_bytes: pools.iter().map(|pool| pool.copied_in_bytes).sum(),
            journal_bytes: pools.iter().map(|pool| pool.metadata_bytes).sum(),
            map_memory_bytes: stage.group.map_memory().0,
            tactic_shadows: shadows.into_iter().map(TacticShadow::of).collect(),
            cpu_s,
            requests_per_cpu_s: meter.asked() as f64 / cpu_s.max(1e-9),
            lines: LinesUse::of(&stage.group.lines()),
            slices: meter.slices.iter().map(|slice| slice_row(slice, scene.chunks)).collect(),
            pools,
        }
    }

    /// Bytes that clients had from, and wrote to, each pool.
    pub(crate) fn served_bytes(&self) -> impl Iterator<Item = u64> + '_ {
        self.pools.iter().map(|pool| pool.read_bytes + pool.written_bytes)
    }
}

fn cache_use(profile: &str, now: (Status, Counters), before: (Status, Counters)) -> CacheUse {
    let did = now.0.since(&before.0);
    let line = u64::from(LINE);
    CacheUse {
        profile: profile.to_string(),
        policy: did.policy.to_string(),
        size_bytes: u64::from(did.lines) * line,
        hit_ratio: did.hit_ratio(),
        written_bytes: did.written.0,
        written_around_bytes: did.written_around.0,
        filled_bytes: did.filled.0,
        written_back_bytes: did.written_back.0,
        dirty_bytes: u64::from(did.dirty) * line,
        flash_programmed_bytes: now.1.flash.since(&before.1.flash).programmed.0,
        memory_bytes: did.memory.0,
    }
}

fn pool_use(scene: &Scene<'_>, ended: &Ended, pool: usize, span_s: f64) -> PoolUse {
    let Ended { stage, meter, .. } = ended;
    let (counters_before, devices_before) = meter.before();
    let status = stage.pools().nth(pool).expect("pools stay");
    let counters = status.counters.since(&counters_before[pool]);
    let (device, device_before) = (stage.devices()[pool], devices_before[pool]);
    let profile = scene.pools[pool].cache.as_ref().map(|cache| cache.profile_name.as_str());
    let caches = profile.zip(device.cache).zip(device_before.cache);
    let of_device = (device.counters, device_before.counters);
    let flash = of_device.0.flash.since(&of_device.1.flash);
    let busy = of_device.0.busy.saturating_sub(of_device.1.busy).as_secs_f64();
    let inside = of_device.0.in_device().saturating_sub(of_device.1.in_device()).as_secs_f64();
    PoolUse {
        pool: status.name,
        chunks_total: status.slots_total,
        chunks_used: status.slots_used,
        reads: meter.reads_of(pool).into(),
        writes: meter.writes_of(pool).into(),
        read_bytes: counters.read_bytes,
        written_bytes: counters.written_bytes,
        copied_in_bytes: counters.copied_in_bytes,
        copied_out_bytes: counters.copied_out_bytes,
        metadata_bytes: counters.metadata_bytes,
        busy_share: (busy / span_s).min(1.0),
        queue_mean: inside / span_s,
        queue_max: device.queued_max,
        flash_host_bytes: flash.host.0,
        flash_programmed_bytes: flash.programmed.0,
        cache: caches.map(|((profile, now), before)| cache_use(profile, now, before)),
    }
}

fn slice_row(slice: &Slice, chunks: &[u64]) -> SliceRow {
    let seconds = slice.end.saturating_sub(slice.start).as_secs_f64().max(1e-9);
    let share = |(&used, &all): (&u32, &u64)| f64::from(used) / all as f64;
    SliceRow {
        start_s: slice.start.as_secs_f64(),
        end_s: slice.end.as_secs_f64(),
        iops: slice.requests as f64 / seconds,
        mean_s: slice.mean.as_secs_f64(),
        p99_s: slice.p99.as_secs_f64(),
        fast_share: slice.fast as f64 / slice.requests.max(1) as f64,
        migrated_bytes: slice.migrated.0,
        fill: slice.fill.iter().zip(chunks).map(share).collect(),
    }
}
