//! The pool of a chunk that is written for the first time.

use thermocline_units::PoolId;

/// Order in which pools get chunks that are written for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fill {
    /// The fastest pool with room (linear fill: pools one after the other).
    #[default]
    FastestFirst,
    /// The slowest pool with room: fast pools are for what the placement promotes.
    SlowestFirst,
}

/// Room of a pool, in chunks; 0 where it takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Free chunks.
    pub free: u32,
    /// Of these, those that are not kept for moves.
    pub beside_reserve: u32,
    /// True if requests to the pool leave the machine: it comes last.
    pub far: bool,
}

/// The pool for a new chunk: a `hinted` one, if there is one with room, or else by `fill` among
/// those `by_speed` (fastest first). Near pools come before far ones, and what is kept for moves is
/// given away only when there is nothing else. `None`: no pool has room.
pub fn pool_for_chunk(
    fill: Fill,
    hinted: &[PoolId],
    by_speed: &[PoolId],
    room: impl Fn(PoolId) -> Room,
) -> Option<PoolId> {
    let mut order: Vec<PoolId> = hinted.iter().chain(by_speed).copied().collect();
    if fill == Fill::SlowestFirst {
        order[hinted.len()..].reverse();
    }
    order.sort_by_key(|&pool| room(pool).far);
    let with = |free: fn(Room) -> u32| order.iter().copied().find(|&pool| free(room(pool)) > 0);
    with(|room| room.beside_reserve).or_else(|| with(|room| room.free))
}
