//! Two ends that talk: what each test of this crate begins with, and the simplest of them.

mod pieces;
mod rules;
mod simulation;
mod streams;
mod turns;

use crate::{Config, Event, Role, Session, StreamId};
use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_units::Nanos;

/// A time at which nothing is due.
const NOW: Nanos = Nanos::from_secs(1);

/// Two ends with these settings; neither has heard of the other.
fn ends(change: impl Fn(&mut Config)) -> (Session, Session) {
    let end = |role, epoch| {
        let mut config = Config::new(role, [epoch; 16]);
        change(&mut config);
        Session::new(config, NOW).unwrap()
    };
    (end(Role::Connector, 1), end(Role::Acceptor, 2))
}

/// All that `end` has to send.
fn output(end: &mut Session) -> Vec<u8> {
    let mut out = VecDeque::new();
    while end.transmit(NOW, &mut out, 64 << 10) > 0 {}
    out.into_iter().flatten().collect()
}

/// Carries everything to and fro until nobody has anything to say.
fn exchange(a: &mut Session, b: &mut Session) {
    loop {
        let (to_b, to_a) = (output(a), output(b));
        if to_a.is_empty() && to_b.is_empty() {
            return;
        }
        b.receive(NOW, &to_b).unwrap();
        a.receive(NOW, &to_a).unwrap();
    }
}

/// All events that wait.
fn events(end: &mut Session) -> Vec<Event> {
    std::iter::from_fn(|| end.next_event()).collect()
}

/// Two ends that have greeted each other, without events.
fn greeted(change: impl Fn(&mut Config)) -> (Session, Session) {
    let (mut a, mut b) = ends(change);
    exchange(&mut a, &mut b);
    assert!(matches!(&events(&mut a)[..], [Event::Hello { version: 1, .. }]));
    assert!(matches!(&events(&mut b)[..], [Event::Hello { version: 1, .. }]));
    (a, b)
}

/// Sends all of `text`, which must fit.
fn say(end: &mut Session, stream: StreamId, text: &[u8]) {
    let mut bytes = Bytes::copy_from_slice(text);
    end.send(stream, &mut bytes).unwrap();
    assert!(bytes.is_empty());
}

#[test]
fn a_stream_carries_bytes_both_ways_and_is_forgotten() {
    let (mut a, mut b) = greeted(|_| {});
    let stream = a.open(b"where to").unwrap();
    say(&mut a, stream, b"question");
    a.end(stream);
    exchange(&mut a, &mut b);
    let header = Bytes::from_static(b"where to");
    let bytes = Bytes::from_static(b"question");
    let opened = Event::Opened { stream, header };
    assert_eq!(events(&mut b), [opened, Event::Data { stream, bytes }, Event::Ended { stream }]);
    b.consumed(stream, 8);
    say(&mut b, stream, b"answer");
    b.end(stream);
    exchange(&mut a, &mut b);
    let bytes = Bytes::from_static(b"answer");
    assert_eq!(events(&mut a), [Event::Data { stream, bytes }, Event::Ended { stream }]);
    assert_eq!((a.streams(), b.streams()), (1, 1), "the answer is not consumed");
    a.consumed(stream, 6);
    exchange(&mut a, &mut b);
    assert_eq!((a.streams(), b.streams()), (0, 0));
}
