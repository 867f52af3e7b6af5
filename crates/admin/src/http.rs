//! The HTTP side of a program: API, metrics and dashboard, on a thread of its own.
//!
//! A unix socket needs no token: whoever may open it may use it, and that is the owner alone. Over
//! TCP every request but those for the page itself carries a token (`Authorization: Bearer …`), and
//! where a network reaches the address it is encrypted too.

mod answers;
mod body;
mod pages;
mod patience;
mod query;
mod reference;

pub use answers::{Answer, Onward};
pub use body::{Body, refused, unknown_key};
pub use pages::{Dashboard, is_page};
pub use query::Query;
pub use reference::reference;

use self::patience::Patient;
use crate::unix_socket::{self, SocketName};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// A client that has not sent its request's head by then is let go.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// A client that takes no byte of its answer for so long is let go.
const TAKE_TIME: Duration = Duration::from_secs(10);
/// Connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 256;

/// Addresses at which the API listens.
#[derive(Default)]
pub struct HttpListeners {
    /// A unix socket, for its owner alone.
    pub unix: Option<PathBuf>,
    /// A TCP address with its token.
    pub tcp: Option<TcpListen>,
    /// The unix socket itself, if it listens already; its path stays.
    pub handed_unix: Option<UnixListener>,
    /// The socket of the TCP address, if it listens already.
    pub handed_tcp: Option<TcpListener>,
}

/// A TCP address.
pub struct TcpListen {
    /// Address to listen on; port 0 takes a free one.
    pub address: SocketAddr,
    /// True if a free port will do when that one is taken.
    pub any_port: bool,
    /// Token that a client must know.
    pub token: String,
    /// Encrypts; needed where a network reaches the address.
    pub tls: Option<Arc<ServerConfig>>,
}

/// A reason that the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The unix socket cannot be made.
    #[error("cannot listen on {path}: {source}")]
    Unix {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; is another engine running there?")]
    Tcp {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Tokens would cross a network in the clear.
    #[error(
        "{0} can be reached from the network, and no certificate is configured; give one, or listen on 127.0.0.1"
    )]
    InTheClear(SocketAddr),
    /// The thread cannot be started.
    #[error("cannot start the thread of the API: {0}")]
    Thread(io::Error),
}

/// A running API; it ends with the process.
pub struct Http {
    /// Address at which it listens, when it does over TCP.
    pub address: Option<SocketAddr>,
    _unix: Option<SocketName>,
}

/// Listens, and answers by these routes on a thread of its own. Those of a [`Dashboard`]'s page
/// need no token.
///
/// # Errors
/// When a socket cannot be made, or the token would cross a network in the clear.
pub fn serve(listeners: HttpListeners, router: Router) -> Result<Http, HttpError> {
    let token = listeners.tcp.as_ref().map(|listen| listen.token.clone()).unwrap_or_default();
    let token: Arc<str> = token.into();
    let guard = middleware::from_fn_with_state(token, check_token);
    serve_apart(listeners, router.clone(), router.layer(guard))
}

/// Listens, and answers by one set of routes over the unix socket and by another over TCP. The
/// latter check for themselves who asks; [`TcpListen::token`] is not looked at.
///
/// # Errors
/// As for [`serve`].
pub fn serve_apart(
    listeners: HttpListeners,
    local: Router,
    remote: Router,
) -> Result<Http, HttpError> {
    let (unix, name) = match &listeners.unix {
        None => (None, None),
        Some(path) => {
            let failed = |source| HttpError::Unix { path: path.clone(), source };
            match listeners.handed_unix {
                Some(listener) => {
                    listener.set_nonblocking(true).map_err(failed)?;
                    (Some(listener), None)
                }
                None => {
                    let (listener, name) = unix_socket::listen(path).map_err(failed)?;
                    (Some(listener), Some(name))
                }
            }
        }
    };
    let mut address = None;
    let tcp = match listeners.tcp {
        None => None,
        Some(listen) if listen.tls.is_none() && !listen.address.ip().is_loopback() => {
            return Err(HttpError::InTheClear(listen.address));
        }
        Some(listen) => {
            let failed = |source| HttpError::Tcp { address: listen.address, source };
            let bound = match listeners.handed_tcp {
                Some(listener) => Ok(listener),
                None => bind(&listen),
            };
            let listener = bound.map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            address = Some(listener.local_addr().map_err(failed)?);
            Some((listener, listen))
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(HttpError::Thread)?;
    let run = move || runtime.block_on(answer_all((local, unix), (remote, tcp)));
    std::thread::Builder::new().name("http".to_string()).spawn(run).map_err(HttpError::Thread)?;
    Ok(Http { address, _unix: name })
}

fn bind(listen: &TcpListen) -> io::Result<TcpListener> {
    TcpListener::bind(listen.address).or_else(|error| {
        let elsewhere = listen.any_port && error.kind() == io::ErrorKind::AddrInUse;
        let free = SocketAddr::new(listen.address.ip(), 0);
        if elsewhere { TcpListener::bind(free) } else { Err(error) }
    })
}

async fn answer_all(
    (local, unix): (Router, Option<UnixListener>),
    (remote, tcp): (Router, Option<(TcpListener, TcpListen)>),
) {
    let unix = async {
        if let Some(listener) = unix {
            answer_unix(local, listener).await;
        }
    };
    let tcp = async {
        if let Some((listener, listen)) = tcp {
            answer_tcp(remote, listener, listen.tls).await;
        }
    };
    tokio::join!(unix, tcp);
}

async fn answer_unix(router: Router, listener: UnixListener) {
    let listener = tokio::net::UnixListener::from_std(listener).expect("within the runtime");
    let accept = async || listener.accept().await.map(|(stream, _)| stream);
    let talk = |stream, caller: Arc<Caller>| {
        caller.note_known(); // Whoever may open the socket is the owner.
        converse(router.clone(), stream, caller)
    };
    answer(accept, talk).await;
}

async fn answer_tcp(router: Router, listener: TcpListener, tls: Option<Arc<ServerConfig>>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("within the runtime");
    let acceptor = tls.map(tokio_rustls::TlsAcceptor::from);
    let accept = async || listener.accept().await.map(|(stream, _)| stream);
    let talk = |stream, caller| {
        let (router, acceptor) = (router.clone(), acceptor.clone());
        async move {
            let Some(acceptor) = acceptor else { return converse(router, stream, caller).await };
            let encrypted = tokio::time::timeout(HEAD_TIME, acceptor.accept(stream)).await;
            if let Ok(Ok(stream)) = encrypted {
                converse(router, stream, caller).await;
            }
        }
    };
    answer(accept, talk).await;
}

/// Lets clients in, as many at once as there are places, and talks with each on a task of its own.
async fn answer<S, T: Future<Output = ()> + Send + 'static>(
    accept: impl AsyncFn() -> io::Result<S>,
    talk: impl Fn(S, Arc<Caller>) -> T,
) {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    let mut callers: VecDeque<Arc<Caller>> = VecDeque::new();
    loop {
        let Ok(stream) = accept().await else {
            // Out of descriptors: some will be given back.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        callers.retain(|caller| !caller.is_known() && Arc::strong_count(caller) > 1);
        if places.available_permits() == 0
            && let Some(oldest) = callers.pop_front()
        {
            oldest.must_go.notify_one();
        }
        let place = places.clone().acquire_owned().await.expect("it is never closed");
        let caller = Arc::new(Caller::default());
        callers.push_back(caller.clone());
        let talk = talk(stream, caller.clone());
        tokio::spawn(async move {
            let mut talk = std::pin::pin!(talk);
            tokio::select! {
                biased;
                () = &mut talk => {}
                () = caller.must_go.notified() => {
                    // Its token may have come in the same moment.
                    if caller.is_known() {
                        talk.await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Other end of a connection. One who has shown no token makes way for another when
/// all places are taken; else a few hundred silent connections would keep the owner out.
#[derive(Default)]
struct Caller {
    is_known: AtomicBool,
    must_go: tokio::sync::Notify,
}

impl Caller {
    fn note_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
    }

    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }
}

/// Answers the requests of one connection.
async fn converse(
    router: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    caller: Arc<Caller>,
) {
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |mut request: hyper::Request<_>| {
        request.extensions_mut().insert(caller.clone());
        router.call(request)
    });
    let mut server = hyper::server::conn::http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
    // A client that breaks off is nobody's fault here.
    let stream = TokioIo::new(Patient::new(stream, TAKE_TIME));
    let _ = server.serve_connection(stream, service).await;
}

/// Takes note that whoever sent this request may: the connection does not make way for others. To
/// be called by whoever looks at tokens in place of this crate ([`serve_apart`]).
pub fn note_known(request: &Request) {
    if let Some(caller) = request.extensions().get::<Arc<Caller>>() {
        caller.note_known();
    }
}

/// Lets a request through when it carries the token, or asks for the page.
async fn check_token(State(token): State<Arc<str>>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let known = given.is_some_and(|given| is_equal(given.as_bytes(), token.as_bytes()));
    if known {
        note_known(&request);
    }
    if known || pages::is_page(request.uri().path()) {
        return next.run(request).await;
    }
    let text =
        "a token is needed: `Authorization: Bearer …`; the engine's start told where it is\n";
    (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response()
}

/// Compares in a time that does not tell where the first difference is.
pub fn is_equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

#[cfg(test)]
mod tests;
