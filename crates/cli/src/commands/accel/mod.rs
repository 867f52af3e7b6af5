//! `thermocline accel …`: a pool of accelerators for network functions.

mod admin;
mod top;
mod up;

use crate::config::accel::SOCKET;
use crate::error::CliError;
use clap::Subcommand;
use std::path::PathBuf;
use thermocline_admin::client::Client;

/// The commands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Start a pool: network functions on slots, between two interfaces.
    Up(up::Args),
    /// List the slots of a running pool, or what one of them does.
    Slots(admin::StatusArgs),
    /// Load a function into a slot of a running pool.
    Load(admin::LoadArgs),
    /// Change the chain of functions that a tenant's packets go through, while they flow.
    Chain(admin::ChainArgs),
    /// Say how many slots a function gets; `auto` leaves it to the scheduler.
    Scale(admin::ScaleArgs),
    /// Empty a card: its functions move to other slots with their state, or to the processor.
    Drain(admin::DrainArgs),
    /// Let a card be used again.
    Undrain(admin::DrainArgs),
    /// A running pool at a glance.
    Status(admin::StatusArgs),
    /// A running pool, live, in the terminal.
    Top(top::Args),
}

/// The pool.
#[derive(clap::Args)]
pub(crate) struct PoolArgs {
    /// Socket of the running pool's API.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
}

impl PoolArgs {
    fn client(&self) -> Client {
        Client::of_pool(&self.socket)
    }
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Up(args) => up::run(&args),
        Command::Slots(args) => admin::slots(&args),
        Command::Load(args) => admin::load(&args),
        Command::Chain(args) => admin::chain(&args),
        Command::Scale(args) => admin::scale(&args),
        Command::Drain(args) => admin::drain(&args, true),
        Command::Undrain(args) => admin::drain(&args, false),
        Command::Status(args) => admin::status(&args),
        Command::Top(args) => top::run(&args),
    }
}
