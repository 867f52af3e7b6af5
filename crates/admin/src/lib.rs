//! Administration of a running program: an HTTP API on a thread of its own, metrics, a dashboard,
//! events, and a client for the command line.
//!
//! Nothing here knows what is administered: the engine, the proxy, a tunnel's end, a storage server
//! and a host's agent bring their own routes, and share the words (`api`), the listeners and tokens
//! (`http`), the text format (`metrics`), the last minutes (`past`), files that are replaced as a
//! whole (`files`), random bytes (`secret`), certificates (`tls`) and unix sockets (`unix_socket`).

pub mod api;
pub mod client;
pub mod files;
pub mod http;
pub mod metrics;
pub mod notes;
pub mod past;
pub mod secret;
pub mod tls;
pub mod unix_socket;
