//! Work on a thread of its own, while Python's thread waits: Ctrl-C and progress.
//!
//! 1. The work runs without the interpreter's lock, and tells [`Told`] how far it is.
//! 2. The calling thread waits in steps of [`STEP`]. After each it gives Python the chance to
//!    handle signals, and tells the callback about progress, if there is one.
//! 3. After Ctrl-C, or an exception of the callback, the work is stopped at its next word about
//!    progress: that call unwinds. If it does not come to that within [`LEAVE_AFTER`], the work is
//!    left to itself; it ends at its next word, and its result is dropped.
//! 4. When the interpreter ends, work that was left calls no policy in Python any more, and is
//!    waited for, [`END_WITHIN`] at most: a thread that comes back to an interpreter that has ended
//!    aborts the process.
//! 5. A process that was forked after a run runs nothing: it has the memory of the threads that do
//!    the work, and not the threads, so that it would wait for them for ever.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thermocline_sim::progress::{Amount, ProgressSink};

/// Time between two looks at signals.
const STEP: Duration = Duration::from_millis(50);

/// Time that stopped work has to end.
const LEAVE_AFTER: Duration = Duration::from_millis(500);

/// Time that work which was left has to end when the interpreter does.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Work that was left to itself.
static LEFT: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());
/// True from when the interpreter begins to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// The process in which the first run began; 0 before it. A forked process inherits the number.
static RUNS_IN: AtomicU32 = AtomicU32::new(0);

/// True in a process that was forked after a run.
fn is_forked() -> bool {
    let first = RUNS_IN.load(Ordering::Relaxed);
    first != 0 && first != std::process::id()
}

/// Refuses to run in a process that was forked after a run.
fn check_process() -> PyResult<()> {
    if is_forked() {
        return Err(PyRuntimeError::new_err(
            "a process that was forked after a run cannot run again, because its threads were not \
             forked; use multiprocessing.get_context(\"spawn\"), or fork before the first run",
        ));
    }
    RUNS_IN.store(std::process::id(), Ordering::Relaxed);
    Ok(())
}

/// Refuses to call Python when it ends: who waits for its lock then does not come back.
pub(crate) fn check_interpreter() -> Result<(), String> {
    match ENDS.load(Ordering::Relaxed) {
        true => Err("Python ends".to_string()),
        false => Ok(()),
    }
}

/// Waits for work that was left to itself. Python calls it at its exit, once.
#[pyfunction]
pub(crate) fn end_left_work(py: Python<'_>) {
    ENDS.store(true, Ordering::Relaxed);
    if is_forked() {
        return; // What was left is work of the other process.
    }
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    let until = Instant::now() + END_WITHIN;
    py.detach(|| {
        while left.iter().any(|work| !work.is_finished()) && Instant::now() < until {
            std::thread::park_timeout(STEP);
        }
    });
}

/// Progress of a job, and whether it is to stop.
#[derive(Default)]
pub(crate) struct Told {
    stop: AtomicBool,
    done: AtomicU64,
    part: Mutex<(String, Option<u64>)>,
}

/// Payload of the unwinding that stops a job.
struct Stopped;

impl Told {
    /// Unwinds when the job is to stop. A build that aborts on panics lets the job run on.
    pub(crate) fn check(&self) {
        if cfg!(panic = "unwind") && self.stop.load(Ordering::Relaxed) && !std::thread::panicking()
        {
            std::panic::resume_unwind(Box::new(Stopped));
        }
    }

    fn now(&self) -> (String, u64, Option<u64>) {
        let (what, total) = self.part.lock().expect("nothing panics with it held").clone();
        (what, self.done.load(Ordering::Relaxed), total)
    }
}

impl ProgressSink for Told {
    fn begin(&self, what: &str, amount: Amount) {
        self.check();
        let (Amount::Bytes(total) | Amount::Things(total)) = amount;
        *self.part.lock().expect("nothing panics with it held") = (what.to_string(), total);
        self.done.store(0, Ordering::Relaxed);
    }

    fn at(&self, done: u64) {
        self.check();
        self.done.store(done, Ordering::Relaxed);
    }

    fn more(&self, done: u64) {
        self.check();
        self.done.fetch_add(done, Ordering::Relaxed);
    }
}

/// Runs `work`, and tells `progress` about it: a callable that takes what is done, how much of it
/// is done, and how much there is, or None.
///
/// # Errors
/// `KeyboardInterrupt`, an exception of the callback, or `RuntimeError` when the work panicked or
/// the process was forked after a run.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Told) -> T + Send + 'static,
) -> PyResult<T> {
    check_process()?;
    let told = Arc::new(Told::default());
    let theirs = Arc::clone(&told);
    let (send, received) = channel();
    let thread = std::thread::Builder::new()
        .name("thermocline".to_string())
        .spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(|| work(&theirs)));
            // Nobody listens any more when the job was left to itself.
            let _ = send.send(result);
        })
        .map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
    // A receiver may not be used from two threads; it is not, but `detach` wants that proven.
    let received = Mutex::new(received);
    let wait = |time: Duration| {
        py.detach(|| received.lock().expect("one thread uses it").recv_timeout(time))
    };
    let mut last = None;
    loop {
        match wait(STEP) {
            Ok(result) => {
                show(progress, &told, &mut last)?;
                return result.map_err(|_| {
                    PyRuntimeError::new_err("thermocline panicked; this is a bug of ours")
                });
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the work ended without a result"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let shown = py.check_signals().and_then(|()| show(progress, &told, &mut last));
        if let Err(error) = shown {
            told.stop.store(true, Ordering::Relaxed);
            let left_at = Instant::now() + LEAVE_AFTER;
            while Instant::now() < left_at && matches!(wait(STEP), Err(RecvTimeoutError::Timeout)) {
            }
            let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
            left.retain(|work| !work.is_finished());
            left.push(thread);
            return Err(error);
        }
    }
}

/// Tells the callback, when there is something new.
fn show(
    progress: Option<&Bound<'_, PyAny>>,
    told: &Told,
    last: &mut Option<(String, u64, Option<u64>)>,
) -> PyResult<()> {
    let Some(progress) = progress else { return Ok(()) };
    let now = told.now();
    if now.0.is_empty() || last.as_ref() == Some(&now) {
        return Ok(());
    }
    progress.call1((now.0.as_str(), now.1, now.2))?;
    *last = Some(now);
    Ok(())
}
