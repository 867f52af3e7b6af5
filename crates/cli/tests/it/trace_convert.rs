//! `trace convert` as a user runs it: what it writes, and what it refuses.

use crate::program::{folder, run, run_with_input};
use std::path::Path;

/// Two requests a millisecond apart on each of two disks, and one more.
const WEB: &str = "\
128166372003061629,web,0,Read,0,4096,1000
128166372003071629,web,1,Write,6144,4096,0
128166372003081629,web,0,Write,8192,512,2000
128166372013061629,web,1,Read,1048576,65536,3000
";
const MAIL: &str = "\
128166372903061629,mail,0,Write,4096,4096,1000
128166372903066629,mail,0,Read,4096,4096,1000
";

fn inputs(test: &str) -> std::path::PathBuf {
    let folder = folder(test);
    std::fs::write(folder.join("web.csv"), WEB).unwrap();
    std::fs::write(folder.join("mail.csv"), MAIL).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_trace_survives_parquet_and_back() {
    let folder = inputs("survives");
    run(&folder, "trace convert web.csv -o web.parquet").succeeded().says("4 requests, volumes: 2");
    run(&folder, "trace convert web.parquet -o again.csv --to msr").succeeded();
    let again = std::fs::read_to_string(folder.join("again.csv")).unwrap();
    assert_eq!(
        again,
        "0,web,0,Read,0,4096,1000\n\
         10000,web,1,Write,6144,4096,0\n\
         20000,web,0,Write,8192,512,2000\n\
         10000000,web,1,Read,1048576,65536,3000\n"
    );
}

#[test]
fn several_traces_become_one_from_time_zero() {
    let folder = inputs("several");
    let ran = run(&folder, "trace convert web.csv -t mail.csv -o - --to csv").succeeded();
    assert_eq!(
        ran.stdout(),
        "time_ns,volume,op,offset_bytes,length_bytes,response_ns\n\
         0,web.0,read,0,4096,100000\n\
         0,mail.0,write,4096,4096,100000\n\
         500000,mail.0,read,4096,4096,100000\n\
         1000000,web.1,write,6144,4096,\n\
         2000000,web.0,write,8192,512,200000\n\
         1000000000,web.1,read,1048576,65536,300000\n"
    );
}

#[test]
fn a_part_is_chosen_and_aligned() {
    let folder = inputs("part");
    let words =
        "trace convert web.csv -o - --to csv --volume web.1 --from 1ms --until 1s --align 4KiB";
    let ran = run(&folder, words).succeeded();
    assert_eq!(ran.stdout().lines().nth(1), Some("0,web.1,write,4096,8192,"));
    assert_eq!(ran.stdout().lines().count(), 2);
    let ran = run(&folder, "trace convert web.csv -o - --to csv --op write --first 1").succeeded();
    assert_eq!(ran.stdout().lines().nth(1), Some("1000000,web.1,write,6144,4096,"));
    assert_eq!(ran.stdout().lines().count(), 2);
}

#[test]
fn the_standard_input_is_read() {
    let folder = inputs("stdin");
    run_with_input(&folder, "trace convert - -o web.parquet", WEB.as_bytes()).succeeded();
    let parquet = std::fs::read(folder.join("web.parquet")).unwrap();
    let ran = run_with_input(&folder, "trace convert - -o - --to msr", &parquet).succeeded();
    assert_eq!(ran.stdout().lines().count(), 4);
    run(&folder, "trace convert - - -o web.fio").ended_with(2).says("one standard input");
}

#[test]
fn a_summary_for_machines_names_what_was_lost() {
    let folder = folder("summary");
    let text = "time_ns,volume,op,offset_bytes,length_bytes,response_ns\n0,v,flush,0,0,\n5,v,trim,0,512,\n";
    std::fs::write(folder.join("in.csv"), text).unwrap();
    let ran = run(&folder, "trace convert in.csv -o out.csv --to msr --json").succeeded();
    let summary: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    assert_eq!(summary["requests"], 2);
    assert_eq!(summary["losses"], serde_json::json!(["1 flush", "1 trim"]));
    run(&folder, "trace convert in.csv -o out.csv --to msr --force").says("no room for 1 flush");
}

#[test]
fn an_existing_file_is_kept_unless_told_otherwise() {
    let folder = inputs("existing");
    std::fs::write(folder.join("out.parquet"), "mine").unwrap();
    run(&folder, "trace convert web.csv -o out.parquet").ended_with(2).says("--force");
    assert_eq!(std::fs::read(folder.join("out.parquet")).unwrap(), b"mine");
    run(&folder, "trace convert web.csv -o out.parquet --force").succeeded();
    assert!(std::fs::read(folder.join("out.parquet")).unwrap().starts_with(b"PAR1"));
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let folder = inputs("failure");
    let damaged = format!("{WEB}128166372013061629,web,0,Read,minus,4096,0\n");
    std::fs::write(folder.join("damaged.csv"), damaged).unwrap();
    let before = names(&folder);
    run(&folder, "trace convert damaged.csv -o out.parquet").ended_with(2).says("damaged.csv:5");
    run(&folder, "trace convert web.csv -o out.parquet --volume usr").ended_with(2).says("web.0");
    run(&folder, "trace convert none.csv -o out.parquet").ended_with(2).says("none.csv");
    run(&folder, "trace convert web.csv -o out.txt").ended_with(2).says("--to");
    run(&folder, "trace convert web.csv -o no/such/folder.csv").says("no/such/folder.csv");
    run(&folder, "trace convert web.csv -o out.csv --from 2s --until 1s").ended_with(2);
    run(&folder, "trace convert web.csv -o out.csv --align 0").ended_with(2);
    run(&folder, "trace convert -o out.csv").ended_with(2);
    assert_eq!(names(&folder), before);
}
