//! The encrypted connection between two ends: bytes of the `End` to the socket and back.

use crate::hub::{Hub, Work};
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tokio_rustls::TlsStream;

/// Bytes that are taken from the end at once, and from the socket.
const PART_BYTES: usize = 256 * 1024;
/// Pieces that are written at once.
const SLICES_MAX: usize = 32;
/// Rounds of reading and writing before others have their turn.
const ROUNDS: usize = 16;
/// Time for a last word, and for the other end to close too.
const GOODBYE: Duration = Duration::from_secs(2);
/// Time between two reports of the link's rate.
const SECOND: Duration = Duration::from_secs(1);
/// Time with more to send than the link took, below which a second says nothing of its rate.
const BUSY_MIN: Duration = Duration::from_millis(50);

/// A time without anything to send that is too short for the link to have run dry.
const BREATH: Duration = Duration::from_millis(5);

/// Meter of the link's speed: bytes that it took while more waited.
#[derive(Default)]
struct Meter {
    /// Time from which on more waits than the socket takes.
    busy_since: Option<Instant>,
    /// Time from which on nothing waits, and what was written since.
    idle_since: Option<Instant>,
    idle_bytes: u64,
    busy_bytes: u64,
    busy: Duration,
    rate: Option<f64>,
}

impl Meter {
    fn blocked(&mut self, now: Instant) {
        if self.busy_since.is_some() {
            return;
        }
        if let Some(since) = self.idle_since.filter(|&since| now - since <= BREATH) {
            // The link had work all the time: what it took just now is of the same stretch.
            self.busy += now - since;
            self.busy_bytes += self.idle_bytes;
        }
        self.busy_since = Some(now);
    }

    fn wrote(&mut self, bytes: usize) {
        if self.busy_since.is_some() {
            self.busy_bytes += bytes as u64;
        } else {
            self.idle_bytes += bytes as u64;
        }
    }

    fn idle(&mut self, now: Instant) {
        if let Some(since) = self.busy_since.take() {
            self.busy += now - since;
            (self.idle_since, self.idle_bytes) = (Some(now), 0);
        }
    }

    /// The rate after another second.
    fn end_second(&mut self, now: Instant) -> Option<f64> {
        let is_busy = self.busy_since.is_some();
        let (idle_since, idle_bytes) = (self.idle_since, self.idle_bytes);
        self.idle(now);
        if self.busy >= BUSY_MIN {
            let rate = self.busy_bytes as f64 / self.busy.as_secs_f64();
            self.rate = Some(self.rate.map_or(rate, |before| (before + rate) / 2.0));
        }
        *self = Meter {
            busy_since: is_busy.then_some(now),
            idle_since,
            idle_bytes,
            rate: self.rate,
            ..Meter::default()
        };
        self.rate
    }
}

/// One connection's two directions.
struct Carrier<'a> {
    hub: &'a Arc<Hub>,
    number: u64,
    stream: &'a mut TlsStream<TcpStream>,
    out: VecDeque<Bytes>,
    is_flushed: bool,
    /// The other end said its last byte, as agreed.
    is_closed: bool,
    input: Box<[u8]>,
    sent: u64,
    meter: Meter,
    timer: Pin<Box<Sleep>>,
    second_ends: Instant,
}

/// Carries bytes until the connection is over; the reason, if it was not as agreed. `opened` is
/// called when the other end may have opened flows.
pub(crate) async fn carry(
    hub: &Arc<Hub>,
    number: u64,
    stream: &mut TlsStream<TcpStream>,
    mut opened: impl FnMut(),
) -> Result<(), String> {
    let now = Instant::now();
    let mut carrier = Carrier {
        hub,
        number,
        stream,
        out: VecDeque::new(),
        is_flushed: true,
        is_closed: false,
        input: vec![0; PART_BYTES].into_boxed_slice(),
        sent: 0,
        meter: Meter::default(),
        timer: Box::pin(sleep_until(now + SECOND)),
        second_ends: now + SECOND,
    };
    let ended = std::future::poll_fn(|cx| carrier.poll(cx, &mut opened)).await;
    let last_words: Vec<Bytes> = carrier.out.drain(..).collect();
    let _ = timeout(GOODBYE, say_goodbye(stream, last_words)).await;
    ended
}

/// Sends what is left and closes. Waits for the other end to close too: what lies unread in a
/// socket that is closed makes the system take back what it has sent.
async fn say_goodbye(stream: &mut TlsStream<TcpStream>, words: Vec<Bytes>) -> io::Result<()> {
    for part in words {
        stream.write_all(&part).await?;
    }
    stream.shutdown().await?;
    let mut rest = [0; 4096];
    while stream.read(&mut rest).await? > 0 {}
    Ok(())
}

impl Carrier<'_> {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        opened: &mut impl FnMut(),
    ) -> Poll<Result<(), String>> {
        for _ in 0..ROUNDS {
            let deadline = match self.hub.work(self.number, &mut self.out, PART_BYTES, cx) {
                Work::Drained => return Poll::Ready(Ok(())),
                Work::Failed(why) => return Poll::Ready(Err(why)),
                Work::Send { deadline } => deadline,
            };
            let wrote = self.write(cx);
            let wrote = wrote.map_err(|error| self.last_word(cx).unwrap_or(error));
            let wrote = wrote.map_err(|error| self.why(&error))?;
            let read = self.read(cx).map_err(|error| self.why(&error))?;
            opened();
            if self.is_closed {
                return Poll::Ready(Ok(()));
            }
            if !wrote && !read {
                return self.sleep(cx, deadline.map(Instant::from_std));
            }
        }
        self.end_second();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// The reason that the other end gave before it went away, if it gave one.
    fn last_word(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        loop {
            match self.read(cx) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => return Some(error),
            }
        }
    }

    /// The reason that the connection broke, told so that people know what to do.
    fn why(&self, error: &io::Error) -> String {
        let text = error.to_string();
        let is_refused = !self.hub.is_ready() && text.contains("alert");
        let (kind, clean) = (error.kind(), io::ErrorKind::UnexpectedEof);
        if let Some(reason) = self.hub.closing(self.number) {
            return closed(&reason);
        }
        match is_refused {
            true => format!("the other end refused this end's key ({text}); name its .pub there"),
            false if kind == clean => "the other end closed the connection".to_string(),
            false => text,
        }
    }

    /// Sets the timer. It may be due at once, and then the next poll looks again.
    fn sleep(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<Result<(), String>> {
        loop {
            self.end_second();
            let wake = deadline.map_or(self.second_ends, |deadline| deadline.min(self.second_ends));
            self.timer.as_mut().reset(wake);
            ready!(self.timer.as_mut().poll(cx));
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    }

    fn end_second(&mut self) {
        let now = Instant::now();
        if now >= self.second_ends {
            self.second_ends = now + SECOND;
            let rate = self.meter.end_second(now);
            self.hub.end_second(self.number, self.sent, rate);
        }
    }

    /// Writes as much as the socket takes; true if that was something.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut wrote = false;
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let parts = self.out.iter().zip(&mut slices);
            let count = parts.map(|(part, slice)| *slice = IoSlice::new(part)).count();
            let stream = Pin::new(&mut *self.stream);
            match stream.poll_write_vectored(cx, &slices[..count]) {
                Poll::Pending => {
                    self.meter.blocked(Instant::now());
                    return Ok(wrote);
                }
                Poll::Ready(written) => {
                    let written = written?;
                    if written == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    self.sent += written as u64;
                    self.meter.wrote(written);
                    advance(&mut self.out, written);
                    (wrote, self.is_flushed) = (true, false);
                }
            }
        }
        if wrote {
            self.hub.note_sent(self.number, self.sent);
        }
        if !self.is_flushed {
            match Pin::new(&mut *self.stream).poll_flush(cx) {
                Poll::Pending => self.meter.blocked(Instant::now()),
                Poll::Ready(flushed) => {
                    flushed?;
                    self.is_flushed = true;
                    self.meter.idle(Instant::now());
                }
            }
        }
        Ok(wrote)
    }

    /// Reads what the socket has, once; true if that was something.
    fn read(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut input = ReadBuf::new(&mut self.input);
        match Pin::new(&mut *self.stream).poll_read(cx, &mut input) {
            Poll::Pending => Ok(false),
            Poll::Ready(read) => {
                read?;
                if input.filled().is_empty() {
                    // The other end was sooner to see that nothing is left to do.
                    self.is_closed = self.hub.is_drained(self.number);
                    if self.is_closed {
                        return Ok(true);
                    }
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.hub.receive(self.number, input.filled());
                Ok(true)
            }
        }
    }
}

/// That the other end wanted no more, in its own words, which are foreign.
pub(crate) fn closed(reason: &str) -> String {
    format!("the other end closed the connection: {}", reason.escape_debug())
}

/// Takes so many bytes off the front.
fn advance(out: &mut VecDeque<Bytes>, mut bytes: usize) {
    while let Some(part) = out.front_mut().filter(|_| bytes > 0) {
        let taken = bytes.min(part.len());
        part.advance(taken);
        bytes -= taken;
        if part.is_empty() {
            out.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
