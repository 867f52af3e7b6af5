//! `static`: chunks stay where the linear fill put them.
//!
//! 1. Pools are filled one after the other, fastest first: the machine's own rule for chunks that
//!    are written for the first time (HintStor, Ge et al. 2022 §3.7, the volume before its data
//!    manager acts).
//! 2. Nothing moves.
//!
//! What every placement must beat. No state; O(1) an access, O(1) an epoch.

use super::{Budget, ChunkAccess, Move, Placement, VolumeView};
use crate::Footprint;
use crate::registry::{Build, Entry};
use thermocline_units::Nanos;

pub(crate) const ENTRY: Entry = Entry {
    name: "static",
    summary: "leaves every chunk where it was first written; what any placement must beat",
    source: "linear fill, Ge et al. 2022 §3.7",
    settings: &[],
    build: Build::Placement(|_| Ok(Box::new(Static))),
};

/// No decision at all.
#[derive(Debug)]
struct Static;

impl Placement for Static {
    fn observe(&mut self, _: &ChunkAccess) {}

    fn propose(&mut self, _: Nanos, _: &dyn VolumeView, _: Budget, _: &mut Vec<Move>) {}

    fn footprint(&self) -> Footprint {
        Footprint::default()
    }
}
