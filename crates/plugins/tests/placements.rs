//! Placements in C and Rust beside the built-in ones: the same moves in every epoch, and nonsense
//! of every kind refused. Without a C compiler those in C say SKIPPED.

#![allow(clippy::unwrap_used)] // A test that cannot go on stops where it is.

mod libraries;

use libraries::{compiled, example};
use std::collections::BTreeMap;
use std::path::Path;
use thermocline_policy::placement::{
    Budget, ChunkAccess, Move, Placement, PoolLoad, PoolTraits, VolumeView,
};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, Rng, VolumeId};

/// Pools of so many chunks each, and where the chunks are that hold something.
#[derive(Clone)]
struct Pools {
    places: Vec<u64>,
    at: BTreeMap<ChunkId, u16>,
}

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(index % 3), index: index / 3 }
}

impl Pools {
    /// Chunks on the slowest pool, as many as there are of them.
    fn filled(places: &[u64], chunks: u32) -> Pools {
        let slowest = places.len() as u16 - 1;
        Pools { places: places.to_vec(), at: (0..chunks).map(|i| (chunk(i), slowest)).collect() }
    }

    fn carry_out(&mut self, moves: &[Move]) {
        for step in moves {
            self.at.insert(step.chunk, step.to.0);
            assert!(self.used_chunks(step.to) <= self.capacity_chunks(step.to), "it fits");
        }
    }
}

impl VolumeView for Pools {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }

    fn epoch(&self) -> Nanos {
        Nanos::from_secs(1)
    }

    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, self.pool_count())
    }

    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }

    fn volume_count(&self) -> u32 {
        3
    }

    fn pool_count(&self) -> u16 {
        self.places.len() as u16
    }

    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.places[usize::from(pool.0)]
    }

    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        PoolId(self.at.get(&chunk).copied().unwrap_or(self.pool_count() - 1))
    }

    fn used_chunks(&self, pool: PoolId) -> u64 {
        self.at.values().filter(|&&at| at == pool.0).count() as u64
    }

    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        let there = self.at.iter().filter(|(_, at)| **at == pool.0);
        there.for_each(|(&chunk, _)| visit(chunk));
    }
}

fn loaded(library: &Path, rest: &str) -> Result<PolicySpec, String> {
    thermocline_plugins::policy(&format!("{}:{rest}", library.display())).unwrap()
}

fn made(library: &Path, rest: &str) -> Box<dyn Placement> {
    loaded(library, rest).unwrap().build_placement().unwrap()
}

fn touch(placement: &mut dyn Placement, at: Nanos, index: u32, write: bool) {
    let (chunk, offset, bytes) = (chunk(index), Bytes(0), Bytes::from_kib(4));
    placement.observe(&ChunkAccess { at, chunk, offset, bytes, write });
}

fn propose(placement: &mut dyn Placement, view: &Pools, budget: Budget) -> Vec<Move> {
    let mut moves = Vec::new();
    placement.propose(Nanos(0), view, budget, &mut moves);
    moves
}

/// Chunks that hold something; those above are read as zeroes.
const HELD: u32 = 90;

/// Accesses of an epoch: few chunks are hot, and which ones changes.
fn accesses(rng: &mut Rng, epoch: u32) -> Vec<(u32, bool)> {
    let chunk = |rng: &mut Rng| (rng.below(100) * rng.below(100) / 100) as u32 + epoch % 7 * 5;
    (0..150).map(|_| (chunk(rng) % 100, rng.below(3) == 0)).collect()
}

/// Both propose the same for 80 epochs, of which the machine carries out the first moves only.
fn same(library: &Path, own: &str, built_in: &str, places: &[u64]) {
    let mut pools = Pools::filled(places, HELD);
    let mut own = made(library, own);
    let mut other = PolicySpec::parse(built_in).unwrap().build_placement().unwrap();
    let mut rng = Rng::seeded(5);
    let mut moved = 0;
    for epoch in 0..80 {
        for (index, write) in accesses(&mut rng, epoch) {
            touch(&mut *own, Nanos::from_secs(epoch.into()), index, write);
            touch(&mut *other, Nanos::from_secs(epoch.into()), index, write);
        }
        let budget = Budget { moves: if epoch % 3 == 0 { 4 } else { u64::MAX } };
        let (a, b) = (propose(&mut *own, &pools, budget), propose(&mut *other, &pools, budget));
        assert_eq!((own.failure(), &a), (None, &b), "epoch {epoch}");
        let done: Vec<Move> =
            a.into_iter().filter(|step| pools.at.contains_key(&step.chunk)).collect();
        let few = done.len().min(if epoch % 5 == 0 { 3 } else { usize::MAX });
        pools.carry_out(&done[..few]);
        moved += few;
    }
    assert!(moved > 100, "{built_in}: {moved} moves compare little");
}

#[test]
fn baseline_in_c_proposes_as_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/baseline.c");
    let Some(library) = compiled(&source, &folder) else { return };
    for (own, built_in) in [("baseline", "baseline"), ("baseline:k=5", "baseline:k=5")] {
        same(&library, own, built_in, &[12, 100]);
        same(&library, own, built_in, &[6, 9, 100]);
    }
    let refused = loaded(&library, "baseline:k=0").unwrap().build_placement().err().unwrap();
    assert!(refused.to_string().contains("k=CHUNKS, and it was given `k=0`"), "{refused}");
    let unknown = loaded(&library, "arc").err().unwrap();
    assert!(unknown.contains("it has no policy `arc`; it has: baseline"), "{unknown}");
    let filtered = format!("larc+{}:baseline", library.display());
    let refused = thermocline_plugins::policy(&filtered).unwrap().unwrap_err();
    assert!(refused.contains("a placement admits by its own rule"), "{refused}");
}

#[test]
fn a_placement_in_rust_keeps_the_most_recently_used_chunks_on_the_fastest_pool() {
    let mut placement = made(&example("recent_placement"), "recent");
    let mut pools = Pools::filled(&[4, 100], HELD);
    for (touched, expected) in [([1, 2, 3, 4, 5, 6], 3..7), ([2, 7, 8, 8, 9, 9], 7..10)] {
        touched.iter().for_each(|&index| touch(&mut *placement, Nanos(0), index, false));
        let moves = propose(&mut *placement, &pools, Budget::UNLIMITED);
        assert_eq!(placement.failure(), None);
        pools.carry_out(&moves);
        let there = |index: &u32| pools.pool_of(chunk(*index)) == PoolId(0);
        assert!(expected.clone().all(|index| there(&index)), "{expected:?}");
        assert_eq!(pools.used_chunks(PoolId(0)), 4);
    }
    assert_eq!(pools.pool_of(chunk(2)), PoolId(0), "it was used in both epochs");
}

#[test]
fn nonsense_of_every_kind_ends_a_placement_and_says_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/placement_liar.c");
    let Some(library) = compiled(&source, &folder) else { return };
    for (name, expected) in
        [("unmade", "it cannot be made: it never can"), ("mute", "does not say why")]
    {
        let error = loaded(&library, name).unwrap().build_placement().err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut pools = Pools::filled(&[2, 100], HELD);
    pools.at.insert(chunk(0), 0);
    for (name, expected) in [
        ("silent", "did not say how many moves it wrote"),
        ("fails", "its `propose` failed with 7"),
        ("unwritten", "move 0 is of chunk 4294967295, and there are 90 chunks"),
        ("too-many", "wrote 91 moves where there was room for 90"),
        ("no-chunk", "move 0 is of chunk 90, and there are 90 chunks"),
        ("no-pool", "brings chunk 0 to pool 2, and there are 2 pools"),
        ("stays", "brings chunk 0 to pool 0, where it is"),
        ("twice", "move 1 is the second one of chunk 0"),
        ("overfill", "brings chunk 2 to pool 0, which has no room for it"),
    ] {
        let mut placement = made(&library, name);
        assert_eq!(propose(&mut *placement, &pools, Budget::UNLIMITED), [], "{name}");
        let failure = placement.failure().unwrap();
        assert!(failure.contains(expected), "{name}: {failure}");
    }
}

#[test]
fn placements_of_another_version_or_with_a_policys_name_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.c");
    let both = "#include \"thermocline_policy.h\"\n\
                static void *make(const thermocline_geometry *g, const char *s, char *e, size_t b)\n\
                { (void)g, (void)s, (void)e, (void)b; return NULL; }\n\
                static void end(void *c) { (void)c; }\n\
                static int one(void *c, uint32_t n) { (void)c, (void)n; return 0; }\n\
                static int all(void *c, const uint32_t *l, const uint16_t *t, uint32_t *o, size_t n)\n\
                { (void)c, (void)l, (void)t, (void)o, (void)n; return 0; }\n\
                static const thermocline_policy q = {.version = 1, .struct_bytes = sizeof q,\n\
                .name = \"a\", .create = make, .destroy = end, .reserve = one, .access = all,\n\
                .invalidate = one};\n\
                static const thermocline_policy *const qs[] = {&q, NULL};\n\
                const thermocline_policy *const *thermocline_policies(void) { return qs; }\n";
    for (before, table, expected) in [
        ("", ".version = 2", "its placement 0 is of version 2"),
        ("", ".version = 1, .name = \"a\"", "its placement `a` has no function `create`"),
        ("", ".version = 1", "its placement 0 has no name"),
        (
            both,
            ".version = 1, .name = \"a\", .create = new, .destroy = end2, .propose = ask",
            "a cache policy and a placement `a`; give them different names",
        ),
    ] {
        let code = format!(
            "{before}#include \"thermocline_placement.h\"\n\
             void *new(const char *s, char *e, size_t b);\n\
             void *new(const char *s, char *e, size_t b) {{ (void)s, (void)e, (void)b; return NULL; }}\n\
             void end2(void *c);\n\
             void end2(void *c) {{ (void)c; }}\n\
             int ask(void *, const thermocline_epoch *, thermocline_move *, size_t, size_t *);\n\
             int ask(void *p, const thermocline_epoch *e, thermocline_move *m, size_t r, size_t *c)\n\
             {{ (void)p, (void)e, (void)m, (void)r, (void)c; return 0; }}\n\
             static const thermocline_placement p = {{.struct_bytes = sizeof p, {table}}};\n\
             static const thermocline_placement *const ps[] = {{&p, NULL}};\n\
             const thermocline_placement *const *thermocline_placements(void) {{ return ps; }}\n"
        );
        std::fs::write(&source, code).unwrap();
        let other = tempfile::tempdir().unwrap();
        let Some(library) = compiled(&source, &other) else { return };
        let error = loaded(&library, "a").err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
}
