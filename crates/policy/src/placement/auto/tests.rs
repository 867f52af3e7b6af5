//! `auto`: nothing without evidence, everything with it, and never more than it may spend.

use super::super::tests::machine::{Machine, chunk};
use super::super::tests::pools::Pools;
use super::super::tests::{build, propose, touch};
use super::*;
use crate::placement::{ChunkAccess, PoolLoad, PoolTraits, Sla, SlaClass, VolumeView};
use crate::registry::PolicySpec;
use thermocline_units::{Bytes, Rng, VolumeId};

/// Chunks of the volume; a tenth of them fit on the fastest pool.
const CHUNKS: u32 = 400;
const PLACES: u64 = 40;

/// A machine whose pools tell what they did, at the latencies of their traits.
struct Measured {
    machine: Machine,
    loads: [PoolLoad; 2],
    epoch: Nanos,
    /// SLA of volume 1.
    sla: Option<Sla>,
    /// Chunks that an administrator pinned.
    pinned: Vec<ChunkId>,
    /// Chunks on the fastest pool whose slow copies were kept.
    kept: Vec<ChunkId>,
}

impl Measured {
    /// The fastest pool is full of the lowest chunks of a volume.
    fn full_of(volume: u32) -> Measured {
        let mut machine = Machine::new(PLACES, 2);
        machine.flash = (0..PLACES as u32).map(|index| chunk(volume, index)).collect();
        machine.chunks = CHUNKS.into();
        let epoch = Nanos::from_secs(10);
        Measured {
            machine,
            loads: Default::default(),
            epoch,
            sla: None,
            pinned: Vec::new(),
            kept: Vec::new(),
        }
    }
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
    fn sla(&self, volume: VolumeId) -> Option<Sla> {
        self.sla.filter(|_| volume.0 == 1)
    }
    fn is_pinned(&self, chunk: ChunkId) -> bool {
        self.pinned.contains(&chunk)
    }
    fn lends_lines(&self) -> bool {
        true
    }
    fn visit_kept(&self, visit: &mut dyn FnMut(ChunkId, PoolId)) {
        self.kept.iter().for_each(|&chunk| visit(chunk, PoolId(1)));
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
fn run(spec: &str, epochs: u32, place: impl FnMut(&mut Rng, u32) -> u32) -> (Came, Measured) {
    let mut view = Measured::full_of(0);
    let came = run_on(build(spec).as_mut(), &mut view, epochs, &mut Rng::seeded(5), place);
    (came, view)
}

/// The same of a placement and a machine that may have passed some epochs already.
fn run_on(
    placement: &mut dyn Placement,
    view: &mut Measured,
    epochs: u32,
    rng: &mut Rng,
    mut place: impl FnMut(&mut Rng, u32) -> u32,
) -> Came {
    let (epoch, mut came) = (view.epoch, Came::default());
    for now in 0..epochs {
        view.loads = Default::default();
        for _ in 0..200 {
            let chunk = chunk(0, place(rng, now) % CHUNKS);
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
        let moves = propose(placement, view);
        let before = view.machine.flash.len() as u64;
        view.machine.carry_out(&moves, usize::MAX);
        came.moves += moves.len();
        let room = PLACES - placement.lines().unwrap_or(0);
        let now = view.machine.flash.len() as u64;
        assert!(now <= room.max(before), "nobody comes to the room of lines: {now} of {room}");
    }
    came
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

/// Most of what 100 epochs of proven heat may spend is the bound, whatever a deal promises.
#[test]
fn what_is_spent_stays_within_what_may_be() {
    let spec = PolicySpec::parse("auto:trust=1:margin=0:spend=0.001").unwrap();
    let mut auto = Auto::new(&spec.settings).unwrap();
    let (mut view, mut rng, mut most) = (Measured::full_of(0), Rng::seeded(5), 0.0_f64);
    for now in 0..100 {
        // Another set each ten epochs: there is always something to move.
        let place = |rng: &mut Rng, _| 40 + now / 10 * 30 + rng.below(30) as u32;
        run_on(&mut auto, &mut view, 1, &mut rng, place);
        most = most.max(auto.ledger.waited * 0.001 + auto.ledger.saved.max(0.0) / 2.0);
    }
    let [up, down] = [(1, 0), (0, 1)].map(|(from, to)| auto.copy_cost(1048576.0, from, to));
    assert!(auto.ledger.moved > 10 && auto.ledger.spent > 0.0, "{:?}", auto.ledger.accounts());
    assert!(auto.ledger.spent <= most + up + down, "{} of {most}", auto.ledger.spent);
}

#[test]
fn promises_that_do_not_come_lower_all_promises() {
    let honour = |promised, came| {
        let mut accounts = [0.0; 10];
        [accounts[0], accounts[1]] = [promised, came];
        Ledger::of(accounts, 0).honour()
    };
    assert_eq!(honour(0.0, 0.0), 1.0, "nothing was promised");
    assert_eq!(honour(10.0, 1.0), 0.1);
    assert_eq!(honour(10.0, 25.0), 1.0, "more than was promised is no reason to promise more");
    assert_eq!([honour(10.0, 0.0), honour(10.0, -3.0)], [0.05; 2]);
}

/// Chunks of a volume with a strict SLA do not make room for those of one without.
#[test]
fn strict_promises_give_way_to_nobody_else() {
    let stay = |class| {
        let mut view = Measured::full_of(1);
        view.sla = Some(Sla { latency: Nanos::from_micros(1_000), class });
        for spec in ["auto", "auto:lines=gain", "auto:lines=0.25"] {
            run_on(build(spec).as_mut(), &mut view, 60, &mut Rng::seeded(5), hot);
        }
        view.machine.flash.iter().filter(|chunk| chunk.volume == VolumeId(1)).count() as u64
    };
    assert_eq!(stay(SlaClass::Strict), PLACES);
    assert!(stay(SlaClass::Loose) < PLACES / 2);
}

/// Chunks that leave for lines: those that lose least, neither pinned ones nor more than need be.
#[test]
fn for_lines_the_chunks_leave_that_lose_least() {
    let left = |view: &mut Measured, epochs| {
        let before = view.machine.flash.clone();
        let mut placement = build("auto:lines=0.25");
        // The upper ten of the fast pool, and everything elsewhere once in a while.
        let place = |rng: &mut Rng, _| match rng.below(4) {
            0 => 40 + rng.below(u64::from(CHUNKS) - 40) as u32,
            _ => 30 + rng.below(10) as u32,
        };
        run_on(placement.as_mut(), view, epochs, &mut Rng::seeded(5), place);
        assert_eq!(placement.lines(), Some(10));
        let left: Vec<u32> =
            before.difference(&view.machine.flash).map(|chunk| chunk.index).collect();
        left
    };
    let all = left(&mut Measured::full_of(0), 1);
    assert!(all.len() == 10 && all.iter().all(|&index| index < 30), "{all:?}");
    let mut view = Measured::full_of(0);
    view.pinned = (0..36).map(|index| chunk(0, index)).collect();
    assert_eq!(left(&mut view, 1), [36, 37, 38, 39]);
    // Half of the slots are free: nobody needs to go.
    let mut view = Measured::full_of(0);
    view.machine.flash.retain(|chunk| chunk.index >= 20);
    assert_eq!(left(&mut view, 3), []);
}

#[test]
fn the_purse_never_lends() {
    let purse = |waited, saved, spent| {
        let mut ledger = Ledger::default();
        (ledger.waited, ledger.saved, ledger.spent) = (waited, saved, spent);
        ledger.settle(&Pulse::default(), &[], 0.0);
        ledger.purse(0.02)
    };
    assert_eq!(purse(100.0, 0.0, 0.0), 2.0);
    assert_eq!(purse(100.0, 0.0, 2.0), 0.0);
    assert_eq!(purse(100.0, 6.0, 2.0), 3.0);
    assert_eq!(purse(100.0, -6.0, 2.0), 0.0, "what was lost does not count twice");
}

#[test]
fn a_month_of_gains_does_not_pay_for_an_hour_of_losses() {
    let mut ledger = Ledger::default();
    for _ in 0..30 * 24 * 360 {
        ledger.waited += 1.0;
        ledger.saved += 2.0;
        ledger.settle(&Pulse::default(), &[], 10.0);
    }
    let purse = ledger.purse(0.02);
    assert!((450.0..550.0).contains(&purse), "about an hour's worth and a half: {purse}");
    // What is learnt keeps it over a restart, and so does what is spent.
    let mut again = Ledger::of(ledger.accounts(), ledger.moved);
    assert_eq!(again.purse(0.02), purse);
    again.spent += 100.0;
    again.settle(&Pulse::default(), &[], 0.0);
    assert_eq!(again.purse(0.02), purse - 100.0);
}

#[test]
fn what_version_1_has_learnt_is_read() {
    let mut watcher = build("auto");
    watched(watcher.as_mut(), 20);
    let learnt = watcher.learnt().unwrap();
    let mut older = learnt.clone();
    older[8] = 1;
    older.drain(76..100);
    let mut again = build("auto");
    again.learn_from(&older, &|_| true).unwrap();
    let newer = again.learnt().unwrap();
    assert_eq!(newer[..76], learnt[..76]);
    assert_eq!(newer[76..100], [0; 24], "the fading accounts begin anew");
    assert_eq!(newer[100..], learnt[100..]);
    older[8] = 3;
    again.learn_from(&older, &|_| true).unwrap_err();
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
    let mut view = Measured::full_of(0);
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

/// The default said that no slot is wanted, over a share that somebody had set.
#[test]
fn only_who_divides_says_how_many_slots_are_lent() {
    let lines = |text: &str| build(text).lines();
    assert_eq!([lines("auto"), lines("auto:mode=recommend:lines=gain")], [None, None]);
    assert_eq!([lines("auto:lines=gain"), lines("auto:lines=0.25")], [Some(0), Some(0)]);
}

/// Reading its averages, which it had not, ended the engine: by a command that only reads.
#[test]
fn a_chunk_that_was_met_in_the_running_epoch_can_be_asked_about() {
    let mut placement = build("auto");
    let new = chunk(1, 3);
    watched(placement.as_mut(), 2);
    let access =
        ChunkAccess { at: Nanos(0), chunk: new, offset: Bytes(0), bytes: Bytes(512), write: true };
    placement.observe(&access);
    assert!(placement.explain(new).is_empty(), "there are no figures yet");
    assert!(!placement.explain(chunk(0, 0)).is_empty());
    // Nor right after a restart, of what was learnt before it.
    let learnt = placement.learnt().unwrap();
    let mut restarted = build("auto");
    restarted.learn_from(&learnt, &|_| true).unwrap();
    assert!(restarted.explain(chunk(0, 0)).is_empty());
    restarted.observe(&access);
    assert!(restarted.explain(new).is_empty());
}

/// Reads all over three pools, the upper two of which are full: who leaves the fastest pool for
/// lines goes to the slowest one. It was taken to lose no more than on the one between.
#[test]
fn who_leaves_for_lines_loses_what_the_pool_with_room_costs() {
    const PLACES: [u64; 3] = [64, 256, 2000];
    let at: Vec<(u32, u16)> =
        (0..1280).map(|index| (index, u16::from(index >= 64) + u16::from(index >= 320))).collect();
    let mut view = Pools::new(&PLACES, &at);
    view.epoch = Nanos::from_secs(10);
    let (mut placement, mut rng, mut moves) = (build("auto:lines=gain"), Rng::seeded(5), 0);
    for _ in 0..60 {
        view.loads.fill(PoolLoad::default());
        for _ in 0..600 {
            let (chunk, block) = (chunk(0, rng.below(1280) as u32), rng.below(256));
            let pool = usize::from(view.pool_of(chunk).0);
            view.loads[pool].reads += 1;
            view.loads[pool].read_latency = view.traits[pool].services[0].latency;
            let (offset, bytes) = (Bytes(block * 4096), Bytes(4096));
            placement.observe(&ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false });
        }
        let proposed = propose(placement.as_mut(), &view);
        moves += proposed.len();
        view.carry_out(&proposed);
    }
    assert_eq!((moves, placement.lines()), (0, Some(0)));
}

/// Copies to a disk that could not keep up delayed everybody until it had caught up.
#[test]
fn nothing_leaves_for_lines_to_a_pool_that_is_overloaded() {
    let wanted = |slower: u64| {
        let at: Vec<(u32, u16)> = (0..1100).map(|index| (index, u16::from(index >= 64))).collect();
        let mut view = Pools::new(&[64, 2000], &at);
        view.epoch = Nanos::from_secs(10);
        let (mut placement, mut rng, mut most) = (build("auto:lines=gain"), Rng::seeded(5), 0);
        for _ in 0..6 {
            view.loads.fill(PoolLoad::default());
            for _ in 0..600 {
                // Hot blocks, scattered over all chunks of the slow pool.
                let block = rng.below(1024) * 7919 % (1 << 18);
                let chunk = chunk(0, 64 + (block / 256) as u32);
                let pool = usize::from(view.pool_of(chunk).0);
                let latency = view.traits[pool].services[0].latency;
                view.loads[pool].reads += 1;
                view.loads[pool].read_latency =
                    Nanos(latency.0 * if pool == 1 { slower } else { 1 });
                let (offset, bytes) = (Bytes(block % 256 * 4096), Bytes(4096));
                placement.observe(&ChunkAccess {
                    at: Nanos(0),
                    chunk,
                    offset,
                    bytes,
                    write: false,
                });
            }
            let proposed = propose(placement.as_mut(), &view);
            view.carry_out(&proposed);
            most = most.max(placement.lines().unwrap_or(0));
        }
        most
    };
    assert!(wanted(1) >= 4, "{}", wanted(1));
    assert_eq!(wanted(200), 0);
}

/// Chunks that have a copy below already leave for nothing: of those that nobody asks for, they go
/// first, and all of them before any other.
#[test]
fn whoever_left_a_copy_behind_goes_first_and_for_nothing() {
    let (mut view, mut rng) = (Measured::full_of(0), Rng::seeded(5));
    // The last ten of the fastest pool, which would go last otherwise.
    view.kept = (PLACES as u32 - 10..PLACES as u32).map(|index| chunk(0, index)).collect();
    let mut auto = build("auto:lines=0");
    let mut left = Vec::new();
    for _ in 0..40 {
        let before = view.machine.flash.clone();
        run_on(auto.as_mut(), &mut view, 1, &mut rng, |rng, _| 100 + 7 * rng.below(30) as u32);
        left.extend(before.iter().filter(|chunk| !view.machine.flash.contains(chunk)).copied());
        view.kept.retain(|chunk| view.machine.flash.contains(chunk));
        if !left.is_empty() {
            break;
        }
    }
    let free = left.iter().filter(|chunk| chunk.index >= PLACES as u32 - 10).count();
    assert!(free > 0 && free == left.len().min(10), "{left:?}");
}

#[test]
fn going_back_to_a_kept_copy_is_not_counted_as_spent() {
    let spent = |keeps: bool| {
        let (mut view, mut rng) = (Measured::full_of(0), Rng::seeded(5));
        let mut auto = build("auto:lines=0");
        for now in 0..40 {
            if keeps {
                view.kept = view.machine.flash.iter().copied().collect();
            }
            run_on(auto.as_mut(), &mut view, 1, &mut rng, |rng, _| hot(rng, now));
        }
        let account = auto.account().expect("auto keeps one");
        (account.moved_chunks, account.spent)
    };
    let ((moved, spent), (moved_kept, spent_kept)) = (spent(false), spent(true));
    assert!(moved > 20 && moved_kept >= moved, "{moved} and {moved_kept}");
    let ratio = (spent_kept / moved_kept as f64) / (spent / moved as f64);
    assert!(
        (0.3..0.6).contains(&ratio),
        "half of the copies, those that go down, are free: {ratio}"
    );
}

/// An epoch of so many random reads of each of some chunks; what it proposes.
fn read(auto: &mut dyn Placement, view: &mut Pools, chunks: &[u32], reads: u64) -> Vec<Move> {
    view.loads.fill(PoolLoad::default());
    for (at, &index) in (0..reads).flat_map(|at| chunks.iter().map(move |index| (at, index))) {
        let chunk = chunk(0, index);
        let pool = usize::from(view.pool_of(chunk).0);
        view.loads[pool].reads += 1;
        view.loads[pool].read_latency = view.traits[pool].services[0].latency;
        let (offset, bytes) = (Bytes(at * 37 % 256 * 4096), Bytes(4096));
        auto.observe(&ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false });
    }
    propose(auto, view)
}

/// Both were counted as copies, and made the purse negative for hours.
#[test]
fn a_discard_and_the_next_first_write_are_no_copies() {
    let all: Vec<u32> = (0..20).collect();
    let at: Vec<(u32, u16)> = all.iter().map(|&index| (index, u16::from(index >= 10))).collect();
    let mut view = Pools::new(&[64, 64], &at);
    let mut auto = build("auto:spend=0");
    read(auto.as_mut(), &mut view, &all, 4);
    view.at.retain(|&index, _| index >= 10);
    read(auto.as_mut(), &mut view, &all, 4);
    view.at.extend(at.iter().copied().filter(|(index, _)| *index < 10));
    read(auto.as_mut(), &mut view, &all, 4);
    // The others come back on the other pool.
    view.at.retain(|&index, _| index < 10);
    read(auto.as_mut(), &mut view, &all, 4);
    view.at.extend((10..20).map(|index| (index, 0)));
    read(auto.as_mut(), &mut view, &all, 4);
    let account = auto.account().expect("auto keeps one");
    assert!(account.waited > 0.0);
    assert_eq!((account.moved_chunks, account.spent, account.saved), (0, 0.0, 0.0));
    // A real copy is one.
    view.at.insert(0, 1);
    read(auto.as_mut(), &mut view, &all, 4);
    let account = auto.account().expect("auto keeps one");
    assert!(account.moved_chunks == 1 && account.spent > 0.0 && account.saved < 0.0);
}

/// The machine refused to move them, and chunks that were on the fast pool had gone for them.
#[test]
fn chunks_on_no_pool_are_no_candidates() {
    let at: Vec<(u32, u16)> = (0..8).map(|index| (index, 0)).collect();
    let mut view = Pools::new(&[8, 64], &at);
    let mut auto = build("auto:trust=1:margin=0:spend=1000");
    for _ in 0..6 {
        assert_eq!(read(auto.as_mut(), &mut view, &[20, 21, 22], 40), []);
    }
    view.at.extend([(20, 1), (21, 1)]);
    let moved = (0..6).flat_map(|_| read(auto.as_mut(), &mut view, &[20, 21, 22], 40));
    let mut came: Vec<u32> =
        moved.filter(|step| step.to == PoolId(0)).map(|step| step.chunk.index).collect();
    came.sort_unstable();
    came.dedup();
    assert_eq!(came, [20, 21]);
}

#[test]
fn a_pool_that_joins_or_goes_is_no_move_of_what_lies_behind_it() {
    let mut placement = build("auto");
    let all: Vec<(u32, u16)> = (0..40).map(|index| (index, (index / 20) as u16)).collect();
    let mut view = Pools::new(&[20, 40], &all);
    let mut epochs = |view: &Pools, change: Option<PoolChange>| {
        change.into_iter().for_each(|change| placement.pools_changed(change));
        for _ in 0..3 {
            for index in 0..40 {
                touch(placement.as_mut(), super::super::tests::pools::chunk(index), 9);
            }
            assert_eq!(propose(placement.as_mut(), view), []);
        }
        let account = placement.account().expect("it keeps one");
        (account.moved_chunks, account.spent)
    };
    assert_eq!(epochs(&view, None), (0, 0.0));
    for change in [PoolChange::Joined(PoolId(0)), PoolChange::Left(PoolId(0))] {
        view.change(change, 0);
        assert_eq!(epochs(&view, Some(change)), (0, 0.0), "{change:?}");
    }
}
