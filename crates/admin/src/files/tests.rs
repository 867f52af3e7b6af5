//! Replacing of kept files: whole or not at all, and never through a link.

use super::{EVERYBODY_READS, OWNER_ONLY, beside, replace};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn a_file_is_replaced_as_a_whole_or_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kept.state");
    replace(&path, OWNER_ONLY, |mut file| file.write_all(b"old")).expect("written");
    let mode = || fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    let failed = replace(&path, OWNER_ONLY, |mut file| {
        file.write_all(b"ne")?;
        Err(io::Error::other("the disk is full"))
    });
    assert_eq!(failed.expect_err("it failed").to_string(), "the disk is full");
    assert_eq!(fs::read(&path).expect("it is there"), b"old");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is left");
    replace(&path, EVERYBODY_READS, |mut file| file.write_all(b"new")).expect("written");
    assert_eq!((fs::read(&path).expect("it is there"), mode()), (b"new".to_vec(), 0o644));
}

#[test]
fn a_link_in_the_place_of_the_unfinished_file_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, other) = (folder.path().join("kept"), folder.path().join("other"));
    fs::write(&other, "theirs").expect("written");
    symlink(&other, beside(&path)).expect("a link");
    replace(&path, OWNER_ONLY, |mut file| file.write_all(b"ours")).expect("written");
    assert_eq!(fs::read(&other).expect("it is there"), b"theirs");
    assert_eq!(fs::read(&path).expect("it is there"), b"ours");
    assert!(path.symlink_metadata().expect("it is there").is_file());
}
