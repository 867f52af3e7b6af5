//! The command line of `torture`, and when a run counts as clean.

use super::*;

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_string).collect()
}

#[test]
fn the_command_line_is_read_and_a_wrong_one_is_refused() {
    let wish = parse(&words("--minutes 3 --seed 9 --binary x/y")).unwrap();
    assert_eq!((wish.minutes, wish.seed, wish.binary), (3, 9, Some(PathBuf::from("x/y"))));
    assert_eq!(parse(&[]).unwrap().minutes, 15);
    for wrong in ["--minutes", "--minutes soon", "--fast", "--binary"] {
        assert!(matches!(parse(&words(wrong)), Err(Failure::Usage(_))), "{wrong}");
    }
}

#[test]
fn whatever_is_found_makes_a_run_unclean_and_is_told() {
    let mut score = Score::default();
    assert!(score.is_clean());
    score.tally.flaws = vec![Flaw::Lost(7, 2, 1), Flaw::Wrong(8, "strange".to_string())];
    assert!(!score.is_clean());
    assert!(score.line().contains("lost 1, wrong 1"), "{}", score.line());
    assert!(score.findings().contains("sector 7: lost"), "{}", score.findings());
}

#[test]
fn of_five_lives_one_has_small_pools_and_one_a_small_file_system() {
    let rooms: Vec<Room> = (0..5).map(Room::of).collect();
    use Room::{Enough, SmallFileSystem, SmallPools};
    assert_eq!(rooms, [Enough, Enough, SmallPools, Enough, SmallFileSystem]);
    assert!(config(2, "x").contains("size = \"64MiB\""));
    assert!(config(4, "at/it").contains("path = \"at/it\"\nsize = \"512MiB\""));
}
