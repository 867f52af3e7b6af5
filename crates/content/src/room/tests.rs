//! Requests that get room, wait for cleaning, or are refused, without a device.

use super::Room;
use crate::layout::Layout;
use crate::settings::Settings;
use crate::state::{Ask, Effect, Progress, StoreState};
use thermocline_units::Bytes;

const IDLE: Progress = Progress {
    sweeps_done: 0,
    is_sweeping: false,
    is_cleaning: false,
    checkpoints_done: 0,
    is_checkpointing: false,
    checkpoint_holds_commits: false,
};

fn state() -> StoreState {
    let settings = Settings {
        segment: Bytes::from_kib(64),
        journal_blocks: 16,
        fanout: 8,
        known_blocks: 16,
        ..Settings::default()
    };
    let layout = Layout::of_device(20 + 14 * 16, 16, 16).unwrap();
    StoreState::new(settings, layout)
}

fn effects(state: &mut StoreState) -> Vec<Effect> {
    std::iter::from_fn(|| state.next_effect()).collect()
}

fn ask(write: u32, blocks: u32) -> Ask {
    Ask { write, blocks, nodes: 2, is_trim: false }
}

#[test]
fn a_write_that_fits_gets_its_room_at_once_and_its_nodes_are_promised() {
    let (mut room, mut state) = (Room::default(), state());
    room.ask(&mut state, IDLE, ask(7, 3));
    assert!(matches!(effects(&mut state)[..], [Effect::RoomFound(7)]));
    assert!(!room.is_wanted() && state.promised == 2);
}

#[test]
fn a_write_that_never_fits_is_refused_and_the_next_one_is_looked_at() {
    let (mut room, mut state) = (Room::default(), state());
    let capacity = state.segments.capacity() as u32;
    room.ask(&mut state, IDLE, ask(1, capacity + 1));
    room.ask(&mut state, IDLE, ask(2, 1));
    assert!(effects(&mut state).is_empty(), "the second does not overtake the first");
    room.pump(&mut state, IDLE);
    assert!(matches!(effects(&mut state)[..], [Effect::RoomRefused(1), Effect::RoomChanged]));
    room.pump(&mut state, IDLE);
    assert!(matches!(effects(&mut state)[..], [Effect::RoomFound(2), Effect::RoomChanged]));
    assert!(!room.is_wanted() && state.promised == 2, "only the second got nodes");
}

#[test]
fn a_write_waits_while_a_sweep_is_under_way() {
    let (mut room, mut state) = (Room::default(), state());
    let capacity = state.segments.capacity() as u32;
    room.ask(&mut state, IDLE, ask(1, capacity + 1));
    room.pump(&mut state, Progress { is_sweeping: true, ..IDLE });
    assert!(effects(&mut state).is_empty() && room.is_wanted());
}
