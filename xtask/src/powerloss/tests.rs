//! The command line of `powerloss`.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

#[test]
fn the_command_line_is_read_and_a_wrong_one_is_refused() {
    let wish = parse(&words("--seed 9 --points 7 --no-flush --binary x/y --forget 20")).unwrap();
    assert_eq!((wish.seed, wish.points, wish.forgets), (9, 7, 20));
    assert_eq!((wish.no_flush, wish.inside, wish.binary), (true, false, Some("x/y".into())));
    assert_eq!(parse(&[]).unwrap().runs, 1);
    for wrong in ["--points", "--seed soon", "--fast", "--binary"] {
        assert!(matches!(parse(&words(wrong)), Err(Failure::Usage(_))), "{wrong}");
    }
}

#[test]
fn pools_have_the_paths_that_they_are_given() {
    let text = config(1, |number, name| format!("{number}-{name}"));
    assert!(text.contains("path = \"0-fast\"") && text.contains("path = \"1-slow\""), "{text}");
    assert!(!text.contains("cache"), "{text}");
    assert!(config(4, |number, name| format!("{number}-{name}")).contains("path = \"2-cache\""));
}
