//! `lab sweep` and `lab report` as a user runs them: killed, gone on with, compared, refused.

use crate::program::{folder, run};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PLAN: &str = r#"
format = 1
title = "Made <workloads>"
policies = ["lru", "s3-fifo", "larc+lru"]
sizes = ["2%", "10%"]
seeds = [1, 2, 3, 4, 5, 6]

[[traces]]
family = "web"
synth = ["web,requests=40k"]

[[traces]]
family = "files"
files = ["*.csv"]
"#;

fn prepared(test: &str) -> PathBuf {
    let folder = folder(test);
    std::fs::write(folder.join("plan.toml"), PLAN).unwrap();
    std::fs::write(folder.join("broken.csv"), "not a trace\n").unwrap();
    folder
}

/// Bytes of every file of results.
fn results(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let Ok(families) = std::fs::read_dir(out.join("results")) else { return files };
    for family in families {
        for file in std::fs::read_dir(family.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            files.insert(path.strip_prefix(out).unwrap().into(), std::fs::read(&path).unwrap());
        }
    }
    files
}

#[test]
fn a_sweep_that_is_killed_again_and_again_ends_with_the_same_bytes() {
    let folder = prepared("sweep_killed");
    let whole = run(&folder, "lab sweep plan.toml --out whole").succeeded();
    assert!(whole.stdout().starts_with("12 jobs done, 12 of them now, 6 results are errors"));
    let expected = results(&folder.join("whole"));
    assert_eq!(expected.len(), 12);

    let out = folder.join("killed");
    let (mut kills, mut last) = (0, 0);
    while kills < 4 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .args(["lab", "sweep", "plan.toml", "--out", "killed", "--workers", "1"])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed as soon as it has got further than the one before.
        while results(&out).len() <= last && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        last = results(&out).keys().filter(|path| path.extension().unwrap() == "parquet").count();
        kills += 1;
    }
    assert!(last < 12, "it was killed before its end");
    let rest = run(&folder, "lab sweep plan.toml --out killed --workers 2").succeeded();
    let said = format!("12 jobs done, {} of them now", 12 - last);
    assert!(rest.stdout().starts_with(&said), "{}", rest.stdout());
    assert_eq!(results(&out), expected);
}

#[test]
fn a_dry_run_counts_and_runs_nothing() {
    let folder = prepared("sweep_dry");
    let ran = run(&folder, "lab sweep plan.toml --dry-run").succeeded();
    let text = ran.stdout();
    assert!(text.contains("12 jobs: 2 traces with 6 seeds; 3 policies at 2 sizes"), "{text}");
    assert!(text.contains("72 rows") && text.contains("memory, estimated"), "{text}");
    assert!(text.contains("note: no estimate for what is read like broken.csv"), "{text}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2, "nothing was written");
}

#[test]
fn a_report_compares_by_family_and_lists_errors() {
    let folder = prepared("sweep_report");
    run(&folder, "lab sweep plan.toml --out out").succeeded();
    let ran = run(&folder, "lab report out --html page.html").succeeded();
    let text = ran.stdout();
    for part in ["## web: 1 trace\n", "| s3-fifo ", "Size 2%", "at most 100", "broken.csv: "] {
        assert!(text.contains(part), "{part} not in\n{text}");
    }
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("Made &lt;workloads&gt;") && page.contains("<svg"), "drawn and escaped");

    let json: Value =
        serde_json::from_str(&run(&folder, "lab report out --json").succeeded().stdout()).unwrap();
    let policies = json["families"][0]["sizes"][0]["policies"].as_array().unwrap();
    let of = |name: &str| policies.iter().find(|row| row["policy"] == name).unwrap();
    assert!(of("lru")["saved"].is_null(), "the baseline saves nothing against itself");
    assert!(of("larc+lru")["processor_ns"].as_f64().unwrap() > 0.0);
    // The mean over the seeds is that of six runs by themselves.
    let mut misses = 0.0;
    for seed in 1..=6 {
        let words = format!(
            "lab cache --synth web,requests=40k,seed={seed} --policy s3-fifo --size 2% --json \
             --seed {seed}"
        );
        let alone: Value =
            serde_json::from_str(&run(&folder, &words).succeeded().stdout()).unwrap();
        misses += 1.0 - alone["rows"][0]["request_hit_ratio"].as_f64().unwrap();
    }
    let mean = of("s3-fifo")["mean"].as_f64().unwrap();
    assert!((mean - misses / 6.0).abs() < 1e-12, "{mean} {}", misses / 6.0);
    let refused = run(&folder, "lab report out --baseline arc").ended_with(2);
    assert!(refused.stderr().contains("`arc` is no policy of this sweep"), "{}", refused.stderr());
}

#[test]
fn single_jobs_are_run_by_their_number() {
    let folder = prepared("sweep_job");
    run(&folder, "lab sweep plan.toml --out whole").succeeded();
    run(&folder, "lab sweep plan.toml --out single").succeeded();
    let file = folder.join("single/results/family=web/job-0000002.parquet");
    std::fs::remove_file(&file).unwrap();
    run(&folder, "lab sweep --out single --job 2").succeeded();
    assert_eq!(results(&folder.join("single")), results(&folder.join("whole")));
    let refused = run(&folder, "lab sweep --out single --job 13").ended_with(2);
    assert!(refused.stderr().contains("the jobs are 1 to 12"), "{}", refused.stderr());
}

/// A trace on a file system that was not mounted had an error as its result for ever.
#[test]
fn a_trace_that_is_away_fails_the_run_and_the_same_command_tries_it_again() {
    let folder = prepared("sweep_away");
    run(&folder, "lab sweep plan.toml --out whole").succeeded();
    run(&folder, "lab sweep plan.toml --out out").succeeded();
    let at = |job: u32| folder.join(format!("out/results/family=files/job-{job:07}.parquet"));
    for job in [7, 8] {
        std::fs::remove_file(at(job)).unwrap();
    }
    std::fs::rename(folder.join("broken.csv"), folder.join("away")).unwrap();
    let ran = run(&folder, "lab sweep plan.toml --out out").ended_with(1);
    assert!(ran.stdout().contains("2 could not read their traces"), "{}", ran.stdout());
    for part in ["the same command tries them again", "job 7: ", "broken.csv: No such file"] {
        assert!(ran.stderr().contains(part), "{part} not in\n{}", ran.stderr());
    }
    let ran = run(&folder, "lab sweep --out out --job 8").ended_with(1);
    assert!(ran.stderr().contains("broken.csv: No such file"), "{}", ran.stderr());
    let report = run(&folder, "lab report out").succeeded().stdout();
    assert!(report.contains("10 of 12 jobs done") && report.contains("2 jobs have not run yet"));
    std::fs::rename(folder.join("away"), folder.join("broken.csv")).unwrap();
    let ran = run(&folder, "lab sweep plan.toml --out out").succeeded();
    assert!(ran.stdout().starts_with("12 jobs done, 2 of them now, 2 results are errors"));
    assert_eq!(results(&folder.join("out")), results(&folder.join("whole")));
}

#[test]
fn what_cannot_be_swept_is_refused_and_leaves_nothing() {
    let folder = prepared("sweep_refused");
    std::fs::write(folder.join("bad.toml"), PLAN.replace("s3-fifo", "s4-fifo")).unwrap();
    let refused = run(&folder, "lab sweep bad.toml --out out").ended_with(2);
    assert!(refused.stderr().contains("bad.toml, line 4: there is no policy `s4-fifo`"));
    std::fs::write(folder.join("none.toml"), PLAN.replace("*.csv", "*.zst")).unwrap();
    let refused = run(&folder, "lab sweep none.toml --out out").ended_with(2);
    assert!(refused.stderr().contains("matches no file"), "{}", refused.stderr());
    assert!(!folder.join("out").exists());
    let refused = run(&folder, "lab report out").ended_with(2);
    assert!(refused.stderr().contains("there is no sweep here"), "{}", refused.stderr());
    let refused = run(&folder, "lab sweep plan.toml --out .").ended_with(2);
    assert!(refused.stderr().contains("and no sweep; name a new folder"), "{}", refused.stderr());
}

#[test]
fn a_doctor_tells_what_this_machine_has() {
    let folder = folder("doctor");
    let ran = run(&folder, "doctor --json");
    let report: Value = serde_json::from_str(&ran.stdout()).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let missing = checks.iter().any(|check| check["verdict"] == "missing");
    assert_eq!(report["fit"], !missing);
    ran.ended_with(i32::from(missing));
    let names: Vec<_> = checks.iter().filter_map(|check| check["name"].as_str()).collect();
    for name in ["kernel", "io_uring", "clock", "free space", "module nbd", "fanotify"] {
        assert!(names.contains(&name), "{name} not in {names:?}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "what it tried is gone");
    let refused = run(&folder, "doctor nowhere").ended_with(2);
    assert!(refused.stderr().contains("nowhere is no folder"), "{}", refused.stderr());
}
