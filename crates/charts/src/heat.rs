//! Heat maps: a matrix over two axes, with a colour bar.
//!
//! 1. A cell's value becomes one of 32 steps of the colour map; what the colour axis cannot show
//!    (zero on a logarithmic one, NaN) stays paper.
//! 2. Runs of equal steps in a row merge into one rectangle, and all rectangles of a step into one
//!    path: a 320 × 200 map of a real trace is some 100 KB instead of 64,000 elements.
//! 3. A coarse, invisible grid carries the tooltips: sums over its cells.

use super::Chart;
use super::axis::{Axis, Interval};
use super::colour_map::{self, STEPS};
use super::frame::{self, CELLS_ROOM, Frame, Heading, Room, SHARED_LEFT, pixels};
use super::svg::{Anchor, Canvas, N, Rect, text_width};
use super::theme::TEXT_PX;
use std::fmt::Write;

/// Height that is aimed at; cells are whole pixels, so the real one may be smaller.
const ROOM_UP: f64 = 320.0;
/// Tooltips at most, across and up.
const TIPS: (usize, usize) = (32, 20);
const BAR_WIDTH: f64 = 14.0;

/// A matrix of values over two axes that both start at zero.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatMap {
    /// Title in a few words.
    pub title: String,
    /// Text that qualifies it; may be empty.
    pub note: String,
    /// The horizontal axis, linear.
    pub x: Axis,
    /// The vertical axis, linear, growing upwards.
    pub y: Axis,
    /// Meaning of the colours.
    pub colour: Axis,
    /// Extent of one cell along x, in the axis's quantity.
    pub cell_width: f64,
    /// Extent of one cell along y.
    pub cell_height: f64,
    /// Cells in a row; at least 1.
    pub columns: usize,
    /// The cells, row after row, lowest row first; a multiple of `columns`. Adjacent cells must be
    /// addable: the tooltips show sums.
    pub cells: Vec<f64>,
}

impl Chart for HeatMap {
    /// # Panics
    /// When `cells` is not a whole number of rows.
    fn draw(&self) -> Canvas {
        assert!(
            self.columns > 0 && self.cells.len().is_multiple_of(self.columns),
            "a heat map has whole rows"
        );
        let rows = (self.cells.len() / self.columns).max(1);
        let x = whole(&self.x, self.cell_width * self.columns as f64);
        let y = whole(&self.y, self.cell_height * rows as f64);
        let colour = self.colour.settle(self.cells.iter().copied(), true);
        let cell = (pixels(CELLS_ROOM, self.columns), pixels(ROOM_UP, rows));
        let plot = (cell.0 * self.columns as f64, cell.1 * rows as f64);
        let y_ticks = frame::y_ticks(&self.y, &y, plot.1);
        let colour_ticks = frame::y_ticks(&self.colour, &colour, plot.1);
        let widest = colour_ticks.iter().map(|t| text_width(&t.label, TEXT_PX)).fold(0.0, f64::max);
        let room = Room {
            right: 28.0 + BAR_WIDTH + widest + 14.0,
            key: 0.0,
            plot: Some(plot),
            left: self.x.cells.map(|_| SHARED_LEFT),
        };
        let heading = Heading {
            title: &self.title,
            note: &self.note,
            x_label: &self.x.label,
            y_label: &self.y.label,
        };
        let mut frame = Frame::new(&heading, &y_ticks, &room);
        let x_ticks = frame::x_ticks(&self.x, &x, plot.0);
        self.paint(&mut frame, cell, &colour);
        for tick in &y_ticks {
            let at = frame.y_of(&y, tick.value);
            let left = frame.plot.left;
            frame.canvas.line("rule", (left - 4.0, at), (left, at));
            let place = (left - 8.0, at + TEXT_PX * 0.35);
            frame.canvas.text(place, Anchor::End, "axis", &tick.label);
        }
        frame.x_axis(&x_ticks, &x);
        self.colour_bar(&mut frame, &colour, &colour_ticks);
        self.tips(&mut frame, cell);
        frame.canvas
    }
}

/// The axis from zero to exactly where the cells end.
fn whole(axis: &Axis, end: f64) -> Interval {
    axis.settle([0.0, end].into_iter(), true)
}

impl HeatMap {
    fn paint(&self, frame: &mut Frame, cell: (f64, f64), colour: &Interval) {
        let mut paths = vec![String::new(); STEPS];
        let rows = self.cells.len() / self.columns;
        for (row, values) in self.cells.chunks_exact(self.columns).enumerate() {
            let steps: Vec<Option<usize>> = values.iter().map(|v| self.step(*v, colour)).collect();
            let mut start = 0;
            for run in steps.chunk_by(|a, b| a == b) {
                if let Some(step) = run[0] {
                    let (top, length) = (rows - 1 - row, run.len());
                    write!(paths[step], "M{start} {top}h{length}v1h-{length}z")
                        .expect("writing to a string does not fail");
                }
                start += run.len();
            }
        }
        let Rect { left, top, .. } = frame.plot;
        frame.canvas.raw(format_args!(
            r#"<g shape-rendering="crispEdges" transform="translate({} {}) scale({} {})">"#,
            N(left),
            N(top),
            cell.0,
            cell.1
        ));
        for (step, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            frame.canvas.raw(format_args!(r#"<path class="h{step}" d="{path}"/>"#));
        }
        frame.canvas.raw(format_args!("</g>"));
    }

    fn step(&self, value: f64, colour: &Interval) -> Option<usize> {
        let shown = self.colour.takes(value) && value != 0.0;
        shown.then(|| colour_map::step(colour.place(value)))
    }

    fn colour_bar(&self, frame: &mut Frame, colour: &Interval, ticks: &[super::ticks::Tick]) {
        let left = frame.plot.right() + 28.0;
        let height = frame.plot.height / STEPS as f64;
        for step in 0..STEPS {
            let top = frame.plot.bottom() - height * (step + 1) as f64;
            // A hair of overlap, so that no seam shows between the steps.
            let area = Rect { left, top, width: BAR_WIDTH, height: height + 0.3 };
            frame.canvas.rect(&format!("h{step}"), area, "");
        }
        for tick in ticks {
            let at = frame.y_of(colour, tick.value);
            let right = left + BAR_WIDTH;
            frame.canvas.line("rule", (right, at), (right + 4.0, at));
            let place = (right + 8.0, at + TEXT_PX * 0.35);
            frame.canvas.text(place, Anchor::Start, "axis", &tick.label);
        }
        let end = frame.canvas.width;
        let place = (end, frame.plot.top - 12.0);
        frame.canvas.text(place, Anchor::End, "axis", &self.colour.label);
    }

    fn tips(&self, frame: &mut Frame, cell: (f64, f64)) {
        let rows = self.cells.len() / self.columns;
        let across = self.columns.div_ceil(TIPS.0);
        let up = rows.div_ceil(TIPS.1).max(1);
        for row in (0..rows).step_by(up) {
            let row_end = (row + up).min(rows);
            for column in (0..self.columns).step_by(across) {
                let column_end = (column + across).min(self.columns);
                let sum: f64 = (row..row_end)
                    .flat_map(|r| &self.cells[r * self.columns..][column..column_end])
                    .filter(|value| value.is_finite())
                    .sum();
                if sum == 0.0 {
                    continue;
                }
                let area = Rect {
                    left: frame.plot.left + column as f64 * cell.0,
                    top: frame.plot.bottom() - row_end as f64 * cell.1,
                    width: (column_end - column) as f64 * cell.0,
                    height: (row_end - row) as f64 * cell.1,
                };
                let (x, y) = (self.x.quantity, self.y.quantity);
                let tip = format!(
                    "{} – {}, {} – {}: {} {}",
                    x.show(column as f64 * self.cell_width),
                    x.show(column_end as f64 * self.cell_width),
                    y.show(row as f64 * self.cell_height),
                    y.show(row_end as f64 * self.cell_height),
                    self.colour.quantity.show(sum),
                    self.colour.label
                );
                frame.canvas.rect("hot", area, &tip);
            }
        }
    }
}
