//! The numbers of the NBD protocol, and reading and writing them. Big-endian throughout.
//!
//! Source: the NBD project's `doc/proto.md`, newstyle handshake, structured replies, metadata
//! contexts.

pub(crate) const MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
pub(crate) const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
pub(crate) const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub(crate) const REQUEST_MAGIC: u32 = 0x2560_9513;
pub(crate) const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub(crate) const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flags, of the server and of the client alike.
pub(crate) const FIXED_NEWSTYLE: u16 = 1;
pub(crate) const NO_ZEROES: u16 = 2;

pub(crate) mod option {
    pub(crate) const EXPORT_NAME: u32 = 1;
    pub(crate) const ABORT: u32 = 2;
    pub(crate) const LIST: u32 = 3;
    pub(crate) const STARTTLS: u32 = 5;
    pub(crate) const INFO: u32 = 6;
    pub(crate) const GO: u32 = 7;
    pub(crate) const STRUCTURED_REPLY: u32 = 8;
    pub(crate) const LIST_META_CONTEXT: u32 = 9;
    pub(crate) const SET_META_CONTEXT: u32 = 10;
}

pub(crate) mod option_reply {
    pub(crate) const ACK: u32 = 1;
    pub(crate) const SERVER: u32 = 2;
    pub(crate) const INFO: u32 = 3;
    pub(crate) const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub(crate) const UNSUPPORTED: u32 = ERROR | 1;
    pub(crate) const POLICY: u32 = ERROR | 2;
    pub(crate) const INVALID: u32 = ERROR | 3;
    pub(crate) const TLS_REQUIRED: u32 = ERROR | 5;
    pub(crate) const UNKNOWN: u32 = ERROR | 6;
    pub(crate) const TOO_BIG: u32 = ERROR | 9;
}

pub(crate) mod info {
    pub(crate) const EXPORT: u16 = 0;
    pub(crate) const BLOCK_SIZE: u16 = 3;
}

/// Abilities of an export, as flags.
pub(crate) mod transmission {
    pub(crate) const HAS_FLAGS: u16 = 1;
    pub(crate) const SEND_FLUSH: u16 = 1 << 2;
    pub(crate) const SEND_FUA: u16 = 1 << 3;
    pub(crate) const SEND_TRIM: u16 = 1 << 5;
    pub(crate) const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub(crate) const SEND_DF: u16 = 1 << 7;
    pub(crate) const CAN_MULTI_CONN: u16 = 1 << 8;
    pub(crate) const SEND_CACHE: u16 = 1 << 10;
}

pub(crate) mod command {
    pub(crate) const READ: u16 = 0;
    pub(crate) const WRITE: u16 = 1;
    pub(crate) const DISCONNECT: u16 = 2;
    pub(crate) const FLUSH: u16 = 3;
    pub(crate) const TRIM: u16 = 4;
    pub(crate) const CACHE: u16 = 5;
    pub(crate) const WRITE_ZEROES: u16 = 6;
    pub(crate) const BLOCK_STATUS: u16 = 7;
}

pub(crate) mod command_flag {
    pub(crate) const FUA: u16 = 1;
    pub(crate) const NO_HOLE: u16 = 2;
    pub(crate) const DF: u16 = 4;
    pub(crate) const REQ_ONE: u16 = 8;
}

pub(crate) mod chunk {
    pub(crate) const DONE: u16 = 1;
    pub(crate) const NONE: u16 = 0;
    pub(crate) const OFFSET_DATA: u16 = 1;
    pub(crate) const OFFSET_HOLE: u16 = 2;
    pub(crate) const BLOCK_STATUS: u16 = 5;
    pub(crate) const ERROR: u16 = 1 << 15 | 1;
}

/// Error numbers of replies; those of Linux by the protocol's decree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    /// The data could not be read or written.
    Io = 5,
    /// The request makes no sense.
    Invalid = 22,
    /// There is no room, or the write ends beyond the export.
    NoSpace = 28,
    /// The request is longer than announced.
    Overflow = 75,
    /// The server is going away.
    Shutdown = 108,
}

/// Bytes of a request's header.
pub(crate) const REQUEST_BYTES: usize = 28;

/// A request's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl RequestHeader {
    /// Reads a header; `None` when the magic number is another.
    pub(crate) fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<RequestHeader> {
        let mut reader = Reader(bytes);
        (reader.u32()? == REQUEST_MAGIC).then_some(())?;
        Some(RequestHeader {
            flags: reader.u16()?,
            command: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }
}

/// Bytes not read yet.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A text with its length (u32) before it.
    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        std::str::from_utf8(self.take(length as usize)?).ok()
    }
}

/// Appends numbers to a buffer.
pub(crate) trait Put {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }
}
