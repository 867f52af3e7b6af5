//! Accesses that count as sequential, worked out by hand; and chunks that are remembered.

use super::Pulse;
use crate::placement::ChunkAccess;
use crate::placement::tests::machine::Machine;
use crate::placement::tests::pools::Pools;
use thermocline_units::{Bytes, ChunkId, Nanos, VolumeId};

const KIB: u64 = 1024;
/// Bytes of an access.
const UNIT: u64 = 4 * KIB;

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(0), index }
}

/// An access to chunk 0 at so many KiB.
#[derive(Clone, Copy)]
enum Act {
    Write(u64),
    Read(u64),
    /// An access to a chunk far away.
    Elsewhere,
}
use Act::{Elsewhere, Read, Write};

/// Random writes of chunk 0, and units written one after the other.
fn written(acts: &[Act]) -> (u32, u32) {
    let mut pulse = Pulse::default();
    for act in acts {
        let (index, offset, write) = match *act {
            Write(at) => (0, at * KIB, true),
            Read(at) => (0, at * KIB, false),
            Elsewhere => (20, 512 * KIB, false),
        };
        let (offset, bytes) = (Bytes(offset), Bytes(UNIT));
        pulse.record(&ChunkAccess { at: Nanos(0), chunk: chunk(index), offset, bytes, write });
    }
    let [_, random, _, streamed] = pulse.counts[0].units;
    (random, streamed)
}

#[test]
fn a_write_follows_the_access_before_it_within_64_kib_forwards_and_not_backwards() {
    assert_eq!(written(&[Write(8), Write(12 + 64)]), (1, 1));
    assert_eq!(written(&[Write(8), Write(12 + 68)]), (2, 0));
    assert_eq!(written(&[Write(512), Write(508)]), (2, 0), "backwards");
    assert_eq!(written(&[Read(8), Write(12)]), (0, 1), "what a reader left behind counts, too");
}

#[test]
fn of_writes_that_only_go_on_in_their_chunk_every_second_one_is_sequential() {
    let streams = |last: &[u64]| {
        let acts: Vec<Act> = last.iter().flat_map(|&at| [Write(at), Elsewhere]).collect();
        written(&acts)
    };
    assert_eq!(streams(&[4]), (1, 0));
    assert_eq!(streams(&[4, 8]), (1, 1));
    assert_eq!(streams(&[4, 8, 12]), (2, 1));
    assert_eq!(streams(&[4, 8, 12, 16]), (2, 2));
    assert_eq!(streams(&[4, 8, 400, 404]), (2, 2), "one that begins anew has its turn again");
}

#[test]
fn reads_and_writes_right_behind_leave_the_turn_where_it_was() {
    let read_between = [Write(4), Elsewhere, Write(8), Elsewhere, Read(12), Elsewhere, Write(16)];
    assert_eq!(written(&read_between), (2, 1));
    let right_behind = [Write(4), Elsewhere, Write(8), Write(12), Elsewhere, Write(16)];
    assert_eq!(written(&right_behind), (2, 2));
}

/// Chunks by number with so much heat, first met on pool 9.
fn remembered(heats: &[(u32, f32)]) -> Pulse {
    let chunks: Vec<_> =
        heats.iter().map(|&(index, heat)| (chunk(index), 9, [[heat; 4]; 3])).collect();
    let mut pulse = Pulse::default();
    pulse.go_on(3, &chunks);
    pulse
}

#[test]
fn the_hottest_chunks_are_kept_where_there_are_too_many_and_none_twice() {
    let pulse = remembered(&[(0, 1.0), (1, 3.0), (2, 2.0), (1, 5.0), (3, 0.0)]);
    let kept: Vec<u32> = pulse.hottest(2).iter().map(|(chunk, ..)| chunk.index).collect();
    assert_eq!(kept, [1, 2]);
    assert_eq!(pulse.hottest(9).len(), 3, "told twice, and never asked for");
}

/// Pools were removed between two starts: the place of before is not there any more.
#[test]
fn a_first_pool_that_is_gone_is_the_slowest_there_is() {
    let mut pulse = remembered(&[(0, 1.0)]);
    pulse.look(&Machine::new(4, 1));
    assert_eq!(pulse.first_home(0), Some(1));
}

/// The first pool of what was there before was kept for whatever came to its number later.
#[test]
fn a_chunk_that_is_written_again_has_a_new_first_pool() {
    let (mut pulse, mut view) = (remembered(&[(0, 1.0)]), Pools::new(&[4, 4], &[(0, 0)]));
    pulse.look(&view);
    assert_eq!(pulse.first_home(0), Some(1), "as it was learnt");
    assert_eq!(pulse.hottest(9).len(), 1);
    view.at.remove(&0);
    pulse.look(&view);
    assert_eq!((pulse.first_home(0), pulse.pool_of(0)), (None, 1));
    assert_eq!(pulse.hottest(9), [], "nothing is kept of it");
    view.at.insert(0, 0);
    pulse.look(&view);
    assert_eq!(pulse.first_home(0), Some(0));
}

#[test]
fn what_is_asked_of_a_chunk_counts_for_those_around_it_in_its_volume() {
    let mut pulse = Pulse::default();
    for index in [5, 6, 8, 9, 11, 12, 14, 15] {
        pulse.chunks.number(chunk(index));
    }
    pulse.chunks.number(ChunkId { volume: VolumeId(1), index: 9 });
    for at in 0..64 {
        let (chunk, offset, bytes) = (chunk(10), Bytes(at % 2 * 600 * KIB), Bytes(UNIT));
        pulse.record(&ChunkAccess { at: Nanos(0), chunk, offset, bytes, write: false });
    }
    pulse.look(&Machine::new(4, 2));
    let around = pulse.around();
    let reads = |volume: u32, index| {
        let chunk = ChunkId { volume: VolumeId(volume), index };
        around[pulse.chunks.find(chunk).expect("it was met") as usize][0]
    };
    let asked = pulse.now(pulse.chunks.find(chunk(10)).expect("it was met"))[0];
    assert!(asked > 0.0);
    let shares = [5, 6, 8, 9, 10, 11, 12, 14, 15].map(|index| reads(0, index) / asked);
    assert_eq!(shares, [0.0, 0.0625, 0.125, 0.25, 0.0, 0.25, 0.125, 0.0625, 0.0]);
    assert_eq!(reads(1, 9), 0.0, "another volume is not around");
}
