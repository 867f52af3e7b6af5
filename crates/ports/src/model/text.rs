//! A profile as the text that [`Profile::parse`] reads: what a calibration writes.

use super::profile::{Disk, Flash, Lane, Medium, Object, Parallel, Profile};
use super::spread::Spread;
use std::fmt::Write;
use thermocline_units::{Bytes, Nanos};

/// The least factor of a spread that may be written.
const FACTOR_MIN: f64 = 0.01;

impl Profile {
    /// The profile as TOML; parsing it gives the profile again.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let about = self.about.replace(char::is_control, " ");
        let about = about.replace('\\', "\\\\").replace('"', "\\\"");
        line(&mut out, "about", format_args!("\"{about}\""));
        line(&mut out, "size", size(self.size));
        line(&mut out, "discard-zeroes", self.discard_zeroes);
        if let Some(writes) = self.writes_a_day {
            line(&mut out, "writes-a-day", writes);
        }
        match &self.medium {
            Medium::Parallel(medium) => parallel(&mut out, medium),
            Medium::Flash(medium) => flash(&mut out, medium),
            Medium::Disk(medium) => disk(&mut out, medium),
            Medium::Object(medium) => object(&mut out, medium),
        }
        out
    }
}

fn line(out: &mut String, key: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{key} = {value}");
}

/// Text in the largest unit that says it exactly.
fn size(bytes: Bytes) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let exact = units.iter().find(|(bits, _)| bytes.0 > 0 && bytes.0.is_multiple_of(1 << bits));
    match exact {
        Some((bits, unit)) => format!("\"{}{unit}\"", bytes.0 >> bits),
        None => format!("\"{}B\"", bytes.0),
    }
}

fn time(nanos: Nanos) -> String {
    let units = [(1_000_000, "ms"), (1_000, "us")];
    match units.iter().find(|(unit, _)| nanos.0 > 0 && nanos.0.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("\"{}{name}\"", nanos.0 / unit),
        None => format!("\"{}ns\"", nanos.0),
    }
}

fn rate(bytes_per_s: u64) -> f64 {
    bytes_per_s as f64 / 1e6
}

/// Factors count relative to each other; those whose mean is one may be smaller than may be
/// written.
fn spread(spread: &Spread) -> String {
    let least = spread.points().map(|(_, factor)| factor).fold(f64::INFINITY, f64::min);
    let scale = (FACTOR_MIN / least).max(1.0);
    let points = spread.points().map(|(share, factor)| (share, (factor * scale).max(FACTOR_MIN)));
    let points: Vec<String> =
        points.map(|(share, factor)| format!("[{share:?}, {factor:?}]")).collect();
    format!("[{}]", points.join(", "))
}

fn lane(out: &mut String, name: &str, lane: &Lane) {
    let _ = writeln!(out, "\n[{name}]");
    line(out, "mb-per-s", rate(lane.bytes_per_s));
    line(out, "command", time(lane.command));
}

fn parallel(out: &mut String, medium: &Parallel) {
    out.push_str("\n[parallel]\n");
    line(out, "servers", medium.servers);
    line(out, "read-service", time(medium.read_service));
    line(out, "write-service", time(medium.write_service));
    if let Some(bytes_per_s) = medium.server_bytes_per_s {
        line(out, "server-mb-per-s", rate(bytes_per_s));
    }
    line(out, "spread", spread(&medium.spread));
    lane(out, "parallel.read", &medium.read);
    lane(out, "parallel.write", &medium.write);
}

fn flash(out: &mut String, medium: &Flash) {
    out.push_str("\n[flash]\n");
    line(out, "read-overhead", time(medium.read_overhead));
    line(out, "write-overhead", time(medium.write_overhead));
    line(out, "spread", spread(&medium.spread));
    line(out, "buffer", size(medium.buffer));
    line(out, "power-loss-protection", medium.power_loss_protection);
    line(out, "dies", medium.dies);
    line(out, "planes", medium.planes);
    line(out, "die-mb-per-s", rate(medium.die_bytes_per_s));
    line(out, "sense", time(medium.sense));
    line(out, "program", time(medium.program));
    line(out, "erase", time(medium.erase));
    line(out, "suspend", time(medium.suspend));
    line(out, "page", size(medium.page));
    line(out, "program-pages", medium.program_pages);
    line(out, "block-pages", medium.block_pages);
    line(out, "over-provisioning", format_args!("{:?}", medium.over_provisioning));
    line(out, "preconditioned", medium.preconditioned);
    lane(out, "flash.read", &medium.read);
    lane(out, "flash.write", &medium.write);
}

fn disk(out: &mut String, medium: &Disk) {
    out.push_str("\n[disk]\n");
    line(out, "rpm", medium.rpm);
    line(out, "seek-min", time(medium.seek_min));
    line(out, "seek-stroke", time(medium.seek_stroke));
    line(out, "outer-mb-per-s", rate(medium.outer_bytes_per_s));
    line(out, "inner-mb-per-s", rate(medium.inner_bytes_per_s));
    line(out, "overhead", time(medium.overhead));
    line(out, "queue-depth", medium.queue_depth);
    line(out, "age-max", time(medium.age_max));
    line(out, "read-ahead", size(medium.read_ahead));
    if let Some(shingles) = &medium.shingles {
        out.push_str("\n[disk.shingles]\n");
        line(out, "band", size(shingles.band));
        line(out, "cache", size(shingles.cache));
        line(out, "idle-after", time(shingles.idle_after));
    }
}

fn object(out: &mut String, medium: &Object) {
    out.push_str("\n[object]\n");
    line(out, "first-byte-median", time(medium.first_byte_median));
    line(out, "first-byte-p99", time(medium.first_byte_p99));
    line(out, "stream-mb-per-s", rate(medium.stream_bytes_per_s));
    lane(out, "object.read", &medium.read);
    lane(out, "object.write", &medium.write);
}
