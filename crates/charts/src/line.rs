//! Line charts: several curves over one x, labelled at their ends where there is room.

use super::axis::{Axis, Interval};
use super::frame::{
    self, CELLS_ROOM, Frame, Heading, PLOT_HEIGHT, Room, SHARED_LEFT, WIDTH, pixels,
};
use super::key::{self, Entry, LABEL_WIDTH_MAX, Swatch};
use super::svg::{Anchor, Canvas, N, fitted, text_width};
use super::theme::{self, TEXT_PX};
use super::{Chart, Switch};
use std::fmt::Write;

/// Series that still get their names at the curves' ends; more get a key above the plot.
const DIRECT_LABELS_MAX: usize = 12;
/// Series from which on a page has a switch for each.
const SWITCHES_FROM: usize = 4;
/// Points of a series that still get markers; denser curves are drawn thin and plain.
const MARKERS_MAX: usize = 32;
/// Points of a series that get a tooltip.
const TIPS_MAX: usize = 400;

/// Curves over one x axis.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Title in a few words.
    pub title: String,
    /// Text that qualifies it (trace, line size); may be empty.
    pub note: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves, in the order of their colours.
    pub series: Vec<Series>,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    /// Half the height of each point's error bar; empty for none.
    errors: Vec<f64>,
    role: Role,
    /// Group of series that are switched together; empty for none.
    group: String,
    /// False when a page shows it only after it was asked for.
    shown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Curve,
    Reference,
}

impl Series {
    /// A curve through `points` (x, y), which are sorted by x here. A y that is NaN is a gap.
    pub fn new(name: impl Into<String>, mut points: Vec<(f64, f64)>) -> Series {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Series {
            name: name.into(),
            points,
            errors: Vec::new(),
            role: Role::Curve,
            group: String::new(),
            shown: true,
        }
    }

    /// Switches it together with the others of `group`, and shows it from the start or only when
    /// it is asked for; on pages only.
    #[must_use]
    pub fn in_group(mut self, group: &str, shown: bool) -> Series {
        self.group = group.to_string();
        self.shown = shown;
        self
    }

    /// Gives its points error bars: half of each one's height, in the order of the points by x.
    ///
    /// # Panics
    /// When there is not one for each point.
    #[must_use]
    pub fn with_errors(mut self, errors: Vec<f64>) -> Series {
        assert_eq!(errors.len(), self.points.len(), "one error a point");
        self.errors = errors;
        self
    }

    /// Draws it grey and dashed, without a colour of its own: a bound or a baseline.
    #[must_use]
    pub fn as_reference(mut self) -> Series {
        self.role = Role::Reference;
        self
    }
}

impl Chart for LineChart {
    fn draw(&self) -> Canvas {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let x = self.x.settle(points().map(|point| point.0), true);
        let y = self.y.settle(points().map(|point| point.1), false);
        let y_ticks = frame::y_ticks(&self.y, &y, PLOT_HEIGHT);
        let direct = self.series.len() > 1 && self.series.len() <= DIRECT_LABELS_MAX;
        let keyed = self.series.len() > DIRECT_LABELS_MAX;
        let names = || self.series.iter().map(|series| series.name.as_str());
        let widest = names().map(|name| text_width(name, TEXT_PX)).fold(0.0, f64::max);
        let room = Room {
            right: if direct { widest.min(LABEL_WIDTH_MAX) + 36.0 } else { 28.0 },
            key: if keyed { key::height(names(), WIDTH) } else { 0.0 },
            plot: self.x.cells.map(|cells| (pixels(CELLS_ROOM, cells) * cells as f64, PLOT_HEIGHT)),
            left: self.x.cells.map(|_| SHARED_LEFT),
        };
        let heading = Heading {
            title: &self.title,
            note: &self.note,
            x_label: &self.x.label,
            y_label: &self.y.label,
        };
        let mut frame = Frame::new(&heading, &y_ticks, &room);
        frame.y_axis(&y_ticks, &y);
        let x_ticks = frame::x_ticks(&self.x, &x, frame.plot.width);
        frame.x_axis(&x_ticks, &x);
        for (series, style) in self.series.iter().zip(self.styles()) {
            frame.canvas.begin_series(&series.name);
            self.curve(&mut frame, (&x, &y), series, style);
            frame.canvas.end_series();
        }
        for series in &self.series {
            frame.canvas.begin_series(&series.name);
            self.tips(&mut frame, (&x, &y), series);
            frame.canvas.end_series();
        }
        if direct {
            self.end_labels(&mut frame, (&x, &y));
        } else if keyed {
            let entries: Vec<Entry<'_>> = self
                .series
                .iter()
                .zip(self.styles())
                .map(|(series, style)| Entry {
                    name: &series.name,
                    swatch: style.map_or(Swatch::Reference, Swatch::Curve),
                })
                .collect();
            let top = frame.key_top;
            key::draw(&mut frame.canvas, top, &entries);
        }
        frame.canvas
    }

    fn switches(&self) -> Vec<Switch<'_>> {
        if self.series.len() < SWITCHES_FROM {
            return Vec::new();
        }
        self.series
            .iter()
            .map(|series| Switch { name: &series.name, group: &series.group, shown: series.shown })
            .collect()
    }
}

impl LineChart {
    /// The colour index of each series; a reference has none and takes none.
    fn styles(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        let mut next = 0;
        self.series.iter().map(move |series| match series.role {
            Role::Reference => None,
            Role::Curve => {
                next += 1;
                Some(next - 1)
            }
        })
    }

    fn drawable<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = (f64, f64)> + 'a {
        series.points.iter().copied().filter(|(x, y)| self.x.takes(*x) && self.y.takes(*y))
    }

    fn curve(
        &self,
        frame: &mut Frame,
        (x, y): (&Interval, &Interval),
        series: &Series,
        style: Option<usize>,
    ) {
        let place = |p: (f64, f64)| (frame.x_of(x, p.0), frame.y_of(y, p.1));
        let places: Vec<(f64, f64)> = self.drawable(series).map(place).collect();
        let mut path = String::new();
        // Where there is no value the curve ends, and another begins behind it.
        for run in series.points.split(|point| point.1.is_nan()) {
            let drawn = run.iter().filter(|p| self.x.takes(p.0) && self.y.takes(p.1));
            for (i, (px, py)) in drawn.map(|p| place(*p)).enumerate() {
                let letter = if i == 0 { 'M' } else { 'L' };
                write!(path, "{letter}{} {}", N(px), N(py)).expect("strings take all");
            }
            if run.len() == 1 {
                path.push_str("h0"); // A dot, by its round ends.
            }
        }
        let stroke = style.map_or_else(|| "cr".to_string(), theme::stroke);
        for ((px, py), error) in series.points.iter().zip(&series.errors) {
            if *error > 0.0 && self.x.takes(*px) && self.y.takes(*py) {
                let at = frame.x_of(x, *px);
                let [low, high] = [py - error, py + error].map(|end| frame.y_of(y, end));
                frame.canvas.raw(format_args!(
                    r#"<path class="curve thin {stroke}" d="M{0} {1}L{0} {2}"/>"#,
                    N(at),
                    N(low),
                    N(high)
                ));
            }
        }
        let dense = places.len() > MARKERS_MAX;
        let thin = if dense { " thin" } else { "" };
        frame.canvas.raw(format_args!(r#"<path class="curve{thin} {stroke}" d="{path}"/>"#));
        if let (Some(index), false) = (style, dense) {
            for place in places {
                key::marker(&mut frame.canvas, place, index);
            }
        }
    }

    fn tips(&self, frame: &mut Frame, (x, y): (&Interval, &Interval), series: &Series) {
        let stride = series.points.len().div_ceil(TIPS_MAX).max(1);
        for (px, py) in self.drawable(series).step_by(stride) {
            let place = (frame.x_of(x, px), frame.y_of(y, py));
            let (px, py) = (self.x.quantity.show(px), self.y.quantity.show(py));
            let tip = if series.name.is_empty() {
                format!("{px}: {py}")
            } else {
                format!("{} at {px}: {py}", series.name)
            };
            frame.canvas.hot_spot(place, 7.0, &tip);
        }
    }

    fn end_labels(&self, frame: &mut Frame, (x, y): (&Interval, &Interval)) {
        let ends: Vec<(usize, Option<usize>, f64, f64)> = self
            .series
            .iter()
            .enumerate()
            .zip(self.styles())
            .filter_map(|((i, series), style)| {
                let (px, py) = self.drawable(series).last()?;
                Some((i, style, frame.x_of(x, px), frame.y_of(y, py)))
            })
            .collect();
        let wanted: Vec<f64> = ends.iter().map(|end| end.3).collect();
        let gap = TEXT_PX + 3.0;
        let placed = key::spread(&wanted, gap, frame.plot.top, frame.plot.bottom());
        for ((i, style, end_x, end_y), label_y) in ends.into_iter().zip(placed) {
            let mark_x = frame.plot.right() + 22.0;
            frame.canvas.begin_series(&self.series[i].name);
            frame.canvas.line("grid", (end_x + 6.0, end_y), (mark_x - 6.0, label_y));
            if let Some(index) = style {
                key::marker(&mut frame.canvas, (mark_x, label_y), index);
            }
            let class = if style.is_some() { "key" } else { "axis" };
            let label_x = if style.is_some() { mark_x + 9.0 } else { mark_x - 4.0 };
            let name = fitted(&self.series[i].name, TEXT_PX, LABEL_WIDTH_MAX);
            let place = (label_x, label_y + TEXT_PX * 0.35);
            frame.canvas.text(place, Anchor::Start, class, &name);
            frame.canvas.end_series();
        }
    }
}
