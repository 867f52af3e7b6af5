//! The state folder belongs to one pool, and to its owner.

use super::lock;
use crate::OffloadError;
use crate::saved::replace;
use std::os::unix::fs::PermissionsExt;

/// Two pools were started on one folder, and each wrote over what the other had saved.
#[test]
fn a_folder_is_locked_and_for_its_owner_alone() {
    let outer = tempfile::tempdir().expect("a folder");
    let path = outer.path().join("a/state");
    let folder = lock(&path).expect("nobody has it");
    assert!(matches!(lock(&path), Err(OffloadError::Busy(_))));
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    };
    assert_eq!(mode(&path), 0o700);
    let file = path.join("mappings");
    std::fs::write(path.join("mappings.new"), "left by a crash").expect("written");
    replace(&file, b"secret").expect("written");
    assert_eq!(mode(&file), 0o600);
    drop(folder);
    assert!(lock(&path).is_ok());
}
