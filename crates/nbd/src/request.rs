//! Requests of the transmission phase: from a header to what the volume is asked, or to the error
//! that answers a header which makes no sense.

use super::handshake::{Contexts, REQUEST_BYTES_MAX};
use super::wire::{Errno, RequestHeader, command, command_flag};
use thermocline_ports::Payload;
use thermocline_units::Bytes;
use thermocline_volume::Action;

/// A request, as far as the volume is concerned.
#[derive(Debug)]
pub enum Ask {
    /// For the volume machine.
    Volume(Action),
    /// Status of ranges.
    Status {
        /// Bytes from the volume's start.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Nothing to be done; answer at once.
    Nothing,
}

/// A request under way, as its reply needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cookie {
    pub(super) cookie: u64,
    pub(super) flags: u16,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Bytes that it holds.
    pub(super) held: u32,
}

/// A run of the volume with one answer to a block status request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// The pool of its first copy; none: it reads as zeroes.
    pub pool: Option<u16>,
}

impl Cookie {
    pub(super) fn of(header: &RequestHeader) -> Cookie {
        let RequestHeader { flags, cookie, offset, length, .. } = *header;
        Cookie { cookie, flags, offset, length, held: header.held() }
    }

    /// Bytes that the request holds.
    pub fn held(&self) -> u64 {
        u64::from(self.held)
    }
}

impl RequestHeader {
    /// Bytes that the request holds; none where it is refused for its length.
    pub(super) fn held(&self) -> u32 {
        match self.command {
            command::READ | command::WRITE if self.length <= REQUEST_BYTES_MAX => self.length,
            _ => 0,
        }
    }
}

/// The request of a header to an export of `size` bytes; `payload` is there for writes.
///
/// # Errors
/// When it makes no sense, asks for what was not agreed on, or is a write without contents.
pub(super) fn ask(
    header: &RequestHeader,
    payload: Option<Payload>,
    size: u64,
    contexts: Contexts,
) -> Result<Ask, Errno> {
    let RequestHeader { flags, command: asked, offset, length, .. } = *header;
    let allowed = match asked {
        command::READ => command_flag::FUA | command_flag::DF,
        command::WRITE_ZEROES => command_flag::FUA | command_flag::NO_HOLE,
        command::BLOCK_STATUS => command_flag::FUA | command_flag::REQ_ONE,
        _ => command_flag::FUA,
    };
    let fits = offset.checked_add(u64::from(length)).is_some_and(|end| end <= size);
    let whole = (offset | u64::from(length)).is_multiple_of(512) && length > 0;
    let ranged = asked != command::FLUSH;
    let (offset, span) = (Bytes(offset), Bytes(u64::from(length)));
    let fua = flags & command_flag::FUA != 0;
    match asked {
        _ if flags & !allowed != 0 => Err(Errno::Invalid),
        _ if ranged && !fits && asked == command::WRITE => Err(Errno::NoSpace),
        _ if ranged && (!fits || !whole) => Err(Errno::Invalid),
        command::READ if length > REQUEST_BYTES_MAX => Err(Errno::Overflow),
        command::READ => Ok(Ask::Volume(Action::Read { offset, length })),
        command::WRITE => {
            let payload = payload.ok_or(Errno::Invalid)?;
            Ok(Ask::Volume(Action::Write { offset, payload, fua }))
        }
        command::FLUSH => Ok(Ask::Volume(Action::Flush)),
        command::TRIM => Ok(Ask::Volume(Action::Discard { offset, length: span })),
        command::WRITE_ZEROES => Ok(Ask::Volume(Action::WriteZeroes { offset, length: span, fua })),
        command::CACHE => Ok(Ask::Nothing),
        command::BLOCK_STATUS if contexts != Contexts::default() => {
            Ok(Ask::Status { offset: offset.0, length: span.0 })
        }
        _ => Err(Errno::Invalid),
    }
}
