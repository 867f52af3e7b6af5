//! The predictor finds the states of a process that is known.

use super::BurstPredictor;
use crate::registry::{Settings, find};
use thermocline_units::{Nanos, Rng};

fn predictor() -> BurstPredictor {
    predictor_that("yes")
}

/// One that heeds calm or does not.
fn predictor_that(heeds_calm: &str) -> BurstPredictor {
    let entry = find("ara").expect("it is registered");
    let mut settings = Settings::defaults(entry);
    settings.set(entry, "calm", heeds_calm).unwrap();
    BurstPredictor::read(&settings).unwrap()
}

/// An MMPP(2): arrivals a second, and mean seconds, in and out of bursts.
struct Process {
    rates: [f64; 2],
    stays_s: [f64; 2],
}

/// A process close to that of the source's Table 2 (experiments/ara): 51 % of the arrivals
/// in bursts of 6 s.
const TABLE_2: Process = Process { rates: [0.0491, 34.84], stays_s: [4098.0, 6.0] };

/// Times of arrivals in seconds, and whether each lies in a burst.
fn arrivals(process: &Process, count: usize, seed: u64) -> Vec<(f64, bool)> {
    let mut rng = Rng::seeded(seed);
    let (mut now, mut state) = (0.0, 0);
    let mut change = rng.exponential(process.stays_s[state]);
    let mut arrivals = Vec::with_capacity(count);
    while arrivals.len() < count {
        let next = now + rng.exponential(1.0 / process.rates[state]);
        if next < change {
            now = next;
            arrivals.push((now, state == 1));
        } else {
            now = change;
            state = 1 - state;
            change = now + rng.exponential(process.stays_s[state]);
        }
    }
    arrivals
}

/// Share of arrivals at which the predictor knows the state, in calm and in bursts.
fn accuracy(process: &Process, count: usize, seed: u64) -> [f64; 2] {
    accuracy_of(predictor(), process, count, seed)
}

fn accuracy_of(
    mut predictor: BurstPredictor,
    process: &Process,
    count: usize,
    seed: u64,
) -> [f64; 2] {
    let (mut right, mut all) = ([0.0; 2], [0.0; 2]);
    for (time, burst) in arrivals(process, count, seed) {
        predictor.arrived(Nanos((time * 1e9) as u64));
        all[usize::from(burst)] += 1.0;
        right[usize::from(burst)] += f64::from(u8::from(predictor.bursting() == burst));
    }
    [right[0] / all[0], right[1] / f64::max(all[1], 1.0)]
}

#[test]
fn the_states_of_the_sources_loads_are_found() {
    let [calm, burst] = accuracy(&TABLE_2, 200_000, 1);
    assert!(calm > 0.99 && burst > 0.95, "{calm} {burst}");
    let strong = Process { rates: [0.01, 231.7], stays_s: [1930.0, 0.75] };
    let [calm, burst] = accuracy(&strong, 200_000, 1);
    assert!(calm > 0.97 && burst > 0.94, "{calm} {burst}");
}

#[test]
fn a_poisson_process_is_calm() {
    let poisson = Process { rates: [0.1, 0.1], stays_s: [1e12, 1.0] };
    let [calm, _] = accuracy(&poisson, 200_000, 1);
    assert!(calm > 0.99, "{calm}");
}

#[test]
fn without_the_look_at_calm_a_missed_end_is_missed_for_good() {
    let poisson = Process { rates: [0.1, 0.1], stays_s: [1e12, 1.0] };
    let [calm, _] = accuracy_of(predictor_that("no"), &poisson, 200_000, 1);
    assert!((0.3..0.7).contains(&calm), "a burst half of the time: {calm}");
}

#[test]
fn ten_times_the_rate_is_noticed_as_well() {
    let process = Process { rates: [1.0, 10.0], stays_s: [100.0, 10.0] };
    let [calm, burst] = accuracy(&process, 200_000, 1);
    assert!(calm > 0.9 && burst > 0.9, "{calm} {burst}");
}

#[test]
fn a_beginning_is_noticed_after_a_dozen_arrivals_and_an_end_after_two() {
    let mut predictor = predictor();
    let mut now = 0.0;
    let mut arrivals_until = |gap: f64, bursting: bool| {
        let mut count = 0;
        while predictor.bursting() != bursting {
            now += gap;
            predictor.arrived(Nanos((now * 1e9) as u64));
            count += 1;
            assert!(count < 100, "never noticed");
        }
        (0..50).for_each(|_| {
            now += gap;
            predictor.arrived(Nanos((now * 1e9) as u64));
        });
        count
    };
    assert_eq!(arrivals_until(10.0, false), 0);
    let (begin, end) = (arrivals_until(0.03, true), arrivals_until(10.0, false));
    assert!(begin <= 12 && end <= 2, "{begin} {end}");
}
