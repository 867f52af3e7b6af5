//! Recorded results are judged by their pairs; the shipped record is read.

use super::Config;
use crate::Experiment;

const REDIS: &str = include_str!("../../../../experiments/hintstor-redis/experiment.toml");

const SMALL: &str = r#"
kind = "recorded"
title = "t"
source = "s"
about = "a"
command = "c"
measured = "then"
[[pair]]
name = "sure"
ratios = [1.5, 1.51, 1.49]
published = 3
expect = [{ kind = "above", times = 1.4 }, { kind = "as-published", factor = 1.5 }]
[[pair]]
name = "unsure"
ratios = [1.1, 1.6]
expect = [{ kind = "above", times = 1 }]
"#;

#[test]
fn the_record_of_redis_is_read_and_reports_its_misses() {
    let Ok(Experiment::Recorded(config)) = Experiment::parse(REDIS, "redis") else {
        panic!("the description is of another kind, or wrong")
    };
    let outcome = config.outcome();
    assert_eq!(outcome.lines.len(), 3);
    assert!(outcome.verdicts.iter().any(|verdict| !verdict.holds), "the source's size is missed");
}

#[test]
fn an_interval_that_reaches_over_the_border_does_not_hold() {
    let outcome = Config::parse(SMALL, "small").unwrap().outcome();
    let holds: Vec<bool> = outcome.verdicts.iter().map(|verdict| verdict.holds).collect();
    assert_eq!(holds, [true, false, false], "{:?}", outcome.verdicts);
    let text = outcome.to_markdown();
    assert!(text.contains("| sure | 1.50 ±0.02 | 3 |"), "{text}");
    assert!(text.contains("**1 of 3 expected features hold.**"), "{text}");
    assert!(outcome.to_html("1", "c").contains("unsure"));
}

#[test]
fn a_single_ratio_and_a_missing_published_one_are_refused() {
    let wrong = |from: &str, to: &str| {
        Config::parse(&SMALL.replace(from, to), "x").unwrap_err().to_string()
    };
    assert!(wrong("[1.1, 1.6]", "[1.1]").contains("`unsure`: 1 ratios"));
    assert!(wrong("published = 3\n", "").contains("no published ratio"));
    assert!(wrong("times = 1 ", "tims = 1 ").contains("tims"));
}
