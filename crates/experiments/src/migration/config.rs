//! The description of a migration experiment, as `experiment.toml` has it; unknown keys are errors.
//!
//! Rates are KiB a millisecond, as the source writes them (its KB/ms, and its MB/s as well).

use super::expect::Expectation;
use crate::config::{ConfigError, text};
use serde::Deserialize;
use thermocline_units::{Bytes, Nanos};

/// Strictness of an application's service level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Answered first, on the fast tier.
    Strict,
    /// The others, at first on the slow tier.
    Loose,
}

/// An experiment of migrations between two tiers, under two service levels.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `migration`.
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
    pub about: String,
    pub(super) seeds: Vec<u64>,
    pub(super) slots: u32,
    #[serde(deserialize_with = "text")]
    pub(super) slot: Nanos,
    /// Slots and units are both divided by this; loads, and the share of a slot that a migration
    /// takes, stay what they are.
    pub(super) squeeze: u32,
    #[serde(deserialize_with = "text")]
    pub(super) unit: Bytes,
    pub(super) units_per_application: u32,
    pub(super) fast: Tier,
    pub(super) slow: Tier,
    pub(super) rates: Rates,
    pub(super) burst: Burst,
    pub(super) copy: CopyPlan,
    pub(super) sla: Sla,
    /// The policies.
    pub(super) nmst: String,
    pub(super) lmst: String,
    /// Loads: sizes by shares of bursty slots.
    pub(super) sizes: Vec<Size>,
    pub(super) bursts: Vec<f64>,
    pub(super) sensitivity: Sensitivity,
    pub(super) published: Published,
    pub(super) expect: Vec<Expectation>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Migration,
}

/// A row of equal disks.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tier {
    /// Its name, for readers.
    #[serde(rename = "name")]
    _name: String,
    pub(super) disks: u16,
    /// Units that a disk holds.
    pub(super) units: u64,
    pub(super) kib_per_ms: f64,
}

/// Rates that applications ask at.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rates {
    /// Mean KiB of a request.
    pub(super) request: f64,
    strict: Pace,
    loose: Pace,
}

/// KiB a ms and unit.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pace {
    pub(super) idle: f64,
    pub(super) bursty: f64,
}

impl Rates {
    pub(super) fn of(&self, class: Class) -> Pace {
        match class {
            Class::Strict => self.strict,
            Class::Loose => self.loose,
        }
    }
}

/// Shape of a bursty slot; the source leaves all of it open.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Burst {
    /// Probability that a unit keeps its state from slot to slot, beyond chance.
    pub(super) persistence: f64,
    pub(super) strict: Peaks,
    pub(super) loose: Peaks,
}

/// The peaks of a bursty slot.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Peaks {
    /// The rate at the peak, in means of the slot.
    pub(super) rate: f64,
    /// Share of the slot's time at the peak.
    pub(super) share: f64,
    /// Mean length of a peak.
    pub(super) ms: f64,
}

impl Burst {
    pub(super) fn of(&self, class: Class) -> Peaks {
        match class {
            Class::Strict => self.strict,
            Class::Loose => self.loose,
        }
    }
}

impl Peaks {
    /// The rate between peaks, in means of the slot.
    pub(super) fn lull(&self) -> f64 {
        (1.0 - self.rate * self.share) / (1.0 - self.share)
    }

    pub(super) fn lull_ms(&self) -> f64 {
        self.ms * (1.0 - self.share) / self.share
    }
}

/// Copying of a unit by the machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CopyPlan {
    /// Units that are copied for one that moves, for what is written meanwhile.
    pub(super) beta: f64,
    /// Share that it asks for of the rate that is left on both disks.
    pub(super) pace: f64,
    /// KiB of one copying request.
    pub(super) piece: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sla {
    #[serde(deserialize_with = "text")]
    pub(super) strict: Nanos,
    #[serde(deserialize_with = "text")]
    pub(super) loose: Nanos,
}

impl Sla {
    pub(super) fn of(self, class: Class) -> Nanos {
        match class {
            Class::Strict => self.strict,
            Class::Loose => self.loose,
        }
    }
}

/// Applications of one active capacity.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    pub(super) name: String,
    pub(super) strict: u32,
    pub(super) loose: u32,
}

/// At which load which values of two settings of LMsT are tried.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sensitivity {
    pub(super) size: String,
    pub(super) burst: f64,
    pub(super) alpha: Vec<f64>,
    /// Percent.
    pub(super) e: Vec<f64>,
}

/// The source's figures: by size and share of bursts where nothing else is said.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    /// Table 5: mean response and violations, by application.
    pub(super) table_5: ByApplication,
    /// Table 7.
    pub(super) nmst: ByLoad,
    pub(super) lmst: ByLoad,
    /// Table 8.
    pub(super) lmst_migrating: Vec<Vec<f64>>,
    pub(super) smst_migrating: Vec<Vec<f64>>,
    pub(super) bursty_slots: Vec<Vec<f64>>,
    pub(super) migrated: Vec<Vec<f64>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ByApplication {
    pub(super) nmst_response: Vec<f64>,
    pub(super) nmst_violations: Vec<f64>,
    pub(super) lmst_response: Vec<f64>,
    pub(super) lmst_violations: Vec<f64>,
}

/// Three measures: ms, percent, ms.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ByLoad {
    pub(super) response: Vec<Vec<f64>>,
    pub(super) violations: Vec<Vec<f64>>,
    pub(super) excess: Vec<Vec<f64>>,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, a value not a quantity, or figures do not fit each other.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let wrong = |problem| ConfigError { origin: origin.to_string(), problem };
        let config: Config = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        match config.problem() {
            Some(problem) => Err(wrong(problem)),
            None => Ok(config),
        }
    }

    /// The first thing that does not fit.
    fn problem(&self) -> Option<String> {
        let checks: [(bool, &str); 8] = [
            (!self.seeds.is_empty() && self.slots > 0, "`seeds` and `slots` must not be empty"),
            (
                self.squeezed_unit().0.is_power_of_two() && self.squeezed_slot().0 > 0,
                "`unit` divided by `squeeze` must be a power of two, and `slot` longer",
            ),
            (self.rates.are_possible(), "`rates` must be above 0"),
            (
                self.fast.is_possible() && self.slow.is_possible(),
                "tiers need disks, units and a rate",
            ),
            (
                self.burst.is_possible(),
                "`burst`: share lies between 0 and 1, persistence is below 1, ms above 0, and rate \
                 times share at most 1",
            ),
            (
                self.copy.beta >= 1.0 && self.copy.pace > 0.0 && self.copy.piece > 0.0,
                "`copy`: beta is at least 1, pace and piece are above 0",
            ),
            (self.sizes.iter().all(|size| self.fits(size)), "applications must fit their tier"),
            (
                self.bursts.iter().all(|share| *share > 0.0 && *share < 1.0)
                    && self.sensitive_load().is_some(),
                "`bursts` lie between 0 and 1, and `sensitivity` names one of them and of `sizes`",
            ),
        ];
        let first = checks.iter().find(|(holds, _)| !holds).map(|(_, text)| text.to_string());
        first.or_else(|| self.published.problem(self.sizes.len(), self.bursts.len()))
    }

    fn fits(&self, size: &Size) -> bool {
        let holds = |tier: &Tier, applications: u32| {
            u64::from(applications * self.units_per_application)
                <= tier.units * u64::from(tier.disks)
        };
        size.strict > 0
            && size.loose > 0
            && holds(&self.fast, size.strict)
            && holds(&self.slow, size.loose)
    }

    pub(super) fn squeezed_unit(&self) -> Bytes {
        Bytes(self.unit.0 / u64::from(self.squeeze.max(1)))
    }

    pub(super) fn squeezed_slot(&self) -> Nanos {
        Nanos(self.slot.0 / u64::from(self.squeeze.max(1)))
    }

    /// Place among `sizes` and `bursts` at which the sensitivities are measured.
    pub(super) fn sensitive_load(&self) -> Option<(usize, usize)> {
        let size = self.sizes.iter().position(|size| size.name == self.sensitivity.size)?;
        let burst = self.bursts.iter().position(|share| *share == self.sensitivity.burst)?;
        Some((size, burst))
    }
}

impl Tier {
    fn is_possible(&self) -> bool {
        self.disks > 0 && self.units > 0 && self.kib_per_ms > 0.0
    }
}

impl Rates {
    fn are_possible(&self) -> bool {
        let paces = [self.strict, self.loose];
        self.request > 0.0 && paces.iter().all(|pace| pace.idle > 0.0 && pace.bursty > 0.0)
    }
}

impl Burst {
    fn is_possible(&self) -> bool {
        let possible = |peaks: Peaks| {
            peaks.share > 0.0
                && peaks.share < 1.0
                && peaks.rate > 0.0
                && peaks.rate * peaks.share <= 1.0
                && peaks.ms > 0.0
        };
        (0.0..1.0).contains(&self.persistence) && possible(self.strict) && possible(self.loose)
    }
}

impl Published {
    /// Tables that have not a figure for every load.
    fn problem(&self, sizes: usize, bursts: usize) -> Option<String> {
        let loads = [&self.nmst, &self.lmst];
        let measures = loads.iter().flat_map(|by| [&by.response, &by.violations, &by.excess]);
        let [lmst, smst] = [&self.lmst_migrating, &self.smst_migrating];
        let mut tables = measures.chain([lmst, smst, &self.bursty_slots, &self.migrated]);
        let complete = |table: &Vec<Vec<f64>>| {
            table.len() == sizes && table.iter().all(|row| row.len() == bursts)
        };
        let wrong = || format!("`published`: each table has {sizes} rows of {bursts} figures");
        (!tables.all(complete)).then(wrong)
    }
}
