//! Profiles: the built-in ones, and what is said about wrong ones.

use super::super::{ModelDevice, Profile, Spread};
use super::{built_in, run, write};
use thermocline_units::{Bytes, Nanos, Rng};

const SCM: &str = include_str!("../../../profiles/scm.toml");

fn refusal(text: &str) -> String {
    Profile::parse(text, "mine.toml").expect_err("it is wrong").to_string()
}

fn line_of(part: &str) -> usize {
    1 + SCM.lines().position(|line| line.contains(part)).expect("the profile has this line")
}

#[test]
fn every_built_in_profile_is_readable() {
    assert_eq!(Profile::names().count(), 10);
    for name in Profile::names() {
        assert!(!built_in(name).about.is_empty());
    }
}

#[test]
fn the_example_in_the_documentation_is_readable() {
    let page = include_str!("../../../../../docs/formats/device-profile.md");
    let example = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
    Profile::parse(example.expect("the page has an example"), "example").expect("it is readable");
}

#[test]
fn an_unknown_profile_names_the_nearest() {
    let error = Profile::built_in("hdd-7201").expect_err("no such profile").to_string();
    assert!(error.contains("did you mean `hdd-7200`?"), "{error}");
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest() {
    let text = SCM.replace("read-service", "read-servise");
    let error = refusal(&text);
    assert!(error.contains("`read-service` is missing"), "{error}");
    let text = SCM.replace("servers = 5", "server = 5\nservers = 5");
    let wanted = format!("mine.toml, line {}: unknown key `server`", line_of("servers = 5"));
    let error = refusal(&text);
    assert!(error.starts_with(&wanted) && error.contains("mean `servers`?"), "{error}");
    let error = refusal(&format!("colour = \"red\"\n{SCM}"));
    assert!(error.contains("unknown key `colour`; known here are about, size"), "{error}");
}

#[test]
fn a_value_out_of_range_names_its_line_and_the_range() {
    for (right, wrong, wanted) in [
        ("servers = 5", "servers = 0", "a whole number from 1 to 1024"),
        ("\"7.2us\"", "\"7.2\"", "a time, written like"),
        ("\"7.2us\"", "\"7.2h\"", "a time, written like"),
        ("\"349GiB\"", "349", "whole sectors, written like"),
        ("discard-zeroes = true", "discard-zeroes = 1", "true or false"),
        ("= 2400", "= -1", "a number from"),
        ("[0.0, 0.95]", "[0.1, 0.95]", "pairs [share, factor]"),
    ] {
        let error = refusal(&SCM.replace(right, wrong));
        let line = format!("line {}: ", line_of(right));
        assert!(error.contains(&line) && error.contains(wanted), "{wrong}: {error}");
    }
}

#[test]
fn a_profile_has_exactly_one_medium() {
    let head = SCM.split("[parallel]").next().expect("it has a head");
    assert!(refusal(head).contains("add a table [parallel]"));
    let object =
        include_str!("../../../profiles/s3.toml").split_once("[object]").expect("it has").1;
    let error = refusal(&format!("{SCM}\n[object]{object}"));
    assert!(error.contains("one medium"), "{error}");
    assert!(refusal("about = ").contains("mine.toml"));
}

#[test]
fn a_size_that_the_medium_cannot_have_is_refused() {
    let nvme = built_in("nvme");
    for wrong in [Bytes(1 << 20 | 1), Bytes(512), Bytes::from_gib(16 << 10), Bytes(1 << 51)] {
        let error = nvme.with_size(wrong).expect_err("it is wrong").to_string();
        assert!(error.contains("too many pages") || error.contains("whole sectors"), "{error}");
    }
    assert!(built_in("hdd-7200").with_size(Bytes::from_gib(16 << 10)).is_ok());
    let text = include_str!("../../../profiles/nvme.toml").replace("1788GiB", "16TiB");
    assert!(refusal(&text).contains("take larger ones"));
    let larger = text.replace("\"4KiB\"", "\"16KiB\"");
    assert!(Profile::parse(&larger, "larger").is_ok());
}

#[test]
fn no_change_to_a_profile_makes_the_reader_or_the_model_panic() {
    let mut rng = Rng::seeded(1);
    let mut readable = 0;
    for round in 0..4_000 {
        let name = Profile::names().nth(round % 8).expect("there are eight");
        let text = std::fs::read_to_string(format!("profiles/{name}.toml")).expect("it exists");
        let mut bytes = text.into_bytes();
        for _ in 0..=rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            let digit = bytes.iter().skip(at).position(|b| b.is_ascii_digit());
            match (rng.below(3), digit) {
                (0, _) => bytes[at] = b" \"0=[].\n"[rng.below(8) as usize],
                (_, Some(step)) => bytes[at + step] = b"0123456789"[rng.below(10) as usize],
                _ => {}
            }
        }
        let Ok(profile) = Profile::parse(&String::from_utf8_lossy(&bytes), name) else { continue };
        readable += 1;
        if let Ok(small) = profile.with_size(Bytes::from_mib(8)) {
            let mut device = ModelDevice::new(&small, 1);
            run(&mut device, Nanos(0), write(0, 1 << 20));
        }
    }
    assert!(readable > 1_000, "only {readable} changed profiles were readable");
}

#[test]
fn a_spread_keeps_its_mean_and_its_quantiles() {
    let points = vec![(0.0, 0.5), (0.9, 1.0), (0.99, 2.0), (1.0, 10.0)];
    let spread = Spread::new(points).expect("well formed");
    let mut rng = Rng::seeded(1);
    let draws = 200_000;
    let mut all: Vec<u64> = (0..draws).map(|_| spread.draw(&mut rng, Nanos(1_000_000)).0).collect();
    all.sort_unstable();
    let mean = all.iter().sum::<u64>() as f64 / draws as f64;
    assert!((mean / 1e6 - 1.0).abs() < 0.01, "{mean}");
    for p in [0.1, 0.5, 0.9, 0.99] {
        let drawn = all[(p * draws as f64) as usize] as f64 / 1e6;
        assert!((drawn / spread.quantile(p) - 1.0).abs() < 0.03, "{p}: {drawn}");
    }
    assert_eq!(Spread::new(vec![(0.0, 1.0), (0.5, 0.9), (1.0, 2.0)]), None);
    assert_eq!(Spread::new(Vec::new()), None);
}
