//! Share of requests that one pool's backlog leaves to the others.

use super::{Bench, CHUNK};
use crate::settings::REQUESTS_IN_FLIGHT_MAX;
use crate::{Action, OperationKind, Outcome, Priority, Request, RequestId};
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};

/// A chunk on each of so many pools.
fn bench(pools: u16) -> Bench {
    let mut bench = Bench::new(&vec![8; usize::from(pools)]);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    for chunk in 0..pools {
        bench.write(u64::from(chunk) * CHUNK, 1, CHUNK as usize);
        if chunk > 0 {
            let outcome = bench.operate(OperationKind::Migrate, chunk.into(), chunk);
            assert_eq!(outcome, Outcome::Done);
        }
    }
    bench
}

fn request(action: Action) -> Request {
    let (id, priority) = (RequestId(1 << 40), Priority::Foreground);
    Request { id, volume: VolumeId(0), action, priority }
}

fn read(chunk: u64) -> Request {
    request(Action::Read { offset: Bytes(chunk * CHUNK), length: 512 })
}

/// Requests that are taken while no device answers.
fn taken(bench: &mut Bench, request: &Request) -> usize {
    let now = bench.now();
    (0..10_000).take_while(|_| bench.group.submit(now, request.clone()).is_ok()).count()
}

#[test]
fn a_pool_that_answers_nothing_leaves_half_of_all_requests_to_the_others() {
    let mut bench = bench(3);
    assert_eq!(taken(&mut bench, &read(2)), REQUESTS_IN_FLIGHT_MAX / 2);
    assert_eq!(taken(&mut bench, &read(0)), REQUESTS_IN_FLIGHT_MAX / 4, "half of what was left");
    assert_eq!(taken(&mut bench, &read(1)), REQUESTS_IN_FLIGHT_MAX / 8);
    let flush = request(Action::Flush);
    assert_eq!(taken(&mut bench, &flush), REQUESTS_IN_FLIGHT_MAX / 16, "flushes wait for all");
}

#[test]
fn a_group_of_one_pool_takes_all_its_requests() {
    let mut bench = bench(1);
    assert_eq!(taken(&mut bench, &read(0)), REQUESTS_IN_FLIGHT_MAX);
}

#[test]
fn a_request_counts_for_the_slowest_pool_that_it_waits_for() {
    let bench = bench(3);
    let counts = |action| bench.group.counts_for(&request(action));
    let (offset, length) = (Bytes(CHUNK - 512), 1024);
    assert_eq!(counts(Action::Read { offset, length }), Some(PoolId(1)));
    assert_eq!(counts(Action::Flush), None);
    // Nothing is there yet: a read waits for nobody, a write for the pool that it will go to.
    let offset = Bytes(7 * CHUNK);
    assert_eq!(counts(Action::Read { offset, length }), None);
    let payload = thermocline_ports::Payload::Zeroes(512);
    assert_eq!(counts(Action::Write { offset, payload, fua: false }), Some(PoolId(0)));
    // A discard of nearly everything, and ranges that no volume has.
    let all = Action::Discard { offset: Bytes(0), length: Bytes(20 * CHUNK) };
    assert_eq!(counts(all), Some(PoolId(2)));
    let beyond = Action::Discard { offset: Bytes(u64::MAX - 511), length: Bytes(u64::MAX) };
    assert_eq!(counts(beyond), None);
}

#[test]
fn places_come_back_with_the_answers() {
    let mut bench = bench(2);
    for _ in 0..3 {
        assert_eq!(taken(&mut bench, &read(1)), REQUESTS_IN_FLIGHT_MAX / 2);
        bench.run();
    }
    bench.crash();
    assert_eq!(taken(&mut bench, &read(1)), REQUESTS_IN_FLIGHT_MAX / 2);
}
