//! Chunks begin where they were, others around them, and room stays free.

use super::{Start, StartPool};
use crate::machine::drive::prepare;
use crate::machine::stage::Stage;
use crate::machine::{Load, MachineOptions, PoolPlan, PoolSize};
use std::sync::Arc;
use thermocline_ports::model::Profile;
use thermocline_units::{Bytes, ChunkId, PoolId, VolumeId};

fn pool(name: &str, chunks: u64) -> PoolPlan {
    PoolPlan {
        name: name.to_string(),
        profile_name: "nvme".to_string(),
        profile: Profile::built_in("nvme").expect("it is built in"),
        size: PoolSize::Bytes(Bytes::from_mib(chunks)),
        reserve: Bytes(0),
        cache: None,
    }
}

fn chunk(index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(0), index }
}

fn start() -> Start {
    let pool = |name: &str, chunks: &[u32], others, free| StartPool {
        name: name.to_string(),
        chunks: chunks.iter().map(|&index| chunk(index)).collect(),
        others,
        free,
    };
    Start { pools: vec![pool("fast", &[5], 30, 9), pool("slow", &[0, 1, 2, 3], 46, 50)] }
}

/// Chunks 0 to 5 of the load by pool, chunks used by pool.
fn filled(pools: &[(&str, u64)]) -> (Vec<Option<u16>>, Vec<u64>) {
    filled_from(&start(), pools)
}

/// The same of another start.
fn filled_from(start: &Start, pools: &[(&str, u64)]) -> (Vec<Option<u16>>, Vec<u64>) {
    let plans: Vec<PoolPlan> = pools.iter().map(|&(name, chunks)| pool(name, chunks)).collect();
    let sizes: Vec<u64> = pools.iter().map(|&(_, chunks)| chunks).collect();
    let options =
        MachineOptions { start: Some(Arc::new(start.clone())), ..MachineOptions::default() };
    let mut stage = Stage::new(&options, &plans, &sizes).expect("a stage");
    let load = Load { extents: vec![Bytes::from_mib(10)], ..Load::default() };
    prepare(&mut stage, &load, &options, &[]).expect("there is room");
    let at = |index| {
        let status = stage.group.locate(chunk(index)).expect("it is in the volume");
        status.copies.first().map(|copy| copy.place.pool.0)
    };
    let used = |pool: usize| {
        let status = stage.group.pool_status(PoolId(pool as u16)).expect("it is there");
        u64::from(status.slots_used)
    };
    ((0..6).map(at).collect(), (0..pools.len()).map(used).collect())
}

#[test]
fn chunks_begin_where_they_were_and_room_is_as_free_as_it_was() {
    let (at, used) = filled(&[("fast", 40), ("slow", 100)]);
    assert_eq!(at, [Some(1), Some(1), Some(1), Some(1), None, Some(0)], "chunk 4 holds nothing");
    assert_eq!(used, [31, 50]);
}

#[test]
fn a_larger_fast_pool_holds_a_share_of_the_next_one() {
    let (at, used) = filled(&[("fast", 80), ("slow", 100)]);
    assert_eq!(used, [71, 10], "nine stay free");
    assert_eq!(at.iter().filter(|at| **at == Some(0)).count(), 4, "of four on the next one three");
}

#[test]
fn a_smaller_fast_pool_passes_on_what_it_has_no_room_for() {
    let (_, used) = filled(&[("fast", 20), ("slow", 100)]);
    assert_eq!(used, [16, 65], "the same share stays free");
    let (_, used) = filled(&[("slow", 50), ("bucket", 60)]);
    assert_eq!(used, [50, 31], "of a pool that is not there nothing is kept free");
}

/// `advise --live` forecast many times the latency for half of the fastest pool: all free room was
/// held, so that chunks landed on an empty disk, although the SSD had room for them.
#[test]
fn displaced_chunks_get_the_free_room_of_the_next_pool_first() {
    let pool = |name: &str, others, free| {
        let (name, chunks) = (name.to_string(), Vec::new());
        StartPool { name, chunks, others, free }
    };
    let pools = vec![pool("scm", 118, 0), pool("ssd", 182, 128), pool("hdd", 0, 1000)];
    let start = Start { pools };
    let filled = |pools: &[(&str, u64)]| filled_from(&start, pools).1;
    assert_eq!(filled(&[("scm", 118), ("ssd", 310), ("hdd", 1000)]), [118, 182, 0]);
    assert_eq!(filled(&[("scm", 59), ("ssd", 310), ("hdd", 1000)]), [59, 241, 0]);
    assert_eq!(filled(&[("scm", 236), ("ssd", 310), ("hdd", 1000)]), [236, 64, 0]);
    assert_eq!(filled(&[("ssd", 310), ("hdd", 1000)]), [300, 0, 0][..2], "without the fastest");
    assert_eq!(filled(&[("scm", 59), ("ssd", 155), ("hdd", 1000)]), [59, 150, 91]);
}
