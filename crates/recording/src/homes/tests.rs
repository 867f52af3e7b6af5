//! Tables of places: what changed between two of them brings one to the other.

use super::{Homes, RecordedView};
use thermocline_policy::placement::VolumeView;
use thermocline_trace::recording::SecondCopy;
use thermocline_units::{Bytes, ChunkId, PoolId, VolumeId};

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(1), index }
}

/// Four chunks on pool 0, of which some have second copies.
fn table(seconds: &[(u32, SecondCopy)]) -> Homes {
    let mut homes = Homes::default();
    assert!(homes.set(chunk(0), 4, Some(PoolId(0))));
    for &(index, second) in seconds {
        homes.set_second(chunk(index), 1, second);
    }
    homes
}

/// Mirrors and kept copies of a view, by chunk.
fn seconds(view: &RecordedView) -> [Vec<(u32, u16)>; 2] {
    let (mut mirrors, mut kept) = (Vec::new(), Vec::new());
    view.visit_mirrors(&mut |chunk, pool| mirrors.push((chunk.index, pool.0)));
    view.visit_kept(&mut |chunk, pool| kept.push((chunk.index, pool.0)));
    [mirrors, kept]
}

#[test]
fn second_copies_come_change_their_kind_and_go() {
    let last = PoolId(63);
    let tables = [
        table(&[(1, SecondCopy::Kept(last)), (2, SecondCopy::Kept(PoolId(1)))]),
        table(&[(1, SecondCopy::Mirror(last)), (2, SecondCopy::Kept(PoolId(2)))]),
        table(&[(1, SecondCopy::Kept(PoolId(1))), (3, SecondCopy::Mirror(PoolId(1)))]),
        table(&[]),
    ];
    let expected: [[&[(u32, u16)]; 2]; 4] =
        [[&[], &[(1, 63), (2, 1)]], [&[(1, 63)], &[(2, 2)]], [&[(3, 1)], &[(1, 1)]], [&[], &[]]];
    let mut view = RecordedView::of(Bytes::from_mib(1));
    let mut before = Homes::default();
    for (table, expected) in tables.into_iter().zip(expected) {
        table.changes(&before, |run| {
            assert!(view.homes.set(run.chunk, run.count, run.pool));
            run.second.iter().for_each(|&other| view.homes.set_second(run.chunk, run.count, other));
        });
        assert_eq!(seconds(&view), expected.map(<[_]>::to_vec));
        assert!((0..4).all(|index| view.homes.pool_of(chunk(index)) == Some(PoolId(0))));
        before = table;
    }
}
