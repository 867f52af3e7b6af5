//! Drains that are taken back.

use super::{Bench, CHUNK};
use crate::{AdminError, PoolState};
use thermocline_units::{Bytes, Nanos, PoolId};

const CHUNKS: u32 = 12;
const DRAINED: PoolId = PoolId(0);

/// Chunks that are all on the first pool, and are moved one at a time.
fn bench() -> Bench {
    let mut settings = Bench::settings();
    settings.copying.concurrent = 1;
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    for chunk in 0..CHUNKS {
        bench.write(u64::from(chunk) * CHUNK, chunk as u8 + 1, CHUNK as usize);
    }
    bench.flush();
    assert_eq!(there(&bench), CHUNKS as usize);
    bench
}

/// Number of chunks that are on the pool which is drained.
fn there(bench: &Bench) -> usize {
    (0..CHUNKS).filter(|&chunk| bench.pools_of(chunk).contains(&DRAINED.0)).count()
}

fn state(bench: &Bench) -> PoolState {
    bench.group.pool_status(DRAINED).expect("it exists").state
}

fn undrain(bench: &mut Bench) -> Result<(), AdminError> {
    let now = bench.now;
    bench.group.undrain_pool(now, DRAINED)
}

fn drain(bench: &mut Bench) {
    let now = bench.now;
    bench.group.drain_pool(now, DRAINED).expect("the other takes its chunks");
}

/// Lets the drain go on until it has moved something and is moving more.
fn drain_half(bench: &mut Bench) {
    drain(bench);
    for _ in 0..100_000 {
        bench.step(1);
        if there(bench) < CHUNKS as usize && bench.group.operations_pending() > 0 {
            return;
        }
        if let Some(at) = bench.group.next_tick() {
            bench.now = bench.now.max(at);
            bench.group.tick(bench.now);
        }
    }
    panic!("nothing is moved");
}

fn holds_the_data(bench: &mut Bench) {
    for chunk in 0..CHUNKS {
        let read = bench.read(u64::from(chunk) * CHUNK, CHUNK as u32).expect("readable");
        assert!(read.iter().all(|&byte| byte == chunk as u8 + 1), "chunk {chunk}");
    }
    bench.check();
}

/// Writes a chunk that is new, and sees it on the pool, which is the fastest.
fn takes_chunks(bench: &mut Bench) {
    bench.write(u64::from(CHUNKS) * CHUNK, 99, CHUNK as usize);
    bench.flush();
    assert_eq!(bench.pools_of(CHUNKS), [DRAINED.0]);
}

#[test]
fn only_a_pool_that_is_drained_or_being_drained_can_be_undrained() {
    let mut bench = bench();
    let refused = AdminError::NotDraining { pool: DRAINED, state: PoolState::Active };
    assert_eq!(undrain(&mut bench), Err(refused));
    let (now, unknown) = (bench.now, PoolId(9));
    assert_eq!(bench.group.undrain_pool(now, unknown), Err(AdminError::NoPool(unknown)));
    drain(&mut bench);
    bench.pass(Nanos::from_secs(30));
    assert_eq!(state(&bench), PoolState::Drained);
    bench.group.remove_pool(bench.now, DRAINED).expect("it is drained");
    bench.pass(Nanos::from_secs(10));
    let refused = AdminError::NotDraining { pool: DRAINED, state: PoolState::Removed };
    assert_eq!(undrain(&mut bench), Err(refused));
}

#[test]
fn a_drain_that_is_taken_back_half_way_leaves_the_rest_where_it_is() {
    let mut bench = bench();
    drain_half(&mut bench);
    undrain(&mut bench).expect("it is being drained");
    assert_eq!(state(&bench), PoolState::Active);
    bench.pass(Nanos::from_secs(30));
    assert_eq!(bench.group.operations_pending(), 0, "what was under way has ended");
    let left = there(&bench);
    assert!((1..CHUNKS as usize).contains(&left), "{left} chunks were left");
    holds_the_data(&mut bench);
    takes_chunks(&mut bench);
    bench.crash();
    assert_eq!((state(&bench), there(&bench)), (PoolState::Active, left));
    bench.pass(Nanos::from_secs(30));
    assert_eq!(there(&bench), left, "the drain does not go on");
    holds_the_data(&mut bench);
}

#[test]
fn a_drained_pool_takes_chunks_again_also_after_a_crash() {
    let mut bench = bench();
    drain(&mut bench);
    bench.pass(Nanos::from_secs(30));
    assert_eq!((state(&bench), there(&bench)), (PoolState::Drained, 0));
    undrain(&mut bench).expect("it is drained");
    bench.run();
    bench.crash();
    assert_eq!(state(&bench), PoolState::Active);
    takes_chunks(&mut bench);
    holds_the_data(&mut bench);
    drain(&mut bench);
    bench.pass(Nanos::from_secs(30));
    assert_eq!(state(&bench), PoolState::Drained, "it can be drained again");
}

#[test]
fn a_crash_at_any_request_after_it_loses_nothing() {
    for requests in 0.. {
        let mut bench = bench();
        drain_half(&mut bench);
        undrain(&mut bench).expect("it is being drained");
        let ended = bench.run_requests(requests);
        bench.crash();
        let found = state(&bench);
        assert!(matches!(found, PoolState::Active | PoolState::Draining), "{found:?}");
        holds_the_data(&mut bench);
        if ended {
            assert_eq!(found, PoolState::Active, "the checkpoint is durable");
            return;
        }
    }
}
