//! The other end of a tunnel says anything: on the connection, or on its streams while it keeps the
//! connection's rules.
//!
//! The first byte decides which; the rest is cut into pieces, each with the stream that it goes to.
#![no_main]

use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_tunnel::{Cache, End, FlowEvent, Settings};
use thermocline_units::{Bytes as Size, Nanos};
use thermocline_wire::{Config, Event, Role, Session, StreamId};

const NOW: Nanos = Nanos(0);

fn hear(end: &mut End) -> bool {
    while let Some(event) = end.next_event() {
        if let FlowEvent::Bytes { flow, bytes } = event {
            assert!(!bytes.is_empty(), "bytes are 1 or more");
            if end.taken(NOW, flow, bytes.len()).is_err() {
                return false;
            }
        }
    }
    true
}

/// Carries bytes both ways until nothing is left; false when the end refuses.
fn exchange(session: &mut Session, end: &mut End) -> bool {
    loop {
        let mut out = VecDeque::new();
        let sent = session.transmit(NOW, &mut out, 1 << 16);
        for bytes in out {
            if end.receive(NOW, &bytes).is_err() || !hear(end) {
                return false;
            }
        }
        let mut out = VecDeque::new();
        let answered = end.transmit(NOW, &mut out, 1 << 16);
        for bytes in out {
            session.receive(NOW, &bytes).expect("an end keeps the rules");
        }
        while let Some(event) = session.next_event() {
            if let Event::Data { stream, bytes } = event {
                session.consumed(stream, bytes.len());
            }
        }
        if sent == 0 && answered == 0 {
            return true;
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&how, mut rest)) = data.split_first() else { return };
    let cache = Cache::new(Size::from_kib(64), [9; 16], 9);
    let mut settings = Settings::new(Role::Acceptor, 1);
    settings.controller = "content:size=512B".to_string();
    let mut end = End::new(settings, cache, Box::new(|| Nanos(0)), NOW).expect("settings fit");
    if how & 1 == 0 {
        for piece in rest.chunks(usize::from(how >> 1) + 1) {
            if end.receive(NOW, piece).is_err() || !hear(&mut end) {
                return;
            }
        }
        return;
    }
    let mut config = Config::new(Role::Connector, [1; 16]);
    config.parameters = Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut session = Session::new(config, NOW).expect("settings fit");
    let mut streams: Vec<StreamId> = Vec::new();
    if !exchange(&mut session, &mut end) {
        return;
    }
    for header in [&b""[..], b"\x01\x02\x50\x00a:80", b"\x01\x00\x50\x00b:80"] {
        streams.extend(session.open(header).ok());
    }
    while let [to, length, tail @ ..] = rest {
        let (piece, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        let mut piece = Bytes::copy_from_slice(piece);
        let stream = streams[usize::from(*to) % streams.len()];
        let _ = session.send(stream, &mut piece);
        if !exchange(&mut session, &mut end) {
            return;
        }
    }
});
