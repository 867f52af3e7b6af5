//! GReM's border and reservations, worked by hand.

use super::split::{Feedback, Places, Split};
use super::*;
use crate::placement::tests::machine::{Machine, chunk};
use crate::placement::tests::{build, propose, touch};
use crate::registry::PolicySpec;
use proptest::prelude::*;

fn split(spec: &str) -> Split {
    Split::read(&PolicySpec::parse(spec).expect("a known policy").settings).expect("right settings")
}

fn feedback(working_set: u64, long_hits: u64, short_hits: u64) -> Feedback {
    Feedback { working_set, long_hits, short_hits }
}

#[test]
fn the_border_follows_the_hits_at_the_margins_and_stays_when_they_are_alike() {
    let mut split = split("grem:step=0.1");
    assert_eq!(split.update(100, feedback(50, 0, 0)), Places { long: 50, short: 50, step: 10 });
    assert_eq!(split.update(100, feedback(50, 20, 10)).long, 60);
    assert_eq!(split.update(100, feedback(50, 21, 20)).long, 60, "5 % more is no reason");
    assert_eq!(split.update(100, feedback(50, 10, 20)).long, 50);
}

#[test]
fn a_burst_grows_the_short_term_zone_whatever_the_hits_say() {
    let mut split = split("grem:step=0.1:burst=1.5");
    split.update(100, feedback(100, 0, 0));
    assert_eq!(split.update(100, feedback(150, 99, 0)).long, 60, "150 is not above 1.5 × 100");
    // The mean is now 100 + 50/8 = 106.25, and a burst more than 159.375.
    assert_eq!(split.update(100, feedback(159, 99, 0)).long, 70);
    assert_eq!(split.update(100, feedback(1000, 99, 0)).long, 60);
}

#[test]
fn an_idle_start_is_not_taken_for_the_mean() {
    let mut split = split("grem:step=0.1");
    split.update(100, feedback(0, 0, 0));
    assert_eq!(split.update(100, feedback(10, 0, 0)).long, 50);
}

proptest! {
    #[test]
    fn the_zones_always_fill_flash_between_the_bounds(
        capacity in 0u64..1000,
        epochs in prop::collection::vec((0u64..500, 0u64..50, 0u64..50), 0..80),
    ) {
        let mut split = split("grem:long-min=0.2:long-max=0.7");
        for (working_set, long, short) in epochs {
            let places = split.update(capacity, feedback(working_set, long, short));
            prop_assert_eq!((places.long + places.short) as u64, capacity);
            let part = places.long as f64;
            prop_assert!(part >= 0.2 * capacity as f64 - 0.51);
            prop_assert!(part <= 0.7 * capacity as f64 + 0.51);
        }
    }
}

/// VM 0 hammers 100 chunks for `epochs`; VM 1 touched two chunks in the first epoch only.
fn quiet_chunks_on_flash(spec: &str, epochs: u32) -> usize {
    let (mut placement, mut machine) = (build(spec), Machine::new(40, 2));
    for epoch in 0..epochs {
        (0..100).for_each(|i| touch(placement.as_mut(), chunk(0, i), 10));
        if epoch == 0 {
            (0..2).for_each(|i| touch(placement.as_mut(), chunk(1, i), 1));
        }
        let moves = propose(placement.as_mut(), &machine);
        machine.carry_out(&moves, usize::MAX);
    }
    machine.flash.iter().filter(|c| c.volume.0 == 1).count()
}

#[test]
fn a_quiet_vm_keeps_its_floor_which_g2_does_not_give_it() {
    // 20 long-term places; the floor is a quarter of an equal half: 2.5 places.
    assert_eq!(quiet_chunks_on_flash("grem:step=0", 20), 2);
    assert_eq!(quiet_chunks_on_flash("grem:step=0:floor=0", 20), 0);
    assert_eq!(quiet_chunks_on_flash("g2-vfrm", 20), 0);
}

#[test]
fn reservations_move_by_the_gain_and_always_sum_to_one() {
    let spec = PolicySpec::parse("grem:floor=0.2:gain=0.5").expect("a known policy");
    let mut grem = Grem::new(&spec.settings).expect("right settings");
    grem.adjust_reservations(&[30, 10]);
    // Targets .1 + .8 × .75 = .7 and .1 + .8 × .25 = .3; half way from .5.
    assert!((grem.reservations[0] - 0.6).abs() < 1e-12, "{:?}", grem.reservations);
    for owned in [[0, 0], [5, 0], [1, 99]] {
        grem.adjust_reservations(&owned);
        assert!((grem.reservations.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(grem.reservations.iter().all(|r| *r >= 0.1 - 1e-12), "{:?}", grem.reservations);
    }
}
