//! The built program, run as a user runs it.

mod program;
mod trace_convert;
mod trace_synth;
