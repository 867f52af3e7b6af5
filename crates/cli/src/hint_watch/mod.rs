//! Hints of the level `process`: which programs open and write which files of a mounted file
//! system.
//!
//! [`watch`] hears of it from the kernel, [`advice`] from programs themselves, [`processes`] says
//! who it was, [`telling`] finds out where the files lie and sends hints, at a bounded rate;
//! [`session`] is these from begin to end. Nothing here holds up a program or touches its data:
//! what is missed costs a hint, no more.

pub(crate) mod advice;
pub(crate) mod ioprio;
pub(crate) mod processes;
pub(crate) mod session;
pub(crate) mod telling;
pub(crate) mod watch;
