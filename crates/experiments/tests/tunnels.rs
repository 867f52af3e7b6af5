//! Experiments with a tunnel: descriptions that cannot be, and runs whose outcome arithmetic
//! tells.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use thermocline_experiments::grid::{Measure, Outcome};
use thermocline_experiments::{Experiment, Folders, Results};
use thermocline_units::Rng;

const SMALL: &str = r#"
kind = "tunnel"
title = "Small"
source = "none"
about = "About."
seeds = [1, 2]
cache_share = 0.2
zipf = 0.99
requested = "3MiB"
link = "1000000B"
flows = [{ name = "a", share = 1 }, { name = "b", share = 1 }]

[costs.ours]
relay_byte = 1
fixed_byte = 2
fixed_chunk = 100
content_byte = 3
content_chunk = 100
packet_byte = 5
packet_chunk = 100

[[panel]]
title = "Panel"
measures = ["sent", "sent-packed", "throughput"]
columns = [{ name = "all" }, { name = "only b", flows = ["b"] }]
rows = [
  { name = "none", chunking = "none" },
  { name = "fixed", chunking = "fixed:1KiB" },
  { name = "kept", chunking = "fixed:1KiB", unlimited = true },
]

[[panel]]
title = "Day"
measures = ["throughput"]
day = { hours = 24, every = 6, load = 0.5, swing = 0.5 }
rows = [{ name = "none", chunking = "none" }]
"#;

/// A folder with forty files of random bytes in `a` and `b`, gone when it is dropped.
struct Data(PathBuf);

impl Data {
    fn new(name: &str) -> Data {
        let folder = std::env::temp_dir().join(format!("tunnels-{name}-{}", std::process::id()));
        let mut rng = Rng::seeded(3);
        for kind in ["a", "b"] {
            std::fs::create_dir_all(folder.join(kind)).unwrap();
            for number in 0..20 {
                let bytes: Vec<u8> = (0..16 * 1024).map(|_| rng.next_u64() as u8).collect();
                std::fs::write(folder.join(kind).join(number.to_string()), bytes).unwrap();
            }
        }
        Data(folder)
    }

    fn run(&self, text: &str) -> Outcome {
        let experiment = Experiment::parse(text, "small").unwrap();
        let folders = Folders { published: vec![self.0.clone()], stand_ins: Vec::new() };
        match experiment.run(&folders, &mut |_| {}).unwrap() {
            Results::Grid(outcome) => *outcome,
            _ => panic!("an experiment with tunnels comes to a grid"),
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_sent_and_what_it_costs_follow_from_what_is_asked_for() {
    let outcome = Data::new("counts").run(SMALL);
    let run = |row: usize, column: usize| &outcome.panels[0].runs[row][column][0];
    let all = run(0, 0)[&Measure::Sent];
    // Random bytes: nothing is saved without chunks but a segment's header of some 24 B in 16 KiB.
    assert!((3.0..3.1).contains(&(all / f64::from(1 << 20))), "{all}");
    assert!((run(0, 0)[&Measure::Throughput] / 1e9 - 1.0).abs() < 1e-9, "1 ns a byte");
    let fixed = 1e9 / (2.0 + 100.0 / 1024.0);
    assert!((run(1, 0)[&Measure::Throughput] / fixed - 1.0).abs() < 1e-6);
    assert!(run(0, 1)[&Measure::Sent] < 0.7 * all, "a column counts its flows only");
    // Forty files of 16 KiB: whoever keeps all sends each at most once.
    let kept = run(2, 0)[&Measure::Sent];
    assert!(kept < 700_000.0 && kept < run(1, 0)[&Measure::Sent], "{kept}");
    assert!(run(1, 0)[&Measure::Sent] < all, "some is found in a cache of a fifth");
}

#[test]
fn on_a_link_with_room_a_request_gets_what_the_link_carries() {
    let text = SMALL.replace("load = 0.5, swing = 0.5", "load = 0.001, swing = 0");
    let outcome = Data::new("day").run(&text);
    for column in &outcome.panels[1].runs[0] {
        let rate = column[0][&Measure::Throughput];
        assert!((0.97e6..1e6).contains(&rate), "{rate} of 1 MB/s");
    }
    let busy = Data::new("busy").run(&SMALL.replace("load = 0.5", "load = 0.9"));
    let rate = busy.panels[1].runs[0][2][0][&Measure::Throughput];
    assert!(rate < 0.5e6, "at noon requests wait: {rate}");
}

#[test]
fn descriptions_that_cannot_be_are_refused_with_what_they_need() {
    let cases = [
        ("cache_share = 0.2", "cache_share = 0", "a share above 0"),
        ("flows = [\"b\"]", "flows = [\"c\"]", "there is no flow `c`"),
        ("fixed:1KiB\" }", "fixed:1\" }", "row `fixed`"),
        ("[costs.ours]", "[costs.theirs]", "there are no costs `ours`"),
        ("every = 6", "every = 5", "that `every` divides"),
        ("load = 0.5", "load = 1.0", "a load above 0 and below 1"),
        ("seeds = [1, 2]", "seeds = []", "there must be seeds"),
        ("zipf = 0.99", "zipf = 0.99\nsize = 3", "unknown field `size`"),
        ("\"sent\", \"sent-packed\"", "\"latency\"", "do not measure"),
    ];
    for (from, to, says) in cases {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from}");
        let error = Experiment::parse(&text, "small").unwrap_err().to_string();
        assert!(error.contains(says), "{error}: {says}");
    }
}

#[test]
fn files_that_are_not_there_are_asked_for() {
    let experiment = Experiment::parse(SMALL, "small").unwrap();
    let folders = Folders { published: Vec::new(), stand_ins: Vec::new() };
    let error = experiment.run(&folders, &mut |_| {}).err().unwrap().to_string();
    assert!(error.contains("folders a, b") && error.contains("--traces"), "{error}");
}
