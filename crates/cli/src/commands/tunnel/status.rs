//! `thermocline tunnel status`: a running end, asked over the unix socket of its API.

use super::SOCKET;
use crate::error::CliError;
use crate::{output, table};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;
use thermocline_admin::client::Client;
use thermocline_gateway::{AcceleratorStatus, LinkStatus, Status};
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted};

/// Time for an end to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Socket of the running end.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let client = Client::of_tunnel_end(&args.socket).within(PATIENCE);
    let status: Status = client.get("/v1/status")?;
    output::answer(args.json, &status, text)
}

fn text(status: &Status) -> String {
    let mut text = format!("{} {}, runs for {:.0} s\n", status.role, status.key, status.for_s);
    if let Some(since) = status.down_for_s {
        let _ = write!(text, "link DOWN for {since:.0} s");
        if let Some(when_down) = &status.when_down {
            let _ = write!(text, "; clients: {when_down}");
        }
        text.push('\n');
    }
    if let Some(error) = &status.last_error {
        let _ = writeln!(text, "last trouble: {error}");
    }
    let Status { connections, clients, flows, refused, cut, passed, .. } = status;
    let _ = writeln!(
        text,
        "{}, {} now; {}: {refused} refused, {cut} cut, {passed} past the tunnel",
        counted(*connections, "connection"),
        counted(*clients as u64, "client"),
        counted(*flows, "flow")
    );
    status.accelerator.iter().for_each(|accelerator| put_accelerator(accelerator, &mut text));
    status.links.iter().for_each(|link| put_link(link, &mut text));
    text
}

fn put_accelerator(accelerator: &AcceleratorStatus, text: &mut String) {
    let state = if accelerator.is_up { "up" } else { "DOWN" };
    let _ = writeln!(
        text,
        "accelerator {state} for {:.0} s: {}, {}; cut {} in {} jobs; in its place: {} jobs; \
         {} false answers, {} failures",
        accelerator.for_s,
        accelerator.program,
        accelerator.fingerprint,
        Bytes(accelerator.bytes),
        count(accelerator.jobs),
        count(accelerator.jobs_failed),
        accelerator.false_answers,
        accelerator.failures
    );
    if let Some(why) = &accelerator.last_failure {
        let _ = writeln!(text, "  it failed: {why}; content is cut by this end's processor");
    }
}

fn put_link(link: &LinkStatus, text: &mut String) {
    let state = if link.is_up { "up" } else { "greeting" };
    let _ = write!(text, "\nlink {state} for {:.0} s: {}\n", link.for_s, link.peer);
    let round_trip = link.round_trip_us.map_or("-".to_string(), |us| format!("{us} µs"));
    let rate = link.link_bytes_per_s.map_or("-".to_string(), |rate| format!("{}/s", Bytes(rate)));
    let _ = writeln!(
        text,
        "  {} flows, sent {}, received {}, round trip {round_trip}, rate {rate}, chunks asked for \
         {} by it, {} by us",
        link.flows,
        Bytes(link.sent_bytes),
        Bytes(link.received_bytes),
        link.chunks_asked_of_us,
        link.chunks_asked_by_us
    );
    if let Some(disk) = &link.disk {
        let _ = writeln!(
            text,
            "  disk: {} chunks came, {} were read, {} lost, {} dropped because it was behind{}",
            disk.inserted,
            disk.read,
            disk.lost,
            disk.dropped,
            if disk.has_failed { "; GIVEN UP: a write failed, or it hung" } else { "" }
        );
    }
    if link.classes.is_empty() {
        return;
    }
    let heading = ["class", "choice", "bytes", "sent", "saved %", "goodput/s", "chunks", "why"];
    let mut table = table::plain(heading);
    for class in &link.classes {
        let saved = class.re_ratio.map_or("-".to_string(), |re| format!("{:.1}", 100.0 * re));
        table.add_row(vec![
            class.class.to_string(),
            class.choice.clone(),
            Bytes(class.bytes).to_string(),
            Bytes(class.sent).to_string(),
            saved,
            Bytes(class.goodput_bytes_per_s).to_string(),
            count(class.chunks),
            class.why.clone(),
        ]);
    }
    let _ = writeln!(text, "{table}");
}
