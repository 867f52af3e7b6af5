//! Texts of numbers that other crates print: signs. What they look like otherwise is tested where
//! they are printed (`charts`).

use super::seconds;

#[test]
fn spans_have_a_sign() {
    assert_eq!([0.0, 1.5, -90.0].map(seconds), ["0 s", "1.5 s", "−1.5 min"]);
}
