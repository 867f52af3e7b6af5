//! Recordings: what is told comes back, in few bytes; what is cut off, damaged or made up is known.

use super::format::{BLOCK_FULL, BLOCK_HEAD, BlockHead, FILE_HEAD, checksum};
use super::{
    Access, Ask, Asked, Encoder, Epoch, Event, EventReader, Homes, Packer, PoolFill, Routed,
    SecondCopy,
};
use crate::TraceError;
use proptest::prelude::*;
use std::io::Cursor;
use thermocline_units::{Bytes, ChunkId, Nanos, PoolId, VolumeId};

const CHUNK: Bytes = Bytes::from_kib(64);

fn chunk(volume: u32, index: u32) -> ChunkId {
    ChunkId { volume: VolumeId(volume), index }
}

fn asked(at: u64, ask: Ask, offset: u64, length: u64) -> Asked {
    let volume = VolumeId(0);
    Asked {
        at: Nanos(at),
        volume,
        ask,
        offset: Bytes(offset),
        length: Bytes(length),
        forced: false,
    }
}

fn tell(encoder: &mut Encoder, event: &Event) {
    match event {
        Event::Placed { at, name } => encoder.placed(*at, name),
        Event::Asked(asked) => _ = encoder.asked(asked),
        Event::Pools { at, place, gone } => encoder.pools(*at, *place, *gone),
        Event::Answered { request, took, done } => encoder.answered(*request, *took, *done),
        Event::Accessed(access) => encoder.accessed(access),
        Event::Epoch(epoch) => encoder.epoch(epoch),
        Event::Homes(homes) => encoder.homes(homes),
        Event::Proposed { chunk, to, mirror } => encoder.proposed(*chunk, *to, *mirror),
        Event::Routed(routed) => encoder.routed(routed),
        Event::Promised { volume, figures } => encoder.promised(*volume, figures),
        Event::EpochEnded => encoder.epoch_ended(),
        Event::Ended => encoder.end(),
    }
}

/// The blocks that tell `events`, packed, behind the head of a file.
fn pack(events: &[Event]) -> Vec<Vec<u8>> {
    let about = [("thermocline.recording.x".to_string(), "y z".to_string())];
    let mut encoder = Encoder::new(CHUNK, &about);
    let mut packer = Packer::default();
    let mut file = vec![packer.head()];
    for event in events {
        tell(&mut encoder, event);
        file.extend(std::iter::from_fn(|| encoder.take_block()).map(|block| packer.pack(&block)));
    }
    file
}

fn open(file: &[u8]) -> Result<EventReader, TraceError> {
    EventReader::open(Box::new(Cursor::new(file.to_vec())), "r")
}

fn read(file: &[u8]) -> Result<(Vec<Event>, Option<String>), TraceError> {
    let mut reader = open(file)?;
    let mut events = Vec::new();
    loop {
        match reader.next_event() {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return Ok((events, reader.torn())),
            Err(error) => {
                assert!(reader.next_event().is_err(), "an error is not followed by data");
                return Err(error);
            }
        }
    }
}

/// Events of an idle machine for a request: it, its accesses, its answer.
fn served(number: u64, request: Asked) -> Vec<Event> {
    let mut events = vec![Event::Asked(request)];
    let parts = (0..request.part_count(CHUNK)).map(|index| request.part(index, CHUNK));
    events.extend(parts.map(Event::Accessed));
    events.push(Event::Answered { request: number, took: Nanos(90_000), done: true });
    events
}

fn a_life() -> Vec<Event> {
    let pool = |used| PoolFill { capacity: 9, used, figures: vec![7, 0, u64::MAX] };
    let epoch = |at| Epoch {
        at: Nanos(at),
        budget: u64::MAX,
        volumes: 2,
        length: Some(Nanos(9_000)),
        pools: vec![pool(1), pool(2)],
    };
    let mut events = vec![Event::Placed { at: Nanos(1), name: "baseline:k=7".to_string() }];
    events.extend(served(0, asked(5_000, Ask::Write, 61_440, 8192)));
    events.extend(served(1, asked(6_000, Ask::Flush, 0, 0)));
    events.push(Event::Epoch(epoch(9_000)));
    let figures = vec![1_000_000, 0];
    events.push(Event::Promised { volume: VolumeId(1), figures });
    events.push(Event::Promised { volume: VolumeId(0), figures: Vec::new() });
    let (pool, last) = (Some(PoolId(1)), PoolId(63));
    let [mirror, kept] = [SecondCopy::Mirror(last), SecondCopy::Kept(last)].map(Some);
    events.push(Event::Homes(Homes { chunk: chunk(0, 0), count: 2, pool, second: None }));
    events.push(Event::Homes(Homes { chunk: chunk(1, 70), count: 1, pool: None, second: None }));
    events.push(Event::Homes(Homes { chunk: chunk(1, 90), count: 1, pool, second: mirror }));
    events.push(Event::Homes(Homes { chunk: chunk(1, 91), count: 3, pool, second: kept }));
    events.push(Event::Proposed { chunk: chunk(0, 1), to: PoolId(0), mirror: false });
    events.push(Event::Proposed { chunk: chunk(1, 3), to: PoolId(1), mirror: true });
    events.push(Event::EpochEnded);
    events.push(Event::Pools { at: Nanos(9_500), place: PoolId(0), gone: false });
    events.push(Event::Pools { at: Nanos(9_600), place: PoolId(63), gone: true });
    events.extend(served(2, asked(10_000, Ask::Read, 0, 512)));
    events.push(Event::Epoch(Epoch { budget: 3, ..epoch(18_000) }));
    events.push(Event::EpochEnded);
    events.push(Event::Ended);
    events
}

#[test]
fn what_was_told_comes_back_with_what_was_said_about_the_machine() {
    let file = pack(&a_life()).concat();
    let reader = open(&file).unwrap();
    assert_eq!(reader.chunk(), Some(CHUNK));
    assert_eq!(reader.about(), [("thermocline.recording.x".to_string(), "y z".to_string())]);
    assert_eq!(read(&file).unwrap(), (a_life(), None));
}

#[test]
fn accesses_that_follow_from_their_request_take_no_space() {
    let plain = |events: &[Event]| {
        let mut encoder = Encoder::new(CHUNK, &[]);
        events.iter().for_each(|event| tell(&mut encoder, event));
        encoder.end();
        std::iter::from_fn(|| encoder.take_block()).map(|block| block.len()).sum::<usize>()
    };
    let many = |step: u64| -> Vec<Event> {
        let one = |n: u64| served(n, asked(n * 1_000, Ask::Read, n * 4096, 4096));
        let shift = |event: Event| match event {
            Event::Accessed(access) => {
                Event::Accessed(Access { at: Nanos(access.at.0 + step), ..access })
            }
            event => event,
        };
        (0..1000).flat_map(one).map(shift).collect()
    };
    // Time 2, offset 1, length 1, tag 1; answer: tag 1, distance 1, time 3.
    assert!(plain(&many(0)) <= 1000 * 10 + 100, "{}", plain(&many(0)));
    assert!(plain(&many(1)) > 1000 * 14, "seen later, they are written down");
    for step in [0, 1] {
        let mut events = many(step);
        events.push(Event::Ended);
        assert_eq!(read(&pack(&events).concat()).unwrap().0, events);
    }
}

#[test]
fn a_block_is_closed_when_it_is_full_and_when_a_second_has_passed() {
    let events: Vec<Event> =
        (0..50u64).map(|n| Event::Asked(asked(n * 100_000_000, Ask::Flush, 0, 0))).collect();
    assert!((5..=7).contains(&pack(&events).len()), "{} blocks", pack(&events).len());
    let mut encoder = Encoder::new(CHUNK, &[]);
    for n in 0..200_000u64 {
        encoder.asked(&asked(n, Ask::Write, (n * 7919 % 100_000) * 4096, 4096));
        while let Some(block) = encoder.take_block() {
            assert!(block.len() <= BLOCK_FULL + 64);
        }
    }
}

#[test]
fn a_recording_cut_off_anywhere_ends_with_its_last_whole_block_and_says_so() {
    let blocks = pack(&a_life());
    let file = blocks.concat();
    let ends: Vec<usize> = blocks
        .iter()
        .scan(0, |end, block| {
            *end += block.len();
            Some(*end)
        })
        .collect();
    for length in 0..file.len() {
        let whole = ends.iter().filter(|&&end| end <= length).count();
        if whole == 0 {
            let error = read(&file[..length]).unwrap_err().to_string();
            assert!(error.contains("a recording has at least 16"), "{error}");
            continue;
        }
        let (events, torn) = read(&file[..length]).unwrap();
        assert_eq!(events, a_life()[..events.len()], "cut at {length}");
        assert_eq!(events, read(&blocks[..whole].concat()).unwrap().0, "cut at {length}");
        let torn = torn.unwrap();
        let inside = ends[whole - 1] != length;
        assert_eq!(torn.contains("cut off"), inside, "{torn}");
        assert_eq!(torn.contains(&format!("byte {}", ends[whole - 1])), inside, "{torn}");
    }
}

#[test]
fn a_tail_of_zeroes_or_rubbish_is_a_torn_tail() {
    let blocks = pack(&a_life());
    let kept = blocks[..3].concat();
    for tail in [vec![0; 100_000], vec![0x5a; 3], b"TCRB".repeat(20_000)] {
        let (events, torn) = read(&[kept.clone(), tail].concat()).unwrap();
        assert_eq!(events, read(&kept).unwrap().0);
        assert!(torn.unwrap().contains(&format!("byte {}", kept.len())));
    }
}

/// Gives what there is, then says that this is the end, then has more.
struct Growing(Vec<Vec<u8>>);

impl std::io::Read for Growing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let Some(part) = self.0.first_mut() else { return Ok(0) };
        let count = part.len().min(buffer.len());
        buffer[..count].copy_from_slice(&part[..count]);
        part.drain(..count);
        if count == 0 {
            self.0.remove(0);
        }
        Ok(count)
    }
}

#[test]
fn a_recording_that_grows_while_it_is_read_ends_where_it_ended() {
    // A first block larger than the sample by which formats are told, so that the end is met here.
    let mut rng = thermocline_units::Rng::seeded(7);
    let mut request = |_| asked(rng.below(1 << 40), Ask::Read, rng.below(1 << 30) * 512, 512);
    let filler: Vec<Event> = (0..30_000).map(|n| Event::Asked(request(n))).collect();
    let file = pack(&[filler, a_life()].concat()).concat();
    let cut = file.len() - 400;
    let (first, more) = file.split_at(cut);
    assert!(first.len() > 128 << 10);
    let parts = Growing(vec![first.to_vec(), more.to_vec()]);
    let mut reader = EventReader::open(Box::new(parts), "r").unwrap();
    let mut count = 0;
    while reader.next_event().unwrap().is_some() {
        count += 1;
    }
    assert!(count > 10_000 && reader.torn().unwrap().contains("cut off"));
}

#[test]
fn every_flipped_byte_is_an_error_or_a_torn_tail() {
    let blocks = pack(&a_life());
    let file = blocks.concat();
    let last = file.len() - blocks.last().unwrap().len();
    for index in 0..file.len() {
        let mut damaged = file.clone();
        damaged[index] ^= 0x10;
        match read(&damaged) {
            Err(_) => assert!(index < last, "byte {index} of the last block is a torn tail"),
            Ok((events, torn)) => {
                assert!(index >= last && torn.is_some(), "byte {index} went unnoticed");
                assert!(events.len() < a_life().len());
            }
        }
    }
}

#[test]
fn a_missing_block_and_one_behind_the_end_are_errors() {
    let blocks = pack(&a_life());
    let mut missing = blocks.clone();
    missing.remove(2);
    let error = read(&missing.concat()).unwrap_err().to_string();
    assert!(error.contains("where block 1 should be"), "{error}");
    let more = [blocks.concat(), b"x".to_vec()].concat();
    assert!(read(&more).unwrap_err().to_string().contains("follows the end"));
}

fn set_version(file: &mut [u8], version: u8) {
    file[8] = version;
    let sum = checksum(&file[..12]).to_le_bytes();
    file[12..16].copy_from_slice(&sum);
}

#[test]
fn a_recording_of_version_1_is_read_without_what_it_did_not_know() {
    // A write of chunk 2, 8 sectors; an epoch of one pool with 9 places, 3 of them taken; its end.
    let records = [8, 2, 4, 8, 9, 4, 0, 1, 1, 9, 3, 12];
    let mut file = with_records(&records);
    set_version(&mut file, 1);
    let (events, _) = read(&file).unwrap();
    let pool = PoolFill { capacity: 9, used: 3, figures: Vec::new() };
    let access = Access {
        at: Nanos(1),
        chunk: chunk(0, 2),
        offset: Bytes(0),
        bytes: Bytes(4096),
        write: true,
    };
    let epoch =
        Epoch { at: Nanos(3), budget: u64::MAX, volumes: 1, length: None, pools: vec![pool] };
    assert_eq!(events, [Event::Accessed(access), Event::Epoch(epoch), Event::EpochEnded]);
}

#[test]
fn another_version_or_file_is_told_from_a_recording() {
    let file = pack(&a_life()).concat();
    let mut newer = file.clone();
    set_version(&mut newer, 6);
    let error = read(&newer).unwrap_err().to_string();
    assert!(error.contains("version 6; this program reads versions 1 to 5"), "{error}");
    assert!(read(b"a,b,c,d,e,f,g,h,i").unwrap_err().to_string().contains("not a recording"));
}

#[test]
fn packed_recordings_are_read_as_they_come() {
    let file = pack(&a_life()).concat();
    let packed = zstd::encode_all(&file[..], 1).unwrap();
    assert_eq!(read(&packed).unwrap().0, a_life());
}

/// A file with one block of these records behind its head.
fn with_records(records: &[u8]) -> Vec<u8> {
    let mut file = pack(&[]);
    let mut encoder = Encoder::new(CHUNK, &[]);
    let mut packer = Packer::default();
    file.truncate(1);
    file.push(packer.pack(&encoder.take_block().unwrap()));
    file.push(packer.pack(records));
    file.concat()
}

#[test]
fn records_that_no_encoder_writes_are_errors_with_their_block() {
    for (records, part) in [
        (&[0x1f][..], "kind 31"),
        (&[0, 2], "ends early"),
        (&[0, 2, 0, 0], "it is empty"),
        (&[0x20, 0xff, 0x7f, 2, 0, 1], "volume 16383; at most 4095"),
        (&[5, 1, 1], "an answer to the request 1 before"),
        (&[11, 0xff, 0xff, 0xff, 0xff, 0x7f, 0], "they lie below"),
        (&[10, 0, 0xff, 0xff, 0xff, 0x7f, 0], "chunks in a run"),
        (&[7, 2, 0, 8, 121], "the first sector in a chunk: 121; at most 120"),
        (&[9, 2, 0, 1, 0, 1, 9, 3, 65], "figures: 65; at most 64"),
        (&[9, 1], "a time of"),
        (&[13, 2, 1, 7], "printable"),
        (&[0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "64 bits"),
    ] {
        let error = read(&with_records(records)).unwrap_err().to_string();
        assert!(error.contains(part) && error.contains(" at byte "), "{records:?}: {error}");
    }
}

#[test]
fn a_block_head_that_promises_too_much_is_refused_before_it_costs_memory() {
    let mut file = pack(&a_life());
    let head: &[u8; BLOCK_HEAD] = file[2].first_chunk().unwrap();
    let head = BlockHead { stored: u32::MAX, ..BlockHead::of(head).unwrap() };
    file[2][..BLOCK_HEAD].copy_from_slice(&head.to_bytes());
    let error = read(&file.concat()).unwrap_err().to_string();
    assert!(error.contains("4294967295 bytes"), "{error}");
    assert_eq!(file[0].len(), FILE_HEAD);
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let chunks = (0u32..3, prop_oneof![0u32..50, 0..super::CHUNKS_MAX - 100]);
    let chunks = chunks.prop_map(|(volume, index)| chunk(volume, index));
    let ask = prop_oneof![Just(Ask::Read), Just(Ask::Write), Just(Ask::Trim), Just(Ask::Zero)];
    let request = (ask, any::<bool>(), any::<bool>(), 0u64..1 << 20, 1u64..9000, 0u64..70, 0u32..3);
    let one = prop_oneof![
        6 => (request, any::<u8>()).prop_map(|(request, late)| {
            let (ask, forced, back, sector, sectors, seen, volume) = request;
            let at = Nanos(if back { 7_000 } else { u64::from(late) * 1_000_000 });
            let (offset, length) = (Bytes(sector * 512), Bytes(sectors * 512));
            let asked = Asked { at, volume: VolumeId(volume), ask, offset, length, forced };
            let seen = seen.min(asked.part_count(CHUNK));
            let accesses = (0..seen).map(|index| Event::Accessed(asked.part(index, CHUNK)));
            std::iter::once(Event::Asked(asked)).chain(accesses).collect()
        }),
        2 => (chunks.clone(), 0u64..99, 0u64..=64, 0u64..=64, any::<bool>()).prop_map(
            |(chunk, at, first, sectors, write)| {
                let (offset, bytes) = (Bytes(first * 512), Bytes(sectors * 512));
                vec![Event::Accessed(Access { at: Nanos(at), chunk, offset, bytes, write })]
            }
        ),
        1 => (chunks.clone(), 1u32..99, 0u16..5, 5u16..64).prop_map(|(chunk, count, pool, other)| {
            let other = PoolId(other);
            let second = match count % 3 {
                _ if pool == 0 => None,
                0 => Some(SecondCopy::Mirror(other)),
                1 => Some(SecondCopy::Kept(other)),
                _ => None,
            };
            vec![Event::Homes(Homes { chunk, count, pool: pool.checked_sub(1).map(PoolId), second })]
        }),
        1 => (chunks, 0u16..64, any::<bool>()).prop_map(|(chunk, to, mirror)| {
            vec![Event::Proposed { chunk, to: PoolId(to), mirror }]
        }),
        1 => (0u64..99, prop::collection::vec(any::<u64>(), 0..9), 0u32..=1_000_000).prop_map(
            |(at, figures, share)| {
                let pools = vec![figures, Vec::new()];
                vec![Event::Routed(Routed { at: Nanos(at), pools, shares: [share, 0] })]
            }
        ),
        1 => (0u32..9, prop::collection::vec(any::<u64>(), 0..9)).prop_map(|(volume, figures)| {
            vec![Event::Promised { volume: VolumeId(volume), figures }]
        }),
        1 => Just(vec![Event::EpochEnded]),
    ];
    prop::collection::vec(one, 0..60).prop_map(|events| events.concat())
}

proptest! {
    #[test]
    fn any_order_of_events_comes_back_as_it_was_told(mut events in events()) {
        events.push(Event::Ended);
        let (got, torn) = read(&pack(&events).concat()).unwrap();
        prop_assert_eq!(got, events);
        prop_assert_eq!(torn, None);
    }

    #[test]
    fn any_records_are_events_or_an_error(records in prop::collection::vec(any::<u8>(), 1..300)) {
        let _ = read(&with_records(&records));
    }
}
