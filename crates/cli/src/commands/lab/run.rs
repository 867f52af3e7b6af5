//! `thermocline lab run`: one published figure or table.

use crate::error::CliError;
use crate::output;
use std::path::PathBuf;
use thermocline_experiments::{Experiment, Folders, Results};

const EXAMPLES: &str = "\
Examples:
  thermocline lab run experiments/vfrm --traces ~/msr-cambridge
  thermocline lab run experiments/gvfrm --out results/
  thermocline lab run experiments/lmst

The traces of MSR Cambridge are looked for by their published names (mds_0.csv.gz, …) in the
folders given with --traces. Without them the stand-ins that the experiment names are used, from
the folder `traces` under THERMOCLINE_SHARED (../shared when it is not set); experiments/lmst,
experiments/ara and experiments/hintstor-* make their own load and need none, and twins stand
beside those that name them; what experiments/hintstor-redis judges was measured elsewhere. Exit
status 1: an expected feature did not appear.";

/// Files of results: as text, as a page, as data.
const RESULTS: [&str; 3] = ["result.md", "result.html", "result.json"];

/// Options of an experiment: its description, and where its traces are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The experiment's folder.
    experiment: PathBuf,
    /// A folder with the published traces; may be repeated.
    #[arg(long, value_name = "DIR")]
    traces: Vec<PathBuf>,
    /// Write result.md, result.json and result.html into this folder.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace results that are in that folder already.
    #[arg(long, requires = "out")]
    force: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[allow(clippy::print_stderr)]
pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let path = args.experiment.join("experiment.toml");
    let name = path.display().to_string();
    let text = std::fs::read_to_string(&path).map_err(|error| {
        CliError::input(format!("{name}: {error}; give an experiment's folder"))
    })?;
    let experiment = Experiment::parse(&text, &name).map_err(CliError::input)?;
    // An experiment may take hours: it is not begun when its results have no place.
    let old = |folder: &PathBuf| RESULTS.iter().map(|name| folder.join(name)).find(|f| f.exists());
    if let Some(old) = args.out.as_ref().and_then(old).filter(|_| !args.force) {
        let text = format!("{} exists; choose another folder or --force", old.display());
        return Err(CliError::input(text));
    }
    let shared = std::env::var_os("THERMOCLINE_SHARED").unwrap_or_else(|| "../shared".into());
    let stand_ins = vec![PathBuf::from(shared).join("traces"), args.experiment];
    let folders = Folders { published: args.traces, stand_ins };
    let outcome =
        experiment.run(&folders, &mut |note| eprintln!("{note}")).map_err(CliError::input)?;
    let json = serde_json::to_string_pretty(&outcome).map_err(CliError::failed)?;
    if let Some(folder) = &args.out {
        write_results(folder, &outcome, &json, args.force)?;
    }
    let printed = if args.json { json + "\n" } else { outcome.to_markdown() };
    output::print(&printed)?;
    if outcome.all_hold() {
        Ok(())
    } else {
        Err(CliError::failed("an expected feature did not appear; the verdicts above say which"))
    }
}

fn write_results(
    folder: &PathBuf,
    outcome: &Results,
    json: &str,
    force: bool,
) -> Result<(), CliError> {
    std::fs::create_dir_all(folder)
        .map_err(|error| CliError::failed(format!("{}: {error}", folder.display())))?;
    let command = output::command_line();
    let page = outcome.to_html(env!("CARGO_PKG_VERSION"), &command);
    let markdown = outcome.to_markdown();
    for (name, text) in RESULTS.iter().zip([&markdown, &page, json]) {
        output::write_text(&folder.join(name), text, force)?;
    }
    Ok(())
}
