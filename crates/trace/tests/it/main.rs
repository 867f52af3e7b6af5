//! The readers on real traces, against counts made by other means.
//!
//! The traces lie beside the project and are no part of it; without them the tests say so and pass.

mod real_traces;
mod vscsi_and_msr_agree;
