//! NBD clients of an agent: from bytes to requests of guests, and from their ends to bytes.
//!
//! A session bounds what its client has under way; what all of them hold together is granted from
//! one budget. A client that has not chosen a volume within [`HANDSHAKE_WITHIN`] is let go.

use super::guests::{Ended, Failure};
use super::host::{Core, Who};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::rc::Rc;
use std::time::Duration;
use thermocline_hostcache::VolumeKey;
use thermocline_nbd::{Ask, Cookie, Errno, Export, Extent, Offer, Security, Session};
use thermocline_units::Bytes;
use thermocline_volume::Fragment;
use tokio::io::{Interest, Ready};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Time for a client to choose a volume.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// Buffers written to a socket at a time.
const SLICES_MAX: usize = 64;
/// Rounds of reading and writing before others have their turn.
const ROUNDS: usize = 16;

/// A client's socket.
pub(super) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Socket::Unix(stream) => stream.ready(interest).await,
            Socket::Tcp(stream) => stream.ready(interest).await,
        }
    }

    fn read(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.try_read_vectored(into),
            Socket::Tcp(stream) => stream.try_read_vectored(into),
        }
    }

    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.try_write_vectored(slices),
            Socket::Tcp(stream) => stream.try_write_vectored(slices),
        }
    }
}

struct Client {
    session: Session,
    wakeup: Rc<Notify>,
}

/// Things that a step left to be waited for.
struct Wish {
    reads: bool,
    writes: bool,
    is_attached: bool,
}

/// All clients.
pub(super) struct Clients {
    all: BTreeMap<u64, Client>,
    last: u64,
    most: usize,
    /// Bytes that may be granted beyond clients' own, and that are.
    budget: u64,
    granted: u64,
    /// True if requests wait for room at the agent, or for memory.
    starved: bool,
    /// True if all were let go, and no other may come.
    is_closed: bool,
}

impl Clients {
    pub(super) fn new(most: usize, budget: Bytes) -> Clients {
        Clients {
            all: BTreeMap::new(),
            last: 0,
            most,
            budget: budget.0,
            granted: 0,
            starved: false,
            is_closed: false,
        }
    }

    /// Lets all clients go, with their requests unanswered: one that connects again asks the next
    /// process for them, and an error would be the end of its guest.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.granted = 0;
        for client in std::mem::take(&mut self.all).into_values() {
            client.wakeup.notify_one();
        }
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Clients that have a volume attached.
    pub(super) fn of_volume(&self, volume: VolumeKey) -> usize {
        let has_it = |client: &&Client| client.session.volume() == Some(volume.0);
        self.all.values().filter(has_it).count()
    }

    /// The volume that a client has attached.
    pub(super) fn volume_of(&self, id: u64) -> Option<VolumeKey> {
        self.all.get(&id)?.session.volume().map(VolumeKey)
    }

    /// A new client's number; `None`: there are too many, or they were all let go.
    fn insert(&mut self) -> Option<(u64, Rc<Notify>)> {
        if self.is_closed || self.all.len() >= self.most {
            return None;
        }
        self.last += 1;
        let wakeup = Rc::new(Notify::new());
        let session = Session::new(Security::Given);
        self.all.insert(self.last, Client { session, wakeup: wakeup.clone() });
        Some((self.last, wakeup))
    }

    fn remove(&mut self, id: u64) {
        if let Some(client) = self.all.remove(&id) {
            self.granted -= client.session.granted();
        }
    }

    /// True once if requests waited for room.
    pub(super) fn take_starved(&mut self) -> bool {
        std::mem::take(&mut self.starved)
    }

    pub(super) fn ids(&self) -> Vec<u64> {
        self.all.keys().copied().collect()
    }

    /// The next request of a client that has arrived whole.
    pub(super) fn next(
        &mut self,
        id: u64,
        exports: &[Export],
        has_room: bool,
    ) -> Option<(Cookie, VolumeKey, Ask)> {
        let client = self.all.get_mut(&id)?;
        if !has_room {
            self.starved = true;
            return None;
        }
        loop {
            let next = client.session.next(&Offer { exports, streams: &[], refusal: None });
            if let Some((cookie, ask)) = next {
                let volume = client.session.volume().expect("requests come after the handshake");
                return Some((cookie, VolumeKey(volume), ask));
            }
            let lacks = client.session.lacks();
            // A request larger than all there is goes when it is alone.
            if lacks == 0 {
                return None;
            }
            if self.granted > 0 && self.granted + lacks > self.budget {
                self.starved = true;
                return None;
            }
            self.granted += lacks;
            client.session.grant(lacks);
        }
    }

    /// Answers what needs nobody.
    pub(super) fn answer_at_once(&mut self, id: u64, cookie: &Cookie, ask: &Ask) {
        let Some(client) = self.all.get_mut(&id) else { return };
        match ask {
            // Which ranges hold something is the server's knowledge: all of it may.
            Ask::Status { length, .. } => {
                client.session.status(cookie, &[Extent { length: *length, pool: Some(0) }]);
            }
            _ => client.session.done(cookie),
        }
        client.wakeup.notify_one();
    }

    /// Answers a request; a client that hung up needs no answer.
    pub(super) fn answer(&mut self, id: u64, cookie: &Cookie, ended: Ended<()>) {
        let Some(client) = self.all.get_mut(&id) else { return };
        let session = &mut client.session;
        match ended.result {
            Ok(Some(payload)) => session.data(cookie, vec![Fragment { at: 0, payload }]),
            Ok(None) => session.done(cookie),
            Err(Failure::Shutdown) => session.fail(cookie, Errno::Shutdown),
            Err(Failure::Range) => session.fail(cookie, Errno::Invalid),
            Err(Failure::Io) => session.fail(cookie, Errno::Io),
            Err(Failure::NoSpace(_)) => session.fail(cookie, Errno::NoSpace),
        }
        client.wakeup.notify_one();
    }

    /// Reads what a client has sent; true if there was something.
    fn read(&mut self, id: u64, socket: &Socket) -> bool {
        let Some(client) = self.all.get_mut(&id) else { return false };
        if !client.session.wants_bytes() {
            return false;
        }
        let mut space = client.session.space();
        if space.iter().all(|slice| slice.is_empty()) {
            return false;
        }
        match socket.read(&mut space) {
            Ok(0) => client.session.hang_up(),
            Ok(count) => client.session.received(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => client.session.hang_up(),
        }
        true
    }

    /// Writes what the socket takes; true if that was something.
    fn write(&mut self, id: u64, socket: &Socket) -> bool {
        let Some(client) = self.all.get_mut(&id) else { return false };
        if !client.session.has_unsent() {
            return false;
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let count = client.session.unsent(&mut slices);
        match socket.write(&slices[..count]) {
            Ok(count) => {
                client.session.sent(count);
                self.granted -= client.session.surplus();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => client.session.hang_up(),
        }
        true
    }

    /// Things that a client waits for; `None`: it is over.
    fn wish(&mut self, id: u64) -> Option<Wish> {
        let client = self.all.get_mut(&id)?;
        if client.session.is_over() || client.session.is_cut_off() {
            return None;
        }
        self.granted -= client.session.surplus();
        let has_space = client.session.space().iter().any(|slice| !slice.is_empty());
        Some(Wish {
            reads: client.session.wants_bytes() && has_space,
            writes: client.session.has_unsent(),
            is_attached: client.session.volume().is_some(),
        })
    }
}

/// Serves a client until it leaves.
pub(super) async fn serve(core: Rc<RefCell<Core>>, socket: Socket) {
    let inserted = core.borrow_mut().clients().insert();
    // Whoever cannot be served is told by the closed socket.
    let Some((id, wakeup)) = inserted else { return };
    let late = Instant::now() + HANDSHAKE_WITHIN;
    loop {
        for _ in 0..ROUNDS {
            let mut core = core.borrow_mut();
            let has_read = core.clients().read(id, &socket);
            if has_read {
                core.start_requests(id);
                core.turn();
            }
            let has_written = core.clients().write(id, &socket);
            if has_written && core.clients().starved {
                // What has left makes room for others.
                core.turn();
            }
            if !has_written && !has_read {
                break;
            }
        }
        let wish = core.borrow_mut().clients().wish(id);
        let Some(Wish { reads, writes, is_attached }) = wish else { break };
        let readiness = async {
            let interest = match (reads, writes) {
                (true, true) => Interest::READABLE | Interest::WRITABLE,
                (true, false) => Interest::READABLE,
                (false, true) => Interest::WRITABLE,
                // A client that hangs up is seen when it is answered.
                (false, false) => return std::future::pending().await,
            };
            socket.ready(interest).await.is_ok()
        };
        let goes_on = tokio::select! {
            is_well = readiness => is_well,
            () = wakeup.notified() => true,
            () = sleep_until(late), if !is_attached => false,
        };
        if !goes_on {
            break;
        }
        // Others on this thread have their turn.
        tokio::task::yield_now().await;
    }
    core.borrow_mut().clients().remove(id);
}

/// The client that waits for a request.
pub(super) fn waits(id: u64, cookie: Cookie) -> Who {
    Who::Client(id, cookie)
}
