//! Numbers as people read them, one table a quantity.

use super::*;

#[test]
fn counts_have_commas_between_thousands() {
    for (value, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
        assert_eq!(count(value), text);
    }
    assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
}

#[test]
fn sizes_step_to_the_next_unit_before_they_show_1024() {
    for (value, text) in [
        (0.0, "0 B"),
        (512.0, "512 B"),
        (1023.0, "1023 B"),
        (1024.0, "1 KiB"),
        (1.5 * 1_048_576.0, "1.5 MiB"),
        (1_048_575.0, "1 MiB"),
        (1e24, "867362 EiB"),
    ] {
        assert_eq!(bytes(value), text, "{value}");
    }
}

#[test]
fn times_use_si_below_a_minute_and_clock_units_above() {
    for (value, text) in [
        (0.0, "0 s"),
        (2.5e-7, "250 ns"),
        (0.0015, "1.5 ms"),
        (59.99, "1 min"),
        (90.0, "1.5 min"),
        (300.0, "5 min"),
        (604_800.0, "7 d"),
    ] {
        assert_eq!(seconds(value), text, "{value}");
    }
}

#[test]
fn only_everything_prints_as_a_hundred_percent() {
    for (value, text) in [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.9999, "> 99.9 %"),
        (0.99949, "99.9 %"),
        (0.1234, "12.3 %"),
        (0.000_012, "0.0012 %"),
        (0.000_000_1, "< 0.001 %"),
        (f64::NAN, "–"),
    ] {
        assert_eq!(share(value), text, "{value}");
    }
}

#[test]
fn ticks_are_shorter_than_table_cells() {
    assert_eq!(Quantity::Count.tick(20_000.0), "20 k");
    assert_eq!(Quantity::Count.show(20_000.0), "20,000");
    assert_eq!(Quantity::Bytes.tick(0.0), "0");
    assert_eq!(Quantity::Share.tick(0.25), "25 %");
    assert_eq!(Quantity::Plain.show(-1234.0), "−1,234");
    assert_eq!(Quantity::Plain.show(0.000_02), "2.00e-5");
}
