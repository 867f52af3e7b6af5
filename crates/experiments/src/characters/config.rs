//! The description of an experiment about characters of workloads, as `experiment.toml` has it;
//! unknown keys are errors.

use super::character::Character;
use super::expect::Expectation;
use crate::config::{ConfigError, read, text, text_or_none};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use thermocline_units::{Bytes, Nanos};

/// An experiment about characters of workloads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `survey`.
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// All that a reader needs: what is measured, how to read it.
    pub about: String,
    /// Seeds of made workloads; a trace is counted once.
    pub(super) seeds: Vec<u64>,
    #[serde(rename = "workload")]
    pub(super) workloads: Vec<WorkloadConfig>,
    #[serde(rename = "table")]
    pub(super) tables: Vec<TableConfig>,
}

/// A trace, or a twin of it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadConfig {
    pub(super) name: String,
    /// The source's own trace, if it has a name.
    pub(super) published: Option<String>,
    /// A trace, or the description of a made workload beside the experiment.
    pub(super) stand_in: String,
    /// The part of the source's requests that the stand-in has: its amounts are shown divided by
    /// this.
    #[serde(default = "whole")]
    pub(super) part: f64,
    /// Length of its windows, where a table does not say.
    #[serde(deserialize_with = "text")]
    pub(super) window: Nanos,
}

fn whole() -> f64 {
    1.0
}

/// Workloads in rows, characters in columns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableConfig {
    pub(super) title: String,
    #[serde(default)]
    pub(super) note: String,
    /// Bytes of a chunk of those characters that are of chunks in windows.
    #[serde(deserialize_with = "text")]
    pub(super) chunk: Bytes,
    /// Length of windows; as each workload has them when left out.
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) window: Option<Nanos>,
    /// Names of workloads; all when none is named.
    #[serde(default)]
    workloads: Vec<String>,
    pub(super) characters: Vec<Character>,
    /// The source's figures, by workload.
    #[serde(default)]
    pub(super) printed: BTreeMap<String, BTreeMap<Character, f64>>,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a name or value impossible.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        read(text, origin, Config::check)
    }

    fn check(&self) -> Result<(), String> {
        if self.seeds.is_empty() {
            return Err("`seeds` names none".to_string());
        }
        for WorkloadConfig { name, part, .. } in &self.workloads {
            if !(*part > 0.0 && *part <= 1.0) {
                return Err(format!("workload `{name}`: `part` is {part}; above 0, 1 at most"));
            }
        }
        self.tables.iter().try_for_each(|table| self.check_table(table))
    }

    fn check_table(&self, table: &TableConfig) -> Result<(), String> {
        let wrong = |problem: String| Err(format!("table `{}`: {problem}", table.title));
        let here: Vec<&str> = self.shown(table).map(|workload| workload.name.as_str()).collect();
        let printed = table.printed.keys().chain(&table.workloads);
        let expected = table.expect.iter().flat_map(Expectation::workloads);
        if let Some(name) = printed.chain(expected).find(|name| !here.contains(&name.as_str())) {
            return wrong(format!("`{name}` is no workload of it; there are {}", here.join(", ")));
        }
        let printed = table.printed.values().flat_map(BTreeMap::keys).copied();
        let expected = table.expect.iter().map(Expectation::character);
        if let Some(other) = printed.chain(expected).find(|one| !table.characters.contains(one)) {
            return wrong(format!("`{}` is not among its `characters`", other.name()));
        }
        table.expect.iter().try_for_each(|expected| expected.check(table)).or_else(wrong)
    }

    /// The workloads of a table.
    pub(super) fn shown<'a>(
        &'a self,
        table: &'a TableConfig,
    ) -> impl Iterator<Item = &'a WorkloadConfig> {
        self.workloads.iter().filter(|workload| {
            table.workloads.is_empty() || table.workloads.contains(&workload.name)
        })
    }
}
