//! The things that an end tells the clients of its flows.

use crate::config::Target;
use bytes::Bytes;

/// Number of a flow on its connection; never used again there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub(crate) u32);

/// Something that a client is to hear of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlowEvent {
    /// The other end is there: flows can be opened. The first event.
    Ready,
    /// The other end wants a flow to this target.
    Opened {
        /// The flow.
        flow: FlowId,
        /// Its destination.
        target: Target,
    },
    /// Bytes for the client, 1 or more. Tell [`crate::End::taken`] when it has them.
    Bytes {
        /// The flow.
        flow: FlowId,
        /// The bytes.
        bytes: Bytes,
    },
    /// The other client says nothing more; ours may.
    Ended {
        /// The flow.
        flow: FlowId,
    },
    /// The flow is gone, both ways.
    Reset {
        /// The flow.
        flow: FlowId,
        /// The other end's reason, or [`crate::RESET_BROKEN_OFF`].
        code: u32,
    },
    /// A flow that had no room takes bytes again.
    Room {
        /// The flow.
        flow: FlowId,
    },
    /// A unit has answered, or failed, and nothing of the flow is with one: what still waits does
    /// so for more to come, or for [`crate::End::flush`].
    Cut {
        /// The flow.
        flow: FlowId,
    },
    /// The device of the cache's second tier was given up: it could not write, or hangs. What the
    /// other end believes to be here is not. It comes once; end the connection, so that the ends
    /// tell each other anew what they keep.
    DiskFailed,
    /// The other end wants no new flows.
    Closing {
        /// Its words, foreign text.
        reason: String,
    },
}
