//! `lab sweep` over traces in a bucket of a real S3 server, moto's.
//!
//! Without `moto_server` the test says SKIPPED.

use crate::cloud::{SECRETS, Store};
use crate::program::{folder, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs a sweep with credentials, and a folder of its own for temporary files.
fn sweep(folder: &Path, words: &str) -> Output {
    std::fs::create_dir_all(folder.join("tmp")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["lab", "sweep"])
        .args(words.split(' '))
        .current_dir(folder)
        .env("AWS_ACCESS_KEY_ID", SECRETS[0])
        .env("AWS_SECRET_ACCESS_KEY", SECRETS[1])
        .env("TMPDIR", folder.join("tmp"))
        .output()
        .unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!SECRETS.iter().any(|secret| said.contains(secret)), "{said}");
    output
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn plan(port: u16, pattern: &str) -> String {
    format!(
        r#"
format = 1
policies = ["lru", "sieve"]
sizes = ["5%", "20%"]

[[traces]]
family = "bucket"
files = ["{pattern}"]
s3 = {{ endpoint = "http://127.0.0.1:{port}" }}

[[traces]]
family = "files"
files = ["traces/*.csv"]
"#
    )
}

/// Removes what a machine measures of itself.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("processor_ns");
            fields.values_mut().for_each(without_times);
        }
        Value::Array(values) => values.iter_mut().for_each(without_times),
        _ => {}
    }
}

/// The report of a sweep, without times and what names the family.
fn report(folder: &Path, family: &str) -> Value {
    let told = run(folder, "lab report out --json").succeeded().stdout();
    let told: Value = serde_json::from_str(&told).unwrap();
    let families = told["families"].as_array().unwrap_or_else(|| panic!("{told:#}"));
    let found = families.iter().find(|one| one["family"] == family);
    let mut found = found.unwrap_or_else(|| panic!("{told:#}")).clone();
    found["family"] = Value::Null;
    without_times(&mut found);
    found
}

/// A folder with traces, which the store's bucket has, too. One is longer than a part of what is
/// read at once.
fn filled(test: &str, store: &Store) -> PathBuf {
    let folder = folder(test);
    std::fs::create_dir_all(folder.join("traces/deep")).unwrap();
    for (name, requests) in [("a", "3k"), ("long", "400k"), ("deep/below", "1k")] {
        let words = format!("trace synth --preset web --requests {requests} -o traces/{name}.csv");
        run(&folder, &words).succeeded();
        let bytes = std::fs::read(folder.join(format!("traces/{name}.csv"))).unwrap();
        assert_eq!(bytes.len() > 9 << 20, name == "long", "{} bytes", bytes.len());
        store.put(&format!("/cold/traces/{name}.csv"), &bytes);
    }
    store.put("/cold/traces/notes.txt", b"no trace");
    folder
}

fn write(folder: &Path, store: &Store, pattern: &str) {
    std::fs::write(folder.join("plan.toml"), plan(store.port, pattern)).unwrap();
}

#[test]
fn traces_in_a_bucket_are_swept_like_files() {
    let Some(store) = Store::start() else { return };
    let folder = filled("sweep-bucket", &store);
    write(&folder, &store, "s3://cold/traces/*.csv");
    let dry = sweep(&folder, "plan.toml --dry-run");
    assert!(dry.status.success(), "{}", said(&dry));
    assert!(said(&dry).contains("4 jobs: 4 traces") && said(&dry).contains("in a bucket"));
    let ran = sweep(&folder, "plan.toml --out out");
    assert!(ran.status.success(), "{}", said(&ran));
    assert!(said(&ran).starts_with("4 jobs done, 4 of them now; "), "{}", said(&ran));
    assert_eq!(report(&folder, "bucket"), report(&folder, "files"));
    assert_eq!(std::fs::read_dir(folder.join("tmp")).unwrap().count(), 0, "copies are gone");

    // One job by itself; then its object is another, and it is not done.
    let result = folder.join("out/results/family=bucket/job-0000001.parquet");
    let before = std::fs::read(&result).unwrap();
    std::fs::remove_file(&result).unwrap();
    let one = sweep(&folder, "--out out --job 1");
    assert!(one.status.success(), "{}", said(&one));
    assert_eq!(std::fs::read(&result).unwrap(), before);
    std::fs::remove_file(&result).unwrap();
    let trace = std::fs::read(folder.join("traces/a.csv")).unwrap();
    let other = [&trace[..trace.len() - 2], b"0\n"].concat();
    store.put("/cold/traces/a.csv", &other);
    let changed = sweep(&folder, "plan.toml --out out");
    let told = said(&changed);
    assert_eq!(changed.status.code(), Some(1), "{told}");
    assert!(told.contains("s3://cold/traces/a.csv: the object traces/a.csv was changed"), "{told}");
    assert!(!result.exists());
}

#[test]
fn keys_are_taken_as_they_are_and_what_cannot_be_asked_for_is_refused() {
    let Some(store) = Store::start() else { return };
    let folder = filled("sweep-keys", &store);
    let trace = std::fs::read(folder.join("traces/a.csv")).unwrap();
    let write = |pattern: &str| write(&folder, &store, pattern);
    // What stands for a folder is no job.
    store.put("/cold/odd/day=1%253A00/gr%C3%B6%C3%9Fe~1%20%5B2%5D.csv", &trace);
    store.put("/cold/odd/day=1%253A00/sub/", b"");
    write("s3://cold/odd/*/*");
    let odd = sweep(&folder, "plan.toml --out odd");
    assert!(odd.status.success(), "{}", said(&odd));
    assert!(said(&odd).starts_with("3 jobs done, 3 of them now; "), "{}", said(&odd));
    let listed = std::fs::read_to_string(folder.join("odd/jobs.jsonl")).unwrap();
    assert!(listed.contains("s3://cold/odd/day=1%3A00/größe~1 [2].csv"), "{listed}");

    // All below, one by its name, and what is not there.
    for (pattern, jobs) in
        [("s3://cold/**/*.csv", 6), ("s3://cold/traces/a.csv", 3), ("s3://cold/tr*/[ad]*.csv", 3)]
    {
        write(pattern);
        let dry = sweep(&folder, "plan.toml --dry-run");
        assert!(said(&dry).contains(&format!("{jobs} jobs")), "{pattern}: {}", said(&dry));
    }
    for (pattern, wrong) in [
        ("s3://cold/none/*.csv", "matches no object of the bucket"),
        ("s3://nowhere/*.csv", "does not exist"),
        ("s3://cold", "names no objects; write s3://BUCKET/PATTERN"),
        ("gs://cold/x.csv", "a sweep reads files, and buckets by s3://"),
    ] {
        write(pattern);
        let refused = sweep(&folder, "plan.toml --out new");
        let told = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{told}");
        assert!(told.contains(wrong) && told.contains("plan.toml, line 7"), "{told}");
        assert!(!folder.join("new").exists());
    }
    let far = plan(1, "s3://cold/*.csv").replace("127.0.0.1:1", "192.0.2.7");
    std::fs::write(folder.join("plan.toml"), far).unwrap();
    let refused = sweep(&folder, "plan.toml --dry-run");
    assert!(said(&refused).contains("would send data in the clear"), "{}", said(&refused));
    let secret = plan(1, "s3://cold/*.csv").replace("127.0.0.1:1", "me:secret@127.0.0.1:1");
    std::fs::write(folder.join("plan.toml"), secret).unwrap();
    let refused = sweep(&folder, "plan.toml --dry-run");
    assert!(said(&refused).contains("credentials belong into"), "{}", said(&refused));
}
