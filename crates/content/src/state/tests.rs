//! The order in which effects are carried out, and what parts want.

use super::{Effect, Mode, StoreState, Wants};
use crate::layout::Layout;
use crate::settings::Settings;

#[test]
fn what_is_wanted_of_a_checkpoint_is_the_stronger_of_two() {
    let mut wants = Wants::default();
    wants.checkpoint(Mode::Instead);
    wants.checkpoint(Mode::Beside);
    assert_eq!(wants.checkpoint, Some(Mode::Instead));
}

#[test]
fn what_an_effect_leaves_comes_before_the_effects_behind_it() {
    let layout = Layout::of_device(20 + 14 * 16, 16, 16).unwrap();
    let mut state = StoreState::new(Settings::default(), layout);
    [1, 2].into_iter().for_each(|write| state.emit(Effect::Unlocked(write)));
    assert!(matches!(state.next_effect(), Some(Effect::Unlocked(1))));
    [3, 4].into_iter().for_each(|write| state.emit(Effect::Arrived(write)));
    let rest: Vec<Effect> = std::iter::from_fn(|| state.next_effect()).collect();
    let order = [Effect::Arrived(3), Effect::Arrived(4), Effect::Unlocked(2)];
    assert_eq!(format!("{rest:?}"), format!("{order:?}"));
}
