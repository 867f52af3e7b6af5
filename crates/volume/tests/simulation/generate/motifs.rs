//! Motifs: short rows of steps that lead to a situation which independent steps hardly ever reach.
//!
//! Each is written for a bug that 2,000 seeds of single steps did not notice. What happens between
//! and around its steps is drawn as ever, and a seed uses a few of them only, so that they also
//! meet each other and everything else.

use super::Draws;
use crate::plan::{Span, Step};
use thermocline_ports::faulty::Survival;
use thermocline_volume::OperationKind;

/// A motif; it appends its steps.
pub(super) type Motif = fn(&mut Draws, &mut Vec<Step>);

/// All of them.
pub(super) const ALL: [Motif; 24] = [
    writes_overtake_reads_under_a_copy,
    failed_write_seen,
    both_sides_fail,
    failure_while_switching,
    drop_under_writes,
    slots_used_again,
    replicas_change,
    flush_after_death,
    one_block_of_a_mirror,
    discard_under_a_copy,
    many_chunks,
    death_forgotten,
    read_fails_under_a_write,
    churn,
    write_that_lasts,
    spare_pool_fails_a_flush,
    many_mirrors,
    rot_beside_a_copy,
    // The journal must wrap often: what depends on that is rare even then.
    churn,
    churn,
    churn_widely,
    replicas_change,
    // Copies seldom disagree just then.
    failure_while_switching,
    failure_while_switching,
];

const LOST: Step = Step::Crash { survival: Survival::Lost };
const ALL_OF_IT: Step = Step::Verify { eighths: 8 };

/// A chunk of a volume, which the steps of one motif share.
#[derive(Clone, Copy)]
struct Spot {
    volume: u8,
    chunk: u32,
    per_chunk: u32,
}

impl Spot {
    fn span(self, from: u32, sectors: u32) -> Span {
        Span { volume: self.volume, sector: self.chunk * self.per_chunk + from, sectors }
    }

    fn write(self, from: u32, sectors: u32, fua: bool) -> Step {
        Step::Write { span: self.span(from, sectors), fua, patience: None }
    }

    fn fill(self) -> Step {
        self.write(0, self.per_chunk, false)
    }

    fn read(self) -> Step {
        Step::Read(self.span(0, self.per_chunk))
    }

    fn flush(self) -> Step {
        Step::Flush { volume: self.volume }
    }

    fn operate(self, kind: OperationKind, to: u8) -> Step {
        Step::OperateOn { kind, volume: self.volume, chunk: self.chunk, to }
    }

    fn fail(self, copy: u8, nth: u16) -> Step {
        Step::FailCopy { volume: self.volume, chunk: self.chunk, copy, nth }
    }
}

impl Draws {
    fn spot(&mut self) -> Spot {
        let chunk = self.dice.between(0..=3) as u32;
        Spot { volume: self.small() % 2, chunk, per_chunk: self.per_chunk as u32 }
    }

    /// The first sector and the length of a few sectors, seldom whole blocks.
    fn few(&mut self) -> (u32, u32) {
        let from = self.dice.between(0..=self.per_chunk - 20) as u32;
        (from, self.dice.between(1..=17) as u32)
    }

    fn moment(&mut self, events: u64) -> Step {
        Step::Events { count: self.dice.between(0..=events) as u16 }
    }

    fn forced(&mut self) -> bool {
        let fua = self.fua;
        self.dice.chance(fua)
    }
}

/// Parts of blocks are written while clients read these blocks of a chunk that is being copied:
/// what was read may be old by the time it could feed the copy.
fn writes_overtake_reads_under_a_copy(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let to = draws.small();
    steps.extend([spot.fill(), draws.moment(40), spot.operate(OperationKind::Migrate, to)]);
    for _ in 0..draws.dice.between(3..=10) {
        let (from, sectors) = draws.few();
        let start = from / 8 * 8;
        let end = (from + sectors).div_ceil(8) * 8;
        steps.push(Step::Read(spot.span(start, end - start)));
        steps.push(spot.write(from, sectors, false));
        steps.push(draws.moment(4));
    }
    steps.extend([draws.moment(200), ALL_OF_IT]);
}

/// A write fails, but some of it arrived and is read: it must be there for good.
fn failed_write_seen(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let (from, sectors) = draws.few();
    steps.extend([spot.fill(), spot.flush(), Step::Settle, spot.fail(0, 1)]);
    steps.extend([spot.write(from, sectors, false), Step::Settle, spot.read(), Step::Settle]);
    steps.extend([spot.flush(), Step::Settle, LOST, ALL_OF_IT]);
}

/// A write fails on either side of a mirrored chunk; the sides may differ then.
fn both_sides_fail(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let (from, sectors) = draws.few();
    let to = draws.small();
    steps.extend([spot.fill(), Step::Settle, spot.operate(OperationKind::Mirror, to)]);
    steps.extend([Step::Settle, spot.fail(0, 1), spot.fail(1, 1)]);
    steps.extend([spot.write(from, sectors, draws.forced()), Step::Settle]);
    steps.extend([spot.read(), Step::Settle, spot.read(), Step::Settle, ALL_OF_IT]);
    steps.extend([Step::Wait { us: 2_500_000 }, spot.flush(), draws.moment(20)]);
    steps.extend([draws.power_fails(), ALL_OF_IT, ALL_OF_IT]);
}

/// Writes go on while an operation ends, and fail on one of the places.
fn failure_while_switching(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let (kind, to) = (draws.one_kind(), draws.small());
    steps.extend([spot.fill(), Step::Settle, spot.operate(kind, to), draws.moment(80)]);
    for _ in 0..draws.dice.between(1..=6) {
        let (from, sectors) = draws.few();
        if draws.dice.chance(0.4) {
            let nth = draws.dice.between(1..=3) as u16;
            let any = Step::FailNth { pool: draws.small(), nth };
            let one = spot.fail(draws.small(), nth);
            steps.push(draws.dice.one_of(&[any, one]));
        }
        steps.extend([spot.write(from, sectors, draws.forced()), draws.moment(6)]);
    }
    let end = [Step::Settle, draws.power_fails()];
    steps.extend([draws.dice.one_of(&end), ALL_OF_IT, ALL_OF_IT]);
}

/// One of several equal copies fails a read and is dropped; the next write may not be durable on
/// the others before the journal knows.
fn drop_under_writes(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let to = draws.small();
    steps.extend([spot.fill(), Step::Settle, spot.operate(OperationKind::Replicate, to)]);
    steps.extend([Step::Settle, Step::Wait { us: 2_500_000 }, Step::Settle]);
    steps.extend([spot.fail(0, 1), spot.fail(1, 1), spot.read(), draws.moment(3)]);
    for _ in 0..draws.dice.between(1..=3) {
        let (from, sectors) = draws.few();
        steps.extend([spot.write(from, sectors, draws.forced()), draws.moment(4)]);
    }
    steps.extend([draws.power_fails(), ALL_OF_IT, ALL_OF_IT]);
}

/// Slots are given back while discards fail, and used again.
fn slots_used_again(draws: &mut Draws, steps: &mut Vec<Step>) {
    let (spot, chunks) = (draws.spot(), draws.dice.magnitude(4..=64) as u32);
    let fill = Step::Populate { volume: spot.volume, first: 0, chunks };
    let pool = draws.small();
    let fail = draws.dice.between(200..=900) as u16;
    let all = Span { volume: spot.volume, sector: 0, sectors: chunks * spot.per_chunk };
    for _ in 0..draws.dice.between(1..=3) {
        steps.extend([fill, Step::Settle, spot.flush()]);
        steps.push(match draws.dice.chance(0.5) {
            true => Step::Trouble { pool, fail, time_out: 0, delay: 0 },
            false => Step::FailNth { pool, nth: draws.dice.between(1..=8) as u16 },
        });
        steps.extend([Step::Discard(all), Step::Wait { us: 1_500_000 }, Step::Calm, Step::Settle]);
    }
    steps.extend([fill, Step::Settle, ALL_OF_IT]);
}

/// The pools that are to hold the metadata die while they are being put in force.
fn replicas_change(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    steps.extend([spot.fill(), spot.flush(), Step::Settle]);
    if draws.dice.chance(0.6) {
        let pool = draws.dice.between(0..=1) as u8;
        let drained = Step::Wait { us: 2_000_000 };
        steps.extend([Step::DrainPool { pool }, drained, Step::Settle]);
        steps.push(Step::RemovePool { pool });
    } else {
        steps.push(Step::Unplug { pool: draws.small() % 2 });
    }
    for _ in 0..draws.dice.between(1..=3) {
        let pool = draws.dice.between(0..=3) as u8;
        let dies = [Step::Unplug { pool }, Step::Unplug { pool }, Step::Kill { pool }];
        steps.extend([draws.moment(10), draws.dice.one_of(&dies)]);
        let (from, sectors) = draws.few();
        steps.extend([spot.write(from, sectors, true), draws.moment(12)]);
    }
    let late = Step::Wait { us: draws.dice.magnitude(100..=2_000_000) as u32 };
    steps.extend([late, spot.flush(), draws.moment(40), draws.power_fails(), ALL_OF_IT]);
}

/// A pool dies with writes that were not flushed; who flushes must hear it, however late.
fn flush_after_death(draws: &mut Draws, steps: &mut Vec<Step>) {
    let (spot, other) = (draws.spot(), draws.spot());
    let (from, sectors) = draws.few();
    steps.extend([spot.write(from, sectors, false), other.write(from, sectors, false)]);
    steps.extend([Step::Settle, spot.write(from, 1, false), draws.moment(3)]);
    let pool = draws.small();
    steps.push(draws.dice.one_of(&[Step::Unplug { pool }, Step::Kill { pool }]));
    if draws.dice.chance(0.5) {
        steps.push(Step::Wait { us: draws.dice.magnitude(100..=3_000_000) as u32 });
    }
    steps.extend([spot.flush(), draws.moment(20), other.flush(), spot.flush(), Step::Settle]);
}

/// Small writes meet in the same blocks of a mirrored chunk, of which half go to either side.
fn one_block_of_a_mirror(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let to = draws.small();
    steps.extend([spot.fill(), Step::Settle, spot.operate(OperationKind::Mirror, to)]);
    steps.extend([Step::Settle, Step::Place { seed: Some(draws.small().into()) }]);
    let block = draws.dice.between(0..=self::blocks(spot) - 1) as u32 * 8;
    for _ in 0..draws.dice.between(4..=20) {
        let from = block + draws.dice.between(0..=7) as u32;
        steps.push(spot.write(from, draws.dice.between(1..=3) as u32, draws.forced()));
        if draws.dice.chance(0.2) {
            steps.push(draws.moment(3));
        }
    }
    steps.extend([Step::Settle, spot.read(), Step::Settle, ALL_OF_IT]);
}

fn blocks(spot: Spot) -> u64 {
    u64::from(spot.per_chunk / 8) - 1
}

/// Parts of a chunk are discarded while it is being copied.
fn discard_under_a_copy(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let (kind, to) = (draws.one_kind(), draws.small());
    steps.extend([spot.fill(), Step::Settle, spot.operate(kind, to), draws.moment(30)]);
    for _ in 0..draws.dice.between(1..=4) {
        let (from, sectors) = draws.few();
        steps.extend([Step::Discard(spot.span(from, sectors)), draws.moment(6), spot.read()]);
    }
    steps.extend([Step::Settle, spot.read(), Step::Settle, ALL_OF_IT]);
}

/// Chunks enough for checkpoints of many blocks, written while these are.
fn many_chunks(draws: &mut Draws, steps: &mut Vec<Step>) {
    let (spot, chunks) = (draws.spot(), draws.dice.magnitude(8..=64) as u32);
    let fill = Step::Populate { volume: spot.volume, first: 0, chunks };
    steps.extend([fill, spot.flush(), Step::Settle, fill]);
    for _ in 0..draws.dice.between(1..=4) {
        draws.operate(steps);
        steps.extend([spot.flush(), draws.moment(20)]);
    }
    let all = Span { volume: spot.volume, sector: 0, sectors: chunks * spot.per_chunk };
    steps.extend([Step::Discard(all), draws.moment(10), spot.flush(), fill, draws.moment(60)]);
    steps.extend([draws.power_fails(), ALL_OF_IT]);
}

/// A pool with copies is gone for a while; what was written meanwhile is only on the others.
fn death_forgotten(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let to = draws.small();
    steps.extend([spot.fill(), Step::Settle, spot.operate(OperationKind::Replicate, to)]);
    let (first, chunks) = (draws.dice.between(0..=20) as u32, draws.dice.between(1..=20) as u32);
    steps.push(Step::Settle);
    if draws.dice.chance(0.5) {
        // Records wait behind a commit under way when the pool dies.
        steps.extend([spot.flush(), Step::Populate { volume: spot.volume, first, chunks }]);
        steps.extend([draws.moment(30), spot.flush()]);
    }
    steps.extend([draws.moment(4), Step::Unplug { pool: draws.small() }]);
    for _ in 0..draws.dice.between(1..=4) {
        let (from, sectors) = draws.few();
        let fua = draws.dice.chance(0.7);
        steps.extend([spot.write(from, sectors, fua), draws.moment(8)]);
    }
    steps.extend([spot.flush(), draws.moment(30), draws.power_fails(), ALL_OF_IT, ALL_OF_IT]);
}

/// A read fails on one side of a mirrored chunk while the same block is written.
fn read_fails_under_a_write(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let to = draws.small();
    steps.extend([spot.fill(), Step::Settle, spot.operate(OperationKind::Mirror, to)]);
    steps.extend([Step::Settle, Step::Place { seed: Some(draws.small().into()) }]);
    for _ in 0..draws.dice.between(2..=8) {
        let (from, sectors) = draws.few();
        steps.push(spot.write(from, sectors, draws.forced()));
        steps.push(spot.fail(draws.small(), draws.dice.between(1..=2) as u16));
        steps.extend([Step::Read(spot.span(from, sectors)), draws.moment(3)]);
    }
    steps.extend([Step::Settle, spot.read(), Step::Settle, ALL_OF_IT]);
}

/// Many small commits: the journal wraps, and the power fails before a checkpoint hides that.
fn churn(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    for _ in 0..draws.dice.between(10..=60) {
        let (first, chunks) = (draws.dice.between(0..=12) as u32, draws.dice.between(1..=8) as u32);
        steps.push(match draws.dice.chance(0.6) {
            true => Step::Populate { volume: spot.volume, first, chunks },
            false => Step::Discard(Span {
                volume: spot.volume,
                sector: first * spot.per_chunk,
                sectors: chunks * spot.per_chunk,
            }),
        });
        steps.extend([spot.flush(), draws.moment(25)]);
    }
    steps.extend([draws.power_fails(), ALL_OF_IT]);
}

/// Like `churn`, with commits of many blocks, so that one of them meets the ring's end.
fn churn_widely(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    for _ in 0..draws.dice.between(15..=50) {
        let (first, chunks) = (draws.dice.between(0..=8) as u32, draws.dice.between(6..=20) as u32);
        let fill = Step::Populate { volume: spot.volume, first, chunks };
        let sector = first * spot.per_chunk;
        let all = Span { volume: spot.volume, sector, sectors: chunks * spot.per_chunk };
        steps.extend([fill, spot.flush(), draws.moment(25)]);
        steps.extend([Step::Discard(all), spot.flush(), draws.moment(25)]);
    }
    steps.extend([draws.power_fails(), ALL_OF_IT]);
}

/// A write to several copies takes longer than copies must rest to be called equal.
fn write_that_lasts(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let (kind, to) = (OperationKind::Replicate, draws.small());
    let kind = draws.dice.one_of(&[kind, OperationKind::Mirror]);
    steps.extend([spot.fill(), Step::Settle, spot.operate(kind, to), Step::Settle]);
    let pool = draws.small();
    steps.push(Step::Trouble { pool, fail: 0, time_out: 300, delay: 700 });
    for _ in 0..draws.dice.between(1..=4) {
        let (from, sectors) = draws.few();
        steps.push(spot.write(from, sectors, draws.forced()));
        steps.push(Step::Wait { us: draws.dice.magnitude(100_000..=3_000_000) as u32 });
    }
    steps.extend([draws.power_fails(), Step::Calm, ALL_OF_IT, ALL_OF_IT]);
}

/// A pool that has further copies only fails a flush, and forgets what it was to make durable,
/// while it is read.
fn spare_pool_fails_a_flush(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let to = draws.small();
    steps.extend([spot.fill(), Step::Settle, spot.operate(OperationKind::Replicate, to)]);
    steps.push(Step::Settle);
    for _ in 0..draws.dice.between(1..=3) {
        let (from, sectors) = draws.few();
        steps.extend([spot.write(from, sectors, false), Step::Settle]);
        steps.extend([spot.fail(1, 1), spot.flush()]);
        for _ in 0..draws.dice.between(1..=6) {
            steps.push(Step::Read(spot.span(from, sectors)));
        }
        steps.extend([draws.moment(12), spot.read(), Step::Settle]);
    }
    steps.extend([spot.flush(), Step::Settle, ALL_OF_IT]);
}

/// Blocks of many mirrored chunks change sides before one flush: more records than a commit takes.
fn many_mirrors(draws: &mut Draws, steps: &mut Vec<Step>) {
    let (spot, to) = (draws.spot(), draws.small());
    let spots: Vec<Spot> =
        (0..draws.dice.between(4..=14) as u32).map(|chunk| Spot { chunk, ..spot }).collect();
    for spot in &spots {
        steps.extend([spot.write(0, 64, false), spot.operate(OperationKind::Mirror, to)]);
    }
    steps.push(Step::Settle);
    for _ in 0..draws.dice.between(1..=4) {
        for spot in &spots {
            let (from, sectors) = draws.few();
            steps.push(spot.write(from, sectors, false));
        }
        steps.extend([Step::Settle, spot.flush(), draws.moment(16)]);
        if draws.dice.chance(0.5) {
            steps.extend([draws.power_fails(), ALL_OF_IT]);
        }
    }
    steps.extend([draws.power_fails(), ALL_OF_IT, ALL_OF_IT]);
}

/// A chunk in two copies comes to rest, and a bit flips.
fn rot_beside_a_copy(draws: &mut Draws, steps: &mut Vec<Step>) {
    let spot = draws.spot();
    let (kind, to) = (OperationKind::Replicate, draws.small());
    steps.extend([spot.fill(), Step::Settle, spot.operate(kind, to), Step::Settle]);
    // Where chunks move all the time none comes to rest.
    let wait = Step::Wait { us: draws.dice.between(11_000_000..=25_000_000) as u32 };
    steps.extend([Step::Place { seed: None }, wait]);
    for _ in 0..draws.dice.between(1..=3) {
        let nth = draws.dice.between(0..=255) as u32;
        let (copy, bit) = (draws.small(), draws.dice.between(0..=1 << 21) as u32);
        steps.push(Step::Flip { nth, copy, bit });
    }
    steps.extend([spot.read(), Step::Settle]);
}
