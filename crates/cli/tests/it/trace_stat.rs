//! `trace stat` as a user runs it: tables, JSON, volumes, notes, refusals.

use crate::program::{folder, run, run_with_input};

/// Four requests in MSR's columns: two volumes, a second apart, one with a response time of 50 µs.
const MSR: &[u8] = b"\
128166372003061629,web,0,Read,0,8192,500
128166372013061629,web,0,Write,4096,4096,0
128166372023061629,web,1,Read,1048576,512,0
128166372033061629,web,0,Read,8192,4096,0
";

#[test]
fn tables_answer_what_the_workload_is_like() {
    let folder = folder("stat_tables");
    let ran = run_with_input(&folder, "trace stat -", MSR).succeeded();
    let rows: Vec<String> = ran.stdout().lines().map(words).collect();
    for row in [
        "<stdin>: 4 requests to 2 volumes over 3 s",
        "requests 3 1 4",
        "share of requests 75.0 % 25.0 % 100.0 %",
        "bytes 12.5 KiB 4 KiB 16.5 KiB",
        "working set (4 KiB pages) 16 KiB 4 KiB 16 KiB",
        "request size, mean 4.17 KiB 4 KiB 4.12 KiB",
        "volume sizes, sum 1.01 MiB",
        "reads to writes, requests 3.00",
        "touched 4 2",
        "accessed again within 5 min 20.0 % 50.0 %",
        "fewer than 10 accesses a day 100.0 %",
        "exactly where the one before ended 50.0 %",
        "arrivals, mean 1.33 /s",
        "time between requests, mean 1 s",
        "response time, mean 50 µs",
        "recorded for 1",
        "4 KiB to below 8 KiB 1 1 50.0 % ███████████████",
        "web.1 1 512 B 0 B – 1 MiB 4 KiB 100.0 100.0 100.0 100.0 0.0 0.0 –",
        "all 4 12.5 KiB 4 KiB 3.00 1.01 MiB 16 KiB 75.0 75.0 97.0 97.0 20.0 50.0 100.0",
    ] {
        assert!(rows.iter().any(|found| found == row), "{row:?} not in\n{}", ran.stdout());
    }
}

/// A row of a table with single blanks.
fn words(line: &str) -> String {
    line.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[test]
fn json_has_names_and_units() {
    let folder = folder("stat_json");
    let ran = run_with_input(&folder, "trace stat - --json", MSR).succeeded();
    let found: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    let workload = &found["workload"];
    assert_eq!(workload["requests"], 4);
    assert_eq!(workload["reads"]["bytes"], 12_800);
    assert_eq!(workload["working_set_bytes"], 16_384);
    assert_eq!(workload["timing"]["span_s"], 3.0);
    assert_eq!(workload["timing"]["interarrival_ns"]["p99"], 1_000_000_000);
    assert_eq!(workload["page_accesses"]["top_5_percent_share"], 0.4);
    assert_eq!(workload["response_ns"]["mean"], 50_000.0);
    assert_eq!(found["volumes"][1]["name"], "web.1");
    assert_eq!(found["volumes"][1]["read_write_ratio_requests"], serde_json::Value::Null);
    assert_eq!(found["definitions"]["chunk_bytes"], 1 << 20);
}

#[test]
fn many_volumes_are_shown_when_asked_for() {
    let folder = folder("stat_many");
    run(&folder, "trace synth --preset web --vms 9 --requests 1k -o nine.parquet").succeeded();
    let brief = run(&folder, "trace stat nine.parquet").succeeded().stdout();
    assert!(!brief.contains("vm9-web") && brief.contains("--volumes"), "{brief}");
    let long = run(&folder, "trace stat nine.parquet --volumes").succeeded().stdout();
    assert!(long.contains("vm9-web"), "{long}");
}

#[test]
fn repairs_and_missing_times_are_told() {
    let folder = folder("stat_untimed");
    let lis = b"0 8 0 0\n64 8 0 1\n0 8 0 2\n";
    let ran = run_with_input(&folder, "trace stat - --format arc", lis).succeeded();
    let text = ran.stdout();
    assert!(text.contains("note: the trace has no times"), "{text}");
    assert!(text.contains("none in this trace") && !text.contains("5 min"), "{text}");
}

#[test]
fn impossible_traces_are_refused() {
    let folder = folder("stat_refused");
    run(&folder, "trace stat missing.csv").ended_with(2).says("missing.csv");
    let huge = b"128166372003061629,web,0,Read,0,90000000000,0\n";
    let ran = run_with_input(&folder, "trace stat - --format msr", huge);
    ran.ended_with(2).says("request 0 is 83.8 GiB long");
}
