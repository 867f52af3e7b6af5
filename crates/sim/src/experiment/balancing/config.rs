//! The description of an experiment with balancers, as `experiment.toml` has it; unknown keys are
//! errors. What a column leaves out is the panel's, what a panel leaves out is the experiment's.

use super::expect::Expectation;
use crate::balance::{Arrivals, Bursts, Mmpp, Probes, Scenario, View};
use crate::experiment::config::{ConfigError, text, text_or_none};
use crate::format::{plain, seconds};
use serde::Deserialize;
use std::collections::BTreeMap;
use thermocline_units::Nanos;

/// An experiment with balancers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `balance`.
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// What is measured and how to read it.
    pub about: String,
    pub(super) seeds: Vec<u64>,
    /// Requests of a seed.
    pub(super) jobs: usize,
    /// Mean time between requests.
    #[serde(deserialize_with = "text")]
    gap: Nanos,
    sites: usize,
    load: f64,
    #[serde(deserialize_with = "text")]
    delay: Nanos,
    /// Arrival processes by name; `none` is independent arrivals.
    bursts: BTreeMap<String, Burst>,
    #[serde(rename = "panel")]
    pub(super) panels: Vec<PanelConfig>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Balance,
}

/// An arrival process.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Burst {
    index: f64,
    share: f64,
    #[serde(deserialize_with = "text")]
    length: Nanos,
}

/// One table or figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelConfig {
    pub(super) title: String,
    #[serde(default)]
    pub(super) note: String,
    pub(super) seeds: Option<Vec<u64>>,
    pub(super) jobs: Option<usize>,
    bursts: Option<String>,
    balancers: Option<u32>,
    #[serde(default, deserialize_with = "text_or_none")]
    delay: Option<Nanos>,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<PolicyRow>,
    #[serde(default)]
    pub(super) expect: Vec<Expectation>,
}

/// A load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: String,
    bursts: Option<String>,
    sites: Option<usize>,
    load: Option<f64>,
    #[serde(default, deserialize_with = "text_or_none")]
    delay: Option<Nanos>,
    balancers: Option<u32>,
    view: Option<ViewName>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ViewName {
    Exact,
    Refresh,
    Transit,
}

/// A policy, and what the source has for it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyRow {
    pub(super) name: String,
    pub(super) policy: String,
    /// One a column; 0 where the source has none.
    #[serde(default, deserialize_with = "figures")]
    pub(super) published: Vec<Option<f64>>,
}

fn figures<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Option<f64>>, D::Error> {
    let figures = Vec::<f64>::deserialize(from)?;
    Ok(figures.into_iter().map(|figure| (figure > 0.0).then_some(figure)).collect())
}

/// The name of independent arrivals.
const NONE: &str = "none";

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value impossible.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let wrong = |problem: String| ConfigError { origin: origin.to_string(), problem };
        let config: Config = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for panel in &config.panels {
            for column in &panel.columns {
                config.scenario(panel, column).map_err(wrong)?;
            }
            let columns = panel.columns.len();
            let odd =
                |row: &&PolicyRow| !row.published.is_empty() && row.published.len() != columns;
            if let Some(row) = panel.rows.iter().find(odd) {
                return Err(wrong(format!(
                    "panel `{}`, row `{}`: `published` has {} figures; one a column, {columns}, 0 \
                     where there is none",
                    panel.title,
                    row.name,
                    row.published.len()
                )));
            }
            panel.expect.iter().try_for_each(|e| e.check(panel)).map_err(wrong)?;
        }
        Ok(config)
    }

    /// What a column runs.
    pub(super) fn scenario(
        &self,
        panel: &PanelConfig,
        column: &Column,
    ) -> Result<Scenario, String> {
        let bursts = column.bursts.as_ref().or(panel.bursts.as_ref());
        let arrivals = Arrivals::Process(self.process(bursts.map_or(NONE, String::as_str))?);
        let view = match column.view {
            None | Some(ViewName::Exact) => View::Exact,
            Some(ViewName::Refresh) => View::Refresh,
            Some(ViewName::Transit) => View::Transit,
        };
        Ok(Scenario {
            speeds: vec![1.0; column.sites.unwrap_or(self.sites)],
            load: column.load.unwrap_or(self.load),
            delay: column.delay.or(panel.delay).unwrap_or(self.delay),
            view,
            probes: Probes::Fresh,
            balancers: column.balancers.or(panel.balancers).unwrap_or(1),
            jobs: panel.jobs.unwrap_or(self.jobs),
            ..Scenario::of_the_source(arrivals)
        })
    }

    fn process(&self, name: &str) -> Result<Mmpp, String> {
        let gap_s = self.gap.as_secs_f64();
        if name == NONE {
            return Ok(Mmpp::poisson(gap_s));
        }
        let burst = self.bursts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.bursts.keys().map(String::as_str).collect();
            format!("there are no bursts `{name}`; there are none, {}", known.join(", "))
        })?;
        Mmpp::fit(gap_s, &burst.bursts()).map_err(|problem| format!("bursts `{name}`: {problem}"))
    }

    /// Each arrival process in words, with its rates.
    pub(super) fn processes(&self) -> Vec<String> {
        let words = |(name, burst): (&String, &Burst)| {
            let process = self.process(name).expect("it was checked when it was read");
            let [idle, busy] = process.rates;
            let [begins, ends] = process.leaving;
            format!(
                "{name}: I = {}, {} of the requests in bursts of {}: λ {} /s in bursts and {} /s \
                 outside, bursts begin at {} /s and end at {} /s",
                plain(process.index_of_dispersion()),
                plain(burst.share),
                seconds(burst.length.as_secs_f64()),
                plain(busy),
                plain(idle),
                plain(begins),
                plain(ends),
            )
        };
        self.bursts.iter().map(words).collect()
    }
}

impl Burst {
    fn bursts(&self) -> Bursts {
        let length_s = self.length.as_secs_f64();
        Bursts { index: self.index, share: self.share, length_s }
    }
}
