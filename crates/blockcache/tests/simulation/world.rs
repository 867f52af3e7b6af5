//! The cache's whole world by seed: two disks that misbehave and crash, and a model of each sector.
//!
//! A sector of the model knows which contents it may have now, and which a crash may bring back:
//! what it had at the last flush that succeeded, and everything written since. A seed decides the
//! load, the faults, the moments of crashes and what survives them. Failures name the seed.
//!
//! After a crash the table of dirty lines may be damaged, or a sector of it in another's place: the
//! cache must refuse to open, and open once the table is whole again.

use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_blockcache::{BlockCache, OpenError, Settings};
use thermocline_policy::cache::SetRule;
use thermocline_policy::tactics::CacheTactics;
use thermocline_ports::faulty::{Background, Faults, Recorded, SimDisk, Survival, fold_result};
use thermocline_ports::{Completion, Device, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_units::situations::met;
use thermocline_units::{Bytes, Digest, Nanos, Rng};

const SECTOR_BYTES: u64 = SECTOR as u64;
/// Sectors that the machine above sees: a last line of three.
const SECTORS: u64 = 4096 + 3;
const ORIGIN: Bytes = Bytes((64 << 10) + SECTORS * SECTOR_BYTES);
const CACHE: Bytes = Bytes(1_200 << 10);
/// The table of dirty lines on the fast device.
const TABLE: Bytes = Bytes(4096);
/// Events between a storm's last flush and a crash, at most.
const STORM_STEPS: u64 = 400;
/// Events that a world without faults takes to come to rest, at most: a bound against living on for
/// ever, far above what any seed needs.
const REST_MAX: u32 = 100_000;

/// Slots that a sector of the table is about.
const SLOTS_A_SECTOR: u32 = 124;

/// A version of a sector: when it was written, in submissions, and with what.
#[derive(Debug, Clone, Copy)]
struct Version {
    sequence: u64,
    stamp: u64,
    /// Its write failed: it may be there or not.
    doubtful: bool,
}

#[derive(Debug, Clone)]
struct Sector {
    /// Versions that a crash may bring back, oldest first.
    versions: Vec<Version>,
    /// Versions that a read may show now.
    now: Vec<u64>,
}

impl Sector {
    fn holding(stamp: u64) -> Sector {
        Sector { versions: vec![Version { sequence: 0, stamp, doubtful: false }], now: vec![stamp] }
    }
}

pub(crate) struct Flight {
    io: Io,
    stamp: u64,
    sequence: u64,
}

/// A disk whose requests and answers are in the world's digest.
pub(crate) type Disk = Recorded<SimDisk>;

pub(crate) struct World {
    seed: u64,
    /// Every request to a disk, every answer, and every reply.
    digest: Digest,
    pub(crate) rng: Rng,
    cache: Option<BlockCache<Disk, Disk>>,
    settings: Settings,
    pub(crate) now: Nanos,
    sectors: Vec<Sector>,
    pub(crate) flights: BTreeMap<Ticket, Flight>,
    sequence: u64,
    pub(crate) flushes: u64,
    pub(crate) reads: u64,
    /// Lines that the fast device has room for.
    lines: u32,
    /// Faults of both disks, but for storms.
    faults: Faults,
    /// True once a disk is dead for good: no restart brings it back.
    dead: bool,
}

fn sectors_of(io: &Io) -> Range<usize> {
    let (offset, length) = io.range().unwrap_or((Bytes(0), Bytes(0)));
    let end = offset.0 + length.0;
    (offset.0 / SECTOR_BYTES) as usize..(end / SECTOR_BYTES) as usize
}

fn contents(stamp: u64, count: usize) -> Payload {
    if stamp == 0 {
        return Payload::Zeroes((count as u64 * SECTOR_BYTES) as u32);
    }
    let bytes = stamp.to_le_bytes();
    Payload::from(bytes.repeat(count * SECTOR as usize / bytes.len()))
}

fn disk(size: Bytes, seed: u64, digest: &Digest) -> Disk {
    let faults = Faults { background: Background::Garbage, ..Faults::NONE };
    let discard_zeroes = true;
    let geometry = Geometry { size, discard_zeroes, far: false };
    Recorded::new(SimDisk::new(geometry, seed, faults), digest)
}

/// Drawn beside the rest, so that plans of seeds stay as they were.
fn draw_tactics(mut rng: Rng) -> CacheTactics {
    let names = ["write-back-graded", "write-back-at-once", "write-back-graded:flood=20"];
    CacheTactics::of(&[names[rng.below(3) as usize]]).expect("these are tactics")
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut rng = Rng::seeded(seed);
        let settings = Settings {
            around_from: [4 << 10, 16 << 10, 64 << 10][rng.below(3) as usize],
            dirty_percent: [0, 5, 20, 60][rng.below(4) as usize],
            writers_max: 1 + rng.below(8) as u32,
            policy: SetRule::ALL[rng.below(3) as usize],
            tactics: draw_tactics(rng.clone()),
        };
        let digest = Digest::default();
        let fast = disk(CACHE, rng.next_u64(), &digest);
        let slow = disk(ORIGIN, rng.next_u64(), &digest);
        let made =
            BlockCache::format(Nanos(0), fast, slow, seed, settings.clone()).expect("sizes fit");
        let mut world = World {
            seed,
            digest,
            rng,
            cache: Some(made),
            settings,
            now: Nanos(0),
            sectors: Vec::new(),
            flights: BTreeMap::new(),
            sequence: 0,
            flushes: 0,
            reads: 0,
            lines: 0,
            faults: Faults::NONE,
            dead: false,
        };
        world.finish_opening();
        world.lines = world.cache().status().lines;
        assert_eq!(world.cache().geometry().size.0, SECTORS * SECTOR_BYTES);
        world.sectors = vec![Sector::holding(0); SECTORS as usize];
        // Whatever was on the slow device: from here on, zeroes.
        let whole = Io::WriteZeroes { offset: Bytes(0), length: Bytes(SECTORS * SECTOR_BYTES) };
        world.submit(whole);
        world.drain();
        world.submit(Io::Flush);
        world.drain();
        world
    }

    /// Digest of everything that has passed.
    pub(crate) fn digest(&self) -> u64 {
        self.digest.value() ^ self.rng.clone().next_u64()
    }

    pub(crate) fn cache(&mut self) -> &mut BlockCache<Disk, Disk> {
        self.cache.as_mut().expect("there is a cache between crashes")
    }

    fn finish_opening(&mut self) {
        let mut done = Vec::new();
        while !self.cache().is_open().unwrap_or_else(|error| panic!("{error}")) {
            let next = self.cache().next_event().expect("a step of opening is under way");
            self.now = self.now.max(next);
            let now = self.now;
            self.cache().poll(now, &mut done);
        }
        assert!(done.is_empty(), "opening answers nobody");
    }

    pub(crate) fn submit(&mut self, io: Io) {
        self.sequence += 1;
        let stamp = match &io {
            Io::Write { .. } => self.sequence,
            _ => 0,
        };
        let io = match io {
            Io::Write { offset, fua, data } => {
                let data = contents(stamp, (u64::from(data.len()) / SECTOR_BYTES) as usize);
                Io::Write { offset, data, fua }
            }
            io => io,
        };
        let ticket = Ticket(self.sequence);
        let sequence = self.sequence;
        self.flights.insert(ticket, Flight { io: io.clone(), stamp, sequence });
        let now = self.now;
        self.cache().submit(now, ticket, io);
    }

    /// Goes on to the next event; false when there is none.
    fn step(&mut self) -> bool {
        let Some(next) = self.cache().next_event() else { return false };
        self.now = self.now.max(next);
        let (now, mut done) = (self.now, Vec::new());
        self.cache().poll(now, &mut done);
        done.into_iter().for_each(|completion| self.completed(completion));
        true
    }

    pub(crate) fn drain(&mut self) {
        let rested = (0..REST_MAX).any(|_| !self.step());
        assert!(rested, "seed {}: it does not come to rest", self.seed);
        assert!(self.flights.is_empty(), "seed {}: unanswered requests", self.seed);
        let (seed, lines) = (self.seed, self.lines);
        let (status, counted) = (self.cache().status(), self.cache().count_lines());
        assert_eq!(counted, (status.cached, status.dirty), "seed {seed}: counted lines");
        assert!(status.cached <= lines, "seed {seed}: more is used than there is");
    }

    fn completed(&mut self, Completion { ticket, result }: Completion) {
        self.digest.fold(ticket.0);
        fold_result(&self.digest, &result);
        let seed = self.seed;
        let flight = self.flights.remove(&ticket);
        let flight = flight.unwrap_or_else(|| panic!("seed {seed}: {ticket:?} answered twice"));
        let range = sectors_of(&flight.io);
        match (&flight.io, result) {
            (Io::Read { .. }, Ok(payload)) => self.check_read(range, &payload),
            (Io::Read { .. }, Err(_)) => {}
            (Io::Flush, Ok(_)) => {
                self.flushes += 1;
                self.sectors.iter_mut().for_each(|sector| settle(sector, flight.sequence));
            }
            (Io::Flush, Err(_)) => {}
            (io, result) => {
                let forced = matches!(io, Io::Write { fua: true, .. }) && result.is_ok();
                // In the order of completion: a flush covers what was answered before it came.
                self.sequence += 1;
                let doubtful = result.is_err();
                let version = Version { sequence: self.sequence, stamp: flight.stamp, doubtful };
                for sector in &mut self.sectors[range] {
                    if !doubtful {
                        sector.now.clear();
                    }
                    sector.now.push(flight.stamp);
                    sector.versions.push(version);
                    if forced {
                        settle(sector, version.sequence);
                    }
                }
            }
        }
    }

    fn check_read(&mut self, range: Range<usize>, payload: &Payload) {
        self.reads += 1;
        let bytes = payload.to_vec();
        for (index, found) in range.zip(bytes.chunks(SECTOR as usize)) {
            let stamp = stamp_of(found);
            let coming = self.flights.values().any(|flight| {
                !matches!(flight.io, Io::Read { .. })
                    && sectors_of(&flight.io).contains(&index)
                    && flight.stamp == stamp
            });
            let sector = &mut self.sectors[index];
            if coming {
                continue;
            }
            assert!(
                sector.now.contains(&stamp),
                "seed {}: sector {index} reads as {stamp}, not as one of {:?}",
                self.seed,
                sector.now
            );
            // What was in doubt is not any more, unless it is being changed.
            let changing = self.flights.values().any(|flight| {
                !matches!(flight.io, Io::Read { .. }) && sectors_of(&flight.io).contains(&index)
            });
            if !changing {
                sector.now = vec![stamp];
            }
        }
    }

    fn request(&mut self) -> Option<Io> {
        let hot = self.rng.below(4) > 0;
        let span = if hot { 600 } else { SECTORS };
        let start = self.rng.below(span);
        let length = match self.rng.below(8) {
            0 => 1 + self.rng.below(7),
            1 => 8 * (1 + self.rng.below(40)),
            _ => 8,
        };
        let start = if length >= 8 && self.rng.below(8) > 0 { start / 8 * 8 } else { start };
        let length = length.min(SECTORS - start);
        let (offset, bytes) = (Bytes(start * SECTOR_BYTES), length * SECTOR_BYTES);
        let io = match self.rng.below(20) {
            0 => Io::Flush,
            1 => Io::WriteZeroes { offset, length: Bytes(bytes) },
            2 => Io::Discard { offset, length: Bytes(bytes) },
            3..9 => Io::Read { offset, length: bytes as u32 },
            kind => Io::Write { offset, data: Payload::Zeroes(bytes as u32), fua: kind == 19 },
        };
        // Overlapping changes may end either way; nobody above sends such.
        let range = sectors_of(&io);
        let changes = !matches!(io, Io::Read { .. } | Io::Flush);
        let overlaps = |flight: &Flight| {
            let other = sectors_of(&flight.io);
            let changing = !matches!(flight.io, Io::Read { .. } | Io::Flush);
            (changes && changing) && other.start < range.end && range.start < other.end
        };
        (!self.flights.values().any(overlaps)).then_some(io)
    }

    pub(crate) fn crash(&mut self) {
        let survival = Survival::draw(&mut self.rng);
        let mut cache = self.cache.take().expect("there is one between crashes");
        let (fast, slow) = cache.devices_mut();
        let mut devices: Vec<Disk> = [fast, slow]
            .into_iter()
            .map(|device| {
                device.set_faults(Faults { background: Background::Garbage, ..Faults::NONE });
                device.make_room();
                device.crash(&mut self.rng, survival);
                std::mem::replace(device, disk(Bytes(SECTOR_BYTES), 0, &self.digest))
            })
            .collect();
        for Flight { io, stamp, .. } in std::mem::take(&mut self.flights).into_values() {
            if !matches!(io, Io::Read { .. } | Io::Flush) {
                let version = Version { sequence: u64::MAX, stamp, doubtful: true };
                self.sectors[sectors_of(&io)].iter_mut().for_each(|s| s.versions.push(version));
            }
        }
        let (slow, fast) = (devices.pop().expect("two"), devices.pop().expect("two"));
        self.damage(&fast, &slow);
        let opened = BlockCache::open(self.now, fast, slow, self.settings.clone());
        self.cache = Some(opened.expect("sizes fit"));
        self.finish_opening();
        for sector in &mut self.sectors {
            sector.now = sector.versions.iter().map(|version| version.stamp).collect();
        }
        for start in (0..SECTORS).step_by(64) {
            let length = (SECTORS - start).min(64) * SECTOR_BYTES;
            self.submit(Io::Read { offset: Bytes(start * SECTOR_BYTES), length: length as u32 });
        }
        self.drain();
        for sector in &mut self.sectors {
            assert_eq!(sector.now.len(), 1, "every sector was read");
            *sector = Sector::holding(sector.now[0]);
        }
    }

    /// Sometimes breaks a sector of the table on copies of the devices, and sees that it is not
    /// believed, unless one flipped bit is all that is wrong.
    fn damage(&mut self, whole: &Disk, slow: &Disk) {
        let mut fast = whole.clone();
        let sector = u64::from(SECTOR);
        let at = |number: u64| Bytes(TABLE.0 + number * sector);
        let peek = |disk: &Disk, number| disk.peek(at(number), SECTOR).expect("no faults");
        let sectors = u64::from(self.lines.div_ceil(SLOTS_A_SECTOR));
        let (kind, first) = (self.rng.below(4), self.rng.below(sectors));
        match kind {
            // One flipped bit is set right, two are not.
            0 | 2 => {
                let byte = at(first).0 + self.rng.below(sector / 2);
                fast.flip_bit(Bytes(byte), self.rng.below(8) as u8);
                if kind == 0 {
                    let byte = byte + sector / 2;
                    fast.flip_bit(Bytes(byte), self.rng.below(8) as u8);
                }
            }
            1 if sectors > 1 => {
                let other = (first + 1 + self.rng.below(sectors - 1)) % sectors;
                let moved = peek(&fast, other);
                self.write(&mut fast, at(first), moved);
            }
            _ => return,
        }
        let opened = BlockCache::open(self.now, fast, slow.clone(), self.settings.clone());
        let mut cache = opened.expect("sizes fit");
        let error = loop {
            match (cache.is_open(), cache.next_event()) {
                (Err(error), _) => break Some(error),
                (Ok(_), None) => break None,
                (Ok(_), Some(next)) => {
                    self.now = self.now.max(next);
                    cache.poll(self.now, &mut Vec::new());
                }
            }
        };
        let expected = (kind != 2).then_some(OpenError::Table(first as u32));
        assert_eq!(error, expected, "seed {}", self.seed);
        if error.is_some() {
            met("a damaged table is refused");
        }
    }

    /// Writes to a device that nobody uses.
    fn write(&mut self, disk: &mut Disk, offset: Bytes, data: Payload) {
        disk.submit(self.now, Ticket(0), Io::Write { offset, data, fua: true });
        self.now = self.now.max(disk.next_event().expect("it is under way"));
        let mut done = Vec::new();
        disk.poll(self.now, &mut done);
        assert!(done[0].result.is_ok(), "no faults");
    }

    /// Devices that fail every other request for a while, or have no room, and perhaps a crash
    /// before they are well again.
    fn storm(&mut self, usual: Faults) {
        let worst = Faults { fail: 0.5, ..usual };
        let which = 1 + self.rng.below(3);
        let full = self.rng.below(2) == 0;
        let length = 1 + self.rng.below(60);
        let (fast, slow) = self.cache().devices_mut();
        for (bit, device) in [(1, fast), (2, slow)] {
            match (which & bit > 0, full) {
                (false, _) => {}
                (true, true) => device.fill_up(),
                (true, false) => device.set_faults(worst),
            }
        }
        self.requests(length);
        if self.rng.below(2) == 0 {
            // Whoever is told now that all is durable relies on it.
            self.submit(Io::Flush);
            let steps = self.rng.below(STORM_STEPS);
            let _rests = (0..steps).any(|_| !self.step());
            self.crash();
        }
        let (fast, slow) = self.cache().devices_mut();
        for device in [fast, slow] {
            device.make_room();
        }
        self.set_faults(usual);
        self.restart_if_failed();
    }

    pub(crate) fn run(&mut self, requests: u64) {
        let faults = match self.rng.below(3) {
            0 => 0.0,
            1 => 0.002,
            _ => 0.02,
        };
        // Some disks forget what a failed flush was to make durable, as Linux does.
        let forgets = self.rng.below(2) == 0;
        let faults = Faults {
            background: Background::Garbage,
            fail: faults,
            time_out: faults / 2.0,
            delay: 0.01,
            forgets,
            ..Faults::NONE
        };
        self.set_faults(faults);
        let storms = self.rng.below(2) == 0;
        let before = self.rng.below(requests);
        self.requests(before);
        if storms {
            self.storm(faults);
        }
        self.requests(requests - before);
    }

    fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        let (fast, slow) = self.cache().devices_mut();
        fast.set_faults(faults);
        slow.set_faults(faults);
    }

    /// One disk answers nothing from here on: the fast one, or the slow one.
    pub(crate) fn kill(&mut self, fast: bool) {
        self.dead = true;
        let (quick, slow) = self.cache().devices_mut();
        if fast { quick.kill() } else { slow.kill() }
    }

    /// A cache that has failed is opened anew, as an engine does that is started again.
    fn restart_if_failed(&mut self) {
        if !self.dead && self.cache().is_open().is_err() {
            self.drain();
            self.crash();
            self.set_faults(self.faults);
        }
    }

    pub(crate) fn requests(&mut self, count: u64) {
        let depth = 1 + self.rng.below(24) as usize;
        for _ in 0..count {
            if self.rng.below(16) == 0 {
                self.restart_if_failed();
            }
            while self.flights.len() >= depth || self.rng.below(3) == 0 {
                if !self.step() {
                    break;
                }
            }
            if let Some(io) = self.request() {
                self.submit(io);
            }
        }
    }
}

/// A flush or a forced write covers the versions up to `sequence`.
fn settle(sector: &mut Sector, sequence: u64) {
    let covered =
        sector.versions.iter().rposition(|v| v.sequence <= sequence && !v.doubtful).unwrap_or(0);
    sector.versions.drain(..covered);
}

fn stamp_of(sector: &[u8]) -> u64 {
    let stamp = &sector[..8];
    assert!(sector.chunks(8).all(|part| part == stamp), "a sector of several writes");
    u64::from_le_bytes(stamp.try_into().expect("eight bytes"))
}
