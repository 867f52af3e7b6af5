//! Requests of clients, without faults.

use super::{Bench, CHUNK};
use crate::{Action, Limits, Priority, Request, RequestError, RequestId, Settings};
use thermocline_ports::Payload;
use thermocline_units::{Bytes, Nanos, VolumeId};

fn bench() -> Bench {
    let mut bench = Bench::new(&[4, 8]);
    bench.group.create_volume(Nanos(0), Bytes(10 * CHUNK + 512)).expect("a volume");
    bench
}

#[test]
fn never_written_ranges_read_as_zeroes_without_device_requests() {
    let mut bench = bench();
    let before: Vec<u64> = bench.disks.iter().map(|disk| disk.submitted()).collect();
    assert_eq!(bench.read(0, 3 * CHUNK as u32), Ok(vec![0; 3 * CHUNK as usize]));
    assert_eq!(before, bench.disks.iter().map(|disk| disk.submitted()).collect::<Vec<_>>());
}

#[test]
fn a_write_across_chunks_is_read_back_and_its_neighbourhood_is_zero() {
    let mut bench = bench();
    bench.write(CHUNK - 512, 7, CHUNK as usize + 1024);
    let read = bench.read(CHUNK - 1024, CHUNK as u32 + 2048).expect("readable");
    assert!(read[..512].iter().all(|&byte| byte == 0));
    assert!(read[512..512 + CHUNK as usize + 1024].iter().all(|&byte| byte == 7));
    assert!(read[512 + CHUNK as usize + 1024..].iter().all(|&byte| byte == 0));
    bench.check();
}

#[test]
fn what_was_flushed_survives_a_crash_and_what_was_not_is_old() {
    let mut bench = bench();
    bench.write(0, 1, 4096);
    bench.flush();
    bench.write(0, 2, 512);
    bench.write(5 * CHUNK, 3, 4096);
    bench.crash();
    assert_eq!(bench.read(0, 4096), Ok(vec![1; 4096]));
    assert_eq!(bench.read(5 * CHUNK, 4096), Ok(vec![0; 4096]));
}

#[test]
fn a_forced_write_to_a_new_chunk_survives_a_crash() {
    let mut bench = bench();
    let payload = Payload::from(vec![9; 1024]);
    bench.ask(Action::Write { offset: Bytes(512), payload, fua: true }).expect("written");
    bench.crash();
    let read = bench.read(0, 2048).expect("readable");
    assert_eq!((read[511], read[512], read[1535], read[1536]), (0, 9, 9, 0));
}

#[test]
fn a_discarded_chunk_frees_its_slot_and_reads_as_zeroes_after_a_crash() {
    let mut bench = bench();
    bench.write(0, 1, 2 * CHUNK as usize);
    bench.flush();
    bench.ask(Action::Discard { offset: Bytes(0), length: Bytes(CHUNK) }).expect("discarded");
    bench.flush();
    bench.crash();
    assert_eq!(bench.read(0, 512), Ok(vec![0; 512]));
    assert_eq!(bench.read(CHUNK, 512), Ok(vec![1; 512]));
    assert!(bench.pools_of(0).is_empty());
    bench.write(0, 4, 512);
    assert_eq!(bench.read(512, 512), Ok(vec![0; 512]), "the slot held other bytes");
}

#[test]
fn ranges_outside_the_volume_and_odd_ones_are_refused() {
    let mut bench = bench();
    assert_eq!(bench.read(10 * CHUNK, 1024), Err(RequestError::BadRange));
    assert_eq!(bench.read(1, 512), Err(RequestError::BadRange));
    assert_eq!(bench.read(0, 0), Err(RequestError::BadRange));
    let other = bench.ask_of(VolumeId(3), Action::Flush);
    assert_eq!(other, Err(RequestError::NoVolume));
}

#[test]
fn a_full_group_says_so_and_takes_writes_again_after_a_discard() {
    let mut bench = Bench::new(&[2, 3]);
    bench.group.create_volume(Nanos(0), Bytes(1000 * CHUNK)).expect("a volume");
    let payload = Payload::from(vec![1; 512]);
    let write = |chunk: u64| Action::Write {
        offset: Bytes(chunk * CHUNK),
        payload: payload.clone(),
        fua: false,
    };
    let full = (0..1000).find(|&chunk| bench.ask(write(chunk)) == Err(RequestError::NoSpace));
    let full = full.expect("the pools hold fewer than 1000 chunks");
    bench.ask(Action::Discard { offset: Bytes(0), length: Bytes(CHUNK) }).expect("discarded");
    assert!(bench.ask(write(full)).is_ok(), "the discarded chunk's slot is free after a commit");
    bench.check();
}

#[test]
fn many_commits_wrap_the_journal_ring_and_all_of_them_survive() {
    let mut bench = bench();
    for round in 0..300_u64 {
        let chunk = round % 10;
        if round >= 10 {
            let discard = Action::Discard { offset: Bytes(chunk * CHUNK), length: Bytes(CHUNK) };
            bench.ask(discard).expect("discarded");
        }
        bench.write(chunk * CHUNK, round as u8, 512);
        bench.flush();
        if round % 37 == 0 {
            bench.crash();
        }
    }
    for chunk in 0..10 {
        let expected = vec![(290 + chunk) as u8; 512];
        assert_eq!(bench.read(chunk * CHUNK, 512), Ok(expected));
    }
    bench.check();
}

/// First writes to more chunks than the journal has room for records of, while the slots of all of
/// them are being zeroed: those that came last asked for room in an empty journal for ever (seed
/// 0x327).
#[test]
fn first_writes_wait_for_the_slots_that_are_being_made_ready_before_them() {
    const WRITES: u64 = 200;
    let limits = Limits { block_payload: 128, record: 64, volumes: 4, ..Limits::REAL };
    let settings = Settings { depth: 256, limits, ..Bench::settings() };
    let mut bench = Bench::with_settings(&[32], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(WRITES * CHUNK)).expect("a volume");
    for chunk in 0..WRITES {
        let payload = Payload::from(vec![1; 512]);
        let action = Action::Write { offset: Bytes(chunk * CHUNK), payload, fua: false };
        let id = RequestId(1_000 + chunk);
        let volume = VolumeId(0);
        let request = Request { id, volume, action, priority: Priority::Foreground };
        bench.group.submit(Nanos(0), request).expect("taken");
    }
    bench.run_discards_last();
    for chunk in 0..WRITES {
        assert_eq!(bench.read(chunk * CHUNK, 512), Ok(vec![1; 512]), "chunk {chunk}");
    }
    bench.check();
}
