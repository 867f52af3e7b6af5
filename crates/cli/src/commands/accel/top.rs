//! `thermocline accel top`: a running pool, live, in a terminal.

use super::PoolArgs;
use crate::error::CliError;
use crate::live_view::{self, bar, colour, draw_spark, draw_table, titled};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use thermocline_admin::api::Event;
use thermocline_admin::client::{CallError, Client};
use thermocline_offload::api::{PoolSecond, PoolStatus, Slot, WorkerSecond};
use thermocline_units::text::{count, counted};

const EXAMPLES: &str = "\
Examples:
  thermocline accel top
  thermocline accel top --socket /run/pool/api.sock

Keys: q ends it.";

/// Seconds that are drawn, at most.
const SECONDS_MAX: usize = 300;

/// Tenants whose chains are shown.
const CHAINS_MAX: usize = 6;

/// Cells of a bar.
const BAR: usize = 10;

/// Columns of the table of slots and of the processor: heading and width.
const COLUMNS: [(&str, u16); 9] = [
    ("", 9),
    ("state", 8),
    ("function", 8),
    ("load", BAR as u16),
    ("packets/s", 10),
    ("µs each", 7),
    ("wait", 5),
    ("flows", 7),
    ("", 16),
];
/// Columns that a narrow terminal does without, the first of them first.
const SPARE: [usize; 6] = [8, 6, 3, 5, 7, 1];

/// A live view in the terminal.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pool: PoolArgs,
}

/// Contents of the screen.
struct Scene {
    status: PoolStatus,
    seconds: Vec<PoolSecond>,
    events: Vec<Event>,
}

impl Scene {
    /// Asks for what is new since `before`; a pool that began anew is asked for all.
    fn ask(client: &Client, before: Option<Scene>) -> Result<Scene, CallError> {
        let status: PoolStatus = client.get("/v1/status")?;
        let mut seconds = before.map_or(Vec::new(), |before| before.seconds);
        let next = |seconds: &[PoolSecond]| seconds.last().map_or(0, |last| last.number + 1);
        if (status.uptime_seconds as u64) < next(&seconds) {
            seconds.clear();
        }
        let path = format!("/v1/history?from={}", next(&seconds));
        seconds.extend(client.get::<Vec<PoolSecond>>(&path)?);
        seconds.drain(..seconds.len().saturating_sub(SECONDS_MAX));
        Ok(Scene { status, seconds, events: client.get("/v1/events")? })
    }

    fn last(&self) -> PoolSecond {
        self.seconds.last().cloned().unwrap_or_default()
    }

    /// The colour of a function: its place among all of the pool.
    fn colour_of(&self, function: Option<&str>) -> Style {
        let mut known = self.status.functions.iter();
        let place = known.position(|known| Some(known.name.as_str()) == function);
        place.map_or(Style::new(), colour)
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let client = args.pool.client();
    let instead = "`thermocline accel status` prints the same once";
    live_view::run(|before| Scene::ask(&client, before), draw, instead)
}

/// Draws the whole view.
fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let status = &scene.status;
    let workers = (status.slots.len() + status.functions.len()) as u16;
    let rows = [
        Constraint::Length(2),
        Constraint::Length(status.tenants.len().min(CHAINS_MAX) as u16 + 2),
        Constraint::Length(workers + 1),
        Constraint::Length(5),
        Constraint::Min(3),
    ];
    let [head, chains, table, spark, events] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(header(scene), head);
    draw_chains(frame, chains, scene);
    draw_workers(frame, table, scene);
    draw_packets(frame, spark, scene);
    live_view::draw_events(frame, events, &scene.events);
}

fn header(scene: &Scene) -> Paragraph<'static> {
    let (status, last) = (&scene.status, scene.last());
    let running = status.slots.iter().filter(|slot| slot.state == "running").count();
    let first = format!(
        "thermocline accel, up {:.0} s, {}, {running} of {} run, scheduler {}",
        status.uptime_seconds,
        counted(status.tenants.len() as u64, "tenant"),
        counted(status.slots.len() as u64, "slot"),
        status.scheduler
    );
    let second = format!(
        "{} packets/s came, {} left, {} dropped by functions, {} lost",
        count(last.offered),
        count(last.passed),
        count(last.dropped),
        count(last.lost)
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Paragraph::new(vec![Line::styled(first, bold), Line::raw(second)])
}

fn draw_chains(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let chain = |tenant: &thermocline_offload::api::TenantStatus| {
        let stages = match tenant.chain.is_empty() {
            true => "no chain: its packets are dropped".to_string(),
            false => format!("{} → the world", tenant.chain.join(" → ")),
        };
        Line::raw(format!("{} ({}) → {stages}", tenant.name, tenant.networks.join(", ")))
    };
    let lines: Vec<Line<'_>> = scene.status.tenants.iter().map(chain).collect();
    let title = match scene.status.tenants.len() {
        many if many > CHAINS_MAX => format!("chains, {CHAINS_MAX} of {many}"),
        _ => "chains".to_string(),
    };
    frame.render_widget(Paragraph::new(lines).block(titled(&title)), area);
}

/// The slots, then the processor for each function.
fn draw_workers(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let (status, last) = (&scene.status, scene.last());
    let slot = |slot: &Slot| {
        let second = last.slots.get(slot.slot).cloned().unwrap_or_default();
        let note = match (&slot.tenant, slot.chosen) {
            (Some(tenant), _) => format!("kept for {tenant}"),
            (None, true) => "chosen by hand".to_string(),
            (None, false) => slot.card.clone(),
        };
        let names = [format!("slot {}", slot.slot), slot.state.clone()];
        let function = slot.function.as_deref();
        let counts = (slot.waiting, slot.flows);
        let cells = cells(names, function, &second, slot.cost_ns, counts, note);
        (cells, scene.colour_of(function))
    };
    let processor = |known: &thermocline_offload::api::FunctionStatus| {
        let mut seconds = last.processor.iter();
        let name = Some(known.name.as_str());
        let second = seconds.find(|second| second.function.as_deref() == name).cloned();
        let cost = known.processor_cost_ns;
        let names = ["processor".to_string(), String::new()];
        let (second, note) =
            (second.unwrap_or_default(), counted(known.on_processor.into(), "share"));
        let cells = cells(names, name, &second, cost, (0, known.flows), note);
        (cells, scene.colour_of(name))
    };
    let rows = status.slots.iter().map(slot).chain(status.functions.iter().map(processor));
    draw_table(frame, area, (&COLUMNS, &SPARE), rows);
}

fn cells(
    [name, state]: [String; 2],
    function: Option<&str>,
    second: &WorkerSecond,
    cost_ns: Option<f64>,
    (waiting, flows): (usize, usize),
    note: String,
) -> Vec<String> {
    vec![
        name,
        state,
        function.unwrap_or("-").to_string(),
        bar(second.load, BAR),
        count(second.packets),
        cost_ns.map_or("-".to_string(), |cost| format!("{:.2}", cost / 1e3)),
        waiting.to_string(),
        flows.to_string(),
        note,
    ]
}

fn draw_packets(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let values = scene.seconds.iter().map(|second| second.passed);
    draw_spark(frame, area, ("packets/s that left", colour(1)), values);
}

#[cfg(test)]
mod tests;
