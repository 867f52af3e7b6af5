//! Folders that hold other things than this sweep, or damaged ones.

use super::super::tests::{PLAN, begin, begin_with, results, run_all, traces, with_own_policies};
use super::super::{NoBuckets, Plan, list};
use super::{Folder, contents};
use std::fs;

/// A sweep that was refused removed a folder `libraries` that a user had made, and a file `lock`.
#[test]
fn what_a_user_has_made_is_not_removed() {
    let (traces, plan) = (traces(), with_own_policies());
    for name in ["own.so", "liar.so"] {
        fs::write(traces.path().join(name), "not a library").unwrap();
    }
    let copy = format!("libraries/{}.so", "0f".repeat(32));
    for (name, holds, is_taken) in [
        ("libraries/mine.c", "years of work", false),
        ("libraries/mine.so", "years of work", false),
        ("libraries", "a file", false),
        ("lock", "a key", false),
        ("lock", "", true),
        ("libraries/mine.part", "half", true),
        (copy.as_str(), "another library", true),
    ] {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, holds).unwrap();
        let error = begin_with(&plan, out.path(), traces.path()).unwrap_err().to_string();
        let says = if is_taken { "it cannot be loaded" } else { "and no sweep; name a new folder" };
        assert!(error.contains(says), "{name}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), holds, "{name}");
        let left: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(left.len(), 1, "{name}: what was made is gone: {left:?}");
    }
    // A copy that a beginning that was cut off has left stays, too, when the next one is refused.
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(out.path().join("libraries")).unwrap();
    let hash = blake3::hash(b"not a library").to_hex().to_string();
    let copy = out.path().join(format!("libraries/{hash}.so"));
    fs::write(&copy, "not a library").unwrap();
    begin_with(&plan, out.path(), traces.path()).unwrap_err();
    assert!(copy.exists() && !out.path().join("lock").exists());
}

fn missing(folder: &Folder) -> Vec<u64> {
    folder.missing().unwrap().iter().map(|job| job.number).collect()
}

/// Results of an equal plan over other traces counted, and so did those of another job.
#[test]
fn results_of_other_jobs_count_for_nothing() {
    let (ours, theirs, out) = (traces(), traces(), tempfile::tempdir().unwrap());
    let [one, two] = ["one", "two"].map(|name| out.path().join(name));
    run_all(&begin(&one, theirs.path()).unwrap(), 2);
    let folder = begin(&two, ours.path()).unwrap();
    run_all(&folder, 2);
    let whole = results(&two);
    let file = |sweep: &std::path::Path, family: &str, job: u32| {
        sweep.join(format!("results/family={family}/job-{job:07}.parquet"))
    };
    // The traces lie at other paths; what is made is the same job in both.
    fs::copy(file(&one, "files", 1), file(&two, "files", 1)).unwrap();
    fs::copy(file(&one, "made", 9), file(&two, "made", 9)).unwrap();
    fs::copy(file(&two, "files", 4), file(&two, "files", 3)).unwrap();
    assert_eq!(missing(&folder), [1, 3]);
    assert_eq!(contents(&two).unwrap().done, 8);
    assert_eq!(run_all(&folder, 1), 2);
    assert_eq!(results(&two), whole);
    assert!(PLAN.contains("[1, 2]"), "jobs 3 and 4 differ in their seeds alone");
}

/// A file whose rows were damaged, and its end was not, counted as done, and ended the report.
#[test]
fn results_with_damaged_rows_count_for_nothing() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let folder = begin(out.path(), traces.path()).unwrap();
    run_all(&folder, 2);
    let whole = results(out.path());
    let path = out.path().join("results/family=files/job-0000001.parquet");
    let bytes = fs::read(&path).unwrap();
    // The metadata is the last part; its length stands before the mark at the end.
    let length = bytes[bytes.len() - 8..].first_chunk::<4>().unwrap();
    let rows_end = bytes.len() - 8 - u32::from_le_bytes(*length) as usize;
    for damage in [0x00, 0xff] {
        let mut damaged = bytes.clone();
        damaged[4..rows_end].fill(damage);
        fs::write(&path, damaged).unwrap();
        assert_eq!(missing(&folder), [1]);
        assert_eq!(contents(out.path()).unwrap().done, 9);
        assert_eq!(run_all(&folder, 1), 1);
        assert_eq!(results(out.path()), whole);
    }
    // A wrong byte anywhere in the rows is no panic, and what counts as done can be reported.
    for at in (4..rows_end).step_by(61) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        fs::write(&path, damaged).unwrap();
        let done = contents(out.path()).unwrap().done;
        assert_eq!(done, 10 - missing(&folder).len() as u64, "byte {at}");
    }
}

/// The list of jobs was written as JSON, which panicked.
#[test]
fn a_folder_whose_name_is_not_utf_8_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let (traces, above) = (traces(), tempfile::tempdir().unwrap());
    let folder = above.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    fs::create_dir(&folder).unwrap();
    fs::copy(traces.path().join("a.csv"), folder.join("a.csv")).unwrap();
    let plan = Plan::parse(PLAN, "plan.toml").unwrap();
    let error = list(&plan, &folder, "plan.toml", &NoBuckets).unwrap_err();
    assert!(error.to_string().contains("is not UTF-8"), "{error}");
    assert!(error.to_string().contains("rename the folder"), "{error}");
    assert_eq!(error.line, Some(13));
    // What is made lies in no folder, and results may lie in any.
    let made =
        PLAN.replace("files = [\"*.csv\"]\nformat = \"msr\"", "synth = [\"oltp,requests=1k\"]");
    let sweep = begin_with(&made, &folder.join("out"), &folder).unwrap();
    assert_eq!(run_all(&sweep, 1), 4);
}
