//! Credit of the receiving side of a stream: what the other end may still send.
//!
//! 1. A window begins at the floor and is the sum of four parts: what the other end may still send,
//!    what it sent and was not consumed, what was consumed and not told, what is told in a CREDIT
//!    that has not left.
//! 2. A frame costs its bytes, but at least [`crate::CHARGE_BYTES_MIN`]: what keeping it costs.
//!    What is consumed sets free the same share of the charges as of the bytes.
//! 3. When half a window has been consumed, credit goes back. A window that is used like that
//!    doubles, up to its maximum and up to the floor plus a 64th of what is left of the pool
//!    (dynamic thresholds: Choudhury & Hahne 1998); a window above that gives back what it can.
//!
//! State: 48 bytes.

use crate::format::charge;
use crate::pool::Pool;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::met;

/// Part of what is left of the pool that one window may have.
const POOL_SHARE: u64 = 64;

/// Receiving side of a stream.
#[derive(Debug)]
pub(crate) struct Window {
    size: u64,
    /// Credit that the other end has.
    granted: u64,
    /// Bytes received and not consumed.
    unconsumed: u64,
    /// Credit that those cost.
    charged: u64,
    /// Credit consumed and not told.
    freed: u64,
    /// Credit in a CREDIT frame that has not left.
    telling: u64,
}

impl Window {
    /// A window of the floor's size.
    pub(crate) fn new(pool: &Pool) -> Window {
        let size = pool.floor();
        Window { size, granted: size, unconsumed: 0, charged: 0, freed: 0, telling: 0 }
    }

    /// Bytes received and not consumed.
    pub(crate) fn unconsumed(&self) -> u64 {
        self.unconsumed
    }

    /// Credit that the other end has.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Takes in a frame; false: there is no credit for it.
    pub(crate) fn receive(&mut self, bytes: usize) -> bool {
        let Some(granted) = self.granted.checked_sub(charge(bytes)) else { return false };
        self.granted = granted;
        self.charged += charge(bytes);
        self.unconsumed += bytes as u64;
        true
    }

    /// Takes in a frame that nobody wants any more; false: there is no credit for it.
    pub(crate) fn discard(&mut self, bytes: usize) -> bool {
        let Some(granted) = self.granted.checked_sub(charge(bytes)) else { return false };
        self.granted = granted;
        true
    }

    /// The user took `bytes`.
    ///
    /// # Panics
    /// When it had not got so many.
    pub(crate) fn consume(&mut self, bytes: u64) {
        assert!(bytes <= self.unconsumed, "more is consumed than was delivered");
        if bytes == 0 {
            return;
        }
        // Both are below 2^31, so that the product fits.
        let freed = self.charged * bytes / self.unconsumed;
        self.unconsumed -= bytes;
        self.charged -= freed;
        self.freed += freed;
        if mutant("credit_lost_when_consumed") {
            self.freed -= freed.min(16);
        }
    }

    /// Gives credit back, if half a window has been consumed; true if a CREDIT frame has to be
    /// queued for it.
    pub(crate) fn refill(&mut self, pool: &mut Pool, most: u32) -> bool {
        if 2 * self.freed < self.size {
            return false;
        }
        let allowed = (pool.floor() + pool.left() / POOL_SHARE).min(most.into()).max(pool.floor());
        let size = if allowed >= self.size {
            allowed.min(2 * self.size)
        } else {
            allowed.max(self.size - self.freed)
        };
        if size > self.size {
            met("a window grew");
        } else if size < self.size {
            met("a window shrank");
        }
        pool.resize(self.size, size);
        let grant = self.freed + size - self.size;
        (self.size, self.freed) = (size, 0);
        let first = self.telling == 0 && grant > 0;
        self.telling += grant;
        first
    }

    /// Credit to tell the other end now.
    pub(crate) fn tell(&mut self) -> u32 {
        let told = std::mem::take(&mut self.telling);
        self.granted += told;
        u32::try_from(told).expect("a window is at most 2^30")
    }

    /// The other end sends nothing more: what is left of the window is what was not consumed.
    pub(crate) fn end(&mut self, pool: &mut Pool) {
        pool.resize(self.size, self.charged);
        (self.size, self.granted, self.freed, self.telling) = (self.charged, 0, 0, 0);
    }

    /// After the end: what was consumed leaves the window.
    pub(crate) fn shrink(&mut self, pool: &mut Pool) {
        pool.resize(self.size, self.charged);
        (self.size, self.freed) = (self.charged, 0);
    }

    /// Ends the interest in what came and what comes: the pool gets its share back. What the other
    /// end may still send stays known.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if !mutant("released_window_kept") {
            pool.resize(self.size, 0);
        }
        (self.size, self.unconsumed, self.charged, self.freed, self.telling) = (0, 0, 0, 0, 0);
    }

    /// True if its parts are as long as it is, unless it was released or has ended.
    #[cfg(test)]
    pub(crate) fn adds_up(&self) -> bool {
        self.size == self.granted + self.charged + self.freed + self.telling
    }
}
