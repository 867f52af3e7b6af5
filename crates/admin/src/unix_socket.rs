//! Unix sockets by name: made for their owner alone, and never in place of anything but a socket
//! that is left over.
//!
//! 1. What stands under the name is looked at without following links. Nothing: good. Anything but
//!    a socket is somebody's, and is refused.
//! 2. A socket is tried. Only one that refuses connections is left over, and is removed; one that
//!    answers, or does not say, is refused.
//! 3. The socket is bound, given its mode, and listens only then: nobody else comes in between.
//! 4. The name goes with its [`SocketName`], unless something else has come to stand under it.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

/// Mode of a socket or a file that only its owner may use.
pub const OWNER_ONLY: u32 = 0o600;
/// Connections that may wait to be accepted; the kernel has a bound of its own.
const BACKLOG: i32 = 4096;

/// The name of a socket of ours; it is removed when this is dropped.
#[derive(Debug)]
pub struct SocketName {
    path: PathBuf,
    /// Device and inode of the socket.
    identity: (u64, u64),
}

impl SocketName {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn of(path: &Path) -> io::Result<SocketName> {
        Ok(SocketName { path: path.to_path_buf(), identity: identity(path)? })
    }
}

impl Drop for SocketName {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path); // What cannot be removed is left over.
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Listens for streams under a name, for the owner alone. Never blocks.
///
/// # Errors
/// When something stands there that is not left over, or the socket cannot be made.
pub fn listen(path: &Path) -> io::Result<(UnixListener, SocketName)> {
    let (socket, name) = bind(path, SocketType::STREAM, OWNER_ONLY)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok((UnixListener::from(socket), name))
}

/// Takes datagrams under a name.
///
/// # Errors
/// When something stands there that is not left over, or the socket cannot be made.
pub fn take_datagrams(path: &Path, mode: u32) -> io::Result<(UnixDatagram, SocketName)> {
    let (socket, name) = bind(path, SocketType::DGRAM, mode)?;
    let socket = UnixDatagram::from(socket);
    socket.set_nonblocking(false)?;
    Ok((socket, name))
}

/// A socket that does not listen yet, under a name.
fn bind(path: &Path, kind: SocketType, mode: u32) -> io::Result<(OwnedFd, SocketName)> {
    let address = SocketAddrUnix::new(path)?;
    clear(path, kind, &address)?;
    let socket = new(kind)?;
    rustix::net::bind(&socket, &address)?;
    let name = SocketName::of(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok((socket, name))
}

fn new(kind: SocketType) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, kind, flags, None)
}

/// Removes a socket that nobody listens on.
fn clear(path: &Path, kind: SocketType, address: &SocketAddrUnix) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?.file_type(),
    };
    if !found.is_socket() {
        let what = match found {
            found if found.is_file() => "a file",
            found if found.is_dir() => "a folder",
            found if found.is_symlink() => "a link",
            _ => "something else",
        };
        return Err(taken(format!(
            "{what} is there, and no socket; name another path, or move it away"
        )));
    }
    match connect(&new(kind)?, address) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        // It went away meanwhile.
        Err(Errno::NOENT) => Ok(()),
        // A full queue is somebody's, and so is a socket of another kind.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS | Errno::PROTOTYPE) => {
            Err(taken("somebody listens there already; stop that first".to_string()))
        }
        Err(errno) => Err(taken(format!("a socket is there that cannot be tried: {errno}"))),
    }
}

fn taken(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::AddrInUse, why)
}

#[cfg(test)]
mod tests;
