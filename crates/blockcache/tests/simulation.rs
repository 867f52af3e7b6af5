//! The cache's whole world by seed: two disks that misbehave and crash, and a model of each sector.
//!
//! A sector of the model knows which contents it may have now, and which a crash may bring back:
//! what it had at the last flush that succeeded, and everything written since. A seed decides the
//! load, the faults, the moments of crashes and what survives them. Failures name the seed.

use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_blockcache::{BlockCache, Settings};
use thermocline_ports::faulty::{Background, Faults, SimDisk, Survival};
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, SECTOR, Ticket};
use thermocline_units::{Bytes, Nanos, Rng};

const SECTOR_BYTES: u64 = SECTOR as u64;
/// What the machine above sees: a last line of three sectors.
const SECTORS: u64 = 4096 + 3;
const ORIGIN: Bytes = Bytes((64 << 10) + SECTORS * SECTOR_BYTES);
const CACHE: Bytes = Bytes(1_200 << 10);
const SEEDS: u64 = 300;

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
    /// What a crash may bring back, oldest first.
    versions: Vec<Version>,
    /// What a read may show now.
    now: Vec<u64>,
}

impl Sector {
    fn holding(stamp: u64) -> Sector {
        Sector { versions: vec![Version { sequence: 0, stamp, doubtful: false }], now: vec![stamp] }
    }
}

struct Flight {
    io: Io,
    stamp: u64,
    sequence: u64,
}

struct World {
    seed: u64,
    rng: Rng,
    cache: Option<BlockCache<SimDisk, SimDisk>>,
    settings: Settings,
    now: Nanos,
    sectors: Vec<Sector>,
    flights: BTreeMap<Ticket, Flight>,
    sequence: u64,
    flushes: u64,
    reads: u64,
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

fn disk(size: Bytes, seed: u64) -> SimDisk {
    let faults = Faults { background: Background::Garbage, ..Faults::NONE };
    let discard_zeroes = true;
    SimDisk::new(Geometry { size, discard_zeroes, far: false }, seed, faults)
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::seeded(seed);
        let settings = Settings {
            around_from: [4 << 10, 16 << 10, 64 << 10][rng.below(3) as usize],
            dirty_percent: [0, 5, 20, 60][rng.below(4) as usize],
            writers_max: 1 + rng.below(8) as u32,
        };
        let (fast, slow) = (disk(CACHE, rng.next_u64()), disk(ORIGIN, rng.next_u64()));
        let made = BlockCache::format(Nanos(0), fast, slow, seed, settings).expect("sizes fit");
        let mut world = World {
            seed,
            rng,
            cache: Some(made),
            settings,
            now: Nanos(0),
            sectors: Vec::new(),
            flights: BTreeMap::new(),
            sequence: 0,
            flushes: 0,
            reads: 0,
        };
        world.finish_opening();
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

    fn cache(&mut self) -> &mut BlockCache<SimDisk, SimDisk> {
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

    fn submit(&mut self, io: Io) {
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

    fn drain(&mut self) {
        while self.step() {}
        assert!(self.flights.is_empty(), "seed {}: unanswered requests", self.seed);
    }

    fn completed(&mut self, Completion { ticket, result }: Completion) {
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

    fn crash(&mut self) {
        let survival = Survival::draw(&mut self.rng);
        let mut cache = self.cache.take().expect("there is one between crashes");
        let (fast, slow) = cache.devices_mut();
        let mut devices: Vec<SimDisk> = [fast, slow]
            .into_iter()
            .map(|device| {
                device.set_faults(Faults { background: Background::Garbage, ..Faults::NONE });
                device.crash(&mut self.rng, survival);
                std::mem::replace(device, disk(Bytes(SECTOR_BYTES), 0))
            })
            .collect();
        for Flight { io, stamp, .. } in std::mem::take(&mut self.flights).into_values() {
            if !matches!(io, Io::Read { .. } | Io::Flush) {
                let version = Version { sequence: u64::MAX, stamp, doubtful: true };
                self.sectors[sectors_of(&io)].iter_mut().for_each(|s| s.versions.push(version));
            }
        }
        let (slow, fast) = (devices.pop().expect("two"), devices.pop().expect("two"));
        let opened = BlockCache::open(self.now, fast, slow, self.settings);
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

    fn run(&mut self, requests: u64) {
        let faults = match self.rng.below(3) {
            0 => 0.0,
            1 => 0.002,
            _ => 0.02,
        };
        let faults =
            Faults { background: Background::Garbage, fail: faults, delay: 0.01, ..Faults::NONE };
        let (fast, slow) = self.cache().devices_mut();
        fast.set_faults(faults);
        slow.set_faults(faults);
        let depth = 1 + self.rng.below(24) as usize;
        for _ in 0..requests {
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

#[test]
fn nothing_that_was_flushed_is_lost_and_nothing_is_read_that_was_not_written() {
    let seeds = std::env::var("THERMOCLINE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let (mut flushes, mut reads, mut backs, mut hits) = (0, 0, 0, 0);
    for seed in 0..seeds.unwrap_or(SEEDS) {
        let mut world = World::new(seed);
        for _ in 0..3 {
            let requests = 50 + world.rng.below(400);
            world.run(requests);
            if world.rng.below(3) == 0 {
                world.drain();
            }
            let status = world.cache().status();
            (backs, hits) = (backs + status.written_back.0, hits + status.read_hits.0);
            world.crash();
        }
        (flushes, reads) = (flushes + world.flushes, reads + world.reads);
    }
    // The load reaches what it is to test.
    assert!(flushes > 0 && reads > 0 && backs > 0 && hits > 0);
}

#[test]
fn a_dead_device_answers_everybody() {
    for seed in 0..40 {
        let mut world = World::new(seed);
        world.run(100);
        let (fast, slow) = world.cache().devices_mut();
        if seed % 2 == 0 {
            fast.kill()
        } else {
            slow.kill()
        }
        world.run(50);
        world.drain();
        world.submit(Io::Flush);
        let ticket = *world.flights.keys().last().expect("just submitted");
        let (now, mut done) = (world.now, Vec::new());
        world.cache().poll(now, &mut done);
        let gone = Completion { ticket, result: Err(DeviceError::Gone) };
        assert!(done.contains(&gone), "seed {seed}: {done:?}");
    }
}
