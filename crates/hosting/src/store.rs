//! The storage server as a process: hosts on one side, a store on a device on the other.
//!
//! Everything is on one thread. Whatever comes in (bytes of a host, answers of the device, orders)
//! is taken by a machine, and [`Core::turn`] carries on until nothing moves.

mod room;

use super::api::{HostLink, RoomLevel, StoreSecond, StoreStatus, StoreVolume};
use super::backing::{Backing, Told};
use super::config::{STORE, StoreConfig};
use super::line::{Line, Traffic, carry_joining, wait};
use super::mailbox::{Mailbox, Task, mailbox};
use super::meeting::{self, Met};
use super::{Clock, HostingError, hash_of};
use room::{Watch, level, level_of};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Instant;
use thermocline_admin::api::{Refused, Severity};
use thermocline_admin::notes::Notes;
use thermocline_admin::past::Growth;
use thermocline_admin::secret::{random_bytes, random_number};
use thermocline_content::{
    Action, Completed, RequestError, Service, Settings, Status, Store, VolumeStatus, Worth,
};
use thermocline_hostcache::{
    BLOCK_BYTES, HostId, LeaseStatus, Link, Protocol, Server, ServerSettings, ToServer,
};
use thermocline_ports_os::LiveDevice;
use thermocline_units::{Bytes, Nanos};
use thermocline_wire::{Config, Role};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;

/// Time between two words to the device about its parts.
const WORTH_EVERY: Nanos = Nanos::from_secs(600);
/// Time without a turn after which leases are prolonged by it. The thread looks at the clock every
/// second.
const STOOD_STILL: Nanos = Nanos::from_secs(2);

/// The device that a store is on.
pub type StoreDevice = Box<dyn LiveDevice>;

/// One who waits for an order of the store.
type Waiting = oneshot::Sender<Result<Completed, Refused>>;

/// A host that is connected.
struct Host {
    line: Rc<Line>,
    /// Number of its connection.
    number: u64,
    from: SocketAddr,
}

/// Messages of a host that are heard before others have their turn.
const MESSAGES_AT_ONCE: usize = 64;

/// A sweep that somebody waits for.
struct Sweeping {
    /// Sweeps that may follow: what was deleted a moment ago is still being taken apart.
    rounds: u32,
    /// Blocks that had been freed when it was asked for.
    freed: u64,
    told: oneshot::Sender<u64>,
}

/// The server, its store, and who talks with it.
pub(super) struct Core {
    server: Server,
    backing: Backing<StoreDevice>,
    hosts: BTreeMap<HostId, Host>,
    /// Traffic of connections that are over.
    before: Traffic,
    /// Time at which the device is told next which of its parts are worth more.
    tells_worth_at: Nanos,
    history: Growth<StoreSecond>,
    /// Events about room that were told.
    room: Watch,
    connections: u64,
    orders: BTreeMap<u64, Waiting>,
    next_order: u64,
    sweeping: Vec<Sweeping>,
    config: StoreConfig,
    address: SocketAddr,
    device: String,
    clock: Clock,
    /// Time of the last look at the clock.
    seen: Nanos,
    notes: Notes,
    /// Rung when the device may have been asked something.
    wakeup: Rc<Notify>,
}

/// The administrator's side of a storage server.
#[derive(Clone)]
pub struct StoreApi {
    pub(super) mailbox: Mailbox<Core>,
    pub(super) notes: Notes,
}

/// A storage server that is ready to run.
pub struct StoreServer {
    core: Rc<RefCell<Core>>,
    listener: std::net::TcpListener,
    receiver: mpsc::Receiver<Task<Core>>,
    admin: StoreApi,
    readiness: OwnedFd,
}

/// Makes an empty store on a device that is free.
///
/// # Errors
/// The settings do not fit, or the device is too small, or fails.
pub fn make_store(
    device: StoreDevice,
    settings: Settings,
    identity: u64,
) -> Result<Status, HostingError> {
    let path = device.name();
    let clock = Clock(Instant::now());
    let made = Store::format(clock.now(), device, settings, identity);
    opened(made, clock, &path).map(|store| store.status())
}

/// Waits until a store is open, and quiet.
fn opened(
    store: Result<Store<StoreDevice>, thermocline_content::OpenError>,
    clock: Clock,
    path: &str,
) -> Result<Store<StoreDevice>, HostingError> {
    let failed = |text: String| HostingError::Store { path: path.to_string(), text };
    let mut store = store.map_err(|error| failed(error.to_string()))?;
    let mut answers = Vec::new();
    loop {
        store.poll(clock.now(), &mut answers);
        match store.service() {
            Service::Ready if store.is_quiet() => return Ok(store),
            Service::Refused(error) => return Err(failed(error.to_string())),
            Service::Stopped(error) => return Err(failed(error.to_string())),
            Service::Ready | Service::Opening => store.device_mut().wait()?,
        }
    }
}

impl StoreServer {
    /// Opens the store on a device and listens for hosts.
    ///
    /// # Errors
    /// There is no store, or settings, keys or the address do not work.
    pub fn start(
        config: StoreConfig,
        device: StoreDevice,
        settings: Settings,
        notes: Notes,
    ) -> Result<StoreServer, HostingError> {
        let missing = meeting::check(config.keys.as_ref(), config.listen)?;
        meeting::tell_missing(&notes, missing);
        let clock = Clock(Instant::now());
        let (name, readiness) = (device.name(), device.readiness().try_clone_to_owned()?);
        let store = opened(Store::open(clock.now(), device, settings), clock, &name)?;
        // Each opening of a store has a number of its own.
        let mut of_server =
            ServerSettings::new(hash_of, store.status().session as u16, random_number()?);
        of_server.protocol = config.protocol;
        of_server.lookup.clone_from(&config.lookup);
        of_server.link_bytes_per_s = config.link_bytes_per_s;
        of_server.memory_blocks = (config.memory.0 / BLOCK_BYTES as u64).max(1) as u32;
        of_server.lease = config.lease;
        of_server.hosts_max = config.hosts.len().max(64);
        let server = Server::new(of_server, clock.now())?;
        let listener = meeting::listen(config.listen)?;
        let address = listener.local_addr()?;
        let (mailbox, receiver) = mailbox();
        let admin = StoreApi { mailbox, notes: notes.clone() };
        let core = Core {
            server,
            backing: Backing::new(store),
            hosts: BTreeMap::new(),
            before: Traffic::default(),
            tells_worth_at: clock.now(),
            history: Growth::default(),
            room: Watch::default(),
            connections: 0,
            orders: BTreeMap::new(),
            next_order: 0,
            sweeping: Vec::new(),
            config,
            address,
            device: name,
            clock,
            seen: clock.now(),
            notes,
            wakeup: Rc::new(Notify::new()),
        };
        Ok(StoreServer { core: Rc::new(RefCell::new(core)), listener, receiver, admin, readiness })
    }

    /// Address where hosts come in; a port of 0 has become a real one.
    pub fn address(&self) -> SocketAddr {
        self.core.borrow().address
    }

    /// The administrator's side.
    pub fn admin(&self) -> StoreApi {
        self.admin.clone()
    }

    /// Serves hosts until `stop` is readable; everything that was answered is durable then.
    ///
    /// # Errors
    /// The store's device fails, or the system refuses to wait.
    pub fn run(self, stop: UnixStream) -> Result<(), HostingError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        stop.set_nonblocking(true)?;
        LocalSet::new().block_on(&runtime, async {
            let (core, config) = (self.core.clone(), self.core.borrow().config.clone());
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let notes = self.core.borrow().notes.clone();
            let met = move |met: Met| drop(tokio::task::spawn_local(serve(core.clone(), met)));
            let refused =
                move |from: SocketAddr, why: String| notes.note(Severity::Warning, from, why);
            let accepting = meeting::accept(listener, config.keys, config.limits, met, refused);
            let accepting = tokio::task::spawn_local(accepting);
            let stop = tokio::net::UnixStream::from_std(stop)?;
            // An `OwnedFd` is always the same descriptor, which is all that makes it unsound.
            #[expect(deprecated, reason = "the other way is unsafe")]
            let ready = AsyncFd::with_interest(self.readiness, Interest::READABLE)?;
            let stopped = run_store(&self.core, &ready, self.receiver, &stop).await;
            accepting.abort();
            match stopped {
                Ok(()) => last_flush(&self.core, &ready).await,
                Err(error) => Err(error),
            }
        })
    }
}

/// Drives the store until `stop` is readable.
async fn run_store(
    core: &Rc<RefCell<Core>>,
    ready: &AsyncFd<impl AsFd + std::os::fd::AsRawFd>,
    mut receiver: mpsc::Receiver<Task<Core>>,
    stop: &tokio::net::UnixStream,
) -> Result<(), HostingError> {
    let (clock, wakeup) = (core.borrow().clock, core.borrow().wakeup.clone());
    loop {
        let deadline = {
            let mut core = core.borrow_mut();
            core.turn();
            if let Some(text) = core.backing.trouble() {
                let path = core.device.clone();
                return Err(HostingError::Store { path, text });
            }
            let now = clock.now();
            core.tell_worth(now);
            if core.history.is_over(now) {
                let totals = core.totals();
                core.history.note(now, totals);
                core.look_at_room();
            }
            core.backing.next_event()
        };
        tokio::select! {
            guard = ready.readable() => guard?.clear_ready(),
            () = wait(clock, deadline, &wakeup) => {}
            Some(order) = receiver.recv() => order(&mut core.borrow_mut()),
            _ = stop.readable() => return Ok(()),
        }
    }
}

/// Makes everything durable that was answered.
async fn last_flush(
    core: &Rc<RefCell<Core>>,
    ready: &AsyncFd<impl AsFd + std::os::fd::AsRawFd>,
) -> Result<(), HostingError> {
    let (told, mut answer) = oneshot::channel();
    let (clock, wakeup) = (core.borrow().clock, core.borrow().wakeup.clone());
    core.borrow_mut().order(Action::Flush, told);
    loop {
        core.borrow_mut().turn();
        match answer.try_recv() {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(refused)) => {
                let path = core.borrow().device.clone();
                return Err(HostingError::Store { path, text: refused.message });
            }
            Err(oneshot::error::TryRecvError::Closed) => return Ok(()),
            Err(oneshot::error::TryRecvError::Empty) => {}
        }
        let deadline = core.borrow().backing.next_event();
        tokio::select! {
            guard = ready.readable() => guard?.clear_ready(),
            () = wait(clock, deadline, &wakeup) => {}
        }
    }
}

/// Serves a host until its connection ends.
async fn serve(core: Rc<RefCell<Core>>, met: Met) {
    let (clock, notes) = (core.borrow().clock, core.borrow().notes.clone());
    let (protocol, join_within) = {
        let config = &core.borrow().config;
        (config.protocol, config.limits.handshake_within)
    };
    let Met { stream, from, host: by_key, place: _place } = met;
    let link = random_bytes().map_err(|error| error.to_string()).and_then(|epoch| {
        let config = Config::new(Role::Acceptor, epoch);
        Link::new(config, protocol, STORE, clock.now()).map_err(|error| error.to_string())
    });
    let line = match link {
        Ok(link) => Line::new(link),
        Err(why) => return notes.note(Severity::Warning, from, why),
    };
    let mut joined: Option<(HostId, u64)> = None;
    let heard = || {
        let joined = match joined {
            Some(joined) => joined,
            None => {
                let Some(says) = line.peer() else { return Ok(()) };
                let host = who(by_key, says)?;
                let number = core.borrow_mut().let_in(host, &line, from)?;
                *joined.insert((host, number))
            }
        };
        core.borrow_mut().hear(joined)
    };
    let why = carry_joining(stream, &line, (clock, join_within), heard).await;
    match joined {
        Some((host, number)) => core.borrow_mut().leave(host, number, &why),
        None => notes.note(Severity::Warning, from, format!("not let in: {why}")),
    }
}

/// The host, by its key and by its own word.
fn who(by_key: Option<HostId>, says: HostId) -> Result<HostId, String> {
    match by_key {
        Some(host) if host != says => {
            Err(format!("it says that it is host {}, and has the key of host {}", says.0, host.0))
        }
        _ if says == STORE => Err("it has the number 0, which is the store's".to_string()),
        _ => Ok(says),
    }
}

impl Core {
    fn let_in(&mut self, host: HostId, line: &Rc<Line>, from: SocketAddr) -> Result<u64, String> {
        let domains = match self.config.hosts.get(&host) {
            Some(domains) => *domains,
            None if self.config.hosts.is_empty() => u64::MAX,
            None => return Err(format!("host {} is not configured here", host.0)),
        };
        if let Some(earlier) = self.forget_line(host) {
            earlier.line.end(format!("host {} came in anew from {from}", host.0));
        }
        self.server.joined(host, domains).map_err(|error| error.to_string())?;
        self.connections += 1;
        let number = self.connections;
        self.hosts.insert(host, Host { line: line.clone(), number, from });
        self.notes.note(Severity::Info, format!("host {}", host.0), format!("is here: {from}"));
        Ok(number)
    }

    /// Hears what has come on a host's connection of this number, as far as there is room for the
    /// answers; then it is called again.
    ///
    /// # Errors
    /// The reason why the connection must end.
    fn hear(&mut self, (host, number): (HostId, u64)) -> Result<(), String> {
        // A message of an earlier connection would be taken for one of the new session.
        let there = self.hosts.get(&host).filter(|there| there.number == number);
        let line = there.map(|there| there.line.clone());
        let line = line.ok_or_else(|| format!("host {} has another connection", host.0))?;
        for _ in 0..MESSAGES_AT_ONCE {
            if !line.has_room(|queued| self.server.has_room(host, queued)) {
                return Ok(());
            }
            let message = line.next_message::<ToServer>().map_err(|error| error.to_string())?;
            let Some(message) = message else { return Ok(()) };
            let now = self.now();
            self.server.hear(now, host, message).map_err(|error| error.to_string())?;
            self.turn_for_host();
        }
        // Others must not wait for all that one host has sent: they would miss their leases.
        line.go_on();
        Ok(())
    }

    /// The time, for machines. A process that could do nothing for a while tells the server: hosts
    /// could not renew their leases.
    fn now(&mut self) -> Nanos {
        let now = self.clock.now();
        let length = now.saturating_sub(self.seen);
        if length > STOOD_STILL {
            self.server.stood_still(length);
            let text = format!("nothing could be done for {:.1} s", length.as_secs_f64());
            self.notes.note(Severity::Warning, "store", text);
        }
        self.seen = now;
        now
    }

    /// Takes a host's connection off the list, and keeps what it carried.
    fn forget_line(&mut self, host: HostId) -> Option<Host> {
        let gone = self.hosts.remove(&host)?;
        let Traffic { sent, received } = gone.line.traffic();
        self.before.sent += sent;
        self.before.received += received;
        Some(gone)
    }

    /// Figures since the start whose growth is told by the second.
    fn totals(&self) -> StoreSecond {
        let counters = self.backing.store().status().counters;
        let lines = self.hosts.values().map(|host| host.line.traffic());
        let (sent, received) = lines
            .fold((0, 0), |(sent, received), line| (sent + line.sent, received + line.received));
        StoreSecond {
            number: 0,
            sent_bytes: self.before.sent + sent,
            received_bytes: self.before.received + received,
            new_blocks: counters.new_blocks,
            deduplicated_blocks: counters.deduplicated,
        }
    }

    /// Tells the device from time to time which of its parts are worth more than others.
    fn tell_worth(&mut self, now: Nanos) {
        if now < self.tells_worth_at {
            return;
        }
        self.tells_worth_at = Nanos(now.0 + WORTH_EVERY.0);
        let store = self.backing.store_mut();
        let worth = |worth| match worth {
            Worth::Metadata => thermocline_ports_os::Worth::Metadata,
            Worth::Shared => thermocline_ports_os::Worth::Shared,
        };
        let parts = store.worth().into_iter();
        let parts: Vec<_> = parts.map(|(from, to, of)| (from, to, worth(of))).collect();
        store.device_mut().note_worth(&parts);
    }

    /// The last five minutes, second by second.
    pub(super) fn history(&self, from: u64) -> Vec<StoreSecond> {
        self.history.from(from)
    }

    fn leave(&mut self, host: HostId, number: u64, why: &str) {
        self.notes.note(Severity::Info, format!("host {}", host.0), format!("has gone: {why}"));
        if self.hosts.get(&host).is_some_and(|there| there.number == number) {
            self.forget_line(host);
            self.server.left(host);
            self.turn_for_host();
        }
    }

    /// Carries on until nothing moves without the device or a host.
    fn turn(&mut self) {
        let now = self.now();
        let mut told = Vec::new();
        loop {
            while let Some((op, request)) = self.server.next_store_request() {
                self.backing.begin(now, op, request);
            }
            self.backing.poll(now, &mut told);
            if told.is_empty() {
                break;
            }
            for one in told.drain(..) {
                match one {
                    Told::Server(op, answer) => self.server.stored(now, op, answer),
                    Told::Order(number, result) => self.order_ended(number, result),
                }
            }
        }
        while let Some((host, message)) = self.server.next_message() {
            if let Some(host) = self.hosts.get(&host) {
                host.line.send(&message);
            }
        }
        for (id, host) in &self.hosts {
            host.line.look_for_room(|queued| self.server.has_room(*id, queued));
        }
        self.look_at_sweeps();
        self.look_at_refusals(now);
    }

    /// Tells of writes that found no room.
    fn look_at_refusals(&mut self, now: Nanos) {
        let mut blocks_of: BTreeMap<_, u64> = BTreeMap::new();
        for (volume, blocks, shortage) in self.backing.take_refused() {
            *blocks_of.entry((volume, shortage)).or_default() += blocks;
        }
        for ((volume, shortage), blocks) in blocks_of {
            if let Some((severity, text)) = self.room.refused(now, volume, blocks, shortage) {
                let name = self.backing.name_of(volume).unwrap_or_default();
                self.notes.note(severity, name, text);
            }
        }
    }

    /// Bytes of the store's room that are used, without what a sweep frees, and all of them.
    fn used(&self) -> (u64, u64) {
        let status = self.backing.store().status();
        (status.stored.0.saturating_sub(status.unreferenced.0), status.capacity.0)
    }

    /// Tells when little room is left.
    fn look_at_room(&mut self) {
        let numbers = self.backing.store().volumes().into_iter().map(|volume| volume.id.0);
        let volumes: Vec<_> = numbers.zip(self.volumes()).collect();
        for (severity, of, text) in self.room.look(self.used(), &volumes) {
            self.notes.note(severity, of, text);
        }
    }

    /// The same, from a connection: who drives the store looks when it is to go on.
    fn turn_for_host(&mut self) {
        self.turn();
        self.wakeup.notify_one();
    }

    fn order_ended(&mut self, number: u64, result: Result<Completed, RequestError>) {
        let waiting = self.orders.remove(&number).expect("orders are answered once");
        // Whoever asked may have gone.
        let _ = waiting.send(result.map_err(|error| refused(&error)));
    }

    /// Has the store do something for an administrator.
    pub(super) fn order(&mut self, action: Action, told: Waiting) {
        self.next_order += 1;
        self.orders.insert(self.next_order, told);
        self.backing.order(self.clock.now(), self.next_order, action);
        self.wakeup.notify_one();
    }

    /// Frees blocks that no volume has; the bytes that became free are told at the end.
    pub(super) fn sweep(&mut self, told: oneshot::Sender<u64>) {
        let counters = self.backing.store().status().counters;
        self.backing.store_mut().sweep();
        self.sweeping.push(Sweeping { rounds: 3, freed: counters.swept_blocks, told });
        self.wakeup.notify_one();
    }

    fn look_at_sweeps(&mut self) {
        if self.sweeping.is_empty() || self.backing.store().is_sweeping() {
            return;
        }
        let status = self.backing.store().status();
        for waiting in std::mem::take(&mut self.sweeping) {
            if status.unreferenced > Bytes(0) && waiting.rounds > 0 {
                self.backing.store_mut().sweep();
                self.sweeping.push(Sweeping { rounds: waiting.rounds - 1, ..waiting });
                continue;
            }
            let freed = status.counters.swept_blocks - waiting.freed;
            let _ = waiting.told.send(freed * BLOCK_BYTES as u64);
        }
    }

    /// Things that do not hold in the store.
    pub(super) fn check(&self) -> Vec<String> {
        self.backing.store().check().into_iter().map(|flaw| flaw.0).collect()
    }

    /// A volume by its name.
    pub(super) fn volume(&self, name: &str) -> Result<VolumeStatus, Refused> {
        let found = self.backing.volume_named(name);
        found.ok_or_else(|| {
            Refused::missing(format!(
                "there is no volume `{name}`; `thermocline store volume list` tells which there are"
            ))
        })
    }

    fn leases(&self) -> Vec<LeaseStatus> {
        self.server.leases(self.clock.now())
    }

    /// A volume that no host may write to now, nor after an earlier run of this process let it.
    pub(super) fn free_volume(&mut self, name: &str) -> Result<VolumeStatus, Refused> {
        let volume = self.volume(name)?;
        let now = self.now();
        let info = self.backing.info(&volume);
        let lease = info.as_ref().and_then(|info| self.server.lease(now, info));
        match lease {
            None => Ok(volume),
            Some(lease) => Err(Refused::conflict(format!(
                "host {} has `{name}`, for another {:.0} s at least; detach it there first \
                 (`thermocline host detach {name}`)",
                lease.holder.0,
                lease.left.as_secs_f64().ceil()
            ))),
        }
    }

    /// A volume that no host has ever had. Hosts know their volumes' content, so nobody else may
    /// change it.
    pub(super) fn new_volume(&mut self, name: &str) -> Result<VolumeStatus, Refused> {
        let volume = self.free_volume(name)?;
        match self.backing.info(&volume) {
            Some(info) if info.fence > 0 => Err(Refused::conflict(format!(
                "host {} has had `{name}` and may still know its content; make a new volume, fill \
                 that, and delete `{name}`",
                info.holder
            ))),
            _ => Ok(volume),
        }
    }

    /// Takes note that a volume is being deleted.
    pub(super) fn forget(&mut self, volume: u32) {
        let now = self.now();
        self.server.forget(now, volume);
        self.wakeup.notify_one();
    }

    /// The volumes.
    pub(super) fn volumes(&self) -> Vec<StoreVolume> {
        let all = self.backing.store().volumes();
        let leases = self.leases();
        let bound = |bytes: Bytes| (bytes.0 != u64::MAX).then_some(bytes.0);
        let told = all.iter().map(|volume| StoreVolume {
            room: RoomLevel::Ok,
            refused_blocks: self.room.refused_blocks(volume.id.0),
            name: volume.name.clone(),
            size_bytes: volume.size.0,
            read_only: volume.read_only,
            origin: all.iter().find(|it| it.id == volume.origin).map(|it| it.name.clone()),
            domain: volume.domain.0,
            mapped_bytes: volume.mapped.0,
            charged_bytes: volume.charged.0,
            logical_quota_bytes: bound(volume.quotas.logical),
            physical_quota_bytes: bound(volume.quotas.physical),
            host: leases.iter().find(|it| it.volume == volume.id.0).map(|it| it.holder.0),
        });
        let with_level = |volume: StoreVolume| StoreVolume { room: level_of(&volume), ..volume };
        told.map(with_level).collect()
    }

    /// Everything at a glance.
    pub(super) fn status(&self) -> StoreStatus {
        let status = self.backing.store().status();
        let counts = self.server.counts();
        let volumes = self.volumes();
        let (used, capacity) = self.used();
        let hosts = self.hosts.iter().map(|(id, host)| {
            let traffic = host.line.traffic();
            let (sent_bytes, received_bytes) = (traffic.sent, traffic.received);
            HostLink { host: id.0, from: host.from.to_string(), sent_bytes, received_bytes }
        });
        StoreStatus {
            device: self.device.clone(),
            listen: self.address.to_string(),
            protocol: protocol_name(self.config.protocol).to_string(),
            uptime_seconds: self.clock.now().as_secs_f64(),
            capacity_bytes: status.capacity.0,
            stored_bytes: status.stored.0,
            unreferenced_bytes: status.unreferenced.0,
            mapped_bytes: volumes.iter().map(|volume| volume.mapped_bytes).sum(),
            new_blocks: status.counters.new_blocks,
            deduplicated_blocks: status.counters.deduplicated,
            damaged_blocks: status.counters.damaged,
            blocks_by_id: counts.by_id,
            blocks_by_bytes: counts.by_bytes,
            blocks_by_peer: counts.by_peer,
            known_writes: counts.known_writes,
            written_blocks: counts.written,
            refused_blocks: counts.refused,
            room: level(used, capacity),
            hosts: hosts.collect(),
            volumes,
        }
    }
}

/// A protocol's name.
pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
    let known = Protocol::ALL.iter().find(|(_, known)| *known == protocol);
    known.map_or("unknown", |(name, _)| name)
}

/// A refusal of the store, for people.
fn refused(error: &RequestError) -> Refused {
    match error {
        RequestError::NoVolume(_) => Refused::missing(error),
        RequestError::Name | RequestError::Range => Refused::invalid(error),
        RequestError::Device(_) | RequestError::Stopped => Refused::unavailable(error),
        _ => Refused::conflict(error),
    }
}

#[cfg(test)]
mod tests;
