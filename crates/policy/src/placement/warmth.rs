//! Warmth of chunks, and the one or two pools of each: state that placements with mirrors share.
//!
//! 1. At an epoch's end a chunk's warmth is half of what it was, and its accesses of the epoch.
//! 2. A chunk is on a pool, and where it is mirrored it has another side.
//!
//! State: 62 B a chunk: 58 of `activity`, 4 of warmth; 16 B a mirrored one. O(1) an access, O(n log
//! n) an epoch over the chunks that are warm or above the slowest pool.

use super::activity::Activity;
use super::{ChunkAccess, VolumeView};
use thermocline_units::{ChunkId, PoolId};

/// A chunk at an epoch's end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Warm {
    pub(super) chunk: ChunkId,
    pub(super) home: PoolId,
    /// Its other side, where it is mirrored.
    pub(super) mirror: Option<PoolId>,
    /// Accesses, older ones for less.
    pub(super) warmth: f32,
}

/// Warmth of chunks, and the two pools that hold them.
#[derive(Debug, Default)]
pub(super) struct Warmth {
    activity: Activity,
    warmth: Vec<f32>,
    /// Mirrored chunks by ascending id, with their other sides.
    mirrors: Vec<(ChunkId, PoolId)>,
}

impl Warmth {
    /// Counts an access.
    #[inline]
    pub(super) fn record(&mut self, access: &ChunkAccess) {
        self.activity.record(access);
    }

    /// Ends the epoch: chunks that are warm or above the slowest pool, warmest first, of equally
    /// warm ones the lower id.
    pub(super) fn ranked(&mut self, view: &dyn VolumeView) -> Vec<Warm> {
        self.activity.look(view);
        self.mirrors.clear();
        view.visit_mirrors(&mut |chunk, other| self.mirrors.push((chunk, other)));
        let count = self.activity.chunks.len();
        self.warmth.resize(count as usize, 0.0);
        let slowest = PoolId(view.pool_count() - 1);
        let mut ranked = Vec::new();
        for (number, warmth) in (0..count).zip(&mut self.warmth) {
            *warmth = *warmth / 2.0 + self.activity.counts(number).accesses() as f32;
            if *warmth < COLD {
                *warmth = 0.0;
            }
            let (chunk, home) = (self.activity.chunks.id(number), self.activity.pool_of(number));
            if *warmth > 0.0 || home != slowest {
                ranked.push(Warm { chunk, home, mirror: None, warmth: *warmth });
            }
        }
        self.activity.advance();
        ranked.sort_unstable_by_key(|warm| (!warm.warmth.to_bits(), warm.chunk));
        self.tell_mirrors(&mut ranked, slowest);
        ranked
    }

    fn tell_mirrors(&self, ranked: &mut Vec<Warm>, slowest: PoolId) {
        if self.mirrors.is_empty() {
            return;
        }
        let mut met = vec![false; self.mirrors.len()];
        for warm in ranked.iter_mut() {
            if let Ok(at) = self.mirrors.binary_search_by_key(&warm.chunk, |(chunk, _)| *chunk) {
                warm.mirror = Some(self.mirrors[at].1);
                met[at] = true;
            }
        }
        // Cold ones on the slowest pool: they take room on another all the same.
        let cold = self.mirrors.iter().zip(met).filter(|(_, met)| !met);
        ranked.extend(cold.map(|(&(chunk, other), _)| Warm {
            chunk,
            home: slowest,
            mirror: Some(other),
            warmth: 0.0,
        }));
    }

    /// Bytes of memory in use.
    pub(super) fn bytes(&self) -> u64 {
        let own = self.warmth.capacity() * 4 + self.mirrors.capacity() * 16;
        self.activity.bytes() + own as u64
    }
}

/// Less than this is nothing: some ten epochs after the last access.
const COLD: f32 = 1e-3;
