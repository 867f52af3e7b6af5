//! Writes: bytes are sent only of contents that the store does not know by number or hash.

use super::operations::{Asker, Op, Write};
use super::state::ServerState;
use crate::messages::{ToAgent, UNKNOWN, WriteItem};
use crate::store::{Outcome, StoreItem, StoreRequest};
use thermocline_units::Nanos;
use thermocline_units::situations::{met, met_if};

/// Begins a write.
pub(super) fn write(
    state: &mut ServerState,
    asker: Asker,
    place: (u32, u32),
    fua: bool,
    items: Vec<WriteItem>,
) {
    let mut data = Vec::with_capacity(items.len());
    let mut stored = Vec::with_capacity(items.len());
    for item in items {
        let bytes = match &item {
            WriteItem::Data(bytes) => Some(bytes.clone()),
            _ => None,
        };
        data.push(bytes);
        stored.push(match item {
            WriteItem::Zero => StoreItem::Zero,
            WriteItem::Hash(hash) => StoreItem::Hash(hash),
            WriteItem::Id(id) => match state.names.place(id) {
                Some(place) => StoreItem::Number(state.names.number(place)),
                None => StoreItem::Unknown,
            },
            WriteItem::Data(bytes) => {
                let hash = (state.settings.hash_of)(&bytes);
                StoreItem::Data(bytes, hash)
            }
        });
    }
    // The version is the write's from now on: whoever looks later sees it.
    state.version += 1;
    let (volume, block) = place;
    let op = Op::Write(Write { asker, place, fua, version: state.version, data });
    state.begin(op, StoreRequest::Write { volume, block, items: stored });
}

/// The store has written blocks, does not know some contents, or has no room for them.
pub(super) fn written(state: &mut ServerState, now: Nanos, write: Write, outcomes: &[Outcome]) {
    let is_current = state.ended(write.asker);
    let (volume, block) = write.place;
    let keeps = state.settings.protocol.tracker && state.lookup.admission().written;
    let mut ids = Vec::with_capacity(outcomes.len());
    for ((at, outcome), bytes) in (block..).zip(outcomes).zip(&write.data) {
        if matches!(outcome, Outcome::Zero | Outcome::Written(_)) {
            state.memory.forget_block((volume, at));
        }
        let is_unknown = *outcome == Outcome::Unknown;
        met_if(is_unknown && bytes.is_none(), "a write's content was not known");
        ids.push(match outcome {
            Outcome::Unknown => UNKNOWN,
            Outcome::Zero => 0,
            Outcome::Refused(shortage) => {
                met("there was no room for a write");
                state.counts.refused += 1;
                shortage.number()
            }
            Outcome::Written(content) => {
                let id = state.name(*content);
                if keeps && is_current {
                    state.note_holder(write.asker.host, id, true);
                }
                let place = state.place(content.number);
                match bytes {
                    Some(bytes) => state.memory.put(place, (volume, at), bytes),
                    None => state.counts.known_writes += 1,
                }
                id.0
            }
        });
    }
    state.counts.written += write.data.iter().flatten().count() as u64;
    if !is_current {
        return;
    }
    let (request, version) = (write.asker.request, write.version);
    let message = ToAgent::Written { request, version, ids };
    if write.fua {
        let op = Op::Flush { asker: write.asker, written: Some(message) };
        return state.begin(op, StoreRequest::Flush { volume });
    }
    state.say(now, write.asker.host, message);
}
