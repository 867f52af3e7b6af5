//! Errors: what the other end did wrong, and what cannot be done now.
//!
//! A [`WireError`] ends the session; its message names the frame, the stream and what was expected.
//! The other two are answers to a call, after which the session goes on.

use crate::StreamId;
use thermocline_units::Nanos;

/// The end of a session: a rule that the other end broke, or its silence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The first bytes are not those of this protocol.
    #[error(
        "the other end does not speak this protocol: it began with {found:02x?}; look at the \
         address and the port"
    )]
    Stranger {
        /// The first bytes, up to the one that is wrong.
        found: Vec<u8>,
    },
    /// No version is spoken by both.
    #[error(
        "no common version of the protocol: this end speaks {} to {}, the other one {} to {}; \
         update the older one",
        ours.0, ours.1, theirs.0, theirs.1
    )]
    Versions {
        /// Lowest and highest version of this end.
        ours: (u16, u16),
        /// Lowest and highest version of the other end.
        theirs: (u16, u16),
    },
    /// A field of HELLO is out of its range.
    #[error(
        "HELLO of the other end: {field} is {found}, expected {expected}; look at its settings"
    )]
    Hello {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        found: u64,
        /// Values that it may have.
        expected: String,
    },
    /// No HELLO in time.
    #[error("the other end sent no HELLO within {within}; look whether it is the right program")]
    NoHello {
        /// [`crate::Config::hello_within`].
        within: Nanos,
    },
    /// Nothing came for too long.
    #[error("the other end is silent for {since}; look at its machine and at the network")]
    Silent {
        /// Time since its last byte.
        since: Nanos,
    },
    /// A frame that must not be, or not now.
    #[error(
        "the other end broke the protocol: {frame} frame on stream {stream}: {found}, expected \
         {expected}; look whether both ends run a release of this program"
    )]
    Broken {
        /// Name of the frame's type.
        frame: &'static str,
        /// Number of the stream; 0 is the connection itself.
        stream: u32,
        /// Its fault.
        found: String,
        /// Frames that would have been in order.
        expected: String,
    },
    /// More frames that cost nothing to send than an end may send.
    #[error("the other end floods this one: more than {limit} control frames in a second")]
    Flood {
        /// [`crate::Config::control_frames_per_s_max`].
        limit: u32,
    },
    /// The other end met an error of its own.
    #[error("the other end gave up: {}", reason.escape_debug())]
    Aborted {
        /// Its message.
        reason: String,
    },
}

/// A stream that could not be opened; nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// HELLO of the other end is not there yet.
    #[error("the other end's HELLO is not there yet; wait for `Event::Hello`")]
    NotYet,
    /// A stream beyond as many as may be open.
    #[error("{limit} streams are open, as many as may be; wait until one ends")]
    TooMany {
        /// The smaller one of both ends' limits.
        limit: u32,
    },
    /// The header is longer than the other end takes.
    #[error("the header has {length} bytes, the other end takes {limit}; shorten it")]
    HeaderTooLong {
        /// Its length, bytes.
        length: usize,
        /// The other end's limit, bytes.
        limit: u32,
    },
    /// One of the ends wants no new streams.
    #[error("the connection is closing; make a new one")]
    Closing,
    /// All numbers of streams have been used.
    #[error("all numbers of streams are used up; make a new connection")]
    Exhausted,
    /// The session ended with an error.
    #[error("the session has failed; make a new connection")]
    Failed,
}

/// A stream on which nothing can be sent: it was reset or ended, or never was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stream {0} takes no bytes: it was ended or reset; drop what is left for it")]
pub struct Gone(pub StreamId);
