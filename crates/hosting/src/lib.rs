//! Content that hosts share, live: the storage server (`store`) and the agent of a host (`host`) as
//! processes. The machines are `thermocline_content` and `thermocline_hostcache`; here are their
//! sockets, clock and devices.
//!
//! ```text
//! NBD client ─ guests ─ Agent ─ line ═ TCP, TLS ═ line ─ Server ─ backing ─ Store ─ Disk
//!                         ║
//!               other hosts' agents
//! ```
//!
//! 1. `store`: hosts come in (`meeting`), their messages go to the server, its requests to the
//!    store through `backing`, which also carries out an administrator's orders.
//! 2. `host`: `clients` are NBD connections, `guests` makes whole blocks of their requests; the
//!    agent's messages go to the server and to other hosts.
//! 3. `line` is one connection, `ranges` who has which blocks, `routes` and `api` what
//!    administrators see.
//!
//! One thread has everything but the API, which reaches it by `mailbox`.

pub mod api;
mod backing;
mod clients;
mod config;
mod figures;
mod guests;
mod host;
mod line;
mod mailbox;
mod meeting;
mod ranges;
mod reminders;
mod routes;
mod store;

pub use config::{HostConfig, Keyed, Limits, Peer, STORE, StoreConfig};
pub use host::{FLASH_LABEL, HostAgent, HostApi, label_flash};
pub use meeting::MeetError;
pub use routes::{host_openapi, store_openapi};
pub use store::{StoreApi, StoreDevice, StoreServer, make_store};
pub use thermocline_admin::notes::Notes;

use thermocline_admin::http::{Http, HttpError, HttpListeners, serve};

use std::time::Instant;
use thermocline_hostcache::{Hash, SettingsError};
use thermocline_units::Nanos;

/// Reason why a storage server or an agent cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum HostingError {
    /// An address, or keys.
    #[error(transparent)]
    Meet(#[from] MeetError),
    /// A policy or one of its settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The store.
    #[error("{path}: {text}")]
    Store {
        /// Its device.
        path: String,
        /// The trouble.
        text: String,
    },
    /// A socket for NBD clients.
    #[error("cannot listen on {at}: {error}")]
    Nbd {
        /// Its address.
        at: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// Threads, random numbers, waiting.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// The time since a process began, as machines are told it.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn now(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).expect("584 years"))
    }
}

/// The hash that names content.
fn hash_of(bytes: &[u8]) -> Hash {
    thermocline_content::ContentId::of(bytes).0
}

/// Serves the API and the metrics of a storage server.
///
/// # Errors
/// As for [`thermocline_admin::http::serve`].
pub fn serve_store(listeners: HttpListeners, admin: StoreApi) -> Result<Http, HttpError> {
    serve(listeners, routes::of_store(admin))
}

/// Serves the API and the metrics of a host's agent.
///
/// # Errors
/// As for [`thermocline_admin::http::serve`].
pub fn serve_host(listeners: HttpListeners, admin: HostApi) -> Result<Http, HttpError> {
    serve(listeners, routes::of_host(admin))
}
