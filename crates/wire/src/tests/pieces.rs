//! Bytes of an exchange: split, cut off, flipped, and forged.

use super::rules::frame;
use super::{NOW, ends, events, exchange, output, say};
use crate::{Config, Event, FRAME_PAYLOAD_BYTES_MAX, Session, WireError};
use bytes::Bytes;
use proptest::prelude::*;

fn limits(config: &mut Config) {
    config.window_floor_bytes = 4096;
    config.window_max_bytes = 8192;
    config.parameters = Bytes::from_static(b"parameters");
}

/// Answers a greeting as the acceptor's user: streams 2 and 4, with data.
fn begin(b: &mut Session) {
    for _ in 0..2 {
        let Ok(stream) = b.open(b"from b") else { return };
        let _ = b.send(stream, &mut Bytes::from(vec![1; 3000]));
        b.end(stream);
    }
    output(b);
}

/// Bytes from a connector that uses every type of frame but ABORT, CLOSED and PONG: its HELLO, and
/// the rest.
fn recorded() -> (Vec<u8>, Vec<u8>) {
    let (mut a, mut b) = ends(limits);
    let hello = output(&mut a);
    b.receive(NOW, &hello).unwrap();
    let theirs = output(&mut b);
    a.receive(NOW, &theirs).unwrap();
    let from_b: Vec<_> = (0..2).map(|_| b.open(b"from b").unwrap()).collect();
    for stream in &from_b {
        say(&mut b, *stream, &[1; 3000]);
    }
    let theirs = output(&mut b);
    a.receive(NOW, &theirs).unwrap();
    let streams: Vec<_> = (0..3).map(|_| a.open(b"from a").unwrap()).collect();
    streams.iter().for_each(|stream| say(&mut a, *stream, b"some bytes"));
    a.consumed(from_b[0], 3000); // CREDIT
    a.end(streams[0]);
    let mut rest = output(&mut a);
    a.reset(streams[1], 77);
    a.end(from_b[0]);
    a.ping();
    say(&mut a, streams[2], &[9; 300]);
    a.close(1, "done");
    rest.extend(output(&mut a));
    (hello, rest)
}

/// Events of an acceptor that gets these bytes in pieces.
fn replay<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Result<(), WireError>) {
    let (_, mut b) = ends(limits);
    let mut heard = Vec::new();
    let mut bytes = 0;
    for piece in pieces {
        bytes += piece.len();
        if let Err(error) = b.receive(NOW, piece) {
            assert_eq!(b.next_event(), None);
            return (heard, Err(error));
        }
        let more = events(&mut b);
        if more.iter().any(|event| matches!(event, Event::Hello { .. })) {
            begin(&mut b);
        }
        heard.extend(more);
        assert!(b.adds_up());
    }
    assert!(heard.len() <= bytes, "events cost bytes");
    (heard, Ok(()))
}

#[test]
fn every_split_gives_the_same_events() {
    let (hello, rest) = recorded();
    let (whole, end) = replay([&hello[..], &rest[..]].into_iter());
    end.unwrap();
    assert_eq!(whole.len(), 12, "{whole:?}");
    let all = [&hello[..], &rest[..]].concat();
    assert_eq!(replay(all.chunks(1)), (whole.clone(), Ok(())));
    for at in 0..rest.len() {
        let (head, tail) = rest.split_at(at);
        assert_eq!(replay([&hello[..], head, tail].into_iter()), (whole.clone(), Ok(())), "{at}");
    }
    for at in 0..hello.len() {
        let (head, tail) = hello.split_at(at);
        assert_eq!(replay([head, tail, &rest[..]].into_iter()), (whole.clone(), Ok(())), "{at}");
    }
}

#[test]
fn every_beginning_gives_a_beginning_of_the_events() {
    let (hello, rest) = recorded();
    let (whole, _) = replay([&hello[..], &rest[..]].into_iter());
    for at in 0..rest.len() {
        let (heard, end) = replay([&hello[..], &rest[..at]].into_iter());
        end.unwrap();
        assert!(whole.starts_with(&heard), "{at}");
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_well_formed() {
    let (hello, rest) = recorded();
    let mut errors = 0;
    for at in 0..hello.len() + rest.len() {
        for bit in 0..8 {
            let (mut hello, mut rest) = (hello.clone(), rest.clone());
            let byte = match at.checked_sub(hello.len()) {
                Some(at) => &mut rest[at],
                None => &mut hello[at],
            };
            *byte ^= 1 << bit;
            errors += u32::from(replay([&hello[..], &rest[..]].into_iter()).1.is_err());
        }
    }
    assert!(errors > 500, "{errors} errors"); // Payloads, epochs and codes may be anything.
}

#[test]
fn a_frame_of_full_length_is_as_good_as_any() {
    let (mut a, mut b) = super::greeted(|_| {});
    let stream = a.open(&[7; 4096]).unwrap();
    say(&mut a, stream, &[8; FRAME_PAYLOAD_BYTES_MAX]);
    exchange(&mut a, &mut b);
    let bytes = Bytes::from(vec![8; FRAME_PAYLOAD_BYTES_MAX]);
    assert_eq!(events(&mut b)[1..], [Event::Data { stream, bytes }]);
}

proptest! {
    /// Frames of the right form in any order, in pieces: no panic, and what is held is counted.
    #[test]
    fn forged_frames_are_errors_or_well_formed(
        forged in prop::collection::vec((1..10_u8, any::<bool>(), 0..6_u32, 0..5000_usize), 1..40),
        size in 1..6000_usize,
    ) {
        let (hello, _) = recorded();
        let mut bytes = Vec::new();
        for (kind, end, stream, length) in forged {
            let length = match kind {
                1 => length % 100,
                2 => length,
                3 | 4 => 4,
                5 => 0,
                6 | 7 => 8,
                _ => length % 257,
            };
            let stream = if kind > 5 { 0 } else { stream };
            bytes.extend(frame(kind, u8::from(end && kind == 2), stream, &vec![1; length]));
        }
        let _ = replay([&hello[..]].into_iter().chain(bytes.chunks(size)));
    }

    #[test]
    fn any_bytes_are_errors_or_wait_for_more(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (hello, _) = recorded();
        let _ = replay([&bytes[..]].into_iter());
        let _ = replay([&hello[..], &bytes[..]].into_iter());
    }
}
