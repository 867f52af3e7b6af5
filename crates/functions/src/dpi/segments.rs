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
//! 3. What came between a SYN and its first answer did not arrive (RFC 9293, section 3.10.7.4), so
//!    the answer begins the connection anew. An answer to another SYN counts for nothing.
//! 4. Bytes before the first one that was seen were never inspected. Of a connection that was seen
//!    from its SYN on they are dropped: they are none of it. Otherwise they are inspected by
//!    themselves.
//! 5. Bytes and ends without ACK count for nothing, as at receivers. Neither do those that
//!    acknowledge what the other side never sent.
//! 6. An end ahead of a gap is kept like bytes ahead of a gap, and counts when the gap is filled.
//! 7. What receivers take differently is dropped: bytes with a SYN, which few servers keep, and
//!    urgent bytes, which most take out of the stream.

use super::reorder::Refused;
use super::scan::Decision;
use super::stream::{Direction, flag};
use super::{Arrival, Dpi, bit};
use crate::packet::{Packet, TcpFlags, Transport};
use crate::{Output, Reason, Verdict};
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Bytes of a probe that keeps a connection alive, before the next one of the stream.
const PROBE_BYTES: usize = 1;
/// The greatest window (RFC 7323, section 2.3): a receiver ignores older acknowledgements.
const WINDOW_MAX: u64 = 1 << 30;

/// A segment of TCP as it came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) flags: TcpFlags,
    pub(super) sequence: u32,
    pub(super) acknowledged: u32,
    pub(super) payload: &'a [u8],
}

/// True for a SYN with bytes, or with an end or a reset. Most servers throw such bytes away, and no
/// system sends the others.
pub(super) fn is_refused_by_all(packet: &Packet) -> bool {
    let Transport::Tcp { flags, payload, .. } = packet.transport else { return false };
    let has_bytes = payload < packet.end && !mutant("bytes_of_a_syn_count");
    flags.syn() && (has_bytes || flags.fin() || flags.rst())
}

impl Direction {
    /// True if the stream was seen from its SYN on.
    fn is_whole(&self) -> bool {
        self.has(flag::STARTED) && !self.has(flag::RESUMED)
    }

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
        // Whoever answers first, before there is a question, would be taken for the server. Where
        // both ask, the first one stays the client: a server may answer by a question.
        let is_turned = (direction == 1) != flow.has(bit::SECOND_IS_CLIENT)
            && !flow.directions[1 - direction].is_whole();
        if is_over || (is_unsure || is_turned) && !flow.has(bit::ESTABLISHED) {
            met("ports of a connection were used again");
            self.begin_again(slot, direction);
            return true;
        }
        if is_other {
            met("a SYN came in an open connection");
            let flow = &mut self.flows[slot];
            flow.offered = first as u16;
            flow.bits &= !bit::OFFERED_BY_SECOND;
            let by_second = if direction == 1 { bit::OFFERED_BY_SECOND } else { 0 };
            self.set(slot, bit::OFFERED | by_second);
        }
        false
    }

    /// The next number of the client, if this packet accepts a SYN: one that was noted, or the one
    /// that began the flow.
    pub(super) fn is_accepted(&self, arrival: &Arrival, transport: &Transport) -> Option<u32> {
        let Transport::Tcp { flags, acknowledged, .. } = *transport else { return None };
        let flow = &self.flows[arrival.slot];
        if !flags.syn() || !flags.ack() || flow.has(bit::DROPPED | bit::PASSED) {
            return None;
        }
        let by_second = flow.has(bit::OFFERED_BY_SECOND);
        let is_own = by_second == (arrival.direction == 1);
        let accepts_noted = flow.has(bit::OFFERED) && flow.offered == acknowledged as u16;
        if accepts_noted && !is_own {
            return Some(acknowledged);
        }
        let answers_first =
            self.is_first_answer(arrival) && !mutant("bytes_before_an_answer_count");
        let client = &flow.directions[1 - arrival.direction];
        let is_fresh = client.position == 0
            && !client.has(flag::BUFFERED | flag::ENDED)
            && !flow.directions[arrival.direction].has(flag::STARTED);
        (answers_first && client.beginning() == acknowledged && !is_fresh).then_some(acknowledged)
    }

    /// True if a packet comes from a server of which no SYN was seen, to a client whose SYN was.
    fn is_first_answer(&self, arrival: &Arrival) -> bool {
        let flow = &self.flows[arrival.slot];
        let is_from_server = (arrival.direction == 1) != flow.has(bit::SECOND_IS_CLIENT);
        is_from_server
            && flow.directions[1 - arrival.direction].is_whole()
            && !flow.directions[arrival.direction].is_whole()
    }

    /// Begins a flow anew whose new connection was accepted by the packet of an arrival.
    pub(super) fn accept(
        &mut self,
        arrival: &Arrival,
        client_next: u32,
        output: &mut Output,
    ) -> Option<Decision> {
        let client = 1 - arrival.direction;
        match self.flows[arrival.slot].directions[client].beginning() == client_next {
            true => met("something came before the answer to a SYN"),
            false => met("a SYN was accepted in an open connection"),
        }
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

    /// True if a receiver throws the bytes or the end of a segment away because of what it
    /// acknowledges: more than the other side has sent, or less than any window allows.
    fn acknowledges_amiss(&self, arrival: &Arrival, acknowledged: u32) -> bool {
        let key = (arrival.slot, 1 - arrival.direction);
        let other = self.flows[key.0].directions[key.1];
        // Fragments that pass are not counted.
        let is_counted = other.is_whole() && !self.settings.pass_fragments;
        if !is_counted || mutant("any_acknowledgement_counts") {
            return false;
        }
        let inspected = other.position + u64::from(other.has(flag::ENDED));
        let (kept, end) = match other.has(flag::BUFFERED) {
            true => (self.reorder.end(key), self.reorder.known_end(key).map(|end| end + 1)),
            false => (None, None),
        };
        let sent = inspected.max(kept.unwrap_or(0)).max(end.unwrap_or(0)) - other.position;
        let lowest = other.position.min(WINDOW_MAX) as i64;
        let distance = i64::from(acknowledged.wrapping_sub(other.next) as i32);
        !(-lowest..=sent as i64).contains(&distance)
    }

    /// The verdict about a segment that receivers refuse or ignore, whatever its place.
    fn refused(&self, arrival: &Arrival, segment: &Segment) -> Option<Verdict> {
        let Segment { flags, acknowledged, payload, .. } = *segment;
        if flags.rst() {
            // A client that waits for an answer believes only a reset that answers its SYN.
            let directions = &self.flows[arrival.slot].directions;
            let answers = flags.ack() && acknowledged == directions[1 - arrival.direction].next;
            let is_started = directions[arrival.direction].has(flag::STARTED);
            let is_ignored = !is_started && !answers && self.is_first_answer(arrival);
            return is_ignored.then_some(Verdict::Pass);
        }
        // It may also announce that a byte of a later segment is urgent.
        if flags.urg() && !mutant("urgent_bytes_pass") {
            met("a segment was urgent");
            return Some(Verdict::Dropped(Reason::Refused));
        }
        if flags.syn() {
            let client = &self.flows[arrival.slot].directions[1 - arrival.direction];
            let is_refused = self.is_first_answer(arrival) && client.beginning() != acknowledged;
            return (flags.ack() && is_refused).then_some(Verdict::Pass);
        }
        if !flags.ack() {
            return Some(match payload.is_empty() {
                true => Verdict::Pass,
                false => Verdict::Dropped(Reason::Malformed),
            });
        }
        let carries = !payload.is_empty() || flags.fin();
        if carries && self.acknowledges_amiss(arrival, acknowledged) {
            met("a segment acknowledged what was never sent");
            return Some(Verdict::Dropped(Reason::Refused));
        }
        None
    }

    /// A segment of TCP.
    pub(super) fn segment(
        &mut self,
        arrival: &Arrival,
        segment: Segment,
        output: &mut Output,
    ) -> Verdict {
        let Arrival { slot, direction, .. } = *arrival;
        if let Some(verdict) = self.refused(arrival, &segment) {
            return verdict;
        }
        let Segment { flags, sequence, payload, .. } = segment;
        let sequence = sequence.wrapping_add(u32::from(flags.syn()));
        if !self.flows[slot].directions[direction].has(flag::STARTED)
            && let Some(decision) = self.started(arrival, flags, sequence, output)
        {
            return self.decided(slot, decision);
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
        if flags.syn() && sequence != stream.beginning() {
            return Verdict::Pass;
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

    /// The first packet of a direction, whose next byte has that number.
    fn started(
        &mut self,
        arrival: &Arrival,
        flags: TcpFlags,
        next: u32,
        output: &mut Output,
    ) -> Option<Decision> {
        let stream = &mut self.flows[arrival.slot].directions[arrival.direction];
        stream.flags |= flag::STARTED;
        if !flags.syn() {
            stream.flags |= flag::RESUMED;
        }
        stream.next = next;
        self.inspect_header(arrival, output)
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
