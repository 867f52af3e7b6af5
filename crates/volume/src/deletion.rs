//! Deleted volumes: their chunks are freed once nothing is under way on them.

use crate::format::Record;
use crate::group_state::GroupState;
use crate::io::leaving::Leaving;
use crate::journal::settling::Settlement;
use crate::map::block_checksums::BlockChecksums;
use thermocline_units::mutants::mutant;
use thermocline_units::{ChunkId, VolumeId};

/// Volumes being deleted, until their last sub-request has ended.
#[derive(Debug, Default)]
pub(crate) struct Deletion {
    dying: Vec<VolumeId>,
}

impl Deletion {
    /// The volume takes no more requests, and goes when those under way have ended.
    pub(crate) fn begin(&mut self, group: &mut GroupState, id: VolumeId) {
        assert!(!self.is_dying(id), "a volume is deleted once");
        group.map.begin_deletion(id);
        // Said now, for the next flush; and once more when the slots are given back.
        if !mutant("deletion_said_late") {
            group.journal.record(&Record::VolumeGone(id));
        }
        group.operations.cancel_volume(id);
        self.dying.push(id);
    }

    /// True if a volume of this number is being deleted.
    pub(crate) fn is_dying(&self, id: VolumeId) -> bool {
        self.dying.contains(&id)
    }

    /// True if volumes wait for their end.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.dying.is_empty()
    }

    /// Frees the chunks of volumes on which nothing is under way any more.
    pub(crate) fn bury_volumes(
        &mut self,
        group: &mut GroupState,
        checksums: &mut BlockChecksums,
        settlement: &mut Settlement,
        leaving: &mut Leaving,
    ) {
        let before = self.dying.len();
        for volume in std::mem::take(&mut self.dying) {
            let busy = group.map.volume(volume).is_some_and(|volume| volume.is_busy());
            if busy {
                self.dying.push(volume);
                continue;
            }
            bury(group, checksums, leaving, volume);
            settlement.forget(volume);
        }
        assert!(self.dying.len() <= before, "burying makes no volume die");
    }
}

/// Takes a volume out of the map, and lets go of its slots.
fn bury(
    group: &mut GroupState,
    checksums: &mut BlockChecksums,
    leaving: &mut Leaving,
    volume: VolumeId,
) {
    let found = group.map.volume(volume).expect("it is deleted, and still there");
    assert!(found.is_deleting() && !found.is_busy(), "nothing is under way on it any more");
    let count = found.chunks();
    let mut left = Vec::new();
    for index in 0..count {
        let chunk = ChunkId { volume, index };
        let state = group.map.state(chunk);
        for copy in &state.copies {
            group.pools[copy.place.pool].uncount_copy(copy.role);
        }
        left.extend(state.copies.iter().map(|copy| copy.place));
        left.extend(state.overlay.iter().map(|(place, _)| *place));
        group.map.set_state(chunk, &Default::default());
        checksums.forget(chunk);
    }
    group.lines.forget_volume(volume);
    group.map.remove_volume(volume);
    assert!(group.map.volume(volume).is_none(), "its number may be given again");
    if mutant("deleted_volume_frees_at_once") {
        group.journal.change(&Record::VolumeGone(volume), ChunkId::default(), &[]);
        let now = group.now;
        left.into_iter().for_each(|place| leaving.free_slot(group, now, place));
        return;
    }
    group.journal.change(&Record::VolumeGone(volume), ChunkId::default(), &left);
    group.journal.want_commit();
}

#[cfg(test)]
mod tests;
