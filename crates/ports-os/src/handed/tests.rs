//! The variables; descriptors themselves are handed to a process in the tests of `cli`.

use super::said;

#[test]
fn descriptors_are_counted_and_named_for_the_process_that_is_meant_alone() {
    let own = 77;
    assert_eq!(said("77", "2", "nbd:http", own).unwrap(), ["nbd", "http"]);
    assert_eq!(said("77", "2", "nbd", own).unwrap(), ["nbd", ""]);
    assert_eq!(said("77", "1", "nbd:http:more", own).unwrap(), ["nbd"]);
    for (pid, count) in [("78", "2"), ("", "2"), ("77 ", "2"), ("77", ""), ("77", "0")] {
        assert_eq!(said(pid, count, "nbd", own).unwrap(), [""; 0], "{pid:?} {count:?}");
    }
    for count in ["two", "-1", "257", "99999999999999999999"] {
        let error = said("77", count, "", own).unwrap_err().to_string();
        assert!(error.starts_with(&format!("LISTEN_FDS={count}: ")), "{error}");
    }
}
