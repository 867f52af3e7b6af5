//! The file is remembered after reopening; a new, a locked and a damaged one are told apart.

use super::*;

const WHAT: Remembered = Remembered { identity: 5, owner: 6, sequence: 7 };

#[test]
fn what_was_written_is_remembered_and_a_new_file_remembers_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.bucket");
    let memory = Memory::open(&path).expect("a new file");
    assert_eq!(memory.read().expect("readable"), None);
    memory.write(WHAT).expect("writable");
    drop(memory);
    let memory = Memory::open(&path).expect("the same file");
    assert_eq!(memory.read().expect("readable"), Some(WHAT));
}

#[test]
fn a_file_in_use_and_a_damaged_one_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.bucket");
    let memory = Memory::open(&path).expect("a new file");
    assert!(matches!(Memory::open(&path), Err(MemoryError::InUse(_))));
    memory.write(WHAT).expect("writable");
    drop(memory);
    let whole = std::fs::read(&path).expect("it is there");
    for at in 0..whole.len() {
        let mut forged = whole.clone();
        forged[at] ^= 4;
        std::fs::write(&path, &forged).expect("writable");
        let memory = Memory::open(&path).expect("a file");
        assert!(matches!(memory.read(), Err(MemoryError::Damaged(_))), "byte {at}");
    }
    std::fs::write(&path, &whole[..20]).expect("writable");
    let memory = Memory::open(&path).expect("a file");
    assert!(matches!(memory.read(), Err(MemoryError::Damaged(_))));
}
