//! The agent of a host as a process: NBD clients on one side, the storage server and other hosts on
//! the other.
//!
//! Everything is on one thread; whatever comes in is taken by the agent or by its guests, and
//! [`Core::turn`] carries on until nothing moves. A volume that another host has, or that is not
//! there, is asked for again every second; one that was lost to another host is not, until somebody
//! says so.

mod connections;
mod second;
mod volumes;

pub use second::{FLASH_LABEL, label_flash};

use super::api::{FlashStatus, HostSecond, HostStatus};
use super::clients::{self, Clients};
use super::config::{HostConfig, STORE};
use super::guests::{Ended, Guests};
use super::line::{Line, Traffic, WAITING_BYTES_MAX, wait};
use super::mailbox::{Mailbox, Task, mailbox};
use super::meeting;
use super::store::protocol_name;
use super::{Clock, HostingError, hash_of};
use second::{Second, flash_slots};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thermocline_admin::api::{Refused, Severity};
use thermocline_admin::notes::Notes;
use thermocline_admin::past::Growth;
use thermocline_admin::secret::random_number;
use thermocline_admin::unix_socket::{self, SocketName};
use thermocline_hostcache::{
    Agent, AgentSettings, BLOCK_BYTES, Event, FlashSettings, HostId, ToAgent, ToServer, VolumeKey,
    Why,
};
use thermocline_nbd::{Ask, Cookie, Export};
use thermocline_ports_os::LiveDevice;
use thermocline_units::Nanos;
use thermocline_volume::Action;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::sleep;
use volumes::{GiveBack, Volumes, short_of};

/// Requests to the server without an answer: a server gives a host up that has 4,096.
const WINDOW: usize = 2048;
/// Time after which a volume is asked for again.
const AGAIN: Nanos = Nanos::from_secs(1);
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

/// The connection with the server.
#[derive(Default)]
struct ToStore {
    line: Option<Rc<Line>>,
    /// Requests without an answer.
    unanswered: usize,
    last_error: Option<String>,
    /// Traffic of earlier connections.
    before: Traffic,
}

/// The agent, its guests, and who talks with them.
pub(super) struct Core {
    agent: Agent,
    guests: Guests<Who>,
    clients: Clients,
    exports: Vec<Export>,
    volumes: Volumes,
    store: ToStore,
    peers: BTreeMap<HostId, (u64, Rc<Line>)>,
    connections: u64,
    /// Bytes that came from other hosts on earlier connections.
    from_peers: u64,
    /// Device of the cache's second level.
    second: Option<Second>,
    history: Growth<HostSecond>,
    config: HostConfig,
    clock: Clock,
    notes: Notes,
    wakeup: Rc<Notify>,
    /// Time for which the clock is waited.
    waits_until: Option<Nanos>,
}

/// The administrator's side of an agent.
#[derive(Clone)]
pub struct HostApi {
    pub(super) mailbox: Mailbox<Core>,
    pub(super) notes: Notes,
}

/// Sockets that an agent listens on.
struct Listeners {
    unix: std::os::unix::net::UnixListener,
    _name: SocketName,
    tcp: Option<std::net::TcpListener>,
    peers: Option<std::net::TcpListener>,
}

/// An agent that is ready to run.
pub struct HostAgent {
    core: Rc<RefCell<Core>>,
    listeners: Listeners,
    receiver: mpsc::Receiver<Task<Core>>,
    admin: HostApi,
    /// Readable when the second level's device has answered.
    readiness: Option<OwnedFd>,
}

impl HostAgent {
    /// Listens for NBD clients and for other hosts. `flash` is the device of the cache's second
    /// level, which bears the label ([`label_flash`]); the level begins empty.
    ///
    /// # Errors
    /// Settings, keys or addresses do not work.
    pub fn start(
        config: HostConfig,
        flash: Option<Box<dyn LiveDevice>>,
        notes: Notes,
    ) -> Result<HostAgent, HostingError> {
        let keys = config.keys.as_ref();
        let of_store = keys.map(|keys| meeting::only(keys, STORE));
        meeting::check(of_store.as_ref(), config.store)?;
        let others = config.peers.iter().map(|peer| peer.address).chain(config.listen);
        let mut missing = BTreeSet::new();
        for address in others {
            missing.extend(meeting::check(keys, address)?);
        }
        meeting::tell_missing(&notes, missing);
        let flash = flash.map(Second::new);
        let readiness = flash.as_ref().map(|flash| flash.device().readiness().try_clone_to_owned());
        let agent = Agent::new(settings(&config, flash.as_ref())?)?;
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
        let (mailbox, receiver) = mailbox();
        let admin = HostApi { mailbox, notes: notes.clone() };
        let mut core = Core {
            agent,
            guests: Guests::default(),
            clients: Clients::new(config.limits.clients_max, config.limits.client_bytes),
            exports: Vec::new(),
            volumes: Volumes::default(),
            store: ToStore::default(),
            peers: BTreeMap::new(),
            connections: 0,
            from_peers: 0,
            second: flash,
            history: Growth::default(),
            clock: Clock(Instant::now()),
            notes,
            wakeup: Rc::new(Notify::new()),
            waits_until: None,
            config,
        };
        for name in core.config.volumes.clone() {
            core.attach(&name).expect("nothing is being given back yet");
        }
        let listeners = Listeners { unix, _name: name, tcp, peers };
        let readiness = readiness.transpose()?;
        let core = Rc::new(RefCell::new(core));
        Ok(HostAgent { core, listeners, receiver, admin, readiness })
    }

    /// The administrator's side.
    pub fn admin(&self) -> HostApi {
        self.admin.clone()
    }

    /// Address of TCP clients, and of other hosts; ports of 0 have become real ones.
    pub fn addresses(&self) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let address = |listener: &Option<std::net::TcpListener>| {
            listener.as_ref().and_then(|listener| listener.local_addr().ok())
        };
        (address(&self.listeners.tcp), address(&self.listeners.peers))
    }

    /// Serves until `stop` is readable; then clients are let go, and volumes are flushed and given
    /// back.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(self, stop: UnixStream) -> Result<(), HostingError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        stop.set_nonblocking(true)?;
        let HostAgent { core, listeners, receiver, readiness, .. } = self;
        LocalSet::new().block_on(&runtime, async {
            let tasks = connections::open(&core, &listeners)?;
            let stop = tokio::net::UnixStream::from_std(stop)?;
            // An `OwnedFd` is always the same descriptor, which is all that makes it unsound.
            #[expect(deprecated, reason = "the other way is unsafe")]
            let with = |fd| AsyncFd::with_interest(fd, Interest::READABLE);
            let ready = readiness.map(with).transpose()?;
            run_agent(&core, receiver, &stop, ready.as_ref()).await;
            tasks.iter().for_each(tokio::task::JoinHandle::abort);
            give_all_back(&core).await;
            Ok(())
        })
    }
}

/// Drives the clock until `stop` is readable.
async fn run_agent(
    core: &Rc<RefCell<Core>>,
    mut receiver: mpsc::Receiver<Task<Core>>,
    stop: &tokio::net::UnixStream,
    ready: Option<&AsyncFd<OwnedFd>>,
) {
    let (clock, wakeup) = (core.borrow().clock, core.borrow().wakeup.clone());
    loop {
        let deadline = core.borrow_mut().tick();
        tokio::select! {
            () = wait(clock, deadline, &wakeup) => {}
            () = answered(ready) => {}
            Some(order) = receiver.recv() => {
                let mut core = core.borrow_mut();
                order(&mut core);
                core.turn();
            }
            _ = stop.readable() => return,
        }
    }
}

/// Ends when the second level's device has answered something; without one never.
async fn answered(ready: Option<&AsyncFd<OwnedFd>>) {
    match ready {
        None => std::future::pending().await,
        Some(ready) => match ready.readable().await {
            Ok(mut guard) => guard.clear_ready(),
            Err(_) => sleep(GLANCE).await,
        },
    }
}

/// Settings of the agent's machine.
fn settings(config: &HostConfig, flash: Option<&Second>) -> std::io::Result<AgentSettings> {
    let mut settings = AgentSettings::new(hash_of, config.host, random_number()?);
    settings.protocol = config.protocol;
    settings.lookup.clone_from(&config.lookup);
    settings.cache_blocks = (config.cache.0 / BLOCK_BYTES as u64).max(1) as u32;
    settings.cache_policy.clone_from(&config.policy);
    settings.flash = flash.map(|flash| FlashSettings {
        blocks: flash_slots(flash.device().geometry().size),
        policy: config.flash_policy.clone(),
    });
    Ok(settings)
}

/// Lets all clients go; then flushes volumes and gives them back.
async fn give_all_back(core: &Rc<RefCell<Core>>) {
    core.borrow_mut().clients.close();
    let names = core.borrow().volumes.names();
    for name in names {
        let (told, _) = oneshot::channel();
        core.borrow_mut().detach(&name, None, told);
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
        for name in self.volumes.due(now) {
            let key = self.agent.attach(now, &name);
            self.volumes.asked(&name, key);
        }
        self.turn();
        if let Some(second) = &mut self.second {
            second.tell(now, &self.agent, &self.notes);
        }
        if self.history.is_over(now) {
            self.history.note(now, self.totals());
        }
        self.waits_until = self.due();
        self.waits_until
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
                    Who::Detach(key) => self.flushed_to_detach(key, result.is_ok()),
                }
            }
            for (key, shortage) in self.guests.take_refused() {
                if let Some(name) = self.volumes.refused_write(key, shortage, now) {
                    let text = format!("a write was refused: {}", short_of(shortage));
                    self.notes.note(Severity::Error, name, text);
                }
            }
            self.send();
            if let Some(second) = &mut self.second {
                moved |= second.turn(&mut self.agent, now);
            }
            if self.guests.have_room() && self.clients.take_starved() {
                self.clients.ids().into_iter().for_each(|id| moved |= self.start_requests(id));
            }
            if !moved {
                break;
            }
        }
        // Whoever waits for the clock must hear of what is due earlier.
        if self.due().is_some_and(|due| self.waits_until.is_none_or(|until| due < until)) {
            self.wakeup.notify_one();
        }
    }

    /// Time at which [`Core::tick`] has something to do.
    fn due(&self) -> Option<Nanos> {
        let second = self.second.as_ref().and_then(|second| second.device().next_event());
        let due = [self.agent.next_deadline(), self.volumes.next_due(), second];
        due.into_iter().flatten().min()
    }

    fn send(&mut self) {
        if let Some(line) = self.store.line.clone() {
            while let Some(renewal) = self.agent.next_renewal() {
                self.store.unanswered += 1;
                line.send(&renewal);
            }
            while self.store.unanswered < WINDOW
                && line.has_room(|queued| queued <= WAITING_BYTES_MAX)
                && let Some(message) = self.agent.next_message()
            {
                let is_answered =
                    !matches!(message, ToServer::Release { .. } | ToServer::Evicted { .. });
                self.store.unanswered += usize::from(is_answered);
                line.send(&message);
            }
        }
        while let Some((host, message)) = self.agent.next_peer_message() {
            // A host that is not there, or takes little, is not waited for: the server is asked
            // instead.
            if let Some((_, line)) = self.peers.get(&host)
                && line.has_room(|queued| queued <= WAITING_BYTES_MAX)
            {
                line.send(&message);
            }
        }
    }

    /// Hands a client's requests that have arrived whole to the agent; true if there were any.
    pub(super) fn start_requests(&mut self, id: u64) -> bool {
        let (now, mut any) = (self.clock.now(), false);
        loop {
            let volume = self.clients.volume_of(id);
            let has_room = volume.is_none_or(|volume| self.guests.have_room_for(volume));
            let next = self.clients.next(id, &self.exports, has_room);
            let Some((cookie, volume, ask)) = next else { break };
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
        match event {
            Event::Attached { volume: key, blocks } => {
                let Some(name) = self.volumes.attached(key, blocks) else { return };
                self.export(key, &name, blocks);
                self.notes.note(Severity::Info, name, "attached");
            }
            Event::Refused { volume: key, why } => {
                let (why, again) = (reason(why), Nanos(self.clock.now().0 + AGAIN.0));
                if let Some(name) = self.volumes.refused(key, why, again) {
                    self.notes.note(Severity::Warning, name, format!("not attached: {why}"));
                }
            }
            Event::Lost { volume: key, why } => {
                self.exports.retain(|export| export.volume != key.0);
                let again = Nanos(self.clock.now().0 + AGAIN.0);
                let (why, again) = match why {
                    None => ("another host has it, or it was deleted", None),
                    Some(why) => (reason(why), Some(again)),
                };
                if let Some(name) = self.volumes.lost(key, why, again) {
                    let text = format!("lost: {why}; its clients get errors");
                    self.notes.note(Severity::Error, name, text);
                }
            }
            Event::Read { .. } | Event::Done { .. } | Event::Failed { .. } => {}
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
        self.wakeup.notify_one();
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
    pub(super) fn attach(&mut self, name: &str) -> Result<(), Refused> {
        if self.volumes.is_detaching(name) {
            let text = format!(
                "`{name}` is being given back, which waits for the store; attach it afterwards"
            );
            return Err(Refused::conflict(text));
        }
        if !self.volumes.is_wanted(name) {
            let key = self.agent.attach(self.clock.now(), name);
            self.volumes.asked(name, key);
            self.wakeup.notify_one();
        }
        Ok(())
    }

    /// Looks whether a volume may be given back.
    pub(super) fn may_detach(&self, name: &str, to: Option<HostId>) -> Result<(), Refused> {
        if to == Some(self.config.host) {
            return Err(Refused::invalid("a volume is handed over to another host, not to itself"));
        }
        if !self.volumes.has(name) {
            return Err(Refused::missing(format!("this host has no volume `{name}`")));
        }
        if to.is_some() && !self.volumes.is_attached(name) {
            let text = format!("`{name}` is not attached here, so it cannot be handed over");
            return Err(Refused::conflict(text));
        }
        match self.volumes.key(name).map_or(0, |key| self.clients.of_volume(key)) {
            0 => Ok(()),
            clients => Err(Refused::conflict(format!(
                "{clients} NBD clients use `{name}`; disconnect them first"
            ))),
        }
    }

    /// Flushes a volume and gives it back, for another host if one is named; then `told` is told.
    pub(super) fn detach(&mut self, name: &str, to: Option<HostId>, told: oneshot::Sender<()>) {
        match self.volumes.give_back(name, to, told) {
            GiveBack::Now(None) => {}
            GiveBack::Now(Some(key)) => self.agent.detach(key, None),
            GiveBack::Flush(key) => {
                self.exports.retain(|export| export.volume != key.0);
                let now = self.clock.now();
                self.guests.begin(&mut self.agent, now, Who::Detach(key), key, Action::Flush);
            }
        }
        self.turn();
    }

    /// Lets clients have a volume.
    fn export(&mut self, key: VolumeKey, name: &str, blocks: u32) {
        let size = u64::from(blocks) * BLOCK_BYTES as u64;
        self.exports.push(Export { name: name.to_string(), volume: key.0, size });
        self.exports.sort_by(|a, b| a.name.cmp(&b.name));
    }

    fn flushed_to_detach(&mut self, key: VolumeKey, is_flushed: bool) {
        if !is_flushed {
            if let Some((name, blocks)) = self.volumes.stays(key) {
                self.export(key, &name, blocks);
                let text = "it could not be flushed, and is not given back";
                self.notes.note(Severity::Error, name, text);
            }
        } else if let Some((name, to)) = self.volumes.given_back(key) {
            self.agent.detach(key, to);
            let host = to.map_or(String::new(), |host| format!(" for host {}", host.0));
            self.notes.note(Severity::Info, name, format!("given back{host}"));
        }
    }

    /// Figures since the start whose growth is told by the second.
    fn totals(&self) -> HostSecond {
        let counts = self.agent.counts();
        let now = self.store.line.as_ref().map_or(Traffic::default(), |line| line.traffic());
        let before = self.store.before;
        let from_peers = self.peers.values().map(|(_, line)| line.traffic().received);
        HostSecond {
            number: 0,
            sent_bytes: before.sent + now.sent,
            received_bytes: before.received + now.received,
            peer_received_bytes: self.from_peers + from_peers.sum::<u64>(),
            read_blocks: counts.read,
            hit_blocks: counts.hits,
            flash_blocks: counts.from_flash,
        }
    }

    /// The last five minutes, second by second.
    pub(super) fn history(&self, from: u64) -> Vec<HostSecond> {
        self.history.from(from)
    }

    fn flash(&self) -> Option<FlashStatus> {
        let (counts, second) = (self.agent.flash_counts()?, self.second.as_ref()?);
        Some(FlashStatus {
            device: second.device().name(),
            slots: counts.slots.into(),
            blocks: counts.blocks.into(),
            hit_blocks: self.agent.counts().from_flash,
            stored_blocks: counts.stored,
            passed_blocks: counts.passed,
            damaged_blocks: counts.damaged,
            failures: counts.failed,
            is_off: counts.is_off,
        })
    }

    /// Everything at a glance.
    pub(super) fn status(&self) -> HostStatus {
        let counts = self.agent.counts();
        let HostSecond { sent_bytes, received_bytes, peer_received_bytes, .. } = self.totals();
        HostStatus {
            host: self.config.host.0,
            store: self.config.store.to_string(),
            is_connected: self.store.line.is_some(),
            last_error: self.store.last_error.clone(),
            protocol: protocol_name(self.config.protocol).to_string(),
            uptime_seconds: self.clock.now().as_secs_f64(),
            sent_bytes,
            received_bytes,
            peer_received_bytes,
            read_blocks: counts.read,
            hit_blocks: counts.hits,
            joined_blocks: counts.joined,
            named_blocks: counts.named,
            peer_blocks: counts.from_peers,
            served_blocks: counts.served,
            cached_blocks: u64::from(self.agent.memory().0),
            flash: self.flash(),
            clients: self.clients.count(),
            peers: self.peers.keys().map(|host| host.0).collect(),
            volumes: self.volumes.status(|key| self.agent.fence(key)),
        }
    }
}

/// Meaning of a refusal, and what to do.
fn reason(why: Why) -> &'static str {
    match why {
        Why::NoVolume => "the store has no volume of this name, or one that is no use to hosts",
        Why::NotEntitled => {
            "this host may not use the volume's domain; the store's configuration says which it may"
        }
        Why::InUse => {
            "another host has it, or the last run of this one, whose lease has not ended; it is asked for again"
        }
        Why::ReadOnly => "it is a snapshot; make a clone of it, and attach that",
        Why::Fenced => "its lease is another's",
        Why::Outside => "the server looked for blocks outside of it",
        Why::Store => {
            "the store could not do it; its events say why (`thermocline store status`, its page)"
        }
    }
}

#[cfg(test)]
mod tests;
