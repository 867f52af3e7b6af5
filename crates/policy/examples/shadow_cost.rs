//! Cost of shadows: nanoseconds an access and milliseconds an epoch.
//!
//! `cargo run --release -p thermocline-policy --example shadow_cost [CHUNKS [NAME…]]`
//!
//! A volume of CHUNKS chunks (default 1,000,000) on three pools of a tenth, three tenths and the
//! rest; 4 KiB accesses drawn evenly, a third of them writes. For each placement, watching all
//! chunks and one in 8: one shadow, and 8 of the same; the median and the fastest of five epochs of
//! 1,000,000 accesses, and of their ends. A shadow costs less than 3 % of a core at 100,000
//! accesses a second where an access costs less than 300 ns.
// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::time::Instant;
use thermocline_policy::placement::shadow::{SHADOWS_MAX, Shadows};
use thermocline_policy::placement::{ChunkAccess, Placement, PoolLoad, PoolTraits, VolumeView};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng, VolumeId};

const ACCESSES: usize = 1_000_000;
const EPOCHS: usize = 5;

/// Chunks of one volume, in order over the pools.
struct Machine {
    ends: [u32; 4],
}

impl VolumeView for Machine {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }

    fn epoch(&self) -> Nanos {
        Nanos::from_secs(300)
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, 3)
    }

    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }

    fn volume_count(&self) -> u32 {
        1
    }

    fn pool_count(&self) -> u16 {
        3
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.used_chunks(pool) + if pool == PoolId(2) { u64::from(self.ends[3]) } else { 0 }
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        let pool = (0..2).find(|&pool| chunk.index < self.ends[pool + 1]).unwrap_or(2);
        PoolId(pool as u16)
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        let pool = usize::from(pool.0);
        u64::from(self.ends[pool + 1] - self.ends[pool])
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let pool = usize::from(pool.0);
        (self.ends[pool]..self.ends[pool + 1])
            .for_each(|index| visit(ChunkId { volume: VolumeId(0), index }));
    }
}

fn build(name: &str) -> Box<dyn Placement> {
    let spec = PolicySpec::parse(name).expect("a policy of the registry");
    spec.build_placement().expect("a placement with valid settings")
}

fn accesses(chunks: u32) -> Vec<ChunkAccess> {
    let mut rng = Rng::seeded(1);
    let one = |_| ChunkAccess {
        at: Nanos(0),
        chunk: ChunkId { volume: VolumeId(0), index: rng.below(chunks.into()) as u32 },
        offset: Bytes(rng.below(256) * 4096),
        bytes: Bytes::from_kib(4),
        write: rng.below(3) == 0,
    };
    (0..ACCESSES).map(one).collect()
}

/// Median and fastest.
fn summary(mut times: Vec<f64>) -> (f64, f64) {
    times.sort_unstable_by(f64::total_cmp);
    (times[times.len() / 2], times[0])
}

fn measure(name: &str, count: usize, one_in: u32, machine: &Machine, accesses: &[ChunkAccess]) {
    let mut shadows = Shadows::default();
    for number in 0..count {
        let rival = (&*format!("{name} {number}"), build(name));
        shadows.begin(Nanos(0), machine, rival, Some(one_in)).expect("there is room");
    }
    let (mut each, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..EPOCHS {
        let start = Instant::now();
        accesses.iter().for_each(|access| shadows.observe(access));
        each.push(start.elapsed().as_secs_f64() * 1e9 / accesses.len() as f64);
        let start = Instant::now();
        shadows.end_epoch(Nanos::from_secs(300), machine, Some(Bytes::from_mib(64)));
        ends.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let ((each, fastest), (end, shortest)) = (summary(each), summary(ends));
    let memory = shadows.footprint().index as f64 / (1 << 20) as f64;
    println!(
        "{name:<14} {count:>2} 1/{one_in}: {each:>7.1} ns ({fastest:.1}), epoch {end:>8.1} ms \
         ({shortest:.1}), {memory:.1} MiB"
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let chunks: u32 = arguments.next().map_or(1_000_000, |n| n.parse().expect("a number"));
    let mut names: Vec<String> = arguments.collect();
    if names.is_empty() {
        names = ["static", "baseline", "edt", "chew"].map(String::from).to_vec();
    }
    let machine = Machine { ends: [0, chunks / 10, chunks / 10 * 4, chunks] };
    let accesses = accesses(chunks);
    for name in &names {
        for one_in in [8, 1] {
            [1, SHADOWS_MAX]
                .iter()
                .for_each(|&count| measure(name, count, one_in, &machine, &accesses));
        }
    }
}
