//! `advise` as a user runs it: the table, JSON, the page, a recording, and what it refuses.

use crate::engine::over_socket;
use crate::program::{folder, run};
use crate::up::{URI, Up, clients_are_here};
use serde_json::Value;

const SYNTH: &str = "advise --synth oltp,requests=5k,vms=1 --seeds 2";

#[test]
fn the_table_says_what_helps_and_that_prices_are_assumed() {
    let folder = folder("advise_table");
    let ran = run(&folder, SYNTH).succeeded();
    let table = ran.stdout();
    for part in
        ["as it is", "policy hemem", "more of nvme", "as a block cache", "a bucket", "better"]
    {
        assert!(table.contains(part), "{part} not in\n{table}");
    }
    assert!(table.contains("Prices are assumed"), "{table}");
    assert_eq!(ran.stderr(), "", "no progress without a terminal");
}

#[test]
fn json_has_intervals_and_own_prices_and_the_cheapest_set_keeps_its_bound() {
    let folder = folder("advise_json");
    let prices = "[nvme]\ngib = 1\nyears = 5\n[hdd-7200]\ngib = 0.01\nyears = 5\n";
    std::fs::write(folder.join("prices.toml"), prices).unwrap();
    let words = format!("{SYNTH} --prices prices.toml --p99 2ms --json --html page.html");
    let report: Value = serde_json::from_str(&run(&folder, &words).succeeded().stdout()).unwrap();
    let answers = report["answers"].as_array().unwrap();
    let ratio = &answers[1]["figures"]["mean_ratio"];
    assert!(ratio["low"].as_f64().unwrap() <= ratio["high"].as_f64().unwrap());
    let priced = |answer: &Value| answer["figures"]["month_cost"].is_number();
    assert!(priced(&answers[0]) && !priced(answers.last().unwrap()), "S3 has no price here");
    let (sets, kept) =
        (report["cheapest"]["sets"].as_array().unwrap(), &report["cheapest"]["kept"]);
    assert_eq!(kept, true);
    assert!(sets.last().unwrap()["figures"]["p99_s"]["mean"].as_f64().unwrap() <= 0.002);
    let has_sata = |set: &Value| set["what"].as_str().unwrap().contains("sata");
    assert!(!sets.iter().any(has_sata), "what has no price is not offered");
    assert!(std::fs::read_to_string(folder.join("page.html")).unwrap().contains("</html>"));
    run(&folder, &words).ended_with(2).says("page.html exists");
}

#[test]
fn wrong_words_are_refused_with_what_would_do() {
    let folder = folder("advise_refusals");
    std::fs::write(folder.join("prices.toml"), "[nvme]\ngib = -1\nyears = 5\n").unwrap();
    let refused = |words: &str, says: &str| {
        run(&folder, &format!("{SYNTH} {words}")).ended_with(2).says(says);
    };
    refused("--prices prices.toml", "prices.toml: [nvme]");
    refused("--prices nowhere.toml", "nowhere.toml");
    refused("--policy hemen", "did you mean `hemem`");
    refused("--against lru", "is a cache, not a placement");
    run(&folder, "advise --synth oltp --seeds 0").ended_with(2).says("1..=100");
    let tiny = "[[pool]]\nprofile = \"nvme\"\nsize = \"4GiB\"\n[pool.cache]\nprofile = \"nvme\"\nsize = \"64KiB\"\n";
    std::fs::write(folder.join("tiny.toml"), tiny).unwrap();
    refused("--pools tiny.toml --policy static", "64 KiB is not whole sectors from 1 MiB");
}

#[test]
fn a_running_engine_is_sampled_and_its_own_pools_and_policy_are_what_there_is() {
    if !clients_are_here() {
        return;
    }
    let folder = folder("advise_live");
    let up = Up::start_with(&folder, "--size 64MiB --no-emulation");
    std::thread::scope(|scope| {
        let words = "advise --live 3s --publish --api pools/http.sock --seeds 1 --json";
        let advised = scope.spawn(|| run(&folder, words));
        // Clients ask on until the sample has been taken.
        while !advised.is_finished() {
            let ask = "write -P 7 0 1M";
            up.run("qemu-io", &["-f", "raw", "-c", ask, "-c", "read 0 1M", URI]).unwrap();
        }
        let report: Value =
            serde_json::from_str(&advised.join().unwrap().succeeded().stdout()).unwrap();
        assert!(report["requests"].as_u64().unwrap() > 0);
        assert_eq!(report["sampled"], true);
        assert_eq!(report["answers"][0]["policy"], "auto");
        assert_eq!(report["answers"][0]["pools"].as_array().unwrap().len(), 3);
        assert!(report["measured"]["requests"].as_u64().unwrap() > 0, "it tells what it took");
        assert_eq!(report["from_map"], true);
        let (status, told) = over_socket(&folder, "/v1/forecasts");
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((status, told.as_array().unwrap().len()), (200, 1));
        let (trials, answers) = (&told[0]["forecast"]["trials"], &report["answers"]);
        assert_eq!(trials.as_array().unwrap().len(), answers.as_array().unwrap().len());
        assert_eq!(
            (&trials[0]["verdict"], &trials[0]["what"]),
            (&"now".into(), &answers[0]["what"])
        );
        assert_eq!(over_socket(&folder, "/v1/forecasts?after=1").1, "[]");
    });
    run(&folder, "advise --synth oltp --publish").ended_with(2).says("--live");
    run(&folder, "advise --live 1s --api nowhere.sock").command_ended_with(1).says("nowhere.sock");
    run(&folder, "advise --live 1h --api pools/http.sock").ended_with(2).says("1s to 10min");
    run(&folder, "advise --live 1s --api pools/http.sock").ended_with(2).says("nothing in 1 s");
    assert_eq!(up.stop("-TERM"), Some(0));
}
