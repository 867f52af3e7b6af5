//! `lab volume` as a user runs it: the table, JSON, CSV, the page, and what it refuses.

use crate::program::{folder, run};
use serde_json::Value;

const BARE: &str = "lab volume --synth oltp,requests=5k,vms=1";
const SYNTH: &str = "lab volume --synth oltp,requests=5k,vms=1 --epoch 30s";

#[test]
fn without_pools_it_says_what_it_assumed_and_ends_with_a_verdict() {
    let folder = folder("volume_table");
    let ran = run(&folder, SYNTH).succeeded();
    let table = ran.stdout();
    for part in ["pools assumed: an NVMe SSD of 10 %", "populated before time zero", "auto"] {
        assert!(table.contains(part), "{part} not in\n{table}");
    }
    assert!(table.contains("Lowest mean latency:"), "{table}");
    assert_eq!(ran.stderr(), "", "no progress without a terminal");
}

#[test]
fn results_come_by_name_and_do_not_depend_on_the_number_of_threads() {
    let folder = folder("volume_json");
    let report = |threads: u32| {
        let words =
            format!("{SYNTH} --policy static,vfrm,baseline:k=20 --json --threads {threads}");
        let mut report: Value =
            serde_json::from_str(&run(&folder, &words).succeeded().stdout()).unwrap();
        for run in report["runs"].as_array_mut().unwrap() {
            assert_eq!(run["requests"], 5000);
            assert!(run["requests_per_cpu_s"].as_f64().unwrap() > 0.0);
            run["cpu_s"] = Value::Null;
            run["requests_per_cpu_s"] = Value::Null;
        }
        report
    };
    let alone = report(1);
    assert_eq!(alone["runs"][2]["policy"], "baseline:k=20");
    assert_eq!(alone["pools"][1]["profile"], "hdd-7200");
    assert_eq!(alone, report(2));
}

#[test]
fn pools_csv_and_the_page_come_from_and_go_to_files() {
    let folder = folder("volume_files");
    let pools = "[[pool]]\nname = \"a\"\nprofile = \"scm\"\nsize = \"8MiB\"\n\
                 [[pool]]\nname = \"b\"\nprofile = \"ssd-sata\"\nsize = \"4GiB\"\n";
    std::fs::write(folder.join("p.toml"), pools).unwrap();
    let words = format!("{SYNTH} --pools p.toml --closed 16 --csv --html r.html");
    let csv = run(&folder, &words).succeeded().stdout();
    let firsts: Vec<String> =
        csv.lines().map(|line| line.split(',').take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(firsts, ["policy pool", "static a", "static b", "auto a", "auto b"]);
    assert!(std::fs::read_to_string(folder.join("r.html")).unwrap().contains("</html>"));
    run(&folder, &words).ended_with(2).says("r.html exists");
}

#[test]
fn a_load_too_fast_for_the_machine_says_so() {
    let folder = folder("volume_overload");
    // More for the disk than a group takes at once; what the fast pool serves does not wait.
    let synth = SYNTH.replace("requests=5k", "requests=20k");
    let ran = run(&folder, &format!("{synth} --policy static --speed 1000")).succeeded();
    assert!(ran.stdout().contains("the machine cannot keep up"), "{}", ran.stdout());
}

#[test]
fn wrong_words_are_refused_with_what_would_do() {
    let folder = folder("volume_refusals");
    let pools = "[[pool]]\nprofile = \"nvme\"\nsice = \"1GiB\"\n";
    std::fs::write(folder.join("p.toml"), pools).unwrap();
    for (words, said) in [
        ("--policy basline", "did you mean `baseline`"),
        ("--policy lru", "is a cache, not a placement; those are static, "),
        ("--policy baseline:k=none", "a whole number"),
        ("--chunk 1000", "a power of two from 64 KiB to 1 GiB"),
        ("--epoch 0s", "an epoch lasts"),
        ("--speed 0", "above 0"),
        ("--closed 0", "at least 1"),
        ("--closed 4 --speed 2", "cannot be used with"),
        ("--rate fast", "64MiB (a second) or none"),
        ("--fill middle", "fastest, slowest"),
        ("--pools nowhere.toml", "nowhere.toml"),
        ("--pools p.toml", "p.toml, line 3: unknown key `sice`; did you mean `size`?"),
    ] {
        run(&folder, &format!("{BARE} {words}")).ended_with(2).says(said);
    }
}

#[test]
fn the_help_has_examples() {
    let folder = folder("volume_help");
    let ran = run(&folder, "lab volume --help").succeeded();
    assert!(ran.stdout().contains("thermocline lab volume web.csv.gz --pools pools.toml"));
}
