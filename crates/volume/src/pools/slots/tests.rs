//! Slots of a pool: taken once, given back clean or not, and grown.

use super::Slots;

fn take_all(slots: &mut Slots) -> Vec<(u32, bool)> {
    std::iter::from_fn(|| slots.take()).collect()
}

#[test]
fn each_slot_is_taken_once_in_order_and_the_last_is_the_end() {
    let mut slots = Slots::new(70, true);
    assert_eq!(take_all(&mut slots), (0..70).map(|slot| (slot, true)).collect::<Vec<_>>());
    assert_eq!((slots.free(), slots.used(), slots.take()), (0, 70, None));
}

#[test]
fn a_slot_is_known_to_read_as_zeroes_until_it_was_used() {
    let mut slots = Slots::new(3, true);
    slots.claim(1);
    slots.give_back(1, false);
    assert_eq!(take_all(&mut slots), [(0, true), (1, false), (2, true)]);
    slots.give_back(2, true);
    slots.give_back(0, false);
    let mut again = take_all(&mut slots);
    again.sort_unstable();
    assert_eq!(again, [(0, false), (2, true)]);
}

#[test]
fn a_pool_that_grows_holds_its_new_slots_back_until_they_are_released() {
    let mut slots = Slots::new(2, false);
    slots.grow(66, 5);
    assert_eq!((slots.total(), slots.free()), (66, 2));
    assert_eq!(take_all(&mut slots), [(0, false), (1, false)]);
    [4, 5, 65].iter().for_each(|&slot| slots.release(slot));
    assert_eq!(take_all(&mut slots), [(4, false), (5, true), (65, true)]);
}
