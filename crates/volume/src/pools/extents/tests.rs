//! Location of the blocks of an area.

use super::{Area, Extents, Run};
use crate::pools::layout::area_offset;
use thermocline_units::Bytes;

const CHUNK: u32 = 64 << 10;
const FIRST: u64 = 1 << 20;

fn extents(slots: &[u32]) -> Extents {
    let mut extents = Extents::default();
    slots.iter().for_each(|&slot| extents.push(slot));
    extents
}

fn area(extents: &Extents) -> Area<'_> {
    let (area, journal_blocks, area_blocks) = (1, 64, 20);
    Area { area, journal_blocks, area_blocks, chunk_size: CHUNK, first_slot: FIRST, extents }
}

#[test]
fn slots_next_to_each_other_are_one_run() {
    let extents = extents(&[7, 8, 3, 4, 5, 9]);
    let runs = [(7, 2), (3, 3), (9, 1)].map(|(first, slots)| Run { first, slots });
    assert_eq!(extents.runs(), runs);
    assert_eq!(extents.slots().collect::<Vec<_>>(), [7, 8, 3, 4, 5, 9]);
    assert_eq!(Extents::of_runs(runs.to_vec()), Some(extents));
}

#[test]
fn runs_that_no_pool_can_have_are_refused() {
    for (first, slots) in [(0, 0), (u32::MAX, 1), (5, u32::MAX)] {
        assert_eq!(Extents::of_runs(vec![Run { first, slots }]), None);
    }
    let huge = Run { first: 0, slots: u32::MAX };
    assert_eq!(Extents::of_runs(vec![huge, huge]), None, "more slots than there are numbers");
}

#[test]
fn an_area_goes_on_in_its_slots_in_their_order() {
    let extents = extents(&[2, 3, 0]);
    let area = area(&extents);
    assert_eq!(area.capacity(), 20 + 3 * 16);
    let slot = |slot: u64, block: u64| Bytes(FIRST + slot * u64::from(CHUNK) + block * 4096);
    let region = |block| area_offset(64, 20, 1, block);
    assert_eq!(area.pieces(0..20), [(region(0), 0..20)]);
    let all = [(region(18), 18..20), (slot(2, 0), 20..52), (slot(0, 0), 52..60)];
    assert_eq!(area.pieces(18..60), all);
    assert_eq!(area.pieces(35..37), [(slot(2, 15), 35..37)], "slots 2 and 3 are neighbours");
    assert_eq!(area.pieces(66..90), [(slot(0, 14), 66..68)], "it ends with the last slot");
}
