//! The layout of segments, control messages and what ends tell each other first. Drawn in
//! `docs/formats/tunnel.md`.
//!
//! All integers are little-endian; `varint` is LEB128 of at most ten bytes. Everything read here
//! was sent by the other end, which is authenticated and still not believed: every length has a
//! limit with a name, and what breaks a rule is a [`FormatError`].

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::store::{CHUNK_BYTES_MAX, Name, Owner};
use bytes::{Buf, Bytes};

/// Bytes of a flow that one segment stands for, at most.
pub const SEGMENT_BYTES_MAX: usize = 512 * 1024;
/// Bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: usize = 20;
/// Bytes of a token at most: two varints.
pub(crate) const TOKEN_BYTES_MAX: usize = 20;
/// Tokens of a segment, at most.
pub(crate) const TOKENS_MAX: usize = u16::MAX as usize;
/// Bytes of a control message's header.
pub(crate) const CONTROL_HEADER_BYTES: usize = 5;
/// Bytes of a control message behind its header, at most: a fill with the longest chunk.
pub(crate) const CONTROL_BYTES_MAX: usize = SEGMENT_BYTES_MAX + 64;

const _: () = assert!(SEGMENT_BYTES_MAX <= CHUNK_BYTES_MAX);

/// Bytes that the other end must not send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A number that is too long, or bytes that end inside a field.
    #[error("{what} ends early or is no number of at most ten bytes")]
    Truncated {
        /// The part that was read.
        what: &'static str,
    },
    /// A value that is not allowed.
    #[error("{what} is {value}, which must be {expected}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The values allowed.
        expected: &'static str,
    },
    /// Literals that cannot be decompressed to the length that was told.
    #[error("literals of {stored} bytes do not decompress to {expected}")]
    Literals {
        /// Bytes that came.
        stored: usize,
        /// Bytes that they stand for.
        expected: usize,
    },
}

/// Storage of a segment's literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// The bytes as they are.
    Plain,
    /// One zstd frame.
    Zstd,
}

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Bytes of the flow that it stands for, 1 to [`SEGMENT_BYTES_MAX`].
    pub(crate) bytes: u32,
    /// Length of the tokens.
    pub(crate) tokens_length: u32,
    /// Length of the literals as stored.
    pub(crate) literals_length: u32,
    /// CRC-32C of the bytes that it stands for.
    pub(crate) check: u32,
    /// Number of tokens, 1 or more.
    pub(crate) tokens: u16,
    /// Storage of the literals.
    pub(crate) codec: Codec,
}

impl SegmentHeader {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.bytes.to_le_bytes());
        out.extend(self.tokens_length.to_le_bytes());
        out.extend(self.literals_length.to_le_bytes());
        out.extend(self.check.to_le_bytes());
        out.extend(self.tokens.to_le_bytes());
        out.push(match self.codec {
            Codec::Plain => 0,
            Codec::Zstd => 1,
        });
        out.push(0);
    }

    /// Reads a header and holds its lengths against their limits.
    pub(crate) fn read(mut from: &[u8]) -> Result<SegmentHeader, FormatError> {
        if from.len() < SEGMENT_HEADER_BYTES {
            return Err(FormatError::Truncated { what: "a segment's header" });
        }
        let (bytes, tokens_length) = (from.get_u32_le(), from.get_u32_le());
        let (literals_length, check) = (from.get_u32_le(), from.get_u32_le());
        let tokens = from.get_u16_le();
        let codec = match from.get_u8() {
            0 => Codec::Plain,
            1 => Codec::Zstd,
            other => return Err(value("a segment's codec", other.into(), "0 or 1")),
        };
        let reserved = from.get_u8();
        let within = |what, length: u32, most: usize, expected| {
            let is_within = (length as usize) <= most;
            if is_within { Ok(()) } else { Err(value(what, length.into(), expected)) }
        };
        if reserved != 0 {
            return Err(value("a segment's last byte", reserved.into(), "0"));
        }
        if bytes == 0 || tokens == 0 {
            return Err(value("a segment's length or number of tokens", 0, "1 or more"));
        }
        within("a segment's length", bytes, SEGMENT_BYTES_MAX, "512 KiB or less")?;
        let tokens_max = usize::from(tokens) * TOKEN_BYTES_MAX;
        within("the length of tokens", tokens_length, tokens_max, "20 or less for each token")?;
        // Literals that do not get shorter are sent plain.
        within("the length of literals", literals_length, bytes as usize, "the segment's or less")?;
        Ok(SegmentHeader { bytes, tokens_length, literals_length, check, tokens, codec })
    }

    /// Bytes behind the header.
    pub(crate) fn body_length(&self) -> usize {
        self.tokens_length as usize + self.literals_length as usize
    }
}

/// One chunk of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// Its bytes are among the literals, and both ends keep it under this number of the sender's.
    Literal { length: u32, number: u64 },
    /// The other end has it.
    Reference { length: u32, name: Name },
    /// Its bytes are among the literals, and nobody keeps it.
    Plain { length: u32 },
}

impl Token {
    pub(crate) fn length(&self) -> u32 {
        match *self {
            Token::Literal { length, .. }
            | Token::Reference { length, .. }
            | Token::Plain { length } => length,
        }
    }

    /// The name of a reference.
    pub(crate) fn name(&self) -> Option<Name> {
        match *self {
            Token::Reference { name, .. } => Some(name),
            Token::Literal { .. } | Token::Plain { .. } => None,
        }
    }
}

/// The numbers that the next ones are told relative to: those that came last on a flow, plus one.
/// Chunks mostly follow each other, so most differences are zero.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Expected {
    literal: u64,
    ours: u64,
    theirs: u64,
}

const KIND_LITERAL: u64 = 0;
const KIND_SENDERS: u64 = 1;
const KIND_RECEIVERS: u64 = 2;
const KIND_PLAIN: u64 = 3;

impl Expected {
    /// Writes a token as its sender sees it.
    pub(crate) fn write(&mut self, token: &Token, out: &mut Vec<u8>) {
        let length = u64::from(token.length()) << 2;
        match *token {
            Token::Plain { .. } => put_varint(length | KIND_PLAIN, out),
            Token::Literal { number, .. } => {
                put_varint(length | KIND_LITERAL, out);
                put_varint(difference(&mut self.literal, number), out);
            }
            Token::Reference { name, .. } => {
                let (kind, expected) = match name.owner {
                    Owner::Us => (KIND_SENDERS, &mut self.ours),
                    Owner::Peer => (KIND_RECEIVERS, &mut self.theirs),
                };
                put_varint(length | kind, out);
                put_varint(difference(expected, name.number), out);
            }
        }
    }

    /// Reads a token as its receiver sees it: what the sender calls its own is the peer's here.
    pub(crate) fn read(&mut self, from: &mut &[u8]) -> Result<Token, FormatError> {
        let first = get_varint(from, "a token")?;
        let length = first >> 2;
        if length == 0 || length > SEGMENT_BYTES_MAX as u64 {
            return Err(value("a chunk's length", length, "1 to 524288"));
        }
        let length = length as u32;
        let number = |expected: &mut u64, from: &mut &[u8]| {
            sum(expected, get_varint(from, "a chunk's number")?)
        };
        Ok(match first & 3 {
            KIND_LITERAL => Token::Literal { length, number: number(&mut self.literal, from)? },
            KIND_SENDERS => {
                let number = number(&mut self.ours, from)?;
                Token::Reference { length, name: Name { owner: Owner::Peer, number } }
            }
            KIND_RECEIVERS => {
                let number = number(&mut self.theirs, from)?;
                Token::Reference { length, name: Name { owner: Owner::Us, number } }
            }
            _ => Token::Plain { length },
        })
    }
}

/// A message between the ends that belongs to no flow's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    /// The receiver has all bytes of a flow's segments up to this count.
    Complete { flow: u32, segments: u64 },
    /// The receiver does not hold these chunks of a segment.
    Missing { flow: u32, segment: u64, tokens: Vec<u16> },
    /// The bytes of a chunk that was missing.
    Fill { flow: u32, segment: u64, token: u16, bytes: Bytes },
    /// The flow was reset at the sender. Its stream may have been over, and could not say so.
    Dropped { flow: u32, code: u32 },
}

impl Control {
    /// The message but for a fill's bytes, which follow it.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(32);
        let (kind, extra) = match self {
            Control::Complete { flow, segments } => {
                put_varint(u64::from(*flow), &mut body);
                put_varint(*segments, &mut body);
                (1, 0)
            }
            Control::Missing { flow, segment, tokens } => {
                put_varint(u64::from(*flow), &mut body);
                put_varint(*segment, &mut body);
                for &token in tokens {
                    put_varint(u64::from(token), &mut body);
                }
                (2, 0)
            }
            Control::Fill { flow, segment, token, bytes } => {
                put_varint(u64::from(*flow), &mut body);
                put_varint(*segment, &mut body);
                put_varint(u64::from(*token), &mut body);
                (3, bytes.len())
            }
            Control::Dropped { flow, code } => {
                put_varint(u64::from(*flow), &mut body);
                put_varint(u64::from(*code), &mut body);
                (4, 0)
            }
        };
        let length = (body.len() + extra) as u32;
        let mut head = vec![kind];
        head.extend(length.to_le_bytes());
        head.extend(body);
        head
    }

    /// Length of the body of the message that begins with these bytes; `None` when the header is
    /// not all there.
    pub(crate) fn body_length(from: &[u8]) -> Result<Option<usize>, FormatError> {
        let Some(header) = from.first_chunk::<CONTROL_HEADER_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
        if length as usize > CONTROL_BYTES_MAX {
            return Err(value("a control message's length", length.into(), "512 KiB or less"));
        }
        Ok(Some(length as usize))
    }

    /// Reads a whole message.
    pub(crate) fn read(message: &Bytes) -> Result<Control, FormatError> {
        let whole = message.split_first_chunk::<CONTROL_HEADER_BYTES>();
        let Some((&[kind, ..], mut rest)) = whole else {
            return Err(FormatError::Truncated { what: "a control message" });
        };
        let flow = get_varint(&mut rest, "a control message's flow")?;
        let flow = u32::try_from(flow)
            .map_err(|_| value("a control message's flow", flow, "below 2^32"))?;
        let segment = get_varint(&mut rest, "a control message's segment")?;
        match kind {
            1 if rest.is_empty() => Ok(Control::Complete { flow, segments: segment }),
            4 if rest.is_empty() => {
                let code = u32::try_from(segment)
                    .map_err(|_| value("the code of a reset", segment, "below 2^32"))?;
                Ok(Control::Dropped { flow, code })
            }
            2 => {
                let mut tokens = Vec::new();
                while !rest.is_empty() {
                    tokens.push(token_index(&mut rest)?);
                }
                Ok(Control::Missing { flow, segment, tokens })
            }
            3 => {
                let token = token_index(&mut rest)?;
                Ok(Control::Fill { flow, segment, token, bytes: message.slice_ref(rest) })
            }
            1 | 4 => Err(value("bytes behind a message", rest.len() as u64, "0")),
            other => Err(value("a control message's kind", other.into(), "1 to 4")),
        }
    }
}

fn token_index(from: &mut &[u8]) -> Result<u16, FormatError> {
    let index = get_varint(from, "a token's index")?;
    u16::try_from(index).map_err(|_| value("a token's index", index, "below 65536"))
}

pub(crate) fn value(what: &'static str, value: u64, expected: &'static str) -> FormatError {
    FormatError::Value { what, value, expected }
}

/// Zigzag of `number − expected`, and what is expected next.
fn difference(expected: &mut u64, number: u64) -> u64 {
    let difference = number.wrapping_sub(*expected) as i64;
    *expected = number + 1;
    ((difference << 1) ^ (difference >> 63)) as u64
}

fn sum(expected: &mut u64, zigzag: u64) -> Result<u64, FormatError> {
    let difference = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
    let number = expected.wrapping_add(difference as u64);
    if number >= 1 << 62 {
        return Err(value("a chunk's number", number, "below 2^62"));
    }
    *expected = number + 1;
    Ok(number)
}

pub(crate) fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(crate) fn get_varint(from: &mut &[u8], what: &'static str) -> Result<u64, FormatError> {
    let mut number = 0_u64;
    for (at, &byte) in from.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7F);
        if at == 9 && bits > 1 {
            break;
        }
        number |= bits << (7 * at);
        if byte & 0x80 == 0 {
            *from = from.get(at + 1..).unwrap_or_default();
            return Ok(number);
        }
    }
    Err(FormatError::Truncated { what })
}
