//! The root of a checkpoint: what it says, and how much room it may need.

use crate::format::{PAYLOAD_BYTES, Record, VolumeRecord};
use crate::settings::NAME_BYTES_MAX;
use crate::state::StoreState;
use thermocline_units::mutants::mutant;

/// Bytes of a volume's record with the longest name: its kind, four numbers, five counts, its
/// origin, a tag of 16 bytes, the length of the name and the name.
const VOLUME_RECORD_BYTES: u64 = 1 + 4 * 4 + 5 * 8 + 4 + 16 + 1 + NAME_BYTES_MAX as u64;

/// Places that a root may need, at most.
pub(crate) fn root_need(state: &StoreState) -> u32 {
    let slots = u64::from(state.layout.slots());
    let blocks = (state.segments.unsealed.len() as u64 + 3) * (slots * 54 + 20);
    let volumes = (state.volumes.len() as u64 + 1) * VOLUME_RECORD_BYTES;
    let payload = PAYLOAD_BYTES as u64 - VOLUME_RECORD_BYTES;
    (blocks.div_ceil(payload) + volumes.div_ceil(payload)) as u32 + 2
}

/// The records of a root as of now.
pub(crate) fn root_records(state: &StoreState) -> Vec<Record> {
    let mut records = vec![Record::Next {
        volume: state.next_volume,
        generation: state.generation,
        segment: state.segments.next_sequence,
    }];
    for (&id, volume) in &state.volumes {
        records.push(Record::Volume(VolumeRecord {
            id,
            name: volume.name.clone(),
            size: volume.size,
            domain: volume.domain,
            read_only: volume.read_only,
            quotas: volume.quotas,
            mapped: volume.mapped,
            version: volume.version,
            origin: volume.origin,
            tag: volume.tag,
            root: state.nodes.disk(volume.root),
        }));
    }
    for (&segment, unsealed) in &state.segments.unsealed {
        if mutant("root_forgets_open_segments") {
            break;
        }
        let (sequence, class) = (unsealed.sequence, unsealed.class);
        records.push(Record::Open { segment, sequence, class });
        let first = state.layout.first_slot(segment);
        let entries = (first..).zip(&unsealed.entries);
        records.extend(entries.filter_map(|(place, entry)| Some(Record::Block(place, (*entry)?))));
    }
    records
}
