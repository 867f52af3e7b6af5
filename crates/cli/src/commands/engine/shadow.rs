//! `thermocline shadow`: rivals of a running engine's policy, and what they would have done.

use super::{EngineArgs, micros, span};
use crate::config::library;
use crate::error::CliError;
use crate::output;
use crate::table;
use hyper::Method;
use std::fmt::Write;
use thermocline_admin::client::segment;
use thermocline_engine::api::{NewShadow, PlacementFigures, Shadow};
use thermocline_units::Bytes;

const EXAMPLES: &str = "\
Examples:
  thermocline shadow add edt
  thermocline shadow add baseline:k=200
  thermocline shadow list
  thermocline policy adopt edt                    the shadow decides from now on

A shadow sees what the policy sees, and moves nothing. Figures come with its first whole epoch.";

/// Let other policies run in shadow: what they would have done, beside what was done.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Let a policy begin as a shadow; at most 8 at once.
    Add {
        /// `name[:key=value:…]`, which becomes its name.
        spec: String,
        /// Watch one chunk in so many; 1 watches all, so that the shadow can be adopted with what
        /// it has learnt. All up to 4,096 chunks and one in 8 beyond, when not given.
        #[arg(long, value_name = "COUNT")]
        one_in: Option<u32>,
    },
    /// Shadows, and what they would have done.
    List,
    /// End a shadow.
    Remove {
        /// Its name.
        name: String,
    },
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    match args.command {
        Command::Add { spec, one_in } => {
            let policy = library::inlined(&spec).map_err(CliError::input)?;
            let wish = NewShadow { policy, one_in };
            let added: Shadow = client.send(Method::POST, "/v1/shadows", &wish)?;
            args.engine.answer(&added, |shadow| match shadow.one_in {
                1 => format!("{} watches every chunk\n", shadow.name),
                one_in => format!("{} watches one chunk in {one_in}\n", shadow.name),
            })
        }
        Command::List => {
            let shadows: Vec<Shadow> = client.get("/v1/shadows")?;
            args.engine.answer(&shadows, |shadows| match shadows.is_empty() {
                true => "there are no shadows\n".to_string(),
                false => text(shadows),
            })
        }
        Command::Remove { name } => {
            client.order(Method::DELETE, &format!("/v1/shadows/{}", segment(&name)))?;
            output::print(&format!("{name} is no shadow any more\n"))
        }
    }
}

/// A line a shadow, and under it what was done meanwhile; nothing without shadows.
pub(crate) fn text(shadows: &[Shadow]) -> String {
    if shadows.is_empty() {
        return String::new();
    }
    let mut table = table::plain([
        "shadow",
        "epochs",
        "latency",
        "fastest pool",
        "moved",
        "written there",
        "last epoch",
        "fastest pool",
    ]);
    for shadow in shadows {
        let epochs = shadow.epochs.to_string();
        table.add_row(row(shadow.name.clone(), epochs, &shadow.total, &shadow.epoch));
        let done = (&shadow.actual_total, &shadow.actual_epoch);
        table.add_row(row("  what was done".to_string(), String::new(), done.0, done.1));
    }
    table::align_numbers(&mut table);
    let mut out = table::fitted(&table, &[7, 5, 1]) + "\n";
    for shadow in shadows.iter().filter(|shadow| shadow.epochs == 0) {
        let age = span(shadow.age_seconds);
        let _ = writeln!(out, "{} began {age} ago; its first whole epoch is not over", shadow.name);
    }
    out
}

fn row(
    name: String,
    epochs: String,
    total: &PlacementFigures,
    epoch: &PlacementFigures,
) -> [String; 8] {
    let latency = |figures: &PlacementFigures| micros(figures.mean_latency_us.unwrap_or(0.0));
    let share = |figures: &PlacementFigures| {
        let share = figures.fastest_pool_share;
        share.map_or("–".to_string(), |share| format!("{:.1} %", share * 100.0))
    };
    let there = total.written.first().map_or(0, |pool| pool.client_bytes + pool.moved_bytes);
    [
        name,
        epochs,
        latency(total),
        share(total),
        Bytes(total.moved_bytes).to_string(),
        Bytes(there).to_string(),
        latency(epoch),
        share(epoch),
    ]
}
