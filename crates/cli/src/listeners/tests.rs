//! Moments, against `date -u`.

use super::moment;

#[test]
fn moments_are_those_of_the_calendar() {
    for (at_ms, text) in [
        (0, "1970-01-01T00:00:00.000Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
        (1_795_276_800_123, "2026-11-21T16:00:00.123Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
    ] {
        assert_eq!(moment(at_ms), text);
    }
}
