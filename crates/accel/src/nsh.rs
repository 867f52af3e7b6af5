//! Tags on the wire: the Network Service Header (RFC 8300, Quinn et al. 2018) without metadata.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+-+-----------+-----------+-------+-------+---------------+
//! |Ver|O|U|    TTL    |  Length   |U|U|U|U|MD Type| Next protocol |  base header
//! +---+-+-+-----------+-----------+-------+-------+---------------+
//! |           Service path identifier (tag)       | Service index |  service path header
//! +-----------------------------------------------+---------------+
//! ```
//!
//! Written: version 0, TTL 63, length 2 (words of 4 bytes), MD type 2, which may have no metadata.
//! Read: MD types 1 and 2 of any length that is there; metadata is passed over. Bits that the
//! standard leaves unassigned are ignored, as it says.
#![deny(clippy::indexing_slicing, clippy::expect_used)]

/// Bytes of a header as it is written here.
pub const HEADER_BYTES: usize = 8;

/// The largest tag: 24 bits.
pub const PATH_MAX: u32 = (1 << 24) - 1;

/// TTL of a header that begins its way (RFC 8300 §2.2).
const TTL_FIRST: u8 = 63;
const MD_TYPE_FIXED: u8 = 1;
const MD_TYPE_VARIABLE: u8 = 2;
/// Length of MD type 1, in words: two of headers, four of metadata.
const WORDS_FIXED: usize = 6;
const WORDS_MIN: usize = 2;
const WORD_BYTES: usize = 4;

/// Protocol of what stands behind a header (RFC 8300 §2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// An IPv4 packet.
    Ipv4,
    /// An IPv6 packet.
    Ipv6,
    /// An Ethernet frame.
    Ethernet,
}

impl Next {
    fn number(self) -> u8 {
        match self {
            Next::Ipv4 => 1,
            Next::Ipv6 => 2,
            Next::Ethernet => 3,
        }
    }
}

/// A header's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Service path identifier: the tag, at most [`PATH_MAX`].
    pub path: u32,
    /// Service index: functions that are left.
    pub index: u8,
}

/// A header that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NshError {
    /// There are fewer bytes than the header has.
    #[error("byte {have}: the service header ends here, and {need} bytes were expected")]
    Short {
        /// Bytes that are there.
        have: usize,
        /// Bytes that it says it has.
        need: usize,
    },
    /// Another version.
    #[error("byte 0: version {0} of the service header; only 0 is known")]
    Version(u8),
    /// A packet that has been forwarded too often.
    #[error("byte 1: the service header's TTL is used up")]
    Expired,
    /// A length that its metadata type does not allow.
    #[error("byte 1: a service header of {words} words with metadata of type {kind}")]
    Length {
        /// Words of 4 bytes.
        words: usize,
        /// Metadata type.
        kind: u8,
    },
    /// The packet behind it is neither IP nor Ethernet.
    #[error("byte 3: next protocol {0}; 1 (IPv4), 2 (IPv6) and 3 (Ethernet) are known")]
    Protocol(u8),
}

/// The bytes of a header.
///
/// ```
/// use thermocline_accel::nsh::{Header, Next, decode, encode};
/// let header = Header { path: 7, index: 2 };
/// let bytes = encode(header, Next::Ipv4);
/// assert_eq!(decode(&bytes).unwrap(), (header, Next::Ipv4, 8));
/// ```
///
/// # Panics
/// When the path is above [`PATH_MAX`].
pub fn encode(header: Header, next: Next) -> [u8; HEADER_BYTES] {
    assert!(header.path <= PATH_MAX, "a tag has 24 bits");
    let words = (HEADER_BYTES / WORD_BYTES) as u8;
    let [_, high, middle, low] = header.path.to_be_bytes();
    let first = TTL_FIRST >> 2;
    let second = (TTL_FIRST & 3) << 6 | words;
    [first, second, MD_TYPE_VARIABLE, next.number(), high, middle, low, header.index]
}

/// Reads a header: its content, what follows, and at which byte that begins.
///
/// # Errors
/// When it is cut off, expired, of another version, or contradicts itself.
pub fn decode(bytes: &[u8]) -> Result<(Header, Next, usize), NshError> {
    let short = |need| NshError::Short { have: bytes.len(), need };
    let &[first, second, kind, next, high, middle, low, index, ..] = bytes else {
        return Err(short(HEADER_BYTES));
    };
    let version = first >> 6;
    if version != 0 {
        return Err(NshError::Version(version));
    }
    let ttl = (first & 0xf) << 2 | second >> 6;
    if ttl == 0 {
        return Err(NshError::Expired);
    }
    let (words, kind) = (usize::from(second & 0x3f), kind & 0xf);
    let fits = match kind {
        MD_TYPE_FIXED => words == WORDS_FIXED,
        MD_TYPE_VARIABLE => words >= WORDS_MIN,
        _ => false,
    };
    if !fits {
        return Err(NshError::Length { words, kind });
    }
    let length = words * WORD_BYTES;
    if bytes.len() < length {
        return Err(short(length));
    }
    let next = match next {
        1 => Next::Ipv4,
        2 => Next::Ipv6,
        3 => Next::Ethernet,
        other => return Err(NshError::Protocol(other)),
    };
    let path = u32::from_be_bytes([0, high, middle, low]);
    Ok((Header { path, index }, next, length))
}
