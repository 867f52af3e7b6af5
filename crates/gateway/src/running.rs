//! A gateway that runs: a thread with its tasks, from the start to the end.

use crate::config::{Common, EnterConfig, ExitConfig};
use crate::core::Core;
use crate::enter::{Door, Enter};
use crate::exit::Exit;
use crate::hub::Hub;
use crate::keys::KeyError;
use crate::status::Status;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thermocline_tunnel::SettingsError;
use thermocline_wire::Role;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Time for whoever asks for the status to take it.
const STATUS_WITHIN: Duration = Duration::from_secs(5);
/// How often a gateway that stops looks whether its flows have ended.
const GLANCE: Duration = Duration::from_millis(10);

/// Why a gateway cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Keys.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Nobody could be met.
    #[error("no other end is named; name its key with --peer NAME.pub")]
    NoPeers,
    /// Key and certificate do not go together, or the like.
    #[error("the key cannot be used: {0}")]
    Tls(#[from] rustls::Error),
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
    /// Threads, random numbers, the status' socket.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// How long it runs.
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
        const WHY: &str = "it was told to stop";
        match self {
            Kind::Enter(enter) => {
                enter.core.stop();
                enter.hub.close(WHY);
            }
            Kind::Exit(exit) => exit.close(WHY),
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

/// A running gateway.
pub struct Gateway {
    /// Where it listens, in the order of its settings: forwards, then SOCKS5; or the exit's door.
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
        let cache = core.cache()?;
        let mut doors = Vec::new();
        for (address, target) in std::mem::take(&mut config.forward) {
            doors.push((listen(address)?, Door::Forward(target)));
        }
        for address in std::mem::take(&mut config.socks5) {
            doors.push((listen(address)?, Door::Socks5));
        }
        let addresses = addresses(doors.iter().map(|(listener, _)| listener))?;
        let enter = Arc::new(Enter {
            hub: Hub::new(core.began),
            core,
            to: config.to,
            when_down: config.when_down,
            sharing: config.sharing,
        });
        let kind = Kind::Enter(enter.clone());
        start(kind, config.common, addresses, move || {
            let mut tasks = Vec::new();
            for (listener, door) in doors {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                tasks.push(tokio::spawn(enter.clone().serve(listener, door)));
            }
            // It ends by itself when the connection does.
            tokio::spawn(enter.keep_link(cache));
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
        start(kind, config.common, addresses, move || {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            Ok(vec![tokio::spawn(exit.serve(listener))])
        })
    }

    /// What it does now.
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

/// Everything stops where it is, as if the process had died.
impl Drop for Gateway {
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Cut);
        self.join();
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listener = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| StartError::Listen { address, error })
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
    common: Common,
    addresses: Vec<SocketAddr>,
    begin: impl FnOnce() -> io::Result<Vec<tokio::task::JoinHandle<()>>> + Send + 'static,
) -> Result<Gateway, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (phase, mut phases) = watch::channel(Phase::Run);
    let status = common.status;
    if let Some(listener) = &status {
        listener.set_nonblocking(true)?;
    }
    let of_thread = kind.clone();
    let thread = std::thread::Builder::new().name("tunnel".to_string()).spawn(move || {
        let is_clean = runtime.block_on(async {
            if let Some(listener) = status {
                tokio::spawn(tell_status(of_thread.clone(), listener));
            }
            // A listener that cannot be watched: nobody could be served.
            let Ok(doors) = begin() else { return false };
            until_end(&of_thread, &mut phases, doors).await
        });
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
    doors: Vec<tokio::task::JoinHandle<()>>,
) -> bool {
    let told = phases.wait_for(|phase| *phase != Phase::Run).await.map(|phase| *phase);
    let Ok(Phase::Drain(until)) = told else { return false };
    doors.iter().for_each(tokio::task::JoinHandle::abort);
    kind.close();
    while !kind.is_idle() {
        if Instant::now() >= until || *phases.borrow() == Phase::Cut {
            return false;
        }
        sleep(GLANCE).await;
    }
    true
}

/// Tells whoever connects what the gateway does now.
async fn tell_status(kind: Kind, listener: UnixListener) {
    let Ok(listener) = tokio::net::UnixListener::from_std(listener) else { return };
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            sleep(GLANCE).await;
            continue;
        };
        let status = serde_json::to_vec(&kind.status()).expect("the status is plain data");
        tokio::spawn(async move {
            let told = async {
                stream.write_all(&status).await?;
                stream.shutdown().await
            };
            // Whoever does not take it does without.
            let _ = timeout(STATUS_WITHIN, told).await;
        });
    }
}
