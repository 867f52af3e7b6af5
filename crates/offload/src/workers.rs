//! Workers: a thread for each slot, and the processor, which is the pool's own thread.
//!
//! A worker has an instance of its function for each share of a tenant's hosts that goes through
//! it. The state of a share moves as a whole: what one worker exports, another imports. Instances
//! are behind a lock, so that state can be saved while packets flow.

use crate::config::{FUNCTIONS, Rules};
use crate::saved::{self, Saved};
use crate::tenants::Tenants;
use bytes::{Buf, BufMut, Bytes};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use thermocline_accel::{Answer, Batched, FlowKey, FunctionId, GroupId, Verdict, Way, Work};
use thermocline_functions::dpi::{self, Dpi, Limits, RuleError, Ruleset};
use thermocline_functions::nat::{self, Nat};
use thermocline_functions::{Event, Function, Output, Part, Reason, Side};
use thermocline_units::{Bytes as Size, Nanos};

/// Number of the function `nat`.
pub(crate) const NAT: FunctionId = FunctionId(0);
const _: () = assert!(FUNCTIONS.len() == 2, "nat and dpi");
/// Memory for bytes ahead of gaps, of one share.
const REORDER: Size = Size::from_mib(16);
/// The same, of one direction of a connection: a window of a fast local sender.
const REORDER_OF_DIRECTION: Size = Size::from_mib(4);

/// A share of a tenant's hosts.
pub(crate) type Share = (GroupId, FlowKey);

/// Time of functions at the start of the pool: more than any timeout, so that what was idle before
/// the start has a time.
const START: Nanos = Nanos::from_secs(1 << 20);
/// Saved states that no instance has taken grow older so often.
const AGED_EVERY: Nanos = Nanos::from_secs(60);

/// The time since the pool began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock(pub(crate) Instant);

impl Clock {
    /// Time since the start.
    pub(crate) fn uptime(self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).expect("584 years"))
    }

    /// Time of functions.
    fn now(self) -> Nanos {
        Nanos(START.0 + self.uptime().0)
    }
}

/// A worker that has a share, and how often the share had another one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    worker: usize,
    turn: u64,
}

/// Saved states, and when each was what it says: at the start of the pool, if it is not named.
struct Aged {
    states: Saved,
    seen: BTreeMap<(String, u64), Nanos>,
}

impl Aged {
    fn seen(&self, name: &(String, u64)) -> Nanos {
        self.seen.get(name).copied().unwrap_or(START)
    }
}

/// Makes instances of functions, with the state that was saved.
pub(crate) struct Maker {
    pub(crate) tenants: Tenants,
    rules: Arc<Ruleset>,
    flows_max: usize,
    seed: u64,
    pub(crate) clock: Clock,
    /// States that no instance has taken yet, and the last that were seen of all others.
    saved: Mutex<Aged>,
    /// The owner of each share. What others still have of it is old.
    owners: Mutex<BTreeMap<(FunctionId, Share), Owner>>,
    /// A mapping was made or ended since the last save.
    pub(crate) is_dirty: AtomicBool,
    /// Events of mappings that were found to be over while they were saved.
    ended: Mutex<Vec<(GroupId, Event)>>,
}

impl Maker {
    /// # Errors
    /// Rules that are not understood, by line.
    pub(crate) fn new(
        tenants: Tenants,
        rules: Option<&Rules>,
        flows_max: usize,
        seed: u64,
        saved: Saved,
    ) -> Result<Maker, RuleError> {
        let (file, text) = rules.map_or(("no rules", ""), |rules| (&rules.file, &rules.text));
        let rules = Arc::new(Ruleset::compile(file, text, Limits::default())?);
        let flows_max = (flows_max / tenants.shares as usize).max(16);
        let saved = Mutex::new(Aged { states: saved, seen: BTreeMap::new() });
        let clock = Clock(Instant::now());
        let (owners, is_dirty, ended) = (Mutex::default(), false.into(), Mutex::default());
        Ok(Maker { tenants, rules, flows_max, seed, clock, saved, owners, is_dirty, ended })
    }

    /// Events of mappings that saving has found to be over, once.
    pub(crate) fn take_ended(&self) -> Vec<(GroupId, Event)> {
        std::mem::take(&mut locked(&self.ended))
    }

    /// Text of the rule of this number.
    pub(crate) fn message(&self, sid: u32) -> &str {
        self.rules.message(sid).unwrap_or_default()
    }

    /// An instance without state.
    fn fresh(&self, function: FunctionId, (group, key): Share) -> Instance {
        let seed = self.seed ^ u64::from(group.0) << 32 ^ key.0;
        let tenant = self.tenants.get(group);
        if function == NAT
            && let Some(tenant) = tenant.filter(|tenant| !tenant.external.is_empty())
        {
            let mut settings = nat::Settings::new(tenant.external.clone());
            settings.inside.clone_from(&tenant.networks);
            settings.ports = self.tenants.ports(key);
            settings.host_ports_max = u32::from(settings.ports.1 - settings.ports.0) + 1;
            settings.flows_max = self.flows_max;
            settings.half_open_max = (self.flows_max / 8).max(1);
            settings.fragments_max = 64;
            // Nothing is held: a packet that comes later than its answer could not be sent on.
            settings.fragment_memory = Size(0);
            settings.seed = seed;
            return Box::new(Nat::new(settings).expect("the configuration was checked"));
        }
        let settings = dpi::Settings {
            flows_max: self.flows_max,
            reorder_memory: REORDER,
            direction_memory: REORDER_OF_DIRECTION,
            partial_max: self.flows_max,
            seed,
            ..dpi::Settings::default()
        };
        Box::new(Dpi::new(self.rules.clone(), settings))
    }

    /// An instance with the state that was saved for it.
    fn make(&self, function: FunctionId, share: Share, notes: &mut Vec<String>) -> Instance {
        let mut instance = self.fresh(function, share);
        let (saved, name) = (locked(&self.saved), self.name(share));
        let state = (function == NAT).then(|| saved.states.get(&name)).flatten();
        // Idle times in it are those of the time at which it was saved.
        if let Some(state) = state
            && let Err(error) = instance.import(saved.seen(&name), state)
        {
            notes.push(format!("saved mappings of {name:?} are not used: {error}"));
        }
        instance
    }

    /// Name of a share that a restart with other tenants does not change.
    fn name(&self, (group, key): Share) -> (String, u64) {
        let tenant = self.tenants.get(group);
        (tenant.map_or(String::new(), |tenant| tenant.name.clone()), key.0)
    }

    /// Notes who owns the shares of a piece of work that is handed out. The pool's thread alone
    /// calls this: a worker that was given up, and works on, takes no share back.
    pub(crate) fn hand_out(&self, bench: &Bench, work: &Work) {
        let mut owners = locked(&self.owners);
        let mut own = |function: FunctionId, share: Share| {
            let worker = bench.id();
            let owner = owners.entry((function, share)).or_insert(Owner { worker, turn: 0 });
            if owner.worker != worker {
                *owner = Owner { worker, turn: owner.turn + 1 };
            }
        };
        match work {
            Work::Process { function, packets, .. } => {
                packets.iter().for_each(|packet| own(*function, (packet.group, packet.flow)));
            }
            Work::Import { function, state, .. } => {
                let mut state = state.clone();
                while let Some((share, _)) = next_state(&mut state) {
                    own(*function, share);
                }
            }
            Work::Load { .. } | Work::Export { .. } => {}
        }
    }

    /// Forgets what functions but NAT know of a tenant's flows, whose chain has changed: behind NAT
    /// they have other addresses than before it, and what passed meanwhile was not seen.
    pub(crate) fn begin_anew(&self, group: GroupId) {
        let mut owners = locked(&self.owners);
        for ((function, share), owner) in owners.iter_mut() {
            if *function != NAT && share.0 == group {
                owner.turn += 1;
            }
        }
    }

    /// The turn in which this worker owns a share.
    fn turn(&self, bench: &Bench, key: &(FunctionId, Share)) -> Option<u64> {
        let owners = locked(&self.owners);
        owners.get(key).filter(|owner| owner.worker == bench.id()).map(|owner| owner.turn)
    }

    /// Notes the states of all NATs at these workers; the bytes to be saved.
    pub(crate) fn save(&self, benches: &[Bench]) -> Vec<u8> {
        self.is_dirty.store(false, Ordering::SeqCst);
        // Workers take the lock of what is saved while they hold their own, so not here.
        let mut states = Vec::new();
        for bench in benches {
            let mut instances = locked(&bench.instances);
            instances.retain(|key, (turn, _)| self.turn(bench, key) == Some(*turn));
            for ((function, share), (_, instance)) in &mut *instances {
                let mut output = Output::default();
                let now = self.clock.now();
                instance.expire(now, &mut output);
                let ended = output.events.into_iter().map(|event| (share.0, event));
                locked(&self.ended).extend(ended);
                if *function == NAT {
                    let mut state = Vec::new();
                    instance.export(now, Part::All, &mut state);
                    states.push((self.name(*share), now, state));
                }
            }
        }
        let mut saved = locked(&self.saved);
        for (name, now, state) in states {
            saved.seen.insert(name.clone(), now);
            saved.states.insert(name, state);
        }
        self.age(&mut saved);
        saved::encode(&saved.states)
    }

    /// Writes states anew that were not seen for a while, without mappings that are over. States
    /// that cannot be read, or belong to no tenant or share that is here, stay as they are.
    fn age(&self, saved: &mut Aged) {
        let now = self.clock.now();
        let is_old = |name: &&(String, u64)| saved.seen(name).0 + AGED_EVERY.0 <= now.0;
        for name in saved.states.keys().filter(is_old).cloned().collect::<Vec<_>>() {
            let group = self.tenants.find(&name.0);
            let is_share = name.1 < u64::from(self.tenants.shares);
            let Some(group) = group.filter(|_| is_share) else { continue };
            let mut instance = self.fresh(NAT, (group, FlowKey(name.1)));
            let state = saved.states.get(&name).expect("it was just there");
            if instance.import(saved.seen(&name), state).is_err() {
                saved.seen.insert(name, now); // Looked at again with the next ones.
                continue;
            }
            instance.expire(now, &mut Output::default());
            let mut state = Vec::new();
            match instance.flows() {
                0 => saved.states.remove(&name),
                _ => {
                    instance.export(now, Part::All, &mut state);
                    saved.states.insert(name.clone(), state)
                }
            };
            saved.seen.insert(name, now);
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Instance = Box<dyn Function + Send>;

/// Instances, each with the turn that it is of.
type Instances = BTreeMap<(FunctionId, Share), (u64, Instance)>;

/// The instances of one worker.
#[derive(Clone, Default)]
pub(crate) struct Bench {
    instances: Arc<Mutex<Instances>>,
    /// Flows of each function when somebody asked last and the worker had time to answer.
    known_flows: Arc<[AtomicUsize; FUNCTIONS.len()]>,
}

/// Results of work beside its answer.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Events of functions.
    pub(crate) events: Vec<(GroupId, Event)>,
    /// Reasons of dropped packets.
    pub(crate) drops: Vec<Reason>,
    /// Sentences for people.
    pub(crate) notes: Vec<String>,
    /// Processor time of the work, without `making`.
    pub(crate) worked: Nanos,
    /// Processor time in which instances were made: it says nothing of what a packet costs.
    making: Nanos,
}

/// Processor time of this thread. By the clock, a thread that waits for its turn seems to work.
fn processor_time() -> Nanos {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

impl Bench {
    /// Its name among workers.
    fn id(&self) -> usize {
        Arc::as_ptr(&self.instances).addr()
    }

    /// Flows that the instances of a function know; while the worker works, the last count. The
    /// pool's thread asks, and must not wait for a worker that may never end.
    pub(crate) fn flows(&self, function: FunctionId) -> usize {
        let known = &self.known_flows[function.index()];
        if let Ok(instances) = self.instances.try_lock() {
            let of = instances.iter().filter(|((own, _), _)| *own == function);
            known.store(of.map(|(_, (_, instance))| instance.flows()).sum(), Ordering::Relaxed);
        }
        known.load(Ordering::Relaxed)
    }

    /// Does a piece of work that [`Maker::hand_out`] noted.
    pub(crate) fn work(&self, maker: &Maker, work: Work, told: &mut Told) -> Answer {
        let begun = processor_time();
        let answer = self.done(maker, work, told);
        let spent = processor_time().saturating_sub(begun);
        told.worked = spent.saturating_sub(told.making);
        answer
    }

    fn done(&self, maker: &Maker, work: Work, told: &mut Told) -> Answer {
        let mut instances = locked(&self.instances);
        match work {
            Work::Load { .. } => {
                instances.clear();
                Answer::Loaded
            }
            Work::Process { function, packets, .. } => {
                let one = |packet: Batched| {
                    let share = (packet.group, packet.flow);
                    let key = (function, share);
                    let Some(turn) = maker.turn(self, &key) else {
                        instances.remove(&key);
                        return Verdict::Drop;
                    };
                    if instances.get(&key).is_some_and(|(of, _)| *of != turn) {
                        instances.remove(&key);
                    }
                    let (_, instance) = instances.entry(key).or_insert_with(|| {
                        let begun = processor_time();
                        let made = maker.make(function, share, &mut told.notes);
                        told.making.0 += processor_time().saturating_sub(begun).0;
                        (turn, made)
                    });
                    process(instance, maker, packet, (&mut told.events, &mut told.drops))
                };
                Answer::Processed(packets.into_iter().map(one).collect())
            }
            Work::Export { function, flows, .. } => {
                let mut all = Vec::new();
                for (group, key) in flows {
                    let owned = (function, (group, key));
                    let Some((of, instance)) = instances.remove(&owned) else { continue };
                    if maker.turn(self, &owned) != Some(of) {
                        continue;
                    }
                    let mut state = Vec::new();
                    instance.export(maker.clock.now(), Part::All, &mut state);
                    all.put_u32(group.0);
                    all.put_u64(key.0);
                    all.put_u32(state.len() as u32);
                    all.extend(state);
                }
                Answer::Exported(all.into())
            }
            Work::Import { function, mut state, .. } => {
                while let Some((share, state)) = next_state(&mut state) {
                    let Some(turn) = maker.turn(self, &(function, share)) else {
                        return Answer::Failed;
                    };
                    let mut instance = maker.fresh(function, share);
                    if let Err(error) = instance.import(maker.clock.now(), &state) {
                        told.notes.push(format!("state of {:?} is lost: {error}", share.1.0));
                    }
                    instances.insert((function, share), (turn, instance));
                }
                Answer::Imported
            }
        }
    }
}

/// The next share of what [`Work::Export`] made.
fn next_state(state: &mut Bytes) -> Option<(Share, Bytes)> {
    const HEAD: usize = 16;
    if state.remaining() < HEAD {
        return None;
    }
    let share = (GroupId(state.get_u32()), FlowKey(state.get_u64()));
    let length = state.get_u32() as usize;
    (length <= state.remaining()).then(|| (share, state.split_to(length)))
}

fn process(
    instance: &mut Instance,
    maker: &Maker,
    packet: Batched,
    (events, drops): (&mut Vec<(GroupId, Event)>, &mut Vec<Reason>),
) -> Verdict {
    use thermocline_functions::Verdict as Said;
    let from = match packet.way {
        Way::Forth => Side::Inside,
        Way::Back => Side::Outside,
    };
    let (mut output, mut bytes) = (Output::default(), packet.bytes.to_vec());
    let said = instance.process(maker.clock.now(), from, &mut bytes, &mut output);
    let mut alert = None;
    for event in output.events {
        match event {
            Event::Matched { sid, dropped: false, .. } => alert = Some(sid),
            Event::Mapped { .. } | Event::Unmapped { .. } => {
                maker.is_dirty.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
        events.push((packet.group, event));
    }
    match (said, alert) {
        (Said::Pass, None) => Verdict::Pass,
        (Said::Pass, Some(sid)) => Verdict::Alert(sid),
        (Said::Changed | Said::Turned, _) => Verdict::Replace(bytes.into()),
        (Said::Dropped(reason), _) => {
            drops.push(reason);
            Verdict::Drop
        }
        (Said::Held, _) => Verdict::Drop,
    }
}

#[cfg(test)]
mod tests;
