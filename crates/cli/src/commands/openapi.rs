//! `thermocline openapi`: the document of a program's API, without a running program.

use crate::error::CliError;
use crate::output;
use thermocline_admin::http::reference;

const EXAMPLES: &str = "\
Examples:
  thermocline openapi engine > engine.json
  thermocline openapi balance --markdown

A running program serves its own document at /v1/openapi.json.";

/// Options of the document.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The program whose API it is.
    program: Program,
    /// Print a page to read, in Markdown, instead of the OpenAPI document in JSON.
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Program {
    /// `thermocline up`.
    Engine,
    /// `thermocline balance`.
    Balance,
    /// `thermocline tunnel`.
    Tunnel,
    /// `thermocline store`.
    Store,
    /// `thermocline host`.
    Host,
    /// `thermocline accel`.
    Accel,
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let document = match args.program {
        Program::Engine => thermocline_engine::http::openapi(),
        Program::Balance => thermocline_proxy::openapi(),
        Program::Tunnel => thermocline_gateway::admin::openapi(),
        Program::Store => thermocline_hosting::store_openapi(),
        Program::Host => thermocline_hosting::host_openapi(),
        Program::Accel => thermocline_offload::openapi(),
    };
    if args.markdown {
        return output::print(&reference(&document));
    }
    let text = document.to_pretty_json().map_err(CliError::failed)?;
    output::print(&(text + "\n"))
}
