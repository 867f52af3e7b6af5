//! `thermocline policies` as a user runs it: a library edited and used, and why a chunk is where it
//! is.

use crate::program::{folder, run};
use serde_json::Value;

#[test]
fn a_printed_library_can_be_edited_and_decides_by_its_name() {
    let folder = folder("policies_library");
    let printed = run(&folder, "policies library").succeeded().stdout();
    let edited = printed
        .replace("name = \"three-pools\"", "name = \"ours\"")
        .replace("from = 300", "from = 0.01")
        .replace("from = 10", "from = 0.001");
    std::fs::write(folder.join("mine.toml"), edited).unwrap();
    let line = run(&folder, "policies library mine.toml").succeeded().stdout();
    assert!(
        line.starts_with("ours{512;2;2;2|intensity@intensity;top I/Os[intensity=0.01..]fastest")
    );
    let words = "lab volume --synth oltp,requests=5k,vms=1 --epoch 30s --json --policy \
                 chew:library=mine.toml,chew:of=none:top=0.01:low=0.001,chew:of=none";
    let report: Value = serde_json::from_str(&run(&folder, words).succeeded().stdout()).unwrap();
    let of = |index: usize, what: &str| report["runs"][index][what].clone();
    assert_eq!(of(0, "policy"), "chew:library=ours");
    assert!(of(0, "moves_proposed").as_u64() > Some(0));
    assert_eq!(of(0, "moves_proposed"), of(1, "moves_proposed"));
    assert_ne!(of(0, "moves_proposed"), of(2, "moves_proposed"));
}

#[test]
fn a_library_that_is_wrong_names_file_and_line_wherever_it_is_named() {
    let folder = folder("policies_wrong");
    let printed = run(&folder, "policies library").succeeded().stdout();
    let wrong = printed.replacen("pools = [\"fastest\"]", "pools = [\"fast\"]", 1);
    let at = 1 + wrong.lines().position(|line| line.contains("[\"fast\"]")).unwrap();
    std::fs::write(folder.join("mine.toml"), wrong).unwrap();
    let said = format!("mine.toml, line {at}: a pool `fast`; those are fastest, middle, slowest");
    for words in [
        "policies library mine.toml",
        "lab volume --synth oltp,requests=5k --policy chew:library=mine.toml",
        "policies explain chew:library=mine.toml --synth oltp,requests=5k --chunk 0",
        "up --policy chew:library=mine.toml --size 64MiB",
        "policy set chew:library=mine.toml",
        "shadow add chew:library=mine.toml",
    ] {
        run(&folder, words).ended_with(2).says(&said);
    }
}

#[test]
fn a_chunk_is_explained_level_by_level_after_a_trace() {
    let folder = folder("policies_explain");
    let words = "policies explain chew:top=0.5:low=0.01:very-intense=2 --chunk 0 \
                 --synth oltp,requests=5k,vms=1 --epoch 30s";
    let told = run(&folder, words).succeeded().stdout();
    assert!(told.starts_with("chunk 0 of v0 (0 B to 1 MiB) lives on pool "), "{told}");
    for part in ["when it was last asked", "units of 512 B a second", "level 1, intensity: weight"]
    {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    let json: Value =
        serde_json::from_str(&run(&folder, &format!("{words} --json")).succeeded().stdout())
            .unwrap();
    assert_eq!((&json["chunk"], &json["chunk_bytes"]), (&Value::from(0), &Value::from(1 << 20)));
    let reasons = json["reasons"].as_array().unwrap();
    assert!(reasons.iter().all(|reason| told.contains(reason.as_str().unwrap())), "{told}");
    run(&folder, &words.replace("--chunk 0", "--chunk 99999999")).ended_with(2).says("no chunk");
    run(&folder, "policies explain --chunk 1").ended_with(2).says("<POLICY>");
    run(&folder, "policies explain lru --chunk 1 --synth oltp,requests=5k")
        .ended_with(2)
        .says("`lru` is a cache, not a placement; those are static, ");
}
