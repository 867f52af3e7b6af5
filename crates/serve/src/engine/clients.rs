//! Connections: from bytes to requests of the machine, and from its replies to bytes.
//!
//! Bounds: [`CONNECTIONS_MAX`] clients; what a client may have under way is bounded by its session,
//! and a client that does not read its replies is not read from.

use super::Engine;
use crate::api::Severity;
use crate::nbd::{Ask, Cookie, Errno, Extent, Out, Security, Session};
use crate::stream::Stream;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, IoSlice};
use std::sync::Arc;
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};
use thermocline_volume::{Action, Group, Piece, Priority, Reply, Request, RequestError, RequestId};

/// Buffers written to a connection at a time.
const SLICES_MAX: usize = 128;
/// Connections at once.
pub(super) const CONNECTIONS_MAX: usize = 256;
/// Parts of replies that may wait for a client before it is not read from any more.
const UNREAD_PARTS_MAX: usize = 4096;

/// A read of the engine's own waits no longer than this for others.
const READ_BACK_MAX: Nanos = Nanos(1_000_000_000);
/// Who waits for requests of the engine's own; connections are numbered from 1.
const NOBODY: u64 = 0;

/// Told whether a flush succeeded.
pub(crate) type Flushed = Box<dyn FnOnce(bool) + Send>;
/// Told what was read, or that it could not be.
pub(crate) type ReadBack = Box<dyn FnOnce(Result<Vec<u8>, RequestError>) + Send>;

/// Who waits for a request of the engine's own.
pub(super) enum Own {
    Flush(Flushed),
    Read(ReadBack),
}

impl Own {
    fn answer(self, result: Result<Vec<Piece>, RequestError>) {
        match self {
            Own::Flush(flushed) => flushed(result.is_ok()),
            Own::Read(read) => {
                let bytes = |piece: &Piece| piece.payload.to_vec();
                read(result.map(|pieces| pieces.iter().flat_map(bytes).collect()));
            }
        }
    }
}

/// A client.
pub(super) struct Connection {
    /// None only while it is being encrypted.
    stream: Option<Stream>,
    session: Session,
    /// Whether the socket may have something to read.
    readable: bool,
    /// Whether the socket takes more.
    writable: bool,
}

/// Who waits for a request, and since when.
pub(super) struct Origin {
    connection: u64,
    cookie: Cookie,
    kind: RequestKind,
    since: Nanos,
}

/// What is counted apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Read,
    Write,
    Zero,
    Flush,
}

impl RequestKind {
    pub(super) const ALL: [(RequestKind, &'static str); 4] = [
        (RequestKind::Read, "read"),
        (RequestKind::Write, "write"),
        (RequestKind::Zero, "zero"),
        (RequestKind::Flush, "flush"),
    ];

    fn of(action: &Action) -> RequestKind {
        match action {
            Action::Read { .. } => RequestKind::Read,
            Action::Write { .. } => RequestKind::Write,
            Action::WriteZeroes { .. } | Action::Discard { .. } => RequestKind::Zero,
            Action::Flush => RequestKind::Flush,
        }
    }
}

impl Engine {
    /// Lets in whoever waits.
    pub(super) fn accept(&mut self) -> bool {
        if !std::mem::take(&mut self.knocks) {
            return false;
        }
        let mut moved = false;
        for at in 0..self.doors.len() {
            while self.connections.len() < CONNECTIONS_MAX
                && let Some((stream, security)) = self.doors[at].accept()
            {
                self.let_in(stream, security);
                moved = true;
            }
        }
        moved
    }

    fn let_in(&mut self, stream: Stream, security: Security) {
        self.accepted += 1;
        let connection = Connection {
            stream: Some(stream),
            session: Session::new(security),
            readable: true,
            writable: true,
        };
        self.connections.insert(self.accepted, connection);
        self.event(Severity::Info, "client", format!("client {} came in", self.accepted));
    }

    /// Reads what clients have sent, and starts the requests in it; whether there was anything.
    pub(super) fn receive_all(&mut self) -> bool {
        let mut moved = false;
        let mut after = 0;
        while let Some((&id, _)) = self.connections.range(after..).next() {
            after = id + 1;
            moved |= self.receive(id);
        }
        moved
    }

    fn receive(&mut self, id: u64) -> bool {
        let connection = self.connections.get_mut(&id).expect("it is connected");
        if !connection.wants_bytes() {
            return false;
        }
        let mut moved = false;
        if connection.readable {
            let stream = connection.stream.as_mut().expect("only encrypting takes it away");
            let mut space = connection.session.space();
            let room: usize = space.iter().map(|slice| slice.len()).sum();
            let read = if room > 0 { stream.read_vectored(&mut space) } else { Ok(0) };
            match read {
                // What has arrived must be understood first.
                _ if room == 0 => {}
                Ok(0) => connection.session.hang_up(),
                Ok(count) => {
                    // A socket that gave less than was asked for is empty; TLS may have more.
                    connection.readable = count == room || matches!(stream, Stream::Tls(_));
                    connection.session.received(count);
                    moved = true;
                }
                Err(error) if is_passing(&error) => connection.readable = false,
                Err(_) => connection.session.hang_up(),
            }
        }
        self.start_requests(id) | moved
    }

    /// Hands requests that have arrived whole to the machine; whether there were any.
    fn start_requests(&mut self, id: u64) -> bool {
        let now = self.now();
        let mut any = false;
        loop {
            let connection = self.connections.get_mut(&id).expect("it is connected");
            let Some((cookie, ask)) = connection.session.next(&self.exports) else { return any };
            any = true;
            let volume = connection.session.volume().expect("requests come after the handshake");
            let volume = VolumeId(volume);
            match ask {
                Ask::Nothing => connection.session.done(&cookie),
                Ask::Status { offset, length } => {
                    let extents = extents(&self.group, volume, offset, length);
                    connection.session.status(&cookie, &extents);
                }
                Ask::Volume(action) => {
                    let kind = RequestKind::of(&action);
                    self.watch.note_request(volume, &action);
                    let origin = Origin { connection: id, cookie, kind, since: now };
                    let id = RequestId(u64::from(self.origins.insert(origin)));
                    let priority = Priority::Foreground;
                    self.submit(now, Request { id, volume, action, priority });
                }
            }
        }
    }

    pub(super) fn submit(&mut self, now: Nanos, request: Request) {
        if let Err(request) = self.group.submit(now, request) {
            self.refused.push(request);
        }
    }

    pub(super) fn answer(&mut self, now: Nanos, reply: Reply) {
        let origin = self.origins.remove(reply.id.0 as u32);
        if origin.connection != NOBODY || origin.kind != RequestKind::Read {
            self.watch.note_reply(origin.kind, now.saturating_sub(origin.since));
        }
        // A client that hung up needs no answer.
        let Some(connection) = self.connections.get_mut(&origin.connection) else {
            if let Some(own) = self.own.remove(&reply.id.0) {
                own.answer(reply.result);
            }
            return;
        };
        connection.answer(&origin.cookie, reply.result);
    }

    /// Makes everything durable that was done so far, volumes and pools too, and then says so.
    pub(super) fn flush(&mut self, flushed: Flushed) {
        let Some(export) = self.exports.first() else {
            // Flushes go to volumes; with the last one gone, nothing is left that must stay.
            return flushed(true);
        };
        let volume = VolumeId(export.volume);
        self.ask(volume, Action::Flush, Priority::Foreground, Own::Flush(flushed));
    }

    /// Reads sectors of a volume when nobody else wants anything, and then says what is there.
    pub(super) fn read_back(
        &mut self,
        volume: VolumeId,
        offset: Bytes,
        length: u32,
        read: ReadBack,
    ) {
        let deadline = Nanos(self.now().0 + READ_BACK_MAX.0);
        let action = Action::Read { offset, length };
        self.ask(volume, action, Priority::Background { deadline }, Own::Read(read));
    }

    /// Submits a request of the engine's own.
    fn ask(&mut self, volume: VolumeId, action: Action, priority: Priority, own: Own) {
        let (now, cookie, kind) = (self.now(), Cookie::default(), RequestKind::of(&action));
        let origin = Origin { connection: NOBODY, cookie, kind, since: now };
        let id = RequestId(u64::from(self.origins.insert(origin)));
        self.own.insert(id.0, own);
        self.submit(now, Request { id, volume, action, priority });
    }

    /// Writes what connections take; lets go of those that are over.
    pub(super) fn send_all(&mut self) -> bool {
        let mut moved = false;
        let mut over = Vec::new();
        for (&id, connection) in &mut self.connections {
            moved |= connection.send();
            if connection.session.starts_encryption() {
                let tls = self.tls.as_ref().expect("encryption is wanted only where it is set up");
                connection.encrypt(tls);
            }
            if connection.is_over() {
                over.push(id);
            }
        }
        for id in over {
            self.connections.remove(&id);
            self.event(Severity::Info, "client", format!("client {id} left"));
        }
        moved
    }

    /// Clients that have a volume attached now, as they are told of: number and peer.
    pub(super) fn attached(&mut self, volume: VolumeId) -> Vec<String> {
        // Some may have left without our having looked.
        self.connections.values_mut().for_each(|connection| connection.readable = true);
        self.receive_all();
        self.send_all();
        let attached = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.session.volume() == Some(volume.0));
        let told = attached.map(|(id, connection)| {
            let peer = connection.stream.as_ref().map_or(String::new(), Stream::peer);
            format!("client {id} ({peer})")
        });
        told.collect()
    }

    /// Gives the last replies a chance to leave before the sockets go.
    pub(super) fn write_all_out(&mut self) {
        let now = self.now();
        self.group.take_replies(&mut self.replies);
        for reply in std::mem::take(&mut self.replies) {
            self.answer(now, reply);
        }
        while self.send_all() {}
    }
}

impl Connection {
    fn wants_bytes(&self) -> bool {
        self.session.wants_bytes() && self.session.out.len() < UNREAD_PARTS_MAX
    }

    fn is_over(&self) -> bool {
        let unsent = self.stream.as_ref().is_some_and(Stream::has_unsent);
        self.session.is_cut_off() || self.session.is_over() && !unsent
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFd<'_> {
        let stream = self.stream.as_ref().expect("only encrypting takes it away");
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.wants_bytes());
        flags.set(PollFlags::OUT, !self.session.out.is_empty() || stream.has_unsent());
        PollFd::new(stream, flags)
    }

    /// Takes note of what `poll(2)` said.
    pub(super) fn note_ready(&mut self, flags: PollFlags) {
        let gone = PollFlags::HUP | PollFlags::ERR;
        self.readable |= flags.intersects(PollFlags::IN | gone);
        self.writable |= flags.intersects(PollFlags::OUT | gone);
        if flags.intersects(gone) && !self.wants_bytes() && !flags.contains(PollFlags::IN) {
            // Nobody is there to be answered, and nothing will be read that says so.
            self.session.hang_up();
        }
    }

    fn encrypt(&mut self, tls: &Arc<rustls::ServerConfig>) {
        let stream = self.stream.take().expect("it is encrypted once");
        match stream.encrypt(Arc::clone(tls)) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.session.encrypted();
                self.readable = true;
            }
            Err(_) => self.session.hang_up(),
        }
    }

    fn answer(&mut self, cookie: &Cookie, result: Result<Vec<Piece>, RequestError>) {
        let session = &mut self.session;
        match result {
            Ok(pieces) if pieces.is_empty() => session.done(cookie),
            Ok(pieces) => session.data(cookie, pieces),
            Err(RequestError::NoSpace) => session.fail(cookie, Errno::NoSpace),
            Err(RequestError::BadRange) => session.fail(cookie, Errno::Invalid),
            Err(RequestError::NotReady) => session.fail(cookie, Errno::Shutdown),
            Err(RequestError::Io | RequestError::NoVolume) => session.fail(cookie, Errno::Io),
        }
    }

    /// Writes as much as the socket takes; whether anything was.
    fn send(&mut self) -> bool {
        let Some(stream) = self.stream.as_mut() else { return false };
        if !self.writable {
            return false;
        }
        let unsent = stream.has_unsent();
        let pushed = if unsent { stream.push_out() } else { Ok(()) };
        let written = match pushed {
            Ok(()) if self.session.out.is_empty() => return unsent,
            Ok(()) => write_front(stream, &self.session.out),
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => self.sent(written),
            Err(error) if is_passing(&error) => self.writable = false,
            Err(_) => self.session.hang_up(),
        }
        self.writable
    }

    /// Takes `written` bytes off the front of what is to be sent.
    fn sent(&mut self, mut written: usize) {
        let out = &mut self.session.out;
        while let Some(front) = out.pop_front() {
            let length = match &front {
                Out::Bytes(bytes) => bytes.len(),
                Out::Payload(payload) => payload.len() as usize,
            };
            if written < length {
                out.push_front(match front {
                    Out::Bytes(mut bytes) => Out::Bytes(bytes.split_off(written)),
                    Out::Payload(payload) => {
                        Out::Payload(payload.slice(written as u32..length as u32))
                    }
                });
                return;
            }
            written -= length;
            if written == 0 {
                return;
            }
        }
    }
}

/// Hands the first parts to the socket: how many bytes it took.
fn write_front(stream: &mut Stream, out: &std::collections::VecDeque<Out>) -> io::Result<usize> {
    static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
    let mut slices: [IoSlice<'_>; SLICES_MAX] = [IoSlice::new(&[]); SLICES_MAX];
    let mut count = 0;
    for (slice, part) in slices.iter_mut().zip(out) {
        count += 1;
        match part {
            Out::Bytes(bytes) => *slice = IoSlice::new(bytes),
            Out::Payload(Payload::Bytes(bytes)) => *slice = IoSlice::new(bytes),
            Out::Payload(Payload::Zeroes(length)) => {
                let short = (*length as usize).min(ZEROES.len());
                *slice = IoSlice::new(&ZEROES[..short]);
                if short < *length as usize {
                    break; // More zeroes come before the next part.
                }
            }
        }
    }
    stream.write_vectored(&slices[..count])
}

/// What a range of a volume consists of, chunk by chunk.
fn extents(group: &Group, volume: VolumeId, offset: u64, length: u64) -> Vec<Extent> {
    let chunk_size = group.chunk_size().0;
    let end = offset + length;
    let mut extents = Vec::new();
    let mut at = offset;
    while at < end {
        let index = at / chunk_size;
        let stop = end.min((index + 1) * chunk_size);
        let pool = group.pool_of(ChunkId { volume, index: index as u32 });
        extents.push(Extent { length: stop - at, pool: pool.map(|pool| pool.0) });
        at = stop;
    }
    extents
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
