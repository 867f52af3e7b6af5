//! `thermocline scrub`: reads and verifies what a running engine's pools hold.

use super::EngineArgs;
use crate::error::CliError;
use crate::listeners::moment;
use hyper::Method;
use std::fmt::Write;
use std::time::Duration;
use thermocline_engine::api::{NewScrub, Scrub};
use thermocline_units::Bytes;

const EXAMPLES: &str = "\
Examples:
  thermocline scrub                      all pools, but for those across a network
  thermocline scrub hdd --wait           one pool, and its end
  thermocline scrub --show
  thermocline scrub --stop

Copies that are not as they were written are repaired from right ones. What was found is in
`thermocline status`, in the events and in /metrics. Exit status with --wait: 1 when something
cannot be repaired, or the scrub was stopped before its end.";

/// Time between two looks for the end.
const LOOK: Duration = Duration::from_millis(500);

/// Read and verify what pools hold, and repair what is wrong.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    /// The only pool to read, by name or number; all but those across a network when not given.
    pool: Option<String>,
    /// Return when it has ended.
    #[arg(long)]
    wait: bool,
    /// Say how far it is, and what was found.
    #[arg(long, conflicts_with_all = ["pool", "wait", "stop"])]
    show: bool,
    /// Stop the one that is under way.
    #[arg(long, conflicts_with_all = ["pool", "wait"])]
    stop: bool,
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    if args.show {
        let scrub: Scrub = client.get("/v1/scrub")?;
        return args.engine.answer(&scrub, text);
    }
    if args.stop {
        let scrub: Scrub = client.send(Method::DELETE, "/v1/scrub", &())?;
        return args.engine.answer(&scrub, text);
    }
    let before: Scrub = client.get("/v1/scrub")?;
    let wish = NewScrub { pool: args.pool.clone() };
    let mut scrub: Scrub = client.send(Method::POST, "/v1/scrub", &wish)?;
    while args.wait && scrub.state == "running" {
        std::thread::sleep(LOOK);
        scrub = client.get("/v1/scrub")?;
    }
    args.engine.answer(&scrub, text)?;
    let bad = |scrub: &Scrub| scrub.unrepairable_blocks + scrub.undecided_blocks;
    match bad(&scrub) - bad(&before).min(bad(&scrub)) {
        0 if args.wait && scrub.progress < 1.0 => {
            Err(CliError::failed("the scrub was stopped before its end"))
        }
        0 => Ok(()),
        blocks => Err(CliError::failed(format!("{blocks} blocks cannot be repaired"))),
    }
}

/// Lines about scrubs.
pub(super) fn text(scrub: &Scrub) -> String {
    let of = scrub.pool.as_ref().map(|pool| format!(" of pool {pool}")).unwrap_or_default();
    let passed = scrub.progress * 100.0;
    let mut text = match scrub.state.as_str() {
        "none" => "no scrub since the start".to_string(),
        "running" => format!("scrub{of}: {passed:.0} % of the map"),
        _ => format!("scrub{of} has ended at {passed:.0} % of the map"),
    };
    if let Some(at) = scrub.last_end_ms {
        let _ = write!(text, "; the last of all pools ended at {}", moment(at));
    }
    let read = Bytes(scrub.read_bytes);
    let _ = writeln!(
        text,
        "\n{} chunks read, {read}, {} passed over; {} checksum errors, {} unreadable pieces",
        scrub.chunks, scrub.skipped_chunks, scrub.checksum_errors, scrub.unreadable
    );
    let _ = writeln!(
        text,
        "{} blocks and {} tables repaired, {} copies replaced; {} blocks cannot be repaired, in {} \
         copies differ",
        scrub.repaired_blocks,
        scrub.repaired_tables,
        scrub.replaced_copies,
        scrub.unrepairable_blocks,
        scrub.undecided_blocks
    );
    text
}
