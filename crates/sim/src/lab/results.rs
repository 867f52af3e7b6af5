//! Results by name: one row a policy and size, for tables, JSON and CSV.

use super::run::{Grid, LabError, LabOptions, Tried};
use super::size::CacheSize;
use crate::processor::Spent;
use crate::replay::cost::Cost;
use crate::replay::{Counts, Side, Traffic};
use crate::workload::{Cut, Names, Unit, Workload};
use serde::Serialize;
use thermocline_policy::Footprint;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, Nanos};

/// Hits of one direction of the requests.
#[derive(Debug, Clone, Serialize)]
pub struct SideRow {
    /// Requests.
    pub requests: u64,
    /// Requests served by flash alone.
    pub request_hits: u64,
    /// Lines touched.
    pub lines: u64,
    /// Lines touched that were on flash.
    pub line_hits: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes asked for that were on flash.
    pub byte_hits: u64,
}

/// Operations of one device in one direction, at real sizes.
#[derive(Debug, Clone, Serialize)]
pub struct TrafficRow {
    /// Operations.
    pub operations: u64,
    /// Sequential ones among them.
    pub sequential: u64,
    /// Bytes.
    pub bytes: u64,
}

/// One volume's hits.
#[derive(Debug, Clone, Serialize)]
pub struct VolumeRow {
    /// Its name in the trace.
    pub volume: String,
    /// Reads and writes.
    pub requests: u64,
    /// Served by flash alone.
    pub request_hits: u64,
}

/// One policy at one size.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The policy as the user wrote it.
    pub policy: String,
    /// The size as the user wrote it.
    pub size: String,
    /// True if it was told the future: a bound, not a competitor.
    pub clairvoyant: bool,
    /// Capacity in bytes (in objects with `--objects`).
    pub capacity_bytes: u64,
    /// Capacity in lines, or chunks for placements.
    pub capacity_units: u32,
    /// Bytes of one line or chunk.
    pub unit_bytes: u64,
    /// Share of requests served by flash alone, 0 to 1.
    pub request_hit_ratio: f64,
    /// Share of lines touched that were on flash, 0 to 1.
    pub line_hit_ratio: f64,
    /// Share of bytes asked for that were on flash, 0 to 1.
    pub byte_hit_ratio: f64,
    /// Line misses.
    pub line_misses: u64,
    /// Reads.
    pub reads: SideRow,
    /// Writes.
    pub writes: SideRow,
    /// I/O cost as the source charges it, seconds.
    pub cost_source_s: f64,
    /// I/O cost at real sizes, seconds.
    pub cost_real_s: f64,
    /// Disk-head time, seconds.
    pub disk_head_s: f64,
    /// Bytes written to flash.
    pub flash_written_bytes: u64,
    /// Bytes moved between the devices in the background or on misses.
    pub moved_bytes: u64,
    /// Lines admitted or chunks migrated in.
    pub admitted: u64,
    /// Lines or chunks that left.
    pub evicted: u64,
    /// Dirty ones among them, written back.
    pub written_back: u64,
    /// Flash reads at real sizes.
    pub flash_reads: TrafficRow,
    /// Flash writes at real sizes.
    pub flash_writes: TrafficRow,
    /// Disk reads at real sizes.
    pub disk_reads: TrafficRow,
    /// Disk writes at real sizes.
    pub disk_writes: TrafficRow,
    /// Policy memory that grows with the capacity, bytes.
    pub memory_resident_bytes: u64,
    /// Policy memory that grows with the distinct lines seen, bytes.
    pub memory_index_bytes: u64,
    /// Wall time of this replay on its thread, seconds; LRU's sizes run together and share theirs.
    pub replay_s: f64,
    /// Processor time of this replay, seconds; LRU's sizes run together and share theirs.
    pub processor_s: f64,
    /// Hits by volume.
    pub volumes: Vec<VolumeRow>,
}

/// A policy at a size that has no row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The policy as the user wrote it.
    pub policy: String,
    /// The size as the user wrote it.
    pub size: String,
    /// The reason.
    pub error: String,
}

/// A whole run: what was replayed, and the rows.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of thermocline.
    pub version: &'static str,
    /// The traces, as named on the command line.
    pub traces: Vec<String>,
    /// Bytes of one line; 0 for objects.
    pub line_bytes: u64,
    /// Volumes.
    pub volumes: u64,
    /// Reads and writes replayed, warm-up included.
    pub requests: u64,
    /// Lines touched.
    pub lines: u64,
    /// Distinct lines.
    pub distinct_lines: u64,
    /// Working set, bytes (objects with `--objects`).
    pub working_set_bytes: u64,
    /// Bytes of memory the workload takes.
    pub workload_memory_bytes: u64,
    /// Effect of cached writes: back, through, around.
    pub write_mode: String,
    /// Repairs by the reader.
    pub repairs: Vec<String>,
    /// Notes to read before trusting the figures.
    pub notes: Vec<String>,
    /// One a policy and size that ran to its end.
    pub rows: Vec<Row>,
    /// Those that did not.
    pub failures: Vec<Failed>,
}

/// Facts about the trace that rows need.
pub(crate) struct Scene<'a> {
    pub(crate) names: &'a Names,
}

/// Facts about the trace that a run saw.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Reads and writes.
    pub requests: u64,
    /// Lines touched.
    pub touches: u64,
    /// Distinct lines.
    pub distinct: f64,
    /// Volumes.
    pub volumes: u64,
    /// Bytes of memory for the requests and names held.
    pub memory_bytes: u64,
    /// Repairs by the reader.
    pub repairs: Vec<String>,
    /// Reads, writes and discards.
    pub heads: u64,
    /// Time of the last of them.
    pub last: Nanos,
}

impl Seen {
    /// Facts about a workload held whole.
    pub fn of(workload: &Workload) -> Seen {
        Seen {
            requests: workload.requests(),
            touches: workload.touches(),
            distinct: workload.distinct(),
            volumes: workload.names.volumes.len() as u64,
            memory_bytes: workload.bytes(),
            repairs: workload.repairs.clone(),
            heads: workload.heads(),
            last: workload.last_time(),
        }
    }
}

impl Report {
    /// The report of a run, without results.
    pub(crate) fn new(cut: Cut, seen: &Seen, traces: Vec<String>, options: &LabOptions) -> Report {
        let (line_bytes, unit) = match cut.unit {
            Unit::Lines(bytes) => (bytes.0, bytes.0),
            Unit::Objects => (0, 1),
        };
        Report {
            version: env!("CARGO_PKG_VERSION"),
            traces,
            line_bytes,
            volumes: seen.volumes,
            requests: seen.requests,
            lines: seen.touches,
            distinct_lines: seen.distinct as u64,
            working_set_bytes: seen.distinct as u64 * unit,
            workload_memory_bytes: seen.memory_bytes,
            write_mode: options.replay.write_mode.to_string(),
            repairs: seen.repairs.clone(),
            notes: Vec::new(),
            rows: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// The same with the results of a grid: rows and failures.
    #[must_use]
    pub(crate) fn with_tried(mut self, grid: Grid<'_>, tried: Vec<Tried>) -> Report {
        assert_eq!(tried.len(), grid.specs.len() * grid.sizes.len(), "a result for each place");
        let places = grid.specs.iter().flat_map(|spec| grid.sizes.iter().map(move |s| (spec, s)));
        for ((spec, size), tried) in places.zip(tried) {
            match tried {
                Ok(row) => self.rows.push(row),
                Err(error) => {
                    let error = match error {
                        LabError::Failed { problem, .. } => problem,
                        other => other.to_string(),
                    };
                    let (policy, size) = (spec.label.clone(), size.to_string());
                    self.failures.push(Failed { policy, size, error });
                }
            }
        }
        self
    }

    /// The same with `notes`.
    #[must_use]
    pub(crate) fn with_notes(self, notes: Vec<String>) -> Report {
        Report { notes, ..self }
    }

    /// True if what is cached are objects of unit size, whose sizes are counts.
    pub fn counts_objects(&self) -> bool {
        self.line_bytes == 0
    }

    /// The sizes, each once, in the order asked for.
    pub fn sizes(&self) -> Vec<&str> {
        let mut sizes: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sizes.contains(&row.size.as_str()) {
                sizes.push(&row.size);
            }
        }
        sizes
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn volume_rows(names: &Names, counts: &Counts) -> Vec<VolumeRow> {
    let rows = names.volumes.iter().zip(&counts.volumes);
    rows.map(|(name, counts)| VolumeRow {
        volume: name.clone(),
        requests: counts.requests,
        request_hits: counts.request_hits,
    })
    .collect()
}

impl From<&Side> for SideRow {
    fn from(side: &Side) -> SideRow {
        SideRow {
            requests: side.requests,
            request_hits: side.request_hits,
            lines: side.lines,
            line_hits: side.line_hits,
            bytes: side.bytes,
            byte_hits: side.byte_hits,
        }
    }
}

impl SideRow {
    /// Share of the requests served by flash alone, 0 to 1; 0 when there were none.
    pub fn request_hit_ratio(&self) -> f64 {
        ratio(self.request_hits, self.requests)
    }
}

impl From<&Traffic> for TrafficRow {
    fn from(traffic: &Traffic) -> TrafficRow {
        TrafficRow {
            operations: traffic.ios(),
            sequential: traffic.sequential,
            bytes: traffic.bytes().0,
        }
    }
}

impl Row {
    /// The same with the policy's memory and the time its replay took.
    pub(crate) fn with_machine_use(self, footprint: Footprint, spent: Spent) -> Row {
        Row {
            memory_resident_bytes: footprint.resident,
            memory_index_bytes: footprint.index,
            replay_s: spent.wall_s,
            processor_s: spent.processor_s,
            ..self
        }
    }

    pub(crate) fn new(
        scene: &Scene<'_>,
        spec: &PolicySpec,
        size: CacheSize,
        (capacity, unit): (u32, Bytes),
        counts: Counts,
        cost: Cost,
    ) -> Row {
        let total = counts.total();
        Row {
            policy: spec.label.clone(),
            size: size.to_string(),
            clairvoyant: spec.is_clairvoyant(),
            capacity_bytes: u64::from(capacity) * unit.0,
            capacity_units: capacity,
            unit_bytes: unit.0,
            request_hit_ratio: ratio(total.request_hits, total.requests),
            line_hit_ratio: ratio(total.line_hits, total.lines),
            byte_hit_ratio: ratio(total.byte_hits, total.bytes),
            line_misses: total.lines - total.line_hits,
            reads: (&counts.reads).into(),
            writes: (&counts.writes).into(),
            cost_source_s: cost.source.as_secs_f64(),
            cost_real_s: cost.real.as_secs_f64(),
            disk_head_s: cost.disk_head.as_secs_f64(),
            flash_written_bytes: cost.flash_written.0,
            moved_bytes: counts.moved,
            admitted: counts.admitted,
            evicted: counts.evicted,
            written_back: counts.written_back,
            flash_reads: (&counts.flash_reads).into(),
            flash_writes: (&counts.flash_writes).into(),
            disk_reads: (&counts.disk.reads).into(),
            disk_writes: (&counts.disk.writes).into(),
            memory_resident_bytes: 0,
            memory_index_bytes: 0,
            replay_s: 0.0,
            processor_s: 0.0,
            volumes: volume_rows(scene.names, &counts),
        }
    }
}
