//! Shadows, and why a chunk is where it is, as the API says them.

use super::{Extent, Policy};
use serde::{Deserialize, Serialize};
use thermocline_policy::placement::shadow::Report;
use thermocline_policy::placement::shadow::tally::Tally;
use thermocline_units::{Nanos, PoolId};
use utoipa::ToSchema;

/// A policy that shall be a shadow: it sees what the one in force sees, and moves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewShadow {
    /// `name[:key=value:…]`, which becomes its name.
    pub policy: String,
    /// One chunk in so many is watched; null: as the others, or all up to 4,096 chunks and one in 8
    /// beyond.
    #[serde(default)]
    pub one_in: Option<u32>,
}

/// Figures of a shadow beside those of what was done. They are of the chunks watched, times
/// `one_in`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Shadow {
    /// Its name: the policy as it was asked for.
    pub name: String,
    /// One chunk in so many is watched.
    pub one_in: u32,
    /// Time since it began.
    pub age_seconds: f64,
    /// Whole epochs that the figures are of.
    pub epochs: u64,
    /// The shadow in all these epochs.
    pub total: PlacementFigures,
    /// Figures of what was really done in these epochs.
    pub actual_total: PlacementFigures,
    /// The shadow in the last epoch.
    pub epoch: PlacementFigures,
    /// Figures of what was really done in the last epoch.
    pub actual_epoch: PlacementFigures,
}

/// Figures of a placement, by one and the same rule whether it decides or not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct PlacementFigures {
    /// Accesses of requests to chunks.
    pub accesses: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Expected mean latency; null: nothing was accessed.
    pub mean_latency_us: Option<f64>,
    /// Share of the accesses that the fastest pool served; null: nothing was accessed.
    pub fastest_pool_share: Option<f64>,
    /// Accesses that the fastest pool served.
    pub fastest_pool_accesses: u64,
    /// Bytes that the fastest pool served.
    pub fastest_pool_bytes: u64,
    /// Bytes of chunks that changed their pool.
    pub moved_bytes: u64,
    /// Bytes written to each pool.
    pub written: Vec<PoolWritten>,
}

/// Bytes written to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct PoolWritten {
    /// The pool's name.
    pub pool: String,
    /// Bytes that clients wrote.
    pub client_bytes: u64,
    /// Bytes that moves wrote.
    pub moved_bytes: u64,
}

/// A shadow that shall decide from now on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adoption {
    /// The shadow's name.
    pub shadow: String,
}

/// Policy that decides after an adoption.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Adopted {
    /// The policy.
    pub policy: Policy,
    /// True if it knows what it has seen as a shadow; else it begins anew, because it had not seen
    /// every chunk, or because a recording is made, which has to begin before its policy does.
    pub knows: bool,
}

/// Reasons for a chunk's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The chunk: where it lives, and what was asked of it in this epoch.
    pub chunk: Extent,
    /// Policy that decides; "none": none.
    pub policy: String,
    /// Its reasons, the conclusion last; empty: it gives none, or has not met the chunk.
    pub reasons: Vec<String>,
}

impl Shadow {
    /// A report on a sample of one chunk in `one_in`, after `age`; pools are called `names`,
    /// fastest first.
    pub fn of(report: &Report<'_>, one_in: u32, age: Nanos, names: &[String]) -> Shadow {
        let figures = |tally| PlacementFigures::of(tally, one_in.into(), names);
        Shadow {
            name: report.name.to_string(),
            one_in,
            age_seconds: age.as_secs_f64(),
            epochs: report.epochs,
            total: figures(report.total),
            actual_total: figures(report.actual_total),
            epoch: figures(report.epoch),
            actual_epoch: figures(report.actual_epoch),
        }
    }
}

impl PlacementFigures {
    /// Figures of the sample, told for all chunks.
    fn of(tally: &Tally, one_in: u64, names: &[String]) -> PlacementFigures {
        let (all, fastest) = (tally.all(), tally.fastest());
        let written = (0..).map(PoolId).zip(names).map(|(id, name)| {
            let served = tally.of(id);
            PoolWritten {
                pool: name.clone(),
                client_bytes: served.written_bytes.0 * one_in,
                moved_bytes: served.moved_in.0 * one_in,
            }
        });
        PlacementFigures {
            accesses: all.accesses() * one_in,
            bytes: all.bytes().0 * one_in,
            mean_latency_us: tally.mean_latency().map(|mean| mean.0 as f64 / 1e3),
            fastest_pool_share: tally.fastest_share(),
            fastest_pool_accesses: fastest.accesses() * one_in,
            fastest_pool_bytes: fastest.bytes().0 * one_in,
            moved_bytes: all.moved_in.0 * one_in,
            written: written.collect(),
        }
    }
}
