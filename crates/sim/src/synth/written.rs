//! The TOML of a synthetic workload, table by table.
//!
//! Mirrors `thermocline_trace::synth`, which knows no serde; the defaults of what may be left out
//! are here. Says what does not fit together; what is out of bounds is said by `SynthSpec::check`.

use super::{REQUESTS_DEFAULT, SEED_DEFAULT, SynthTextError};
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;
use thermocline_trace::synth::{
    Arrivals, Burstiness, Drift, Layout, Mmpp2, Part, Pattern, Region, SizeShare, SynthSpec, VmSpec,
};
use thermocline_units::{Bytes, Nanos};

/// A quantity as text: what `Display` writes and `FromStr` reads.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quantity<T>(T);

/// Exact text of a quantity, in the largest unit that divides it.
trait Exact: Copy {
    fn exact(self) -> String;
}

impl Exact for Bytes {
    fn exact(self) -> String {
        let units = [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        exact(self.0, &units, "B")
    }
}

impl Exact for Nanos {
    fn exact(self) -> String {
        let units =
            [(3_600_000_000_000, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        exact(self.0, &units, "ns")
    }
}

fn exact(value: u64, units: &[(u64, &str)], smallest: &str) -> String {
    let fits = units.iter().find(|(factor, _)| value >= *factor && value.is_multiple_of(*factor));
    fits.map_or_else(
        || format!("{value}{smallest}"),
        |(factor, unit)| format!("{}{unit}", value / factor),
    )
}

impl<T: Exact> Serialize for Quantity<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.exact())
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Quantity<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Quantity).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    #[serde(default = "seed_default")]
    seed: u64,
    #[serde(default = "requests_default")]
    requests: u64,
    vm: Vec<WrittenVm>,
}

fn seed_default() -> u64 {
    SEED_DEFAULT
}

fn requests_default() -> u64 {
    REQUESTS_DEFAULT
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVm {
    name: String,
    arrivals: WrittenArrivals,
    part: Vec<WrittenPart>,
}

/// A Poisson rate, a rate with measures of bursts, or the two states themselves.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenArrivals {
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispersion: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst: Option<Quantity<Nanos>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    burst_share: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rates_per_s: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dwells: Option<[Quantity<Nanos>; 2]>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPart {
    #[serde(default = "whole")]
    weight: f64,
    reads: f64,
    size: WrittenSizes,
    #[serde(default = "nowhere")]
    start: Quantity<Bytes>,
    length: Quantity<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zipf: Option<WrittenZipf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequential: Option<WrittenSequential>,
    #[serde(skip_serializing_if = "Option::is_none")]
    files: Option<WrittenFiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scan: Option<WrittenScan>,
}

fn whole() -> f64 {
    1.0
}

fn nowhere() -> Quantity<Bytes> {
    Quantity(Bytes(0))
}

/// `"4KiB"`, or a table of sizes and weights.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a size like \"4KiB\", or [[\"4KiB\", 3], [\"64KiB\", 1]]")]
enum WrittenSizes {
    One(Quantity<Bytes>),
    Mix(Vec<(Quantity<Bytes>, f64)>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenZipf {
    alpha: f64,
    block: Quantity<Bytes>,
    #[serde(default = "scattered")]
    scattered: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    drift: Option<WrittenDrift>,
}

fn scattered() -> bool {
    true
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenDrift {
    every: Quantity<Nanos>,
    by: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenSequential {
    #[serde(default = "one")]
    streams: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<Quantity<Bytes>>,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFiles {
    file: Quantity<Bytes>,
    alpha: f64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenScan {
    every: Quantity<Nanos>,
}

impl Written {
    pub(super) fn of(spec: &SynthSpec) -> Written {
        let vm = spec.vms.iter().map(WrittenVm::of).collect();
        Written { seed: spec.seed, requests: spec.requests, vm }
    }

    pub(super) fn read(self) -> Result<SynthSpec, SynthTextError> {
        let vms = self.vm.into_iter().map(WrittenVm::read).collect::<Result<_, _>>()?;
        Ok(SynthSpec { seed: self.seed, requests: self.requests, vms })
    }
}

impl WrittenVm {
    fn of(vm: &VmSpec) -> WrittenVm {
        WrittenVm {
            name: vm.name.clone(),
            arrivals: WrittenArrivals::of(&vm.arrivals),
            part: vm.parts.iter().map(WrittenPart::of).collect(),
        }
    }

    fn read(self) -> Result<VmSpec, SynthTextError> {
        let name = &self.name;
        let in_part = |(index, part): (usize, WrittenPart)| {
            part.read().map_err(|problem| {
                SynthTextError::Toml(format!("VM `{name}`: part {}: {problem}", index + 1))
            })
        };
        let arrivals = self
            .arrivals
            .read()
            .map_err(|problem| SynthTextError::Toml(format!("VM `{name}`: arrivals: {problem}")))?;
        let parts = self.part.into_iter().enumerate().map(in_part).collect::<Result<_, _>>()?;
        Ok(VmSpec { name: self.name, arrivals, parts })
    }
}

impl WrittenArrivals {
    fn of(arrivals: &Arrivals) -> WrittenArrivals {
        let (rate_per_s, bursts) = match arrivals {
            Arrivals::Poisson { rate_per_s } => (Some(*rate_per_s), None),
            Arrivals::Bursty(bursts) => (None, Some(bursts)),
        };
        WrittenArrivals {
            rate_per_s,
            dispersion: None,
            burst: None,
            burst_share: None,
            rates_per_s: bursts.map(|bursts| bursts.rates_per_s),
            dwells: bursts.map(|bursts| bursts.dwells.map(Quantity)),
        }
    }

    fn read(self) -> Result<Arrivals, String> {
        let measures = (self.dispersion, self.burst, self.burst_share);
        let states = (self.rates_per_s, self.dwells);
        match (self.rate_per_s, measures, states) {
            (Some(rate_per_s), (None, None, None), (None, None)) => {
                Ok(Arrivals::Poisson { rate_per_s })
            }
            (Some(rate_per_s), (Some(dispersion), Some(burst), share), (None, None)) => {
                let burst_share = share.unwrap_or(BURST_SHARE_DEFAULT);
                let wanted = Burstiness { rate_per_s, dispersion, burst: burst.0, burst_share };
                let bursts = Mmpp2::from_measures(wanted).map_err(|error| error.to_string())?;
                Ok(Arrivals::Bursty(bursts))
            }
            (None, (None, None, None), (Some(rates_per_s), Some(dwells))) => {
                let dwells = dwells.map(|dwell| dwell.0);
                Ok(Arrivals::Bursty(Mmpp2 { rates_per_s, dwells }))
            }
            _ => Err("give rate_per_s alone, or with dispersion and burst (and burst_share), or \
                      rates_per_s and dwells of the quiet and the burst state"
                .to_string()),
        }
    }
}

/// Share of time in bursts when nobody says otherwise.
const BURST_SHARE_DEFAULT: f64 = 0.1;

impl WrittenPart {
    fn of(part: &Part) -> WrittenPart {
        let mut written = WrittenPart {
            weight: part.weight,
            reads: part.reads,
            size: WrittenSizes::Mix(
                part.sizes.iter().map(|share| (Quantity(share.size), share.weight)).collect(),
            ),
            start: Quantity(part.region.start),
            length: Quantity(part.region.length),
            zipf: None,
            sequential: None,
            files: None,
            scan: None,
        };
        match part.pattern {
            Pattern::Zipf { alpha, block, layout, drift } => {
                let every_by = |d: Drift| WrittenDrift { every: Quantity(d.every), by: d.by };
                written.zipf = Some(WrittenZipf {
                    alpha,
                    block: Quantity(block),
                    scattered: layout == Layout::Scattered,
                    drift: drift.map(every_by),
                });
            }
            Pattern::Sequential { streams, run } => {
                written.sequential = Some(WrittenSequential { streams, run: run.map(Quantity) });
            }
            Pattern::Files { file, alpha } => {
                written.files = Some(WrittenFiles { file: Quantity(file), alpha });
            }
            Pattern::Scan { every } => written.scan = Some(WrittenScan { every: Quantity(every) }),
        }
        written
    }

    fn read(self) -> Result<Part, String> {
        let pattern = match (self.zipf, self.sequential, self.files, self.scan) {
            (Some(zipf), None, None, None) => Pattern::Zipf {
                alpha: zipf.alpha,
                block: zipf.block.0,
                layout: if zipf.scattered { Layout::Scattered } else { Layout::InOrder },
                drift: zipf.drift.map(|drift| Drift { every: drift.every.0, by: drift.by }),
            },
            (None, Some(sequential), None, None) => Pattern::Sequential {
                streams: sequential.streams,
                run: sequential.run.map(|run| run.0),
            },
            (None, None, Some(files), None) => {
                Pattern::Files { file: files.file.0, alpha: files.alpha }
            }
            (None, None, None, Some(scan)) => Pattern::Scan { every: scan.every.0 },
            _ => return Err("give exactly one of zipf, sequential, files and scan".to_string()),
        };
        let sizes = match self.size {
            WrittenSizes::One(size) => vec![SizeShare { size: size.0, weight: 1.0 }],
            WrittenSizes::Mix(mix) => {
                mix.into_iter().map(|(size, weight)| SizeShare { size: size.0, weight }).collect()
            }
        };
        let region = Region { start: self.start.0, length: self.length.0 };
        Ok(Part { weight: self.weight, reads: self.reads, sizes, region, pattern })
    }
}
