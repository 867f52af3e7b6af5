//! The two rules of order, by themselves; whole traces are in `formats/tests/damage.rs`.

use super::{Steady, WINDOW_REQUESTS, Window};
use crate::{Batch, Op, Request};
use thermocline_units::{Bytes, Nanos, VolumeId};

fn at(time: u64) -> Request {
    Request {
        time: Nanos(time),
        volume: VolumeId(0),
        op: Op::Read,
        offset: Bytes(time),
        length: Bytes(1),
        response: None,
        hashes: Default::default(),
    }
}

fn through_window(times: &[u64], tolerance: Nanos) -> Result<(Vec<u64>, Vec<String>), String> {
    let mut window = Window::new(tolerance);
    let mut given = Vec::new();
    let drain = |window: &mut Window, given: &mut Vec<u64>| {
        window.turn();
        while !window.is_drained() {
            let mut batch = Batch::default();
            window.give(&mut batch);
            given.extend(batch.requests.iter().map(|request| request.time.0));
        }
    };
    for (index, time) in times.iter().enumerate() {
        let pushed = window.push(at(*time), || format!("line {}", index + 1));
        pushed.map_err(|problem| problem.to_string())?;
        if window.is_full() {
            drain(&mut window, &mut given);
        }
    }
    while !window.is_empty() {
        drain(&mut window, &mut given);
    }
    let mut repairs = Vec::new();
    window.repairs(&mut repairs);
    Ok((given, repairs))
}

#[test]
fn times_are_relative_to_the_earliest_not_to_the_first() {
    let (given, repairs) = through_window(&[50, 40, 60], Nanos(0)).unwrap();
    assert_eq!(given, [0, 10, 20]);
    let expected = "1 request was out of time order by at most 10 ns, sorted into place; \
                    the first at line 2";
    assert_eq!(repairs, [expected]);
}

#[test]
fn a_full_window_of_later_requests_may_come_before_one_but_not_two() {
    let late_by = |count: usize| {
        let mut times: Vec<u64> = (1..=count as u64).collect();
        times.push(0);
        through_window(&times, Nanos(0)).map(|(given, _)| given.len())
    };
    assert_eq!(late_by(WINDOW_REQUESTS), Ok(WINDOW_REQUESTS + 1));
    assert!(late_by(3 * WINDOW_REQUESTS).unwrap_err().contains("time runs backwards by"));
}

#[test]
fn the_steady_rule_lifts_within_its_tolerance() {
    let mut steady = Steady::new(Nanos(5));
    let mut admit = |time| {
        let mut request = at(time);
        steady.admit(&mut request, || "byte 0".to_string()).map(|()| request.time.0).ok()
    };
    assert_eq!(
        [admit(100), admit(110), admit(105), admit(111), admit(105)],
        [Some(0), Some(10), Some(10), Some(11), None]
    );
}
