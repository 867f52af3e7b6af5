//! The end of a recording that its group has outgrown.

use super::{MOVES_MAX, Recorder, Sink};
use crate::homes::{Homes, RecordedView};
use std::collections::BTreeMap;
use thermocline_policy::placement::{Budget, How, Move, PoolLoad, PoolTraits, VolumeView};
use thermocline_trace::recording::{CHUNKS_MAX, Encoder};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};
use thermocline_volume::{Decision, Observer};

/// One pool with one chunk.
struct One(ChunkId);

impl VolumeView for One {
    fn chunk_size(&self) -> Bytes {
        Bytes::from_mib(1)
    }
    fn epoch(&self) -> Nanos {
        Nanos::from_secs(1)
    }
    fn traits(&self, pool: PoolId) -> PoolTraits {
        PoolTraits::assumed(pool, 1)
    }
    fn load(&self, _: PoolId) -> PoolLoad {
        PoolLoad::default()
    }
    fn volume_count(&self) -> u32 {
        1
    }
    fn pool_count(&self) -> u16 {
        1
    }
    fn capacity_chunks(&self, _: PoolId) -> u64 {
        1
    }
    fn pool_of(&self, _: ChunkId) -> PoolId {
        PoolId(0)
    }
    fn used_chunks(&self, _: PoolId) -> u64 {
        1
    }
    fn visit_pool(&self, _: PoolId, visit: &mut dyn FnMut(ChunkId)) {
        visit(self.0);
    }
}

#[derive(Default)]
struct Told {
    blocks: usize,
    why: Vec<String>,
}

impl Sink for &mut Told {
    fn take(&mut self, _: Vec<u8>) -> bool {
        assert!(self.why.is_empty(), "nothing comes after the end");
        self.blocks += 1;
        true
    }

    fn ended(&mut self, why: &str) {
        self.why.push(why.to_string());
    }
}

fn recorder(told: &mut Told) -> Recorder<&mut Told> {
    Recorder {
        encoder: Some(Encoder::new(Bytes::from_mib(1), &[])),
        sink: told,
        under_way: BTreeMap::new(),
        homes: Homes::default(),
        looked: Homes::default(),
        slas: BTreeMap::new(),
    }
}

/// A replay believes no more.
#[test]
fn more_moves_than_an_epoch_can_hold_end_a_recording() {
    let mut told = Told::default();
    let mut recorder = recorder(&mut told);
    let chunk = ChunkId { volume: VolumeId(0), index: 7 };
    let step = Move { chunk, to: PoolId(0), how: How::Move };
    let (at, budget) = (Nanos::from_secs(1), Budget::UNLIMITED);
    let moves = vec![step; MOVES_MAX + 1];
    recorder.decided(&Decision { at, view: &One(chunk), budget, moves: &moves });
    assert!(recorder.encoder.is_none());
    drop(recorder);
    assert_eq!(told.why, ["an epoch has more moves than a recording can hold (2^24)"]);
}

/// An engine with more chunks than a recording holds used to end with a panic.
#[test]
fn more_chunks_than_a_recording_holds_end_it_and_nothing_else() {
    let mut told = Told::default();
    let mut recorder = recorder(&mut told);
    let chunk = |index| ChunkId { volume: VolumeId(0), index };
    let moves: [Move; 0] = [];
    for (second, index) in [(1, 7), (2, CHUNKS_MAX), (3, 7)] {
        let view = One(chunk(index));
        let (at, budget) = (Nanos::from_secs(second), Budget::UNLIMITED);
        recorder.decided(&Decision { at, view: &view, budget, moves: &moves });
    }
    assert!(recorder.encoder.is_none());
    drop(recorder);
    assert_eq!(told.why.len(), 1, "{:?}", told.why);
    assert!(told.why[0].contains("more chunks than a recording can hold"));
    assert!(told.blocks >= 2, "what was before is kept: {}", told.blocks);
    // A view of a replay is bounded alike.
    assert!(!RecordedView::of(Bytes::from_mib(1)).homes.set(chunk(CHUNKS_MAX), 1, None));
}
