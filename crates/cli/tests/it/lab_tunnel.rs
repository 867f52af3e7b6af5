//! `thermocline lab tunnel` as a user runs it: losses, plain TCP beside the tunnel, bad options.

use crate::program::{folder, run};
use serde_json::Value;

/// Two files of 600 kB, the second with a few bytes more in its middle.
fn versions(folder: &std::path::Path) {
    let mut state = 7_u64;
    let mut bytes: Vec<u8> = Vec::new();
    while bytes.len() < 600_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        bytes.extend(&state.to_be_bytes()[..4]);
    }
    std::fs::write(folder.join("old"), &bytes).unwrap();
    bytes.splice(300_000..300_000, *b"something new");
    std::fs::write(folder.join("new"), &bytes).unwrap();
}

fn played(folder: &std::path::Path, options: &str) -> Value {
    let words = format!("lab tunnel old new --policy content:size=2KiB --json {options}");
    let rows: Value = serde_json::from_str(&run(folder, &words).succeeded().stdout()).unwrap();
    rows[0].clone()
}

#[test]
fn losses_take_time_and_plain_tcp_stands_beside() {
    let folder = folder("lab-tunnel");
    versions(&folder);
    let seconds = |row: &Value, key: &str| row[key].as_f64().unwrap();
    let whole = played(&folder, "--rate 10Mbit");
    let lossy = played(&folder, "--rate 10Mbit --loss 2%");
    assert!(seconds(&lossy, "took_s") > seconds(&whole, "took_s"), "{lossy} {whole}");
    assert!(seconds(&lossy, "plain_tcp_s") > seconds(&whole, "plain_tcp_s"), "{lossy} {whole}");
    // Half is found again: 0.6 MB instead of 1.2 over 1.25 MB/s.
    let ratio = seconds(&whole, "plain_tcp_s") / seconds(&whole, "took_s");
    assert!((1.3..2.5).contains(&ratio), "{ratio} times");
    let bare = played(&folder, "--rate 10Mbit --congestion none");
    assert!(bare["plain_tcp_s"].is_null(), "without TCP there is no plain TCP: {bare}");
    assert!(seconds(&bare, "took_s") < seconds(&whole, "took_s"), "{bare} {whole}");
    let table = run(&folder, "lab tunnel old new --loss 0.5%").succeeded().stdout();
    assert!(table.contains("plain TCP takes"), "{table}");
}

#[test]
fn a_link_that_cannot_be_is_refused() {
    let folder = folder("lab-tunnel-refused");
    versions(&folder);
    for (options, said) in [
        ("--loss 100%", "up to 50%"),
        ("--loss 5", "write it like 0.1%"),
        ("--congestion reno", "write cubic, bbr or none"),
        ("--congestion none --loss 1%", "--loss needs a --congestion"),
        ("--delay 500000h", "must be at most"),
        ("--queue 500000h", "must be at most"),
    ] {
        run(&folder, &format!("lab tunnel old {options}")).ended_with(2).says(said);
    }
}
