//! The pool: the platform between two interfaces, what was asked of it, and its one thread.
//!
//! 1. Packets come from a side, belong to a tenant's share, and go to the platform.
//! 2. The platform's work goes to the threads of slots; work for the processor is done here.
//! 3. Packets that are through make a hop, and leave towards their destination.
//! 4. Tasks of the API, time, and answers come in between.
//!
//! A thread of its own saves mappings a quarter of a second after one was made, and every ten
//! seconds. A killed pool loses the mappings of that quarter.

mod asking;
mod binding;

pub(crate) use binding::{Binding, Caller};

use crate::api;
use crate::config::{FUNCTIONS, PoolConfig, SLOTS_MAX};
use crate::kept::{self, Kept};
use crate::mailbox::Mailbox;
use crate::saved::{self, Saved};
use crate::side::{Side, has_hops, header_is_right, hopped};
use crate::tenants::Tenants;
use crate::wishes::{Wished, Wishes};
use crate::workers::{Bench, Maker, Told, locked};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use thermocline_accel::{
    CardSettings, Event, FunctionSettings, GroupId, Image, Place, Platform, Settings, Signature,
    Work,
};
use thermocline_admin::api::Severity;
use thermocline_admin::notes::Notes;
use thermocline_admin::past::Growth;
use thermocline_admin::secret::random_number;
use thermocline_functions::{Event as Said, Reason, Side as From};
use thermocline_policy::accel::{FunctionId, NothingComing};
use thermocline_policy::registry::PolicySpec;
use thermocline_ports_os::Trouble;
use thermocline_units::{Bytes, Nanos};

/// Time after a new mapping until it is saved.
const SAVE_AFTER: Duration = Duration::from_millis(250);
/// Time between two saves when no mapping was made: flows go on.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// Nanoseconds that a packet is taken to need before it was measured.
const COST: f64 = 1_000.0;
/// Events of functions that are told in a second; more are counted.
const TOLD_MAX: u32 = 20;
/// Rows of packets that are taken from a side in a turn.
const ROWS: usize = 8;
/// Packets that wait, of a slot, of the processor for a function, and for a share that moves: a
/// burst of a local sender. A packet that the kernel did not cut has 64 KiB, so that each of these
/// queues is bounded by 256 MiB.
const QUEUE_MAX: usize = 4096;
/// Longest wait without looking at the time.
const GLANCE: Nanos = Nanos::from_micros(100_000);

/// Reason why a pool cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// A setting.
    #[error("{0}")]
    Settings(String),
    /// An interface.
    #[error("{side}: {text}")]
    Interface {
        /// The side.
        side: &'static str,
        /// The trouble.
        text: String,
    },
    /// Something that was saved.
    #[error("{path}: {text}; move it away to begin without it")]
    Saved {
        /// The file.
        path: PathBuf,
        /// The trouble.
        text: String,
    },
    /// Another pool has the folder.
    #[error(
        "a pool is running with the state folder {0}; stop that first, or give this one another"
    )]
    Busy(PathBuf),
    /// Others may put files into the folder.
    #[error("others may write to the state folder {0}; chmod go-w it, or name another folder")]
    Open(PathBuf),
    /// Threads, random numbers, waiting.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Counts beside those of the platform.
#[derive(Debug, Default)]
struct Counts {
    strangers: u64,
    hops: u64,
    by_rules: u64,
    made: u64,
    ended: u64,
    exhausted: u64,
}

/// All state of a running pool.
pub(crate) struct Core {
    platform: Platform,
    maker: Arc<Maker>,
    sides: [Side; 2],
    threads: Vec<mpsc::Sender<Work>>,
    /// Instances: of slots, then of the processor.
    benches: Vec<Bench>,
    wishes: Arc<Mutex<Wishes>>,
    cards: Vec<String>,
    kept: Kept,
    folder: PathBuf,
    scheduler: String,
    notes: Notes,
    counts: Counts,
    /// Second, and events of functions that were told in it.
    told: (u64, u32),
    past: Growth<api::PoolStatus>,
}

/// The saver's thread: dropped, it saves once more and ends.
struct Saver {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// A pool that is ready to run.
pub struct Pool {
    core: Core,
    mailbox: Mailbox,
    _saver: Saver,
    /// Locked for as long as the pool is there; let go last, when all is saved.
    _folder: File,
}

/// The side of a pool that administrators and tenants see.
#[derive(Clone)]
pub struct PoolApi {
    pub(crate) mailbox: Mailbox,
    pub(crate) notes: Notes,
    /// Tokens of tenants, with their names.
    pub(crate) tokens: Arc<Vec<(String, String)>>,
}

impl Pool {
    /// Opens both interfaces and takes up what was saved.
    ///
    /// # Errors
    /// Settings, rules, interfaces or saved state do not work, or another pool has the folder.
    pub fn start(config: PoolConfig, notes: Notes) -> Result<Pool, OffloadError> {
        let folder = kept::lock(&config.state)?;
        let maker = Arc::new(maker(&config)?);
        let external: Vec<_> =
            config.tenants.iter().flat_map(|tenant| tenant.external.clone()).collect();
        let failed = |side| move |text| OffloadError::Interface { side, text };
        let sides = [
            Side::open(&config.inside, &[]).map_err(failed("inside"))?,
            Side::open(&config.outside, &external).map_err(failed("outside"))?,
        ];
        let wishes = Arc::new(Mutex::new(Wishes::default()));
        let platform = platform(&config, &wishes)?;
        let path = config.state.join("pool.json");
        let kept = Kept::read(&path).map_err(|text| OffloadError::Saved { path, text })?;
        let mailbox = Mailbox::new()?;
        let slots: usize = config.cards.iter().map(|card| card.slots).sum();
        let benches = vec![(); slots + 1].iter().map(|()| Bench::default()).collect::<Vec<_>>();
        let threads = benches.iter().take(slots).enumerate();
        let threads = threads.map(|(slot, bench)| thread(slot, bench, &maker, &mailbox));
        let mut core = Core {
            platform,
            sides,
            threads: threads.collect::<Result<_, _>>()?,
            wishes,
            cards: config.cards.iter().map(|card| card.name.clone()).collect(),
            kept,
            folder: config.state.clone(),
            scheduler: config.scheduler.clone(),
            notes: notes.clone(),
            counts: Counts::default(),
            told: (0, 0),
            past: Growth::default(),
            maker: maker.clone(),
            benches: benches.clone(),
        };
        core.take_up();
        let saver = saver(maker, benches, config.state.join("mappings"), notes)?;
        Ok(Pool { core, mailbox, _saver: saver, _folder: folder })
    }

    /// The side that administrators and tenants see.
    pub fn api(&self) -> PoolApi {
        let tenants = self.core.maker.tenants.tenants.iter();
        let token = |tenant: &crate::config::TenantConfig| {
            tenant.token.clone().map(|token| (token, tenant.name.clone()))
        };
        let tokens = Arc::new(tenants.filter_map(token).collect());
        PoolApi { mailbox: self.mailbox.clone(), notes: self.core.notes.clone(), tokens }
    }

    /// Carries packets until `stop` is readable; then mappings are saved.
    ///
    /// # Errors
    /// An interface is gone, or the system refuses to wait.
    pub fn run(mut self, stop: &UnixStream) -> Result<(), OffloadError> {
        loop {
            let now = self.core.now();
            let wait = self.core.platform.next_tick().saturating_sub(now).min(GLANCE);
            let wait = Timespec { tv_sec: 0, tv_nsec: wait.0 as i64 };
            let [inside, outside] = &self.core.sides;
            let mut files = [
                PollFd::new(inside, PollFlags::IN),
                PollFd::new(outside, PollFlags::IN),
                PollFd::new(&self.mailbox, PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut files, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(OffloadError::System(errno.into())),
            }
            if !files[3].revents().is_empty() {
                return Ok(());
            }
            if let Some(task) = self.mailbox.task() {
                task(&mut self.core);
            }
            self.core.turn(&self.mailbox);
            self.core.look_at_sides()?;
        }
    }
}

fn maker(config: &PoolConfig) -> Result<Maker, OffloadError> {
    let path = config.state.join("mappings");
    let saved = match std::fs::read(&path) {
        Ok(bytes) => saved::decode(&bytes).map_err(|error| error.to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Saved::new()),
        Err(error) => Err(error.to_string()),
    };
    let saved = saved.map_err(|text| OffloadError::Saved { path, text })?;
    let seed = random_number()?;
    let tenants = Tenants { tenants: config.tenants.clone(), shares: config.shares };
    let rules = config.rules.as_ref();
    Maker::new(tenants, rules, config.flows_max, seed, saved)
        .map_err(|error| OffloadError::Settings(error.to_string()))
}

fn platform(config: &PoolConfig, wishes: &Arc<Mutex<Wishes>>) -> Result<Platform, OffloadError> {
    let wrong = |error: &dyn std::fmt::Display| OffloadError::Settings(error.to_string());
    let spec = PolicySpec::parse(&config.scheduler).map_err(|error| wrong(&error))?;
    let inner = spec.build_scheduler(Box::new(NothingComing)).map_err(|error| wrong(&error))?;
    // Shares are few, and each is remembered for ever.
    let flows_max = config.tenants.len().max(1) * config.shares as usize;
    let settings = Settings {
        flows_max,
        flow_idle: Nanos(u64::MAX),
        queue_max: QUEUE_MAX,
        processor_queue_max: QUEUE_MAX,
        held_per_flow_max: QUEUE_MAX,
        held_max: QUEUE_MAX,
        ..Settings::default()
    };
    let card = |card: &crate::config::CardConfig| CardSettings::new(&card.name, card.slots, 1);
    let cards: Vec<CardSettings> = config.cards.iter().map(card).collect();
    assert!(cards.iter().map(|card| card.slots.len()).sum::<usize>() <= SLOTS_MAX, "checked");
    let wished = Wished { wishes: wishes.clone(), inner };
    let mut platform = Platform::new(Nanos(0), settings, cards, Box::new(wished));
    for name in FUNCTIONS {
        let function = FunctionSettings {
            name: name.to_string(),
            stateful: true,
            alters: name == "nat",
            processor: Some(COST),
        };
        let function = platform.declare(function).map_err(|error| wrong(&error))?;
        let image = Image {
            function,
            version: 1,
            room: 1,
            bytes: Bytes(1),
            cost: COST,
            // The functions are part of this program.
            signature: Signature::Valid,
        };
        platform.admit(image).map_err(|error| wrong(&error))?;
    }
    Ok(platform)
}

/// The thread of a slot.
fn thread(
    slot: usize,
    bench: &Bench,
    maker: &Arc<Maker>,
    mailbox: &Mailbox,
) -> std::io::Result<mpsc::Sender<Work>> {
    let (sender, work) = mpsc::channel::<Work>();
    let (bench, maker, mailbox) = (bench.clone(), maker.clone(), mailbox.clone());
    let run = move || {
        for work in work {
            let (ticket, mut told) = (work.ticket(), Told::default());
            let answer = bench.work(&maker, work, &mut told);
            mailbox.answer((ticket, answer, told));
        }
    };
    std::thread::Builder::new().name(format!("slot-{slot}")).spawn(run)?;
    Ok(sender)
}

fn saver(
    maker: Arc<Maker>,
    benches: Vec<Bench>,
    path: PathBuf,
    notes: Notes,
) -> std::io::Result<Saver> {
    let stop = Arc::new((Mutex::new(false), Condvar::new()));
    let asked = stop.clone();
    let run = move || {
        let mut last = Instant::now();
        loop {
            let stopping = locked(&asked.0);
            let waited = asked.1.wait_timeout_while(stopping, SAVE_AFTER, |stop| !*stop);
            let is_last = *waited.unwrap_or_else(PoisonError::into_inner).0;
            let is_due = maker.is_dirty.load(Ordering::SeqCst) || last.elapsed() >= SAVE_EVERY;
            if is_due || is_last {
                last = Instant::now();
                if let Err(error) = saved::replace(&path, &maker.save(&benches)) {
                    let text = format!("mappings are not saved: {}: {error}", path.display());
                    notes.note(Severity::Error, "pool", text);
                }
            }
            if is_last {
                return;
            }
        }
    };
    let thread = Some(std::thread::Builder::new().name("saver".to_string()).spawn(run)?);
    Ok(Saver { stop, thread })
}

impl Drop for Saver {
    fn drop(&mut self) {
        *locked(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Core {
    fn now(&self) -> Nanos {
        self.maker.clock.uptime()
    }

    /// Takes packets in and carries on until nothing moves without somebody else.
    fn turn(&mut self, mailbox: &Mailbox) {
        for _ in 0..ROWS {
            let mut is_more = false;
            for (side, from) in [From::Inside, From::Outside].into_iter().enumerate() {
                is_more |= self.take_in(side, from);
                self.hear(mailbox);
                self.carry_on();
            }
            if !is_more {
                break;
            }
        }
        // An answer that is here in time is not late because a task or packets took long.
        self.hear(mailbox);
        let now = self.now();
        if now >= self.platform.next_tick() {
            self.platform.tick(now);
            self.finish_bindings();
        }
        if self.past.is_over(now) {
            // Mappings end without a packet, too.
            self.tell(Told::default());
            self.sides.iter_mut().for_each(|side| side.tick(now));
            let status = self.status();
            self.past.note(now, status);
        }
        self.carry_on();
        let now = self.now();
        self.sides.iter_mut().for_each(|side| side.flush(now));
    }

    /// Takes a row of packets from a side; true if more may wait there.
    fn take_in(&mut self, side: usize, from: From) -> bool {
        let (mut packets, now) = (Vec::new(), self.now());
        let is_more = self.sides[side].receive(now, &mut packets);
        for packet in packets {
            match self.maker.tenants.classify(from, &packet) {
                _ if !header_is_right(&packet) => self.counts.strangers += 1,
                Some(_) if !has_hops(&packet) => self.counts.hops += 1,
                Some((share, way)) => self.platform.offer_on(now, share, way, packet),
                None => self.counts.strangers += 1,
            }
        }
        is_more
    }

    /// Takes answers of workers.
    fn hear(&mut self, mailbox: &Mailbox) {
        for (ticket, answer, told) in mailbox.answers() {
            let now = self.now();
            self.platform.complete_after(now, ticket, answer, told.worked);
            self.tell(told);
        }
    }

    /// Tells of interfaces that are down, and ends where one is gone.
    fn look_at_sides(&mut self) -> Result<(), OffloadError> {
        for (at, side) in ["inside", "outside"].into_iter().enumerate() {
            let name = self.sides[at].name().to_string();
            match self.sides[at].trouble() {
                Some(Trouble::Gone) => {
                    let text = format!("{name} is gone; make it again, and start the pool again");
                    return Err(OffloadError::Interface { side, text });
                }
                Some(Trouble::Down) => {
                    self.notes.note(Severity::Warning, side, format!("{name} is down"));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Hands out work, and sends on what is through.
    fn carry_on(&mut self) {
        while let Some(work) = self.platform.next_work() {
            let place = match &work {
                Work::Load { slot, .. } => Place::Slot(*slot),
                Work::Process { place, .. }
                | Work::Export { place, .. }
                | Work::Import { place, .. } => *place,
            };
            let bench = match place {
                Place::Slot(slot) => &self.benches[slot.index()],
                Place::Processor(_) => self.benches.last().expect("the processor's is the last"),
            };
            self.maker.hand_out(bench, &work);
            match place {
                Place::Slot(slot) => {
                    // A slot whose thread is gone does not answer, and fails by that.
                    let _ = self.threads[slot.index()].send(work);
                }
                Place::Processor(_) => {
                    let (ticket, mut told) = (work.ticket(), Told::default());
                    let answer = bench.work(&self.maker, work, &mut told);
                    let now = self.now();
                    self.platform.complete_after(now, ticket, answer, told.worked);
                    self.tell(told);
                }
            }
        }
        let now = self.now();
        while let Some(passed) = self.platform.next_packet() {
            self.depart(now, &passed);
        }
        while let Some(event) = self.platform.next_event() {
            self.happened(&event);
        }
    }

    /// Sends a packet towards its destination. No tenant reaches hosts of another one.
    fn depart(&mut self, now: Nanos, passed: &thermocline_accel::Passed) {
        let is_back = passed.way == thermocline_accel::Way::Back;
        let Some((to, packet)) = hopped(&passed.bytes) else {
            self.counts.hops += 1;
            return;
        };
        match self.maker.tenants.group_of(to) {
            Some(group) if group == passed.group => self.sides[0].send(now, to, packet),
            None if !is_back => self.sides[1].send(now, to, packet),
            _ => self.counts.hops += 1,
        }
    }

    fn happened(&mut self, event: &Event) {
        let name = |function: &FunctionId| FUNCTIONS[function.index()];
        let (severity, slot, text) = match event {
            Event::Running(slot, function, took) => {
                let text = format!("runs {} after {:.1} ms", name(function), took.0 as f64 / 1e6);
                (Severity::Info, slot, text)
            }
            Event::Loading(slot, function) => {
                (Severity::Info, slot, format!("loads {}", name(function)))
            }
            Event::Draining(slot, function) => {
                (Severity::Info, slot, format!("is left by the flows of {}", name(function)))
            }
            Event::Empty(slot) => (Severity::Info, slot, "is empty".to_string()),
            Event::Failed(slot, why) => (Severity::Warning, slot, format!("failed: {why}")),
            Event::ProcessorFailed(function) => {
                let text = format!("the processor failed to do the work of {}", name(function));
                return self.notes.note(Severity::Warning, "pool", text);
            }
            Event::Alert(..) => return,
        };
        self.notes.note(severity, format!("slot {}", slot.0), text);
    }

    /// Counts and tells what functions said.
    fn tell(&mut self, told: Told) {
        for note in told.notes {
            self.notes.note(Severity::Warning, "nat", note);
        }
        self.counts.by_rules +=
            told.drops.iter().filter(|reason| **reason == Reason::Rule).count() as u64;
        for (group, event) in told.events.into_iter().chain(self.maker.take_ended()) {
            match event {
                Said::Mapped { .. } => self.counts.made += 1,
                Said::Unmapped { .. } => self.counts.ended += 1,
                Said::Exhausted { host, by_host, .. } => {
                    self.counts.exhausted += 1;
                    let why = if by_host { "it has all that it may" } else { "none is free" };
                    self.say(group, format!("{host} was refused an external port: {why}"));
                }
                Said::Matched { sid, dropped, source, destination } => {
                    let does = if dropped { "drops" } else { "reports" };
                    let ends =
                        format!("{}:{} to {}:{}", source.0, source.1, destination.0, destination.1);
                    let text = format!("rule {sid} {does} {ends}: {}", self.maker.message(sid));
                    self.say(group, text);
                }
                Said::BlockTaken { .. } | Said::BlockFreed { .. } => {}
            }
        }
    }

    /// Tells an event of a tenant's packets, unless too many were told in this second.
    fn say(&mut self, group: GroupId, text: String) {
        let second = self.now().0 / 1_000_000_000;
        if self.told.0 != second {
            self.told = (second, 0);
        }
        self.told.1 += 1;
        if self.told.1 <= TOLD_MAX {
            let tenant = self.maker.tenants.get(group);
            let name = tenant.map_or(String::new(), |tenant| tenant.name.clone());
            self.notes.note(Severity::Warning, format!("tenant {name}"), text);
        }
    }

    pub(crate) fn status(&self) -> api::PoolStatus {
        asking::status(self)
    }

    /// The last five minutes, from this second on.
    pub(crate) fn history(&self, from: u64) -> Vec<api::PoolSecond> {
        self.past.from(from)
    }
}
