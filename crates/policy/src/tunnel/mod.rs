//! Controllers of a redundancy-eliminating tunnel: which chunking a class of flows gets, and which
//! expected chunk size.
//!
//! 1. A tunnel cuts flows into chunks and sends a reference instead of a chunk that the other end
//!    holds. Small chunks save more and cost more; some flows repeat nothing.
//! 2. Each *flow class* (server port, unless a rule says otherwise) has one [`Controller`]. The
//!    tunnel asks it at each segment's beginning ([`Controller::choose`]) and tells it what came
//!    out ([`Sample`]).
//! 3. It may be told more: what the link and the processor can give ([`Conditions`]), and what
//!    choices that are not in force would have saved ([`Estimate`], from a shadow index).
//! 4. Its choice has a reason that people can read ([`Why`]).
//!
//! Source: VNRE, Ge 2017 ch. 4.2–4.4. There a controller sees throughput and RE ratio once in ten
//! minutes and compares them with expectations: `vnre`. The default, `goodput`, is ours.
//!
//! **A choice finds its own chunks only.** Content that was cut at another size is in the cache,
//! but not as chunks that this choice will ask for. So the first pass after a switch saves
//! nothing, and an experiment with a rival choice costs twice: while it runs, and afterwards, by
//! what the choice in force does not find of these bytes.
//!
//! Invariants: sizes are powers of two from 128 B to 64 KiB; equal calls give equal choices; no
//! call allocates; every call is O(number of choices), and there are 21. Not here: chunking,
//! caches, the flow table, how long a segment is, how a shadow index is made.

mod choice;
mod goodput;
mod steady;
#[cfg(test)]
mod tests;
mod vnre;
mod why;

pub use choice::{Choice, Choices, ChunkSize, Kind};
pub use why::{Limit, Why};

use thermocline_units::{Bytes, Nanos};

/// Registry entries of this folder's policies: one line each.
pub(crate) const ENTRIES: &[crate::registry::Entry] =
    &[goodput::ENTRY, vnre::ENTRY, steady::CONTENT, steady::FIXED, steady::NONE];

/// The policy when nobody names one.
pub const DEFAULT: &str = "goodput";

/// Measures of a segment.
///
/// Anything may be 0: a sample without bytes is ignored, one without processing time says nothing
/// of cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The choice it was cut by: any earlier answer, not only the last.
    pub choice: Choice,
    /// Its bytes, as the application sent them.
    pub bytes: Bytes,
    /// Bytes that the tunnel sent for it: references, literals (compressed, if they were), frames.
    /// May be above `bytes`.
    pub sent: Bytes,
    /// Chunks that it was cut into; 0 without chunking.
    pub chunks: u64,
    /// Processor time that it took, all of it: relaying, cutting, fingerprints, index; that of the
    /// other end too, where that is the narrower one. Without shadows.
    pub processing: Nanos,
}

/// Bytes that a choice would have saved of those that went through, by a shadow index.
///
/// A shadow holds fingerprints of a sample of the chunks that this choice would have made of
/// *everything* that passed, so it knows what the choice would save if it were in force all along.
/// Chunks are sampled by content (spatially), never by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// The choice, in force or not. [`Choice::None`] saves what compression does, if there is any.
    pub choice: Choice,
    /// Bytes that were looked at: the sample scaled up, or that of the sampled chunks alone.
    pub bytes: Bytes,
    /// Bytes of them that would not have been sent.
    pub would_save: Bytes,
    /// Processor time that the shadow took for this.
    pub processing: Nanos,
}

/// Link and processor of a class of flows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Bytes a second that its flows can send on the link together; `None` when that is not known
    /// yet. Zero is taken for not known.
    pub link: Option<Bytes>,
    /// Processor cores that they may use together, above 0: 0.5 is half a core. What is not a
    /// number above 0 is taken for 1.
    pub processor: f64,
}

/// The link is not known, and there is one core.
impl Default for Conditions {
    fn default() -> Conditions {
        Conditions { link: None, processor: 1.0 }
    }
}

impl Conditions {
    /// Cores: finite, above 0.
    pub(crate) fn cores(&self) -> f64 {
        let right = self.processor.is_finite() && self.processor > 0.0;
        if right { self.processor.clamp(1e-6, 1e6) } else { 1.0 }
    }
}

/// Decides for one class of flows.
///
/// The caller guarantees that times do not run backwards. Samples may come late, in another order
/// than segments began, and from many flows at once. The implementer must keep every call O(1) and
/// must not allocate; equal calls must give equal answers. Calls it has no use for may be left out.
pub trait Controller: Send {
    /// Chooses how the segment that begins now is cut.
    fn choose(&mut self, now: Nanos) -> Choice;

    /// A segment has been processed.
    fn observe(&mut self, _now: Nanos, _sample: &Sample) {}

    /// Sets what the link and the processor can give from now on. Until told,
    /// [`Conditions::default`].
    fn conditions(&mut self, _now: Nanos, _conditions: &Conditions) {}

    /// A shadow index has an estimate. The tunnel gives them as they come, for choices that were
    /// [`Controller::wanted`] lately; it need not give any.
    fn estimate(&mut self, _now: Nanos, _estimate: &Estimate) {}

    /// Choices of which estimates are wanted for the segment that begins now. Empty: shadows rest,
    /// and cost nothing. A tunnel that cannot shadow all of them takes some.
    fn wanted(&self) -> Choices {
        Choices::EMPTY
    }

    /// The reason for the last choice.
    fn why(&self) -> Why;
}
