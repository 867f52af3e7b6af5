//! Threads as an accelerator.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use thermocline_ports::Ticket;
use thermocline_ports::accelerator::{
    Abilities, Accelerator, AcceleratorError, Answer, Done, Function, Job,
};
use thermocline_units::{Bytes, Nanos};

/// Threads that compute jobs. Closing waits for the jobs that have begun.
pub struct Threads {
    abilities: Abilities,
    jobs: Option<Sender<(Ticket, Job)>>,
    done: Receiver<Done>,
    early: Vec<Done>,
    in_flight: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Threads, as many as `units`, each computing with `compute`.
    ///
    /// # Panics
    /// When `units` is 0, or a thread cannot be started.
    pub fn new(units: u32, compute: fn(&Job) -> Answer) -> Threads {
        assert!(units > 0, "somebody must work");
        let (jobs, taken) = channel::<(Ticket, Job)>();
        let taken = Arc::new(Mutex::new(taken));
        let (answers, done) = channel();
        let work = |_| {
            let (taken, answers) = (Arc::clone(&taken), answers.clone());
            std::thread::spawn(move || {
                loop {
                    let next = taken.lock().map(|taken| taken.recv());
                    let Ok(Ok((ticket, job))) = next else { return };
                    // Nobody listens any more when the accelerator is being closed.
                    let _ = answers.send(Done { ticket, result: Ok(compute(&job)) });
                }
            })
        };
        let threads = (0..units).map(work).collect();
        let buffer_max = Bytes(u64::from(Function::SIZE_MAX));
        Threads {
            abilities: Abilities { buffer_max, queue_depth: 64 * units, units, only: None },
            jobs: Some(jobs),
            done,
            early: Vec::new(),
            in_flight: 0,
            threads,
        }
    }

    /// Waits until something is done, `patience` at most.
    pub fn wait(&mut self, patience: Duration) {
        if self.early.is_empty() && self.in_flight > 0 {
            self.early.extend(self.done.recv_timeout(patience));
        }
    }
}

impl Accelerator for Threads {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn submit(&mut self, _now: Nanos, ticket: Ticket, job: Job) {
        self.in_flight += 1;
        if !self.abilities.include(&job) {
            let result = Err(AcceleratorError::Refused);
            return self.early.push(Done { ticket, result });
        }
        let jobs = self.jobs.as_ref().expect("it is open");
        if jobs.send((ticket, job)).is_err() {
            self.early.push(Done { ticket, result: Err(AcceleratorError::Gone) });
        }
    }

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Done>) {
        let before = done.len();
        done.append(&mut self.early);
        done.extend(self.done.try_iter());
        self.in_flight -= done.len() - before;
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}
