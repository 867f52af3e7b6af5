//! The API as a program calls it: one request at a time, over the unix socket of an engine or a
//! balancer.
//!
//! Blocks the calling thread, for a time that is named; knows nothing of TCP and tokens, which are
//! for browsers and other machines.

use crate::api::Refused;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes as Body;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;

/// A call is answered by then, or it has failed: the longest that an engine takes is the making of
/// a pool's file.
pub const CALL_TIME: Duration = Duration::from_secs(60);

/// Time for which a storage server, or a host's agent, is waited for that does not listen yet: they
/// are often started in the background, by the line before.
const STARTING: Duration = Duration::from_secs(2);
/// Time between two tries to connect.
const AGAIN: Duration = Duration::from_millis(50);

/// The process called, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// `thermocline up`.
    Engine,
    /// `thermocline balance`.
    Balancer,
    /// `thermocline tunnel enter` or `exit`.
    TunnelEnd,
    /// `thermocline store serve`.
    Store,
    /// `thermocline host serve`.
    Host,
    /// `thermocline accel up`.
    Pool,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Peer::Engine => "engine",
            Peer::Balancer => "balancer",
            Peer::TunnelEnd => "end of a tunnel",
            Peer::Store => "storage server",
            Peer::Host => "agent",
            Peer::Pool => "pool of accelerators",
        }
    }

    /// Asks whether one is there, and says what starts one.
    fn is_it_there(self) -> &'static str {
        match self {
            Peer::Engine => "is an engine running there? `thermocline up` starts one",
            Peer::Balancer => "is a balancer running there? `thermocline balance` starts one",
            Peer::TunnelEnd => "is an end running, and is this its --socket?",
            Peer::Store => {
                "is a storage server running there? `thermocline store serve` starts one"
            }
            Peer::Host => "is an agent running there? `thermocline host serve` starts one",
            Peer::Pool => "is a pool running there? `thermocline accel up` starts one",
        }
    }
}

/// A reason that a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No program listens.
    #[error("{path}: {source}; {}", peer.is_it_there())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The process looked for.
        peer: Peer,
        /// The system's error.
        source: io::Error,
    },
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// No answer in time; whether it was done is not known.
    #[error(
        "no answer from {path} within {} s; is the {} busy, or stopped?",
        within.as_secs(),
        peer.name()
    )]
    Late {
        /// The socket.
        path: PathBuf,
        /// The process asked.
        peer: Peer,
        /// Time that it was waited for.
        within: Duration,
    },
    /// The connection broke, or what came is not understood.
    #[error("the answer cannot be used: {0}")]
    Answer(String),
}

/// An engine or a balancer, by its socket.
#[derive(Debug, Clone)]
pub struct Client {
    peer: Peer,
    socket: PathBuf,
    within: Duration,
    /// Time for which whoever does not listen yet is waited for.
    starting: Duration,
}

impl Client {
    /// The pool of accelerators that listens on `socket`; nothing is sent yet.
    pub fn of_pool(socket: &Path) -> Client {
        Client { peer: Peer::Pool, ..Client::new(socket) }
    }

    /// The engine that listens on `socket`; nothing is sent yet.
    pub fn new(socket: &Path) -> Client {
        let socket = socket.to_path_buf();
        Client { peer: Peer::Engine, socket, within: CALL_TIME, starting: Duration::ZERO }
    }

    /// The balancer whose API is on `socket`; nothing is sent yet.
    pub fn of_tunnel_end(socket: &Path) -> Client {
        Client { peer: Peer::TunnelEnd, ..Client::new(socket) }
    }

    /// The same of a storage server, which may just be starting.
    pub fn of_store(socket: &Path) -> Client {
        Client { peer: Peer::Store, starting: STARTING, ..Client::new(socket) }
    }

    /// The same of a host's agent, which may just be starting.
    pub fn of_host(socket: &Path) -> Client {
        Client { peer: Peer::Host, starting: STARTING, ..Client::new(socket) }
    }

    /// The same of a balancer.
    pub fn of_balancer(socket: &Path) -> Client {
        Client { peer: Peer::Balancer, ..Client::new(socket) }
    }

    /// The same, for callers that cannot wait so long as [`CALL_TIME`].
    #[must_use]
    pub fn within(self, time: Duration) -> Client {
        Client { within: time, ..self }
    }

    /// Asks for something.
    ///
    /// # Errors
    /// When nobody listens, or the request is refused.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        parse(&self.call(Method::GET, path, None)?)
    }

    /// Asks for something that is no JSON.
    ///
    /// # Errors
    /// When nobody listens, or the request is refused.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>, CallError> {
        self.call(Method::GET, path, None).map(Vec::from)
    }

    /// Sends something and takes the answer.
    ///
    /// # Errors
    /// When nobody listens, or the request is refused.
    pub fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CallError> {
        let body =
            serde_json::to_vec(body).map_err(|error| CallError::Answer(error.to_string()))?;
        parse(&self.call(method, path, Some(body))?)
    }

    /// Sends something; whatever is answered is dropped.
    ///
    /// # Errors
    /// When nobody listens, or the request is refused.
    pub fn tell(&self, method: Method, path: &str, body: &impl Serialize) -> Result<(), CallError> {
        let body =
            serde_json::to_vec(body).map_err(|error| CallError::Answer(error.to_string()))?;
        self.call(method, path, Some(body)).map(|_| ())
    }

    /// Sends bytes as they are; whatever is answered is dropped.
    ///
    /// # Errors
    /// When nobody listens, or the request is refused.
    pub fn put(&self, path: &str, bytes: Vec<u8>) -> Result<(), CallError> {
        self.call(Method::PUT, path, Some(bytes)).map(|_| ())
    }

    /// Does something that needs no words; whatever is answered is dropped.
    ///
    /// # Errors
    /// When nobody listens, or the request is refused.
    pub fn order(&self, method: Method, path: &str) -> Result<(), CallError> {
        self.call(method, path, None).map(|_| ())
    }

    fn call(&self, method: Method, path: &str, body: Option<Vec<u8>>) -> Result<Body, CallError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CallError::Answer(error.to_string()))?;
        runtime.block_on(async {
            let exchange = self.exchange(method, path, body);
            let late = |_| CallError::Late {
                path: self.socket.clone(),
                peer: self.peer,
                within: self.within,
            };
            tokio::time::timeout(self.within, exchange).await.map_err(late)?
        })
    }

    /// Connects, as soon as somebody listens.
    async fn connect(&self) -> Result<UnixStream, CallError> {
        let mut waited = Duration::ZERO;
        loop {
            match UnixStream::connect(&self.socket).await {
                Ok(stream) => return Ok(stream),
                Err(error) if waited < self.starting && is_nobody_yet(&error) => {
                    tokio::time::sleep(AGAIN).await;
                    waited += AGAIN;
                }
                Err(source) => {
                    let (path, peer) = (self.socket.clone(), self.peer);
                    return Err(CallError::Connect { path, peer, source });
                }
            }
        }
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Body, CallError> {
        let broken = |error: &dyn std::error::Error| CallError::Answer(error.to_string());
        let stream = self.connect().await?;
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|error| broken(&error))?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "thermocline")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Body::from(body.unwrap_or_default())))
            .map_err(|error| broken(&error))?;
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let status = response.status();
        let body = response.into_body().collect().await.map_err(|error| broken(&error))?;
        let body = body.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let refused = serde_json::from_slice::<Refused>(&body);
        let text = || String::from_utf8_lossy(&body).into_owned();
        let message = refused.map_or_else(|_| text(), |refused| refused.message);
        Err(CallError::Refused(Refused { message, status: status.as_u16() }))
    }
}

/// True if somebody may listen there in a moment: nothing is there yet, or what a process has left
/// that was killed.
fn is_nobody_yet(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// A name as one segment of a path: bytes that are not unreserved (RFC 3986 §2.3) are escaped.
///
/// ```
/// use thermocline_admin::client::segment;
///
/// assert_eq!(segment("ssd#2 a"), "ssd%232%20a");
/// ```
pub fn segment(name: &str) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => write!(out, "%{other:02X}").expect("a String takes every text"),
        }
    }
    out
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, CallError> {
    serde_json::from_slice(body).map_err(|error| CallError::Answer(error.to_string()))
}

#[cfg(test)]
mod tests;
