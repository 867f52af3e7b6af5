//! The most recently used chunks on the fastest pool, as a placement of one's own in Rust:
//! `librecent_placement.so` with the placement `recent`.
//!
//! ```text
//! cargo build --release -p thermocline-plugins --example recent_placement
//! mv target/release/examples/librecent_placement.so recent.so
//! thermocline lab volume web.csv.gz --policy static,./recent.so:recent
//! ```
//!
//! Declares the interface itself, as a crate of its own would. State: none between epochs.

#![allow(unsafe_code)] // The interface is C functions with raw pointers.

use std::cmp::Reverse;
use std::ffi::{c_char, c_int, c_void};

const FASTEST: u16 = 0;

/// `thermocline_chunk`.
#[repr(C)]
pub struct Chunk {
    volume: u32,
    index: u32,
    pool: u16,
    flags: u16,
    reserved: u32,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    written_bytes: u64,
    last_access: u64,
    last_ns: u64,
}

/// `thermocline_pool`: latencies and rates of four kinds of requests, and six figures of load.
#[repr(C)]
pub struct Pool {
    total_chunks: u64,
    free_chunks: u64,
    services: [[u64; 2]; 4],
    load: [u64; 6],
}

/// `thermocline_epoch`.
#[repr(C)]
pub struct Epoch {
    struct_bytes: usize,
    now_ns: u64,
    epoch_ns: u64,
    chunk_bytes: u64,
    chunks: *const Chunk,
    chunk_count: usize,
    pools: *const Pool,
    pool_count: usize,
}

/// `thermocline_move`.
#[repr(C)]
pub struct Move {
    chunk: u32,
    pool: u32,
}

type Propose = extern "C" fn(*mut c_void, *const Epoch, *mut Move, usize, *mut usize) -> c_int;

/// `thermocline_placement`.
#[repr(C)]
pub struct Placement {
    version: u32,
    struct_bytes: u32,
    name: *const c_char,
    summary: *const c_char,
    create: extern "C" fn(*const c_char, *mut c_char, usize) -> *mut c_void,
    destroy: extern "C" fn(*mut c_void),
    propose: Propose,
    footprint: Option<extern "C" fn(*const c_void) -> u64>,
}

/// The exported array, a null pointer last.
#[repr(transparent)]
pub struct Placements([*const Placement; 2]);

// SAFETY: what it points to never changes.
unsafe impl Sync for Placements {}
// SAFETY: likewise.
unsafe impl Sync for Placement {}

/// The next pool below the fastest with a free chunk.
fn room_below(free: &[u64]) -> Option<usize> {
    (1..free.len()).find(|&pool| free[pool] > 0)
}

/// Moves that bring the most recently used chunks to the fastest pool.
fn plan(chunks: &[Chunk], pools: &[Pool]) -> Vec<Move> {
    let mut recent: Vec<u32> = (0..chunks.len() as u32).collect();
    recent.retain(|&chunk| chunks[chunk as usize].last_access > 0);
    recent.sort_unstable_by_key(|&chunk| Reverse(chunks[chunk as usize].last_access));
    recent.truncate(pools[0].total_chunks as usize);
    let mut stays = vec![false; chunks.len()];
    recent.iter().for_each(|&chunk| stays[chunk as usize] = true);
    let there = |chunk: u32| chunks[chunk as usize].pool == FASTEST;
    let mut leaving: Vec<u32> = (0..chunks.len() as u32).filter(|&chunk| there(chunk)).collect();
    leaving.retain(|&chunk| !stays[chunk as usize]);
    leaving.sort_unstable_by_key(|&chunk| Reverse(chunks[chunk as usize].last_access));

    let mut free: Vec<u64> = pools.iter().map(|pool| pool.free_chunks).collect();
    let mut moves = Vec::new();
    for chunk in recent.into_iter().filter(|&chunk| !there(chunk)) {
        if free[0] == 0 {
            let (Some(below), Some(oldest)) = (room_below(&free), leaving.pop()) else { break };
            (free[0], free[below]) = (free[0] + 1, free[below] - 1);
            moves.push(Move { chunk: oldest, pool: below as u32 });
        }
        free[0] -= 1;
        free[usize::from(chunks[chunk as usize].pool)] += 1;
        moves.push(Move { chunk, pool: 0 });
    }
    moves
}

extern "C" fn create(_: *const c_char, _: *mut c_char, _: usize) -> *mut c_void {
    Box::into_raw(Box::new(0_u8)).cast()
}

extern "C" fn destroy(placement: *mut c_void) {
    // SAFETY: the caller passes what `create` returned, for the last time.
    drop(unsafe { Box::from_raw(placement.cast::<u8>()) });
}

extern "C" fn propose(
    _placement: *mut c_void,
    epoch: *const Epoch,
    moves: *mut Move,
    room: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller passes an epoch, whose arrays have these lengths.
    let (chunks, pools) = unsafe {
        let epoch = &*epoch;
        (
            std::slice::from_raw_parts(epoch.chunks, epoch.chunk_count),
            std::slice::from_raw_parts(epoch.pools, epoch.pool_count),
        )
    };
    let wanted = plan(chunks, pools);
    let told = wanted.len().min(room);
    for (at, wish) in wanted.into_iter().take(told).enumerate() {
        // SAFETY: there is room for so many moves.
        unsafe { moves.add(at).write(wish) };
    }
    // SAFETY: the caller passes room for a number.
    unsafe { *count = told };
    0
}

static RECENT: Placement = Placement {
    version: 1,
    struct_bytes: size_of::<Placement>() as u32,
    name: c"recent".as_ptr(),
    summary: c"keeps the most recently used chunks on the fastest pool".as_ptr(),
    create,
    destroy,
    propose,
    footprint: None,
};

static PLACEMENTS: Placements = Placements([&raw const RECENT, std::ptr::null()]);

/// The library's placements.
#[unsafe(no_mangle)]
pub extern "C" fn thermocline_placements() -> *const Placements {
    &raw const PLACEMENTS
}
