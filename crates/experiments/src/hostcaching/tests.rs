//! Descriptions that do not fit are refused; one that does runs and is judged.

use super::{Config, run};

const SMALL: &str = r#"
kind = "host-cache"
title = "small"
source = "none"
about = "a test"
seeds = [1]
scale = 16
cache = "10MiB"
memory = "32MiB"
lookup = "peers-first"

[load.scan]
image = "16MiB"
private = 0.0
order = "scan"
request = "4KiB"

[[panel]]
title = "scan"
measures = ["server-bytes", "latency"]
columns = [
    { name = "2", guests = 2, guests_per_host = 2, load = "scan" },
    { name = "4", guests = 4, guests_per_host = 2, load = "scan" },
]
rows = [
    { name = "Baseline", protocol = "baseline" },
    { name = "manifest", protocol = "manifest" },
]

[[panel.expect]]
kind = "grows"
measure = "server-bytes"
row = "Baseline"
from = "2"
to = "4"
times = 2.0
within = 0.01

[[panel.expect]]
kind = "beats"
measure = "server-bytes"
row = "manifest"
than = "Baseline"
percent = 40
"#;

#[test]
fn a_description_runs_and_is_judged() {
    let config = Config::parse(SMALL, "small").unwrap();
    let outcome = run(&config, &mut |_| ()).unwrap();
    assert!(outcome.verdicts().all(|verdict| verdict.holds), "{}", outcome.to_markdown());
}

#[test]
fn what_does_not_fit_is_refused() {
    let error = |from: &str, to: &str| {
        Config::parse(&SMALL.replace(from, to), "small").unwrap_err().to_string()
    };
    assert!(error("\"manifest\" }", "\"manifesto\" }").contains("no protocol; those are baseline"));
    assert!(error("peers-first", "peers").contains("no policy `peers`"));
    assert!(error("load = \"scan\"", "load = \"boot\"").contains("no load `boot`"));
    assert!(error("private = 0.0", "private = 2.0").contains("from 0 to 1"));
    assert!(error("request = \"4KiB\"", "request = \"1KiB\"").contains("from 4KiB"));
    assert!(error("scale = 16", "scale = 0").contains("scale"));
}
