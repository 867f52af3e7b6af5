//! The description of an experiment with a host cache, as `experiment.toml` has it; unknown keys
//! are errors. What a row leaves out is the experiment's; what a column says goes before.

use super::MEASURES;
use crate::config::{ConfigError, read, text, text_or_none};
use crate::grid::{Expectation, Measure, Row, Sheet};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use thermocline_hostcache::{BLOCK_BYTES, Protocol};
use thermocline_policy::registry::{Build, PolicySpec};
use thermocline_sim::hostcache::{Costs, Load, Order, Scene};
use thermocline_units::{Bytes, Nanos};

/// An experiment with a host cache.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `host-cache`.
    #[serde(rename = "kind")]
    _kind: IgnoredAny,
    /// Its title.
    pub title: String,
    /// The figures it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
    pub about: String,
    pub(super) seeds: Vec<u64>,
    /// Sizes are those below over this.
    scale: u64,
    /// Memory of a host.
    #[serde(deserialize_with = "text")]
    cache: Bytes,
    /// Memory of the server.
    #[serde(deserialize_with = "text")]
    memory: Bytes,
    lookup: String,
    #[serde(rename = "load")]
    loads: BTreeMap<String, LoadConfig>,
    #[serde(rename = "panel")]
    pub(super) panels: Vec<PanelConfig>,
}

/// Load of guests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadConfig {
    #[serde(deserialize_with = "text")]
    image: Bytes,
    private: f64,
    #[serde(default)]
    repeated: f64,
    order: Order,
    /// Bytes that a guest reads and writes; passes of a scan when left out.
    #[serde(default, deserialize_with = "text_or_none")]
    volume: Option<Bytes>,
    #[serde(default = "one")]
    passes: u32,
    #[serde(deserialize_with = "text")]
    request: Bytes,
    #[serde(default)]
    writes: f64,
    #[serde(default)]
    shared_writes: f64,
    /// Contents that guests share.
    #[serde(default, deserialize_with = "text_or_none")]
    pool: Option<Bytes>,
    #[serde(default)]
    skew: f64,
    #[serde(default, deserialize_with = "text_or_none")]
    stagger: Option<Nanos>,
}

fn one() -> u32 {
    1
}

/// One figure.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PanelConfig {
    pub(super) title: String,
    #[serde(default)]
    note: String,
    measures: Vec<Measure>,
    pub(super) columns: Vec<ColumnConfig>,
    pub(super) rows: Vec<RowConfig>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// Guests and their load.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ColumnConfig {
    name: String,
    guests: u32,
    guests_per_host: u32,
    load: String,
    #[serde(default, deserialize_with = "text_or_none")]
    memory: Option<Bytes>,
    #[serde(default, deserialize_with = "text_or_none")]
    cache: Option<Bytes>,
}

/// A protocol and its settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RowConfig {
    name: String,
    protocol: String,
    lookup: Option<String>,
    cache_policy: Option<String>,
    #[serde(default, deserialize_with = "text_or_none")]
    memory: Option<Bytes>,
    #[serde(default)]
    costs: CostsConfig,
    #[serde(default)]
    memory_by_block: bool,
    #[serde(default)]
    hash_if_local: bool,
    /// The source's figures by measure, one a column, as a share of the first row's; 0 where it has
    /// none.
    #[serde(default)]
    published: BTreeMap<Measure, Vec<f64>>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CostsConfig {
    #[default]
    Honest,
    Source,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value impossible.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        read(text, origin, |config: &Config| {
            if config.seeds.is_empty() || config.scale == 0 {
                return Err("`seeds` names one at least, and `scale` is 1 or more".to_string());
            }
            config.check_loads()?;
            config.panels.iter().try_for_each(|panel| config.check(panel))
        })
    }

    fn check_loads(&self) -> Result<(), String> {
        for (name, load) in &self.loads {
            let wrong = |problem: &str| Err(format!("load `{name}`: {problem}"));
            let shares = [load.private, load.repeated, load.writes, load.shared_writes, load.skew];
            if shares.iter().any(|share| !(0.0..=1.0).contains(share)) {
                return wrong("shares and `skew` are from 0 to 1");
            }
            let blocks = load.request.0 / BLOCK_BYTES as u64;
            if !(1..=256).contains(&blocks) || load.image.0 / self.scale < load.request.0 {
                return wrong("`request` is from 4KiB to 1MiB and not more than the image");
            }
            if (load.order == Order::Scan) == load.volume.is_some() {
                return wrong("a scan has `passes`, any other load the `volume` that it moves");
            }
        }
        Ok(())
    }

    fn check(&self, panel: &PanelConfig) -> Result<(), String> {
        let wrong = |problem: String| format!("panel `{}`: {problem}", panel.title);
        for column in &panel.columns {
            if !self.loads.contains_key(&column.load) {
                return Err(wrong(format!("there is no load `{}`", column.load)));
            }
            let hosts = column.guests.div_ceil(column.guests_per_host.max(1));
            if column.guests == 0 || column.guests_per_host == 0 || hosts > 128 {
                return Err(wrong("1 guest or more, on at most 128 hosts".to_string()));
            }
        }
        for row in &panel.rows {
            if Protocol::named(&row.protocol).is_none() {
                let names: Vec<&str> = Protocol::ALL.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                return Err(wrong(format!("`{}` is no protocol; those are {names}", row.protocol)));
            }
            let lookup = row.lookup.as_ref().unwrap_or(&self.lookup);
            let built = PolicySpec::parse(lookup).and_then(|spec| spec.build_lookup().map(drop));
            built.map_err(|error| wrong(error.to_string()))?;
            let policy = row.cache_policy.as_deref().unwrap_or("lru");
            let spec = PolicySpec::parse(policy).map_err(|error| wrong(error.to_string()))?;
            if !matches!(spec.entry.build, Build::Cache(_)) {
                return Err(wrong(format!("`{policy}` is no cache policy")));
            }
        }
        panel.sheet().check(&MEASURES)
    }

    fn blocks(&self, bytes: Bytes) -> u32 {
        (bytes.0 / self.scale / BLOCK_BYTES as u64).clamp(1, 1 << 30) as u32
    }

    /// A row under a column.
    pub(super) fn scene(&self, row: &RowConfig, column: &ColumnConfig, seed: u64) -> Scene {
        let load = &self.loads[&column.load];
        let run = (load.request.0 / BLOCK_BYTES as u64) as u32;
        let requests = match load.volume {
            Some(volume) => (volume.0 / self.scale / load.request.0).max(1) as u32,
            None => load.passes,
        };
        Scene {
            protocol: Protocol::named(&row.protocol).expect("it was checked"),
            guests: column.guests,
            guests_per_host: column.guests_per_host,
            load: Load {
                image_blocks: self.blocks(load.image),
                private: load.private,
                repeated: load.repeated,
                order: load.order,
                requests,
                run,
                writes: load.writes,
                shared_writes: load.shared_writes,
                pool: load.pool.map_or(0, |pool| self.blocks(pool)),
                skew: load.skew,
                stagger: Nanos(load.stagger.unwrap_or_default().0 / self.scale),
            },
            costs: match row.costs {
                CostsConfig::Honest => Costs::HONEST,
                CostsConfig::Source => Costs::SOURCE,
            },
            lookup: row.lookup.clone().unwrap_or_else(|| self.lookup.clone()),
            cache_policy: row.cache_policy.clone().unwrap_or_else(|| "lru".to_string()),
            cache_blocks: self.blocks(column.cache.unwrap_or(self.cache)),
            memory_blocks: self.blocks(row.memory.or(column.memory).unwrap_or(self.memory)),
            memory_by_block: row.memory_by_block,
            hash_first_always: !row.hash_if_local,
            seed,
        }
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
