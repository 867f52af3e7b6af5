//! The readers on real traces, against counts made by other means.
//!
//! The traces lie beside the project and are no part of it; without them the tests say so and pass.

#![allow(
    clippy::print_stderr,
    clippy::disallowed_macros,
    reason = "a test that is skipped says so, loudly"
)]

mod characteristics;
mod real_traces;
mod vscsi_and_msr_agree;
