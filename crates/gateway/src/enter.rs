//! The end near the clients: listeners for them, and the connection to the exit.

use crate::address::{Host, HostPort, is_listener};
use crate::codes;
use crate::config::{Severity, WhenDown};
use crate::core::{Core, Place, accept, prepare_link};
use crate::hub::{Cut, Flow, Hub, NoFlow};
use crate::keys::{Fingerprint, Keys, PROTOCOL, SERVER_NAME, explain, met};
use crate::link;
use crate::relay::{self, Broken};
use crate::socks5::{Handshake, REQUEST_BYTES_MAX, Refusal, Reply, Step};
use crate::status::Status;
use crate::threads::on_a_thread;
use futures_util::future::{Either, select};
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use thermocline_tunnel::{Cache, Sharing, Target};
use thermocline_wire::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsConnector, TlsStream};

/// Shortest time between tries to reach the exit.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// A connection that lived so long was a good one: the next try is early.
const GOOD_AFTER: Duration = Duration::from_secs(10);
/// Time for the exit's word to come, beside the time that it has to reach the server.
const WORD_WITHIN: Duration = Duration::from_secs(10);

/// An enter.
pub(crate) struct Enter {
    pub(crate) core: Arc<Core>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) to: HostPort,
    pub(crate) when_down: WhenDown,
    pub(crate) sharing: Sharing,
    /// `None` before the first connection is tried, and while one is there, which has it then.
    pub(crate) cache: Mutex<Option<Cache>>,
}

/// The destination of a listener's clients.
#[derive(Clone)]
pub(crate) enum ListenerKind {
    Forward(HostPort),
    Socks5,
    /// Wherever the client wanted to go when the system brought it here; the listener's own
    /// address.
    Transparent(SocketAddr),
}

impl Enter {
    pub(crate) fn status(&self) -> Status {
        let mut status = self.core.status("enter", Some(self.when_down));
        status.links.extend(self.hub.status());
        status
    }

    fn lock_cache(&self) -> MutexGuard<'_, Option<Cache>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the cache of the run before, or begins with an empty one; the runtime does not wait
    /// for the device.
    async fn first_cache(&self) -> io::Result<()> {
        let (core, hub) = (self.core.clone(), self.hub.clone());
        let read = move || Ok::<_, io::Error>(core.with_disk(core.cache(None)?, &hub));
        let cache = on_a_thread(read).await??;
        let cache = self.core.cache_in_use(None, cache, &self.hub)?;
        *self.lock_cache() = Some(cache);
        Ok(())
    }

    /// A connection, when there is a cache for it.
    async fn prepare(&self) -> Result<(TlsStream<TcpStream>, String, Fingerprint), String> {
        let is_first = self.lock_cache().is_none();
        if is_first {
            self.first_cache().await.map_err(|error| error.to_string())?;
        }
        self.connect().await
    }

    /// Saves the cache. No connection is carried any more.
    pub(crate) fn save(&self) {
        let cache = self.lock_cache().take().or_else(|| self.hub.take_cache());
        if let Some(cache) = cache {
            self.core.save(None, &cache);
        }
    }

    /// Serves a listener's clients.
    pub(crate) async fn serve(self: Arc<Enter>, listener: TcpListener, kind: ListenerKind) {
        loop {
            let (stream, client) = accept(&listener).await;
            if relay::prepare(&stream).is_err() {
                continue; // it has gone already
            }
            let Some(place) = self.core.place() else {
                self.refuse(stream, client, "as many clients as may be are connected");
                continue;
            };
            let (enter, kind) = (self.clone(), kind.clone());
            tokio::spawn(async move {
                match kind {
                    ListenerKind::Forward(target) => enter.forward(stream, client, target).await,
                    ListenerKind::Socks5 => enter.socks5(stream, client).await,
                    ListenerKind::Transparent(own) => enter.transparent(stream, client, own).await,
                }
                drop::<Place>(place);
            });
        }
    }

    fn refuse(&self, stream: TcpStream, client: SocketAddr, why: &str) {
        self.core.refused.fetch_add(1, Relaxed);
        self.core.tell(Severity::Warning, client, format!("refused: {why}"));
        drop(stream); // which resets it
    }

    fn open(&self, target: &HostPort) -> Result<Flow, NoFlow> {
        let (address, class) = (target.to_string(), target.port);
        let flow = self.hub.open(&Target { address, class, sharing: self.sharing })?;
        self.core.flows.fetch_add(1, Relaxed);
        Ok(flow)
    }

    /// Relays a client whose flow has begun, and notes how that went.
    async fn relay(&self, stream: TcpStream, client: SocketAddr, flow: Flow, awaits_word: bool) {
        let relayed = relay::relay(stream, flow, &self.core, awaits_word).await;
        if let Err(Broken::Flow(cut)) = relayed {
            self.core.cut.fetch_add(1, Relaxed);
            let why = match cut {
                Cut::Link => "the link broke".to_string(),
                Cut::Reset(code) => codes::text(code),
            };
            self.core.tell(Severity::Warning, client, format!("cut: {why}"));
        }
    }

    async fn forward(&self, stream: TcpStream, client: SocketAddr, target: HostPort) {
        match self.open(&target) {
            Ok(flow) => self.relay(stream, client, flow, true).await,
            Err(NoFlow::Down) if self.when_down == WhenDown::Pass => {
                match self.connect_past(client, &target).await {
                    Ok(server) => drop(relay::pass(stream, server).await),
                    Err(error) => self.refuse(stream, client, &error.to_string()),
                }
            }
            Err(why) => self.refuse(stream, client, &why.to_string()),
        }
    }

    /// Serves a client that knows nothing of the tunnel: its server's address is the socket's own.
    async fn transparent(&self, stream: TcpStream, client: SocketAddr, own: SocketAddr) {
        let Ok(to) = stream.local_addr() else { return };
        if is_listener(to, own) {
            let text = "it came to the listener's own address, or to its port when it listens on \
                        all addresses; have a TPROXY rule bring clients here";
            return self.refuse(stream, client, text);
        }
        self.forward(stream, client, HostPort { host: Host::from(to.ip()), port: to.port() }).await;
    }

    /// Connects to a server without the tunnel.
    async fn connect_past(&self, client: SocketAddr, target: &HostPort) -> io::Result<TcpStream> {
        let text = format!("the link is down: connected to {target} past the tunnel");
        self.core.tell(Severity::Warning, client, text);
        self.core.passed.fetch_add(1, Relaxed);
        let server = timeout(self.core.limits.connect_within, connect(target)).await??;
        relay::prepare(&server)?;
        Ok(server)
    }

    async fn socks5(&self, mut stream: TcpStream, client: SocketAddr) {
        let within = self.core.limits.socks5_within;
        let (target, rest) = match timeout(within, greet(&mut stream)).await {
            Ok(Ok(Some(asked))) => asked,
            Ok(Ok(None)) => return,
            Ok(Err(refusal)) => {
                self.core.refused.fetch_add(1, Relaxed);
                self.core.tell(Severity::Warning, client, format!("refused: {refusal}"));
                return answer(stream, &refusal.message(), within).await;
            }
            Err(_) => {
                let text = format!("SOCKS5 took longer than {} s", within.as_secs_f64());
                return self.refuse(stream, client, &text);
            }
        };
        match self.open(&target) {
            Ok(flow) => self.socks5_flow(stream, client, flow, &target, &rest).await,
            Err(NoFlow::Down) if self.when_down == WhenDown::Pass => {
                match self.connect_past(client, &target).await {
                    Ok(server) => drop(pass(stream, server, &rest).await),
                    Err(error) => {
                        let reply = codes::reply(codes::of_connect(error.kind()));
                        self.deny(stream, client, reply, &format!("{target}: {error}")).await;
                    }
                }
            }
            Err(why) => {
                self.deny(stream, client, Reply::NetworkUnreachable, &why.to_string()).await;
            }
        }
    }

    /// Waits for the exit's word, tells the client, and relays.
    async fn socks5_flow(
        &self,
        mut stream: TcpStream,
        client: SocketAddr,
        flow: Flow,
        target: &HostPort,
        rest: &[u8],
    ) {
        let within = self.core.limits.connect_within + WORD_WITHIN;
        let word = {
            let word = pin!(timeout(within, relay::word(&flow)));
            match select(word, pin!(has_gone(&stream, rest))).await {
                Either::Left((word, _)) => word,
                Either::Right(_) => return, // which gives the flow up
            }
        };
        let (reply, why) = match word {
            Ok(Ok(())) => {
                let said = stream.write_all(&Reply::Connected.message()).await;
                if said.is_ok() && flow.give(rest).await.is_ok() {
                    self.relay(stream, client, flow, false).await;
                }
                return;
            }
            Ok(Err(Cut::Reset(code))) => (codes::reply(code), codes::text(code)),
            Ok(Err(Cut::Link)) => (Reply::NetworkUnreachable, "the link broke".to_string()),
            Err(_) => (Reply::TimedOut, "the exit did not say how it went".to_string()),
        };
        flow.reset(codes::GIVEN_UP);
        self.deny(stream, client, reply, &format!("{target}: {why}")).await;
    }

    async fn deny(&self, stream: TcpStream, client: SocketAddr, reply: Reply, why: &str) {
        self.core.refused.fetch_add(1, Relaxed);
        self.core.tell(Severity::Warning, client, format!("refused: {why}"));
        answer(stream, &reply.message(), self.core.limits.socks5_within).await;
    }

    /// Keeps a connection to the exit until the enter stops.
    pub(crate) async fn keep_link(self: Arc<Enter>) {
        let mut back_off = BACK_OFF_MIN;
        let mut told = String::new();
        while !self.core.is_stopping() {
            let began = Instant::now();
            let why = match self.prepare().await {
                Ok((stream, peer, key)) => {
                    let (was_up, why) = self.carry(stream, peer, key).await;
                    if was_up {
                        told.clear();
                    }
                    why
                }
                Err(why) => why,
            };
            if began.elapsed() >= GOOD_AFTER {
                back_off = BACK_OFF_MIN;
            }
            self.core.link_is_down(Some(&why));
            if why != told {
                let meanwhile = match self.when_down {
                    WhenDown::Refuse => "clients are refused",
                    WhenDown::Pass => "clients are connected past it",
                };
                let text = format!("{}: down: {why}; {meanwhile}", self.to);
                self.core.tell(Severity::Warning, "link", text);
                told = why;
            }
            // Half of it to all of it, so that many ends do not come back at the same time.
            tokio::time::sleep(back_off.mul_f64(0.5 + self.core.draw() / 2.0)).await;
            back_off = (back_off * 2).min(self.core.limits.back_off_max);
        }
    }

    async fn connect(&self) -> Result<(TlsStream<TcpStream>, String, Fingerprint), String> {
        let keys = Keys::read(&self.core.keys).map_err(|error| error.to_string())?;
        let config = keys.client(PROTOCOL).map_err(|error| error.to_string())?;
        let within = self.core.limits.handshake_within;
        let late = |what: &str| format!("{what} took longer than {} s", within.as_secs_f64());
        let tcp = timeout(within, connect(&self.to)).await;
        let tcp = tcp.map_err(|_| late("connecting"))?.map_err(|error| error.to_string())?;
        prepare_link(&tcp).map_err(|error| error.to_string())?;
        let peer = tcp.peer_addr().map_or_else(|_| self.to.to_string(), |addr| addr.to_string());
        let name = ServerName::try_from(SERVER_NAME).expect("it is a name");
        let stream = TlsConnector::from(config).connect(name, tcp);
        let stream = timeout(within, stream).await.map_err(|_| late("the handshake"))?;
        let stream =
            stream.map_err(|error| format!("the exit is not let in: {}", explain(&error)))?;
        let key = met(stream.get_ref().1.peer_certificates());
        let key = key.ok_or("the exit showed no key")?;
        Ok((TlsStream::Client(stream), format!("{peer} {key}"), key))
    }

    /// Carries bytes until the connection ends; whether it was ever up, why it ended.
    async fn carry(
        &self,
        mut stream: TlsStream<TcpStream>,
        peer: String,
        key: Fingerprint,
    ) -> (bool, String) {
        let cache = self.lock_cache().take().expect("there is one connection at a time");
        let end = self.core.end(Role::Connector, cache, self.hub.now());
        let end = end.expect("these settings were tried at the start");
        let number = self.core.begin(&self.hub, end, peer.clone(), key);
        let mut was_up = false;
        let carried = link::carry(&self.hub, number, &mut stream, || {
            if !was_up && self.hub.is_ready() {
                was_up = true;
                self.core.link_is_up();
                self.core.tell(Severity::Info, "link", format!("{}: up, {peer}", self.to));
            }
            // An exit has no flows to open.
            drop(self.hub.take_opened(number));
        });
        let why = match carried.await {
            Ok(()) => match self.hub.closing(number).filter(|_| !self.core.is_stopping()) {
                Some(reason) => link::closed(&reason),
                None => "both ends have stopped".to_string(),
            },
            Err(why) => why,
        };
        *self.lock_cache() = Some(self.hub.remove(number).expect("it was installed above"));
        (was_up, why)
    }
}

/// Connects to a host and port; names are resolved.
pub(crate) async fn connect(target: &HostPort) -> io::Result<TcpStream> {
    match &target.host {
        Host::Ip(address) => TcpStream::connect((*address, target.port)).await,
        Host::Name(name) => TcpStream::connect((name.as_str(), target.port)).await,
    }
}

/// Waits until a client that has nothing to say before the answer has gone.
async fn has_gone(stream: &TcpStream, rest: &[u8]) {
    if !rest.is_empty() || stream.peek(&mut [0]).await.is_ok_and(|length| length > 0) {
        // It spoke before it was answered. That it goes is then seen when it is.
        std::future::pending::<()>().await;
    }
}

/// A client's words of SOCKS; where it wants to go and what it said already. `None`: it has gone.
async fn greet(stream: &mut TcpStream) -> Result<Option<(HostPort, Vec<u8>)>, Refusal> {
    let mut handshake = Handshake::default();
    let mut buffer = [0; REQUEST_BYTES_MAX];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return Ok(None),
            Ok(length) => handshake.receive(&buffer[..length]),
        }
        while let Some(step) = handshake.step()? {
            match step {
                Step::Say(words) => {
                    if stream.write_all(&words).await.is_err() {
                        return Ok(None);
                    }
                }
                Step::Connect(target) => return Ok(Some((target, handshake.rest()))),
            }
        }
    }
}

/// Says last words to a client, and waits a little for it to go: what it sent and nobody reads
/// would take them back.
async fn answer(mut stream: TcpStream, words: &[u8], within: Duration) {
    relay::settle(&stream);
    let work = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // It has gone, or does not go: either way nothing more is owed to it.
    let _ = timeout(within, work).await;
}

async fn pass(mut client: TcpStream, mut server: TcpStream, rest: &[u8]) -> io::Result<()> {
    client.write_all(&Reply::Connected.message()).await?;
    server.write_all(rest).await?;
    relay::pass(client, server).await
}
