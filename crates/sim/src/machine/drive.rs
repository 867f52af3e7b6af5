//! Feeding a load to a machine, and keeping the books.
//!
//! Open loop: a request arrives when the trace says so, whatever the machine is doing; its latency
//! runs from that moment, so what it waits in front of a machine that has as many as it takes
//! counts. Closed loop: so many requests are always under way, in the order of the trace; a latency
//! runs from the moment of asking.
//!
//! Before that, unless the volume shall be thin, or begins as another one is (`start`): each chunk
//! that the trace reads or writes is written once, 4 KiB of it, by ascending address, so that the
//! machine's own fill rule decides where it stands; then a flush; then the clock goes to the next
//! whole epoch, and only then does the placement join and the measurement begin.

use super::load::{Demand, Load};
use super::meter::{Meter, SLICES, Served, Slicing};
use super::proposals::{Counted, Proposals};
use super::run::{Arrivals, Cast, MachineError, MachineOptions};
use super::stage::Stage;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use thermocline_ports::Payload;
use thermocline_trace::Op;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{Action, Priority, Request, RequestError, RequestId};

/// Writes under way while a volume is being populated.
const POPULATING: usize = 256;
/// Bytes of such a write.
const POPULATED: u32 = 4096;
/// Waits for what cannot come, such as a machine that never answers, end after so much virtual
/// time.
const PATIENCE: Nanos = Nanos::from_secs(1_000_000_000);

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Flying {
    asked: Nanos,
    demand: u32,
    pool: Option<PoolId>,
    moving: bool,
}

/// A load on its way through a machine.
pub(super) struct Drive<'a> {
    stage: Stage,
    load: &'a Load,
    options: &'a MachineOptions,
    meter: Meter,
    flying: Vec<Flying>,
    free: Vec<u32>,
    /// Demands that arrived while the machine had as many as it takes, and when.
    waiting: BTreeMap<Option<PoolId>, VecDeque<(u32, Nanos)>>,
    waited: u64,
    waiting_max: usize,
    /// The next demand.
    next: usize,
    started: Nanos,
    label: String,
    proposals: Arc<Proposals>,
}

/// A run that has ended.
pub(super) struct Ended {
    pub(super) stage: Stage,
    pub(super) meter: Meter,
    /// Requests that had to wait in front of the machine, and how many did at once.
    pub(super) waited: (u64, usize),
    /// Moves that the placement proposed.
    pub(super) proposed: u64,
}

/// Makes the volumes, and fills them unless they shall be thin.
pub(super) fn prepare(
    stage: &mut Stage,
    load: &Load,
    options: &MachineOptions,
    touched: &[ChunkId],
) -> Result<(), MachineError> {
    for extent in &load.extents {
        let size = extent.0.max(1).next_multiple_of(options.chunk.0);
        stage.group.create_volume(stage.now(), Bytes(size))?;
    }
    match &options.start {
        Some(start) => start.fill(stage)?,
        None if options.populate => populate(stage, touched)?,
        None => {}
    }
    let flush = request(RequestId(0), VolumeId(0), Action::Flush);
    run_batch(stage, std::iter::once(flush), 1)?;
    let epoch = options.epoch.0;
    stage.pass_until(Nanos((stage.now().0 / epoch + 1) * epoch));
    Ok(())
}

pub(super) fn request(id: RequestId, volume: VolumeId, action: Action) -> Request {
    Request { id, volume, action, priority: Priority::Foreground }
}

fn populate(stage: &mut Stage, touched: &[ChunkId]) -> Result<(), MachineError> {
    let chunk = stage.group.chunk_size().0;
    let writes = touched.iter().enumerate().map(|(index, id)| {
        let offset = Bytes(u64::from(id.index) * chunk);
        let payload = Payload::Zeroes(POPULATED);
        request(RequestId(index as u64), id.volume, Action::Write { offset, payload, fua: false })
    });
    run_batch(stage, writes, POPULATING)
}

/// Runs requests, `depth` at a time, until all are answered.
pub(super) fn run_batch(
    stage: &mut Stage,
    requests: impl Iterator<Item = Request>,
    depth: usize,
) -> Result<(), MachineError> {
    let mut requests = requests.peekable();
    let end = Nanos(stage.now().0.saturating_add(PATIENCE.0));
    let mut under_way = 0;
    loop {
        while under_way < depth {
            let Some(request) = requests.next() else { break };
            let taken = stage.submit(request);
            assert!(taken.is_ok(), "the machine takes more than {depth} requests");
            under_way += 1;
        }
        for reply in stage.replies.drain(..) {
            reply.result.map_err(|error| MachineError::Populating(error.to_string()))?;
            under_way -= 1;
        }
        if under_way == 0 && requests.peek().is_none() {
            return Ok(());
        }
        if under_way > 0 && !stage.step(end) {
            return Err(MachineError::Stuck(under_way as u64));
        }
    }
}

impl<'a> Drive<'a> {
    /// A drive that begins now; the placement decides from here on, and the observer listens.
    pub(super) fn new(
        mut stage: Stage,
        load: &'a Load,
        options: &'a MachineOptions,
        cast: Cast<'_>,
    ) -> Drive<'a> {
        let (placement, proposals) = Counted::new(cast.placement);
        if let Some(observer) = cast.observer {
            let observer = observer(&stage.group);
            stage.group.set_observer(Some(observer));
        }
        stage.group.set_named_placement(&cast.name, Box::new(placement));
        let slicing = match options.arrivals {
            Arrivals::Open { speed } => {
                let span = load.span().0 as f64 / speed;
                Slicing::Every(Nanos((span as u64).div_ceil(SLICES).max(1)))
            }
            Arrivals::Closed { .. } => {
                Slicing::Answers((load.demands.len() as u64).div_ceil(SLICES))
            }
        };
        let meter = Meter::start(&mut stage, slicing);
        Drive {
            started: stage.now(),
            stage,
            load,
            options,
            meter,
            flying: Vec::new(),
            free: Vec::new(),
            waiting: BTreeMap::new(),
            waited: 0,
            waiting_max: 0,
            next: 0,
            label: cast.name,
            proposals,
        }
    }

    /// Runs the load to the last answer. `progress` is told requests asked, now and then.
    pub(super) fn run(mut self, progress: &dyn Fn(u64)) -> Result<Ended, MachineError> {
        let end =
            Nanos(self.started.0.saturating_add(self.load.span().0).saturating_add(PATIENCE.0));
        let mut told = 0;
        loop {
            self.take_answers()?;
            let arrival = self.next_arrival();
            let event = self.stage.next_event();
            let Some(at) = earliest(arrival, event) else { break };
            if self.is_over() {
                break;
            }
            if at > end {
                return Err(MachineError::Stuck(self.under_way()));
            }
            self.meter.until(&self.stage, at);
            match arrival {
                Some(arrival) if event.is_none_or(|event| arrival < event) => {
                    self.stage.wait(arrival);
                    self.arrive();
                }
                _ => self.stage.happen(at),
            }
            self.check_placement()?;
            if self.meter.asked() - told >= 10_000 {
                progress(self.meter.asked() - told);
                told = self.meter.asked();
            }
        }
        if !self.is_over() {
            return Err(MachineError::Stuck(self.under_way()));
        }
        progress(self.meter.asked() - told);
        self.meter.stop(&self.stage);
        let proposed = self.proposals.proposed();
        let Drive { stage, meter, waited, waiting_max, .. } = self;
        Ok(Ended { stage, meter, waited: (waited, waiting_max), proposed })
    }

    /// That the placement has not failed.
    #[inline]
    fn check_placement(&self) -> Result<(), MachineError> {
        match self.proposals.failure() {
            None => Ok(()),
            Some(problem) => Err(MachineError::Failed(self.label.clone(), problem.to_string())),
        }
    }

    fn under_way(&self) -> u64 {
        (self.flying.len() - self.free.len() + self.waiting_now()) as u64
    }

    fn is_over(&self) -> bool {
        self.next == self.load.demands.len() && self.under_way() == 0
    }

    /// Time of the next demand; `None` when there is none, or it waits for an answer.
    #[inline]
    fn next_arrival(&self) -> Option<Nanos> {
        let demand = self.load.demands.get(self.next)?;
        match self.options.arrivals {
            Arrivals::Open { speed } => {
                let first = self.load.demands[0].at;
                let after = demand.at.saturating_sub(first).0;
                let after = if speed == 1.0 { after } else { (after as f64 / speed) as u64 };
                Some(Nanos(self.started.0 + after).max(self.stage.now()))
            }
            Arrivals::Closed { outstanding } => {
                let room = self.under_way() < u64::from(outstanding);
                room.then_some(self.stage.now())
            }
        }
    }

    /// The next demand arrives now.
    fn arrive(&mut self) {
        let (demand, now) = (self.next as u32, self.stage.now());
        self.next += 1;
        self.meter.ask(now);
        let pool = |drive: &Drive<'_>| drive.pool_of(&drive.load.demands[demand as usize]);
        let waits = !self.waiting.is_empty() && self.waiting.contains_key(&pool(self));
        if !waits && self.send(demand, now) {
            return;
        }
        let pool = pool(self);
        self.waited += 1;
        self.waiting.entry(pool).or_default().push_back((demand, now));
        self.waiting_max = self.waiting_max.max(self.waiting_now());
    }

    fn waiting_now(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// Lets in what waited for answers: of each pool as many as the machine takes.
    fn send_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|_, demands| {
            while let Some(&(demand, asked)) = demands.front() {
                if !self.send(demand, asked) {
                    return true;
                }
                demands.pop_front();
            }
            false
        });
        self.waiting = waiting;
    }

    /// Hands a demand to the machine; whether it took it.
    fn send(&mut self, index: u32, asked: Nanos) -> bool {
        let demand = &self.load.demands[index as usize];
        let flying = Flying {
            asked,
            demand: index,
            pool: self.pool_of(demand),
            moving: self.stage.group.operations_pending() > 0,
        };
        let id = self.free.last().copied().unwrap_or(self.flying.len() as u32);
        let id = RequestId(u64::from(id));
        if self.stage.submit(request(id, demand.volume(), action(demand))).is_err() {
            return false;
        }
        match self.free.pop() {
            Some(free) => self.flying[free as usize] = flying,
            None => self.flying.push(flying),
        }
        true
    }

    /// The slowest pool that a demand's chunks are on.
    #[inline]
    fn pool_of(&self, demand: &Demand) -> Option<PoolId> {
        let volume = demand.volume();
        let pool = |index| self.stage.group.pool_of(ChunkId { volume, index });
        demand.chunks(self.options.chunk).filter_map(pool).max()
    }

    /// Files answers, and lets in what waited for them.
    #[inline]
    fn take_answers(&mut self) -> Result<(), MachineError> {
        while let Some(reply) = self.stage.replies.pop() {
            let index = reply.id.0 as u32;
            match reply.result {
                Ok(_) => self.file(index),
                Err(RequestError::NoSpace | RequestError::Io) => {
                    self.free.push(index);
                    self.meter.fail(self.stage.now());
                }
                Err(error) => return Err(MachineError::NotReady(error.to_string())),
            }
            if !self.waiting.is_empty() {
                self.send_waiting();
            }
        }
        for finished in self.stage.finished.drain(..) {
            self.meter.ended(&finished);
        }
        Ok(())
    }

    fn file(&mut self, index: u32) {
        let flying = self.flying[index as usize];
        self.free.push(index);
        let demand = &self.load.demands[flying.demand as usize];
        let pool = match (flying.pool, demand.op) {
            (None, Op::Write) => self.pool_of(demand),
            (pool, _) => pool,
        };
        let served = Served { op: demand.op, pool, moving: flying.moving };
        let took = self.stage.now().saturating_sub(flying.asked);
        self.meter.answer(&self.stage, served, demand.length().0, took);
    }
}

fn action(demand: &Demand) -> Action {
    let (offset, length) = (demand.offset(), demand.length());
    match demand.op {
        Op::Read => Action::Read { offset, length: length.0 as u32 },
        Op::Write => {
            Action::Write { offset, payload: Payload::Zeroes(length.0 as u32), fua: false }
        }
        Op::Trim => Action::Discard { offset, length },
        Op::Flush => Action::Flush,
    }
}

fn earliest(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
