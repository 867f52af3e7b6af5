//! One connection between two machines, live: bytes of a `Link` to a socket and back.
//!
//! Whoever owns the machines puts messages in with [`Line::send`], and takes them out in `heard`.
//! All tasks of a process run on one thread; nothing is borrowed across an `await`.

use super::Clock;
use bytes::Bytes;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use thermocline_hostcache::{HostId, Link, LinkError, Message, QUEUED_BYTES_MAX};
use thermocline_units::Nanos;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Bytes that are taken from a socket, and given to it, at once.
const PART_BYTES: usize = 256 * 1024;
/// Time in which the other end must take what it is sent.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// Bytes that may wait to be sent before the owner is to say no more.
pub(super) const WAITING_BYTES_MAX: usize = 8 << 20;
const _: () = assert!(WAITING_BYTES_MAX < QUEUED_BYTES_MAX / 2, "nobody is given up for it");
/// Longest time between looks at the clock.
const GLANCE: Duration = Duration::from_secs(1);
/// Time for a last word.
const GOODBYE: Duration = Duration::from_secs(1);

/// Bytes of a connection.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// A connection.
pub(super) struct Line {
    link: RefCell<Link>,
    wakeup: Notify,
    traffic: Cell<Traffic>,
    /// Reason why it must end.
    ended: RefCell<Option<String>>,
    /// True while the owner waits for room.
    is_full: Cell<bool>,
    /// Rung when there is room again.
    room: Notify,
}

impl Line {
    pub(super) fn new(link: Link) -> Rc<Line> {
        Rc::new(Line {
            link: RefCell::new(link),
            wakeup: Notify::new(),
            traffic: Cell::default(),
            ended: RefCell::default(),
            is_full: Cell::new(false),
            room: Notify::new(),
        })
    }

    /// The other end's number, once messages can be sent.
    pub(super) fn peer(&self) -> Option<HostId> {
        self.link.borrow().peer()
    }

    /// Queues a message; one for an end that does not take them ends the connection.
    pub(super) fn send<M: Message>(&self, message: &M) {
        let sent = self.link.borrow_mut().send(message);
        match sent {
            Ok(()) => self.wakeup.notify_one(),
            Err(error) => self.end(error.to_string()),
        }
    }

    /// True if the owner may go on, which `fits` decides by the bytes that wait to be sent. If not,
    /// `heard` is called again when it may.
    pub(super) fn has_room(&self, fits: impl FnOnce(usize) -> bool) -> bool {
        let has_room = fits(self.link.borrow().queued());
        self.is_full.set(!has_room);
        has_room
    }

    /// Has `heard` called again, after others had their turn.
    pub(super) fn go_on(&self) {
        self.room.notify_one();
    }

    /// Has `heard` called if its owner waited for room and there is some.
    pub(super) fn look_for_room(&self, fits: impl FnOnce(usize) -> bool) {
        if self.is_full.get() && fits(self.link.borrow().queued()) {
            self.room.notify_one();
        }
    }

    /// The next message that has come.
    pub(super) fn next_message<M: Message>(&self) -> Result<Option<M>, LinkError> {
        self.link.borrow_mut().next_message()
    }

    /// True while something waits to be sent.
    pub(super) fn wants_transmit(&self) -> bool {
        self.link.borrow().wants_transmit()
    }

    pub(super) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// Ends the connection.
    pub(super) fn end(&self, why: String) {
        self.ended.borrow_mut().get_or_insert(why);
        self.wakeup.notify_one();
    }

    /// Reason why it must end; `None`: it need not.
    pub(super) fn why(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits until the connection is ended; why.
    async fn ended(&self) -> String {
        loop {
            if let Some(why) = self.why() {
                return why;
            }
            self.wakeup.notified().await;
        }
    }

    /// Takes bytes that were received.
    pub(super) fn take_in(&self, now: Nanos, bytes: &[u8]) -> Result<(), LinkError> {
        self.link.borrow_mut().receive(now, bytes)
    }

    /// Bytes to be sent now, in one piece.
    pub(super) fn take_out(&self, now: Nanos) -> Result<Vec<u8>, LinkError> {
        let mut link = self.link.borrow_mut();
        link.tick(now)?;
        let mut parts: VecDeque<Bytes> = VecDeque::new();
        link.transmit(now, &mut parts, PART_BYTES);
        let mut out = Vec::with_capacity(parts.iter().map(Bytes::len).sum());
        parts.iter().for_each(|part| out.extend_from_slice(part));
        Ok(out)
    }

    fn next_deadline(&self, clock: Clock) -> Duration {
        let deadline = self.link.borrow().next_deadline();
        let left = deadline.map(|at| Duration::from_nanos(at.saturating_sub(clock.now()).0));
        left.unwrap_or(GLANCE).min(GLANCE)
    }
}

/// Carries bytes until the connection is over; why. `heard` is called when something has come, and
/// when there is room again for what it says; not after the connection was ended.
pub(super) async fn carry(
    stream: impl AsyncRead + AsyncWrite,
    line: &Line,
    clock: Clock,
    heard: impl FnMut() -> Result<(), String>,
) -> String {
    let (reader, mut writer) = tokio::io::split(stream);
    let why = tokio::select! {
        why = read(reader, line, clock, heard) => why,
        why = write(&mut writer, line, clock) => why,
    };
    let _ = timeout(GOODBYE, writer.shutdown()).await;
    why
}

/// The same as [`carry`] for a connection that must say within this time which machine it is of;
/// else it ends.
pub(super) async fn carry_joining(
    stream: impl AsyncRead + AsyncWrite,
    line: &Line,
    (clock, within): (Clock, Duration),
    heard: impl FnMut() -> Result<(), String>,
) -> String {
    let must_join = async {
        sleep(within).await;
        if line.peer().is_none() {
            let seconds = within.as_secs_f64();
            line.end(format!("it did not say within {seconds} s which machine it is"));
        }
        std::future::pending().await
    };
    tokio::select! {
        why = carry(stream, line, clock, heard) => why,
        why = must_join => why,
    }
}

/// Takes what comes until the connection is over; why.
async fn read(
    mut reader: impl AsyncRead + Unpin,
    line: &Line,
    clock: Clock,
    mut heard: impl FnMut() -> Result<(), String>,
) -> String {
    let mut input = vec![0; PART_BYTES];
    loop {
        let read = tokio::select! {
            // What waits for room is heard before more is read.
            biased;
            () = line.room.notified() => None,
            read = reader.read(&mut input) => Some(read),
        };
        // The writing half may be in the middle of something.
        if let Some(why) = line.why() {
            return why;
        }
        match read {
            None => tokio::task::yield_now().await,
            Some(Ok(0)) => return "the other end closed the connection".to_string(),
            Some(Ok(count)) => {
                let mut traffic = line.traffic.get();
                traffic.received += count as u64;
                line.traffic.set(traffic);
                if let Err(error) = line.take_in(clock.now(), &input[..count]) {
                    return error.to_string();
                }
            }
            Some(Err(error)) => return error.to_string(),
        }
        if let Err(why) = heard() {
            return why;
        }
        line.wakeup.notify_one();
    }
}

/// Sends what is to be sent until the connection is over; why.
async fn write(writer: &mut (impl AsyncWrite + Unpin), line: &Line, clock: Clock) -> String {
    loop {
        if let Some(why) = line.why() {
            return why;
        }
        let out = match line.take_out(clock.now()) {
            Ok(out) => out,
            Err(error) => return error.to_string(),
        };
        if out.is_empty() {
            let _ = timeout(line.next_deadline(clock), line.wakeup.notified()).await;
            continue;
        }
        let taken = timeout(TAKEN_WITHIN, async {
            writer.write_all(&out).await?;
            writer.flush().await
        });
        let taken = tokio::select! {
            taken = taken => taken,
            why = line.ended() => return why,
        };
        match taken {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => {
                let seconds = TAKEN_WITHIN.as_secs();
                return format!("the other end has taken nothing for {seconds} s");
            }
        }
        let mut traffic = line.traffic.get();
        traffic.sent += out.len() as u64;
        line.traffic.set(traffic);
        line.look_for_room(|queued| queued <= WAITING_BYTES_MAX);
    }
}

/// Waits for what a deadline says, or for `wakeup`.
pub(super) async fn wait(clock: Clock, deadline: Option<Nanos>, wakeup: &Notify) {
    // What is due already must not keep others from their turn.
    tokio::task::yield_now().await;
    let left = deadline.map(|at| Duration::from_nanos(at.saturating_sub(clock.now()).0));
    tokio::select! {
        () = sleep(left.unwrap_or(GLANCE).min(GLANCE)) => {}
        () = wakeup.notified() => {}
    }
}

#[cfg(test)]
mod tests;
