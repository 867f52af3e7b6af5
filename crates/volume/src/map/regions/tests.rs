//! Regions alone: what is opened together, who is woken, when they are looked at.

use super::{LOOK, Region, Regions};
use thermocline_units::{ChunkId, Nanos, VolumeId};

const MANY: usize = 100;

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(3), index }
}

fn region(index: u32) -> Region {
    Regions::of(chunk(index), 1 << 20, 64)
}

#[test]
fn a_region_has_64_chunks_or_256_mib_or_a_chunk() {
    let chunks = |size: u32| Regions::of(chunk(0), size, 64).chunks(1000).count();
    assert_eq!([1 << 20, 4 << 20, 16 << 20, 1 << 30].map(chunks), [64, 64, 16, 1]);
    assert_eq!(
        region(70).chunks(100).map(|chunk| chunk.index).collect::<Vec<_>>(),
        Vec::from_iter(64..100)
    );
    assert_eq!(region(70).chunks(10).count(), 0, "the volume has shrunk");
    assert_eq!(region(u32::MAX).chunks(u32::MAX).count(), 63);
}

#[test]
fn who_waits_is_told_once_and_a_region_is_opened_once() {
    let mut regions = Regions::default();
    assert!(!regions.awaits(region(5), chunk(5)), "nobody opens it");
    assert!(regions.begin(region(5), Nanos(0), MANY) && !regions.begin(region(6), Nanos(0), MANY));
    assert!(regions.awaits(region(5), chunk(5)) && regions.awaits(region(5), chunk(5)));
    assert!(!regions.may_close(region(5)));
    assert_eq!(regions.opened(region(5)), [chunk(5)]);
    assert!(!regions.awaits(region(5), chunk(6)) && regions.may_close(region(5)));
    assert!(!regions.begin(region(64), Nanos(0), 1), "one may be open");
}

#[test]
fn as_many_are_opened_ahead_as_are_open_before() {
    let mut regions = Regions::default();
    let ahead = |regions: &Regions, at: u32| {
        regions.ahead_of(region(at)).map(|region| region.first / 64).collect::<Vec<_>>()
    };
    assert_eq!(ahead(&regions, 0), []);
    for first in [0, 1, 2, 4] {
        assert!(regions.begin(region(first * 64), Nanos(0), MANY));
    }
    assert_eq!(ahead(&regions, 3 * 64), [4, 5, 6]);
    assert_eq!(ahead(&regions, 5 * 64), [6]);
    (0..MANY as u32).for_each(|first| {
        regions.begin(region(first * 64), Nanos(0), MANY);
    });
    assert_eq!(ahead(&regions, 90 * 64).len(), 16);
    assert_eq!(ahead(&regions, u32::MAX), [], "no index lies behind it");
}

#[test]
fn regions_are_looked_at_in_turn() {
    let mut regions = Regions::default();
    for (second, first) in [(0, 0), (3, 64)] {
        regions.begin(region(first), Nanos::from_secs(second), MANY);
        regions.opened(region(first));
    }
    assert_eq!(regions.due(Nanos(LOOK.0 - 1)), None);
    assert_eq!(regions.due(LOOK), Some(region(0)));
    regions.looked_at(region(0), LOOK, false);
    assert_eq!((regions.due(LOOK), regions.first()), (None, Some(region(64))));
    regions.looked_at(region(64), Nanos::from_secs(13), true);
    assert_eq!(regions.due(Nanos::from_secs(20)), Some(region(0)));
    assert!(!regions.has(region(64)) && !regions.is_empty());
}
