//! Who follows a group's accesses: the placement, its shadows, and an observer.
//!
//! Shadows are rivals of the placement, told what it is told, and asked when it is; nothing that
//! they propose happens. They see the view before the placement decides, so that no move of the
//! epoch that begins is in it.

use crate::group_state::GroupState;
use crate::observer::Observer;
use crate::request::Reply;
use thermocline_policy::hints::store::Hints;
use thermocline_policy::placement::shadow::Shadows;
use thermocline_policy::placement::{ChunkAccess, Placement};
use thermocline_units::Nanos;

/// The placement, and who listens beside it.
#[derive(Default)]
pub(crate) struct Epochs {
    pub(crate) placement: Option<Box<dyn Placement>>,
    pub(crate) placement_name: String,
    pub(crate) shadows: Shadows,
    pub(crate) observer: Option<Box<dyn Observer>>,
    /// Number of the epoch, which begins anew after 65,535.
    pub(crate) number: u16,
}

impl Epochs {
    /// Counts the heat of an access, and tells everybody.
    pub(crate) fn accessed(&mut self, group: &mut GroupState, access: &ChunkAccess) {
        assert!(access.at <= group.now, "nobody hears of what is to come");
        group.map.entry_mut(access.chunk).heat(self.number, access.write);
        if let Some(placement) = &mut self.placement {
            placement.observe(access);
        }
        self.shadows.observe(access);
        if let Some(observer) = &mut self.observer {
            observer.accessed(access);
        }
    }

    /// Tells the observer of an answer to a client.
    pub(crate) fn answered(&mut self, now: Nanos, reply: &Reply) {
        if let Some(observer) = &mut self.observer {
            observer.answered(now, reply.id, reply.result.is_ok());
        }
    }

    /// True if somebody is asked at an epoch's end: the placement, a shadow, or hints.
    pub(crate) fn matter(&self, hints: &Hints) -> bool {
        self.placement.is_some() || !self.shadows.is_empty() || !hints.is_empty()
    }
}
