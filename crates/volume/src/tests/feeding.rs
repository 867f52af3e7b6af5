//! Clients' requests that bring blocks of a chunk to where it is copied.

use super::{Bench, CHUNK};
use crate::{Action, Copying, Operation, OperationKind, RequestId, Settings};
use thermocline_ports::Payload;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

/// A chunk of ones on pool 0, where pieces of so many bytes wait for clients for an hour.
pub(super) fn bench(piece: u64) -> Bench {
    let copying = Copying {
        rate_per_second: None,
        yield_above: Some(0),
        patience: Nanos::from_secs(3_600),
        feeds: true,
        piece: Some(Bytes(piece)),
        ..Copying::pieces_alone()
    };
    let mut bench = Bench::with_settings(&[8, 8], 0, Settings { copying, ..Bench::settings() });
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    bench.write(0, 1, CHUNK as usize);
    bench.flush();
    bench
}

/// Begins to move the chunk to pool 1.
pub(super) fn begin(bench: &mut Bench) {
    let chunk = ChunkId { volume: VolumeId(0), index: 0 };
    let operation = Operation { kind: OperationKind::Migrate, chunk, to: PoolId(1) };
    bench.group.start(bench.now(), operation).expect("accepted");
}

pub(super) fn copied_out(bench: &Bench) -> u64 {
    bench.status(0).counters.copied_out_bytes
}

#[test]
fn what_clients_read_is_not_read_again_to_be_copied() {
    let mut bench = bench(4096);
    for at in (0..CHUNK).step_by(8192) {
        bench.submit(RequestId(1_000 + at), Action::Read { offset: Bytes(at), length: 8192 });
    }
    begin(&mut bench);
    bench.run();
    bench.pass(Nanos::from_secs(1));
    assert_eq!(bench.pools_of(0), [1]);
    let fed = bench.group.moves_fed().0;
    assert!(fed > 0, "nothing was fed");
    assert_eq!(copied_out(&bench) + fed, CHUNK, "each block came once");
    let read = bench.read(0, CHUNK as u32).expect("readable");
    assert!(read.iter().all(|&byte| byte == 1));
    bench.check();
}

#[test]
fn whole_blocks_that_clients_write_are_not_copied_and_parts_of_blocks_are() {
    for (offset, length, blocks) in [(4096, 8192, 2), (5120, 8192, 1), (5120, 2048, 0)] {
        let mut bench = bench(4096);
        bench.submit(RequestId(1_000), Action::Read { offset: Bytes(40_960), length: 512 });
        begin(&mut bench);
        let payload = Payload::from(vec![9; length]);
        bench
            .submit(RequestId(1_001), Action::Write { offset: Bytes(offset), payload, fua: false });
        bench.run();
        bench.pass(Nanos::from_secs(1));
        assert_eq!(bench.pools_of(0), [1]);
        assert_eq!(copied_out(&bench), CHUNK - 4096 * blocks, "{length} bytes at {offset}");
        let read = bench.read(0, CHUNK as u32).expect("readable");
        let is_written = |at: usize| (offset as usize..offset as usize + length).contains(&at);
        let wrong = |(at, &byte): (usize, &u8)| byte != if is_written(at) { 9 } else { 1 };
        assert_eq!(read.iter().enumerate().find(|&pair| wrong(pair)), None);
        bench.check();
    }
}
