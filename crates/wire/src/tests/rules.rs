//! Rules that the other end breaks, each by bytes made by hand: the error names frame and stream.

use super::{NOW, ends, events, exchange, greeted, output, say};
use crate::{Session, WireError};
use bytes::Bytes;
use thermocline_units::Nanos;

const OPEN: u8 = 1;
const DATA: u8 = 2;
const CREDIT: u8 = 3;
const RESET: u8 = 4;
const CLOSED: u8 = 5;
const PING: u8 = 6;
const PONG: u8 = 7;
const CLOSING: u8 = 8;
const ABORT: u8 = 9;

/// A frame, made without the code that makes frames.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u16).to_le_bytes().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// An acceptor that has been greeted, with small limits.
fn victim() -> Session {
    greeted(|config| {
        config.streams_max = 2;
        config.header_bytes_max = 10;
        config.window_floor_bytes = 4096;
        config.window_max_bytes = 8192;
        config.control_frames_per_s_max = 50;
    })
    .1
}

/// The error that the last frame causes; those before it are in order.
fn error(frames: &[Vec<u8>]) -> String {
    let mut victim = victim();
    let (last, before) = frames.split_last().unwrap();
    before.iter().for_each(|frame| victim.receive(NOW, frame).unwrap());
    let error = victim.receive(NOW, last).unwrap_err();
    assert_eq!(victim.error(), Some(&error));
    assert_eq!(victim.next_event(), None, "nothing is delivered after an error");
    assert_eq!(victim.receive(NOW, b"more").unwrap_err(), error, "it stays");
    assert_eq!(victim.tick(NOW).unwrap_err(), error);
    assert_eq!(victim.next_deadline(), None);
    error.to_string()
}

fn check(frames: &[Vec<u8>], expected: &str) {
    let prefix = "the other end broke the protocol: ";
    let suffix = "; look whether both ends run a release of this program";
    assert_eq!(error(frames), format!("{prefix}{expected}{suffix}"));
}

#[test]
fn frames_that_are_none_are_refused() {
    for kind in [0, 10, 255] {
        let expected = format!("unknown frame on stream 0: type {kind}, expected types 1 to 9");
        check(&[frame(kind, 0, 0, &[])], &expected);
    }
    let flags = "RESET frame on stream 1: flags 0x1, expected flags that its type has";
    check(&[frame(RESET, 1, 1, &[0; 4])], flags);
    let flags = "DATA frame on stream 1: flags 0x3, expected flags that its type has";
    check(&[frame(DATA, 3, 1, b"x")], flags);
    let length = "CREDIT frame on stream 1: 3 bytes of payload, expected 4 to 4";
    check(&[frame(CREDIT, 0, 1, &[0; 3])], length);
    let length = "DATA frame on stream 1: 16385 bytes of payload, expected 0 to 16384";
    check(&[frame(DATA, 0, 1, &[0; 16385])], length);
    let length = "ABORT frame on stream 0: 257 bytes of payload, expected 0 to 256";
    check(&[frame(ABORT, 0, 0, &[b'x'; 257])], length);
    let number = "DATA frame on stream 0: number 0, expected the number of a stream";
    check(&[frame(DATA, 0, 0, b"x")], number);
    check(&[frame(PING, 0, 7, &[0; 8])], "PING frame on stream 7: number 7, expected stream 0");
    let empty = "DATA frame on stream 1: no bytes and no end, expected one of both";
    check(&[frame(OPEN, 0, 1, &[]), frame(DATA, 0, 1, &[])], empty);
    let text = "CLOSING frame on stream 0: a reason that is no text, expected UTF-8";
    check(&[frame(CLOSING, 0, 0, &[0, 0, 0, 0, 0xff])], text);
}

#[test]
fn streams_are_opened_in_order_and_within_limits() {
    let open = |number| frame(OPEN, 0, number, &[]);
    check(&[open(3)], "OPEN frame on stream 3: number 3, expected number 1");
    check(&[open(2)], "OPEN frame on stream 2: number 2, expected number 1");
    check(&[open(1), open(1)], "OPEN frame on stream 1: number 1, expected number 3");
    let many = "OPEN frame on stream 5: stream 3 at once, expected at most 2";
    check(&[open(1), open(3), open(5)], many);
    let long = "OPEN frame on stream 1: a header of 11 bytes, expected at most 10";
    check(&[frame(OPEN, 0, 1, &[0; 11])], long);
    let closing = frame(CLOSING, 0, 0, &[0; 4]);
    let late = "OPEN frame on stream 1: after CLOSING, expected no new streams";
    check(&[closing.clone(), open(1)], late);
    let twice = "CLOSING frame on stream 0: one more CLOSING, expected one";
    check(&[closing.clone(), closing], twice);
}

#[test]
fn credit_is_kept_to() {
    let open = frame(OPEN, 0, 1, &[]);
    let over = "DATA frame on stream 1: 97 bytes, which cost 128, expected at most the credit of \
                96 that is left";
    check(&[open.clone(), frame(DATA, 0, 1, &[0; 4000]), frame(DATA, 0, 1, &[0; 97])], over);
    // Single bytes cost more than they are.
    let mut frames = vec![open.clone()];
    frames.extend(vec![frame(DATA, 0, 1, b"x"); 33]);
    let over = "DATA frame on stream 1: 1 bytes, which cost 128, expected at most the credit of 0 \
                that is left";
    check(&frames, over);
    let nothing = "CREDIT frame on stream 1: 0 bytes, expected 1 or more";
    check(&[open.clone(), frame(CREDIT, 0, 1, &[0; 4])], nothing);
    let much = "CREDIT frame on stream 1: 4097 bytes on top of 4096, expected at most the window \
                of 8192 that it announced";
    check(&[open.clone(), frame(CREDIT, 0, 1, &4097_u32.to_le_bytes())], much);
    let much = "CREDIT frame on stream 1: 4294967295 bytes on top of 4096, expected at most the \
                window of 8192 that it announced";
    check(&[open, frame(CREDIT, 0, 1, &u32::MAX.to_le_bytes())], much);
}

#[test]
fn nothing_is_said_on_a_stream_that_is_not_open() {
    for (kind, name) in [(DATA, "DATA"), (CREDIT, "CREDIT"), (RESET, "RESET"), (CLOSED, "CLOSED")] {
        let payload = if kind == CLOSED { &[][..] } else { &[1, 0, 0, 0] };
        for stream in [1, 2, u32::MAX] {
            let never = format!(
                "{name} frame on stream {stream}: a stream that was never opened, expected a \
                 stream that is open"
            );
            check(&[frame(kind, 0, stream, payload)], &never);
        }
        let open = frame(OPEN, 0, 1, &[]);
        let reset = frame(RESET, 0, 1, &[0; 4]);
        let last = format!(
            "{name} frame on stream 1: a stream on which the last frame was said, expected a \
             stream that is open"
        );
        check(&[open, reset, frame(kind, 0, 1, payload)], &last);
    }
    let open = frame(OPEN, 0, 1, &[]);
    let end = frame(DATA, 1, 1, &[]);
    let after = "DATA frame on stream 1: 1 bytes after the end, expected no more data";
    check(&[open.clone(), end.clone(), frame(DATA, 0, 1, b"x")], after);
    let used = "CLOSED frame on stream 1: a stream in use, expected both directions ended, or our \
                RESET";
    check(&[open.clone(), frame(CLOSED, 0, 1, &[])], used);
    check(&[open, end, frame(CLOSED, 0, 1, &[])], used);
}

#[test]
fn pings_and_pongs_are_paired() {
    let ping = frame(PING, 0, 0, &[1; 8]);
    let two =
        "PING frame on stream 0: one more PING, expected none before the last one is answered";
    check(&[ping.clone(), ping], two);
    let unasked = "PONG frame on stream 0: value 1, expected the answer to a PING that is not \
                   answered";
    check(&[frame(PONG, 0, 0, &[1, 0, 0, 0, 0, 0, 0, 0])], unasked);
}

#[test]
fn frames_that_cost_nothing_are_counted() {
    let mut pinged = victim();
    let ping = frame(PING, 0, 0, &[1; 8]);
    for count in 0.. {
        let answer = pinged.receive(NOW, &ping);
        assert_eq!(answer.is_err(), count == 50, "{count}: {answer:?}");
        if let Err(error) = answer {
            assert_eq!(error, WireError::Flood { limit: 50 });
            break;
        }
        output(&mut pinged);
    }
    // One after the other: opened, reset, and closed by the victim.
    let mut reset = victim();
    for count in 0.. {
        let stream = 2 * count + 1;
        let frames = [frame(OPEN, 0, stream, &[]), frame(RESET, 0, stream, &[0; 4])].concat();
        let answer = reset.receive(NOW, &frames);
        assert_eq!(answer.is_err(), count == 50, "{count}: {answer:?}");
        if answer.is_err() {
            break;
        }
        output(&mut reset);
        assert_eq!((events(&mut reset).len(), reset.streams()), (2, 0));
    }
    // As many in each second are in order.
    let mut patient = victim();
    for second in 1..5 {
        for _ in 0..50 {
            patient.receive(Nanos::from_secs(2 * second), &ping).unwrap();
            output(&mut patient);
        }
    }
}

#[test]
fn both_ends_learn_why_the_connection_ended() {
    let (mut a, mut b) = greeted(|_| {});
    let error = b.receive(NOW, &frame(77, 0, 0, &[])).unwrap_err();
    let last = output(&mut b);
    assert_eq!(output(&mut b), b"", "the last frame is the last");
    let reason = error.to_string();
    assert_eq!(a.receive(NOW, &last), Err(WireError::Aborted { reason: reason.clone() }));
    assert_eq!(output(&mut a), b"", "ABORT is not answered");
    assert_eq!(a.error().unwrap().to_string(), format!("the other end gave up: {reason}"));
    let error = WireError::Aborted { reason: "\x1b[2Jgone\n".to_string() };
    assert_eq!(error.to_string(), "the other end gave up: \\u{1b}[2Jgone\\n");
}

#[test]
fn a_session_that_has_failed_does_nothing() {
    let (mut a, mut b) = greeted(|_| {});
    let stream = a.open(b"").unwrap();
    say(&mut a, stream, b"hello");
    exchange(&mut a, &mut b);
    b.receive(NOW, &frame(77, 0, 0, &[])).unwrap_err();
    assert!(b.send(stream, &mut Bytes::from_static(b"x")).is_err());
    b.consumed(stream, 5);
    b.end(stream);
    b.reset(stream, 1);
    b.close(1, "");
    b.ping();
    assert_eq!(b.open(b""), Err(crate::OpenError::Failed));
    assert_eq!((b.streams(), b.next_event()), (0, None));
    output(&mut b);
    assert!(!b.wants_transmit() && !b.is_drained());
}

#[test]
fn strangers_are_known_by_their_first_bytes() {
    let (_, mut b) = ends(|_| {});
    let error = b.receive(NOW, b"GET / HTTP/1.1\r\n").unwrap_err();
    assert_eq!(error, WireError::Stranger { found: b"G".to_vec() });
    let (_, mut b) = ends(|_| {});
    b.receive(NOW, b"T").unwrap();
    let error = b.receive(NOW, b"Hello").unwrap_err();
    assert_eq!(error, WireError::Stranger { found: b"THe".to_vec() });
}

/// The HELLO of a connector, with a field changed.
fn hello(at: usize, field: &[u8]) -> Result<(), WireError> {
    let (mut a, mut b) = ends(|_| {});
    let mut bytes = output(&mut a);
    bytes[at..at + field.len()].copy_from_slice(field);
    b.receive(NOW, &bytes)
}

#[test]
fn versions_are_negotiated_and_what_hello_says_is_checked() {
    assert_eq!(hello(4, &[0, 0, 9, 0]), Ok(()), "0 to 9 holds ours");
    let versions = WireError::Versions { ours: (1, 1), theirs: (2, 9) };
    assert_eq!(hello(4, &[2, 0, 9, 0]), Err(versions.clone()));
    assert_eq!(
        versions.to_string(),
        "no common version of the protocol: this end speaks 1 to 1, the other one 2 to 9; update \
         the older one"
    );
    assert_eq!(crate::format::common_version((1, 4), (3, 9)), Ok(4));
    assert_eq!(crate::format::common_version((2, 9), (1, 3)), Ok(3));
    let cases: [(usize, &[u8], &str); 8] = [
        (4, &[2, 0, 1, 0], "highest version is 1, expected 2 to 65535"),
        (24, &[255, 15, 0, 0], "window is 4095, expected 4096 to 1073741824"),
        (28, &[0, 16, 0, 0], "largest window is 4096, expected 32768 to 1073741824"),
        (28, &[1, 0, 0, 64], "largest window is 1073741825, expected 32768 to 1073741824"),
        (32, &[0; 4], "number of streams is 0, expected 1 to 4294967295"),
        (36, &[1, 64, 0, 0], "length of headers is 16385, expected 0 to 16384"),
        (40, &[1, 16], "length of parameters is 4097, expected 0 to 4096"),
        (42, &[3, 0], "role is 3, expected 1 to 2"),
    ];
    for (at, field, expected) in cases {
        let error = hello(at, field).unwrap_err().to_string();
        let expected = format!("HELLO of the other end: {expected}; look at its settings");
        assert_eq!(error, expected);
    }
    let error = hello(42, &[2, 0]).unwrap_err().to_string();
    assert!(error.contains("both ends made, or both accepted"), "{error}");
}
