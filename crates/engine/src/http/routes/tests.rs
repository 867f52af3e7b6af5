//! Messages about keys that are not known.

use crate::api::{NewJob, NewPolicy, NewPool, NewShadow, NewVolume, VolumeSize};
use serde::de::DeserializeOwned;
use thermocline_admin::http::unknown_key;

fn said<T: DeserializeOwned>(body: &str) -> Option<String> {
    unknown_key(&serde_json::from_str::<T>(body).err()?.to_string())
}

/// `{"sise_bytes": …}` was taken, and the key dropped.
#[test]
fn an_unknown_key_is_named_with_the_nearest_known_one() {
    let said_of = said::<NewPool>(r#"{"name": "a", "path": "/a", "sise_bytes": 4096}"#);
    assert_eq!(said_of.unwrap(), "unknown key `sise_bytes`; did you mean `size_bytes`?");
    let said_of = said::<VolumeSize>(r#"{"size": 4096}"#);
    assert_eq!(said_of.unwrap(), "unknown key `size`; did you mean `size_bytes`?");
    let said_of = said::<NewVolume>(r#"{"size_bytes": 4096, "nane": "db"}"#);
    assert_eq!(said_of.unwrap(), "unknown key `nane`; did you mean `name`?");
    let said_of = said::<NewPolicy>(r#"{"spec": "none", "epoch": 3}"#);
    assert_eq!(said_of.unwrap(), "unknown key `epoch`; did you mean `epoch_seconds`?");
    let said_of = said::<NewPolicy>(r#"{"placement": "none"}"#);
    assert_eq!(said_of.unwrap(), "unknown key `placement`; known are spec, epoch_seconds");
    assert!(said::<NewJob>(r#"{"kind": "pin", "volum": "v0"}"#).unwrap().contains("`volume`"));
    assert!(said::<NewShadow>(r#"{"a": 1}"#).is_some());
}

#[test]
fn other_mistakes_are_left_to_their_own_words() {
    assert_eq!(said::<NewPool>(r#"{"name": "a"}"#), None);
    assert_eq!(said::<VolumeSize>(r#"{"size_bytes": "4096"}"#), None);
    assert_eq!(said::<VolumeSize>(r#"{"size_bytes": 4096}"#), None);
}
