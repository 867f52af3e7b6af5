//! A store on a group, clients, crashes, and what a block may hold.

use crate::group_device::{Counts, Fault, GroupDevice};
use std::collections::BTreeMap;
use thermocline_content::{
    Action, Answer, BLOCK, Completed, Domain, Quotas, Request, RequestId, Service,
    Settings as StoreSettings, Store,
};
use thermocline_ports::faulty::{Faults, SimDisk, Survival};
use thermocline_ports::{Geometry, Payload};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng, VolumeId};
use thermocline_volume::{Copying, Operation, OperationKind, Settings};

/// Bytes of a chunk of the group.
pub(crate) const CHUNK: Bytes = Bytes::from_kib(64);
/// Bytes of the volume that the store is on.
const SIZE: Bytes = Bytes::from_mib(2);
/// Blocks of each client's volume.
const BLOCKS: u64 = 96;
/// Contents that are written often, and those that are written now and then.
const FEW: u64 = 20;
const MANY: u64 = 3000;
/// Steps between crashes at most, and crashes of a run.
const STEPS: u64 = 500;
const CRASHES: u64 = 3;
/// Turns within which a request must be answered.
const TURNS_MAX: u32 = 200_000;

/// Situations that a run met.
#[derive(Debug, Clone, Default)]
pub(crate) struct Met(BTreeMap<&'static str, u64>);

const SITUATIONS: [&str; 6] = [
    "a crash with writes that were not flushed",
    "a crash while the group moves chunks",
    "a crash while requests are under way",
    "cleaning sent requests that nobody waits for",
    "a block was old after a crash",
    "a block was new after a crash though it was not flushed",
];

impl Met {
    fn met(&mut self, which: usize, is_so: bool) {
        *self.0.entry(SITUATIONS[which]).or_default() += u64::from(is_so);
    }

    pub(crate) fn add(&mut self, run: &Met) {
        for (what, times) in &run.0 {
            *self.0.entry(what).or_default() += u64::from(*times > 0);
        }
    }

    pub(crate) fn seeds(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        SITUATIONS.iter().map(|what| (*what, self.0.get(what).copied().unwrap_or(0)))
    }
}

/// Values that a block may hold: the last that is durable for sure, then those written since.
type Allowed = Vec<u64>;

pub(crate) struct World {
    rng: Rng,
    store: Option<Store<GroupDevice>>,
    now: Nanos,
    next: u64,
    volumes: Vec<VolumeId>,
    /// Values that blocks may have, by volume and block; 0 is zeroes.
    blocks: BTreeMap<(usize, u64), Allowed>,
    fault: Fault,
    pub(crate) met: Met,
    answered: u64,
}

pub(crate) fn group_settings() -> Settings {
    Settings {
        chunk_size: CHUNK,
        journal_blocks: 64,
        copying: Copying::pieces_alone(),
        ..Settings::default()
    }
}

pub(crate) fn store_settings() -> StoreSettings {
    StoreSettings {
        segment: Bytes::from_kib(128),
        journal_blocks: 16,
        fanout: 8,
        known_blocks: 64,
        ..StoreSettings::default()
    }
}

pub(crate) fn disks(rng: &mut Rng) -> Vec<SimDisk> {
    let sizes = [Bytes::from_mib(4), Bytes::from_mib(8)];
    let disk = |(at, size): (usize, Bytes)| {
        let geometry = Geometry { size, discard_zeroes: at == 0, far: false };
        SimDisk::new(geometry, rng.next_u64(), Faults { delay: 0.02, ..Faults::NONE })
    };
    sizes.into_iter().enumerate().map(disk).collect()
}

/// A block's bytes.
fn bytes_of(value: u64) -> Vec<u8> {
    if value == 0 {
        return vec![0; BLOCK as usize];
    }
    let mut rng = Rng::seeded(value);
    let words = (1..BLOCK / 8).map(|_| rng.next_u64());
    std::iter::once(value).chain(words).flat_map(u64::to_le_bytes).collect()
}

fn value_of(bytes: &[u8]) -> Option<u64> {
    let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    (bytes_of(value) == bytes).then_some(value)
}

impl World {
    pub(crate) fn new(seed: u64, fault: Fault) -> World {
        let mut rng = Rng::seeded(seed);
        let disks = disks(&mut rng);
        let device = GroupDevice::format(group_settings(), disks, SIZE).with_fault(fault);
        let now = device.now();
        let store = Store::format(now, device, store_settings(), rng.next_u64());
        let mut world = World {
            rng,
            store: Some(store.unwrap()),
            now,
            next: 0,
            volumes: Vec::new(),
            blocks: BTreeMap::new(),
            fault,
            met: Met::default(),
            answered: 0,
        };
        world.wait_until_open();
        for name in ["a", "b"] {
            let create = Action::Create {
                name: name.to_string(),
                size: Bytes(BLOCKS * u64::from(BLOCK)),
                domain: Domain(0),
                quotas: Quotas::default(),
            };
            match world.ask(create).result {
                Ok(Completed::Created(volume)) => world.volumes.push(volume),
                other => panic!("{other:?}"),
            }
        }
        // The volumes themselves are durable before anything can be lost.
        world.ask(Action::Flush).result.unwrap();
        world
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store<GroupDevice> {
        self.store.as_mut().expect("a store is there between crashes")
    }

    fn device(&mut self) -> &mut GroupDevice {
        self.store_mut().device_mut()
    }

    pub(crate) fn counts(&mut self) -> Counts {
        self.device().counts
    }

    pub(crate) fn first_volume(&self) -> VolumeId {
        self.volumes[0]
    }

    /// Time, answers and requests of a run: another run has others.
    pub(crate) fn outline(&mut self) -> (Nanos, u64, Counts) {
        (self.now, self.answered, self.counts())
    }

    fn wait_until_open(&mut self) {
        for _ in 0..TURNS_MAX {
            match self.store_mut().service() {
                Service::Opening => drop(self.turn()),
                Service::Ready => return,
                other => panic!("{other:?}"),
            }
        }
        panic!("the store does not open");
    }

    /// Lets time pass to the next event; what was answered.
    fn turn(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        let now = self.now;
        self.store_mut().poll(now, &mut answers);
        if answers.is_empty() {
            let next = self.store_mut().next_event();
            self.now = next.map_or(now, |at| at.max(now));
        }
        self.answered += answers.len() as u64;
        answers
    }

    fn submit(&mut self, action: Action) -> RequestId {
        self.next += 1;
        let (id, now) = (RequestId(self.next), self.now);
        self.store_mut().submit(now, Request { id, action });
        id
    }

    /// Asks alone, and waits for the answer.
    pub(crate) fn ask(&mut self, action: Action) -> Answer {
        let id = self.submit(action);
        for _ in 0..TURNS_MAX {
            if let Some(answer) = self.turn().into_iter().find(|answer| answer.id == id) {
                return answer;
            }
        }
        panic!("no answer");
    }

    /// A run: steps, a crash, all blocks looked at, and again.
    pub(crate) fn run(&mut self) -> Result<(), String> {
        for _ in 0..CRASHES {
            for _ in 0..1 + self.rng.below(STEPS) {
                self.step()?;
            }
            self.crash()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(20) {
            0 | 1 => self.flush(),
            2 => self.move_a_chunk(),
            3 => self.read_somewhere(),
            4 => {
                self.store_mut().sweep();
                Ok(())
            }
            _ => self.write(),
        }
    }

    fn place(&mut self) -> (usize, u64) {
        // Few places are written often: segments empty, and are cleaned.
        let block = if self.rng.below(3) == 0 { self.rng.below(BLOCKS) } else { self.rng.below(8) };
        (self.rng.below(2) as usize, block)
    }

    fn value(&mut self) -> u64 {
        let most = if self.rng.below(3) == 0 { FEW } else { MANY };
        self.rng.below(most + 1)
    }

    fn change(&mut self, place: (usize, u64), value: u64) -> (Action, bool) {
        let (volume, offset) = (self.volumes[place.0], Bytes(place.1 * u64::from(BLOCK)));
        let fua = self.rng.below(6) == 0;
        let action = match value {
            0 => Action::Zero { volume, offset, length: Bytes(u64::from(BLOCK)), fua },
            value => Action::Write { volume, offset, data: bytes_of(value).into(), fua },
        };
        self.blocks.entry(place).or_insert_with(|| vec![0]).push(value);
        (action, fua)
    }

    fn write(&mut self) -> Result<(), String> {
        let (place, value) = (self.place(), self.value());
        let (action, fua) = self.change(place, value);
        match self.ask(action).result {
            Ok(_) if fua => drop(self.blocks.insert(place, vec![value])),
            Ok(_) => {}
            Err(error) => return Err(format!("a write failed: {error}")),
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), String> {
        let result = self.ask(Action::Flush).result;
        result.map_err(|error| format!("a flush failed: {error}"))?;
        for allowed in self.blocks.values_mut() {
            let last = *allowed.last().expect("it has a value");
            *allowed = vec![last];
        }
        Ok(())
    }

    fn read(&mut self, (volume, block): (usize, u64)) -> Result<u64, String> {
        let (volume, offset) = (self.volumes[volume], Bytes(block * u64::from(BLOCK)));
        match self.ask(Action::Read { volume, offset, length: BLOCK }).result {
            Ok(Completed::Read(data)) => {
                value_of(&data.to_vec()).ok_or_else(|| format!("{block}: bytes of nobody"))
            }
            other => Err(format!("a read failed: {other:?}")),
        }
    }

    fn read_somewhere(&mut self) -> Result<(), String> {
        let place = self.place();
        let last = self.blocks.get(&place).map_or(0, |allowed| *allowed.last().unwrap());
        let found = self.read(place)?;
        (found == last).then_some(()).ok_or(format!("{place:?} holds {found}, not {last}"))
    }

    fn move_a_chunk(&mut self) -> Result<(), String> {
        let (index, to) = (self.rng.below(SIZE.0 / CHUNK.0) as u32, self.rng.below(2) as u16);
        let now = self.now;
        let device = self.device();
        let chunk = ChunkId { volume: device.volume(), index };
        let operation = Operation { kind: OperationKind::Migrate, chunk, to: PoolId(to) };
        // One that makes no sense now is refused.
        let _ = device.group_mut().start(now, operation);
        Ok(())
    }

    /// The power fails in the middle of things; then everything is opened, and looked at.
    fn crash(&mut self) -> Result<(), String> {
        if self.rng.below(2) == 0 {
            self.move_a_chunk()?;
        }
        for _ in 0..self.rng.below(6) {
            let (place, value) = (self.place(), self.value());
            let (action, _) = self.change(place, value);
            self.submit(action);
        }
        for _ in 0..self.rng.below(12) {
            self.turn();
        }
        let is_moving = self.device().group_mut().operations_pending() > 0;
        let background = self.device().background;
        self.met.met(0, self.blocks.values().any(|allowed| allowed.len() > 1));
        self.met.met(1, is_moving);
        let is_busy = !self.store_mut().is_quiet();
        self.met.met(2, is_busy);
        self.met.met(3, background > 0);
        let survival = [Survival::Torn, Survival::Lost, Survival::Cached, Survival::Kept];
        let survival = survival[self.rng.below(4) as usize];
        let mut disks = self.store.take().unwrap().into_device().into_disks();
        disks.iter_mut().for_each(|disk| disk.crash(&mut self.rng, survival));
        let device = GroupDevice::open(self.now, group_settings(), disks, SIZE);
        let device = device.with_fault(self.fault);
        self.now = device.now();
        let opened = Store::open(self.now, device, store_settings());
        self.store = Some(opened.map_err(|error| error.to_string())?);
        self.reopened()?;
        let flaws = self.store_mut().check();
        if let Some(flaw) = flaws.first() {
            return Err(format!("after a crash: {}", flaw.0));
        }
        self.look_at_all()
    }

    fn reopened(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            match self.store_mut().service().clone() {
                Service::Opening => drop(self.turn()),
                Service::Ready => return Ok(()),
                other => return Err(format!("not opened: {other:?}")),
            }
        }
        Err("the store does not open".to_string())
    }

    fn look_at_all(&mut self) -> Result<(), String> {
        let places: Vec<(usize, u64)> = self.blocks.keys().copied().collect();
        for place in places {
            let found = self.read(place)?;
            let allowed = &self.blocks[&place];
            if !allowed.contains(&found) {
                return Err(format!("{place:?} holds {found}; it may hold {allowed:?}"));
            }
            let (is_open, is_last) = (allowed.len() > 1, allowed.last() == Some(&found));
            self.met.met(4, is_open && !is_last);
            self.met.met(5, is_open && is_last);
            self.blocks.insert(place, vec![found]);
        }
        Ok(())
    }
}

/// A block's bytes, as a payload.
pub(crate) fn payload_of(value: u64) -> Payload {
    Payload::from(bytes_of(value))
}
