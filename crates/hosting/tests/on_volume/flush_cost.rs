//! The cost of a FLUSH of a store on a volume, in requests of the disks under the group.

use crate::group_device::{Counts, Fault};
use crate::world::{World, payload_of};
use thermocline_content::{Action, BLOCK};
use thermocline_units::Bytes;

/// Requests of a write and a flush, and of the flush alone.
fn cost(world: &mut World, block: u64, value: u64) -> (Counts, Counts) {
    let (volume, offset) = (world.first_volume(), Bytes(block * u64::from(BLOCK)));
    let before = world.counts();
    let write = Action::Write { volume, offset, data: payload_of(value), fua: false };
    world.ask(write).result.unwrap();
    let written = world.counts();
    world.ask(Action::Flush).result.unwrap();
    (between(before, written), between(written, world.counts()))
}

fn between(from: Counts, to: Counts) -> Counts {
    Counts {
        reads: to.reads - from.reads,
        writes: to.writes - from.writes,
        forced: to.forced - from.forced,
        flushes: to.flushes - from.flushes,
    }
}

#[test]
fn a_flush_costs_the_requests_that_the_documentation_states() {
    let mut world = World::new(1, Fault::None);
    // Chunks of the store's journal and of its first segment get their places.
    for block in 0..8 {
        cost(&mut world, block, block + 1);
    }
    let (new, flush) = cost(&mut world, 20, 30);
    // The block, and the announcement to both pools that its chunk is written again.
    assert_eq!((new.writes, new.forced, new.flushes), (3, 2, 0));
    assert_eq!((flush.writes, flush.forced, flush.flushes), (1, 1, 1));
    let (known, of_known) = cost(&mut world, 21, 30);
    assert_eq!(known, Counts::default(), "nothing is stored, and nothing is asked");
    assert_eq!((of_known.forced, of_known.flushes), (1, 0));
    let before = world.counts();
    world.ask(Action::Flush).result.unwrap();
    assert_eq!(before, world.counts(), "nothing has changed: nothing is asked");
}
