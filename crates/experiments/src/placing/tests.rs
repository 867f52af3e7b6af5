//! The shipped descriptions are read, and a small one is run; wrong ones say what is wrong.

use super::{Config, experiment};
use crate::{Experiment, Folders, grid};
use std::path::Path;

const SHIPPED: [&str; 3] = [
    include_str!("../../../../experiments/chew/experiment.toml"),
    include_str!("../../../../experiments/hintstor/experiment.toml"),
    include_str!("../../../../experiments/chew-twins/experiment.toml"),
];

const SMALL: &str = r#"
kind = "placements"
title = "small"
source = "Ge 2017"
about = "small"

[[panel]]
title = "Panel"
measures = ["latency", "moved", "on-fastest"]
pools = "pools.toml"
shares_at = "1MiB"
seeds = [1, 2]
chunk = "1MiB"
epoch = "1s"
expect = [{ kind = "beats", measure = "on-fastest", row = "baseline", than = "static", columns = ["slow"] }]

[[panel.columns]]
name = "slow"
load = { offered = { times = 0.02, for = "20s", reads = 0.7, zipf = 1.2, over = "64MiB", block = "1MiB" } }

[[panel.columns]]
name = "larger chunks"
chunk = "4MiB"
load = { offered = { times = 0.02, requests = 2000, reads = 0.7, zipf = 1.2, over = "64MiB", block = "1MiB" } }

[[panel.rows]]
name = "static"
policy = "static"

[[panel.rows]]
name = "baseline"
policy = "baseline"
published = { latency = [0.5, 0] }

[[panel]]
title = "The source's own"
measures = ["latency"]
pools = "pools.toml"
seeds = [1]
chunk = "1MiB"
epoch = "1s"

[[panel.columns]]
name = "prxy_0"
load = { trace = "prxy_0" }

[[panel.rows]]
name = "static"
policy = "static"
"#;

fn small() -> grid::Outcome {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/hintstor");
    let folders = Folders { published: Vec::new(), stand_ins: vec![folder] };
    experiment(&Config::parse(SMALL, "small").unwrap(), &folders, &mut |_| ()).unwrap()
}

#[test]
fn the_shipped_experiments_are_read_as_experiments_with_placements() {
    for text in SHIPPED {
        let read = Experiment::parse(text, "shipped");
        assert!(matches!(read, Ok(Experiment::Placements(_))), "{:?}", read.err());
    }
}

#[test]
fn placements_run_over_the_same_load_and_what_is_not_there_is_named() {
    let outcome = small();
    assert_eq!(outcome.panels.len(), 1, "prxy_0 is nowhere");
    assert!(outcome.about.ends_with("Not run: The source's own; prxy_0 is not there."));
    let panel = &outcome.panels[0];
    assert_eq!(panel.verdicts.len(), 1);
    let near = |row: usize| panel.runs[row][0][0][&grid::Measure::OnFastest];
    assert!(near(1) > near(0), "what is popular is moved up");
    let moved = |row: usize| panel.runs[row][0][0][&grid::Measure::Moved];
    assert_eq!(moved(0), 0.0, "static moves nothing");
    assert!(moved(1) > 0.0);
    assert_ne!(panel.runs[0][0][0], panel.runs[0][0][1], "seeds make another load");
    assert_eq!(small().panels[0].runs, panel.runs, "equal seeds give equal runs");
}

#[test]
fn wrong_descriptions_say_what_is_wrong() {
    let wrong = |from: &str, to: &str| {
        Config::parse(&SMALL.replacen(from, to, 1), "x").unwrap_err().to_string()
    };
    assert!(
        wrong("\"baseline\"\npub", "\"lru\"\npub").contains("`lru` is a cache, not a placement")
    );
    assert!(wrong("for = \"20s\", ", "").contains("`slow`: say `requests` or `for`"));
    assert!(wrong("[1, 2]", "[]").contains("`seeds` names none"));
    assert!(wrong("[0.5, 0]", "[0.5]").contains("one a column, 2"));
    assert!(wrong("\"moved\"", "\"elapsed\"").contains("do not measure time"));
}
