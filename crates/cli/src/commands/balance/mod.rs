//! `thermocline balance`: a reverse proxy in front of servers, and commands that talk to a running
//! one.
//!
//! With a configuration file what that says, which is read again when it changes or on SIGHUP: a
//! wrong one is refused, and the last good one goes on. Without one, a few options. Stops on
//! SIGTERM or Ctrl-C when what is under way has finished, at the latest after the drain time; a
//! second Ctrl-C stops at once. On SIGUSR2 a new process of the program takes over.

mod ask;
mod reload;
mod serve;
mod upgrade;

use crate::error::CliError;
use crate::listeners::LogFormat;
use clap::Subcommand;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  thermocline balance --listen 127.0.0.1:8080 --to 127.0.0.1:9001,127.0.0.1:9002
  thermocline balance --listen 127.0.0.1:8080 --to app-1:80,app-2:80 --policy least --check /health
  thermocline balance --tcp --listen 127.0.0.1:5432 --to db-1:5432,db-2:5432
  thermocline balance balance.toml              what the file says; docs/formats/balance.md
  thermocline balance status
  thermocline balance drain 127.0.0.1:9001

Which policy is best for your load: `thermocline lab balance`; all of them: `thermocline policies
balancer`.";

/// A reverse proxy that picks servers as the laboratory does.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Configuration, a TOML file.
    #[arg(value_name = "CONFIG", required_unless_present = "to")]
    config: Option<PathBuf>,
    #[command(flatten)]
    simple: SimpleArgs,
    /// Format of events on stderr.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
}

/// Options without a configuration.
#[derive(clap::Args)]
#[command(next_help_heading = "Without a configuration")]
struct SimpleArgs {
    /// Address at which clients come in.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        conflicts_with = "config"
    )]
    listen: std::net::SocketAddr,
    /// Servers, as HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', conflicts_with = "config")]
    to: Vec<String>,
    /// Policy that picks.
    #[arg(long, value_name = "POLICY", default_value = thermocline_policy::balance::DEFAULT,
        conflicts_with = "config")]
    policy: String,
    /// Pass bytes on, connection by connection, instead of HTTP requests.
    #[arg(long, conflicts_with = "config")]
    tcp: bool,
    /// Check servers by asking them for this path every two seconds.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["config", "tcp"])]
    check: Option<String>,
    /// Threads that proxy.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "config",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Write a JSON object for each request to this file, or to `stdout`.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    access_log: Option<PathBuf>,
    /// Socket of the API.
    #[arg(long, value_name = "PATH", default_value = crate::config::balance::SOCKET,
        conflicts_with = "config")]
    api: PathBuf,
}

/// Questions to a running balancer.
#[derive(Subcommand)]
enum Command {
    /// A running balancer at a glance.
    Status(ask::StatusArgs),
    /// Send a backend nothing new; it finishes what it has.
    Drain(ask::BackendArgs),
    /// Let a backend have requests again.
    Undrain(ask::BackendArgs),
    /// Tell a running balancer the load of a backend.
    Report(ask::ReportArgs),
    /// Check a configuration without running it.
    Check(ask::CheckArgs),
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    match args.command {
        None => serve::run(args.config, &args.simple, args.log),
        Some(Command::Status(args)) => ask::status(&args),
        Some(Command::Drain(args)) => ask::change(&args, "drain"),
        Some(Command::Undrain(args)) => ask::change(&args, "undrain"),
        Some(Command::Report(args)) => ask::report(&args),
        Some(Command::Check(args)) => ask::check(&args),
    }
}
