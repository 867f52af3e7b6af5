//! The file: what was written is read, and anything else is refused with its fault.

use super::{Learnt, read, write};
use thermocline_units::Bytes;

fn learnt() -> Learnt {
    Learnt {
        identity: 7,
        chunk_size: Bytes::from_mib(1),
        policy: "auto:margin=3".to_string(),
        bytes: vec![1, 2, 3],
    }
}

#[test]
fn a_file_is_read_as_it_was_written_and_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("learnt");
    assert_eq!(read(&path).unwrap(), None);
    write(&path, b"before").unwrap();
    write(&path, &learnt().encode()).unwrap();
    assert_eq!(Learnt::decode(&read(&path).unwrap().unwrap()), Ok(learnt()));
    let others: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(others.len(), 1, "nothing is left beside it");
}

#[test]
fn any_damage_is_found_and_none_panics() {
    let file = learnt().encode();
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        assert!(Learnt::decode(&damaged).is_err(), "byte {at}");
        assert!(Learnt::decode(&file[..at]).is_err(), "cut at {at}");
    }
    let mut newer = file;
    newer[8] = 2;
    assert!(Learnt::decode(&newer).unwrap_err().contains("version 2; this program reads 1"));
}
