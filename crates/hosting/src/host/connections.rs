//! Connections of an agent: NBD clients and other hosts come in, it goes to the server and to
//! hosts with higher numbers, and goes again when a connection ends.

use super::{Core, Listeners};
use crate::Clock;
use crate::clients::{self, Socket};
use crate::config::{Peer, STORE};
use crate::line::{Line, carry, carry_joining};
use crate::meeting::{self, Both, Met};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thermocline_admin::api::Severity;
use thermocline_admin::secret::random_bytes;
use thermocline_hostcache::{HostId, Link, Protocol, ToAgent, ToPeer};
use thermocline_wire::{Config, Role};
use tokio::net::{TcpListener, UnixListener};
use tokio::time::sleep;

/// Shortest time between tries to reach another machine.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Starts everybody who lets others in, or goes to them.
pub(super) fn open(
    core: &Rc<RefCell<Core>>,
    listeners: &Listeners,
) -> std::io::Result<Vec<tokio::task::JoinHandle<()>>> {
    let mut tasks = Vec::new();
    let unix = UnixListener::from_std(listeners.unix.try_clone()?)?;
    let of = core.clone();
    tasks.push(tokio::task::spawn_local(async move {
        loop {
            match unix.accept().await {
                Ok((stream, _)) => let_in(&of, Socket::Unix(stream)),
                Err(_) => sleep(BACK_OFF).await,
            }
        }
    }));
    if let Some(tcp) = &listeners.tcp {
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
    if let Some(listener) = &listeners.peers {
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
    // The connection to the server stays until volumes were given back.
    drop(tokio::task::spawn_local(keep_store(core.clone())));
    Ok(tasks)
}

fn let_in(core: &Rc<RefCell<Core>>, socket: Socket) {
    drop(tokio::task::spawn_local(clients::serve(core.clone(), socket)));
}

/// Keeps a connection with the server.
async fn keep_store(core: Rc<RefCell<Core>>) {
    let mut back_off = BACK_OFF;
    loop {
        let config = core.borrow().config.clone();
        let store = (STORE, config.store);
        let connected = meeting::connect(store, config.keys.as_ref(), config.limits).await;
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
        // There may be room again.
        core.borrow_mut().turn();
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
    protocol: Protocol,
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
        let to = (peer.host, peer.address);
        let connected = meeting::connect(to, config.keys.as_ref(), config.limits).await;
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
    let join_within = config.limits.handshake_within;
    let why = carry_joining(stream, &line, (clock, join_within), heard).await;
    match joined {
        Some((host, number)) => {
            core.borrow_mut().peer_lost(host, number, line.traffic());
            notes.note(Severity::Info, format!("host {}", host.0), format!("has gone: {why}"));
        }
        None => notes.note(Severity::Warning, from, format!("no host: {why}")),
    }
}
