//! Hints from programs themselves: datagrams of the preloaded library (`docs/formats/advice.md`).
//!
//! 1. A thread takes datagrams as they come, since the kernel holds few of them, and puts them in
//!    a queue of [`WAITING_MAX`]. What there is no room for is counted.
//! 2. A descriptor that came along is opened anew, and given up: it shares its position and its
//!    locks with the program's.
//! 3. What a program said is put into the words of hints by [`hint_of`], over what holds anyway.
//!
//! The kernel names the sending process, not the datagram. Who may send is decided by the socket's
//! permissions, or by who knows its path. State: a descriptor a waiting datagram.

use crate::HintError;
use rustix::fs::OFlags;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred,
};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use thermocline_admin::secret;
use thermocline_admin::unix_socket::{OWNER_ONLY, SocketName, take_datagrams};
use thermocline_advice::{Advice, DATAGRAM_BYTES, Datagram, Hint, Priority, Said};
use thermocline_engine::api::NewHint;
use thermocline_policy::hints::{Life, Usage};

/// Datagrams that wait in the queue; with the files that do, below the usual bound on descriptors.
const WAITING_MAX: usize = 128;
/// Time that messages on their way are waited for, at the end.
const PATIENCE: Duration = Duration::from_secs(1);

/// A message of a program.
pub struct Received {
    /// The process.
    pub process: i32,
    /// The file that is meant; `None`: the program itself, or what cannot be read.
    pub file: Option<OwnedFd>,
    /// True if the program may write it.
    pub may_write: bool,
    /// The message.
    pub datagram: Datagram,
}

/// A socket for datagrams; it goes away when dropped.
pub struct AdviceSocket {
    path: PathBuf,
    /// Taken only when all is over.
    name: Option<SocketName>,
    /// Its folder, when it was made for it.
    folder: Option<PathBuf>,
    received: Receiver<Received>,
    lost: Arc<AtomicU64>,
}

impl AdviceSocket {
    /// Listens at a path, for its owner alone. A socket there to which nobody listens is replaced.
    ///
    /// # Errors
    /// When the socket cannot be made, or something else is there.
    pub fn at(path: &Path) -> Result<AdviceSocket, HintError> {
        AdviceSocket::with(path, None, OWNER_ONLY)
    }

    /// Listens at a path of its own, for whoever is told of it: programs that are started may go on
    /// under another user. The path cannot be guessed, and its folder cannot be listed.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn anywhere() -> Result<AdviceSocket, HintError> {
        let failed = |path: &Path, error| HintError::Failed(format!("{}: {error}", path.display()));
        let random = secret::random_bytes::<16>();
        let random = random.map_err(|error| HintError::Failed(error.to_string()))?;
        let secret = u128::from_ne_bytes(random);
        let number = std::process::id();
        let name = format!("thermocline-run-{number}-{:08x}", secret as u32);
        let folder = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o711).create(&folder);
        made.map_err(|error| failed(&folder, error))?;
        let path = folder.join(format!("{:024x}", secret >> 32));
        AdviceSocket::with(&path, Some(folder), 0o622)
    }

    fn with(path: &Path, folder: Option<PathBuf>, mode: u32) -> Result<AdviceSocket, HintError> {
        let failed = |error: io::Error| HintError::Failed(format!("{}: {error}", path.display()));
        let (socket, name) = take_datagrams(path, mode).map_err(failed)?;
        let (send, received) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let path = path.to_path_buf();
        let made = AdviceSocket { path, name: Some(name), folder, received, lost: lost.clone() };
        set_socket_passcred(&socket, true).map_err(|errno| failed(errno.into()))?;
        let listen = move || listen(&socket, &send, &lost);
        std::thread::Builder::new().name("advice".to_string()).spawn(listen).map_err(failed)?;
        Ok(made)
    }

    /// Path of the socket, for [`thermocline_advice::SOCKET_VARIABLE`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Messages that have come since.
    pub fn received(&self) -> impl Iterator<Item = Received> {
        self.received.try_iter()
    }

    /// Messages that have come since, and those still on their way: everything that was said before
    /// the call.
    pub fn drain(&self) -> Vec<Received> {
        let mut all = Vec::new();
        let said = Said::Priority(Priority::None);
        let mark = Datagram { offset: 0, length: 0, unsent: 0, said }.encode();
        let us = std::process::id() as i32;
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.send_to(&mark, &self.path)
        });
        // The mark may be lost where others go on to send more than is taken.
        let until = Instant::now() + PATIENCE;
        let left = || until.saturating_duration_since(Instant::now());
        while let (Ok(_), Ok(one)) = (&sent, self.received.recv_timeout(left())) {
            if one.process == us {
                break;
            }
            all.push(one);
        }
        all
    }

    /// Datagrams that were lost, here or on the way.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for AdviceSocket {
    /// The thread stays in its call; it ends with the process.
    fn drop(&mut self) {
        drop(self.name.take());
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Takes datagrams until nobody wants them any more.
fn listen(socket: &UnixDatagram, send: &SyncSender<Received>, lost: &AtomicU64) {
    // An error of the socket itself does not go away.
    while let Ok(came) = receive(socket) {
        let Some(message) = came else { continue };
        lost.fetch_add(message.datagram.unsent.into(), Ordering::Relaxed);
        match send.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => _ = lost.fetch_add(1, Ordering::Relaxed),
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

/// The next datagram; `None`: it was none.
fn receive(socket: &UnixDatagram) -> io::Result<Option<Received>> {
    let mut bytes = [0; DATAGRAM_BYTES + 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let count = match recvmsg(socket, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC) {
        Ok(came) => came.bytes,
        Err(rustix::io::Errno::INTR) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let (mut process, mut came) = (None, None);
    for message in beside.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(files) => came = files.last(),
            RecvAncillaryMessage::ScmCredentials(who) => process = Some(who.pid.as_raw_pid()),
            _ => {}
        }
    }
    let Ok(datagram) = Datagram::decode(&bytes[..count]) else { return Ok(None) };
    let Some(process) = process else { return Ok(None) };
    let flags = came.as_ref().and_then(|file| rustix::fs::fcntl_getfl(file).ok());
    let may_write = flags.is_some_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR));
    let file = came.and_then(opened_anew);
    Ok(Some(Received { process, file, may_write, datagram }))
}

/// A descriptor of our own of a regular file; nothing else is opened.
fn opened_anew(file: OwnedFd) -> Option<OwnedFd> {
    let file = File::from(file);
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok().map(OwnedFd::from)
}

/// Hint that follows from a program's advice on a file, over what holds anyway; `None`: nothing
/// follows from it.
pub fn hint_of(said: Said, may_write: bool, anyway: NewHint) -> Option<NewHint> {
    let used = |usage: Usage| Some(usage.name().to_string());
    let life = |number: u8| Life::ALL.get(usize::from(number)).map(|life| life.name().to_string());
    // What nobody waits for is not fetched.
    let prefetch = anyway.background_ms.is_none();
    let calm = NewHint { prefetch: false, ..anyway.clone() };
    Some(match said {
        Said::Priority(_) => return None,
        Said::Advice(Advice::Normal) => calm,
        Said::Advice(Advice::Sequential) if may_write => {
            NewHint { usage: used(Usage::SequentialWrite), ..calm }
        }
        // Reading from front to back is what slow pools do well.
        Said::Advice(Advice::Sequential) => calm,
        Said::Advice(Advice::Random) if may_write => {
            NewHint { usage: used(Usage::RandomWrite), ..calm }
        }
        Said::Advice(Advice::Random) => NewHint { usage: used(Usage::ReadIntensive), ..calm },
        Said::Advice(Advice::WillNeed) | Said::ReadAhead => NewHint { prefetch, ..anyway },
        Said::Advice(Advice::DontNeed) => NewHint { demote: true, ..calm },
        Said::Advice(Advice::NoReuse) => NewHint { usage: used(Usage::Archival), ..calm },
        Said::Life(number) => NewHint { life: life(number), ..calm },
        Said::Hint(hint) => own_words(&hint, anyway),
    })
}

/// Hint of a program in hints' words, over what it does not contradict.
fn own_words(said: &Hint, anyway: NewHint) -> NewHint {
    let usage = Usage::ALL.get(usize::from(said.usage)).filter(|usage| **usage != Usage::Unknown);
    let life = Life::ALL.get(usize::from(said.life)).filter(|life| **life != Life::NotSet);
    let expires = (said.expires_ms > 0).then_some(said.expires_ms as f64 / 1e3);
    let wait = (said.background_ms > 0).then_some(said.background_ms);
    NewHint {
        metadata: said.metadata || anyway.metadata,
        pin: said.pin || anyway.pin,
        demote: said.demote || anyway.demote,
        prefetch: said.prefetch,
        stream: if said.stream == 0 { anyway.stream } else { said.stream },
        usage: usage.map(|usage| usage.name().to_string()).or(anyway.usage),
        life: life.map(|life| life.name().to_string()).or(anyway.life),
        background_ms: wait.or(anyway.background_ms),
        expires_seconds: expires.or(anyway.expires_seconds),
        ..anyway
    }
}

#[cfg(test)]
mod tests;
