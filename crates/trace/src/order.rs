//! Putting requests into the order of their times, and saying how much of that was needed.
//!
//! Two rules, one of which each format chooses (`formats/mod.rs` says which and why):
//!
//! *Window*: requests are held back and sorted by time, stably, so that a request may come up to
//! [`WINDOW_REQUESTS`] lines late. What comes later than that is moved up to the time already given
//! out when it is late by no more than the format's tolerance, and is an error otherwise.
//!
//! *Steady*: requests keep the file's order, because the order means more than the clock (content
//! hashes are stored in it, or times are whole seconds). A time that runs backwards by no more than
//! the format's tolerance is lifted to the time before it; more is an error.
//!
//! Either way times come out never decreasing and relative to the first request given out, and
//! every repair is counted. State: three blocks of `WINDOW_REQUESTS` × 56 bytes for the window,
//! 40 bytes for the steady rule.
//!
//! The window in steps. (1) Requests are read into `incoming` until it is full. (2) When nothing
//! in it was out of order, `held` — the block before — is given out and `incoming` takes its
//! place. (3) Otherwise both are joined and sorted, and the earliest, as many as `held` had, are
//! given out. (4) `floor` is the last time given out: nothing earlier can be put right any more.
//! A full window of later requests is then still held back, which is what makes step 3 sound.

use crate::formats::Problem;
use crate::request::{Batch, Request};
use thermocline_units::Nanos;

/// Number of requests that a request may come late and still be sorted into its place. The Tencent
/// sample at hand needs 25,640: its clock has whole seconds and its requests come shuffled within
/// two.
pub(crate) const WINDOW_REQUESTS: usize = 32_768;

/// Treatment of a format's disorder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrderRule {
    /// Sort within the window; beyond it, lift times late by at most the tolerance.
    Window(Nanos),
    /// Keep the file's order; lift times that run backwards by at most the tolerance.
    Steady(Nanos),
}

/// Counts of what was out of order.
#[derive(Debug, Default)]
struct Disorder {
    count: u64,
    worst: u64,
    first: Option<String>,
}

impl Disorder {
    #[cold]
    fn note(&mut self, late: u64, place: impl FnOnce() -> String) {
        self.count += 1;
        self.worst = self.worst.max(late);
        self.first.get_or_insert_with(place);
    }

    fn tell(&self, done: &str, repairs: &mut Vec<String>) {
        if let Some(first) = &self.first {
            repairs.push(format!(
                "{} out of time order by at most {}, {done}; the first at {first}",
                counted(self.count, "request was", "requests were"),
                Nanos(self.worst)
            ));
        }
    }
}

/// `1 request was`, `2 requests were`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

#[cold]
fn too_late(late: u64, tolerance: Nanos, remedy: &str) -> Problem {
    let bound = if tolerance == Nanos(0) {
        String::new()
    } else {
        format!(" (at most {tolerance} is repaired)")
    };
    Problem::new(format!("time runs backwards by {}{bound}; {remedy}", Nanos(late)))
}

/// Sorts by time within a window of requests.
#[derive(Debug)]
pub(crate) struct Window {
    tolerance: Nanos,
    incoming: Vec<Request>,
    held: Vec<Request>,
    out: Vec<Request>,
    given: usize,
    in_order: bool,
    newest: u64,
    floor: u64,
    origin: Option<u64>,
    sorted: Disorder,
    lifted: Disorder,
}

impl Window {
    pub(crate) fn new(tolerance: Nanos) -> Window {
        Window {
            tolerance,
            incoming: Vec::new(),
            held: Vec::new(),
            out: Vec::new(),
            given: 0,
            in_order: true,
            newest: 0,
            floor: 0,
            origin: None,
            sorted: Disorder::default(),
            lifted: Disorder::default(),
        }
    }

    /// True if [`Window::turn`] is due before more can be pushed.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.incoming.len() >= WINDOW_REQUESTS
    }

    /// Takes the next request of the file; its time is absolute.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        mut request: Request,
        place: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        if request.time.0 >= self.newest {
            self.newest = request.time.0;
        } else {
            self.take_late(&mut request, place)?;
        }
        self.incoming.push(request);
        Ok(())
    }

    #[cold]
    fn take_late(
        &mut self,
        request: &mut Request,
        place: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        self.in_order = false;
        if request.time.0 >= self.floor {
            self.sorted.note(self.newest - request.time.0, place);
            return Ok(());
        }
        let late = self.floor - request.time.0;
        if late > self.tolerance.0 {
            return Err(too_late(
                late,
                self.tolerance,
                &format!(
                    "more than {WINDOW_REQUESTS} requests lie between; sort the trace by time"
                ),
            ));
        }
        self.lifted.note(late, place);
        request.time = Nanos(self.floor);
        Ok(())
    }

    /// Makes the next block ready to be given out. Call it when the window is full, or at the end
    /// of the input until [`Window::is_empty`].
    pub(crate) fn turn(&mut self) {
        self.out.clear();
        self.given = 0;
        if !self.in_order {
            let settled = self.held.len();
            self.held.append(&mut self.incoming);
            self.held.sort_by_key(|request| request.time);
            self.incoming.extend(self.held.drain(settled..));
            self.in_order = true;
        }
        std::mem::swap(&mut self.out, &mut self.held);
        std::mem::swap(&mut self.held, &mut self.incoming);
        if let (None, Some(first)) = (self.origin, self.out.first()) {
            self.origin = Some(first.time.0);
        }
        if let Some(last) = self.out.last() {
            self.floor = last.time.0;
        }
    }

    /// True if everything pushed was given out.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_drained() && self.held.is_empty() && self.incoming.is_empty()
    }

    /// True if the ready block was given out.
    pub(crate) fn is_drained(&self) -> bool {
        self.given == self.out.len()
    }

    /// Moves ready requests into `batch` until it is full.
    pub(crate) fn give(&mut self, batch: &mut Batch) {
        let room = Batch::CAPACITY - batch.requests.len();
        let until = self.out.len().min(self.given + room);
        let origin = self.origin.unwrap_or(0);
        batch.requests.extend(
            self.out
                .get(self.given..until)
                .unwrap_or_default()
                .iter()
                .map(|request| Request { time: Nanos(request.time.0 - origin), ..*request }),
        );
        self.given = until;
    }

    /// Appends the repairs in words.
    pub(crate) fn repairs(&self, repairs: &mut Vec<String>) {
        self.sorted.tell("sorted into place", repairs);
        self.lifted.tell("too late to be sorted, so given the time before", repairs);
    }
}

/// Keeps the file's order and makes its times never decrease.
#[derive(Debug)]
pub(crate) struct Steady {
    tolerance: Nanos,
    origin: Option<u64>,
    newest: u64,
    lifted: Disorder,
}

impl Steady {
    pub(crate) fn new(tolerance: Nanos) -> Steady {
        Steady { tolerance, origin: None, newest: 0, lifted: Disorder::default() }
    }

    /// Takes the next request of the file: its absolute time becomes the relative one.
    #[inline(always)]
    pub(crate) fn admit(
        &mut self,
        request: &mut Request,
        place: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        let time = request.time.0;
        if time >= self.newest {
            self.newest = time;
        } else {
            let late = self.newest - time;
            if late > self.tolerance.0 {
                return Err(too_late(
                    late,
                    self.tolerance,
                    "is the trace in the order of its times?",
                ));
            }
            self.lifted.note(late, place);
        }
        let origin = *self.origin.get_or_insert(self.newest);
        request.time = Nanos(self.newest - origin);
        Ok(())
    }

    /// Appends the repairs in words.
    pub(crate) fn repairs(&self, repairs: &mut Vec<String>) {
        self.lifted.tell("so given the time before", repairs);
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::expect_used)] // Their bytes are their own.
mod tests;
