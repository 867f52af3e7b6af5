//! Recording a live volume, and replaying what its placement was told.
//!
//! - [`Recorder`] listens to a [`thermocline_volume::Group`], whoever drives it, and makes blocks
//!   of a [`thermocline_trace::recording`] of what it hears; where they go is its owner's business.
//! - [`Replay`] feeds a recording to a placement, the recorded one or a rival, and compares what
//!   that proposes with what was proposed then.
//!
//! This is the test of the joint between the laboratory and the engine: a placement is told the
//! same in both, so it must propose the same, move by move. A rival is told what the recorded
//! placement was told, its view included: it answers what it would have done next, epoch by epoch,
//! not where its own moves would have led. For that, use the recording as a trace.

mod homes;
mod recorder;
mod replay;

pub use recorder::{Recorder, Sink};
pub use replay::{Difference, EpochRow, Replay, ReplayError};
