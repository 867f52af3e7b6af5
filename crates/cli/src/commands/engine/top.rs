//! `thermocline top`: a running engine, live, in a terminal.
//!
//! `live_view` asks once a second, and has what all such views share.

use super::{EngineArgs, micros, span};
use crate::error::CliError;
use crate::live_view::{self, bar, colour, draw_spark, draw_table, titled};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use thermocline_admin::api::Event;
use thermocline_admin::client::{CallError, Client};
use thermocline_engine::api::{Operations, Pool, PoolSecond, Second, Status};
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted};

const EXAMPLES: &str = "\
Examples:
  thermocline top
  thermocline top --data /mnt/pools

Keys: q ends it.";

/// Columns of the table of pools: heading and width.
const COLUMNS: [(&str, u16); 10] = [
    ("pool", 12),
    ("state", 9),
    ("used", 10),
    ("of", 10),
    ("", 20),
    ("reads/s", 9),
    ("writes/s", 9),
    ("p50", 10),
    ("p99", 10),
    ("moved/s", 10),
];
/// Columns that a narrow terminal does without, the first of them first.
const SPARE: [usize; 7] = [4, 7, 9, 3, 1, 8, 6];

/// A live view in the terminal.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
}

/// Contents of the screen.
pub(super) struct Scene {
    status: Status,
    seconds: Vec<Second>,
    operations: Operations,
    events: Vec<Event>,
}

impl Scene {
    fn ask(client: &Client) -> Result<Scene, CallError> {
        Ok(Scene {
            status: client.get("/v1/status")?,
            seconds: client.get("/v1/history")?,
            operations: client.get("/v1/operations")?,
            events: client.get("/v1/events")?,
        })
    }

    /// Pools that the group has, fastest first.
    fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.status.pools.iter().filter(|pool| !pool.is_removed())
    }
}

pub(crate) fn run(args: Args) -> Result<(), CliError> {
    let client = args.engine.client();
    let instead = "`thermocline status` prints the same once";
    live_view::run(|_| Scene::ask(&client), draw, instead)
}

/// Draws the whole view.
pub(super) fn draw(frame: &mut Frame<'_>, scene: &Scene) {
    let pools = scene.pools().count() as u16;
    let rows = [
        Constraint::Length(2),
        Constraint::Length(pools + 2),
        Constraint::Length(6),
        Constraint::Min(4),
    ];
    let [head, table, sparks, tail] = Layout::vertical(rows).areas(frame.area());
    let [moves, events] =
        Layout::horizontal([Constraint::Percentage(45), Constraint::Percentage(55)]).areas(tail);
    frame.render_widget(header(scene), head);
    draw_pools(frame, table, scene);
    draw_sparks(frame, sparks, scene);
    draw_moves(frame, moves, scene);
    live_view::draw_events(frame, events, &scene.events);
}

fn header(scene: &Scene) -> Paragraph<'static> {
    let status = &scene.status;
    let (reads, writes, p99) =
        scene.seconds.last().map_or((0, 0, 0.0), |last| (last.reads, last.writes, last.p99_us));
    let share = status
        .fastest_pool_share
        .map_or("–".to_string(), |share| format!("{:.0} %", share * 100.0));
    let first = format!(
        "thermocline {}, up {}, {}, policy {}",
        status.service,
        span(status.uptime_seconds),
        counted(status.connections, "client"),
        status.policy.spec
    );
    let second = format!(
        "{} reads/s, {} writes/s, p99 {}; the fastest pool serves {share} of reads",
        count(reads),
        count(writes),
        micros(p99)
    );
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Paragraph::new(vec![Line::styled(first, bold), Line::raw(second)])
}

fn draw_pools(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let chunk = scene.status.chunk_bytes;
    let rows = scene.pools().map(|pool| {
        let at = usize::from(pool.id);
        let second = scene.seconds.last().and_then(|last| last.pools.get(at));
        let now = second.copied().unwrap_or_default();
        let part = pool.chunks_used as f64 / pool.chunks_total.max(1) as f64;
        let cells = vec![
            pool.name.clone(),
            pool.state.clone(),
            Bytes(pool.chunks_used * chunk).to_string(),
            Bytes(pool.chunks_total * chunk).to_string(),
            bar(part, 20),
            count(now.reads),
            count(now.writes),
            micros(now.p50_us),
            micros(now.p99_us),
            Bytes(now.moved_bytes).to_string(),
        ];
        (cells, colour(at))
    });
    draw_table(frame, area, (&COLUMNS, &SPARE), rows);
}

fn draw_sparks(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let count = scene.pools().count().max(1);
    let shares = vec![Constraint::Ratio(1, count as u32); count];
    let areas = Layout::horizontal(shares).split(area);
    for (pool, area) in scene.pools().zip(areas.iter()) {
        let at = usize::from(pool.id);
        let requests = |second: &PoolSecond| second.reads + second.writes;
        let values = scene.seconds.iter().map(|second| second.pools.get(at).map_or(0, requests));
        let title = format!("{} requests/s", pool.name);
        draw_spark(frame, *area, (&title, colour(at)), values);
    }
}

fn draw_moves(frame: &mut Frame<'_>, area: Rect, scene: &Scene) {
    let name = |id: u16| {
        let pool = scene.status.pools.iter().find(|pool| pool.id == id);
        pool.map_or_else(|| id.to_string(), |pool| pool.name.clone())
    };
    let jobs =
        scene.operations.jobs.iter().filter(|job| !job.over).map(|job| {
            Line::raw(format!("job {}: {} of {} chunks", job.id, job.ended, job.chunks))
        });
    let chunks = scene.operations.chunks.iter().map(|chunk| {
        let from = chunk.from.map_or("waits".to_string(), name);
        let place = format!("{} at {}", chunk.volume, Bytes(chunk.offset_bytes));
        Line::raw(format!("{} {place}: {from} → {}", chunk.kind, name(chunk.to)))
    });
    let lines: Vec<Line<'_>> = jobs.chain(chunks).collect();
    let block = titled(&format!("moves, {} to go", scene.operations.pending));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests;
