//! Folders that hold other things than this sweep, or damaged ones.

use super::super::tests::{begin_with, traces, with_own_policies};
use std::fs;

/// A sweep that was refused removed a folder `libraries` that a user had made, and a file `lock`.
#[test]
fn what_a_user_has_made_is_not_removed() {
    let (traces, plan) = (traces(), with_own_policies());
    for name in ["own.so", "liar.so"] {
        fs::write(traces.path().join(name), "not a library").unwrap();
    }
    let copy = format!("libraries/{}.so", "0f".repeat(32));
    for (name, holds, is_taken) in [
        ("libraries/mine.c", "years of work", false),
        ("libraries/mine.so", "years of work", false),
        ("libraries", "a file", false),
        ("lock", "a key", false),
        ("lock", "", true),
        ("libraries/mine.part", "half", true),
        (copy.as_str(), "another library", true),
    ] {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, holds).unwrap();
        let error = begin_with(&plan, out.path(), traces.path()).unwrap_err().to_string();
        let says = if is_taken { "it cannot be loaded" } else { "and no sweep; name a new folder" };
        assert!(error.contains(says), "{name}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), holds, "{name}");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{name}: what was made is gone: {left:?}");
    }
    // A copy that a beginning that was cut off has left stays, too, when the next one is refused.
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(out.path().join("libraries")).unwrap();
    let hash = blake3::hash(b"not a library").to_hex().to_string();
    let copy = out.path().join(format!("libraries/{hash}.so"));
    fs::write(&copy, "not a library").unwrap();
    begin_with(&plan, out.path(), traces.path()).unwrap_err();
    assert!(copy.exists() && !out.path().join("lock").exists());
}
