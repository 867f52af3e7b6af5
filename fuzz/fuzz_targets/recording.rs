//! Recordings: any bytes are events and a trace, or an error; and any records replay under any
//! placement, or are an error.
//!
//! An odd first byte: the rest is a file. An even one: the rest are records, put into a block whose
//! checksums are right, behind the head of a recording and the name of a placement, which the byte
//! chooses.
#![no_main]

use std::io::Cursor;
use thermocline_policy::registry::{PolicySpec, entries};
use thermocline_recording::Replay;
use thermocline_trace::Format;
use thermocline_trace::recording::{Encoder, EventReader, Packer};
use thermocline_units::{Bytes, Nanos};

/// Epochs after which a recording is believed to be sound.
const EPOCHS_MAX: usize = 64;

fn with_records(choice: u8, records: &[u8]) -> Vec<u8> {
    let specs = entries().map(|entry| PolicySpec::parse(entry.name).expect("it is an entry"));
    let placements: Vec<PolicySpec> = specs.filter(|spec| spec.is_placement()).collect();
    let placement = &placements[usize::from(choice) % placements.len()];
    let mut encoder = Encoder::new(Bytes::from_mib(1), &[]);
    encoder.placed(Nanos(0), &placement.spelled_out());
    encoder.epoch_ended();
    let mut packer = Packer::default();
    let mut file = packer.head();
    while let Some(mut block) = encoder.take_block() {
        // An epoch's end closes the block; here no epoch ends.
        if block.last() == Some(&12) {
            block.pop();
            block.extend_from_slice(records);
        }
        file.extend(packer.pack(&block));
    }
    file
}

fn replay(file: Vec<u8>) {
    let Ok(events) = EventReader::open(Box::new(Cursor::new(file)), "input") else { return };
    let mut replay = Replay::new(events, None).expect("no rival is wrong");
    for _ in 0..EPOCHS_MAX {
        if !matches!(replay.next_epoch(), Ok(Some(_))) {
            return;
        }
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let file = if first & 1 == 1 { rest.to_vec() } else { with_records(first >> 1, rest) };
    thermocline_fuzz::read(Some(Format::Recording), &file);
    replay(file);
});
