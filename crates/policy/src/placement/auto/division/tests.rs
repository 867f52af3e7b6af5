//! Number of slots that hold lines: what gains, what it takes away, and nothing without evidence.

use super::*;
use crate::placement::{Pattern, PoolLoad, PoolTraits};
use thermocline_units::{Bytes, ChunkId, Nanos, Rng, VolumeId};

const SLOTS: u64 = 64;
const EPOCH: Nanos = Nanos::from_secs(10);

/// A fast pool of so many slots, of which so much was read in the epoch, over a slow one; and
/// whether it lends slots.
struct Sized(u64, u64, bool);

/// Whatever lines should serve came.
const TWO: Sized = Sized(SLOTS, 1_000_000, true);

impl VolumeView for Sized {
    fn lends_lines(&self) -> bool {
        self.2
    }
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }
    fn epoch(&self) -> Nanos {
        EPOCH
    }
    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, 2)
    }
    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad { reads: self.1, ..PoolLoad::default() }
    }
    fn volume_count(&self) -> u32 {
        1
    }
    fn pool_count(&self) -> u16 {
        2
    }
    fn capacity_chunks(&self, _: PoolId) -> u64 {
        self.0
    }
    fn pool_of(&self, _: ChunkId) -> PoolId {
        PoolId(1)
    }
    fn used_chunks(&self, _: PoolId) -> u64 {
        0
    }
    fn visit_pool(&self, _: PoolId, _: &mut dyn FnMut(ChunkId)) {}
}

fn prices() -> Vec<Price> {
    [0, 1].map(PoolId).map(priced).to_vec()
}

fn priced(pool: PoolId) -> Price {
    let (mut price, traits) = (Price::default(), TWO.traits(pool));
    let latency = traits.of(Pattern::RandomRead).latency;
    let load = PoolLoad { reads: 100, read_latency: latency, ..PoolLoad::default() };
    price.learn(&traits, &load, [10.0, 0.0, 0.0, 0.0], EPOCH);
    price
}

fn gain() -> Division {
    Division { mode: Mode::Gain, ..Division::default() }
}

/// Facts with so many free slots, and chunks that lose so much each.
fn facts(free: u64, losses: &[f32]) -> Facts<'_> {
    Facts {
        slots: SLOTS,
        free,
        losses,
        copy: 0.05,
        copies: 1e9,
        exchanges: 0,
        epoch_s: EPOCH.as_secs_f64(),
    }
}

/// Some epochs of 400 reads each, of blocks that `block` names.
fn run(
    division: &mut Division,
    epochs: u32,
    facts: &Facts<'_>,
    mut block: impl FnMut(&mut Rng) -> u32,
) {
    let mut rng = Rng::seeded(7);
    for _ in 0..epochs {
        for _ in 0..400 {
            let block = block(&mut rng);
            let chunk = ChunkId { volume: VolumeId(0), index: block / 256 };
            let (offset, bytes) = (Bytes(u64::from(block % 256) * 4096), Bytes(4096));
            let access = ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false };
            division.observe(&access, chunk.index, 1);
        }
        division.look(&TWO);
        division.decide(&prices(), facts);
        division.advance();
    }
}

/// Blocks of a set of 4 MiB, scattered over 1 GiB.
fn scattered(rng: &mut Rng) -> u32 {
    (rng.below(1024) as u32 * 7919) % (1 << 18)
}

#[test]
fn scattered_heat_gets_about_the_slots_that_it_fills() {
    let mut division = gain();
    run(&mut division, 12, &facts(SLOTS, &[]), scattered);
    assert!((4..=12).contains(&division.wanted()), "{}", division.wanted());
    assert!(division.told.gain > 0.0);
}

#[test]
fn what_never_comes_again_gets_nothing() {
    let (mut division, mut next) = (gain(), 0);
    run(&mut division, 40, &facts(SLOTS, &[]), |_| {
        next += 1;
        next
    });
    assert_eq!(division.wanted(), 0);
}

#[test]
fn reads_all_over_take_nothing_from_chunks_that_are_read_as_often() {
    let mut division = gain();
    // 40 reads a second over 1,024 chunks, of which 64 are on the fast pool: each is read 0.04
    // times a second.
    let saved = prices()[1].of(&[0.04, 0.0, 0.0, 0.0]) as f32;
    let losses = vec![saved; SLOTS as usize];
    run(&mut division, 60, &facts(0, &losses), |rng| rng.below(1 << 18) as u32);
    assert_eq!(division.wanted(), 0);
}

#[test]
fn chunks_yield_where_lines_gain_more_than_they_lose() {
    let mut division = gain();
    run(&mut division, 12, &facts(0, &[0.0; 64]), scattered);
    assert!((4..=12).contains(&division.wanted()), "{}", division.wanted());
    // Chunks that are as hot as all lines together do not.
    let mut division = gain();
    run(&mut division, 12, &facts(0, &[10.0; 64]), scattered);
    assert_eq!(division.wanted(), 0);
}

#[test]
fn no_more_chunks_go_than_may_be_paid_for() {
    let mut division = gain();
    let facts = Facts { copies: 2.9, ..facts(1, &[0.0; 64]) };
    run(&mut division, 12, &facts, scattered);
    assert_eq!(division.wanted(), 3);
}

#[test]
fn lines_give_way_to_chunks_that_have_proved_to_save_more() {
    let mut division = gain();
    run(&mut division, 12, &facts(SLOTS, &[]), scattered);
    let before = division.wanted();
    // As many chunks are to be exchanged as are there, and the last of them would lose much.
    let facts = Facts { exchanges: 64, ..facts(0, &[50.0; 64]) };
    run(&mut division, 3, &facts, scattered);
    assert!(division.wanted() < before, "{} of {before}", division.wanted());
}

#[test]
fn lines_go_when_their_heat_is_gone() {
    // Blocks that were never in the hot set: each of those that come again saves a read.
    let (mut division, mut next) = (gain(), 1 << 18);
    run(&mut division, 12, &facts(SLOTS, &[]), scattered);
    assert!(division.wanted() > 0);
    run(&mut division, 120, &facts(SLOTS, &[]), |_| {
        next += 1;
        next
    });
    assert_eq!(division.wanted(), 0);
}

#[test]
fn writes_long_reads_and_reads_of_the_fast_pool_are_no_reason() {
    let mut division = gain();
    division.look(&TWO);
    let chunk = ChunkId { volume: VolumeId(0), index: 1 };
    let read =
        ChunkAccess { at: Nanos(0), chunk, offset: Bytes(0), bytes: Bytes(4096), write: false };
    for _ in 0..4 {
        division.observe(&ChunkAccess { write: true, ..read }, 1, 1);
        division.observe(&ChunkAccess { bytes: Bytes(BLOCKS_MAX * LINE + 1), ..read }, 1, 1);
        division.observe(&read, 1, 0);
    }
    assert_eq!(division.now, [0.0, 0.0]);
    division.observe(&read, 1, 1);
    assert_eq!(division.now, [0.0, 1.0]);
}

#[test]
fn a_share_is_what_it_says() {
    let mut division = Division { mode: Mode::Share(0.25), ..Division::default() };
    run(&mut division, 1, &facts(0, &[]), scattered);
    assert_eq!(division.wanted(), SLOTS / 4);
}

#[test]
fn memory_is_bounded_whatever_is_read() {
    let mut division = gain();
    run(&mut division, 300, &facts(0, &[]), |rng| rng.below(1 << 30) as u32);
    assert!(division.bytes() < 3 << 20, "{}", division.bytes());
}

#[test]
fn more_slots_serve_no_fewer_reads_and_none_serves_nothing() {
    let mut division = gain();
    run(&mut division, 4, &facts(0, &[]), scattered);
    let ghosts = division.ghosts.expect("it has seen reads");
    let shares: Vec<f64> = (0..=SLOTS + 5).map(|slots| ghosts.hits(slots)).collect();
    assert!(shares[0] == 0.0 && shares.is_sorted() && shares[64] == shares[65], "{shares:?}");
    assert!(shares[64] > 0.3);
}

#[test]
fn gains_that_do_not_come_are_believed_no_more() {
    let mut division = gain();
    run(&mut division, 12, &facts(SLOTS, &[]), scattered);
    let before = division.came;
    for _ in 0..20 {
        division.now[1] = 400.0;
        division.blocks_now = 400;
        division.beyond = 0;
        division.compare();
    }
    assert!(before > 0.99 && division.came < 0.01, "{before} {}", division.came);
    assert_eq!(division.served(10.0), [0.0, 0.0]);
}

#[test]
fn a_pool_of_few_slots_is_not_divided() {
    let ghosts = |slots: u64| {
        let mut division = gain();
        division.look(&Sized(slots, 1_000_000, true));
        division.ghosts.is_some()
    };
    assert_eq!([STEPS - 1, STEPS].map(ghosts), [false, true]);
}

/// A share was taken to serve nothing, so the slow pool seemed fast, and chunks stayed there.
#[test]
fn a_share_serves_what_the_fast_pool_read_beyond_its_own_chunks() {
    let mut division = Division { mode: Mode::Share(0.25), ..Division::default() };
    let read = |home| {
        let chunk = ChunkId { volume: VolumeId(0), index: 9 };
        (
            ChunkAccess { at: Nanos(0), chunk, offset: Bytes(0), bytes: Bytes(4096), write: false },
            home,
        )
    };
    let epoch = |division: &mut Division, all: u64| {
        let accesses = [read(0); 30].into_iter().chain([read(1); 50]);
        accesses.for_each(|(access, home)| division.observe(&access, 9, home));
        division.look(&Sized(SLOTS, all, true));
        let served = division.served(10.0);
        division.decide(&prices(), &facts(0, &[0.0; 64]));
        division.advance();
        served
    };
    epoch(&mut division, 30);
    assert_eq!(division.wanted(), 16);
    assert_eq!(epoch(&mut division, 70), [0.0, 4.0], "40 in 10 s, of 70 with its own 30");
    assert_eq!(epoch(&mut division, 30), [0.0, 0.0]);
    assert_eq!(epoch(&mut division, 999), [0.0, 5.0], "never more than were asked for");
}

/// A read of several blocks is served when all of them are there; each was counted for itself.
#[test]
fn a_read_whose_blocks_are_there_in_part_is_not_served() {
    let mut ghosts = Ghosts::new(SLOTS, 256);
    ghosts.read(1, 0..8);
    // One block more each time: seven of eight are there.
    (1..=20).for_each(|group| {
        ghosts.read(group, 8..15);
        ghosts.read(group, 8..16);
    });
    assert_eq!((ghosts.seen.requests, ghosts.hits(SLOTS)), (41.0, 0.0));
    ghosts.read(1, 0..8);
    assert_eq!((ghosts.hits(SLOTS) * 42.0).round(), 1.0);
    let blocks = 8.0 + 20.0 * 15.0 + 8.0;
    assert_eq!((ghosts.hit_blocks(SLOTS) * blocks).round(), 8.0);
    // One that lies in two groups is two reads.
    ghosts.read(1, 4..12);
    assert_eq!(ghosts.seen.requests, 44.0);
}

#[test]
fn lines_that_serve_long_reads_serve_as_many_requests_as_blocks_came() {
    let mut division = gain();
    let epoch = |division: &mut Division, beyond: u64| {
        for index in 0..100u32 {
            let chunk = ChunkId { volume: VolumeId(0), index };
            let (offset, bytes) = (Bytes(0), Bytes(8 * LINE));
            let access = ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false };
            division.observe(&access, index, 1);
        }
        division.look(&Sized(SLOTS, beyond, true));
        let served = division.served(10.0)[1];
        division.decide(&prices(), &facts(SLOTS, &[]));
        division.advance();
        served
    };
    (0..12).for_each(|_| _ = epoch(&mut division, 800));
    assert!(division.wanted() > 0 && division.came > 0.99);
    let all = epoch(&mut division, 800);
    assert!((9.0..=10.0).contains(&all), "100 reads in 10 s: {all}");
    // As many device reads as requests: an eighth of the blocks.
    let few = epoch(&mut division, 100);
    assert!((1.0..1.5).contains(&few), "{few}");
}

/// A recording may claim the largest pool and chunk that there may be.
#[test]
fn the_largest_pool_of_the_largest_chunks_has_ghosts_as_small_as_any() {
    let ghosts = Ghosts::new(1 << 40, 1 << 28);
    assert!(ghosts.bytes() < 4 << 20, "{}", ghosts.bytes());
}

/// Lending stayed off for good after its first look at a machine without lines, as a shadow's is.
#[test]
fn who_came_from_a_machine_without_lines_lends_on_one_that_has_them() {
    let facts = facts(SLOTS, &[]);
    for mode in [Mode::Gain, Mode::Share(0.25)] {
        let mut division = Division { mode, ..Division::default() };
        let look = |division: &mut Division, lends| {
            division.look(&Sized(SLOTS, 1_000_000, lends));
            division.is_on()
        };
        assert!(!look(&mut division, false));
        run(&mut division, 12, &facts, scattered);
        assert!(division.is_on() && division.wanted() > 0);
        assert!(!look(&mut division, false));
        assert_eq!(division.wanted(), 0, "no slots are set aside for lines that are not there");
        assert!(look(&mut division, true));
    }
}
