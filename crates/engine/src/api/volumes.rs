//! Volumes: told, made and made larger.

use serde::{Deserialize, Serialize};
use thermocline_volume::SlaRecord;
use utoipa::ToSchema;

/// A volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name, which is that of its NBD export.
    pub name: String,
    /// Its identity, which no other volume of the group has had or will have.
    #[serde(default)]
    pub identity: u64,
    /// Its number, which recordings and samples call it by; another volume may get it later.
    #[serde(default)]
    pub number: u32,
    /// Its size.
    pub size_bytes: u64,
    /// SlaRecord to it, and how it was kept; null: there is none.
    #[serde(default)]
    pub sla: Option<VolumeSla>,
}

/// SlaRecord to a volume, and how it was kept since the engine was started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeSla {
    /// The latency; a request that takes longer, from its arrival to its answer, is a violation.
    pub latency_us: f64,
    /// Strictness: strict, loose.
    pub class: String,
    /// Requests that were answered, flushes aside.
    pub answered: u64,
    /// Violations among these.
    pub violations: u64,
    /// Mean time by which violations were late; null: there was none.
    pub mean_excess_us: Option<f64>,
}

impl From<&SlaRecord> for VolumeSla {
    fn from(record: &SlaRecord) -> VolumeSla {
        let late = record.violations as f64;
        VolumeSla {
            latency_us: record.sla.latency.0 as f64 / 1e3,
            class: record.sla.class.name().to_string(),
            answered: record.answered,
            violations: record.violations,
            mean_excess_us: (late > 0.0).then(|| record.excess.0 as f64 / 1e3 / late),
        }
    }
}

/// A volume that shall be made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVolume {
    /// Its name: 1 to 48 letters, digits, dots, hyphens and underscores that do not begin with a
    /// dot or a hyphen, and no other volume's; null: `v` and its number, or
    /// the next that is free.
    #[serde(default)]
    pub name: Option<String>,
    /// Bytes, in multiples of 512.
    pub size_bytes: u64,
}

/// The size that a volume shall have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSize {
    /// Bytes, in multiples of 512.
    pub size_bytes: u64,
}
