//! Legend of a plot: labels at the curves' ends, or a key above the plot.

use super::svg::{Anchor, Canvas, N, Rect, fitted, text_width};
use super::theme::{self, TEXT_PX};

/// Widest label beside a plot, in pixels; longer names are shortened.
pub(super) const LABEL_WIDTH_MAX: f64 = 150.0;
const ROW: f64 = 20.0;
const SWATCH: f64 = 24.0;

/// Look of an entry.
pub(super) enum Swatch {
    /// A piece of the `n`-th curve.
    Curve(usize),
    /// A piece of a reference curve.
    Reference,
    /// A square of the `n`-th fill.
    Fill(usize),
}

/// An entry of the key.
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) swatch: Swatch,
}

/// Pixels that a key of `names` takes in a chart `width` wide.
pub(super) fn height<'a>(names: impl Iterator<Item = &'a str>, width: f64) -> f64 {
    let mut rows = 1.0;
    let mut x = 0.0;
    for name in names {
        let entry = entry_width(name);
        if x > 0.0 && x + entry > width {
            rows += 1.0;
            x = 0.0;
        }
        x += entry;
    }
    rows * ROW + 6.0
}

fn entry_width(name: &str) -> f64 {
    SWATCH + 8.0 + text_width(name, TEXT_PX).min(LABEL_WIDTH_MAX * 2.0) + 18.0
}

/// Draws the key from `top` down.
pub(super) fn draw(canvas: &mut Canvas, top: f64, entries: &[Entry<'_>]) {
    let (mut x, mut y) = (0.0, top);
    for entry in entries {
        let width = entry_width(entry.name);
        if x > 0.0 && x + width > canvas.width {
            x = 0.0;
            y += ROW;
        }
        swatch(canvas, (x, y - 4.0), &entry.swatch);
        let name = fitted(entry.name, TEXT_PX, LABEL_WIDTH_MAX * 2.0);
        canvas.text((x + SWATCH + 2.0, y), Anchor::Start, "key", &name);
        x += width;
    }
}

fn swatch(canvas: &mut Canvas, (x, y): (f64, f64), swatch: &Swatch) {
    match swatch {
        Swatch::Curve(index) => {
            let class = format!("curve {}", theme::stroke(*index));
            canvas.line(&class, (x, y), (x + SWATCH, y));
            marker(canvas, (x + SWATCH / 2.0, y), *index);
        }
        Swatch::Reference => canvas.line("curve cr", (x, y), (x + SWATCH, y)),
        Swatch::Fill(index) => {
            let area = Rect { left: x + 5.0, top: y - 6.0, width: 14.0, height: 12.0 };
            canvas.rect(&theme::fill(*index), area, "");
        }
    }
}

/// The `index`-th series' marker at a point.
pub(super) fn marker(canvas: &mut Canvas, (x, y): (f64, f64), index: usize) {
    canvas.raw(format_args!(
        r#"<path class="mark {}" transform="translate({} {})" d="{}"/>"#,
        theme::fill(index),
        N(x),
        N(y),
        theme::marker(index)
    ));
}

/// Moves labels that want the heights `wanted` apart to at least `gap`, within `top..=bottom`, so
/// that the sum of squared movements is least (pool adjacent violators). The order is kept; when
/// there is not room for all, they run over the bottom.
pub(super) fn spread(wanted: &[f64], gap: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|a, b| wanted[*a].total_cmp(&wanted[*b]));
    // Subtracting its rank's gap from each wish turns "at least a gap apart" into "not decreasing".
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (rank, index) in order.iter().enumerate() {
        let mut pool = (wanted[*index] - gap * rank as f64, 1);
        while let Some((sum, count)) =
            pools.pop_if(|(sum, count)| *sum / *count as f64 >= pool.0 / pool.1 as f64)
        {
            pool = (pool.0 + sum, pool.1 + count);
        }
        pools.push(pool);
    }
    let last_start = (bottom - gap * wanted.len().saturating_sub(1) as f64).max(top);
    let starts =
        pools.into_iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / count as f64, count));
    let mut placed = vec![0.0; wanted.len()];
    for (rank, (index, start)) in order.into_iter().zip(starts).enumerate() {
        placed[index] = start.clamp(top, last_start) + gap * rank as f64;
    }
    placed
}
