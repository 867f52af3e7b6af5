//! A client's side of a flow: what its task reads from it and gives to it, through the hub.

use super::{Cut, Hub};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use thermocline_tunnel::{End, FlowId};
use thermocline_units::Nanos;
use tokio::net::TcpStream;

/// The result of reading from a client.
pub(crate) enum Pulled {
    /// A number of bytes, which the end has.
    Bytes(usize),
    /// The client has nothing now, or the end has no room.
    Nothing,
    /// The client says nothing more.
    End,
}

/// A client's side of a flow. Dropped before it is finished, the flow is reset.
pub(crate) struct Flow {
    hub: Arc<Hub>,
    number: u64,
    flow: FlowId,
    is_done: bool,
}

impl Flow {
    /// A flow of a connection, which the hub has.
    pub(super) fn new(hub: Arc<Hub>, number: u64, flow: FlowId) -> Flow {
        Flow { hub, number, flow, is_done: false }
    }

    /// Waits until bytes can be given.
    pub(crate) async fn room(&self) -> Result<(), Cut> {
        self.until(|end, flow| end.room(flow) > 0).await
    }

    /// Waits while the accelerator cuts what fills the flow. Its client is not read meanwhile, so
    /// nobody can say that it pauses.
    pub(crate) async fn while_cut(&self) -> Result<(), Cut> {
        self.until(|end, flow| !end.is_being_cut(flow) || end.room(flow) > 0).await
    }

    /// Waits until the end says so of the flow.
    async fn until(&self, is_so: impl Fn(&mut End, FlowId) -> bool) -> Result<(), Cut> {
        std::future::poll_fn(|cx| {
            let mut state = self.hub.lock();
            let live = state.live(self.number)?;
            let mailbox = live.flows.get_mut(&self.flow).ok_or(Cut::Link)?;
            if let Some(code) = mailbox.reset {
                return Poll::Ready(Err(Cut::Reset(code)));
            }
            if is_so(&mut live.end, self.flow) {
                return Poll::Ready(Ok(()));
            }
            mailbox.writer = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Gives what a client's socket has, as far as there is room.
    pub(crate) fn pull(&self, stream: &TcpStream) -> Result<io::Result<Pulled>, Cut> {
        let now = self.hub.now();
        let mut state = self.hub.lock();
        let mut scratch = std::mem::take(&mut state.scratch);
        let pulled = state.live(self.number).map(|live| {
            let room = live.end.room(self.flow).min(scratch.len());
            if room == 0 {
                return Ok(Pulled::Nothing);
            }
            match stream.try_read(&mut scratch[..room]) {
                Ok(0) => Ok(Pulled::End),
                Ok(length) => {
                    live.end.give(now, self.flow, &scratch[..length]);
                    Ok(Pulled::Bytes(length))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Pulled::Nothing),
                Err(error) => Err(error),
            }
        });
        state.scratch = scratch;
        state.settle();
        pulled
    }

    /// Gives bytes that were read before.
    pub(crate) async fn give(&self, mut bytes: &[u8]) -> Result<(), Cut> {
        while !bytes.is_empty() {
            self.room().await?;
            let now = self.hub.now();
            let mut state = self.hub.lock();
            let live = state.live(self.number)?;
            let (part, rest) = bytes.split_at(bytes.len().min(live.end.room(self.flow)));
            live.end.give(now, self.flow, part);
            bytes = rest;
            state.settle();
        }
        Ok(())
    }

    /// True if bytes wait for more to come.
    pub(crate) fn is_pending(&self) -> bool {
        let mut state = self.hub.lock();
        state.live(self.number).is_ok_and(|live| live.end.pending(self.flow) > 0)
    }

    /// Sends what waits.
    pub(crate) fn flush(&self) {
        self.with(|end, now, flow| end.flush(now, flow));
    }

    /// Says that nothing more comes.
    pub(crate) fn end(&self) {
        self.with(|end, now, flow| end.end(now, flow));
    }

    /// The next bytes; `None`: the other client says nothing more.
    pub(crate) async fn next(&self) -> Result<Option<Bytes>, Cut> {
        std::future::poll_fn(|cx| {
            let mut state = self.hub.lock();
            let mailbox = state.mailbox(self.number, self.flow)?;
            if let Some(code) = mailbox.reset {
                return Poll::Ready(Err(Cut::Reset(code)));
            }
            if let Some(bytes) = mailbox.bytes.pop_front() {
                return Poll::Ready(Ok(Some(bytes)));
            }
            if mailbox.has_ended {
                return Poll::Ready(Ok(None));
            }
            mailbox.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Waits until the flow is cut, while nobody waits for its bytes. Those of a flow that came to
    /// its end before the connection did are still there.
    pub(crate) async fn gone(&self) -> Cut {
        std::future::poll_fn(|cx| {
            let mut state = self.hub.lock();
            let mailbox = match state.mailbox(self.number, self.flow) {
                Ok(mailbox) => mailbox,
                Err(cut) => return Poll::Ready(cut),
            };
            if let Some(code) = mailbox.reset {
                return Poll::Ready(Cut::Reset(code));
            }
            mailbox.reader = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Puts bytes back that were not used.
    pub(crate) fn put_back(&self, bytes: Bytes) {
        if let Ok(mailbox) = self.hub.lock().mailbox(self.number, self.flow)
            && !bytes.is_empty()
        {
            mailbox.bytes.push_front(bytes);
        }
    }

    /// The client has taken so many bytes.
    pub(crate) fn taken(&self, bytes: usize) {
        let now = self.hub.now();
        let mut state = self.hub.lock();
        if let Ok(live) = state.live(self.number)
            && live.flows.get(&self.flow).is_some_and(|mailbox| mailbox.reset.is_none())
        {
            let taken = live.end.taken(now, self.flow, bytes);
            live.note(taken);
            if let Some(mailbox) = live.flows.get_mut(&self.flow) {
                mailbox.account.received += bytes as u64;
            }
        }
        state.settle();
    }

    /// Both directions have ended.
    pub(crate) fn finish(mut self) {
        self.is_done = true;
    }

    /// Gives the flow up.
    pub(crate) fn reset(mut self, code: u32) {
        self.is_done = true;
        self.with(|end, _, flow| end.reset(flow, code));
    }

    fn with(&self, what: impl FnOnce(&mut End, Nanos, FlowId)) {
        let now = self.hub.now();
        let mut state = self.hub.lock();
        if let Ok(live) = state.live(self.number) {
            what(&mut live.end, now, self.flow);
        }
        state.settle();
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        state.left_over.remove(&(self.number, self.flow));
        if let Ok(live) = state.live(self.number) {
            live.flows.remove(&self.flow);
            if !self.is_done {
                live.end.reset(self.flow, crate::codes::GIVEN_UP);
            }
        }
        state.settle();
    }
}
