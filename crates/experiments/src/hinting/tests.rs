//! The descriptions that the project ships are read, and run on small volumes; wrong ones say what
//! is wrong.

use super::{Config, run};
use crate::Experiment;
use crate::grid::Measure;

const SHIPPED: [&str; 6] = [
    include_str!("../../../../experiments/hintstor-fs/experiment.toml"),
    include_str!("../../../../experiments/hintstor-stream/experiment.toml"),
    include_str!("../../../../experiments/hintstor-cloud/experiment.toml"),
    include_str!("../../../../experiments/hintstor-priority/experiment.toml"),
    include_str!("../../../../experiments/hintstor-btrfs/experiment.toml"),
    include_str!("../../../../experiments/hintstor-replicate/experiment.toml"),
];

/// Small files on small pools, a few seconds long.
const SMALL: &str = r#"
kind = "hints"
title = "small"
source = "Ge et al. 2022"
about = "small"
seeds = [1, 2]
directories = 2

[[files]]
count = 40
sizes = ["16KiB", "1MiB"]

[[files]]
count = 2
sizes = ["100MiB"]

[volumes.v]
size = "8GiB"
thick = true
pools = [
    { name = "ssd", profile = "ssd-sata", size = "512MiB", reserve = "16MiB" },
    { name = "hdd", profile = "hdd-7200", size = "8GiB" },
]

[[panel]]
title = "Panel"
measures = ["latency", "moved"]
volume = "v"
format = "ext4"
settle = "5m"
chunk = "1MiB"
interval = "10s"
program = { file-server = { threads = 4, rounds = 600, part = "64KiB", replaced = "1MiB" } }
expect = [{ kind = "beats", measure = "latency", row = "level 2", than = "no hint", columns = ["ext4"], percent = 20 }]

[[panel.columns]]
name = "ext4"

[[panel.columns]]
name = "btrfs"
format = "btrfs"

[[panel.rows]]
name = "no hint"
hints = []

[[panel.rows]]
name = "level 2"
hints = ["metadata", "sizes"]
published = { latency = [0.5, 0] }
"#;

fn small() -> Config {
    Config::parse(SMALL, "small").unwrap()
}

#[test]
fn the_shipped_experiments_are_read_as_experiments_with_hints() {
    for text in SHIPPED {
        assert!(matches!(Experiment::parse(text, "shipped"), Ok(Experiment::Hints(_))));
    }
}

#[test]
fn small_files_are_served_sooner_where_their_size_is_hinted() {
    let outcome = run(&small(), &mut |_| ()).unwrap();
    let panel = &outcome.panels[0];
    assert!(panel.verdicts[0].holds, "{:?}", panel.verdicts);
    assert_eq!(panel.tables[0].lines[1].published, [Some(0.5), None]);
    let [of_one, of_other] = [&panel.runs[1][0][0], &panel.runs[1][0][1]];
    assert!(of_one != of_other, "seeds differ");
    let text = outcome.to_markdown();
    for part in ["Mean latency, ms", "(50 %)", "**1 of 1 expected features hold.**"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(outcome.to_html("1", "thermocline").contains("percent of"));
}

#[test]
fn equal_seeds_give_equal_runs() {
    let config = small();
    let (panel, seed) = (&config.panels[0], 7);
    let scene = config.scene(panel, &panel.columns[1], &panel.rows[1], seed).unwrap();
    assert_eq!(scene.run().unwrap(), scene.run().unwrap());
}

#[test]
fn a_prefetched_file_is_read_less_from_the_slowest_pool() {
    let text = SMALL
        .replace("16KiB\", \"1MiB", "1MiB")
        .replace("100MiB", "16MiB")
        .replace(
            r#"{ file-server = { threads = 4, rounds = 600, part = "64KiB", replaced = "1MiB" } }"#,
            "{ copy = {} }",
        )
        .replace(r#"measures = ["latency", "moved"]"#, r#"measures = ["latency", "slowest-read"]"#)
        .replace(r#"profile = "hdd-7200""#, r#"profile = "s3-200mbps""#);
    let config = Config::parse(&text, "copy").unwrap();
    let panel = &config.panels[0];
    let run_with = |prefetched: usize| {
        let mut scene = config.scene(panel, &panel.columns[0], &panel.rows[0], 1).unwrap();
        scene.prefetched = prefetched;
        scene.run().unwrap()
    };
    let (without, with) = (run_with(0), run_with(1));
    let took = Measure::Elapsed;
    assert!(with[&took] < without[&took], "{with:?} {without:?}");
}

#[test]
fn what_was_copied_before_the_load_is_counted() {
    let text = SMALL.replace(r#"["latency", "moved"]"#, r#"["latency", "moved-before"]"#);
    let outcome = run(&Config::parse(&text, "small").unwrap(), &mut |_| ()).unwrap();
    for column in 0..2 {
        let of = |row: usize, measure| outcome.panels[0].runs[row][column][0][&measure];
        let [before, during, both] = [Measure::MovedBefore, Measure::Moved, Measure::MovedInAll];
        assert_eq!(of(0, before), 0.0, "without a hint nothing moves before anybody asks");
        assert!(of(1, before) > 0.0, "hints redirect chunks while the volume rests");
        assert_eq!(of(1, both), of(1, before) + of(1, during));
    }
}

/// Three equal disks, of which the first holds everything.
fn replicated() -> String {
    SMALL
        .replace(
            r#"{ name = "ssd", profile = "ssd-sata", size = "512MiB", reserve = "16MiB" }"#,
            r#"{ name = "a", profile = "hdd-7200", size = "9GiB" }"#,
        )
        .replace("thick = true", "thick = false")
        .replace("interval = \"10s\"", "interval = \"24h\"")
        .replace("settle = \"5m\"", "settle = \"2h\"")
        .replace(
            r#"{ file-server = { threads = 4, rounds = 600, part = "64KiB", replaced = "1MiB" } }"#,
            r#"{ web-server = { threads = 16, rounds = 100, part = "64KiB" } }"#,
        )
        .replace("hints = [\"metadata\", \"sizes\"]", "hints = []\ncopies = 2")
        .replace(r#"["latency", "moved"]"#, r#"["latency", "moved-before"]"#)
}

#[test]
fn reads_of_replicated_files_are_shared_by_both_disks() {
    let outcome = run(&Config::parse(&replicated(), "small").unwrap(), &mut |_| ()).unwrap();
    let panel = &outcome.panels[0];
    assert!(panel.verdicts[0].holds, "{:?}", panel.verdicts);
    let copied = |row: usize| panel.runs[row][0][0][&Measure::MovedBefore];
    assert_eq!(copied(0), 0.0);
    // Two files of 100 MiB and forty of 16 KiB or 1 MiB.
    assert!(copied(1) > f64::from(200 << 20), "{}", copied(1));
}

#[test]
fn wrong_descriptions_say_what_is_wrong() {
    let wrong = |from: &str, to: &str| Config::parse(&SMALL.replace(from, to), "x").unwrap_err();
    for (from, to, part) in [
        ("volume = \"v\"", "volume = \"w\"", "no volume `w`; there are v"),
        ("\"hdd-7200\"", "\"hdd-7201\"", "hdd-7200"),
        ("than = \"no hint\"", "than = \"nobody\"", "`nobody`, which is no row"),
        ("[0.5, 0]", "[0.5]", "one a column, 2"),
        ("measure = \"latency\"", "measure = \"elapsed\"", "which is not measured"),
        ("\"moved\"]", "\"p99\"]", "do not measure 99th percentile"),
        ("[\"100MiB\"]", "[]", "one size at least"),
        ("hints = []", "hints = [\"sise\"]", "sise"),
        ("settle", "setle", "setle"),
        ("hints = []", "hints = []\ncopies = 3", "3 copies; volume `v` has 2 pools"),
        ("hints = []", "hints = []\ncopies = 0", "0 copies"),
    ] {
        let problem = wrong(from, to).to_string();
        assert!(problem.contains(part), "{part}: {problem}");
    }
}
