//! Specification of a synthetic workload: plain data with units.
//!
//! A workload is several VMs with one volume each; a VM is a stream of arrivals, each given to one
//! of its parts by weight; a part is a pattern of addresses in a region, with its own mix of sizes,
//! reads and writes.

use super::arrivals::Arrivals;
use thermocline_units::{Bytes, Nanos};

/// A workload that cannot be made, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the workload cannot be made: {0}")]
pub struct SpecError(pub(super) String);

/// A synthetic workload.
#[derive(Debug, Clone, PartialEq)]
pub struct SynthSpec {
    /// Seeds all randomness: the same specification and seed give the same requests. Below 2⁶³.
    pub seed: u64,
    /// Number of requests to make, of all VMs together. Below 2⁶³.
    pub requests: u64,
    /// The VMs, at least one; their order numbers the volumes.
    pub vms: Vec<VmSpec>,
}

/// One VM with its volume.
#[derive(Debug, Clone, PartialEq)]
pub struct VmSpec {
    /// The volume's name; no two VMs share one.
    pub name: String,
    /// Arrivals of its requests.
    pub arrivals: Arrivals,
    /// Parts of its load; at least one.
    pub parts: Vec<Part>,
}

/// A share of a VM's requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Its share, relative to the other parts' weights; > 0.
    pub weight: f64,
    /// Share of reads, 0 to 1; the others are writes.
    pub reads: f64,
    /// The mix of request sizes; at least one.
    pub sizes: Vec<SizeShare>,
    /// Its place on the volume.
    pub region: Region,
    /// The order.
    pub pattern: Pattern,
}

/// One size of a mix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeShare {
    /// Bytes of a request; > 0.
    pub size: Bytes,
    /// Its share, relative to the other sizes' weights; > 0.
    pub weight: f64,
}

/// A range of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Its first byte.
    pub start: Bytes,
    /// Its length.
    pub length: Bytes,
}

/// The order of addresses in a region. Requests that would end beyond the region are cut at its
/// end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pattern {
    /// Blocks by popularity, after Zipf's law.
    Zipf {
        /// The exponent, 0 (uniform) to 100.
        alpha: f64,
        /// Bytes that are popular as one; requests start at its multiples. > 0.
        block: Bytes,
        /// Layout of the popular blocks.
        layout: Layout,
        /// Change of popularity.
        drift: Option<Drift>,
    },
    /// Streams that each go on where they stopped; one is taken at random for each request.
    Sequential {
        /// Number of streams, 1 to 65536; they start evenly spread over the region.
        streams: u32,
        /// Mean bytes (exponential) before a stream jumps to a random place; `None`: it goes round
        /// the region for ever.
        run: Option<Bytes>,
    },
    /// Files of one size, side by side: each is read or written whole, from its start to its end,
    /// before the next one is chosen by popularity (Zipf's law, scattered). Parts over one region
    /// agree on which files are popular.
    Files {
        /// Bytes of a file; a multiple of the part's only request size.
        file: Bytes,
        /// The exponent, 0 (uniform) to 100.
        alpha: f64,
    },
    /// The whole region from its start, again and again; between its end and the next start the
    /// part is silent and the others take its share.
    Scan {
        /// Time from start to start; > 0.
        every: Nanos,
    },
}

/// Layout of the popular blocks of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The most popular first.
    InOrder,
    /// All over the region, by a seeded permutation.
    Scattered,
}

/// A hot spot that wanders: popularity passes to the next blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Time between two changes; > 0.
    pub every: Nanos,
    /// Share of the region's blocks to drift by, 0 to 1.
    pub by: f64,
}

/// Greatest number that texts which describe a workload (TOML) can hold.
const NUMBER_MAX: u64 = i64::MAX as u64;
/// VMs of a workload at most.
const VMS_MAX: usize = 65_536;
/// Parts of a VM at most.
const PARTS_MAX: usize = 256;
/// Sizes of a mix at most.
const SIZES_MAX: usize = 256;
/// Sequential streams of a part at most.
const STREAMS_MAX: u32 = 65_536;
/// A region may not end beyond this: half of what a request's end can be.
const VOLUME_BYTES_MAX: u64 = 1 << 62;

fn positive(weight: f64) -> bool {
    weight > 0.0 && weight < 1e18
}

/// Checks a number of VMs, before they are made.
///
/// # Errors
/// When there are none, or too many.
pub fn check_vms(count: usize) -> Result<(), SpecError> {
    match count {
        1..=VMS_MAX => Ok(()),
        _ => Err(SpecError(format!("{count} VMs; 1 to {VMS_MAX} are possible"))),
    }
}

impl SynthSpec {
    /// Checks every bound that the fields' documentation states.
    ///
    /// # Errors
    /// Names the VM, the part and the field that is wrong.
    pub fn check(&self) -> Result<(), SpecError> {
        check_vms(self.vms.len())?;
        if self.seed.max(self.requests) > NUMBER_MAX {
            return Err(SpecError(
                "the seed and the number of requests lie below 2^63".to_string(),
            ));
        }
        let mut names: Vec<&str> = self.vms.iter().map(|vm| vm.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(SpecError(format!("two VMs are called `{}`", pair[0])));
        }
        for vm in &self.vms {
            let of_vm = |SpecError(problem)| SpecError(format!("VM `{}`: {problem}", vm.name));
            vm.check().map_err(of_vm)?;
        }
        Ok(())
    }
}

impl VmSpec {
    fn check(&self) -> Result<(), SpecError> {
        self.arrivals.check()?;
        if self.parts.is_empty() || self.parts.len() > PARTS_MAX {
            let problem = format!("{} parts; 1 to {PARTS_MAX} are possible", self.parts.len());
            return Err(SpecError(problem));
        }
        for (index, part) in self.parts.iter().enumerate() {
            part.check().map_err(|problem| SpecError(format!("part {}: {problem}", index + 1)))?;
        }
        Ok(())
    }
}

impl Part {
    fn check(&self) -> Result<(), String> {
        if !positive(self.weight) {
            return Err(format!("the weight {} is not above 0", self.weight));
        }
        if !(0.0..=1.0).contains(&self.reads) {
            return Err(format!("a share of reads of {}; it lies from 0 to 1", self.reads));
        }
        if self.sizes.is_empty() || self.sizes.len() > SIZES_MAX {
            return Err(format!("{} sizes; 1 to {SIZES_MAX} are possible", self.sizes.len()));
        }
        if let Some(share) = self.sizes.iter().find(|s| !positive(s.weight) || s.size.0 == 0) {
            return Err(format!(
                "size {} with weight {}; both must be above 0",
                share.size, share.weight
            ));
        }
        let Region { start, length } = self.region;
        let end = start.0.checked_add(length.0);
        if length.0 == 0 || end.is_none_or(|end| end > VOLUME_BYTES_MAX) {
            return Err(format!(
                "a region of {length} from {start}; it must hold something and end before 4 EiB"
            ));
        }
        self.check_pattern()
    }

    fn check_pattern(&self) -> Result<(), String> {
        match self.pattern {
            Pattern::Zipf { alpha, block, drift, .. } => {
                if !(0.0..=100.0).contains(&alpha) {
                    return Err(format!("a Zipf exponent of {alpha}; it lies from 0 to 100"));
                }
                let blocks = self.region.length.0.checked_div(block.0).unwrap_or(0);
                if !(1..1 << 52).contains(&blocks) {
                    return Err(format!(
                        "blocks of {block} in a region of {}; at least one must fit, and fewer \
                         than 2^52",
                        self.region.length
                    ));
                }
                let possible = |drift: Drift| drift.every.0 > 0 && (0.0..=1.0).contains(&drift.by);
                match drift {
                    Some(drift) if !possible(drift) => Err(format!(
                        "a drift by {} every {}; the share lies from 0 to 1, the time above 0",
                        drift.by, drift.every
                    )),
                    _ => Ok(()),
                }
            }
            Pattern::Sequential { streams, run } => {
                if !(1..=STREAMS_MAX).contains(&streams) {
                    return Err(format!("{streams} streams; 1 to {STREAMS_MAX} are possible"));
                }
                match run {
                    Some(Bytes(0)) => Err("sequential runs of 0 bytes".to_string()),
                    _ => Ok(()),
                }
            }
            Pattern::Files { file, alpha } => {
                if !(0.0..=100.0).contains(&alpha) {
                    return Err(format!("a Zipf exponent of {alpha}; it lies from 0 to 100"));
                }
                let files = self.region.length.0.checked_div(file.0).unwrap_or(0);
                let whole = matches!(self.sizes[..], [only] if file.0.is_multiple_of(only.size.0));
                if !(1..1 << 52).contains(&files) || !whole {
                    return Err(format!(
                        "files of {file} in a region of {}; at least one must fit, fewer than 2^52, \
                         and requests have one size that divides a file's",
                        self.region.length
                    ));
                }
                Ok(())
            }
            Pattern::Scan { every: Nanos(0) } => Err("a scan every 0 s".to_string()),
            Pattern::Scan { .. } => Ok(()),
        }
    }
}
