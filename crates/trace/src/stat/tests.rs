//! Characteristics of small workloads written by hand, and what holds of every workload.

use super::*;
use crate::fixture::{Recorded, read_at};
use crate::request::{Op, Request};
use proptest::prelude::*;
use thermocline_units::{Nanos, VolumeId};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn write_at(seconds: u64, offset: u64, length: u64) -> Request {
    Request { op: Op::Write, ..read(seconds, offset, length) }
}

fn read(seconds: u64, offset: u64, length: u64) -> Request {
    Request { length: Bytes(length), ..read_at(seconds * 1_000_000_000, offset) }
}

fn on(volume: u32, request: Request) -> Request {
    Request { volume: VolumeId(volume), ..request }
}

fn characterise(requests: &[Request]) -> WorkloadCharacteristics {
    let mut reader = Recorded::new(requests, &[]);
    Characterisation::read(&mut reader, &|_| {}).unwrap()
}

fn whole(requests: &[Request]) -> Characteristics {
    characterise(requests).whole
}

fn timing(requests: &[Request]) -> Timing {
    whole(requests).timing.unwrap()
}

fn amount(requests: u64, bytes: u64) -> Amount {
    Amount { requests, bytes }
}

#[test]
fn the_default_bin_is_written_as_it_is() {
    assert_eq!(BIN_TEXT.parse(), Ok(BIN));
}

#[test]
fn amounts_are_by_operation_and_trims_touch_nothing() {
    let flush = Request { op: Op::Flush, length: Bytes(0), ..read(2, 0, 0) };
    let trim = Request { op: Op::Trim, ..read(3, 64 * MIB, MIB) };
    let found =
        whole(&[read(0, 0, 8 * KIB), write_at(1, 4 * KIB, 512), flush, trim, read(9, 0, 512)]);
    assert_eq!(found.reads, amount(2, 8 * KIB + 512));
    assert_eq!(found.writes, amount(1, 512));
    assert_eq!(found.flushes, amount(1, 0));
    assert_eq!(found.trims, amount(1, MIB));
    assert_eq!(found.requests(), 5);
    assert_eq!(found.size, Bytes::from_kib(8));
    assert_eq!(found.footprint, Bytes::from_kib(8));
    assert_eq!(found.footprint_read, Bytes::from_kib(8));
    assert_eq!(found.footprint_written, Bytes::from_kib(4));
    assert_eq!(found.read_write_ratio_requests(), Some(2.0));
    assert_eq!(found.read_write_ratio_bytes(), Some(17.0));
    assert_eq!(found.timing.as_ref().unwrap().span, Nanos::from_secs(9));
    assert_eq!(found.sizes().powers_of_two(), [(512, 2), (8 * KIB, 1)]);
}

#[test]
fn a_request_across_pages_and_chunks_touches_both_sides() {
    // 512 B before and after a border of chunks.
    let found = whole(&[read(0, MIB - 512, 1024), read(1, 0, 512)]);
    assert_eq!(found.footprint, Bytes::from_kib(12));
    assert_eq!(found.chunks, 2);
    // Chunk 0 has 1024 B, chunk 1 has 512 B; the top 5 % of two chunks is one of them.
    assert_eq!(found.chunk_bytes.top_5, Some(2.0 / 3.0));
    assert_eq!(found.chunk_accesses.top_5, Some(2.0 / 3.0));
}

#[test]
fn concentration_is_of_the_places_touched() {
    // 20 pages in 20 chunks; page 0 is accessed 81 times, the others once each.
    let once = (0..20).map(|page| read(page, page * MIB, 4096));
    let requests: Vec<Request> = once.chain((20..100).map(|at| read(at, 0, 4096))).collect();
    let found = whole(&requests);
    for concentration in [found.page_accesses, found.chunk_accesses, found.chunk_bytes] {
        assert_eq!(concentration.top_5, Some(0.81));
        assert_eq!(concentration.top_20, Some(0.84));
    }
}

#[test]
fn bytes_and_accesses_can_be_concentrated_on_different_chunks() {
    // Chunk 0: 9 small reads. Chunk 1: one large one.
    let mut requests: Vec<Request> = (0..9).map(|at| read(at, 0, 4 * KIB)).collect();
    requests.push(read(9, MIB, 324 * KIB));
    let found = whole(&requests);
    assert_eq!(found.chunk_accesses.top_5, Some(0.9));
    assert_eq!(found.chunk_bytes.top_5, Some(0.9));
}

#[test]
fn a_re_access_comes_within_five_minutes_of_the_one_before() {
    let found =
        timing(&[read(0, 0, 4096), read(300, 0, 4096), read(601, 0, 4096), read(602, 4096, 4096)]);
    // Of four page accesses two are first ones, one comes after 300 s, one after 301 s.
    assert_eq!(found.page_reaccess.of_accesses, Some(0.25));
    assert_eq!(found.page_reaccess.of_returns, Some(0.5));
    // The chunk was accessed a second before the last one.
    assert_eq!(found.chunk_reaccess.of_accesses, Some(0.5));
    assert_eq!(found.chunk_reaccess.of_returns, Some(2.0 / 3.0));
}

#[test]
fn late_pages_keep_their_times() {
    // 400 years after time zero, 2^64 ns are nearly used up.
    let late = 400 * 365 * 86_400;
    let found = timing(&[read(0, 0, 512), read(late, 0, 512), read(late + 299, 0, 512)]);
    assert_eq!(found.page_reaccess.of_accesses, Some(1.0 / 3.0));
}

#[test]
fn sequential_is_by_volume_and_near_means_512_kib() {
    let found = whole(&[
        read(0, 0, 4096),
        on(1, read(0, 99 * MIB, 4096)),
        write_at(1, 4096, 4096),                  // contiguous
        read(2, 8192 + 512 * KIB, 4096),          // 512 KiB on: near
        read(3, 12 * KIB, 4096),                  // 512 KiB back from the end, and not a byte more
        read(4, 16 * KIB + 512 * KIB + 512, 512), // a sector too far
    ]);
    assert_eq!(found.sequentiality.contiguous, Some(0.25));
    assert_eq!(found.sequentiality.near, Some(0.75));
}

#[test]
fn active_chunks_are_counted_by_five_minutes() {
    let found = characterise(&[
        read(0, 0, 4096),
        read(1, 0, 4096),
        on(1, read(2, 0, 4096)),
        read(299, MIB, 4096),
        read(300, 0, 4096),
        read(1000, 0, 4096),
    ]);
    let timing = found.whole.timing.unwrap();
    assert_eq!(timing.active_chunks_max, 3);
    // Intervals: 3, 1, 0, 1.
    assert_eq!(timing.active_chunks_mean, 1.25);
    let second = found.volumes[1].timing.as_ref().unwrap();
    assert_eq!((second.active_chunks_max, second.active_chunks_mean), (1, 0.25));
}

#[test]
fn rare_chunks_are_by_the_day() {
    // Two days: chunk 0 has 20 accesses, chunk 1 has 19, chunk 2 has 2,000 in a day's rate.
    let mut requests: Vec<Request> = (0..20).map(|at| read(at, 0, 512)).collect();
    requests.extend((20..39).map(|at| read(at, MIB, 512)));
    requests.extend((39..2039).map(|at| read(at, 2 * MIB, 512)));
    requests.push(read(2 * 86_400, 3 * MIB, 512));
    let found = timing(&requests);
    assert_eq!(found.rare_chunks, Some(0.5));
    assert_eq!(found.frequent_chunks, Some(0.25));
}

#[test]
fn the_whole_is_the_sum_of_its_volumes_but_for_arrivals() {
    let found = characterise(&[
        read(0, 0, 4096),
        on(2, write_at(1, MIB, 4096)),
        on(2, write_at(3, MIB, 4096)),
        read(9, 0, 4096),
    ]);
    assert_eq!(found.volumes.len(), 3);
    assert_eq!(found.volumes[1].requests(), 0);
    assert_eq!(found.whole.volumes, 2);
    assert_eq!(found.whole.size, Bytes(MIB + 8192));
    assert_eq!(found.whole.footprint, Bytes(8192));
    let spans = found.volumes.iter().map(|volume| volume.timing.as_ref().unwrap().span);
    assert_eq!(spans.collect::<Vec<_>>(), [9, 0, 2].map(Nanos::from_secs));
    let gaps = found.whole.timing.unwrap().gaps;
    assert_eq!((gaps.count(), gaps.mean(), gaps.max()), (3, Some(3e9), Some(6_000_000_000)));
}

#[test]
fn a_trace_without_times_has_no_timing() {
    let found = whole(&[read_at(0, 0), read_at(1, 4096), read_at(2, 0)]);
    assert_eq!(found.timing, None);
    assert_eq!(found.footprint, Bytes(8192));
}

#[test]
fn response_times_are_of_the_requests_that_have_one() {
    let slow = Request { response: Some(Nanos::from_micros(300)), ..read(1, 0, 512) };
    let found = whole(&[read(0, 0, 512), slow]);
    assert_eq!((found.responses.count(), found.responses.mean()), (1, Some(300_000.0)));
}

#[test]
fn absurd_lengths_and_empty_traces_are_refused() {
    let mut reader = Recorded::new(&[read(0, 0, 512), read(1, 0, 1 << 50)], &[]);
    let error = Characterisation::read(&mut reader, &|_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request 1 is 1 PiB long; at most 32 GiB are believed: is the trace's unit right?"
    );
    let error = Characterisation::read(&mut Recorded::new(&[], &[]), &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the trace holds no request");
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0_u64..1_000_000_000_000, 0_u32..3, 0..4, 0..64 * MIB, 0..3 * MIB);
    prop::collection::vec(one, 1..300).prop_map(|mut all| {
        all.sort_unstable();
        let request = |(time, volume, op, offset, length)| Request {
            op: [Op::Read, Op::Write, Op::Flush, Op::Trim][op as usize],
            length: Bytes(if op == 2 { 0 } else { length }),
            ..on(volume, read_at(time, offset))
        };
        all.into_iter().map(request).collect()
    })
}

proptest! {
    #[test]
    fn shares_lie_between_zero_and_one_and_more_data_has_more_accesses(requests in requests()) {
        let found = characterise(&requests);
        for found in std::iter::once(&found.whole).chain(&found.volumes) {
            for top in [found.page_accesses, found.chunk_accesses, found.chunk_bytes] {
                prop_assert!(top.top_5 <= top.top_20);
                prop_assert!(top.top_20.is_none_or(|share| (0.2..=1.0).contains(&share)));
            }
            prop_assert!(found.sequentiality.contiguous <= found.sequentiality.near);
            let Some(timing) = &found.timing else { continue };
            let (pages, chunks) = (timing.page_reaccess, timing.chunk_reaccess);
            for share in [
                pages.of_accesses,
                pages.of_returns,
                chunks.of_accesses,
                chunks.of_returns,
                timing.rare_chunks,
                timing.frequent_chunks,
                found.sequentiality.near,
            ] {
                prop_assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{share:?}");
            }
            prop_assert!(pages.of_accesses <= pages.of_returns || pages.of_returns.is_none());
            prop_assert!(timing.active_chunks_mean <= timing.active_chunks_max as f64);
        }
    }

    #[test]
    fn pages_are_counted_as_by_a_set(requests in requests()) {
        let mut pages = std::collections::BTreeMap::<(u32, u64), u64>::new();
        for request in requests.iter().filter(|r| matches!(r.op, Op::Read | Op::Write)) {
            for page in request.offset.0 / 4096..request.end().0.div_ceil(4096) {
                if request.length.0 > 0 {
                    *pages.entry((request.volume.0, page)).or_default() += 1;
                }
            }
        }
        let found = whole(&requests);
        prop_assert_eq!(found.footprint, Bytes(pages.len() as u64 * 4096));
        let mut counts: Vec<u64> = pages.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let top = counts.len().div_ceil(20);
        let all = counts.iter().sum::<u64>();
        let share = (all > 0).then(|| counts[..top].iter().sum::<u64>() as f64 / all as f64);
        prop_assert_eq!(found.page_accesses.top_5, share);
    }

    #[test]
    fn batches_do_not_matter(requests in requests(), batch in 1_usize..50) {
        let mut reader = Recorded::new(&requests, &[]);
        reader.batch = batch;
        let found = Characterisation::read(&mut reader, &|_| {}).unwrap();
        prop_assert_eq!(found, characterise(&requests));
    }
}
