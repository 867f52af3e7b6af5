//! From queues to frames: control frames in their order, then data in turns.
//!
//! Deficit round robin (Shreedhar & Varghese 1995): the first stream of the row has a turn of
//! [`FRAME_PAYLOAD_BYTES_MAX`]; what `max_bytes` cuts off a turn is left for the next call. Since
//! frames can be cut anywhere, no deficit is needed beyond that.

use super::{Control, Event, Session, StreamId};
use crate::block::Blocks;
use crate::format::{FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, Frame, Kind};
use crate::queue::Direction;
use crate::stream::Last;
use bytes::Bytes;
use std::collections::VecDeque;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// Shortest part of a turn for which a frame is cut: below it waits, or is given up.
const CUT_BYTES_MIN: usize = 1 << 10;

impl Session {
    /// [`Session::transmit`].
    pub(super) fn put_out(
        &mut self,
        now: Nanos,
        out: &mut VecDeque<Bytes>,
        max_bytes: usize,
    ) -> usize {
        let mut blocks = Blocks::new(out);
        while let Some(control) = self.control.front() {
            let length = self.longest(control);
            if blocks.written() > 0 && blocks.written() + length > max_bytes {
                return blocks.finish();
            }
            let control = self.control.pop_front().expect("looked at");
            self.put_control(now, control, &mut blocks);
        }
        while let Some(&number) = self.row.front() {
            if !self.put_data(number, &mut blocks, max_bytes) {
                break;
            }
        }
        blocks.finish()
    }

    /// Most bytes that a control frame takes.
    fn longest(&self, control: &Control) -> usize {
        let payload = match control {
            Control::Hello => return self.hello().encoded_bytes(),
            Control::Credit(_) => 4,
            Control::Frame(Frame::Open { header, .. }) => header.len(),
            Control::Frame(Frame::Closing { reason, .. } | Frame::Abort { reason }) => {
                4 + reason.len()
            }
            Control::Frame(_) => 8,
        };
        FRAME_HEADER_BYTES + payload
    }

    fn put_control(&mut self, now: Nanos, control: Control, blocks: &mut Blocks) {
        let frame = match control {
            Control::Hello => return blocks.hello(&self.hello()),
            Control::Credit(number) => {
                let stream = self.streams.get_mut(&number);
                let live = stream.filter(|stream| stream.is_live() && !stream.theirs_ended);
                met_if(live.is_none(), "credit was not needed any more");
                let bytes = live.map_or(0, |stream| stream.window.tell());
                if bytes > 0 {
                    blocks.frame(&Frame::Credit { stream: number, bytes });
                }
                return;
            }
            Control::Frame(frame) => frame,
        };
        blocks.frame(&frame);
        match frame {
            Frame::Ping { .. } => self.heart.ping_left(now),
            Frame::Pong { .. } => self.pong_owed = false,
            Frame::Reset { stream, .. } => self.last_left(stream, true),
            Frame::Closed { stream } => self.last_left(stream, false),
            _ => {}
        }
    }

    /// This end's last frame on a stream has left.
    fn last_left(&mut self, number: u32, reset: bool) {
        let stream = self.streams.get_mut(&number).expect("it waits for its last frame");
        stream.last = Last::Left { reset };
        self.forget(number);
    }

    /// Sends of the first stream in the row; false: `max_bytes` are full.
    fn put_data(&mut self, number: u32, blocks: &mut Blocks, max_bytes: usize) -> bool {
        let stream = self.streams.get_mut(&number);
        let Some(stream) = stream.filter(|stream| stream.is_live() && stream.queue.is_ready())
        else {
            self.leave_row(number);
            return true;
        };
        if self.turn_left == 0 {
            self.turn_left = FRAME_PAYLOAD_BYTES_MAX;
        }
        let wanted = stream.queue.sendable().min(self.turn_left);
        let left = max_bytes.saturating_sub(blocks.written());
        let mut count = wanted;
        if FRAME_HEADER_BYTES + wanted > left {
            if blocks.written() > 0 && left < FRAME_HEADER_BYTES + CUT_BYTES_MIN {
                return false;
            }
            met("a turn was cut");
            count = left.saturating_sub(FRAME_HEADER_BYTES).clamp(wanted.min(1), wanted);
        }
        let end = stream.queue.ends_with(count);
        blocks.header(Kind::Data, number, count, end);
        stream.queue.take(count, &mut self.queues, |piece| blocks.piece(piece));
        if stream.queue.takes_again(&self.queues, self.config.queue_max_bytes) {
            self.events.push_back(Event::Writable { stream: StreamId(number) });
        }
        let (ready, direction) = (stream.queue.is_ready(), stream.queue.direction());
        met_if(!ready && stream.queue.bytes() > 0, "a stream waits for credit");
        self.turn_left -= count;
        let over = self.turn_left < CUT_BYTES_MIN && !mutant("turn_never_over");
        if !ready {
            self.leave_row(number);
        } else if over {
            self.row.rotate_left(1);
            self.turn_left = 0;
        }
        if direction == Direction::Ended {
            self.finish(number);
        }
        blocks.written() < max_bytes
    }

    /// Takes the first stream off the row.
    fn leave_row(&mut self, number: u32) {
        self.row.pop_front();
        self.turn_left = 0;
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.in_row = mutant("row_forgets_a_stream");
        }
    }
}
