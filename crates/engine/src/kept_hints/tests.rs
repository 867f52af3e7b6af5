//! Hints are given again after a restart, and no others.

use super::{Clocks, KeptHints, RANGES_MAX};
use thermocline_policy::hints::rules::Classes;
use thermocline_policy::hints::store::{Held, Hint, Hints};
use thermocline_policy::hints::{Facts, Level, Wishes};
use thermocline_units::{Nanos, VolumeId};

const CLOCKS: Clocks = Clocks { now: Nanos::from_secs(100), wall_ms: 1_000_000 };

fn hint<'a>(facts: &'a Facts, range: (u64, u64), wishes: Wishes, until: Option<Nanos>) -> Hint<'a> {
    let (source, level, volume) = ("by hand", Level::Range, Some(VolumeId(0)));
    Hint { source, level, volume, range, facts, wishes, until }
}

fn hints() -> Hints {
    let mut hints = Hints::new(Classes::default());
    let facts = Facts { metadata: true, ..Facts::default() };
    let pin = Wishes { pin: true, ..Wishes::default() };
    let until = Some(Nanos::from_secs(160));
    hints.take(CLOCKS.now, &hint(&facts, (0, 4096), pin, None)).unwrap();
    hints.take(CLOCKS.now, &hint(&facts, (8192, 12288), Wishes::default(), until)).unwrap();
    let waits = Wishes { background_ms: Some(50), ..Wishes::default() };
    let all =
        Hint { level: Level::System, volume: None, ..hint(&facts, (0, u64::MAX), waits, None) };
    hints.take(CLOCKS.now, &all).unwrap();
    hints
}

fn name(volume: VolumeId) -> Option<String> {
    (volume.0 == 0).then(|| "db".to_string())
}

fn given_back(text: &[u8], clocks: Clocks, volume: Option<VolumeId>) -> (Hints, (u64, u64)) {
    let kept = KeptHints::read(text, 7).unwrap();
    let mut again = Hints::new(Classes::default());
    let mut scores = Vec::new();
    let counts = kept.give_back(
        clocks,
        |name| volume.filter(|_| name == "db"),
        |held| again.put_back(clocks.now, held).is_ok(),
        |source, class, score| scores.push((source.to_string(), class.to_string(), score)),
    );
    (again, counts)
}

fn all(hints: &Hints) -> Vec<Held<'_>> {
    hints.held(CLOCKS.now).collect()
}

#[test]
fn ranges_come_back_with_class_wishes_and_what_is_left_of_their_time() {
    let hints = hints();
    let kept = KeptHints::of(&hints, 7, CLOCKS, name).unwrap();
    let text = serde_json::to_vec(&kept).unwrap();
    let (again, counts) = given_back(&text, CLOCKS, Some(VolumeId(0)));
    assert_eq!(counts, (3, 0));
    assert_eq!(all(&again), all(&hints));
    // A minute later the one that had an end is gone. A volume that is gone takes its own along.
    let later = Clocks { now: Nanos(0), wall_ms: CLOCKS.wall_ms + 60_000 };
    assert_eq!(given_back(&text, later, Some(VolumeId(0))).1, (2, 0));
    assert_eq!(given_back(&text, CLOCKS, None).1, (1, 2));
}

#[test]
fn other_groups_versions_and_nonsense_bring_nothing() {
    let kept = KeptHints::of(&hints(), 7, CLOCKS, name).unwrap();
    let text = serde_json::to_string(&kept).unwrap();
    assert!(KeptHints::read(text.as_bytes(), 8).unwrap_err().contains("of group 7, not of this"));
    let newer = text.replacen("\"version\":2", "\"version\":3", 1);
    assert!(KeptHints::read(newer.as_bytes(), 7).unwrap_err().contains("version 3"));
    assert!(KeptHints::read(&text.as_bytes()[..text.len() / 2], 7).is_err());
    assert!(KeptHints::read(text.replace("pin", "pan").as_bytes(), 7).is_err());
}

/// Version 1 scored hints by accesses beside the mean, which called hints of quiet data wrong.
#[test]
fn ranges_of_the_version_before_come_back_without_its_scores() {
    let mut hints = hints();
    hints.put_back_score("by hand", "metadata", 0.1);
    let text = serde_json::to_string(&KeptHints::of(&hints, 7, CLOCKS, name).unwrap()).unwrap();
    let scores = |text: &str| {
        let (again, counts) = (KeptHints::read(text.as_bytes(), 7).unwrap(), &mut Vec::new());
        let taken = again.give_back(
            CLOCKS,
            |_| Some(VolumeId(0)),
            |_| true,
            |_, class, score| counts.push((class.to_string(), score)),
        );
        (taken, counts.clone())
    };
    assert_eq!(scores(&text), ((3, 0), vec![("metadata".to_string(), 0.1)]));
    let before = text.replacen("\"version\":2", "\"version\":1", 1);
    assert_eq!(scores(&before), ((3, 0), Vec::new()));
}

#[test]
fn too_many_ranges_are_not_kept() {
    let mut hints = Hints::new(Classes::default());
    let facts = Facts { metadata: true, ..Facts::default() };
    for at in 0..=RANGES_MAX as u64 {
        let range = (at * 8192, at * 8192 + 4096);
        hints.take(CLOCKS.now, &hint(&facts, range, Wishes::default(), None)).unwrap();
    }
    assert_eq!(KeptHints::of(&hints, 7, CLOCKS, name), None);
}

/// They became unclassified, counted as known again, and the next write went over their classes.
#[test]
fn ranges_of_a_class_that_the_table_does_not_have_are_left_out() {
    let text = serde_json::to_string(&KeptHints::of(&hints(), 7, CLOCKS, name).unwrap()).unwrap();
    let other = text.replacen("\"class\":\"metadata\"", "\"class\":\"ledgers\"", 1);
    let (again, counts) = given_back(other.as_bytes(), CLOCKS, Some(VolumeId(0)));
    assert_eq!(counts, (2, 1));
    assert!(all(&again).iter().all(|held| held.class == "metadata"));
}
