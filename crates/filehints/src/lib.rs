//! Hints of files on mounted volumes, from what the kernel and the programs themselves report.
//!
//! [`files`] maps a file of a mounted file system to ranges of the volume below it. [`file_events`]
//! reports which process opened or wrote which file, [`advice_socket`] receives what programs say
//! of their files, and [`processes`] tells who a process is. [`sender`] finds out where the files
//! lie and sends hints to an engine, at a bounded rate. [`session`] runs these together.
//!
//! Nothing here delays a program or changes its data. An event that is missed costs a hint, no
//! more.

pub mod advice_socket;
mod error;
pub mod file_events;
pub mod files;
mod ioprio;
pub mod processes;
pub mod sender;
pub mod session;

pub use error::HintError;
