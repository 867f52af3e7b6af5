//! An end whose other end keeps the rules of the connection and says anything on its streams.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use proptest::prelude::*;
use std::collections::VecDeque;
use thermocline_tunnel::{Cache, End, FlowEvent, Settings, TunnelError};
use thermocline_units::{Bytes as Size, Nanos, Rng};
use thermocline_wire::{Config, Event, Role, Session, StreamId};

const NOW: Nanos = Nanos(0);

/// An end that is attacked, and the connection of the attacker.
struct Attack {
    end: End,
    session: Session,
    failed: Option<TunnelError>,
    delivered: Vec<Bytes>,
}

impl Attack {
    fn new(parameters: &[u8]) -> Attack {
        let cache = Cache::new(Size::from_mib(1), [9; 16], 9);
        let mut settings = Settings::new(Role::Acceptor, 1);
        settings.controller = "content:size=512B".to_string();
        let end = End::new(settings, cache, Box::new(|| Nanos(0)), NOW).unwrap();
        let mut config = Config::new(Role::Connector, [1; 16]);
        config.parameters = Bytes::copy_from_slice(parameters);
        let session = Session::new(config, NOW).unwrap();
        let mut attack = Attack { end, session, failed: None, delivered: Vec::new() };
        attack.exchange();
        attack
    }

    fn ready() -> Attack {
        let mut attack = Attack::new(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        attack.open(&[]);
        attack
    }

    fn open(&mut self, header: &[u8]) -> StreamId {
        let stream = self.session.open(header).unwrap();
        self.exchange();
        stream
    }

    fn say(&mut self, stream: StreamId, bytes: &[u8]) {
        let mut bytes = Bytes::copy_from_slice(bytes);
        while !bytes.is_empty() && self.failed.is_none() {
            if self.session.send(stream, &mut bytes).is_err() {
                return;
            }
            let left = bytes.len();
            self.exchange();
            if bytes.len() == left && self.session.room(stream) == 0 {
                return; // It waits for credit that never comes: the end holds no more.
            }
        }
    }

    fn exchange(&mut self) {
        for _ in 0..64 {
            let mut out = VecDeque::new();
            let sent = self.session.transmit(NOW, &mut out, 1 << 20);
            for bytes in out {
                if self.failed.is_none() {
                    self.failed = self.end.receive(NOW, &bytes).err();
                }
            }
            while let Some(event) = self.end.next_event() {
                if let FlowEvent::Bytes { flow, bytes } = event {
                    if self.failed.is_none() {
                        self.failed = self.end.taken(NOW, flow, bytes.len()).err();
                    }
                    self.delivered.push(bytes);
                }
            }
            let mut out = VecDeque::new();
            let answered = self.end.transmit(NOW, &mut out, 1 << 20);
            for bytes in out {
                self.session.receive(NOW, &bytes).unwrap();
            }
            while let Some(event) = self.session.next_event() {
                if let Event::Data { stream, bytes } = event {
                    self.session.consumed(stream, bytes.len());
                }
            }
            if sent == 0 && answered == 0 {
                return;
            }
        }
    }

    fn refusal(&self) -> String {
        self.failed.as_ref().expect("the end refuses this").to_string()
    }
}

const HEADER: &[u8] = b"\x01\x02\x50\x00web.internal:80";

/// One segment: a plain chunk of these bytes.
fn plain(bytes: &[u8], check: u32) -> Vec<u8> {
    let mut token = Vec::new();
    let mut number = (bytes.len() as u64) << 2 | 3;
    while number >= 0x80 {
        token.push(number as u8 | 0x80);
        number >>= 7;
    }
    token.push(number as u8);
    let mut segment = Vec::new();
    for field in [bytes.len() as u32, token.len() as u32, bytes.len() as u32, check] {
        segment.extend(field.to_le_bytes());
    }
    segment.extend([1, 0, 0, 0]);
    segment.extend(token);
    segment.extend(bytes);
    segment
}

#[test]
fn parameters_of_strangers_are_refused() {
    assert!(Attack::new(&[]).refusal().contains("parameters"));
    assert!(Attack::new(&[2; 17]).refusal().contains("version of the other end's tunnel is 2"));
    assert!(Attack::new(&[1; 5]).refusal().contains("16 bytes behind the version"));
}

/// An exit that stops while an enter comes in says HELLO and CLOSING in one breath.
#[test]
fn an_end_that_is_closing_from_the_start_is_no_offender() {
    let cache = Cache::new(Size::from_mib(1), [9; 16], 9);
    let mut settings = Settings::new(Role::Connector, 1);
    settings.controller = "none".to_string();
    let mut end = End::new(settings, cache, Box::new(|| Nanos(0)), NOW).unwrap();
    let mut config = Config::new(Role::Acceptor, [1; 16]);
    config.parameters = Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut session = Session::new(config, NOW).unwrap();
    session.close(0, "it stops");
    let mut out = VecDeque::new();
    session.transmit(NOW, &mut out, 1 << 20);
    end.receive(NOW, &out.into_iter().flatten().collect::<Vec<u8>>()).unwrap();
    assert_eq!(end.next_event(), Some(FlowEvent::Closing { reason: "it stops".to_string() }));
    assert_eq!(end.next_event(), None);
}

#[test]
fn headers_that_are_none_are_refused() {
    let refusal = |header: &[u8]| {
        let mut attack = Attack::ready();
        attack.open(header);
        attack.refusal()
    };
    assert!(refusal(b"\x01").contains("a flow's header ends early"));
    assert!(refusal(b"\x07\x00\x50\x00a:1").contains("version of a flow's header is 7"));
    assert!(refusal(b"\x01\x09\x50\x00a:1").contains("sharing is 9"));
    assert!(refusal(b"\x01\x01\x50\x00").contains("target is 0"));
    assert!(refusal(b"\x01\x01\x50\x00a\nb:1").contains("printable"));
    assert!(refusal(&[&HEADER[..4], &[b'a'; 300]].concat()).contains("target is 300"));
}

#[test]
fn a_right_segment_arrives_and_one_with_a_wrong_check_does_not() {
    let mut attack = Attack::ready();
    let flow = attack.open(HEADER);
    attack.say(flow, &plain(b"hello", crc32c::crc32c(b"hello")));
    assert_eq!(attack.delivered, [&b"hello"[..]]);
    attack.say(flow, &plain(b"hello", 1));
    assert!(attack.refusal().contains("check of a segment"));
    assert_eq!(attack.delivered, [&b"hello"[..]]);
}

#[test]
fn answers_that_nobody_asked_for_end_the_connection() {
    let control = |message: &[u8]| {
        let mut attack = Attack::new(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let first = attack.open(&[]);
        attack.open(HEADER);
        attack.say(first, message);
        attack.refusal()
    };
    // A fill for token 0 of segment 0 of flow 3.
    assert!(control(&[3, 5, 0, 0, 0, 3, 0, 0, 7, 7]).contains("was asked for"));
    // Chunks that flow 3 never sent.
    assert!(control(&[2, 3, 0, 0, 0, 3, 0, 0]).contains("one that is retained"));
    // Nine segments of flow 3 are complete.
    assert!(control(&[1, 2, 0, 0, 0, 3, 9]).contains("complete segments is 9"));
    // A message of 16 MiB.
    assert!(control(&[1, 0, 0, 0, 1]).contains("512 KiB or less"));
    assert!(control(&[9, 2, 0, 0, 0, 3, 0]).contains("kind is 9"));
}

#[test]
fn references_that_are_never_filled_hold_no_more_than_a_bound() {
    let mut attack = Attack::ready();
    let flow = attack.open(HEADER);
    // Segments of one reference to 512 KiB each: 27 bytes for half a megabyte.
    let mut segment = Vec::new();
    for field in [512 * 1024_u32, 4, 0, 0] {
        segment.extend(field.to_le_bytes());
    }
    segment.extend([1, 0, 0, 0]);
    segment.extend([0x81, 0x80, 0x80, 0x01]);
    segment[4] = 5;
    segment.push(0);
    for _ in 0..20_000 {
        attack.say(flow, &segment);
        assert!(attack.failed.is_none(), "{:?}", attack.failed);
    }
    assert_eq!(attack.delivered.len(), 0);
    assert!(attack.end.asked().1 <= 3, "{:?} chunks were asked for", attack.end.asked());
}

/// A segment of `count` references of this kind to chunks of one byte.
fn references(count: u16, kind: u8) -> Vec<u8> {
    let mut segment = Vec::new();
    for field in [u32::from(count), 2 * u32::from(count), 0, 0] {
        segment.extend(field.to_le_bytes());
    }
    segment.extend(count.to_le_bytes());
    segment.extend([0, 0]);
    segment.extend([1 << 2 | kind, 0].repeat(count.into()));
    segment
}

/// Waiting segments were counted in bytes of the flow: references to a byte each took seventy times
/// that.
#[test]
fn many_small_references_count_for_what_they_take() {
    let mut attack = Attack::ready();
    let flow = attack.open(HEADER);
    for _ in 0..20 {
        attack.say(flow, &references(60_000, 1));
        assert!(attack.failed.is_none(), "{:?}", attack.failed);
    }
    assert!(attack.end.asked().1 <= 60_000, "{:?} chunks were asked for", attack.end.asked());
}

/// Such a name was kept, and the file of this end's cache could not be read again.
#[test]
fn a_reference_to_a_name_that_was_not_given_is_refused() {
    let mut attack = Attack::ready();
    let flow = attack.open(HEADER);
    attack.say(flow, &references(1, 2));
    assert!(attack.refusal().contains("the name of a reference"), "{}", attack.refusal());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn anything_on_any_stream_is_delivered_whole_or_refused(seed: u64) {
        let mut rng = Rng::seeded(seed);
        let mut attack = Attack::new(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let streams = [attack.open(&[]), attack.open(HEADER), attack.open(HEADER)];
        let mut texts = Vec::new();
        for _ in 0..rng.below(20) {
            let stream = streams[rng.below(3) as usize];
            let length = rng.below(60) as usize;
            let text: Vec<u8> = (0..=length).map(|_| rng.next_u64() as u8).collect();
            let mut bytes = plain(&text, crc32c::crc32c(&text));
            match rng.below(4) {
                0 => bytes = text,
                1 => {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                }
                _ => texts.push(text),
            }
            attack.say(stream, &bytes);
        }
        for piece in &attack.delivered {
            prop_assert!(texts.iter().any(|text| text == piece), "nobody said {:?}", piece);
        }
    }
}
