//! Order of the chunks that are looked at: by a run, for somebody who read wrong contents, or not
//! at all.

use super::{Scrub, is_in_scope};
use crate::below::Below;
use crate::group_state::GroupState;
use crate::group_state::service::Service;
use crate::group_state::tests::{
    CHUNKS, FAR, FAST, SLOW, chunk, group, mirror, pile_up_records, put, sent, take_slot,
};
use crate::map::block_checksums::BlockChecksums;
use crate::moves::active::tests::{begin, copying};
use crate::moves::operation::OperationKind;
use crate::moves::rate_control::CopyThrottle;
use thermocline_ports::Io;
use thermocline_units::{Nanos, PoolId};

/// A scrub over a group whose first chunks are on these pools.
struct Bench {
    group: GroupState,
    scrub: Scrub,
    checksums: BlockChecksums,
    copy_throttle: CopyThrottle,
}

impl Bench {
    fn new(pools: &[PoolId]) -> Bench {
        let mut group = group();
        group.now = Nanos(1_000_000_000); // The throttle begins with nothing.
        (0..).zip(pools).for_each(|(index, &pool)| _ = put(&mut group, chunk(index), pool));
        Bench {
            group,
            scrub: Scrub::default(),
            checksums: BlockChecksums::default(),
            copy_throttle: CopyThrottle::default(),
        }
    }

    fn pump(&mut self) {
        let Bench { group, scrub, checksums, copy_throttle } = self;
        scrub.pump(&mut Below { now: group.now, group, checksums, copy_throttle });
    }

    /// An operation is on the first chunk.
    fn operate(&mut self) -> u32 {
        let source = self.group.map.entry(chunk(0)).first().expect("it is mapped");
        let destination = take_slot(&mut self.group, FAR);
        begin(&mut self.group, copying(OperationKind::Migrate, chunk(0), source, destination))
    }

    fn run(&self) -> (u64, u64, bool) {
        let run = self.scrub.status().run.expect("somebody asked for one");
        (run.passed, run.skipped, run.ended)
    }
}

#[test]
fn a_run_over_chunks_that_hold_nothing_passes_all_of_them_and_ends() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.scrub.status().run, None);
    bench.scrub.begin(&bench.group.map, None);
    assert!(bench.scrub.status().running);
    bench.pump();
    assert_eq!(bench.run(), (CHUNKS.into(), 0, true));
    assert!(!bench.scrub.status().running && sent(&mut bench.group).is_empty());
}

#[test]
fn runs_are_numbered_and_one_is_cancelled_once() {
    let mut bench = Bench::new(&[FAST]);
    assert!(!bench.scrub.cancel(), "there is none");
    bench.scrub.begin(&bench.group.map, None);
    assert_eq!([bench.scrub.cancel(), bench.scrub.cancel()], [true, false]);
    bench.pump();
    assert_eq!(bench.run(), (0, 0, true));
    bench.scrub.begin(&bench.group.map, Some(FAST));
    let run = bench.scrub.status().run.expect("it has begun");
    assert_eq!((run.number, run.pool, run.total), (2, Some(FAST), CHUNKS.into()));
}

#[test]
fn a_run_reads_what_is_on_its_pool_or_all_that_is_not_across_a_network() {
    let mut bench = Bench::new(&[FAST, FAR, SLOW]);
    mirror(&mut bench.group, chunk(2), FAST, 0..1);
    let scope = |pool| -> Vec<u32> {
        (0..4).filter(|&index| is_in_scope(&bench.group, chunk(index), pool)).collect()
    };
    assert_eq!(scope(None), [0, 2]);
    assert_eq!((scope(Some(FAST)), scope(Some(FAR))), (vec![0, 2], vec![1]));
}

#[test]
fn a_run_reads_one_chunk_at_a_time_and_passes_over_those_under_operations() {
    let mut bench = Bench::new(&[SLOW, FAST, SLOW]);
    bench.operate();
    bench.scrub.begin(&bench.group.map, None);
    bench.pump();
    let requests = sent(&mut bench.group);
    assert!(matches!(requests[..], [(FAST, _, Io::Read { .. })]), "{requests:?}");
    assert_eq!(bench.run(), (2, 1, false));
    bench.pump();
    assert!(bench.scrub.is_on_devices() && sent(&mut bench.group).is_empty());
}

#[test]
fn wrong_contents_are_counted_each_time_and_looked_at_once_before_the_run() {
    let mut bench = Bench::new(&[SLOW, FAST]);
    bench.scrub.begin(&bench.group.map, None);
    bench.scrub.mend(chunk(1), 2);
    bench.scrub.mend(chunk(1), 3);
    assert_eq!((bench.scrub.status().checksum_errors, bench.scrub.urgent.len()), (5, 1));
    bench.pump();
    assert!(bench.scrub.current.as_ref().is_some_and(|current| current.is_of(chunk(1))));
    assert_eq!(bench.run().0, 0, "the run goes on behind it");
    bench.scrub.mend(chunk(1), 1);
    assert!(bench.scrub.urgent.is_empty(), "it is being looked at");
}

#[test]
fn a_chunk_that_cannot_be_repaired_is_left_alone_until_it_is_written_or_found_well() {
    let mut scrub = Scrub::default();
    scrub.note_damaged(chunk(0));
    scrub.mend(chunk(0), 1);
    assert!(scrub.urgent.is_empty());
    assert_eq!([scrub.disturb(chunk(0)), scrub.disturb(chunk(0))], [true, false]);
    scrub.mend(chunk(0), 1);
    assert_eq!(scrub.urgent.len(), 1);
    scrub.note_damaged(chunk(1));
    scrub.note_well(chunk(1));
    scrub.mend(chunk(1), 1);
    assert_eq!(scrub.urgent.len(), 2);
}

#[test]
fn wrong_contents_under_an_operation_are_looked_at_when_that_has_ended() {
    let mut bench = Bench::new(&[SLOW]);
    bench.operate();
    bench.scrub.mend(chunk(0), 1);
    bench.pump();
    assert!(!bench.scrub.status().running && !bench.scrub.is_on_devices());
    bench.scrub.operation_ended(chunk(1));
    assert!(bench.scrub.urgent.is_empty());
    bench.scrub.operation_ended(chunk(0));
    bench.scrub.operation_ended(chunk(0));
    assert_eq!(bench.scrub.urgent.len(), 1);
}

#[test]
fn nothing_is_begun_behind_a_pile_of_records_or_out_of_service() {
    let mut bench = Bench::new(&[FAST]);
    bench.scrub.mend(chunk(0), 1);
    pile_up_records(&mut bench.group);
    bench.pump();
    assert!(!bench.scrub.is_on_devices() && bench.scrub.urgent.len() == 1);
    let mut bench = Bench::new(&[FAST]);
    bench.scrub.mend(chunk(0), 1);
    bench.group.service = Service::Closing;
    bench.pump();
    assert!(!bench.scrub.is_on_devices());
    bench.scrub.begin(&bench.group.map, None);
    bench.scrub.stop();
    assert!(!bench.scrub.status().running, "all that waits is forgotten");
}
