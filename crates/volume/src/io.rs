//! Requests of clients, from their arrival to the devices and back.
//!
//! The way there: [`requests`] checks a request and splits it by chunk into sub-requests;
//! [`scheduler`] holds them until their pool has room; [`hazards`] lets them start, or wait for
//! others on the same chunk; [`path`] reads and writes. The way back: [`path`] gathers the devices'
//! answers, and [`requests`] answers the client.
//!
//! Beside them: [`sources`] asks which copy, pool and queue; [`first_slot`] gives a new chunk its
//! slot, and [`leaving`] frees slots; [`sides`] has chunks in two parts; [`routing`] asks a
//! placement's router; [`shares`] bounds how many requests each pool may have.

pub(crate) mod busy_chunk;
pub(crate) mod first_slot;
pub(crate) mod hazards;
pub(crate) mod leaving;
pub(crate) mod path;
pub(crate) mod request;
pub(crate) mod requests;
pub(crate) mod routing;
pub(crate) mod scheduler;
pub(crate) mod shares;
pub(crate) mod sides;
pub(crate) mod sources;
