//! A dispatcher that goes on from what another knows.

use super::*;

/// The dispatcher of a process that takes over from `old` at this time, on a clock of its own.
fn taken_over(old: &Dispatcher, now: Nanos, settings: Settings, names: &[&str]) -> Dispatcher {
    let mut new = least(settings, names);
    new.remember(Nanos(5), &old.memories(now));
    new
}

fn state(dispatcher: &Dispatcher, name: &str) -> State {
    dispatcher.state(dispatcher.site_of(name).unwrap())
}

#[test]
fn who_is_out_stays_out_when_another_takes_over() {
    let settings = Settings::default();
    let mut old = least(settings.clone(), &["a", "b", "c", "d"]);
    let (a, b) = (old.site_of("a").unwrap(), old.site_of("b").unwrap());
    old.drain(SECOND, a);
    for _ in 0..settings.outliers.consecutive {
        while old.place(SECOND, &[]) != Decision::At(b) {}
        old.finished(SECOND, b, Outcome::Broken);
    }
    assert_eq!((state(&old, "a"), state(&old, "b")), (State::Draining, State::Ejected));
    let now = Nanos(SECOND.0 + settings.outliers.ejection.0 / 2);
    let mut new = taken_over(&old, now, settings.clone(), &["a", "b", "c", "e"]);
    assert_eq!((state(&new, "a"), state(&new, "b")), (State::Draining, State::Ejected));
    assert_eq!((state(&new, "c"), state(&new, "e")), (State::Up, State::Up));
    let rest = settings.outliers.ejection.0 / 2;
    new.tick(Nanos(rest));
    assert_eq!(state(&new, "b"), State::Ejected, "half of its time is left");
    new.tick(Nanos(rest + 10));
    assert_eq!(state(&new, "b"), State::Up);
    // The next ejection is longer, as it would have been.
    let b = new.site_of("b").unwrap();
    for _ in 0..settings.outliers.consecutive {
        while new.place(SECOND, &[]) != Decision::At(b) {}
        new.finished(SECOND, b, Outcome::Broken);
    }
    let out_for = new.memories(SECOND).iter().find(|memory| memory.name == "b").unwrap().out_for;
    assert_eq!(out_for, Some(Nanos(2 * settings.outliers.ejection.0)));
}

#[test]
fn checked_backends_are_not_new_to_whoever_takes_over() {
    let settings = Settings { checks: Some(Checks::default()), ..Settings::default() };
    let mut old = least(settings.clone(), &["a", "b"]);
    let (a, b) = (old.site_of("a").unwrap(), old.site_of("b").unwrap());
    old.checked(SECOND, a, true);
    old.checked(SECOND, b, false);
    let new = taken_over(&old, SECOND, settings.clone(), &["a", "b", "c"]);
    assert_eq!((state(&new, "a"), state(&new, "b")), (State::Up, State::Down));
    assert_eq!(state(&new, "c"), State::New, "nobody knows it");
    assert!(!new.status(SECOND).panic);
}

#[test]
fn a_slow_start_goes_on_where_it_was() {
    let settings = Settings { slow_start: Nanos::from_secs(10), ..Settings::default() };
    let mut old = least(settings.clone(), &["a"]);
    old.tick(Nanos::from_secs(20));
    old.configure(Nanos::from_secs(20), ["a", "b"].map(backend).to_vec());
    assert_eq!(state(&old, "b"), State::SlowStart);
    let mut new = taken_over(&old, Nanos::from_secs(26), settings, &["a", "b"]);
    assert_eq!((state(&new, "a"), state(&new, "b")), (State::Up, State::SlowStart));
    new.tick(Nanos::from_secs(3));
    assert_eq!(state(&new, "b"), State::SlowStart);
    new.tick(Nanos::from_secs(5));
    assert_eq!(state(&new, "b"), State::Up, "six seconds of ten had passed");
}

#[test]
fn of_those_who_are_well_nothing_is_told() {
    let dispatcher = least(Settings::default(), &["a", "b"]);
    assert_eq!(dispatcher.memories(SECOND), []);
}
