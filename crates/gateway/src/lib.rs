//! A tunnel on the network: two gateways around a slow link.
//!
//! The *enter* stands near the clients: ports that lead to one server each, and SOCKS5. The *exit*
//! stands near the servers and connects to what its rules allow. One TLS 1.3 connection between
//! them carries all flows; both show a key that the other one was told.
//!
//! ```text
//! client ─TCP─► enter: relay ─ hub (End) ─ link
//!                                          ║ TLS
//! server ◄─TCP─ exit:  relay ─ hub (End) ─ link
//! ```
//!
//! 1. `hub`: the `End` of a connection, shared by the link and all clients of one thread.
//! 2. `link`: the connection's bytes. `relay`: a client's, or a server's.
//! 3. `enter`, `exit`: who comes in, where flows go, what happens when the other end is not there.
//! 4. `accelerator`: a worker process that cuts content, killed and started again when it fails.
//! 5. `keep`: caches that outlive the process. `disk`: chunks for which memory has no room. `keys`,
//!    `address` (rules), [`socks5`], `status`, `config`, `threads` (for what blocks): what their
//!    names say.
//!
//! Promises: a client gets the very bytes of its server up to an end that the server said, or an
//! error; memory is bounded; a client that does not read holds no other one up; who has not shown a
//! known key holds a place for seconds at most.

mod accelerator;
mod address;
pub mod admin;
mod codes;
mod config;
mod core;
mod disk;
mod enter;
mod exit;
mod hub;
mod keep;
mod keys;
mod link;
mod relay;
mod running;
pub mod socks5;
mod status;
mod strangers;
mod threads;

pub use address::{AddressError, Host, HostPort, NAME_BYTES_MAX, Rule};
pub use config::{
    Common, EnterConfig, Event, ExitConfig, Limits, OnEvent, Severity, WhenDown, Worker,
};
pub use disk::DiskTier;
pub use keep::KeepError;
pub use keys::{
    Fingerprint, KeyError, KeyFiles, Keys, Made, SERVER_NAME, explain as explain_handshake,
    make as make_keys, met as shown_key,
};
pub use running::{Gateway, StartError, View};
pub use status::{AcceleratorStatus, ClassStatus, DiskStatus, FlowStatus, LinkStatus, Status};
pub use strangers::{Stranger, Strangers};
