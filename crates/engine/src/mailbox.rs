//! The event loop's mailbox: other threads send it tasks, wake it, and wait for the answers. The
//! loop runs tasks between rounds; none of them may block.

use crate::event_loop::AdminApi;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something to be done on the loop's thread.
pub(crate) type Task = Box<dyn FnOnce(&mut AdminApi<'_>) + Send>;

/// The engine stopped before it answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine is stopping")]
pub struct Stopped;

/// The sending side of the event loop's mailbox.
#[derive(Clone)]
pub struct Mailbox {
    sender: Sender<Task>,
    waker: Arc<UnixStream>,
}

/// The loop's side of its mailbox.
pub(crate) struct MailboxReceiver {
    receiver: Receiver<Task>,
    waker: UnixStream,
}

/// Both sides of a new mailbox.
///
/// # Errors
/// When the system gives no pair of sockets.
pub(crate) fn mailbox() -> std::io::Result<(Mailbox, MailboxReceiver)> {
    let (wake, woken) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    woken.set_nonblocking(true)?;
    let (sender, receiver) = channel();
    Ok((Mailbox { sender, waker: Arc::new(wake) }, MailboxReceiver { receiver, waker: woken }))
}

impl Mailbox {
    /// Has `task` run on the loop's thread, soon; never, when the engine stops first.
    pub fn send(&self, task: impl FnOnce(&mut AdminApi<'_>) + Send + 'static) {
        // An engine that has stopped takes no tasks.
        if self.sender.send(Box::new(task)).is_ok() {
            // A full pipe wakes it already.
            let _ = (&*self.waker).write(&[1]);
        }
    }

    /// Runs `task` on the loop's thread and brings back what it returns.
    ///
    /// # Errors
    /// When the engine stops first.
    pub async fn ask<T: Send + 'static>(
        &self,
        task: impl FnOnce(&mut AdminApi<'_>) -> T + Send + 'static,
    ) -> Result<T, Stopped> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        let task: Task = Box::new(move |admin| {
            // Whoever asked may have gone away.
            let _ = answer.send(task(admin));
        });
        self.sender.send(task).map_err(|_| Stopped)?;
        // A full pipe wakes it already.
        let _ = (&*self.waker).write(&[1]);
        answered.await.map_err(|_| Stopped)
    }
}

impl MailboxReceiver {
    /// The next task.
    pub(crate) fn take(&mut self) -> Option<Task> {
        self.receiver.try_recv().ok()
    }

    /// Takes note that the loop is awake.
    pub(crate) fn hush(&mut self) {
        let mut wakes = [0; 256];
        while matches!(self.waker.read(&mut wakes), Ok(count) if count > 0) {}
    }
}

impl AsFd for MailboxReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}
