//! An accelerator that cuts content for all connections of a gateway: a worker process.
//!
//! 1. It is started with the gateway. What ends want cut goes to it at once, and a task waits for
//!    its answers and brings them to the hubs.
//! 2. It has failed if it ends, breaks the protocol, or if an end found an answer late or false.
//!    Then it is killed, all ends cut for themselves, and an event says why.
//! 3. It is started again after a time that doubles with each failure, from [`AGAIN_MIN`] to
//!    [`AGAIN_MAX`]. Work without failure for [`GOOD_AFTER`] makes the time short again.
//!
//! Whatever becomes of it, flows go on and the same bytes are sent: see the crate `tunnel`. A hub
//! holds its lock when it gives work; here no lock is held while a hub is called.

use crate::config::{Severity, Worker};
use crate::core::Core;
use crate::hub::Hub;
use crate::status::AcceleratorStatus;
use futures_util::future::select;
use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use thermocline_ports::Ticket;
use thermocline_ports::accelerator::{Abilities, Accelerator as Port, Done, Fingerprint, Job};
use thermocline_ports_os::worker::{Process, ProcessError, ProcessOptions};
use thermocline_tunnel::{OffloadCounts, OffloadSettings};
use thermocline_units::Nanos;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Time until a worker that failed is started again.
const AGAIN_MIN: Duration = Duration::from_secs(1);
/// The same, after many failures.
const AGAIN_MAX: Duration = Duration::from_secs(60);
/// A worker that worked so long had recovered.
const GOOD_AFTER: Duration = Duration::from_secs(60);
/// Jobs that are with the worker at once. Its memory has as many slots, of 1.3 MiB each, of which
/// only what is used takes room.
const SLOTS: u32 = 16;
/// Shortest time for a worker to begin. Ends have their own patience for answers.
const BEGIN_WITHIN: Duration = Duration::from_secs(2);

/// Whoever waits for an answer: a hub, the number of its connection, and the end's own ticket.
struct Asker {
    hub: Weak<Hub>,
    number: u64,
    ticket: Ticket,
}

struct State {
    /// `None` while none runs.
    process: Option<Process>,
    /// The reason that the last one failed; `None` while it works.
    failed: Option<String>,
    since: Instant,
    next: u64,
    given: BTreeMap<Ticket, Asker>,
    hubs: Vec<Weak<Hub>>,
    /// Counts of connections that are over.
    counts: OffloadCounts,
    failures: u64,
}

/// A gateway's accelerator.
pub(crate) struct Accelerator {
    worker: Worker,
    abilities: Abilities,
    began: Instant,
    state: Mutex<State>,
    /// Wakes the task that waits for answers.
    changed: Notify,
}

fn start(worker: &Worker) -> Result<Process, ProcessError> {
    let mut options = ProcessOptions::new(worker.program.clone());
    options.arguments.clone_from(&worker.arguments);
    options.slots = SLOTS;
    options.patience = worker.patience.max(BEGIN_WITHIN);
    Process::start(&options)
}

impl Accelerator {
    /// Starts the worker. Waits until it has begun.
    ///
    /// # Errors
    /// It cannot be started, or is none.
    pub(crate) fn start(worker: Worker) -> Result<Arc<Accelerator>, ProcessError> {
        let process = start(&worker)?;
        let (now, abilities) = (Instant::now(), process.abilities());
        let state = State {
            process: Some(process),
            failed: None,
            since: now,
            next: 0,
            given: BTreeMap::new(),
            hubs: Vec::new(),
            counts: OffloadCounts::default(),
            failures: 0,
        };
        let accelerator = Accelerator {
            worker,
            abilities,
            began: now,
            state: Mutex::new(state),
            changed: Notify::new(),
        };
        Ok(Arc::new(accelerator))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// The settings of ends that use it.
    pub(crate) fn settings(&self) -> OffloadSettings {
        let Worker { patience, least, check_one_in, .. } = self.worker;
        let patience = Nanos(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX));
        OffloadSettings { patience, least, check_one_in, ..OffloadSettings::new(self.abilities) }
    }

    /// Tells this hub from now on when it fails, and when it is back.
    pub(crate) fn join(&self, hub: &Weak<Hub>) {
        let mut state = self.lock();
        state.hubs.retain(|hub| hub.strong_count() > 0);
        state.hubs.push(hub.clone());
    }

    /// True if it takes work.
    pub(crate) fn is_up(&self) -> bool {
        self.lock().failed.is_none()
    }

    /// Gives it a job of an end.
    pub(crate) fn submit(&self, hub: &Weak<Hub>, number: u64, ticket: Ticket, job: Job) {
        let now = self.now();
        let mut state = self.lock();
        let own = Ticket(state.next);
        let State { process: Some(process), given, failed: None, .. } = &mut *state else {
            // The hub hears of the failure, and takes the job back.
            return self.changed.notify_one();
        };
        given.insert(own, Asker { hub: hub.clone(), number, ticket });
        process.submit(now, own, job);
        if process.failed().is_some() {
            self.changed.notify_one();
        }
        state.next += 1;
    }

    /// Takes note that it has failed, as an end found.
    pub(crate) fn fail(&self, why: String) {
        self.lock().failed.get_or_insert(why);
        self.changed.notify_one();
    }

    /// Adds the counts of a connection that is over.
    pub(crate) fn add(&self, counts: &OffloadCounts) {
        self.lock().counts.add(counts);
    }

    /// Ends the worker for good.
    pub(crate) fn stop(&self) {
        let process = {
            let mut state = self.lock();
            state.failed.get_or_insert_with(|| "this end was stopped".to_string());
            state.process.take()
        };
        drop(process); // which kills it
    }

    /// The accelerator as it is now.
    pub(crate) fn status(&self) -> AcceleratorStatus {
        let (mut counts, hubs) = {
            let state = self.lock();
            (state.counts, state.hubs.clone())
        };
        for hub in hubs.iter().filter_map(Weak::upgrade) {
            hub.offload_counts().inspect(|of_hub| counts.add(of_hub));
        }
        let state = self.lock();
        let fingerprint = match OffloadSettings::new(self.abilities).fingerprint() {
            Fingerprint::Rabin16 => "rabin16",
            Fingerprint::RabinSource => "rabin-source",
        };
        AcceleratorStatus {
            program: self.worker.program.display().to_string(),
            process: state.process.as_ref().map(Process::id),
            is_up: state.failed.is_none(),
            for_s: state.since.elapsed().as_secs_f64(),
            last_failure: state.failed.clone(),
            fingerprint: fingerprint.to_string(),
            units: self.abilities.units,
            jobs: counts.jobs,
            bytes: counts.bytes,
            jobs_failed: counts.jobs_failed,
            false_answers: counts.lies,
            failures: state.failures,
        }
    }

    /// Brings answers to their hubs, and starts the worker again when it has failed, for ever.
    pub(crate) async fn run(self: Arc<Accelerator>, core: Arc<Core>) {
        let program = self.worker.program.display();
        let mut again = AGAIN_MIN;
        loop {
            let began = Instant::now();
            let why = self.carry().await;
            if began.elapsed() >= GOOD_AFTER {
                again = AGAIN_MIN;
            }
            self.put_down(&why);
            let seconds = again.as_secs();
            let text = format!(
                "{program}: failed: {why}; content is cut by this processor, and the worker is \
                 started again in {seconds} s"
            );
            core.tell(Severity::Warning, "accelerator", text);
            self.start_again(&core, &mut again).await;
            core.tell(Severity::Info, "accelerator", format!("{program}: cuts content again"));
        }
    }

    /// Brings answers to their hubs until the worker has failed; why it has.
    async fn carry(&self) -> String {
        let readiness = match self.lock().process.as_ref().map(Process::readiness) {
            None => return "it is not there".to_string(),
            Some(Err(error)) => return error.to_string(),
            Some(Ok(readiness)) => readiness,
        };
        let readiness = match UnixStream::from_std(readiness) {
            Ok(readiness) => readiness,
            Err(error) => return error.to_string(),
        };
        loop {
            if let Some(why) = self.poll() {
                return why;
            }
            let readable = async {
                // An error is seen when it is polled.
                let _ = readiness.readable().await;
                // What comes from here on makes it ready again; what came is taken next.
                let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                let _ = readiness.try_io(Interest::READABLE, nothing);
            };
            select(pin!(readable), pin!(self.changed.notified())).await;
        }
    }

    /// Takes what the worker has done to its hubs; the reason if it has failed.
    fn poll(&self) -> Option<String> {
        let (answers, failed) = {
            let now = self.now();
            let mut state = self.lock();
            let State { process, given, failed, .. } = &mut *state;
            let mut done = Vec::new();
            if let Some(process) = process {
                process.poll(now, &mut done);
                if let Some(why) = process.failed() {
                    failed.get_or_insert_with(|| why.to_string());
                }
            }
            let asker = |done: Done| Some((given.remove(&done.ticket)?, done.result));
            let answers: Vec<_> = done.into_iter().filter_map(asker).collect();
            (answers, failed.clone())
        };
        for (Asker { hub, number, ticket }, result) in answers {
            if let Some(hub) = hub.upgrade() {
                hub.cut_done(number, Done { ticket, result });
            }
        }
        // An answer that a hub found false is a failure, too.
        failed.or_else(|| self.lock().failed.clone())
    }

    /// Kills the worker, and tells all hubs to cut for themselves.
    fn put_down(&self, why: &str) {
        let (process, hubs) = {
            let mut state = self.lock();
            state.failed.get_or_insert_with(|| why.to_string());
            state.since = Instant::now();
            state.failures += 1;
            state.given.clear();
            (state.process.take(), state.hubs.clone())
        };
        hubs.iter().filter_map(Weak::upgrade).for_each(|hub| hub.accelerator_failed());
        // It is waited for until it has gone.
        drop(spawn_blocking(move || drop(process)));
    }

    /// Starts the worker again, however often that needs to be tried.
    async fn start_again(&self, core: &Core, again: &mut Duration) {
        let mut told = String::new();
        loop {
            sleep(*again).await;
            *again = (*again * 2).min(AGAIN_MAX);
            let worker = self.worker.clone();
            let started = spawn_blocking(move || start(&worker)).await;
            let why = match started {
                Ok(Ok(process)) if process.abilities() == self.abilities => {
                    return self.put_up(process);
                }
                Ok(Ok(_)) => "the worker computes something else than before".to_string(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            if why != told {
                core.tell(Severity::Warning, "accelerator", why.clone());
                told = why;
            }
        }
    }

    fn put_up(&self, process: Process) {
        let hubs = {
            let mut state = self.lock();
            state.process = Some(process);
            state.failed = None;
            state.since = Instant::now();
            state.hubs.clone()
        };
        hubs.iter().filter_map(Weak::upgrade).for_each(|hub| hub.accelerator_is_back());
    }
}
