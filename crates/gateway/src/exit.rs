//! The end near the servers: other ends come in, flows go out to what rules allow.

use crate::address::{Host, HostPort, Rule, is_named, is_reached};
use crate::codes;
use crate::config::Severity;
use crate::core::{Core, Place, STOPPING, accept, prepare_link};
use crate::hub::{Cut, Flow, Hub};
use crate::keys::{Fingerprint, Keys, PROTOCOL, explain, met};
use crate::link;
use crate::relay::{self, Broken};
use crate::status::Status;
use crate::strangers::Strangers;
use crate::threads::{LookUps, on_a_thread};
use futures_util::future::{Either, select};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use thermocline_tunnel::{Cache, Target};
use thermocline_wire::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::{TlsAcceptor, TlsStream};

/// Another end, by its key. It has one connection; a newer one takes the older one's place.
struct Peer {
    hub: Arc<Hub>,
    /// Servers that are connected for it.
    clients: AtomicUsize,
    look_ups: LookUps,
    /// Address from which it connected last.
    from: Mutex<Option<SocketAddr>>,
    /// Connections that it made.
    arrivals: AtomicU64,
    /// Held while a connection is there; `None` before the first one.
    cache: tokio::sync::Mutex<Option<Cache>>,
}

/// A server's place among those of its peer.
struct PeerPlace {
    peer: Arc<Peer>,
    _place: Place,
}

impl Drop for PeerPlace {
    fn drop(&mut self) {
        self.peer.clients.fetch_sub(1, Relaxed);
    }
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
            let Some(place) = self.strangers.let_wait(from.ip(), Instant::now()) else {
                let text = "refused: as many as may be, or as many of this address, have not shown their key yet";
                self.core.tell_refused(from, text.to_string());
                continue;
            };
            let exit = self.clone();
            tokio::spawn(async move {
                let within = exit.core.limits.handshake_within;
                let let_in = {
                    let let_in = pin!(timeout(within, exit.let_in(stream)));
                    match select(let_in, pin!(place.must_go())).await {
                        Either::Left((let_in, _)) => let_in,
                        Either::Right(_) => Ok(Err("others wait for its place".to_string())),
                    }
                };
                if let Ok(Ok(_)) = &let_in {
                    place.is_known();
                }
                drop(place);
                match let_in {
                    Ok(Ok((stream, key, peer))) => exit.carry(stream, from, key, peer).await,
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
        self.core.tell_refused(from, format!("refused: {why}"));
    }

    /// Finds out who comes.
    async fn let_in(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Fingerprint, Arc<Peer>), String> {
        let keys = Keys::read(&self.core.keys).map_err(|error| error.to_string())?;
        let known = keys.peers();
        let config = keys.server(PROTOCOL).map_err(|error| error.to_string())?;
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
        let cache = tokio::sync::Mutex::new(None);
        let (clients, from) = (AtomicUsize::new(0), Mutex::new(None));
        let hub = Hub::new(self.core.began, self.core.accelerator.clone());
        let arrivals = AtomicU64::new(0);
        let look_ups = LookUps::new();
        let peer = Arc::new(Peer { hub, clients, look_ups, from, arrivals, cache });
        peers.insert(key.clone(), peer.clone());
        Ok(peer)
    }

    async fn carry(
        self: Arc<Exit>,
        mut stream: TlsStream<TcpStream>,
        from: SocketAddr,
        key: Fingerprint,
        peer: Arc<Peer>,
    ) {
        let arrival = peer.arrivals.fetch_add(1, Relaxed) + 1;
        self.take_place(&peer, from, &key);
        let mut place = peer.cache.lock().await;
        // The place may have become free long after: whoever came last has it.
        if peer.arrivals.load(Relaxed) != arrival {
            return self.refuse(from, "this key made a newer connection while it waited");
        }
        if self.core.is_stopping() {
            return self.refuse(from, STOPPING);
        }
        let cache = match place.take() {
            Some(cache) => cache,
            None => match self.first_cache(&key, &peer.hub).await {
                Ok(cache) => cache,
                Err(error) => return self.refuse(from, &error.to_string()),
            },
        };
        let end = self.core.end(Role::Acceptor, cache, peer.hub.now());
        let end = end.expect("these settings were tried at the start");
        let number = self.core.begin(&peer.hub, end, format!("{from} {key}"), key.clone());
        self.core.link_is_up();
        self.core.tell(Severity::Info, "link", format!("{from}: up, {key}"));
        let carried = link::carry(&peer.hub, number, &mut stream, || {
            for (flow, target) in peer.hub.take_opened(number) {
                tokio::spawn(self.clone().serve_flow(peer.clone(), flow, target));
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

    /// The cache for the first connection of a key; the runtime does not wait for the device.
    async fn first_cache(&self, key: &Fingerprint, hub: &Arc<Hub>) -> io::Result<Cache> {
        let (core, of_hub, of) = (self.core.clone(), hub.clone(), key.clone());
        let read = move || Ok::<_, io::Error>(core.with_disk(core.cache(Some(&of))?, &of_hub));
        let cache = on_a_thread(read).await??;
        self.core.cache_in_use(Some(key), cache, hub)
    }

    /// Saves the caches of all keys. No connection is carried any more.
    pub(crate) fn save(&self) {
        for (key, peer) in self.peers().iter() {
            let at_rest = peer.cache.try_lock().ok().and_then(|mut place| place.take());
            if let Some(cache) = at_rest.or_else(|| peer.hub.take_cache()) {
                self.core.save(Some(key), &cache);
            }
        }
    }

    /// Ends the connection that this key has, if any, and tells both ends when they stand at two
    /// places.
    fn take_place(&self, peer: &Peer, from: SocketAddr, key: &Fingerprint) {
        let earlier = peer.from.lock().unwrap_or_else(PoisonError::into_inner).replace(from);
        let advice = "give each site a key of its own";
        let Some(earlier) = earlier.filter(|_| !peer.hub.is_down()) else { return };
        if earlier.ip() == from.ip() {
            peer.hub.abandon(&format!(
                "this key made a newer connection; if that was another process: {advice}"
            ));
            return;
        }
        peer.hub.abandon(&format!("this key made a newer connection from {from}; {advice}"));
        let text = format!("key {key} came from {earlier} and now from {from}; {advice}");
        self.core.note_error(&text);
        self.core.tell(Severity::Warning, "link", text);
    }

    /// A server's place. Each key has its share of them; beyond that it gets those that are not
    /// kept for others.
    fn place(&self, peer: &Arc<Peer>) -> Option<PeerPlace> {
        let peers = self.peers();
        let share = self.core.limits.clients_max / peers.len().max(1);
        let of = |peer: &Peer| peer.clients.load(Relaxed);
        let others = peers.values().filter(|other| !Arc::ptr_eq(other, peer));
        let kept: usize = others.map(|other| share.saturating_sub(of(other))).sum();
        let all = self.core.clients.load(Relaxed);
        if of(peer) >= share && all + kept >= self.core.limits.clients_max {
            return None;
        }
        let place = self.core.place()?;
        peer.clients.fetch_add(1, Relaxed);
        Some(PeerPlace { peer: peer.clone(), _place: place })
    }

    async fn serve_flow(self: Arc<Exit>, peer: Arc<Peer>, flow: Flow, target: Target) {
        let subject = target.address.escape_debug().to_string();
        self.core.flows.fetch_add(1, Relaxed);
        let Some(_place) = self.place(&peer) else {
            self.refuse_flow(flow, &subject, codes::GIVEN_UP, "as many servers as may be");
            return;
        };
        let within = self.core.limits.connect_within;
        let connected = {
            let connect = pin!(timeout(within, self.connect(&target.address, &peer.look_ups)));
            match select(connect, pin!(flow.gone())).await {
                Either::Left((connected, _)) => connected,
                // The client has gone, and nobody waits for the server any more.
                Either::Right(_) => return,
            }
        };
        let connected = connected.unwrap_or_else(|_| {
            let text = format!("nobody answered within {} s", within.as_secs_f64());
            Err((codes::TIMED_OUT, text))
        });
        let stream = match connected {
            Ok(stream) => stream,
            Err((code, why)) => return self.refuse_flow(flow, &subject, code, &why),
        };
        let done = match relay::say_word(&flow).await {
            Ok(()) => relay::relay(stream, flow, &self.core, false).await,
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
    async fn connect(&self, address: &str, look_ups: &LookUps) -> Result<TcpStream, (u32, String)> {
        let target: HostPort = address
            .parse()
            .map_err(|error: crate::AddressError| (codes::NO_SUCH_HOST, error.to_string()))?;
        let found: Vec<SocketAddr> = match &target.host {
            Host::Ip(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => {
                let of = (name.clone(), target.port);
                let look_up = move || -> io::Result<Vec<SocketAddr>> {
                    Ok((of.0.as_str(), of.1).to_socket_addrs()?.collect())
                };
                let found = look_ups.run(look_up).await.and_then(|found| found);
                found.map_err(|error| (codes::NO_SUCH_HOST, error.to_string()))?
            }
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
