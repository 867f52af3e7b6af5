//! Cost of placements: nanoseconds an `observe`, milliseconds a `propose`, bytes a chunk.
//!
//! `cargo run --release -p thermocline-policy --example placement_cost [CHUNKS [NAME…]]`
//!
//! Three pools hold 2 %, 10 % and all of CHUNKS (1,048,576), the first two full. Four epochs of
//! eight accesses a chunk: half of them fall on a hot twentieth that drifts from epoch to epoch, a
//! third of them write. Every chunk is touched in every epoch, which is the worst case. Processor
//! time: the accesses of the last epoch divided by their number (most of it is the wait for
//! memory), and the longest `propose` of the last three.
// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

mod timing;

use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, Placement, PoolLoad, PoolTraits, VolumeView,
};
use thermocline_policy::registry::{self, PolicySpec};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng, VolumeId};
use timing::cpu_nanos;

const EPOCHS: u32 = 4;
const ACCESSES_A_CHUNK: u32 = 8;
const EPOCH: Nanos = Nanos::from_secs(300);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let chunks = arguments.next().map_or(1 << 20, |n| n.parse().expect("a number of chunks"));
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        let placements = registry::placements();
        names = placements.map(|e| e.name.to_string()).collect();
    }
    println!("{chunks} chunks on three pools");
    println!(
        "{:<14} {:>10} {:>10} {:>10} {:>8}",
        "placement", "observe", "propose", "moves", "a chunk"
    );
    for name in &names {
        measure(name, chunks);
    }
}

fn measure(name: &str, chunks: u32) {
    let spec = PolicySpec::parse(name).expect("a policy of the registry");
    let mut placement = spec.build_placement().expect("a placement with valid settings");
    let mut machine = Machine::new(chunks);
    let (mut observe, mut propose, mut moved) = (0, 0, 0);
    let mut moves: Vec<Move> = Vec::new();
    for epoch in 0..EPOCHS {
        let accesses = accesses(chunks, epoch);
        let start = cpu_nanos().unwrap_or(0);
        accesses.iter().for_each(|access| placement.observe(access));
        observe = cpu_nanos().unwrap_or(0) - start;
        moves.clear();
        let now = Nanos(EPOCH.0 * u64::from(epoch + 1));
        let start = cpu_nanos().unwrap_or(0);
        placement.propose(now, &machine, Budget::UNLIMITED, &mut moves);
        let took = cpu_nanos().unwrap_or(0) - start;
        if epoch > 0 {
            propose = propose.max(took);
        }
        moved += moves.len();
        machine.carry_out(&moves);
    }
    let count = f64::from(chunks) * f64::from(ACCESSES_A_CHUNK);
    let (observe, propose) = (observe as f64 / count, propose as f64 / 1e6);
    let bytes = footprint(placement.as_ref()) as f64 / f64::from(chunks);
    println!("{name:<14} {observe:>7.1} ns {propose:>7.1} ms {moved:>10} {bytes:>6.0} B");
}

fn footprint(placement: &dyn Placement) -> u64 {
    let footprint = placement.footprint();
    footprint.index + footprint.resident
}

/// An epoch's accesses, in the order of their times.
fn accesses(chunks: u32, epoch: u32) -> Vec<ChunkAccess> {
    let mut rng = Rng::seeded(u64::from(epoch));
    let hot = chunks / 20;
    let count = u64::from(chunks) * u64::from(ACCESSES_A_CHUNK);
    let begin = EPOCH.0 * u64::from(epoch);
    let mut access = |number: u64| {
        let drawn = match number % 2 {
            0 => (rng.below(u64::from(hot.max(1))) as u32 + epoch * hot / 3) % chunks,
            _ => (number / 2 % u64::from(chunks)) as u32,
        };
        ChunkAccess {
            at: Nanos(begin + EPOCH.0 / count * number),
            chunk: ChunkId { volume: VolumeId(0), index: drawn },
            offset: Bytes(rng.below(256) * 4096),
            bytes: Bytes::from_kib(4),
            write: rng.below(3) == 0,
        }
    };
    (0..count).map(&mut access).collect()
}

/// Three pools of chunks of 1 MiB.
struct Machine {
    places: [u64; 3],
    used: [u64; 3],
    pools: Vec<u16>,
}

impl Machine {
    fn new(chunks: u32) -> Machine {
        let all = u64::from(chunks);
        let places = [all / 50, all / 10, all];
        let home = |index: u64| match index {
            fast if fast < places[0] => 0,
            middle if middle < places[0] + places[1] => 1,
            _ => 2,
        };
        let pools: Vec<u16> = (0..all).map(home).collect();
        Machine { places, used: [places[0], places[1], all - places[0] - places[1]], pools }
    }

    fn carry_out(&mut self, moves: &[Move]) {
        for step in moves {
            let home = &mut self.pools[step.chunk.index as usize];
            self.used[usize::from(*home)] -= 1;
            self.used[usize::from(step.to.0)] += 1;
            *home = step.to.0;
        }
    }
}

impl VolumeView for Machine {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }

    fn epoch(&self) -> Nanos {
        EPOCH
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, 3)
    }

    fn load(&self, pool: PoolId) -> PoolLoad {
        let latency = self.traits(pool).services[0].latency;
        PoolLoad { reads: 100_000, read_latency: latency, ..PoolLoad::default() }
    }

    fn volume_count(&self) -> u32 {
        1
    }

    fn pool_count(&self) -> u16 {
        3
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.places[usize::from(pool.0)]
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        PoolId(self.pools[chunk.index as usize])
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        self.used[usize::from(pool.0)]
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        for (index, _) in self.pools.iter().enumerate().filter(|(_, home)| **home == pool.0) {
            visit(ChunkId { volume: VolumeId(0), index: index as u32 });
        }
    }
}
