//! Configuration of a proxy: plain data, with the defaults and their reasons.
//!
//! What can change while it runs is in [`Live`]; the rest is fixed at the start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use thermocline_admin::tls::TlsFiles;
use thermocline_balancer::Settings;
use thermocline_policy::balance::DEFAULT;

/// Configuration of a proxy.
#[derive(Debug, Clone)]
pub struct Config {
    /// Addresses at which clients come in; at least one.
    pub listen: Vec<Listen>,
    /// Threads that proxy, at least 1.
    pub threads: usize,
    /// Connections of clients at the same time, of all threads; more wait to be accepted.
    pub connections_max: usize,
    /// Configuration that may change while it runs.
    pub live: Live,
}

/// An address at which clients come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Protocol spoken.
    pub mode: Mode,
    /// Encrypts.
    pub tls: Option<TlsFiles>,
}

/// Protocols that are proxied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// HTTP, request by request.
    Http,
    /// Bytes, connection by connection.
    Tcp,
}

/// Configuration that may change while a proxy runs.
#[derive(Debug, Clone)]
pub struct Live {
    /// The rule that picks, as `thermocline policies` names it.
    pub policy: String,
    /// Settings of the dispatcher.
    pub settings: Settings,
    /// Servers; at least one.
    pub backends: Vec<Backend>,
    /// Connections to servers.
    pub upstream: Upstream,
    /// Bounds on times.
    pub timeouts: Timeouts,
    /// Bounds on one client.
    pub limits: Limits,
    /// Headers that tell servers of clients.
    pub forwarded: Forwarded,
    /// Checks of servers; their times are in `settings.checks`.
    pub check: Check,
    /// Fetching of load reports; `None`: they come by header or push, or not at all.
    pub poll: Option<Poll>,
    /// Probes of servers for requests; `None`: there are none.
    pub probe: Option<Probe>,
    /// Destination of the access log.
    pub access_log: Option<AccessLog>,
}

/// A server.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// Its name, unique among the backends.
    pub name: String,
    /// `HOST:PORT`; a name is looked up for each connection.
    pub address: String,
    /// Speed relative to the others, above 0.
    pub weight: f64,
    /// Requests at the same time, at most.
    pub requests_max: u32,
}

/// Connections to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Encrypts.
    pub tls: Option<UpstreamTls>,
    /// Speaks HTTP/2, by ALPN over TLS, else with prior knowledge.
    pub http2: bool,
    /// Connections without a request that are kept for each server and thread.
    pub idle_max: usize,
    /// Time that one is kept.
    pub idle: Duration,
}

/// Bounds on one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most fields of a head, of clients and of servers. [`FIELDS_MAX`] is the cheapest.
    pub fields_max: usize,
    /// Most connections from one address at the same time.
    pub client_connections_max: usize,
}

/// Most fields of a head, when nothing is said: what hyper has room for without allocating.
pub const FIELDS_MAX: usize = 100;

/// Authorities to believe.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamTls {
    /// Authorities in PEM; `None`: the system's.
    pub authority: Option<PathBuf>,
    /// The name in the servers' certificates; `None`: their host.
    pub name: Option<String>,
}

/// Bounds on times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// From the first byte of a request's head to its last; a TLS handshake.
    pub header: Duration,
    /// A client's connection without a request.
    pub keep_alive: Duration,
    /// Longest time to connect to a server, handshakes included.
    pub connect: Duration,
    /// From the last byte sent to a server to the first of its answer.
    pub first_byte: Duration,
    /// The same, of a request that can be tried at another server; `None`: no less than others.
    pub each_try: Option<Duration>,
    /// Without a byte moving either way while bodies, tunnels or streams are under way.
    pub idle: Duration,
    /// A whole request, answer included; `None`: as long as it moves.
    pub request: Option<Duration>,
    /// For what is under way when the proxy stops.
    pub drain: Duration,
}

/// Headers that tell servers of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarded {
    /// `X-Forwarded-For` and `X-Forwarded-Proto` as this proxy sees them; what clients claim is
    /// dropped.
    Replace,
    /// The same, behind what came: another proxy of ours is in front.
    Append,
    /// Passes on what came.
    Keep,
}

/// Check of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// A path that is to be answered with 200 to 399; `None`: a connection will do.
    pub path: Option<String>,
    /// Longest time until an answer.
    pub timeout: Duration,
}

/// Fetching of load reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// The path that tells them.
    pub path: String,
    /// Time between two reports.
    pub interval: Duration,
}

/// Probes of servers, by rules that want them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The path that tells a server's load at this moment.
    pub path: String,
    /// Longest time until an answer; a request that awaits it waits no longer.
    pub timeout: Duration,
    /// Probes of one server at the same time; more are not sent.
    pub under_way_max: u32,
}

impl Probe {
    /// Defaults for this path: answers within 100 ms, 16 probes at the same time.
    pub fn new(path: &str) -> Probe {
        Probe { path: path.to_string(), timeout: Duration::from_millis(100), under_way_max: 16 }
    }
}

/// Destination of the access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessLog {
    /// Standard output.
    Stdout,
    /// The end of a file.
    File(PathBuf),
}

impl Default for Upstream {
    fn default() -> Upstream {
        Upstream { tls: None, http2: false, idle_max: 128, idle: Duration::from_secs(50) }
    }
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            header: Duration::from_secs(10),
            keep_alive: Duration::from_secs(75),
            connect: Duration::from_secs(2),
            first_byte: Duration::from_secs(60),
            each_try: None,
            idle: Duration::from_secs(60),
            request: None,
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { fields_max: FIELDS_MAX, client_connections_max: usize::MAX }
    }
}

impl Default for Check {
    fn default() -> Check {
        Check { path: None, timeout: Duration::from_secs(1) }
    }
}

impl Live {
    /// Defaults for these backends.
    pub fn new(backends: Vec<Backend>) -> Live {
        Live {
            policy: DEFAULT.to_string(),
            settings: Settings::default(),
            backends,
            upstream: Upstream::default(),
            timeouts: Timeouts::default(),
            limits: Limits::default(),
            forwarded: Forwarded::Replace,
            check: Check::default(),
            poll: None,
            probe: None,
            access_log: None,
        }
    }
}

impl Backend {
    /// A server at `HOST:PORT`, called so.
    pub fn new(address: &str) -> Backend {
        Backend {
            name: address.to_string(),
            address: address.to_string(),
            weight: 1.0,
            requests_max: u32::MAX,
        }
    }
}
