//! SLAs by themselves: which answers are late, and when counts begin anew.

use super::Slas;
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_units::{Nanos, VolumeId};

const VOLUME: VolumeId = VolumeId(3);

fn sla(latency: u64, class: SlaClass) -> Sla {
    Sla { latency: Nanos(latency), class }
}

fn with_sla(latency: u64) -> Slas {
    let mut slas = Slas::default();
    slas.set(VOLUME, Some(sla(latency, SlaClass::Loose)));
    slas
}

/// Answers, late ones, and by how much.
fn counts(slas: &Slas) -> Option<(u64, u64, u64)> {
    slas.of(VOLUME).map(|record| (record.answered, record.violations, record.excess.0))
}

#[test]
fn an_answer_is_late_beyond_its_latency_and_not_before() {
    let mut slas = with_sla(100);
    [99, 100, 101, 150].iter().for_each(|&took| slas.judge(VOLUME, Nanos(took)));
    assert_eq!(counts(&slas), Some((4, 2, 51)));
    let answered: Vec<_> =
        slas.answered().map(|all| (all.volume, all.answered, all.late)).collect();
    assert_eq!(answered, [(VOLUME, 4, 2)]);
}

#[test]
fn a_volume_without_an_sla_is_not_judged() {
    let mut slas = with_sla(100);
    slas.judge(VolumeId(1), Nanos(u64::MAX));
    assert!(slas.of(VolumeId(1)).is_none() && counts(&slas) == Some((0, 0, 0)));
}

#[test]
fn counts_go_on_under_the_same_sla_and_begin_anew_under_another() {
    let mut slas = with_sla(100);
    slas.judge(VOLUME, Nanos(1));
    slas.set(VOLUME, Some(sla(100, SlaClass::Loose)));
    assert_eq!(counts(&slas), Some((1, 0, 0)));
    slas.set(VOLUME, Some(sla(100, SlaClass::Strict)));
    assert_eq!(counts(&slas), Some((0, 0, 0)));
    assert!(slas.is_strict(VOLUME) && !slas.is_strict(VolumeId(1)));
    slas.set(VOLUME, None);
    assert!(counts(&slas).is_none() && !slas.are_set() && !slas.is_strict(VOLUME));
}

#[test]
fn lateness_beyond_all_bounds_is_counted_up_to_them() {
    let mut slas = with_sla(1);
    (0..3).for_each(|_| slas.judge(VOLUME, Nanos(u64::MAX)));
    assert_eq!(counts(&slas), Some((3, 3, u64::MAX)));
}
