//! `thermocline policy`: who decides about moves on a running engine, and why.

use super::{EngineArgs, span};
use crate::config::library;
use crate::error::CliError;
use hyper::Method;
use std::fmt::Write;
use thermocline_engine::api::{
    Adopted, Adoption, Explanation, NewPolicy, Policy, PolicyAccount, Pool, Status,
};
use thermocline_units::{Bytes, Nanos, text};

const EXAMPLES: &str = "\
Examples:
  thermocline policy show
  thermocline policy set baseline:k=200 --epoch 1m
  thermocline policy set none                     nothing moves by itself
  thermocline policy adopt edt                    the shadow edt decides from now on
  thermocline policy explain v0 17MiB             why the chunk there is where it is

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
    /// Show the policy, with its settings.
    Show,
    /// Give the decision to another, from now on and until the engine stops.
    Set {
        /// `name[:key=value:…]`, or none.
        spec: String,
        /// Time between two questions to it; when not given as it wants it (auto: 5 s), or as
        /// before.
        #[arg(long, value_name = "TIME")]
        epoch: Option<Nanos>,
    },
    /// Give the decision to a shadow, with what it has learnt if it watches every chunk and nothing
    /// is recorded.
    Adopt {
        /// The shadow's name; `thermocline shadow list` tells them.
        name: String,
    },
    /// Explain where a chunk is, how hot it is, and what the policy said of it when last asked.
    Explain {
        /// The volume.
        #[arg(value_parser = super::volume_name)]
        volume: String,
        /// A place in the chunk, from the volume's start.
        offset: Bytes,
    },
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let policy: Policy = match args.command {
        Command::Show => client.get("/v1/policy")?,
        Command::Set { spec, epoch } => {
            let spec = library::inlined(&spec).map_err(CliError::input)?;
            let wish = NewPolicy { spec, epoch_seconds: epoch.map(Nanos::as_secs_f64) };
            client.send(Method::PUT, "/v1/policy", &wish)?
        }
        Command::Adopt { name } => {
            let wish = Adoption { shadow: name };
            let adopted: Adopted = client.send(Method::POST, "/v1/policy/adopt", &wish)?;
            return args.engine.answer(&adopted, |adopted| {
                let how = if adopted.knows { "with what it has seen as a shadow" } else { "anew" };
                format!("{} decides from now on, {how}\n", adopted.policy.spec)
            });
        }
        Command::Explain { volume, offset } => {
            let path = format!("/v1/policy/explain?volume={volume}&offset_bytes={}", offset.0);
            let explanation: Explanation = client.get(&path)?;
            let pools: Vec<Pool> = client.get("/v1/pools")?;
            return args.engine.answer(&explanation, |told| explain(told, &volume, &pools));
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
        policy.account.iter().for_each(|account| write_account(&mut out, account));
        out
    })
}

/// Tells what the policy's moves have saved and cost.
fn write_account(out: &mut String, account: &PolicyAccount) {
    let _ = writeln!(out, "users waited {} in all", text::seconds(account.waited_seconds));
    if !account.acts {
        if account.proposed == 0 {
            let _ = writeln!(out, "it only recommends, and nothing has proved worth moving");
            return;
        }
        let (count, would) = (account.proposed, text::seconds(account.would_save_ratio));
        let _ = writeln!(out, "it only recommends: {count} exchanges of chunks are proven");
        let _ = writeln!(out, "  they would save {would} in each second");
        return;
    }
    if account.moved_bytes == 0 {
        let _ = writeln!(out, "  nothing has moved yet");
        return;
    }
    let saved = text::seconds(account.saved_seconds.abs());
    let verb = if account.saved_seconds < 0.0 { "cost them" } else { "saved them" };
    let _ = writeln!(out, "  what is elsewhere than at first has {verb} {saved}");
    let (moved, spent) = (Bytes(account.moved_bytes), text::seconds(account.spent_seconds));
    let _ = writeln!(out, "  copies of {moved} cost them {spent}");
    let [promised, came] = [account.promised_seconds, account.came_seconds].map(text::seconds);
    let _ = writeln!(out, "  moves promised {promised}, and {came} came");
}

fn explain(told: &Explanation, volume: &str, pools: &[Pool]) -> String {
    let chunk = &told.chunk;
    let name = |id: &u16| {
        let pool = pools.iter().find(|pool| pool.id == *id);
        pool.map_or_else(|| id.to_string(), |pool| pool.name.clone())
    };
    let wanted = chunk.pools.iter().filter(|&&id| Some(id) != chunk.kept_on);
    let names: Vec<String> = wanted.map(name).collect();
    let place = match names[..] {
        [] => "holds nothing and reads as zeroes".to_string(),
        _ => format!("lives on {}", names.join(", ")),
    };
    let (from, to) = (chunk.offset_bytes, chunk.offset_bytes + chunk.length_bytes);
    let mut out = format!("{volume} from {} to {} {place}", Bytes(from), Bytes(to));
    if let Some(pool) = &chunk.kept_on {
        let _ = write!(out, ", with its old copy kept on {}", name(pool));
    }
    if let Some(to) = &chunk.redirected_to {
        let _ = write!(out, "; its writes go to {}", name(to));
    }
    if let Some(other) = &chunk.mirrored_on {
        let _ = write!(out, ", mirrored on {}", name(other));
    }
    if chunk.pinned {
        out.push_str("; it is pinned, so no policy moves it");
    }
    let _ = writeln!(out, "\n{} reads and {} writes in this epoch", chunk.reads, chunk.writes);
    match (told.policy.as_str(), &told.reasons[..]) {
        ("none", _) => out.push_str("nobody decides about moves\n"),
        (policy, []) => {
            let _ = writeln!(out, "{policy} gives no reasons, or has not met this chunk");
        }
        (policy, reasons) => {
            let _ = writeln!(out, "{policy}, when it was last asked:");
            reasons.iter().for_each(|reason| {
                let _ = writeln!(out, "  {reason}");
            });
        }
    }
    out
}
