//! Plans, lists, folders and jobs: what is refused, and what is the same whatever happens.

use super::rows::read_rows;
use super::{
    Beginning, Drive, Folder, FolderError, Job, JobTrace, NoBuckets, Plan, PlanError, Ran, Worker,
};
use super::{drive, estimate, list, parse_jobs, write_jobs};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(super) const PLAN: &str = r#"
format = 1
title = "small"
policies = ["lru", "arc", "random+lru"]
sizes = ["10%", "64lines"]
seeds = [1, 2]
baseline = "lru"

[model]
warmup = "10%"

[[traces]]
family = "files"
files = ["*.csv"]
format = "msr"

[[traces]]
family = "made"
synth = ["web,requests=3k"]
"#;

/// Requests of one line each: a short loop, so that sizes and policies differ.
fn msr(lines: u64) -> String {
    let row = |i: u64| {
        let offset = (i * i % 97) * 4096;
        format!("{},host,0,{},{offset},4096,100\n", 128166372000000000 + i * 1000, "Read")
    };
    (0..lines).map(row).collect()
}

pub(super) fn traces() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), msr(800)).unwrap();
    fs::write(folder.path().join("b.csv"), msr(300)).unwrap();
    fs::write(folder.path().join("broken.csv"), "1,host,0,Read,zero,4096,1\n").unwrap();
    fs::write(folder.path().join("tiny.csv"), msr(4)).unwrap();
    folder
}

pub(super) fn begin(out: &Path, traces: &Path) -> Result<Folder, FolderError> {
    begin_with(PLAN, out, traces)
}

/// Begins the sweep of a plan in the folder of its traces.
pub(super) fn begin_with(text: &str, out: &Path, traces: &Path) -> Result<Folder, FolderError> {
    let plan = Plan::parse(text, "plan.toml").unwrap();
    let with = Beginning { plan: text, contest: &plan.contest, beside: traces, command: "test" };
    Folder::begin(out, with, || {
        Ok::<_, FolderError>(list(&plan, traces, "plan.toml", &NoBuckets).unwrap())
    })
}

pub(super) fn run_all(folder: &Folder, workers: usize) -> usize {
    drive(folder, Drive { workers }, &AtomicBool::new(false), &|_: &Job, _: &Ran| {}).unwrap()
}

/// Every file below `results`, with its bytes.
pub(super) fn results(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for family in fs::read_dir(out.join("results")).unwrap() {
        for file in fs::read_dir(family.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(out).unwrap().to_path_buf();
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

fn refused(text: &str) -> PlanError {
    Plan::parse(text, "plan.toml").unwrap_err()
}

#[test]
fn what_is_wrong_in_a_plan_is_named_with_its_line() {
    for (from, to, line, says) in [
        ("format = 1", "format = 2", 2, "reads plans of format 1"),
        ("\"arc\"", "\"arcc\"", 4, "did you mean `arc`"),
        ("\"arc\"", "\"lru\"", 4, "`lru` is there twice"),
        ("\"arc\"", "\"water-fill\"", 4, "keeps nothing"),
        ("64lines", "64 bananas", 5, "is not a cache size"),
        ("[1, 2]", "[1, 1]", 6, "seed 1 is there twice"),
        ("[1, 2]", "[]", 6, "seeds"),
        ("baseline = \"lru\"", "baseline = \"fifo\"", 7, "is not among the policies"),
        ("10%\"\n\n[[traces]]", "110%\"\n\n[[traces]]", 10, "is not a warm-up"),
        ("\"files\"", "\"../files\"", 13, "cannot be a family"),
        ("\"msr\"", "\"mrs\"", 15, "is not a trace format"),
        ("web,requests", "webb,requests", 19, "there is no preset `webb`"),
        ("synth =", "sinth =", 19, "unknown field `sinth`"),
        ("*.csv", "gs://bucket/*.csv", 13, "buckets by s3://"),
        ("*.csv", "s3://bucket", 13, "write s3://BUCKET/PATTERN"),
        ("\"lru\"", "\"oracle\"", 4, "`thermocline lab volume` runs it"),
        ("\"arc\"", "\"./mine.so:\"", 4, "names a library and no policy of it"),
        ("\"arc\"", "\"larc:nonsense=1+./mine.so:own\"", 4, "nonsense"),
    ] {
        assert!(PLAN.contains(from), "{from}");
        let error = refused(&PLAN.replacen(from, to, 1));
        assert_eq!(error.line, Some(line), "{to}: {error}");
        assert!(error.to_string().contains(says), "{to}: {error}");
    }
    let no_trace = &PLAN[..PLAN.find("[[traces]]").unwrap()];
    assert!(refused(no_trace).to_string().contains("names no trace"));
}

#[test]
fn a_list_of_jobs_is_read_as_it_was_written() {
    let folder = traces();
    let plan = Plan::parse(PLAN, "plan.toml").unwrap();
    let jobs = list(&plan, folder.path(), "plan.toml", &NoBuckets).unwrap();
    let names: Vec<_> = jobs.iter().map(|job| (job.name.as_str(), job.seed)).collect();
    let expected = [("a.csv", 1), ("a.csv", 2), ("b.csv", 1), ("b.csv", 2), ("broken.csv", 1)];
    assert_eq!(names[..5], expected);
    assert_eq!(jobs.len(), 10);
    let text = write_jobs(&jobs);
    assert_eq!(parse_jobs(&text, "jobs.jsonl").unwrap(), jobs);
    let error =
        parse_jobs(&text.replace("\"number\":3", "\"number\":4"), "jobs.jsonl").unwrap_err();
    assert_eq!((error.line, error.problem.as_str()), (Some(3), "job 4 stands where job 3 belongs"));
}

#[test]
fn a_pattern_that_matches_nothing_is_refused() {
    let folder = traces();
    let plan = Plan::parse(&PLAN.replace("*.csv", "*.gz"), "plan.toml").unwrap();
    let error = list(&plan, folder.path(), "plan.toml", &NoBuckets).unwrap_err();
    assert!(error.to_string().starts_with("plan.toml, line 13: `*.gz` matches no file"), "{error}");
}

#[test]
fn broken_traces_and_impossible_sizes_are_rows_with_errors() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let folder = begin(out.path(), traces.path()).unwrap();
    assert_eq!(run_all(&folder, 2), 10);
    let rows = |family: &str, job: u32| {
        let name = format!("results/family={family}/job-{job:07}.parquet");
        read_rows(File::open(out.path().join(name)).unwrap()).unwrap()
    };
    let broken = rows("files", 5);
    assert_eq!((broken.len(), broken[0].policy.as_str()), (1, ""));
    let error = broken[0].error.as_deref().unwrap();
    assert!(error.starts_with("broken.csv"), "named as in the plan, not by its path: {error}");
    // Four requests to four lines: a tenth of them is no line; 64 lines are enough.
    let tiny = rows("files", 7);
    let failed: Vec<_> = tiny.iter().filter(|row| row.error.is_some()).map(|r| &r.size).collect();
    assert_eq!(failed, ["10%", "10%", "10%"], "{tiny:?}");
    let good = rows("files", 1);
    assert!(good.iter().all(|row| row.error.is_none() && row.requests == 720), "{good:?}");
    assert_eq!(rows("made", 9).len(), 6);
}

#[test]
fn counts_are_those_of_a_run_by_itself() {
    use crate::lab::{LabOptions, run};
    use crate::replay::cost::Profile;
    use crate::replay::{ReplayOptions, Warmup};
    use crate::source::Source;
    use crate::workload::{Cut, Unit, Workload};
    use thermocline_policy::registry::PolicySpec;
    use thermocline_trace::ReadOptions;
    use thermocline_units::Bytes;

    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let folder = begin(out.path(), traces.path()).unwrap();
    folder.run(&folder.jobs()[0], &|_| {}).unwrap();
    let file = out.path().join("results/family=files/job-0000001.parquet");
    let rows = read_rows(File::open(file).unwrap()).unwrap();

    let source = Source::File(traces.path().join("a.csv"));
    let options = ReadOptions { format: None, columns: None, blkparse_event: None };
    let mut reader = source.open(&options).unwrap();
    let cut = Cut { unit: Unit::Lines(Bytes(4096)), chunk: None };
    let workload = Workload::read(&mut *reader, cut, &|_| {}).unwrap();
    let specs = ["lru", "arc", "random+lru"].map(|name| PolicySpec::parse(name).unwrap());
    let sizes = ["10%", "64lines"].map(|size| size.parse().unwrap());
    let replay = ReplayOptions { warmup: Warmup::Fraction(0.1), ..ReplayOptions::default() };
    let options = LabOptions { replay, profile: Profile::source(), seed: 1 };
    let alone = run(&workload, &specs, &sizes, &options, &|_| {}).unwrap();
    assert_eq!(rows.len(), alone.len());
    for (row, alone) in rows.iter().zip(&alone) {
        assert_eq!((&row.policy, &row.size), (&alone.policy, &alone.size));
        assert_eq!(row.request_hits, alone.reads.request_hits + alone.writes.request_hits);
        assert_eq!((row.cost_s, row.flash_written), (alone.cost_real_s, alone.flash_written_bytes));
    }
}

#[test]
fn a_sweep_that_was_stopped_ends_with_the_same_bytes() {
    let traces = traces();
    let whole = tempfile::tempdir().unwrap();
    assert_eq!(run_all(&begin(whole.path(), traces.path()).unwrap(), 1), 10);
    let expected = results(whole.path());
    for stop_after in [0, 1, 4] {
        let out = tempfile::tempdir().unwrap();
        {
            let folder = begin(out.path(), traces.path()).unwrap();
            let (stop, count) = (AtomicBool::new(stop_after == 0), AtomicUsize::new(0));
            let done = |_: &Job, _: &Ran| {
                let done = count.fetch_add(1, Ordering::Relaxed) + 1;
                stop.store(done >= stop_after, Ordering::Relaxed);
            };
            drive(&folder, Drive { workers: 2 }, &stop, &done).unwrap();
        }
        // What a kill leaves: a file half written.
        let family = out.path().join("results/family=files");
        fs::create_dir_all(&family).unwrap();
        fs::write(family.join("job-0000002.parquet.99.part"), "PAR1 half").unwrap();
        let folder = begin(out.path(), traces.path()).unwrap();
        let missing = folder.missing().unwrap().len();
        assert!(missing >= 10 - stop_after - 1, "{missing} missing after {stop_after}");
        assert_eq!(run_all(&folder, 3), missing);
        assert_eq!(results(out.path()), expected);
    }
}

#[test]
fn single_jobs_write_what_the_sweep_writes() {
    let traces = traces();
    let (whole, single) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run_all(&begin(whole.path(), traces.path()).unwrap(), 2);
    drop(begin(single.path(), traces.path()).unwrap());
    let (one, other) = (Folder::open_shared(single.path()), Folder::open_shared(single.path()));
    let (one, other) = (one.unwrap(), other.unwrap());
    for (i, job) in one.jobs().iter().enumerate().rev() {
        let folder = if i % 2 == 0 { &one } else { &other };
        folder.run(job, &|_| {}).unwrap();
    }
    assert_eq!(results(single.path()), results(whole.path()));
    assert!(begin(single.path(), traces.path()).is_err(), "somebody runs jobs of it");
}

#[test]
fn a_worker_elsewhere_writes_what_the_sweep_writes() {
    let traces = traces();
    let (whole, remote) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run_all(&begin(whole.path(), traces.path()).unwrap(), 2);
    // The driver keeps the folder locked, and sends a job as text.
    let driver = begin(remote.path(), traces.path()).unwrap();
    for job in driver.missing().unwrap() {
        let sent = serde_json::to_string(job).unwrap();
        let worker = Worker::open(remote.path(), driver.plan_blake3()).unwrap();
        worker.run_on(2, &serde_json::from_str(&sent).unwrap(), &|_| {}).unwrap();
    }
    assert_eq!(driver.missing().unwrap(), Vec::<&Job>::new());
    assert_eq!(results(remote.path()), results(whole.path()));
}

#[test]
fn a_worker_refuses_a_folder_that_is_not_the_drivers() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let driver = begin(out.path(), traces.path()).unwrap();
    let error = Worker::open(traces.path(), driver.plan_blake3()).unwrap_err().to_string();
    assert!(error.contains("there is no sweep here"), "{error}");
    let error = Worker::open(out.path(), "another plan").unwrap_err().to_string();
    assert!(error.contains("must be on a file system that all machines share"), "{error}");
}

/// Two machines number their processes alike; a machine that was taken for dead went on writing.
#[test]
fn a_file_that_another_machine_is_writing_is_left_alone() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let family = out.path().join("results/family=files");
    let theirs = family.join(format!("job-0000001.parquet.{}-0.part", std::process::id()));
    {
        let folder = begin(out.path(), traces.path()).unwrap();
        fs::create_dir_all(&family).unwrap();
        fs::write(&theirs, "PAR1 half").unwrap();
        folder.run(&folder.jobs()[0], &|_| {}).unwrap();
        assert_eq!(fs::read(&theirs).unwrap(), b"PAR1 half");
        assert!(read_rows(File::open(family.join("job-0000001.parquet")).unwrap()).is_ok());
    }
    begin(out.path(), traces.path()).unwrap();
    assert!(!theirs.exists(), "the next driver clears what was left half written");
}

#[test]
fn a_folder_is_refused_that_is_not_this_sweeps() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    fs::write(out.path().join("thesis.tex"), "years of work").unwrap();
    let error = begin(out.path(), traces.path()).unwrap_err().to_string();
    assert!(error.contains("holds `thesis.tex` and no sweep"), "{error}");
    fs::remove_file(out.path().join("thesis.tex")).unwrap();
    drop(begin(out.path(), traces.path()).unwrap());

    let other = PLAN.replace("small", "other");
    let error = begin_with(&other, out.path(), traces.path()).unwrap_err();
    assert!(error.to_string().contains("belongs to another plan"), "{error}");

    let list = out.path().join("jobs.jsonl");
    fs::write(&list, fs::read_to_string(&list).unwrap().replace("a.csv", "c.csv")).unwrap();
    let error = begin(out.path(), traces.path()).unwrap_err().to_string();
    assert!(error.contains("not the list that this sweep began with"), "{error}");
}

#[test]
fn a_file_of_rows_that_is_damaged_anywhere_is_no_panic() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let folder = begin(out.path(), traces.path()).unwrap();
    folder.run(&folder.jobs()[0], &|_| {}).unwrap();
    let whole = fs::read(out.path().join("results/family=files/job-0000001.parquet")).unwrap();
    let read = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, bytes).unwrap();
        read_rows(file)
    };
    assert!(read(&whole).is_ok());
    for length in (0..whole.len()).step_by(97) {
        assert!(read(&whole[..length]).is_err(), "cut off after {length}");
    }
}

#[test]
fn an_estimate_grows_with_the_trace() {
    let folder = traces();
    let plan = Plan::parse(PLAN, "plan.toml").unwrap();
    let jobs = list(&plan, folder.path(), "plan.toml", &NoBuckets).unwrap();
    let small = estimate(&plan.contest, folder.path(), &jobs).unwrap();
    assert_eq!((small.jobs, small.rows), (10, 60));
    let mut large = jobs.clone();
    for job in &mut large {
        if let JobTrace::File { bytes, .. } = &mut job.trace {
            *bytes *= 1 << 20;
        }
    }
    let large = estimate(&plan.contest, folder.path(), &large).unwrap();
    assert!(large.memory_bytes[0] > 5 * small.memory_bytes[0], "{large:?} {small:?}");
}

/// A plan of 1,000 workloads that differed in their length alone was probed 1,000 times.
#[test]
fn made_workloads_of_one_kind_are_estimated_from_one_another() {
    let contest = Plan::parse(PLAN, "plan.toml").unwrap().contest;
    let made = |words: &[&str]| -> Vec<u64> {
        let job = |(i, words): (usize, &&str)| Job {
            number: i as u64 + 1,
            family: "made".to_string(),
            name: words.to_string(),
            trace: JobTrace::Synth(words.to_string()),
            seed: 1,
        };
        let jobs: Vec<Job> = words.iter().enumerate().map(job).collect();
        estimate(&contest, Path::new("."), &jobs).unwrap().memory_bytes
    };
    let together = made(&["web,requests=1k", "web,requests=400k", "web,requests=200k,seed=7"]);
    // The longest of them was looked at: as if it were alone.
    assert_eq!(together[1], made(&["web,requests=400k"])[0]);
    assert!(together[0] < together[2] && together[2] < together[1], "{together:?}");
    // Another kind has an estimate of its own.
    let apart = made(&["web,requests=400k", "oltp,requests=400k"]);
    assert_eq!(apart[1], made(&["oltp,requests=400k"])[0]);
    assert_ne!(apart[0], apart[1]);
}

/// A file of rows.
fn rows(out: &Path, family: &str, job: u64) -> Vec<super::Measured> {
    let name = format!("results/family={family}/job-{job:07}.parquet");
    read_rows(File::open(out.join(name)).unwrap()).unwrap()
}

/// A trace that was not there, or could not be read, had an error as its result for ever.
#[test]
fn a_trace_that_cannot_be_read_now_is_tried_again() {
    let (traces, out, whole) =
        (traces(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run_all(&begin(whole.path(), traces.path()).unwrap(), 2);
    let folder = begin(out.path(), traces.path()).unwrap();
    let away = traces.path().join("away");
    fs::rename(traces.path().join("a.csv"), &away).unwrap();
    fs::rename(traces.path().join("b.csv"), traces.path().join("b")).unwrap();
    fs::create_dir(traces.path().join("b.csv")).unwrap();
    let unread = std::sync::Mutex::new(Vec::new());
    let told = |job: &Job, ran: &Ran| {
        if let Ran::Unread { problem } = ran {
            unread.lock().unwrap().push((job.number, problem.clone()));
        }
    };
    let done = drive(&folder, Drive { workers: 1 }, &AtomicBool::new(false), &told).unwrap();
    let unread = unread.into_inner().unwrap();
    assert_eq!((done, unread.len()), (6, 4));
    assert!(unread[0].1.contains("a.csv: No such file"), "{unread:?}");
    assert!(unread[2].1.contains("b.csv: "), "a folder is no trace: {unread:?}");
    let missing: Vec<u64> = folder.missing().unwrap().iter().map(|job| job.number).collect();
    assert_eq!(missing, [1, 2, 3, 4]);
    assert!(rows(out.path(), "files", 5)[0].error.is_some(), "a broken trace is a result");
    drop(folder);

    fs::rename(&away, traces.path().join("a.csv")).unwrap();
    fs::remove_dir(traces.path().join("b.csv")).unwrap();
    fs::rename(traces.path().join("b"), traces.path().join("b.csv")).unwrap();
    assert_eq!(run_all(&begin(out.path(), traces.path()).unwrap(), 2), 4);
    assert_eq!(results(out.path()), results(whole.path()));
}

/// Compiles a library from C beside the traces; false, and SKIPPED, without a compiler.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn compiled(folder: &Path, name: &str, code: &str) -> bool {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    let source = folder.join("source.c");
    fs::write(&source, code).unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-O1", "-std=gnu11", "-shared", "-fPIC", "-I"]).arg(plugins.join("include"));
    let Ok(done) = cc.arg("-o").arg(folder.join(name)).arg(&source).output() else {
        println!("SKIPPED: needs a C compiler, cc");
        return false;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    true
}

/// LRU of the examples, as a text.
fn lru_in_c() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/examples/lru.c");
    fs::read_to_string(source).unwrap()
}

/// A policy that says hit to everything, and others that fail.
const LIAR: &str = include_str!("../../../plugins/tests/liar.c");

pub(super) fn with_own_policies() -> String {
    PLAN.replace("\"random+lru\"", "\"./own.so:lru\", \"./liar.so:liar\"")
}

/// A plan took policies of the registry only, and nonsense of a library ended the run of all.
#[test]
fn libraries_run_beside_other_policies_and_a_liar_takes_no_rows_but_its_own() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    if !compiled(traces.path(), "own.so", &lru_in_c()) {
        return;
    }
    compiled(traces.path(), "liar.so", LIAR);
    let folder = begin_with(&with_own_policies(), out.path(), traces.path()).unwrap();
    assert_eq!(run_all(&folder, 2), 10);
    for job in [1, 2, 3, 9] {
        let rows = rows(out.path(), if job < 9 { "files" } else { "made" }, job);
        let of = |policy: &str| -> Vec<super::Measured> {
            let own = rows.iter().filter(|row| row.policy == policy);
            own.map(|row| super::Measured { policy: String::new(), ..row.clone() }).collect()
        };
        assert_eq!(rows.len(), 8);
        assert_eq!((of("lru").len(), of("lru")), (2, of("./own.so:lru")));
        assert!(of("arc").iter().all(|row| row.error.is_none()));
        for row in of("./liar.so:liar") {
            let error = row.error.unwrap();
            assert!(error.starts_with("policy `./liar.so:liar`: its answer cannot be"), "{error}");
        }
    }
    let head = fs::read_to_string(out.path().join("sweep.json")).unwrap();
    let own = fs::read(traces.path().join("own.so")).unwrap();
    assert!(head.contains(&blake3::hash(&own).to_hex().to_string()), "{head}");
    let report = super::report::report(
        out.path(),
        &super::report::ReportOptions {
            measure: super::report::Measure::RequestMisses,
            baseline: Some("./own.so:lru".to_string()),
            flash_writes: 1.0,
        },
    );
    let text = report.unwrap().to_markdown();
    assert!(text.contains("./own.so:lru") && text.contains("./liar.so:liar at"), "{text}");

    // Workers elsewhere load the copy; the plan's own file may be gone there.
    let remote = tempfile::tempdir().unwrap();
    let driver = begin_with(&with_own_policies(), remote.path(), traces.path()).unwrap();
    fs::remove_file(traces.path().join("own.so")).unwrap();
    for job in driver.missing().unwrap() {
        let worker = Worker::open(remote.path(), driver.plan_blake3()).unwrap();
        worker.run(job, &|_| {}).unwrap();
    }
    assert_eq!(results(remote.path()), results(out.path()));
}

#[test]
fn a_library_that_was_changed_since_the_sweep_began_is_refused() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    if !compiled(traces.path(), "own.so", &lru_in_c()) {
        return;
    }
    compiled(traces.path(), "liar.so", LIAR);
    let plan = with_own_policies();
    let plan_blake3 = {
        let folder = begin_with(&plan, out.path(), traces.path()).unwrap();
        folder.run(&folder.jobs()[0], &|_| {}).unwrap();
        folder.plan_blake3().to_string()
    };
    compiled(traces.path(), "own.so", &format!("{}\nint added;\n", lru_in_c()));
    let error = begin_with(&plan, out.path(), traces.path()).unwrap_err().to_string();
    assert!(error.contains("own.so: not the library that this sweep began with"), "{error}");
    compiled(traces.path(), "own.so", &lru_in_c());
    assert_eq!(run_all(&begin_with(&plan, out.path(), traces.path()).unwrap(), 1), 9);

    let copies = fs::read_dir(out.path().join("libraries")).unwrap();
    for copy in copies {
        let path = copy.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        bytes.push(0);
        // Not written in place: it is loaded, and mapped into this process.
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    for error in [
        Worker::open(out.path(), &plan_blake3).unwrap_err(),
        Folder::open_shared(out.path()).unwrap_err(),
    ] {
        assert!(error.to_string().contains("not the copy of ./"), "{error}");
    }
}

#[test]
fn a_library_that_cannot_be_loaded_begins_nothing() {
    let traces = traces();
    let out = traces.path().join("out");
    let error = begin_with(&with_own_policies(), &out, traces.path()).unwrap_err().to_string();
    assert!(error.contains("liar.so: No such file"), "{error}");
    assert!(!out.exists());
    for name in ["own.so", "liar.so"] {
        fs::write(traces.path().join(name), "not a library").unwrap();
    }
    let error = begin_with(&with_own_policies(), &out, traces.path()).unwrap_err().to_string();
    assert!(error.contains("./own.so: it cannot be loaded"), "{error}");
    assert!(!out.exists(), "what is refused leaves nothing behind");
}

/// Results of the other plan counted for this one.
#[test]
fn who_begins_while_another_one_has_begun_and_ended_is_refused() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let out = out.path().join("sweep");
    let other = PLAN.replace("title = \"small\"", "title = \"other\"");
    let plan = Plan::parse(&other, "plan.toml").unwrap();
    let with =
        Beginning { plan: &other, contest: &plan.contest, beside: traces.path(), command: "test" };
    // While this one lists its traces, the other one begins, and ends.
    let begun = Folder::begin(&out, with, || {
        run_all(&begin(&out, traces.path()).unwrap(), 1);
        Ok::<_, FolderError>(list(&plan, traces.path(), "plan.toml", &NoBuckets).unwrap())
    });
    assert!(begun.unwrap_err().to_string().contains("another plan"));
    assert_eq!(fs::read_to_string(out.join("plan.toml")).unwrap(), PLAN);
    // Two that begin the same one: the second goes on with what is there.
    assert_eq!(begin(&out, traces.path()).unwrap().missing().unwrap(), Vec::<&Job>::new());
}

#[test]
fn files_of_another_plan_and_copies_count_for_nothing() {
    let (traces, folder) = (traces(), tempfile::tempdir().unwrap());
    let [ours, theirs] = ["ours", "theirs"].map(|name| folder.path().join(name));
    run_all(&begin(&ours, traces.path()).unwrap(), 1);
    let other = PLAN.replace("requests=3k", "requests=4k");
    run_all(&begin_with(&other, &theirs, traces.path()).unwrap(), 1);
    let whole = results(&ours);
    let report = || super::folder::contents(&ours).unwrap();
    let (all, rows) = (report().done, report().rows.len());
    assert_eq!(all, report().jobs);
    let results_of = |sweep: &Path| sweep.join("results/family=made");
    let job = "job-0000009.parquet";
    // As tools for synchronisation leave it.
    let copy = results_of(&ours).join("job-0000009 (conflicted copy).parquet");
    fs::copy(results_of(&ours).join(job), &copy).unwrap();
    assert_eq!((report().done, report().rows.len()), (all, rows));
    fs::remove_file(copy).unwrap();
    for broken in [false, true] {
        match broken {
            false => fs::copy(results_of(&theirs).join(job), results_of(&ours).join(job)).map(drop),
            true => fs::write(results_of(&ours).join(job), "PAR1"),
        }
        .unwrap();
        assert_eq!(report().done, all - 1);
        let again = begin(&ours, traces.path()).unwrap();
        assert_eq!(again.missing().unwrap().iter().map(|job| job.number).collect::<Vec<_>>(), [9]);
        run_all(&again, 1);
        assert_eq!(results(&ours), whole);
    }
    // Times that cannot be read were not measured.
    fs::write(ours.join("times/family=made").join(job), "").unwrap();
    assert_eq!((report().done, report().rows.len()), (all, rows));
}

#[test]
fn a_plan_that_somebody_wrote_is_not_written_over() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let plan = out.path().join("plan.toml");
    fs::write(&plan, "# mine\n").unwrap();
    let error = begin(out.path(), traces.path()).unwrap_err().to_string();
    assert!(error.contains("the folder holds `plan.toml` and no sweep"), "{error}");
    assert_eq!(fs::read_to_string(&plan).unwrap(), "# mine\n");
    // The same plan may lie there, and one beside a lock is of a beginning that was cut off.
    fs::write(&plan, PLAN).unwrap();
    begin(out.path(), traces.path()).unwrap();
    let cut = tempfile::tempdir().unwrap();
    fs::write(cut.path().join("plan.toml"), "# mi").unwrap();
    fs::write(cut.path().join("lock"), "").unwrap();
    begin(cut.path(), traces.path()).unwrap();
}

#[test]
fn a_trace_counts_once_however_it_is_reached() {
    let traces = traces();
    std::os::unix::fs::symlink(".", traces.path().join("again")).unwrap();
    let plan = |text: &str| list(&Plan::parse(text, "p").unwrap(), traces.path(), "p", &NoBuckets);
    let through_links = PLAN.replace("[\"*.csv\"]", "[\"*.csv\", \"again/*.csv\"]");
    assert_eq!(plan(&through_links), plan(PLAN));
    let twice = format!("{PLAN}\n[[traces]]\nfamily = \"files\"\nfiles = [\"a.csv\"]\n");
    let error = plan(&twice).unwrap_err().to_string();
    assert!(error.contains("family `files` has `a.csv` twice"), "{error}");
    let twice = format!("{PLAN}\n[[traces]]\nfamily = \"made\"\nsynth = [\"web,requests=3k\"]\n");
    assert!(plan(&twice).unwrap_err().to_string().contains("twice"));
    let elsewhere = format!("{PLAN}\n[[traces]]\nfamily = \"more\"\nfiles = [\"a.csv\"]\n");
    assert_eq!(plan(&elsewhere).unwrap().len(), plan(PLAN).unwrap().len() + 2);
}

#[test]
fn patterns_over_folders_end_where_links_lead_back_up() {
    let traces = traces();
    let deep = traces.path().join("deep/er");
    fs::create_dir_all(&deep).unwrap();
    fs::copy(traces.path().join("a.csv"), deep.join("c.csv")).unwrap();
    for link in ["up", "deep/up", "deep/er/up"] {
        std::os::unix::fs::symlink(traces.path(), traces.path().join(link)).unwrap();
    }
    let plan = |pattern: &str| {
        let text = PLAN.replace("[\"*.csv\"]", &format!("[\"{pattern}\"]"));
        list(&Plan::parse(&text, "p").unwrap(), traces.path(), "p", &NoBuckets)
    };
    let count = |pattern: &str| {
        plan(pattern).map(|jobs| jobs.iter().filter(|job| job.family == "files").count())
    };
    let flat = count("*.csv").unwrap();
    let one = count("deep/*/c.csv").unwrap();
    assert_eq!(count("**/*.csv").unwrap(), flat + one);
    assert_eq!(count("deep/**/?.csv").unwrap(), one);
    assert_eq!(count("deep/er/c.csv").unwrap(), one);
    // A name that no result could have.
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"\xff.csv");
    fs::write(deep.join::<&std::ffi::OsStr>(name), "").unwrap();
    let error = plan("**/*.csv").unwrap_err().to_string();
    assert!(error.contains("the name is not UTF-8; rename the file"), "{error}");
    assert_eq!(count("*.csv").unwrap(), flat, "it is in another folder");
}

#[test]
fn a_trace_of_another_length_than_when_the_sweep_began_has_no_result() {
    let (traces, out) = (traces(), tempfile::tempdir().unwrap());
    let folder = begin(out.path(), traces.path()).unwrap();
    fs::write(traces.path().join("a.csv"), msr(801)).unwrap();
    let unread = std::sync::Mutex::new(Vec::new());
    let told = |_: &Job, ran: &Ran| {
        if let Ran::Unread { problem } = ran {
            unread.lock().unwrap().push(problem.clone());
        }
    };
    let done = drive(&folder, Drive { workers: 1 }, &AtomicBool::new(false), &told).unwrap();
    let unread = unread.into_inner().unwrap();
    assert_eq!((done, unread.len()), (8, 2), "{unread:?}");
    assert!(unread[0].contains("a.csv: ") && unread[0].contains("when the sweep began"));
}
