//! Deadlines of a connection, kept where they cost nothing on the way of a request.
//!
//! A deadline is a number that is overwritten; one timer a connection looks at it when it rings,
//! and is set again when the deadline has moved on meanwhile; it is moved forward only for a
//! deadline that is nearer than any before. So a request that goes well touches no
//! timer. Progress is stamped with a clock that a thread reads ten times a second
//! ([`Ticks`]), and a tick is added: deadlines are up to two ticks late and never early.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thermocline_units::Nanos;
use tokio::time::Sleep;

/// Time between two settings of [`Ticks`].
pub(super) const TICK: Duration = Duration::from_millis(100);
const TICK_NANOS: u64 = TICK.as_nanos() as u64;

/// The time, as of the last tick: nanoseconds since the proxy's start.
#[derive(Debug)]
pub(super) struct Ticks {
    start: Instant,
    now: AtomicU64,
}

impl Ticks {
    pub(super) fn new(start: Instant) -> Ticks {
        Ticks { start, now: AtomicU64::new(0) }
    }

    /// The exact time, which becomes the coarse one.
    pub(super) fn set(&self) -> Nanos {
        let now = self.start.elapsed().as_nanos() as u64;
        self.now.store(now, Relaxed);
        Nanos(now)
    }

    /// The coarse time.
    pub(super) fn get(&self) -> Nanos {
        Nanos(self.now.load(Relaxed))
    }

    /// Time at which at least `nanos` will have passed since now, which may be a tick after the
    /// coarse time.
    fn after(&self, nanos: u64) -> u64 {
        self.get().0.saturating_add(TICK_NANOS).saturating_add(nanos)
    }

    /// A moment, for timers.
    pub(super) fn instant(&self, at: Nanos) -> tokio::time::Instant {
        (self.start + Duration::from_nanos(at.0)).into()
    }
}

/// Phase of a connection, as far as deadlines go.
///
/// `Idle` becomes `Head` with the first byte of a request, `Exchange` when its head is complete,
/// `Answer` when the server's head has come, and `Idle` again with the end of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// No request is under way.
    Idle,
    /// A request's head is coming in.
    Head,
    /// A server is being asked; whoever asks looks at the deadline.
    Exchange,
    /// Bodies, or a tunnel's bytes, are moving.
    Answer,
}

/// The phase of one connection, and when it must be over.
#[derive(Debug)]
pub(super) struct Deadlines {
    ticks: Arc<Ticks>,
    phase: AtomicU8,
    deadline: AtomicU64,
    /// Time at which the request as a whole must be over.
    latest: AtomicU64,
    /// Time by which each byte that moves pushes the deadline on.
    step: AtomicU64,
    /// From the first byte of a head to its last.
    head: Nanos,
    /// True if all that was written has been flushed.
    is_flushed: AtomicBool,
}

/// A duration as a number; the longest there is when it has no room.
pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl Deadlines {
    /// An idle connection, which has until `header` to begin.
    pub(super) fn new(ticks: &Arc<Ticks>, header: Duration) -> Deadlines {
        let head = nanos(header);
        Deadlines {
            ticks: ticks.clone(),
            phase: AtomicU8::new(Phase::Idle as u8),
            deadline: AtomicU64::new(ticks.after(head.0)),
            latest: AtomicU64::new(u64::MAX),
            step: AtomicU64::new(0),
            head,
            is_flushed: AtomicBool::new(true),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Exchange,
            _ => Phase::Answer,
        }
    }

    /// Goes on to `phase`; from now on each byte that moves gives it `limit` more, but for those of
    /// a head.
    pub(super) fn enter(&self, phase: Phase, limit: Duration) {
        let limit = nanos(limit).0;
        self.phase.store(phase as u8, Relaxed);
        self.step.store(if phase == Phase::Head { 0 } else { limit }, Relaxed);
        self.deadline.store(self.ticks.after(limit), Relaxed);
    }

    /// Sets the time at which the request must be over, whatever moves.
    pub(super) fn set_latest(&self, at: Option<Nanos>) {
        self.latest.store(at.map_or(u64::MAX, |at| at.0), Relaxed);
    }

    /// Returns true if the time of the request as a whole is up.
    pub(super) fn is_past_latest(&self) -> bool {
        self.ticks.get().0 >= self.latest.load(Relaxed)
    }

    /// Something was written, or all of it flushed.
    pub(super) fn set_flushed(&self, is_flushed: bool) {
        self.is_flushed.store(is_flushed, Relaxed);
    }

    /// Returns true if all that was written has been flushed: whoever writes is between two
    /// messages, or waits.
    pub(super) fn is_flushed(&self) -> bool {
        self.is_flushed.load(Relaxed)
    }

    /// Bytes have moved.
    pub(super) fn moved(&self) {
        match self.phase() {
            Phase::Idle => {
                self.phase.store(Phase::Head as u8, Relaxed);
                self.step.store(0, Relaxed);
                self.deadline.store(self.ticks.after(self.head.0), Relaxed);
            }
            Phase::Head => {}
            Phase::Exchange | Phase::Answer => self.progress(),
        }
    }

    /// Bytes have moved that do not begin a request. Of an idle connection they are the end of an
    /// answer, which a slow client still takes.
    pub(super) fn progress(&self) {
        let step = self.step.load(Relaxed);
        if step > 0 {
            self.deadline.store(self.ticks.after(step), Relaxed);
        }
    }

    /// Time at which it must be over.
    pub(super) fn deadline(&self) -> Nanos {
        Nanos(self.deadline.load(Relaxed).min(self.latest.load(Relaxed)))
    }

    /// True if it should be over.
    pub(super) fn is_over(&self) -> bool {
        self.ticks.get() >= self.deadline()
    }

    /// Has a timer ring when it must be over, if it would ring later.
    pub(super) fn hurry(&self, timer: Pin<&mut Sleep>) {
        let at = self.instant();
        if at < timer.deadline() {
            timer.reset(at);
        }
    }

    /// Time of the next look.
    pub(super) fn instant(&self) -> tokio::time::Instant {
        /// A timer that nobody waits for: an hour.
        const FAR: u64 = 3_600_000_000_000;
        let far = self.ticks.get().0 + FAR;
        // A tick later, so that the coarse clock has passed the deadline, too.
        let at = self.deadline().0.min(far).saturating_add(TICK_NANOS);
        self.ticks.instant(Nanos(at))
    }
}

#[cfg(test)]
mod tests;
