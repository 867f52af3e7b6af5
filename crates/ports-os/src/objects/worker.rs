//! The thread that talks to the object store.
//!
//! 1. Jobs come in over a channel and go on at the same time, as many as their kind allows: reads
//!    by [`READS`], writes by the device, which holds back its own.
//! 2. Answers go out over another channel, and set a wakeup that `poll(2)` sees. Nobody on the
//!    engine's loop ever waits for this thread, but when the device is closed.
//! 3. Between jobs the lock beats, and objects that no record names are swept away once.

use super::bucket::{Bucket, BucketError, Page};
use super::format::{Generation, Name, Record};
use super::layer::Layer;
use super::lease::{Beats, Lease};
use super::memory::{Memory, Remembered};
use object_store::path::Path;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use thermocline_units::mutants::{self, mutant};
use tokio::sync::mpsc as jobs;
use tokio::sync::{Mutex, Notify, Semaphore};
use tokio::task::JoinSet;

/// Reads on their way at once.
const READS: usize = 64;
/// Longest wait of closing for what is under way, and for the lock to be let go.
const FAREWELL: Duration = Duration::from_secs(5);

/// Something to be done.
pub(super) enum Job {
    /// Read blocks of a generation of an extent of `length` bytes.
    Read { tag: u32, name: Name, blocks: Range<u32>, length: u32 },
    /// Write a generation.
    Write { name: Name, layer: Arc<Layer>, base: Generation, length: u32 },
    /// Write the next record of the log.
    Commit { record: Record },
    /// Write a map.
    Map { record: Record },
    /// Remove objects.
    Delete { keys: Vec<String> },
    /// List a page of extents' objects.
    List { digit: u32, after: Option<Path> },
}

impl Job {
    /// True if it changes nothing.
    fn is_read(&self) -> bool {
        matches!(self, Job::Read { .. } | Job::List { .. })
    }
}

/// The result of it.
pub(super) enum Answer {
    Read {
        tag: u32,
        result: Result<Vec<u8>, BucketError>,
    },
    Written {
        extent: u32,
        generation: Generation,
        result: Result<(), BucketError>,
    },
    Committed(Commit),
    Mapped {
        sequence: u64,
        result: Result<(), BucketError>,
    },
    Listed {
        digit: u32,
        result: Result<Page, BucketError>,
    },
    /// Another program has the device.
    Lost,
}

/// The result of a record.
pub(super) enum Commit {
    /// A record that is in the log, and remembered.
    Done,
    /// This one is in its place.
    Taken(Record),
    /// A record that may be in the log or not.
    Failed(BucketError),
}

/// The device's end.
#[derive(Debug)]
pub(super) struct Worker {
    jobs: Option<jobs::UnboundedSender<Job>>,
    answers: mpsc::Receiver<Answer>,
    wakeup: Arc<OwnedFd>,
    #[cfg(test)]
    stop: Arc<Notify>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// The thread's state.
#[derive(Clone)]
struct Shop {
    bucket: Bucket,
    memory: Option<Arc<Memory>>,
    answers: mpsc::Sender<Answer>,
    wakeup: Arc<OwnedFd>,
    reads: Arc<Semaphore>,
}

impl Worker {
    /// Starts the thread on `runtime`, where the bucket's connections live.
    pub(super) fn start(
        runtime: tokio::runtime::Runtime,
        bucket: Bucket,
        memory: Option<Memory>,
        lease: Option<Lease>,
        beats: Beats,
    ) -> std::io::Result<Worker> {
        use rustix::event::{EventfdFlags, eventfd};
        let wakeup = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (jobs, inbox) = jobs::unbounded_channel();
        let (sender, answers) = mpsc::channel();
        let stop = Arc::new(Notify::new());
        let shop = Shop {
            bucket,
            memory: memory.map(Arc::new),
            answers: sender,
            wakeup: wakeup.clone(),
            reads: Arc::new(Semaphore::new(READS)),
        };
        let (stopped, planted) = (stop.clone(), mutants::planted());
        let thread = std::thread::Builder::new().name("objects".to_string()).spawn(move || {
            let _planted = planted.map(mutants::plant);
            runtime.block_on(async {
                tokio::select! {
                    () = shop.serve(inbox, lease, beats) => {}
                    () = stopped.notified() => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Worker {
            jobs: Some(jobs),
            answers,
            wakeup,
            #[cfg(test)]
            stop,
            thread: Some(thread),
        })
    }

    pub(super) fn send(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("it is there until the device is dropped");
        // A thread that has ended answers nothing; the device sees that in `next`.
        let _ = jobs.send(job);
    }

    /// The next answer.
    pub(super) fn next(&self) -> Option<Answer> {
        self.answers.try_recv().ok()
    }

    /// Clears the wakeup; answers that come later set it again.
    pub(super) fn hush(&self) {
        let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
    }

    /// Readable when an answer waits.
    pub(super) fn readiness(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Ends the thread at once, as a crash would: what is under way is left there.
    #[cfg(test)]
    pub(super) fn kill(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It has panicked, and nobody asks it any more.
            let _ = thread.join();
        }
    }
}

impl Shop {
    /// Serves until no more jobs can come.
    async fn serve(
        &self,
        mut inbox: jobs::UnboundedReceiver<Job>,
        lease: Option<Lease>,
        beats: Beats,
    ) {
        let lease = Arc::new(Mutex::new(lease));
        let (shop, beaten) = (self.clone(), lease.clone());
        let beating = tokio::spawn(async move { shop.beat(&beaten, beats.every).await });
        let (mut reads, mut tasks) = (JoinSet::new(), JoinSet::new());
        loop {
            tokio::select! {
                job = inbox.recv() => match job {
                    Some(job) => {
                        let shop = self.clone();
                        let to = if job.is_read() { &mut reads } else { &mut tasks };
                        to.spawn(async move { shop.run(job).await });
                    }
                    None => break,
                },
                Some(_) = tasks.join_next() => {}
                Some(_) = reads.join_next() => {}
            }
        }
        beating.abort();
        // Nobody waits for these any more, and the lock shall not wait for them.
        reads.abort_all();
        let farewell = async {
            while tasks.join_next().await.is_some() {}
            if let Some(lease) = lease.lock().await.take() {
                // A lock that stays is watched by whoever comes next; no harm but their time.
                let _ = lease.release().await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }

    /// Beats until another program has the device, or nobody holds the lock.
    async fn beat(&self, lease: &Mutex<Option<Lease>>, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let mut held = lease.lock().await;
            let Some(lease) = held.as_mut() else { return };
            // A store that does not answer is noticed by who wants something of it.
            if let Ok(false) = lease.beat().await {
                *held = None;
                return self.answer(Answer::Lost);
            }
        }
    }

    fn answer(&self, answer: Answer) {
        // The device may be gone.
        let _ = self.answers.send(answer);
        let _ = rustix::io::write(&*self.wakeup, &1u64.to_ne_bytes());
    }

    async fn run(&self, job: Job) {
        let bucket = &self.bucket;
        self.answer(match job {
            Job::Read { tag, name, blocks, length } => {
                let _permit = self.reads.acquire().await;
                let result = bucket.read(name, &blocks, length).await;
                Answer::Read { tag, result }
            }
            Job::Write { name, layer, base, length } => {
                let result = bucket.write(name, &layer, base, length).await;
                Answer::Written { extent: name.extent, generation: name.generation, result }
            }
            Job::Commit { record } => Answer::Committed(self.commit(&record).await),
            Job::Map { record } => {
                let result = bucket.put(&record.key(), record.encode()).await;
                Answer::Mapped { sequence: record.sequence, result }
            }
            Job::Delete { keys } => {
                // What stays is swept away at the next opening.
                let _ = bucket.delete(keys).await;
                return;
            }
            Job::List { digit, after } => {
                Answer::Listed { digit, result: bucket.page(digit, after).await }
            }
        });
    }

    async fn commit(&self, record: &Record) -> Commit {
        match self.bucket.append(record).await {
            Ok(()) => {}
            Err(BucketError::Exists(key)) => match self.bucket.record(&key).await {
                Ok(there) if there == *record || mutant("any_record_is_ours") => {}
                Ok(there) => return Commit::Taken(there),
                Err(error) => return Commit::Failed(error),
            },
            Err(error) => return Commit::Failed(error),
        }
        let Record { identity, owner, sequence, .. } = *record;
        match &self.memory {
            Some(memory) => match memory.write(Remembered { identity, owner, sequence }) {
                Ok(()) => Commit::Done,
                Err(error) => Commit::Failed(BucketError::Refused(error.to_string())),
            },
            None => Commit::Done,
        }
    }
}
