//! Moments against `date -u`, and the lines that tell of a dashboard.

use super::{dashboard, moment};

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

#[test]
fn a_token_in_a_link_is_what_the_page_reads_of_it() {
    let at = |port: u16| dashboard("http", ([127, 0, 0, 1], port).into(), "a+b&c=d #1");
    assert_eq!(at(8080), "dashboard: http://127.0.0.1:8080/#token=a%2Bb%26c%3Dd%20%231\n");
    assert_eq!(at(6666), "no dashboard: browsers refuse port 6666; give another one\n");
}
