//! `thermocline lab cache --mrc`: miss-ratio curves, at the sizes asked for.

use super::cache::Args;
use super::{policies, table};
use crate::error::CliError;
use crate::output;
use crate::progress::Bars;
use thermocline_sim::lab::{self, Contest, CurveMethod, Curves};

/// Makes the curves and prints them.
pub(super) fn run(args: &Args, contest: &Contest, method: CurveMethod) -> Result<(), CliError> {
    let chosen = match args.policy.is_empty() {
        true => None,
        false => Some(policies::chosen(&args.policy, args.objects())?),
    };
    let bars = Bars::default();
    let curves = contest.curves(chosen, args.size.as_deref(), method, &bars);
    drop(bars);
    deliver(args, &curves.map_err(CliError::input)?)
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
