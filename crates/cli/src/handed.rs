//! Listening sockets that a service manager has handed over (`thermocline.socket`).
//!
//! The configuration says where clients come in, with which tokens and certificates. A socket that
//! is handed over stands for the configured listener of the same address, which is then not opened
//! anew. Clients wait in the socket's queue while the engine starts, and while another version
//! takes its place. A socket whose address is not configured is refused: nobody has said what may
//! come in there.

use crate::config::Config;
use crate::error::CliError;
use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use thermocline_ports_os::handed;

/// Sockets that have no user yet.
#[derive(Debug, Default)]
pub(crate) struct HandedSockets {
    unix: Vec<(PathBuf, UnixListener)>,
    tcp: Vec<(SocketAddr, TcpListener)>,
}

impl HandedSockets {
    /// Takes what was handed over to this process.
    ///
    /// # Errors
    /// When something is no stream socket that listens under a path or an address.
    pub(crate) fn take() -> Result<HandedSockets, CliError> {
        let mut sockets = HandedSockets::default();
        for handed::Handed { name, socket } in handed::take().map_err(CliError::failed)? {
            sockets.add(socket).map_err(|problem| {
                CliError::failed(format!(
                    "the service manager has handed over `{name}`, and it cannot be used: {problem}"
                ))
            })?;
        }
        Ok(sockets)
    }

    fn add(&mut self, socket: OwnedFd) -> Result<(), String> {
        let text = |error: rustix::io::Errno| error.to_string();
        let is_stream = socket_type(&socket).map_err(text)? == SocketType::STREAM;
        if !is_stream || !socket_acceptconn(&socket).map_err(text)? {
            return Err("not a stream socket that listens (ListenStream=)".to_string());
        }
        let system = |error: std::io::Error| error.to_string();
        if socket_domain(&socket).map_err(text)? == AddressFamily::UNIX {
            let listener = UnixListener::from(socket);
            let address = listener.local_addr().map_err(system)?;
            let path = address.as_pathname().ok_or("it has no path")?.to_path_buf();
            self.unix.push((path, listener));
        } else {
            let listener = TcpListener::from(socket);
            let address = listener.local_addr().map_err(system)?;
            self.tcp.push((address, listener));
        }
        Ok(())
    }

    /// True if a listener at `path` was handed over, and has no user yet.
    pub(crate) fn has_unix(&self, path: &Path) -> bool {
        self.unix.iter().any(|(handed, _)| is_same(handed, path))
    }

    /// True if a listener at `address` was handed over, and has no user yet.
    pub(crate) fn has_tcp(&self, address: SocketAddr) -> bool {
        self.tcp.iter().any(|(handed, _)| *handed == address)
    }

    /// The listener at `path`, if it was handed over.
    pub(crate) fn unix(&mut self, path: &Path) -> Option<UnixListener> {
        let at = self.unix.iter().position(|(handed, _)| is_same(handed, path))?;
        Some(self.unix.swap_remove(at).1)
    }

    /// The listener at `address`, if it was handed over.
    pub(crate) fn tcp(&mut self, address: SocketAddr) -> Option<TcpListener> {
        let at = self.tcp.iter().position(|(handed, _)| *handed == address)?;
        Some(self.tcp.swap_remove(at).1)
    }

    /// Checks that all addresses are configured, and each but once.
    ///
    /// # Errors
    /// When one is not.
    pub(crate) fn check(&self, config: &Config) -> Result<(), CliError> {
        let (mut paths, mut addresses) =
            (vec![&config.nbd.socket, &config.http.socket], config.nbd.tcp.clone());
        addresses.extend(config.http.tcp.as_ref().map(|(address, _)| *address));
        let unknown = |at: String| {
            CliError::input(format!(
                "the service manager has handed over a socket at {at}, which is not configured; \
                 name the same address under [nbd] or [http] and in the socket unit"
            ))
        };
        for (path, _) in &self.unix {
            let known = paths.iter().position(|configured| is_same(path, configured));
            paths.remove(known.ok_or_else(|| unknown(path.display().to_string()))?);
        }
        for (address, _) in &self.tcp {
            let known = addresses.iter().position(|configured| configured == address);
            addresses.remove(known.ok_or_else(|| unknown(address.to_string()))?);
        }
        Ok(())
    }
}

/// True if two paths name one socket, by whatever links.
fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    matches!((real(a), real(b)), (Ok(a), Ok(b)) if a == b)
}
