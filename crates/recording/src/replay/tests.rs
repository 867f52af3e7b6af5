//! Recordings made by hand: what a forged one may cost, and what one epoch says of the next.

use super::{MOVES_MAX, Replay, ReplayError};
use std::io::Cursor;
use thermocline_policy::placement::{How, Move};
use thermocline_trace::recording::{Encoder, Epoch, EventReader, Packer, PoolFill, Routed};
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const CHUNK: ChunkId = ChunkId { volume: VolumeId(0), index: 0 };

fn epoch(second: u64) -> Epoch {
    let pool = PoolFill { capacity: 10, used: 0, figures: Vec::new() };
    Epoch {
        at: Nanos::from_secs(second),
        budget: 8,
        volumes: 1,
        length: Some(Nanos::from_secs(1)),
        pools: vec![pool.clone(), pool],
    }
}

fn replay(tell: impl FnOnce(&mut Encoder)) -> Replay {
    let (mut encoder, mut packer) = (Encoder::new(Bytes::from_mib(1), &[]), Packer::default());
    encoder.placed(Nanos(0), "baseline");
    tell(&mut encoder);
    encoder.end();
    let mut file = packer.head();
    while let Some(block) = encoder.take_block() {
        file.extend(packer.pack(&block));
    }
    let events = EventReader::open(Box::new(Cursor::new(file)), "r").unwrap();
    Replay::new(events, None).unwrap()
}

/// The second epoch was called different too, for what was routed before the first one's end.
#[test]
fn a_route_that_differs_counts_in_its_own_epoch_only() {
    let mut replay = replay(|encoder| {
        // The placement has no router, and moves nothing.
        encoder.routed(&Routed { at: Nanos(1), pools: Vec::new(), shares: [1, 1] });
        encoder.epoch(&epoch(1));
        encoder.proposed(CHUNK, PoolId(1), false);
        encoder.epoch_ended();
        encoder.epoch(&epoch(2));
        encoder.epoch_ended();
    });
    let equal: Vec<bool> =
        std::iter::from_fn(|| replay.next_epoch().unwrap()).map(|row| row.equal).collect();
    assert_eq!(equal, [false, true]);
}

/// A small file repeats a move as often as it likes.
#[test]
fn more_moves_than_an_epoch_can_have_are_refused() {
    let mut replay = replay(|_| {});
    replay.epoch = Some(epoch(1));
    let step = Move { chunk: CHUNK, to: PoolId(1), how: How::Move };
    replay.recorded = vec![step; MOVES_MAX - 1];
    replay.note(step).unwrap();
    let refused = replay.note(step).unwrap_err();
    assert!(matches!(refused, ReplayError::Content(1, _)), "{refused}");
    assert_eq!(replay.recorded.len(), MOVES_MAX);
}
