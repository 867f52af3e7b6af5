//! An NBD client that says anything, in pieces of any size: it is answered or cut off.
//!
//! The first byte decides how the rest is cut and whether answers are errors. The handshake up to
//! the choice of an export is put in front of every second input, so that transmission is reached.
#![no_main]

use std::io::IoSlice;
use thermocline_nbd::{Ask, Errno, Export, Extent, Offer, Security, Session};
use thermocline_ports::Payload;
use thermocline_volume::{Action, Fragment};

/// Client flags, STRUCTURED_REPLY, SET_META_CONTEXT of both contexts, GO.
fn handshake() -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    let mut option = |kind: u32, data: &[u8]| {
        bytes.extend(b"IHAVEOPT");
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
    };
    option(8, &[]);
    let mut contexts = [0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 15].to_vec();
    contexts.extend(b"base:allocation");
    contexts.extend([0, 0, 0, 16]);
    contexts.extend(b"thermocline:pool");
    option(10, &contexts);
    option(7, &[0, 0, 0, 0, 0, 0]);
    bytes
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let exports = [Export { name: "v0".to_string(), volume: 0, size: 1 << 30 }];
    let refusal = (how & 0x80 != 0).then_some("all are in use");
    let offer = Offer { exports: &exports, streams: &["mixed", "archival"], refusal };
    let security = if how & 3 == 2 { Security::Wanted } else { Security::Given };
    let mut session = Session::new(security);
    if how & 1 == 1 {
        session.feed(&handshake());
        assert!(session.next(&Offer { refusal: None, ..offer }).is_none());
        assert_eq!(session.volume(), Some(0));
    }
    for piece in rest.chunks(usize::from(how >> 2) + 1) {
        if session.starts_encryption() {
            session.encrypted();
        }
        session.grant(session.lacks());
        if !session.wants_bytes() {
            break;
        }
        assert_eq!(session.feed(piece), piece.len(), "pieces are small");
        while let Some((cookie, ask)) = session.next(&offer) {
            match ask {
                _ if how & 2 == 2 => session.fail(&cookie, Errno::Io),
                Ask::Volume(Action::Read { length, .. }) => {
                    let payload = Payload::Zeroes(length);
                    session.data(&cookie, vec![Fragment { at: 0, payload }]);
                }
                Ask::Status { length, .. } => {
                    session.status(&cookie, &[Extent { length, pool: Some(1) }]);
                }
                Ask::Volume(_) | Ask::Nothing => session.done(&cookie),
            }
        }
        while session.has_unsent() {
            let mut slices = [IoSlice::new(&[]); 64];
            let used = session.unsent(&mut slices);
            let bytes = slices[..used].iter().map(|slice| slice.len()).sum();
            assert!(bytes > 0, "empty replies");
            session.sent(bytes);
        }
        let _ = session.surplus();
    }
});
