//! Transcripts of the protocol, byte by byte, and what is refused.

use super::wire::{MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, Put, option};
use super::{Ask, Cookie, Export, Offer, Security, Session};
use std::io::IoSlice;
use thermocline_ports::Payload;
use thermocline_volume::{Action, Fragment};

fn exports() -> Vec<Export> {
    vec![Export { name: "v0".to_string(), volume: 7, size: 1 << 20 }]
}

/// A client that has not sent anything yet.
fn session() -> Session {
    greeted(Security::Given)
}

fn greeted(security: Security) -> Session {
    let mut session = Session::new(security);
    let mut greeting = Vec::new();
    greeting.put_u64(MAGIC);
    greeting.put_u64(OPTION_MAGIC);
    greeting.put_u16(3);
    assert_eq!(sent(&mut session), greeting);
    session
}

/// The next request, where whatever memory it needs is granted.
fn next(session: &mut Session, exports: &[Export]) -> Option<(Cookie, Ask)> {
    let streams = &["mixed", "archival"];
    let offer = Offer { exports, streams, refusal: None };
    session.next(&offer).or_else(|| {
        session.grant(session.lacks());
        session.next(&offer)
    })
}

/// Everything that is to be sent, as bytes.
fn sent(session: &mut Session) -> Vec<u8> {
    let mut sent = Vec::new();
    while session.has_unsent() {
        let mut slices = [IoSlice::new(&[]); 8];
        let used = session.unsent(&mut slices);
        let before = sent.len();
        slices[..used].iter().for_each(|slice| sent.extend_from_slice(slice));
        session.sent(sent.len() - before);
    }
    sent
}

fn option(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u64(OPTION_MAGIC);
    bytes.put_u32(kind);
    bytes.put_u32(data.len() as u32);
    bytes.extend_from_slice(data);
    bytes
}

fn go(name: &str) -> Vec<u8> {
    let mut data = Vec::new();
    data.put_u32(name.len() as u32);
    data.extend_from_slice(name.as_bytes());
    data.put_u16(0);
    option(option::GO, &data)
}

fn request(flags: u16, command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(0x2560_9513);
    bytes.put_u16(flags);
    bytes.put_u16(command);
    bytes.put_u64(0x00C0_0C1E);
    bytes.put_u64(offset);
    bytes.put_u32(length);
    bytes
}

/// A session in transmission, with simple or structured replies.
fn transmission(structured: bool) -> Session {
    let mut session = session();
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    if structured {
        bytes.extend(option(option::STRUCTURED_REPLY, &[]));
    }
    bytes.extend(go("v0"));
    session.feed(&bytes);
    assert!(next(&mut session, &exports()).is_none());
    assert_eq!(session.volume(), Some(7));
    let _ = sent(&mut session);
    session
}

/// Attaches an export by a name: what was sent back, and the session.
fn attach(name: &str) -> (Session, Vec<u8>) {
    let mut session = session();
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(go(name));
    session.feed(&bytes);
    assert!(next(&mut session, &exports()).is_none());
    let answer = sent(&mut session);
    (session, answer)
}

#[test]
fn a_volume_is_attached_with_a_stream_or_without() {
    for (name, stream) in [("v0", None), ("v0@mixed", Some(0)), ("v0@archival", Some(1))] {
        let (session, _) = attach(name);
        assert_eq!((session.volume(), session.stream()), (Some(7), stream), "{name}");
    }
    let first = exports()[0].volume;
    assert_eq!(attach("@archival").0.volume(), Some(first), "the empty name is the first export");
    for (name, says) in [
        ("v0@often", "no such stream; there are: mixed, archival"),
        ("v0@", "no such stream; there are: mixed, archival"),
        ("v0@mixed@mixed", "no such stream"),
        ("v9@mixed", "no such export"),
    ] {
        let (session, answer) = attach(name);
        assert_eq!(session.volume(), None, "{name}");
        assert!(String::from_utf8_lossy(&answer).contains(says), "{name}");
    }
}

#[test]
fn requests_cut_anywhere_are_understood_alike() {
    let mut bytes = request(0, 0, 4096, 512);
    bytes.extend(request(1, 1, 0, 1024));
    bytes.extend([7; 1024]);
    bytes.extend(request(0, 3, 0, 0));
    for step in [1, 3, 27, 28, 29, 500, 5000] {
        let mut session = transmission(true);
        let mut asks = Vec::new();
        for piece in bytes.chunks(step) {
            session.feed(piece);
            asks.extend(std::iter::from_fn(|| next(&mut session, &exports())).map(|(_, ask)| ask));
        }
        let [Ask::Volume(read), Ask::Volume(write), Ask::Volume(Action::Flush)] = &asks[..] else {
            panic!("{asks:?} in steps of {step}")
        };
        assert!(matches!(read, Action::Read { offset, length: 512 } if offset.0 == 4096));
        let Action::Write { payload, fua: true, .. } = write else { panic!("{write:?}") };
        assert_eq!(payload.to_vec(), [7; 1024]);
    }
}

#[test]
fn a_read_is_answered_simply_or_in_chunks_with_holes() {
    let pieces = || {
        vec![
            Fragment { at: 0, payload: Payload::from(vec![5; 512]) },
            Fragment { at: 512, payload: Payload::Zeroes(512) },
        ]
    };
    let mut simple = transmission(false);
    simple.feed(&request(0, 0, 0, 1024));
    let (cookie, _) = next(&mut simple, &exports()).expect("a read");
    simple.data(&cookie, pieces());
    let bytes = sent(&mut simple);
    assert_eq!((bytes.len(), &bytes[..8]), (16 + 1024, &[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0][..]));
    let mut structured = transmission(true);
    structured.feed(&request(0, 0, 0, 1024));
    let (cookie, _) = next(&mut structured, &exports()).expect("a read");
    structured.data(&cookie, pieces());
    let bytes = sent(&mut structured);
    // A chunk of data, and a hole that is the last one.
    assert_eq!(bytes.len(), 20 + 8 + 512 + 20 + 12);
    assert_eq!((bytes[5], bytes[7]), (0, 1));
    assert_eq!((bytes[540 + 5], bytes[540 + 7]), (1, 2));
}

#[test]
fn requests_that_make_no_sense_get_an_error_and_the_next_one_is_served() {
    for (flags, command, offset, length, errno) in [
        (0, 0, 1 << 20, 512, 22_u32), // a read beyond the end
        (0, 0, 1, 512, 22),           // not whole sectors
        (0, 0, 0, 0, 22),             // nothing
        (0, 4, u64::MAX, 512, 22),    // an offset that wraps round
        (0x8000, 0, 0, 512, 22),      // an unknown flag
        (0, 77, 0, 512, 22),          // an unknown command
        (0, 7, 0, 512, 22),           // block status without a context
    ] {
        let mut session = transmission(false);
        session.feed(&request(flags, command, offset, length));
        session.feed(&request(0, 3, 0, 0));
        let next = next(&mut session, &exports());
        assert!(matches!(next, Some((_, Ask::Volume(Action::Flush)))), "{command} {offset}");
        assert_eq!(sent(&mut session)[4..8], errno.to_be_bytes(), "{command} {offset}");
    }
}

#[test]
fn a_client_out_of_step_is_cut_off() {
    let mut session = transmission(true);
    session.feed(&[0x55; 28]);
    assert!(next(&mut session, &exports()).is_none());
    assert!(session.is_over());
    let mut other = Session::new(Security::Given);
    other.feed(&u32::MAX.to_be_bytes());
    assert!(next(&mut other, &exports()).is_none());
    assert!(!other.wants_bytes(), "unknown client flags end the handshake");
}

#[test]
fn unknown_options_and_exports_are_refused_and_the_handshake_goes_on() {
    let mut session = session();
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(option(99, b"whatever"));
    bytes.extend(go("nobody"));
    bytes.extend(option(option::STRUCTURED_REPLY, b"too much"));
    session.feed(&bytes);
    assert!(next(&mut session, &exports()).is_none());
    let replies = sent(&mut session);
    let kinds: Vec<u32> = replies
        .windows(8)
        .enumerate()
        .filter(|(_, magic)| **magic == OPTION_REPLY_MAGIC.to_be_bytes())
        .map(|(at, _)| u32::from_be_bytes(replies[at + 12..at + 16].try_into().expect("four")))
        .collect();
    assert_eq!(kinds, [1 << 31 | 1, 1 << 31 | 6, 1 << 31 | 3]);
    session.feed(&go(""));
    assert!(next(&mut session, &exports()).is_none());
    assert_eq!(session.volume(), Some(7), "the empty name is the first export");
}

#[test]
fn where_encryption_is_wanted_nothing_is_told_before_it_and_all_after_it() {
    let mut session = greeted(Security::Wanted);
    session.feed(&3_u32.to_be_bytes());
    session.feed(&option(option::LIST, &[]));
    session.feed(&go("v0"));
    assert!(next(&mut session, &exports()).is_none());
    let replies = sent(&mut session);
    assert_eq!(replies[12..16], (1_u32 << 31 | 5).to_be_bytes(), "LIST needs encryption");
    assert!(!replies.windows(2).any(|two| two == b"v0"), "no export was named");
    assert_eq!(session.volume(), None);
    session.feed(&option(option::STARTTLS, &[]));
    assert!(next(&mut session, &exports()).is_none());
    assert!(!session.starts_encryption(), "the acknowledgement leaves first");
    assert_eq!(sent(&mut session)[12..16], 1_u32.to_be_bytes());
    assert!(session.starts_encryption() && !session.wants_bytes());
    session.encrypted();
    session.feed(&go("v0"));
    assert!(next(&mut session, &exports()).is_none());
    assert_eq!(session.volume(), Some(7));
}

#[test]
fn words_slipped_in_before_the_encryption_end_the_connection() {
    let mut session = greeted(Security::Wanted);
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    bytes.extend(option(option::STARTTLS, &[]));
    bytes.extend(go("v0"));
    session.feed(&bytes);
    assert!(next(&mut session, &exports()).is_none());
    let _ = sent(&mut session);
    assert!(session.is_over());
}

#[test]
fn a_volume_deleted_while_attached_answers_with_an_error() {
    let mut session = transmission(false);
    session.feed(&request(0, 0, 0, 512));
    assert!(next(&mut session, &[]).is_none());
    assert_eq!(sent(&mut session)[4..8], 108_u32.to_be_bytes());
}

#[test]
fn contexts_that_were_chosen_for_another_export_do_not_count() {
    let mut both = exports();
    both.push(Export { name: "v1".to_string(), volume: 8, size: 1 << 20 });
    let contexts = |name: &str| {
        let mut data = Vec::new();
        data.put_u32(name.len() as u32);
        data.extend_from_slice(name.as_bytes());
        data.put_u32(1);
        data.put_u32(15);
        data.extend_from_slice(b"base:allocation");
        option(option::SET_META_CONTEXT, &data)
    };
    // No such export: what was chosen before is forgotten, too.
    let failed = [contexts("v0"), contexts("v9")].concat();
    for (asked, known) in [(contexts("v0"), true), (contexts("v1"), false), (failed, false)] {
        let mut session = session();
        let mut bytes = 3_u32.to_be_bytes().to_vec();
        bytes.extend(option(option::STRUCTURED_REPLY, &[]));
        bytes.extend(asked);
        bytes.extend(go("v0"));
        bytes.extend(request(0, 7, 0, 4096));
        session.feed(&bytes);
        let status = matches!(next(&mut session, &both), Some((_, Ask::Status { .. })));
        assert_eq!(status, known);
    }
}

#[test]
fn a_client_is_refused_in_words_where_the_protocol_has_them() {
    let refusal = Some("all are in use");
    let mut session = session();
    session.feed(&3_u32.to_be_bytes());
    session.feed(&go("v0"));
    assert!(session.next(&Offer { exports: &exports(), streams: &[], refusal }).is_none());
    let told = sent(&mut session);
    assert_eq!(told[12..16], (1_u32 << 31 | 2).to_be_bytes());
    assert!(told.ends_with(b"all are in use"));
    assert!(session.take_refused() && !session.take_refused());
    session.feed(&option(option::EXPORT_NAME, b"v0"));
    assert!(session.next(&Offer { exports: &exports(), streams: &[], refusal }).is_none());
    assert!(session.take_refused() && session.is_over(), "this option has no way to refuse");
}

/// A client that sent large reads and took no replies had 64 GiB of them kept for it.
#[test]
fn a_request_beyond_the_clients_own_share_waits_for_memory_until_replies_have_left() {
    let exports = [Export { name: "v0".to_string(), volume: 7, size: 1 << 30 }];
    let offer = Offer { exports: &exports, streams: &[], refusal: None };
    let mut session = transmission(false);
    for _ in 0..2 {
        session.feed(&request(0, 0, 0, 256 << 10));
    }
    let (cookie, _) = session.next(&offer).expect("the first is within its own share");
    assert!(session.next(&offer).is_none() && !session.wants_bytes());
    assert_eq!((session.held(), session.lacks()), (256 << 10, 256 << 10));
    let payload = Payload::from(vec![5; 256 << 10]);
    session.data(&cookie, vec![Fragment { at: 0, payload }]);
    assert_eq!(
        (session.lacks(), session.owed()),
        (256 << 10, 256 << 10),
        "the reply is still here"
    );
    session.sent(16 + (192 << 10));
    assert_eq!(session.lacks(), 64 << 10);
    session.grant(64 << 10);
    let (second, _) = session.next(&offer).expect("room was granted");
    assert_eq!((session.surplus(), session.granted()), (0, 64 << 10));
    let _ = sent(&mut session);
    assert_eq!(session.surplus(), 64 << 10);
    session.fail(&second, super::Errno::Io);
    assert_eq!((session.held(), session.moved()), (0, 256 << 10));
}

/// Clients that announced large writes and sent nothing had all memory in turn, for minutes.
#[test]
fn a_write_asks_for_memory_when_its_contents_come() {
    let exports = [Export { name: "v0".to_string(), volume: 7, size: 1 << 30 }];
    let offer = Offer { exports: &exports, streams: &[], refusal: None };
    let mut session = transmission(false);
    session.feed(&request(0, 1, 0, 1 << 20));
    assert!(session.next(&offer).is_none());
    assert!(session.lacks() == 0 && session.wants_bytes(), "it waits for contents, not for memory");
    session.feed(&[1]);
    assert!(session.next(&offer).is_none());
    assert!(session.lacks() > 0 && !session.wants_bytes());
}

#[test]
fn a_write_that_has_begun_goes_on_whatever_the_client_leaves_unread() {
    let exports = [Export { name: "v0".to_string(), volume: 7, size: 1 << 30 }];
    let mut session = transmission(false);
    session.feed(&request(0, 0, 0, 32 << 20));
    session.feed(&request(0, 1, 0, 32 << 20));
    session.feed(&[1]);
    let (read, _) = next(&mut session, &exports).expect("a read");
    assert!(next(&mut session, &exports).is_none());
    let payload = Payload::from(vec![5; 32 << 20]);
    session.data(&read, vec![Fragment { at: 0, payload }]);
    assert!(session.held() == 64 << 20 && session.wants_bytes());
    let mut left = vec![1; (32 << 20) - 1];
    while !left.is_empty() {
        let taken = session.feed(&left);
        left.drain(..taken);
    }
    assert!(matches!(next(&mut session, &exports), Some((_, Ask::Volume(Action::Write { .. })))));
    assert!(!session.wants_bytes(), "it holds all it may");
    session.hang_up();
    assert_eq!(session.held(), 32 << 20, "the write is on its way");
}

#[test]
fn replies_headers_pile_up_to_a_bound() {
    let mut session = session();
    session.feed(&3_u32.to_be_bytes());
    let list = option(option::LIST, &[]).repeat(16 << 10);
    session.feed(&list);
    assert!(session.next(&Offer { exports: &exports(), streams: &[], refusal: None }).is_none());
    assert!(!session.wants_bytes() && sent(&mut session).len() < 300 << 10);
    assert!(session.next(&Offer { exports: &exports(), streams: &[], refusal: None }).is_none());
    assert!(session.has_unsent(), "the rest is answered when there is room");
}

/// Bytes that arrive in the inbox are copied once more.
#[test]
fn contents_of_large_writes_hardly_pass_through_the_inbox() {
    const LARGE: u32 = 512 << 10;
    let mut session = transmission(false);
    let room = |session: &mut Session| session.space().map(|slice| slice.len());
    assert_eq!(room(&mut session), [0, 256 << 10]);
    for _ in 0..2 {
        session.feed(&request(0, 1, 0, LARGE));
        session.feed(&[1]);
        assert!(next(&mut session, &exports()).is_none());
        assert_eq!(room(&mut session), [LARGE as usize - 1, 4 << 10], "into their buffer");
        session.feed(&vec![1; LARGE as usize - 1]);
        let (cookie, _) = next(&mut session, &exports()).expect("a write");
        session.done(&cookie);
        assert_eq!(room(&mut session), [0, 4 << 10], "another one may follow");
    }
    session.feed(&request(0, 0, 0, 512));
    assert!(next(&mut session, &exports()).is_some());
    assert_eq!(room(&mut session), [0, 256 << 10], "small requests come many at a time");
}
