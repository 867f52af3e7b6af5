//! Hits of each VM at every size of its partition: one SHARDS-adjusted LRU curve a VM.
//!
//! The cache is divided in units, 128 or one a line where it is smaller; a VM's partition is a
//! whole number of them. Counts fade from epoch to epoch, so that a curve describes the last few.
//!
//! State: about 90 B a sampled line, `sample` of them a VM at most.

use super::lookahead::Stake;
use crate::mrc::shards::{Resolution, Sampler, Shards};
use crate::registry::{Geometry, Setting, Settings, SettingsError};
use thermocline_units::LineId;

/// Units that a large cache is divided in.
const UNITS: u32 = 128;
/// Points of a curve, more than units so that a unit's edge between two points is near both.
const POINTS: u64 = 512;

pub(super) const SAMPLE: Setting = Setting {
    name: "sample",
    default: "8192",
    unit: "lines a VM",
    help: "distinct lines tracked for each VM's miss-ratio curve",
};
pub(super) const FADE: Setting = Setting {
    name: "fade",
    default: "0.5",
    unit: "factor an epoch",
    help: "what an access counts after one more epoch; 1 never forgets",
};
pub(super) const FLOOR: Setting = Setting {
    name: "floor",
    default: "0.05",
    unit: "fraction of an equal part",
    help: "cache that no VM falls below",
};

/// The curves of all VMs.
#[derive(Debug)]
pub(super) struct Demand {
    curves: Vec<Shards>,
    lines: u32,
    units: u32,
    floor: f64,
    fade: f64,
    /// Epochs that the counts stand for, old ones faded.
    epochs: f64,
}

impl Demand {
    pub(super) fn read(geometry: &Geometry, settings: &Settings) -> Result<Demand, SettingsError> {
        let sample = settings.count("sample", 1, 1 << 32)? as usize;
        let step_lines = u64::from(geometry.lines).div_ceil(POINTS);
        let points = u64::from(geometry.lines).div_ceil(step_lines) as usize;
        let resolution = Resolution { step_lines, points };
        let sampler = |vm| Sampler::new(1.0, 1, geometry.seed.wrapping_add(vm));
        let curve = |vm| Shards::fixed_size(sampler(vm), sample, resolution);
        Ok(Demand {
            curves: (0..geometry.volumes.into()).map(curve).collect(),
            lines: geometry.lines,
            units: UNITS.min(geometry.lines),
            floor: settings.number("floor", 0.0, 1.0)?,
            fade: settings.number("fade", 0.0, 1.0)?,
            epochs: 0.0,
        })
    }

    /// An access whose hit is worth something.
    #[inline]
    pub(super) fn access(&mut self, line: LineId, volume: u32) {
        self.curves[volume as usize].access(line.0.into());
    }

    /// An access that brings the line to the front but earns nothing by a hit.
    #[inline]
    pub(super) fn access_uncounted(&mut self, line: LineId, volume: u32) {
        self.curves[volume as usize].access_uncounted(line.0.into());
    }

    pub(super) fn units(&self) -> usize {
        self.units as usize
    }

    /// Ends an epoch for the counts; call `stakes` and `fade` after it.
    pub(super) fn count_epoch(&mut self) {
        self.epochs += 1.0;
    }

    /// Lets what was counted so far weigh less in the epochs to come.
    pub(super) fn fade(&mut self) {
        self.epochs *= self.fade;
        self.curves.iter_mut().for_each(|curve| curve.fade(self.fade));
    }

    /// Each VM's expected hits an epoch by units, its minimum, and no maximum.
    pub(super) fn stakes(&self) -> Vec<Stake> {
        let equal = self.units as usize / self.curves.len();
        // A floor above 0 is at least a unit where there are enough: a VM without any would be shut
        // out.
        let min = (self.floor * equal as f64).ceil() as usize;
        let epochs = self.epochs.max(f64::MIN_POSITIVE);
        let stake = |curve: &Shards| {
            let (ratios, accesses) = (curve.curve(), curve.accesses() / epochs);
            let hits = |unit| accesses * (1.0 - ratios.at(self.lines_of(unit).into()));
            Stake { hits: (0..=self.units).map(hits).collect(), min, max: self.units() }
        };
        self.curves.iter().map(stake).collect()
    }

    /// Lines of the first `unit` units: whole, and all lines for all units.
    fn lines_of(&self, unit: u32) -> u32 {
        (u64::from(self.lines) * u64::from(unit) / u64::from(self.units)) as u32
    }

    /// Lines by VM for units by VM that sum to all units; they sum to all lines.
    pub(super) fn quotas(&self, given: &[usize]) -> Vec<u32> {
        let mut unit = 0;
        let part = |units: &usize| {
            let before = self.lines_of(unit);
            unit += *units as u32;
            self.lines_of(unit) - before
        };
        given.iter().map(part).collect()
    }

    /// Hits an epoch that VM `stake` would have with `lines`, by the curve between units.
    pub(super) fn hits_at(&self, stake: &Stake, lines: u32) -> f64 {
        let exact = f64::from(lines) * f64::from(self.units) / f64::from(self.lines);
        let low = (exact as usize).min(self.units());
        let high = (low + 1).min(self.units());
        stake.hits[low] + (stake.hits[high] - stake.hits[low]) * (exact - low as f64)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.curves.iter().map(Shards::bytes).sum()
    }
}
