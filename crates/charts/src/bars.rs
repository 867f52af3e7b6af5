//! Bar charts over named groups, the bars of a group side by side or on top of one another.

use super::Chart;
use super::axis::{Axis, Interval};
use super::frame::{self, Frame, Heading, PLOT_HEIGHT, Room, WIDTH};
use super::key::{self, Entry, Swatch};
use super::svg::{Anchor, Canvas, Rect, fitted, text_width};
use super::theme::{self, TEXT_PX};

/// Share of a group's room that its bars fill.
const FILLED: f64 = 0.72;
/// Widest single bar, in pixels.
const BAR_WIDTH_MAX: f64 = 64.0;

/// Arrangement of a group's bars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stacking {
    /// Side by side.
    Beside,
    /// On top of one another; the values must be addable and not negative.
    Stacked,
}

/// Values over named groups.
#[derive(Debug, Clone, PartialEq)]
pub struct BarChart {
    /// Title in a few words.
    pub title: String,
    /// Text that qualifies it; may be empty.
    pub note: String,
    /// The vertical axis.
    pub y: Axis,
    /// Meaning of the groups; may be empty.
    pub group_label: String,
    /// Names of the groups, from left to right.
    pub groups: Vec<String>,
    /// The bars, in the order of their colours.
    pub series: Vec<BarSeries>,
    /// Arrangement of a group's bars.
    pub stacking: Stacking,
}

/// One colour of bars.
#[derive(Debug, Clone, PartialEq)]
pub struct BarSeries {
    /// Meaning of the bars.
    pub name: String,
    /// One value a group; missing ones at the end are not drawn.
    pub values: Vec<f64>,
}

impl Chart for BarChart {
    fn draw(&self) -> Canvas {
        let y = self.y.settle(self.tops(), false);
        let y_ticks = frame::y_ticks(&self.y, &y, PLOT_HEIGHT);
        let keyed = self.series.len() > 1;
        let names = || self.series.iter().map(|series| series.name.as_str());
        let room = Room {
            right: 16.0,
            key: if keyed { key::height(names(), WIDTH) } else { 0.0 },
            plot: None,
            left: None,
        };
        let heading = Heading {
            title: &self.title,
            note: &self.note,
            x_label: &self.group_label,
            y_label: &self.y.label,
        };
        let mut frame = Frame::new(&heading, &y_ticks, &room);
        frame.y_axis(&y_ticks, &y);
        self.bars(&mut frame, &y);
        self.group_names(&mut frame);
        if keyed {
            let entries: Vec<Entry<'_>> = names()
                .enumerate()
                .map(|(i, name)| Entry { name, swatch: Swatch::Fill(i) })
                .collect();
            let top = frame.key_top;
            key::draw(&mut frame.canvas, top, &entries);
        }
        frame.canvas
    }
}

impl BarChart {
    /// The values the axis must reach.
    fn tops(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.groups.len()).flat_map(move |group| {
            let values = self.series.iter().filter_map(move |s| s.values.get(group).copied());
            match self.stacking {
                Stacking::Beside => values.collect::<Vec<_>>(),
                Stacking::Stacked => vec![values.filter(|value| value.is_finite()).sum()],
            }
        })
    }

    fn bars(&self, frame: &mut Frame, y: &Interval) {
        let room = frame.plot.width / self.groups.len().max(1) as f64;
        let beside = match self.stacking {
            Stacking::Beside => self.series.len().max(1),
            Stacking::Stacked => 1,
        };
        let width = (room * FILLED / beside as f64).min(BAR_WIDTH_MAX);
        for (group, group_name) in self.groups.iter().enumerate() {
            let middle = frame.plot.left + room * (group as f64 + 0.5);
            let mut left = middle - width * beside as f64 / 2.0;
            let mut base = y.lower.max(0.0);
            for (index, series) in self.series.iter().enumerate() {
                let value = series.values.get(group).copied().unwrap_or(f64::NAN);
                if value.is_finite() {
                    let (low, high) = (base.min(base + value), base + value);
                    let top = match self.stacking {
                        Stacking::Beside => value,
                        Stacking::Stacked => high,
                    };
                    let from = match self.stacking {
                        Stacking::Beside => y.lower.max(0.0),
                        Stacking::Stacked => low,
                    };
                    let (a, b) = (frame.y_of(y, from), frame.y_of(y, top));
                    let area = Rect {
                        left,
                        top: a.min(b),
                        width: (width - 1.0).max(0.5),
                        height: (a - b).abs(),
                    };
                    let tip = self.tip(group_name, series, value);
                    frame.canvas.rect(&format!("bar {}", theme::fill(index)), area, &tip);
                    if self.stacking == Stacking::Stacked {
                        base = high;
                    }
                }
                if self.stacking == Stacking::Beside {
                    left += width;
                }
            }
        }
        let (left, right) = (frame.plot.left, frame.plot.right());
        let zero = frame.y_of(y, y.lower.max(0.0));
        frame.canvas.line("rule", (left, zero), (right, zero));
    }

    fn tip(&self, group: &str, series: &BarSeries, value: f64) -> String {
        let value = self.y.quantity.show(value);
        if series.name.is_empty() {
            format!("{group}: {value}")
        } else {
            format!("{group}, {}: {value}", series.name)
        }
    }

    /// Names below the groups; every n-th when all would touch.
    fn group_names(&self, frame: &mut Frame) {
        let room = frame.plot.width / self.groups.len().max(1) as f64;
        let widest = self.groups.iter().map(|g| text_width(g, TEXT_PX)).fold(1.0, f64::max);
        let numbered = self.groups.len() > 8;
        let stride = if numbered { ((widest + 6.0) / room).ceil().max(1.0) as usize } else { 1 };
        for (group, name) in self.groups.iter().enumerate().step_by(stride) {
            let x = frame.plot.left + room * (group as f64 + 0.5);
            let name = fitted(name, TEXT_PX, room * stride as f64 - 4.0);
            let place = (x, frame.plot.bottom() + 18.0);
            frame.canvas.text(place, Anchor::Middle, "axis", &name);
        }
    }
}
