//! The pool of accelerators, live: network functions on slots, between two network interfaces.
//!
//! ```text
//! hosts ═ interface ─ side ─ classify ─ Platform ─ hop ─ side ─ interface ═ the world
//!                                        │    ▲
//!                                   work ▼    │ answers
//!                              a thread for each slot
//! ```
//!
//! The platform is `thermocline_accel`, the functions are `thermocline_functions`; here are their
//! sockets, threads and clock. `pool` is the one thread that has all state, `side` an interface,
//! `ethernet` what finds neighbours, `tenants` whose a packet is, `workers` the instances of
//! functions, `wishes` what administrators ask of the scheduler, `saved` and `kept` what survives a
//! restart, `past` the last five minutes. `routes` and `cyborg` are the API, `web/` is its page.
//!
//! IPv4 alone is carried. Functions run on threads of this process; there are no cards yet.

pub mod api;
mod config;
mod cyborg;
pub mod ethernet;
mod figures;
mod kept;
mod mailbox;
mod past;
mod pool;
mod routes;
pub mod saved;
mod side;
mod tenants;
mod wishes;
mod workers;

pub use config::{
    CardConfig, FUNCTIONS, NAME_BYTES_MAX, Network, PoolConfig, Rules, SCHEDULER, SLOTS_MAX,
    SideConfig, TENANTS_MAX, TenantConfig,
};
pub use pool::{OffloadError, Pool, PoolApi};
pub use routes::openapi;

use thermocline_admin::http::{Http, HttpError, HttpListeners, serve_apart};

/// Serves the API and the metrics of a pool: to the administrator over the unix socket, to tenants
/// and to the administrator over TCP, by their tokens.
///
/// # Errors
/// As for [`thermocline_admin::http::serve`].
pub fn serve_pool(listeners: HttpListeners, api: PoolApi) -> Result<Http, HttpError> {
    let token = listeners.tcp.as_ref().map(|listen| listen.token.clone()).unwrap_or_default();
    let (local, remote) = routes::of_pool(api, token);
    serve_apart(listeners, local, remote)
}
