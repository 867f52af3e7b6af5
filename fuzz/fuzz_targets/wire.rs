//! An end that says anything, in pieces of any size, to a session whose user opens, sends, ends,
//! resets and reads: events are in order and no more than the bytes pay for, or it is an error.
//!
//! The first byte decides how the rest is cut and what the user does. A HELLO is put in front of
//! every second input, so that frames are reached.
#![no_main]

use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use thermocline_units::Nanos;
use thermocline_wire::{Config, Event, Role, Session, StreamId};

/// A session with small limits.
fn session(role: Role) -> Session {
    let mut config = Config::new(role, [7; 16]);
    config.streams_max = 8;
    config.window_floor_bytes = 4096;
    config.window_max_bytes = 16_384;
    config.received_bytes_max = 16 * 4096 + 65_536;
    Session::new(config, Nanos(0)).expect("settings that fit")
}

/// All that a session has to send; an honest end's is never empty segments.
fn output(session: &mut Session) -> Vec<u8> {
    let mut out = VecDeque::new();
    while session.transmit(Nanos(1), &mut out, 20_000) > 0 {}
    assert!(out.iter().all(|segment| !segment.is_empty()));
    out.into_iter().flatten().collect()
}

/// A user's knowledge of a stream.
#[derive(Default)]
struct Known {
    unread: usize,
    ended: bool,
}

/// Hears one event and answers it.
fn hear(session: &mut Session, known: &mut BTreeMap<StreamId, Known>, event: Event, how: u8) {
    match event {
        Event::Hello { .. } => {
            for _ in 0..how % 3 {
                let stream = session.open(b"x").expect("the first ones");
                known.insert(stream, Known::default());
                let _ = session.send(stream, &mut Bytes::from(vec![1; 6000]));
            }
        }
        Event::Opened { stream, .. } => {
            assert!(known.insert(stream, Known::default()).is_none(), "opened twice");
            match stream.number() % 5 {
                0 => session.end(stream),
                1 => drop(session.send(stream, &mut Bytes::from_static(b"answer"))),
                _ => {}
            }
        }
        Event::Data { stream, bytes } => {
            let state = known.get_mut(&stream).expect("data of a stream in use");
            assert!(!state.ended && !bytes.is_empty(), "data after the end");
            state.unread += bytes.len();
            assert!(state.unread <= 16_384, "more than a window");
            match how & 0x30 {
                0x10 => session.consumed(stream, std::mem::take(&mut state.unread)),
                0x20 if bytes[0] % 4 == 0 => {
                    session.reset(stream, 3);
                    known.remove(&stream);
                }
                _ => {}
            }
        }
        Event::Ended { stream } => {
            let state = known.get_mut(&stream).expect("the end of a stream in use");
            assert!(!std::mem::replace(&mut state.ended, true), "ended twice");
            session.consumed(stream, std::mem::take(&mut state.unread));
            session.end(stream);
        }
        Event::Reset { stream, .. } => {
            known.remove(&stream).expect("the reset of a stream in use");
        }
        Event::Writable { stream } => assert!(known.contains_key(&stream)),
        Event::Closing { .. } => assert!(session.open(b"").is_err()),
    }
    let held: usize = known.values().map(|state| state.unread).sum();
    assert!(held <= 16 * 4096 + 65_536, "more than may be received");
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let mut victim = session(Role::Acceptor);
    let mut known = BTreeMap::new();
    let hello = if how & 1 == 1 { output(&mut session(Role::Connector)) } else { Vec::new() };
    let size = usize::from(how >> 6) * 700 + 1;
    for piece in std::iter::once(&hello[..]).chain(rest.chunks(size)) {
        if victim.receive(Nanos(1), piece).is_err() {
            assert!(victim.next_event().is_none(), "nothing after an error");
            output(&mut victim);
            return;
        }
        while let Some(event) = victim.next_event() {
            hear(&mut victim, &mut known, event, how);
        }
        if how & 8 == 0 {
            output(&mut victim);
        }
    }
});
