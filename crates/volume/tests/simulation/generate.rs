//! From a seed to a plan, swarm style (Groce et al., Swarm Testing, 2012): each seed leaves some
//! kinds of steps out altogether and draws the rates of the others, so that seeds explore corners
//! that an even mixture never reaches.

mod motifs;

use crate::dice::Dice;
use crate::plan::{Plan, PoolPlan, Span, Step, tactics};
use motifs::Motif;
use thermocline_ports::faulty::Survival;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::{Copying, Limits, OperationKind, Settings};

const SECTOR: u64 = thermocline_ports::SECTOR as u64;

/// Kinds of steps, with the rate of each when it is not left out, and how often it is.
#[rustfmt::skip]
const KINDS: [(Draw, u32, f64); 24] = [
    (Draws::read,          24, 0.05), (Draws::write,        40, 0.0),
    (Draws::write_zeroes,   6, 0.3),  (Draws::discard,       6, 0.3),
    (Draws::flush,         10, 0.15), (Draws::operate,      20, 0.1),
    (Draws::cancel,         3, 0.5),  (Draws::create_volume, 2, 0.3),
    (Draws::grow_volume,    2, 0.5),  (Draws::delete_volume, 2, 0.5),
    (Draws::add_pool,       1, 0.6),  (Draws::drain_pool,    1, 0.6),
    (Draws::remove_pool,    2, 0.5),  (Draws::place,         1, 0.6),
    (Draws::scrub,          1, 0.6),  (Draws::crash,         4, 0.15),
    (Draws::close,          1, 0.5),  (Draws::trouble,       3, 0.6),
    (Draws::fail_nth,       4, 0.6),  (Draws::fill_up,       1, 0.8),
    (Draws::kill,           1, 0.8),  (Draws::flip,          1, 0.6),
    (Draws::unplug,         1, 0.7),  (Draws::motif,         4, 0.4),
];

/// Steps of a run with thousands of chunks.
const LARGE_STEPS: usize = 100;

/// Sectors by which a large volume grows for each chunk: those of a chunk of 64 KiB.
const LARGE_CHUNK_SECTORS: u32 = 128;

/// The first of them change no faults; they go on while a fault lasts.
const QUIET_KINDS: usize = 17;

type Draw = fn(&mut Draws, &mut Vec<Step>);

/// The plan of a seed.
pub(crate) fn plan(seed: u64) -> Plan {
    let mut dice = Dice::seeded(seed);
    let mut pools: Vec<PoolPlan> = {
        let count = dice.one_of(&[1, 2, 2, 2, 3, 3, 4, 5]);
        (0..count).map(|index| pool(&mut dice, index < 2)).collect()
    };
    let settings = mixed(seed, settings(&mut dice));
    let large = dice.chance(0.02).then(|| dice.magnitude(300..=2_500) as u32);
    let mut steps = Vec::new();
    while dice.chance(0.1) {
        // The power fails during formatting.
        steps.push(Step::Events { count: dice.between(0..=12) as u16 });
        steps.push(Step::Crash { survival: Survival::draw(&mut dice.0) });
    }
    steps.extend((0..dice.between(1..=3)).map(|_| volume(&mut dice, &settings)));
    let mut draws = Draws::new(dice, &settings);
    steps.append(&mut draws.steps());
    if let Some(chunks) = large {
        enlarge(chunks, &mut pools, &mut steps);
    }
    add_hints(seed, &mut steps);
    move_away(seed, &mut pools, &mut steps);
    rank_and_undrain(seed, &mut steps);
    grow_pools(seed, &settings, &mut steps);
    change_over(seed, &settings, &mut steps);
    let settings = lend_slots(seed, settings, &mut steps);
    Plan { seed, settings, pools, steps }
}

/// Makes a group of thousands of chunks of the plan: large pools, a volume that fills them, and its
/// chunks in use from the beginning. Fewer steps, because each run reads everything back.
fn enlarge(chunks: u32, pools: &mut [PoolPlan], steps: &mut Vec<Step>) {
    for pool in pools.iter_mut().filter(|pool| pool.roomy) {
        pool.chunks += chunks;
    }
    let created = steps.iter().position(|step| matches!(step, Step::CreateVolume { .. }));
    let Some(at) = created else { return };
    if let Step::CreateVolume { sectors } = &mut steps[at] {
        *sectors += chunks * LARGE_CHUNK_SECTORS;
    }
    steps.truncate(at + LARGE_STEPS);
    steps.insert(at + 1, Step::Populate { volume: 0, first: 0, chunks });
}

/// Puts some pools across a network, in a fifth of all runs; from dice of their own, as hints.
fn move_away(seed: u64, pools: &mut [PoolPlan], steps: &mut [Step]) {
    let mut dice = Dice::seeded(seed ^ 0xfa_4a4a);
    if !dice.chance(0.2) {
        return;
    }
    let added = steps.iter_mut().filter_map(|step| match step {
        Step::AddPool(pool) => Some(pool),
        _ => None,
    });
    for pool in pools.iter_mut().chain(added) {
        pool.far = dice.chance(0.4);
        // What a far device could not send it keeps.
        pool.forgets &= !pool.far;
    }
}

/// Ranks some of the added pools before others and takes some drains back, in half of all runs;
/// from dice of their own, as hints.
fn rank_and_undrain(seed: u64, steps: &mut Vec<Step>) {
    let mut dice = Dice::seeded(seed ^ 0x4a_4d12);
    if !dice.chance(0.5) {
        return;
    }
    let mut at = 0;
    while let Some(&step) = steps.get(at) {
        let small = dice.between(0..=255) as u8;
        match step {
            Step::AddPool(pool) if dice.chance(0.5) => {
                steps[at] = Step::AddPoolBefore { pool, before: small };
            }
            Step::DrainPool { pool } if dice.chance(0.6) => {
                let later = at + 1 + dice.magnitude(1..=30) as usize;
                steps.insert(later.min(steps.len()), Step::UndrainPool { pool });
            }
            _ => {}
        }
        at += 1;
    }
}

/// Enlarges disks in a third of all runs, half of the time shortly before the power fails; in some
/// so much that the tables of their checksums stand in slots, and chunks fill them. From dice of
/// their own, as hints.
fn grow_pools(seed: u64, settings: &Settings, steps: &mut Vec<Step>) {
    let mut dice = Dice::seeded(seed ^ 0x6_4077);
    if !dice.chance(0.35) {
        return;
    }
    let opened = |step: &Step| matches!(step, Step::CreateVolume { .. });
    let first = steps.iter().position(opened).map_or(0, |at| at + 1);
    for _ in 0..dice.between(1..=4) {
        let at = dice.between(first as u64..=steps.len() as u64) as usize;
        let pool = dice.between(0..=255) as u8;
        let mut row = vec![Step::GrowPool { pool, chunks: dice.magnitude(1..=300) as u32 }];
        if dice.chance(0.5) {
            row.push(Step::Events { count: dice.magnitude(1..=60) as u16 - 1 });
            row.push(Step::Crash { survival: Survival::draw(&mut dice.0) });
            row.push(Step::Verify { eighths: 8 });
        } else if dice.chance(0.15) {
            let chunks = dice.between(130..=300) as u32;
            let sectors = chunks * (settings.chunk_size.0 / SECTOR) as u32;
            row.extend([
                Step::GrowPool { pool, chunks: chunks + 20 },
                Step::GrowVolume { volume: 0, sectors },
                Step::Populate { volume: 0, first: 0, chunks },
                Step::Place { seed: None },
                Step::Wait { us: dice.between(11_000_000..=25_000_000) as u32 },
                Step::Verify { eighths: 8 },
            ]);
        }
        steps.splice(at..at, row);
    }
}

/// Gives hints now and then in a third of all runs. From dice of their own, so that what else
/// happens is the same without them.
fn add_hints(seed: u64, steps: &mut Vec<Step>) {
    let mut dice = Dice::seeded(seed ^ 0x4_1175);
    if !dice.chance(0.35) {
        return;
    }
    let opened = |step: &Step| matches!(step, Step::CreateVolume { .. });
    let first = steps.iter().position(opened).map_or(0, |at| at + 1);
    for _ in 0..dice.between(1..=6) {
        let at = dice.between(first as u64..=steps.len() as u64) as usize;
        let (volume, seed) = (dice.between(0..=2) as u8, dice.between(0..=1 << 30) as u32);
        steps.insert(at, Step::Hint { volume, seed });
    }
}

/// Gives added pools checksums in most groups without them, and in a few the other way round.
/// From dice of their own, as hints.
fn mixed(seed: u64, settings: Settings) -> Settings {
    let mut dice = Dice::seeded(seed ^ 0x5_ea15);
    let added_checksums = dice.chance(if settings.checksums { 0.85 } else { 0.75 });
    Settings { added_checksums, ..settings }
}

/// Chunks go to and fro between pools with checksums and pools without, where those that are added
/// are unlike the others; now and then until the power fails. Pools are replaced, and bits flip.
/// From dice of their own, as hints.
fn change_over(seed: u64, settings: &Settings, steps: &mut Vec<Step>) {
    let mut dice = Dice::seeded(seed ^ 0xc4a_40e8);
    if settings.checksums == settings.added_checksums {
        return;
    }
    let opened = |step: &Step| matches!(step, Step::CreateVolume { .. });
    let first = steps.iter().position(opened).map_or(0, |at| at + 1);
    let chunk_sectors = (settings.chunk_size.0 / SECTOR) as u32;
    for round in 0..dice.between(1..=3) {
        let at = dice.between(first as u64..=steps.len() as u64) as usize;
        // Where chunks move all the time none comes to rest.
        let mut row = vec![Step::Calm, Step::Place { seed: None }];
        if round == 0 || dice.chance(0.5) {
            row.push(Step::AddPool(pool(&mut dice, false)));
            cut(&mut dice, 60, &mut row);
        }
        for _ in 0..dice.between(1..=3) {
            use OperationKind::{Migrate, Mirror, Prefetch, Replicate};
            let kind = dice.one_of(&[Migrate, Replicate, Replicate, Replicate, Prefetch, Mirror]);
            let (chunk, any) = (dice.between(0..=3) as u32, dice.between(0..=255) as u8);
            // The last of the pools that it is not on is often the one that was added.
            let to = dice.one_of(&[any, u8::MAX, u8::MAX]);
            let span = Span { volume: 0, sector: chunk * chunk_sectors, sectors: chunk_sectors };
            let write = Step::Write { span, fua: dice.chance(0.3), patience: None };
            row.extend([write, Step::Settle, Step::OperateOn { kind, volume: 0, chunk, to }]);
        }
        cut(&mut dice, 200, &mut row);
        let us = dice.between(11_000_000..=25_000_000) as u32;
        row.extend([Step::Settle, Step::Wait { us }]);
        cut(&mut dice, 20, &mut row);
        for _ in 0..dice.between(1..=4) {
            let (nth, copy) = (dice.between(0..=255) as u32, dice.between(0..=255) as u8);
            row.push(Step::Flip { nth, copy, bit: dice.between(0..=1 << 21) as u32 });
        }
        let (gone, anyone) = (dice.between(0..=255) as u8, dice.between(0..=255) as u8);
        match dice.between(0..=3) {
            0 => row.push(Step::Kill { pool: gone }),
            1 => row.extend([Step::DrainPool { pool: gone }, Step::Wait { us: 2_000_000 }]),
            2 => row.push(Step::FailCopy { volume: 0, chunk: 0, copy: anyone, nth: 1 }),
            _ => {}
        }
        row.push(Step::RemovePool { pool: anyone });
        cut(&mut dice, 60, &mut row);
        steps.splice(at..at, row);
    }
}

/// Lends slots of the fastest pool to lines in half of all runs: free ones from the beginning,
/// and more or fewer later; chunks go to the slowest pool, and their blocks are read again and
/// again, and written in between. From dice of their own, as hints.
fn lend_slots(seed: u64, settings: Settings, steps: &mut Vec<Step>) -> Settings {
    let mut dice = Dice::seeded(seed ^ 0x11_4e5);
    let mut affairs = Dice::seeded(seed ^ 0x11_4e6);
    if !dice.chance(0.5) {
        return settings;
    }
    let opened = |step: &Step| matches!(step, Step::CreateVolume { .. });
    let first = steps.iter().position(opened).map_or(0, |at| at + 1);
    let per_chunk = (settings.chunk_size.0 / SECTOR) as u32;
    for _ in 0..dice.between(1..=5) {
        let at = dice.between(first as u64..=steps.len() as u64) as usize;
        let (volume, chunk) = (dice.between(0..=2) as u8, dice.between(0..=5) as u32);
        let block = |dice: &mut Dice| {
            let block = dice.between(0..=3) as u32;
            Span { volume, sector: chunk * per_chunk + 8 * block, sectors: 8 }
        };
        let percent = dice.one_of(&[0, 10, 50, 100, 100]);
        let mut row = vec![Step::Calm, Step::Lend { percent }, Step::Wait { us: 300_000 }];
        let span = Span { volume, sector: chunk * per_chunk, sectors: per_chunk };
        row.push(Step::Write { span, fua: false, patience: None });
        if dice.chance(0.7) {
            let (kind, to) = (OperationKind::Migrate, u8::MAX);
            row.extend([Step::Settle, Step::OperateOn { kind, volume, chunk, to }, Step::Settle]);
        }
        for _ in 0..dice.between(4..=24) {
            let read = Step::Read(block(&mut dice));
            let fua = dice.chance(0.2);
            let write = Step::Write { span: block(&mut dice), fua, patience: None };
            let events = Step::Events { count: dice.magnitude(1..=12) as u16 };
            row.push(dice.one_of(&[read, read, read, read, write, events, events]));
        }
        row.push(match dice.between(0..=11) {
            0 => Step::Kill { pool: 0 },
            1 => Step::Discard(Span { volume, sector: chunk * per_chunk, sectors: per_chunk }),
            2 => Step::DeleteVolume { volume },
            3 | 4 => Step::Lend { percent: 0 },
            5 => Step::Lend { percent: 100 },
            6 => Step::FailNth { pool: 0, nth: dice.between(1..=4) as u16 },
            7 => Step::OperateOn { kind: OperationKind::Migrate, volume, chunk, to: 0 },
            8 => Step::Populate { volume, first: chunk + 1, chunks: 40 },
            _ => Step::Wait { us: dice.magnitude(1..=400_000) as u32 },
        });
        if affairs.chance(0.5) {
            beside_lines(&mut affairs, volume, &mut row);
        }
        row.extend((0..dice.between(0..=6)).map(|_| Step::Read(block(&mut dice))));
        if row.iter().any(|step| matches!(step, Step::DeleteVolume { .. })) {
            let sectors = 8 * per_chunk;
            row.extend([Step::Wait { us: 300_000 }, Step::CreateVolume { sectors }]);
            let written = Span { volume, sector: chunk * per_chunk, sectors: 1 };
            row.push(Step::Write { span: written, fua: false, patience: None });
            let (kind, to) = (OperationKind::Migrate, u8::MAX);
            row.extend([Step::Settle, Step::OperateOn { kind, volume, chunk, to }, Step::Settle]);
            row.extend([Step::Read(block(&mut dice)), Step::Verify { eighths: 8 }]);
        }
        cut(&mut dice, 60, &mut row);
        steps.splice(at..at, row);
    }
    Settings { lent_percent: dice.one_of(&[0, 20, 100]), ..settings }
}

/// Something else happens to a group beside lines: bits flip and are found, the pool of the lines
/// is drained, grows, gets a faster one before it or is full, a placement divides it, or new chunks
/// want the room.
fn beside_lines(dice: &mut Dice, volume: u8, row: &mut Vec<Step>) {
    let first = dice.between(0..=8) as u32;
    let fill = Step::Populate { volume, first, chunks: 40 };
    let short = Step::Wait { us: 300_000 };
    match dice.between(0..=6) {
        0 => {
            // Where chunks move all the time none comes to rest.
            row.extend([Step::Place { seed: None }, Step::Settle, Step::Wait { us: 15_000_000 }]);
            for _ in 0..dice.between(1..=4) {
                let (nth, copy) = (dice.between(0..=255) as u32, dice.between(0..=255) as u8);
                row.push(Step::Flip { nth, copy, bit: dice.between(0..=1 << 21) as u32 });
            }
            row.extend([Step::Scrub, Step::Wait { us: dice.magnitude(1..=4_000_000) as u32 }]);
        }
        1 => {
            let us = dice.magnitude(1..=1_000_000) as u32;
            row.extend([Step::DrainPool { pool: 0 }, Step::Wait { us }]);
            row.extend([Step::UndrainPool { pool: 0 }, short]);
        }
        2 => {
            row.extend([Step::GrowPool { pool: 0, chunks: dice.magnitude(1..=100) as u32 }, short])
        }
        3 => {
            row.extend([Step::AddPoolBefore { pool: pool(dice, false), before: 0 }, short]);
        }
        4 => {
            let divides = dice.between(0..=1 << 20) as u32 * 2 + 1;
            row.extend([Step::Place { seed: Some(divides) }, fill]);
            row.push(Step::Wait { us: dice.magnitude(100_000..=4_000_000) as u32 });
        }
        5 => row.extend([Step::FillUp { pool: 0 }, fill, short, Step::Calm]),
        _ => row.extend([Step::Lend { percent: 100 }, short, fill, Step::Settle]),
    }
}

/// The power fails within so many events, in three of ten cases.
fn cut(dice: &mut Dice, events: u64, row: &mut Vec<Step>) {
    if dice.chance(0.3) {
        row.push(Step::Events { count: dice.magnitude(1..=events) as u16 - 1 });
        row.push(Step::Crash { survival: Survival::draw(&mut dice.0) });
        row.push(Step::Verify { eighths: 8 });
    }
}

fn settings(dice: &mut Dice) -> Settings {
    let chunk = dice.one_of(&[64, 64, 64, 128, 256]);
    let mut names = Vec::new();
    let copying = Copying {
        rate_per_second: dice.chance(0.5).then(|| Bytes::from_mib(dice.magnitude(1..=256))),
        outstanding: Some(dice.between(1..=4) as u32).filter(|&n| n < 4),
        yield_above: Some(dice.between(0..=8) as u32).filter(|&n| n < 8),
        patience: Nanos::from_micros(dice.magnitude(1..=20_000)),
        reserve_per_second: dice.chance(0.3).then(|| Bytes::from_mib(dice.magnitude(1..=64))),
        deadline: dice.chance(0.2).then(|| Nanos::from_micros(dice.magnitude(1..=100_000))),
        piece: {
            if dice.chance(0.3) {
                names.push(format!("first-part:share={}", dice.between(1..=100)));
            }
            // Of the whole chunk: as the devices say.
            let blocks = dice.magnitude(1..=chunk / 4);
            (blocks < chunk / 4).then(|| Bytes::from_kib(4 * blocks))
        },
        concurrent: dice.between(1..=6) as u32,
        feeds: dice.chance(0.5),
        keeps: dice.chance(0.5),
        locking: dice.chance(0.1),
    };
    Settings {
        chunk_size: Bytes::from_kib(chunk),
        journal_blocks: dice.one_of(&[64, 64, 64, 96, 128]),
        epoch: Nanos::from_micros(dice.magnitude(500..=200_000)),
        tactics: {
            names.push(dice.one_of(&["fastest-first", "slowest-first"]).to_string());
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            tactics(&names)
        },
        depth: dice.one_of(&[1, 4, 16, 256]),
        copying,
        checksums: dice.chance(0.85),
        added_checksums: true,
        lent_percent: 0,
        limits: if dice.chance(0.5) { Limits::REAL } else { small(dice) },
    }
}

/// Blocks so small that a few dozen chunks fill many of them, and a cache that evicts: what takes a
/// real group thousands of chunks happens here in a run of seconds.
fn small(dice: &mut Dice) -> Limits {
    Limits {
        block_payload: dice.one_of(&[128, 160, 160, 256, 512]),
        record: 64,
        commit_blocks: dice.one_of(&[2, 4, 32]),
        checkpoint_batch: dice.one_of(&[1, 2, 2, 4]),
        area_growth: 1,
        volumes: 64,
        volume_name: 8,
        tables_cached: dice.one_of(&[1, 2, 4, 16]),
        region_chunks: dice.one_of(&[1, 2, 4, 64]),
        regions_open: dice.one_of(&[1, 2, 4096]),
        requests: dice.one_of(&[8, 64, 4096, 4096, 4096, 4096]),
    }
}

fn pool(dice: &mut Dice, roomy: bool) -> PoolPlan {
    let chunks = dice.magnitude(6..=64) as u32;
    PoolPlan {
        chunks,
        roomy: roomy || dice.chance(0.3),
        reserve: if dice.chance(0.5) { dice.between(1..=u64::from(chunks / 4)) as u32 } else { 0 },
        latency_us: match dice.chance(0.1) {
            true => dice.magnitude(5_000..=50_000) as u32,
            false => dice.magnitude(5..=5_000) as u32,
        },
        zeroed: dice.chance(0.5),
        discard_zeroes: dice.chance(0.5),
        far: false,
        forgets: dice.chance(0.7),
    }
}

fn volume(dice: &mut Dice, settings: &Settings) -> Step {
    let per_chunk = settings.chunk_size.0 / SECTOR;
    let whole = dice.magnitude(1..=40) * per_chunk;
    let odd = if dice.chance(0.2) { dice.between(1..=per_chunk - 1) } else { 0 };
    Step::CreateVolume { sectors: (whole - odd) as u32 }
}

/// Distributions from which one seed draws its steps.
struct Draws {
    dice: Dice,
    weights: [u32; KINDS.len()],
    settings: Settings,
    per_chunk: u64,
    /// One span starts in so many sectors from a volume's start: small ones meet each other.
    reach: u64,
    /// Sectors of the longest span.
    span_max: u64,
    fua: f64,
    /// Share of steps between which time passes, and how much, in µs.
    pause: f64,
    pause_us: u64,
    kinds: Vec<OperationKind>,
    /// The motifs of this seed.
    motifs: Vec<Motif>,
}

impl Draws {
    fn new(mut dice: Dice, settings: &Settings) -> Draws {
        let per_chunk = settings.chunk_size.0 / SECTOR;
        let mut weights = KINDS.map(|(_, rate, absent)| {
            if dice.chance(absent) { 0 } else { dice.magnitude(1..=u64::from(4 * rate)) as u32 }
        });
        if dice.chance(0.5) {
            // Every second seed is half motifs: what is rare piles up there.
            weights[KINDS.len() - 1] = weights.iter().sum();
        }
        use OperationKind::{Migrate, Mirror, Prefetch, Redirect, Replicate};
        let mut kinds = vec![Migrate, Replicate, Prefetch, Redirect, Mirror];
        kinds.retain(|_| dice.chance(0.7));
        kinds.extend(kinds.is_empty().then_some(Migrate));
        let chunks = dice.magnitude(1..=40);
        let mut motifs = motifs::ALL.to_vec();
        motifs.retain(|_| dice.chance(0.3));
        motifs.extend(motifs.is_empty().then(|| dice.one_of(&motifs::ALL)));
        Draws {
            weights,
            settings: settings.clone(),
            per_chunk,
            reach: chunks * per_chunk,
            span_max: dice.magnitude(8..=3 * per_chunk),
            fua: dice.one_of(&[0.0, 0.1, 0.1, 0.5, 1.0]),
            pause: dice.one_of(&[0.1, 0.5, 0.9]),
            pause_us: dice.magnitude(10..=20_000),
            kinds,
            motifs,
            dice,
        }
    }

    fn steps(&mut self) -> Vec<Step> {
        let count = self.dice.magnitude(40..=1_000) as usize;
        let mut steps = Vec::with_capacity(2 * count);
        while steps.len() < count {
            let kind = self.dice.weighted(&self.weights);
            KINDS[kind].0(self, &mut steps);
            if self.dice.chance(self.pause) {
                steps.push(self.pause());
            }
        }
        steps
    }

    fn pause(&mut self) -> Step {
        match self.dice.between(0..=9) {
            0 => Step::Settle,
            1..=3 => Step::Events { count: self.dice.magnitude(1..=60) as u16 },
            _ => Step::Wait { us: self.dice.magnitude(1..=self.pause_us) as u32 },
        }
    }

    fn small(&mut self) -> u8 {
        self.dice.between(0..=255) as u8
    }

    fn span(&mut self) -> Span {
        let block = 8;
        let grain = self.dice.one_of(&[1, block, block, self.per_chunk]);
        let sector = self.dice.between(0..=self.reach / grain) * grain;
        let sectors = match self.dice.between(0..=7) {
            0 => self.per_chunk,
            1 => self.per_chunk * self.dice.between(1..=3),
            _ => self.dice.magnitude(1..=self.span_max).next_multiple_of(grain.min(block)),
        };
        Span { volume: self.small(), sector: sector as u32, sectors: sectors as u32 }
    }

    fn read(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Read(self.span()));
    }

    fn write(&mut self, steps: &mut Vec<Step>) {
        let background = self.dice.chance(0.1);
        let patience = background.then(|| self.dice.magnitude(1..=5_000) as u32);
        steps.push(Step::Write { span: self.span(), fua: self.dice.chance(self.fua), patience });
    }

    fn write_zeroes(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::WriteZeroes { span: self.span(), fua: self.dice.chance(self.fua) });
    }

    fn discard(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Discard(self.span()));
    }

    fn flush(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Flush { volume: self.small() });
    }

    fn operate(&mut self, steps: &mut Vec<Step>) {
        let kind = self.dice.one_of(&self.kinds);
        steps.push(Step::Operate { kind, nth: self.small().into(), to: self.small() });
    }

    fn cancel(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Cancel { nth: self.small() });
    }

    fn create_volume(&mut self, steps: &mut Vec<Step>) {
        steps.push(volume(&mut self.dice, &self.settings));
    }

    fn grow_volume(&mut self, steps: &mut Vec<Step>) {
        let sectors = self.dice.magnitude(1..=4 * self.per_chunk) as u32;
        steps.push(Step::GrowVolume { volume: self.small(), sectors });
    }

    fn delete_volume(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::DeleteVolume { volume: self.small() });
    }

    fn add_pool(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::AddPool(pool(&mut self.dice, false)));
    }

    fn drain_pool(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::DrainPool { pool: self.small() });
    }

    fn remove_pool(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::RemovePool { pool: self.small() });
    }

    fn place(&mut self, steps: &mut Vec<Step>) {
        let seed = self.dice.chance(0.7).then(|| self.dice.between(0..=u64::from(u32::MAX)) as u32);
        steps.push(Step::Place { seed });
    }

    fn scrub(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Scrub);
    }

    fn trouble(&mut self, steps: &mut Vec<Step>) {
        let [fail, time_out, delay] = std::array::from_fn(|_| match self.dice.chance(0.5) {
            true => 0,
            false => self.dice.magnitude(1..=300) as u16,
        });
        steps.push(Step::Trouble { pool: self.small(), fail, time_out, delay });
        self.for_a_while(steps);
    }

    fn fail_nth(&mut self, steps: &mut Vec<Step>) {
        let nth = self.dice.magnitude(1..=50) as u16;
        steps.push(Step::FailNth { pool: self.small(), nth });
    }

    fn fill_up(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::FillUp { pool: self.small() });
        self.for_a_while(steps);
    }

    fn for_a_while(&mut self, steps: &mut Vec<Step>) {
        for _ in 0..self.dice.between(1..=20) {
            let kind = self.dice.weighted(&self.weights[..QUIET_KINDS]);
            KINDS[kind].0(self, steps);
            steps.push(self.pause());
        }
        steps.push(Step::Calm);
    }

    fn unplug(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Unplug { pool: self.small() });
    }

    fn motif(&mut self, steps: &mut Vec<Step>) {
        let chosen = self.dice.one_of(&self.motifs);
        chosen(self, steps);
    }

    fn one_kind(&mut self) -> OperationKind {
        self.dice.one_of(&self.kinds)
    }

    fn kill(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Kill { pool: self.small() });
    }

    /// Chunks get checksums when they have rested; a restless placement would let none rest.
    fn flip(&mut self, steps: &mut Vec<Step>) {
        if self.settings.checksums {
            let us = self.dice.between(11_000_000..=25_000_000) as u32;
            let (nth, to) = (self.small().into(), self.small());
            let copied = Step::Operate { kind: OperationKind::Replicate, nth, to };
            steps.extend([copied, Step::Place { seed: None }, Step::Wait { us }]);
            for _ in 0..self.dice.between(1..=4) {
                let bit = self.dice.between(0..=8 * SECTOR * self.per_chunk - 1) as u32;
                steps.push(Step::Flip { nth: self.small().into(), copy: self.small(), bit });
            }
        }
    }

    fn crash(&mut self, steps: &mut Vec<Step>) {
        if self.dice.chance(0.7) {
            steps.push(Step::Events { count: self.dice.magnitude(1..=200) as u16 });
        }
        steps.push(self.power_fails());
        while self.dice.chance(0.3) {
            steps.push(Step::Events { count: self.dice.magnitude(1..=40) as u16 });
            steps.push(self.power_fails());
        }
        steps.push(Step::Verify { eighths: self.dice.one_of(&[0, 4, 8, 8]) });
    }

    fn power_fails(&mut self) -> Step {
        Step::Crash { survival: Survival::draw(&mut self.dice.0) }
    }

    fn close(&mut self, steps: &mut Vec<Step>) {
        let cut = self.dice.chance(0.4).then(|| self.dice.magnitude(1..=30) as u16);
        steps.extend([Step::Close { cut }, Step::Verify { eighths: 8 }]);
    }
}
