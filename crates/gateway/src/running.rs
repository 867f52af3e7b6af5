//! A gateway that runs: a thread with its tasks, from the start to the end.

use crate::config::{EnterConfig, ExitConfig};
use crate::core::{Core, STOPPING};
use crate::enter::{Enter, ListenerKind};
use crate::exit::Exit;
use crate::hub::Hub;
use crate::keep::KeepError;
use crate::keys::KeyError;
use crate::status::Status;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use thermocline_ports_os::worker::ProcessError;
use thermocline_tunnel::SettingsError;
use thermocline_wire::Role;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Clients that may wait to be accepted at a listener. One that comes when as many wait is told
/// nothing for a second or more, by the system.
const BACKLOG: i32 = 4096;
/// Time between two looks of a stopping gateway at its flows.
const GLANCE: Duration = Duration::from_millis(10);

/// A reason that a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Keys.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// The folder of caches.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// No other end is named.
    #[error("no other end is named; name its key with --peer NAME.pub")]
    NoPeers,
    /// Key and certificate do not go together, or the like.
    #[error("the key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
    /// The worker that is to cut.
    #[error(transparent)]
    Worker(#[from] ProcessError),
    /// The controller or the connection's settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An address that cannot be listened on.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        error: io::Error,
    },
    /// A listener for clients that want to go elsewhere, which the system does not allow.
    #[error(
        "{address}: a transparent listener needs the capability CAP_NET_ADMIN; run the enter as root, or give it that"
    )]
    Transparent {
        /// The address.
        address: SocketAddr,
    },
    /// Threads, random numbers.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// The phase of its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Run,
    /// Flows may end until then.
    Drain(Instant),
    /// Everything stops where it is.
    Cut,
}

/// Either kind.
#[derive(Clone)]
enum Kind {
    Enter(Arc<Enter>),
    Exit(Arc<Exit>),
}

impl Kind {
    fn status(&self) -> Status {
        match self {
            Kind::Enter(enter) => enter.status(),
            Kind::Exit(exit) => exit.status(),
        }
    }

    fn close(&self) {
        match self {
            Kind::Enter(enter) => {
                enter.core.stop();
                enter.hub.close(STOPPING);
            }
            Kind::Exit(exit) => {
                exit.core.stop();
                exit.close(STOPPING);
            }
        }
    }

    fn core(&self) -> &Arc<Core> {
        match self {
            Kind::Enter(enter) => &enter.core,
            Kind::Exit(exit) => &exit.core,
        }
    }

    /// Saves what was sent, so that the next start knows it.
    fn save(&self) {
        match self {
            Kind::Enter(enter) => enter.save(),
            Kind::Exit(exit) => exit.save(),
        }
    }

    /// True when nobody is connected any more.
    fn is_idle(&self) -> bool {
        match self {
            Kind::Enter(enter) => enter.hub.is_down() && enter.core.is_idle(),
            Kind::Exit(exit) => exit.is_down() && exit.core.is_idle(),
        }
    }
}

/// A view of a running gateway, for those who look after it.
#[derive(Clone)]
pub struct View {
    kind: Kind,
}

impl View {
    /// Status of the gateway now.
    pub fn status(&self) -> Status {
        self.kind.status()
    }
}

/// A running gateway.
pub struct Gateway {
    /// Addresses it listens on, in the order of its settings: forwards, SOCKS5, transparent
    /// listeners; or the exit's listener.
    pub addresses: Vec<SocketAddr>,
    kind: Kind,
    phase: watch::Sender<Phase>,
    thread: Option<JoinHandle<bool>>,
}

impl Gateway {
    /// Starts the end near the clients.
    ///
    /// # Errors
    /// Settings, keys or addresses that do not work.
    pub fn enter(mut config: EnterConfig) -> Result<Gateway, StartError> {
        let core = Arc::new(Core::new(&config.common, Role::Connector)?);
        let mut listeners = Vec::new();
        for (address, target) in std::mem::take(&mut config.forward) {
            listeners.push((listen(address)?, ListenerKind::Forward(target)));
        }
        for address in std::mem::take(&mut config.socks5) {
            listeners.push((listen(address)?, ListenerKind::Socks5));
        }
        for address in std::mem::take(&mut config.transparent) {
            let listener = listen_transparently(address)?;
            let own = listener.local_addr()?;
            listeners.push((listener, ListenerKind::Transparent(own)));
        }
        let addresses = addresses(listeners.iter().map(|(listener, _)| listener))?;
        let enter = Arc::new(Enter {
            hub: Hub::new(core.began, core.accelerator.clone()),
            core,
            to: config.to,
            when_down: config.when_down,
            sharing: config.sharing,
            cache: Mutex::new(None),
        });
        let kind = Kind::Enter(enter.clone());
        start(kind, addresses, move || {
            let mut tasks = Vec::new();
            for (listener, kind) in listeners {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                tasks.push(tokio::spawn(enter.clone().serve(listener, kind)));
            }
            // It ends by itself when the connection does.
            tokio::spawn(enter.keep_link());
            Ok(tasks)
        })
    }

    /// Starts the end near the servers.
    ///
    /// # Errors
    /// Settings, keys or addresses that do not work.
    pub fn exit(config: ExitConfig) -> Result<Gateway, StartError> {
        let core = Arc::new(Core::new(&config.common, Role::Acceptor)?);
        let listener = listen(config.listen)?;
        let addresses = addresses([&listener].into_iter())?;
        let exit = Exit::new(core, config.allow);
        let kind = Kind::Exit(exit.clone());
        start(kind, addresses, move || {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            Ok(vec![tokio::spawn(exit.serve(listener))])
        })
    }

    /// A view of it, which may outlive it.
    pub fn view(&self) -> View {
        View { kind: self.kind.clone() }
    }

    /// Status now.
    pub fn status(&self) -> Status {
        self.kind.status()
    }

    /// Takes no new clients, and stops when flows have ended, at the latest after `within`; true if
    /// none was cut off.
    pub fn stop(mut self, within: Duration) -> bool {
        self.phase.send_replace(Phase::Drain(Instant::now() + within));
        self.join()
    }

    fn join(&mut self) -> bool {
        self.thread.take().is_some_and(|thread| thread.join().unwrap_or(false))
    }
}

/// Everything stops where it is, as if the process had died; but caches that are to be kept are
/// saved.
impl Drop for Gateway {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Cut);
        self.join();
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    bind(address, false).map_err(|error| StartError::Listen { address, error })
}

/// A listener that gets connections to any address.
fn listen_transparently(address: SocketAddr) -> Result<TcpListener, StartError> {
    bind(address, true).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => StartError::Transparent { address },
        _ => StartError::Listen { address, error },
    })
}

fn bind(address: SocketAddr, is_transparent: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    match address {
        SocketAddr::V4(_) if is_transparent => socket.set_ip_transparent_v4(true)?,
        SocketAddr::V6(_) if is_transparent => socket.set_ip_transparent_v6(true)?,
        _ => {}
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn addresses<'a>(
    listeners: impl Iterator<Item = &'a TcpListener>,
) -> Result<Vec<SocketAddr>, StartError> {
    Ok(listeners.map(TcpListener::local_addr).collect::<io::Result<_>>()?)
}

/// Runs `begin` on a thread of its own, whose tasks go on until the gateway is told to stop. What
/// it gives are the tasks that let others in.
fn start(
    kind: Kind,
    addresses: Vec<SocketAddr>,
    begin: impl FnOnce() -> io::Result<Vec<tokio::task::JoinHandle<()>>> + Send + 'static,
) -> Result<Gateway, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (phase, mut phases) = watch::channel(Phase::Run);
    let of_thread = kind.clone();
    let thread = std::thread::Builder::new().name("tunnel".to_string()).spawn(move || {
        let is_clean = runtime.block_on(async {
            // A listener that cannot be watched: nobody could be served.
            let Ok(listeners) = begin() else { return false };
            if let Some(accelerator) = &of_thread.core().accelerator {
                tokio::spawn(accelerator.clone().run(of_thread.core().clone()));
            }
            until_end(&of_thread, &mut phases, listeners).await
        });
        // No task runs any more, so nothing is named while it is saved.
        of_thread.save();
        if let Some(accelerator) = &of_thread.core().accelerator {
            accelerator.stop();
        }
        // A name that is being looked up must not hold up the end.
        runtime.shutdown_background();
        is_clean
    })?;
    Ok(Gateway { addresses, kind, phase, thread: Some(thread) })
}

/// Waits until the gateway is to end; true if nothing is cut off then.
async fn until_end(
    kind: &Kind,
    phases: &mut watch::Receiver<Phase>,
    listeners: Vec<tokio::task::JoinHandle<()>>,
) -> bool {
    let told = phases.wait_for(|phase| *phase != Phase::Run).await.map(|phase| *phase);
    let Ok(Phase::Drain(until)) = told else { return false };
    listeners.iter().for_each(tokio::task::JoinHandle::abort);
    kind.close();
    while !kind.is_idle() {
        if Instant::now() >= until || *phases.borrow() == Phase::Cut {
            return false;
        }
        sleep(GLANCE).await;
    }
    true
}
