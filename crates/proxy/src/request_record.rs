//! Record of a request while it is under way, for the access log.
//!
//! Where no log is kept this costs a look at a flag and two clocks.

use super::access::Entry;
use super::client::{Client, Spoken};
use super::core::{Shared, Target};
use hyper::Request;
use hyper::header::HOST;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use thermocline_units::Nanos;

/// Characters of a host or a path that are logged.
const TEXT_MAX: usize = 1024;

/// Record of a request.
pub(super) struct RequestRecord {
    head: Option<Box<Head>>,
    pub(super) tries: u32,
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) backend: Option<Arc<Target>>,
    /// The reason that the last try failed.
    cause: Option<String>,
}

/// Facts known when it comes; there when it will be logged.
struct Head {
    began: Nanos,
    client: IpAddr,
    method: String,
    host: String,
    path: String,
    protocol: &'static str,
}

fn short(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

impl RequestRecord {
    pub(super) fn new<B>(client: &Client, request: &Request<B>) -> RequestRecord {
        let shared = &client.thread.shared;
        let head = shared.log.is_on().then(|| {
            let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
            let host = host.or_else(|| request.uri().host()).unwrap_or_default();
            Box::new(Head {
                began: shared.now(),
                client: client.peer.ip().to_canonical(),
                method: request.method().to_string(),
                host: short(host),
                path: short(request.uri().path()),
                protocol: if client.spoken == Spoken::Http2 { "h2" } else { "http/1.1" },
            })
        });
        RequestRecord { head, tries: 0, status: 0, bytes: 0, backend: None, cause: None }
    }

    /// One of a stream of bytes.
    pub(super) fn tcp(shared: &Shared, client: IpAddr) -> RequestRecord {
        let head = shared.log.is_on().then(|| {
            Box::new(Head {
                began: shared.now(),
                client: client.to_canonical(),
                method: String::new(),
                host: String::new(),
                path: String::new(),
                protocol: "tcp",
            })
        });
        RequestRecord { head, tries: 0, status: 0, bytes: 0, backend: None, cause: None }
    }

    /// A try has failed there.
    pub(super) fn failed_at(&mut self, target: &Arc<Target>, cause: &str) {
        self.backend = Some(target.clone());
        self.cause = self.head.is_some().then(|| cause.to_string());
    }

    /// Takes note that it is over; `error` says why it went wrong, if it did.
    pub(super) fn end(&mut self, shared: &Shared, error: Option<&str>) {
        let Some(head) = self.head.take() else { return };
        let took = shared.now().saturating_sub(head.began);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        shared.log.write(&Entry {
            at_ms: (wall as u64).saturating_sub(took.0 / 1_000_000),
            client: head.client,
            method: &head.method,
            host: &head.host,
            path: &head.path,
            protocol: head.protocol,
            status: self.status,
            backend: self.backend.as_ref().map(|target| target.name.as_str()),
            tries: self.tries,
            bytes: self.bytes,
            took_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
            error,
            cause: self.cause.as_deref(),
        });
    }
}
