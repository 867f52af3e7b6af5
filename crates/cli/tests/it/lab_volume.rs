//! `lab volume` as a user runs it: the table, JSON, CSV, the page, and what it refuses.

use crate::program::{compiled, folder, run};
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
        ("--speed 0", "between 0.000001 and 1000000"),
        ("--speed 1e-300", "a speed of 1e-300; it lies between"),
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

#[test]
fn a_trace_that_is_slowed_down_to_centuries_is_refused() {
    let folder = folder("volume_slow");
    let day = "128166372003061629,web,0,Read,0,4096,0\n128167236003061629,web,0,Read,0,4096,0\n";
    std::fs::write(folder.join("day.csv"), day).unwrap();
    let words = "lab volume day.csv --policy static --epoch 24h --speed";
    run(&folder, &format!("{words} 1e-6")).ended_with(2).says("use 0.000274 or more");
    run(&folder, &format!("{words} 0.000274")).succeeded();
}

/// Two pools with room for few chunks on the fast one.
const NARROW: &str = "[[pool]]\nprofile = \"nvme\"\nsize = \"5%\"\n\
                      [[pool]]\nprofile = \"hdd-7200\"\nsize = \"150%\"\n";

#[test]
fn a_placement_of_a_library_does_exactly_what_the_built_in_one_does() {
    let folder = folder("volume_plug_in");
    if !compiled(&folder, "examples/baseline.c", "b.so") {
        return;
    }
    std::fs::write(folder.join("p.toml"), NARROW).unwrap();
    let own = "./b.so:baseline:k=30";
    for load in [
        "--synth fileserver,requests=8k,vms=2 --epoch 2s",
        "--synth oltp,requests=8k --thin --epoch 2s",
    ] {
        let words = format!("lab volume {load} --pools p.toml --policy {own},baseline:k=30 --json");
        let report: Value =
            serde_json::from_str(&run(&folder, &words).succeeded().stdout()).unwrap();
        let figures = |at: usize| {
            let mut run = report["runs"][at].clone();
            for left_out in ["policy", "cpu_s", "requests_per_cpu_s"] {
                run[left_out] = Value::Null;
            }
            run
        };
        assert_eq!(report["runs"][0]["policy"], own);
        assert!(figures(0)["moves_proposed"].as_u64().unwrap() > 0, "{load}");
        assert_eq!(figures(0), figures(1), "{load}");
    }
    // It is a flash manager of `lab cache`, too.
    let words = format!(
        "lab cache --synth fileserver,requests=8k,vms=2 --size 10% --epoch 2s \
         --policy {own},baseline:k=30 --json"
    );
    let report: Value = serde_json::from_str(&run(&folder, &words).succeeded().stdout()).unwrap();
    let counts = |at: usize| report["rows"][at]["line_misses"].clone();
    assert!(counts(0).as_u64().unwrap() > 0);
    assert_eq!(counts(0), counts(1));
    // The engine keeps what it learns and records: it takes placements of the registry only.
    let refused = "an engine takes no placements of shared libraries";
    run(&folder, &format!("up --policy {own}")).ended_with(2).says(refused);
    let advise = "advise --synth oltp,requests=1k --policy";
    run(&folder, &format!("{advise} {own}")).ended_with(2).says(refused);
}

#[test]
fn a_placement_that_proposes_nonsense_has_no_result_and_others_have_theirs() {
    let folder = folder("volume_liar");
    if !compiled(&folder, "tests/placement_liar.c", "x.so") {
        return;
    }
    std::fs::write(folder.join("p.toml"), NARROW).unwrap();
    let words = format!("{SYNTH} --pools p.toml --csv --policy");
    let plain = |csv: String| {
        // Processor times differ from run to run.
        let cells = |line: &str| line.split(',').take(20).collect::<Vec<_>>().join(",");
        csv.lines().map(cells).collect::<Vec<_>>()
    };
    let alone = plain(run(&folder, &format!("{words} static,baseline")).succeeded().stdout());
    let named = "static,./x.so:twice,baseline,./x.so:no-pool,./x.so:overfill";
    let ran = run(&folder, &format!("{words} {named}")).ended_with(1);
    assert_eq!(plain(ran.stdout()), alone);
    for part in [
        "3 of 5 results are missing",
        "policy `./x.so:twice`: its proposal makes no sense: move 1 is the second one of chunk",
        "policy `./x.so:no-pool`: ",
        "and there are 2 pools",
        "policy `./x.so:overfill`: ",
        "which has no room for it",
    ] {
        assert!(ran.stderr().contains(part), "{part} not in\n{}", ran.stderr());
    }
    let none = run(&folder, &format!("{words} ./x.so:silent")).ended_with(1);
    assert_eq!(none.stdout(), "");
    none.says("1 of 1 results are missing");
    // One that cannot begin ends the run before anything is run.
    run(&folder, &format!("{words} static,./x.so:unmade")).ended_with(2).says("it never can");
    let cache = "lab cache --synth oltp,requests=5k,vms=1 --epoch 30s --size 10% --policy";
    let ran = run(&folder, &format!("{cache} lru,./x.so:no-chunk")).ended_with(1);
    ran.says("policy `./x.so:no-chunk` at 10%: its proposal makes no sense");
}
