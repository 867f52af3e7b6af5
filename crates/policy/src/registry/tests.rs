//! The list of policies is consistent, and helps whoever misspells.

use super::{Build, Built, Geometry, PolicySpec, Settings, all, find, nearest};
use crate::accel::NothingComing;
use crate::placement::NoForesight;

#[test]
fn every_name_is_unique_and_can_be_typed() {
    let mut names: Vec<_> = all().map(|e| e.name).collect();
    for name in &names {
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    }
    names.sort_unstable();
    names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
}

#[test]
fn every_policy_builds_from_its_defaults_and_says_what_it_is() {
    for entry in all() {
        assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
        let settings = Settings::defaults(entry);
        let built = match entry.build {
            Build::Cache(build) => build(&Geometry::for_tests(), &settings).err(),
            Build::Clairvoyant(build) => build(&Geometry::for_tests(), &settings, [].into()).err(),
            Build::Placement(build) => build(&settings).err(),
            Build::Foreseeing(build) => build(&settings, Box::new(NoForesight)).err(),
            Build::Balancer(build) | Build::Oracle(build) => build(&settings).err(),
            Build::Tunnel(build) => build(&settings).err(),
            Build::Lookup(build) => build(&settings).err(),
            Build::Accel(build) => build(&settings).err(),
            Build::Tactic(_, build) => build(&settings).err(),
            Build::AccelBound(build) => build(&settings, Box::new(NothingComing)).err(),
            Build::Admission(build) => build(&Geometry::for_tests(), &settings).err(),
        };
        assert_eq!(built, None, "{}", entry.name);
    }
}

#[test]
fn a_misspelt_policy_or_setting_names_the_nearest() {
    let error = PolicySpec::parse("lruu").unwrap_err().to_string();
    assert!(error.contains("did you mean `lru`"), "{error}");
    let error = PolicySpec::parse("lru:x=1").unwrap_err().to_string();
    assert!(error.contains("no setting `x`"), "{error}");
    let error = PolicySpec::parse("baseline:k=1:k=2").unwrap_err().to_string();
    assert!(error.contains("`k` is given twice"), "{error}");
    assert_eq!(nearest("xyzzy-plugh", ["lru"].into_iter()), None);
    assert!(find("lru").is_some());
}

#[test]
fn a_filter_in_front_has_its_own_settings() {
    let spec = PolicySpec::parse("random:p=0.05+s3-fifo:small=0.2").unwrap();
    let filter = spec.filter.as_ref().expect("a filter was written");
    assert_eq!((filter.entry.name, filter.settings.text("p")), ("random", "0.05"));
    assert_eq!((spec.entry.name, spec.settings.text("small")), ("s3-fifo", "0.2"));
    assert_eq!(spec.label, "random:p=0.05+s3-fifo:small=0.2");
    assert!(matches!(spec.build(&Geometry::for_tests(), None), Ok(Built::Cache(_))));
}

#[test]
fn a_policy_spelled_out_is_the_same_policy() {
    for entry in all().filter(|entry| !matches!(entry.build, Build::Admission(_))) {
        let spec = PolicySpec::parse(entry.name).unwrap();
        let again = PolicySpec::parse(&spec.spelled_out()).unwrap();
        assert_eq!((again.entry.name, again.settings), (entry.name, spec.settings));
    }
    let filtered = PolicySpec::parse("random:p=0.05+s3-fifo:small=0.2").unwrap().spelled_out();
    assert!(filtered.starts_with("random:p=0.05+s3-fifo:"), "{filtered}");
    assert!(filtered.contains(":small=0.2"), "{filtered}");
}

#[test]
fn parts_that_do_not_compose_say_what_would() {
    let message = |text: &str| PolicySpec::parse(text).unwrap_err().to_string();
    assert!(message("larc").contains("`larc+lru`"), "{}", message("larc"));
    assert!(message("lru+arc").contains("filter; those are all, larc"), "{}", message("lru+arc"));
    assert!(message("larc+random+lru").contains("one filter"), "{}", message("larc+random+lru"));
    assert!(message("larc+vfrm").contains("its own rule"), "{}", message("larc+vfrm"));
    assert!(message("larc+water-fill").contains("balances requests"));
    assert!(message("larcc+lru").contains("`larc`"), "{}", message("larcc+lru"));
    assert!(message("larc+").contains("no policy"), "{}", message("larc+"));
}

#[test]
fn a_wrong_value_is_found_when_building() {
    let spec = PolicySpec::parse("random:p=2+lru").unwrap();
    let error = spec.build(&Geometry::for_tests(), None).err().expect("2 is no probability");
    assert_eq!(error.to_string(), "setting `p=2`: expected a number from 0 to 1");
}

#[test]
fn a_cache_beyond_the_reach_of_positions_is_refused() {
    let geometry = Geometry { lines: u32::MAX, ..Geometry::for_tests() };
    for name in ["lirs", "s3-fifo", "w-tiny-lfu", "merlin", "larc+lirs"] {
        let error = PolicySpec::parse(name).unwrap().build(&geometry, None).err();
        let message = error.expect("four thousand million lines are too many").to_string();
        assert!(message.contains("at most"), "{name}: {message}");
    }
}

/// Each command had words of its own for this: `policy set least` called a balancer a cache, and
/// `lab volume --policy least` sent its user to a command that refuses balancers.
#[test]
fn a_policy_of_another_family_is_called_what_it_is() {
    for (text, kind) in [
        ("lru", "a cache"),
        ("least", "a balancer"),
        ("ara-opt", "a bound"),
        ("belady", "a bound"),
        ("goodput", "a tunnel controller"),
    ] {
        let spec = PolicySpec::parse(text).unwrap();
        let error = spec.build_placement().err().expect("no placement").to_string();
        let expected = format!("`{text}` is {kind}, not a placement; those are static, ");
        assert!(error.starts_with(&expected), "{error}");
    }
    let spec = PolicySpec::parse("baseline:k=7").unwrap();
    assert!(spec.build_placement().is_ok() && spec.check_pools(2).is_ok());
    let error = spec.check_pools(1).unwrap_err().to_string();
    assert_eq!(error, "`baseline:k=7` moves chunks between pools, and there is one");
    assert!(PolicySpec::parse("static").unwrap().check_pools(1).is_ok());
}

#[test]
fn only_balancers_balance() {
    let error = PolicySpec::parse("lru").unwrap().build_rule().err().expect("lru is a cache");
    assert!(error.to_string().contains("not a balancer; those are rand, "), "{error}");
    let spec = PolicySpec::parse("ara-opt").unwrap();
    assert!(spec.is_clairvoyant() && spec.build_rule().is_ok());
    let error = PolicySpec::parse("watr-fill").unwrap_err().to_string();
    assert!(error.contains("did you mean `water-fill`"), "{error}");
}
