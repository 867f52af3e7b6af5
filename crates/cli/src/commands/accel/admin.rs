//! Commands for a running pool.

use super::PoolArgs;
use crate::error::CliError;
use crate::{output, table};
use hyper::Method;
use std::fmt::Write as _;
use thermocline_admin::client::segment;
use thermocline_offload::api::{NewCardState, NewChain, NewCount, NewLoad, PoolStatus, Slot};
use thermocline_units::Bytes;
use thermocline_units::text::{count as numbered, counted};

/// Arguments of `status` and `slots`.
#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `load`.
#[derive(clap::Args)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The slot's number; `thermocline accel slots` lists them.
    slot: usize,
    /// The function, `nat` or `dpi`; `auto` leaves the slot to the scheduler.
    function: String,
}

/// Arguments of `chain`.
#[derive(clap::Args)]
pub(crate) struct ChainArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The tenant.
    tenant: String,
    /// Functions from the inside to the outside, `nat` and `dpi`; `none`: its packets are dropped.
    #[arg(required = true)]
    functions: Vec<String>,
}

/// Arguments of `scale`.
#[derive(clap::Args)]
pub(crate) struct ScaleArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The function.
    function: String,
    /// Slots that it gets, or `auto`.
    #[arg(value_parser = count)]
    slots: Count,
}

/// Arguments of `drain` and `undrain`.
#[derive(clap::Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pool: PoolArgs,
    /// The card.
    card: String,
}

/// A number of slots, or what the scheduler thinks best.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(Option<usize>);

fn count(text: &str) -> Result<Count, String> {
    match text {
        "auto" => Ok(Count(None)),
        text => {
            let count = text.parse().map_err(|_| "give a number of slots, or `auto`".to_string());
            count.map(|count| Count(Some(count)))
        }
    }
}

pub(super) fn load(args: &LoadArgs) -> Result<(), CliError> {
    let function = (args.function != "auto").then(|| args.function.clone());
    let path = format!("/v1/slots/{}", args.slot);
    args.pool.client().tell(Method::PUT, &path, &NewLoad { function })?;
    let text = format!(
        "slot {}: {}; `thermocline accel slots` says when it runs\n",
        args.slot, args.function
    );
    output::print(&text)
}

pub(super) fn chain(args: &ChainArgs) -> Result<(), CliError> {
    let functions = match args.functions.as_slice() {
        [only] if only == "none" => Vec::new(),
        functions => functions.to_vec(),
    };
    let path = format!("/v1/tenants/{}/chain", segment(&args.tenant));
    args.pool.client().tell(Method::PUT, &path, &NewChain { functions })?;
    output::print(&format!("{}: {}\n", args.tenant, args.functions.join(", ")))
}

pub(super) fn scale(args: &ScaleArgs) -> Result<(), CliError> {
    let path = format!("/v1/functions/{}", segment(&args.function));
    args.pool.client().tell(Method::PUT, &path, &NewCount { slots: args.slots.0 })?;
    let slots = args.slots.0.map_or("as many slots as the scheduler gives".to_string(), |slots| {
        counted(slots as u64, "slot")
    });
    output::print(&format!("{}: {slots}\n", args.function))
}

pub(super) fn drain(args: &DrainArgs, drained: bool) -> Result<(), CliError> {
    let path = format!("/v1/cards/{}", segment(&args.card));
    args.pool.client().tell(Method::PUT, &path, &NewCardState { drained })?;
    let text = if drained { "is emptied, and stays empty" } else { "is used again" };
    output::print(&format!("{} {text}\n", args.card))
}

pub(super) fn slots(args: &StatusArgs) -> Result<(), CliError> {
    let status: PoolStatus = args.pool.client().get("/v1/status")?;
    output::answer(args.json, &status.slots, |slots| format!("{}\n", slot_table(slots)))
}

pub(super) fn status(args: &StatusArgs) -> Result<(), CliError> {
    let status: PoolStatus = args.pool.client().get("/v1/status")?;
    output::answer(args.json, &status, text)
}

fn slot_table(slots: &[Slot]) -> String {
    let head = [
        "slot",
        "card",
        "state",
        "function",
        "tenant",
        "chosen",
        "flows",
        "waiting",
        "µs a packet",
    ];
    let mut table = table::plain(head);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or("-".to_string());
    for slot in slots {
        table.add_row(vec![
            slot.slot.to_string(),
            slot.card.clone(),
            slot.state.clone(),
            or_dash(&slot.function),
            or_dash(&slot.tenant),
            if slot.chosen { "yes" } else { "no" }.to_string(),
            slot.flows.to_string(),
            slot.waiting.to_string(),
            slot.cost_ns.map_or("-".to_string(), |cost| format!("{:.2}", cost / 1e3)),
        ]);
    }
    table.to_string()
}

fn text(status: &PoolStatus) -> String {
    let mut text =
        format!("scheduler {}, runs for {:.0} s\n", status.scheduler, status.uptime_seconds);
    for (side, it) in ["inside", "outside"].into_iter().zip(&status.interfaces) {
        let _ = writeln!(
            text,
            "{side} {}: {} in {} packets came, {} in {} were sent, {} lost",
            it.interface,
            Bytes(it.received_bytes),
            numbered(it.received),
            Bytes(it.sent_bytes),
            numbered(it.sent),
            numbered(it.refused + it.unanswered + it.unrouted)
        );
    }
    let packets = &status.packets;
    let _ = writeln!(
        text,
        "{} packets through functions; dropped: {} by functions ({} by rules), {} of no tenant, {} \
         lost; {} alerts, {} mappings made",
        numbered(packets.passed),
        numbered(packets.dropped_by_functions),
        numbered(packets.dropped_by_rules),
        packets.dropped_strangers + packets.dropped_hops,
        packets.lost,
        packets.alerts,
        packets.mappings_made
    );
    for tenant in &status.tenants {
        let chain =
            if tenant.chain.is_empty() { "none".to_string() } else { tenant.chain.join(" → ") };
        let _ = writeln!(text, "tenant {}: {chain}", tenant.name);
    }
    for function in &status.functions {
        let wanted = function.wanted.map_or("auto".to_string(), |wanted| wanted.to_string());
        let _ = writeln!(
            text,
            "function {}: {} (wanted: {wanted}), {:.0} packets/s, {}",
            function.name,
            counted(function.running.into(), "slot"),
            function.offered_per_s,
            counted(function.flows as u64, "flow")
        );
    }
    for card in status.cards.iter().filter(|card| card.drained) {
        let _ = writeln!(text, "card {} is drained", card.name);
    }
    text + &format!("\n{}\n", slot_table(&status.slots))
}
