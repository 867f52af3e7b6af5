//! Shares of requests in flight: what a request counts for, and who may have one more.

use super::lane_of;
use crate::group_state::GroupState;
use crate::group_state::tests::{CHUNK, FAR, FAST, SLOW, chunk, group, group_with, put, settings};
use crate::io::request::{Action, Priority, Request, RequestId};
use crate::io::requests::Requests;
use crate::io::scheduler::Lane;
use crate::settings::{Limits, Settings};
use thermocline_units::{Bytes, PoolId, VolumeId};

fn request(action: Action) -> Request {
    Request { id: RequestId(1), volume: VolumeId(0), action, priority: Priority::Foreground }
}

fn read(chunks: std::ops::Range<u64>) -> Request {
    let (offset, length) = (chunks.start * u64::from(CHUNK), (chunks.end - chunks.start) as u32);
    request(Action::Read { offset: Bytes(offset), length: length * CHUNK })
}

/// Takes flushes that count for a pool until it has no share left; how many.
fn take_all(requests: &mut Requests, group: &mut GroupState, pool: PoolId) -> u32 {
    let mut taken = 0;
    while requests.has_share(group, Lane::of(pool)) {
        let as_usual = (Lane::of(pool), Priority::Foreground);
        requests.take(group, request(Action::Flush), as_usual, (0, 0));
        taken += 1;
    }
    taken
}

#[test]
fn a_backlog_leaves_half_of_what_is_left_to_the_others() {
    let limits = Limits { requests: 24, ..Limits::REAL };
    let mut group = group_with(Settings { limits, ..settings() });
    let mut requests = Requests::new(8);
    assert_eq!(take_all(&mut requests, &mut group, SLOW), 12);
    assert_eq!(take_all(&mut requests, &mut group, FAR), 6);
    assert!(requests.has_share(&group, Lane::of(FAST)), "something is left for who is idle");
    requests.drain_requests();
    assert_eq!(take_all(&mut requests, &mut group, SLOW), 12, "what has ended counts no more");
}

#[test]
fn a_request_counts_for_the_slowest_pool_that_it_touches() {
    let mut group = group();
    put(&mut group, chunk(0), FAST);
    put(&mut group, chunk(1), FAR);
    put(&mut group, chunk(2), SLOW);
    let pool = |request: &Request| lane_of(&group, request).pool();
    assert_eq!(
        [0..1, 0..3, 2..3, 2..8].map(|chunks| pool(&read(chunks))),
        [Some(FAST), Some(FAR), Some(SLOW), Some(SLOW)]
    );
}

#[test]
fn what_needs_no_pool_counts_for_none() {
    let group = group();
    assert_eq!(lane_of(&group, &request(Action::Flush)), Lane::NONE);
    assert_eq!(lane_of(&group, &read(4..5)), Lane::NONE);
    let length = Bytes(u64::MAX);
    let beyond = request(Action::Discard { offset: Bytes(u64::MAX - 5), length });
    assert_eq!(lane_of(&group, &beyond), Lane::NONE, "it is refused later");
}
