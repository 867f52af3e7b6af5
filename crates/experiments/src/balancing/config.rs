//! The description of an experiment with balancers, as `experiment.toml` has it; unknown keys are
//! errors. What a column leaves out is the panel's, what a panel leaves out is the experiment's.

use super::Measure;
use super::expect::Expectation;
use crate::config::{ConfigError, text, text_or_none};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use thermocline_charts::format::{plain, seconds};
use thermocline_sim::balance::{
    Arrivals, Bursts, Mmpp, ProbeCost, Probes, Scenario, Service, Slowing, View,
};
use thermocline_units::Nanos;

/// An experiment with balancers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `balance`.
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    /// Its title.
    pub title: String,
    /// The tables and figures it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
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
    /// Measure that is compared; waits when it is left out.
    #[serde(default)]
    pub(super) measure: Measure,
    /// The row beside which the others are set, seed by seed.
    pub(super) beside: Option<String>,
    /// True if it is told how often rules were right about bursts.
    #[serde(default)]
    pub(super) bursts_known: bool,
    /// Mean time between requests, when it is not the experiment's.
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) gap: Option<Nanos>,
    load: Option<f64>,
    pub(super) bursts: Option<String>,
    balancers: Option<u32>,
    #[serde(default, deserialize_with = "text_or_none")]
    delay: Option<Nanos>,
    view: Option<ViewName>,
    /// True if balancers know the speeds of sites; they do when it is left out.
    weights: Option<bool>,
    /// Time that a site of speed 1 spends on the answer to a probe.
    #[serde(default, deserialize_with = "text_or_none")]
    probe_work: Option<Nanos>,
    /// A probe's way to a site and back.
    #[serde(default, deserialize_with = "text_or_none")]
    probe_trip: Option<Nanos>,
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
    /// Speed of each site; all 1 when it is left out.
    speeds: Option<Vec<f64>>,
    /// Shape of a Pareto distribution of work; exponential when it is left out.
    pareto: Option<f64>,
    slowing: Option<SlowTimes>,
}

/// Sites that slow down for a while.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct SlowTimes {
    #[serde(deserialize_with = "text")]
    every: Nanos,
    #[serde(rename = "for", deserialize_with = "text")]
    lasting: Nanos,
    to: f64,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ViewName {
    Exact,
    Refresh,
    Transit,
}

impl PanelConfig {
    /// True if the source has a figure of that row in each of `columns`; in any, if none is named.
    pub(super) fn prints(&self, row: &str, columns: &[String]) -> bool {
        let Some(row) = self.rows.iter().find(|known| known.name == row) else { return false };
        let has = |column: &String| {
            let at = self.columns.iter().position(|known| known.name == *column);
            at.and_then(|at| row.published.get(at)).is_some_and(Option::is_some)
        };
        match columns {
            [] => row.published.iter().any(Option::is_some),
            named => named.iter().all(has),
        }
    }
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

/// Arrivals that are drawn of a process to tell how uneven it is.
const DRAWN: u64 = 100_000;

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
            if let Some(row) = &panel.beside
                && !panel.rows.iter().any(|known| known.name == *row)
            {
                return Err(wrong(format!("panel `{}`: `{row}` is no row", panel.title)));
            }
            panel.expect.iter().try_for_each(|e| e.check(panel)).map_err(wrong)?;
        }
        Ok(config)
    }

    /// Scenario of a column.
    pub(super) fn scenario(
        &self,
        panel: &PanelConfig,
        column: &Column,
    ) -> Result<Scenario, String> {
        let bursts = column.bursts.as_ref().or(panel.bursts.as_ref());
        let gap_s = panel.gap.unwrap_or(self.gap).as_secs_f64();
        let process = self.process(bursts.map_or(NONE, String::as_str), gap_s)?;
        let view = match column.view.or(panel.view) {
            None | Some(ViewName::Exact) => View::Exact,
            Some(ViewName::Refresh) => View::Refresh,
            Some(ViewName::Transit) => View::Transit,
        };
        let sites = column.sites.unwrap_or(self.sites);
        let slowing = column.slowing.map(|times| Slowing {
            every: times.every,
            lasting: times.lasting,
            to: times.to,
        });
        Ok(Scenario {
            speeds: column.speeds.clone().unwrap_or_else(|| vec![1.0; sites]),
            load: column.load.or(panel.load).unwrap_or(self.load),
            service: column.pareto.map_or(Service::Exponential, Service::Pareto),
            delay: column.delay.or(panel.delay).unwrap_or(self.delay),
            view,
            probes: Probes::Fresh,
            probe_cost: ProbeCost {
                work: panel.probe_work.unwrap_or_default(),
                trip: panel.probe_trip.unwrap_or_default(),
            },
            slowing,
            balancers: column.balancers.or(panel.balancers).unwrap_or(1),
            weights_known: panel.weights.unwrap_or(true),
            jobs: panel.jobs.unwrap_or(self.jobs),
            ..Scenario::of_the_source(Arrivals::Process(process))
        })
    }

    fn process(&self, name: &str, gap_s: f64) -> Result<Mmpp, String> {
        if name == NONE {
            return Ok(Mmpp::poisson(gap_s));
        }
        let burst = self.bursts.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.bursts.keys().map(String::as_str).collect();
            format!("there are no bursts `{name}`; there are none, {}", known.join(", "))
        })?;
        Mmpp::fit(gap_s, &burst.bursts()).map_err(|problem| format!("bursts `{name}`: {problem}"))
    }

    /// Mean time between requests where these bursts are first used.
    fn gap_of(&self, bursts: &str) -> Nanos {
        let uses = |panel: &&PanelConfig| {
            let by_column = |column: &Column| column.bursts.as_deref() == Some(bursts);
            panel.bursts.as_deref() == Some(bursts) || panel.columns.iter().any(by_column)
        };
        self.panels.iter().find(uses).and_then(|panel| panel.gap).unwrap_or(self.gap)
    }

    /// Each arrival process in words, with its rates.
    pub(super) fn processes(&self) -> Vec<String> {
        let words = |(name, burst): (&String, &Burst)| {
            let process = self.process(name, self.gap_of(name).as_secs_f64());
            let process = process.expect("it was checked when it was read");
            let [idle, busy] = process.rates;
            let [begins, ends] = process.leaving;
            let drawn = process.by_second(DRAWN, 1);
            format!(
                "{name}: I = {}, {} of the requests in bursts of {}: λ {} /s in bursts and {} /s \
                 outside, bursts begin at {} /s and end at {} /s; drawn once, {} % of the seconds \
                 have arrivals, the busiest {}",
                plain(process.index_of_dispersion()),
                plain(burst.share),
                seconds(burst.length.as_secs_f64()),
                plain(busy),
                plain(idle),
                plain(begins),
                plain(ends),
                plain(drawn.busy * 100.0),
                drawn.most,
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
