//! The printed controller: its rules one by one; and what it cannot know.

use crate::registry::PolicySpec;
use crate::tunnel::tests::world::{Nature, SEGMENT, TEXT, VIDEO, World};
use crate::tunnel::{Choice, Controller, Sample, Why};
use thermocline_units::{Bytes, Nanos};

fn controller(settings: &str) -> Box<dyn Controller> {
    PolicySpec::parse(&format!("vnre{settings}")).unwrap().build_controller().unwrap()
}

/// Tells what a period saved, and at what rate; asks at its end.
fn period(controller: &mut dyn Controller, number: u64, saved: u64, bytes_per_s: u64) -> String {
    let begin = Nanos::from_secs(600 * number);
    let choice = controller.choose(begin);
    let sample = Sample {
        choice,
        bytes: Bytes(1_000_000),
        sent: Bytes(1_000_000 - saved * 10_000),
        chunks: 100,
        processing: Nanos(1_000_000 * 1_000_000_000 / bytes_per_s),
    };
    controller.observe(begin, &sample);
    controller.choose(Nanos::from_secs(600 * (number + 1))).to_string()
}

const FAST: u64 = 1 << 30;
const SLOW: u64 = 1 << 20;

#[test]
fn warm_up_halves_until_the_expectation_is_reached() {
    let mut vnre = controller(":re=0.3");
    assert_eq!(vnre.choose(Nanos(0)).to_string(), "content 8 KiB");
    assert_eq!(period(vnre.as_mut(), 0, 10, FAST), "content 4 KiB");
    assert_eq!(period(vnre.as_mut(), 1, 20, FAST), "content 2 KiB");
    assert_eq!(period(vnre.as_mut(), 2, 30, FAST), "content 2 KiB");
    assert!(matches!(vnre.why(), Why::AsExpected { .. }), "{}", vnre.why());
}

#[test]
fn warm_up_takes_back_a_halving_that_did_not_pay() {
    let mut vnre = controller("");
    assert_eq!(period(vnre.as_mut(), 0, 20, FAST), "content 4 KiB");
    assert_eq!(period(vnre.as_mut(), 1, 20, FAST), "content 8 KiB");
}

#[test]
fn warm_up_ends_at_the_smallest_size() {
    let mut vnre = controller(":start=256:kind=fixed");
    assert_eq!(period(vnre.as_mut(), 0, 2, FAST), "fixed 128 B");
    assert_eq!(period(vnre.as_mut(), 1, 8, FAST), "fixed 128 B");
    assert_eq!(period(vnre.as_mut(), 2, 8, FAST), "fixed 128 B");
}

#[test]
fn afterwards_slow_is_larger_little_is_smaller_and_nothing_is_off() {
    let mut vnre = controller(":re=0.3");
    assert_eq!(period(vnre.as_mut(), 0, 40, FAST), "content 8 KiB");
    assert_eq!(period(vnre.as_mut(), 1, 40, SLOW), "content 16 KiB");
    assert!(vnre.why().to_string().starts_with("larger: 1 MiB/s of 64 MiB/s"), "{}", vnre.why());
    assert_eq!(period(vnre.as_mut(), 2, 20, FAST), "content 8 KiB");
    assert_eq!(vnre.why().to_string(), "smaller: saved 20.0 % of 30.0 % expected");
    assert_eq!(period(vnre.as_mut(), 3, 35, FAST), "content 8 KiB");
    assert_eq!(period(vnre.as_mut(), 4, 0, SLOW), "none");
    assert_eq!(period(vnre.as_mut(), 5, 90, FAST), "none", "nothing printed leads back");
}

#[test]
fn nothing_is_decided_within_a_period_or_of_no_data() {
    let mut vnre = controller("");
    vnre.choose(Nanos(0));
    assert_eq!(vnre.choose(Nanos::from_secs(599)).to_string(), "content 8 KiB");
    assert_eq!(vnre.choose(Nanos::from_secs(6000)).to_string(), "content 8 KiB");
    assert!(matches!(vnre.why(), Why::WarmUp { re: None }));
}

/// Samples say nothing of the link, so what it chooses for text after six hours is the same at both
/// rates, whatever is expected of it; the best choices there are 128 B and fixed 4 KiB.
#[test]
fn no_expectations_are_right_at_10_mbit_s_and_at_10_gbit_s() {
    let mut best_of_worst = (0.0, String::new());
    for throughput in ["1MiB", "64MiB", "200MiB", "400MiB", "800MiB", "2GiB"] {
        for re in ["0", "0.1", "0.3", "0.5", "0.7", "0.81"] {
            for kind in ["content", "fixed"] {
                let settings = format!(":throughput={throughput}:re={re}:kind={kind}");
                let (slow, fast) = (settled(&settings, 1.25e6), settled(&settings, 1.25e9));
                assert_eq!(slow, fast, "{settings}: equal samples, equal choices");
                let worst = ratio(slow, 1.25e6, &TEXT).min(ratio(fast, 1.25e9, &TEXT));
                if worst > best_of_worst.0 {
                    best_of_worst = (worst, format!("{settings}: {slow}"));
                }
            }
        }
    }
    assert!(best_of_worst.0 < 0.95, "{best_of_worst:?}");
}

/// Goodput of a choice over that of the best, in the long run.
fn ratio(choice: Choice, link: f64, nature: &Nature) -> f64 {
    let world = World::new(link, false, 7);
    let goodput = |choice| world.in_the_long_run(choice, nature);
    goodput(choice) / Choice::all().map(goodput).fold(0.0, f64::max)
}

/// Its choice after six hours of periods, each of 256 segments.
fn settled(settings: &str, link: f64) -> Choice {
    let mut vnre = controller(settings);
    let mut world = World::new(link, false, 7);
    world.tell(vnre.as_mut());
    for period in 0..36 {
        world.now_s = f64::from(period) * 600.0;
        world.run(vnre.as_mut(), &TEXT, 256 * SEGMENT);
    }
    world.now_s = 36.0 * 600.0;
    vnre.choose(world.now())
}

#[test]
fn a_flow_without_redundancy_is_switched_off() {
    let choice = {
        let mut vnre = controller(":re=0.001");
        let mut world = World::new(1.25e9, false, 7);
        for period in 0..3 {
            world.now_s = f64::from(period) * 600.0;
            world.run(vnre.as_mut(), &VIDEO, 256 * SEGMENT);
        }
        world.now_s = 3000.0;
        vnre.choose(world.now())
    };
    assert_eq!(choice, Choice::None);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let wrong = [
        ("period=0s", "a duration above 0"),
        ("kind=rabin", "one of content, fixed"),
        ("start=100", "a power of two"),
        ("re=2", "a number from 0 to 1"),
        ("zero=NaN", "a number from 0 to 1"),
        ("pays=-1", "a number from 0 to 1"),
        ("throughput=fast", "a size such as"),
    ];
    for (setting, says) in wrong {
        let spec = PolicySpec::parse(&format!("vnre:{setting}")).unwrap();
        let message = spec.build_controller().err().expect(setting).to_string();
        assert!(message.contains(says), "{message}");
    }
}
