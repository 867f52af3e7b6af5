//! One end of a connection: what its user may ask, and its state.
//!
//! 1. `receiving` turns frames into events, and judges whether they may come now.
//! 2. `sending` turns queues into frames: control frames in their order, then data in turns.
//!
//! Control frames of a stream wait at most once each (OPEN, CREDIT, and RESET or CLOSED), those of
//! the connection too; so their queue has a bound.

mod receiving;
mod sending;

use crate::decoder::Decoder;
use crate::format::{Frame, Hello, Kind, VERSION_MAX, VERSION_MIN, shortened};
use crate::heart::{Allowance, Heart};
use crate::pool::Pool;
use crate::queue::Direction;
use crate::stream::{Last, Stream};
use crate::{Config, ConfigError, Gone, OpenError, Role, WireError};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use thermocline_units::Nanos;
use thermocline_units::situations::{met, met_if};

/// Code of the RESET that refuses a stream because this end is closing.
pub const RESET_REFUSED: u32 = u32::MAX;

/// Number of a stream in its session; odd if the connector opened it. Never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u32);

impl StreamId {
    /// The number, 1 or more.
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Something that happened on the connection. After `Ended` no more `Data`, after `Reset` nothing
/// more comes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The other end is there; streams can be opened. The first event.
    Hello {
        /// Version of the frames that both speak.
        version: u16,
        /// Run of the other end.
        epoch: [u8; 16],
        /// The parameters of its user.
        parameters: Bytes,
    },
    /// The other end opened a stream. Whoever does not want it resets it.
    Opened {
        /// The stream.
        stream: StreamId,
        /// The header that opened it.
        header: Bytes,
    },
    /// Bytes arrived, 1 or more. Tell [`Session::consumed`] when they are used.
    Data {
        /// The stream.
        stream: StreamId,
        /// The bytes, in memory of their own.
        bytes: Bytes,
    },
    /// The other end sends nothing more on this stream. This end may.
    Ended {
        /// The stream.
        stream: StreamId,
    },
    /// The other end dropped the stream, both ways: what is not sent is lost, and what came need
    /// not be consumed. Not told of a stream that is over for this end: both directions ended and
    /// everything consumed, or reset.
    Reset {
        /// The stream.
        stream: StreamId,
        /// The other end's reason; [`RESET_REFUSED`]: it was closing and its user never heard of
        /// the stream.
        code: u32,
    },
    /// A stream that had not taken everything takes bytes again, unless others were faster: then it
    /// takes none, and this comes once more.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// The other end wants no new streams. Not told if this end asked for the same before.
    Closing {
        /// The other end's reason.
        code: u32,
        /// Its words, foreign text.
        reason: String,
    },
}

/// A control frame that waits.
#[derive(Debug)]
enum Control {
    Hello,
    /// The credit that there is when it leaves.
    Credit(u32),
    Frame(Frame),
}

/// Limits announced by the other end.
#[derive(Debug)]
struct Peer {
    version: u16,
    window_floor: u32,
    window_max: u32,
    streams_max: u32,
    header_bytes_max: u32,
}

/// One end of a connection. Idle it takes under 1 KiB.
#[derive(Debug)]
pub struct Session {
    config: Config,
    began: Nanos,
    decoder: Decoder,
    peer: Option<Peer>,
    streams: BTreeMap<u32, Stream>,
    /// Streams of `streams` that this end opened.
    opened: u32,
    /// The next number of this end's streams, and of the other's; beyond 32 bits: used up.
    pub(crate) next_ours: u64,
    pub(crate) next_theirs: u64,
    control: VecDeque<Control>,
    /// Streams that want to send, each at most once; the first one has `turn_left` bytes.
    row: VecDeque<u32>,
    turn_left: usize,
    events: VecDeque<Event>,
    windows: Pool,
    queues: Pool,
    heart: Heart,
    allowance: Allowance,
    pong_owed: bool,
    ours_closing: bool,
    theirs_closing: bool,
    failed: Option<WireError>,
}

impl Session {
    /// One end of a connection that was just made.
    ///
    /// # Errors
    /// A setting does not fit.
    pub fn new(config: Config, now: Nanos) -> Result<Session, ConfigError> {
        config.check()?;
        let (ours, theirs) = match config.role {
            Role::Connector => (1, 2),
            Role::Acceptor => (2, 1),
        };
        Ok(Session {
            began: now,
            decoder: Decoder::default(),
            peer: None,
            streams: BTreeMap::new(),
            opened: 0,
            next_ours: ours,
            next_theirs: theirs,
            control: VecDeque::from([Control::Hello]),
            row: VecDeque::new(),
            turn_left: 0,
            events: VecDeque::new(),
            windows: Pool::new(config.window_floor_bytes, config.window_pool_bytes()),
            queues: Pool::new(config.queue_floor_bytes, config.queue_pool_bytes()),
            heart: Heart::new(now),
            allowance: Allowance::new(config.control_frames_per_s_max),
            pong_owed: false,
            ours_closing: false,
            theirs_closing: false,
            failed: None,
            config,
        })
    }

    /// Takes in bytes of the other end, in pieces of any size. Take the events after each call:
    /// they are few for few bytes, but nothing else bounds them.
    ///
    /// # Errors
    /// The other end broke a rule. The session is over: events that were not taken are dropped,
    /// all calls do nothing, and [`Session::transmit`] has at most a last frame that tells the
    /// other end why.
    pub fn receive(&mut self, now: Nanos, bytes: &[u8]) -> Result<(), WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.heart.hear(now);
        self.take_in(now, bytes).map_err(|error| self.fail(error))
    }

    /// The next thing that happened, in order.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Opens a stream; the other end gets `header` with it. Bytes can be sent at once.
    ///
    /// # Errors
    /// It cannot be opened, at least not now; nothing happened.
    pub fn open(&mut self, header: &[u8]) -> Result<StreamId, OpenError> {
        if self.failed.is_some() {
            return Err(OpenError::Failed);
        }
        let peer = self.peer.as_ref().ok_or(OpenError::NotYet)?;
        if self.ours_closing || self.theirs_closing {
            return Err(OpenError::Closing);
        }
        let limit = peer.header_bytes_max;
        if header.len() > limit as usize {
            return Err(OpenError::HeaderTooLong { length: header.len(), limit });
        }
        let limit = self.config.streams_max.min(peer.streams_max);
        if self.opened >= limit {
            met("as many streams are open as may be");
            return Err(OpenError::TooMany { limit });
        }
        let number = u32::try_from(self.next_ours).map_err(|_| OpenError::Exhausted)?;
        self.streams.insert(number, Stream::new(peer.window_floor, &self.windows));
        self.next_ours += 2;
        self.opened += 1;
        let header = Bytes::copy_from_slice(header);
        self.control.push_back(Control::Frame(Frame::Open { stream: number, header }));
        Ok(StreamId(number))
    }

    /// Queues what fits of `bytes` for a stream and takes it off their front; how much that was. If
    /// some is left, [`Event::Writable`] tells when there is room again. Contents are not copied.
    ///
    /// # Errors
    /// Nothing can be sent on this stream any more.
    pub fn send(&mut self, stream: StreamId, bytes: &mut Bytes) -> Result<usize, Gone> {
        let state = self.streams.get_mut(&stream.0).filter(|stream| stream.is_live());
        let state = state.filter(|stream| stream.queue.direction() == Direction::Open);
        let state = state.ok_or(Gone(stream))?;
        let sent = state.queue.push(bytes, &mut self.queues, self.config.queue_max_bytes);
        met_if(!bytes.is_empty(), "a queue took a part");
        self.line_up(stream.0);
        Ok(sent)
    }

    /// Bytes that [`Session::send`] would take now; 0 for a stream that takes none.
    pub fn room(&self, stream: StreamId) -> usize {
        let state = self.streams.get(&stream.0).filter(|stream| stream.is_live());
        let state = state.filter(|stream| stream.queue.direction() == Direction::Open);
        state.map_or(0, |state| state.queue.room(&self.queues, self.config.queue_max_bytes))
    }

    /// Ends this end's direction of a stream, behind what is queued. Does nothing if it has ended.
    pub fn end(&mut self, stream: StreamId) {
        let Some(state) = self.streams.get_mut(&stream.0) else { return };
        if state.is_live() {
            state.queue.end();
            self.line_up(stream.0);
        }
    }

    /// Drops a stream, both ways: no more events of it come, what is queued is lost. Does nothing
    /// if it is over.
    pub fn reset(&mut self, stream: StreamId, code: u32) {
        let Some(state) = self.streams.get_mut(&stream.0) else { return };
        if !state.is_live() {
            return;
        }
        met_if(state.theirs_ended, "a stream was reset after its end");
        state.drop_contents(&mut self.queues, &mut self.windows);
        state.last = Last::Queued { reset: true };
        self.events.retain(|event| event.stream() != Some(stream));
        self.control.push_back(Control::Frame(Frame::Reset { stream: stream.0, code }));
    }

    /// Notes that `bytes` of what was delivered of a stream are used: the other end may send as
    /// many again. Does nothing if the stream is over.
    ///
    /// # Panics
    /// When more is used than was received.
    pub fn consumed(&mut self, stream: StreamId, bytes: usize) {
        let Some(state) = self.streams.get_mut(&stream.0).filter(|stream| stream.is_live()) else {
            return;
        };
        state.window.consume(bytes as u64);
        if state.theirs_ended {
            state.window.shrink(&mut self.windows);
        } else if state.window.refill(&mut self.windows, self.config.window_max_bytes) {
            self.control.push_back(Control::Credit(stream.0));
        }
        self.finish(stream.0);
    }

    /// Appends segments to send to `out`, at most `max_bytes` of them; how many bytes. A frame that
    /// is longer is sent alone: `max_bytes` should be [`crate::FRAME_PAYLOAD_BYTES_MAX`] or more.
    /// 0: nothing is to be sent. Whoever owns the socket writes them in order, before others.
    pub fn transmit(&mut self, now: Nanos, out: &mut VecDeque<Bytes>, max_bytes: usize) -> usize {
        self.put_out(now, out, max_bytes)
    }

    /// True if [`Session::transmit`] may have something.
    pub fn wants_transmit(&self) -> bool {
        !self.control.is_empty() || !self.row.is_empty()
    }

    /// Time at which [`Session::tick`] has something to do; `None`: the session has failed.
    pub fn next_deadline(&self) -> Option<Nanos> {
        if self.failed.is_some() {
            return None;
        }
        if self.peer.is_none() {
            return Some(Nanos(self.began.0.saturating_add(self.config.hello_within.0)));
        }
        Some(self.heart.deadline(self.config.ping_after, self.config.silent_after))
    }

    /// Does what is due: asks for a sign of life. It can be called at any time.
    ///
    /// # Errors
    /// The other end has said nothing for too long, or this session had failed.
    pub fn tick(&mut self, now: Nanos) -> Result<(), WireError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        if self.peer.is_none() {
            let within = self.config.hello_within;
            let late = now.saturating_sub(self.began) >= within;
            return if late { Err(self.fail(WireError::NoHello { within })) } else { Ok(()) };
        }
        let since = self.heart.silence(now);
        if since >= self.config.silent_after {
            return Err(self.fail(WireError::Silent { since }));
        }
        if since >= self.config.ping_after {
            self.ping();
        }
        Ok(())
    }

    /// Asks the other end for an answer, if none is outstanding: [`Session::round_trip`] is new
    /// then.
    pub fn ping(&mut self) {
        if self.peer.is_none() || self.failed.is_some() {
            return;
        }
        if let Some(value) = self.heart.ping() {
            self.control.push_back(Control::Frame(Frame::Ping { value }));
        }
    }

    /// Lets no new streams begin; those that are there go on. `reason` is cut after
    /// [`crate::REASON_BYTES_MAX`]. Does nothing the second time.
    pub fn close(&mut self, code: u32, reason: &str) {
        if self.failed.is_some() || self.ours_closing {
            return;
        }
        self.ours_closing = true;
        let reason = shortened(reason).to_string();
        self.control.push_back(Control::Frame(Frame::Closing { code, reason }));
    }

    /// True if both ends want no new streams.
    pub fn is_closing(&self) -> bool {
        self.ours_closing && self.theirs_closing
    }

    /// True if both ends want no new streams, none is left, and nothing has to be sent: the
    /// connection can be closed.
    pub fn is_drained(&self) -> bool {
        self.is_closing() && self.streams.is_empty() && self.control.is_empty()
    }

    /// The error that ended the session.
    pub fn error(&self) -> Option<&WireError> {
        self.failed.as_ref()
    }

    /// Version of the frames; `None` before the other end's HELLO.
    pub fn version(&self) -> Option<u16> {
        self.peer.as_ref().map(|peer| peer.version)
    }

    /// Streams that are not over on both ends.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes that wait to be sent on a stream.
    pub fn queued_bytes(&self, stream: StreamId) -> usize {
        self.streams.get(&stream.0).map_or(0, |stream| stream.queue.bytes())
    }

    /// Bytes received on a stream and not consumed.
    #[cfg(test)]
    pub(crate) fn unconsumed_bytes(&self, stream: StreamId) -> u64 {
        self.streams.get(&stream.0).map_or(0, |stream| stream.window.unconsumed())
    }

    /// Time from the last ping to its answer.
    pub fn round_trip(&self) -> Option<Nanos> {
        self.heart.round_trip()
    }

    /// True if all that streams hold is accounted for.
    #[cfg(test)]
    pub(crate) fn adds_up(&self) -> bool {
        let live = self.streams.values().filter(|stream| stream.is_live() && !stream.theirs_ended);
        let idle = self.streams.values().all(|stream| !stream.is_live());
        let full = self.windows.is_full() && self.queues.is_full();
        live.map(|stream| &stream.window).all(crate::window::Window::adds_up) && (full || !idle)
    }

    /// The first words of this end.
    fn hello(&self) -> Hello {
        Hello {
            versions: (VERSION_MIN, VERSION_MAX),
            epoch: self.config.epoch,
            window_floor: self.config.window_floor_bytes,
            window_max: self.config.window_max_bytes,
            streams_max: self.config.streams_max,
            header_bytes_max: self.config.header_bytes_max,
            role: self.config.role,
            parameters: self.config.parameters.clone(),
        }
    }

    /// Puts a stream in the row if it can send.
    fn line_up(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.is_live() && stream.queue.is_ready() && !stream.in_row {
            stream.in_row = true;
            self.row.push_back(number);
        }
    }

    /// Says CLOSED if the stream has nothing more to say.
    fn finish(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        if stream.is_finished() {
            stream.drop_contents(&mut self.queues, &mut self.windows);
            stream.last = Last::Queued { reset: false };
            self.control.push_back(Control::Frame(Frame::Closed { stream: number }));
        }
    }

    /// Forgets the stream if both ends have said their last frame.
    fn forget(&mut self, number: u32) {
        if self.streams.get(&number).is_some_and(Stream::is_over) {
            self.streams.remove(&number);
            self.opened -= u32::from(self.is_ours(number));
        }
    }

    /// True if this end opened, or would open, the stream.
    fn is_ours(&self, number: u32) -> bool {
        u64::from(number) % 2 == self.next_ours % 2
    }

    /// Ends the session: everything is dropped, but a frame that tells the other end why.
    fn fail(&mut self, error: WireError) -> WireError {
        let greeting = matches!(self.control.front(), Some(Control::Hello));
        self.control.clear();
        if greeting {
            self.control.push_back(Control::Hello);
        }
        if !matches!(error, WireError::Aborted { .. } | WireError::Silent { .. }) {
            let reason = shortened(&error.to_string()).to_string();
            self.control.push_back(Control::Frame(Frame::Abort { reason }));
        }
        self.streams.clear();
        self.row.clear();
        self.events.clear();
        self.decoder = Decoder::default();
        self.failed.insert(error).clone()
    }
}

impl Event {
    /// The stream it tells of.
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Event::Hello { .. } | Event::Closing { .. } => None,
            Event::Opened { stream, .. }
            | Event::Data { stream, .. }
            | Event::Ended { stream }
            | Event::Reset { stream, .. }
            | Event::Writable { stream } => Some(*stream),
        }
    }
}

/// Error of a frame on a stream.
fn broken(
    kind: Kind,
    stream: u32,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> WireError {
    let (found, expected) = (found.into(), expected.into());
    WireError::Broken { frame: kind.name(), stream, found, expected }
}
