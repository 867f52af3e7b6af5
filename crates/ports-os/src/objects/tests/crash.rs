//! The device's whole world by seed: a bucket that fails, loses answers and hangs, a program that
//! crashes, and a model of each sector.
//!
//! A sector of the model knows what it may hold after a crash: what it had at the last flush that
//! was answered, and everything written since. What a read may show is what was written last.

use super::super::{ObjectSettings, Purpose};
use super::rig::{Driver, Fate, Rig, SHAPE, settings};
use std::sync::{Arc, Mutex};
use thermocline_ports::{Device, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, Rng};

const SECTOR: u64 = 512;
pub(super) const SEEDS: u64 = 40;
/// Few records, so that maps are written all the time.
const MAP_RECORDS: usize = 8;

struct Sector {
    /// Bytes that a crash may bring back.
    may_be: Vec<u8>,
    now: u8,
}

struct World {
    seed: u64,
    rng: Rng,
    rig: Rig,
    device: Option<Driver>,
    owner: u64,
    sectors: Vec<Sector>,
    /// The sector behind the last read.
    next: u64,
    flushes: u64,
}

/// Settings of half of the worlds read ahead, with room for a few segments.
fn settings_of(seed: u64, owner: u64) -> ObjectSettings {
    let read_ahead = Bytes(if seed.is_multiple_of(2) { 128 << 10 } else { 0 });
    ObjectSettings { map_records: MAP_RECORDS, read_ahead, ..settings(owner) }
}

impl World {
    fn new(seed: u64) -> World {
        let rig = Rig::default();
        let own = settings_of(seed, 1);
        let device = rig.open(&own, Purpose::Make(seed, SHAPE)).expect("nothing is there");
        let sectors = (0..SHAPE.size.0 / SECTOR).map(|_| Sector { may_be: vec![0], now: 0 });
        let (rng, sectors) = (Rng::seeded(seed), sectors.collect());
        World { seed, rng, rig, device: Some(device), owner: 1, sectors, next: 0, flushes: 0 }
    }

    fn device(&mut self) -> &mut Driver {
        self.device.as_mut().expect("it is open between steps")
    }

    /// From now on some requests fail, or their answers are lost; some hang when a crash is near.
    fn trouble(&mut self, hangs: bool) {
        let rng = Arc::new(Mutex::new(Rng::seeded(self.rng.next_u64())));
        let share = self.rng.below(4);
        self.rig.script(move |verb, _| {
            let mut rng = rng.lock().expect("ours");
            match (rng.below(12) < share, rng.below(3)) {
                (false, _) => Fate::Pass,
                (true, 0) if verb == "put" => Fate::LoseAnswer,
                (true, 1) if hangs && verb == "put" => Fate::Hang,
                (true, _) => Fate::Fail,
            }
        });
    }

    fn range(&mut self) -> (u64, u64) {
        let count = self.sectors.len() as u64;
        let first = self.rng.below(count);
        let most = if self.rng.below(5) == 0 { 300 } else { 20 };
        (first, 1 + self.rng.below(most.min(count - first)))
    }

    /// The sectors of a whole extent.
    fn extent(&mut self) -> (u64, u64) {
        let bytes = SHAPE.bytes_of(self.rng.below(u64::from(SHAPE.extents())) as u32);
        (bytes.start / SECTOR, (bytes.end - bytes.start) / SECTOR)
    }

    fn change(&mut self) {
        let kind = self.rng.below(8);
        let whole = kind < 2 && self.rng.below(2) == 0;
        let (first, count) = if whole { self.extent() } else { self.range() };
        let stamp = 1 + self.rng.below(250) as u8;
        let (offset, length) = (Bytes(first * SECTOR), Bytes(count * SECTOR));
        let (io, stamp) = match kind {
            0 => (Io::Discard { offset, length }, 0),
            1 => (Io::WriteZeroes { offset, length }, 0),
            _ => {
                let data = Payload::from(vec![stamp; length.0 as usize]);
                (Io::Write { offset, data, fua: kind == 2 }, stamp)
            }
        };
        let done = self.device().ask(io).is_ok();
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.may_be.push(stamp);
            // Memory has it, even where a forced write was not answered as durable.
            sector.now = stamp;
            if kind == 2 && done {
                sector.may_be = vec![stamp];
            }
        }
    }

    fn flush(&mut self) {
        if self.device().flush().is_ok() {
            self.flushes += 1;
            for sector in &mut self.sectors {
                sector.may_be = vec![sector.now];
            }
        }
    }

    fn check(&mut self) {
        let (mut first, mut count) = self.range();
        if first % 4 > 0 && self.next < self.sectors.len() as u64 {
            first = self.next; // A stream goes on.
            count = count.min(self.sectors.len() as u64 - first);
        }
        self.next = first + count;
        let (offset, length) = (first * SECTOR, (count * SECTOR) as u32);
        let Ok(read) = self.device().read(offset, length) else { return };
        for (index, shown) in read.chunks(SECTOR as usize).enumerate() {
            let sector = &self.sectors[first as usize + index];
            let (seed, now) = (self.seed, sector.now);
            assert!(shown.iter().all(|&b| b == now), "seed {seed}: {now} reads as {}", shown[0]);
        }
    }

    /// Ends the program with requests under way, and finds what is left.
    fn crash(&mut self) {
        self.trouble(true);
        let mut device = self.device.take().expect("it is open between steps");
        device.device.submit(Nanos(0), Ticket(0), Io::Flush);
        for _ in 0..self.rng.below(200) {
            device.device.poll(Nanos(0), &mut Vec::new());
        }
        device.crash();
        self.rig.script(|_, _| Fate::Pass);
        self.owner += 1;
        let quick = ObjectSettings {
            beats: super::super::Beats { watch: std::time::Duration::ZERO, ..settings(1).beats },
            ..settings_of(self.seed, self.owner)
        };
        let opened = self.rig.open(&quick, Purpose::Run);
        self.device = Some(opened.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed)));
        let size = SHAPE.size.0 as u32;
        let all = self.device().read(0, size).expect("nothing fails");
        let seed = self.seed;
        for (index, shown) in all.chunks(SECTOR as usize).enumerate() {
            let sector = &mut self.sectors[index];
            let fits = sector.may_be.contains(&shown[0]) && shown.iter().all(|b| *b == shown[0]);
            assert!(fits, "seed {seed}: sector {index} is {}, not {:?}", shown[0], sector.may_be);
            *sector = Sector { may_be: vec![shown[0]], now: shown[0] };
        }
    }
}

/// All that a seed decides; how many flushes succeeded.
pub(super) fn life(seed: u64) -> u64 {
    let mut world = World::new(seed);
    for _ in 0..4 {
        for _ in 0..40 {
            match world.rng.below(12) {
                0 => world.trouble(false),
                1 => world.rig.script(|_, _| Fate::Pass),
                2 => world.flush(),
                3..6 => world.check(),
                _ => world.change(),
            }
        }
        world.crash();
    }
    world.flushes
}

#[test]
fn whatever_fails_and_whenever_it_crashes_nothing_flushed_is_lost_and_nothing_wrong_is_read() {
    let flushes: u64 = (0..SEEDS).map(life).sum();
    assert!(flushes > SEEDS, "only {flushes} flushes succeeded: nothing was tried");
}
