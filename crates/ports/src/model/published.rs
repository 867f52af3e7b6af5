//! Published figures of the modelled devices, with the pattern that measures each.
//!
//! One list for the tests, which hold the models to it within 10 %, and for the table in
//! docs/results/device-models.md.

use super::{ModelDevice, Profile};
use crate::pattern::{self, Order, Outcome, Pattern};
use thermocline_units::{Bytes, Nanos};

/// The published figure of a pattern's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Mean latency, µs.
    MeanMicros,
    /// Median latency of reads, µs.
    MedianMicros,
    /// 99th percentile of the latency of reads, µs.
    P99Micros,
    /// Requests per second.
    Iops,
    /// 10⁶ bytes per second.
    MbPerS,
}

/// A published figure.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The profile's name.
    pub profile: &'static str,
    /// The load.
    pub pattern: Pattern,
    /// Requests before measuring begins, for steady states.
    pub warm_up: u64,
    /// Requests measured.
    pub requests: u64,
    /// The device's size, where the profile's own would need too long to reach its steady state.
    pub size: Option<Bytes>,
    /// The figure measured.
    pub measure: Measure,
    /// The published value, in the measure's unit.
    pub published: f64,
    /// Its publisher.
    pub source: &'static str,
}

impl Figure {
    /// The model's figure.
    ///
    /// # Panics
    /// When a built-in profile cannot be read.
    pub fn modelled(&self, seed: u64) -> f64 {
        let mut profile = Profile::built_in(self.profile).expect("figures name built-in profiles");
        profile.size = self.size.unwrap_or(profile.size);
        let pattern = Pattern { range: self.pattern.range.min(profile.size), ..self.pattern };
        let mut device = ModelDevice::new(&profile, seed);
        let warm = pattern::run(&mut device, &pattern, Nanos(0), self.warm_up, seed);
        let outcome = pattern::run(&mut device, &pattern, warm.span, self.requests, seed + 1);
        self.measure.of(&outcome)
    }

    /// The load in words: `4K random read, QD32`.
    pub fn load(&self) -> String {
        let Pattern { order, block, reads, depth, .. } = self.pattern;
        let order = match order {
            Order::Random => "random",
            Order::Sequential => "sequential",
        };
        let operation = match reads {
            1.0 => "read",
            0.0 => "write",
            _ => "read and write",
        };
        let steady = if self.warm_up > 0 { ", steady" } else { "" };
        format!("{} {order} {operation}, QD{depth}{steady}", Bytes(u64::from(block)))
    }
}

impl Measure {
    fn of(self, outcome: &Outcome) -> f64 {
        let micros = |nanos: Nanos| nanos.0 as f64 / 1e3;
        match self {
            Measure::MeanMicros => micros(outcome.mean()),
            Measure::MedianMicros => micros(Outcome::quantile(&outcome.reads, 0.5)),
            Measure::P99Micros => micros(Outcome::quantile(&outcome.reads, 0.99)),
            Measure::Iops => outcome.iops(),
            Measure::MbPerS => outcome.mb_per_s(),
        }
    }

    /// Name of the figure, in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Measure::MeanMicros => "mean",
            Measure::MedianMicros => "median",
            Measure::P99Micros => "p99",
            Measure::Iops => "rate",
            Measure::MbPerS => "throughput",
        }
    }

    /// The value with its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Measure::Iops if value >= 1e4 => format!("{:.1} kIOPS", value / 1e3),
            Measure::Iops => format!("{value:.0} IOPS"),
            Measure::MbPerS => format!("{value:.0} MB/s"),
            _ if value >= 1e3 => format!("{:.1} ms", value / 1e3),
            _ => format!("{value:.1} µs"),
        }
    }
}

const KIB: u32 = 1024;
const EVERYWHERE: Bytes = Bytes(u64::MAX);

const fn load(order: Order, reads: f64, kib: u32, depth: u32) -> Pattern {
    Pattern { order, block: kib * KIB, reads, depth, range: EVERYWHERE }
}

const fn random_read(kib: u32, depth: u32) -> Pattern {
    load(Order::Random, 1.0, kib, depth)
}

const fn random_write(kib: u32, depth: u32) -> Pattern {
    load(Order::Random, 0.0, kib, depth)
}

const fn sequential_read(kib: u32, depth: u32) -> Pattern {
    load(Order::Sequential, 1.0, kib, depth)
}

const fn sequential_write(kib: u32, depth: u32) -> Pattern {
    load(Order::Sequential, 0.0, kib, depth)
}

const fn figure(
    profile: &'static str,
    pattern: Pattern,
    measure: Measure,
    published: f64,
    source: &'static str,
) -> Figure {
    let requests = 20_000;
    Figure { profile, pattern, warm_up: 0, requests, size: None, measure, published, source }
}

const REVIEW: &str = "AnandTech, review of the P4800X (2017)";
const BRIEF: &str = "Intel, product brief of the P4800X";
const BRIEF_RECALLED: &str = "product brief of the P4800X, from memory";
const MOST: &str = "MOST (FAST '26)";
const P4500: &str = "Lenovo, product guide of the Intel P4500";
const PRO_850: &str = "Tom's Hardware, review of the 850 PRO (2014)";
const PRO_850_RECALLED: &str = "data sheet of the 850 PRO, from memory";
const ULTRASTAR: &str = "seek 8.2 ms, half a turn 4.17 ms, 4 KiB (HGST, Ultrastar 7K4000)";
const TABLE: &str = "Ge 2017, table 1.1";
const CLASS_15K: &str = "seek 2.9 ms, half a turn 2.0 ms (data sheets of the class)";
const AWS: &str = "AWS, performance guidelines for S3";

use Measure::{Iops, MbPerS, MeanMicros, MedianMicros, P99Micros};

/// Every figure that the built-in profiles are held to.
pub const FIGURES: &[Figure] = &[
    figure("scm", random_read(4, 1), MeanMicros, 8.9, REVIEW),
    figure("scm", random_read(4, 1), P99Micros, 10.0, REVIEW),
    figure("scm", random_read(4, 16), Iops, 584_800.0, REVIEW),
    figure("scm", random_read(4, 16), MeanMicros, 25.5, REVIEW),
    figure("scm", random_write(4, 16), Iops, 500_000.0, BRIEF_RECALLED),
    figure("scm", sequential_read(128, 32), MbPerS, 2400.0, BRIEF),
    figure("scm", sequential_write(128, 32), MbPerS, 2000.0, BRIEF),
    figure("nvme", random_read(4, 1), MeanMicros, 66.0, MOST),
    figure("nvme", random_read(16, 1), MeanMicros, 86.0, MOST),
    figure("nvme", random_read(4, 64), MbPerS, 1500.0, MOST),
    figure("nvme", random_read(16, 64), MbPerS, 3300.0, MOST),
    figure("nvme", sequential_write(4, 64), MbPerS, 1900.0, MOST),
    figure("nvme", sequential_write(16, 64), MbPerS, 2300.0, MOST),
    figure("nvme-pcie3", random_read(4, 1), MeanMicros, 85.0, P4500),
    figure("nvme-pcie3", random_write(4, 1), MeanMicros, 20.0, P4500),
    figure("nvme-pcie3", random_read(4, 128), Iops, 490_000.0, P4500),
    figure("nvme-pcie3", sequential_read(128, 64), MbPerS, 3200.0, P4500),
    figure("nvme-pcie3", sequential_write(128, 64), MbPerS, 1050.0, P4500),
    Figure {
        warm_up: 1_500_000,
        requests: 300_000,
        size: Some(Bytes::from_gib(2)),
        ..figure("nvme-pcie3", random_write(4, 64), Iops, 38_000.0, P4500)
    },
    figure("ssd-sata", random_read(4, 1), Iops, 10_000.0, PRO_850),
    figure("ssd-sata", random_read(4, 32), Iops, 100_000.0, PRO_850),
    figure("ssd-sata", random_write(4, 1), Iops, 36_000.0, PRO_850_RECALLED),
    figure("ssd-sata", random_write(4, 32), Iops, 90_000.0, TABLE),
    figure("ssd-sata", sequential_read(128, 32), MbPerS, 550.0, TABLE),
    figure("ssd-sata", sequential_write(128, 32), MbPerS, 520.0, PRO_850_RECALLED),
    figure("hdd-15k", random_read(4, 1), MeanMicros, 4_900.0, CLASS_15K),
    figure("hdd-15k", sequential_read(128, 1), MbPerS, 233.0, TABLE),
    figure("hdd-15k", sequential_write(128, 32), MbPerS, 233.0, TABLE),
    figure("hdd-7200", random_read(4, 1), MeanMicros, 12_400.0, ULTRASTAR),
    figure("hdd-7200", random_write(4, 1), MeanMicros, 12_400.0, ULTRASTAR),
    figure("hdd-7200", load(Order::Random, 0.7, 4, 1), MeanMicros, 12_400.0, ULTRASTAR),
    figure("hdd-7200", sequential_read(128, 1), MbPerS, 143.0, "Baleen (FAST '24)"),
    figure("hdd-7200", sequential_write(128, 32), MbPerS, 143.0, "Baleen (FAST '24)"),
    figure("smr-7200", random_read(4, 1), MeanMicros, 12_400.0, ULTRASTAR),
    figure("smr-7200", sequential_read(128, 1), MbPerS, 150.0, TABLE),
    figure("smr-7200", sequential_write(128, 32), MbPerS, 150.0, TABLE),
    figure("s3", random_read(4, 16), MedianMicros, 30_000.0, "our reading of AWS"),
    figure("s3", random_read(4, 16), P99Micros, 150_000.0, "our reading of AWS"),
    figure("s3", random_read(4, 1024), Iops, 5_500.0, AWS),
    figure("s3", random_write(4, 1024), Iops, 3_500.0, AWS),
    figure("s3", random_read(8192, 64), MbPerS, 1250.0, "10 Gbit/s"),
    figure("s3-1gbps", random_read(8192, 64), MbPerS, 125.0, "1 Gbit/s"),
    figure("s3-200mbps", random_read(8192, 64), MbPerS, 25.0, "200 Mbit/s"),
];
