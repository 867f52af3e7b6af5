//! Order on a chunk: sub-requests that may start, and those that wait for others or the journal.

use super::{drop_durable, intent_durable, pass_hazards, room_may_be_there};
use crate::group_state::effect::Effect;
use crate::group_state::tests::{
    CHUNK, FAST, SLOW, add_copy, chunk, effects, group, group_with, group_with_checksums, mirror,
    pile_up_records, put, settings, settle,
};
use crate::group_state::{GroupState, tests};
use crate::io::busy_chunk::Verb;
use crate::io::busy_chunk::tests::{begin, come, leave, write};
use crate::journal::Outcome;
use crate::journal::commit::Waiter;
use crate::map::block_checksums::BlockChecksums;
use crate::map::copies::drop_copy;
use crate::map::place::Role;
use crate::moves::active::tests::copying;
use crate::moves::operation::OperationKind;
use crate::settings::Settings;
use std::ops::Range;
use thermocline_policy::migration::Copying;
use thermocline_units::Nanos;

/// A group, its checksums, and sub-requests to its first chunk.
struct Bench {
    group: GroupState,
    checksums: BlockChecksums,
}

impl Bench {
    fn new(group: GroupState) -> Bench {
        Bench { group, checksums: BlockChecksums::default() }
    }

    fn passes(&mut self, sub_request: u32) -> bool {
        pass_hazards(&mut self.group, &mut self.checksums, Nanos(0), sub_request)
    }

    fn read(&mut self, range: Range<u32>) -> u32 {
        come(&mut self.group, chunk(0), range, Verb::Read)
    }

    fn write(&mut self, range: Range<u32>) -> u32 {
        let verb = write(&range);
        come(&mut self.group, chunk(0), range, verb)
    }

    /// A write that is on devices.
    fn running(&mut self, range: Range<u32>) -> u32 {
        let running = self.write(range);
        begin(&mut self.group, running);
        running
    }

    /// Lets the journal do what is wanted of it; who has waited.
    fn settle(&mut self) -> Vec<Waiter> {
        let waiters = |outcome| match outcome {
            Outcome::Durable { waiters, .. } => waiters,
            _ => Vec::new(),
        };
        settle(&mut self.group).into_iter().flat_map(waiters).collect()
    }

    /// True if sub-requests of the chunk are looked at again.
    fn eases(&mut self) -> bool {
        let is_it = |effect: &Effect| matches!(effect, Effect::Eased(eased) if *eased == chunk(0));
        effects(&mut self.group).iter().any(is_it)
    }
}

#[test]
fn a_write_waits_for_one_that_it_overlaps_and_reads_wait_for_none() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), FAST);
    let running = bench.running(512..1024);
    let [read, beside, upon] = [bench.read(0..4096), bench.write(0..512), bench.write(0..1024)];
    assert!(bench.passes(read) && bench.passes(beside) && !bench.passes(upon));
    leave(&mut bench.group, running);
    assert!(bench.passes(upon));
}

#[test]
fn two_writes_into_one_block_of_a_mirror_wait_for_each_other() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), SLOW);
    mirror(&mut bench.group, chunk(0), FAST, 0..0);
    bench.running(512..1024);
    let [same_block, other_block] = [bench.write(1024..1536), bench.write(4096..4608)];
    assert!(!bench.passes(same_block) && bench.passes(other_block));
}

#[test]
fn nobody_overtakes_who_waits() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), FAST);
    let [first, second] = [bench.write(0..512), bench.read(4096..8192)];
    bench.group.busy_chunk_of(chunk(0)).waiting.push_back(first);
    assert!(!bench.passes(second));
    bench.group.busy_chunk_of(chunk(0)).waiting.clear();
    assert!(bench.passes(second));
}

#[test]
fn the_first_write_to_equal_copies_waits_until_the_journal_calls_them_different() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), FAST);
    add_copy(&mut bench.group, chunk(0), SLOW, Role::Wanted);
    let [read, write] = [bench.read(0..512), bench.write(0..512)];
    assert!(bench.passes(read) && !bench.passes(write) && !bench.passes(write));
    assert_eq!(bench.settle(), [Waiter::Intent(chunk(0))], "it is announced once");
    assert!(!bench.passes(write), "nobody was told yet");
    intent_durable(&mut bench.group, &mut bench.checksums, Nanos(0), chunk(0));
    assert!(bench.eases() && bench.group.map.is_called_differing(chunk(0)));
    assert!(bench.passes(write));
}

#[test]
fn the_first_write_to_a_chunk_at_rest_waits_until_its_table_counts_no_more() {
    let mut bench = Bench::new(group_with_checksums());
    put(&mut bench.group, chunk(0), FAST);
    let Bench { group, checksums } = &mut bench;
    checksums.table_is_written(group, chunk(0), &[5; 16], 77, false);
    bench.settle();
    let write = bench.write(0..512);
    assert!(!bench.passes(write));
    assert!(bench.group.map.entry(chunk(0)).has_checksums(), "reads are still verified");
    assert!(bench.settle().contains(&Waiter::Intent(chunk(0))));
    intent_durable(&mut bench.group, &mut bench.checksums, Nanos(0), chunk(0));
    assert!(!bench.group.map.entry(chunk(0)).has_checksums() && bench.passes(write));
}

#[test]
fn a_write_waits_for_the_record_of_a_dropped_copy_and_for_repairs() {
    let mut bench = Bench::new(group());
    put(&mut bench.group, chunk(0), FAST);
    add_copy(&mut bench.group, chunk(0), SLOW, Role::Wanted);
    let [read, write] = [bench.read(0..512), bench.write(0..512)];
    drop_copy(&mut bench.group, &mut bench.checksums, chunk(0), SLOW, false);
    assert!(bench.passes(read) && !bench.passes(write));
    drop_durable(&mut bench.group, chunk(0));
    assert!(bench.eases() && bench.passes(write));
    bench.group.busy_chunk_of(chunk(0)).begin_repair();
    assert!(bench.passes(read) && !bench.passes(write));
}

#[test]
fn what_frees_a_chunk_waits_until_nobody_is_on_it_and_cancels_its_operation() {
    let mut bench = Bench::new(group());
    let source = put(&mut bench.group, chunk(0), SLOW);
    let zero = come(&mut bench.group, chunk(0), 0..CHUNK, Verb::Zero);
    let running = bench.running(0..512);
    assert!(!bench.passes(zero));
    leave(&mut bench.group, running);
    assert!(bench.passes(zero));
    let destination = tests::take_slot(&mut bench.group, FAST);
    let migration = copying(OperationKind::Migrate, chunk(0), source, destination);
    crate::moves::active::tests::begin(&mut bench.group, migration);
    assert!(!bench.passes(zero));
    assert!(bench.group.operations.is_cancelled(crate::OperationId(1)));
}

#[test]
fn a_copy_that_locks_keeps_reads_waiting_and_others_do_not() {
    for (locking, passes) in [(true, false), (false, true)] {
        let copying_settings = Copying { locking, ..Copying::default() };
        let group = group_with(Settings { copying: copying_settings, ..settings() });
        let mut bench = Bench::new(group);
        let source = put(&mut bench.group, chunk(0), SLOW);
        let destination = tests::take_slot(&mut bench.group, FAST);
        let migration = copying(OperationKind::Migrate, chunk(0), source, destination);
        crate::moves::active::tests::begin(&mut bench.group, migration);
        let [read, write] = [bench.read(0..512), bench.write(0..512)];
        assert_eq!([bench.passes(read), bench.passes(write)], [passes, passes]);
    }
}

#[test]
fn who_would_add_to_a_pile_of_records_waits_for_room() {
    let mut bench = Bench::new(group());
    let [read, write] = [bench.read(0..512), bench.write(0..512)];
    pile_up_records(&mut bench.group);
    assert!(bench.passes(read), "it adds nothing");
    assert!(!bench.passes(write) && !bench.passes(write));
    assert_eq!(bench.settle(), [Waiter::Room(chunk(0))], "it waits once");
    room_may_be_there(&mut bench.group, chunk(0));
    assert!(bench.eases() && bench.passes(write));
}
