//! Slow copies that stay behind when a placement moves a chunk up.

use super::operations::AllTo;
use super::{Bench, CHUNK, tactics};
use crate::{Action, Copying, OperationKind, Outcome, Settings};
use thermocline_ports::Payload;
use thermocline_units::{Bytes, Nanos, PoolId};

const FAST: u16 = 0;
const SLOW: u16 = 1;

/// Pools of these MiB, with these reserves as far as they go. A placement has moved `chunks` chunks
/// from the second to the first; each holds its number and one.
pub(super) fn risen(mib: &[u64], chunks: u64, reserves: &[u32], settings: Settings) -> Bench {
    let copying = Copying { rate_per_second: None, keeps: true, ..Copying::pieces_alone() };
    let settings = Settings { tactics: tactics(&["slowest-first"]), copying, ..settings };
    let mut bench = Bench::with_reserves(mib, mib.len(), reserves, settings);
    bench.group.create_volume(Nanos(0), Bytes(4096 * CHUNK)).expect("a volume");
    let byte = |chunk: u64| (chunk % 255) as u8 + 1;
    (0..chunks).for_each(|chunk| bench.write(chunk * CHUNK, byte(chunk), CHUNK as usize));
    bench.flush();
    bench.group.set_placement(Some(Box::new(AllTo(PoolId(FAST)))));
    let epoch = bench.settings.epoch;
    bench.pass(Nanos(epoch.0 + 20_000_000_000));
    bench.group.set_placement(None);
    bench
}

fn kept(bench: &Bench) -> u32 {
    bench.status(SLOW).kept
}

fn copied(bench: &Bench) -> u64 {
    [FAST, SLOW].map(|pool| bench.status(pool).counters.copied_out_bytes).iter().sum()
}

fn holds(bench: &mut Bench, chunk: u64, byte: u8) {
    let read = bench.read(chunk * CHUNK, CHUNK as u32).expect("readable");
    assert!(read.iter().all(|&found| found == byte), "chunk {chunk} holds {byte}");
    bench.check();
}

#[test]
fn a_chunk_that_moves_back_to_its_kept_copy_is_not_copied() {
    let mut bench = risen(&[8, 16], 2, &[], Bench::settings());
    assert_eq!((bench.pools_of(0), kept(&bench)), (vec![FAST, SLOW], 2));
    let before = copied(&bench);
    bench.operate(OperationKind::Migrate, 0, SLOW);
    assert_eq!((bench.pools_of(0), kept(&bench)), (vec![SLOW], 1));
    assert_eq!(copied(&bench), before);
    holds(&mut bench, 0, 1);
    bench.flush();
    bench.crash();
    assert_eq!(bench.pools_of(0), [SLOW]);
    holds(&mut bench, 0, 1);
}

#[test]
fn a_write_drops_the_kept_copy_and_goes_to_the_fast_pool_alone() {
    let mut bench = risen(&[8, 16], 2, &[], Bench::settings());
    let written = |bench: &Bench| bench.status(SLOW).counters.written_bytes;
    let before = written(&bench);
    bench.write(4096, 9, 4096);
    assert_eq!((bench.pools_of(0), kept(&bench)), (vec![FAST], 1));
    assert_eq!(written(&bench), before, "clients wrote nothing to the slow pool");
    bench.flush();
    bench.crash();
    let read = bench.read(0, CHUNK as u32).expect("readable");
    assert!(read[4096..8192].iter().all(|&byte| byte == 9));
    assert_eq!(bench.pools_of(0), [FAST]);
    bench.check();
}

#[test]
fn after_a_crash_the_fast_copy_alone_counts() {
    let mut bench = risen(&[8, 16], 2, &[], Bench::settings());
    bench.flush();
    bench.crash();
    assert_eq!((bench.pools_of(0), kept(&bench)), (vec![FAST], 0));
    holds(&mut bench, 0, 1);
    holds(&mut bench, 1, 2);
}

#[test]
fn kept_copies_never_keep_a_chunk_out() {
    let mut bench = risen(&[8, 8], 40, &[], Bench::settings());
    assert!(kept(&bench) >= 30, "{}", kept(&bench));
    let mut chunk = 40;
    let written = std::iter::from_fn(|| {
        let payload = Payload::from(vec![7; 4096]);
        let offset = Bytes(chunk * CHUNK);
        chunk += 1;
        let result = bench.ask(Action::Write { offset, payload, fua: false });
        result.ok().map(|_| bench.pass(Nanos(500_000_000)))
    });
    let written = written.count() as u64;
    assert_eq!(kept(&bench), 0, "all of their room was given up");
    let all: u64 = [FAST, SLOW].map(|pool| u64::from(bench.status(pool).slots_total)).iter().sum();
    assert_eq!(40 + written, all, "every slot holds a chunk");
    holds(&mut bench, 0, 1);
}

#[test]
fn an_operation_on_the_chunk_does_without_its_kept_copy() {
    let mut bench = risen(&[8, 16], 2, &[], Bench::settings());
    bench.operate(OperationKind::Redirect, 0, SLOW);
    assert_eq!(bench.pools_of(0), [SLOW]);
    holds(&mut bench, 0, 1);
    bench.operate(OperationKind::Replicate, 1, SLOW);
    assert_eq!((bench.pools_of(1), kept(&bench)), (vec![FAST, SLOW], 0), "it is an ordinary copy");
    holds(&mut bench, 1, 2);
}

#[test]
fn kept_copies_take_nothing_of_the_reserve_for_prefetched_ones() {
    let mut bench = risen(&[8, 16], 2, &[2; 2], Bench::settings());
    bench.write(5 * CHUNK, 7, CHUNK as usize);
    bench.operate(OperationKind::Migrate, 5, FAST);
    assert_eq!(bench.operate(OperationKind::Prefetch, 5, SLOW), Outcome::Done);
    let status = bench.status(SLOW);
    assert_eq!((status.prefetched, status.kept), (1, 2));
    bench.check();
}

#[test]
fn kept_copies_leave_room_for_moves_beside_the_reserve() {
    let mut bench = risen(&[8, 8], 40, &[0, 60], Bench::settings());
    let free = |bench: &Bench| bench.status(SLOW).slots_total - bench.status(SLOW).slots_used;
    assert!(kept(&bench) >= 30 && free(&bench) > 60, "{} free", free(&bench));
    // New chunks take what was free beside the reserve; the last one has no room on the slow pool.
    let mut chunk = 50_u32;
    let last = loop {
        bench.write(u64::from(chunk) * CHUNK, 7, CHUNK as usize);
        if bench.pools_of(chunk) == [FAST] {
            break chunk;
        }
        chunk += 1;
    };
    bench.pass(Nanos(5_000_000_000));
    assert_eq!(bench.operate(OperationKind::Migrate, last, SLOW), Outcome::Done);
    holds(&mut bench, last.into(), 7);
}
