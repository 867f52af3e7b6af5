//! How the API's thread reaches the thread of a process: it sends a closure and waits for the
//! answer.

use crate::api::Refused;
use tokio::sync::{mpsc, oneshot};

/// Orders that may wait.
const WAITING_MAX: usize = 64;

/// Something to be done on the process's thread.
pub(super) type Order<T> = Box<dyn FnOnce(&mut T) + Send>;

/// The sending side.
pub(super) struct Orders<T>(mpsc::Sender<Order<T>>);

impl<T> Clone for Orders<T> {
    fn clone(&self) -> Orders<T> {
        Orders(self.0.clone())
    }
}

/// Both ends.
pub(super) fn orders<T>() -> (Orders<T>, mpsc::Receiver<Order<T>>) {
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    (Orders(sender), receiver)
}

impl<T> Orders<T> {
    /// Has `order` run on the process's thread and waits for what it puts into its sender, at once
    /// or later.
    pub(super) async fn ask<R: Send + 'static>(
        &self,
        order: impl FnOnce(&mut T, oneshot::Sender<R>) + Send + 'static,
    ) -> Result<R, Refused> {
        let stopped = || Refused::unavailable("the process is stopping");
        let (told, answer) = oneshot::channel();
        let order: Order<T> = Box::new(move |of| order(of, told));
        self.0.send(order).await.map_err(|_| stopped())?;
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
