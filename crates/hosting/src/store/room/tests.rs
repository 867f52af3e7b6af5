//! Levels, and when they are told.

use super::*;

fn volume(mapped: u64, logical: Option<u64>) -> StoreVolume {
    StoreVolume {
        name: "vm".to_string(),
        size_bytes: 1 << 30,
        read_only: false,
        origin: None,
        domain: 0,
        mapped_bytes: mapped,
        charged_bytes: 0,
        logical_quota_bytes: logical,
        physical_quota_bytes: None,
        room: RoomLevel::Ok,
        refused_blocks: 0,
        host: None,
    }
}

#[test]
fn levels_begin_at_four_fifths_and_at_nineteen_twentieths() {
    let levels = [0, 79, 80, 94, 95, 99, 100, 101].map(|used| level(used, 100));
    let expected = [
        RoomLevel::Ok,
        RoomLevel::Ok,
        RoomLevel::Warning,
        RoomLevel::Warning,
        RoomLevel::Critical,
        RoomLevel::Critical,
        RoomLevel::Full,
        RoomLevel::Full,
    ];
    assert_eq!(levels, expected);
    assert_eq!(level(u64::MAX - 1, u64::MAX), RoomLevel::Critical, "nothing overflows");
    assert_eq!(level_of(&volume(500, None)), RoomLevel::Ok);
}

#[test]
fn what_goes_to_and_fro_is_told_once() {
    let mut watch = Watch::default();
    let mut told = |mapped| {
        let told = watch.look((0, 100), &[(7, volume(mapped, Some(1000)))]);
        told.into_iter().map(|(severity, ..)| severity).collect::<Vec<_>>()
    };
    assert_eq!(told(799), []);
    assert_eq!(told(800), [Severity::Warning]);
    for mapped in [799, 800, 785, 810] {
        assert_eq!(told(mapped), [], "{mapped}");
    }
    assert_eq!(told(1000), [Severity::Error]);
    assert_eq!(told(990), []);
    assert_eq!(told(700), [Severity::Info]);
    assert_eq!(told(960), [Severity::Error]);
    assert!(watch.look((80, 100), &[]).iter().any(|told| told.1 == "store"));
    assert!(watch.levels.keys().all(|(of, _)| *of == 0), "a deleted volume is forgotten");
}

#[test]
fn refusals_are_counted_and_told_now_and_then() {
    let mut watch = Watch::default();
    let at = Nanos::from_secs;
    assert!(watch.refused(at(1), 7, 3, Shortage::Logical).is_some());
    assert_eq!(watch.refused(at(5), 7, 2, Shortage::Logical), None);
    assert!(watch.refused(at(6), 7, 1, Shortage::Store).is_some(), "it is another reason");
    assert_eq!(watch.refused(at(7), 7, 1, Shortage::Logical), None, "both are known by now");
    assert_eq!(watch.refused(at(8), 7, 1, Shortage::Store), None);
    assert!(watch.refused(at(17), 7, 1, Shortage::Store).is_some());
    assert_eq!((watch.refused_blocks(7), watch.refused_blocks(8)), (9, 0));
}
