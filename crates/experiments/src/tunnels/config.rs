//! The description of an experiment with a tunnel, as `experiment.toml` has it; unknown keys are
//! errors.

use super::MEASURES;
use crate::config::{ConfigError, read, text, text_or_none};
use crate::grid::{Expectation, Measure, Row, Sheet};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use thermocline_chunking::Chunking;
use thermocline_units::Bytes;

/// An experiment with a tunnel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `tunnel`.
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    /// Its title.
    pub title: String,
    /// The figures it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
    pub about: String,
    pub(super) seeds: Vec<u64>,
    /// The cache, as a share of the bytes of all files.
    pub(super) cache_share: f64,
    /// Exponent of the popularity of a flow's files.
    pub(super) zipf: f64,
    /// Bytes that clients ask for in a run.
    #[serde(deserialize_with = "text")]
    pub(super) requested: Bytes,
    /// Bytes a second of the link, where there is one.
    #[serde(deserialize_with = "text")]
    pub(super) link: Bytes,
    pub(super) flows: Vec<FlowConfig>,
    pub(super) costs: BTreeMap<String, CostConfig>,
    #[serde(rename = "panel")]
    pub(super) panels: Vec<PanelConfig>,
}

/// A kind of flow.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowConfig {
    /// Its name, and that of the folder with its files.
    pub(super) name: String,
    /// Its share of the bytes that are asked for, over the sum of all shares.
    pub(super) share: f64,
}

/// Processor time by work, nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostConfig {
    /// For each byte that is not cut.
    pub(super) relay_byte: f64,
    pub(super) fixed_byte: f64,
    pub(super) fixed_chunk: f64,
    pub(super) content_byte: f64,
    pub(super) content_chunk: f64,
    /// Cost of a packet's byte under MODP and MAXP.
    pub(super) packet_byte: f64,
    pub(super) packet_chunk: f64,
}

/// A figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelConfig {
    pub(super) title: String,
    #[serde(default)]
    note: String,
    measures: Vec<Measure>,
    /// Another cache than the experiment's.
    pub(super) cache_share: Option<f64>,
    /// Other bytes than the experiment's that clients ask for.
    #[serde(default, deserialize_with = "text_or_none")]
    pub(super) requested: Option<Bytes>,
    /// Flows that are in play; none: all.
    #[serde(default)]
    pub(super) flows: Vec<String>,
    /// Flows that are counted; left out where a day is.
    #[serde(default)]
    pub(super) columns: Vec<ColumnConfig>,
    pub(super) day: Option<DayConfig>,
    pub(super) rows: Vec<RowConfig>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// Flows that a column counts; none: all that are in play.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnConfig {
    pub(super) name: String,
    #[serde(default)]
    pub(super) flows: Vec<String>,
}

/// Requests that come more by day than by night, over a link; a column each few hours.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DayConfig {
    pub(super) hours: u32,
    /// Hours of a column.
    pub(super) every: u32,
    /// Share of the link that all requests would take on average, unless something is saved.
    pub(super) load: f64,
    /// Swing of the load around that, as a share of it.
    pub(super) swing: f64,
}

/// Chunking of flows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowConfig {
    pub(super) name: String,
    /// All of them, or those that `each` does not name.
    pub(super) chunking: String,
    #[serde(default)]
    pub(super) each: BTreeMap<String, String>,
    /// A cache that keeps everything.
    #[serde(default)]
    pub(super) unlimited: bool,
    /// The name of the costs: `ours` when left out.
    pub(super) costs: Option<String>,
    #[serde(default)]
    published: BTreeMap<Measure, Vec<f64>>,
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
        let of_panels = self.panels.iter().filter_map(|panel| panel.cache_share);
        let wrong = |share: &f64| !(*share > 0.0 && *share <= 1.0);
        if let Some(share) = of_panels.chain([self.cache_share]).find(wrong) {
            return Err(format!("cache_share is {share}; give a share above 0, at most 1"));
        }
        if self.flows.is_empty()
            || self.flows.iter().any(|flow| flow.share.is_nan() || flow.share <= 0.0)
        {
            return Err("flows: name one or more, each with a share above 0".to_string());
        }
        if self.link.0 == 0 || self.requested.0 == 0 || self.seeds.is_empty() {
            return Err("link and requested must be above 0, and there must be seeds".to_string());
        }
        self.panels.iter().try_for_each(|panel| self.check_panel(panel))
    }

    fn check_panel(&self, panel: &PanelConfig) -> Result<(), String> {
        let title = &panel.title;
        let known = |name: &String| self.flows.iter().any(|flow| flow.name == *name);
        let of_columns = panel.columns.iter().flat_map(|column| &column.flows);
        let of_rows = panel.rows.iter().flat_map(|row| row.each.keys());
        let unknown = panel.flows.iter().chain(of_columns).chain(of_rows).find(|name| !known(name));
        if let Some(name) = unknown {
            return Err(format!("panel `{title}`: there is no flow `{name}`"));
        }
        for row in &panel.rows {
            for chunking in row.each.values().chain([&row.chunking]) {
                let parsed = chunking.parse::<Chunking>();
                parsed.map_err(|error| format!("panel `{title}`, row `{}`: {error}", row.name))?;
            }
            let costs = row.costs.as_deref().unwrap_or("ours");
            if !self.costs.contains_key(costs) {
                return Err(format!("panel `{title}`: there are no costs `{costs}`"));
            }
        }
        if let Some(DayConfig { hours, every, load, swing }) = panel.day {
            let fits = every > 0 && hours > 0 && hours.is_multiple_of(every) && hours <= 240;
            if !(fits && load > 0.0 && load < 1.0 && (0.0..1.0).contains(&swing)) {
                return Err(format!(
                    "panel `{title}`: a day has hours (at most 240) that `every` divides, a load \
                     above 0 and below 1, and a swing from 0 to below 1"
                ));
            }
        }
        panel.sheet().check(&MEASURES)
    }
}

impl PanelConfig {
    /// The panel without what its runs are made of.
    pub(super) fn sheet(&self) -> Sheet {
        let rows = self.rows.iter().map(|row| Row::of(&row.name, &row.published));
        let of_day = |day: DayConfig| {
            (0..day.hours / day.every).map(move |n| format!("{} h", n * day.every))
        };
        let columns: Vec<String> = match self.day {
            Some(day) => of_day(day).collect(),
            None => self.columns.iter().map(|column| column.name.clone()).collect(),
        };
        let columns = columns.into_iter();
        Sheet::of((&self.title, &self.note), rows, columns, &self.measures, &self.expect)
    }
}

impl RowConfig {
    /// Chunking of a flow.
    pub(super) fn chunking(&self, flow: &str) -> Chunking {
        let text = self.each.get(flow).unwrap_or(&self.chunking);
        text.parse().expect("the description was checked")
    }
}
