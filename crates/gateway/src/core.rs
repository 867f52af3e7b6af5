//! State that all tasks of a gateway share: settings, counters, and listeners for events.

use crate::accelerator::Accelerator;
use crate::config::{Common, Event, Limits, OnEvent, Severity};
use crate::disk::DiskTier;
use crate::hub::Hub;
use crate::keep::Keep;
use crate::keys::{Fingerprint, KeyFiles, Keys, PROTOCOL};
use crate::status::Status;
use crate::{StartError, WhenDown};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thermocline_admin::secret::{random_bytes, random_number};
use thermocline_tunnel::{Cache, End, Settings};
use thermocline_units::{Bytes, Nanos, Rng};
use thermocline_wire::Role;
use tokio::net::TcpListener;

/// The reason for the end of connections when an end stops.
pub(crate) const STOPPING: &str = "it was told to stop";

/// Time to wait when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// The link's present and past.
#[derive(Debug)]
struct Link {
    down_since: Option<Instant>,
    last_error: Option<String>,
}

/// Refusals that were told, and those that were not, in a second.
#[derive(Debug)]
struct Refusals {
    since: Instant,
    told: u32,
    untold: u64,
}

/// Refusals that are told one by one in this time.
const REFUSALS_TOLD: u32 = 10;
const REFUSALS_EVERY: Duration = Duration::from_secs(1);

/// Shared by all tasks.
pub(crate) struct Core {
    pub(crate) keys: KeyFiles,
    pub(crate) limits: Limits,
    pub(crate) linger: Duration,
    pub(crate) began: Instant,
    cache: Bytes,
    keep: Option<Keep>,
    disk: Option<DiskTier>,
    pub(crate) accelerator: Option<Arc<Accelerator>>,
    policy: String,
    fingerprint: Fingerprint,
    on_event: OnEvent,
    rng: Mutex<Rng>,
    link: Mutex<Link>,
    refusals: Mutex<Refusals>,
    stops: AtomicBool,
    pub(crate) clients: AtomicUsize,
    pub(crate) connections: AtomicU64,
    pub(crate) flows: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) cut: AtomicU64,
    pub(crate) passed: AtomicU64,
    pub(crate) lingered: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Core {
    /// Looks whether everything fits, so that what is wrong is told at the start.
    pub(crate) fn new(common: &Common, role: Role) -> Result<Core, StartError> {
        let keys = Keys::read(&common.keys)?;
        if keys.peers().is_empty() {
            return Err(StartError::NoPeers);
        }
        let fingerprint = keys.fingerprint();
        match role {
            Role::Connector => keys.client(PROTOCOL).map(drop)?,
            Role::Acceptor => keys.server(PROTOCOL).map(drop)?,
        }
        if let Some(disk) = &common.disk {
            disk.check()?;
        }
        let core = Core {
            keys: common.keys.clone(),
            limits: common.limits,
            linger: common.linger,
            began: Instant::now(),
            cache: common.cache,
            keep: common.keep.as_deref().map(Keep::new).transpose()?,
            disk: common.disk.clone(),
            accelerator: common.worker.clone().map(Accelerator::start).transpose()?,
            policy: common.policy.clone(),
            fingerprint,
            on_event: common.on_event.clone(),
            rng: Mutex::new(Rng::seeded(random_number()?)),
            link: Mutex::new(Link { down_since: Some(Instant::now()), last_error: None }),
            refusals: Mutex::new(Refusals { since: Instant::now(), told: 0, untold: 0 }),
            stops: AtomicBool::new(false),
            clients: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            flows: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            cut: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            lingered: AtomicU64::new(0),
        };
        core.end(role, Cache::new(Bytes(1 << 20), [1; 16], 0), Nanos(0))?;
        Ok(core)
    }

    /// The cache that was kept for a connection with `peer`, or an empty one of a run of its own.
    /// Reads a file of the cache's size. `peer` is `None` for an enter, which has one connection.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn cache(&self, peer: Option<&Fingerprint>) -> io::Result<Cache> {
        let name = self.name_of_cache(peer);
        let kept = self.keep.as_ref().map(|keep| (keep, keep.read(&name, self.cache)));
        match kept {
            Some((keep, Ok(Some(cache)))) => {
                let (path, chunks) = (keep.path(&name), cache.chunks());
                let text = format!("{}: {chunks} chunks were read", path.display());
                self.tell(Severity::Info, "cache", text);
                return Ok(cache);
            }
            Some((keep, Err(error))) => {
                let path = keep.path(&name);
                let text = format!("{}: {error}; begins with an empty cache", path.display());
                self.tell(Severity::Warning, "cache", text);
            }
            Some((_, Ok(None))) | None => {}
        }
        self.empty_cache()
    }

    /// The cache that is used from now on: the one of [`Core::cache`], whose file goes. If that
    /// cannot be taken away, it would be read a second time, so the cache is an empty one instead.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn cache_in_use(
        self: &Arc<Core>,
        peer: Option<&Fingerprint>,
        read: Cache,
        hub: &Arc<Hub>,
    ) -> io::Result<Cache> {
        let Some(keep) = &self.keep else { return Ok(read) };
        let name = self.name_of_cache(peer);
        let Err(error) = keep.is_used(&name) else { return Ok(read) };
        let text = format!(
            "{}: it cannot be removed ({error}), so it is not used; begins with an empty cache; \
             make the folder writable, or name another one",
            keep.path(&name).display()
        );
        self.tell(Severity::Warning, "cache", text);
        Ok(self.with_disk(self.empty_cache()?, hub))
    }

    /// A cache of a run of its own.
    fn empty_cache(&self) -> io::Result<Cache> {
        Ok(Cache::new(self.cache, random_bytes()?, random_number()?))
    }

    /// Gives a hub's cache its second tier, if there is to be one.
    pub(crate) fn with_disk(self: &Arc<Core>, cache: Cache, hub: &Arc<Hub>) -> Cache {
        let Some(disk) = &self.disk else { return cache };
        match disk.begin(self, hub) {
            Ok(jobs) => {
                hub.set_disk(jobs);
                cache.with_disk(disk.bytes)
            }
            Err(error) => {
                let folder = disk.folder.display();
                let text = format!("{folder}: {error}; goes on without chunks on disk");
                self.tell(Severity::Warning, "cache", text);
                cache
            }
        }
    }

    /// Saves a cache, if caches are to be kept.
    pub(crate) fn save(&self, peer: Option<&Fingerprint>, cache: &Cache) {
        let Some(keep) = &self.keep else { return };
        let name = self.name_of_cache(peer);
        let (path, chunks) = (keep.path(&name), cache.chunks());
        match keep.save(&name, cache) {
            Ok(()) => {
                let text = format!("{}: {chunks} chunks were saved", path.display());
                self.tell(Severity::Info, "cache", text);
            }
            Err(error) => {
                let text = format!(
                    "{}: {error}; not saved: the next start begins with an empty cache",
                    path.display()
                );
                self.tell(Severity::Warning, "cache", text);
            }
        }
    }

    /// Own key and the other end's, so that ends which share a folder do not share files.
    fn name_of_cache(&self, peer: Option<&Fingerprint>) -> String {
        let hex = |key: &Fingerprint| key.to_string().replace("sha256:", "");
        match peer {
            None => format!("enter-{}", hex(&self.fingerprint)),
            Some(peer) => format!("exit-{}-{}", hex(&self.fingerprint), hex(peer)),
        }
    }

    /// The end of a new connection.
    pub(crate) fn end(&self, role: Role, cache: Cache, now: Nanos) -> Result<End, StartError> {
        let mut settings = Settings::new(role, random_number()?);
        settings.controller.clone_from(&self.policy);
        settings.offload = self.accelerator.as_ref().map(|accelerator| accelerator.settings());
        // Also when nothing else is said: the round trip is told, and death is noticed.
        settings.wire.ping_after = Nanos::from_secs(5);
        settings.wire.silent_after = Nanos::from_secs(20);
        let began = Instant::now();
        let stopwatch = Box::new(move || Nanos(began.elapsed().as_nanos() as u64));
        Ok(End::new(settings, cache, stopwatch, now)?)
    }

    /// Puts a new connection's end into its hub; its number. The other end is told if this one is
    /// stopping: who told all connections so did not see it.
    pub(crate) fn begin(&self, hub: &Hub, end: End, peer: String, key: Fingerprint) -> u64 {
        let number = hub.install(end, peer, key);
        if self.is_stopping() {
            hub.close(STOPPING);
        }
        number
    }

    /// A number from 0 up to 1.
    pub(crate) fn draw(&self) -> f64 {
        locked(&self.rng).unit_f64()
    }

    /// Tells of somebody who was turned away; of many in a second only the first few, so that
    /// nobody fills the log who is not let in.
    pub(crate) fn tell_refused(&self, subject: impl ToString, text: String) {
        let now = Instant::now();
        let mut refusals = locked(&self.refusals);
        if now.duration_since(refusals.since) >= REFUSALS_EVERY {
            let untold = std::mem::take(&mut refusals.untold);
            (refusals.since, refusals.told) = (now, 0);
            if untold > 0 {
                let text = format!("{untold} more were refused and not told one by one");
                self.tell(Severity::Warning, "link", text);
            }
        }
        if refusals.told < REFUSALS_TOLD {
            refusals.told += 1;
            self.tell(Severity::Warning, subject, text);
        } else {
            refusals.untold += 1;
        }
    }

    pub(crate) fn tell(&self, severity: Severity, subject: impl ToString, text: String) {
        (self.on_event)(Event { severity, subject: subject.to_string(), text });
    }

    /// A connection is there.
    pub(crate) fn link_is_up(&self) {
        self.connections.fetch_add(1, Relaxed);
        locked(&self.link).down_since = None;
    }

    /// No connection is there, or none could be made.
    pub(crate) fn link_is_down(&self, why: Option<&str>) {
        let mut link = locked(&self.link);
        link.down_since.get_or_insert_with(Instant::now);
        if let Some(why) = why {
            link.last_error = Some(why.to_string());
        }
    }

    /// Notes why a connection ended, when others may be there.
    pub(crate) fn note_error(&self, why: &str) {
        locked(&self.link).last_error = Some(why.to_string());
    }

    /// The status but for what only one of the roles knows.
    pub(crate) fn status(&self, role: &str, when_down: Option<WhenDown>) -> Status {
        let link = locked(&self.link);
        Status {
            role: role.to_string(),
            key: self.fingerprint.to_string(),
            for_s: self.began.elapsed().as_secs_f64(),
            links: Vec::new(),
            down_for_s: link.down_since.map(|since| since.elapsed().as_secs_f64()),
            last_error: link.last_error.clone(),
            connections: self.connections.load(Relaxed),
            when_down: when_down.map(|when_down| when_down.to_string()),
            clients: self.clients.load(Relaxed),
            flows: self.flows.load(Relaxed),
            refused: self.refused.load(Relaxed),
            cut: self.cut.load(Relaxed),
            lingered: self.lingered.load(Relaxed),
            passed: self.passed.load(Relaxed),
            accelerator: self.accelerator.as_ref().map(|accelerator| accelerator.status()),
        }
    }

    /// True when no client, or server, is connected.
    pub(crate) fn is_idle(&self) -> bool {
        self.clients.load(Relaxed) == 0
    }

    /// Takes no connection from now on: it ends for good.
    pub(crate) fn stop(&self) {
        self.stops.store(true, Relaxed);
    }

    /// True if it ends for good.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stops.load(Relaxed)
    }

    /// A client's place, if there is one; it is free again when the place is dropped.
    pub(crate) fn place(self: &Arc<Core>) -> Option<Place> {
        let before = self.clients.fetch_add(1, Relaxed);
        let place = Place(self.clone());
        (before < self.limits.clients_max).then_some(place)
    }
}

/// A client's place.
pub(crate) struct Place(Arc<Core>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, Relaxed);
    }
}

/// Bytes that the system takes of a link before it has sent them: enough to keep a link busy, and
/// no queue in which a short message of one flow waits behind a long one of another.
const UNSENT_BYTES: u32 = 128 * 1024;

/// Makes a socket one of a link.
///
/// # Errors
/// The system refuses.
pub(crate) fn prepare_link(stream: &tokio::net::TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// The next connection of a listener. Waits when the system has no room for one.
pub(crate) async fn accept(
    listener: &TcpListener,
) -> (tokio::net::TcpStream, std::net::SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // Who waited has gone, or there is no room.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => tokio::time::sleep(NO_ROOM).await,
        }
    }
}

#[cfg(test)]
mod tests;
