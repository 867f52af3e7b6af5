//! `thermocline tunnel …`: two processes around a slow link, their keys, and how they are.

mod ends;
mod keys;
mod status;
mod worker;

use crate::error::CliError;
use clap::Subcommand;

/// Socket of a running end unless told otherwise.
const SOCKET: &str = "thermocline-tunnel.sock";

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The end near the clients: ports that lead to servers, and SOCKS5.
    Enter(ends::EnterArgs),
    /// The end near the servers, which connects to what rules allow.
    Exit(ends::ExitArgs),
    /// Make a key for an end: NAME.key, and NAME.pub for the other end.
    Keys(keys::Args),
    /// A running end at a glance.
    Status(status::Args),
    /// A worker for --chunking accelerator that cuts by this machine's processor.
    Worker(worker::Args),
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Enter(args) => ends::enter(args),
        Command::Exit(args) => ends::exit(args),
        Command::Keys(args) => keys::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Worker(args) => worker::run(&args),
    }
}
