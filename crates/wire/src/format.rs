//! Layout of what is sent: HELLO, frames, and their limits. Drawn in `docs/formats/wire.md`.
//!
//! Encoding and decoding only: a frame that decodes has the length, flags and kind of stream number
//! that its type asks for. That it may come now is for `session` to judge. All integers are
//! little-endian.

#![deny(clippy::indexing_slicing, clippy::expect_used)]

use crate::{Role, WireError};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Lowest version of the frames that this end speaks.
pub const VERSION_MIN: u16 = 1;
/// Highest version of the frames that this end speaks.
pub const VERSION_MAX: u16 = 1;
/// Length of a frame without its payload, bytes.
pub const FRAME_HEADER_BYTES: usize = 8;
/// Longest payload of a frame, bytes: no stream holds the line for longer.
pub const FRAME_PAYLOAD_BYTES_MAX: usize = 16 << 10;
/// Length of HELLO without the user's parameters, bytes.
pub const HELLO_BYTES: usize = 44;
/// Most bytes of the user's parameters in HELLO.
pub const PARAMETERS_BYTES_MAX: usize = 4 << 10;
/// Most bytes of a reason to close or to give up, UTF-8.
pub const REASON_BYTES_MAX: usize = 256;
/// Smallest window of a stream, bytes.
pub const WINDOW_BYTES_MIN: u32 = 4 << 10;
/// Largest window of a stream, bytes.
pub const WINDOW_BYTES_MAX: u32 = 1 << 30;
/// Credit that a frame of data costs at least, bytes: what keeping a few bytes costs.
pub const CHARGE_BYTES_MIN: u64 = 128;

const MAGIC: [u8; 4] = *b"THWR";
const END: u8 = 1;

const _: () = assert!(FRAME_PAYLOAD_BYTES_MAX <= u16::MAX as usize, "lengths have 16 bits");
const _: () = assert!(PARAMETERS_BYTES_MAX <= u16::MAX as usize, "lengths have 16 bits");
const _: () = assert!(WINDOW_BYTES_MIN as u64 >= 4 * CHARGE_BYTES_MIN, "half a window has credit");

/// Credit that a frame with so many bytes of data costs.
pub(crate) fn charge(bytes: usize) -> u64 {
    if bytes == 0 { 0 } else { (bytes as u64).max(CHARGE_BYTES_MIN) }
}

/// First words of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) versions: (u16, u16),
    pub(crate) epoch: [u8; 16],
    pub(crate) window_floor: u32,
    pub(crate) window_max: u32,
    pub(crate) streams_max: u32,
    pub(crate) header_bytes_max: u32,
    pub(crate) role: Role,
    pub(crate) parameters: Bytes,
}

impl Hello {
    /// Length as it is sent, bytes.
    pub(crate) fn encoded_bytes(&self) -> usize {
        HELLO_BYTES + self.parameters.len()
    }

    /// Appends it to `out`.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_slice(&MAGIC);
        out.put_u16_le(self.versions.0);
        out.put_u16_le(self.versions.1);
        out.put_slice(&self.epoch);
        out.put_u32_le(self.window_floor);
        out.put_u32_le(self.window_max);
        out.put_u32_le(self.streams_max);
        out.put_u32_le(self.header_bytes_max);
        out.put_u16_le(self.parameters.len() as u16);
        out.put_u16_le(role_number(self.role));
        out.put_slice(&self.parameters);
    }

    /// Length of the whole HELLO that begins with `start`, as far as that can be told; more bytes
    /// are needed for `None`.
    ///
    /// # Errors
    /// The bytes are of another protocol, or announce too much.
    pub(crate) fn length_of(start: &[u8]) -> Result<Option<usize>, WireError> {
        let wrong = start.iter().zip(MAGIC).position(|(found, magic)| *found != magic);
        if let Some(at) = wrong {
            return Err(WireError::Stranger {
                found: start.iter().take(at + 1).copied().collect(),
            });
        }
        let Some(mut rest) = start.get(40..HELLO_BYTES) else { return Ok(None) };
        let length = usize::from(rest.get_u16_le());
        in_range("length of parameters", length as u64, 0, PARAMETERS_BYTES_MAX as u64)?;
        Ok(Some(HELLO_BYTES + length))
    }

    /// Reads a whole HELLO, whose length [`Hello::length_of`] told.
    ///
    /// # Errors
    /// A field is out of its range.
    pub(crate) fn decode(mut bytes: Bytes) -> Result<Hello, WireError> {
        bytes.advance(MAGIC.len());
        let versions = (bytes.get_u16_le(), bytes.get_u16_le());
        let mut epoch = [0; 16];
        bytes.copy_to_slice(&mut epoch);
        let (window_floor, window_max) = (bytes.get_u32_le(), bytes.get_u32_le());
        let (streams_max, header_bytes_max) = (bytes.get_u32_le(), bytes.get_u32_le());
        bytes.advance(2);
        let role = bytes.get_u16_le();
        in_range("highest version", versions.1.into(), versions.0.into(), u16::MAX.into())?;
        in_range("window", window_floor.into(), WINDOW_BYTES_MIN.into(), WINDOW_BYTES_MAX.into())?;
        let (floor, most) = (window_floor.into(), WINDOW_BYTES_MAX.into());
        in_range("largest window", window_max.into(), floor, most)?;
        in_range("number of streams", streams_max.into(), 1, u32::MAX.into())?;
        in_range("length of headers", header_bytes_max.into(), 0, FRAME_PAYLOAD_BYTES_MAX as u64)?;
        in_range("role", role.into(), 1, 2)?;
        let role = if role == 1 { Role::Connector } else { Role::Acceptor };
        let parameters = bytes;
        Ok(Hello {
            versions,
            epoch,
            window_floor,
            window_max,
            streams_max,
            header_bytes_max,
            role,
            parameters,
        })
    }
}

/// Number of a role in HELLO.
pub(crate) fn role_number(role: Role) -> u16 {
    match role {
        Role::Connector => 1,
        Role::Acceptor => 2,
    }
}

/// Highest version that both ends speak.
///
/// # Errors
/// There is none.
pub(crate) fn common_version(ours: (u16, u16), theirs: (u16, u16)) -> Result<u16, WireError> {
    let (least, most) = (ours.0.max(theirs.0), ours.1.min(theirs.1));
    if least <= most { Ok(most) } else { Err(WireError::Versions { ours, theirs }) }
}

fn in_range(field: &'static str, found: u64, least: u64, most: u64) -> Result<(), WireError> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(WireError::Hello { field, found, expected: format!("{least} to {most}") })
}

/// Type of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Open,
    Data,
    Credit,
    Reset,
    Closed,
    Ping,
    Pong,
    Closing,
    Abort,
}

/// A type of frame: its number, name, shortest and longest payload, and whether it is of a stream.
struct Shape(Kind, u8, &'static str, usize, usize, bool);

const SHAPES: [Shape; 9] = [
    Shape(Kind::Open, 1, "OPEN", 0, FRAME_PAYLOAD_BYTES_MAX, true),
    Shape(Kind::Data, 2, "DATA", 0, FRAME_PAYLOAD_BYTES_MAX, true),
    Shape(Kind::Credit, 3, "CREDIT", 4, 4, true),
    Shape(Kind::Reset, 4, "RESET", 4, 4, true),
    Shape(Kind::Closed, 5, "CLOSED", 0, 0, true),
    Shape(Kind::Ping, 6, "PING", 8, 8, false),
    Shape(Kind::Pong, 7, "PONG", 8, 8, false),
    Shape(Kind::Closing, 8, "CLOSING", 4, 4 + REASON_BYTES_MAX, false),
    Shape(Kind::Abort, 9, "ABORT", 0, REASON_BYTES_MAX, false),
];

impl Kind {
    #[expect(clippy::indexing_slicing, reason = "every kind has its shape")]
    fn shape(self) -> &'static Shape {
        &SHAPES[self as usize]
    }

    /// Name, for messages.
    pub(crate) fn name(self) -> &'static str {
        self.shape().2
    }
}

/// First 8 bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: Kind,
    /// DATA only: nothing follows in this direction.
    pub(crate) end: bool,
    /// Number of the stream; 0 for frames of the connection.
    pub(crate) stream: u32,
    /// Length of the payload, bytes.
    pub(crate) length: usize,
}

impl FrameHeader {
    /// Appends it to `out`.
    ///
    /// # Panics
    /// When the length is none of its type.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let shape = self.kind.shape();
        assert!((shape.3..=shape.4).contains(&self.length), "a length that its type has not");
        out.put_u16_le(self.length as u16);
        out.put_u8(shape.1);
        out.put_u8(if self.end { END } else { 0 });
        out.put_u32_le(self.stream);
    }

    /// Reads one.
    ///
    /// # Errors
    /// The type is none, or has no such flags, length or stream.
    pub(crate) fn decode(bytes: [u8; FRAME_HEADER_BYTES]) -> Result<FrameHeader, WireError> {
        let mut rest = &bytes[..];
        let length = usize::from(rest.get_u16_le());
        let (number, flags, stream) = (rest.get_u8(), rest.get_u8(), rest.get_u32_le());
        let broken = |frame, found: String, expected: &str| {
            Err(WireError::Broken { frame, stream, found, expected: expected.to_string() })
        };
        let Some(shape) = SHAPES.iter().find(|shape| shape.1 == number) else {
            return broken("unknown", format!("type {number}"), "types 1 to 9");
        };
        let &Shape(kind, _, name, shortest, longest, of_stream) = shape;
        let end = kind == Kind::Data && flags == END;
        if flags != 0 && !end {
            return broken(name, format!("flags {flags:#x}"), "flags that its type has");
        }
        if !(shortest..=longest).contains(&length) {
            let found = format!("{length} bytes of payload");
            return broken(name, found, &format!("{shortest} to {longest}"));
        }
        if of_stream != (stream != 0) {
            let expected = if of_stream { "the number of a stream" } else { "stream 0" };
            return broken(name, format!("number {stream}"), expected);
        }
        if kind == Kind::Data && length == 0 && !end {
            return broken(name, "no bytes and no end".to_string(), "one of both");
        }
        Ok(FrameHeader { kind, end, stream, length })
    }
}

/// A frame as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Open { stream: u32, header: Bytes },
    Data { stream: u32, bytes: Bytes, end: bool },
    Credit { stream: u32, bytes: u32 },
    Reset { stream: u32, code: u32 },
    Closed { stream: u32 },
    Ping { value: u64 },
    Pong { value: u64 },
    Closing { code: u32, reason: String },
    Abort { reason: String },
}

impl Frame {
    /// Reads the payload of a frame with this header.
    ///
    /// # Errors
    /// Text that is not UTF-8.
    pub(crate) fn decode(header: FrameHeader, mut payload: Bytes) -> Result<Frame, WireError> {
        assert_eq!(payload.len(), header.length, "the payload is whole");
        let stream = header.stream;
        let text = |bytes: Bytes| {
            String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Broken {
                frame: header.kind.name(),
                stream,
                found: "a reason that is no text".to_string(),
                expected: "UTF-8".to_string(),
            })
        };
        Ok(match header.kind {
            Kind::Open => Frame::Open { stream, header: payload },
            Kind::Data => Frame::Data { stream, bytes: payload, end: header.end },
            Kind::Credit => Frame::Credit { stream, bytes: payload.get_u32_le() },
            Kind::Reset => Frame::Reset { stream, code: payload.get_u32_le() },
            Kind::Closed => Frame::Closed { stream },
            Kind::Ping => Frame::Ping { value: payload.get_u64_le() },
            Kind::Pong => Frame::Pong { value: payload.get_u64_le() },
            Kind::Closing => Frame::Closing { code: payload.get_u32_le(), reason: text(payload)? },
            Kind::Abort => Frame::Abort { reason: text(payload)? },
        })
    }
}

/// The beginning of `reason` that fits a frame.
pub(crate) fn shortened(reason: &str) -> &str {
    &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]
}
