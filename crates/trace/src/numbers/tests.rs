//! Numbers against the standard library, and what is not one.

use super::{Excerpt, bytes_field, fraction, scan_whole, whole};
use proptest::prelude::*;

proptest! {
    #[test]
    fn whole_numbers_are_read_as_by_the_standard_library(
        number in any::<u64>(),
        shift in 0u32..64,
    ) {
        let number = number >> shift;
        let text = number.to_string();
        let expected = (text.len() <= super::DIGITS_MAX).then_some(number);
        prop_assert_eq!(whole(text.as_bytes()), expected);
        for behind in ["", ",", "\n", ",123456789", "x", "/", ":", "\u{ff}"] {
            let longer = format!("{text}{behind}");
            let found = scan_whole(longer.as_bytes(), 0);
            prop_assert_eq!(found, expected.map(|value| (value, text.len())));
        }
    }

    #[test]
    fn fractions_lose_no_digit(units in 0u64..1 << 32, parts in 0u64..1_000_000_000) {
        const NANO: u64 = 1_000_000_000;
        let text = format!("{units}.{parts:09}");
        prop_assert_eq!(fraction(text.as_bytes(), NANO), Some(units * NANO + parts));
    }

    #[test]
    fn any_bytes_are_a_number_or_none(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
        at in 0usize..50,
    ) {
        let digits = bytes.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count();
        let found = scan_whole(&bytes, at);
        prop_assert_eq!(found.is_some(), (1..=super::DIGITS_MAX).contains(&digits));
        prop_assert!(found.is_none_or(|(_, end)| end == at + digits));
    }
}

#[test]
fn numbers_with_anything_else_about_them_are_none() {
    for text in ["", "-1", "+1", "1 ", " 1", "1e3", "0x10", "1_000", "10000000000000000000", "٣"] {
        assert_eq!(whole(text.as_bytes()), None, "{text}");
    }
    for text in ["", ".", "1.", ".5", "1.5.2", "-0.5", "1,5", "18446744074", "1.2e3"] {
        assert_eq!(fraction(text.as_bytes(), 1_000_000_000), None, "{text}");
    }
    assert_eq!(fraction(b"1.99999999999999999999999", 10), Some(19));
}

#[test]
fn excerpts_are_printable_and_short() {
    assert_eq!(Excerpt(b"a\0\xff\n").to_string(), "a\\x00\\xff\\n");
    assert!(Excerpt(&[b'x'; 1000]).to_string().len() < 70);
}

/// A column of seconds that was taken for offsets was cut to whole bytes without a word.
#[test]
fn bytes_have_no_fractions() {
    let bytes = |text: &str, unit| bytes_field("the offset", text.as_bytes(), unit).ok();
    for (text, unit, expected) in [
        ("4096", 1, Some(4096)),
        ("4096.0", 1, Some(4096)),
        ("1.5", 512, Some(768)),
        ("0.00390625", 1 << 20, Some(4096)),
        ("4096.9", 1, None),
        ("0.0004", 1, None),
        ("1700000000.000412", 1, None),
        ("1.3", 512, None),
        ("4096.00000000000000000000000001", 1, None),
        ("4096.00000000000000000000000000", 1, Some(4096)),
    ] {
        assert_eq!(bytes(text, unit), expected, "{text} of {unit}");
    }
}
