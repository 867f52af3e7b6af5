//! `thermocline host …`: a host's agent.

mod admin;
mod flash;
mod serve;

use crate::config::hosting::HOST_SOCKET;
use crate::error::CliError;
use clap::Subcommand;
use std::path::PathBuf;
use thermocline_admin::client::Client;

/// The commands.
#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // One value in a run.
pub(crate) enum Command {
    /// Attach volumes of a storage server and export them over NBD.
    Serve(serve::Args),
    /// Have a running agent attach another volume.
    Attach(admin::AttachArgs),
    /// Have a running agent flush a volume and give it back, so that another host can have it.
    Detach(admin::DetachArgs),
    /// A running agent at a glance.
    Status(admin::StatusArgs),
}

/// The agent.
#[derive(clap::Args)]
pub(crate) struct HostArgs {
    /// Socket of the running agent's API.
    #[arg(long, value_name = "PATH", default_value = HOST_SOCKET)]
    socket: PathBuf,
}

impl HostArgs {
    fn client(&self) -> Client {
        Client::of_host(&self.socket)
    }
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Serve(args) => serve::run(args),
        Command::Attach(args) => admin::attach(&args),
        Command::Detach(args) => admin::detach(&args),
        Command::Status(args) => admin::status(&args),
    }
}
