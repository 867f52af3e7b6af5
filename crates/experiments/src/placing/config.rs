//! The description of an experiment with placements, as `experiment.toml` has it; unknown keys are
//! errors. What a row or a column leaves out is the panel's.

use super::MEASURES;
use crate::config::{ConfigError, read, text, text_or_none};
use crate::grid::{Expectation, Measure, Row, Sheet};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, Nanos};

/// An experiment with placements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `placements`.
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    /// Its title.
    pub title: String,
    /// The figures it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
    pub about: String,
    #[serde(rename = "panel")]
    pub(super) panels: Vec<PanelConfig>,
}

/// One figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelConfig {
    pub(super) title: String,
    #[serde(default)]
    note: String,
    measures: Vec<Measure>,
    /// A file of pools beside the experiment.
    pub(super) pools: String,
    /// Shares of what is touched are of what is touched in chunks of this size, so that faster
    /// pools have the same bytes whatever the chunk.
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) shares_at: Option<Bytes>,
    /// True if the engine's throttle of copies holds; it does when this is left out.
    #[serde(default = "yes")]
    pub(super) throttled: bool,
    pub(super) seeds: Vec<u64>,
    #[serde(deserialize_with = "text")]
    pub(super) chunk: Bytes,
    /// Time between two decisions of placements, in the trace's own time.
    #[serde(deserialize_with = "text")]
    pub(super) epoch: Nanos,
    pub(super) columns: Vec<ColumnConfig>,
    pub(super) rows: Vec<RowConfig>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

fn yes() -> bool {
    true
}

/// A load, and what differs under it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnConfig {
    pub(super) name: String,
    pub(super) load: LoadConfig,
    /// Factor by which requests come faster than in the trace.
    pub(super) speed: Option<f64>,
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) chunk: Option<Bytes>,
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) epoch: Option<Nanos>,
}

/// Source of a load.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum LoadConfig {
    /// A trace by its file's name; endings such as `.csv.gz` may be left out.
    Trace(String),
    /// A made workload by the name of its description, which stands beside the experiment; its
    /// seed is the run's.
    Twin(String),
    /// A made workload in words, without its seed.
    Made(String),
    /// Random requests of 4 KiB.
    Offered(Offered),
}

/// Random requests of 4 KiB, popular by Zipf's law, at a multiple of what the fastest pool serves.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Offered {
    /// Factor over what it serves.
    pub(super) times: f64,
    /// Number of requests; or `for` how long.
    pub(super) requests: Option<u64>,
    #[serde(rename = "for", default, deserialize_with = "text_or_none")]
    pub(super) lasting: Option<Nanos>,
    /// Share of reads.
    pub(super) reads: f64,
    pub(super) zipf: f64,
    #[serde(deserialize_with = "text")]
    pub(super) over: Bytes,
    /// Part of the space that is equally popular.
    #[serde(deserialize_with = "text")]
    pub(super) block: Bytes,
}

/// A placement.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowConfig {
    name: String,
    pub(super) policy: String,
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) epoch: Option<Nanos>,
    /// The source's figures by measure, one a column, as a share of the first row's; 0 where it has
    /// none.
    #[serde(default)]
    published: BTreeMap<Measure, Vec<f64>>,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value impossible.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let check = |config: &Config| config.panels.iter().try_for_each(PanelConfig::check);
        read(text, origin, check)
    }
}

impl PanelConfig {
    fn check(&self) -> Result<(), String> {
        let wrong = |problem: String| format!("panel `{}`: {problem}", self.title);
        if self.seeds.is_empty() {
            return Err(wrong("`seeds` names none".to_string()));
        }
        for row in &self.rows {
            let spec = PolicySpec::parse(&row.policy).map_err(|error| wrong(error.to_string()))?;
            spec.build_placement().map_err(|error| wrong(error.to_string()))?;
        }
        for column in &self.columns {
            if let LoadConfig::Offered(Offered { requests, lasting, .. }) = &column.load
                && requests.is_some() == lasting.is_some()
            {
                let name = &column.name;
                return Err(wrong(format!("column `{name}`: say `requests` or `for` how long")));
            }
        }
        self.sheet().check(&MEASURES)
    }

    /// The panel without what its runs are made of.
    pub(super) fn sheet(&self) -> Sheet {
        let rows = self.rows.iter().map(|row| Row::of(&row.name, &row.published));
        let columns = self.columns.iter().map(|column| column.name.clone());
        Sheet::of((&self.title, &self.note), rows, columns, &self.measures, &self.expect)
    }
}
