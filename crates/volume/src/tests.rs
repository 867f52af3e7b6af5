//! A group on simulated disks, driven by hand: one claim a test. The corners are the simulation's
//! part (`tests/simulation`).

mod block_checksums;
pub(crate) mod bytes_on_disk;
mod changeover;
mod damage;
mod draining;
mod far;
mod feeding;
mod fullness;
mod hints;
mod kept;
mod label;
mod lines;
mod metadata;
mod mirrors;
mod moves_attacked;
mod naming;
mod observer;
mod operations;
mod parts;
mod ranks;
mod rate_control;
mod regions;
mod requests;
mod shadows;
mod shares;
mod slas;
mod wear;

use crate::{
    Action, Copying, Finished, Group, Operation, OperationKind, Outcome, PoolSpec, PoolStatus,
    Priority, Reply, Request, RequestError, RequestId, Service, Settings,
};
use thermocline_policy::tactics::VolumeTactics;
use thermocline_ports::faulty::{Background, Faults, SimDisk, Survival};
use thermocline_ports::{Completion, Device, Geometry, Io, Payload};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng, VolumeId};

/// 64 KiB.
pub(crate) const CHUNK: u64 = 64 << 10;

/// A group, its disks, and a client that waits for each answer.
pub(crate) struct Bench {
    pub(crate) group: Group,
    pub(crate) disks: Vec<SimDisk>,
    now: Nanos,
    next_id: u64,
    settings: Settings,
    replies: Vec<Reply>,
    pub(crate) finished: Vec<Finished>,
}

impl Bench {
    /// A group on pools of so many MiB; the first pool reads as garbage, as used media do.
    pub(crate) fn new(pools_mib: &[u64]) -> Bench {
        Bench::with_reserve(pools_mib, 0)
    }

    /// The same, with so many chunks of the first pool kept for prefetched copies.
    pub(crate) fn with_reserve(pools_mib: &[u64], reserve: u32) -> Bench {
        Bench::with_settings(pools_mib, reserve, Bench::settings())
    }

    pub(crate) fn settings() -> Settings {
        let chunk_size = Bytes(CHUNK);
        Settings {
            chunk_size,
            journal_blocks: 64,
            checksums: false,
            added_checksums: false,
            copying: Copying::pieces_alone(),
            ..Settings::default()
        }
    }

    pub(crate) fn with_settings(pools_mib: &[u64], reserve: u32, settings: Settings) -> Bench {
        Bench::with_far(pools_mib, pools_mib.len(), reserve, settings)
    }

    /// The same; only the first `near` pools are here, the others across a network.
    pub(crate) fn with_far(
        pools_mib: &[u64],
        near: usize,
        reserve: u32,
        settings: Settings,
    ) -> Bench {
        Bench::with_reserves(pools_mib, near, &[reserve], settings)
    }

    /// The same; so many slots of each pool are reserved for prefetched copies.
    pub(crate) fn with_reserves(
        pools_mib: &[u64],
        near: usize,
        reserves: &[u32],
        settings: Settings,
    ) -> Bench {
        let mut disks = Vec::new();
        let mut specs = Vec::new();
        for (index, mib) in pools_mib.iter().enumerate() {
            let zeroed = index > 0;
            let geometry = Geometry {
                size: Bytes::from_mib(*mib),
                discard_zeroes: index % 2 == 0,
                far: index >= near,
            };
            let background = if zeroed { Background::Zeroes } else { Background::Garbage };
            let faults = Faults { background, ..Faults::NONE };
            disks.push(SimDisk::new(geometry, index as u64, faults));
            specs.push(PoolSpec {
                name: format!("pool{index}"),
                geometry,
                zeroed,
                reserve_chunks: reserves.get(index).copied().unwrap_or(0),
            });
        }
        let group =
            Group::create(settings.clone(), &specs, 42).expect("the pools are large enough");
        let mut bench = Bench {
            group,
            disks,
            now: Nanos(0),
            next_id: 0,
            settings,
            replies: Vec::new(),
            finished: Vec::new(),
        };
        bench.run();
        assert_eq!(*bench.group.service(), Service::Ready);
        bench
    }

    /// The time of the last event.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    /// Lets everything happen that needs no clock.
    pub(crate) fn run(&mut self) {
        self.run_requests(u32::MAX);
        self.group.take_replies(&mut self.replies);
        self.group.take_finished(&mut self.finished);
    }

    /// Lets everything happen but discards, which devices do not get to before all else is done.
    pub(crate) fn run_discards_last(&mut self) {
        let (mut out, mut discards) = (Vec::new(), Vec::new());
        loop {
            self.group.take_io(&mut out);
            for (pool, ticket, io) in out.drain(..) {
                match matches!(io, Io::Discard { .. }) {
                    true => discards.push((pool, ticket, io)),
                    false => self.disks[usize::from(pool.0)].submit(self.now, ticket, io),
                }
            }
            if !self.answer() {
                break;
            }
        }
        for (pool, ticket, io) in discards {
            self.disks[usize::from(pool.0)].submit(self.now, ticket, io);
        }
        self.run();
    }

    /// Lets so many requests reach the devices, and be answered; true if no more came.
    pub(crate) fn run_requests(&mut self, mut count: u32) -> bool {
        while self.hand_over(&mut count) {
            if !self.answer() {
                return true;
            }
        }
        false
    }

    /// Lets so many answers of disks arrive.
    pub(crate) fn step(&mut self, answers: usize) {
        for _ in 0..answers {
            self.hand_over(&mut { u32::MAX });
            if !self.answer() {
                break;
            }
        }
    }

    /// Hands the group's requests to the disks, `left` at most; false if there were more.
    fn hand_over(&mut self, left: &mut u32) -> bool {
        let mut out = Vec::new();
        self.group.take_io(&mut out);
        for (pool, ticket, io) in out {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            self.disks[usize::from(pool.0)].submit(self.now, ticket, io);
        }
        true
    }

    /// Lets the next answer of a disk arrive; false if none is to come.
    fn answer(&mut self) -> bool {
        let next = self.disks.iter().filter_map(|disk| disk.next_event()).min();
        let Some(at) = next else { return false };
        self.now = self.now.max(at);
        self.deliver();
        true
    }

    fn deliver(&mut self) {
        for index in 0..self.disks.len() {
            let mut done: Vec<Completion> = Vec::new();
            self.disks[index].poll(self.now, &mut done);
            for completion in done {
                self.group.complete(self.now, PoolId(index as u16), completion);
            }
        }
    }

    /// Lets `span` pass, with what is due by the clock.
    pub(crate) fn pass(&mut self, span: Nanos) {
        let end = Nanos(self.now.0 + span.0);
        self.run();
        while let Some(at) = self.group.next_tick().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.group.tick(self.now);
            self.run();
        }
        self.now = self.now.max(end);
    }

    /// Hands over a request of which nobody waits for the answer, under its id.
    pub(crate) fn submit(&mut self, id: RequestId, action: Action) {
        let (volume, priority) = (VolumeId(0), Priority::Foreground);
        let request = Request { id, volume, action, priority };
        self.group.submit(self.now, request).expect("few requests are in flight");
    }

    pub(crate) fn status(&self, pool: u16) -> PoolStatus {
        self.group.pool_status(PoolId(pool)).expect("it exists")
    }

    pub(crate) fn ask(&mut self, action: Action) -> Result<Vec<u8>, RequestError> {
        self.ask_of(VolumeId(0), action)
    }

    pub(crate) fn ask_of(
        &mut self,
        volume: VolumeId,
        action: Action,
    ) -> Result<Vec<u8>, RequestError> {
        self.next_id += 1;
        let id = RequestId(self.next_id);
        let request = Request { id, volume, action, priority: Priority::Foreground };
        self.group.submit(self.now, request).expect("few requests are in flight");
        self.run();
        for _ in 0..100 {
            if self.replies.iter().any(|reply| reply.id == id) {
                break;
            }
            self.pass(Nanos(100_000_000));
        }
        let at = self.replies.iter().position(|reply| reply.id == id).expect("answered");
        let pieces = self.replies.swap_remove(at).result?;
        Ok(pieces.iter().flat_map(|piece| piece.payload.to_vec()).collect())
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, RequestError> {
        self.ask(Action::Read { offset: Bytes(offset), length })
    }

    pub(crate) fn write(&mut self, offset: u64, byte: u8, length: usize) {
        let payload = Payload::from(vec![byte; length]);
        self.ask(Action::Write { offset: Bytes(offset), payload, fua: false }).expect("written");
    }

    pub(crate) fn flush(&mut self) {
        self.ask(Action::Flush).expect("flushed");
    }

    /// Loses all that is not durable, and opens the group again.
    pub(crate) fn crash(&mut self) {
        for disk in &mut self.disks {
            disk.crash(&mut Rng::seeded(5), Survival::Lost);
        }
        let devices: Vec<_> = self.disks.iter().map(|disk| Some(disk.geometry())).collect();
        self.group = Group::open(self.settings.clone(), &devices);
        self.run();
        assert_eq!(*self.group.service(), Service::Ready);
        self.check();
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.group.fsck(), []);
    }

    /// Runs an operation to its end.
    pub(crate) fn operate(&mut self, kind: OperationKind, chunk: u32, to: u16) -> Outcome {
        let chunk = ChunkId { volume: VolumeId(0), index: chunk };
        let operation = Operation { kind, chunk, to: PoolId(to) };
        let id = self.group.start(self.now, operation).expect("accepted");
        for _ in 0..100 {
            self.pass(Nanos(100_000_000));
            if let Some(end) = self.finished.iter().find(|finished| finished.id == id) {
                return end.outcome;
            }
        }
        panic!("the operation does not end");
    }

    /// The pools that hold whole copies of a chunk.
    pub(crate) fn pools_of(&self, chunk: u32) -> Vec<u16> {
        let chunk = ChunkId { volume: VolumeId(0), index: chunk };
        let status = self.group.locate(chunk).expect("the chunk exists");
        status.copies.iter().map(|copy| copy.place.pool.0).collect()
    }
}

/// The tactics of these texts, and else the defaults.
pub(crate) fn tactics(texts: &[&str]) -> VolumeTactics {
    VolumeTactics::of(texts).expect("tests name tactics that there are")
}
