//! A machine that programs work on: several tasks, each a closed loop of its own, that ask, wait,
//! flush and give hints.
//!
//! 1. A task says what it does next; it has as many requests under way as it may, and waits for all
//!    of them before it flushes, pauses or ends.
//! 2. A latency runs from the moment of asking, and is filed under the task's crew.
//! 3. A run is over when every task that counts has ended and everything is answered; the others
//!    are asked for nothing more from then on.
//!
//! The machine stays as it is between runs, so that one run makes files and the next uses them.
//! Invariants: each request is answered and filed once; equal seeds and tasks give equal runs. Not
//! here: what the tasks do.

use super::load::Load;
use super::pools::PoolPlan;
use super::run::{MachineError, MachineOptions};
use super::stage::Stage;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use thermocline_policy::hints::rules::Classes;
use thermocline_policy::hints::store::Hint;
use thermocline_policy::hints::{Facts, Level, Wishes};
use thermocline_policy::placement::Placement;
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Latencies, Nanos, PoolId, VolumeId};
use thermocline_volume::{
    Action, HintCounts, Operation, OperationKind, PoolCounters, Priority, Refusal, Reply, Request,
    RequestError, RequestId,
};

/// The one volume of a session.
const VOLUME: VolumeId = VolumeId(0);
/// Time given to the queue of copies to have room.
const QUEUE_DRAINS_IN: Nanos = Nanos::from_micros(100_000);
/// Name of the source of hints.
const SOURCE: &str = "session";

/// A task's next step. Offsets and lengths are bytes, multiples of 512.
#[derive(Debug, Clone)]
pub enum Step {
    /// Reads.
    Read(u64, u32),
    /// Writes.
    Write(u64, u32),
    /// Forgets a range.
    Discard((u64, u64)),
    /// Makes durable what was written; after everything of the task's own is answered.
    Flush,
    /// Does nothing until then, after everything of the task's own is answered.
    Until(Nanos),
    /// Says something of a range of bytes.
    Say((u64, u64), Box<Facts>),
    /// Takes back what was said of a range.
    Unsay((u64, u64)),
    /// Wishes copies of a range in the reserve.
    Prefetch((u64, u64)),
}

/// A program: at each call it says what it does next, or that it has ended. `now` is the session's
/// clock.
pub type Task<'a> = Box<dyn FnMut(Nanos) -> Option<Step> + 'a>;

/// A task, and how it is run.
pub struct Worker<'a> {
    /// Its task.
    pub task: Task<'a>,
    /// Requests that it has under way at most, at least 1.
    pub depth: u32,
    /// Under which number its requests are filed.
    pub crew: usize,
    /// Time that its requests may wait for those of others; `None`: they are in front.
    pub patience: Option<Nanos>,
    /// True if the run goes on until it has ended.
    pub counts: bool,
}

/// Answers to a crew.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Latencies of reads.
    pub reads: Latencies,
    /// Latencies of writes.
    pub writes: Latencies,
    /// Latencies of flushes.
    pub flushes: Latencies,
    /// Bytes read and written.
    pub bytes: u64,
}

impl Tally {
    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.reads.count() + self.writes.count()
    }

    /// Mean latency of reads and writes, seconds; 0 of none.
    pub fn mean_s(&self) -> f64 {
        let sum = self.reads.sum().as_secs_f64() + self.writes.sum().as_secs_f64();
        sum / self.requests().max(1) as f64
    }
}

/// Outcome of a run.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Time that it took.
    pub took: Nanos,
    /// One a crew.
    pub crews: Vec<Tally>,
    /// Counters of each pool meanwhile.
    pub pools: Vec<PoolCounters>,
    /// Effects of hints since the session began.
    pub hints: HintCounts,
}

/// A task under way.
struct Working<'a> {
    worker: Worker<'a>,
    under_way: u32,
    /// Step that has to wait until nothing of its own is under way.
    barred: Option<Step>,
    over: bool,
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Flying {
    worker: usize,
    asked: Nanos,
    bytes: u32,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Flush,
    Discard,
}

/// A machine that programs work on.
pub struct Session {
    stage: Stage,
}

impl Session {
    /// A machine with one volume of `size`, all of it mapped by ascending address where `thick`.
    ///
    /// # Errors
    /// When an option or the pools cannot be used, or do not hold the volume.
    pub fn new(
        pools: &[PoolPlan],
        options: &MachineOptions,
        size: Bytes,
        thick: bool,
        classes: Option<Classes>,
    ) -> Result<Session, MachineError> {
        options.check()?;
        let count = size.0.div_ceil(options.chunk.0);
        let chunks: Vec<u64> =
            pools.iter().map(|pool| pool.size.chunks(options.chunk, count)).collect();
        let options = MachineOptions { populate: thick, ..options.clone() };
        super::run::check_room(&chunks, pools, count, &options)?;
        let mut stage = Stage::new(&options, pools, &chunks)?;
        let touched = Load::all_of(size, options.chunk);
        let load = Load { extents: vec![size], ..Load::default() };
        super::drive::prepare(&mut stage, &load, &options, &touched)?;
        if let Some(classes) = classes {
            stage.group.set_hint_classes(classes);
        }
        Ok(Session { stage })
    }

    /// Lets a placement decide from now on.
    pub fn place(&mut self, name: &str, placement: Box<dyn Placement>) {
        self.stage.group.set_named_placement(name, placement);
    }

    /// The clock.
    pub fn now(&self) -> Nanos {
        self.stage.now()
    }

    /// Lets `span` pass without a request.
    pub fn rest(&mut self, span: Nanos) {
        self.stage.pass_until(Nanos(self.stage.now().0 + span.0));
        self.stage.finished.clear();
    }

    /// Asks for a copy of each of these chunks on a pool, counted from the fastest, as a REPLICATE
    /// hint does; lets time pass while the queue of copies is full or a chunk is
    /// being copied. Chunks that hold nothing, or
    /// have a copy there, are passed over. How many copies were asked for.
    ///
    /// # Errors
    /// When the pool takes no copies.
    pub fn replicate(
        &mut self,
        chunks: impl IntoIterator<Item = u32>,
        pool: usize,
    ) -> Result<u64, MachineError> {
        let mut asked = 0;
        for index in chunks {
            let chunk = ChunkId { volume: VOLUME, index };
            let (kind, to) = (OperationKind::Replicate, PoolId(pool as u16));
            loop {
                let now = self.stage.now();
                match self.stage.group.start(now, Operation { kind, chunk, to }) {
                    Ok(_) => asked += 1,
                    Err(Refusal::Unmapped | Refusal::AlreadyThere) => {}
                    Err(Refusal::QueueFull | Refusal::Busy) => {
                        self.rest(QUEUE_DRAINS_IN);
                        continue;
                    }
                    Err(refusal) => return Err(MachineError::Options(refusal.to_string())),
                }
                break;
            }
            self.stage.hand_over();
        }
        Ok(asked)
    }

    /// Bytes copied between pools since the session began.
    pub fn copied_bytes(&self) -> u64 {
        self.stage.pool_counters().iter().map(|pool| pool.copied_in_bytes).sum()
    }

    /// Runs tasks to their end.
    ///
    /// # Errors
    /// When a request is refused, or the machine does not answer.
    pub fn run(&mut self, workers: Vec<Worker<'_>>) -> Result<Ran, MachineError> {
        let crews = workers.iter().map(|worker| worker.crew + 1).max().unwrap_or(0);
        let (started, before) = (self.now(), self.stage.pool_counters());
        let working = |worker| Working { worker, under_way: 0, barred: None, over: false };
        let shift = Shift {
            stage: &mut self.stage,
            workers: workers.into_iter().map(working).collect(),
            flying: Vec::new(),
            free: Vec::new(),
            asleep: BinaryHeap::new(),
            crews: vec![Tally::default(); crews],
        };
        let crews = shift.run()?;
        let pools = self.stage.pool_counters();
        Ok(Ran {
            took: self.now().saturating_sub(started),
            crews,
            pools: pools.iter().zip(&before).map(|(now, then)| now.since(then)).collect(),
            hints: self.stage.group.hint_counts(),
        })
    }
}

/// A run under way.
struct Shift<'s, 'a> {
    stage: &'s mut Stage,
    workers: Vec<Working<'a>>,
    flying: Vec<Flying>,
    free: Vec<u32>,
    asleep: BinaryHeap<Reverse<(Nanos, usize)>>,
    crews: Vec<Tally>,
}

impl Shift<'_, '_> {
    fn run(mut self) -> Result<Vec<Tally>, MachineError> {
        for worker in 0..self.workers.len() {
            self.feed(worker)?;
        }
        loop {
            while let Some(reply) = self.stage.replies.pop() {
                self.file(reply)?;
            }
            self.stage.finished.clear();
            if self.flying.len() == self.free.len() && self.all_ended() {
                return Ok(self.crews);
            }
            let event = self.stage.next_event();
            match self.asleep.peek().copied() {
                Some(Reverse((at, worker))) if event.is_none_or(|event| at < event) => {
                    self.asleep.pop();
                    self.stage.wait(at);
                    self.feed(worker)?;
                }
                _ => match event {
                    Some(at) => self.stage.happen(at),
                    None => return Err(MachineError::Stuck(self.under_way())),
                },
            }
        }
    }

    fn under_way(&self) -> u64 {
        (self.flying.len() - self.free.len()) as u64
    }

    fn all_ended(&self) -> bool {
        self.workers.iter().all(|working| working.over || !working.worker.counts)
    }

    /// Lets a worker go on as far as it may.
    fn feed(&mut self, worker: usize) -> Result<(), MachineError> {
        let ended = self.all_ended();
        while let Some(step) = self.next_step(worker, ended) {
            match step {
                Step::Read(offset, length) => {
                    let action = Action::Read { offset: Bytes(offset), length };
                    self.ask(worker, action, length, Kind::Read);
                }
                Step::Write(offset, length) => {
                    let payload = Payload::Zeroes(length);
                    let action = Action::Write { offset: Bytes(offset), payload, fua: false };
                    self.ask(worker, action, length, Kind::Write);
                }
                Step::Discard((start, end)) => {
                    let (offset, length) = (Bytes(start), Bytes(end - start));
                    self.ask(worker, Action::Discard { offset, length }, 0, Kind::Discard);
                }
                Step::Flush => self.ask(worker, Action::Flush, 0, Kind::Flush),
                Step::Until(at) => {
                    self.asleep.push(Reverse((at.max(self.stage.now()), worker)));
                    return Ok(());
                }
                Step::Say(range, facts) => self.say(range, &facts)?,
                Step::Unsay(range) => {
                    let range = range.0..range.1;
                    self.stage.group.withdraw_hint(SOURCE, Level::File, VOLUME, range);
                }
                Step::Prefetch(range) => {
                    let now = self.stage.now();
                    let wished = self.stage.group.prefetch(now, VOLUME, range, None);
                    wished.map_err(|error| MachineError::Options(error.to_string()))?;
                    self.stage.hand_over();
                }
            }
        }
        Ok(())
    }

    /// Next step of a worker; `None`: it has ended, or has to wait for an answer.
    fn next_step(&mut self, worker: usize, ended: bool) -> Option<Step> {
        let now = self.stage.now();
        let working = &mut self.workers[worker];
        if working.over || working.under_way >= working.worker.depth {
            return None;
        }
        if working.barred.is_none() {
            let goes_on = working.worker.counts || !ended;
            let step = if goes_on { (working.worker.task)(now) } else { None };
            match step {
                None => {
                    working.over = true;
                    return None;
                }
                Some(step @ (Step::Flush | Step::Until(_))) => working.barred = Some(step),
                step => return step,
            }
        }
        if working.under_way == 0 { working.barred.take() } else { None }
    }

    fn say(&mut self, range: (u64, u64), facts: &Facts) -> Result<(), MachineError> {
        let (level, volume, wishes) = (Level::File, Some(VOLUME), Wishes::default());
        let hint = Hint { source: SOURCE, level, volume, range, facts, wishes, until: None };
        let taken = self.stage.group.hint(self.stage.now(), &hint);
        taken.map(drop).map_err(|error| MachineError::Options(error.to_string()))
    }

    fn ask(&mut self, worker: usize, action: Action, bytes: u32, kind: Kind) {
        let asked = self.stage.now();
        let flying = Flying { worker, asked, bytes, kind };
        let index = match self.free.pop() {
            Some(free) => {
                self.flying[free as usize] = flying;
                free
            }
            None => {
                self.flying.push(flying);
                self.flying.len() as u32 - 1
            }
        };
        let working = &mut self.workers[worker];
        working.under_way += 1;
        let wait = |patience: Nanos| Priority::Background { deadline: Nanos(asked.0 + patience.0) };
        let priority = working.worker.patience.map_or(Priority::Foreground, wait);
        let id = RequestId(u64::from(index));
        let taken = self.stage.submit(Request { id, volume: VOLUME, action, priority });
        assert!(taken.is_ok(), "tasks ask for less than the machine takes at once");
    }

    fn file(&mut self, reply: Reply) -> Result<(), MachineError> {
        if let Err(error @ (RequestError::NoSpace | RequestError::Io)) = &reply.result {
            return Err(MachineError::Options(format!("a request of the experiment: {error}")));
        }
        reply.result.map_err(|error| MachineError::NotReady(error.to_string()))?;
        let index = reply.id.0 as u32;
        let Flying { worker, asked, bytes, kind } = self.flying[index as usize];
        self.free.push(index);
        let took = self.stage.now().saturating_sub(asked);
        let tally = &mut self.crews[self.workers[worker].worker.crew];
        match kind {
            Kind::Read => tally.reads.record(took),
            Kind::Write => tally.writes.record(took),
            Kind::Flush => tally.flushes.record(took),
            Kind::Discard => {}
        }
        tally.bytes += u64::from(bytes);
        self.workers[worker].under_way -= 1;
        self.feed(worker)
    }
}

#[cfg(test)]
mod tests;
