//! `thermocline lab …`: the laboratory.

mod accel;
mod balance;
mod balance_table;
mod cache;
mod curves;
mod policies;
mod run;
mod sweep;
mod table;
mod tunnel;
pub(crate) mod volume;
pub(crate) mod volume_replay;
mod volume_table;

use crate::error::CliError;
use clap::Subcommand;

/// Experiments of the laboratory.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Replay traces through cache policies and flash managers at several sizes.
    Cache(Box<cache::Args>),
    /// Run traces on a tiered volume of modelled devices, under several placements.
    Volume(Box<volume::Args>),
    /// Spread requests over several servers, under several balancers with stale load information.
    Balance(Box<balance::Args>),
    /// Send files through a tunnel on a modelled link, under several policies.
    Tunnel(tunnel::Args),
    /// Run a chain of network functions on modelled accelerators, under several schedulers.
    Accel(accel::Args),
    /// Run a plan of many traces, policies, sizes and seeds; a stopped run can be continued.
    Sweep(sweep::Args),
    /// Compare the policies of a sweep, family by family.
    Report(sweep::ReportArgs),
    /// Reproduce one published figure or table.
    Run(run::Args),
}

/// Fails when policies from outside failed in the middle, and says why; `ran`: results that there
/// are.
fn check_complete(ran: usize, failures: &[String]) -> Result<(), CliError> {
    if failures.is_empty() {
        return Ok(());
    }
    let (missing, all) = (failures.len(), ran + failures.len());
    let told = failures.join("; ");
    Err(CliError::failed(format!("{missing} of {all} results are missing: {told}")))
}

pub(crate) fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Cache(args) => cache::run(*args),
        Command::Volume(args) => volume::run(*args),
        Command::Balance(args) => balance::run(*args),
        Command::Tunnel(args) => tunnel::run(args),
        Command::Accel(args) => accel::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Report(args) => sweep::report(&args),
        Command::Run(args) => run::run(args),
    }
}
