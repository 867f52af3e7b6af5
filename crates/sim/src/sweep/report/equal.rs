//! Costs at equal flash writes.
//!
//! Policies that admit less write less and miss more; to compare costs alone would favour whoever
//! wears out flash. Wong et al., "Baleen: ML admission & prefetching for flash caches" (FAST 2024),
//! compare at one flash write rate, to which each policy is tuned. Here the variants of a plan are
//! what was tuned. Costs between two of them lie on the line between them: part of the traffic is
//! treated in one way and part in the other.

use super::stats::{Paired, mean};
use super::{Point, Points};
use serde::Serialize;
use std::collections::BTreeMap;

/// A policy's cost at the baseline's flash writes.
#[derive(Debug, Clone, Serialize)]
pub struct EqualWrites {
    /// The policy's name, without settings.
    pub policy: String,
    /// Variants in the plan.
    pub variants: u64,
    /// Traces on which some variant writes no more than is allowed.
    pub traces: u64,
    /// Traces on which all variants write more.
    pub writes_more: u64,
    /// Mean of the I/O costs at real sizes, seconds; `None` when every variant writes more on every
    /// trace.
    pub cost_s: Option<f64>,
    /// Against the baseline's cost, on the traces on which it can.
    pub saved: Option<Paired>,
}

/// All policies at `part` of the baseline's flash writes.
pub(super) fn equal_writes(points: &Points, baseline: &str, part: f64) -> Vec<EqualWrites> {
    let mut names: BTreeMap<String, u64> = BTreeMap::new();
    for policy in
        points.values().flat_map(BTreeMap::keys).collect::<std::collections::BTreeSet<_>>()
    {
        *names.entry(without_settings(policy)).or_default() += 1;
    }
    let one = |(name, variants): (String, u64)| {
        let (mut pairs, mut writes_more) = (Vec::new(), 0);
        for of in points.values() {
            let Some(base) = of.get(baseline) else { continue };
            let own: Vec<&Point> = of
                .iter()
                .filter(|(policy, _)| without_settings(policy) == name)
                .map(|(_, point)| point)
                .collect();
            match least_cost(&own, base.flash_written * part) {
                Some(cost) => pairs.push((cost, base.cost_s)),
                None => writes_more += u64::from(!own.is_empty()),
            }
        }
        let costs: Vec<f64> = pairs.iter().map(|(cost, _)| *cost).collect();
        EqualWrites {
            policy: name,
            variants,
            traces: pairs.len() as u64,
            writes_more,
            cost_s: (!costs.is_empty()).then(|| mean(&costs)),
            saved: Paired::of(&pairs),
        }
    };
    let mut rows: Vec<EqualWrites> = names.into_iter().map(one).collect();
    let key = |row: &EqualWrites| row.saved.map_or(f64::NEG_INFINITY, |saved| saved.mean);
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.policy.cmp(&b.policy)));
    rows
}

/// `larc:r=1+arc` is a variant of `larc+arc`, and `./mine.so:name:k=1` one of `./mine.so:name`.
fn without_settings(policy: &str) -> String {
    let bare = |part: &str| part.split(':').next().unwrap_or_default().trim().to_string();
    if let Some((library, rest)) = thermocline_plugins::split(policy) {
        let filter = policy.split_once(library).map_or("", |(filter, _)| filter);
        let filter = filter.strip_suffix('+').map_or(String::new(), |filter| bare(filter) + "+");
        return format!("{filter}{library}:{}", bare(rest));
    }
    policy.split('+').map(bare).collect::<Vec<_>>().join("+")
}

/// The least cost at flash writes of at most `allowed`: on a variant, or on a line between one that
/// writes less and one that writes more. `None` when all write more.
fn least_cost(variants: &[&Point], allowed: f64) -> Option<f64> {
    let fits = |point: &&&Point| point.flash_written <= allowed;
    let mut least =
        variants.iter().filter(fits).map(|point| point.cost_s).min_by(f64::total_cmp)?;
    for low in variants.iter().filter(fits) {
        for high in variants.iter().filter(|point| !fits(point)) {
            let part = (allowed - low.flash_written) / (high.flash_written - low.flash_written);
            least = least.min(low.cost_s + part * (high.cost_s - low.cost_s));
        }
    }
    Some(least)
}
