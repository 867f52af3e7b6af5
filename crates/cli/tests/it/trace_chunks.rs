//! `trace chunks` as a user runs it: tables, CSV, JSON, the page, a library of one's own.

use crate::program::{folder, run};
use serde_json::Value;

const SYNTH: &str = "trace chunks --synth oltp,requests=5k,vms=2 --chunk 16MiB --window 30s";

#[test]
fn every_form_tells_the_same_windows() {
    let folder = folder("chunks_forms");
    let table = run(&folder, SYNTH).succeeded().stdout();
    for part in ["fully random write", "overwritten", "top I/Os", "Accesses to a chunk in a window"]
    {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    let json: Value =
        serde_json::from_str(&run(&folder, &format!("{SYNTH} --json")).succeeded().stdout())
            .unwrap();
    let windows = json["windows"].as_array().unwrap();
    let csv = run(&folder, &format!("{SYNTH} --csv")).succeeded().stdout();
    assert_eq!(csv.lines().count(), windows.len() + 1);
    let accessed = |line: &str| line.split(',').nth(4).unwrap().parse::<u64>().unwrap();
    let of_csv: Vec<u64> = csv.lines().skip(1).map(accessed).collect();
    let of_json: Vec<u64> = windows.iter().map(|row| row["accessed"].as_u64().unwrap()).collect();
    assert_eq!(of_csv, of_json);
    let each = run(&folder, &format!("{SYNTH} --each")).succeeded().stdout();
    assert_eq!(each.lines().count() as u64, 1 + of_json.iter().sum::<u64>());
    let columns = |text: &str| text.lines().map(|line| line.split(',').count()).min();
    assert_eq!(columns(&each), Some(14), "{}", each.lines().next().unwrap());
    for row in windows {
        for level in row["patterns"].as_array().unwrap() {
            let sum: u64 = level.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
            assert_eq!(Some(sum), row["accessed"].as_u64());
        }
    }
}

#[test]
fn the_page_and_a_library_come_from_and_go_to_files() {
    let folder = folder("chunks_files");
    let library = run(&folder, "policies library").succeeded().stdout();
    let library = library.replace("pattern = \"overwritten\"", "pattern = \"beaten flat\"");
    std::fs::write(folder.join("mine.toml"), library).unwrap();
    let words = format!("{SYNTH} --library mine.toml --csv --plot p.html");
    let csv = run(&folder, &words).succeeded().stdout();
    assert!(csv.lines().next().unwrap().contains("overwrites: beaten flat"), "{csv}");
    let page = std::fs::read_to_string(folder.join("p.html")).unwrap();
    assert!(page.contains("beaten flat") && page.contains("</html>"));
    run(&folder, &words).ended_with(2).says("p.html exists");
    run(&folder, &format!("{SYNTH} --library none.toml")).ended_with(2).says("none.toml");
    run(&folder, "trace chunks --synth oltp,requests=5k --chunk 3MiB")
        .ended_with(2)
        .says("power of two");
}
