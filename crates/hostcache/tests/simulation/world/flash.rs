//! The device of a host's second level: late, in any order, sometimes wrong.

use super::scene::bytes_of;
use bytes::Bytes;
use std::collections::BTreeMap;
use thermocline_hostcache::{FlashFailed, FlashRequest};
use thermocline_units::Rng;

/// One answer of so many is late, a failure, or wrong.
const LATE: u64 = 3;
const FAILS: u64 = 40;
const WRONG: u64 = 30;

pub(super) struct FlashDisk {
    rng: Rng,
    blocks: BTreeMap<u32, Bytes>,
    asked: Vec<(u64, FlashRequest)>,
    /// Requests after which it fails for good.
    lives_for: u64,
}

impl FlashDisk {
    pub(super) fn new(seed: u64) -> FlashDisk {
        let mut rng = Rng::seeded(seed);
        let lives_for = if rng.below(5) == 0 { rng.below(60) } else { u64::MAX };
        FlashDisk { rng, blocks: BTreeMap::new(), asked: Vec::new(), lives_for }
    }

    pub(super) fn ask(&mut self, number: u64, request: FlashRequest) {
        self.asked.push((number, request));
    }

    /// The agent dies: nobody waits any more, and the blocks stay.
    pub(super) fn crash(&mut self) {
        self.asked.clear();
    }

    /// Answers some requests, in any order; all of them, and rightly, when the faults are over. A
    /// dead device fails to the end.
    pub(super) fn answer(
        &mut self,
        is_mended: bool,
        mut told: impl FnMut(u64, Result<Bytes, FlashFailed>),
    ) {
        let mut left = std::mem::take(&mut self.asked);
        while !left.is_empty() {
            let at = self.rng.below(left.len() as u64) as usize;
            let (number, request) = left.swap_remove(at);
            if !is_mended && self.rng.below(LATE) == 0 {
                self.asked.push((number, request));
                continue;
            }
            self.lives_for = self.lives_for.saturating_sub(1);
            let is_dead = self.lives_for == 0;
            let fails = is_dead || !is_mended && self.rng.below(FAILS) == 0;
            let is_wrong = !is_mended && self.rng.below(WRONG) == 0;
            let result = match request {
                _ if fails => Err(FlashFailed),
                FlashRequest::Write { slot, bytes } => {
                    self.blocks.insert(slot, bytes);
                    Ok(Bytes::new())
                }
                FlashRequest::Read { .. } if is_wrong => Ok(bytes_of(77).into()),
                FlashRequest::Read { slot } => {
                    Ok(self.blocks.get(&slot).cloned().unwrap_or_else(|| bytes_of(77).into()))
                }
            };
            told(number, result);
        }
    }
}
