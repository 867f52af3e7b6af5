//! Traces as loads: whole sectors, chunks, extents, and what is left out.

use super::{Load, LoadError};
use crate::workload::tests::{listed, request};
use thermocline_trace::Op;
use thermocline_units::{Bytes, ChunkId, VolumeId};

const MIB: u64 = 1 << 20;

fn load(requests: Vec<thermocline_trace::Request>) -> Result<Load, LoadError> {
    Load::read(&mut listed(requests), &|_| ())
}

#[test]
fn ranges_grow_outward_to_whole_sectors() {
    let load = load(vec![request(0, 0, Op::Read, 1000, 30), request(1, 1, Op::Write, 512, 512)]);
    let load = load.unwrap();
    let ranges: Vec<_> = load.demands.iter().map(|d| (d.offset().0, d.length().0)).collect();
    assert_eq!(ranges, [(512, 1024), (512, 512)]);
    assert_eq!(load.extents, [Bytes(1536), Bytes(1024)]);
}

#[test]
fn chunks_are_those_that_a_range_overlaps_and_only_reads_and_writes_touch() {
    let load = load(vec![
        request(0, 0, Op::Read, MIB - 512, 1024),
        request(1, 1, Op::Write, 5 * MIB, MIB),
        request(2, 1, Op::Trim, 9 * MIB, MIB),
        request(3, 0, Op::Flush, 0, 0),
    ])
    .unwrap();
    let chunk = Bytes(MIB);
    let ranges: Vec<_> = load.demands.iter().map(|demand| demand.chunks(chunk)).collect();
    assert_eq!(ranges, [0..2, 5..6, 9..10, 0..0]);
    let id = |volume, index| ChunkId { volume: VolumeId(volume), index };
    assert_eq!(load.touched(chunk), [id(0, 0), id(0, 1), id(1, 5)]);
    assert_eq!(load.extents, [Bytes(MIB + 512), Bytes(10 * MIB)]);
}

#[test]
fn what_cannot_be_asked_of_a_volume_is_left_out_and_counted() {
    let load = load(vec![
        request(0, 0, Op::Read, 0, 0),
        request(1, 0, Op::Read, u64::MAX - 4096, 4096),
        request(2, 0, Op::Read, 0, 4096),
    ])
    .unwrap();
    assert_eq!((load.demands.len(), load.left_out), (1, 2));
}

#[test]
fn times_never_run_backwards_and_the_span_is_from_the_first_to_the_last() {
    let load = load(vec![
        request(10, 0, Op::Read, 0, 512),
        request(8, 0, Op::Read, 0, 512),
        request(15, 0, Op::Read, 0, 512),
    ])
    .unwrap();
    assert!(load.demands.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(load.span().as_secs_f64(), 5.0);
}

#[test]
fn a_trace_with_nothing_to_do_or_too_many_volumes_is_refused() {
    let empty = load(vec![request(0, 0, Op::Flush, 0, 0)]).unwrap_err().to_string();
    assert!(empty.contains("no read and no write"), "{empty}");
    let many = load(vec![request(0, 5000, Op::Read, 0, 512)]).unwrap_err().to_string();
    assert!(many.contains("4096 volumes"), "{many}");
}
