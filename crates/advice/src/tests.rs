//! Every kind survives the way; nothing else gets through.

use super::*;
use proptest::prelude::*;

fn said() -> impl Strategy<Value = Said> {
    let hint = (0..16_u32, any::<u16>(), 0..=USAGE_MAX, 0..=LIFE_MAX, 0..=BACKGROUND_MS_MAX);
    let hint = (hint, any::<u64>()).prop_map(|((flags, stream, usage, life, wait), expires_ms)| {
        let hint = Hint { stream, usage, life, background_ms: wait, expires_ms, ..Hint::default() };
        Said::Hint(hint.with_flags(flags).unwrap())
    });
    prop_oneof![
        (0..6_u32).prop_map(|number| Said::Advice(Advice::numbered(number).unwrap())),
        Just(Said::ReadAhead),
        (0..=LIFE_MAX).prop_map(Said::Life),
        (0..4_u32).prop_map(|number| Said::Priority(Priority::numbered(number).unwrap())),
        hint,
    ]
}

fn datagram() -> impl Strategy<Value = Datagram> {
    (any::<u64>(), any::<u64>(), any::<u32>(), said())
        .prop_map(|(offset, length, unsent, said)| Datagram { offset, length, unsent, said })
}

proptest! {
    #[test]
    fn what_is_sent_arrives(datagram in datagram()) {
        prop_assert_eq!(Datagram::decode(&datagram.encode()), Ok(datagram));
    }

    #[test]
    fn a_flipped_byte_is_refused_or_says_exactly_what_it_holds(
        datagram in datagram(), at in 0..DATAGRAM_BYTES, with in 1..=255_u8,
    ) {
        let mut bytes = datagram.encode();
        bytes[at] ^= with;
        if let Ok(other) = Datagram::decode(&bytes) {
            prop_assert_eq!(other.encode(), bytes);
            prop_assert_ne!(other, datagram);
        }
    }
}

#[test]
fn another_length_is_refused() {
    let whole = Datagram { offset: 1, length: 2, unsent: 3, said: Said::ReadAhead }.encode();
    for length in 0..DATAGRAM_BYTES {
        assert_eq!(Datagram::decode(&whole[..length]), Err(DatagramError::Length(length)));
    }
    let longer = [whole.as_slice(), &[0]].concat();
    assert_eq!(Datagram::decode(&longer), Err(DatagramError::Length(65)));
}

/// The layout of version 1, written out by hand: what libraries that are out there send.
#[test]
fn version_1_is_read_as_it_was_written() {
    let mut bytes = Vec::from(*b"THAD\x01\x00\x05\x00");
    bytes.extend([0x00, 0x10, 0, 0, 0, 0, 0, 0]); // offset
    bytes.extend([0x00, 0x20, 0, 0, 0, 0, 0, 0]); // length
    bytes.extend([3, 0, 0, 0, 0b1010, 0, 0, 0]); // unsent; pin, prefetch
    bytes.extend([7, 0, 2, 5, 0xf4, 1, 0, 0]); // stream, write-intensive, extreme, 500 ms
    bytes.extend([0x60, 0xea, 0, 0, 0, 0, 0, 0]); // a minute
    bytes.extend([0; 16]);
    let hint = Hint {
        pin: true,
        prefetch: true,
        stream: 7,
        usage: 2,
        life: 5,
        background_ms: 500,
        expires_ms: 60_000,
        ..Hint::default()
    };
    let wanted = Datagram { offset: 4096, length: 8192, unsent: 3, said: Said::Hint(hint) };
    assert_eq!(Datagram::decode(&bytes), Ok(wanted));
    bytes[4] = 2;
    assert_eq!(Datagram::decode(&bytes), Err(DatagramError::Version(2)));
    bytes[0] = 0;
    assert_eq!(Datagram::decode(&bytes), Err(DatagramError::Magic));
}
