//! `experiment.toml`: quantities with units in the values; unknown keys are errors.

use super::expect::{Expectation, Published};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::lab::CacheSize;
use thermocline_units::{Bytes, Nanos};

/// A description that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {problem}")]
pub struct ConfigError {
    /// The file's name.
    pub origin: String,
    /// The fault, with its line.
    pub problem: String,
}

/// Traces that make one workload.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// The workload's name in the figure.
    pub name: String,
    /// File names; endings such as `.csv.gz` may be left out.
    pub traces: Vec<String>,
    /// Seeds of a made workload, each another draw of it; its own when left out.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Cache sizes, where they differ from the experiment's.
    #[serde(default, deserialize_with = "texts_or_none")]
    pub sizes: Option<Vec<CacheSize>>,
    /// Epoch, where it differs from the experiment's.
    #[serde(default, deserialize_with = "text_or_none")]
    pub epoch: Option<Nanos>,
}

/// An experiment.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Its title.
    pub title: String,
    /// The figure or table it reproduces.
    pub source: String,
    /// Text about what is measured and how to read it.
    pub about: String,
    /// Policies, as on the command line.
    pub policies: Vec<String>,
    /// Cache sizes.
    #[serde(deserialize_with = "texts")]
    pub sizes: Vec<CacheSize>,
    /// Bytes of a cache line.
    #[serde(deserialize_with = "text")]
    pub line: Bytes,
    /// Bytes of a chunk.
    #[serde(deserialize_with = "text")]
    pub chunk: Bytes,
    /// Epoch.
    #[serde(deserialize_with = "text")]
    pub epoch: Nanos,
    /// The source's own traces.
    pub published: Vec<Set>,
    /// Traces to use when those are not at hand.
    pub stand_ins: Vec<Set>,
    /// Figures that the source prints, to stand beside ours.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Published>,
    /// The expected shape.
    pub expect: Vec<Expectation>,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a value not a quantity.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        read(text, origin, Config::check)
    }

    /// That what is expected, and what stands beside published figures, is run.
    fn check(&self) -> Result<(), String> {
        let label = |text: &String| PolicySpec::parse(text).map_or(text.clone(), |spec| spec.label);
        let labels: Vec<String> = self.policies.iter().map(label).collect();
        if self.expect.iter().any(Expectation::compares_with_nobody) {
            return Err("`against` names nobody to compare with".to_string());
        }
        if self.figures.iter().any(|figure| figure.policies.is_empty()) {
            return Err("`policies` of a figure names no policy".to_string());
        }
        let sets = || self.published.iter().chain(&self.stand_ins);
        let known = |policy: &&str| labels.iter().any(|label| label == policy);
        let expected = self.expect.iter().flat_map(Expectation::policies);
        let mut named = expected.chain(self.figures.iter().flat_map(Published::names));
        if let Some(policy) = named.find(|policy| !known(policy)) {
            return Err(format!(
                "something is expected of the policy `{policy}`, which is not run; `policies` are \
                 {}",
                labels.join(", ")
            ));
        }
        let mut workloads = self.expect.iter().filter_map(Expectation::workload);
        match workloads.find(|name| !sets().any(|set| set.name == **name)) {
            Some(name) => Err(format!(
                "something is expected of the workload `{name}`, which is not there; there are {}",
                sets().map(|set| set.name.as_str()).collect::<Vec<_>>().join(", ")
            )),
            None => Ok(()),
        }
    }
}

/// Reads a description of any kind from TOML, and checks it.
pub(super) fn read<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    check: impl FnOnce(&T) -> Result<(), String>,
) -> Result<T, ConfigError> {
    let wrong = |problem: String| ConfigError { origin: origin.to_string(), problem };
    let config: T = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
    check(&config).map_err(wrong)?;
    Ok(config)
}

pub(super) fn text<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(serde::de::Error::custom)
}

pub(super) fn text_or_none<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    text(from).map(Some)
}

fn texts<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|t| t.parse().map_err(serde::de::Error::custom)).collect()
}

fn texts_or_none<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    texts(from).map(Some)
}
