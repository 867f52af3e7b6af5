//! The shipped experiments are read; figures are those of `trace stat`, verdicts follow them, and
//! wrong descriptions say what is wrong.

use super::{Config, Outcome, run};
use crate::{Experiment, ExperimentError, Folders};
use std::path::PathBuf;
use thermocline_sim::source::{Source, open_all};
use thermocline_sim::synth::from_toml;
use thermocline_trace::ReadOptions;
use thermocline_trace::stat::Characterisation;

const CHEW: &str = include_str!("../../../../experiments/chew-traces/experiment.toml");
const VFRM: &str = include_str!("../../../../experiments/vfrm-traces/experiment.toml");

/// 4 MiB at the front are written over and over, 60 MiB behind are read once, in order.
const TWIN: &str = r#"
requests = 4000
[[vm]]
name = "a"
arrivals = { rate_per_s = 4 }
[[vm.part]]
weight = 0.75
reads = 0.0
size = "4KiB"
length = "4MiB"
zipf = { alpha = 0.5, block = "4KiB" }
[[vm.part]]
weight = 0.25
reads = 1.0
size = "64KiB"
start = "4MiB"
length = "60MiB"
sequential = { streams = 1 }
"#;

const SMALL: &str = r#"
kind = "survey"
title = "small"
source = "Ge 2017"
about = "small"
seeds = [1, 2, 3]

[[workload]]
name = "twin"
published = "twin"
stand_in = "twin.toml"
window = "1m"
part = 0.5

[[workload]]
name = "gone"
stand_in = "gone"
window = "1m"

[[table]]
title = "Table"
chunk = "4MiB"
window = "5m"
characters = ["read", "working-set", "reaccessed", "top-5-io", "random-write", "stays-hot"]
printed = { twin = { top-5-io = 75.0 } }
expect = [
    { kind = "as-printed", character = "top-5-io", within = 8.0 },
    { kind = "as-printed", character = "top-5-io", within = 0.001 },
    { kind = "at-least", character = "stays-hot", value = 99.0 },
    { kind = "at-most", character = "random-write", value = 1.0 },
    { kind = "more", character = "read", workload = "twin", than = "gone" },
]
"#;

/// A folder of this test's own that holds the twin.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("characters-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("twin.toml"), TWIN).unwrap();
    folder
}

fn outcome(name: &str) -> Outcome {
    let folder = folder(name);
    let folders = Folders { published: Vec::new(), stand_ins: vec![folder.clone()] };
    let outcome = run(&Config::parse(SMALL, "small").unwrap(), &folders, &mut |_| ()).unwrap();
    std::fs::remove_dir_all(folder).unwrap();
    outcome
}

#[test]
fn the_shipped_experiments_are_read_as_tables_of_characters() {
    for text in [CHEW, VFRM] {
        let read = Experiment::parse(text, "shipped");
        assert!(matches!(read, Ok(Experiment::Characters(_))), "{read:?}");
    }
}

#[test]
fn figures_are_those_of_trace_stat_and_amounts_those_of_the_whole() {
    let outcome = outcome("figures");
    let line = &outcome.tables[0].lines[0];
    let mut of_draws = [0.0, 0.0];
    for seed in 1..=3 {
        let mut spec = from_toml(TWIN).unwrap();
        spec.seed = seed;
        let source = Source::Synth(Box::new(spec));
        let mut reader = open_all(&[source], &ReadOptions::default()).unwrap();
        let found = Characterisation::read(&mut *reader, &|_| ()).unwrap().whole;
        of_draws[0] += found.reads.bytes as f64 / f64::from(1 << 30) / 3.0;
        of_draws[1] += found.footprint.0 as f64 / f64::from(1 << 30) / 3.0;
    }
    let near = |ours: f64, of_draws: f64| (ours - of_draws).abs() < 1e-9 * of_draws;
    assert!(near(line.values[0].mean, of_draws[0] * 2.0), "half of the source's requests");
    assert!(near(line.values[1].mean, of_draws[1]), "{:?} {of_draws:?}", line.values);
    assert!(line.values[0].ci95 > 0.0, "seeds differ");
}

#[test]
fn verdicts_follow_and_what_is_not_there_is_said() {
    let outcome = outcome("verdicts");
    let held: Vec<bool> = outcome.verdicts().map(|verdict| verdict.holds).collect();
    // Of the chunks accessed in a window one is random and written, always the most accessed.
    // Nothing is said of a workload that was not counted.
    assert_eq!(held, [true, false, true, false], "{:#?}", outcome.tables);
    let text = outcome.to_markdown();
    for part in ["Not counted: gone", "(75)", "**2 of 4 expected features hold.**"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(outcome.to_html("1", "thermocline").contains("Not counted"));
}

#[test]
fn without_any_workload_it_says_what_was_looked_for() {
    let config = Config::parse(SMALL, "small").unwrap();
    let error = run(&config, &Folders::default(), &mut |_| ()).unwrap_err();
    assert!(matches!(error, ExperimentError::NoTraces { .. }));
    assert!(error.to_string().contains("twin.toml, gone"), "{error}");
}

#[test]
fn a_trace_without_times_is_not_asked_for_times() {
    let folder = folder("times");
    let lis = folder.join("twin");
    std::fs::write(&lis, "0 8 0 0\n64 8 0 1\n0 8 0 2\n").unwrap();
    let text = SMALL.to_string();
    let folders = Folders { published: vec![folder.clone()], stand_ins: Vec::new() };
    let error = run(&Config::parse(&text, "small").unwrap(), &folders, &mut |_| ()).unwrap_err();
    std::fs::remove_dir_all(folder).unwrap();
    assert!(error.to_string().contains("`twin` does not tell `again within 5 min`"), "{error}");
}

#[test]
fn wrong_descriptions_say_what_is_wrong() {
    let wrong = |from: &str, to: &str| {
        let text = SMALL.replacen(from, to, 1);
        assert!(text != SMALL, "{from}");
        Config::parse(&text, "x").unwrap_err().to_string()
    };
    for (from, to, part) in [
        ("seeds = [1, 2, 3]", "seeds = []", "`seeds` names none"),
        ("part = 0.5", "part = 0.0", "`part` is 0"),
        ("{ twin = {", "{ twine = {", "`twine` is no workload of it; there are twin, gone"),
        ("than = \"gone\"", "than = \"nobody\"", "`nobody` is no workload"),
        ("{ top-5-io = 75.0 }", "{ frequent = 75.0 }", "`bins from 1,000 a day` is not among"),
        ("\"stays-hot\", value", "\"steady\", value", "`same pattern in next window` is not among"),
        ("printed = { twin = { top-5-io = 75.0 } }", "", "no `accesses, top 5 %` is printed"),
        ("chunk = \"4MiB\"", "chunk = \"4 parsecs\"", "parsecs"),
        ("within = 8.0", "withal = 8.0", "withal"),
    ] {
        let problem = wrong(from, to);
        assert!(problem.contains(part), "{part}: {problem}");
    }
}
