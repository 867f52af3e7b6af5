//! The log against a plain list of lines in order.

use super::{Log, Words};
use std::collections::VecDeque;
use thermocline_units::{LineId, Rng};

const HERE: u32 = 1;
const ELSEWHERE: u32 = 2;

/// A log, its words, and the list that says what should be in it.
struct Pair {
    words: Words<2>,
    log: Log<2>,
    model: VecDeque<LineId>,
}

impl Pair {
    fn new(live: u32, spare: u32, universe: u32) -> Pair {
        let mut words = Words::new();
        words.reserve(universe);
        Pair { words, log: Log::new(live, spare, 0b11, &[HERE]), model: VecDeque::new() }
    }

    fn take_out(&mut self, line: LineId) {
        self.model.retain(|other| *other != line);
        self.log.forget();
    }

    fn push(&mut self, line: LineId) {
        self.log.push(&mut self.words, line, HERE);
        self.model.push_back(line);
    }

    fn check(&mut self) {
        assert_eq!(self.log.len() as usize, self.model.len());
        assert_eq!(self.log.oldest(&self.words), self.model.front().copied());
    }
}

/// One random step: a line comes, moves to the newest end, leaves from the middle, or is popped.
fn step(pair: &mut Pair, rng: &mut Rng, universe: u64, live: usize) {
    let line = LineId(rng.below(universe) as u32);
    let here = pair.words.flags(line) == HERE;
    match rng.below(8) {
        0..=4 if here => {
            pair.take_out(line);
            pair.push(line);
        }
        0..=4 if pair.model.len() < live => pair.push(line),
        5 if here => {
            pair.take_out(line);
            pair.words.clear(line);
        }
        6 if here => {
            pair.take_out(line);
            pair.words.set_flags(line, ELSEWHERE);
        }
        _ => {
            let popped = pair.log.pop(&pair.words);
            assert_eq!(popped, pair.model.pop_front());
            popped.into_iter().for_each(|line| pair.words.clear(line));
        }
    }
}

#[test]
fn a_log_keeps_the_order_of_a_list_through_every_compaction() {
    for (live, spare) in [(1, 0), (2, 0), (3, 1), (7, 0), (40, 3), (40, 40)] {
        let universe = 3 * u64::from(live);
        let mut pair = Pair::new(live, spare, universe as u32);
        let mut rng = Rng::seeded(u64::from(live * 100 + spare));
        for _ in 0..30_000 {
            step(&mut pair, &mut rng, universe, live as usize);
            pair.check();
        }
    }
}

#[test]
fn a_search_finds_the_oldest_of_a_place_and_survives_compactions() {
    let mut words = Words::<2>::new();
    words.reserve(64);
    let mut log = Log::<2>::new(32, 2, 0b11, &[HERE, ELSEWHERE]);
    for i in 0..32 {
        log.push(&mut words, LineId(i), if i % 10 == 9 { ELSEWHERE } else { HERE });
    }
    let (nine, line) = log.find_from(&words, 0, ELSEWHERE).expect("every tenth is elsewhere");
    assert_eq!(line, LineId(9));
    // Move the first lines to the newest end until the ring was compacted several times.
    for i in (0..9).cycle().take(100) {
        log.forget();
        log.push(&mut words, LineId(i), HERE);
    }
    assert_eq!(log.find_from(&words, nine, ELSEWHERE).map(|(_, line)| line), Some(LineId(9)));
    let (nineteen, line) = log.find_from(&words, nine + 1, ELSEWHERE).expect("two are left");
    assert!(nineteen > nine && (line == LineId(9) || line == LineId(19)), "{line:?}");
    assert_eq!(log.find_from(&words, u64::MAX, ELSEWHERE), None);
}

#[test]
fn the_newest_and_the_oldest_entry_know_that_they_are() {
    let mut pair = Pair::new(4, 4, 8);
    (0..3).for_each(|i| pair.push(LineId(i)));
    assert!(pair.log.is_newest(&pair.words, LineId(2)));
    assert!(!pair.log.is_newest(&pair.words, LineId(1)));
    assert!(pair.log.is_oldest(&pair.words, LineId(0)));
    assert!(!pair.log.is_oldest(&pair.words, LineId(1)));
}
