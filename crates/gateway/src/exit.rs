//! The end near the servers: other ends come in, flows go out to what rules allow.

use crate::address::{Host, HostPort, Rule, is_named, is_reached};
use crate::codes;
use crate::config::Severity;
use crate::core::{Core, accept, prepare_link};
use crate::hub::{Cut, Flow, Hub};
use crate::keys::{Fingerprint, Keys, explain, met};
use crate::link;
use crate::relay::{self, Broken};
use crate::status::Status;
use crate::strangers::Strangers;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thermocline_tunnel::{Cache, Target};
use thermocline_wire::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsStream};

/// Another end, by its key. It has one connection; a newer one takes the older one's place.
struct Peer {
    hub: Arc<Hub>,
    /// Held while a connection is there.
    cache: tokio::sync::Mutex<Option<Cache>>,
}

/// An exit.
pub(crate) struct Exit {
    pub(crate) core: Arc<Core>,
    allow: Vec<Rule>,
    strangers: Arc<Strangers>,
    peers: Mutex<BTreeMap<Fingerprint, Arc<Peer>>>,
}

impl Exit {
    pub(crate) fn new(core: Arc<Core>, allow: Vec<Rule>) -> Arc<Exit> {
        let strangers = Strangers::new(core.limits.strangers_max);
        Arc::new(Exit { core, allow, strangers, peers: Mutex::default() })
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<Fingerprint, Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> Status {
        let mut status = self.core.status("exit", None);
        status.links.extend(self.peers().values().filter_map(|peer| peer.hub.status()));
        status
    }

    /// Lets no new flows begin.
    pub(crate) fn close(&self, why: &str) {
        self.peers().values().for_each(|peer| peer.hub.close(why));
    }

    /// True when no other end is connected.
    pub(crate) fn is_down(&self) -> bool {
        self.peers().values().all(|peer| peer.hub.is_down())
    }

    /// Lets other ends in, for ever.
    pub(crate) async fn serve(self: Arc<Exit>, listener: TcpListener) {
        loop {
            let (stream, from) = accept(&listener).await;
            let Some(place) = self.strangers.let_wait(from.ip()) else {
                let text = "refused: as many as may be, or as many of this address, have not shown their key yet";
                self.core.tell(Severity::Warning, from, text.to_string());
                continue;
            };
            let exit = self.clone();
            tokio::spawn(async move {
                let within = exit.core.limits.handshake_within;
                let let_in = timeout(within, exit.let_in(stream)).await;
                drop(place);
                match let_in {
                    Ok(Ok((stream, key, peer))) => exit.carry(stream, from, &key, &peer).await,
                    Ok(Err(why)) => exit.refuse(from, &why),
                    Err(_) => {
                        let seconds = within.as_secs_f64();
                        exit.refuse(from, &format!("the handshake took longer than {seconds} s"));
                    }
                }
            });
        }
    }

    fn refuse(&self, from: SocketAddr, why: &str) {
        self.core.note_error(&format!("{from} was refused: {why}"));
        self.core.tell(Severity::Warning, from, format!("refused: {why}"));
    }

    /// Finds out who comes.
    async fn let_in(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Fingerprint, Arc<Peer>), String> {
        let keys = Keys::read(&self.core.keys).map_err(|error| error.to_string())?;
        let known = keys.peers();
        let config = keys.server().map_err(|error| error.to_string())?;
        prepare_link(&stream).map_err(|error| error.to_string())?;
        let accepted = TlsAcceptor::from(config).accept(stream).into_fallible().await;
        let stream = match accepted {
            Ok(stream) => stream,
            Err((error, mut stream)) => {
                // It is to read why, which unread bytes would take back. Time is bounded above.
                let _ = stream.shutdown().await;
                let mut rest = [0; 1024];
                while stream.read(&mut rest).await.is_ok_and(|length| length > 0) {}
                return Err(explain(&error));
            }
        };
        let key = met(stream.get_ref().1.peer_certificates());
        let key = key.ok_or_else(|| "it showed no key".to_string())?;
        let peer = self.peer(&key, &known).map_err(|error| error.to_string())?;
        Ok((TlsStream::Server(stream), key, peer))
    }

    /// The place of a key. Those of keys that are no longer known go.
    fn peer(&self, key: &Fingerprint, known: &[Fingerprint]) -> io::Result<Arc<Peer>> {
        let mut peers = self.peers();
        peers.retain(|key, peer| known.contains(key) || !peer.hub.is_down());
        if let Some(peer) = peers.get(key) {
            return Ok(peer.clone());
        }
        let cache = tokio::sync::Mutex::new(Some(self.core.cache()?));
        let peer = Arc::new(Peer { hub: Hub::new(self.core.began), cache });
        peers.insert(key.clone(), peer.clone());
        Ok(peer)
    }

    async fn carry(
        self: Arc<Exit>,
        mut stream: TlsStream<TcpStream>,
        from: SocketAddr,
        key: &Fingerprint,
        peer: &Peer,
    ) {
        peer.hub.abandon("the same end made a newer connection");
        let mut place = peer.cache.lock().await;
        let cache = place.take().expect("whoever held the place put the cache back");
        let end = self.core.end(Role::Acceptor, cache, peer.hub.now());
        let end = end.expect("these settings were tried at the start");
        let number = peer.hub.install(end, format!("{from} {key}"));
        self.core.link_is_up();
        self.core.tell(Severity::Info, "link", format!("{from}: up, {key}"));
        let carried = link::carry(&peer.hub, number, &mut stream, || {
            for (flow, target) in peer.hub.take_opened(number) {
                tokio::spawn(self.clone().serve_flow(flow, target));
            }
        });
        let carried = carried.await;
        *place = peer.hub.remove(number);
        drop(place);
        let why = match &carried {
            Ok(()) => "both ends have stopped",
            Err(why) => why,
        };
        self.core.note_error(why);
        if self.is_down() {
            self.core.link_is_down(None);
        }
        self.core.tell(Severity::Warning, "link", format!("{from}: down: {why}"));
    }

    async fn serve_flow(self: Arc<Exit>, flow: Flow, target: Target) {
        let subject = target.address.escape_debug().to_string();
        self.core.flows.fetch_add(1, Relaxed);
        let Some(_place) = self.core.place() else {
            self.refuse_flow(flow, &subject, codes::GIVEN_UP, "as many servers as may be");
            return;
        };
        let within = self.core.limits.connect_within;
        let connected = timeout(within, self.connect(&target.address)).await;
        let connected = connected.unwrap_or_else(|_| {
            let text = format!("nobody answered within {} s", within.as_secs_f64());
            Err((codes::TIMED_OUT, text))
        });
        let stream = match connected {
            Ok(stream) => stream,
            Err((code, why)) => return self.refuse_flow(flow, &subject, code, &why),
        };
        let done = match relay::say_word(&flow).await {
            Ok(()) => relay::relay(stream, flow, self.core.linger, false).await,
            Err(cut) => Err(Broken::Flow(cut)),
        };
        let why = match done {
            Ok(()) => return,
            Err(Broken::Flow(Cut::Link)) => "the link broke".to_string(),
            Err(Broken::Flow(Cut::Reset(code))) => codes::text(code),
            Err(Broken::Socket(error)) => format!("the server: {error}"),
        };
        self.core.cut.fetch_add(1, Relaxed);
        self.core.tell(Severity::Info, &subject, format!("cut: {why}"));
    }

    fn refuse_flow(&self, flow: Flow, subject: &str, code: u32, why: &str) {
        flow.reset(code);
        self.core.refused.fetch_add(1, Relaxed);
        self.core.tell(Severity::Warning, subject, format!("refused: {why}"));
    }

    /// Connects to a target, if that is allowed.
    async fn connect(&self, address: &str) -> Result<TcpStream, (u32, String)> {
        let target: HostPort = address
            .parse()
            .map_err(|error: crate::AddressError| (codes::NO_SUCH_HOST, error.to_string()))?;
        let found: Vec<SocketAddr> = match &target.host {
            Host::Ip(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => tokio::net::lookup_host((name.as_str(), target.port))
                .await
                .map_err(|error| (codes::NO_SUCH_HOST, error.to_string()))?
                .collect(),
        };
        let is_allowed = |found: &&SocketAddr| {
            is_named(&self.allow, &target) || is_reached(&self.allow, found.ip(), found.port())
        };
        let allowed: Vec<SocketAddr> = found.iter().filter(is_allowed).copied().collect();
        if allowed.is_empty() {
            let text = match self.allow.is_empty() {
                true => format!("no target is allowed; pass --allow {target} to allow this one"),
                false => format!("no rule allows it; pass --allow {target} too if it should be"),
            };
            return Err((codes::NOT_ALLOWED, text));
        }
        let connected = TcpStream::connect(allowed.as_slice()).await;
        let stream =
            connected.map_err(|error| (codes::of_connect(error.kind()), error.to_string()));
        let stream = stream?;
        let prepared = relay::prepare(&stream);
        prepared.map_err(|error| (codes::FAILED, error.to_string()))?;
        Ok(stream)
    }
}
