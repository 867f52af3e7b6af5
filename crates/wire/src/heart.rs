//! Signs of life: when to ask for one, when the other end is taken for dead, and how far away it
//! is. And the count of frames that cost an end nothing to send.
//!
//! An end has at most one PING unanswered.

use thermocline_units::Nanos;

/// Signs of life of the other end.
#[derive(Debug)]
pub(crate) struct Heart {
    heard: Nanos,
    pings: u64,
    waiting: Option<Ping>,
    round_trip: Option<Nanos>,
}

/// A ping that is not answered.
#[derive(Debug)]
struct Ping {
    value: u64,
    /// Time at which it left.
    sent: Option<Nanos>,
}

impl Heart {
    /// The first sign of life is the beginning.
    pub(crate) fn new(now: Nanos) -> Heart {
        Heart { heard: now, pings: 0, waiting: None, round_trip: None }
    }

    /// Something arrived.
    pub(crate) fn hear(&mut self, now: Nanos) {
        self.heard = self.heard.max(now);
    }

    /// Time since something arrived.
    pub(crate) fn silence(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.heard)
    }

    /// Time of the next thing to do: a ping, or giving up.
    pub(crate) fn deadline(&self, ping_after: Nanos, silent_after: Nanos) -> Nanos {
        let after = if self.waiting.is_none() { ping_after } else { silent_after };
        Nanos(self.heard.0.saturating_add(after.0))
    }

    /// Begins a ping, if none is under way; its value, to be sent.
    pub(crate) fn ping(&mut self) -> Option<u64> {
        if self.waiting.is_some() {
            return None;
        }
        self.pings += 1;
        let value = self.pings;
        self.waiting = Some(Ping { value, sent: None });
        Some(value)
    }

    /// The ping left.
    pub(crate) fn ping_left(&mut self, now: Nanos) {
        if let Some(ping) = &mut self.waiting {
            ping.sent = Some(now);
        }
    }

    /// An answer came; false: to no ping that left.
    pub(crate) fn pong(&mut self, value: u64, now: Nanos) -> bool {
        let sent = self.waiting.as_ref().filter(|ping| ping.value == value).and_then(|p| p.sent);
        let Some(sent) = sent else { return false };
        self.round_trip = Some(now.saturating_sub(sent));
        self.waiting = None;
        true
    }

    /// Time from the last answered ping to its answer.
    pub(crate) fn round_trip(&self) -> Option<Nanos> {
        self.round_trip
    }
}

/// Frames that cost nothing to send: so many in a second, and no more (a leaky bucket).
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: u32,
    /// Time at which the bucket will be empty.
    empty: Nanos,
}

impl Allowance {
    /// `per_second` frames.
    pub(crate) fn new(per_second: u32) -> Allowance {
        Allowance { per_second, empty: Nanos(0) }
    }

    /// Notes one; false: it is one too many.
    pub(crate) fn note(&mut self, now: Nanos) -> bool {
        const SECOND: u64 = 1_000_000_000;
        let each = SECOND.div_ceil(u64::from(self.per_second));
        self.empty = Nanos(self.empty.max(now).0.saturating_add(each));
        self.empty.saturating_sub(now).0 <= SECOND.max(each)
    }
}
