//! Footers that would keep the library busy, and shapes that are fine.

use super::check;

#[test]
fn a_forged_list_of_booleans_is_refused_before_it_costs_time() {
    // Field 1, a list (9) of 2^31 - 1 booleans (1), which the library would skip one by one.
    let forged = [0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
    assert_eq!(check(&forged), Err("it has a list of booleans, which no footer has"));
}

#[test]
fn more_elements_than_bytes_are_refused() {
    let forged = [0x19, 0xf3, 0xff, 0xff, 0xff, 0x07, 0x00];
    assert_eq!(check(&forged), Err("a list has more elements than bytes"));
}

#[test]
fn deep_nesting_and_cut_off_values_are_refused() {
    assert!(check(&[0x1c; 100]).unwrap_err().contains("nested"));
    for cut in [&[][..], &[0x15], &[0x15, 0x80], &[0x18, 0x05, b'a'], &[0x17, 0, 0]] {
        assert!(check(cut).is_err(), "{cut:?}");
    }
}

#[test]
fn every_kind_of_value_is_walked() {
    let fine = [
        0x11, // a boolean field, true
        0x13, 0x7f, // a byte
        0x15, 0x80, 0x01, // a number
        0x17, 0, 0, 0, 0, 0, 0, 0, 0, // a double
        0x18, 0x02, b'h', b'i', // binary
        0x19, 0x25, 0x02, 0x04, // a list of two numbers
        0x1b, 0x01, 0x58, 0x02, 0x01, b'x', // a map of one number to binary
        0x1c, 0x00, // an empty struct
        0x05, 0xc8, 0x01, 0x02, // a number in a field whose number is written out
        0x00,
    ];
    assert_eq!(check(&fine), Ok(()));
}
