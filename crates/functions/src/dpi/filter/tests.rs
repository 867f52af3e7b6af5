//! Bytes that pass the filter, and the share of other text that does not.

use super::*;

fn filter(literals: &[&str]) -> Filter {
    let literals: Vec<Vec<u8>> = literals.iter().map(|text| text.as_bytes().to_vec()).collect();
    Filter::new(&literals)
}

/// All ends at which the filter lets a literal end.
fn ends(filter: &Filter, text: &[u8]) -> Vec<usize> {
    let (mut ends, mut from) = (Vec::new(), GROUP);
    while let Some(end) = filter.next(text, from, &mut usize::MAX.clone()) {
        ends.push(end);
        from = end + 1;
    }
    ends
}

#[test]
fn one_test_in_four_positions_finds_literals_of_seven_bytes() {
    assert_eq!(filter(&["secrets", "passwords"]).stride, 4);
    assert_eq!(filter(&["secret", "passwords"]).stride, 3);
    assert_eq!(filter(&["abcd"]).stride, 1);
    for stride in [filter(&["secrets"]), filter(&["secrets", "pass"])] {
        for before in 0..40 {
            let text = [&vec![b'-'; before][..], b"SecretS----"].concat();
            assert!(ends(&stride, &text).contains(&(before + 7)), "{before} bytes before");
        }
    }
}

#[test]
fn short_literals_are_found_in_either_case() {
    for (literal, text) in [("a", "....A..."), ("/x", "...../X."), ("ab0", "..aB0...")] {
        let all = ends(&filter(&[literal]), text.as_bytes());
        let end = text.to_ascii_lowercase().find(literal).unwrap() + literal.len();
        assert_eq!(all, [end], "{literal}");
    }
}

#[test]
fn the_automaton_begins_where_the_beginning_of_a_literal_may_lie() {
    let filter = filter(&["0123456789"]);
    let text = b"........01234567";
    // All eight bytes are a beginning; the first group that is none ends at 11.
    assert_eq!(filter.start(text, text.len(), 0), 8);
    assert_eq!(filter.start(text, text.len(), 9), 9);
    // No further back than the longest literal.
    assert_eq!(Filter::new(&[b"aaaaaaaa".to_vec()]).start(&[b'a'; 24], 24, 0), 16);
    // No group before 8 is known: the last three bytes are enough.
    assert_eq!(filter.start(text, 8, 0), 5);
    assert_eq!(filter.start(text, 2, 0), 0);
}

#[test]
fn most_of_other_text_does_not_pass() {
    let mut rng = thermocline_units::Rng::seeded(7);
    let mut word = |length| (0..length).map(|_| b'a' + rng.below(26) as u8).collect::<Vec<u8>>();
    let literals: Vec<Vec<u8>> = (0..5000).map(|_| word(10)).collect();
    let text = word(1_000_000);
    let filter = Filter::new(&literals);
    let (mut candidates, mut from) = (0, GROUP);
    while let Some(end) = filter.next(&text, from, &mut usize::MAX.clone()) {
        (candidates, from) = (candidates + 1, end + 1);
    }
    // 5,000 of 457,000 groups of letters are in the set of ends, and a few more by chance.
    assert!(candidates < 1_000_000 / 40, "{candidates} of 1,000,000 positions passed");
}
