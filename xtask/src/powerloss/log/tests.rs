//! Contents of a device when power fails: what was forced, what was flushed, any part of the rest.

use super::*;

/// A log of these entries on two devices of eight sectors; each write fills its sectors with its
/// place in the list, counted from 1.
fn log(name: &str, entries: &[(Kind, u8, u64, u64)]) -> Log {
    let folder = std::env::temp_dir().join(format!("powerloss-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    let mut writer = Writer::create(&path).unwrap();
    for (index, &(kind, device, sector, sectors)) in entries.iter().enumerate() {
        let entry = Entry { kind, device, sector, sectors };
        let contents = vec![index as u8 + 1; (sectors * SECTOR) as usize];
        writer.push(&entry, if entry.has_contents() { &contents } else { &[] }).unwrap();
    }
    writer.end().unwrap();
    let log = Log::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap(); // It stays open.
    assert_eq!(log.entries.len(), entries.len());
    log
}

/// The first byte of each sector of both devices behind so many entries.
fn held(log: &Log, entries: usize, rest: Rest, forgets: u64) -> [Vec<u8>; 2] {
    let mut devices = Devices::new(log, &[4096, 4096], forgets);
    let images = devices.at(Point { entries, rest }).unwrap();
    [0, 1].map(|device: usize| images[device].iter().step_by(512).copied().collect())
}

use Kind::{Discard, Flush, Mark, Write as Plain, WriteForced as Forced};

#[test]
fn only_a_flush_of_its_own_device_makes_a_plain_write_durable() {
    let log = log(
        "own",
        &[(Plain, 0, 0, 2), (Plain, 1, 0, 1), (Mark, 0, 7, 0), (Flush, 1, 0, 0), (Plain, 1, 1, 1)],
    );
    let [zero, one] = held(&log, 5, Rest::Lost, 0);
    assert_eq!((&zero[..3], &one[..3]), (&[0, 0, 0][..], &[2, 0, 0][..]));
    let [zero, one] = held(&log, 5, Rest::Kept, 0);
    assert_eq!((&zero[..3], &one[..3]), (&[1, 1, 0][..], &[2, 5, 0][..]));
    let [zero, one] = held(&log, 3, Rest::Kept, 0);
    assert_eq!((&zero[..3], &one[..3]), (&[1, 1, 0][..], &[2, 0, 0][..]));
}

#[test]
fn a_forced_write_is_there_and_keeps_its_place_among_others() {
    let log = log("forced", &[(Plain, 0, 0, 4), (Forced, 0, 1, 2), (Plain, 0, 2, 1)]);
    assert_eq!(held(&log, 3, Rest::Lost, 0)[0][..4], [0, 2, 2, 0]);
    assert_eq!(held(&log, 3, Rest::Kept, 0)[0][..4], [1, 2, 3, 1]);
    let log_flushed = self::log("later", &[(Plain, 0, 0, 4), (Forced, 0, 1, 2), (Flush, 0, 0, 0)]);
    assert_eq!(held(&log_flushed, 3, Rest::Lost, 0)[0][..4], [1, 2, 2, 1]);
}

#[test]
fn what_was_not_flushed_is_lost_by_writes_or_by_sectors() {
    let log = log("torn", &[(Plain, 0, 0, 8), (Plain, 1, 0, 8), (Discard, 0, 0, 8)]);
    let (mut whole, mut torn) = (0, 0);
    for seed in 0..50 {
        for device in held(&log, 3, Rest::ByWrites(seed), 0) {
            assert!(device.iter().all(|byte| *byte == device[0]), "{device:?}");
            whole += usize::from(device[0] != 0);
        }
        let device = &held(&log, 3, Rest::BySectors(seed), 0)[0];
        torn += usize::from(device.contains(&0) && device.contains(&1));
    }
    assert!((20..80).contains(&whole) && torn > 40, "{whole} {torn}");
}

#[test]
fn a_device_that_lies_forgets_flushed_writes() {
    let log = log("lies", &[(Plain, 0, 0, 4), (Forced, 0, 1, 1), (Flush, 0, 0, 0)]);
    assert_eq!(held(&log, 3, Rest::Kept, 1)[0][..4], [0, 2, 0, 0]);
}

#[test]
fn what_is_no_log_is_refused() {
    let path = std::env::temp_dir().join(format!("powerloss-no-{}", std::process::id()));
    for bytes in [&[9; 24][..], &[0; 23], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(Log::open(&path).is_err(), "{bytes:?}");
    }
    std::fs::remove_file(&path).unwrap();
}
