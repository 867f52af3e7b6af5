//! The mailbox of the pool's thread: tasks of the API's thread, and answers of workers.

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

/// A task of the API.
pub(crate) type Task = Box<dyn FnOnce(&mut Core) + Send>;

/// An answer of a worker, and what it said beside it.
pub(crate) type Answered = (Ticket, Answer, Told);

/// Tasks and answers, each in order.
#[derive(Default)]
struct Waiting {
    tasks: VecDeque<Task>,
    answers: Vec<Answered>,
}

/// The mailbox, with a wakeup that can be waited for. Answers are bounded by the work that is out.
#[derive(Clone)]
pub(crate) struct Mailbox(Arc<(Mutex<Waiting>, OwnedFd)>);

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let wakeup = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Mailbox(Arc::new((Mutex::default(), wakeup))))
    }

    fn wake(&self) {
        // A wakeup that is set need not be set again.
        let _ = rustix::io::write(&self.0.1, &1_u64.to_ne_bytes());
    }

    /// Brings an answer.
    pub(crate) fn answer(&self, answered: Answered) {
        locked(&self.0.0).answers.push(answered);
        self.wake();
    }

    /// Takes all answers. What is left wakes the pool's thread again.
    pub(crate) fn answers(&self) -> Vec<Answered> {
        let _ = rustix::io::read(&self.0.1, &mut [0_u8; 8]);
        let mut waiting = locked(&self.0.0);
        if !waiting.tasks.is_empty() {
            self.wake();
        }
        std::mem::take(&mut waiting.answers)
    }

    /// Takes one task: packets do not wait for all.
    pub(crate) fn task(&self) -> Option<Task> {
        locked(&self.0.0).tasks.pop_front()
    }

    /// Has the pool's thread do something, and waits for what comes of it.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut Core) -> R + Send + 'static,
    ) -> Result<R, Refused> {
        let (told, answer) = oneshot::channel();
        {
            let mut waiting = locked(&self.0.0);
            if waiting.tasks.len() >= TASKS_MAX {
                return Err(Refused::unavailable("too many requests are waiting; ask again"));
            }
            waiting.tasks.push_back(Box::new(move |core| drop(told.send(task(core)))));
        }
        self.wake();
        answer.await.map_err(|_| Refused::unavailable("the pool is stopping"))
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.1.as_fd()
    }
}
