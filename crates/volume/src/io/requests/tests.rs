//! Requests by themselves: refused, split by chunk, answered once.

use super::{Requests, SUB_REQUESTS_MAX};
use crate::epoch::epochs::Epochs;
use crate::format::Record;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::group_state::tests::{CHUNK, CHUNKS, FAST, add_volume, chunk, group, put, settle};
use crate::io::request::{Action, Fragment, Priority, Reply, Request, RequestError, RequestId};
use crate::io::scheduler::Lane;
use crate::journal::Outcome;
use crate::journal::commit::Waiter;
use std::ops::Range;
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};

struct Bench {
    group: GroupState,
    requests: Requests,
    epochs: Epochs,
}

impl Bench {
    fn new() -> Bench {
        Bench { group: group(), requests: Requests::new(256), epochs: Epochs::new(Nanos(1)) }
    }

    fn range_of(&self, volume: u32, action: Action) -> Result<(u64, u64), RequestError> {
        Requests::range_of(&self.group, &request(volume, action))
    }

    /// Takes a request, and splits it as far as that goes.
    fn take(&mut self, volume: u32, action: Action) {
        let request = request(volume, action);
        let range = Requests::range_of(&self.group, &request).expect("it is in order");
        let share = (Lane::NONE, Priority::Foreground);
        self.requests.take(&mut self.group, request, share, range);
        self.split();
    }

    fn split(&mut self) {
        while let Some(request) = self.requests.unsplit.pop() {
            self.requests.all[request].listed = false;
            self.requests.split(&mut self.group, &mut self.epochs, request);
        }
    }

    /// Lets all sub-requests have their turn; what they are to do.
    fn turns(&mut self) -> Vec<(u32, ChunkId, Range<u32>)> {
        let pop = || self.requests.scheduler.pop(Nanos(0), |_| true);
        let numbers: Vec<u32> = std::iter::from_fn(pop).collect();
        let part = |number| {
            let sub_request = &self.group.sub_requests[number];
            (number, sub_request.chunk(), sub_request.range().clone())
        };
        numbers.into_iter().map(part).collect()
    }

    fn end(&mut self, sub_request: u32) {
        self.requests.end_sub_request(&mut self.group, &mut self.epochs, sub_request);
    }

    fn replies(&mut self) -> Vec<Reply> {
        let mut replies = Vec::new();
        self.requests.take_replies(&mut replies);
        replies
    }
}

fn request(volume: u32, action: Action) -> Request {
    let volume = VolumeId(volume);
    Request { id: RequestId(5), volume, action, priority: Priority::Foreground }
}

fn reply(result: Result<Vec<Fragment>, RequestError>) -> Reply {
    Reply { id: RequestId(5), result }
}

fn read(offset: u64, length: u32) -> Action {
    Action::Read { offset: Bytes(offset), length }
}

fn write(offset: u64, length: u32) -> Action {
    let payload = Payload::from(vec![7; length as usize]);
    Action::Write { offset: Bytes(offset), payload, fua: false }
}

fn zeroes(offset: u64, length: u64, fua: bool) -> Action {
    Action::WriteZeroes { offset: Bytes(offset), length: Bytes(length), fua }
}

#[test]
fn a_range_that_is_empty_in_part_sectors_or_beyond_the_volume_is_refused() {
    let bench = Bench::new();
    let size = u64::from(CHUNKS * CHUNK);
    assert_eq!(bench.range_of(0, read(size - 512, 512)), Ok((size - 512, size)));
    let bad = [
        read(0, 0),
        read(512, 100),
        read(100, 512),
        write(size - 512, 1024),
        zeroes(size, 512, false),
        Action::Discard { offset: Bytes(u64::MAX - 511), length: Bytes(1024) },
    ];
    for action in bad {
        assert_eq!(bench.range_of(0, action), Err(RequestError::BadRange));
    }
}

#[test]
fn a_request_is_refused_without_its_volume_or_out_of_service() {
    let mut bench = Bench::new();
    assert_eq!(bench.range_of(1, Action::Flush), Err(RequestError::NoVolume));
    bench.group.map.begin_deletion(VolumeId(0));
    assert_eq!(bench.range_of(0, read(0, 512)), Err(RequestError::NoVolume));
    bench.group.service = Service::Closing;
    assert_eq!(bench.range_of(0, read(0, 512)), Err(RequestError::NotReady));
}

#[test]
fn a_request_is_split_by_chunk_and_answered_when_its_last_part_has_ended() {
    let mut bench = Bench::new();
    bench.take(0, write(u64::from(CHUNK) - 512, 1024 + CHUNK));
    let parts = bench.turns();
    let ranges: Vec<_> = parts.iter().map(|(_, of, range)| (*of, range.clone())).collect();
    assert_eq!(ranges, [(chunk(0), CHUNK - 512..CHUNK), (chunk(1), 0..CHUNK), (chunk(2), 0..512)]);
    assert!(bench.group.map.volume(VolumeId(0)).is_some_and(|volume| volume.is_busy()));
    for (number, _, _) in &parts {
        assert_eq!(bench.replies(), []);
        bench.end(*number);
    }
    assert_eq!(bench.replies(), [reply(Ok(Vec::new()))]);
    assert!(bench.requests.is_idle() && bench.group.sub_requests.is_empty());
    assert!(bench.group.map.volume(VolumeId(0)).is_some_and(|volume| !volume.is_busy()));
}

#[test]
fn fragments_of_a_read_are_in_the_order_of_their_bytes() {
    let mut bench = Bench::new();
    bench.take(0, read(0, 2 * CHUNK));
    let parts = bench.turns();
    let fragment = |at| Fragment { at, payload: Payload::Zeroes(CHUNK) };
    for (&(number, _, _), at) in parts.iter().rev().zip([CHUNK, 0]) {
        bench.requests.all[0].fragments.push(fragment(at));
        bench.end(number);
    }
    assert_eq!(bench.replies(), [reply(Ok(vec![fragment(0), fragment(CHUNK)]))]);
}

#[test]
fn a_large_request_has_a_bounded_number_of_parts_at_once() {
    let mut bench = Bench::new();
    add_volume(&mut bench.group, 1, 100);
    bench.take(1, write(0, 100 * CHUNK));
    let parts = bench.turns();
    assert_eq!(parts.len() as u32, SUB_REQUESTS_MAX);
    assert!(!bench.requests.has_work());
    parts.iter().take(40).for_each(|(number, _, _)| bench.end(*number));
    bench.split();
    let later = bench.turns();
    assert_eq!(
        later.iter().map(|(_, of, _)| of.index).collect::<Vec<_>>(),
        Vec::from_iter(64..100)
    );
    parts.iter().skip(40).chain(&later).for_each(|(number, _, _)| bench.end(*number));
    assert_eq!(bench.replies().len(), 1);
}

#[test]
fn a_part_that_fails_fails_its_request_and_no_sla_judges_it() {
    let mut bench = Bench::new();
    let sla = Sla { latency: Nanos(1), class: SlaClass::Loose };
    bench.requests.slas.set(VolumeId(0), Some(sla));
    bench.take(0, write(0, 2 * CHUNK));
    let parts = bench.turns();
    bench.group.sub_requests[parts[0].0].fail(RequestError::Io);
    parts.iter().for_each(|(number, _, _)| bench.end(*number));
    assert_eq!(bench.replies(), [reply(Err(RequestError::Io))]);
    assert_eq!(bench.requests.slas.of(VolumeId(0)).map(|record| record.answered), Some(0));
    bench.take(0, write(0, 512));
    let number = bench.turns()[0].0;
    bench.end(number);
    assert_eq!(bench.requests.slas.of(VolumeId(0)).map(|record| record.answered), Some(1));
}

#[test]
fn zeroes_onto_chunks_that_hold_nothing_do_nothing() {
    let mut bench = Bench::new();
    put(&mut bench.group, chunk(1), FAST);
    bench.take(0, zeroes(0, u64::from(3 * CHUNK), false));
    let parts = bench.turns();
    assert_eq!(parts.iter().map(|(_, of, _)| *of).collect::<Vec<_>>(), [chunk(1)]);
    bench.end(parts[0].0);
    bench.take(0, zeroes(0, u64::from(CHUNK), true));
    assert_eq!(bench.replies().len(), 2, "the journal has no change to wait for");
}

#[test]
fn forced_zeroes_onto_nothing_wait_for_a_journal_that_may_not_know() {
    let mut bench = Bench::new();
    bench.group.journal.record(&Record::VolumeGone(VolumeId(9)));
    bench.take(0, zeroes(0, u64::from(3 * CHUNK), true));
    assert_eq!((bench.turns().len(), bench.replies().len()), (1, 0), "one part waits for all");
}

#[test]
fn a_flush_waits_for_the_journal_and_is_answered_with_what_it_says() {
    let mut bench = Bench::new();
    bench.take(0, Action::Flush);
    assert!(bench.replies().is_empty() && bench.requests.count() == 1);
    let outcomes = settle(&mut bench.group);
    let waiters = vec![Waiter::Flush(0)];
    assert_eq!(outcomes, [Outcome::Durable { left: Vec::new(), waiters }]);
    let failed = Err(RequestError::Io);
    bench.requests.end_flush(&mut bench.group, &mut bench.epochs, 0, failed);
    assert_eq!(bench.replies(), [reply(Err(RequestError::Io))]);
}

#[test]
fn requests_that_are_drained_are_no_longer_under_way() {
    let mut bench = Bench::new();
    bench.take(0, read(0, 512));
    bench.take(0, Action::Flush);
    assert_eq!(bench.requests.drain_requests(), [RequestId(5), RequestId(5)]);
    assert!(bench.requests.is_idle());
}
