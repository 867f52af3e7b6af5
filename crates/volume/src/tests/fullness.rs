//! A device without room. The accident: the first pool was a sparse file on a full file system;
//! every first write to a chunk failed although the second pool was empty.

use super::{Bench, CHUNK, tactics};
use crate::{OperationKind, PoolState, Settings};
use thermocline_units::{Bytes, Nanos, PoolId};

/// New chunks go to the second pool, whose slots read as zeroes: nothing is sent before the data.
fn second_first() -> Bench {
    let settings = Settings { tactics: tactics(&["slowest-first"]), ..Bench::settings() };
    let mut bench = Bench::with_settings(&[8, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(64 * CHUNK)).expect("a volume");
    bench
}

#[test]
fn new_chunks_go_elsewhere_while_a_device_has_no_room_and_come_back_when_it_has() {
    let mut bench = second_first();
    bench.write(0, 1, 4096);
    assert_eq!(bench.pools_of(0), [1]);
    bench.disks[1].fill_up();
    bench.write(CHUNK, 2, 4096);
    assert_eq!(bench.pools_of(1), [0], "the client does not notice");
    let status = bench.group.pool_status(PoolId(1)).expect("it exists");
    assert!(status.full && status.state == PoolState::Active);
    let asked = bench.disks[1].submitted();
    bench.write(2 * CHUNK, 3, 4096);
    assert_eq!(bench.disks[1].submitted(), asked, "a full pool is not asked again each time");
    bench.pass(Nanos::from_secs(20));
    assert!(bench.group.pool_status(PoolId(1)).expect("it exists").full);
    bench.disks[1].make_room();
    bench.pass(Nanos::from_secs(20));
    assert!(!bench.group.pool_status(PoolId(1)).expect("it exists").full);
    bench.write(3 * CHUNK, 4, 4096);
    assert_eq!(bench.pools_of(3), [1]);
    bench.flush();
    bench.check();
    bench.crash();
    for (chunk, byte) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        assert_eq!(bench.read(chunk * CHUNK, 4096), Ok(vec![byte; 4096]));
        assert_eq!(bench.read(chunk * CHUNK + 4096, 4096), Ok(vec![0; 4096]));
    }
}

#[test]
fn a_full_device_gets_no_copies() {
    let mut bench = second_first();
    bench.disks[1].fill_up();
    bench.write(0, 1, 4096);
    let chunk = thermocline_units::ChunkId { volume: thermocline_units::VolumeId(0), index: 0 };
    let operation = crate::Operation { kind: OperationKind::Migrate, chunk, to: PoolId(1) };
    let now = bench.now;
    assert_eq!(bench.group.start(now, operation), Err(crate::Refusal::NoRoom));
}

#[test]
fn a_write_that_no_pool_has_room_for_fails_and_leaves_nothing() {
    let mut bench = second_first();
    bench.disks.iter_mut().for_each(|disk| disk.fill_up());
    let payload = thermocline_ports::Payload::from(vec![1; 4096]);
    let write = crate::Action::Write { offset: Bytes(0), payload, fua: false };
    assert_eq!(bench.ask(write), Err(crate::RequestError::NoSpace));
    bench.disks.iter_mut().for_each(|disk| disk.make_room());
    bench.pass(Nanos::from_secs(20));
    assert_eq!(bench.read(0, 4096), Ok(vec![0; 4096]));
    bench.check();
}
