//! Connections: from bytes to requests of the machine, and from its replies to bytes.
//!
//! What a client may have under way is bounded by its session; what all of them hold together, and
//! how many there are, by [`mod@super::accepting`].

use super::Engine;
use super::streams::{STREAMS, hint_first_writes};
use crate::stream::Stream;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, IoSlice};
use std::sync::Arc;
use thermocline_nbd::{Ask, Cookie, Errno, Extent, Offer, Session};
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};
use thermocline_volume::{
    Action, Fragment, Group, Priority, Reply, Request, RequestError, RequestId,
};

/// Buffers written to a connection at a time.
const SLICES_MAX: usize = 128;

/// A read of the engine's own waits no longer than this for others.
const READ_BACK_MAX: Nanos = Nanos(1_000_000_000);
/// Number of the waiter for requests of the engine's own; connections are numbered from 1.
const NOBODY: u64 = 0;
/// Number of the waiter for requests of machines in this process that stand on volumes.
const WITHIN: u64 = u64::MAX;
/// A request of such a machine that nobody waits for is held back no longer than this.
const HELD_BACK_MAX: Nanos = Nanos(100_000_000);

/// Told whether a flush succeeded.
pub(crate) type Flushed = Box<dyn FnOnce(bool) + Send>;
/// Told what was read, or that it could not be.
pub(crate) type ReadBack = Box<dyn FnOnce(Result<Vec<u8>, RequestError>) + Send>;
/// Told the answer to a request of a machine in this process.
pub(crate) type Answered = Box<dyn FnOnce(Result<Vec<Fragment>, RequestError>) + Send>;

/// Urgency of a request of a machine in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Somebody waits for it.
    Foreground,
    /// Nothing waits for it.
    Background,
}

/// Waiter for a request of the engine's own.
pub(super) enum Own {
    Flush(Flushed),
    Read(ReadBack),
    Within(Answered),
}

impl Own {
    fn answer(self, result: Result<Vec<Fragment>, RequestError>) {
        match self {
            Own::Flush(flushed) => flushed(result.is_ok()),
            Own::Read(read) => {
                let bytes = |fragment: &Fragment| fragment.payload.to_vec();
                read(result.map(|fragments| fragments.iter().flat_map(bytes).collect()));
            }
            Own::Within(answered) => answered(result),
        }
    }
}

/// A client.
pub(super) struct Connection {
    /// The connection; `None` only while it is being encrypted.
    stream: Option<Stream>,
    pub(super) session: Session,
    /// True once a volume was attached.
    attached: bool,
    /// Time from which on the client holds what only it can move, and what it has to have moved to
    /// begin anew.
    owing: Option<(Nanos, u64)>,
    /// True if the socket may have something to read.
    readable: bool,
    /// True if the socket takes more.
    writable: bool,
}

/// Waiter for a request, and the time since when it waits.
pub(super) struct Origin {
    connection: u64,
    cookie: Cookie,
    kind: RequestKind,
    since: Nanos,
}

/// Kinds of requests that are counted apart.
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
        let wants_bytes = connection.session.wants_bytes();
        if !wants_bytes && connection.session.lacks() == 0 {
            return false;
        }
        let mut moved = false;
        if wants_bytes && connection.readable {
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
    pub(super) fn start_requests(&mut self, id: u64) -> bool {
        let now = self.now();
        let mut any = false;
        loop {
            let connection = self.connections.get_mut(&id).expect("it is connected");
            let refusal = if connection.attached { None } else { self.admission.refusal(id) };
            let offer = Offer { exports: &self.offered, streams: &STREAMS, refusal };
            let next = connection.session.next(&offer);
            if !connection.attached {
                self.note_handshake(id);
            }
            let Some((cookie, ask)) = next else {
                if self.finds_room(id, now) {
                    continue;
                }
                return any;
            };
            any = true;
            let connection = self.connections.get_mut(&id).expect("it is connected");
            let volume = connection.session.volume().expect("requests come after the handshake");
            let (volume, stream) = (VolumeId(volume), connection.session.stream());
            match ask {
                Ask::Nothing => connection.session.done(&cookie),
                Ask::Status { offset, length } => {
                    let extents = extents(&self.group, volume, offset, length);
                    connection.session.status(&cookie, &extents);
                }
                Ask::Volume(action) => {
                    let kind = RequestKind::of(&action);
                    self.counts.note_request(volume, &action);
                    if let Some(stream) = stream {
                        hint_first_writes(&mut self.group, now, stream, volume, &action);
                    }
                    let origin = Origin { connection: id, cookie, kind, since: now };
                    let id = RequestId(u64::from(self.origins.insert(origin)));
                    let priority = Priority::Foreground;
                    self.submit(now, Request { id, volume, action, priority });
                }
            }
        }
    }

    /// Hands a request to the machine, behind those that it handed back of the same pool.
    pub(super) fn submit(&mut self, now: Nanos, request: Request) {
        if !self.refused.is_empty() {
            let pool = self.group.counts_for(&request);
            if let Some(others) = self.refused.get_mut(&pool) {
                return others.push_back(request);
            }
        }
        if let Err(request) = self.group.submit(now, request) {
            let pool = self.group.counts_for(&request);
            self.refused.entry(pool).or_default().push_back(request);
        }
    }

    /// Hands requests to the machine again that it handed back: of each pool, until it has its
    /// share again.
    pub(super) fn submit_refused(&mut self, now: Nanos) {
        let group = &mut self.group;
        self.refused.retain(|_, requests| {
            while let Some(request) = requests.pop_front() {
                if let Err(request) = group.submit(now, request) {
                    requests.push_front(request);
                    return true;
                }
            }
            false
        });
    }

    /// Answers requests that the machine handed back, in place of handing them to it again: those
    /// of a client (by its number) or a volume that is gone. The next volume may get its number.
    pub(super) fn give_up_refused(&mut self, now: Nanos, goes: impl Fn(u64, VolumeId) -> bool) {
        let (origins, mut over) = (&self.origins, Vec::new());
        self.refused.retain(|_, requests| {
            requests.retain(|request| {
                let client = origins[request.id.0 as u32].connection;
                let stays = !goes(client, request.volume);
                if !stays {
                    over.push(request.id);
                }
                stays
            });
            !requests.is_empty()
        });
        for id in over {
            self.answer(now, Reply { id, result: Err(RequestError::NoVolume) });
        }
    }

    pub(super) fn answer(&mut self, now: Nanos, reply: Reply) {
        let origin = self.origins.remove(reply.id.0 as u32);
        if origin.connection != NOBODY || origin.kind != RequestKind::Read {
            self.counts.note_reply(origin.kind, now.saturating_sub(origin.since));
        }
        // A client that hung up needs no answer.
        let Some(connection) = self.connections.get_mut(&origin.connection) else {
            self.budget.release(origin.cookie.held());
            if let Some(own) = self.own.remove(&reply.id.0) {
                own.answer(reply.result);
            }
            return;
        };
        connection.answer(&origin.cookie, reply.result);
        self.budget.release(connection.session.surplus());
    }

    /// Makes everything durable that was done so far, volumes and pools too, and then says so.
    pub(super) fn flush(&mut self, flushed: Flushed) {
        // Any volume will do. Where the last one is gone, that is what must stay so.
        let volume = self.exports.first().map_or(VolumeId(0), |export| VolumeId(export.volume));
        self.ask(NOBODY, (volume, Action::Flush, Priority::Foreground), Own::Flush(flushed));
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
        self.ask(NOBODY, (volume, action, Priority::Background { deadline }), Own::Read(read));
    }

    /// Carries out a request of a machine in this process that stands on a volume. It counts as a
    /// client's.
    pub(super) fn ask_within(
        &mut self,
        volume: VolumeId,
        action: Action,
        urgency: Urgency,
        answered: Answered,
    ) {
        self.counts.note_request(volume, &action);
        let priority = match urgency {
            Urgency::Foreground => Priority::Foreground,
            Urgency::Background => {
                Priority::Background { deadline: Nanos(self.now().0 + HELD_BACK_MAX.0) }
            }
        };
        self.ask(WITHIN, (volume, action, priority), Own::Within(answered));
    }

    /// Submits a request that no connection waits for.
    fn ask(
        &mut self,
        waiter: u64,
        (volume, action, priority): (VolumeId, Action, Priority),
        own: Own,
    ) {
        let (now, cookie, kind) = (self.now(), Cookie::default(), RequestKind::of(&action));
        let origin = Origin { connection: waiter, cookie, kind, since: now };
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
            self.budget.release(connection.session.surplus());
            if connection.session.starts_encryption() {
                let tls = self.tls.as_ref().expect("encryption is wanted only where it is set up");
                connection.encrypt(tls);
            }
            if connection.is_over() {
                over.push(id);
            }
        }
        over.into_iter().for_each(|id| self.let_go(id));
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
    pub(super) fn new(stream: Stream, session: Session) -> Connection {
        let stream = Some(stream);
        let (readable, writable) = (true, true);
        Connection { stream, session, attached: false, owing: None, readable, writable }
    }

    /// Takes note that a volume is attached: true if none was before.
    pub(super) fn note_attached(&mut self) -> bool {
        self.session.volume().is_some() && !std::mem::replace(&mut self.attached, true)
    }

    /// Time from which on the client has had to move what it holds, as far as is known from calling
    /// this now and then; `None`: nothing that it holds waits for it.
    pub(super) fn owes_since(&mut self, now: Nanos) -> Option<Nanos> {
        let (owed, moved) = (self.session.owed(), self.session.moved());
        let goal = moved + owed;
        self.owing = match self.owing {
            _ if owed == 0 => None,
            Some((since, goal)) if moved < goal => Some((since, goal)),
            _ => Some((now, goal)),
        };
        self.owing.map(|(since, _)| since)
    }

    fn is_over(&self) -> bool {
        let unsent = self.stream.as_ref().is_some_and(Stream::has_unsent);
        self.session.is_cut_off() || self.session.is_over() && !unsent
    }

    /// Events of the socket to wait for.
    pub(super) fn interest(&self) -> PollFd<'_> {
        let stream = self.stream.as_ref().expect("only encrypting takes it away");
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.session.wants_bytes());
        flags.set(PollFlags::OUT, self.session.has_unsent() || stream.has_unsent());
        PollFd::new(stream, flags)
    }

    /// Takes note of what `poll(2)` said.
    pub(super) fn note_ready(&mut self, flags: PollFlags) {
        let gone = PollFlags::HUP | PollFlags::ERR;
        self.readable |= flags.intersects(PollFlags::IN | gone);
        self.writable |= flags.intersects(PollFlags::OUT | gone);
        if flags.intersects(gone) && !self.session.wants_bytes() && !flags.contains(PollFlags::IN) {
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

    fn answer(&mut self, cookie: &Cookie, result: Result<Vec<Fragment>, RequestError>) {
        let session = &mut self.session;
        match result {
            Ok(fragments) if fragments.is_empty() => session.done(cookie),
            Ok(fragments) => session.data(cookie, fragments),
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
            Ok(()) if !self.session.has_unsent() => return unsent,
            Ok(()) => {
                let mut slices = [IoSlice::new(&[]); SLICES_MAX];
                let count = self.session.unsent(&mut slices);
                stream.write_vectored(&slices[..count])
            }
            Err(error) => Err(error),
        };
        match written {
            Ok(written) => self.session.sent(written),
            Err(error) if is_passing(&error) => self.writable = false,
            Err(_) => self.session.hang_up(),
        }
        self.writable
    }
}

/// Extents of a range of a volume, chunk by chunk.
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
