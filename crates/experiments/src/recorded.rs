//! Experiments that need a real machine and other people's programs: what was measured there is
//! written down in the description, pair by pair, and judged here like everything else.
//!
//! Nothing runs. A pair is two neighbouring runs on one machine, with and without; its figure is
//! the ratio, so that what the machine did to both does not count as uncertainty.

use super::Verdict;
use super::config::ConfigError;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use thermocline_charts::{Cell, Page, Table};
use thermocline_sim::balance::Estimate;

/// An experiment that was recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `recorded`.
    #[serde(rename = "kind")]
    _kind: Kind,
    /// Its title.
    pub title: String,
    /// The figure it reproduces.
    pub source: String,
    /// Text about what was measured and how to read it.
    pub about: String,
    /// Command that measures it again.
    pub command: String,
    /// Time, code and machine of the measurement.
    pub measured: String,
    /// Pairs that were compared.
    #[serde(rename = "pair")]
    pairs: Vec<Pair>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Recorded,
}

/// One comparison.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pair {
    name: String,
    /// One a pair of neighbouring runs.
    ratios: Vec<f64>,
    /// The source's ratio.
    published: Option<f64>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// Expectations of a ratio.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Expectation {
    /// A figure above this, with 95 % confidence.
    Above {
        /// The ratio.
        times: f64,
    },
    /// A figure that is the published one within a factor, with 95 % confidence.
    AsPublished {
        /// At least 1.
        factor: f64,
    },
}

/// Outcome of the experiment.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Its title.
    pub title: String,
    /// The figure it reproduces.
    pub source: String,
    /// Text about what was measured, by what and when.
    pub about: String,
    /// One a comparison: its name, our ratio, the source's.
    pub lines: Vec<(String, Estimate, Option<f64>)>,
    /// Verdicts on the expected features.
    pub verdicts: Vec<Verdict>,
}

impl Config {
    /// Reads a description from TOML.
    ///
    /// # Errors
    /// When a key is unknown or missing, or a comparison has no ratio or no published one that is
    /// expected.
    pub fn parse(text: &str, origin: &str) -> Result<Config, ConfigError> {
        let wrong = |problem: String| ConfigError { origin: origin.to_string(), problem };
        let config: Config = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        for Pair { name, ratios, published, expect } in &config.pairs {
            if ratios.len() < 2 {
                let count = ratios.len();
                return Err(wrong(format!("pair `{name}`: {count} ratios; it takes two or more")));
            }
            let asks = |expected: &Expectation| matches!(expected, Expectation::AsPublished { .. });
            if published.is_none() && expect.iter().any(asks) {
                return Err(wrong(format!("pair `{name}`: it has no published ratio")));
            }
        }
        Ok(config)
    }

    /// Judges what was recorded.
    pub fn outcome(&self) -> Outcome {
        let line = |pair: &Pair| (pair.name.clone(), Estimate::of(&pair.ratios), pair.published);
        let judge = |pair: &Pair| pair.expect.iter().map(|e| e.judge(pair)).collect::<Vec<_>>();
        Outcome {
            title: self.title.clone(),
            source: self.source.clone(),
            about: format!(
                "{}\n\nRecorded, not run here: `{}`. {}",
                self.about.trim(),
                self.command,
                self.measured.trim()
            ),
            lines: self.pairs.iter().map(line).collect(),
            verdicts: self.pairs.iter().flat_map(judge).collect(),
        }
    }
}

impl Expectation {
    fn judge(&self, pair: &Pair) -> Verdict {
        let Estimate { mean, ci95 } = Estimate::of(&pair.ratios);
        let (name, count) = (&pair.name, pair.ratios.len());
        let ours = format!("{mean:.2} ±{ci95:.2} times in {count} pairs");
        match *self {
            Expectation::Above { times } => Verdict {
                claim: format!("{name}: above {times} times: {ours}"),
                holds: mean - ci95 > times,
            },
            Expectation::AsPublished { factor } => {
                let published = pair.published.expect("it was checked");
                let (low, high) = (published / factor, published * factor);
                Verdict {
                    claim: format!(
                        "{name}: the published {published} times within a factor of {factor}: {ours}"
                    ),
                    holds: mean - ci95 >= low && mean + ci95 <= high,
                }
            }
        }
    }
}

impl Outcome {
    /// The whole outcome as Markdown.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n\nSource: {}.\n\n{}\n\n", self.title, self.source, self.about);
        out += "| with over without | ours | published |\n|---|---:|---:|\n";
        for (name, [ours, published]) in self.cells() {
            writeln!(out, "| {name} | {ours} | {published} |").expect("a String takes every text");
        }
        out.push('\n');
        super::verdicts::list(&mut out, &self.verdicts);
        super::verdicts::sum(&mut out, &self.verdicts);
        out
    }

    /// The outcome as one self-contained HTML page; `command` made it.
    pub fn to_html(&self, version: &str, command: &str) -> String {
        let mut table = Table::new("With over without", ["", "ours", "published"]);
        for (name, [ours, published]) in self.cells() {
            table.row([Cell::text(name), Cell::text(ours), Cell::text(published)]);
        }
        Page::new(&self.title)
            .lede(format!("{}. {}", self.source, self.about))
            .section("Recorded")
            .table(&table)
            .table(&super::verdicts::table("Expected features", &self.verdicts))
            .made_by(version, command)
            .to_html()
    }

    fn cells(&self) -> impl Iterator<Item = (&str, [String; 2])> {
        self.lines.iter().map(|(name, ours, published)| {
            let published = published.map_or(String::new(), |times| times.to_string());
            (name.as_str(), [format!("{:.2} ±{:.2}", ours.mean, ours.ci95), published])
        })
    }
}

#[cfg(test)]
mod tests;
