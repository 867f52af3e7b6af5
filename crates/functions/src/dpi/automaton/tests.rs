//! The automaton behind its filter beside the same automaton alone.

use super::*;
use proptest::prelude::*;

/// Everything that a stream in pieces leads to: each end with its patterns, and each piece's state.
fn everything(table: &Table, pieces: &[&[u8]]) -> Vec<(usize, usize, Vec<u32>)> {
    let (mut state, mut all) = (table.start(), Vec::new());
    for (nth, piece) in pieces.iter().enumerate() {
        state = table.run(state, piece, |end, patterns| all.push((nth, end, patterns.to_vec())));
        all.push((nth, usize::MAX, vec![state]));
    }
    all
}

fn letters(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(&b"abcAB@`\xff"[..]), count)
}

/// Literals that overlap and contain each other, of which the shortest has `least` bytes.
fn literals(least: usize) -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::btree_set(letters(least..least + 12), 1..12).prop_map(|set| {
        let lower = set.into_iter().map(|literal| literal.to_ascii_lowercase());
        lower.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_found_is_that_of_the_automaton_alone(
        literals in prop_oneof![literals(1), literals(2), literals(4), literals(5), literals(9)],
        parts in prop::collection::vec(
            prop_oneof![
                4 => prop::collection::vec(prop::sample::select(&b"xyz "[..]), 0..40)
                    .prop_map(|filling| (usize::MAX, filling)),
                2 => (0..12usize, letters(0..4)),
            ],
            0..30,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut text = Vec::new();
        for (literal, filling) in parts {
            if let Some(literal) = literals.get(literal) {
                text.extend(literal);
            }
            text.extend(filling);
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        let table = Table::of_literals(&literals, 10_000).unwrap();
        prop_assert!(table.filter.is_some());
        let alone = Table { filter: None, ..table.clone() };
        prop_assert_eq!(everything(&table, &pieces), everything(&alone, &pieces));
    }
}

#[test]
fn a_literal_cut_in_two_is_found_behind_skipped_bytes() {
    let table = Table::of_literals(&[b"needle in hay".to_vec()], 100).unwrap();
    let text = [&[b'.'; 300][..], b"NEEDLE in hay", &[b'.'; 300]].concat();
    for cut in 0..text.len() {
        let (first, second) = text.split_at(cut);
        let found = everything(&table, &[first, second]);
        let found: Vec<_> = found.iter().filter(|(_, end, _)| *end != usize::MAX).collect();
        assert_eq!(found.len(), 1, "cut at {cut}");
    }
}

/// Expressions that begin with literals: with loops over their own beginning, gaps, choices, case.
const EXPRESSIONS: [&str; 8] = [
    "abcd+e",
    "ab(cd)+ab",
    "(?:abca|bcab)[0-9]{1,3}c",
    "(?i:abcab)x?a",
    "cabc(?s:.{0,6})abca",
    "(?:abcd)+a",
    "bbbb+a",
    "abc[ab]d*c",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn what_expressions_find_is_that_of_the_automaton_alone(
        chosen in prop::sample::subsequence(&EXPRESSIONS[..], 1..=EXPRESSIONS.len()),
        parts in prop::collection::vec(
            prop_oneof![
                "[xyz .]{0,30}",
                "[abcd]{0,8}",
                "[abcABd0-9x]{0,12}",
                Just("abcdcd".to_string()),
                Just("bcab12".to_string()),
            ],
            0..12,
        ),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let text = parts.concat().into_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        let table = Table::of_expressions(&chosen, 20_000).unwrap();
        prop_assert!(table.filter.is_some());
        let alone = Table { filter: None, ..table.clone() };
        let found = |table: &Table| {
            let mut all = everything(table, &pieces);
            // The state at the beginning and the one without a match have two numbers.
            for (_, end, state) in all.iter_mut().filter(|(_, end, _)| *end == usize::MAX) {
                let is_at_rest = table.at_rest.unwrap().contains(&state[0]);
                *state = if is_at_rest { vec![u32::MAX] } else { state.clone() };
                assert_eq!(*end, usize::MAX);
            }
            all
        };
        prop_assert_eq!(found(&table), found(&alone));
    }
}

#[test]
fn expressions_that_look_around_or_begin_anyhow_have_no_filter() {
    for expression in ["^abcd", "abcd\\b", "(?m:^)abcd", "[a-z]+abcd", "abc", "a?bcd", "(?s:.)abcd"]
    {
        assert_eq!(beginnings(expression), None, "{expression}");
    }
    let beginnings = |expression| beginnings(expression).unwrap();
    assert_eq!(beginnings("abcd|efgh+"), [b"abcd".to_vec(), b"efgh".to_vec()]);
    assert_eq!(beginnings("(?i:abcd)"), [b"abcd".to_vec()]);
}
