//! The Network Service Header (RFC 8300): the encapsulation that carries a chain's tag.
//!
//! ```text
//!  0                   1                   2                   3
//! |Ver|O|U|    TTL    |   Length  |U|U|U|U|MD Type| Next Protocol |
//! |          Service Path Identifier              | Service Index |
//! |  context: 16 bytes (MD type 1), or options of variable length (MD type 2)  |
//! ```
//!
//! What is read and written again is the same bytes, unassigned bits apart, which are written as
//! zero and ignored (section 2.2).

/// Bytes of the base header and the service path header.
const FIXED_BYTES: usize = 8;
/// The longest header, bytes: the length has six bits and counts words of four bytes.
const BYTES_MAX: usize = 63 * 4;

/// Context of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metadata {
    /// MD type 1: exactly 16 bytes.
    Fixed([u8; 16]),
    /// MD type 2: options, each padded to four bytes; at most 244 bytes.
    Options(Vec<u8>),
}

/// A header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nsh {
    /// An operations packet, which is not passed on as data.
    pub is_oam: bool,
    /// Hops that are left, 0 to 63.
    pub ttl: u8,
    /// Protocol of what follows: 1 IPv4, 2 IPv6, 3 Ethernet, 4 NSH, 5 MPLS.
    pub next_protocol: u8,
    /// Service path, 24 bits.
    pub path: u32,
    /// Place in the path; goes down by one with every function.
    pub index: u8,
    /// Its context.
    pub metadata: Metadata,
}

/// Reason why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NshError {
    /// The bytes end within the header.
    #[error("the packet ends within its service header")]
    Short,
    /// A version that is not 0.
    #[error("version {0} of the service header: expected 0")]
    Version(u8),
    /// A length that does not fit the type of metadata.
    #[error("a service header of {0} bytes does not fit its type of metadata")]
    Length(usize),
    /// A type of metadata that is neither 1 nor 2.
    #[error("metadata of type {0}: expected 1 or 2")]
    Metadata(u8),
    /// An option that ends behind the header.
    #[error("an option ends behind the service header")]
    Option,
    /// A value that its bits cannot hold: hops above 63, or a path of more than 24 bits.
    #[error("hops above 63, or a service path of more than 24 bits")]
    Value,
}

impl Nsh {
    /// Reads the header that `bytes` begin with, and tells its length.
    ///
    /// # Errors
    /// Bytes that are no header of version 0.
    pub fn parse(bytes: &[u8]) -> Result<(Nsh, usize), NshError> {
        let fixed = bytes.get(..FIXED_BYTES).ok_or(NshError::Short)?;
        if fixed[0] >> 6 != 0 {
            return Err(NshError::Version(fixed[0] >> 6));
        }
        let length = usize::from(fixed[1] & 63) * 4;
        let context = match length {
            0..FIXED_BYTES => return Err(NshError::Length(length)),
            _ => bytes.get(FIXED_BYTES..length).ok_or(NshError::Short)?,
        };
        let metadata = match fixed[2] & 15 {
            1 => Metadata::Fixed(context.try_into().map_err(|_| NshError::Length(length))?),
            2 => {
                check_options(context)?;
                Metadata::Options(context.to_vec())
            }
            other => return Err(NshError::Metadata(other)),
        };
        let header = Nsh {
            is_oam: fixed[0] & 0x20 != 0,
            ttl: (fixed[0] & 15) << 2 | fixed[1] >> 6,
            next_protocol: fixed[3],
            path: u32::from_be_bytes([0, fixed[4], fixed[5], fixed[6]]),
            index: fixed[7],
            metadata,
        };
        Ok((header, length))
    }

    /// Length of the header, bytes.
    pub fn len(&self) -> usize {
        let context = match &self.metadata {
            Metadata::Fixed(context) => context.len(),
            Metadata::Options(options) => options.len(),
        };
        FIXED_BYTES + context
    }

    /// Never true; a header has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header's bytes to `out`.
    ///
    /// # Errors
    /// A value that its bits cannot hold, or options that are none; nothing is written then.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), NshError> {
        let length = self.len();
        let (kind, context) = match &self.metadata {
            Metadata::Fixed(context) => (1, &context[..]),
            Metadata::Options(options) => {
                check_options(options)?;
                (2, &options[..])
            }
        };
        if length > BYTES_MAX {
            return Err(NshError::Length(length));
        }
        if self.ttl > 63 || self.path >= 1 << 24 {
            return Err(NshError::Value);
        }
        let words = (length / 4) as u8;
        out.push(u8::from(self.is_oam) << 5 | self.ttl >> 2);
        out.push((self.ttl & 3) << 6 | words);
        out.extend([kind, self.next_protocol]);
        out.extend(&self.path.to_be_bytes()[1..]);
        out.push(self.index);
        out.extend(context);
        Ok(())
    }

    /// Counts a hop: one fewer is left, and the next function is due. False, with nothing changed,
    /// if the packet may go no further.
    pub fn step(&mut self) -> bool {
        // TTL 0 counts as 63 hops (RFC 8300, section 2.2), for headers that older senders wrote.
        let ttl = if self.ttl == 0 { 63 } else { self.ttl - 1 };
        if ttl == 0 || self.index <= 1 {
            return false;
        }
        (self.ttl, self.index) = (ttl, self.index - 1);
        true
    }
}

/// Checks that options fill `bytes` exactly, each with its padding.
fn check_options(bytes: &[u8]) -> Result<(), NshError> {
    let mut at = 0;
    while at < bytes.len() {
        let header = bytes.get(at..at + 4).ok_or(NshError::Option)?;
        at += 4 + usize::from(header[3] & 127).next_multiple_of(4);
    }
    if at == bytes.len() { Ok(()) } else { Err(NshError::Option) }
}
