//! Files that appear whole, beside what others do meanwhile.

use super::{OutputFile, Readers};
use rustix::fs::{FlockOperation, flock};
use std::io::Write;

/// A file that came while hours of an export were written was replaced by it.
#[test]
fn a_file_that_comes_meanwhile_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.img");
    let mut output = OutputFile::create(&path, false, Readers::Owner).unwrap();
    output.write_all(b"export").unwrap();
    std::fs::write(&path, b"precious").unwrap();
    let said = output.finish().unwrap_err().to_string();
    assert!(said.contains("out.img") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no part is left");
}

#[test]
fn a_file_that_is_taken_into_use_meanwhile_is_not_replaced_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.img");
    std::fs::write(&path, b"old").unwrap();
    let begin = || {
        let mut output = OutputFile::create(&path, true, Readers::Owner).unwrap();
        output.write_all(b"export").unwrap();
        output
    };
    let output = begin();
    let pool = std::fs::File::open(&path).unwrap();
    flock(&pool, FlockOperation::NonBlockingLockExclusive).unwrap();
    let said = output.finish().unwrap_err().to_string();
    assert!(said.contains("is in use"), "{said}");
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    drop(pool);
    begin().finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"export");
}
