//! `lab balance` as a user runs it: the table, JSON, CSV, the page, a trace, and what it refuses.

use crate::program::{folder, run};
use serde_json::Value;

const SMALL: &str = "lab balance --requests 3k --seeds 2";

#[test]
fn without_a_policy_the_default_and_its_rivals_run_under_both_bounds() {
    let ran = run(&folder("balance_table"), SMALL).succeeded();
    let table = ran.stdout();
    for part in [
        "16 equal sites, 50 % loaded",
        "independent, 10 s apart",
        "central queue (bound)",
        "jsq (bound)",
        "water-fill",
        "Least mean wait: ",
    ] {
        assert!(table.contains(part), "{part} not in\n{table}");
    }
    assert_eq!(ran.stderr(), "", "no progress without a terminal");
}

#[test]
fn results_come_by_name_and_do_not_depend_on_the_number_of_threads() {
    let folder = folder("balance_json");
    let words = format!(
        "{SMALL} --policy ara,p2c:d=3 --balancers 4 --bursts I=32.25,share=0.9,length=1.3s \
         --view refresh --service pareto:2.5 --json --threads"
    );
    let report = |threads: u32| -> Value {
        let ran = run(&folder, &format!("{words} {threads}")).succeeded();
        serde_json::from_str(&ran.stdout()).unwrap()
    };
    let alone = report(1);
    let names: Vec<&str> = alone["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["central queue", "jsq", "ara", "p2c:d=3"]);
    assert_eq!((alone["balancers"].as_u64(), alone["requests"].as_u64()), (Some(4), Some(3000)));
    assert!(alone["rows"][2]["bursts_known"].as_f64().unwrap() > 0.3);
    assert!(alone["rows"][3]["wait_s"]["ci95"].as_f64().unwrap() > 0.0);
    assert_eq!(alone["rows"][3]["busy"].as_array().unwrap().len(), 16);
    assert_eq!(alone, report(2));
}

#[test]
fn a_trace_csv_and_the_page() {
    let folder = folder("balance_files");
    let words = "lab balance --synth web,requests=3k --service bytes --sites 4,1,1 --seeds 1 \
                 --policy least,rand --csv --html r.html";
    let csv = run(&folder, words).succeeded().stdout();
    let firsts: Vec<&str> = csv.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(firsts, ["policy", "\"central queue\"", "\"jsq\"", "\"least\"", "\"rand\""]);
    assert!(std::fs::read_to_string(folder.join("r.html")).unwrap().contains("</html>"));
    run(&folder, words).ended_with(2).says("r.html exists");
}

#[test]
fn what_cannot_be_run_is_refused_with_what_to_write() {
    let folder = folder("balance_refusals");
    let refused = |words: &str, message: &str| {
        run(&folder, &format!("lab balance {words}")).ended_with(2).says(message);
    };
    refused("--policy lru", "not a balancer; those are rand,");
    refused("--policy watr-fill", "did you mean `water-fill`?");
    refused("--bursts I=3", "one of them is missing");
    refused("--bursts I=0.5,share=0.9,length=1s", "at least 1, not 0.5");
    refused("--service gamma", "write exp, fixed, pareto:1.5 or bytes");
    refused("--service bytes", "needs a trace");
    refused("--sites 0", "0 sites");
    refused("--synth web,requests=1k --policy ara-opt", "leave it out");
    refused("--load 0", "a load of 0");
    run(&folder, "lab cache --synth web,requests=1k --policy least --size 1MiB")
        .ended_with(2)
        .says("`thermocline lab balance` runs it");
}
