//! Shadows: rivals of the placement, told what it is told, and asked when it is; nothing that they
//! propose happens. They see the view before the placement decides, so that no move of the epoch
//! that begins is in it.

use crate::group::Group;
use thermocline_policy::placement::shadow::{ShadowError, Shadows};
use thermocline_policy::placement::{Placement, Unreadable};
use thermocline_units::{ChunkId, Nanos};

impl Group {
    /// Lets a placement begin as a shadow: see [`Shadows::begin`]. Epochs pass from now on, also
    /// when nobody decides.
    ///
    /// # Errors
    /// See [`Shadows::begin`].
    pub fn begin_shadow(
        &mut self,
        now: Nanos,
        rival: (&str, Box<dyn Placement>),
        one_in: Option<u32>,
    ) -> Result<(), ShadowError> {
        let mattered = self.epochs_matter();
        let mut shadows = std::mem::take(&mut self.epochs.shadows);
        let begun = shadows.begin(now, &self.view(), rival, one_in);
        self.epochs.shadows = shadows;
        begun?;
        if !mattered {
            self.housekeeping.begin_epoch(now, self.core.settings.epoch);
        }
        Ok(())
    }

    /// Ends a shadow: see [`Shadows::end`].
    pub fn end_shadow(&mut self, name: &str) -> Option<Box<dyn Placement>> {
        self.epochs.shadows.end(name)
    }

    /// The shadows.
    pub fn shadows(&self) -> &Shadows {
        &self.epochs.shadows
    }

    /// Reasons for a chunk's place, in the words of the placement (see [`Placement::explain`]);
    /// `None` when nobody decides.
    pub fn explain(&self, chunk: ChunkId) -> Option<Vec<String>> {
        Some(self.epochs.placement.as_ref()?.explain(chunk))
    }

    /// All that the placement has learnt (see [`Placement::learnt`]), and its name with all its
    /// settings.
    pub fn learnt(&self) -> Option<(&str, Vec<u8>)> {
        Some((&self.epochs.placement_name, self.epochs.placement.as_ref()?.learnt()?))
    }

    /// Lets the placement go on from what one of the same name had learnt.
    ///
    /// # Errors
    /// When nobody decides, or the bytes are not its own.
    pub fn learn_from(&mut self, learnt: &[u8]) -> Result<(), Unreadable> {
        let map = &self.core.map;
        let placement = self.epochs.placement.as_mut().ok_or(Unreadable)?;
        placement.learn_from(learnt, &|chunk| map.has(chunk))
    }

    /// True if somebody is asked at an epoch's end.
    pub(crate) fn epochs_matter(&self) -> bool {
        self.epochs.placement.is_some()
            || !self.epochs.shadows.is_empty()
            || !self.hints().is_empty()
    }

    pub(crate) fn end_epoch_of_shadows(&mut self, now: Nanos) {
        let mut shadows = std::mem::take(&mut self.epochs.shadows);
        shadows.end_epoch(now, &self.view(), self.core.settings.copying.rate_per_second);
        self.epochs.shadows = shadows;
    }
}
