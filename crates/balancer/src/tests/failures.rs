//! Answers that clients get when backends die, hang, flap, err, break off and lie.

use super::world::{Manner, World};
use crate::*;
use thermocline_units::Nanos;

const SEEDS: std::ops::Range<u64> = 1..6;

fn checked() -> Settings {
    Settings { checks: Some(Checks::default()), ..Settings::default() }
}

/// Runs a minute at a third of the load that all could bear, under several seeds and policies.
fn run(settings: &Settings, manners: &[Manner], judge: impl Fn(&World)) {
    for policy in ["water-fill", "least", "p2c", "rand", "jiq", "qlen"] {
        for seed in SEEDS {
            let mut world = World::new(policy, settings.clone(), manners, seed);
            world.run(60, 0.33);
            assert!(world.is_settled(), "{policy}, seed {seed}: a request is stuck");
            assert!(world.asked > 5_000);
            judge(&world);
        }
    }
}

/// Seven good ones, and one of this manner.
fn one_of(bad: Manner) -> Vec<Manner> {
    let mut manners = vec![Manner::Good; 8];
    manners[3] = bad;
    manners
}

#[test]
fn good_backends_serve_everything_and_none_starves() {
    run(&Settings::default(), &one_of(Manner::Good), |world| {
        assert_eq!(world.failed, 0);
        let (least, most) = (world.sent_to.iter().min(), world.sent_to.iter().max());
        assert!(least.unwrap() * 3 > *most.unwrap(), "{:?}", world.sent_to);
    });
}

#[test]
fn clients_that_break_off_or_spoil_requests_eject_nobody() {
    for policy in ["water-fill", "least", "p2c"] {
        let manners = vec![Manner::Good; 8];
        let mut world = World::new(policy, Settings::default(), &manners, 5);
        world.spoiled = 0.9;
        world.run(30, 0.33);
        assert!(world.is_settled() && world.served > 500 && world.failed > 5_000);
        let status = world.dispatcher.status(Nanos::from_secs(40));
        for backend in status.backends {
            assert_eq!((backend.state, backend.counters.ejections), (State::Up, 0), "{policy}");
        }
    }
}

#[test]
fn configurations_that_change_under_load_lose_no_request() {
    let mut reloads = 0;
    for (policy, seed) in ["water-fill", "least", "jiq", "ara"].into_iter().zip(0..) {
        for seed in (0..25).map(|round| seed * 100 + round) {
            let mut manners = vec![Manner::Good; 6];
            manners[5] = Manner::Flaps;
            let mut world = World::new(policy, checked(), &manners, seed).reloading(0.5);
            world.run(20, 0.33);
            assert!(world.is_settled(), "{policy}, seed {seed}: a request is stuck");
            reloads += world.reloads;
        }
    }
    assert!(reloads > 1_000, "only {reloads} configurations were read");
}

#[test]
fn a_dead_backend_costs_no_answer() {
    for settings in [Settings::default(), checked()] {
        run(&settings, &one_of(Manner::Dead), |world| {
            assert!(world.failed_share() < 0.0005, "{}", world.failed_share());
            assert!(world.sent_to[3] < world.asked / 100, "{:?}", world.sent_to);
        });
    }
}

#[test]
fn a_hanging_backend_fails_few_requests_and_holds_none_for_ever() {
    run(&Settings::default(), &one_of(Manner::Hangs), |world| {
        assert!(world.failed_share() < 0.02, "{}", world.failed_share());
    });
    run(&checked(), &one_of(Manner::Hangs), |world| {
        assert!(world.failed_share() < 0.005, "{}", world.failed_share());
    });
}

#[test]
fn a_flapping_backend_costs_next_to_nothing() {
    run(&checked(), &one_of(Manner::Flaps), |world| {
        assert!(world.failed_share() < 0.001, "{}", world.failed_share());
    });
}

#[test]
fn a_backend_that_errs_at_once_does_not_draw_all_requests() {
    run(&Settings::default(), &one_of(Manner::Errs), |world| {
        assert!(world.failed_share() < 0.01, "{}", world.failed_share());
    });
}

#[test]
fn a_backend_that_breaks_answers_off_costs_few_answers() {
    run(&Settings::default(), &one_of(Manner::Breaks), |world| {
        assert!(world.failed_share() < 0.002, "{}", world.failed_share());
    });
}

#[test]
fn a_liar_draws_no_more_than_the_honest() {
    run(&Settings::default(), &one_of(Manner::Lies), |world| {
        let honest = world.sent_to.iter().sum::<u64>() - world.sent_to[3];
        assert!(world.sent_to[3] < honest / 7 * 2, "{:?}", world.sent_to);
        assert!(world.failed_share() < 0.02, "{}", world.failed_share());
    });
}

#[test]
fn half_of_the_backends_dead_leaves_the_others_serving() {
    let mut manners = vec![Manner::Good; 8];
    manners[..4].fill(Manner::Dead);
    run(&checked(), &manners, |world| {
        assert!(world.failed_share() < 0.01, "{}", world.failed_share());
    });
}

#[test]
fn equal_seeds_give_equal_runs() {
    let run = || {
        let mut world = World::new("water-fill", checked(), &one_of(Manner::Flaps), 3);
        world.run(20, 0.5);
        (world.sent_to.clone(), world.failed)
    };
    assert_eq!(run(), run());
}
