//! Streams from their beginning to their end, and the connection's own end.

use super::{NOW, ends, events, exchange, greeted, output, say};
use crate::{Config, ConfigError, Event, OpenError, RESET_REFUSED, Session, WireError};
use bytes::Bytes;
use thermocline_units::Nanos;

/// Carries what one end has to say.
fn carry(from: &mut Session, to: &mut Session) {
    let bytes = output(from);
    to.receive(NOW, &bytes).unwrap();
}

#[test]
fn ends_and_resets_in_all_orders_leave_nothing_behind() {
    // Each end ends, resets, uses what came, or is heard; six of these, in all orders.
    const STEPS: u32 = 6;
    for order in 0..8_u32.pow(STEPS) {
        let (mut a, mut b) = greeted(|_| {});
        let stream = a.open(b"").unwrap();
        say(&mut a, stream, b"abc");
        carry(&mut a, &mut b);
        say(&mut b, stream, b"defg");
        carry(&mut b, &mut a);
        let mut unread = [4, 3];
        let mut reset = false;
        for step in 0..STEPS {
            let act = order >> (3 * step) & 7;
            let me = (act & 1) as usize;
            let [x, y] = if me == 0 { [&mut a, &mut b] } else { [&mut b, &mut a] };
            match act >> 1 {
                0 => x.end(stream),
                1 => {
                    x.reset(stream, 9);
                    reset = true;
                }
                2 => x.consumed(stream, std::mem::take(&mut unread[me])),
                _ => carry(x, y),
            }
        }
        let forgotten = |e: &Session| e.streams() == 0 && e.adds_up();
        a.consumed(stream, unread[0]);
        b.consumed(stream, unread[1]);
        a.end(stream);
        b.end(stream);
        exchange(&mut a, &mut b);
        assert!(forgotten(&a) && forgotten(&b), "order {order:o}");
        for e in [&mut a, &mut b] {
            let events = events(e);
            let ended = events.iter().any(|event| matches!(event, Event::Ended { .. }));
            assert!(ended || reset, "order {order:o}: {events:?}");
        }
    }
}

#[test]
fn what_was_not_sent_before_a_reset_is_lost_and_what_follows_is_refused() {
    let (mut a, mut b) = greeted(|_| {});
    let stream = a.open(b"").unwrap();
    say(&mut a, stream, b"lost");
    a.reset(stream, 5);
    assert!(a.send(stream, &mut Bytes::from_static(b"x")).is_err());
    exchange(&mut a, &mut b);
    let opened = Event::Opened { stream, header: Bytes::new() };
    assert_eq!(events(&mut b), [opened, Event::Reset { stream, code: 5 }]);
    assert!(b.send(stream, &mut Bytes::from_static(b"x")).is_err());
    assert_eq!((a.streams(), b.streams(), a.room(stream)), (0, 0, 0));
}

#[test]
fn a_queue_that_is_full_takes_a_part_and_tells_when_it_takes_more() {
    let (mut a, mut b) = greeted(|config| {
        config.queue_floor_bytes = 1000;
        config.queue_max_bytes = 1000;
    });
    let stream = a.open(b"").unwrap();
    let mut bytes = Bytes::from(vec![1; 1500]);
    assert_eq!(a.send(stream, &mut bytes), Ok(1000));
    assert_eq!((bytes.len(), a.room(stream), a.queued_bytes(stream)), (500, 0, 1000));
    assert_eq!(events(&mut a), []);
    carry(&mut a, &mut b);
    assert_eq!(events(&mut a), [Event::Writable { stream }]);
    assert_eq!(a.send(stream, &mut bytes), Ok(500));
    carry(&mut a, &mut b);
    assert_eq!(events(&mut a), [], "it had not more than it could send");
}

#[test]
fn what_cannot_be_opened_is_told_why() {
    let limits = |config: &mut Config| {
        config.streams_max = 1;
        config.header_bytes_max = 4;
    };
    let (mut a, mut b) = ends(limits);
    assert_eq!(a.open(b""), Err(OpenError::NotYet));
    exchange(&mut a, &mut b);
    assert_eq!(a.open(b"12345"), Err(OpenError::HeaderTooLong { length: 5, limit: 4 }));
    let stream = a.open(b"1234").unwrap();
    assert_eq!(a.open(b""), Err(OpenError::TooMany { limit: 1 }));
    assert_eq!((stream.number(), b.open(b"").unwrap().number()), (1, 2), "each has its own");
    a.reset(stream, 0);
    assert_eq!(a.open(b""), Err(OpenError::TooMany { limit: 1 }), "the other end counts it still");
    exchange(&mut a, &mut b);
    assert_eq!(a.open(b"").unwrap().number(), 3);
    b.close(1, "enough");
    assert_eq!(b.open(b""), Err(OpenError::Closing));
    exchange(&mut a, &mut b);
    assert_eq!(a.open(b""), Err(OpenError::Closing));
}

#[test]
fn numbers_of_streams_are_used_up_one_day() {
    let (mut a, mut b) = greeted(|_| {});
    (a.next_ours, b.next_theirs) = (u32::MAX.into(), u32::MAX.into());
    let stream = a.open(b"last").unwrap();
    assert_eq!(a.open(b""), Err(OpenError::Exhausted));
    exchange(&mut a, &mut b);
    let header = Bytes::from_static(b"last");
    assert_eq!(events(&mut b), [Event::Opened { stream, header }]);
}

#[test]
fn closing_lets_streams_finish_and_refuses_new_ones() {
    let (mut a, mut b) = greeted(|_| {});
    let old = a.open(b"").unwrap();
    exchange(&mut a, &mut b);
    events(&mut b);
    b.close(7, "restart");
    let crossing = a.open(b"").unwrap(); // Before it could know.
    carry(&mut b, &mut a);
    let reason = "restart".to_string();
    assert_eq!(events(&mut a), [Event::Closing { code: 7, reason }]);
    exchange(&mut a, &mut b);
    assert_eq!(events(&mut a), [Event::Reset { stream: crossing, code: RESET_REFUSED }]);
    assert_eq!(events(&mut b), [], "its user does not hear of what was refused");
    assert!(!a.is_drained() && !b.is_drained());
    say(&mut a, old, b"still here");
    a.end(old);
    b.end(old);
    exchange(&mut a, &mut b);
    assert_eq!(events(&mut b).len(), 2);
    b.consumed(old, 10);
    exchange(&mut a, &mut b);
    assert!(a.is_drained() && b.is_drained());
}

#[test]
fn a_long_reason_is_cut_between_letters() {
    let (mut a, mut b) = greeted(|_| {});
    a.close(1, &"ü".repeat(1000));
    exchange(&mut a, &mut b);
    assert_eq!(events(&mut b), [Event::Closing { code: 1, reason: "ü".repeat(128) }]);
}

#[test]
fn silence_is_asked_after_and_then_ends_the_session() {
    let (mut a, mut b) = greeted(|_| {});
    let at = |seconds: u64| Nanos(NOW.0 + seconds * 1_000_000_000);
    assert_eq!(a.next_deadline(), Some(at(15)));
    a.tick(at(14)).unwrap();
    assert!(!a.wants_transmit());
    a.tick(at(15)).unwrap();
    assert!(a.wants_transmit());
    assert_eq!(a.next_deadline(), Some(at(45)), "a deadline is always later than its tick");
    let mut out = std::collections::VecDeque::new();
    a.transmit(at(15), &mut out, 1000);
    b.receive(at(16), &out.pop_front().unwrap()).unwrap();
    b.transmit(at(16), &mut out, 1000);
    a.receive(at(17), &out.pop_front().unwrap()).unwrap();
    assert_eq!(a.round_trip(), Some(Nanos::from_secs(2)));
    assert_eq!(a.next_deadline(), Some(at(32)));
    a.tick(at(61)).unwrap();
    let since = Nanos::from_secs(45);
    assert_eq!(a.tick(at(62)), Err(WireError::Silent { since }));
    assert_eq!(output(&mut a), b"", "nobody listens");
}

#[test]
fn an_end_that_does_not_greet_is_not_waited_for() {
    let (mut a, _) = ends(|_| {});
    let at = |seconds: u64| Nanos(NOW.0 + seconds * 1_000_000_000);
    a.receive(at(9), b"THWR").unwrap();
    assert_eq!(a.next_deadline(), Some(at(10)));
    a.tick(at(9)).unwrap();
    let within = Nanos::from_secs(10);
    assert_eq!(a.tick(at(10)), Err(WireError::NoHello { within }));
    let last = output(&mut a);
    assert_eq!(&last[..4], b"THWR", "HELLO comes before the reason");
}

#[test]
fn settings_that_do_not_fit_are_named() {
    let check = |change: fn(&mut Config)| {
        let mut config = Config::new(crate::Role::Connector, [0; 16]);
        change(&mut config);
        let ConfigError { setting, .. } = Session::new(config, NOW).unwrap_err();
        setting
    };
    assert_eq!(check(|c| c.parameters = vec![0; 4097].into()), "parameters");
    assert_eq!(check(|c| c.streams_max = 0), "streams_max");
    assert_eq!(check(|c| c.streams_max = u32::MAX), "received_bytes_max");
    assert_eq!(check(|c| c.header_bytes_max = 16385), "header_bytes_max");
    assert_eq!(check(|c| c.window_floor_bytes = 4095), "window_floor_bytes");
    assert_eq!(check(|c| c.window_max_bytes = 4096), "window_max_bytes");
    assert_eq!(check(|c| c.window_max_bytes = u32::MAX), "window_max_bytes");
    assert_eq!(check(|c| c.queue_floor_bytes = 0), "queue_floor_bytes");
    assert_eq!(check(|c| c.queue_max_bytes = 1), "queue_max_bytes");
    assert_eq!(check(|c| c.queued_bytes_max = 1), "queued_bytes_max");
    assert_eq!(check(|c| c.control_frames_per_s_max = 0), "control_frames_per_s_max");
    assert_eq!(check(|c| c.hello_within = Nanos(0)), "hello_within");
    assert_eq!(check(|c| c.silent_after = c.ping_after), "silent_after");
}
