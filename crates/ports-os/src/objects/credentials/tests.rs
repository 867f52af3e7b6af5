//! The shared file as people and their tools write it.

use super::*;

const FILE: &str = "\
# mine
[default]
aws_access_key_id = AKIDEFAULT
aws_secret_access_key=secret/with=signs
; aws_session_token = none

[ work ]
aws_access_key_id = AKIWORK
aws_secret_access_key = other
aws_session_token = token
[half]
aws_access_key_id = AKIHALF
";

#[test]
fn a_section_has_its_own_keys_and_no_others() {
    let keys = keys_in(FILE, "default").expect("it is there");
    assert_eq!((&*keys.id, &*keys.secret, keys.token), ("AKIDEFAULT", "secret/with=signs", None));
    let keys = keys_in(FILE, "work").expect("it is there");
    assert_eq!((&*keys.id, keys.token.as_deref()), ("AKIWORK", Some("token")));
}

#[test]
fn half_a_pair_and_a_missing_section_are_none() {
    assert!(keys_in(FILE, "half").is_none());
    assert!(keys_in(FILE, "home").is_none());
    assert!(keys_in("", "default").is_none());
}

#[test]
fn keys_are_not_shown() {
    let shown = format!("{:?}", keys_in(FILE, "work"));
    assert!(!shown.contains("AKI") && !shown.contains("other") && !shown.contains("token"));
}
