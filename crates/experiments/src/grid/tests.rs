//! Verdicts follow the runs, seed by seed, with what they do not tell.

use super::{Expectation, Measure, Measured, Row, Sheet};
use std::collections::BTreeMap;

const BEATS: &str = r#"kind = "beats"
measure = "latency"
row = "ours"
than = "theirs"
"#;

fn sheet(expect: &str) -> Sheet {
    let row = |name: &str, published: &[f64]| Row {
        name: name.to_string(),
        published: BTreeMap::from([(Measure::Latency, published.to_vec())]),
    };
    Sheet {
        title: "Panel".to_string(),
        note: String::new(),
        columns: vec!["small".to_string(), "large".to_string()],
        rows: vec![row("theirs", &[0.0, 0.0]), row("ours", &[0.5, 0.0])],
        measures: vec![Measure::Latency],
        expect: vec![toml::from_str::<Expectation>(expect).unwrap()],
    }
}

/// True if the expectation holds of latencies by row, column and seed, and its words.
fn judged(expect: &str, runs: [[&[f64]; 2]; 2]) -> (bool, String) {
    let sheet = sheet(expect);
    sheet.check(&[Measure::Latency]).unwrap();
    let run = |&seconds: &f64| Measured::from([(Measure::Latency, seconds)]);
    let seeds = |seeds: &&[f64]| seeds.iter().map(run).collect();
    let panel = sheet.filled(runs.iter().map(|row| row.iter().map(seeds).collect()).collect());
    (panel.verdicts[0].holds, panel.verdicts[0].claim.clone())
}

#[test]
fn seeds_that_differ_more_than_rows_do_are_compared_pair_by_pair() {
    let theirs: [&[f64]; 2] = [&[1.0, 10.0, 100.0], &[1.0, 10.0, 100.0]];
    let ours: [&[f64]; 2] = [&[0.9, 9.1, 89.0], &[0.8, 8.1, 79.0]];
    let (holds, claim) = judged(BEATS, [theirs, ours]);
    assert!(holds, "{claim}");
    assert!(claim.ends_with("10.0 ±2.5, 20.0 ±2.5 % less"), "{claim}");
}

#[test]
fn what_the_interval_does_not_exclude_does_not_hold() {
    let theirs: [&[f64]; 2] = [&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]];
    let ours: [&[f64]; 2] = [&[0.7, 0.9, 1.1], &[0.8, 0.8, 0.8]];
    let (holds, claim) = judged(BEATS, [theirs, ours]);
    assert!(!holds && claim.contains("10.0 ±49.7"), "{claim}");
    let sure: [&[f64]; 2] = [&[0.9, 0.9, 0.9], &[0.8, 0.8, 0.8]];
    assert!(judged(BEATS, [theirs, sure]).0);
    assert!(!judged(&format!("{BEATS}percent = 15\n"), [theirs, sure]).0, "10 % in one column");
    assert!(judged(&format!("{BEATS}percent = 15\ncolumns = [\"large\"]\n"), [theirs, sure]).0);
}

#[test]
fn a_single_run_is_judged_as_it_is_and_called_one() {
    let (holds, claim) = judged(BEATS, [[&[1.0], &[1.0]], [&[0.9], &[0.9]]]);
    assert!(holds && claim.contains("10.0 (one run)"), "{claim}");
}

#[test]
fn shares_of_columns_are_held_against_each_other() {
    let expect = "kind = \"smaller-share\"\nmeasure = \"latency\"\nrow = \"ours\"\nof = \"theirs\"\n\
                  column = \"large\"\nthan_column = \"small\"\n";
    let same: &[f64] = &[2.0, 2.0];
    assert!(judged(expect, [[same, same], [&[1.8, 1.8], &[1.0, 1.0]]]).0);
    let (holds, claim) = judged(expect, [[same, same], [&[1.0, 1.0], &[1.8, 1.8]]]);
    assert!(!holds && claim.ends_with("90.0 ±0.0 % and 50.0 ±0.0 %"), "{claim}");
}

#[test]
fn published_shares_hold_within_their_points_only() {
    let expect = |points: u32| {
        format!(
            "kind = \"as-published\"\nmeasure = \"latency\"\nrow = \"ours\"\nwithin_points = {points}\n"
        )
    };
    let theirs: [&[f64]; 2] = [&[1.0, 1.0], &[1.0, 1.0]];
    let ours: [&[f64]; 2] = [&[0.57, 0.57], &[0.1, 0.1]];
    let (holds, claim) = judged(&expect(8), [theirs, ours]);
    assert!(holds, "the second column has no published figure: {claim}");
    assert!(!judged(&expect(6), [theirs, ours]).0);
}

#[test]
fn what_lies_between_lies_there_with_its_whole_interval() {
    let expect = |most: f64| {
        format!(
            "kind = \"between\"\nmeasure = \"latency\"\nrow = \"ours\"\nleast = 450\n\
             most = {most}\ncolumns = [\"small\"]\n"
        )
    };
    let theirs: [&[f64]; 2] = [&[1.0, 1.0], &[1.0, 1.0]];
    let ours: [&[f64]; 2] = [&[0.60, 0.62], &[9.0, 9.0]];
    let (holds, claim) = judged(&expect(750.0), [theirs, ours]);
    assert!(holds, "0.61 ±0.13 s, in milliseconds: {claim}");
    assert!(!judged(&expect(700.0), [theirs, ours]).0, "its interval ends above that");
    assert!(!judged(&expect(750.0), [theirs, [&[0.3, 0.3], &[0.6, 0.6]]]).0, "too little");
}

#[test]
fn what_matters_less_differs_less() {
    let expect =
        "kind = \"matters-less\"\nmeasure = \"latency\"\nrows = [\"ours\"]\nthan = \"theirs\"\n";
    assert!(judged(expect, [[&[9.0], &[9.0]], [&[2.0], &[3.0]]]).0, "1.5 times beside 3");
    assert!(!judged(expect, [[&[4.0], &[9.0]], [&[2.0], &[3.0]]]).0, "1.5 times beside 1.3");
    // The same means, of seeds that agree and of seeds that do not.
    let ours: [&[f64]; 2] = [&[2.0, 2.0, 2.0], &[3.0, 3.0, 3.0]];
    assert!(judged(expect, [[&[9.0, 9.1, 8.9], &[9.0, 9.0, 9.0]], ours]).0);
    let (holds, claim) = judged(expect, [[&[3.0, 9.0, 15.0], &[9.0, 9.0, 9.0]], ours]);
    assert!(!holds && claim.contains('±'), "{claim}");
}

#[test]
fn what_nobody_published_cannot_be_expected() {
    let expect = |columns: &str| {
        let text = "kind = \"as-published\"\nmeasure = \"latency\"\nrow = \"ours\"\n";
        sheet(&format!("{text}within_points = 8\n{columns}")).check(&[Measure::Latency])
    };
    assert!(expect("").is_ok() && expect("columns = [\"small\"]\n").is_ok());
    let problem = expect("columns = [\"large\"]\n").unwrap_err();
    assert!(problem.contains("of `ours`") && problem.contains("in large"), "{problem}");
}
