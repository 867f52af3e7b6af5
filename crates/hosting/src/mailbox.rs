//! The mailbox of a process's thread: the API's thread sends it tasks and waits for the answers.

use thermocline_admin::api::Refused;
use tokio::sync::{mpsc, oneshot};

/// Tasks that may wait.
const WAITING_MAX: usize = 64;

/// Something to be done on the process's thread.
pub(super) type Task<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The sending side.
pub(super) struct Mailbox<T>(mpsc::Sender<Task<T>>);

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Mailbox<T> {
        Mailbox(self.0.clone())
    }
}

/// Both ends.
pub(super) fn mailbox<T>() -> (Mailbox<T>, mpsc::Receiver<Task<T>>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Mailbox(sender), receiver)
}

impl<T> Mailbox<T> {
    /// Has `task` run on the process's thread and waits for what it puts into its sender, at once
    /// or later.
    pub(super) async fn ask<R: Send + 'static>(
        &self,
        task: impl FnOnce(&mut T, oneshot::Sender<R>) + Send + 'static,
    ) -> Result<R, Refused> {
        let stopped = || Refused::unavailable("the process is stopping");
        let (told, answer) = oneshot::channel();
        let task: Task<T> = Box::new(move |of| task(of, told));
        self.0.send(task).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())
    }

    /// The same where the answer is there at once.
    pub(super) async fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&mut T) -> R + Send + 'static,
    ) -> Result<R, Refused> {
        self.ask(move |of, told| drop(told.send(look(of)))).await
    }
}
