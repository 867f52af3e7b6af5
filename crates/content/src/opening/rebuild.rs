//! Rebuilds the state that follows from records and trailers once all are replayed: which segments
//! are open, which places nodes have, how often each block is named.

use crate::blocks::Entry;
use crate::open_error::OpenError;
use crate::segments::State;
use crate::state::StoreState;
use crate::tree::Ref;
use thermocline_units::situations::met;

/// Keeps all blocks that the current superblock names from being overwritten.
pub(super) fn claim_nodes(
    state: &mut StoreState,
    places: impl Iterator<Item = u32>,
) -> Result<(), OpenError> {
    for place in places {
        let segment = state.segments.of(place);
        match state.segments.get(segment).state {
            State::Nodes => {}
            State::Free => state.segments.use_for_nodes(segment),
            _ => return Err(OpenError::Contradiction(place)),
        }
        if !state.segments.claim_node_place(place) {
            return Err(OpenError::Contradiction(place));
        }
    }
    // Those that the replay gave up are noted by the nodes, and free after the checkpoint.
    Ok(())
}

/// Frees open segments without blocks.
pub(super) fn settle_segments(state: &mut StoreState) {
    let StoreState { segments, blocks, .. } = state;
    segments.keep_entries(|place, stored| {
        let entry = blocks.entry(stored.number);
        entry.place == place && entry.generation == stored.generation
    });
}

/// Counts references, and checks that all mapped blocks exist (step 4).
pub(super) fn count_references(state: &mut StoreState, damaged: u32) -> Result<(), OpenError> {
    for place in 0..state.nodes.slots() {
        for &number in state.nodes.leaf_at(place).iter().filter(|&&number| number != 0) {
            if !state.blocks.is_used(number) {
                return Err(OpenError::MissingBlock { number, damaged });
            }
            let change = Ref::Add(number);
            state.ledger.note(&mut state.blocks, change);
        }
    }
    for volume in state.volumes.values() {
        let inside = state.nodes.count_in(volume.root, volume.level, 0, volume.blocks());
        let whole = state.nodes.count_in(volume.root, volume.level, 0, u64::MAX / 2);
        if inside != volume.mapped || whole != inside {
            return Err(OpenError::Record("a map has other blocks than its volume counts"));
        }
    }
    let all = state.layout.segments as usize * state.layout.segment_blocks as usize;
    let mut places: Vec<u64> = vec![0; all.div_ceil(64)];
    let first = state.layout.first_slot(0);
    for number in 1..=state.blocks.top() {
        let entry = state.blocks.entry(number);
        let place = entry.place;
        if place == 0 {
            continue;
        }
        if entry.refs == 0 {
            met("block of no map freed while opening");
            state.blocks.restore(number, Entry::default());
            continue;
        }
        let segment = state.segments.of(place);
        let kind = state.segments.get(segment).state;
        let is_there = matches!(kind, State::Sealed | State::Open);
        let (word, bit) = ((place - first) as usize / 64, 1 << ((place - first) % 64));
        if !is_there || places[word] & bit != 0 {
            return Err(OpenError::Contradiction(place));
        }
        places[word] |= bit;
        state.segments.get_mut(segment).live += 1;
        state.blocks.find_by_hash(number);
    }
    state.blocks.count_free();
    Ok(())
}
