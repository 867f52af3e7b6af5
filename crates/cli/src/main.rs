//! The one binary: parse, wire, run.
//!
//! Results go to stdout, everything said on the way (progress, notes, errors) to stderr. Exit
//! status: 0 done, 1 the work could not be done or a verdict is negative, 2 the input or the
//! command line is wrong.

mod allocator;
mod commands;
mod config;
mod deciding;
mod error;
mod handed;
mod in_use;
mod listeners;
mod live_view;
mod open_files;
mod origin;
mod output;
mod progress;
mod recording;
mod running;
mod service;
mod source;
mod stderr;
mod table;

#[cfg(test)]
mod tests;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: allocator::HugePages = allocator::HugePages;

/// Hybrid storage, live and in the laboratory: where data lives and how it moves.
#[derive(Parser)]
#[command(name = "thermocline", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // One value in a run.
enum Command {
    /// Characterise, convert, picture and make block traces.
    #[command(subcommand)]
    Trace(commands::trace::Command),
    /// Try policies out on traces, in virtual time.
    #[command(subcommand)]
    Lab(commands::lab::Command),
    /// Say what more fast space, a cache, another policy or a bucket would bring, from a trace.
    Advise(Box<commands::advise::Args>),
    /// Bring up tiered volumes, served over NBD; without a configuration one volume on three files.
    Up(commands::up::Args),
    /// Check a configuration and what its pools hold, without changing anything.
    Check(commands::check::Args),
    /// Copy a volume into an image file from pools that no engine runs on, damaged ones too.
    Export(commands::export::Args),
    /// Show what a file system on an image or a device keeps where: metadata, and files by size.
    Fs(commands::fs::Args),
    /// Measure a device into a profile that the models and the emulation run.
    Calibrate(commands::calibrate::Args),
    /// Check whether this machine has what the programs need, and say how to get the rest.
    Doctor(commands::doctor::Args),
    /// A running engine at a glance.
    Status(commands::engine::status::Args),
    /// A running engine, live, in the terminal.
    Top(commands::engine::top::Args),
    /// Volumes of a running engine: list, create, grow, delete, map.
    Volume(commands::engine::volume::Args),
    /// Pools of a running engine: list, add, grow, drain, replace, remove.
    Pool(commands::engine::pool::Args),
    /// Read and verify what a running engine's pools hold, and repair what is wrong.
    Scrub(commands::engine::scrub::Args),
    /// Tell a running engine what is known about data: by hand, around a command, for a mount.
    Hint(commands::engine::hint::Args),
    /// Move a range of a running engine's volume to a pool, copy it there, or pin it.
    Migrate(commands::engine::migrate::Args),
    /// Show or change the policy of a running engine; `policies` lists those that there are.
    Policy(commands::engine::policy::Args),
    /// Show what other policies would have done in a running engine (shadows).
    Shadow(commands::engine::shadow::Args),
    /// Put a balancer in front of servers: HTTP and TCP, with the laboratory's policies.
    Balance(commands::balance::Args),
    /// Estimate how much of some data repeats itself, and what a tunnel would save.
    #[command(subcommand)]
    Dedup(commands::dedup::Command),
    /// Remove repeated content from a slow link: a process at each end of it.
    #[command(subcommand)]
    Tunnel(commands::tunnel::Command),
    /// A server of volumes whose equal blocks are stored once: make it, serve it, look after it.
    #[command(subcommand)]
    Store(commands::store::Command),
    /// A host's agent: volumes of a storage server as NBD exports, with one cache for all guests.
    #[command(subcommand)]
    Host(commands::host::Command),
    /// A pool of accelerators: NAT and inspection on slots, between two network interfaces.
    #[command(subcommand)]
    Accel(commands::accel::Command),
    /// List the policies that there are, with source and settings; `policy` is a running engine's.
    Policies(commands::policies::Args),
    /// Print the OpenAPI document of a program's API.
    Openapi(commands::openapi::Args),
    /// Print a script by which a shell completes the words of commands.
    Completions(commands::shell::CompletionsArgs),
    /// Print a manual page, or write all of them.
    Man(commands::shell::ManArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Trace(command) => commands::trace::run(command),
        Command::Lab(command) => commands::lab::run(command),
        Command::Advise(args) => commands::advise::run(*args),
        Command::Up(args) => commands::up::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Export(args) => commands::export::run(&args),
        Command::Fs(args) => commands::fs::run(args),
        Command::Calibrate(args) => commands::calibrate::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Status(args) => commands::engine::status::run(args),
        Command::Top(args) => commands::engine::top::run(args),
        Command::Volume(args) => commands::engine::volume::run(args),
        Command::Pool(args) => commands::engine::pool::run(args),
        Command::Scrub(args) => commands::engine::scrub::run(args),
        Command::Hint(args) => match commands::engine::hint::run(args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Migrate(args) => commands::engine::migrate::run(args),
        Command::Policy(args) => commands::engine::policy::run(args),
        Command::Shadow(args) => commands::engine::shadow::run(args),
        Command::Balance(args) => commands::balance::run(args),
        Command::Dedup(command) => commands::dedup::run(command),
        Command::Tunnel(command) => commands::tunnel::run(command),
        Command::Store(command) => commands::store::run(command),
        Command::Host(command) => commands::host::run(command),
        Command::Accel(command) => commands::accel::run(command),
        Command::Policies(args) => commands::policies::run(args),
        Command::Openapi(args) => commands::openapi::run(&args),
        Command::Completions(args) => commands::shell::completions(&args, Cli::command()),
        Command::Man(args) => commands::shell::man(&args, Cli::command()),
    };
    stderr::flush();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(),
    }
}
