//! Commands that talk to a running balancer over its unix socket.

use crate::commands::engine::{micros, span};
use crate::config::balance::{BalanceConfig, SOCKET};
use crate::error::CliError;
use crate::listeners::moment;
use crate::{output, table};
use hyper::Method;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use thermocline_admin::api::{Event, Severity};
use thermocline_admin::client::{Client, segment};
use thermocline_proxy::api::{BackendStatus, BalanceStatus};
use thermocline_proxy::report::LoadReportJson;
use thermocline_units::text::{count, counted};

const REPORT_EXAMPLES: &str = "\
Examples:
  thermocline balance report app-1:80 --queue 3
  thermocline balance report app-1:80 --queue 3 --arrivals 1207 --balancers 2";

/// Balancer to ask, and form of the answer.
#[derive(clap::Args)]
pub(super) struct BalancerArgs {
    /// Socket of the balancer's API.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    api: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `status`.
#[derive(clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    balancer: BalancerArgs,
}

/// Arguments of `drain` and `undrain`.
#[derive(clap::Args)]
pub(super) struct BackendArgs {
    #[command(flatten)]
    balancer: BalancerArgs,
    /// The backend.
    #[arg(value_name = "NAME")]
    name: String,
}

/// Arguments of `report`.
#[derive(clap::Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub(super) struct ReportArgs {
    /// Socket of the balancer's API.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    api: PathBuf,
    /// The backend.
    #[arg(value_name = "NAME")]
    name: String,
    /// Requests waiting or in service there, of all balancers.
    #[arg(long, value_name = "N")]
    queue: u64,
    /// Requests that have ever arrived there.
    #[arg(long, value_name = "N", default_value_t = 0)]
    arrivals: u64,
    /// Balancers that send there.
    #[arg(long, value_name = "N", default_value_t = 0)]
    balancers: u64,
    /// Age of it.
    #[arg(long, value_name = "TIME", default_value = "0s")]
    age: thermocline_units::Nanos,
}

/// Arguments of `check`.
#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// The configuration, a TOML file.
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
}

impl BalancerArgs {
    fn answer<T: Serialize>(&self, value: &T, text: String) -> Result<(), CliError> {
        output::answer(self.json, value, |_| text)
    }
}

pub(super) fn status(args: &StatusArgs) -> Result<(), CliError> {
    let client = Client::of_balancer(&args.balancer.api);
    let status: BalanceStatus = client.get("/v1/status")?;
    let events: Vec<Event> = client.get("/v1/events")?;
    args.balancer.answer(&status, text(&status, &events))
}

pub(super) fn change(args: &BackendArgs, how: &str) -> Result<(), CliError> {
    let path = format!("/v1/backends/{}/{how}", segment(&args.name));
    let backend: BackendStatus =
        Client::of_balancer(&args.balancer.api).send(Method::POST, &path, &())?;
    let BackendStatus { name, state, outstanding, .. } = &backend;
    let text = format!("{name} is {state}; {outstanding} requests under way\n");
    args.balancer.answer(&backend, text)
}

pub(super) fn report(args: &ReportArgs) -> Result<(), CliError> {
    let report = LoadReportJson {
        queue: args.queue,
        arrivals: args.arrivals,
        balancers: args.balancers,
        age_s: args.age.as_secs_f64(),
    };
    let path = format!("/v1/backends/{}/report", segment(&args.name));
    Client::of_balancer(&args.api).tell(Method::POST, &path, &report)?;
    Ok(())
}

pub(super) fn check(args: &CheckArgs) -> Result<(), CliError> {
    let config = BalanceConfig::load(&args.config).map_err(CliError::input)?;
    let (listeners, backends) = (config.proxy.listen.len(), config.proxy.live.backends.len());
    output::print(&format!(
        "{}: {listeners} listeners, {backends} backends; fine\n",
        args.config.display()
    ))
}

fn text(status: &BalanceStatus, events: &[Event]) -> String {
    let mut out = format!(
        "up {}, listening on {}; {}, {} so far\n",
        span(status.uptime_seconds),
        status.listen.join(", "),
        counted(status.connections, "connection"),
        counted(status.requests, "request")
    );
    let _ = write!(out, "policy {}", status.policy);
    if let Some(bursting) = status.bursting {
        out.push_str(if bursting { "; in a burst" } else { "; calm" });
    }
    if let Some(candidates) = status.candidates {
        let _ = write!(out, "; picks among {candidates:.0} (K)");
    }
    if status.balancers > 1 {
        let _ = write!(out, "; {} balancers", status.balancers);
    }
    out.push('\n');
    if status.panic {
        out.push_str("NO BACKEND IS FIT: all are tried\n");
    }
    if status.waiting > 0 || status.turned_away > 0 {
        let (waiting, away) = (status.waiting, status.turned_away);
        let _ = writeln!(out, "{waiting} requests wait for a place; {away} found none");
    }
    let _ = write!(out, "\n{}\n", backends(&status.backends));
    for backend in &status.backends {
        if let Some(error) = &backend.last_error {
            let (name, at) = (&backend.name, moment(error.at_ms));
            let _ = writeln!(out, "{name}: the last failure, {at}: {}", error.text);
        }
    }
    let troubles: Vec<&Event> =
        events.iter().filter(|event| event.severity != Severity::Info).collect();
    for event in troubles.iter().rev().take(5).rev() {
        let _ = writeln!(out, "{} {}: {}", moment(event.at_ms), event.subject, event.text);
    }
    out
}

/// A line a backend.
fn backends(backends: &[BackendStatus]) -> comfy_table::Table {
    let mut table = table::plain([
        "backend",
        "state",
        "weight",
        "under way",
        "reported",
        "sent",
        "served",
        "failed",
        "retried",
        "p50",
        "p99",
    ]);
    for backend in backends {
        let counters = &backend.counters;
        let failed = counters.errors + counters.unreachable + counters.broken + counters.timed_out;
        let reported = backend.report.map_or("–".to_string(), |report| {
            format!("{} ({} ago)", report.queue, span(report.age_s))
        });
        table.add_row([
            backend.name.clone(),
            backend.state.clone(),
            format!("{}", (backend.weight * backend.share * 100.0).round() / 100.0),
            backend.outstanding.to_string(),
            reported,
            count(counters.sent),
            count(counters.served),
            count(failed),
            count(counters.retried),
            micros(backend.latency.p50_us),
            micros(backend.latency.p99_us),
        ]);
    }
    table::align_numbers(&mut table);
    table
}
