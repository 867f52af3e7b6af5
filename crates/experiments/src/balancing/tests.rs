//! The description that the project ships is read and run; wrong ones say what is wrong.

use super::{Config, run};
use crate::Experiment;

const ARA: &str = include_str!("../../../../experiments/ara/experiment.toml");

const UNEQUAL: &str = include_str!("../../../../experiments/balance-unequal/experiment.toml");

/// The shipped experiment with few requests, one seed, and only its first panels.
fn small(panels: usize) -> Config {
    let mut config = Config::parse(ARA, "ara").unwrap();
    config.panels.truncate(panels);
    for panel in &mut config.panels {
        (panel.jobs, panel.seeds) = (Some(2000), Some(vec![1]));
    }
    config
}

#[test]
fn the_shipped_experiment_is_one_of_balancers_and_runs() {
    assert!(matches!(Experiment::parse(ARA, "ara"), Ok(Experiment::Balance(_))));
    let outcome = run(&small(2), &mut |_| ()).unwrap();
    let first = &outcome.panels[0];
    assert_eq!(first.columns, ["strong", "weak", "weak-fit", "none"]);
    assert_eq!(first.lines[2].name, "Rand");
    assert_eq!(first.lines[2].published[3], Some(80.5));
    assert_eq!(first.verdicts.len(), 6);
    let text = outcome.to_markdown();
    for part in ["central queue (bound)", "JSQ (bound)", "(80.5)", "table-2: I = 219", "of 7 "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        outcome.to_html("1", "thermocline").contains("the source&#39;s")
            || outcome.to_html("1", "thermocline").contains("the source's")
    );
}

#[test]
fn a_verdict_follows_the_figures() {
    let mut outcome = run(&small(1), &mut |_| ()).unwrap();
    let config = small(1);
    let panel = &mut outcome.panels[0];
    let judged = |panel: &super::Panel| -> Vec<bool> {
        config.panels[0].expect.iter().map(|expected| expected.judge(panel).holds).collect()
    };
    for line in &mut panel.lines {
        for (at, published) in line.published.iter().enumerate() {
            line.wait_s[at].mean = published.unwrap_or(1e9);
            line.by_seed_s[at] = vec![line.wait_s[at].mean; 3];
        }
    }
    assert_eq!(judged(panel), [true; 6]);
    // Rand, without bursts, 4 % too long.
    panel.lines[2].wait_s[3].mean *= 1.04;
    assert_eq!(judged(panel), [false, true, true, true, true, true]);
    // Rand beats Qlen on average, and in one seed it does not by half.
    let strong = panel.lines[2].by_seed_s[0].clone();
    panel.lines[2].by_seed_s[0][2] *= 4.0;
    assert!(!judged(panel)[4], "the interval of the ratio reaches below 1.5");
    panel.lines[2].by_seed_s[0] = strong;
    // Qlen as long as Rand in every column.
    panel.lines[3].by_seed_s = panel.lines[2].by_seed_s.clone();
    assert_eq!(judged(panel)[4..], [false, false]);
}

#[test]
fn wrong_descriptions_name_what_is_wrong() {
    let message = |from: &str, to: &str| {
        let text = ARA.replacen(from, to, 1);
        assert_ne!(text, ARA, "{from}");
        Config::parse(&text, "mine.toml").unwrap_err().to_string()
    };
    assert!(message("sites = 16", "sitez = 16").contains("sitez"));
    let unknown = message("bursts = \"strong\" }", "bursts = \"storm\" }");
    assert!(unknown.contains("`storm`; there are none, strong, table-2, weak"), "{unknown}");
    let short = message("[1520.9, 168.5, 168.5, 80.5]", "[1520.9, 168.5]");
    assert!(short.contains("row `Rand`") && short.contains("2 figures"), "{short}");
    let nobody = message("rows = [\"Rand\", \"Qlen\"]", "rows = [\"Rand\", \"Quen\"]");
    assert!(nobody.contains("`Quen`"), "{nobody}");
    let nothing = message(
        "rows = [\"Rand\", \"Qlen\"], columns = [\"none\"]",
        "rows = [\"Qlen, random ties\"], columns = [\"none\"]",
    );
    assert!(
        nothing.contains("`Qlen, random ties`") && nothing.contains("as published"),
        "{nothing}"
    );
    assert!(message("share = 0.9", "share = 1.9").contains("between 0 and 1"));
}

#[test]
fn responses_are_set_beside_one_row_seed_by_seed() {
    let mut config = Config::parse(UNEQUAL, "unequal").unwrap();
    config.panels.truncate(1);
    (config.panels[0].jobs, config.panels[0].seeds) = (Some(2000), Some(vec![1, 2, 3]));
    let mut outcome = run(&config, &mut |_| ()).unwrap();
    let text = outcome.to_markdown();
    for part in ["Mean response in milliseconds", "| Prequal, synchronous, 5 probes |", "(3.0)"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let panel = &mut outcome.panels[0];
    let default = panel.lines.iter().position(|line| line.name.ends_with("(default)")).unwrap();
    let judged = |panel: &super::Panel| -> bool {
        config.panels[0].expect[1].judge(panel).holds // unequal servers
    };
    // Everybody takes as long in each seed; then one is a fifth faster, but not always.
    for line in &mut panel.lines {
        line.response_s[1].mean = 1.2;
        line.by_seed_s[1] = vec![1.1, 1.2, 1.3];
    }
    assert!(judged(panel));
    let rival = if default == 2 { 3 } else { 2 };
    panel.lines[rival].response_s[1].mean = 1.0;
    panel.lines[rival].by_seed_s[1] = vec![0.8, 1.0, 1.2];
    assert!(!judged(panel), "the mean ratio is within 1.25, its interval is not");
}
