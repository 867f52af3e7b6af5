//! A running proxy: its threads, how it is changed while it runs, and how it stops.
//!
//! Each thread has a runtime of its own and accepts by itself; all share the listening sockets, the
//! dispatcher and one count of connections. One more thread keeps time: it ticks the dispatcher,
//! checks servers and fetches reports. A client's connection never changes threads.

use super::admin::AdminApi;
use super::client::Thread;
use super::config::{Config, Listen, Live, Mode};
use super::core::{Current, Renew, Shared};
use super::probing;
use super::upkeep;
use super::upstream::{Connector, Pool};
use super::{front, trust};
use rustls::ServerConfig;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thermocline_admin::api::Severity;
use thermocline_admin::tls::{TlsError, tls};
use thermocline_balancer::Dispatcher;
use thermocline_policy::registry::PolicySpec;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;
/// A pause after the system has no more descriptors to give.
const BREATH: Duration = Duration::from_millis(50);

/// A reason that a proxy cannot start, or be changed.
#[derive(Debug, thiserror::Error)]
pub enum BalanceError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Certificates of this proxy, or authorities of servers.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The policy cannot be used.
    #[error("{0}")]
    Policy(String),
    /// The access log cannot be opened.
    #[error("access log: {0}")]
    AccessLog(io::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Tells connections that they are to end.
#[derive(Default)]
pub(super) struct Stop {
    is_over: AtomicBool,
    wakeup: Notify,
}

impl Stop {
    pub(super) fn order(&self) {
        self.is_over.store(true, Ordering::Release);
        self.wakeup.notify_waiters();
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Ready when it has been ordered.
    pub(super) fn stopped(&self) -> Stopped<'_> {
        Stopped { stop: self, wakeup: Box::pin(self.wakeup.notified()), is_waiting: false }
    }
}

/// Waits for the order. It looks at a flag and touches the wakeup once.
pub(super) struct Stopped<'a> {
    stop: &'a Stop,
    wakeup: Pin<Box<Notified<'a>>>,
    is_waiting: bool,
}

impl Future for Stopped<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_waiting {
            self.is_waiting = true;
            if self.wakeup.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        if self.stop.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Certificates that a listener shows clients, as they are now; `None`: it is not encrypted.
type Certificates = Arc<Mutex<Option<Arc<ServerConfig>>>>;

/// A listener for clients.
pub(super) struct Listener {
    listener: TcpListener,
    mode: Mode,
    tls: Certificates,
}

/// A running proxy. Dropped, it stops at once.
pub struct Proxy {
    admin: Arc<AdminApi>,
    configured: Vec<(Listen, Certificates)>,
    /// Their sockets.
    listeners: Vec<TcpListener>,
    /// Addresses at which it listens, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
    stop: Arc<Stop>,
    cut: Arc<Stop>,
    /// Number of loops that accept clients.
    accepting: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that work beside the requests.
    beside: Vec<JoinHandle<()>>,
}

impl Proxy {
    /// Listens, and proxies from now on. `seed` is to be another one for each balancer before the
    /// same servers. Sockets of `inherited`, which listen already, are taken for the addresses that
    /// they have, or in their order where the configuration leaves the port open; others are
    /// closed.
    ///
    /// # Errors
    /// When an address, a certificate or a thread cannot be had, or the policy is none.
    pub fn start(
        config: &Config,
        seed: u64,
        inherited: Vec<TcpListener>,
    ) -> Result<Proxy, BalanceError> {
        Proxy::take_over(config, seed, inherited, None)
    }

    /// The same, going on from what another process has told of the servers
    /// ([`AdminApi::memories`]).
    ///
    /// # Errors
    /// As for [`Proxy::start`].
    pub fn take_over(
        config: &Config,
        seed: u64,
        mut inherited: Vec<TcpListener>,
        memories: Option<&str>,
    ) -> Result<Proxy, BalanceError> {
        let start = Instant::now();
        let rule = rule(&config.live.policy)?;
        let now = thermocline_units::Nanos(0);
        let dispatcher = Dispatcher::new(now, config.live.settings.clone(), rule, seed);
        let shared = Shared::new(current(&config.live)?, dispatcher, start);
        shared.log.open(config.live.access_log.as_ref()).map_err(BalanceError::AccessLog)?;
        shared.configure(&config.live, Renew::Changed);
        let mut proxy = Proxy {
            admin: Arc::new(AdminApi::new(shared, seed)),
            configured: Vec::new(),
            listeners: Vec::new(),
            addresses: Vec::new(),
            stop: Arc::default(),
            cut: Arc::default(),
            accepting: Arc::default(),
            threads: Vec::new(),
            beside: Vec::new(),
        };
        if let Some(Err(error)) = memories.map(|text| proxy.admin.remember(text)) {
            let text = format!("what the process before knew of servers cannot be read: {error}");
            proxy.admin.note(Severity::Warning, "balancer", text);
        }
        let mut listeners = Vec::new();
        for listen in &config.listen {
            let listening = open(listen, &mut inherited)?;
            let failed = |source| BalanceError::Listen { address: listen.address, source };
            proxy.addresses.push(listening.listener.local_addr().map_err(failed)?);
            proxy.configured.push((listen.clone(), listening.tls.clone()));
            proxy.listeners.push(listening.listener.try_clone().map_err(failed)?);
            listeners.push(listening);
        }
        let told = proxy.addresses.iter().map(SocketAddr::to_string).collect();
        proxy.admin.set_addresses(told);
        let places = Arc::new(Semaphore::new(config.connections_max.min(Semaphore::MAX_PERMITS)));
        let mut threads = Vec::new();
        for number in 0..config.threads.max(1) {
            let thread =
                Arc::new(Thread { shared: proxy.admin.shared.clone(), pool: Pool::default() });
            threads.push(thread.clone());
            proxy.start_thread(number, thread, &listeners, &places)?;
        }
        let (shared, cut) = (proxy.admin.shared.clone(), proxy.cut.clone());
        let admin = proxy.admin.clone();
        proxy.beside.push(spawn("balance-upkeep", move || {
            upkeep::run(&shared, &admin, threads, &cut);
        })?);
        let (shared, cut) = (proxy.admin.shared.clone(), proxy.cut.clone());
        proxy.beside.push(spawn("balance-probes", move || probing::run(&shared, &cut))?);
        Ok(proxy)
    }

    fn start_thread(
        &mut self,
        number: usize,
        thread: Arc<Thread>,
        listeners: &[Listener],
        places: &Arc<Semaphore>,
    ) -> Result<(), BalanceError> {
        let open =
            |listener: &Listener| Ok((listener.try_clone()?, Accepting::new(&self.accepting)));
        let copies: io::Result<Vec<(Listener, Accepting)>> = listeners.iter().map(open).collect();
        let listeners = copies.map_err(BalanceError::Thread)?;
        let (stop, cut, places) = (self.stop.clone(), self.cut.clone(), places.clone());
        let handle = spawn(&format!("balance-{number}"), move || {
            run_thread(thread, listeners, places, stop, &cut);
        })?;
        self.threads.push(handle);
        Ok(())
    }

    /// The listening sockets, for a process that is to take over.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn listeners(&self) -> io::Result<Vec<TcpListener>> {
        self.listeners.iter().map(TcpListener::try_clone).collect()
    }

    /// The administrator's side.
    pub fn admin(&self) -> Arc<AdminApi> {
        self.admin.clone()
    }

    /// Behaves as `live` says from now on, without dropping a request; certificates of the
    /// listeners and the access log are opened anew.
    ///
    /// # Errors
    /// When something in it cannot be had; nothing has changed then.
    pub fn reload(&self, live: &Live) -> Result<(), BalanceError> {
        let shared = &self.admin.shared;
        let new = current(live)?;
        let rule = rule(&live.policy)?;
        let mut certificates = Vec::new();
        for (listen, _) in &self.configured {
            certificates.push(server_tls(listen)?);
        }
        shared.log.open(live.access_log.as_ref()).map_err(BalanceError::AccessLog)?;
        for ((_, place), tls) in self.configured.iter().zip(certificates) {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = tls;
        }
        let old = shared.current();
        let renew = if old.live.upstream == live.upstream { Renew::Changed } else { Renew::All };
        shared.dispatch(|dispatcher, now| {
            dispatcher.set_settings(now, live.settings.clone());
            if old.live.policy != live.policy {
                dispatcher.set_rule(now, rule, self.admin.next_seed());
            }
        });
        shared.set_current(new);
        shared.configure(live, renew);
        Ok(())
    }

    /// Stops: accepts nothing new, lets what is under way finish within the drain time, and then
    /// cuts it off. `true` when nothing had to be cut.
    pub fn stop(mut self) -> bool {
        let drain = self.admin.shared.current().live.timeouts.drain;
        self.listeners.clear();
        self.stop.order();
        let deadline = Instant::now() + drain;
        // A loop that still accepts may have let a client in that is not counted yet.
        let is_empty = || {
            self.accepting.load(Ordering::Acquire) == 0
                && self.admin.shared.counts.connections.load(Ordering::Relaxed) == 0
        };
        while !is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        let is_clean = is_empty();
        self.end();
        is_clean
    }

    fn end(&mut self) {
        self.stop.order();
        self.cut.order();
        for thread in self.threads.drain(..).chain(self.beside.drain(..)) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

impl Listener {
    fn try_clone(&self) -> io::Result<Listener> {
        let listener = self.listener.try_clone()?;
        Ok(Listener { listener, mode: self.mode, tls: self.tls.clone() })
    }

    fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, BalanceError> {
    let thread = std::thread::Builder::new().name(name.to_string());
    thread.spawn(run).map_err(BalanceError::Thread)
}

fn rule(policy: &str) -> Result<Box<dyn thermocline_policy::balance::Rule>, BalanceError> {
    let spec =
        PolicySpec::parse(policy).map_err(|error| BalanceError::Policy(error.to_string()))?;
    spec.build_rule().map_err(|error| BalanceError::Policy(error.to_string()))
}

fn current(live: &Live) -> Result<Current, TlsError> {
    let tls = live.upstream.tls.as_ref();
    let tls = tls.map(|tls| trust::client(tls, live.upstream.http2)).transpose()?;
    Ok(Current { live: live.clone(), connector: Connector::new(live, tls) })
}

/// The certificates of a listener; HTTP offers both versions.
fn server_tls(listen: &Listen) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let Some(files) = &listen.tls else { return Ok(None) };
    let mut config = ServerConfig::clone(&*tls(files)?);
    if listen.mode == Mode::Http {
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    }
    Ok(Some(Arc::new(config)))
}

/// The socket among these that listens where a configuration says.
fn take(inherited: &mut Vec<TcpListener>, address: SocketAddr) -> Option<TcpListener> {
    let is_it = |socket: &TcpListener| {
        socket.local_addr().is_ok_and(|known| {
            known == address || (address.port() == 0 && known.ip() == address.ip())
        })
    };
    let at = inherited.iter().position(is_it)?;
    Some(inherited.remove(at))
}

fn open(listen: &Listen, inherited: &mut Vec<TcpListener>) -> Result<Listener, BalanceError> {
    let tls = server_tls(listen)?;
    let failed = |source| BalanceError::Listen { address: listen.address, source };
    let listener = match take(inherited, listen.address) {
        Some(listener) => listener,
        None => TcpListener::bind(listen.address).map_err(failed)?,
    };
    // More than the library's own choice: many connect at once.
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(Listener { listener, mode: listen.mode, tls: Arc::new(Mutex::new(tls)) })
}

fn run_thread(
    thread: Arc<Thread>,
    listeners: Vec<(Listener, Accepting)>,
    places: Arc<Semaphore>,
    stop: Arc<Stop>,
    cut: &Stop,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // Nothing is served by this thread then; the start has said what the system lacks.
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        for (listening, mark) in listeners {
            let (thread, places, stop) = (thread.clone(), places.clone(), stop.clone());
            tokio::spawn(async move {
                accept_all(thread, listening, places, stop).await;
                drop(mark);
            });
        }
        cut.stopped().await;
        thread.pool.clear();
    });
}

/// Lets clients in until told to stop.
async fn accept_all(
    thread: Arc<Thread>,
    listening: Listener,
    places: Arc<Semaphore>,
    stop: Arc<Stop>,
) {
    let Ok(copy) = listening.listener.try_clone() else { return };
    let Ok(listener) = tokio::net::TcpListener::from_std(copy) else { return };
    let mut stopped = stop.stopped();
    loop {
        let accepted = async {
            let place = places.clone().acquire_owned().await.expect("it is never closed");
            (listener.accept().await, place)
        };
        let mut accepted = std::pin::pin!(accepted);
        let next = std::future::poll_fn(|cx| {
            if Pin::new(&mut stopped).poll(cx).is_ready() {
                return Poll::Ready(None);
            }
            accepted.as_mut().poll(cx).map(Some)
        });
        let Some((accepted, place)) = next.await else { return };
        let Ok((stream, peer)) = accepted else {
            // Out of descriptors, or the client has gone already.
            tokio::time::sleep(BREATH).await;
            continue;
        };
        // Answers are whole when they are sent: waiting for more only delays them.
        let _ = stream.set_nodelay(true);
        let (thread, tls, stop) = (thread.clone(), listening.tls(), stop.clone());
        thread.shared.counts.accepted.fetch_add(1, Ordering::Relaxed);
        let most = thread.shared.current().live.limits.client_connections_max;
        let Some(member) = thread.shared.crowd.join(peer.ip(), most) else {
            thread.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let counted = Counted::new(&thread.shared);
        let (mode, admission) = (listening.mode, Arc::new((member, place)));
        tokio::spawn(async move {
            match mode {
                Mode::Http => front::serve_http(thread, stream, peer, tls, stop, admission).await,
                Mode::Tcp => {
                    Box::pin(front::serve_tcp(thread, stream, peer, tls)).await;
                    drop(admission);
                }
            }
            drop(counted);
        });
    }
}

/// Mark of a loop that accepts clients, for as long as it does.
struct Accepting(Arc<AtomicUsize>);

impl Accepting {
    fn new(accepting: &Arc<AtomicUsize>) -> Accepting {
        accepting.fetch_add(1, Ordering::Relaxed);
        Accepting(accepting.clone())
    }
}

impl Drop for Accepting {
    fn drop(&mut self) {
        // Whoever sees that it has ended sees the clients that it has let in.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A connection, while it is there.
pub(super) struct Counted(Arc<Shared>);

impl Counted {
    pub(super) fn new(shared: &Arc<Shared>) -> Counted {
        shared.counts.connections.fetch_add(1, Ordering::Relaxed);
        Counted(shared.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counts.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
