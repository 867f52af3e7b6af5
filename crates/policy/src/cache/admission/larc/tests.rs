//! LARC's ghost queue and its adaptive length.

use super::{Admission, Larc};
use crate::cache::Tag;
use crate::registry::PolicySpec;
use thermocline_units::LineId;

fn larc(capacity: u32) -> Larc {
    let spec = PolicySpec::parse("larc+lru").unwrap();
    let mut larc = Larc::read(capacity, &spec.filter.unwrap().settings).unwrap();
    larc.reserve(10_000);
    larc
}

fn admit(larc: &mut Larc, line: u32) -> bool {
    larc.admit(LineId(line), Tag::default())
}

#[test]
fn the_second_miss_admits_and_forgets_the_first() {
    let mut larc = larc(100);
    assert!(!admit(&mut larc, 1));
    assert!(admit(&mut larc, 1));
    assert!(!admit(&mut larc, 1), "admitted once, it is new again");
}

#[test]
fn the_length_grows_with_misses_and_shrinks_with_hits_as_the_paper_says() {
    let mut larc = larc(100);
    assert_eq!(larc.target, 10.0);
    admit(&mut larc, 0);
    assert_eq!(larc.target, 20.0, "10 + 100 / 10");
    admit(&mut larc, 1);
    assert_eq!(larc.target, 25.0, "20 + 100 / 20");
    larc.on_hit(LineId(0), Tag::default());
    assert_eq!(larc.target, 25.0 - 100.0 / 75.0);
    (0..1000).for_each(|_| larc.on_hit(LineId(0), Tag::default()));
    assert_eq!(larc.target, 10.0);
    (2..2000).for_each(|line| assert!(!admit(&mut larc, line)));
    assert_eq!((larc.target, larc.ghosts.len()), (90.0, 90));
}

#[test]
fn a_line_missed_too_long_ago_is_forgotten() {
    let mut larc = larc(100);
    (0..200).for_each(|line| assert!(!admit(&mut larc, line)));
    assert!(!admit(&mut larc, 50), "more than 90 misses ago");
    assert!(admit(&mut larc, 150));
}

#[test]
fn the_smallest_cache_still_admits() {
    let mut larc = larc(1);
    assert!(!admit(&mut larc, 7));
    assert!(admit(&mut larc, 7));
}
