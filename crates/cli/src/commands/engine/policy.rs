//! `thermocline policy`: who decides about moves on a running engine.

use super::{EngineArgs, span};
use crate::error::CliError;
use hyper::Method;
use std::fmt::Write;
use thermocline_serve::api::{NewPolicy, Policy, Status};
use thermocline_units::Nanos;

const EXAMPLES: &str = "\
Examples:
  thermocline policy show
  thermocline policy set baseline:k=200 --epoch 1m
  thermocline policy set none                     nothing moves by itself

`thermocline policies` lists what can be chosen.";

/// Show or change who decides about moves.
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
    /// Who decides, and with which settings.
    Show,
    /// Give the decision to another, from now on and until the engine stops.
    Set {
        /// `name[:key=value,…]`, or none.
        spec: String,
        /// How often it is asked; as before when not given.
        #[arg(long, value_name = "TIME")]
        epoch: Option<Nanos>,
    },
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let policy: Policy = match args.command {
        Command::Show => client.get("/v1/policy")?,
        Command::Set { spec, epoch } => {
            let wish = NewPolicy { spec, epoch_seconds: epoch.map(Nanos::as_secs_f64) };
            client.send(Method::PUT, "/v1/policy", &wish)?
        }
    };
    let status: Status = client.get("/v1/status")?;
    args.engine.answer(&policy, |policy| {
        let mut out = policy.spec.clone();
        if policy.spec != "none" {
            let _ = write!(out, ", asked every {}", span(status.epoch_seconds));
        }
        out.push('\n');
        for (key, value) in &policy.settings {
            let _ = writeln!(out, "  {key} = {value}");
        }
        out
    })
}
