//! The small parts of the machine against plain models.

use crate::format::{decode_presence, encode_presence};
use crate::map::presence::{Presence, whole_blocks};
use crate::pools::slots::Slots;
use crate::settings::BLOCK;
use proptest::prelude::*;
use std::collections::BTreeSet;

const BLOCKS: u32 = 150;

proptest! {
    #[test]
    fn slots_are_given_once_until_given_back(
        total in 1_u32..300,
        moves in prop::collection::vec((any::<bool>(), any::<u16>(), any::<bool>()), 0..400),
    ) {
        let mut slots = Slots::new(total, true);
        let (mut taken, mut clean) = (BTreeSet::new(), (0..total).collect::<BTreeSet<u32>>());
        for (take, which, leave_clean) in moves {
            if take {
                match slots.take() {
                    Some((slot, is_clean)) => {
                        prop_assert!(slot < total && taken.insert(slot));
                        prop_assert_eq!(is_clean, clean.remove(&slot));
                    }
                    None => prop_assert_eq!(taken.len() as u32, total),
                }
            } else if let Some(&slot) = taken.iter().nth(usize::from(which) % taken.len().max(1)) {
                slots.give_back(slot, leave_clean);
                taken.remove(&slot);
                if leave_clean {
                    clean.insert(slot);
                }
            }
            prop_assert_eq!(slots.used(), taken.len() as u32);
        }
    }

    #[test]
    fn presence_is_a_set_of_blocks(
        moves in prop::collection::vec((any::<bool>(), 0..BLOCKS * BLOCK, 1..80_000_u32), 0..60),
        from in 0..BLOCKS * BLOCK,
    ) {
        let size = BLOCKS * BLOCK;
        let mut presence = Presence::none(size);
        let mut model: BTreeSet<u32> = BTreeSet::new();
        for (insert, start, length) in moves {
            let range = start..(start + length).min(size);
            let inner = whole_blocks(&range);
            if insert {
                presence.mark(&range);
                model.extend(inner.start / BLOCK..inner.end / BLOCK);
            } else {
                presence.unmark(&range);
                let outer = start / BLOCK..range.end.div_ceil(BLOCK);
                model.retain(|block| !outer.contains(block));
            }
        }
        for block in 0..BLOCKS {
            prop_assert_eq!(presence.holds(block), model.contains(&block));
        }
        prop_assert_eq!(presence.is_full(), model.len() as u32 == BLOCKS);
        let again = decode_presence(size, &encode_presence(&presence));
        prop_assert_eq!(again, Some(presence.clone()));
        let absent = (from / BLOCK..BLOCKS).find(|block| !model.contains(block));
        prop_assert_eq!(presence.absent_run(from, 3 * BLOCK).map(|run| run.start / BLOCK), absent);
        let span = presence.absent_span(from, 3 * BLOCK);
        let ends = span.as_ref().map(|span| (span.start / BLOCK, span.end / BLOCK - 1));
        let last = |first: u32| {
            let blocks = first..BLOCKS.min(first + 3);
            blocks.rev().find(|block| !model.contains(block))
        };
        prop_assert_eq!(ends, absent.map(|first| (first, last(first).expect("the first is"))));
    }
}
