//! Executes a plan: every step, every answer, every crash, against the model.
//!
//! The runner lets events happen one at a time; whatever the group says is judged at once. A run
//! ends with everything settled, read back, and every slot given back; or with a failure.

use crate::dice::Dice;
use crate::faults::{Loss, Rot};
use crate::model::Model;
use crate::panics;
use crate::plan::{Plan, PoolPlan, Step};
use crate::restless::Restless;
use crate::world::{Injection, Said, World};
use std::collections::{BTreeMap, BTreeSet};
use thermocline_policy::placement::Placement;
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Nanos, PoolId, situations};
use thermocline_volume::{
    Finished, Operation, OperationId, OperationKind, Outcome, Reply, Service,
};

/// Virtual time in which everything under way must end once nothing misbehaves.
pub(crate) const PATIENCE: Nanos = Nanos::from_secs(3600);
/// Virtual time in which no plan makes more than [`EVENTS_MAX`] events.
const MOMENT: Nanos = Nanos(100_000_000);
/// Events of a moment. A slow device and a fast clock make many more before they come to an end.
const EVENTS_MAX: u64 = 100_000;
/// Events in which everything under way must end: about half a minute of real time.
const EVENTS_IN_ALL_MAX: u64 = 10_000_000;

/// Failure of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Description of the failure.
    pub(crate) what: String,
    /// The step under way; as many as there are: the closing checks.
    pub(crate) step: usize,
}

/// Counts of situations in a run: where one never happens, it is not tested.
pub(crate) type Marks = BTreeMap<&'static str, u64>;

/// Result of a run that went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Equal for equal runs.
    pub(crate) digest: u64,
    /// The next random number: equal for equal runs.
    pub(crate) next: u64,
    pub(crate) events: u64,
    pub(crate) virtual_time: Nanos,
    pub(crate) marks: Marks,
}

/// Wishes to a run besides its plan.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extras {
    pub(crate) injection: Option<Injection>,
    /// Placement that decides wherever the plan has one; the restless one when `None`.
    pub(crate) placement: Option<&'static str>,
}

/// Executes `plan`; a panic of the machine is a failure like any other.
///
/// # Errors
/// When the group breaks a promise.
pub(crate) fn run(plan: &Plan, extras: Extras) -> Result<Summary, Failure> {
    let mut step = 0;
    let _ = situations::take();
    let outcome = panics::kept(|| Runner::new(plan, extras)?.execute(&mut step));
    outcome.flatten().map_err(|what| Failure { what, step })
}

/// Device requests that `plan` takes, for each pool.
///
/// # Errors
/// When the run fails.
pub(crate) fn count_requests(plan: &Plan) -> Result<Vec<u64>, String> {
    let mut runner = Runner::new(plan, Extras::default())?;
    runner.execute(&mut 0)?;
    Ok(runner.requests_to_each())
}

/// Everything that passes between the group, its disks and its clients in a run, line by line.
pub(crate) fn trace(plan: &Plan, extras: Extras) -> String {
    let mut runner = match Runner::new(plan, extras) {
        Ok(runner) => runner,
        Err(what) => return what,
    };
    runner.world.start_trace();
    let outcome = panics::kept(|| runner.execute(&mut 0)).flatten();
    let end = outcome.err().unwrap_or("all is well".to_string());
    format!("{}\n{end}\n", runner.world.take_trace())
}

/// A moment of virtual time: the events before it, and when it began.
struct Pace {
    events: u64,
    since: Nanos,
}

/// One run under way.
pub(crate) struct Runner<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) world: World,
    pub(crate) model: Model,
    pub(crate) dice: Dice,
    /// Plans of all disks that were ever plugged in.
    pub(crate) pools: Vec<PoolPlan>,
    pub(crate) requests: u64,
    pub(crate) operations: BTreeMap<OperationId, Operation>,
    /// Operations that have ended since the group was opened.
    pub(crate) ended: BTreeSet<OperationId>,
    /// Operations that shall end as cancelled.
    pub(crate) cancelled: BTreeSet<OperationId>,
    /// True if the group was in service since it was last created.
    pub(crate) formatted: bool,
    /// True if volumes were compared since the group was last opened.
    pub(crate) adopted: bool,
    /// The last epoch, counted from time 0, in which the group was checked.
    pub(crate) checked_in: u64,
    /// The event before which the group was opened.
    pub(crate) opened: u64,
    /// The event, by volume, before which the last flush was submitted that was answered well.
    pub(crate) flushed: BTreeMap<u32, u64>,
    /// Requests in flight that could not be served at some moment.
    pub(crate) excused: BTreeSet<u64>,
    /// Share that each request counted for when the group took it.
    pub(crate) shares: BTreeMap<u64, Option<PoolId>>,
    /// The last event after which all pools were full.
    pub(crate) full: Option<u64>,
    /// Writes that died with their pool, and no flush has said so yet.
    pub(crate) losses: Vec<Loss>,
    /// A bit that flipped and was not yet found.
    pub(crate) rot: Option<Rot>,
    /// True if some pool grew, ever.
    pub(crate) grown: bool,
    /// Operations that have failed since the group was opened.
    pub(crate) gone_wrong: Vec<Operation>,
    /// Chunks that were on their way to a pool that was dead when the power failed.
    pub(crate) bound: Vec<(u32, Operation)>,
    /// True if a placement moves chunks.
    pub(crate) placing: bool,
    placement: Option<&'static str>,
    /// Counts of situations.
    marks: Marks,
    /// A read that is not compared with the model, and its answer.
    pub(crate) probe: Option<(u64, Option<Reply>)>,
}

impl<'a> Runner<'a> {
    /// A placement that knows nothing yet.
    pub(crate) fn make_placement(&self, seed: u32) -> Box<dyn Placement> {
        let Some(spec) = self.placement else { return Restless::boxed(seed) };
        let spec = PolicySpec::parse(spec).expect("a policy that is registered");
        spec.build_placement().expect("a placement with right settings")
    }

    fn new(plan: &'a Plan, extras: Extras) -> Result<Runner<'a>, String> {
        let mut world = World::new(plan, extras.injection)?;
        let _ = world.exchange();
        Ok(Runner {
            plan,
            world,
            model: Model::new(plan.settings.chunk_size.0 / u64::from(thermocline_ports::SECTOR)),
            dice: Dice::seeded(plan.seed ^ 0xd1ce),
            pools: plan.pools.clone(),
            requests: 0,
            operations: BTreeMap::new(),
            ended: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            placement: extras.placement,
            formatted: false,
            adopted: true,
            checked_in: 0,
            opened: 0,
            flushed: BTreeMap::new(),
            excused: BTreeSet::new(),
            grown: false,
            gone_wrong: Vec::new(),
            bound: Vec::new(),
            shares: BTreeMap::new(),
            full: None,
            losses: Vec::new(),
            rot: None,
            placing: false,
            marks: Marks::new(),
            probe: None,
        })
    }

    fn execute(&mut self, index: &mut usize) -> Result<Summary, String> {
        for (number, step) in self.plan.steps.iter().enumerate() {
            *index = number;
            self.world.tell(|| format!("step {number}: {step:?}"));
            self.act(step)?;
        }
        *index = self.plan.steps.len();
        self.finish()?;
        Ok(Summary {
            digest: self.world.digest(),
            next: self.world.rng.next_u64() ^ self.dice.0.next_u64(),
            events: self.world.events(),
            virtual_time: self.world.now,
            marks: self.take_marks(),
        })
    }

    fn act(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Wait { us } => self.wait(Nanos::from_micros(us.into())),
            Step::Events { count } => {
                for _ in 0..count {
                    self.event()?;
                }
                Ok(())
            }
            Step::Crash { survival } => self.crash(survival),
            Step::Verify { eighths } => self.verify(eighths),
            Step::Settle => self.settle(),
            Step::Close { cut } => self.close(cut),
            Step::Calm => {
                self.world.calm();
                Ok(())
            }
            _ => {
                self.await_ready()?;
                self.ask(step)?;
                let said = self.world.exchange();
                self.hear(said)
            }
        }
    }

    /// Lets one event happen; nothing when nothing is under way.
    pub(crate) fn event(&mut self) -> Result<bool, String> {
        let Some(erred) = self.world.step() else { return Ok(false) };
        if erred {
            // Before the group hears of it: chunks may be elsewhere the next moment.
            self.note_lost();
        }
        let said = self.world.deliver();
        self.note_excuses();
        self.hear(said)?;
        self.check_at_epochs()?;
        Ok(true)
    }

    /// The group finds itself in order in each epoch in which something happens.
    fn check_at_epochs(&mut self) -> Result<(), String> {
        let epoch = self.world.now.0 / self.plan.settings.epoch.0.max(1);
        if epoch == self.checked_in {
            return Ok(());
        }
        self.checked_in = epoch;
        self.check_self()
    }

    /// Lets virtual time pass.
    pub(crate) fn wait(&mut self, span: Nanos) -> Result<(), String> {
        let until = Nanos(self.world.now.0 + span.0);
        let mut pace = self.pace();
        while self.world.next_event().is_some_and(|at| at <= until) {
            self.event()?;
            self.must_advance(&mut pace)?;
        }
        self.world.now = until;
        Ok(())
    }

    /// Lets events happen until `done`, which must not take forever.
    pub(crate) fn until(
        &mut self,
        what: &str,
        done: impl Fn(&Runner<'_>) -> bool,
    ) -> Result<(), String> {
        let (events, start, mut pace) = (self.world.events(), self.world.now, self.pace());
        while !done(self) {
            if !self.event()? {
                return Err(format!("{what}: nothing happens any more; {}", self.open_ends()));
            }
            self.must_advance(&mut pace)?;
            if self.world.events() - events > EVENTS_IN_ALL_MAX {
                return Err(format!("{what}: {EVENTS_IN_ALL_MAX} events; {}", self.open_ends()));
            }
            if self.world.now.saturating_sub(start) > PATIENCE {
                return Err(format!("{what}: not within {PATIENCE}; {}", self.open_ends()));
            }
        }
        Ok(())
    }

    /// The moment that begins now.
    fn pace(&self) -> Pace {
        Pace { events: self.world.events(), since: self.world.now }
    }

    /// Virtual time passes: no moment has more events than it may have.
    fn must_advance(&self, pace: &mut Pace) -> Result<(), String> {
        if self.world.now.saturating_sub(pace.since) > MOMENT {
            *pace = self.pace();
        }
        match self.world.events() - pace.events > EVENTS_MAX {
            true => Err(format!("{EVENTS_MAX} events within {MOMENT}; {}", self.open_ends())),
            false => Ok(()),
        }
    }

    /// Description of what is not answered or not finished.
    pub(crate) fn open_ends(&self) -> String {
        let flights: Vec<String> = self
            .model
            .flights()
            .iter()
            .map(|(n, f)| format!("request {n} ({:?} {:?} of {})", f.deed, f.range, f.volume))
            .collect();
        let operations: Vec<String> = self
            .operations
            .iter()
            .map(|(id, operation)| format!("{id:?}: {operation:?}"))
            .collect();
        let service = self.world.group().service();
        let pending = self.world.group().operations_pending();
        let under_way = self.world.group().operations(4);
        let open = [flights, operations].concat().join("; ");
        format!("{service:?}; {pending} operations pending, {under_way:?}; open: {open}")
    }

    /// Everything under way comes to its end; the machine finds itself in order.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.await_ready()?;
        self.until("settling", |runner| {
            runner.model.flights().is_empty() && runner.operations.is_empty()
        })?;
        self.check_self()
    }

    pub(crate) fn check_self(&self) -> Result<(), String> {
        if matches!(self.world.group().service(), Service::Failed(_)) {
            return Ok(()); // Whatever was under way is let go as it is.
        }
        let flaws = self.world.group().fsck();
        match flaws.is_empty() {
            true => Ok(()),
            false => Err(format!("fsck finds {flaws:?}")),
        }
    }

    /// The group is in service; volumes are what they may be.
    pub(crate) fn await_ready(&mut self) -> Result<(), String> {
        let opened = |runner: &Runner<'_>| *runner.world.group().service() != Service::Opening;
        for _ in 0..3 {
            self.until("opening", opened)?;
            match self.world.group().service().clone() {
                Service::Ready => {
                    self.formatted = true;
                    return self.adopt();
                }
                Service::Failed(_) if self.world.any_erred_since(self.opened) => self.reopen()?,
                service => {
                    return Err(format!("the group is {service:?} though no device failed"));
                }
            }
        }
        Err(format!("the group opens no more: {:?}", self.world.group().service()))
    }

    /// Judges what the group says.
    pub(crate) fn hear(&mut self, said: Said) -> Result<(), String> {
        let zeroing = if said.finished.is_empty() { BTreeSet::new() } else { self.zeroing() };
        for reply in said.replies {
            self.answer(reply)?;
        }
        for (at, finished) in said.finished.iter().enumerate() {
            if !self.ended.insert(finished.id) {
                return Err(format!("{finished:?} has ended before"));
            }
            if finished.outcome == Outcome::Failed {
                self.gone_wrong.push(finished.operation);
            }
            // What the group starts by itself ends here, too.
            if let Some(asked) = self.operations.remove(&finished.id)
                && (asked.chunk, asked.to) != (finished.operation.chunk, finished.operation.to)
            {
                return Err(format!("{finished:?}, but what was asked for is {asked:?}"));
            }
            if self.cancelled.remove(&finished.id) && finished.outcome == Outcome::Done {
                return Err(format!("{finished:?}, but it was cancelled"));
            }
            self.mark(match (finished.outcome, finished.operation.kind) {
                (Outcome::Done, OperationKind::Migrate) => "migrations done",
                (Outcome::Done, OperationKind::Replicate) => "replications done",
                (Outcome::Done, OperationKind::Prefetch) => "prefetches done",
                (Outcome::Done, OperationKind::Redirect) => "redirections done",
                (Outcome::Done, OperationKind::Mirror) => "mirrors done",
                (Outcome::Cancelled, _) => "operations cancelled",
                (Outcome::Failed, _) => "operations failed",
            });
            // Where a prefetched copy is, a move begins and ends in one moment: behind another one.
            let later = |next: &Finished| next.operation.chunk == finished.operation.chunk;
            let moved_on = said.finished[at + 1..].iter().any(later);
            let moved = finished.outcome == Outcome::Done && !moved_on;
            if moved && !zeroing.contains(&finished.operation.chunk) {
                self.check_moved(&finished.operation)?;
            }
        }
        Ok(())
    }

    /// Counts of situations, with those that the machine has met.
    fn take_marks(&mut self) -> Marks {
        let mut marks = std::mem::take(&mut self.marks);
        marks.extend(situations::take().into_iter().map(|situation| (situation, 1)));
        marks
    }

    /// Counts something that happened.
    pub(crate) fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    fn requests_to_each(&self) -> Vec<u64> {
        (0..self.world.disks()).map(|pool| self.world.submitted(pool)).collect()
    }
}
