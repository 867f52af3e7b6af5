//! Transport of requests to a store: HTTP/1.1, over TLS unless told otherwise, on connections that
//! are kept.
//!
//! 1. A request waits for its turn and for the pace ([`mod@super::pace`]), and takes a connection
//!    that is idle, or makes one.
//! 2. It is answered as a whole, within the deadline: an answer that is cut off, or too long, is
//!    none. What is asked for is never longer than an extent.
//! 3. What a store says when it refuses is cut down to its code: stores repeat what was signed,
//!    session tokens included, in their explanations.
//!
//! Knows nothing of proxies and redirects.

use super::pace::Pace;
use super::traffic::{Traffic, Verb};
use async_trait::async_trait;
use bytes::Bytes as Buffer;
use http_body_util::{BodyExt, Limited};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Method, Response, Uri};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use rustls::pki_types::ServerName;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// An answer that is longer is not what was asked for: an extent, a map, or a page of a listing.
const ANSWER_BYTES_MAX: usize = (1 << 30) + (4 << 20);
/// Characters of a store's code for an error.
const CODE_CHARACTERS_MAX: usize = 64;
/// Address at which an instance asks for its credentials over IPv6.
const INSTANCE_METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Connections to a store.
#[derive(Debug, Clone)]
pub(super) struct Wire(Arc<Inner>);

struct Inner {
    tls: TlsConnector,
    /// True if other machines may be asked without TLS.
    allow_http: bool,
    /// The store's own address: what goes elsewhere is not counted as its requests.
    authority: String,
    deadline: Duration,
    pace: Pace,
    traffic: Arc<Traffic>,
    /// Idle connections, by scheme and authority.
    idle: Mutex<BTreeMap<String, Vec<SendRequest<HttpRequestBody>>>>,
}

impl std::fmt::Debug for Inner {
    /// Says nothing of what goes over the wire.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wire")
    }
}

/// A reason that a request was not answered.
#[derive(Debug, thiserror::Error)]
enum WireError {
    #[error("no answer within the deadline of {0:?}")]
    Deadline(Duration),
    #[error("cannot connect to {authority}: {source}")]
    Connect { authority: String, source: std::io::Error },
    #[error("the connection failed: {0}")]
    Broken(#[from] hyper::Error),
    #[error("the answer was cut off, or is too long")]
    Body,
    #[error("{0} is no address of a store")]
    Address(String),
    #[error("{0} is not asked in the clear; use https, or allow http")]
    InTheClear(String),
}

impl From<WireError> for HttpError {
    fn from(error: WireError) -> HttpError {
        let kind = match &error {
            WireError::Deadline(_) => HttpErrorKind::Timeout,
            WireError::Connect { .. } => HttpErrorKind::Connect,
            WireError::Broken(_) | WireError::Body => HttpErrorKind::Interrupted,
            WireError::Address(_) | WireError::InTheClear(_) => HttpErrorKind::Unknown,
        };
        HttpError::new(kind, error)
    }
}

impl Wire {
    pub(super) fn new(
        tls: Arc<rustls::ClientConfig>,
        (authority, allow_http): (&str, bool),
        deadline: Duration,
        pace: Pace,
        traffic: Arc<Traffic>,
    ) -> Wire {
        let idle = Mutex::default();
        let (tls, authority) = (TlsConnector::from(tls), authority.to_string());
        Wire(Arc::new(Inner { tls, allow_http, authority, deadline, pace, traffic, idle }))
    }
}

impl HttpConnector for Wire {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let Inner { pace, traffic, deadline, .. } = &*self.0;
        let _turn = pace.turn().await;
        let sent = request.body().content_length() as u64;
        pace.leave(sent).await;
        traffic.note_request(self.verb(&request), sent);
        let answer = match tokio::time::timeout(*deadline, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(WireError::Deadline(*deadline)),
        };
        let is_failure = |response: &Response<Buffer>| {
            response.status().is_server_error() || response.status().as_u16() == 429
        };
        if answer.as_ref().map_or(true, is_failure) {
            traffic.note_failure();
        }
        let answer = answer?;
        let received = answer.body().len() as u64;
        traffic.note_answer(received);
        pace.arrive(received).await;
        Ok(without_explanations(answer).map(HttpResponseBody::from))
    }
}

impl Wire {
    fn verb(&self, request: &HttpRequest) -> Verb {
        let uri = request.uri();
        let own = uri
            .authority()
            .is_some_and(|authority| authority.as_str().ends_with(&self.0.authority));
        let query = uri.query().unwrap_or_default();
        match request.method() {
            _ if !own => Verb::Other,
            &Method::GET if query.contains("list-type=") => Verb::List,
            &Method::GET | &Method::HEAD => Verb::Get,
            &Method::DELETE => Verb::Delete,
            &Method::POST if query.split('&').any(|part| part.starts_with("delete")) => {
                Verb::Delete
            }
            _ => Verb::Put,
        }
    }

    /// Sends a request and takes its answer, as a whole.
    async fn exchange(&self, request: HttpRequest) -> Result<Response<Buffer>, WireError> {
        let (mut parts, body) = request.into_parts();
        let uri = std::mem::take(&mut parts.uri);
        let authority = uri.authority().ok_or_else(|| WireError::Address(uri.to_string()))?;
        let host = HeaderValue::from_str(authority.as_str());
        let host = host.map_err(|_| WireError::Address(authority.to_string()))?;
        parts.headers.entry(HOST).or_insert(host);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        parts.uri = path.parse().map_err(|_| WireError::Address(uri.to_string()))?;
        let request = hyper::Request::from_parts(parts, body);
        let place = format!("{}://{authority}", uri.scheme_str().unwrap_or("https"));
        let mut connection = match self.idle(&place) {
            Some(connection) => connection,
            None => self.connect(&uri).await?,
        };
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| WireError::Body)?.to_bytes();
        let mut idle = self.0.idle.lock().expect("nobody panics with it");
        idle.entry(place).or_default().push(connection);
        Ok(Response::from_parts(parts, body))
    }

    /// A connection that nobody uses and the store has not closed.
    fn idle(&self, place: &str) -> Option<SendRequest<HttpRequestBody>> {
        let mut idle = self.0.idle.lock().expect("nobody panics with it");
        let kept = idle.get_mut(place)?;
        kept.retain(|connection| !connection.is_closed());
        kept.pop()
    }

    async fn connect(&self, uri: &Uri) -> Result<SendRequest<HttpRequestBody>, WireError> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let encrypted = uri.scheme_str() != Some("http");
        let port = uri.port_u16().unwrap_or(if encrypted { 443 } else { 80 });
        let failed = |source| WireError::Connect { authority: format!("{host}:{port}"), source };
        if !encrypted && !self.0.allow_http && !is_near(host) {
            return Err(WireError::InTheClear(host.to_string()));
        }
        let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if !encrypted {
            return greet(stream).await;
        }
        let name = ServerName::try_from(host.to_string());
        let name = name.map_err(|_| WireError::Address(host.to_string()))?;
        greet(self.0.tls.connect(name, stream).await.map_err(failed)?).await
    }
}

/// True if a host is this machine, or the one below it that gives instances their credentials.
pub(super) fn is_near(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
        Ok(IpAddr::V6(address)) => address.is_loopback() || address == INSTANCE_METADATA,
        Err(_) => host == "localhost",
    }
}

/// Speaks HTTP on a connection; it is driven in the background until either side closes it.
async fn greet<S>(stream: S) -> Result<SendRequest<HttpRequestBody>, WireError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// A refusal with its code only.
fn without_explanations(response: Response<Buffer>) -> Response<Buffer> {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    response.map(|body| {
        let text = String::from_utf8_lossy(&body);
        let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
        let code = code.map_or("", |(code, _)| code);
        let plain = code.len() <= CODE_CHARACTERS_MAX
            && code.chars().all(|letter| letter.is_ascii_alphanumeric());
        let code = if plain { code } else { "" };
        Buffer::from(format!("<Error><Code>{code}</Code></Error>"))
    })
}
