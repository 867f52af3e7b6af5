//! Segments of TCP: which bytes come next, and where a connection begins and ends.
//!
//! The inspection must see what the receiver takes, in the same order. Whoever is inspected may
//! send packets that pass here and that the receiver refuses, to move the place where bytes are
//! expected.
//!
//! 1. A connection that is over begins again with a SYN. So does one of which nothing was inspected
//!    from its beginning, and that nobody has answered: what was seen of it need not have arrived.
//! 2. A SYN with another number in an open connection changes nothing until the other end accepts
//!    it with SYN and ACK. A receiver that has the connection open refuses the SYN (RFC 5961,
//!    section 4), and goes on.
//! 3. Bytes before the first one that was seen were never inspected. Of a connection that was seen
//!    from its SYN on they are dropped: they are none of it. Otherwise they are inspected by
//!    themselves.
//! 4. Bytes without ACK are dropped, as receivers do (RFC 9293, section 3.10.7.4).
//! 5. An end ahead of a gap is kept like bytes ahead of a gap, and counts when the gap is filled.

use super::reorder::Refused;
use super::scan::Decision;
use super::stream::{Direction, flag};
use super::{Arrival, Dpi, bit};
use crate::packet::{TcpFlags, Transport};
use crate::{Output, Reason, Verdict};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Bytes of a probe that keeps a connection alive, before the next one of the stream.
const PROBE_BYTES: usize = 1;

impl Direction {
    /// Sequence number of the first byte that was seen.
    fn beginning(&self) -> u32 {
        self.next.wrapping_sub(self.position as u32)
    }
}

impl Dpi {
    /// Begins a flow anew if this is the first packet of another connection on its ports; true if
    /// so. A SYN that may be one is noted.
    pub(super) fn begins_again(&mut self, arrival: &Arrival, transport: &Transport) -> bool {
        let Transport::Tcp { flags, sequence, .. } = *transport else { return false };
        let Arrival { slot, direction, .. } = *arrival;
        let flow = &self.flows[slot];
        if !flags.syn() || flags.ack() || flow.has(bit::DROPPED) {
            return false;
        }
        let (stream, first) = (&flow.directions[direction], sequence.wrapping_add(1));
        let is_over = flow.has(bit::CLOSED | bit::PASSED);
        let is_other = stream.has(flag::STARTED) && stream.beginning() != first;
        let is_unsure = stream.has(flag::RESUMED) || stream.position == 0 && is_other;
        if is_over || is_unsure && !flow.has(bit::ESTABLISHED) {
            met("ports of a connection were used again");
            self.begin_again(slot, direction);
            return true;
        }
        if is_other {
            met("a SYN came in an open connection");
            self.flows[slot].offered = first as u16;
            self.set(slot, bit::OFFERED);
        }
        false
    }

    /// The next number of the client, if this packet accepts a SYN that was noted.
    pub(super) fn is_accepted(&self, arrival: &Arrival, transport: &Transport) -> Option<u32> {
        let Transport::Tcp { flags, acknowledged, .. } = *transport else { return None };
        let flow = &self.flows[arrival.slot];
        let accepts = flags.syn() && flags.ack() && !flags.rst();
        let is_open = flow.has(bit::OFFERED) && !flow.has(bit::DROPPED);
        (accepts && is_open && flow.offered == acknowledged as u16).then_some(acknowledged)
    }

    /// Begins a flow anew whose new connection was accepted by the packet of an arrival.
    pub(super) fn accept(
        &mut self,
        arrival: &Arrival,
        client_next: u32,
        output: &mut Output,
    ) -> Option<Decision> {
        met("a SYN was accepted in an open connection");
        let client = 1 - arrival.direction;
        self.begin_again(arrival.slot, client);
        let stream = &mut self.flows[arrival.slot].directions[client];
        (stream.next, stream.flags) = (client_next, flag::STARTED);
        let mut asked = arrival.reversed();
        (asked.seen.to_server, asked.seen.established) = (true, false);
        self.inspect_header(&asked, output)
    }

    /// A new connection on the ports of another one, whose client is the end of a direction.
    fn begin_again(&mut self, slot: u32, client: usize) {
        self.forget_buffers(slot, 0);
        self.forget_buffers(slot, 1);
        let fresh = Direction::new(&self.rules);
        let old = self.flows[slot].queue();
        self.queues.remove(old, slot);
        let flow = &mut self.flows[slot];
        flow.directions = [fresh; 2];
        let client = if client == 1 { bit::SECOND_IS_CLIENT } else { 0 };
        flow.bits = flow.bits & bit::SECOND_IS_INSIDE | client;
        self.queues.push(self.flows[slot].queue(), slot);
    }

    /// A segment of TCP.
    pub(super) fn segment(
        &mut self,
        arrival: &Arrival,
        (flags, sequence): (TcpFlags, u32),
        payload: &[u8],
        output: &mut Output,
    ) -> Verdict {
        let Arrival { slot, direction, .. } = *arrival;
        if !payload.is_empty() && !flags.ack() && !flags.syn() && !flags.rst() {
            return Verdict::Dropped(Reason::Malformed);
        }
        let sequence = sequence.wrapping_add(u32::from(flags.syn()));
        let stream = &mut self.flows[slot].directions[direction];
        if !stream.has(flag::STARTED) {
            stream.flags |= flag::STARTED;
            if !flags.syn() {
                stream.flags |= flag::RESUMED;
            }
            stream.next = sequence;
            if let Some(decision) = self.inspect_header(arrival, output) {
                return self.decided(slot, decision);
            }
        }
        let stream = self.flows[slot].directions[direction];
        if flags.rst() {
            // Only a reset that its receiver believes: otherwise whoever is inspected could end the
            // inspection.
            if sequence == stream.next {
                self.set(slot, bit::CLOSED);
            }
            return Verdict::Pass;
        }
        if flags.syn() && sequence != stream.beginning() && !mutant("foreign_syn_carries_bytes") {
            return match payload.is_empty() {
                true => Verdict::Pass,
                false => Verdict::Dropped(Reason::Reorder),
            };
        }
        let ahead = sequence.wrapping_sub(stream.next) as i32;
        if ahead > 0 {
            return self.ahead(arrival, ahead as u64, flags, payload);
        }
        let passed = ahead.unsigned_abs() as usize;
        if passed as u64 > stream.position
            && let Some(verdict) = self.before(arrival, passed, payload, output)
        {
            return verdict;
        }
        let Some(piece) = payload.get(passed..) else { return Verdict::Pass };
        if passed > 0 {
            met_if(!piece.is_empty(), "a segment was new in part");
        }
        if let Some(decision) = self.advance(arrival, piece, output) {
            return match decision {
                Ok(decision) => self.decided(slot, decision),
                Err(reason) => Verdict::Dropped(reason),
            };
        }
        let next = self.flows[slot].directions[direction].next;
        if flags.fin() && sequence.wrapping_add(payload.len() as u32) == next {
            self.ended(slot, direction);
        }
        Verdict::Pass
    }

    /// A segment that begins `passed` bytes before the next one, which is before all that was
    /// inspected; `None`: what is left of it is as any other segment.
    fn before(
        &mut self,
        arrival: &Arrival,
        passed: usize,
        payload: &[u8],
        output: &mut Output,
    ) -> Option<Verdict> {
        let Arrival { slot, direction, .. } = *arrival;
        let stream = self.flows[slot].directions[direction];
        let unseen = passed - stream.position as usize;
        let piece = &payload[..unseen.min(payload.len())];
        if piece.is_empty() || mutant("bytes_before_the_beginning_pass") {
            return None;
        }
        if stream.has(flag::RESUMED) {
            met("bytes came before those that were seen first");
            let decision = self.inspect_alone(arrival, piece, output)?;
            return Some(self.decided(slot, decision));
        }
        met("bytes came before the beginning of a connection");
        match payload.len() <= PROBE_BYTES {
            true => Some(Verdict::Pass),
            false => Some(Verdict::Dropped(Reason::Reorder)),
        }
    }

    /// A segment behind a gap.
    fn ahead(&mut self, arrival: &Arrival, ahead: u64, flags: TcpFlags, payload: &[u8]) -> Verdict {
        let Arrival { slot, direction, .. } = *arrival;
        if mutant("bytes_ahead_of_a_gap_are_not_kept") {
            return Verdict::Pass;
        }
        let ends = flags.fin() && !mutant("an_end_ahead_of_a_gap_is_forgotten");
        if payload.is_empty() && !ends {
            return Verdict::Pass;
        }
        let length = payload.len() as u64;
        // Whoever could keep a byte far ahead would hide all before it, if the flow then moved.
        if ahead + length > self.settings.direction_memory.0 {
            return Verdict::Dropped(Reason::Reorder);
        }
        let (key, at) =
            ((slot, direction), self.flows[slot].directions[direction].position + ahead);
        let kept = match payload.is_empty() {
            true => Ok(()),
            false => self.reorder.keep(key, at, payload),
        };
        let kept = kept.and_then(|()| match ends {
            true => self.reorder.keep_end(key, at + length),
            false => Ok(()),
        });
        if !self.reorder.is_empty(key) {
            met("bytes came ahead of a gap");
            self.flows[slot].directions[direction].flags |= flag::BUFFERED;
        }
        match kept {
            Ok(()) => Verdict::Pass,
            Err(Refused::Conflict) => Verdict::Dropped(Reason::Conflict),
            Err(Refused::Full) => Verdict::Dropped(Reason::Reorder),
        }
    }

    /// Inspects the next bytes of a stream and those that were kept behind them. `Err`: they
    /// contradict what was kept, and nothing has changed.
    pub(super) fn advance(
        &mut self,
        arrival: &Arrival,
        piece: &[u8],
        output: &mut Output,
    ) -> Option<Result<Decision, Reason>> {
        let Arrival { slot, direction, .. } = *arrival;
        let key = (slot, direction);
        let stream = self.flows[slot].directions[direction];
        let is_buffered = stream.has(flag::BUFFERED);
        if is_buffered && !self.reorder.agrees(key, stream.position, piece) {
            met("a segment contradicts what is buffered");
            return Some(Err(Reason::Conflict));
        }
        let mut piece = std::borrow::Cow::Borrowed(piece);
        loop {
            let next = &mut self.flows[slot].directions[direction].next;
            *next = next.wrapping_add(piece.len() as u32);
            if let Some(decision) = self.inspect(arrival, &piece, output) {
                return Some(Ok(decision));
            }
            if !is_buffered {
                return None;
            }
            let position = self.flows[slot].directions[direction].position;
            match self.reorder.next(key, position) {
                Some(kept) => piece = std::borrow::Cow::Owned(kept),
                None => break,
            }
        }
        let position = self.flows[slot].directions[direction].position;
        if self.reorder.take_end(key, position) {
            met("an end that came ahead of a gap was reached");
            self.ended(slot, direction);
        }
        if self.reorder.is_empty(key) {
            self.flows[slot].directions[direction].flags &= !flag::BUFFERED;
        }
        None
    }

    /// A direction has come to its end.
    fn ended(&mut self, slot: u32, direction: usize) {
        self.flows[slot].directions[direction].flags |= flag::ENDED;
        if self.flows[slot].directions[1 - direction].has(flag::ENDED) {
            self.set(slot, bit::CLOSED);
        }
    }
}
