//! Classes of Table 3.2, and rules of the case study, against counts worked by hand.

use super::{Analyzer, ChunkWindow, Mix, Order, Writing};
use crate::placement::ChunkAccess;
use crate::placement::chew::library::{Library, Thresholds};
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};

fn analyzer() -> Analyzer {
    let library = Library::three_pools(Thresholds::default());
    Analyzer::new(library, Bytes::from_mib(1)).unwrap()
}

/// Accesses of 4 KiB: (chunk, offset in KiB, whether it writes).
fn windows(analyzer: &mut Analyzer, accesses: &[(u32, u64, bool)]) -> Vec<ChunkWindow> {
    for &(index, kib, write) in accesses {
        let chunk = ChunkId { volume: VolumeId(0), index };
        let (offset, bytes) = (Bytes(kib << 10), Bytes::from_kib(4));
        analyzer.observe(&ChunkAccess { at: Nanos(0), chunk, offset, bytes, write });
    }
    let mut windows = Vec::new();
    analyzer.end_window(Nanos::from_secs(1), &mut |window| windows.push(*window));
    windows
}

#[test]
fn chunks_have_the_classes_that_their_accesses_make() {
    // Chunk 9 is far from all others, so that an access after one to it is no continuation.
    let far = (9, 0, false);
    let found = windows(
        &mut analyzer(),
        &[
            (0, 500, false),
            (0, 504, false), // sequential reads
            far,
            (2, 900, false),
            far,
            (2, 100, false), // random reads
            far,
            (4, 800, true),
            far,
            (4, 200, true), // random writes
            far,
            (6, 640, true),
            (6, 640, true),
            (6, 640, true), // sequential writes, of one page
            far,
        ],
    );
    let of = |index| *found.iter().find(|window| window.chunk.index == index).unwrap();
    assert_eq!(
        (of(0).order(), of(0).mix(), of(0).writing()),
        (Order::Random, Mix::RandomRead, None)
    );
    assert_eq!(
        (of(2).order(), of(2).mix(), of(2).writing()),
        (Order::Random, Mix::RandomRead, None)
    );
    assert_eq!((of(4).mix(), of(4).writing()), (Mix::RandomWrite, Some(Writing::FullyRandom)));
    assert_eq!((of(6).mix(), of(6).writing()), (Mix::Sequential, Some(Writing::Overwritten)));
    assert_eq!((of(6).reads, of(6).writes), (0, 3));
    assert_eq!((of(6).written_bytes, of(6).read_bytes), (Bytes::from_kib(12), Bytes(0)));
    assert!((of(6).overwritten - 2.0 / 3.0).abs() < 1e-6 && of(6).intensity == 24.0);
    assert!(found.iter().all(|window| window.is_active()));
}

#[test]
fn a_window_knows_nothing_of_the_one_before() {
    let mut analyzer = analyzer();
    assert_eq!(windows(&mut analyzer, &[(3, 0, true), (3, 0, true), (5, 0, false)]).len(), 2);
    let [window] = windows(&mut analyzer, &[(3, 0, true)])[..] else { panic!("one was accessed") };
    assert_eq!((window.writes, window.overwritten, window.is_active()), (1, 0.0, false));
    assert_eq!(windows(&mut analyzer, &[]), []);
}

#[test]
fn rules_are_those_that_chew_places_by() {
    // 40 writes of 8 units each: top I/Os; with their weight very intensive; and so on.
    let hot: Vec<_> = (0..40).flat_map(|cell| [(0, cell * 16, true), (9, 0, false)]).collect();
    let found = windows(&mut analyzer(), &hot);
    let library = Library::three_pools(Thresholds::default());
    let patterns = |window: &ChunkWindow| -> Vec<String> {
        let levels = library.levels.iter().enumerate();
        levels.map(|(at, level)| level.rules[window.rule(at)].pattern.clone()).collect()
    };
    assert_eq!(
        patterns(&found[0]),
        ["top I/Os", "very intensive", "intensive random write", "fully random write"]
    );
}
