//! One file a command: its arguments, what it wires together, what it prints.

pub(crate) mod accel;
pub(crate) mod advise;
pub(crate) mod balance;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod dedup;
pub(crate) mod doctor;
pub(crate) mod engine;
pub(crate) mod export;
pub(crate) mod fs;
pub(crate) mod host;
pub(crate) mod lab;
pub(crate) mod openapi;
pub(crate) mod policies;
pub(crate) mod shell;
pub(crate) mod store;
pub(crate) mod trace;
pub(crate) mod tunnel;
pub(crate) mod up;
