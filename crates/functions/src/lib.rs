//! Network functions on packets: NAT44 ([`nat`]) and inspection by rules ([`dpi`]).
//!
//! A function takes a packet in the caller's buffer at a time and says what becomes of it
//! ([`Function`]). Its flows are plain data that can be exported and imported, so that a flow can
//! move to another instance while packets flow.
//!
//! What holds:
//! - Bytes of any kind make nothing panic, and no packet is altered but as its verdict says.
//! - All tables and buffers have a size that is fixed when a function is made. A flood of new flows
//!   takes no room from flows that are in use.
//! - Imported state is not trusted; what is refused leaves nothing behind.
//!
//! It has no clock, socket, file or thread, and does not know who calls it: slots, chains and tags
//! are another crate's, and so is the header that carries a chain's tag (RFC 8300).

pub mod dpi;
mod format;
mod function;
pub mod nat;
pub mod packet;
mod table;

pub use function::{
    Event, Function, ImportError, Imported, Output, Part, Protocol, Reason, Released, Side,
    Verdict, share_of,
};
