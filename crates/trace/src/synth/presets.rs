//! Ready-made VMs of common kinds, small enough that a million requests show reuse.
//!
//! The figures are ours, in the ranges that published characterisations of such machines give
//! (Ge 2017, table 3.3; Tai 2015, table 12: skew, read share and sequential share differ by an
//! order of magnitude between servers); a preset is a starting point to be changed, not a model of
//! a particular trace.

use super::arrivals::{Arrivals, Burstiness, Mmpp2};
use super::spec::{Drift, Layout, Part, Pattern, Region, SizeShare, VmSpec};
use thermocline_units::{Bytes, Nanos};

/// A ready-made kind of workload.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    kinds: &'static [Kind],
}

/// Makes one VM of a kind, named after it.
type Kind = fn() -> VmSpec;

/// All presets.
pub const PRESETS: [Preset; 6] = [
    Preset {
        name: "oltp",
        summary: "databases: skewed 8 KiB pages, 30 % written, a log, short range scans, bursts",
        kinds: &[oltp],
    },
    Preset {
        name: "web",
        summary: "web servers: almost only reads, very skewed, popularity that drifts",
        kinds: &[web],
    },
    Preset {
        name: "vdi",
        summary: "virtual desktops: small writes in long bursts, the system image read again and again",
        kinds: &[vdi],
    },
    Preset {
        name: "backup",
        summary: "a file server with a scan of everything every two minutes, nothing but cold data",
        kinds: &[backup],
    },
    Preset {
        name: "mixed",
        summary: "one VM of each kind in turn and one that loops; where cache policies differ most",
        kinds: &[oltp, web, vdi, batch, backup],
    },
    Preset {
        name: "fileserver",
        summary: "whole files of 1 KiB to 1 GiB, two written for one read, appends, metadata",
        kinds: &[fileserver],
    },
];

impl Preset {
    /// The preset called `name`.
    pub fn find(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// `count` VMs, the preset's kinds in turn.
    pub fn vms(&self, count: usize) -> Vec<VmSpec> {
        let kinds = self.kinds.iter().cycle().take(count);
        kinds
            .enumerate()
            .map(|(index, kind)| {
                let vm = kind();
                VmSpec { name: format!("vm{}-{}", index + 1, vm.name), ..vm }
            })
            .collect()
    }
}

fn bursty(rate_per_s: f64, dispersion: f64, burst: Nanos, burst_share: f64) -> Arrivals {
    let wanted = Burstiness { rate_per_s, dispersion, burst, burst_share };
    Arrivals::Bursty(Mmpp2::from_measures(wanted).expect("the presets' bursts are possible"))
}

fn sizes(kib_and_weight: &[(u64, f64)]) -> Vec<SizeShare> {
    let share =
        |(kib, weight): &(u64, f64)| SizeShare { size: Bytes::from_kib(*kib), weight: *weight };
    kib_and_weight.iter().map(share).collect()
}

const fn region_mib(start: u64, length: u64) -> Region {
    Region { start: Bytes::from_mib(start), length: Bytes::from_mib(length) }
}

fn zipf(alpha: f64, block_kib: u64, drift: Option<Drift>) -> Pattern {
    Pattern::Zipf { alpha, block: Bytes::from_kib(block_kib), layout: Layout::Scattered, drift }
}

fn oltp() -> VmSpec {
    let page = sizes(&[(8, 1.0)]);
    VmSpec {
        name: "oltp".to_string(),
        arrivals: bursty(30.0, 30.0, Nanos::from_secs(40), 0.15),
        parts: vec![
            Part {
                weight: 0.75,
                reads: 0.75,
                sizes: page.clone(),
                region: region_mib(1024, 2048),
                pattern: zipf(0.95, 8, None),
            },
            Part {
                weight: 0.15,
                reads: 0.0,
                sizes: sizes(&[(4, 0.6), (16, 0.3), (64, 0.1)]),
                region: region_mib(0, 512),
                pattern: Pattern::Sequential { streams: 1, run: None },
            },
            Part {
                weight: 0.1,
                reads: 1.0,
                sizes: page,
                region: region_mib(1024, 2048),
                pattern: Pattern::Sequential { streams: 2, run: Some(Bytes::from_mib(1)) },
            },
        ],
    }
}

fn web() -> VmSpec {
    let drift = Drift { every: Nanos::from_secs(200), by: 0.0005 };
    VmSpec {
        name: "web".to_string(),
        arrivals: Arrivals::Poisson { rate_per_s: 25.0 },
        parts: vec![
            Part {
                weight: 0.85,
                reads: 1.0,
                sizes: sizes(&[(4, 0.4), (16, 0.4), (64, 0.2)]),
                region: region_mib(512, 4096),
                pattern: zipf(1.0, 64, Some(drift)),
            },
            Part {
                weight: 0.1,
                reads: 1.0,
                sizes: sizes(&[(16, 1.0)]),
                region: region_mib(8192, 8192),
                pattern: zipf(0.0, 16, None),
            },
            Part {
                weight: 0.05,
                reads: 0.0,
                sizes: sizes(&[(4, 1.0)]),
                region: region_mib(0, 256),
                pattern: Pattern::Sequential { streams: 1, run: None },
            },
        ],
    }
}

fn vdi() -> VmSpec {
    VmSpec {
        name: "vdi".to_string(),
        arrivals: bursty(20.0, 120.0, Nanos::from_secs(200), 0.1),
        parts: vec![
            Part {
                weight: 0.65,
                reads: 0.2,
                sizes: sizes(&[(4, 0.7), (8, 0.2), (32, 0.1)]),
                region: region_mib(4096, 1024),
                pattern: Pattern::Zipf {
                    alpha: 0.8,
                    block: Bytes::from_kib(4),
                    layout: Layout::InOrder,
                    drift: None,
                },
            },
            Part {
                weight: 0.2,
                reads: 1.0,
                sizes: sizes(&[(16, 0.5), (64, 0.5)]),
                region: region_mib(0, 768),
                pattern: Pattern::Scan { every: Nanos::from_secs(1800) },
            },
            Part {
                weight: 0.15,
                reads: 0.5,
                sizes: sizes(&[(4, 1.0)]),
                region: region_mib(5120, 3072),
                pattern: zipf(0.2, 4, None),
            },
        ],
    }
}

/// Loops over more than a small cache holds: the case in which recency is the worst guide.
fn batch() -> VmSpec {
    VmSpec {
        name: "batch".to_string(),
        arrivals: Arrivals::Poisson { rate_per_s: 20.0 },
        parts: vec![
            Part {
                weight: 0.7,
                reads: 1.0,
                sizes: sizes(&[(16, 1.0)]),
                region: region_mib(0, 384),
                pattern: Pattern::Sequential { streams: 1, run: None },
            },
            Part {
                weight: 0.3,
                reads: 0.6,
                sizes: sizes(&[(8, 1.0)]),
                region: region_mib(1024, 256),
                pattern: zipf(0.7, 8, None),
            },
        ],
    }
}

fn backup() -> VmSpec {
    VmSpec {
        name: "backup".to_string(),
        arrivals: Arrivals::Poisson { rate_per_s: 15.0 },
        parts: vec![
            Part {
                weight: 0.8,
                reads: 1.0,
                sizes: sizes(&[(256, 1.0)]),
                region: region_mib(0, 4096),
                pattern: Pattern::Scan { every: Nanos::from_secs(2400) },
            },
            Part {
                weight: 0.2,
                reads: 0.7,
                sizes: sizes(&[(4, 0.5), (64, 0.5)]),
                region: region_mib(0, 4096),
                pattern: zipf(0.6, 64, None),
            },
        ],
    }
}

/// Sizes of a file server's files in KiB, and how many there are of each: the file set of Ge et al.
/// 2022 §4.1 (48 of 1 GB, 200 of 100 MB, 10,000 of the others in equal numbers), its numbers
/// divided by 24. In no order of size, as directories mix them.
const FILES_KIB: [(u64, u64); 11] = [
    (50 << 10, 46),
    (1, 46),
    (100 << 10, 8),
    (4, 46),
    (4 << 10, 46),
    (1 << 20, 2),
    (64, 46),
    (10 << 10, 46),
    (6, 46),
    (1 << 10, 46),
    (256, 46),
];

/// Whole-file reads and writes in requests of up to 256 KiB, each size of file with the same share
/// of the requests; a tenth of all are appends, a tenth go to metadata. Reads to writes: 1 to 2.
fn fileserver() -> VmSpec {
    const REQUEST_KIB: u64 = 256;
    const METADATA_MIB: u64 = 64;
    const APPENDED_MIB: u64 = 512;
    let mut start = METADATA_MIB + APPENDED_MIB;
    let mut parts = vec![
        Part {
            weight: 0.1,
            reads: 1.0 / 3.0,
            sizes: sizes(&[(4, 1.0)]),
            region: region_mib(0, METADATA_MIB),
            pattern: zipf(0.9, 4, None),
        },
        Part {
            weight: 0.1,
            reads: 0.0,
            sizes: sizes(&[(16, 1.0)]),
            region: region_mib(METADATA_MIB, APPENDED_MIB),
            pattern: Pattern::Sequential { streams: 8, run: Some(Bytes::from_mib(1)) },
        },
    ];
    for (kib, count) in FILES_KIB {
        let (file, request) = (Bytes::from_kib(kib), kib.min(REQUEST_KIB));
        let region = Region { start: Bytes::from_mib(start), length: Bytes::from_kib(kib * count) };
        start += (kib * count).div_ceil(1024);
        // Reads and writes of a part of their own each, so that a file is read or written whole.
        for (reads, weight) in [(1.0, 0.3), (0.0, 0.5)] {
            parts.push(Part {
                weight: weight / FILES_KIB.len() as f64,
                reads,
                sizes: sizes(&[(request, 1.0)]),
                region,
                pattern: Pattern::Files { file, alpha: 0.9 },
            });
        }
    }
    let arrivals = Arrivals::Poisson { rate_per_s: 50.0 };
    VmSpec { name: "fileserver".to_string(), arrivals, parts }
}
