//! Descriptions of synthetic workloads: round trips, and mistakes told with their place.

use super::{Count, SynthTextError, from_preset, from_toml, from_words, to_toml};
use expect_test::expect;
use thermocline_trace::synth::presets::PRESETS;
use thermocline_trace::synth::{Arrivals, Pattern};
use thermocline_units::Bytes;

const SMALL: &str = r#"
seed = 3
requests = 1000

[[vm]]
name = "db"
arrivals = { rate_per_s = 500, dispersion = 20, burst = "1s" }

[[vm.part]]
reads = 0.7
size = "8KiB"
length = "1GiB"
zipf = { alpha = 0.9, block = "8KiB", drift = { every = "1m", by = 0.01 } }

[[vm.part]]
weight = 0.1
reads = 0
size = [["4KiB", 3], ["64KiB", 1]]
start = "1GiB"
length = "256MiB"
sequential = {}
"#;

#[test]
fn every_preset_survives_its_own_text() {
    for preset in &PRESETS {
        let spec = from_preset(preset.name, 7, 12_345, 42).unwrap();
        assert_eq!(from_toml(&to_toml(&spec)).unwrap(), spec, "{}", preset.name);
    }
}

#[test]
fn a_specification_says_only_what_matters() {
    let spec = from_toml(SMALL).unwrap();
    assert_eq!((spec.seed, spec.requests, spec.vms.len()), (3, 1000, 1));
    let Arrivals::Bursty(bursts) = spec.vms[0].arrivals else { panic!("not bursty") };
    assert!((bursts.mean_rate_per_s() - 500.0).abs() < 1e-6);
    assert!((bursts.dispersion(None) - 20.0).abs() < 1e-6);
    let [tables, log] = &spec.vms[0].parts[..] else { panic!("not two parts") };
    assert_eq!((tables.weight, tables.region.start), (1.0, Bytes(0)));
    assert_eq!(log.pattern, Pattern::Sequential { streams: 1, run: None });
    assert_eq!(log.sizes[1].size, Bytes::from_kib(64));
}

#[test]
fn the_texts_own_mistakes_are_told_with_their_place() {
    let refused = |from: &str, to: &str| {
        assert!(SMALL.contains(from));
        from_toml(&SMALL.replacen(from, to, 1)).unwrap_err().to_string()
    };
    expect![[r#"
        TOML parse error at line 10, column 1
           |
        10 | read = 0.7
           | ^^^^
        unknown field `read`, expected one of `weight`, `reads`, `size`, `start`, `length`, `zipf`, `sequential`, `files`, `scan`
    "#]].assert_eq(&refused("reads = 0.7", "read = 0.7"));
    expect![[r#"
        TOML parse error at line 12, column 10
           |
        12 | length = "1GB"
           |          ^^^^^
        `1GB` is not a size; write it like 64KiB or 4GiB
    "#]]
    .assert_eq(&refused("\"1GiB\"", "\"1GB\""));
    expect!["VM `db`: part 2: give exactly one of zipf, sequential, files and scan"]
        .assert_eq(&refused("sequential = {}", ""));
    expect![
        "VM `db`: arrivals: give rate_per_s alone, or with dispersion and burst (and burst_share), or rates_per_s and dwells of the quiet and the burst state"
    ]
    .assert_eq(&refused(", burst = \"1s\"", ""));
    expect![
        "VM `db`: arrivals: the workload cannot be made: a dispersion of 200000 at 500 requests/s with bursts of 1 s would need a negative quiet rate; make bursts at least 24.691 s long, rarer, or the dispersion smaller"
    ]
    .assert_eq(&refused("dispersion = 20", "dispersion = 200000"));
    expect![
        "the workload cannot be made: VM `db`: part 2: a share of reads of -1; it lies from 0 to 1"
    ]
    .assert_eq(&refused("reads = 0\n", "reads = -1\n"));
}

#[test]
fn the_short_form_takes_settings_in_any_order() {
    let spec = from_words("oltp,seed=9,vms=2,requests=2.5k").unwrap();
    assert_eq!((spec.seed, spec.requests, spec.vms.len()), (9, 2_500, 2));
    assert_eq!(spec, from_preset("oltp", 2, 2_500, 9).unwrap());
    assert!(matches!(from_words("olpt"), Err(SynthTextError::Preset { .. })));
    for wrong in ["oltp,vm=2", "oltp,vms", "oltp,vms=0", "oltp,requests=-1", "oltp,seed=1e99"] {
        let problem = from_words(wrong).unwrap_err().to_string();
        assert!(problem.contains("setting") || problem.contains("0 VMs"), "{problem}");
    }
}

#[test]
fn counts_are_whole_or_refused() {
    for (text, count) in
        [("0", 0), ("250000", 250_000), ("1_000", 1000), ("250k", 250_000), ("2.5M", 2_500_000)]
    {
        assert_eq!(text.parse(), Ok(Count(count)), "{text}");
    }
    for text in ["", "k", "-1", "1.5", "1KM", "1Mi", "nan", "inf", "1e300G", "0.0001k"] {
        assert!(text.parse::<Count>().is_err(), "{text}");
    }
}
