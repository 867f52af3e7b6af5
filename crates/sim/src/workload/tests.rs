//! Requests become lines and chunks exactly, and what cannot be replayed is refused.

use super::{Cut, Sample, SampleSize, Touches, Unit, Workload, WorkloadError};
use thermocline_trace::{Batch, HashRange, Op, Request, TraceError, TraceReader};
use thermocline_units::{Bytes, ChunkId, LineId, Nanos, VolumeId};

/// A reader over a list of requests.
struct Listed {
    requests: std::vec::IntoIter<Request>,
    volumes: Vec<String>,
}

impl TraceReader for Listed {
    fn read_batch(&mut self, batch: &mut Batch) -> Result<(), TraceError> {
        batch.clear();
        batch.requests.extend(self.requests.by_ref().take(3));
        Ok(())
    }

    fn volumes(&self) -> &[String] {
        &self.volumes
    }
}

pub(crate) fn request(second: u64, volume: u32, op: Op, offset: u64, length: u64) -> Request {
    Request {
        time: Nanos::from_secs(second),
        volume: VolumeId(volume),
        op,
        offset: Bytes(offset),
        length: Bytes(length),
        response: None,
        hashes: HashRange::default(),
    }
}

pub(crate) fn listed(requests: Vec<Request>) -> impl TraceReader {
    Listed { requests: requests.into_iter(), volumes: vec!["a".to_string(), "b".to_string()] }
}

pub(crate) fn workload_of(requests: Vec<Request>, cut: Cut) -> Result<Workload, WorkloadError> {
    Workload::read(&mut listed(requests), cut, &|_| ())
}

pub(crate) const LINES_4K: Cut = Cut { unit: Unit::Lines(Bytes::from_kib(4)), chunk: None };

fn touched(touches: &Touches) -> Vec<Vec<u32>> {
    (0..touches.ends.len())
        .map(|i| touches.ids[touches.of(i)].iter().map(|id| id.0).collect())
        .collect()
}

#[test]
fn a_request_touches_every_line_it_overlaps_and_no_other() {
    let requests = vec![
        request(0, 0, Op::Read, 3072, 6144),
        request(1, 0, Op::Read, 4096, 4096),
        request(2, 0, Op::Write, 12288, 1),
        request(3, 1, Op::Read, 0, 512),
    ];
    let workload = workload_of(requests, LINES_4K).unwrap();
    assert_eq!(touched(&workload.blocks[0].lines), [vec![0, 1, 2], vec![1], vec![3], vec![4]]);
    assert_eq!(workload.names.line(LineId(4)), (VolumeId(1), 0));
    assert_eq!(workload.working_set(), Bytes(5 * 4096));
}

#[test]
fn chunks_are_cut_beside_lines() {
    let cut = Cut { chunk: Some(Bytes::from_mib(1)), ..LINES_4K };
    let requests = vec![
        request(0, 0, Op::Read, (1 << 20) - 4096, 8192),
        request(1, 0, Op::Read, 5 << 20, 4096),
    ];
    let workload = workload_of(requests, cut).unwrap();
    let chunks = workload.blocks[0].chunks.as_ref().unwrap();
    assert_eq!(touched(chunks), [vec![0, 1], vec![2]]);
    let chunk = |volume, index| ChunkId { volume: VolumeId(volume), index };
    assert_eq!(workload.names.chunk(LineId(2)), chunk(0, 5));
    assert_eq!(workload.names.find_chunk(chunk(0, 5)), Some(LineId(2)));
    assert_eq!(workload.names.find_chunk(chunk(1, 5)), None);
}

#[test]
fn objects_are_named_by_volume_and_offset_whatever_their_length() {
    let cut = Cut { unit: Unit::Objects, chunk: None };
    let requests = vec![
        request(0, 0, Op::Read, 512, 512),
        request(1, 0, Op::Read, 512, 65536),
        request(2, 1, Op::Read, 512, 512),
        request(3, 0, Op::Read, 1024, 512),
    ];
    let workload = workload_of(requests, cut).unwrap();
    assert_eq!(touched(&workload.blocks[0].lines), [vec![0], vec![0], vec![1], vec![2]]);
}

#[test]
fn a_discard_touches_only_known_lines_that_it_covers_whole() {
    let requests = vec![
        request(0, 0, Op::Write, 0, 16384),
        request(1, 0, Op::Trim, 2048, 10240),
        request(2, 0, Op::Trim, 0, 1 << 40),
        request(3, 1, Op::Trim, 0, 1 << 40),
    ];
    let workload = workload_of(requests, LINES_4K).unwrap();
    assert_eq!(
        touched(&workload.blocks[0].lines),
        [vec![0, 1, 2, 3], vec![1, 2], vec![0, 1, 2, 3], vec![]]
    );
}

#[test]
fn many_scattered_addresses_keep_distinct_numbers() {
    let mut rng = thermocline_units::Rng::seeded(3);
    let requests: Vec<_> = (0..200_000)
        .map(|_| request(0, rng.below(2) as u32, Op::Read, rng.below(1 << 17) << 15, 4096))
        .collect();
    let distinct: std::collections::BTreeSet<_> =
        requests.iter().map(|r| (r.volume, r.offset)).collect();
    let workload = workload_of(requests.clone(), LINES_4K).unwrap();
    assert_eq!(workload.names.distinct_lines() as usize, distinct.len());
    let touched = workload.blocks.iter().flat_map(|block| &block.lines.ids);
    let mut given = 0;
    for (request, id) in requests.iter().zip(touched) {
        assert_eq!(workload.names.line(*id), (request.volume, request.offset.0 / 4096));
        assert!(id.0 <= given, "numbers are given in order of first sight");
        given = given.max(id.0 + 1);
    }
    assert!(workload.blocks.len() > 1, "more than one block");
}

#[test]
fn what_cannot_be_replayed_is_refused_with_a_reason() {
    let error = |requests| workload_of(requests, LINES_4K).unwrap_err().to_string();
    assert!(error(vec![]).contains("nothing to cache"));
    assert!(error(vec![request(0, 0, Op::Flush, 0, 0)]).contains("nothing to cache"));
    assert!(error(vec![request(0, 1 << 15, Op::Read, 0, 512)]).contains("volumes"));
    assert!(error(vec![request(0, 0, Op::Read, 0, 1 << 40)]).contains("request 1 "));
    assert!(error(vec![request(0, 0, Op::Read, u64::MAX - 5, 4096)]).contains("request 1 "));
}

/// Touches of 20,000 lines on two volumes, three times each, and a discard.
fn for_sampling() -> Vec<Request> {
    let line = |i: u64| request(i / 1000, (i % 2) as u32, Op::Read, (i % 10_000) * 4096, 4096);
    let mut requests: Vec<Request> = (0..60_000).map(line).collect();
    requests.push(request(61, 0, Op::Trim, 0, 1 << 30));
    requests
}

fn sample_of(size: SampleSize, seed: u64) -> Sample {
    Sample::read(&mut listed(for_sampling()), LINES_4K.unit, size, seed, &|_| ()).unwrap()
}

#[test]
fn a_sample_keeps_about_its_share_of_the_lines_and_all_their_touches() {
    let sample = sample_of(SampleSize { rate: 0.1, lines_min: 1 }, 1);
    assert!((0.09..0.11).contains(&(f64::from(sample.lines()) / 10_000.0)), "{}", sample.lines());
    assert!((sample.distinct() / 10_000.0 - 1.0).abs() < 0.1);
    let accesses = sample.touches.iter().filter(|touch| !touch.discard).count();
    assert_eq!(accesses as u32, 6 * sample.lines());
    let dropped = sample.touches.iter().filter(|touch| touch.discard).count();
    assert!(dropped > 0 && dropped < sample.lines() as usize, "one volume's lines are dropped");
    assert_eq!(sample.touches_from(0), 60_000);
    assert!(sample.touches_from(30_000).abs_diff(30_000) < 1024);
}

#[test]
fn a_sample_has_its_minimum_of_lines_however_low_the_rate() {
    // A share of 0.0001 used to be taken as asked for: one line of these 10,000.
    for (rate, lines_min) in [(0.0001, 2000), (0.0, 2000), (0.1, 2000)] {
        let sample = sample_of(SampleSize { rate, lines_min }, 3);
        assert!((1999..=2000).contains(&sample.lines()), "{rate}: {}", sample.lines());
        assert!((0.18..0.22).contains(&sample.rate), "{}", sample.rate);
    }
    let all = sample_of(SampleSize { rate: 0.0001, lines_min: 20_000 }, 3);
    assert_eq!((all.lines(), all.rate), (10_000, 1.0));
}

#[test]
fn a_sample_that_shrinks_while_reading_is_one_that_was_small_from_the_start() {
    let small = sample_of(SampleSize { rate: 0.0, lines_min: 500 }, 9);
    let at_once = sample_of(SampleSize { rate: small.rate, lines_min: 1 }, 9);
    assert_eq!(small.rate, at_once.rate);
    assert_eq!(small.touches, at_once.touches);
    assert_eq!(small.groups, at_once.groups);
}
