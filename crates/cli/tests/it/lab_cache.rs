//! `lab cache` as a user runs it: tables, JSON, CSV, files, curves, and what it refuses.

use crate::program::{folder, run, run_with_input};
use serde_json::Value;

const SYNTH: &str = "lab cache --synth mixed,requests=20k,vms=3";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn every_policy_runs_on_a_made_workload_and_a_table_answers() {
    let folder = folder("lab_all");
    let ran = run(&folder, &format!("{SYNTH} --size 5%")).succeeded();
    let table = ran.stdout();
    for part in ["Flash of 5% of the working set", "lru", "g2-vfrm", "belady (bound)"] {
        assert!(table.contains(part), "{part} not in\n{table}");
    }
    assert!(table.contains("Most requests from flash:"), "a verdict closes it\n{table}");
    assert_eq!(ran.stderr(), "", "no progress without a terminal");
}

#[test]
fn results_come_by_name_and_do_not_depend_on_the_number_of_threads() {
    let folder = folder("lab_json");
    let rows = |threads: u32, sizes: &str| {
        let words = format!("{SYNTH} --policy lru,larc+arc,vfrm --size {sizes} --json");
        let ran = run(&folder, &format!("{words} --threads {threads}")).succeeded();
        let mut report = json(&ran.stdout());
        for row in report["rows"].as_array_mut().unwrap() {
            assert!(row["request_hit_ratio"].as_f64().unwrap() <= 1.0);
            row["replay_s"] = Value::Null;
        }
        report
    };
    for sizes in ["5%,20%", "16MiB,64MiB"] {
        let alone = rows(1, sizes);
        assert_eq!(alone["rows"].as_array().unwrap().len(), 6);
        assert_eq!(alone, rows(2, sizes));
    }
}

#[test]
fn csv_parquet_and_html_are_written_whole_and_never_over_a_file_unasked() {
    let folder = folder("lab_files");
    let words = format!("{SYNTH} --policy lru --size 4MiB,8MiB");
    let files = "--parquet r.parquet --html r.html";
    let ran = run(&folder, &format!("{words} --csv {files}")).succeeded();
    assert_eq!(ran.stdout().lines().count(), 3);
    assert!(ran.stdout().starts_with("policy,size,capacity_bytes"));
    assert!(std::fs::read(folder.join("r.parquet")).unwrap().starts_with(b"PAR1"));
    assert!(std::fs::read_to_string(folder.join("r.html")).unwrap().contains("</html>"));
    run(&folder, &format!("{words} --html r.html")).ended_with(2).says("r.html exists");
    run(&folder, &format!("{words} --html r.html --force")).succeeded();
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn curves_fall_with_the_size() {
    let folder = folder("lab_curves");
    for method in ["exact", "shards:0.3"] {
        let ran = run(&folder, &format!("{SYNTH} --policy lru --mrc {method} --json")).succeeded();
        let curves = json(&ran.stdout());
        let points = curves["curves"][0]["points"].as_array().unwrap();
        let ratio = |point: &Value| point["miss_ratio"].as_f64().unwrap();
        assert!(points.len() > 10 && ratio(&points[0]) > ratio(points.last().unwrap()), "{method}");
    }
}

#[test]
fn objects_and_warm_up_change_what_is_counted() {
    let folder = folder("lab_objects");
    let trace = b"\
128166372003061629,web,0,Read,0,8192,0
128166372003061630,web,0,Read,0,4096,0
128166372003061631,web,0,Read,0,8192,0
";
    let misses = |words: &str| {
        let ran =
            run_with_input(&folder, &format!("lab cache - --policy lru {words} --json"), trace);
        json(&ran.succeeded().stdout())["rows"][0]["line_misses"].as_u64().unwrap()
    };
    assert_eq!(misses("--size 10lines"), 2, "lines 0 and 1");
    assert_eq!(misses("--objects --size 10obj"), 1, "one object, whatever its length");
    assert_eq!(misses("--size 10lines --warmup 1"), 0);
}

#[test]
fn wrong_words_are_refused_with_what_would_do() {
    let folder = folder("lab_refusals");
    for (words, said) in [
        ("--policy lruu", "did you mean `lru`"),
        ("--policy lirs:hirr=1", "did you mean `hir`"),
        ("--policy larc", "larc+lru"),
        ("--size lots", "4GiB, 10%"),
        ("--size 1KiB", "not one line"),
        ("--line 3000", "power of two"),
        ("--chunk 2KiB", "smaller than --line"),
        ("--epoch 0s", "an epoch lasts"),
        ("--warmup 100%", "10%, 1h"),
        ("--write sideways", "back, through or around"),
        ("--mrc often", "shards:0.01"),
        ("--threads 0", "0 threads"),
        ("--profile nowhere.toml", "nowhere.toml"),
    ] {
        run(&folder, &format!("{SYNTH} {words}")).ended_with(2).says(said);
    }
    run(&folder, "lab cache nowhere.csv").ended_with(2).says("nowhere.csv");
    run_with_input(&folder, "lab cache -", b"no trace\n").ended_with(2).says("--format");
    run_with_input(&folder, "lab cache -", b"").ended_with(2).says("empty");
}

#[test]
fn an_experiment_without_traces_says_where_it_looked() {
    let folder = folder("lab_experiment");
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    std::fs::create_dir_all(folder.join("e")).unwrap();
    let text = std::fs::read_to_string(format!("{tree}/gvfrm/experiment.toml")).unwrap();
    std::fs::write(folder.join("e/experiment.toml"), text.replace("csv.gz", "nowhere")).unwrap();
    run(&folder, "lab run e --traces nowhere").ended_with(2).says("mds_0");
    run(&folder, "lab run nowhere").ended_with(2).says("give an experiment's folder");
}

#[test]
fn a_picture_of_a_trace_is_written_whole() {
    let folder = folder("trace_plot");
    let words = "trace plot --synth web,requests=5k,vms=2";
    run(&folder, &format!("{words} --output p.html")).succeeded();
    run(&folder, &format!("{words} --output p.svg")).succeeded();
    assert!(std::fs::read_to_string(folder.join("p.svg")).unwrap().contains("</svg>"));
    run(&folder, &format!("{words} --output p.svg")).ended_with(2).says("--force");
    run(&folder, &format!("{words} --output p.png")).ended_with(2).says(".html or .svg");
    run(&folder, &format!("{words} --output q.svg --interval 1ns")).ended_with(2).says("longer");
}
