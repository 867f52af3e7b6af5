//! A store, its disk, and the model it is compared with, by seed.

use crate::model::{Block, Marks, Model, SECTORS, Value, Volume, ZERO};
use crate::model::{bytes_of, content_of, stamps_of};
use std::collections::BTreeMap;
use thermocline_content::{
    Action, Answer, BLOCK, BlockId, Completed, ContentId, Domain, Quotas, Request, RequestError,
    RequestId, Service, Settings, Store,
};
use thermocline_ports::faulty::{Faults, Recorded, SimDisk, Survival, fold_result};
use thermocline_ports::{Geometry, Payload};
use thermocline_units::{Bytes, Digest, Nanos, Rng, VolumeId};

mod crashes;
mod drawing;

use drawing::{Values, draw_faults, draw_settings};

/// A request under way.
#[derive(Debug, Clone)]
enum Asked {
    Read { volume: VolumeId, first: u64, allowed: Vec<Vec<u32>> },
    Write { volume: VolumeId, blocks: Vec<u64>, forced: bool },
    Known { volume: VolumeId, blocks: Vec<u64>, forced: bool, must_be_known: bool },
    Flush { marks: Marks },
    Names { volume: VolumeId, first: u64, before: Vec<Value> },
    Pin { domain: Domain, value: Value },
    Fetch { block: BlockId, is_mapped: bool },
    Create(Volume),
    Clone { volume: Volume },
    Delete { volume: VolumeId },
    Quotas,
}

/// A disk whose requests and answers are in the world's digest.
type Disk = Recorded<SimDisk>;

pub(crate) struct World {
    /// Every request to the disk, every answer, and every reply.
    digest: Digest,
    pub(crate) rng: Rng,
    pub(crate) model: Model,
    store: Option<Store<Disk>>,
    settings: Settings,
    faults: Faults,
    now: Nanos,
    next_id: u64,
    asked: BTreeMap<u64, Asked>,
    pins: Vec<(BlockId, Domain, Value)>,
    /// Blocks that were fetched by their numbers, and their contents.
    fetched: BTreeMap<BlockId, ContentId>,
    values: Values,
    /// Number of requests to the disk at which the run stops for a crash.
    pub(crate) crash_at: Option<u64>,
    /// True once bits of the disk were flipped, so that damage may be reported.
    flipped: bool,
    /// True while the disk may fail, or is full.
    troubled: bool,
    pub(crate) is_over: bool,
    /// True if every request is printed (THERMOCLINE_VERBOSE).
    is_told: bool,
}

impl World {
    pub(crate) fn new(seed: u64, calm: bool) -> World {
        World::recorded(seed, calm, &Digest::default())
    }

    /// A world that folds all that passes into `digest`.
    pub(crate) fn recorded(seed: u64, calm: bool, digest: &Digest) -> World {
        let mut rng = Rng::seeded(seed);
        let mut faults = draw_faults(&mut rng);
        let settings = draw_settings(&mut rng, &faults);
        if calm {
            faults = Faults { fail: 0.0, time_out: 0.0, flip: 0.0, ..faults };
        }
        let segments = if rng.below(2) == 0 { 14 + rng.below(5) } else { 14 + rng.below(22) };
        let blocks = 4 + u64::from(settings.journal_blocks) + rng.below(9);
        let size = Bytes(blocks * u64::from(BLOCK) + segments * settings.segment.0);
        let geometry = Geometry { size, discard_zeroes: rng.below(2) == 0, far: false };
        // A device cannot be formatted or opened while it fails all the time; calm until then.
        let quiet = Faults { fail: 0.0, time_out: 0.0, flip: 0.0, ..faults };
        let disk = Recorded::new(SimDisk::new(geometry, rng.next_u64(), quiet), digest);
        let mut world = World {
            digest: digest.clone(),
            rng,
            model: Model::default(),
            store: None,
            settings,
            faults,
            now: Nanos(0),
            next_id: 1,
            asked: BTreeMap::new(),
            pins: Vec::new(),
            fetched: BTreeMap::new(),
            values: Values::default(),
            crash_at: None,
            flipped: false,
            troubled: false,
            is_over: false,
            is_told: std::env::var("THERMOCLINE_VERBOSE").is_ok(),
        };
        world.format(disk, quiet);
        world
    }

    /// Formats the disk, sometimes with a crash on the way, and after another store was there.
    fn format(&mut self, mut disk: Disk, quiet: Faults) {
        for round in 0..1 + self.rng.below(3) {
            let identity = self.rng.next_u64();
            let made = Store::format(self.now, disk, self.settings.clone(), identity);
            self.store = Some(made.expect("the device is large enough"));
            if round > 0 && self.rng.below(2) == 0 {
                for _ in 0..self.rng.below(12) {
                    self.turn();
                }
                disk = self.store.take().expect("there").into_device();
                disk.crash(&mut self.rng, Survival::Torn);
                continue;
            }
            self.run_until(|world| *world.store().service() != Service::Opening);
            disk = self.store.take().expect("there").into_device();
        }
        disk.set_faults(quiet);
        let made = Store::format(self.now, disk, self.settings.clone(), self.rng.next_u64());
        self.store = Some(made.expect("the device is large enough"));
        self.run_until(|world| *world.store().service() != Service::Opening);
        assert_eq!(*self.store().service(), Service::Ready);
        let faults = self.faults;
        self.store_mut().device_mut().set_faults(faults);
        self.troubled = faults.fail > 0.0;
    }

    pub(crate) fn store(&self) -> &Store<Disk> {
        self.store.as_ref().expect("a store is there between crashes")
    }

    fn store_mut(&mut self) -> &mut Store<Disk> {
        self.store.as_mut().expect("a store is there between crashes")
    }

    pub(crate) fn submitted(&mut self) -> u64 {
        self.store_mut().device_mut().submitted()
    }

    pub(crate) fn fail_nth(&mut self, n: u64) {
        self.store_mut().device_mut().fail_nth(n);
        self.troubled = true;
    }

    fn must_crash(&mut self) -> bool {
        let at = self.crash_at;
        at.is_some_and(|at| self.submitted() >= at)
    }

    /// Serves the next event; returns false if there is none.
    fn turn(&mut self) -> bool {
        let Some(next) = self.store().next_event() else { return false };
        self.now = self.now.max(next);
        let (now, mut answers) = (self.now, Vec::new());
        self.store_mut().poll(now, &mut answers);
        if self.faults.flip > 0.0 && !self.store_mut().device_mut().flipped().is_empty() {
            self.flipped = true;
        }
        for answer in answers {
            self.answered(answer);
        }
        true
    }

    /// Serves events until `done`, or until the run must crash.
    pub(crate) fn run_until(&mut self, done: impl Fn(&World) -> bool) {
        for _ in 0..200_000 {
            if done(self) || self.must_crash() {
                return;
            }
            if !self.turn() {
                assert!(
                    done(self),
                    "nothing happens any more: {:?}, {:?}",
                    self.asked,
                    self.store()
                );
                return;
            }
        }
        panic!("the store works for ever: {:?}", self.asked);
    }

    /// Serves events until no request is waiting and the store is quiet.
    pub(crate) fn settle(&mut self) {
        self.run_until(|world| world.asked.is_empty() || world.has_stopped());
        self.run_until(|world| world.store().is_quiet() || world.has_stopped());
    }

    fn has_stopped(&self) -> bool {
        matches!(self.store().service(), Service::Stopped(_))
    }

    fn ask(&mut self, action: Action, asked: Asked) {
        let id = self.next_id;
        self.next_id += 1;
        if self.is_told {
            eprintln!("{:?} {id} {action:?}", self.now);
        }
        self.asked.insert(id, asked);
        let now = self.now;
        self.store_mut().submit(now, Request { id: RequestId(id), action });
    }

    // Asking.

    fn volume(&mut self) -> Option<VolumeId> {
        let ids: Vec<VolumeId> = self.model.volumes.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[self.rng.below(ids.len() as u64) as usize])
    }

    /// A range of blocks of a volume.
    fn range(&mut self, volume: VolumeId, most: u64) -> (u64, u64) {
        let blocks = self.model.volumes[&volume].blocks.len() as u64;
        let hot = if self.rng.below(2) == 0 { blocks.min(12) } else { blocks };
        let first = self.rng.below(hot);
        (first, 1 + self.rng.below(most.min(blocks - first)))
    }

    pub(crate) fn write(&mut self) {
        let Some(volume) = self.volume() else { return };
        let most = if self.rng.below(4) == 0 { 60 } else { 12 };
        let (first, count) = self.range(volume, most);
        let size = self.model.volumes[&volume].size;
        let mut stamps = Vec::new();
        let mut blocks = Vec::new();
        for block in first..first + count {
            let mut value = self.values.any(&mut self.rng);
            // What lies behind the volume's end stays zeroes.
            for sector in 0..SECTORS {
                if block * SECTORS + sector >= size {
                    value[sector as usize] = 0;
                }
            }
            let sectors = SECTORS.min(size - block * SECTORS);
            if sectors < SECTORS && self.model.is_busy(volume, block) {
                return self.model.end(self.next_id, volume, &blocks, false, false);
            }
            stamps.extend_from_slice(&value[..sectors as usize]);
            self.model.begin(self.next_id, volume, block, value);
            blocks.push(block);
        }
        let fua = self.rng.below(8) == 0;
        let data = Payload::from(bytes_of(&stamps));
        let offset = Bytes(first * u64::from(BLOCK));
        self.ask(
            Action::Write { volume, offset, data, fua },
            Asked::Write { volume, blocks, forced: fua },
        );
    }

    /// Requests a write, or zeroes, of parts of blocks.
    pub(crate) fn write_part(&mut self, zeroes: bool) {
        let Some(volume) = self.volume() else { return };
        let size = self.model.volumes[&volume].size;
        let first = self.rng.below(size);
        let most = if zeroes { size } else { 30 };
        let count = 1 + self.rng.below(most.min(size - first));
        let blocks: Vec<u64> = (first / SECTORS..(first + count).div_ceil(SECTORS)).collect();
        if blocks.iter().any(|&block| self.model.is_busy(volume, block)) {
            return;
        }
        let mut stamps = Vec::new();
        for _ in 0..count {
            stamps.push(if zeroes { 0 } else { self.values.stamp() });
        }
        for &block in &blocks {
            let mut value = self.model.volumes[&volume].blocks[block as usize].now();
            for sector in 0..SECTORS {
                let at = block * SECTORS + sector;
                if (first..first + count).contains(&at) {
                    value[sector as usize] = stamps[(at - first) as usize];
                }
            }
            self.model.begin(self.next_id, volume, block, value);
        }
        let fua = self.rng.below(8) == 0;
        let offset = Bytes(first * 512);
        let action = match zeroes {
            true => Action::Zero { volume, offset, length: Bytes(count * 512), fua },
            false => Action::Write { volume, offset, data: Payload::from(bytes_of(&stamps)), fua },
        };
        self.ask(action, Asked::Write { volume, blocks, forced: fua });
    }

    pub(crate) fn write_known(&mut self) {
        let Some(volume) = self.volume() else { return };
        let (first, count) = self.range(volume, 3);
        let (size, domain) = {
            let it = &self.model.volumes[&volume];
            (it.size, it.domain)
        };
        if (first + count) * SECTORS > size {
            return;
        }
        let mut contents = Vec::new();
        let mut must_be_known = true;
        for block in first..first + count {
            let pinned: Vec<Value> = self.pins.iter().map(|pin| pin.2).collect();
            let value = match self.rng.below(2) {
                0 if !pinned.is_empty() => pinned[self.rng.below(pinned.len() as u64) as usize],
                _ => self.values.any(&mut self.rng),
            };
            let is_pinned = self.pins.iter().any(|pin| pin.1 == domain && pin.2 == value);
            must_be_known &= is_pinned || value == ZERO;
            contents.push(content_of(&value));
            self.model.begin(self.next_id, volume, block, value);
        }
        let offset = Bytes(first * u64::from(BLOCK));
        let blocks = (first..first + count).collect();
        let fua = self.rng.below(8) == 0;
        // Pins that end meanwhile promise nothing.
        let must_be_known = must_be_known && !self.troubled && self.faults.flip == 0.0;
        self.ask(
            Action::WriteKnown { volume, offset, contents, fua },
            Asked::Known { volume, blocks, forced: fua, must_be_known },
        );
    }

    pub(crate) fn read(&mut self, volume: VolumeId, first: u64, count: u64) {
        let it = &self.model.volumes[&volume];
        let count = count.min(it.size - first);
        let allowed = it.allowed(first..first + count);
        let (offset, length) = (Bytes(first * 512), count as u32 * 512);
        self.ask(Action::Read { volume, offset, length }, Asked::Read { volume, first, allowed });
    }

    pub(crate) fn read_some(&mut self) {
        let Some(volume) = self.volume() else { return };
        let size = self.model.volumes[&volume].size;
        let first = self.rng.below(size);
        let count = 1 + self.rng.below(64.min(size - first));
        self.read(volume, first, count);
    }

    pub(crate) fn flush(&mut self) {
        let marks = self.model.marks();
        self.ask(Action::Flush, Asked::Flush { marks });
    }

    pub(crate) fn identify(&mut self) {
        let Some(volume) = self.volume() else { return };
        let (first, count) = self.range(volume, 6);
        if (first..first + count).any(|block| self.model.is_busy(volume, block)) {
            return;
        }
        let offset = Bytes(first * u64::from(BLOCK));
        let action = Action::Identify { volume, offset, blocks: count as u32 };
        let blocks = &self.model.volumes[&volume].blocks[first as usize..][..count as usize];
        let before = blocks.iter().map(Block::now).collect();
        self.ask(action, Asked::Names { volume, first, before });
    }

    pub(crate) fn pin(&mut self) {
        let value = self.values.any(&mut self.rng);
        let domain = Domain(self.rng.below(2) as u32);
        let content = content_of(&value);
        self.ask(Action::Pin { domain, content }, Asked::Pin { domain, value });
    }

    /// Requests a block by its number: one that a volume has now, or one that it had.
    pub(crate) fn fetch(&mut self) {
        let earlier: Vec<BlockId> = self.fetched.keys().copied().collect();
        if !earlier.is_empty() && self.rng.below(2) == 0 {
            let block = earlier[self.rng.below(earlier.len() as u64) as usize];
            let asked = Asked::Fetch { block, is_mapped: false };
            return self.ask(Action::Fetch { block }, asked);
        }
        let Some(volume) = self.volume() else { return };
        let (first, _) = self.range(volume, 1);
        let map = self.store().map(volume, first as u32, 1);
        if let Some((_, ids)) = map
            && let [Some(block)] = ids[..]
        {
            self.ask(Action::Fetch { block }, Asked::Fetch { block, is_mapped: true });
        }
    }

    /// Checks that a number has the same contents as long as it is in use.
    fn check_fetched(&mut self, block: BlockId, is_mapped: bool, completed: &Completed) {
        match completed {
            Completed::Read(data) => {
                let bytes = data.to_vec();
                assert!(stamps_of(&bytes).is_some(), "garbage in {block:?}");
                let content = ContentId::of(&bytes);
                let before = *self.fetched.entry(block).or_insert(content);
                assert_eq!(before, content, "{block:?} became something else");
            }
            other => {
                // Its volume may have been deleted, or written, meanwhile.
                let is_used = self.store().share_count(block) > 0;
                assert!(!is_mapped || !is_used, "{block:?} is mapped: {other:?}");
            }
        }
    }

    pub(crate) fn unpin(&mut self) {
        if self.pins.is_empty() || self.asked.values().any(|a| matches!(a, Asked::Known { .. })) {
            return;
        }
        let (block, ..) = self.pins.swap_remove(self.rng.below(self.pins.len() as u64) as usize);
        assert!(self.store_mut().unpin_block(block), "{block:?} was pinned");
    }

    pub(crate) fn create(&mut self) {
        if self.model.volumes.len() >= 6 {
            return;
        }
        let size = match self.rng.below(4) {
            0 => 1 + self.rng.below(40),
            1 => 8 * (100 + self.rng.below(200)),
            _ => 8 * (1 + self.rng.below(120)),
        };
        let name = format!("v{}", self.next_id);
        let mut volume = Volume::new(name.clone(), size, Domain(self.rng.below(2) as u32));
        let mut quotas = Quotas::default();
        if self.rng.below(6) == 0 {
            volume.has_quota = true;
            quotas.logical = Bytes(u64::from(BLOCK) * (4 + self.rng.below(40)));
            quotas.physical = Bytes(u64::from(BLOCK) * (4 + self.rng.below(40)));
        }
        let (size, domain) = (Bytes(size * 512), volume.domain);
        let action = Action::Create { name, size, domain, quotas };
        self.ask(action, Asked::Create(volume));
    }

    /// Makes a clone or a snapshot. Writes under way end first, so that its contents are known.
    pub(crate) fn clone_volume(&mut self) {
        self.settle();
        if self.has_stopped() || self.must_crash() || self.model.volumes.len() >= 8 {
            return;
        }
        let Some(from) = self.volume() else { return };
        let read_only = self.rng.below(3) == 0;
        let name = format!("v{}", self.next_id);
        let mut volume = self.model.volumes[&from].clone();
        (volume.name, volume.read_only) = (name.clone(), read_only);
        volume.blocks.iter_mut().for_each(|block| *block = Block::of(block.now()));
        self.ask(Action::Clone { from, name, read_only }, Asked::Clone { volume });
    }

    pub(crate) fn delete(&mut self) {
        let Some(volume) = self.volume() else { return };
        let others =
            |asked: &Asked| matches!(asked, Asked::Delete { volume: other } if *other == volume);
        if !self.asked.values().any(others) {
            self.ask(Action::Delete { volume }, Asked::Delete { volume });
        }
    }

    pub(crate) fn set_quotas(&mut self) {
        let Some(volume) = self.volume() else { return };
        let quotas = Quotas { logical: Bytes::from_mib(1), physical: Bytes::from_mib(1) };
        self.model.volumes.get_mut(&volume).expect("there").has_quota = true;
        self.ask(Action::SetQuotas { volume, quotas }, Asked::Quotas);
    }

    pub(crate) fn sweep(&mut self) {
        self.store_mut().sweep();
    }

    /// Fills the store with unique blocks, and then trims small pieces.
    pub(crate) fn fill_store(&mut self) {
        for _ in 0..12 {
            for _ in 0..4 {
                self.write_unique();
            }
            self.run_until(|world| world.in_flight() < 3 || world.has_stopped());
            if self.has_stopped() || self.must_crash() {
                return;
            }
        }
        for _ in 0..10 {
            self.write_part(true);
        }
    }

    fn write_unique(&mut self) {
        let Some(volume) = self.volume() else { return };
        let it = &self.model.volumes[&volume];
        let whole = it.size / SECTORS;
        if whole == 0 {
            return;
        }
        let first = self.rng.below(whole);
        let count = 60.min(whole - first);
        let mut stamps = Vec::new();
        for block in first..first + count {
            let value = self.values.new_one();
            stamps.extend_from_slice(&value);
            self.model.begin(self.next_id, volume, block, value);
        }
        let (offset, data) = (Bytes(first * u64::from(BLOCK)), Payload::from(bytes_of(&stamps)));
        let blocks = (first..first + count).collect();
        let action = Action::Write { volume, offset, data, fua: false };
        self.ask(action, Asked::Write { volume, blocks, forced: false });
    }

    pub(crate) fn fill_disk(&mut self, full: bool) {
        let disk = self.store_mut().device_mut();
        if full {
            disk.fill_up()
        } else {
            disk.make_room()
        }
        self.troubled |= full;
    }

    // Answers.

    /// Folds a reply into the digest.
    fn record(&self, id: u64, result: &Result<Completed, RequestError>) {
        self.digest.fold(id);
        match result {
            Ok(Completed::Read(data)) => fold_result(&self.digest, &Ok(data.clone())),
            result => self.digest.fold_text(result),
        }
    }

    fn answered(&mut self, answer: Answer) {
        let Answer { id: RequestId(id), result } = answer;
        self.record(id, &result);
        let asked = self.asked.remove(&id).expect("everybody is answered once");
        if self.is_told {
            let result = format!("{result:?}");
            eprintln!("{:?} {id} -> {}", self.now, &result[..result.len().min(60)]);
        }
        if result == Err(RequestError::Stopped) {
            assert!(self.troubled, "it stopped although the disk is well");
            // What is under way may be durable or not: a crash follows.
            self.asked.insert(id, asked);
            return;
        }
        if let Err(error) = &result {
            self.check_error(id, &asked, error);
        }
        match asked {
            Asked::Read { volume, first, allowed } => {
                if let Ok(Completed::Read(data)) = result {
                    self.model.check_read(volume, first, &allowed, &data.to_vec());
                }
            }
            Asked::Write { volume, blocks, forced } => {
                let well = matches!(result, Ok(Completed::Written { .. }));
                assert!(well || result.is_err(), "{result:?}");
                self.model.end(id, volume, &blocks, well, forced);
            }
            Asked::Known { volume, blocks, forced, must_be_known } => {
                let well = matches!(result, Ok(Completed::Written { .. }));
                let lost = must_be_known && result == Ok(Completed::Unknown);
                assert!(!lost, "a pinned block is not there");
                self.model.end(id, volume, &blocks, well, forced);
            }
            Asked::Flush { marks } => {
                if result.is_ok() {
                    self.model.flushed(&marks);
                }
            }
            Asked::Names { volume, first, before } => {
                if let Ok(Completed::Identified(names)) = result {
                    self.model.check_names(volume, first, &before, &names);
                }
            }
            Asked::Pin { domain, value } => {
                if let Ok(Completed::Pinned(block)) = result {
                    self.pins.push((block, domain, value));
                }
            }
            Asked::Fetch { block, is_mapped } => {
                if let Ok(completed) = result {
                    self.check_fetched(block, is_mapped, &completed);
                }
            }
            Asked::Create(volume) | Asked::Clone { volume } => {
                if let Ok(Completed::Created(id)) = result {
                    assert!(self.model.volumes.insert(id, volume).is_none(), "an id came twice");
                }
            }
            Asked::Delete { volume } => {
                if result.is_ok() {
                    self.model.volumes.remove(&volume);
                }
            }
            Asked::Quotas => {}
        }
    }

    fn check_error(&self, id: u64, asked: &Asked, error: &RequestError) {
        let volume = match asked {
            Asked::Read { volume, .. }
            | Asked::Write { volume, .. }
            | Asked::Known { volume, .. }
            | Asked::Names { volume, .. }
            | Asked::Delete { volume } => self.model.volumes.get(volume),
            _ => None,
        };
        let goes = |asked: &Asked| matches!(asked, Asked::Delete { .. });
        let may_be = match error {
            RequestError::Device(_) => self.troubled,
            RequestError::Damaged { .. } => self.flipped,
            RequestError::Quota(_) => volume.is_none_or(|volume| volume.has_quota),
            RequestError::ReadOnly => volume.is_none_or(|volume| volume.read_only),
            RequestError::NoVolume(_) => {
                volume.is_none() || self.asked.values().any(goes) || goes(asked)
            }
            RequestError::NoSpace => {
                let status = self.store().status();
                // The blocks of a write whose volume was deleted meanwhile are in no volume.
                let orphaned = match asked {
                    Asked::Write { blocks, .. } if volume.is_none() => blocks.len(),
                    _ => 0,
                };
                let stored = (self.model.distinct() + orphaned) as u64 * u64::from(BLOCK);
                let is_trim = matches!(asked, Asked::Write { .. });
                is_trim && stored * 3 > status.capacity.0
                    || matches!(asked, Asked::Known { .. })
                    || self.troubled
            }
            _ => false,
        };
        assert!(
            may_be,
            "request {id}, {asked:?}: {error}; {:?}, {} contents",
            self.store().status(),
            self.model.distinct()
        );
    }

    /// Checks that nothing leaks and no invariant is broken.
    pub(crate) fn check(&self, when: &str) {
        let flaws = self.store().check();
        assert!(flaws.is_empty(), "{when}: {flaws:?}");
    }

    /// Checks a quiet store: the status of volumes is right, and a sweep leaves no garbage.
    pub(crate) fn check_rest(&mut self) {
        self.settle();
        if self.has_stopped() || self.must_crash() {
            return;
        }
        self.check("at rest");
        for status in self.store().volumes() {
            let volume = &self.model.volumes[&status.id];
            assert_eq!(volume.mapped(), status.mapped.0, "{} maps something else", volume.name);
        }
        while !self.pins.is_empty() {
            self.unpin();
        }
        for _ in 0..2 {
            self.sweep();
            self.flush();
            self.settle();
        }
        if !self.has_stopped() && !self.must_crash() {
            self.check("after a sweep");
            let status = self.store().status();
            assert_eq!(status.unreferenced, Bytes(0), "swept, and still there");
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.has_stopped()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.asked.len()
    }
}
