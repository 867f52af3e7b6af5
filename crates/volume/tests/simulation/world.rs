//! The group and its disks in virtual time, one event after the other.
//!
//! An event is the completion of one or more device requests at one moment on one disk, or the
//! group's tick. The world hands requests down and completions up, counts them, may let a chosen
//! one fail, and folds everything that passes into a digest: two runs with one digest were the
//! same run.

use crate::ondisk::{self, OnDisk};
use crate::plan::{Plan, PoolPlan};
use std::collections::BTreeMap;
use thermocline_ports::faulty::{Background, Faults, SimDisk, Survival};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, PoolId, Rng};
use thermocline_volume::{Finished, Group, PoolSpec, Reply, Settings};

/// Room of checkpoint areas and superblocks on the smallest pools, in bytes.
const METADATA_ROOM: u64 = 2600 << 10;

/// Growth of the areas for a chunk of a large pool, in bytes: five such pools have records of 40
/// bytes a chunk in small blocks, twice.
const METADATA_OF_A_CHUNK: u64 = 40 << 10;

/// More requests than any run makes.
const NEVER: u64 = 1 << 40;

/// Fault of a chosen device request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfortune {
    Fails,
    TimesOut,
    /// The disk dies just before it.
    PoolDies,
}

/// A device request chosen to go wrong: the `nth` to `pool` since the disk was made, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Injection {
    pub(crate) pool: usize,
    pub(crate) nth: u64,
    pub(crate) misfortune: Misfortune,
}

/// Output of the group at one moment.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) replies: Vec<Reply>,
    pub(crate) finished: Vec<Finished>,
}

/// One pool's disk.
#[derive(Debug)]
struct Drive {
    disk: SimDisk,
    /// Event of the last answer with an error since the counts were last cleared.
    erred: Option<u64>,
    /// Its own pace, without faults.
    calm: Faults,
    /// True if the pool was removed, and the disk taken away.
    retired: bool,
    /// True if it comes back when the power does.
    returns: bool,
}

/// The world around one group.
pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) rng: Rng,
    trace: Option<Vec<String>>,
    group: Group,
    drives: Vec<Drive>,
    injection: Option<Injection>,
    digest: u64,
    events: u64,
    in_flight: BTreeMap<(usize, Ticket), Io>,
    outgoing: Vec<(PoolId, Ticket, Io)>,
    /// Events that the group has not heard of yet: its tick, or answers of devices.
    due_tick: bool,
    completed: Vec<(PoolId, Completion)>,
}

impl World {
    /// Disks as planned, and a group that begins to format them.
    ///
    /// # Errors
    /// When the group refuses the settings or the pools.
    pub(crate) fn new(plan: &Plan, injection: Option<Injection>) -> Result<World, String> {
        let mut rng = Rng::seeded(plan.seed ^ 0x5eed);
        let drives = plan.pools.iter().map(|pool| drive(pool, &plan.settings, rng.next_u64()));
        let drives: Vec<Drive> = drives.collect();
        let group = create(plan)?;
        Ok(World {
            now: Nanos(0),
            rng,
            trace: None,
            group,
            drives,
            injection,
            digest: 0,
            events: 0,
            in_flight: BTreeMap::new(),
            outgoing: Vec::new(),
            due_tick: false,
            completed: Vec::new(),
        })
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// The group, to be asked for something; `exchange` must follow.
    pub(crate) fn group_mut(&mut self) -> &mut Group {
        &mut self.group
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Number that tells this run from every other.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn disks(&self) -> usize {
        self.drives.len()
    }

    pub(crate) fn disk_mut(&mut self, pool: usize) -> &mut SimDisk {
        &mut self.drives[pool].disk
    }

    pub(crate) fn submitted(&self, pool: usize) -> u64 {
        self.drives[pool].disk.submitted()
    }

    /// True if a disk has answered the first so many requests.
    pub(crate) fn has_answered(&self, pool: usize, requests: u64) -> bool {
        self.drives.get(pool).is_none_or(|drive| drive.disk.has_answered(requests))
    }

    pub(crate) fn is_dead(&self, pool: usize) -> bool {
        self.drives[pool].disk.is_dead()
    }

    /// True if the pool answered an error at event `since` or later, or is dead.
    pub(crate) fn erred_since(&self, pool: usize, since: u64) -> bool {
        self.is_dead(pool) || self.drives[pool].erred.is_some_and(|at| at >= since)
    }

    /// True if a device answered an error at this event.
    pub(crate) fn has_erred_at(&self, event: u64) -> bool {
        self.drives.iter().any(|drive| drive.erred == Some(event))
    }

    pub(crate) fn any_erred_since(&self, since: u64) -> bool {
        (0..self.disks()).any(|pool| self.erred_since(pool, since))
    }

    /// The pool's disk is gone until the power fails.
    pub(crate) fn unplug_until_crash(&mut self, pool: usize) {
        self.drives[pool].returns = true;
        self.drives[pool].disk.kill();
    }

    /// The pool was removed: its disk is taken away. Whether it was there until now.
    pub(crate) fn retire(&mut self, pool: usize) -> bool {
        !std::mem::replace(&mut self.drives[pool].retired, true)
    }

    /// True if requests to the pool's disk can succeed.
    pub(crate) fn is_usable(&self, pool: usize) -> bool {
        !self.is_dead(pool) && !self.drives[pool].retired
    }

    /// The pool's disk misbehaves at these rates, per thousand requests.
    pub(crate) fn trouble(&mut self, pool: usize, fail: u16, time_out: u16, delay: u16) {
        let Drive { disk, calm, .. } = &mut self.drives[pool];
        let [fail, time_out, delay] = [fail, time_out, delay].map(|rate| f64::from(rate) / 1000.0);
        disk.set_faults(Faults { fail, time_out, delay, ..*calm });
    }

    /// Every disk behaves again; what is dead or damaged stays so.
    pub(crate) fn calm(&mut self) {
        for drive in &mut self.drives {
            drive.disk.set_faults(drive.calm);
            drive.disk.make_room();
            drive.disk.fail_nth(NEVER);
        }
    }

    /// A disk for a pool that joins, and what the group is told of it.
    pub(crate) fn plug_in(&mut self, pool: &PoolPlan, settings: &Settings) -> PoolSpec {
        let spec = spec(self.drives.len(), pool, settings);
        let seed = self.rng.next_u64();
        self.drives.push(drive(pool, settings, seed));
        spec
    }

    /// Takes the youngest disk away again: the group did not want it, or has forgotten it.
    pub(crate) fn unplug(&mut self) {
        self.drives.pop();
    }

    /// Lets the next event happen on a disk, or lets time pass to the group's tick; whether a
    /// device answers an error. The group hears of it with `deliver`. `None` when nothing will
    /// ever happen any more.
    pub(crate) fn step(&mut self) -> Option<bool> {
        self.events += 1;
        let disk = (0..self.drives.len())
            .filter_map(|i| Some((self.drives[i].disk.next_event()?, i)))
            .min();
        let tick = self.group.next_tick();
        match (disk, tick) {
            (None, None) => return None,
            (Some((at, _)), Some(tick)) if tick < at => self.tick(tick),
            (None, Some(tick)) => self.tick(tick),
            (Some((at, disk)), _) => self.complete(at, disk),
        }
        Some(self.completed.iter().any(|(_, completion)| completion.result.is_err()))
    }

    /// Tells the group what the last event brought, and hears what it says.
    pub(crate) fn deliver(&mut self) -> Said {
        match std::mem::take(&mut self.due_tick) {
            true => self.group.tick(self.now),
            false => {
                for (pool, completion) in std::mem::take(&mut self.completed) {
                    self.group.complete(self.now, pool, completion);
                }
            }
        }
        self.exchange()
    }

    /// Moment of the next event.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let disks = self.drives.iter().filter_map(|drive| drive.disk.next_event());
        disks.chain(self.group.next_tick()).min().map(|at| at.max(self.now))
    }

    /// Hands requests down to the disks, and takes what the group has to say.
    pub(crate) fn exchange(&mut self) -> Said {
        let mut said = Said::default();
        let mut outgoing = std::mem::take(&mut self.outgoing);
        self.group.take_io(&mut outgoing);
        for (pool, ticket, io) in outgoing.drain(..) {
            self.submit(usize::from(pool.0), ticket, io);
        }
        self.outgoing = outgoing;
        self.group.take_replies(&mut said.replies);
        self.group.take_finished(&mut said.finished);
        for reply in &said.replies {
            self.fold([3, reply.id.0, reply.result.is_ok().into()]);
            self.tell(|| {
                let result = reply.result.as_ref().map(|pieces| pieces.len());
                format!("reply {}: {result:?}", reply.id.0)
            });
        }
        for finished in &said.finished {
            self.fold([4, finished.id.0, finished.outcome as u64]);
            self.tell(|| format!("{finished:?}"));
        }
        said
    }

    /// The power fails, and comes back at once: the group is opened on what the disks still hold.
    pub(crate) fn crash(&mut self, survival: Survival, settings: Settings) {
        for drive in &mut self.drives {
            drive.disk.crash(&mut self.rng, survival);
            if std::mem::take(&mut drive.returns) {
                drive.disk.revive();
            }
        }
        self.in_flight.clear();
        let geometries: Vec<Option<Geometry>> = (0..self.disks())
            .map(|i| self.is_usable(i).then(|| self.drives[i].disk.geometry()))
            .collect();
        self.group = Group::open(settings, &geometries);
        self.fold([5, 0, 0]);
    }

    /// The map as the disks have it now.
    ///
    /// # Errors
    /// When what they have is no map.
    pub(crate) fn on_disk(&self) -> Result<Option<OnDisk>, String> {
        let peek = |pool: u16, offset: u64, length: usize| {
            let pool = usize::from(pool);
            let disk = &self.drives[pool].disk;
            let inside = offset + length as u64 <= disk.geometry().size.0;
            let contents =
                (inside && self.is_usable(pool)).then(|| disk.peek(Bytes(offset), length as u32));
            contents?.ok()
        };
        ondisk::read(self.disks() as u16, peek).map_err(|what| format!("on disk: {what}"))
    }

    /// Formats the disks anew: the group never came into being.
    ///
    /// # Errors
    /// As `new`.
    pub(crate) fn start_over(&mut self, plan: &Plan) -> Result<(), String> {
        for drive in &mut self.drives {
            drive.disk.crash(&mut self.rng, Survival::Torn);
        }
        self.in_flight.clear();
        self.group = create(&Plan {
            pools: plan.pools.iter().map(|p| PoolPlan { zeroed: false, ..*p }).collect(),
            ..plan.clone()
        })?;
        Ok(())
    }

    fn tick(&mut self, at: Nanos) {
        self.now = self.now.max(at);
        self.fold([0, self.now.0, 0]);
        self.due_tick = true;
    }

    fn complete(&mut self, at: Nanos, pool: usize) {
        self.now = self.now.max(at);
        let mut completed = Vec::new();
        self.drives[pool].disk.poll(self.now, &mut completed);
        for completion in completed {
            self.note(pool, &completion);
            self.completed.push((PoolId(pool as u16), completion));
        }
    }

    fn note(&mut self, pool: usize, completion: &Completion) {
        let io = self.in_flight.remove(&(pool, completion.ticket));
        let outcome = match &completion.result {
            Ok(contents) => sample(contents),
            Err(error) => {
                self.drives[pool].erred = Some(self.events);
                1 + *error as u64
            }
        };
        self.fold([1, (pool as u64) << 48 ^ completion.ticket.0, outcome]);
        self.tell(|| {
            let io = io.map_or("(unknown)".to_string(), |io| summary(&io));
            let result = completion.result.as_ref().map(|_| "done").unwrap_or_else(reason);
            format!("p{pool} {io}: {result}")
        });
    }

    fn submit(&mut self, pool: usize, ticket: Ticket, io: Io) {
        let kind = match &io {
            Io::Read { .. } => 1,
            Io::Write { fua, .. } => 2 + u64::from(*fua),
            Io::Flush => 4,
            Io::Discard { .. } => 5,
            Io::WriteZeroes { .. } => 6,
        };
        assert!(!self.drives[pool].retired, "{} for a removed pool", summary(&io));
        let (offset, length) = io.range().unwrap_or_default();
        self.fold([2, (pool as u64) << 56 ^ kind << 48 ^ offset.0, length.0]);
        if self.trace.is_some() {
            self.tell(|| format!("p{pool} {} begins", summary(&io)));
            self.in_flight.insert((pool, ticket), io.clone());
        }
        let chosen = self
            .injection
            .filter(|i| i.pool == pool && i.nth == self.drives[pool].disk.submitted() + 1);
        let Drive { disk, calm, .. } = &mut self.drives[pool];
        let calm = *calm;
        match chosen.map(|injection| injection.misfortune) {
            None => disk.submit(self.now, ticket, io),
            Some(Misfortune::Fails) => {
                disk.fail_nth(1);
                disk.submit(self.now, ticket, io);
            }
            Some(Misfortune::TimesOut) => {
                disk.set_faults(Faults { time_out: 1.0, ..calm });
                disk.submit(self.now, ticket, io);
                disk.set_faults(calm);
            }
            Some(Misfortune::PoolDies) => {
                disk.kill();
                disk.submit(self.now, ticket, io);
            }
        }
    }

    /// From now on, everything is written down.
    pub(crate) fn start_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// The trace so far, line by line.
    pub(crate) fn take_trace(&mut self) -> String {
        self.trace.take().unwrap_or_default().join("\n")
    }

    /// Writes a line down, where that is wanted.
    pub(crate) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>12} {}", self.now.0, line()));
        }
    }

    /// Folds three words into the digest (FNV-1a's step, word by word).
    fn fold(&mut self, words: [u64; 3]) {
        for word in words {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }
}

/// A few bytes that tell contents apart.
fn sample(contents: &Payload) -> u64 {
    let bytes = match contents {
        Payload::Bytes(bytes) if bytes.len() >= 16 => &bytes[bytes.len() - 16..],
        _ => return u64::from(contents.len()),
    };
    bytes.chunks_exact(8).fold(0, |sum, word| {
        sum ^ u64::from_le_bytes(word.try_into().expect("words are eight bytes"))
    })
}

fn reason(error: &DeviceError) -> &'static str {
    match error {
        DeviceError::Io => "I/O ERROR",
        DeviceError::TimedOut => "TIMED OUT",
        DeviceError::NoSpace => "NO SPACE",
        DeviceError::Gone => "GONE",
    }
}

/// A device request in a few words.
fn summary(io: &Io) -> String {
    let range = io.range().map(|(offset, length)| format!("{:#x}+{:#x}", offset.0, length.0));
    let range = range.unwrap_or_default();
    match io {
        Io::Read { .. } => format!("read {range}"),
        Io::Write { fua: false, .. } => format!("write {range}"),
        Io::Write { fua: true, .. } => format!("write {range} fua"),
        Io::Flush => "flush".to_string(),
        Io::Discard { .. } => format!("discard {range}"),
        Io::WriteZeroes { .. } => format!("zero {range}"),
    }
}

fn create(plan: &Plan) -> Result<Group, String> {
    let specs = plan.pools.iter().enumerate().map(|(i, pool)| spec(i, pool, &plan.settings));
    let specs: Vec<PoolSpec> = specs.collect();
    Group::create(plan.settings.clone(), &specs, plan.seed).map_err(|e| format!("creating: {e}"))
}

fn spec(index: usize, pool: &PoolPlan, settings: &Settings) -> PoolSpec {
    PoolSpec {
        name: format!("pool-{index}"),
        geometry: geometry(pool, settings),
        zeroed: pool.zeroed,
        reserve_chunks: pool.reserve,
    }
}

fn drive(pool: &PoolPlan, settings: &Settings, seed: u64) -> Drive {
    let calm = Faults {
        background: if pool.zeroed { Background::Zeroes } else { Background::Garbage },
        latency_mean: Nanos::from_micros(pool.latency_us.into()),
        time_out_after: Nanos::from_micros(100 * u64::from(pool.latency_us)),
        forgets: pool.forgets,
        ..Faults::NONE
    };
    Drive {
        disk: SimDisk::new(geometry(pool, settings), seed, calm),
        erred: None,
        calm,
        retired: false,
        returns: false,
    }
}

/// Room for the chunks, and for journal, checkpoints and superblocks before them.
fn geometry(pool: &PoolPlan, settings: &Settings) -> Geometry {
    let metadata = match pool.roomy {
        true => {
            let large = u64::from(pool.chunks.saturating_sub(64)) * METADATA_OF_A_CHUNK;
            u64::from(settings.journal_blocks) * 4096 + METADATA_ROOM + large
        }
        false => settings.chunk_size.0,
    };
    let metadata = metadata.next_multiple_of(settings.chunk_size.0);
    let size = Bytes(metadata + u64::from(pool.chunks) * settings.chunk_size.0);
    Geometry { size, discard_zeroes: pool.discard_zeroes, far: pool.far }
}
