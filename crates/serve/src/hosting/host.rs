//! The agent of a host as a process: NBD clients on one side, the storage server and other hosts on
//! the other.
//!
//! Everything is on one thread; whatever comes in is taken by the agent or by its guests, and
//! [`Core::turn`] carries on until nothing moves. A volume that another host has, or that is not
//! there, is asked for again every second; one that was lost to another host is not, until somebody
//! says so.

use super::api::{HostStatus, HostVolume};
use super::clients::{self, Clients, Socket};
use super::config::{HostConfig, Peer, STORE};
use super::guests::{Ended, Guests};
use super::line::{Line, Traffic, carry, wait};
use super::meeting::{self, Both, Met};
use super::notes::Notes;
use super::orders::{Order, Orders, orders};
use super::store::protocol_name;
use super::{Clock, HostingError, hash_of, random_bytes, random_number};
use crate::api::{Refused, Severity};
use crate::nbd::{Ask, Cookie, Export};
use crate::unix_socket::{self, SocketName};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thermocline_hostcache::{
    Agent, AgentSettings, BLOCK_BYTES, Event, HostId, Link, ToAgent, ToPeer, ToServer, VolumeKey,
    Why,
};
use thermocline_units::Nanos;
use thermocline_volume::Action;
use thermocline_wire::{Config, Role};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::sleep;

/// Requests to the server without an answer: a server gives a host up that has 4,096.
const WINDOW: usize = 2048;
/// Time after which a volume is asked for again.
const AGAIN: Nanos = Nanos::from_secs(1);
/// Shortest time between tries to reach another machine.
const BACK_OFF: Duration = Duration::from_millis(100);
/// Time for volumes to be flushed and given back when the process is to stop.
const DRAIN: Duration = Duration::from_secs(5);
const GLANCE: Duration = Duration::from_millis(5);

/// One who waits for a request of a guest.
pub(super) enum Who {
    /// A client.
    Client(u64, Cookie),
    /// A volume that is given back when it is flushed.
    Detach(VolumeKey),
}

/// A volume that this host is to have.
struct Volume {
    key: Option<VolumeKey>,
    blocks: u32,
    is_attached: bool,
    is_lost: bool,
    why: Option<String>,
    /// It is asked for again then.
    again: Option<Nanos>,
    /// Those who wait for it to be given back.
    detaching: Vec<oneshot::Sender<()>>,
}

/// The connection with the server.
#[derive(Default)]
struct ToStore {
    line: Option<Rc<Line>>,
    /// Requests without an answer.
    unanswered: usize,
    last_error: Option<String>,
    /// Of earlier connections.
    before: Traffic,
}

/// The agent, its guests, and who talks with them.
pub(super) struct Core {
    agent: Agent,
    guests: Guests<Who>,
    clients: Clients,
    exports: Vec<Export>,
    volumes: BTreeMap<String, Volume>,
    store: ToStore,
    peers: BTreeMap<HostId, (u64, Rc<Line>)>,
    connections: u64,
    /// Bytes that came from other hosts on earlier connections.
    from_peers: u64,
    config: HostConfig,
    clock: Clock,
    notes: Notes,
    bell: Rc<Notify>,
}

/// The administrator's side of an agent.
#[derive(Clone)]
pub struct HostDesk {
    pub(super) orders: Orders<Core>,
    pub(super) notes: Notes,
}

/// Sockets that an agent listens on.
struct Doors {
    unix: std::os::unix::net::UnixListener,
    _name: SocketName,
    tcp: Option<std::net::TcpListener>,
    peers: Option<std::net::TcpListener>,
}

/// An agent that is ready to run.
pub struct HostAgent {
    core: Rc<RefCell<Core>>,
    doors: Doors,
    inbox: mpsc::Receiver<Order<Core>>,
    desk: HostDesk,
}

impl HostAgent {
    /// Listens for NBD clients and for other hosts.
    ///
    /// # Errors
    /// Settings, keys or addresses do not work.
    pub fn start(config: HostConfig, notes: Notes) -> Result<HostAgent, HostingError> {
        let keys = config.keys.as_ref();
        meeting::check(keys, config.store)?;
        let others = config.peers.iter().map(|peer| peer.address).chain(config.listen);
        others.into_iter().try_for_each(|address| meeting::check(keys, address))?;
        let mut of_agent = AgentSettings::new(hash_of, config.host, random_number()?);
        of_agent.protocol = config.protocol;
        of_agent.lookup.clone_from(&config.lookup);
        of_agent.cache_blocks = (config.cache.0 / BLOCK_BYTES as u64).max(1) as u32;
        of_agent.cache_policy.clone_from(&config.policy);
        let agent = Agent::new(of_agent)?;
        let failed = |error| HostingError::Nbd { at: config.nbd.display().to_string(), error };
        let (unix, name) = unix_socket::listen(&config.nbd).map_err(failed)?;
        let tcp = match config.nbd_tcp {
            Some(address) if !address.ip().is_loopback() => {
                return Err(meeting::MeetError::InTheClear(address).into());
            }
            Some(address) => Some(meeting::listen(address)?),
            None => None,
        };
        let peers = config.listen.map(meeting::listen).transpose()?;
        let (orders, inbox) = orders();
        let desk = HostDesk { orders, notes: notes.clone() };
        let mut core = Core {
            agent,
            guests: Guests::default(),
            clients: Clients::new(config.limits.clients_max, config.limits.client_bytes),
            exports: Vec::new(),
            volumes: BTreeMap::new(),
            store: ToStore::default(),
            peers: BTreeMap::new(),
            connections: 0,
            from_peers: 0,
            clock: Clock(Instant::now()),
            notes,
            bell: Rc::new(Notify::new()),
            config,
        };
        for name in core.config.volumes.clone() {
            core.attach(&name);
        }
        let doors = Doors { unix, _name: name, tcp, peers };
        Ok(HostAgent { core: Rc::new(RefCell::new(core)), doors, inbox, desk })
    }

    /// The administrator's side.
    pub fn desk(&self) -> HostDesk {
        self.desk.clone()
    }

    /// Address of TCP clients, and of other hosts; ports of 0 have become real ones.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let address = |listener: &Option<std::net::TcpListener>| {
            listener.as_ref().and_then(|listener| listener.local_addr().ok())
        };
        (address(&self.doors.tcp), address(&self.doors.peers))
    }

    /// Serves until `stop` is readable; then volumes are flushed and given back.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(self, stop: UnixStream) -> Result<(), HostingError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        stop.set_nonblocking(true)?;
        let HostAgent { core, doors, inbox, .. } = self;
        LocalSet::new().block_on(&runtime, async {
            let tasks = open(&core, &doors)?;
            let stop = tokio::net::UnixStream::from_std(stop)?;
            run_agent(&core, inbox, &stop).await;
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            give_all_back(&core).await;
            Ok(())
        })
    }
}

/// Starts everybody who lets others in, or goes to them.
fn open(
    core: &Rc<RefCell<Core>>,
    doors: &Doors,
) -> std::io::Result<Vec<tokio::task::JoinHandle<()>>> {
    let mut tasks = Vec::new();
    let unix = UnixListener::from_std(doors.unix.try_clone()?)?;
    let of = core.clone();
    tasks.push(tokio::task::spawn_local(async move {
        loop {
            match unix.accept().await {
                Ok((stream, _)) => let_in(&of, Socket::Unix(stream)),
                Err(_) => sleep(BACK_OFF).await,
            }
        }
    }));
    if let Some(tcp) = &doors.tcp {
        let (tcp, of) = (TcpListener::from_std(tcp.try_clone()?)?, core.clone());
        tasks.push(tokio::task::spawn_local(async move {
            loop {
                match tcp.accept().await {
                    Ok((stream, _)) => {
                        let _ = stream.set_nodelay(true);
                        let_in(&of, Socket::Tcp(stream));
                    }
                    Err(_) => sleep(BACK_OFF).await,
                }
            }
        }));
    }
    let config = core.borrow().config.clone();
    if let Some(listener) = &doors.peers {
        let listener = TcpListener::from_std(listener.try_clone()?)?;
        let (of, notes) = (core.clone(), core.borrow().notes.clone());
        let met = move |met: Met| {
            let (of, Met { stream, from, host, place }) = (of.clone(), met);
            drop(tokio::task::spawn_local(async move {
                serve_peer(of, stream, Role::Acceptor, (host, from.to_string())).await;
                drop(place);
            }));
        };
        let refused = move |from: SocketAddr, why: String| notes.note(Severity::Warning, from, why);
        let accept = meeting::accept(listener, config.keys, config.limits, met, refused);
        tasks.push(tokio::task::spawn_local(accept));
    }
    // Of two hosts the one with the lower number goes to the other.
    for peer in config.peers.into_iter().filter(|peer| peer.host > config.host) {
        tasks.push(tokio::task::spawn_local(keep_peer(core.clone(), peer)));
    }
    // The way to the server stays until volumes were given back.
    drop(tokio::task::spawn_local(keep_store(core.clone())));
    Ok(tasks)
}

fn let_in(core: &Rc<RefCell<Core>>, socket: Socket) {
    drop(tokio::task::spawn_local(clients::serve(core.clone(), socket)));
}

/// Drives the clock until `stop` is readable.
async fn run_agent(
    core: &Rc<RefCell<Core>>,
    mut inbox: mpsc::Receiver<Order<Core>>,
    stop: &tokio::net::UnixStream,
) {
    let (clock, bell) = (core.borrow().clock, core.borrow().bell.clone());
    loop {
        let deadline = core.borrow_mut().tick();
        tokio::select! {
            () = wait(clock, deadline, &bell) => {}
            Some(order) = inbox.recv() => {
                let mut core = core.borrow_mut();
                order(&mut core);
                core.turn();
            }
            _ = stop.readable() => return,
        }
    }
}

async fn give_all_back(core: &Rc<RefCell<Core>>) {
    let names: Vec<String> = core.borrow().volumes.keys().cloned().collect();
    for name in names {
        let (told, _) = oneshot::channel();
        core.borrow_mut().detach(&name, told);
    }
    let until = Instant::now() + DRAIN;
    loop {
        let is_done = {
            let mut core = core.borrow_mut();
            core.tick();
            let line = core.store.line.as_ref();
            core.volumes.is_empty() && line.is_none_or(|line| !line.wants_transmit())
        };
        if is_done || Instant::now() >= until {
            // What the socket has taken leaves although the process ends.
            return sleep(GLANCE).await;
        }
        sleep(GLANCE).await;
    }
}

/// Keeps a connection with the server.
async fn keep_store(core: Rc<RefCell<Core>>) {
    let mut back_off = BACK_OFF;
    loop {
        let config = core.borrow().config.clone();
        let connected = meeting::connect(config.store, config.keys.as_ref(), config.limits).await;
        let began = Instant::now();
        let why = match connected {
            Ok(stream) => serve_store(&core, stream).await,
            Err(why) => why,
        };
        core.borrow_mut().store_lost(why);
        if began.elapsed() > config.limits.back_off_max {
            back_off = BACK_OFF;
        }
        sleep(back_off).await;
        back_off = (back_off * 2).min(config.limits.back_off_max);
    }
}

/// Talks with the server until the connection ends; why.
async fn serve_store(core: &Rc<RefCell<Core>>, stream: Box<dyn Both>) -> String {
    let (clock, protocol, host) = {
        let core = core.borrow();
        (core.clock, core.config.protocol, core.config.host)
    };
    let line = match new_line(Role::Connector, protocol, host, clock) {
        Ok(line) => line,
        Err(why) => return why,
    };
    let mut is_up = false;
    let heard = || {
        if !is_up {
            match line.peer() {
                None => return Ok(()),
                Some(STORE) => {}
                Some(other) => return Err(format!("there is host {}, and no store", other.0)),
            }
            is_up = true;
            core.borrow_mut().store_found(line.clone());
        }
        while let Some(message) = line.next_message::<ToAgent>().map_err(|e| e.to_string())? {
            let mut core = core.borrow_mut();
            core.note_answer(&message);
            core.agent.hear(clock.now(), message).map_err(|error| error.to_string())?;
            core.turn();
        }
        Ok(())
    };
    let why = carry(stream, &line, clock, heard).await;
    explained(why, line.peer().is_some())
}

/// Reason why a connection ended, told so that people know what to do.
fn explained(why: String, was_up: bool) -> String {
    match !was_up && why.contains("alert") {
        true => format!("the store refused this machine's key ({why}); name its .pub there"),
        false => why,
    }
}

fn new_line(
    role: Role,
    protocol: thermocline_hostcache::Protocol,
    host: HostId,
    clock: Clock,
) -> Result<Rc<Line>, String> {
    let epoch = random_bytes().map_err(|error| error.to_string())?;
    let link = Link::new(Config::new(role, epoch), protocol, host, clock.now());
    link.map(Line::new).map_err(|error| error.to_string())
}

/// Keeps a connection with another host.
async fn keep_peer(core: Rc<RefCell<Core>>, peer: Peer) {
    let mut back_off = BACK_OFF;
    loop {
        let config = core.borrow().config.clone();
        let connected = meeting::connect(peer.address, config.keys.as_ref(), config.limits).await;
        if let Ok(stream) = connected {
            let who = (Some(peer.host), peer.address.to_string());
            serve_peer(core.clone(), stream, Role::Connector, who).await;
            back_off = BACK_OFF;
        }
        sleep(back_off).await;
        back_off = (back_off * 2).min(config.limits.back_off_max);
    }
}

/// Talks with another host until the connection ends. `known` is its number, if that is known from
/// its key or because we went there.
async fn serve_peer(
    core: Rc<RefCell<Core>>,
    stream: Box<dyn Both>,
    role: Role,
    (known, from): (Option<HostId>, String),
) {
    let (clock, config) = (core.borrow().clock, core.borrow().config.clone());
    let notes = core.borrow().notes.clone();
    let Ok(line) = new_line(role, config.protocol, config.host, clock) else { return };
    let mut joined: Option<(HostId, u64)> = None;
    let heard = || {
        let (host, _) = match joined {
            Some(joined) => joined,
            None => {
                let Some(host) = line.peer() else { return Ok(()) };
                if known.is_some_and(|known| known != host) {
                    return Err(format!("it says that it is host {}, and is not", host.0));
                }
                if !config.peers.iter().any(|peer| peer.host == host) {
                    return Err(format!("host {} is not configured here", host.0));
                }
                *joined.insert((host, core.borrow_mut().peer_found(host, line.clone())))
            }
        };
        while let Some(message) = line.next_message::<ToPeer>().map_err(|e| e.to_string())? {
            let mut core = core.borrow_mut();
            let heard = core.agent.hear_peer(clock.now(), host, message);
            core.turn();
            heard.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let why = carry(stream, &line, clock, heard).await;
    match joined {
        Some((host, number)) => {
            core.borrow_mut().peer_lost(host, number, line.traffic());
            notes.note(Severity::Info, format!("host {}", host.0), format!("has gone: {why}"));
        }
        None => notes.note(Severity::Warning, from, format!("no host: {why}")),
    }
}

impl Core {
    pub(super) fn clients(&mut self) -> &mut Clients {
        &mut self.clients
    }

    /// Does what is due; when something is due next.
    fn tick(&mut self) -> Option<Nanos> {
        let now = self.clock.now();
        if let Err(error) = self.agent.tick(now)
            && let Some(line) = &self.store.line
        {
            line.end(error.to_string());
        }
        let due = |volume: &&Volume| volume.again.is_some_and(|at| at <= now);
        let names = self.volumes.iter().filter(|(_, volume)| due(volume));
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        for name in names {
            let key = self.agent.attach(now, &name);
            let volume = self.volumes.get_mut(&name).expect("just seen");
            (volume.key, volume.again) = (Some(key), None);
        }
        self.turn();
        let again = self.volumes.values().filter_map(|volume| volume.again).min();
        [self.agent.next_deadline(), again].into_iter().flatten().min()
    }

    /// Carries on until nothing moves without somebody else.
    pub(super) fn turn(&mut self) {
        let now = self.clock.now();
        loop {
            let mut moved = false;
            while let Some(event) = self.agent.next_event() {
                moved = true;
                if let Some(event) = self.guests.hear(&mut self.agent, now, event) {
                    self.happened(event);
                }
            }
            for Ended { who, result } in self.guests.take_ended() {
                moved = true;
                match who {
                    Who::Client(id, cookie) => {
                        self.clients.answer(id, &cookie, Ended { who: (), result });
                    }
                    Who::Detach(key) => self.flushed_to_detach(key),
                }
            }
            self.send();
            if self.guests.have_room() && self.clients.take_starved() {
                self.clients.ids().into_iter().for_each(|id| moved |= self.start_requests(id));
            }
            if !moved {
                return;
            }
        }
    }

    fn send(&mut self) {
        if let Some(line) = self.store.line.clone() {
            while self.store.unanswered < WINDOW
                && let Some(message) = self.agent.next_message()
            {
                let is_answered =
                    !matches!(message, ToServer::Release { .. } | ToServer::Evicted { .. });
                self.store.unanswered += usize::from(is_answered);
                line.send(&message);
            }
        }
        while let Some((host, message)) = self.agent.next_peer_message() {
            // A host that is not there is not waited for: the server is asked instead.
            if let Some((_, line)) = self.peers.get(&host) {
                line.send(&message);
            }
        }
    }

    /// Hands a client's requests that have arrived whole to the agent; true if there were any.
    pub(super) fn start_requests(&mut self, id: u64) -> bool {
        let (now, mut any) = (self.clock.now(), false);
        while let Some((cookie, volume, ask)) =
            self.clients.next(id, &self.exports, self.guests.have_room())
        {
            any = true;
            match ask {
                Ask::Volume(action) => {
                    let who = clients::waits(id, cookie);
                    self.guests.begin(&mut self.agent, now, who, volume, action);
                }
                other => self.clients.answer_at_once(id, &cookie, &other),
            }
        }
        any
    }

    /// An event that is of no guest's request.
    fn happened(&mut self, event: Event) {
        let (key, of) = match event {
            Event::Attached { volume, .. } => (volume, "attached"),
            Event::Refused { volume, .. } => (volume, "refused"),
            Event::Lost { volume } => (volume, "lost"),
            Event::Read { .. } | Event::Done { .. } | Event::Failed { .. } => return,
        };
        let again = Nanos(self.clock.now().0 + AGAIN.0);
        let found = self.volumes.iter_mut().find(|(_, volume)| volume.key == Some(key));
        let Some((name, volume)) = found else { return };
        let name = name.clone();
        match event {
            Event::Attached { blocks, .. } => {
                (volume.blocks, volume.is_attached, volume.is_lost) = (blocks, true, false);
                volume.why = None;
                let size = u64::from(blocks) * BLOCK_BYTES as u64;
                self.exports.push(Export { name: name.clone(), volume: key.0, size });
                self.exports.sort_by(|a, b| a.name.cmp(&b.name));
                self.notes.note(Severity::Info, name, of);
            }
            Event::Refused { why, .. } => {
                let why = reason(why);
                (volume.key, volume.again) = (None, Some(again));
                if volume.why.as_deref() != Some(why) {
                    volume.why = Some(why.to_string());
                    self.notes.note(Severity::Warning, name, format!("not attached: {why}"));
                }
            }
            _ => {
                (volume.key, volume.is_attached, volume.is_lost) = (None, false, true);
                volume.detaching.clear();
                let why = "another host has it, or the server could not keep what was written";
                volume.why = Some(why.to_string());
                self.exports.retain(|export| export.volume != key.0);
                let text = format!("lost: {why}; its clients get errors");
                self.notes.note(Severity::Error, name, text);
            }
        }
    }

    fn store_found(&mut self, line: Rc<Line>) {
        self.store.line = Some(line);
        self.store.unanswered = 0;
        self.notes.note(Severity::Info, "store", "connected");
        self.agent.connected(self.clock.now());
        self.turn();
    }

    fn store_lost(&mut self, why: String) {
        if let Some(line) = self.store.line.take() {
            let Traffic { sent, received } = line.traffic();
            self.store.before.sent += sent;
            self.store.before.received += received;
            self.agent.disconnected();
        }
        if self.store.last_error.as_ref() != Some(&why) {
            self.notes.note(Severity::Warning, "store", format!("not connected: {why}"));
        }
        self.store.last_error = Some(why);
        self.turn();
        self.bell.notify_one();
    }

    /// Counts an answer.
    fn note_answer(&mut self, message: &ToAgent) {
        let is_answer =
            !matches!(message, ToAgent::Lost { .. } | ToAgent::Push { .. } | ToAgent::Serve { .. });
        self.store.unanswered = self.store.unanswered.saturating_sub(usize::from(is_answer));
    }

    fn peer_found(&mut self, host: HostId, line: Rc<Line>) -> u64 {
        self.connections += 1;
        if let Some((_, earlier)) = self.peers.insert(host, (self.connections, line)) {
            earlier.end(format!("host {} came in anew", host.0));
            self.agent.peer_lost(self.clock.now(), host);
        }
        self.notes.note(Severity::Info, format!("host {}", host.0), "is here");
        self.connections
    }

    fn peer_lost(&mut self, host: HostId, number: u64, traffic: Traffic) {
        self.from_peers += traffic.received;
        if self.peers.get(&host).is_some_and(|(there, _)| *there == number) {
            self.peers.remove(&host);
            self.agent.peer_lost(self.clock.now(), host);
            self.turn();
        }
    }

    // What administrators ask for.

    /// Has this host attach a volume, if it does not yet.
    pub(super) fn attach(&mut self, name: &str) {
        let is_there = |volume: &Volume| volume.key.is_some() || volume.again.is_some();
        if self.volumes.get(name).is_some_and(is_there) {
            return;
        }
        let key = self.agent.attach(self.clock.now(), name);
        let volume = Volume {
            key: Some(key),
            blocks: 0,
            is_attached: false,
            is_lost: false,
            why: None,
            again: None,
            detaching: Vec::new(),
        };
        self.volumes.insert(name.to_string(), volume);
        self.bell.notify_one();
    }

    /// Looks whether a volume may be given back.
    pub(super) fn may_detach(&self, name: &str) -> Result<(), Refused> {
        let missing = || Refused::missing(format!("this host has no volume `{name}`"));
        let volume = self.volumes.get(name).ok_or_else(missing)?;
        match volume.key.map_or(0, |key| self.clients.of_volume(key)) {
            0 => Ok(()),
            clients => Err(Refused::conflict(format!(
                "{clients} NBD clients use `{name}`; disconnect them first"
            ))),
        }
    }

    /// Flushes a volume and gives it back; then `told` is told.
    pub(super) fn detach(&mut self, name: &str, told: oneshot::Sender<()>) {
        let Some(volume) = self.volumes.get_mut(name) else { return tell(told) };
        let Some(key) = volume.key.filter(|_| volume.is_attached) else {
            if let Some(key) = volume.key {
                self.agent.detach(key, None);
            }
            self.volumes.remove(name);
            return tell(told);
        };
        volume.detaching.push(told);
        self.exports.retain(|export| export.volume != key.0);
        let now = self.clock.now();
        self.guests.begin(&mut self.agent, now, Who::Detach(key), key, Action::Flush);
        self.turn();
    }

    fn flushed_to_detach(&mut self, key: VolumeKey) {
        let found = self.volumes.iter().find(|(_, volume)| volume.key == Some(key));
        let Some(name) = found.map(|(name, _)| name.clone()) else { return };
        self.agent.detach(key, None);
        let volume = self.volumes.remove(&name).expect("just seen");
        volume.detaching.into_iter().for_each(tell);
        self.notes.note(Severity::Info, name, "given back");
    }

    /// Everything at a glance.
    pub(super) fn status(&self) -> HostStatus {
        let counts = self.agent.counts();
        let now = self.store.line.as_ref().map_or(Traffic::default(), |line| line.traffic());
        let before = self.store.before;
        let from_peers = self.peers.values().map(|(_, line)| line.traffic().received);
        let volumes = self.volumes.iter().map(|(name, volume)| HostVolume {
            name: name.clone(),
            state: match (volume.is_attached, volume.is_lost) {
                (true, _) => "attached".to_string(),
                (false, true) => "lost".to_string(),
                (false, false) => "waiting".to_string(),
            },
            why: volume.why.clone(),
            size_bytes: u64::from(volume.blocks) * BLOCK_BYTES as u64,
            fence: volume.key.map_or(0, |key| self.agent.fence(key)),
        });
        HostStatus {
            host: self.config.host.0,
            store: self.config.store.to_string(),
            is_connected: self.store.line.is_some(),
            last_error: self.store.last_error.clone(),
            protocol: protocol_name(self.config.protocol).to_string(),
            uptime_seconds: self.clock.now().as_secs_f64(),
            sent_bytes: before.sent + now.sent,
            received_bytes: before.received + now.received,
            peer_received_bytes: self.from_peers + from_peers.sum::<u64>(),
            read_blocks: counts.read,
            hit_blocks: counts.hits,
            joined_blocks: counts.joined,
            named_blocks: counts.named,
            peer_blocks: counts.from_peers,
            served_blocks: counts.served,
            cached_blocks: u64::from(self.agent.memory().0),
            clients: self.clients.count(),
            peers: self.peers.keys().map(|host| host.0).collect(),
            volumes: volumes.collect(),
        }
    }
}

/// Tells somebody who may not wait any more.
fn tell(told: oneshot::Sender<()>) {
    let _ = told.send(());
}

/// Meaning of a refusal, and what to do.
fn reason(why: Why) -> &'static str {
    match why {
        Why::NoVolume => "the store has no volume of this name, or one that is no use to hosts",
        Why::NotEntitled => {
            "this host may not use the volume's domain; the store's configuration says which it may"
        }
        Why::InUse => "another host has it, or may still believe so; it is asked for again",
        Why::ReadOnly => "it is a snapshot; make a clone of it, and attach that",
        Why::Fenced => "its lease is another's",
        Why::Outside => "the server looked for blocks outside of it",
        Why::Store => "the store could not do it; its own messages say why",
    }
}
