//! The description of an experiment with hints, as `experiment.toml` has it; unknown keys are
//! errors. What a row or a column leaves out is the panel's.

use super::MEASURES;
use super::scene::{Program, Scene};
use crate::config::{ConfigError, read, text, text_or_none};
use crate::grid::{Expectation, Measure, Row, Sheet};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use thermocline_policy::hints::Usage;
use thermocline_policy::migration::Copying;
use thermocline_policy::tactics::VolumeTactics;
use thermocline_ports::model::Profile;
use thermocline_sim::files::set::Batch;
use thermocline_sim::files::{Format, Telling};
use thermocline_sim::machine::{PoolPlan, PoolSize};
use thermocline_units::{Bytes, Nanos};

/// An experiment with hints.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `hints`.
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    /// Its title.
    pub title: String,
    /// The figures it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
    pub about: String,
    pub(super) seeds: Vec<u64>,
    /// Directories that the files are dealt to.
    directories: u32,
    files: Vec<BatchConfig>,
    volumes: BTreeMap<String, VolumeConfig>,
    #[serde(rename = "panel")]
    pub(super) panels: Vec<PanelConfig>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchConfig {
    count: u32,
    sizes: Vec<String>,
    #[serde(default)]
    usage: Option<String>,
}

/// A volume and its pools.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct VolumeConfig {
    #[serde(deserialize_with = "text")]
    size: Bytes,
    /// True if all of it is mapped, by ascending address, before anything is on it.
    thick: bool,
    /// True if the slowest pool is filled first.
    #[serde(default)]
    slowest_first: bool,
    pools: Vec<PoolConfig>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolConfig {
    name: String,
    profile: String,
    #[serde(deserialize_with = "text")]
    size: Bytes,
    #[serde(default, deserialize_with = "text_or_none")]
    reserve: Option<Bytes>,
}

/// One figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelConfig {
    pub(super) title: String,
    #[serde(default)]
    note: String,
    measures: Vec<Measure>,
    volume: String,
    format: Format,
    program: Program,
    /// Time for files to find their places before the programs begin.
    #[serde(deserialize_with = "text")]
    settle: Nanos,
    #[serde(deserialize_with = "text")]
    chunk: Bytes,
    #[serde(deserialize_with = "text")]
    interval: Nanos,
    #[serde(default)]
    copying: CopyingConfig,
    pub(super) columns: Vec<ColumnConfig>,
    pub(super) rows: Vec<RowConfig>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// The throttle of copies; what is left out is as the engine has it, but that nothing feeds a copy
/// and nothing stays behind, as in the sources.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CopyingConfig {
    #[serde(default, deserialize_with = "text_or_none")]
    piece: Option<Bytes>,
    outstanding: Option<u32>,
    concurrent: Option<u32>,
    #[serde(default, deserialize_with = "text_or_none")]
    patience: Option<Nanos>,
    #[serde(default)]
    feeds: bool,
    #[serde(default)]
    keeps: bool,
}

impl CopyingConfig {
    /// # Errors
    /// A piece is no multiple of a block, or nothing could be copied.
    fn copying(&self) -> Result<Copying, String> {
        let usual = Copying::default();
        let copying = Copying {
            piece: self.piece,
            outstanding: self.outstanding,
            concurrent: self.concurrent.unwrap_or(usual.concurrent),
            patience: self.patience.unwrap_or(usual.patience),
            feeds: self.feeds,
            keeps: self.keeps,
            ..usual
        };
        let is_odd = |piece: &Bytes| piece.0 == 0 || !piece.0.is_multiple_of(4096);
        if let Some(piece) = copying.piece.filter(is_odd) {
            return Err(format!("copying: a piece of {piece} is no multiple of 4KiB"));
        }
        if copying.outstanding == Some(0) || copying.concurrent == 0 {
            return Err("copying: `outstanding` and `concurrent` are at least 1".to_string());
        }
        Ok(copying)
    }
}

/// Settings that differ between columns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnConfig {
    name: String,
    volume: Option<String>,
    format: Option<Format>,
    program: Option<Program>,
    #[serde(default, deserialize_with = "text_or_none")]
    chunk: Option<Bytes>,
    #[serde(default, deserialize_with = "text_or_none")]
    interval: Option<Nanos>,
    /// Time for files to find their places.
    #[serde(default, deserialize_with = "text_or_none")]
    settle: Option<Nanos>,
    /// Number of the largest files that `prefetch` wishes near.
    prefetched: Option<usize>,
}

/// Hints of a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowConfig {
    name: String,
    hints: Vec<Hinted>,
    /// On how many pools, from the fastest on, each chunk of a file is kept (REPLICATE).
    #[serde(default = "one")]
    copies: usize,
    /// The source's figures by measure, one a column, as a share of the first row's; 0 where it has
    /// none.
    #[serde(default)]
    published: BTreeMap<Measure, Vec<f64>>,
}

fn one() -> usize {
    1
}

/// Something that is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Hinted {
    /// Places of metadata.
    Metadata,
    /// Sizes of files.
    Sizes,
    /// Use of their streams.
    Streams,
    /// That the largest files will be needed, as many as the column says.
    Prefetch,
    /// That nobody waits for the background task.
    Priority,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value impossible.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        read(text, origin, Config::check)
    }

    fn check(&self) -> Result<(), String> {
        for panel in &self.panels {
            for column in &panel.columns {
                for row in &panel.rows {
                    self.scene(panel, column, row, 0)?;
                }
            }
            panel.sheet().check(&MEASURES)?;
        }
        Ok(())
    }

    /// One run.
    pub(super) fn scene(
        &self,
        panel: &PanelConfig,
        column: &ColumnConfig,
        row: &RowConfig,
        seed: u64,
    ) -> Result<Scene, String> {
        let name = column.volume.as_ref().unwrap_or(&panel.volume);
        let volume = self.volumes.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.volumes.keys().map(String::as_str).collect();
            format!("there is no volume `{name}`; there are {}", known.join(", "))
        })?;
        let pools = volume.pools.len();
        if row.copies == 0 || row.copies > pools {
            let (row, copies) = (&row.name, row.copies);
            return Err(format!("row `{row}`: {copies} copies; volume `{name}` has {pools} pools"));
        }
        let has = |hinted: Hinted| row.hints.contains(&hinted);
        let prefetched = if has(Hinted::Prefetch) { column.prefetched.unwrap_or(1) } else { 0 };
        Ok(Scene {
            seed,
            copying: panel.copying.copying()?,
            size: volume.size,
            thick: volume.thick,
            tactics: match volume.slowest_first {
                true => VolumeTactics::of(&["slowest-first"]).map_err(|e| e.to_string())?,
                false => VolumeTactics::default(),
            },
            pools: volume.pools.iter().map(plan).collect::<Result<_, _>>()?,
            chunk: column.chunk.unwrap_or(panel.chunk),
            interval: column.interval.unwrap_or(panel.interval),
            settle: column.settle.unwrap_or(panel.settle),
            format: column.format.unwrap_or(panel.format),
            program: column.program.clone().unwrap_or_else(|| panel.program.clone()),
            directories: self.directories,
            files: self.files.iter().map(batch).collect::<Result<_, _>>()?,
            telling: Telling {
                metadata: has(Hinted::Metadata),
                sizes: has(Hinted::Sizes),
                streams: has(Hinted::Streams),
            },
            prefetched,
            priority: has(Hinted::Priority),
            copies: row.copies,
        })
    }
}

impl PanelConfig {
    /// The panel without what its runs are made of.
    pub(super) fn sheet(&self) -> Sheet {
        let rows = self.rows.iter().map(|row| Row::of(&row.name, &row.published));
        let columns = self.columns.iter().map(|column| column.name.clone());
        Sheet::of((&self.title, &self.note), rows, columns, &self.measures, &self.expect)
    }
}

fn plan(pool: &PoolConfig) -> Result<PoolPlan, String> {
    let profile = Profile::built_in(&pool.profile).map_err(|error| error.to_string())?;
    Ok(PoolPlan {
        name: pool.name.clone(),
        profile_name: pool.profile.clone(),
        profile,
        size: PoolSize::Bytes(pool.size),
        reserve: pool.reserve.unwrap_or(Bytes(0)),
        cache: None,
    })
}

fn batch(batch: &BatchConfig) -> Result<Batch, String> {
    let size = |text: &String| text.parse().map_err(|error| format!("files: {error}"));
    let sizes: Vec<Bytes> = batch.sizes.iter().map(size).collect::<Result<_, String>>()?;
    if sizes.is_empty() {
        return Err("files: a batch needs one size at least".to_string());
    }
    let usage = batch.usage.as_deref().unwrap_or("unknown");
    let usage = Usage::named(usage).ok_or_else(|| {
        let known: Vec<&str> = Usage::ALL.iter().map(|usage| usage.name()).collect();
        format!("files: there is no usage `{usage}`; there are {}", known.join(", "))
    })?;
    Ok(Batch { count: batch.count, sizes, usage })
}
