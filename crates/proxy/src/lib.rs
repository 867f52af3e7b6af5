//! The proxy: HTTP/1.1, HTTP/2 and TCP in front of servers, on hyper and tokio.
//!
//! Which server gets a request is decided by the dispatcher machine (`thermocline_balancer`), which
//! holds the same `policy::balance` objects as the laboratory. Here is what the machine may not
//! have: sockets, clocks, threads. Start at [`Proxy`]; `exchange` is the way of a request, `front`
//! clients' connections, `streams` those of HTTP/2, `upstream` servers', `core` what threads share,
//! `upkeep` what happens by the clock, `probing` what is asked of servers beside the requests,
//! `admin` what an administrator may ask.
//!
//! Not here: the configuration's text, which is the command line's.

mod access;
mod admin;
mod answer;
pub mod api;
mod client;
pub mod config;
mod core;
mod crowd;
mod deadlines;
mod exchange;
mod figures;
mod front;
mod headers;
mod inbound;
mod interim;
mod memory;
mod outgoing;
mod probing;
mod proxy;
pub mod report;
mod request_record;
mod routes;
mod stream;
mod streams;
mod trust;
mod tunnel;
mod upkeep;
mod upload;
mod upstream;

pub use admin::AdminApi;
pub use proxy::{BalanceError, Proxy};
pub use routes::openapi;

use std::sync::Arc;
use thermocline_admin::http::{Http, HttpError, HttpListeners, serve};

/// Serves the API, the metrics and the dashboard of a balancer.
///
/// # Errors
/// As for [`thermocline_admin::http::serve`].
pub fn serve_admin(listeners: HttpListeners, admin: Arc<AdminApi>) -> Result<Http, HttpError> {
    serve(listeners, routes::router(admin))
}
