//! Histograms: bars over a continuous axis, each as wide as the interval it counts.

use super::Chart;
use super::axis::{Axis, Interval};
use super::frame::{self, Frame, Heading, PLOT_HEIGHT, Room};
use super::svg::{Canvas, Rect};

/// Counts over intervals of a continuous axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Title in a few words.
    pub title: String,
    /// Text that qualifies it; may be empty.
    pub note: String,
    /// Quantity measured.
    pub x: Axis,
    /// Quantity counted.
    pub y: Axis,
    /// The bars, in any order.
    pub bars: Vec<Bar>,
}

/// One interval and what fell into it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The interval's lower end.
    pub from: f64,
    /// The interval's upper end; above `from`.
    pub to: f64,
    /// Count of what fell into it.
    pub height: f64,
}

impl Chart for Histogram {
    fn draw(&self) -> Canvas {
        let drawn = || self.bars.iter().filter(|bar| bar.height.is_finite() && bar.height > 0.0);
        let x = self.x.settle(drawn().flat_map(|bar| [bar.from, bar.to]), true);
        let y = self.y.settle(drawn().map(|bar| bar.height), false);
        let y_ticks = frame::y_ticks(&self.y, &y, PLOT_HEIGHT);
        let heading = Heading {
            title: &self.title,
            note: &self.note,
            x_label: &self.x.label,
            y_label: &self.y.label,
        };
        let room = Room { right: 28.0, key: 0.0, plot: None, left: None };
        let mut frame = Frame::new(&heading, &y_ticks, &room);
        frame.y_axis(&y_ticks, &y);
        for bar in drawn() {
            self.bar(&mut frame, (&x, &y), bar);
        }
        let x_ticks = frame::x_ticks(&self.x, &x, frame.plot.width);
        frame.x_axis(&x_ticks, &x);
        frame.canvas
    }
}

impl Histogram {
    fn bar(&self, frame: &mut Frame, (x, y): (&Interval, &Interval), bar: &Bar) {
        let (left, right) = (frame.x_of(x, bar.from.max(x.lower)), frame.x_of(x, bar.to));
        let top = frame.y_of(y, bar.height);
        let gap = if right - left > 4.0 { 1.0 } else { 0.0 };
        let area = Rect {
            left,
            top,
            width: (right - left - gap).max(0.5),
            height: frame.plot.bottom() - top,
        };
        let tip = format!(
            "{} – {}: {}",
            self.x.quantity.show(bar.from),
            self.x.quantity.show(bar.to),
            self.y.quantity.show(bar.height)
        );
        frame.canvas.rect("bar f0", area, &tip);
    }
}
