//! Order in which the journal serves those who wait, without a device.

use super::{Journal, Waiter};
use crate::format::Record;

fn record(generation: u32) -> Record {
    Record::Generation(generation)
}

fn served(journal: &mut Journal) -> Vec<Waiter> {
    std::iter::from_fn(|| journal.served()).collect()
}

#[test]
fn waiters_are_served_in_their_order_when_their_records_are_durable_and_not_before() {
    let mut journal = Journal::new(1, 0);
    journal.append(&record(1));
    journal.join(Waiter::Seal(1));
    let (taken, has_all) = journal.take(1);
    assert!((taken.len(), has_all) == (1, true) && journal.is_busy());
    // What comes while a group commit is under way waits for the next one.
    journal.append(&record(2));
    journal.join(Waiter::Seal(2));
    assert_eq!(served(&mut journal), []);
    journal.written(&taken);
    assert_eq!(served(&mut journal), [Waiter::Seal(1)]);
    assert!(!journal.is_settled());
    let (taken, _) = journal.take(1);
    journal.written(&taken);
    assert_eq!(served(&mut journal), [Waiter::Seal(2)]);
    assert!(journal.is_settled() && journal.next_block() == 2);
}

#[test]
fn a_checkpoint_makes_the_records_durable_that_it_covers_and_no_later_ones() {
    let mut journal = Journal::new(1, 5);
    journal.append(&record(1));
    journal.join(Waiter::Wipe(1));
    let mark = journal.cover();
    journal.append(&record(2));
    journal.join(Waiter::Wipe(2));
    journal.covered(mark);
    assert_eq!(served(&mut journal), [Waiter::Wipe(1)]);
    assert_eq!((journal.queued(), journal.behind_taken()), (1, 5));
}
