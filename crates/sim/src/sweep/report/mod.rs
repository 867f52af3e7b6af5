//! Report of a sweep: policies side by side, family by family.
//!
//! 1. Seeds of one trace are averaged first: they are not independent traces.
//! 2. Every measure is such that less is better. Of each policy at each size: mean, ninth decile
//!    and worst over the traces, the mean of its ranks, and savings against the baseline, paired
//!    trace by trace.
//! 3. Costs at equal flash writes: on each trace, the variants of a policy (equal names, other
//!    settings) at one size span a lower convex hull of cost over flash writes; it is read at the
//!    baseline's flash writes, times a factor. A policy all of whose variants write more has no
//!    cost there, and is counted.
//!
//! Bounds, which are told the future, have no rank. What failed is listed, and counts for nothing.

mod equal;
mod html;
mod stats;
#[cfg(test)]
mod tests;
mod text;

pub use equal::EqualWrites;
pub use stats::{Paired, saving};

use super::folder::{self, FolderError};
use super::rows::Measured;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use thermocline_policy::registry::PolicySpec;

/// Name of the family of all traces.
const ALL: &str = "(all)";
/// Errors that a report repeats; all of them are in the results.
const ERRORS_SHOWN: usize = 20;

/// A figure of a policy on a trace; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Share of the requests that flash alone did not serve.
    RequestMisses,
    /// Share of the lines touched that were not on flash.
    LineMisses,
    /// Share of the bytes asked for that were not on flash.
    ByteMisses,
    /// I/O cost at real sizes, seconds a request.
    Cost,
    /// Disk-head time, seconds a request.
    DiskHead,
    /// Bytes written to flash for each byte asked for.
    FlashWrites,
}

/// All measures with the names by which they are asked for.
const MEASURES: [(Measure, &str); 6] = [
    (Measure::RequestMisses, "request-misses"),
    (Measure::LineMisses, "line-misses"),
    (Measure::ByteMisses, "byte-misses"),
    (Measure::Cost, "cost"),
    (Measure::DiskHead, "disk-head"),
    (Measure::FlashWrites, "flash-writes"),
];

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            MEASURES.iter().find(|(measure, _)| measure == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Measure, String> {
        let found = MEASURES.iter().find(|(_, name)| *name == text);
        found.map(|(measure, _)| *measure).ok_or_else(|| {
            let names = MEASURES.map(|(_, name)| name).join(", ");
            format!("`{text}` is no measure; choose one of {names}")
        })
    }
}

impl Measure {
    fn of(self, row: &Measured) -> f64 {
        let missed = |hits: u64, all: u64| ratio(all.saturating_sub(hits) as f64, all);
        match self {
            Measure::RequestMisses => missed(row.request_hits, row.requests),
            Measure::LineMisses => missed(row.line_hits, row.lines),
            Measure::ByteMisses => missed(row.byte_hits, row.bytes),
            Measure::Cost => ratio(row.cost_s, row.requests),
            Measure::DiskHead => ratio(row.disk_head_s, row.requests),
            Measure::FlashWrites => ratio(row.flash_written as f64, row.bytes),
        }
    }

    fn is_share(self) -> bool {
        matches!(self, Measure::RequestMisses | Measure::LineMisses | Measure::ByteMisses)
    }
}

fn ratio(part: f64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part / whole as f64 }
}

/// Choices of a report.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// The measure of ranks and savings.
    pub measure: Measure,
    /// The baseline; that of the plan when `None`.
    pub baseline: Option<String>,
    /// Flash writes at which costs are compared, as a part of the baseline's.
    pub flash_writes: f64,
}

/// Results of a sweep, compared.
#[derive(Debug, Clone, Serialize)]
pub struct SweepReport {
    /// Title of the plan.
    pub title: String,
    /// Version that made the results.
    pub version: String,
    /// The measure.
    pub measure: Measure,
    /// The policy that others are compared with.
    pub baseline: String,
    /// Part of the baseline's flash writes at which costs are compared.
    pub flash_writes: f64,
    /// Jobs of the plan.
    pub jobs: u64,
    /// Jobs that are done.
    pub jobs_done: u64,
    /// Results that are errors.
    pub errors: u64,
    /// The first of them: trace and message.
    pub errors_shown: Vec<(String, String)>,
    /// One each; all traces together first, when there are several families.
    pub families: Vec<FamilyReport>,
}

/// One family.
#[derive(Debug, Clone, Serialize)]
pub struct FamilyReport {
    /// Its name.
    pub family: String,
    /// Traces with a result.
    pub traces: u64,
    /// One a size.
    pub sizes: Vec<SizeReport>,
}

/// One size in one family.
#[derive(Debug, Clone, Serialize)]
pub struct SizeReport {
    /// The size.
    pub size: String,
    /// Policies, best mean rank first, bounds before them.
    pub policies: Vec<PolicyReport>,
    /// Costs at equal flash writes, by name of the policy without settings.
    pub equal_writes: Vec<EqualWrites>,
    /// Savings of every policy on every trace, ascending, for pictures.
    #[serde(skip)]
    savings: Vec<(String, Vec<f64>)>,
}

/// One policy at one size.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyReport {
    /// The policy.
    pub policy: String,
    /// True if it was told the future.
    pub bound: bool,
    /// Traces with a result.
    pub traces: u64,
    /// Mean of the measure.
    pub mean: f64,
    /// The value that nine traces of ten stay below.
    pub p90: f64,
    /// Largest.
    pub worst: f64,
    /// Mean of its ranks among the policies that ran on a trace, 1 is best; `None` for bounds.
    pub rank: Option<f64>,
    /// Against the baseline; `None` for the baseline itself.
    pub saved: Option<Paired>,
    /// Processor time, nanoseconds a request, mean over traces; where it was measured.
    pub processor_ns: Option<f64>,
}

/// One policy on one trace at one size, seeds averaged.
#[derive(Debug, Clone)]
struct Point {
    value: f64,
    cost_s: f64,
    flash_written: f64,
    processor_ns: Option<f64>,
}

/// Points by trace, then by policy.
type Points = BTreeMap<(String, String), BTreeMap<String, Point>>;

/// Reads the results in `path`, which may be incomplete, and compares.
///
/// # Errors
/// When they cannot be read, or the baseline is not among the policies.
pub fn report(path: &Path, options: &ReportOptions) -> Result<SweepReport, FolderError> {
    let contents = folder::contents(path)?;
    let baseline = options.baseline.clone().unwrap_or_else(|| contents.contest.baseline.clone());
    if !contents.contest.policies.contains(&baseline) {
        let names = contents.contest.policies.join(", ");
        let problem = format!("`{baseline}` is no policy of this sweep; those are {names}");
        return Err(FolderError::Other { path: path.display().to_string(), problem });
    }
    let failed = || contents.rows.iter().filter_map(|row| Some((row, row.error.clone()?)));
    let shown = failed().take(ERRORS_SHOWN).map(|(row, error)| {
        let at = if row.policy.is_empty() {
            row.trace.clone()
        } else {
            format!("{}, {} at {}", row.trace, row.policy, row.size)
        };
        (at, error)
    });
    let mut families: Vec<&str> = Vec::new();
    for row in &contents.rows {
        if !families.contains(&row.family.as_str()) {
            families.push(&row.family);
        }
    }
    families.sort_unstable();
    let several = families.len() > 1;
    let parts = several.then_some(None).into_iter().chain(families.into_iter().map(Some));
    let judge = Judge { rows: &contents.rows, baseline: &baseline, options };
    Ok(SweepReport {
        title: contents.contest.title.clone(),
        version: contents.version.clone(),
        measure: options.measure,
        flash_writes: options.flash_writes,
        jobs: contents.jobs,
        jobs_done: contents.done,
        errors: failed().count() as u64,
        errors_shown: shown.collect(),
        families: parts.map(|family| judge.family(family)).collect(),
        baseline: baseline.clone(),
    })
}

struct Judge<'a> {
    rows: &'a [Measured],
    baseline: &'a str,
    options: &'a ReportOptions,
}

impl Judge<'_> {
    /// One family, or all.
    fn family(&self, family: Option<&str>) -> FamilyReport {
        let of = |row: &&Measured| {
            row.error.is_none() && family.is_none_or(|family| row.family == family)
        };
        let rows: Vec<&Measured> = self.rows.iter().filter(of).collect();
        let mut sizes: Vec<&str> = Vec::new();
        let mut traces = std::collections::BTreeSet::new();
        for row in &rows {
            traces.insert((&row.family, &row.trace));
            if !sizes.contains(&row.size.as_str()) {
                sizes.push(&row.size);
            }
        }
        let at = |size: &&str| {
            let rows = rows.iter().filter(|row| row.size == **size).copied();
            self.size(size, &self.points(rows))
        };
        FamilyReport {
            family: family.unwrap_or(ALL).to_string(),
            traces: traces.len() as u64,
            sizes: sizes.iter().map(at).collect(),
        }
    }

    /// Averages over the seeds of each trace.
    fn points<'b>(&self, rows: impl Iterator<Item = &'b Measured>) -> Points {
        let mut seeds: BTreeMap<(String, String), BTreeMap<String, Vec<&Measured>>> =
            BTreeMap::new();
        for row in rows {
            let trace = seeds.entry((row.family.clone(), row.trace.clone())).or_default();
            trace.entry(row.policy.clone()).or_default().push(row);
        }
        let averaged = |rows: Vec<&Measured>| {
            let over = |of: &dyn Fn(&Measured) -> f64| {
                stats::mean(&rows.iter().map(|row| of(row)).collect::<Vec<_>>())
            };
            let times: Vec<f64> = rows
                .iter()
                .filter_map(|row| Some(ratio(row.processor_s? * 1e9, row.requests)))
                .collect();
            Point {
                value: over(&|row| self.options.measure.of(row)),
                cost_s: over(&|row| row.cost_s),
                flash_written: over(&|row| row.flash_written as f64),
                processor_ns: (!times.is_empty()).then(|| stats::mean(&times)),
            }
        };
        let policies = |of: BTreeMap<String, Vec<&Measured>>| {
            of.into_iter().map(|(policy, rows)| (policy, averaged(rows))).collect()
        };
        seeds.into_iter().map(|(trace, of)| (trace, policies(of))).collect()
    }

    fn size(&self, size: &str, points: &Points) -> SizeReport {
        let mut policies: Vec<&String> = Vec::new();
        for policy in points.values().flat_map(BTreeMap::keys) {
            if !policies.contains(&policy) {
                policies.push(policy);
            }
        }
        let ranks = ranks_by_policy(points);
        let mut reports: Vec<PolicyReport> =
            policies.iter().map(|policy| self.policy(policy, points, &ranks)).collect();
        let key = |report: &PolicyReport| report.rank.unwrap_or(0.0);
        reports.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.policy.cmp(&b.policy)));
        let savings = reports.iter().filter(|report| report.policy != self.baseline);
        let savings = savings.map(|report| {
            let pairs = self.pairs(&report.policy, points);
            let mut all: Vec<f64> = pairs.iter().map(|(v, base)| saving(*v, *base)).collect();
            all.sort_by(f64::total_cmp);
            (report.policy.clone(), all)
        });
        SizeReport {
            size: size.to_string(),
            savings: savings.collect(),
            equal_writes: equal::equal_writes(points, self.baseline, self.options.flash_writes),
            policies: reports,
        }
    }

    fn policy(
        &self,
        policy: &str,
        points: &Points,
        ranks: &BTreeMap<String, Vec<f64>>,
    ) -> PolicyReport {
        let own = || points.values().filter_map(|of| of.get(policy));
        let values: Vec<f64> = own().map(|point| point.value).collect();
        let times: Vec<f64> = own().filter_map(|point| point.processor_ns).collect();
        PolicyReport {
            policy: policy.to_string(),
            bound: is_bound(policy),
            traces: values.len() as u64,
            mean: stats::mean(&values),
            p90: stats::percentile(&values, 0.9),
            worst: stats::percentile(&values, 1.0),
            rank: ranks.get(policy).map(|ranks| stats::mean(ranks)),
            saved: if policy == self.baseline {
                None
            } else {
                Paired::of(&self.pairs(policy, points))
            },
            processor_ns: (!times.is_empty()).then(|| stats::mean(&times)),
        }
    }

    /// The policy and the baseline, on each trace that has both.
    fn pairs(&self, policy: &str, points: &Points) -> Vec<(f64, f64)> {
        let pair = |of: &BTreeMap<String, Point>| {
            Some((of.get(policy)?.value, of.get(self.baseline)?.value))
        };
        points.values().filter_map(pair).collect()
    }
}

/// Ranks of each competitor on each trace.
fn ranks_by_policy(points: &Points) -> BTreeMap<String, Vec<f64>> {
    let mut ranks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for of in points.values() {
        let competitors: Vec<(&String, &Point)> =
            of.iter().filter(|(policy, _)| !is_bound(policy)).collect();
        let values: Vec<f64> = competitors.iter().map(|(_, point)| point.value).collect();
        for ((policy, _), rank) in competitors.iter().zip(stats::ranks(&values)) {
            ranks.entry((*policy).clone()).or_default().push(rank);
        }
    }
    ranks
}

fn is_bound(policy: &str) -> bool {
    PolicySpec::parse(policy).is_ok_and(|spec| spec.is_clairvoyant())
}
