//! The event loop: NBD connections, a volume group, its devices.
//!
//! One round: requests of the machine go to the devices, what devices answered goes to the machine,
//! its replies to the connections; connections are read and written; tasks of other threads are
//! carried out; what is due by the clock is done. A round in which nothing moved ends in `poll(2)`.
//! The loop has no lock and shares nothing: a group lives on one loop.
//!
//! - [`mod@accepting`]: who comes in, and who is turned away ([`mod@admission`], [`mod@budget`]);
//! - [`mod@clients`]: connections, from bytes to requests and back;
//! - [`mod@admin`], [`mod@jobs`]: what an administrator may ask for;
//! - [`mod@moves`]: what the policy moves, as events;
//! - [`mod@scrubs`]: scrubs by the calendar, and what verifying finds;
//! - [`mod@counting`]: what is counted on the way, second by second;
//! - [`mod@health`], [`mod@room`]: devices that do not answer, and file systems that fill up.

mod accepting;
mod account;
mod admin;
mod admission;
mod budget;
mod clients;
mod counting;
mod health;
mod heat;
mod jobs;
mod moves;
mod room;
mod scrubs;
mod streams;

pub use admin::{AdminApi, Reach};
pub use admission::ClientLimits;
pub(crate) use clients::Urgency;
pub use room::watch_room;

use self::account::AccountTold;
use crate::ServeError;
use crate::joining::PoolLedger;
use crate::listeners::Listener;
use crate::mailbox::{Mailbox, MailboxReceiver, mailbox};
use admission::Admission;
use budget::Budget;
use clients::{Connection, Origin};
use counting::Counts;
use jobs::Jobs;
use moves::Campaigns;
use room::Room;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustls::ServerConfig;
use std::collections::{BTreeMap, VecDeque};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use thermocline_admin::api::{Event, Severity};
use thermocline_blockcache::PoolDevice;
use thermocline_nbd::{Export, Security};
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::{Completion, Device, Io, Ticket};
use thermocline_ports_os::Disk;
use thermocline_units::{Nanos, PoolId, Slab, VolumeId};
use thermocline_volume::{Finished, Group, Reply, Request, Service};

/// Rounds in a row in which something moved, after which sockets are looked at all the same.
const ROUNDS_PER_LOOK: u32 = 64;
/// Time that the loop stays awake when nothing is left to do. A client that waits for each answer
/// sends its next request within that time, and to be woken takes longer than the whole request
/// does; a loop that sleeps and wakes spends more of the processor than one that looks again. Where
/// there is one processor only, the client needs it.
const AWAKE: Nanos = Nanos(50_000);

/// Addresses at which NBD clients come in.
#[derive(Default)]
pub struct Listeners {
    /// Unix sockets.
    pub unix: Vec<PathBuf>,
    /// TCP addresses; those that a network reaches need TLS.
    pub tcp: Vec<SocketAddr>,
    /// Unix sockets that listen already, with their paths, which stay.
    pub handed_unix: Vec<(PathBuf, UnixListener)>,
    /// TCP sockets that listen already; the same holds for them as for `tcp`.
    pub handed_tcp: Vec<TcpListener>,
    /// Encrypts what comes over TCP; clients that do not encrypt are refused then.
    pub tls: Option<Arc<ServerConfig>>,
    /// Bounds of what clients may take.
    pub limits: ClientLimits,
}

impl Listeners {
    /// Security of a TCP address.
    fn security(&self, address: SocketAddr) -> Result<Security, ServeError> {
        match &self.tls {
            Some(_) => Ok(Security::Wanted),
            None if address.ip().is_loopback() => Ok(Security::Given),
            None => Err(ServeError::InTheClear(address)),
        }
    }
}

/// Told of every event when it happens.
pub type OnEvent = Box<dyn FnMut(&Event)>;

/// The event loop around one volume group.
///
/// ```no_run
/// use std::os::unix::net::UnixStream;
/// use thermocline_engine::{Engine, Listeners, ServeError};
///
/// /// Serves until something can be read from `stop`.
/// fn serve(mut engine: Engine, stop: &UnixStream) -> Result<(), ServeError> {
///     let unix = vec!["/run/thermocline/nbd.sock".into()];
///     engine.open_listeners(&Listeners { unix, ..Listeners::default() })?;
///     let mailbox = engine.mailbox(); // For other threads: the HTTP API, surveys.
///     std::thread::spawn(move || mailbox.send(|admin| println!("{:?}", admin.status())));
///     engine.serve(stop)
/// }
/// ```
pub struct Engine {
    group: Group,
    /// Devices by pool; `None`: it is missing, or was removed.
    disks: Vec<Option<PoolDevice<Disk>>>,
    listeners: Vec<Listener>,
    tls: Option<Arc<ServerConfig>>,
    exports: Vec<Export>,
    /// Those of them that clients may attach.
    offered: Vec<Export>,
    /// Holders of volumes in this process, by volume: nobody else may attach or delete these.
    holders: BTreeMap<VolumeId, String>,
    connections: BTreeMap<u64, Connection>,
    limits: ClientLimits,
    /// Admission at `listeners`, in their order.
    admission: Admission,
    budget: Budget,
    accepted: u64,
    /// No connection is accepted before: the system had no room for one.
    deaf_until: Nanos,
    /// True if somebody waits to be accepted.
    to_accept: bool,
    /// Time of the last round that moved something.
    busy_at: Nanos,
    /// [`AWAKE`], or nothing.
    awake: Nanos,
    /// Origins by request.
    origins: Slab<Origin>,
    /// Waiters for requests that no client asked for.
    own: BTreeMap<u64, clients::Own>,
    /// Requests that the machine handed back, by the pool that they wait for.
    refused: BTreeMap<Option<PoolId>, VecDeque<Request>>,
    started: Instant,
    mailbox_receiver: MailboxReceiver,
    mailbox: Mailbox,
    jobs: Jobs,
    campaigns: Campaigns,
    scrubs: scrubs::Scrubs,
    counts: Counts,
    room: Room,
    account_told: AccountTold,
    on_event: OnEvent,
    /// Policy that decides about moves; `None`: none.
    policy: Option<PolicySpec>,
    /// Place where pools that are added are written down; `None`: nowhere.
    ledger: Option<Arc<dyn PoolLedger>>,
    /// Forecasts that were published.
    forecasts: admin::forecasts::Forecasts,
    /// The shadows, by name.
    rivals: BTreeMap<String, PolicySpec>,
    ios: Vec<(PoolId, Ticket, Io)>,
    done: Vec<Completion>,
    replies: Vec<Reply>,
    finished: Vec<Finished>,
}

impl Engine {
    /// Brings a group into service; `disks` are its pools' devices, in order, and `clock` is when
    /// their time began. No client comes in before [`Engine::open_listeners`].
    ///
    /// # Errors
    /// When the group cannot be opened.
    pub fn start(
        group: Group,
        disks: Vec<Option<PoolDevice<Disk>>>,
        clock: Instant,
        on_event: OnEvent,
    ) -> Result<Engine, ServeError> {
        let (mailbox, mailbox_receiver) = mailbox().map_err(ServeError::Wait)?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let mut engine = Engine {
            group,
            disks,
            listeners: Vec::new(),
            tls: None,
            exports: Vec::new(),
            offered: Vec::new(),
            holders: BTreeMap::new(),
            connections: BTreeMap::new(),
            limits: ClientLimits::default(),
            admission: Admission::new(ClientLimits::default()),
            budget: Budget::new(ClientLimits::default().buffers),
            accepted: 0,
            deaf_until: Nanos(0),
            to_accept: false,
            busy_at: Nanos(0),
            awake: if processors > 1 { AWAKE } else { Nanos(0) },
            origins: Slab::default(),
            own: BTreeMap::new(),
            refused: BTreeMap::new(),
            started: clock,
            mailbox_receiver,
            mailbox,
            jobs: Jobs::default(),
            campaigns: Campaigns::default(),
            scrubs: scrubs::Scrubs::default(),
            counts: Counts::new(),
            room: Room::default(),
            account_told: AccountTold::default(),
            on_event,
            policy: None,
            ledger: None,
            forecasts: admin::forecasts::Forecasts::default(),
            rivals: BTreeMap::new(),
            ios: Vec::new(),
            done: Vec::new(),
            replies: Vec::new(),
            finished: Vec::new(),
        };
        engine.run_until(|group| *group.service() != Service::Opening)?;
        if let Service::Failed(error) = engine.group.service() {
            return Err(ServeError::Group(*error));
        }
        engine.name_exports();
        for export in &engine.exports {
            engine.counts.note_volume(VolumeId(export.volume), export.size);
        }
        engine.tell_damaged_replicas();
        Ok(engine)
    }

    /// Tells of metadata that was damaged on some pools only; it is whole on all now.
    fn tell_damaged_replicas(&mut self) {
        let damaged: Vec<_> = self.group.damaged_replicas().collect();
        for (pool, damaged) in damaged {
            let name = self.group.pool_status(pool).expect("it is one of the group's").name;
            let text = format!(
                "its metadata was damaged ({damaged}); another pool had it whole, and it was written \
                 anew; check the device"
            );
            self.event(Severity::Warning, &format!("pool {name}"), text);
        }
    }

    /// Has pools that are added from now on written down for the next start.
    pub fn keep_pools(&mut self, ledger: Arc<dyn PoolLedger>) {
        self.ledger = Some(ledger);
    }

    /// Listens for NBD clients; every volume is an export under its name.
    ///
    /// # Errors
    /// When a socket cannot be made, or data would cross a network in the clear.
    pub fn open_listeners(&mut self, listeners: &Listeners) -> Result<(), ServeError> {
        self.tls.clone_from(&listeners.tls);
        self.limits = listeners.limits;
        self.admission = Admission::new(listeners.limits);
        self.budget = Budget::new(listeners.limits.buffers);
        for path in &listeners.unix {
            let failed = |source| ServeError::Listen { path: path.clone(), source };
            self.listeners.push(Listener::unix(path).map_err(failed)?);
        }
        for (path, handed) in &listeners.handed_unix {
            let failed = |source| ServeError::Listen { path: path.clone(), source };
            self.listeners.push(Listener::handed_unix(path, handed).map_err(failed)?);
        }
        for &address in &listeners.tcp {
            let security = listeners.security(address)?;
            let failed = |source| ServeError::ListenTcp { address, source };
            self.listeners.push(Listener::tcp(address, security).map_err(failed)?);
        }
        for handed in &listeners.handed_tcp {
            let address = handed.local_addr().map_err(ServeError::Wait)?;
            let security = listeners.security(address)?;
            let failed = |source| ServeError::ListenTcp { address, source };
            self.listeners.push(Listener::handed_tcp(handed, security).map_err(failed)?);
        }
        for listener in &self.listeners {
            self.admission.add_listener(listener.name());
        }
        Ok(())
    }

    /// Addresses at which TCP clients come in; a port of 0 has become a real one.
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(Listener::address).collect()
    }

    /// The way by which other threads reach the loop.
    pub fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// The administrator's view, before the loop runs.
    pub fn admin(&mut self) -> AdminApi<'_> {
        AdminApi::new(self)
    }

    fn name_exports(&mut self) {
        let export = |volume: thermocline_volume::VolumeStatus| Export {
            name: volume.name,
            volume: volume.id.0,
            size: volume.size.0,
        };
        self.exports = self.group.volumes().map(export).collect();
        let is_free = |export: &&Export| !self.holders.contains_key(&VolumeId(export.volume));
        self.offered = self.exports.iter().filter(is_free).cloned().collect();
    }

    /// The volume group, to be looked at.
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// All volumes; clients may attach those that no machine in this process holds.
    pub fn exports(&self) -> &[Export] {
        &self.exports
    }

    /// Serves until `stop` is readable, then closes the group: everything is durable afterwards.
    ///
    /// # Errors
    /// When the system refuses to wait, or the group falls out of service.
    pub fn serve(&mut self, stop: &impl AsFd) -> Result<(), ServeError> {
        let mut moving = 0;
        loop {
            if let Service::Failed(error) = self.group.service() {
                return Err(ServeError::Group(*error));
            }
            let moved = self.round();
            if moved {
                self.busy_at = self.now();
                moving += 1;
            }
            // A client that always has something to do keeps nobody else out.
            if !moved || moving >= ROUNDS_PER_LOOK {
                moving = 0;
                if self.wait(Some(stop), moved)? {
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
                self.wait::<MailboxReceiver>(None, false)?;
            }
        }
        Ok(())
    }

    /// Nanoseconds since the devices' clock began.
    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).expect("584 years"))
    }

    /// Moves everything that can be moved without waiting; whether anything was.
    fn round(&mut self) -> bool {
        let mut moved = self.accept();
        moved |= self.receive_all();
        moved |= self.round_of_devices();
        moved |= self.send_all();
        moved |= self.grant_room();
        moved |= self.carry_out_orders();
        self.watch_the_clock();
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
            let disk = self.disks[usize::from(pool.0)].as_mut();
            disk.expect("the machine asks only pools that are there").submit(now, ticket, io);
            moved = true;
        }
        for (index, disk) in self.disks.iter_mut().enumerate() {
            let Some(disk) = disk else { continue };
            disk.poll(now, &mut self.done);
            for completion in self.done.drain(..) {
                self.group.complete(now, PoolId(index as u16), completion);
                moved = true;
            }
        }
        self.group.take_replies(&mut self.replies);
        let mut replies = std::mem::take(&mut self.replies);
        for reply in replies.drain(..) {
            self.answer(now, reply);
            moved = true;
        }
        self.replies = replies;
        self.group.take_finished(&mut self.finished);
        self.note_moves();
        self.end_operations();
        self.submit_refused(now);
        moved
    }

    fn carry_out_orders(&mut self) -> bool {
        let mut moved = false;
        while let Some(order) = self.mailbox_receiver.take() {
            order(&mut AdminApi::new(self));
            moved = true;
        }
        moved
    }

    /// Notes an event and tells whoever listens.
    fn event(&mut self, severity: Severity, subject: &str, text: String) {
        let event = self.counts.events.note(severity, subject, text);
        (self.on_event)(event);
    }

    /// Time at which something is due by the clock.
    fn due(&self) -> Option<Nanos> {
        let disks = self.disks.iter().flatten().filter_map(PoolDevice::next_event);
        let handshakes = self.admission.next_deadline();
        disks.chain(self.group.next_tick()).chain(handshakes).chain([self.counts.next]).min()
    }

    /// Waits for sockets, devices, tasks, or the clock; whether `stop` is readable. Looks without
    /// sleeping for a moment after something happened: see [`AWAKE`]; and where there is more to
    /// do, to see who else has something.
    fn wait<S: AsFd>(&mut self, stop: Option<&S>, has_more: bool) -> Result<bool, ServeError> {
        let now = self.now();
        let awake = now < Nanos(self.busy_at.0 + self.awake.0);
        let timeout = self.due().map(|at| at.saturating_sub(now));
        let timeout = if awake || has_more { Some(Nanos(0)) } else { timeout };
        let mut fds = vec![PollFd::new(&self.mailbox_receiver, PollFlags::IN)];
        if let Some(stop) = stop {
            fds.push(PollFd::new(stop, PollFlags::IN));
        }
        for disk in self.disks.iter().flatten().flat_map(PoolDevice::devices) {
            if disk.has_answers() && !has_more {
                return Ok(false);
            }
            fds.push(PollFd::from_borrowed_fd(disk.readiness(), PollFlags::IN));
        }
        let doors_from = fds.len();
        // Whoever cannot be accepted would only keep the loop from sleeping.
        let deaf = now < self.deaf_until;
        let interest = if deaf { PollFlags::empty() } else { PollFlags::IN };
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, interest)));
        let clients_from = fds.len();
        fds.extend(self.connections.values().map(Connection::interest));
        let timeout = timeout.map(|span| Timespec {
            tv_sec: (span.0 / 1_000_000_000) as i64,
            tv_nsec: (span.0 % 1_000_000_000) as i64,
        });
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ServeError::Wait(errno.into())),
        }
        let hears = fds[0].revents().contains(PollFlags::IN);
        let stopped = stop.is_some() && fds[1].revents().contains(PollFlags::IN);
        let waiting =
            fds[doors_from..clients_from].iter().any(|listener| !listener.revents().is_empty());
        let ready: Vec<PollFlags> = fds[clients_from..].iter().map(PollFd::revents).collect();
        drop(fds);
        for (connection, ready) in self.connections.values_mut().zip(ready) {
            connection.note_ready(ready);
        }
        self.to_accept = waiting;
        if hears {
            self.mailbox_receiver.hush();
        }
        Ok(stopped)
    }
}
