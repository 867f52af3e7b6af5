//! Round trips, every byte flipped, every truncation.

use super::*;

const SHAPE: Shape = Shape { size: Bytes((1 << 20) + 1536), extent: 64 << 10, lead: 20 << 10 };

fn name() -> Name {
    let generation = Generation::new(3, 7).expect("small numbers fit");
    Name { identity: 0x1122_3344_5566_7788, extent: 5, generation }
}

fn record() -> Record {
    Record {
        kind: Kind::Written,
        identity: 9,
        sequence: 12,
        epoch: 2,
        owner: 77,
        shape: SHAPE,
        entries: vec![(0, Generation(5)), (16, Generation::NONE)],
    }
}

#[test]
fn every_byte_of_a_device_lies_in_one_extent() {
    for lead in [0, 4096, 20 << 10, 60 << 10] {
        for size in [512, 4096, 20 << 10, (64 << 10) + 512, (1 << 20) + 1536] {
            let shape = Shape { size: Bytes(size), lead, ..SHAPE };
            assert!(shape.is_sound());
            let mut at = 0;
            for extent in 0..shape.extents() {
                let bytes = shape.bytes_of(extent);
                assert_eq!(bytes.start, at, "{shape:?} extent {extent}");
                assert!(bytes.end > bytes.start && shape.length_of(extent) <= shape.extent);
                assert_eq!(shape.extent_of(bytes.start), extent);
                assert_eq!(shape.extent_of(bytes.end - 1), extent);
                at = bytes.end;
            }
            assert_eq!(at, size, "{shape:?}");
        }
    }
}

#[test]
fn blocks_come_out_as_they_went_in_whatever_range_is_asked_for() {
    let name = name();
    for length in [512u32, 4096, 4096 * 3 + 512, 64 << 10] {
        let contents: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let object = name.encode(&contents);
        assert_eq!(object.len() as u64, object_bytes(length));
        let all = length.div_ceil(BLOCK);
        for start in 0..all {
            for end in start + 1..=all {
                let range = Name::range(&(start..end), length);
                let asked = &object[range.start as usize..range.end as usize];
                let from = (start * BLOCK) as usize;
                let to = length.min(end * BLOCK) as usize;
                let got = name.decode(&(start..end), length, asked);
                assert_eq!(got.as_deref(), Some(&contents[from..to]));
            }
        }
    }
}

#[test]
fn a_flipped_byte_a_truncation_or_another_name_is_found() {
    let (name, length) = (name(), 4096 * 2 + 512);
    let object = name.encode(&vec![3; length as usize]);
    let blocks = 0..3;
    for at in 0..object.len() {
        let mut forged = object.clone();
        forged[at] ^= 0x10;
        assert_eq!(name.decode(&blocks, length, &forged), None, "byte {at}");
    }
    for cut in 0..object.len() {
        assert_eq!(name.decode(&blocks, length, &object[..cut]), None, "cut at {cut}");
    }
    let range = Name::range(&(1..3), length);
    let part = &object[range.start as usize..];
    assert!(name.decode(&(1..3), length, part).is_some());
    let others = [
        Name { identity: 1, ..name },
        Name { extent: 6, ..name },
        Name { generation: Generation(name.generation.0 + 1), ..name },
    ];
    for other in others {
        assert_eq!(other.decode(&(1..3), length, part), None, "{other:?}");
    }
}

#[test]
fn keys_name_what_they_are_and_nothing_else_is_one() {
    let key = name().key();
    assert_eq!(key, "x5/00000005.0000030000000007");
    let last = key.rsplit('/').next().expect("it has parts");
    assert_eq!(Name::parse_key(last), Some((5, name().generation)));
    for other in ["", "5.7", "+0000005.0000030000000007", "00000005.000003000000000", "lock"] {
        assert_eq!(Name::parse_key(other), None, "{other}");
    }
    assert_eq!(parse_sequence("00000000000000ff"), Some(255));
    assert_eq!(parse_sequence("+0000000000000ff"), None);
}

#[test]
fn a_record_is_read_as_it_was_written_and_a_changed_one_is_refused() {
    let bytes = record().encode();
    assert_eq!(Record::decode(&bytes), Some(record()));
    for at in 0..bytes.len() {
        let mut forged = bytes.clone();
        forged[at] ^= 1;
        assert_eq!(Record::decode(&forged), None, "byte {at}");
        assert_eq!(Record::decode(&bytes[..at]), None, "cut at {at}");
    }
}

#[test]
fn a_record_that_names_an_extent_beyond_the_device_is_refused() {
    let beyond = Record { entries: vec![(SHAPE.extents(), Generation(5))], ..record() };
    assert_eq!(Record::decode(&beyond.encode()), None);
    let unsound = Record { shape: Shape { extent: 100_000, ..SHAPE }, ..record() };
    assert_eq!(Record::decode(&unsound.encode()), None);
}
