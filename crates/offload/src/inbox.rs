//! Whatever comes to the pool's thread: tasks of the API's thread, and answers of workers.

use crate::pool::Core;
use crate::workers::{Told, locked};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use thermocline_accel::{Answer, Ticket};
use thermocline_admin::api::Refused;
use tokio::sync::oneshot;

/// Tasks that may wait.
const TASKS_MAX: usize = 64;

type Task = Box<dyn FnOnce(&mut Core) + Send>;

/// Something for the pool's thread.
pub(crate) enum Message {
    Task(Task),
    Answer(Ticket, Answer, Told),
}

/// The messages, and a wakeup that can be waited for. Answers are bounded by the work that is out.
#[derive(Clone)]
pub(crate) struct Inbox(Arc<(Mutex<VecDeque<Message>>, OwnedFd)>);

impl Inbox {
    pub(crate) fn new() -> io::Result<Inbox> {
        let wakeup = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Inbox(Arc::new((Mutex::default(), wakeup))))
    }

    pub(crate) fn put(&self, message: Message) {
        locked(&self.0.0).push_back(message);
        // A wakeup that is set need not be set again.
        let _ = rustix::io::write(&self.0.1, &1_u64.to_ne_bytes());
    }

    /// Takes all messages.
    pub(crate) fn take(&self) -> VecDeque<Message> {
        let _ = rustix::io::read(&self.0.1, &mut [0_u8; 8]);
        std::mem::take(&mut locked(&self.0.0))
    }

    /// Has the pool's thread do something, and waits for what comes of it.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, Refused> {
        let is_task = |message: &&Message| matches!(message, Message::Task(_));
        if locked(&self.0.0).iter().filter(is_task).count() >= TASKS_MAX {
            return Err(Refused::unavailable("too many requests are waiting; ask again"));
        }
        let (told, answer) = oneshot::channel();
        self.put(Message::Task(Box::new(move |core| drop(told.send(task(core))))));
        answer.await.map_err(|_| Refused::unavailable("the pool is stopping"))
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.1.as_fd()
    }
}
