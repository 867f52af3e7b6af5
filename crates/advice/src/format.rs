//! The bytes of a datagram, little-endian. Drawn in docs/formats/advice.md.
//!
//! Encoding allocates nothing and cannot fail. No bytes make decoding panic.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use super::{Advice, Datagram, DatagramError, Hint, LIFE_MAX, Priority, Said};

/// Length of every datagram, bytes.
pub const DATAGRAM_BYTES: usize = 64;
/// The version of this layout.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"THAD";
const VERSION_AT: usize = 4;
const KIND_AT: usize = 6;
const OFFSET_AT: usize = 8;
const LENGTH_AT: usize = 16;
const UNSENT_AT: usize = 24;
const VALUE_AT: usize = 28;
/// First byte that only hints use.
const HINT_AT: usize = 32;
const STREAM_AT: usize = HINT_AT;
const USAGE_AT: usize = 34;
const LIFE_AT: usize = 35;
const BACKGROUND_AT: usize = 36;
const EXPIRES_AT: usize = 40;
/// First byte that nothing uses.
const UNUSED_AT: usize = 48;

const _: () = {
    assert!(MAGIC.len() == VERSION_AT && VERSION_AT + 2 == KIND_AT && KIND_AT + 2 == OFFSET_AT);
    assert!(OFFSET_AT + 8 == LENGTH_AT && LENGTH_AT + 8 == UNSENT_AT && UNSENT_AT + 4 == VALUE_AT);
    assert!(VALUE_AT + 4 == HINT_AT, "what all datagrams have is one after the other");
    assert!(STREAM_AT + 2 == USAGE_AT && USAGE_AT + 1 == LIFE_AT && LIFE_AT + 1 == BACKGROUND_AT);
    assert!(BACKGROUND_AT + 4 == EXPIRES_AT && EXPIRES_AT + 8 == UNUSED_AT, "and what hints have");
    assert!(UNUSED_AT + 16 == DATAGRAM_BYTES, "16 bytes are zero");
};

// Kinds, as they stand at `KIND_AT`.
const ADVICE: u16 = 1;
const READ_AHEAD: u16 = 2;
const LIFE: u16 = 3;
const PRIORITY: u16 = 4;
const HINT: u16 = 5;

impl Datagram {
    /// The bytes to send.
    pub const fn encode(&self) -> [u8; DATAGRAM_BYTES] {
        let mut bytes = [0; DATAGRAM_BYTES];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, VERSION_AT, &VERSION.to_le_bytes());
        put(&mut bytes, OFFSET_AT, &self.offset.to_le_bytes());
        put(&mut bytes, LENGTH_AT, &self.length.to_le_bytes());
        put(&mut bytes, UNSENT_AT, &self.unsent.to_le_bytes());
        let (kind, value) = match self.said {
            Said::Advice(advice) => (ADVICE, advice as u32),
            Said::ReadAhead => (READ_AHEAD, 0),
            Said::Life(life) => (LIFE, life as u32),
            Said::Priority(class) => (PRIORITY, class as u32),
            Said::Hint(hint) => {
                put(&mut bytes, STREAM_AT, &hint.stream.to_le_bytes());
                put(&mut bytes, USAGE_AT, &[hint.usage, hint.life]);
                put(&mut bytes, BACKGROUND_AT, &hint.background_ms.to_le_bytes());
                put(&mut bytes, EXPIRES_AT, &hint.expires_ms.to_le_bytes());
                (HINT, hint.flags())
            }
        };
        put(&mut bytes, KIND_AT, &kind.to_le_bytes());
        put(&mut bytes, VALUE_AT, &value.to_le_bytes());
        bytes
    }

    /// Decodes a datagram.
    ///
    /// # Errors
    /// When it is not a datagram of this version to the last bit.
    pub fn decode(bytes: &[u8]) -> Result<Datagram, DatagramError> {
        let length = DatagramError::Length(bytes.len());
        let bytes: &[u8; DATAGRAM_BYTES] = bytes.try_into().map_err(|_| length)?;
        if get(bytes, 0) != MAGIC {
            return Err(DatagramError::Magic);
        }
        let version = u16::from_le_bytes(get(bytes, VERSION_AT));
        if version != VERSION {
            return Err(DatagramError::Version(version));
        }
        let said = said(bytes)?;
        let used = if matches!(said, Said::Hint(_)) { UNUSED_AT } else { HINT_AT };
        if let Some(at) = (used..DATAGRAM_BYTES).find(|&at| get(bytes, at) != [0]) {
            return Err(DatagramError::Field(at));
        }
        Ok(Datagram {
            offset: u64::from_le_bytes(get(bytes, OFFSET_AT)),
            length: u64::from_le_bytes(get(bytes, LENGTH_AT)),
            unsent: u32::from_le_bytes(get(bytes, UNSENT_AT)),
            said,
        })
    }
}

fn said(bytes: &[u8; DATAGRAM_BYTES]) -> Result<Said, DatagramError> {
    let value = u32::from_le_bytes(get(bytes, VALUE_AT));
    let wrong = DatagramError::Field(VALUE_AT);
    match u16::from_le_bytes(get(bytes, KIND_AT)) {
        ADVICE => Advice::numbered(value).map(Said::Advice).ok_or(wrong),
        READ_AHEAD if value == 0 => Ok(Said::ReadAhead),
        LIFE if value <= u32::from(LIFE_MAX) => Ok(Said::Life(value as u8)),
        PRIORITY => Priority::numbered(value).map(Said::Priority).ok_or(wrong),
        HINT => {
            let hint = Hint {
                stream: u16::from_le_bytes(get(bytes, STREAM_AT)),
                usage: u8::from_le_bytes(get(bytes, USAGE_AT)),
                life: u8::from_le_bytes(get(bytes, LIFE_AT)),
                background_ms: u32::from_le_bytes(get(bytes, BACKGROUND_AT)),
                expires_ms: u64::from_le_bytes(get(bytes, EXPIRES_AT)),
                ..Hint::default()
            };
            let hint = hint.with_flags(value).ok_or(wrong)?;
            if hint.is_sound() { Ok(Said::Hint(hint)) } else { Err(DatagramError::Field(USAGE_AT)) }
        }
        READ_AHEAD | LIFE => Err(wrong),
        _ => Err(DatagramError::Field(KIND_AT)),
    }
}

/// Writes `field` at `at`.
const fn put(bytes: &mut [u8; DATAGRAM_BYTES], at: usize, field: &[u8]) {
    let (_, rest) = bytes.split_at_mut(at);
    rest.split_at_mut(field.len()).0.copy_from_slice(field);
}

/// The bytes at `at`; zeroes where they would lie beyond the datagram, which no field does.
fn get<const N: usize>(bytes: &[u8; DATAGRAM_BYTES], at: usize) -> [u8; N] {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
    debug_assert!(field.is_some(), "every field lies within the datagram");
    field.copied().unwrap_or([0; N])
}
