//! `auto`: nothing without evidence, everything with it, and never more than it may spend.

use super::super::tests::machine::{Machine, chunk};
use super::super::tests::{build, propose};
use super::*;
use crate::placement::{ChunkAccess, PoolLoad, PoolTraits, VolumeView};
use thermocline_units::{Bytes, Rng, VolumeId};

/// Chunks of the volume; a tenth of them fit on the fastest pool.
const CHUNKS: u32 = 400;
const PLACES: u64 = 40;

/// A machine whose pools tell what they did, at the latencies of their traits.
struct Measured {
    machine: Machine,
    loads: [PoolLoad; 2],
    epoch: Nanos,
    sla: Option<crate::placement::Sla>,
}

impl VolumeView for Measured {
    fn chunk_size(&self) -> Bytes {
        self.machine.chunk_size()
    }
    fn epoch(&self) -> Nanos {
        self.epoch
    }
    fn traits(&self, pool: PoolId) -> PoolTraits {
        self.machine.traits(pool)
    }
    fn load(&self, pool: PoolId) -> PoolLoad {
        self.loads[usize::from(pool.0)]
    }
    fn volume_count(&self) -> u32 {
        2
    }
    fn sla(&self, volume: VolumeId) -> Option<crate::placement::Sla> {
        self.sla.filter(|_| volume.0 == 1)
    }
    fn pool_count(&self) -> u16 {
        2
    }
    fn capacity_chunks(&self, pool: PoolId) -> u64 {
        self.machine.capacity_chunks(pool)
    }
    fn pool_of(&self, chunk: ChunkId) -> PoolId {
        self.machine.pool_of(chunk)
    }
    fn used_chunks(&self, pool: PoolId) -> u64 {
        self.machine.used_chunks(pool)
    }
    fn visit_pool(&self, pool: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        self.machine.visit_pool(pool, visit);
    }
}

/// Figures of some epochs.
#[derive(Debug, Default, PartialEq)]
struct Came {
    moves: usize,
    /// Requests that the fastest pool served in the last quarter, and all of these.
    fast: u64,
    all: u64,
}

/// Full flash of the lowest chunks, and epochs of 200 reads each of chunks that `place` tells.
fn run(spec: &str, epochs: u32, mut place: impl FnMut(&mut Rng, u32) -> u32) -> (Came, Measured) {
    let mut placement = build(spec);
    let mut machine = Machine::new(PLACES, 2);
    machine.flash = (0..PLACES as u32).map(|index| chunk(0, index)).collect();
    machine.chunks = CHUNKS.into();
    let epoch = Nanos::from_secs(10);
    let mut view = Measured { machine, loads: Default::default(), epoch, sla: None };
    let (mut rng, mut came) = (Rng::seeded(5), Came::default());
    for now in 0..epochs {
        view.loads = Default::default();
        for _ in 0..200 {
            let chunk = chunk(0, place(&mut rng, now) % CHUNKS);
            let pool = view.pool_of(chunk);
            let load = &mut view.loads[usize::from(pool.0)];
            load.reads += 1;
            load.read_latency = view.machine.traits(pool).services[0].latency;
            let offset = Bytes(rng.below(255) * 4096);
            let at = Nanos(epoch.0 * u64::from(now));
            let bytes = Bytes::from_kib(4);
            placement.observe(&ChunkAccess { at, chunk, offset, bytes, write: false });
            if now >= epochs * 3 / 4 {
                came.all += 1;
                came.fast += u64::from(pool == PoolId(0));
            }
        }
        let moves = propose(placement.as_mut(), &view);
        view.machine.carry_out(&moves, usize::MAX);
        came.moves += moves.len();
    }
    (came, view)
}

/// Nine of ten requests go to 30 chunks, none of which is on the fastest pool at first.
fn hot(rng: &mut Rng, _: u32) -> u32 {
    if rng.below(10) < 9 {
        100 + 7 * rng.below(30) as u32
    } else {
        rng.below(u64::from(CHUNKS)) as u32
    }
}

/// The aim is 0. At two standard errors chance passes for evidence now and then: two swaps of
/// chunks in 300 epochs with this seed, which KNOWN_ISSUES.md tells.
#[test]
fn where_all_chunks_are_asked_for_alike_next_to_nothing_moves() {
    let (came, _) = run("auto", 300, |rng, _| rng.below(u64::from(CHUNKS)) as u32);
    assert!(came.moves <= 4, "{came:?}");
}

#[test]
fn heat_that_lasts_comes_up_once_it_has_proved_to() {
    let (came, _) = run("auto", 60, hot);
    assert!(came.fast * 10 > came.all * 8, "{came:?}");
    assert!(came.moves < 4 * 30 * 2, "each swap is two moves: {came:?}");
}

#[test]
fn what_is_hot_for_an_epoch_only_is_left_alone() {
    // Every epoch another 30 chunks: who follows them is always late.
    let (came, _) = run("auto", 200, |rng, now| (now * 37 + rng.below(30) as u32) % CHUNKS);
    assert!(came.moves < 200, "{came:?}");
}

#[test]
fn a_recommendation_moves_nothing_and_is_told() {
    let (came, _) = run("auto:mode=recommend", 60, hot);
    assert_eq!(came.moves, 0);
}

#[test]
fn who_may_spend_nothing_moves_nothing() {
    let (came, _) = run("auto:spend=0", 60, hot);
    assert_eq!(came.moves, 0, "nothing is saved before something is spent: {came:?}");
}

#[test]
fn the_purse_never_lends() {
    let mut ledger = Ledger::default();
    ledger.waited = 100.0;
    assert_eq!(ledger.purse(0.02), 2.0);
    ledger.spent = 2.0;
    assert_eq!(ledger.purse(0.02), 0.0);
    ledger.saved = 6.0;
    assert_eq!(ledger.purse(0.02), 3.0);
    ledger.saved = -6.0;
    assert_eq!(ledger.purse(0.02), 0.0, "what was lost does not count twice");
}

#[test]
fn an_explanation_tells_what_was_saved_and_spent() {
    let mut auto = build("auto");
    assert_eq!(auto.explain(chunk(0, 3)), Vec::<String>::new(), "it never met that chunk");
    auto.observe(&ChunkAccess {
        at: Nanos(0),
        chunk: chunk(0, 3),
        offset: Bytes(0),
        bytes: Bytes::from_kib(4),
        write: false,
    });
    propose(auto.as_mut(), &Machine::new(4, 1));
    let told = auto.explain(chunk(0, 3)).join("\n");
    for part in ["users would wait", "moving saved", "what was moved was to save", "on pool 1"] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
}

/// Requests for the hot set of [`hot`] over so many epochs, where nothing is moved.
fn watched(placement: &mut dyn Placement, epochs: u32) -> (Measured, Vec<Move>) {
    let mut machine = Machine::new(PLACES, 2);
    machine.flash = (0..PLACES as u32).map(|index| chunk(0, index)).collect();
    machine.chunks = CHUNKS.into();
    let epoch = Nanos::from_secs(10);
    let mut view = Measured { machine, loads: Default::default(), epoch, sla: None };
    let (mut rng, mut moves) = (Rng::seeded(6), Vec::new());
    for now in 0..epochs {
        view.loads = Default::default();
        for _ in 0..200 {
            let chunk = chunk(0, hot(&mut rng, now));
            let pool = view.pool_of(chunk);
            let load = &mut view.loads[usize::from(pool.0)];
            load.reads += 1;
            load.read_latency = view.machine.traits(pool).services[0].latency;
            let (offset, bytes) = (Bytes(rng.below(255) * 4096), Bytes::from_kib(4));
            placement.observe(&ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false });
        }
        moves = propose(placement, &view);
    }
    (view, moves)
}

#[test]
fn what_was_learnt_is_known_again_after_a_restart() {
    let mut watcher = build("auto:mode=recommend");
    watched(watcher.as_mut(), 60);
    let learnt = watcher.learnt().unwrap();
    let of_one_epoch = |learnt: Option<&[u8]>| {
        let mut placement = build("auto");
        if let Some(learnt) = learnt {
            placement.learn_from(learnt, &|_| true).unwrap();
        }
        watched(placement.as_mut(), 1).1.len()
    };
    assert_eq!(of_one_epoch(None), 0, "it has no evidence");
    assert!(of_one_epoch(Some(&learnt)) > 20, "it knows the hot chunks");
    let mut again = build("auto");
    again.learn_from(&learnt, &|_| true).unwrap();
    assert_eq!(again.learnt().unwrap(), learnt);
    let mut none = build("auto");
    none.learn_from(&learnt, &|_| false).unwrap();
    assert!(none.learnt().unwrap().len() < learnt.len(), "chunks that are gone are left out");
    assert_eq!(build("hemem").learnt(), None);
}

#[test]
fn bytes_that_it_has_not_written_change_nothing() {
    let mut watcher = build("auto");
    watched(watcher.as_mut(), 20);
    let learnt = watcher.learnt().unwrap();
    let mut placement = build("auto");
    for cut in 0..learnt.len() {
        placement.learn_from(&learnt[..cut], &|_| true).unwrap_err();
    }
    let changed = |at: usize, by: &[u8]| {
        let mut changed = learnt.clone();
        changed[at..at + by.len()].copy_from_slice(by);
        changed
    };
    let not_finite = changed(20, &f64::NAN.to_le_bytes());
    let no_class = changed(88, &u32::MAX.to_le_bytes());
    let negative = changed(learnt.len() - 4, &(-1.0_f32).to_le_bytes());
    let longer = [&learnt[..], &[0]].concat();
    for wrong in [&not_finite, &no_class, &negative, &longer, &changed(8, &[9])] {
        placement.learn_from(wrong, &|_| true).unwrap_err();
    }
    assert_eq!(placement.learnt(), build("auto").learnt());
    // Counts as large as they can be are counted on from.
    placement.learn_from(&changed(12, &[0xff; 8]), &|_| true).unwrap();
    watched(placement.as_mut(), 2);
}
