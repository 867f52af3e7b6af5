//! Another process takes over: an upgrade of the program, or of what only changes at a start.
//!
//! On SIGUSR2 the running balancer starts its program anew, with the arguments that it was started
//! with itself, and hands its listening sockets over. Both processes then have the same sockets, so
//! no connection is refused and none is lost in between:
//!
//! 1. The new process gets one end of a socket pair as its standard input, and the listening
//!    sockets through it (`SCM_RIGHTS`). What is known of servers is in a variable.
//! 2. It reads its configuration, accepts clients, and says so.
//! 3. The old one closes its API, says so, stops accepting, lets what is under way finish, and
//!    ends. The new one opens the API.
//!
//! A new process that does not get as far as step 2 within [`PATIENCE`] is ended, and the old one
//! goes on as if nothing had been asked.

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Tells a new process that its standard input is a socket, and which process it follows.
const VARIABLE: &str = "THERMOCLINE_BALANCE_FOLLOWS";
/// State of the servers, as the old process saw them. A variable, because a program of another
/// version that does not know it starts all the same.
const MEMORIES: &str = "THERMOCLINE_BALANCE_MEMORIES";
/// Longest time until the new process is up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Most listening sockets that are handed over; more than the kernel takes in one message.
const SOCKETS_MAX: usize = 253;
/// Message of the old process with the sockets, of the new one when it serves, and of the old one
/// when its API is closed.
const SOCKETS: u8 = b'L';
const SERVING: u8 = b'S';
const FREE: u8 = b'F';

/// The old process, as the new one sees it.
pub(super) struct Predecessor {
    stream: UnixStream,
    /// Its number, for people.
    pub(super) process: String,
    /// Its knowledge of the servers, where it has told it.
    pub(super) memories: Option<String>,
}

/// The new process, as the old one sees it.
pub(super) struct Successor {
    stream: UnixStream,
    /// Its number, for people.
    pub(super) process: u32,
}

/// The listening sockets that another process has left to this one, if it was started so.
///
/// # Errors
/// When the sockets do not come.
pub(super) fn inherit() -> io::Result<Option<(Predecessor, Vec<TcpListener>)>> {
    let Some(process) = std::env::var_os(VARIABLE) else { return Ok(None) };
    let process = process.to_string_lossy().into_owned();
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0];
    let slices = &mut [IoSliceMut::new(&mut word)];
    recvmsg(&stream, slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut listeners = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(sockets) = message {
            listeners.extend(sockets.map(TcpListener::from));
        }
    }
    if word != [SOCKETS] || listeners.is_empty() {
        let text = format!("process {process} handed no listening sockets over");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let memories = std::env::var(MEMORIES).ok();
    Ok(Some((Predecessor { stream, process, memories }, listeners)))
}

impl Predecessor {
    /// Says that this process accepts clients now, and waits until the API is free.
    pub(super) fn take_over(mut self) -> io::Result<()> {
        self.stream.write_all(&[SERVING])?;
        expect(&mut self.stream, FREE)
    }
}

/// Starts this program anew, with these sockets and this knowledge; returns when it accepts clients
/// on them.
///
/// # Errors
/// When it cannot be started, or ends or is silent before it serves.
pub(super) fn start(listeners: &[TcpListener], memories: &str) -> io::Result<Successor> {
    let (stream, other) = UnixStream::pair()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut arguments = std::env::args_os();
    let none = || io::Error::new(io::ErrorKind::NotFound, "the program's name is not known");
    let mut child = Command::new(arguments.next().ok_or_else(none)?)
        .args(arguments)
        .env(VARIABLE, std::process::id().to_string())
        .env(MEMORIES, memories)
        .stdin(Stdio::from(OwnedFd::from(other)))
        .spawn()?;
    let started = hand_over(&stream, listeners).and_then(|()| expect(&mut &stream, SERVING));
    match started {
        Ok(()) => Ok(Successor { stream, process: child.id() }),
        Err(error) => Err(give_up(&mut child, error)),
    }
}

fn hand_over(stream: &UnixStream, listeners: &[TcpListener]) -> io::Result<()> {
    let sockets: Vec<_> = listeners.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many listening sockets"));
    }
    sendmsg(stream, &[IoSlice::new(&[SOCKETS])], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn expect(stream: &mut impl Read, wanted: u8) -> io::Result<()> {
    let mut word = [0];
    stream.read_exact(&mut word)?;
    if word == [wanted] {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the other process says something else"))
}

/// Ends a process that did not come up; what is known of its trouble.
fn give_up(child: &mut Child, error: io::Error) -> io::Error {
    // One that has ended by itself has said why on standard error.
    let _ = child.kill();
    match child.wait() {
        Ok(status) => io::Error::new(error.kind(), format!("the new process ended ({status})")),
        Err(_) => error,
    }
}

impl Successor {
    /// Says that the API is free.
    pub(super) fn release(mut self) {
        // Should the new process have ended, nothing is left to be said.
        let _ = self.stream.write_all(&[FREE]);
    }
}
