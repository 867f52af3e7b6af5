//! Who follows a group's accesses: the placement, its shadows, and an observer.

use crate::core::Core;
use crate::observer::Observer;
use crate::request::Reply;
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
    pub(crate) fn accessed(&mut self, core: &mut Core, access: &ChunkAccess) {
        core.map.entry_mut(access.chunk).heat(self.number, access.write);
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
}
