//! The event loop: NBD connections, a volume group, its devices.
//!
//! One round: requests of the machine go to the devices, what devices answered goes to the machine,
//! its replies to the connections; connections are read and written; what is due by the clock is
//! done. A round in which nothing moved ends in `poll(2)`. No thread, no lock: a group lives on one
//! loop.

use crate::nbd::{Ask, Cookie, Errno, Export, Extent, Out, Session};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Instant;
use thermocline_ports::{Completion, Device, Io, Payload, Ticket};
use thermocline_ports_os::Disk;
use thermocline_units::{ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{
    Group, OpenError, Priority, Reply, Request, RequestError, RequestId, Service,
};

/// Bytes read from a connection at a time.
const RECEIVE_BYTES: usize = 256 << 10;
/// Buffers written to a connection at a time.
const SLICES_MAX: usize = 64;
/// Connections at once.
const CONNECTIONS_MAX: usize = 256;

/// Why the engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket cannot be made.
    #[error("cannot listen on {path}: {source}")]
    Listen {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused to wait.
    #[error("the event loop cannot wait: {0}")]
    Wait(io::Error),
    /// The group is out of service.
    #[error("the volume group is out of service: {0}")]
    Group(OpenError),
}

struct Connection {
    stream: UnixStream,
    session: Session,
}

/// Who waits for a request.
struct Origin {
    connection: u64,
    cookie: Cookie,
}

/// See the module.
pub struct Engine {
    group: Group,
    devices: Vec<Disk>,
    exports: Vec<Export>,
    volumes: Vec<VolumeId>,
    listener: UnixListener,
    socket: PathBuf,
    connections: BTreeMap<u64, Connection>,
    accepted: u64,
    origins: BTreeMap<u64, Origin>,
    /// Requests that the machine had no room for.
    refused: Vec<Request>,
    requests: u64,
    started: Instant,
    ios: Vec<(PoolId, Ticket, Io)>,
    done: Vec<Completion>,
    replies: Vec<Reply>,
    received: Vec<u8>,
}

impl Engine {
    /// Brings a group into service and listens on a unix socket; volumes are exported under their
    /// numbers. `prepare` is called once the group is ready, to make volumes where there are none.
    ///
    /// # Errors
    /// When the group cannot be opened or the socket cannot be made.
    pub fn start(
        group: Group,
        devices: Vec<Disk>,
        socket: &Path,
        prepare: impl FnOnce(&mut Group, Nanos),
    ) -> Result<Engine, ServeError> {
        let failed = |source| ServeError::Listen { path: socket.to_path_buf(), source };
        // A socket that nobody listens on is left over; one that somebody does is not ours.
        if UnixStream::connect(socket).is_ok() {
            return Err(failed(io::ErrorKind::AddrInUse.into()));
        }
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(socket).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let mut engine = Engine {
            group,
            devices,
            exports: Vec::new(),
            volumes: Vec::new(),
            listener,
            socket: socket.to_path_buf(),
            connections: BTreeMap::new(),
            accepted: 0,
            origins: BTreeMap::new(),
            refused: Vec::new(),
            requests: 0,
            started: Instant::now(),
            ios: Vec::new(),
            done: Vec::new(),
            replies: Vec::new(),
            received: vec![0; RECEIVE_BYTES],
        };
        engine.run_until(|group| *group.service() != Service::Opening)?;
        if let Service::Failed(error) = engine.group.service() {
            return Err(ServeError::Group(*error));
        }
        let now = engine.now();
        prepare(&mut engine.group, now);
        engine.name_exports();
        Ok(engine)
    }

    fn name_exports(&mut self) {
        let volumes: Vec<_> = self.group.volumes().collect();
        self.volumes = volumes.iter().map(|volume| volume.id).collect();
        self.exports = volumes
            .iter()
            .map(|volume| Export { name: volume.id.to_string(), size: volume.size.0 })
            .collect();
    }

    /// The volumes that clients may attach.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Serves until `stop` is readable, then closes the group: everything is durable afterwards.
    ///
    /// # Errors
    /// When the system refuses to wait, or the group falls out of service.
    pub fn serve(&mut self, stop: &impl AsFd) -> Result<(), ServeError> {
        loop {
            if let Service::Failed(error) = self.group.service() {
                return Err(ServeError::Group(*error));
            }
            if !self.round() {
                let stopped = self.wait(Some(stop))?;
                if stopped {
                    break;
                }
            }
        }
        let now = self.now();
        self.group.close(now);
        self.run_until(|group| !matches!(group.service(), Service::Ready | Service::Closing))?;
        self.write_all_out();
        match self.group.service() {
            Service::Failed(error) => Err(ServeError::Group(*error)),
            _ => Ok(()),
        }
    }

    fn run_until(&mut self, done: impl Fn(&Group) -> bool) -> Result<(), ServeError> {
        while !done(&self.group) {
            if !self.round_of_devices() {
                self.wait::<UnixListener>(None)?;
            }
        }
        Ok(())
    }

    /// Nanoseconds since the engine was started.
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).expect("584 years"))
    }

    /// Moves everything that can be moved without waiting; whether anything was.
    fn round(&mut self) -> bool {
        let mut moved = self.accept();
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        for id in ids {
            moved |= self.receive(id);
        }
        moved |= self.round_of_devices();
        moved |= self.send();
        moved
    }

    fn round_of_devices(&mut self) -> bool {
        let now = self.now();
        let mut moved = false;
        if self.group.next_tick().is_some_and(|at| at <= now) {
            self.group.tick(now);
        }
        self.group.take_io(&mut self.ios);
        for (pool, ticket, io) in self.ios.drain(..) {
            self.devices[usize::from(pool.0)].submit(now, ticket, io);
            moved = true;
        }
        for (index, device) in self.devices.iter_mut().enumerate() {
            device.poll(now, &mut self.done);
            for completion in self.done.drain(..) {
                self.group.complete(now, PoolId(index as u16), completion);
                moved = true;
            }
        }
        self.group.take_replies(&mut self.replies);
        self.group.take_finished(&mut Vec::new());
        for reply in std::mem::take(&mut self.replies) {
            self.answer(reply);
            moved = true;
        }
        if !self.refused.is_empty() {
            for request in std::mem::take(&mut self.refused) {
                self.submit(now, request);
            }
        }
        moved
    }

    fn accept(&mut self) -> bool {
        if self.connections.len() >= CONNECTIONS_MAX {
            return false;
        }
        let Ok((stream, _)) = self.listener.accept() else { return false };
        if stream.set_nonblocking(true).is_ok() {
            self.accepted += 1;
            let session = Session::new();
            self.connections.insert(self.accepted, Connection { stream, session });
        }
        true
    }

    /// Reads what a connection has, and starts the requests in it.
    fn receive(&mut self, id: u64) -> bool {
        let connection = self.connections.get_mut(&id).expect("it is connected");
        if !connection.session.wants_bytes() {
            return false;
        }
        match connection.stream.read(&mut self.received) {
            Ok(0) => connection.session.hang_up(),
            Ok(count) => connection.session.feed(&self.received[..count]),
            Err(error) if is_passing(&error) => return self.start_requests(id),
            Err(_) => connection.session.hang_up(),
        }
        self.start_requests(id);
        true
    }

    /// Hands requests that have arrived whole to the machine; whether there were any.
    fn start_requests(&mut self, id: u64) -> bool {
        let now = self.now();
        let mut any = false;
        loop {
            let connection = self.connections.get_mut(&id).expect("it is connected");
            let Some((cookie, ask)) = connection.session.next(&self.exports) else { return any };
            any = true;
            let export = connection.session.export().expect("requests come after the handshake");
            let volume = self.volumes[export];
            match ask {
                Ask::Nothing => connection.session.done(&cookie),
                Ask::Status { offset, length } => {
                    let extents = extents(&self.group, volume, offset, length);
                    connection.session.status(&cookie, &extents);
                }
                Ask::Volume(action) => {
                    self.requests += 1;
                    let origin = Origin { connection: id, cookie };
                    self.origins.insert(self.requests, origin);
                    let request = Request {
                        id: RequestId(self.requests),
                        volume,
                        action,
                        priority: Priority::Foreground,
                    };
                    self.submit(now, request);
                }
            }
        }
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        if let Err(request) = self.group.submit(now, request) {
            self.refused.push(request);
        }
    }

    fn answer(&mut self, reply: Reply) {
        let origin = self.origins.remove(&reply.id.0).expect("the machine answers once");
        // A client that hung up needs no answer.
        let Some(connection) = self.connections.get_mut(&origin.connection) else { return };
        let (session, cookie) = (&mut connection.session, &origin.cookie);
        match reply.result {
            Ok(pieces) if pieces.is_empty() => session.done(cookie),
            Ok(pieces) => session.data(cookie, pieces),
            Err(RequestError::NoSpace) => session.fail(cookie, Errno::NoSpace),
            Err(RequestError::BadRange) => session.fail(cookie, Errno::Invalid),
            Err(RequestError::NotReady) => session.fail(cookie, Errno::Shutdown),
            Err(RequestError::Io | RequestError::NoVolume) => session.fail(cookie, Errno::Io),
        }
    }

    /// Writes what connections take; lets go of those that are over.
    fn send(&mut self) -> bool {
        let mut moved = false;
        for connection in self.connections.values_mut() {
            moved |= connection.send();
        }
        self.connections.retain(|_, connection| !connection.session.is_over());
        moved
    }

    /// Gives the last replies a chance to leave before the sockets go.
    fn write_all_out(&mut self) {
        self.group.take_replies(&mut self.replies);
        for reply in std::mem::take(&mut self.replies) {
            self.answer(reply);
        }
        while self.send() {}
    }

    /// Waits for sockets, devices, or the clock; whether `stop` is readable.
    fn wait<S: AsFd>(&mut self, stop: Option<&S>) -> Result<bool, ServeError> {
        let ticks = self.group.next_tick().into_iter();
        let due = ticks.chain(self.devices.iter().filter_map(Disk::next_event)).min();
        let timeout = due.map(|at| at.saturating_sub(self.now()));
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        if let Some(stop) = stop {
            fds.push(PollFd::new(stop, PollFlags::IN));
        }
        for device in &self.devices {
            if device.has_answers() {
                return Ok(false);
            }
            fds.push(PollFd::from_borrowed_fd(device.readiness(), PollFlags::IN));
        }
        for connection in self.connections.values() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, connection.session.wants_bytes());
            flags.set(PollFlags::OUT, !connection.session.out.is_empty());
            fds.push(PollFd::new(&connection.stream, flags));
        }
        let timeout = timeout.map(|span| Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as i64,
        });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ServeError::Wait(errno.into())),
        }
        Ok(stop.is_some() && fds[1].revents().contains(PollFlags::IN))
    }
}

impl Drop for Engine {
    /// Nobody listens any more.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

impl Connection {
    /// Writes as much as the socket takes; whether anything was.
    fn send(&mut self) -> bool {
        static ZEROES: [u8; 64 << 10] = [0; 64 << 10];
        let out = &mut self.session.out;
        if out.is_empty() {
            return false;
        }
        let mut slices: Vec<IoSlice<'_>> = Vec::new();
        for part in out.iter().take(SLICES_MAX) {
            match part {
                Out::Bytes(bytes) => slices.push(IoSlice::new(bytes)),
                Out::Payload(Payload::Bytes(bytes)) => slices.push(IoSlice::new(bytes)),
                Out::Payload(Payload::Zeroes(length)) => {
                    let length = (*length as usize).min(ZEROES.len());
                    slices.push(IoSlice::new(&ZEROES[..length]));
                    break; // More zeroes may follow before the next part.
                }
            }
        }
        match self.stream.write_vectored(&slices) {
            Ok(written) => {
                drop(slices);
                self.sent(written);
                true
            }
            Err(error) if is_passing(&error) => false,
            Err(_) => {
                self.session.hang_up();
                true
            }
        }
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

/// What a range of a volume consists of, chunk by chunk.
fn extents(group: &Group, volume: VolumeId, offset: u64, length: u64) -> Vec<Extent> {
    let chunk_size = group.chunk_size().0;
    let end = offset + length;
    let mut extents = Vec::new();
    let mut at = offset;
    while at < end {
        let index = at / chunk_size;
        let stop = end.min((index + 1) * chunk_size);
        let status = group.locate(ChunkId { volume, index: index as u32 });
        let first = status.and_then(|status| status.copies.first().copied());
        extents.push(Extent { length: stop - at, pool: first.map(|copy| copy.place.pool.0) });
        at = stop;
    }
    extents
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
