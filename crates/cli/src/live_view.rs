//! Views of running programs in a terminal, such as `thermocline top`.
//!
//! They ask once a second and draw; q, Esc or Ctrl-C end them.

use crate::error::CliError;
use crate::listeners::moment;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event as Key, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use std::io::IsTerminal;
use std::time::Duration;
use thermocline_admin::api::{Event, Severity};
use thermocline_admin::client::CallError;

/// Time between two questions.
const EVERY: Duration = Duration::from_secs(1);
/// Okabe and Ito's colours, by number of what is told apart.
const COLOURS: [Color; 4] = [
    Color::Rgb(230, 159, 0),
    Color::Rgb(86, 180, 233),
    Color::Rgb(0, 158, 115),
    Color::Rgb(204, 121, 167),
];

/// Asks and draws until somebody ends it. `ask` gets what was drawn last.
///
/// # Errors
/// When the program does not answer, or nothing can be drawn; without a terminal, `instead` says
/// what to do.
pub(crate) fn run<S>(
    ask: impl Fn(Option<S>) -> Result<S, CallError>,
    draw: impl Fn(&mut Frame<'_>, &S),
    instead: &str,
) -> Result<(), CliError> {
    let first = ask(None)?;
    if !std::io::stdout().is_terminal() {
        return Err(CliError::input(format!("top draws on a terminal; {instead}")));
    }
    let mut terminal = ratatui::init();
    let ended = run_on(&mut terminal, first, ask, draw);
    ratatui::restore();
    ended
}

fn run_on<S>(
    terminal: &mut ratatui::DefaultTerminal,
    mut scene: S,
    ask: impl Fn(Option<S>) -> Result<S, CallError>,
    draw: impl Fn(&mut Frame<'_>, &S),
) -> Result<(), CliError> {
    loop {
        terminal.draw(|frame| draw(frame, &scene)).map_err(CliError::failed)?;
        while event::poll(EVERY).map_err(CliError::failed)? {
            let Key::Key(key) = event::read().map_err(CliError::failed)? else { break };
            let control = key.modifiers.contains(KeyModifiers::CONTROL);
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                KeyCode::Char('c') if control => return Ok(()),
                _ => {}
            }
        }
        scene = ask(Some(scene))?;
    }
}

/// The colour of something, by its number.
pub(crate) fn colour(number: usize) -> Style {
    Style::new().fg(COLOURS[number % COLOURS.len()])
}

/// A frame with a title.
pub(crate) fn titled(title: &str) -> Block<'static> {
    Block::bordered().title(format!(" {title} ")).border_style(Style::new().fg(Color::DarkGray))
}

/// Columns of a table that fit, by number: of headings and widths, without the first `spare` ones
/// that have to go.
pub(crate) fn columns_within(columns: &[(&str, u16)], spare: &[usize], width: u16) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    for &spare in spare {
        // A blank stands between two columns.
        let wanted: u16 = shown.iter().map(|&column| columns[column].1 + 1).sum();
        if wanted.saturating_sub(1) <= width {
            break;
        }
        shown.retain(|&column| column != spare);
    }
    shown
}

/// Draws a table without the columns that do not fit. A row has a cell for each column.
pub(crate) fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    (columns, spare): (&[(&str, u16)], &[usize]),
    rows: impl Iterator<Item = (Vec<String>, Style)>,
) {
    let shown = columns_within(columns, spare, area.width);
    let row = |(cells, style): (Vec<String>, Style)| {
        Row::new(shown.iter().map(|&column| cells[column].clone()).collect::<Vec<_>>()).style(style)
    };
    let widths = shown.iter().map(|&column| Constraint::Length(columns[column].1));
    let heading = shown.iter().map(|&column| columns[column].0);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(rows.map(row), widths).header(Row::new(heading).style(bold));
    frame.render_widget(table, area);
}

/// A bar of so many cells, of which a share (0 to 1) is full.
pub(crate) fn bar(share: f64, cells: usize) -> String {
    let full = ((share * cells as f64).round() as usize).min(cells);
    "█".repeat(full) + &"░".repeat(cells - full)
}

/// Draws the last of the values, as many as fit.
pub(crate) fn draw_spark(
    frame: &mut Frame<'_>,
    area: Rect,
    (title, style): (&str, Style),
    values: impl Iterator<Item = u64>,
) {
    let width = usize::from(area.width.saturating_sub(2));
    let values: Vec<u64> = values.collect();
    let shown = values[values.len().saturating_sub(width)..].to_vec();
    let spark = Sparkline::default().data(shown).style(style).block(titled(title));
    frame.render_widget(spark, area);
}

/// Draws events, the newest first.
pub(crate) fn draw_events(frame: &mut Frame<'_>, area: Rect, events: &[Event]) {
    let lines = events.iter().rev().map(|event| {
        let style = match event.severity {
            Severity::Info => Style::new(),
            Severity::Warning => Style::new().fg(Color::Yellow),
            Severity::Error => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        };
        let time = moment(event.at_ms);
        Line::styled(format!("{} {}: {}", &time[11..19], event.subject, event.text), style)
    });
    let lines: Vec<Line<'_>> = lines.collect();
    frame.render_widget(Paragraph::new(lines).block(titled("events, newest first")), area);
}
