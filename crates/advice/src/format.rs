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

// Kinds, as they stand in byte 6.
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
        put(&mut bytes, 4, &VERSION.to_le_bytes());
        put(&mut bytes, 8, &self.offset.to_le_bytes());
        put(&mut bytes, 16, &self.length.to_le_bytes());
        put(&mut bytes, 24, &self.unsent.to_le_bytes());
        let (kind, value) = match self.said {
            Said::Advice(advice) => (ADVICE, advice as u32),
            Said::ReadAhead => (READ_AHEAD, 0),
            Said::Life(life) => (LIFE, life as u32),
            Said::Priority(class) => (PRIORITY, class as u32),
            Said::Hint(hint) => {
                put(&mut bytes, 32, &hint.stream.to_le_bytes());
                put(&mut bytes, 34, &[hint.usage, hint.life]);
                put(&mut bytes, 36, &hint.background_ms.to_le_bytes());
                put(&mut bytes, 40, &hint.expires_ms.to_le_bytes());
                (HINT, hint.flags())
            }
        };
        put(&mut bytes, 6, &kind.to_le_bytes());
        put(&mut bytes, 28, &value.to_le_bytes());
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
        let version = u16::from_le_bytes(get(bytes, 4));
        if version != VERSION {
            return Err(DatagramError::Version(version));
        }
        let said = said(bytes)?;
        let used = if matches!(said, Said::Hint(_)) { 48 } else { 32 };
        if let Some(at) = (used..DATAGRAM_BYTES).find(|&at| get(bytes, at) != [0]) {
            return Err(DatagramError::Field(at));
        }
        Ok(Datagram {
            offset: u64::from_le_bytes(get(bytes, 8)),
            length: u64::from_le_bytes(get(bytes, 16)),
            unsent: u32::from_le_bytes(get(bytes, 24)),
            said,
        })
    }
}

fn said(bytes: &[u8; DATAGRAM_BYTES]) -> Result<Said, DatagramError> {
    let value = u32::from_le_bytes(get(bytes, 28));
    let wrong = DatagramError::Field(28);
    match u16::from_le_bytes(get(bytes, 6)) {
        ADVICE => Advice::numbered(value).map(Said::Advice).ok_or(wrong),
        READ_AHEAD if value == 0 => Ok(Said::ReadAhead),
        LIFE if value <= u32::from(LIFE_MAX) => Ok(Said::Life(value as u8)),
        PRIORITY => Priority::numbered(value).map(Said::Priority).ok_or(wrong),
        HINT => {
            let hint = Hint {
                stream: u16::from_le_bytes(get(bytes, 32)),
                usage: u8::from_le_bytes(get(bytes, 34)),
                life: u8::from_le_bytes(get(bytes, 35)),
                background_ms: u32::from_le_bytes(get(bytes, 36)),
                expires_ms: u64::from_le_bytes(get(bytes, 40)),
                ..Hint::default()
            };
            let hint = hint.with_flags(value).ok_or(wrong)?;
            if hint.is_sound() { Ok(Said::Hint(hint)) } else { Err(DatagramError::Field(34)) }
        }
        READ_AHEAD | LIFE => Err(wrong),
        _ => Err(DatagramError::Field(6)),
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
