//! From frames to events. What the other end may not send now is an error here.

use super::{Control, Event, Peer, RESET_REFUSED, Session, StreamId, broken};
use crate::WireError;
use crate::decoder::Incoming;
use crate::format::role_number;
use crate::format::{Frame, Hello, Kind, VERSION_MAX, VERSION_MIN, charge, common_version};
use crate::stream::{Last, Stream};
use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

impl Session {
    /// Takes in everything that is whole.
    pub(super) fn take_in(&mut self, now: Nanos, mut bytes: &[u8]) -> Result<(), WireError> {
        while let Some(incoming) = self.decoder.next(&mut bytes)? {
            match incoming {
                Incoming::Hello(hello) => self.greeted(hello)?,
                Incoming::Frame(frame) => self.take_frame(now, frame)?,
            }
        }
        Ok(())
    }

    fn greeted(&mut self, hello: Hello) -> Result<(), WireError> {
        let version = common_version((VERSION_MIN, VERSION_MAX), hello.versions)?;
        if hello.role == self.config.role {
            return Err(WireError::Hello {
                field: "role",
                found: role_number(hello.role).into(),
                expected: "the other one: both ends made, or both accepted, this connection"
                    .to_string(),
            });
        }
        self.peer = Some(Peer {
            version,
            window_floor: hello.window_floor,
            window_max: hello.window_max,
            streams_max: hello.streams_max,
            header_bytes_max: hello.header_bytes_max,
        });
        let (epoch, parameters) = (hello.epoch, hello.parameters);
        self.events.push_back(Event::Hello { version, epoch, parameters });
        Ok(())
    }

    fn take_frame(&mut self, now: Nanos, frame: Frame) -> Result<(), WireError> {
        match frame {
            Frame::Open { stream, header } => self.take_open(now, stream, header),
            Frame::Data { stream, bytes, end } => self.take_data(stream, bytes, end),
            Frame::Credit { stream, bytes } => self.take_credit(stream, bytes),
            Frame::Reset { stream, code } => self.take_reset(now, stream, code),
            Frame::Closed { stream } => self.take_closed(stream),
            Frame::Ping { value } => self.take_ping(now, value),
            Frame::Pong { value } if self.heart.pong(value, now) => {
                met("a ping was answered");
                Ok(())
            }
            Frame::Pong { value } => {
                let expected = "the answer to a PING that is not answered";
                Err(broken(Kind::Pong, 0, format!("value {value}"), expected))
            }
            Frame::Closing { code, reason } => self.take_closing(code, reason),
            Frame::Abort { reason } => Err(WireError::Aborted { reason }),
        }
    }

    fn take_open(&mut self, now: Nanos, number: u32, header: Bytes) -> Result<(), WireError> {
        if u64::from(number) != self.next_theirs {
            let found = format!("number {number}");
            return Err(broken(Kind::Open, number, found, format!("number {}", self.next_theirs)));
        }
        if self.theirs_closing {
            return Err(broken(Kind::Open, number, "after CLOSING", "no new streams"));
        }
        let limit = self.config.header_bytes_max;
        if header.len() > limit as usize {
            let found = format!("a header of {} bytes", header.len());
            return Err(broken(Kind::Open, number, found, format!("at most {limit}")));
        }
        let limit = self.config.streams_max;
        let theirs = self.streams.len() as u64 - u64::from(self.opened);
        if theirs >= u64::from(limit) {
            let found = format!("stream {} at once", theirs + 1);
            return Err(broken(Kind::Open, number, found, format!("at most {limit}")));
        }
        let peer = self.peer.as_ref().expect("frames follow HELLO");
        let mut stream = Stream::new(peer.window_floor, &self.windows);
        self.next_theirs += 2;
        if self.ours_closing {
            met("a stream was refused while closing");
            self.count(now)?;
            stream.drop_contents(&mut self.queues, &mut self.windows);
            stream.last = Last::Queued { reset: true };
            let refusal = Frame::Reset { stream: number, code: RESET_REFUSED };
            self.control.push_back(Control::Frame(refusal));
        } else {
            self.events.push_back(Event::Opened { stream: StreamId(number), header });
        }
        self.streams.insert(number, stream);
        Ok(())
    }

    fn take_data(&mut self, number: u32, bytes: Bytes, end: bool) -> Result<(), WireError> {
        let length = bytes.len();
        let next = self.next_like(number);
        let stream = known(&mut self.streams, next, Kind::Data, number)?;
        if stream.theirs_ended {
            let found = format!("{length} bytes after the end");
            return Err(broken(Kind::Data, number, found, "no more data"));
        }
        stream.theirs_ended = end;
        let granted = stream.window.granted();
        let live = stream.is_live();
        let covered =
            if live { stream.window.receive(length) } else { stream.window.discard(length) };
        if !covered {
            let found = format!("{length} bytes, which cost {}", charge(length));
            let expected = format!("at most the credit of {granted} that is left");
            return Err(broken(Kind::Data, number, found, expected));
        }
        met_if(length > 0 && charge(length) > length as u64, "a short frame cost the least charge");
        if !live {
            met("late data of a stream that was reset");
            if mutant("late_data_delivered") {
                self.events.push_back(Event::Data { stream: StreamId(number), bytes });
            }
            return Ok(());
        }
        if length > 0 {
            self.events.push_back(Event::Data { stream: StreamId(number), bytes });
        }
        if end {
            stream.window.end(&mut self.windows);
            met_if(stream.window.unconsumed() > 0, "an end came before all was consumed");
            self.events.push_back(Event::Ended { stream: StreamId(number) });
            self.finish(number);
        }
        Ok(())
    }

    fn take_credit(&mut self, number: u32, bytes: u32) -> Result<(), WireError> {
        let most = self.peer.as_ref().expect("frames follow HELLO").window_max;
        let next = self.next_like(number);
        let stream = known(&mut self.streams, next, Kind::Credit, number)?;
        met_if(!stream.is_live(), "late credit for a stream that was reset or has ended");
        if bytes == 0 {
            return Err(broken(Kind::Credit, number, "0 bytes", "1 or more"));
        }
        let had = stream.queue.credit();
        if !stream.queue.grant(bytes, most) {
            let found = format!("{bytes} bytes on top of {had}");
            let expected = format!("at most the window of {most} that it announced");
            return Err(broken(Kind::Credit, number, found, expected));
        }
        self.line_up(number);
        Ok(())
    }

    fn take_reset(&mut self, now: Nanos, number: u32, code: u32) -> Result<(), WireError> {
        self.count(now)?;
        let next = self.next_like(number);
        let stream = known(&mut self.streams, next, Kind::Reset, number)?;
        stream.theirs_last = true;
        if stream.is_live() {
            stream.drop_contents(&mut self.queues, &mut self.windows);
            stream.last = Last::Queued { reset: false };
            self.control.push_back(Control::Frame(Frame::Closed { stream: number }));
            self.events.push_back(Event::Reset { stream: StreamId(number), code });
        } else {
            met_if(stream.was_reset(), "both ends reset a stream");
            met_if(!stream.was_reset(), "a stream was reset that is over here");
            self.forget(number);
        }
        Ok(())
    }

    fn take_closed(&mut self, number: u32) -> Result<(), WireError> {
        let next = self.next_like(number);
        let stream = known(&mut self.streams, next, Kind::Closed, number)?;
        if !stream.may_be_closed() {
            let expected = "both directions ended, or our RESET";
            return Err(broken(Kind::Closed, number, "a stream in use", expected));
        }
        met_if(stream.is_live(), "the other end closed a stream first");
        stream.theirs_last = true;
        self.forget(number);
        Ok(())
    }

    fn take_ping(&mut self, now: Nanos, value: u64) -> Result<(), WireError> {
        self.count(now)?;
        if self.pong_owed {
            let expected = "none before the last one is answered";
            return Err(broken(Kind::Ping, 0, "one more PING", expected));
        }
        if !mutant("ping_not_answered") {
            self.pong_owed = true;
            self.control.push_back(Control::Frame(Frame::Pong { value }));
        }
        Ok(())
    }

    fn take_closing(&mut self, code: u32, reason: String) -> Result<(), WireError> {
        if self.theirs_closing {
            return Err(broken(Kind::Closing, 0, "one more CLOSING", "one"));
        }
        self.theirs_closing = true;
        if self.ours_closing {
            return Ok(());
        }
        // The answer tells the other end that no stream of ours is on its way any more.
        self.close(code, &reason);
        self.events.push_back(Event::Closing { code, reason });
        Ok(())
    }

    /// The number that the next stream of this one's parity will have.
    fn next_like(&self, number: u32) -> u64 {
        if self.is_ours(number) { self.next_ours } else { self.next_theirs }
    }

    /// Notes a frame that cost the other end nothing.
    fn count(&mut self, now: Nanos) -> Result<(), WireError> {
        let limit = self.config.control_frames_per_s_max;
        if self.allowance.note(now) { Ok(()) } else { Err(WireError::Flood { limit }) }
    }
}

/// The stream of a frame, if the other end may still say something on it; those from `next` on were
/// never opened.
fn known(
    streams: &mut BTreeMap<u32, Stream>,
    next: u64,
    kind: Kind,
    number: u32,
) -> Result<&mut Stream, WireError> {
    let expected = "a stream that is open";
    match streams.get_mut(&number) {
        Some(stream) if !stream.theirs_last => Ok(stream),
        None if u64::from(number) >= next => {
            Err(broken(kind, number, "a stream that was never opened", expected))
        }
        _ => Err(broken(kind, number, "a stream on which the last frame was said", expected)),
    }
}
