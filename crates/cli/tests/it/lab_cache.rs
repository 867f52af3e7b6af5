//! `lab cache` as a user runs it: tables, JSON, CSV, files, curves, and what it refuses.

use crate::program::{compiled, folder, run, run_with_input};
use serde_json::Value;

const SYNTH: &str = "lab cache --synth mixed,requests=20k,vms=3";

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_usual_policies_run_on_a_made_workload_and_a_table_answers() {
    let folder = folder("lab_all");
    let ran = run(&folder, &format!("{SYNTH} --size 5%")).succeeded();
    let table = ran.stdout();
    for part in ["Flash of 5% of the working set", "s3-shadow", "g2-vfrm", "belady (bound)"] {
        assert!(table.contains(part), "{part} not in\n{table}");
    }
    assert!(table.contains("Most requests from flash:"), "a verdict closes it\n{table}");
    assert_eq!(ran.stderr(), "", "no progress without a terminal");
    let rows = table.lines().filter(|line| line.starts_with(' ') && line.contains("iB ")).count();
    assert_eq!(rows, 10, "{table}");
}

#[test]
fn all_policies_run_but_those_that_can_decide_nothing_here_and_that_is_said() {
    let folder = folder("lab_every");
    let ran = run(&folder, &format!("{SYNTH} --policy all --size 5% --html all.html")).succeeded();
    let table = ran.stdout();
    let row = |name: &str| table.lines().any(|line| line.trim_start().starts_with(name));
    assert!(row("fifo ") && row("hemem ") && !row("lmst ") && !row("orthus "), "{table}");
    assert!(table.contains("note: left out of `all`") && table.contains("lmst, orthus"), "{table}");
    let page = std::fs::read_to_string(folder.join("all.html")).unwrap();
    assert!(page.contains("flash of 5%"), "one size is drawn as bars");
    let named = run(&folder, &format!("{SYNTH} --policy lmst --size 5% --csv")).succeeded();
    assert!(named.stdout().contains("\nlmst,"), "named, it runs");
    let curves = run(&folder, &format!("{SYNTH} --policy all --size 5%,20% --html two.html"));
    curves.succeeded();
    let page = std::fs::read_to_string(folder.join("two.html")).unwrap();
    for part in
        [">caches</button>", ">flash managers</button>", "data-series=\"lru\"", "data-later"]
    {
        assert!(page.contains(part), "{part}");
    }
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
            row["processor_s"] = Value::Null;
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
    for method in ["exact", "shards:0.3", "shards:9000lines"] {
        let ran = run(&folder, &format!("{SYNTH} --policy lru --mrc {method} --json")).succeeded();
        let curves = json(&ran.stdout());
        let points = curves["curves"][0]["points"].as_array().unwrap();
        let ratio = |point: &Value| point["miss_ratio"].as_f64().unwrap();
        assert!(points.len() > 10 && ratio(&points[0]) > ratio(points.last().unwrap()), "{method}");
    }
}

#[test]
fn curves_are_of_the_policies_at_the_sizes_and_in_the_form_asked_for() {
    // `--mrc` used to ignore `--policy`, `--size`, `--warmup`, `--csv` and `--parquet` in silence.
    let folder = folder("lab_curves_asked");
    let shards = format!("{SYNTH} --mrc shards:0.2");
    let ran = run(&folder, &format!("{shards} --policy arc --size 5%,16MiB --csv")).succeeded();
    assert_eq!(ran.stdout().lines().count(), 3, "{}", ran.stdout());
    assert!(ran.stdout().lines().skip(1).all(|line| line.starts_with("arc,")), "{}", ran.stdout());
    let table = run(&folder, &format!("{shards} --policy lru --size 5% --html m.html"));
    assert!(table.succeeded().stdout().contains('±'));
    let page = std::fs::read_to_string(folder.join("m.html")).unwrap();
    assert!(page.contains("lines sampled of about"), "the page says what it was made from");
    let cold = run(&folder, &format!("{SYNTH} --mrc exact --size 60% --csv")).succeeded().stdout();
    let warm = run(&folder, &format!("{SYNTH} --mrc exact --size 60% --warmup 15000 --csv"));
    assert_ne!(cold, warm.succeeded().stdout());
    for (words, said) in [
        ("--policy lru,oracle --size 5%", "`thermocline lab volume` runs it"),
        ("--mrc exact --policy arc", "LRU's curve"),
        ("--mrc shards:0.1 --policy vfrm", "moves chunks"),
        ("--mrc exact --parquet m.parquet", "cannot be used with"),
        ("--mrc exact --write around", "cannot be used with"),
        ("--mrc exact --warmup 20000", "leaves nothing to count"),
        ("--mrc shards:0.01 --size 50lines", "too few"),
    ] {
        run(&folder, &format!("{SYNTH} {words}")).ended_with(2).says(said);
    }
}

#[test]
fn a_low_rate_of_sampling_does_not_mislead() {
    // 0.0001 of these lines is a handful: the curve said a tenth of the truth, without a word.
    let folder = folder("lab_low_rate");
    let ratio = |method: &str| {
        let words = format!("{SYNTH} --policy lru --size 20% --mrc {method} --json");
        let point = &json(&run(&folder, &words).succeeded().stdout())["curves"][0]["points"][0];
        (point["miss_ratio"].as_f64().unwrap(), point["error"].as_f64().unwrap())
    };
    let (exact, _) = ratio("exact");
    let (sampled, error) = ratio("shards:0.0001");
    assert!((sampled - exact).abs() <= 2.0 * error, "{sampled} ± {error}, truth {exact}");
    assert!(error > 0.0 && error < 0.05, "{error}");
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
fn objects_are_counted_and_not_shown_as_bytes() {
    let folder = folder("lab_counts");
    let table = run(&folder, &format!("{SYNTH} --objects --policy lru --size 500obj")).succeeded();
    let table = table.stdout();
    assert!(table.contains("Flash of 500 lines") || table.contains("500 objects"), "{table}");
    assert!(table.contains(" objects, ") && !table.contains("working set 0 B"), "{table}");
}

/// A trace of oracleGeneral: `count` reads of as many ids, one second apart.
fn oracle_general(count: u64) -> Vec<u8> {
    let record = |id: u64| {
        let mut bytes = (id as u32).to_le_bytes().to_vec();
        bytes.extend((id % 50).to_le_bytes());
        bytes.extend(4096u32.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    };
    (0..count).flat_map(record).collect()
}

#[test]
fn notes_tell_what_the_figures_cannot() {
    let folder = folder("lab_notes");
    std::fs::write(folder.join("ids.bin"), oracle_general(600)).unwrap();
    let read = "lab cache ids.bin --format oracle-general --size 10lines --policy lru";
    let lines = run(&folder, read).succeeded().stdout();
    assert!(lines.contains("note: this trace names objects") && lines.contains("8 neighbouring"));
    let objects = run(&folder, &format!("{read} --objects")).succeeded().stdout();
    assert!(!objects.contains("note:"), "{objects}");
    let few = run(&folder, "lab cache ids.bin --format oracle-general --size 1MiB --policy ucp");
    assert!(few.succeeded().stdout().contains("too few to judge"));
    let many = "lab cache ids.bin --format oracle-general --size 1MiB --policy ucp --epoch 10s";
    assert!(!run(&folder, many).succeeded().stdout().contains("too few to judge"));
}

#[test]
fn shares_of_a_file_are_replayed_in_two_passes_with_the_same_rows_as_of_a_pipe() {
    let folder = folder("lab_passes");
    run(&folder, "trace convert --synth mixed,requests=20k,vms=3 --output t.csv").succeeded();
    let words = "--policy lru,arc,vfrm,ucp --size 5%,20% --warmup 10% --csv";
    let file = run(&folder, &format!("lab cache t.csv {words}")).succeeded().stdout();
    let trace = std::fs::read(folder.join("t.csv")).unwrap();
    let pipe = run_with_input(&folder, &format!("lab cache - {words}"), &trace);
    let rows = |text: &str| -> Vec<Vec<String>> {
        let cut = |line: &str| line.split(',').take(20).map(str::to_string).collect();
        text.lines().map(cut).collect()
    };
    assert_eq!(rows(&file), rows(&pipe.succeeded().stdout()));
}

#[test]
fn wrong_words_are_refused_with_what_would_do() {
    let folder = folder("lab_refusals");
    for (words, said) in [
        ("--policy lruu", "did you mean `lru`"),
        ("--policy LRU", "did you mean `lru`"),
        ("--warmup 20000", "leaves nothing to count"),
        ("--warmup 1000h", "leaves nothing to count"),
        ("--objects --chunk 2MiB", "cannot be used with"),
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
    let huge = b"128166372003061629,web,0,Read,0,99999999999,0\n";
    run_with_input(&folder, "lab cache -", huge).ended_with(2).says("<stdin>:1 or before");
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

/// Nonsense of a library ended the run, and took the rows of the other policies with it.
#[test]
fn a_library_that_answers_nonsense_has_no_result_and_others_have_theirs() {
    let folder = folder("lab_liar");
    if !compiled(&folder, "tests/liar.c", "x.so") {
        return;
    }
    // By a stream, in two passes, and with a bound, which needs the whole workload.
    for (others, size) in [("lru", "100lines"), ("lru", "5%"), ("lru,belady", "5%")] {
        let words = format!("{SYNTH} --size {size} --policy ./x.so:late,{others},./x.so:liar");
        let alone = run(&folder, &format!("{SYNTH} --size {size} --policy {others} --csv"));
        let ran = run(&folder, &format!("{words} --csv")).ended_with(1);
        assert_eq!(ran.stdout(), alone.succeeded().stdout());
        for part in ["2 of ", "results are missing", "policy `./x.so:late` at ", "cannot be true"] {
            assert!(ran.stderr().contains(part), "{part} not in\n{}", ran.stderr());
        }
        let report = json(&run(&folder, &format!("{words} --json")).ended_with(1).stdout());
        assert_eq!(report["failures"].as_array().unwrap().len(), 2);
        assert_eq!(report["failures"][0]["policy"], "./x.so:late");
        assert_eq!(report["rows"][0]["policy"], "lru");
    }
    let words = format!("{SYNTH} --size 5% --policy lru,./x.so:liar --html page.html");
    let table = run(&folder, &words).ended_with(1).stdout();
    assert!(table.contains("no result: policy `./x.so:liar` at 5%: its answer"), "{table}");
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("Results that are missing") && page.contains("./x.so:liar"));
    let none = run(&folder, &format!("{SYNTH} --policy ./x.so:liar --parquet p")).ended_with(1);
    assert!(none.stderr().contains("3 of 3 results are missing"), "{}", none.stderr());
    assert!(!folder.join("p").exists(), "a file without rows has no columns");
    // One that cannot begin ends the run before anything is replayed.
    let refused = run(&folder, &format!("{SYNTH} --policy lru,./x.so:unmade")).ended_with(2);
    assert!(refused.stderr().contains("it never can"), "{}", refused.stderr());
}
