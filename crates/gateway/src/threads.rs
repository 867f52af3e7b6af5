//! Work that blocks its thread, kept from taking those that others need.

use std::io;
use std::sync::Arc;
use tokio::sync::{Semaphore, oneshot};

/// Look-ups of one key at the same time. The runtime has 512 threads for those of all keys, and a
/// name server that does not answer holds one for half a minute.
const LOOK_UPS_MAX: usize = 16;

/// The look-ups of one key.
pub(crate) struct LookUps(Arc<Semaphore>);

impl LookUps {
    /// Places for look-ups, none of which is under way.
    pub(crate) fn new() -> LookUps {
        LookUps(Arc::new(Semaphore::new(LOOK_UPS_MAX)))
    }

    /// Does `work` on a thread that may be blocked, when fewer than [`LOOK_UPS_MAX`] are. It counts
    /// until it has ended, also if nobody waits for it any more: it cannot be taken back.
    ///
    /// # Errors
    /// It panicked, or the runtime ends.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let permit = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let work = move || {
            let done = work();
            drop(permit);
            done
        };
        Ok(tokio::task::spawn_blocking(work).await?)
    }
}

/// Does `work` on a thread of its own, whatever the runtime's threads are blocked by.
///
/// # Errors
/// There is no thread for it, or it panicked.
pub(crate) async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    let work = move || drop(done.send(work()));
    std::thread::Builder::new().name("tunnel-cache".to_string()).spawn(work)?;
    result.await.map_err(|_| io::Error::other("the thread that read the cache ended early"))
}

#[cfg(test)]
mod tests;
