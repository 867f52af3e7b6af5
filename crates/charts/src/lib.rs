//! Pictures and report pages: charts drawn as SVG, pages as one self-contained HTML file.
//!
//! Invariants:
//! - nothing drawn refers to anything outside itself: no font, script, style sheet or image is
//!   loaded;
//! - every text that came from outside (volume names, paths, policy names) is escaped where it is
//!   written, in `svg.rs` and nowhere else;
//! - colours alone never carry the meaning: series differ in dash and marker too (palette of Okabe
//!   & Ito 2008), heat uses viridis (van der Walt & Smith 2015), and both follow the reader's light
//!   or dark preference;
//! - numbers become text through [`format`](mod@format) only.
//!
//! What it does not do: layout of arbitrary figures, animation, zooming. Drawing is pure: equal
//! data gives equal bytes.
//!
//! ```
//! use thermocline_charts::format::Quantity;
//! use thermocline_charts::{Axis, Chart, LineChart, Page, Series};
//! let chart = LineChart {
//!     title: "Hit ratio by cache size".into(),
//!     note: "4 KiB lines".into(),
//!     x: Axis::log("cache size", Quantity::Bytes),
//!     y: Axis::linear("hit ratio", Quantity::Share).between(0.0, 1.0),
//!     series: vec![Series::new("LRU", vec![(1048576.0, 0.1), (1073741824.0, 0.6)])],
//! };
//! assert!(chart.to_svg().starts_with("<svg"));
//! let html = Page::new("My trace").section("Caches").chart(&chart).to_html();
//! assert!(html.contains("Hit ratio by cache size"));
//! ```

mod axis;
mod bars;
mod colour_map;
pub mod format;
mod frame;
mod heat;
mod histogram;
mod key;
mod line;
mod page;
mod svg;
mod table;
mod theme;
mod ticks;

pub use axis::Axis;
pub use bars::{BarChart, BarSeries, Stacking};
pub use heat::HeatMap;
pub use histogram::{Bar, Histogram};
pub use line::{LineChart, Series};
pub use page::Page;
pub use table::{Cell, Table};

use svg::Canvas;

/// Something of a chart that a page can switch off and on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch<'a> {
    /// The series.
    pub name: &'a str,
    /// Group of those it is switched together with; empty for none.
    pub group: &'a str,
    /// True if it is seen from the start.
    pub shown: bool,
}

/// Something that can be drawn.
pub trait Chart {
    /// Draws it; the canvas knows its size.
    #[doc(hidden)]
    fn draw(&self) -> Canvas;

    /// Switches of a page; none where everything is always seen.
    fn switches(&self) -> Vec<Switch<'_>> {
        Vec::new()
    }

    /// A complete SVG document, with its own styles, that opens in a browser or an editor.
    fn to_svg(&self) -> String {
        self.draw().into_document()
    }
}

#[cfg(test)]
mod tests;
