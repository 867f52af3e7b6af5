//! Heat colours: viridis (Stéfan van der Walt & Nathaniel Smith 2015, matplotlib, CC0),
//! perceptually uniform and safe for colour-blind readers, interpolated from nine of its points.
//!
//! More is always further from the paper: on light paper the map runs from yellow to dark violet,
//! on dark paper the other way round. Nothing at all is the paper itself. Cells carry a class, not
//! a colour, so that the reader's preference decides.

use std::fmt::Write;

/// Distinct colours of a heat map; a step is just visible beside its neighbour.
pub(super) const STEPS: usize = 32;

const VIRIDIS: [[u8; 3]; 9] = [
    [0x44, 0x01, 0x54],
    [0x47, 0x2d, 0x7b],
    [0x3b, 0x52, 0x8b],
    [0x2c, 0x72, 0x8e],
    [0x21, 0x91, 0x8c],
    [0x28, 0xae, 0x80],
    [0x5e, 0xc9, 0x62],
    [0xad, 0xdc, 0x30],
    [0xfd, 0xe7, 0x25],
];

/// The part of the map that stands out from the paper on its pale or dark end.
const VISIBLE: (f64, f64) = (0.04, 0.96);

/// The colour at `t` in 0..=1.
fn viridis(t: f64) -> [u8; 3] {
    let at = t.clamp(0.0, 1.0) * (VIRIDIS.len() - 1) as f64;
    let below = (at.floor() as usize).min(VIRIDIS.len() - 2);
    let rest = at - below as f64;
    std::array::from_fn(|i| {
        let (a, b) = (f64::from(VIRIDIS[below][i]), f64::from(VIRIDIS[below + 1][i]));
        (a + (b - a) * rest).round() as u8
    })
}

/// The style rules of all steps, for light and dark paper.
pub(super) fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for step in 0..STEPS {
        let t = VISIBLE.0 + (VISIBLE.1 - VISIBLE.0) * step as f64 / (STEPS - 1) as f64;
        for (css, at) in [(&mut light, 1.0 - t), (&mut dark, t)] {
            let [r, g, b] = viridis(at);
            write!(css, ".chart .h{step}{{fill:#{r:02x}{g:02x}{b:02x}}}")
                .expect("writing to a string does not fail");
        }
    }
    format!("{light}@media(prefers-color-scheme:dark){{{dark}}}")
}

/// The step that shows a fraction of the colour scale, 0..=1.
pub(super) fn step(fraction: f64) -> usize {
    ((fraction * STEPS as f64) as usize).min(STEPS - 1)
}
