//! `trace synth` as a user runs it: presets, descriptions, determinism.

use crate::program::{folder, run};

#[test]
fn the_same_seed_makes_the_same_bytes() {
    let folder = folder("same_seed");
    for (name, seed) in [("a", 7), ("b", 7), ("c", 8)] {
        let words = format!("trace synth --vms 3 --requests 20k --seed {seed} -o {name}.parquet");
        run(&folder, &words).succeeded().says("20,000 requests, volumes: 3");
    }
    let bytes = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(bytes("a.parquet") == bytes("b.parquet"));
    assert!(bytes("a.parquet") != bytes("c.parquet"));
}

#[test]
fn a_printed_specification_makes_the_presets_requests() {
    let folder = folder("printed");
    let printed = run(&folder, "trace synth --preset oltp --requests 5k --print-spec").succeeded();
    std::fs::write(folder.join("mine.toml"), printed.stdout()).unwrap();
    let by_spec = run(&folder, "trace synth --spec mine.toml -o - --to csv").succeeded();
    let by_preset = run(&folder, "trace synth --preset oltp --requests 5k -o - --to csv");
    assert_eq!(by_spec.stdout().lines().count(), 5_001);
    assert!(by_spec.stdout() == by_preset.stdout());
    // `--synth` makes the same without a file.
    let converted = run(&folder, "trace convert --synth oltp,requests=5k -o - --to csv");
    assert!(by_spec.stdout() == converted.stdout());
}

#[test]
fn the_file_holds_its_own_specification_and_conversions_keep_it() {
    let folder = folder("about");
    run(&folder, "trace synth --preset vdi --vms 1 --requests 1k -o a.parquet").succeeded();
    run(&folder, "trace convert a.parquet -o b.parquet --until 1s").succeeded();
    for name in ["a.parquet", "b.parquet"] {
        let file = std::fs::read(folder.join(name)).unwrap();
        let holds = |words: &[u8]| file.windows(words.len()).any(|window| window == words);
        assert!(holds(b"thermocline.synth"), "{name}");
        assert!(holds(b"name = \"vm1-vdi\""), "{name}");
    }
}

#[test]
fn impossible_workloads_are_refused_with_reasons() {
    let folder = folder("impossible");
    std::fs::write(folder.join("bad.toml"), "seed = 1\nvms = 3\n").unwrap();
    run(&folder, "trace synth --spec bad.toml -o x.csv").ended_with(2).says("bad.toml");
    run(&folder, "trace synth --preset olpt -o x.csv").ended_with(2).says("oltp, web, vdi");
    run(&folder, "trace synth --vms 0 -o x.csv").ended_with(2).says("0 VMs");
    run(&folder, "trace synth --requests many -o x.csv").ended_with(2).says("250k");
    run(&folder, "trace synth --spec bad.toml --preset web -o x.csv").ended_with(2);
    run(&folder, "trace synth").ended_with(2).says("--output");
    assert!(!folder.join("x.csv").exists());
}
