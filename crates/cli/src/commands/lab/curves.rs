//! `thermocline lab cache --mrc`: miss-ratio curves, at the sizes asked for.

use super::cache::Args;
use super::policies::Chosen;
use super::table;
use crate::error::CliError;
use crate::output;
use crate::progress::{Progress, Unit as Counted};
use thermocline_policy::registry::PolicySpec;
use thermocline_sim::lab::{self, Adjustment, CurveMethod, Curves, LabOptions};
use thermocline_sim::workload::{Cut, Sample};

/// Makes the curves and prints them.
pub(super) fn run(
    args: &Args,
    chosen: Chosen,
    cut: Cut,
    method: CurveMethod,
    options: &LabOptions,
) -> Result<(), CliError> {
    let cut = Cut { chunk: None, ..cut };
    let sizes = args.size.as_deref();
    let mut reader = args.source.open()?;
    let bar = args.reading("reading");
    let progress = |bytes| bar.at(bytes);
    let curves = match method.sample() {
        None => {
            let only_lru = |spec: &PolicySpec| spec.is_plain_lru();
            if !args.policy.is_empty() && !chosen.specs.iter().all(only_lru) {
                return Err(CliError::input(
                    "--mrc exact is LRU's curve; for other policies take a sample: \
                     --mrc shards:0.01",
                ));
            }
            lab::exact_curve(&mut *reader, cut, sizes, options, &progress)
        }
        Some(size) => {
            let caches = caches(args, chosen)?;
            let sample = Sample::read(&mut *reader, cut.unit, size, options.seed, &progress);
            let sample = sample.map_err(CliError::input)?;
            drop(bar);
            let _bar = Progress::bar(None, Counted::Things, "replaying sampled lines");
            let how = (method, Adjustment::WhereItHelps);
            lab::sampled_curves(&sample, cut.unit, &caches, sizes, how, options)
        }
    };
    deliver(args, &curves.map_err(CliError::input)?)
}

/// The policies that have curves; those that were named and have none are refused.
fn caches(args: &Args, chosen: Chosen) -> Result<Vec<PolicySpec>, CliError> {
    let (managers, caches): (Vec<_>, Vec<_>) =
        chosen.specs.into_iter().partition(PolicySpec::is_placement);
    let named = |spec: &&PolicySpec| args.policy.contains(&spec.written);
    match managers.iter().find(named) {
        Some(spec) => Err(CliError::input(format!(
            "{} moves chunks: miss-ratio curves are of caches only",
            spec.label
        ))),
        None => Ok(caches),
    }
}

fn deliver(args: &Args, curves: &Curves) -> Result<(), CliError> {
    let version = env!("CARGO_PKG_VERSION");
    args.output.write_html(|command| lab::curves_html(curves, version, command))?;
    if args.output.json {
        output::print(&table::curves_json(curves)?)
    } else if args.output.csv {
        let mut csv = Vec::new();
        lab::write_curves_csv(curves, &mut csv).map_err(CliError::failed)?;
        output::print(&String::from_utf8_lossy(&csv))
    } else {
        output::print(&table::curves_text(curves, args.objects()))
    }
}
