//! The command line of `simulate`.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

#[test]
fn seeds_are_read_in_both_notations() {
    let wish = parse(&words("--seed 0x1f --verbose")).unwrap();
    assert_eq!((wish.one, wish.verbose), (Some(31), true));
    let wish = parse(&words("--seeds 10000 --from 7 --minutes 3")).unwrap();
    assert_eq!((wish.seeds, wish.from, wish.minutes), (Some(10_000), 7, Some(3)));
}

#[test]
fn a_wrong_command_line_is_refused() {
    for wrong in ["--seed", "--seeds many", "--seed 0xg", "--fast"] {
        assert!(matches!(parse(&words(wrong)), Err(Failure::Usage(_))), "{wrong}");
    }
}
