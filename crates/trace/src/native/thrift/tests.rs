//! Footers that would keep the library busy, and shapes that are fine.

use super::check;

#[test]
fn a_forged_list_of_booleans_is_refused_before_it_costs_time() {
    // Field 10, a list (9) of 2^31 - 1 booleans (1), which the library would skip one by one.
    let forged = [0xa9, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
    assert_eq!(check(&forged), Err("it has a list of booleans, which no footer has"));
}

#[test]
fn more_elements_than_bytes_are_refused() {
    let forged = [0xa9, 0xf3, 0xff, 0xff, 0xff, 0x07, 0x00];
    assert_eq!(check(&forged), Err("a list has more elements than bytes"));
}

#[test]
fn deep_nesting_and_cut_off_values_are_refused() {
    assert!(check(&[0xac; 100]).unwrap_err().contains("nested"));
    for cut in [&[][..], &[0x15], &[0x15, 0x80], &[0x68, 0x05, b'a'], &[0xa7, 0, 0]] {
        assert!(check(cut).is_err(), "{cut:?}");
    }
}

#[test]
fn a_known_field_of_another_kind_is_refused() {
    // What a fuzzer found, reduced: the version declared binary, which the library reads as a
    // number, and so goes on at another byte than it should.
    let forged = [0x18, 0x02, b'h', b'i', 0x00];
    let problem = "a field is of another kind than the format gives it";
    assert_eq!(check(&forged), Err(problem));
    // The schema as a list of numbers; a version that is a number is fine.
    assert_eq!(check(&[0x15, 0x02, 0x19, 0x15, 0x02, 0x00]), Err(problem));
    assert_eq!(check(&[0x15, 0x02, 0x00]), Ok(()));
}

#[test]
fn every_kind_of_an_unknown_value_is_walked() {
    let fine = [
        0x05, 0xc8, 0x01, 0x02, // a number in field 100, whose number is written out
        0x11, // a boolean field, true
        0x13, 0x7f, // a byte
        0x15, 0x80, 0x01, // a number
        0x17, 0, 0, 0, 0, 0, 0, 0, 0, // a double
        0x18, 0x02, b'h', b'i', // binary
        0x19, 0x25, 0x02, 0x04, // a list of two numbers
        0x1b, 0x01, 0x58, 0x02, 0x01, b'x', // a map of one number to binary
        0x1c, 0x00, // an empty struct
        0x00,
    ];
    assert_eq!(check(&fine), Ok(()));
}
