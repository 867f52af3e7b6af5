//! Gaps that nobody will fill: bytes that their receiver has, and this inspection has not.
//!
//! A flow that came from another instance, or whose beginning was not seen, may lack bytes that
//! passed elsewhere. Their sender does not send them again, so that all later ones would wait for
//! ever. The receiver's acknowledgement says that it has them: the inspection goes on behind them.
//! A flow that was seen from its SYN on and did not move is never taken forward like this:
//! otherwise a forged acknowledgement would hide bytes.

use super::stream::{Direction, flag};
use super::{Arrival, Decision, Dpi};
use crate::Output;
use thermocline_units::situations::met;

impl Dpi {
    /// Takes the stream that comes from the other side forward to what this packet acknowledges, if
    /// it may lack bytes, and inspects what was kept behind them.
    pub(super) fn acknowledged(
        &mut self,
        arrival: &Arrival,
        acknowledged: u32,
        output: &mut Output,
    ) -> Option<Decision> {
        let other = arrival.reversed();
        let key = (other.slot, other.direction);
        loop {
            let stream = self.flows[key.0].directions[key.1];
            if !stream.has(flag::STARTED) || !stream.has(flag::RESUMED) {
                return None;
            }
            let lacks = acknowledged.wrapping_sub(stream.next) as i32;
            if lacks <= 0 {
                return None;
            }
            let kept = self.reorder.first(key).map(|start| start.saturating_sub(stream.position));
            let skipped = u64::from(lacks as u32).min(kept.unwrap_or(u64::MAX));
            met("a receiver had bytes that were not inspected");
            self.skip(key, skipped);
            // The pieces that follow agree with themselves, so there is no conflict.
            if let Some(Ok(decision)) = self.advance(&other, &[], output) {
                return Some(decision);
            }
            if self.flows[key.0].directions[key.1].next == stream.next {
                return None;
            }
        }
    }

    /// Goes on `skipped` bytes further on, without what was matched in part.
    fn skip(&mut self, key: (u32, usize), skipped: u64) {
        if self.flows[key.0].directions[key.1].has(flag::SPILLED) {
            self.scanner.forget(key);
        }
        let stream = &mut self.flows[key.0].directions[key.1];
        let flags = stream.flags & !flag::SPILLED;
        stream.restart(&self.rules);
        stream.flags = flags;
        stream.go_on(skipped);
    }
}

impl Direction {
    /// Leaves out `skipped` bytes.
    pub(super) fn go_on(&mut self, skipped: u64) {
        self.position = self.position.saturating_add(skipped);
        self.next = self.next.wrapping_add(skipped as u32);
    }
}
