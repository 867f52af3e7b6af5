//! Pieces beside a plain map of places, for segments that are drawn.

use super::*;
use proptest::prelude::*;

const KEYS: [Key; 2] = [(7, 0), (7, 1)];

/// A segment went through every piece of its direction, of which there may be 40,000.
#[test]
fn a_segment_is_compared_with_the_pieces_that_it_touches() {
    let mut reorder = Reorder::new(1 << 30, 1 << 30);
    for at in 0..40_000 {
        for key in KEYS {
            assert_eq!(reorder.keep(key, at * 10, b"1234567"), Ok(()));
        }
    }
    for (at, end, expected) in [
        (0, 1, vec![0]),
        (200_007, 200_008, vec![200_000]),
        (200_009, 200_021, vec![200_000, 200_010, 200_020]),
        (399_990, 500_000, vec![399_990]),
        (500_000, 500_009, vec![399_990]),
    ] {
        let starts: Vec<u64> = reorder.touching(KEYS[1], at, end).map(|(start, _)| start).collect();
        assert_eq!(starts, expected, "{at} to {end}");
    }
}

/// Bytes by place, of one direction.
type Plain = BTreeMap<u64, u8>;

/// Memory of what is new of a segment: its places, and a piece for each run of them.
fn new(plain: &Plain, at: u64, length: usize) -> usize {
    let is_new: Vec<bool> = (at..).take(length).map(|place| !plain.contains_key(&place)).collect();
    let runs = is_new.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    is_new.iter().filter(|new| **new).count() + runs * PIECE_BYTES
}

fn check(reorder: &Reorder, key: Key, plain: &Plain) -> Result<(), TestCaseError> {
    let pieces = reorder.of(key).flat_map(|(start, piece)| (start..).zip(piece.iter().copied()));
    prop_assert!(pieces.eq(plain.iter().map(|(&at, &byte)| (at, byte))));
    let held: usize = reorder.of(key).map(|(_, piece)| piece.len() + PIECE_BYTES).sum();
    prop_assert_eq!(reorder.held.get(&key).copied().unwrap_or(0), held);
    Ok(())
}

proptest! {
    #[test]
    fn pieces_are_those_of_a_plain_map(
        drawn in prop::collection::vec((0..2usize, 0..60u64, 1..30usize, 0..8u8), 1..40),
        room in 1000..8000usize,
    ) {
        let mut reorder = Reorder::new(1 << 20, room);
        let mut plain = [Plain::new(), Plain::new()];
        for (way, at, length, kind) in drawn {
            let (key, plain) = (KEYS[way], &mut plain[way]);
            // The byte of a place is its number, but in segments that lie.
            let lie = u8::from(kind == 0);
            let bytes: Vec<u8> = (at..).take(length).map(|at| at as u8 ^ lie).collect();
            let is_like = |(at, byte): (u64, &u8)| plain.get(&at).is_none_or(|b| b == byte);
            let agrees = (at..).zip(&bytes).all(is_like);
            prop_assert_eq!(reorder.agrees(key, at, &bytes), agrees);
            let held = reorder.held.get(&key).copied().unwrap_or(0);
            match reorder.keep(key, at, &bytes) {
                Ok(()) => plain.extend((at..).zip(bytes)),
                Err(Refused::Conflict) => prop_assert!(!agrees),
                Err(Refused::Full) => prop_assert!(held + new(plain, at, length) > room),
            }
            check(&reorder, key, plain)?;
            if kind == 7 && let Some(taken) = reorder.next(key, at) {
                let rest: Vec<u8> = plain.range(at..).map(|(_, byte)| *byte).collect();
                prop_assert!(rest.starts_with(&taken));
                plain.retain(|place, _| *place >= at + taken.len() as u64);
                check(&reorder, key, plain)?;
            } else if kind == 7 {
                let first = reorder.first(key).unwrap_or(u64::MAX);
                plain.retain(|place, _| *place >= at || *place >= first);
                check(&reorder, key, plain)?;
            }
        }
        KEYS.into_iter().for_each(|key| reorder.forget(key));
        prop_assert!(reorder.memory() == 0 && reorder.held.is_empty());
    }
}
