//! Settings of a gateway: plain data.

use crate::address::{HostPort, Rule};
use crate::disk::DiskTier;
use crate::keys::KeyFiles;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thermocline_tunnel::Sharing;
use thermocline_units::Bytes;

/// The treatment of clients while the other end is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenDown {
    /// They are refused.
    #[default]
    Refuse,
    /// They are connected to their server directly.
    Pass,
}

impl std::fmt::Display for WhenDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            WhenDown::Refuse => "refuse",
            WhenDown::Pass => "pass",
        })
    }
}

/// Bounds, each with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Clients of an enter, servers of an exit, at once; 1,024, at most 2,048.
    pub clients_max: usize,
    /// Connections at once that have not shown their key; 64. One address gets an eighth of them.
    pub strangers_max: usize,
    /// Time for TCP, and again for TLS, between ends; 10 s.
    pub handshake_within: Duration,
    /// Time for an exit to find and reach a server; 10 s.
    pub connect_within: Duration,
    /// Time for a client's words of SOCKS; 10 s.
    pub socks5_within: Duration,
    /// Longest time between tries to reach the other end; 10 s.
    pub back_off_max: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        let ten = Duration::from_secs(10);
        Limits {
            clients_max: 1024,
            strangers_max: 64,
            handshake_within: ten,
            connect_within: ten,
            socks5_within: ten,
            back_off_max: ten,
        }
    }
}

/// A worker process that cuts content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// The program.
    pub program: PathBuf,
    /// Arguments before those that every worker gets.
    pub arguments: Vec<OsString>,
    /// Longest time from a job to its answer; 1 s.
    pub patience: Duration,
    /// Shorter pieces of a flow are cut by this processor; 16 KiB.
    pub least: Bytes,
    /// One chunk in so many is cut again to check an answer; 8. 1: all of them.
    pub check_one_in: u64,
}

impl Worker {
    /// A program with the defaults.
    pub fn new(program: PathBuf) -> Worker {
        let (patience, least) = (Duration::from_secs(1), Bytes::from_kib(16));
        Worker { program, arguments: Vec::new(), patience, least, check_one_in: 8 }
    }
}

/// Settings that both kinds of gateway have.
pub struct Common {
    /// Keys.
    pub keys: KeyFiles,
    /// Bytes of the cache; an exit has one for each key that it meets.
    pub cache: Bytes,
    /// A folder in which caches outlive a stop; `None`: every start begins with empty ones.
    pub keep: Option<PathBuf>,
    /// Room for chunks that memory gives up; `None`: they are forgotten.
    pub disk: Option<DiskTier>,
    /// The controller, by its name in the registry.
    pub policy: String,
    /// A worker that cuts content; `None`: this processor does.
    pub worker: Option<Worker>,
    /// Time that a client's bytes wait for more; 1 ms.
    pub linger: Duration,
    /// Bounds.
    pub limits: Limits,
    /// Is told what happens.
    pub on_event: OnEvent,
}

impl Common {
    /// The defaults.
    pub fn new(keys: KeyFiles) -> Common {
        Common {
            keys,
            cache: Bytes::from_mib(256),
            keep: None,
            disk: None,
            policy: thermocline_policy::tunnel::DEFAULT.to_string(),
            worker: None,
            linger: Duration::from_millis(1),
            limits: Limits::default(),
            on_event: Arc::new(|_| ()),
        }
    }
}

/// Settings of the end near the clients.
pub struct EnterConfig {
    /// Settings that both have.
    pub common: Common,
    /// The exit.
    pub to: HostPort,
    /// Addresses where clients come in, each with the address it leads to.
    pub forward: Vec<(SocketAddr, HostPort)>,
    /// Addresses where clients come in that name their destination themselves.
    pub socks5: Vec<SocketAddr>,
    /// Addresses to which the system brings clients that want to go elsewhere (TPROXY); needs
    /// CAP_NET_ADMIN.
    pub transparent: Vec<SocketAddr>,
    /// The treatment of clients while the exit is not there.
    pub when_down: WhenDown,
    /// Flows that may find each other's chunks.
    pub sharing: Sharing,
}

/// Settings of the end near the servers.
pub struct ExitConfig {
    /// Settings that both have.
    pub common: Common,
    /// Address where the other ends come in.
    pub listen: SocketAddr,
    /// Targets that may be connected to; none: nothing may.
    pub allow: Vec<Rule>,
}

/// Importance of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// For the record.
    Info,
    /// Somebody may want to look.
    Warning,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its importance.
    pub severity: Severity,
    /// Its subject: `link`, or a client.
    pub subject: String,
    /// The event in words, with what to do about it.
    pub text: String,
}

/// Is told what happens, on the gateway's thread: it must not block.
pub type OnEvent = Arc<dyn Fn(Event) + Send + Sync>;
