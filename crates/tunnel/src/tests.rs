//! One flow's two halves against each other, with stores that lose, differ and rot.

use crate::classes::{CLASSES_MAX, Classes};
use crate::decoder::{Decoder, WAITING_BYTES_MAX};
use crate::encoder::{Encoded, Encoder, Limits};
use crate::format::FormatError;
use crate::shared::Shared;
use proptest::prelude::*;
use thermocline_chunking::Chunking;
use thermocline_units::{Bytes, Nanos, Rng};

/// A sender, a receiver and what lies between them, for one flow.
struct Pair {
    sender: Shared,
    receiver: Shared,
    encoder: Encoder,
    decoder: Decoder,
    sent: Encoded,
    got: Vec<u8>,
    /// Bytes of segments, as they went.
    wire: Vec<u8>,
    asked: usize,
}

impl Pair {
    fn new(sender: Bytes, receiver: Bytes, chunking: &str) -> Pair {
        let chunking: Chunking = chunking.parse().unwrap();
        Pair {
            sender: Shared::new(sender, 1),
            receiver: Shared::new(receiver, 2),
            encoder: Encoder::new(Limits::default(), 0, chunking),
            decoder: Decoder::new(0),
            sent: Encoded::default(),
            got: Vec::new(),
            wire: Vec::new(),
            asked: 0,
        }
    }

    /// The next flow through the same stores.
    fn next_flow(&mut self) {
        let chunking = self.encoder.chunking();
        self.encoder = Encoder::new(Limits::default(), 0, chunking);
        self.decoder = Decoder::new(0);
        self.got.clear();
    }

    /// Sends what waits, in pieces drawn from `rng`; answers what is missing.
    fn carry(&mut self, rng: &mut Rng) -> Result<(), FormatError> {
        self.encoder.cut();
        while let Some((parts, encoded)) = self.encoder.next_segment(&mut self.sender) {
            let length: usize = parts.iter().map(bytes::Bytes::len).sum();
            assert_eq!(encoded.sent, length as u64);
            self.sent.add(&encoded);
            let segment = parts.concat();
            let mut rest = &segment[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(1 + rng.below(rest.len() as u64) as usize);
                self.decoder.push(now, WAITING_BYTES_MAX, &mut self.receiver)?;
                self.settle()?;
                rest = later;
            }
            self.wire.extend(segment);
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), FormatError> {
        loop {
            let missing = self.decoder.take_missing();
            for missing in &missing {
                self.asked += missing.tokens.len();
                for (token, bytes) in self.encoder.missing(missing.segment, &missing.tokens)? {
                    self.decoder.fill(missing.segment, token, &bytes, &mut self.receiver)?;
                }
            }
            let mut taken = 0;
            while let Some(bytes) = self.decoder.next_bytes() {
                taken += bytes.len();
                self.got.extend_from_slice(&bytes);
            }
            self.decoder.taken(taken, WAITING_BYTES_MAX, &mut self.receiver)?;
            self.encoder.complete(self.decoder.complete())?;
            if missing.is_empty() && taken == 0 {
                return Ok(());
            }
        }
    }
}

/// Text-like content that repeats itself with changes.
fn content(rng: &mut Rng, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::with_capacity(length);
    while bytes.len() < length {
        let run = 1 + rng.below(6000) as usize;
        if bytes.len() > 100 && rng.below(3) > 0 {
            let from = rng.below(bytes.len() as u64) as usize;
            let to = (from + run).min(bytes.len());
            bytes.extend_from_within(from..to);
        } else if rng.below(4) == 0 {
            bytes.resize(bytes.len() + run, 0);
        } else {
            bytes.extend((0..run).map(|_| rng.next_u64() as u8));
        }
    }
    bytes.truncate(length);
    bytes
}

const CHUNKINGS: [&str; 5] = ["none", "fixed:512B", "gear:256B", "rabin16:2KiB", "maxp"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_arrives_whatever_the_stores_do(
        seed: u64,
        chunking in prop::sample::select(CHUNKINGS.to_vec()),
        other in prop::sample::select(CHUNKINGS.to_vec()),
        sender_kib in prop::sample::select(vec![1_u64, 64, 4096]),
        receiver_kib in prop::sample::select(vec![1_u64, 64, 4096]),
    ) {
        let mut rng = Rng::seeded(seed);
        let (sender, receiver) = (Bytes::from_kib(sender_kib), Bytes::from_kib(receiver_kib));
        let mut pair = Pair::new(sender, receiver, chunking);
        let data = content(&mut rng, 300_000);
        for _ in 0..3 {
            let mut rest = &data[rng.below(1000) as usize..];
            let all = rest;
            while !rest.is_empty() {
                let most = 1 + rng.below(rest.len().min(90_000) as u64) as usize;
                let (now, later) = rest.split_at(most);
                pair.encoder.push(now);
                match rng.below(6) {
                    0 => pair.encoder.flush(),
                    1 => pair.encoder.set_chunking(other.parse().unwrap()),
                    2 if rng.below(3) == 0 => pair.receiver = Shared::new(receiver, 3),
                    3 => pair.receiver.store.spoil(&mut rng),
                    _ => {}
                }
                pair.carry(&mut rng).unwrap();
                prop_assert!(pair.encoder.is_full() || pair.encoder.pending() < 600_000);
                rest = later;
            }
            pair.encoder.flush();
            pair.carry(&mut rng).unwrap();
            prop_assert!(pair.got == all, "{} of {} bytes", pair.got.len(), all.len());
            prop_assert!(pair.decoder.is_done());
            prop_assert_eq!(pair.encoder.room(), Limits::default().retained_bytes_max);
            pair.next_flow();
        }
    }

    /// Bytes that were changed or cut on their way give an error or the very bytes; nothing panics.
    #[test]
    fn changed_segments_are_refused(seed: u64, chunking in prop::sample::select(CHUNKINGS.to_vec())) {
        let mut rng = Rng::seeded(seed);
        let store = Bytes::from_mib(1);
        let mut pair = Pair::new(store, store, chunking);
        let data = content(&mut rng, 3000);
        for _ in 0..2 {
            pair.encoder.push(&data);
            pair.encoder.flush();
            pair.carry(&mut rng).unwrap();
        }
        for at in 0..pair.wire.len() {
            let mut changed = pair.wire.clone();
            changed[at] ^= 1 << rng.below(8);
            let (mut decoder, mut shared) = (Decoder::new(0), Shared::new(store, 5));
            if decoder.push(&changed, WAITING_BYTES_MAX, &mut shared).is_err() {
                continue;
            }
            let mut got = Vec::new();
            while let Some(bytes) = decoder.next_bytes() {
                got.extend_from_slice(&bytes);
            }
            // What is handed out is the beginning of what was sent; the rest waits for fills.
            let whole = [&data[..], &data[..]].concat();
            prop_assert!(whole.starts_with(&got), "byte {at} changed unseen");
        }
        for length in 0..pair.wire.len() {
            let (mut decoder, mut shared) = (Decoder::new(0), Shared::new(store, 5));
            decoder.push(&pair.wire[..length], WAITING_BYTES_MAX, &mut shared).unwrap();
            while decoder.next_bytes().is_some() {}
            prop_assert!(decoder.is_done() || decoder.is_broken_off() || !decoder.missing_is_empty());
        }
    }
}

#[test]
fn the_second_time_costs_next_to_nothing() {
    let mut rng = Rng::seeded(1);
    let mut pair = Pair::new(Bytes::from_mib(64), Bytes::from_mib(64), "rabin16:2KiB");
    let data: Vec<u8> = (0..4 << 20).map(|_| rng.next_u64() as u8).collect();
    let mut sent = [0; 2];
    for sent in &mut sent {
        let before = pair.sent.sent;
        for piece in data.chunks(1 << 20) {
            pair.encoder.push(piece);
            pair.carry(&mut rng).unwrap();
        }
        pair.encoder.flush();
        pair.carry(&mut rng).unwrap();
        assert!(pair.got == data);
        *sent = pair.sent.sent - before;
        pair.next_flow();
    }
    let [first, second] = sent.map(|sent| sent as f64 / data.len() as f64);
    assert!((1.0..1.004).contains(&first), "{first}");
    // Four bytes a chunk of 2 KiB.
    assert!(second < 0.003, "{second}");
    assert_eq!(pair.asked, 0);
}

#[test]
fn text_is_compressed_and_noise_is_not_tried_for_long() {
    let mut rng = Rng::seeded(2);
    let mut pair = Pair::new(Bytes::from_mib(64), Bytes::from_mib(64), "rabin16:2KiB");
    let text: Vec<u8> = (0..1 << 20).map(|_| b"abcdefgh"[rng.below(8) as usize]).collect();
    pair.encoder.push(&text);
    pair.encoder.flush();
    pair.carry(&mut rng).unwrap();
    assert!(pair.got == text);
    assert!(pair.sent.sent < text.len() as u64 / 2, "{} bytes", pair.sent.sent);
}

#[test]
fn a_small_frame_cannot_stand_for_more_than_its_segment() {
    // Half a megabyte of zeroes in a frame, told to be a hundred bytes.
    let frame = zstd::bulk::compress(&vec![0; 500_000], 1).unwrap();
    assert!(frame.len() < 100);
    let mut segment = Vec::new();
    for field in [100_u32, 2, frame.len() as u32, 0] {
        segment.extend(field.to_le_bytes());
    }
    segment.extend([1, 0, 1, 0]);
    crate::format::put_varint(100 << 2 | 3, &mut segment);
    segment.extend(&frame);
    let (mut decoder, mut shared) = (Decoder::new(0), Shared::new(Bytes::from_mib(1), 0));
    let error = decoder.push(&segment, WAITING_BYTES_MAX, &mut shared).unwrap_err();
    assert_eq!(error, FormatError::Literals { stored: frame.len(), expected: 100 });
}

#[test]
fn a_sender_waits_while_the_other_end_has_not_got_what_it_may_ask_for() {
    let mut rng = Rng::seeded(3);
    let mut pair = Pair::new(Bytes::from_mib(64), Bytes::from_mib(64), "rabin16:2KiB");
    let data = content(&mut rng, 1 << 20);
    pair.encoder.push(&data);
    pair.encoder.flush();
    pair.carry(&mut rng).unwrap();
    pair.next_flow();
    while pair.encoder.room() >= data.len() {
        pair.encoder.push(&data);
        pair.encoder.flush();
        pair.encoder.cut();
        while pair.encoder.next_segment(&mut pair.sender).is_some() {}
    }
    let segments = Limits::default().retained_bytes_max - pair.encoder.room();
    assert!(segments > 15 << 20, "{segments} bytes are retained");
    assert!(pair.encoder.complete(u64::MAX).is_err(), "segments that were never sent");
    pair.encoder.complete(5).unwrap();
    assert!(pair.encoder.missing(2, &[0]).is_err(), "it is complete");
}

#[test]
fn what_no_segment_has_yet_is_bounded_for_each_flow() {
    let mut pair = Pair::new(Bytes::from_mib(1), Bytes::from_mib(1), "gear:2KiB");
    let piece = vec![7; 64 << 10];
    let mut given = 0;
    while pair.encoder.room_at_once() >= piece.len() {
        pair.encoder.push(&piece);
        given += piece.len();
        assert!(given < 4 << 20, "nothing takes segments, and {given} bytes are kept");
    }
    assert!(given >= 128 << 10, "a segment fits: {given}");
}

#[test]
fn no_more_classes_than_are_told_apart() {
    let mut classes = Classes::new("goodput").unwrap();
    for port in 1..=1000 {
        let class = classes.admit(port);
        classes.choose(Nanos(0), class);
        assert!(class == port || class == 0);
    }
    assert_eq!(classes.reports().count(), CLASSES_MAX + 1, "the last one is of all others");
    assert_eq!(classes.admit(5), 5, "who has one keeps it");
}
