//! Reasons for which an engine cannot start, or cannot go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thermocline_volume::OpenError;

/// A reason that the engine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A unix socket cannot be made.
    #[error("cannot listen on {path}: {source}")]
    Listen {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A TCP address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    ListenTcp {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// Data would cross a network in the clear.
    #[error(
        "{0} can be reached from the network, and no certificate is configured; give one, or listen on 127.0.0.1"
    )]
    InTheClear(SocketAddr),
    /// The system refused to wait.
    #[error("the event loop cannot wait: {0}")]
    Wait(io::Error),
    /// The group is out of service.
    #[error("the volume group is out of service: {0}")]
    Group(OpenError),
}
