//! Checksums of quiet chunks.

use super::{Bench, CHUNK};
use crate::{OperationKind, Outcome, RequestError, Settings};
use thermocline_ports::Device;
use thermocline_units::{Bytes, Nanos};

/// One sealed chunk of ones on the first pool.
fn sealed() -> Bench {
    let settings = Settings { checksums: true, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.flush();
    bench.pass(Nanos::from_secs(60));
    assert_eq!(bench.group.seal_status().sealed, 1);
    bench
}

/// Flips a bit of the chunk's contents on a disk.
fn rot(bench: &mut Bench, disk: usize) {
    let size = bench.disks[disk].geometry().size.0;
    let slots = (0..size / 4096 - 15).map(|at| Bytes(at * 4096));
    let ones = |at: &Bytes| {
        let found = bench.disks[disk].peek(*at, CHUNK as u32).expect("readable").to_vec();
        found.iter().all(|&byte| byte == 1)
    };
    let slot = slots.filter(|at| at.0 + CHUNK <= size).find(ones).expect("the copy is there");
    bench.disks[disk].flip_bit(Bytes(slot.0 + 8192), 0);
}

#[test]
fn rot_in_a_sealed_chunk_is_an_error_and_never_data() {
    let mut bench = sealed();
    rot(&mut bench, 0);
    assert_eq!(bench.read(0, 512), Ok(vec![1; 512]), "another block is well");
    assert_eq!(bench.read(8192 + 512, 512), Err(RequestError::Io));
    bench.check();
}

#[test]
fn rot_on_one_of_two_copies_is_healed_from_the_other() {
    let mut bench = sealed();
    assert_eq!(bench.operate(OperationKind::Replicate, 0, 1), Outcome::Done);
    bench.pass(Nanos::from_secs(60));
    assert_eq!(bench.group.seal_status().sealed, 2, "sealed again after the move");
    rot(&mut bench, 0);
    bench.group.scrub(Nanos(0));
    bench.pass(Nanos::from_secs(10));
    assert_eq!(bench.group.scrub_status().differing, 1);
    assert_eq!(bench.read(0, CHUNK as u32), Ok(vec![1; CHUNK as usize]));
    bench.check();
}

#[test]
fn an_operation_does_not_carry_rot_along() {
    let mut bench = sealed();
    rot(&mut bench, 0);
    assert_eq!(bench.operate(OperationKind::Migrate, 0, 1), Outcome::Failed);
    assert_eq!(bench.pools_of(0), [0]);
    bench.check();
}

#[test]
fn a_write_breaks_the_seal_durably_before_it_happens() {
    let mut bench = sealed();
    bench.write(4096, 2, 512);
    bench.crash();
    // The crash lost the write, or kept it: either way nothing is taken for rot.
    assert!(bench.read(0, CHUNK as u32).is_ok());
    bench.write(4096, 3, 512);
    bench.pass(Nanos::from_secs(60));
    bench.flush();
    bench.crash();
    let read = bench.read(0, CHUNK as u32).expect("sealed anew");
    assert_eq!((read[4096], read[4608]), (3, 1));
}
