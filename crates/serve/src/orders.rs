//! How other threads reach the event loop: they send it a closure, ring a bell, and wait for the
//! answer. The loop runs orders between rounds; none of them may block.

use crate::engine::Desk;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something to be done on the loop's thread.
pub(crate) type Order = Box<dyn FnOnce(&mut Desk<'_>) + Send>;

/// The engine stopped before it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine is stopping")]
pub struct Stopped;

/// The sending side.
#[derive(Clone)]
pub struct Orders {
    sender: Sender<Order>,
    bell: Arc<UnixStream>,
}

/// The loop's side.
pub(crate) struct Inbox {
    receiver: Receiver<Order>,
    bell: UnixStream,
}

/// Both ends.
///
/// # Errors
/// When the system gives no pair of sockets.
pub(crate) fn orders() -> std::io::Result<(Orders, Inbox)> {
    let (ring, hear) = UnixStream::pair()?;
    ring.set_nonblocking(true)?;
    hear.set_nonblocking(true)?;
    let (sender, receiver) = channel();
    Ok((Orders { sender, bell: Arc::new(ring) }, Inbox { receiver, bell: hear }))
}

impl Orders {
    /// Has `order` run on the loop's thread, soon; never, when the engine stops first.
    pub fn send(&self, order: impl FnOnce(&mut Desk<'_>) + Send + 'static) {
        // An engine that has stopped takes no orders.
        if self.sender.send(Box::new(order)).is_ok() {
            // A full pipe has rung already.
            let _ = (&*self.bell).write(&[1]);
        }
    }

    /// Runs `order` on the loop's thread and brings back what it returns.
    ///
    /// # Errors
    /// When the engine stops first.
    pub async fn ask<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Desk<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let order: Order = Box::new(move |desk| {
            // Whoever asked may have gone away.
            let _ = answer.send(order(desk));
        });
        self.sender.send(order).map_err(|_| Stopped)?;
        // A full pipe has rung already.
        let _ = (&*self.bell).write(&[1]);
        answered.await.map_err(|_| Stopped)
    }
}

impl Inbox {
    /// The next order.
    pub(crate) fn take(&mut self) -> Option<Order> {
        self.receiver.try_recv().ok()
    }

    /// Stops the bell.
    pub(crate) fn hush(&mut self) {
        let mut rings = [0; 256];
        while matches!(self.bell.read(&mut rings), Ok(count) if count > 0) {}
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
