//! Tasks in their order, each request filed once, and who ends a run.

use super::{Session, Step, Worker};
use crate::machine::{MachineOptions, parse_pools};
use std::cell::RefCell;
use std::path::Path;
use thermocline_policy::hints::Facts;
use thermocline_units::{Bytes, Nanos};

const SECOND: u64 = 1_000_000_000;

fn session(thick: bool) -> Session {
    let text = "[[pool]]\nprofile = \"scm\"\nsize = \"64MiB\"\n\
                [[pool]]\nname = \"b\"\nprofile = \"ssd-sata\"\nsize = \"256MiB\"\n";
    let pools = parse_pools(text, Path::new("p.toml")).unwrap();
    let size = Bytes::from_mib(256);
    Session::new(&pools, &MachineOptions::default(), size, thick, None).unwrap()
}

fn worker<'a>(steps: Vec<Step>, depth: u32) -> Worker<'a> {
    let mut steps = steps.into_iter();
    Worker { task: Box::new(move |_| steps.next()), depth, crew: 0, patience: None, counts: true }
}

#[test]
fn every_request_is_filed_once_under_its_crew() {
    let mut session = session(true);
    let reads = (0..50).map(|at| Step::Read(at << 20, 4096)).collect();
    let mut writes: Vec<Step> = (0..30).map(|at| Step::Write(at << 20, 8192)).collect();
    writes.push(Step::Flush);
    let other = Worker { crew: 1, ..worker(writes, 8) };
    let ran = session.run(vec![worker(reads, 4), other]).unwrap();
    assert_eq!((ran.crews[0].reads.count(), ran.crews[0].bytes), (50, 50 * 4096));
    let of_other = &ran.crews[1];
    assert_eq!((of_other.writes.count(), of_other.flushes.count()), (30, 1));
    let read: u64 = ran.pools.iter().map(|pool| pool.read_bytes).sum();
    assert_eq!(read, 50 * 4096);
    assert!(ran.took > Nanos(0) && ran.crews[0].mean_s() > 0.0);
}

#[test]
fn a_flush_and_a_pause_wait_for_what_was_asked_before() {
    let mut session = session(true);
    let until = Nanos(session.now().0 + 3 * SECOND);
    let times = RefCell::new(Vec::new());
    let mut steps = vec![
        Step::Write(0, 1 << 20),
        Step::Write(1 << 20, 1 << 20),
        Step::Flush,
        Step::Until(until),
        Step::Read(0, 512),
    ]
    .into_iter();
    let task = Box::new(|now| {
        times.borrow_mut().push(now);
        steps.next()
    });
    let ran = session.run(vec![Worker { task, ..worker(Vec::new(), 4) }]).unwrap();
    let times = times.into_inner();
    assert_eq!(times[0], times[2], "the second write does not wait, nor asking for the flush");
    assert!(times[3] > times[2], "the flush was answered before the next step");
    assert!(times[4] >= until && ran.crews[0].reads.count() == 1);
}

#[test]
fn a_run_ends_with_those_that_count_and_the_others_are_asked_for_no_more() {
    let mut session = session(true);
    let mut asked = 0;
    let endless = Worker {
        task: Box::new(|_| {
            asked += 1;
            Some(Step::Read(7 << 20, 4096))
        }),
        counts: false,
        crew: 1,
        ..worker(Vec::new(), 1)
    };
    let ran = session.run(vec![worker(vec![Step::Read(0, 1 << 20)], 1), endless]).unwrap();
    assert_eq!(ran.crews[1].reads.count(), asked);
    assert!(asked > 0);
}

#[test]
fn what_is_said_decides_where_a_thin_volume_puts_the_first_write() {
    let mut session = session(false);
    let facts = Facts { file_size: Some(Bytes::from_gib(2)), ..Facts::default() };
    let steps = vec![
        Step::Say((0, 1 << 20), Box::new(facts)),
        Step::Write(0, 4096),
        Step::Write(1 << 20, 4096),
        Step::Unsay((0, 1 << 20)),
    ];
    let ran = session.run(vec![worker(steps, 1)]).unwrap();
    let written: Vec<u64> = ran.pools.iter().map(|pool| pool.written_bytes).collect();
    assert_eq!(written, [4096, 4096], "the large file's chunk is on the slower pool");
    assert_eq!(ran.hints.placed, 1);
}

#[test]
fn a_chunk_that_is_discarded_is_placed_anew_when_it_is_written_again() {
    let mut session = session(false);
    let chunk = (0, 1 << 20);
    let large = Facts { file_size: Some(Bytes::from_gib(2)), ..Facts::default() };
    let steps = vec![
        Step::Say(chunk, Box::new(large)),
        Step::Write(0, 4096),
        Step::Unsay(chunk),
        Step::Discard(chunk),
        Step::Flush,
        Step::Write(0, 8192),
    ];
    let ran = session.run(vec![worker(steps, 1)]).unwrap();
    let written: Vec<u64> = ran.pools.iter().map(|pool| pool.written_bytes).collect();
    assert_eq!(written, [8192, 4096]);
}

#[test]
fn a_volume_larger_than_its_pools_is_refused_when_it_is_thick() {
    let text = "[[pool]]\nprofile = \"scm\"\nsize = \"64MiB\"\n";
    let pools = parse_pools(text, Path::new("p.toml")).unwrap();
    let options = MachineOptions::default();
    let made = Session::new(&pools, &options, Bytes::from_mib(65), true, None);
    assert!(made.is_err());
}

#[test]
fn a_replicated_chunk_is_copied_once_and_reads_choose_among_its_copies() {
    let mut session = session(false);
    let writes = (0..8).map(|at| Step::Write(at << 20, 1 << 20)).collect();
    session.run(vec![worker(writes, 1)]).unwrap();
    // Chunk 200 holds nothing; those that are being copied are waited for.
    assert_eq!(session.replicate([0, 1, 2, 3, 200], 1).unwrap(), 4);
    assert_eq!(session.replicate([3, 2, 1, 0], 1).unwrap(), 0, "they are there already");
    session.rest(Nanos(60 * SECOND));
    assert_eq!(session.copied_bytes(), 4 << 20);
    let reads = (0..2000).map(|at| Step::Read((at % 64) << 16, 65536)).collect();
    let ran = session.run(vec![worker(reads, 256)]).unwrap();
    let served: Vec<u64> = ran.pools.iter().map(|pool| pool.read_bytes).collect();
    assert!(served.iter().all(|&bytes| bytes > 0), "both pools serve them: {served:?}");
    assert!(session.replicate([0], 7).is_err(), "there is no such pool");
}
