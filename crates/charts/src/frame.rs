//! Frame of every plot: title, note, axes, grid; and the room they need.
//!
//! The y axis carries its label above itself, horizontally, because nobody reads with a tilted
//! head.

use super::axis::{Axis, Interval};
use super::svg::{Anchor, Canvas, Rect, fitted, text_width};
use super::theme::{TEXT_PX, TITLE_PX};
use super::ticks::Tick;

/// Width of a chart unless its content asks for another, in pixels.
pub(super) const WIDTH: f64 = 840.0;
/// Height of the plotting area unless its content asks for another, in pixels.
pub(super) const PLOT_HEIGHT: f64 = 320.0;
/// Pixels a horizontal tick needs to be legible beside the next.
const TICK_ROOM_X: f64 = 84.0;
/// Pixels a vertical tick needs.
const TICK_ROOM_Y: f64 = 46.0;

/// The words around a plot.
pub(super) struct Heading<'a> {
    pub(super) title: &'a str,
    pub(super) note: &'a str,
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
}

/// Room that a plot asks of its frame.
pub(super) struct Room {
    /// Pixels right of the plot, for labels or a colour bar.
    pub(super) right: f64,
    /// Pixels between the heading and the plot, for a key.
    pub(super) key: f64,
    /// Width and height of the plot itself; `None` takes the usual.
    pub(super) plot: Option<(f64, f64)>,
    /// Pixels left of the plot; `None` takes what the labels need.
    pub(super) left: Option<f64>,
}

/// Pixels left of plots that share their x axis: enough for any label.
pub(super) const SHARED_LEFT: f64 = 84.0;
/// Width that is aimed at for a plot of cells; cells are whole pixels, so it may be smaller.
pub(super) const CELLS_ROOM: f64 = 640.0;

/// Whole pixels for each of `count` cells in `room`, or the fraction when there is less than one.
pub(super) fn pixels(room: f64, count: usize) -> f64 {
    let each = room / count as f64;
    if each >= 1.0 { each.floor() } else { each }
}

/// A canvas with its heading drawn, and the place where the plot goes.
pub(super) struct Frame {
    pub(super) canvas: Canvas,
    pub(super) plot: Rect,
    /// The baseline of the first line of the key, when room was asked for.
    pub(super) key_top: f64,
}

impl Frame {
    /// Lays out and draws the heading. `y_ticks` decide how much room the left margin needs.
    pub(super) fn new(heading: &Heading<'_>, y_ticks: &[Tick], room: &Room) -> Frame {
        let widest = y_ticks.iter().map(|t| text_width(&t.label, TEXT_PX)).fold(0.0, f64::max);
        let left = room.left.unwrap_or((widest + 14.0).max(34.0).ceil());
        let mut top = 8.0 + TITLE_PX;
        if !heading.note.is_empty() {
            top += TEXT_PX + 6.0;
        }
        let key_top = top + 20.0;
        top += 30.0 + room.key;
        let (plot_width, plot_height) =
            room.plot.unwrap_or((WIDTH - left - room.right.max(16.0), PLOT_HEIGHT));
        let plot = Rect { left, top, width: plot_width, height: plot_height };
        let below = if heading.x_label.is_empty() { 28.0 } else { 46.0 };
        let (width, height) = (plot.right() + room.right.max(16.0), plot.bottom() + below);
        let mut canvas = Canvas::new(width, height, heading.title);
        let title = fitted(heading.title, TITLE_PX * 1.06, width);
        canvas.text((0.0, 8.0 + TITLE_PX * 0.75), Anchor::Start, "title", &title);
        if !heading.note.is_empty() {
            let y = 8.0 + TITLE_PX + 4.0 + TEXT_PX * 0.75;
            canvas.text((0.0, y), Anchor::Start, "note", &fitted(heading.note, TEXT_PX, width));
        }
        canvas.text((0.0, top - 12.0), Anchor::Start, "axis", heading.y_label);
        let x = plot.left + plot.width / 2.0;
        canvas.text((x, plot.bottom() + 38.0), Anchor::Middle, "axis", heading.x_label);
        Frame { canvas, plot, key_top }
    }

    /// Draws horizontal grid lines with labels at their left.
    pub(super) fn y_axis(&mut self, ticks: &[Tick], y: &Interval) {
        for tick in ticks {
            let at = self.y_of(y, tick.value);
            self.canvas.line("grid", (self.plot.left, at), (self.plot.right(), at));
            let label = (self.plot.left - 8.0, at + TEXT_PX * 0.35);
            self.canvas.text(label, Anchor::End, "axis", &tick.label);
        }
    }

    /// Draws the base line with ticks and labels below it; labels that would touch are left out.
    pub(super) fn x_axis(&mut self, ticks: &[Tick], x: &Interval) {
        let bottom = self.plot.bottom();
        self.canvas.line("rule", (self.plot.left, bottom), (self.plot.right(), bottom));
        let mut free_from = f64::NEG_INFINITY;
        for tick in ticks {
            let at = self.x_of(x, tick.value);
            self.canvas.line("rule", (at, bottom), (at, bottom + 4.0));
            let half = text_width(&tick.label, TEXT_PX) / 2.0;
            if at - half >= free_from {
                let place = (at, bottom + 18.0);
                self.canvas.text(place, Anchor::Middle, "axis", &tick.label);
                free_from = at + half + 6.0;
            }
        }
    }

    pub(super) fn x_of(&self, x: &Interval, value: f64) -> f64 {
        self.plot.left + x.place(value) * self.plot.width
    }

    pub(super) fn y_of(&self, y: &Interval, value: f64) -> f64 {
        self.plot.bottom() - y.place(value) * self.plot.height
    }
}

/// Ticks for a horizontal axis of `width` pixels.
pub(super) fn x_ticks(axis: &Axis, interval: &Interval, width: f64) -> Vec<Tick> {
    axis.ticks(interval, (width / TICK_ROOM_X) as usize)
}

/// Ticks for a vertical axis of `height` pixels.
pub(super) fn y_ticks(axis: &Axis, interval: &Interval, height: f64) -> Vec<Tick> {
    axis.ticks(interval, (height / TICK_ROOM_Y) as usize)
}
