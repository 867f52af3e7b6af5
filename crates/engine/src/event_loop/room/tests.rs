//! Events that tell, in numbers, that room runs short.

use super::{FileRoom, Level, Room};
use crate::api::Backing;
use std::path::PathBuf;
use thermocline_admin::api::Severity;
use thermocline_units::PoolId;

const GIB: u64 = 1 << 30;

fn file(pool: u16, file_system: u64, grows: u64, free: u64) -> FileRoom {
    let path = PathBuf::from(format!("/pools/{pool}.pool"));
    FileRoom { pool: PoolId(pool), path, file_system, grows, free, total: 100 * GIB }
}

#[test]
fn files_that_may_grow_beyond_their_file_system_are_told_with_numbers_and_once() {
    let mut room = Room::default();
    assert_eq!(room.note(vec![file(0, 1, 20 * GIB, 40 * GIB)]), []);
    let both = |free| vec![file(0, 1, 20 * GIB, free), file(1, 1, 30 * GIB, free)];
    let news = room.note(both(40 * GIB));
    assert_eq!(news.len(), 1, "each fits alone, and both together do not");
    assert_eq!(news[0].0, Severity::Warning);
    for part in ["/pools/0.pool, /pools/1.pool", "grow by 50 GiB", "has 40 GiB left of 100 GiB"] {
        assert!(news[0].1.contains(part), "{part}: {}", news[0].1);
    }
    assert_eq!(room.note(both(39 * GIB)), [], "that was told");
    let told: Vec<Severity> = [9, 8, 0, 60]
        .into_iter()
        .flat_map(|free| room.note(both(free * GIB)))
        .map(|n| n.0)
        .collect();
    assert_eq!(told, [Severity::Warning, Severity::Error, Severity::Info]);
    let backing = Backing { may_grow_bytes: 30 * GIB, free_bytes: 60 * GIB };
    assert_eq!(room.of_pool(PoolId(1)), Some(backing));
    assert_eq!(room.of_pool(PoolId(2)), None);
}

#[test]
fn file_systems_are_told_apart() {
    let mut room = Room::default();
    let news = room.note(vec![file(0, 1, 20 * GIB, 40 * GIB), file(1, 2, 50 * GIB, 40 * GIB)]);
    assert_eq!(news.len(), 1);
    assert!(news[0].1.starts_with("/pools/1.pool may grow"), "{}", news[0].1);
}

#[test]
fn volumes_larger_than_their_pools_are_told_and_then_pools_that_fill() {
    let mut room = Room::default();
    assert_eq!(room.note_volumes(100 * GIB, 100 * GIB, 99 * GIB), None, "every chunk has a place");
    let mut told = |used| room.note_volumes(150 * GIB, 100 * GIB, used);
    let (severity, text) = told(50 * GIB).expect("it is new");
    assert_eq!(severity, Severity::Warning);
    assert!(
        text.contains("volumes of 150 GiB are larger than their pools, 100 GiB; 50 GiB"),
        "{text}"
    );
    assert_eq!(told(60 * GIB), None);
    assert!(told(91 * GIB).is_some_and(|(s, t)| s == Severity::Warning && t.contains("fill up")));
    assert!(told(99 * GIB + GIB / 2).is_some_and(|(s, _)| s == Severity::Error));
    assert!(told(0).is_some_and(|(s, _)| s == Severity::Warning));
    assert!(room.note_volumes(150 * GIB, 200 * GIB, 0).is_some_and(|(s, _)| s == Severity::Info));
}

#[test]
fn levels_rise_as_room_goes() {
    let at = |free| Level::of(1000, free, 2000);
    assert_eq!(
        [at(1000), at(999), at(199), at(19)],
        [Level::Enough, Level::Overcommitted, Level::Filling, Level::Full]
    );
}
