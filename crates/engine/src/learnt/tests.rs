//! The file: what was written is read, and anything else is refused with its fault.

use super::format::FILE_BYTES_MAX;
use super::{Kept, Learnt, read, replace, set_aside};
use thermocline_units::Bytes;

fn learnt() -> Learnt {
    Learnt {
        identity: 7,
        chunk_size: Bytes::from_mib(1),
        policy: "auto:margin=3".to_string(),
        pools: Some(vec![2, 0, 1]),
        bytes: vec![1, 2, 3],
    }
}

#[test]
fn a_file_is_read_as_it_was_written_and_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("learnt");
    assert_eq!(read(&path).unwrap(), None);
    replace(&path, b"before").unwrap();
    replace(&path, &learnt().encode()).unwrap();
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
    newer[8] = 3;
    assert!(Learnt::decode(&newer).unwrap_err().contains("version 3; this program reads 1 and 2"));
}

#[test]
fn a_file_of_version_1_does_not_say_which_pools_there_were() {
    // By docs/formats/learnt.md.
    let mut body = Vec::new();
    body.extend(7_u64.to_le_bytes());
    body.extend((1_u64 << 20).to_le_bytes());
    body.extend(13_u32.to_le_bytes());
    body.extend(b"auto:margin=3");
    body.extend([1, 2, 3]);
    let mut file = b"TCLEARNT\x01\0\0\0".to_vec();
    file.extend(crc32c::crc32c(&body).to_le_bytes());
    file.extend(body);
    assert_eq!(Learnt::decode(&file), Ok(Learnt { pools: None, ..learnt() }));
}

/// A folder in the place of `learnt`: hints that could have been kept were lost with it.
#[test]
fn hints_are_kept_also_where_what_is_learnt_cannot_be_and_the_other_way_round() {
    for (blocked, written) in [("learnt", "hints.json"), ("hints.json", "learnt")] {
        let folder = tempfile::tempdir().unwrap();
        let kept = Kept::of(folder.path());
        std::fs::create_dir_all(folder.path().join(blocked).join("within")).unwrap();
        let error = kept.write(Some(b"known"), Some(b"hinted")).unwrap_err();
        assert!(error.contains(blocked) && !error.contains(written), "{error}");
        assert!(read(&folder.path().join(written)).unwrap().is_some());
        let names = std::fs::read_dir(folder.path()).unwrap();
        assert_eq!(names.count(), 2, "nothing half written is left");
    }
}

#[test]
fn hints_that_are_no_more_have_no_file_and_what_is_learnt_keeps_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::of(folder.path());
    kept.write(Some(b"known"), Some(b"hinted")).unwrap();
    kept.write(None, None).unwrap();
    assert_eq!(read(&kept.hints).unwrap(), None);
    assert_eq!(read(&kept.learnt).unwrap().unwrap(), b"known");
}

/// The loop's thread and the one that writes now and then used one file for both halves.
#[test]
fn writers_at_the_same_time_leave_one_of_their_files_whole() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::of(folder.path());
    let of = |byte: u8| vec![byte; 1 << 16];
    std::thread::scope(|scope| {
        for byte in 0..4 {
            let kept = kept.clone();
            scope.spawn(move || {
                for _ in 0..20 {
                    kept.write(Some(&of(byte)), Some(&of(byte))).unwrap();
                }
            });
        }
    });
    for path in [&kept.learnt, &kept.hints] {
        let file = read(path).unwrap().unwrap();
        assert_eq!(file, of(file[0]));
    }
}

/// Damaged hints, or those of a newer program, were removed at the next write.
#[test]
fn a_file_that_is_set_aside_survives_what_is_written_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::of(folder.path());
    std::fs::write(&kept.hints, b"{\"version\":9}").unwrap();
    assert!(set_aside(&kept.hints));
    kept.write(None, None).unwrap();
    let aside = folder.path().join("hints.json.unread");
    assert_eq!(read(&aside).unwrap().unwrap(), b"{\"version\":9}");
    assert!(!set_aside(&kept.hints), "there is none");
}

#[test]
fn a_file_longer_than_such_files_are_is_refused_before_it_fills_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("learnt");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(FILE_BYTES_MAX).unwrap();
    assert_eq!(read(&path).unwrap().unwrap().len() as u64, FILE_BYTES_MAX);
    file.set_len(1 << 40).unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("longer than such a file"));
}
