//! The four operations, without faults.

use super::{Bench, CHUNK};
use crate::{OperationKind, Outcome};
use thermocline_units::{Bytes, Nanos};

fn bench() -> Bench {
    let mut bench = Bench::new(&[4, 8, 8]);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.write(0, 2, 4096);
    bench.flush();
    bench
}

fn holds_the_data(bench: &mut Bench) {
    let read = bench.read(0, CHUNK as u32).expect("readable");
    assert!(read[..4096].iter().all(|&byte| byte == 2));
    assert!(read[4096..].iter().all(|&byte| byte == 1));
    bench.check();
}

#[test]
fn a_migrated_chunk_lives_on_the_other_pool_alone_also_after_a_crash() {
    let mut bench = bench();
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Done);
    assert_eq!(bench.pools_of(0), [1]);
    holds_the_data(&mut bench);
    bench.crash();
    assert_eq!(bench.pools_of(0), [1]);
    holds_the_data(&mut bench);
}

#[test]
fn a_replica_takes_writes_and_survives_the_death_of_the_original() {
    let mut bench = bench();
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 2), Outcome::Done);
    assert_eq!(bench.pools_of(0), [0, 2]);
    bench.write(0, 2, 4096);
    bench.flush();
    bench.disks[0].kill();
    holds_the_data(&mut bench);
    bench.pass(Nanos::from_secs(5));
    assert!(!bench.pools_of(0).contains(&0), "the dead pool's copy is dropped");
}

#[test]
fn a_redirected_chunk_is_whole_at_its_new_place() {
    let mut bench = bench();
    assert_eq!(bench.operate(OperationKind::Redirect, 0, 2), Outcome::Done);
    assert_eq!(bench.pools_of(0), [2]);
    holds_the_data(&mut bench);
    bench.crash();
    holds_the_data(&mut bench);
}

#[test]
fn replicas_that_may_differ_after_a_crash_are_made_anew() {
    let mut bench = bench();
    bench.operate(OperationKind::Replicate, 0, 1);
    bench.write(0, 2, 4096);
    bench.crash();
    assert_eq!(bench.pools_of(0), [0]);
    bench.pass(Nanos::from_secs(5));
    assert_eq!(bench.pools_of(0), [0, 1]);
    holds_the_data(&mut bench);
}

#[test]
fn a_drained_pool_is_empty_and_can_be_removed() {
    use crate::PoolState;
    use thermocline_units::PoolId;
    let mut bench = bench();
    bench.group.drain_pool(Nanos(0), PoolId(0)).expect("others take its chunks");
    bench.pass(Nanos::from_secs(10));
    let state = |bench: &Bench| bench.group.pool_status(PoolId(0)).expect("it exists").state;
    assert_eq!(state(&bench), PoolState::Drained);
    bench.group.remove_pool(Nanos(0), PoolId(0)).expect("it is drained");
    bench.pass(Nanos::from_secs(10));
    assert_eq!(state(&bench), PoolState::Removed);
    holds_the_data(&mut bench);
    bench.crash();
    holds_the_data(&mut bench);
}
