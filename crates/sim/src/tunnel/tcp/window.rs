//! Window of a sender: its congestion control.

use super::bbr::Bbr;
use super::cubic::Cubic;
use thermocline_units::Nanos;

/// Segments that a connection begins with (RFC 6928).
pub(super) const FIRST_SEGMENTS: usize = 10;

/// Congestion controls of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// Loss makes it slower: the default of Linux (RFC 9438, with HyStart).
    Cubic,
    /// Goes by the rate and the round trip that it measures (Cardwell et al., BBR, 2016).
    Bbr,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heard {
    pub(super) now: Nanos,
    /// Bytes that it is the first to tell of.
    pub(super) bytes: usize,
    pub(super) round_trip: Nanos,
    /// Bytes a second between what had been heard of when it was sent, and now.
    pub(super) rate: f64,
    /// True if the sender had nothing more to send then.
    pub(super) is_idle: bool,
    /// True if the window was full.
    pub(super) is_limited: bool,
    /// True if a round is over.
    pub(super) is_round: bool,
    /// True if it tells of what was sent before the last loss was known.
    pub(super) is_recovering: bool,
    /// Bytes that are still under way.
    pub(super) in_flight: usize,
}

/// A sender's window.
#[derive(Debug)]
pub(super) enum Window {
    Cubic(Cubic),
    Bbr(Bbr),
}

impl Window {
    pub(super) fn new(congestion: Congestion, segment_bytes: usize) -> Window {
        match congestion {
            Congestion::Cubic => Window::Cubic(Cubic::new(segment_bytes)),
            Congestion::Bbr => Window::Bbr(Bbr::new(segment_bytes)),
        }
    }

    /// Bytes that may be under way.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Window::Cubic(cubic) => cubic.bytes(),
            Window::Bbr(bbr) => bbr.bytes(),
        }
    }

    /// Time before the next segment after one of so many bytes.
    pub(super) fn pace(&self, bytes: usize) -> Nanos {
        match self {
            Window::Cubic(_) => Nanos(0),
            Window::Bbr(bbr) => bbr.pace(bytes),
        }
    }

    pub(super) fn hear(&mut self, heard: &Heard) {
        match self {
            Window::Cubic(cubic) => cubic.hear(heard),
            Window::Bbr(bbr) => bbr.hear(heard),
        }
    }

    /// Something was lost, of which no earlier loss has told.
    pub(super) fn lose(&mut self) {
        match self {
            Window::Cubic(cubic) => cubic.lose(),
            // A loss is no sign of a full link to it.
            Window::Bbr(_) => {}
        }
    }
}
