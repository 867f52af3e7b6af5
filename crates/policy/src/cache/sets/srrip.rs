//! SRRIP (Jaleel et al., ISCA 2010): predicts how soon a line comes again, in two bits, and keeps
//! no order.
//!
//! 1. A new line is predicted to come again in the long run (2 of 3), a hit line soon (0).
//! 2. The victim is a line of the set with the farthest prediction; all of the set then age by as
//!    much as it lacked to 3. A line that came only once leaves before one that came again, so a
//!    scan does little harm.
//!
//! State: two bits of the slot's byte, so 5 B a cached line in all.

use super::{SetRule, SetSlots, Sets, WAYS, build};
use crate::registry::{Build, Entry};

pub(super) const ENTRY: Entry = Entry {
    name: "srrip",
    summary: "sets of few slots, each line's return predicted in two bits; needs no index",
    source: "Jaleel et al., ISCA 2010",
    settings: &[WAYS],
    build: Build::Cache(|geometry, settings| build(SetRule::Srrip, geometry, settings)),
};

/// The farthest prediction.
pub(super) const FAR: u8 = 3;
/// The prediction for a line that came once.
pub(super) const LONG: u8 = 2;

impl Sets {
    #[inline]
    pub(super) fn srrip_hit(&mut self, slot: u32) {
        self.rate(slot, 0);
    }

    pub(super) fn srrip_is_near(&self, slot: u32) -> bool {
        self.rating(slot) == 0
    }

    /// The slot of a full set whose line leaves; the others have aged.
    pub(super) fn srrip_victim(
        &mut self,
        set: SetSlots,
        may_leave: impl Fn(&Sets, u32) -> bool,
    ) -> Option<u32> {
        let mut victim: Option<(u8, u32)> = None;
        for slot in set {
            let prediction = self.rating(slot);
            let farther = victim.is_none_or(|(farthest, _)| prediction > farthest);
            if farther && may_leave(self, slot) {
                victim = Some((prediction, slot));
            }
        }
        let (prediction, victim) = victim?;
        for slot in set {
            let aged = self.rating(slot).saturating_add(FAR - prediction).min(FAR);
            self.rate(slot, aged);
        }
        Some(victim)
    }
}
