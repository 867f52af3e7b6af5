//! Connections between two machines: TCP, and TLS 1.3 with keys that both were told where a network
//! is crossed.
//!
//! Without keys only loopback addresses are listened on and connected to: whoever is on this
//! machine may say which host it is. With keys the host's number follows from its key, and who has
//! shown none holds a place for seconds at most (`Strangers`); one key holds a few.

use super::config::{Keyed, Limits};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thermocline_admin::api::Severity;
use thermocline_admin::notes::Notes;
use thermocline_gateway::{
    Fingerprint, KeyFiles, Keys, SERVER_NAME, Strangers, explain_handshake, shown_key,
};
use thermocline_hostcache::HostId;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The protocol that machines ask for (ALPN).
const PROTOCOL: &[u8] = b"thermocline-hostcache";
/// Time to wait when the system has no room for another connection.
const NO_ROOM: Duration = Duration::from_millis(100);

/// Bytes both ways.
pub(super) trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

/// Somebody who has come in, and who it is if a key says so.
pub(super) struct Met {
    pub(super) stream: Box<dyn Both>,
    pub(super) from: SocketAddr,
    /// The host by its key; `None`: it says so itself, from this machine.
    pub(super) host: Option<HostId>,
    /// Kept as long as the connection lasts.
    pub(super) place: Place,
}

/// One of the connections that there may be, given back with this.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    /// The host that its key names, among all that are here.
    of: Option<(HostId, Here)>,
}

/// Connections by host.
type Here = Rc<RefCell<BTreeMap<HostId, usize>>>;

impl Place {
    /// The place is this host's from now on; an error if it has all that one may have.
    fn is_of(&mut self, host: HostId, here: &Here, most: usize) -> Result<(), String> {
        let mut counts = here.borrow_mut();
        let count = counts.entry(host).or_default();
        if *count >= most {
            return Err(format!("host {} has {most} connections already", host.0));
        }
        *count += 1;
        assert!(self.of.is_none(), "a place is given once");
        self.of = Some((host, here.clone()));
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((host, here)) = self.of.take() else { return };
        let mut counts = here.borrow_mut();
        let count = counts.get_mut(&host).expect("it was counted");
        *count -= 1;
        if *count == 0 {
            counts.remove(&host);
        }
    }
}

/// Reason why a configuration cannot work.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// Data would cross a network in the clear.
    #[error(
        "{0} can be reached from a network, and no keys are configured; give `key` and the hosts' \
         keys (`thermocline tunnel keys NAME` makes them), or use an address of this machine such \
         as 127.0.0.1"
    )]
    InTheClear(SocketAddr),
    /// Keys.
    #[error(transparent)]
    Keys(#[from] thermocline_gateway::KeyError),
    /// Key and certificate do not go together.
    #[error("the key cannot be used: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Its address.
        address: SocketAddr,
        /// The system's word.
        error: std::io::Error,
    },
}

/// Looks whether keys, if there are any, can be used; without them the address must be loopback.
/// Returns the files of other machines' keys that are not there: those cannot come in.
pub(super) fn check(keys: Option<&Keyed>, address: SocketAddr) -> Result<Vec<PathBuf>, MeetError> {
    match keys {
        None if address.ip().is_loopback() => Ok(Vec::new()),
        None => Err(MeetError::InTheClear(address)),
        Some(keyed) => {
            read(keyed)?.server(PROTOCOL)?;
            read(keyed)?.client(PROTOCOL)?;
            let files = keyed.peers.iter().map(|(_, path)| path.clone());
            Ok(files.filter(|path| !is_there(path)).collect())
        }
    }
}

/// Tells of keys that [`check`] missed.
pub(super) fn tell_missing(notes: &Notes, missing: impl IntoIterator<Item = PathBuf>) {
    for path in missing {
        let text = "is not there; the host with this key cannot come in";
        notes.note(Severity::Warning, path.display(), text);
    }
}

/// False if there is no such file. Whoever removes a machine's key shuts that machine out, and no
/// other.
fn is_there(path: &std::path::Path) -> bool {
    let found = std::fs::metadata(path);
    !found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// One's own key, and that of one other machine.
pub(super) fn only(keyed: &Keyed, whom: HostId) -> Keyed {
    let peers = keyed.peers.iter().filter(|(host, _)| *host == whom).cloned().collect();
    Keyed { key: keyed.key.clone(), peers }
}

/// One's own key, and those of the other machines that are there; an error if none of them is.
fn read(keyed: &Keyed) -> Result<Keys, thermocline_gateway::KeyError> {
    let all = keyed.peers.iter().map(|(_, path)| path.clone());
    let mut peers: Vec<PathBuf> = all.clone().filter(|path| is_there(path)).collect();
    if peers.is_empty() {
        peers = all.collect();
    }
    Keys::read(&KeyFiles { key: keyed.key.clone(), peers })
}

/// The host whose key this is.
fn host_of(keyed: &Keyed, shown: &Fingerprint) -> Option<HostId> {
    let is_it = |path: &std::path::Path| {
        let files = KeyFiles { key: keyed.key.clone(), peers: vec![path.to_path_buf()] };
        Keys::read(&files).is_ok_and(|keys| keys.peers().contains(shown))
    };
    keyed.peers.iter().find(|(_, path)| is_it(path)).map(|(host, _)| *host)
}

/// A listener.
pub(super) fn listen(address: SocketAddr) -> Result<std::net::TcpListener, MeetError> {
    let failed = |error| MeetError::Listen { address, error };
    let listener = std::net::TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// Lets connections in for ever: those who are who they must be are handed to `met`, of the others
/// `refused` is told.
pub(super) async fn accept(
    listener: TcpListener,
    keys: Option<Keyed>,
    limits: Limits,
    met: impl Fn(Met) + Clone + 'static,
    refused: impl Fn(SocketAddr, String) + Clone + 'static,
) {
    let strangers = Strangers::new(limits.strangers_max);
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let here = Here::default();
    loop {
        // Others wait until one ends; whoever says nothing is given up in seconds.
        let Ok(permit) = places.clone().acquire_owned().await else { return };
        let kept = Place { _permit: permit, of: None };
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(_) => {
                tokio::time::sleep(NO_ROOM).await;
                continue;
            }
        };
        let Some(keyed) = &keys else {
            let _ = stream.set_nodelay(true);
            met(Met { stream: Box::new(stream), from, host: None, place: kept });
            continue;
        };
        let Some(place) = strangers.let_wait(from.ip(), Instant::now()) else {
            refused(from, "too many others have not shown their keys".to_string());
            continue;
        };
        let (keyed, met, refused) = (keyed.clone(), met.clone(), refused.clone());
        let (here, most) = (here.clone(), limits.of_host_max);
        tokio::task::spawn_local(async move {
            let come_in = async {
                tokio::select! {
                    met = let_in((stream, from), &keyed, kept) => met,
                    () = place.must_go() => Err("others wait for its place".to_string()),
                }
            };
            match timeout(limits.handshake_within, come_in).await {
                Ok(Ok(mut one)) => {
                    place.is_known();
                    let host = one.host.expect("its key says so");
                    match one.place.is_of(host, &here, most) {
                        Ok(()) => met(one),
                        Err(why) => refused(from, why),
                    }
                }
                Ok(Err(why)) => refused(from, why),
                Err(_) => {
                    let seconds = limits.handshake_within.as_secs_f64();
                    refused(from, format!("the handshake took longer than {seconds} s"));
                }
            }
        });
    }
}

async fn let_in(
    (stream, from): (TcpStream, SocketAddr),
    keyed: &Keyed,
    place: Place,
) -> Result<Met, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let config = read(keyed).map_err(|error| text(&error))?;
    let config = config.server(PROTOCOL).map_err(|error| text(&error))?;
    let _ = stream.set_nodelay(true);
    let accepted = TlsAcceptor::from(config).accept(stream).into_fallible().await;
    let stream = match accepted {
        Ok(stream) => stream,
        Err((error, mut stream)) => {
            // It is to read why, which unread bytes would take back. Time is bounded above.
            let _ = stream.shutdown().await;
            let mut rest = [0; 1024];
            while stream.read(&mut rest).await.is_ok_and(|length| length > 0) {}
            return Err(explain_handshake(&error));
        }
    };
    let shown = shown_key(stream.get_ref().1.peer_certificates()).ok_or("it showed no key")?;
    let host = host_of(keyed, &shown).ok_or("its key is no host's")?;
    Ok(Met { stream: Box::new(stream), from, host: Some(host), place })
}

/// Connects to a machine; with keys, only to one that has the key of `whom`.
pub(super) async fn connect(
    (whom, address): (HostId, SocketAddr),
    keys: Option<&Keyed>,
    limits: Limits,
) -> Result<Box<dyn Both>, String> {
    let connecting = async {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let _ = stream.set_nodelay(true);
        let Some(keyed) = keys else { return Ok::<_, String>(Box::new(stream) as Box<dyn Both>) };
        let config = read(&only(keyed, whom)).map_err(|error| error.to_string())?;
        let config: Arc<_> = config.client(PROTOCOL).map_err(|error| error.to_string())?;
        let name = ServerName::try_from(SERVER_NAME).expect("it is a name");
        let stream = TlsConnector::from(config).connect(name, stream).await;
        let stream = stream.map_err(|error| explain_handshake(&error))?;
        Ok(Box::new(stream) as Box<dyn Both>)
    };
    match timeout(limits.handshake_within, connecting).await {
        Ok(connected) => connected.map_err(|why| format!("{address}: {why}")),
        Err(_) => {
            let seconds = limits.handshake_within.as_secs_f64();
            Err(format!("{address} did not answer within {seconds} s"))
        }
    }
}

#[cfg(test)]
mod tests;
