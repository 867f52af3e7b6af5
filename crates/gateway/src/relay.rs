//! Between a socket and a flow, both ways.
//!
//! - A half that ends is told on as such; the other one goes on.
//! - A socket is closed when both halves have ended. Nothing lies unread in it then, so nothing
//!   that was sent is taken back.
//! - A flow that was cut ends in a reset of the socket: who reads it gets an error, never an end
//!   that looks like the end of the bytes. Sockets are set so from the start (SO_LINGER 0), and set
//!   back when both halves have ended: so it holds when this process is killed, too.

use crate::codes;
use crate::core::Core;
use crate::hub::{Cut, Flow, Pulled};
use futures_util::future::{Either, select};
use rustix::net::{Shutdown, sockopt};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time without a word after which a client or server is asked whether it is still there.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(60);
/// Time between such questions, and how many may go unanswered.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TRIES: u32 = 6;
/// Reads in a row before others have their turn.
const PULLS_MAX: u32 = 16;
/// Bytes after the other side spoke that are an answer or a request, which does not wait for more
/// to come; and how many pieces of it.
const PROMPT_BYTES_MAX: usize = 16 * 1024;
const PROMPT_PIECES_MAX: u32 = 4;

/// First byte from the exit of each flow: the server is there.
pub(crate) const CONNECTED: u8 = 0;

/// A reason that a flow did not come to its end.
#[derive(Debug)]
pub(crate) enum Broken {
    /// On the tunnel's side.
    Flow(Cut),
    /// On the socket's.
    Socket(io::Error),
}

impl From<Cut> for Broken {
    fn from(cut: Cut) -> Broken {
        Broken::Flow(cut)
    }
}

/// Sets what every socket of a client or server has.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_linger(stream, Some(Duration::ZERO))?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_EVERY)?;
    Ok(sockopt::set_tcp_keepcnt(stream, KEEP_ALIVE_TRIES)?)
}

/// Has the system deliver what was written when the socket is closed, as it does by default.
pub(crate) fn settle(stream: &TcpStream) {
    // It fails for a socket that is gone already.
    let _ = sockopt::set_socket_linger(stream, None);
}

/// Waits for the exit to say that the server is there.
pub(crate) async fn word(flow: &Flow) -> Result<(), Cut> {
    match flow.next().await? {
        Some(mut bytes) if bytes[0] == CONNECTED => {
            let rest = bytes.split_off(1);
            flow.put_back(rest);
            flow.taken(1);
            Ok(())
        }
        _ => Err(Cut::Reset(codes::FAILED)),
    }
}

/// Says that the server is there.
pub(crate) async fn say_word(flow: &Flow) -> Result<(), Cut> {
    flow.give(&[CONNECTED]).await?;
    flow.flush();
    Ok(())
}

/// Relays until both sides have said their last byte; then the socket is closed. If that does not
/// come about, both sides are reset. `awaits_word`: the exit's first byte has not come yet.
pub(crate) async fn relay(
    stream: TcpStream,
    flow: Flow,
    core: &Core,
    awaits_word: bool,
) -> Result<(), Broken> {
    // Whoever speaks first is not answering, but is waited for.
    let is_asked = AtomicBool::new(true);
    let down = async {
        if awaits_word {
            word(&flow).await?;
        }
        to_socket(&stream, &flow, &is_asked).await
    };
    let up = to_flow(&stream, &flow, core, &is_asked);
    match both(up, down, &flow).await {
        Ok(()) => {
            settle(&stream);
            flow.finish();
            Ok(())
        }
        Err(broken) => {
            flow.reset(codes::BROKEN_OFF);
            Err(broken)
        }
    }
}

/// Waits until both directions have ended, or the flow is cut. Bytes for the socket look for that
/// themselves; when there are no more, the socket may be silent for as long as it likes.
async fn both(
    up: impl Future<Output = Result<(), Broken>>,
    down: impl Future<Output = Result<(), Broken>>,
    flow: &Flow,
) -> Result<(), Broken> {
    match select(pin!(up), pin!(down)).await {
        Either::Left((up, down)) => {
            up?;
            down.await
        }
        Either::Right((down, up)) => {
            down?;
            match select(up, pin!(flow.gone())).await {
                Either::Left((up, _)) => up,
                Either::Right((cut, _)) => Err(Broken::Flow(cut)),
            }
        }
    }
}

/// A client's bytes on their way to the other end. `is_asked`: the other side has spoken since this
/// one was last read.
///
/// Bytes go at once when a turn is over: the socket has no more, and few came since the other side
/// spoke. Longer streams wait a little for more, because each pause cuts a chunk.
async fn to_flow(
    stream: &TcpStream,
    flow: &Flow,
    core: &Core,
    is_asked: &AtomicBool,
) -> Result<(), Broken> {
    // Bytes wait for more to come, and were not told to go.
    let mut lingers = flow.is_pending();
    let mut pulls = 0;
    let (mut said, mut pieces_left) = (0, PROMPT_PIECES_MAX);
    loop {
        let more = async {
            flow.room().await?;
            stream.readable().await.map_err(Broken::Socket)
        };
        if lingers {
            flow.while_cut().await?;
            match timeout(core.linger, more).await {
                Ok(more) => more?,
                Err(_) => {
                    core.lingered.fetch_add(1, Relaxed);
                    flow.flush();
                    lingers = false;
                    continue;
                }
            }
        } else {
            more.await?;
        }
        match flow.pull(stream)?.map_err(Broken::Socket)? {
            Pulled::Bytes(length) => {
                if is_asked.swap(false, Relaxed) {
                    (said, pieces_left) = (0, PROMPT_PIECES_MAX);
                }
                said += length;
                lingers = flow.is_pending();
            }
            Pulled::Nothing if lingers && said <= PROMPT_BYTES_MAX && pieces_left > 0 => {
                pieces_left -= 1;
                flow.flush();
                lingers = false;
            }
            Pulled::Nothing => {}
            Pulled::End => {
                flow.end();
                return Ok(());
            }
        }
        pulls += 1;
        if pulls % PULLS_MAX == 0 {
            tokio::task::yield_now().await;
        }
    }
}

async fn to_socket(stream: &TcpStream, flow: &Flow, is_asked: &AtomicBool) -> Result<(), Broken> {
    while let Some(bytes) = flow.next().await? {
        let mut written = 0;
        while written < bytes.len() {
            // A socket that takes nothing is not to hide that the flow is cut.
            match select(pin!(stream.writable()), pin!(flow.gone())).await {
                Either::Left((writable, _)) => writable.map_err(Broken::Socket)?,
                Either::Right((cut, _)) => return Err(Broken::Flow(cut)),
            }
            match stream.try_write(&bytes[written..]) {
                Ok(length) => written += length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(Broken::Socket(error)),
            }
        }
        is_asked.store(true, Relaxed);
        flow.taken(bytes.len());
    }
    match rustix::net::shutdown(stream, Shutdown::Write) {
        // It has gone, which the other half finds out.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(Broken::Socket(errno.into())),
    }
}

/// Passes bytes between two sockets, without a tunnel.
pub(crate) async fn pass(mut one: TcpStream, mut other: TcpStream) -> io::Result<()> {
    tokio::io::copy_bidirectional(&mut one, &mut other).await?;
    settle(&one);
    settle(&other);
    Ok(())
}
