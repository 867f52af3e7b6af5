//! The list of policies is consistent, and helps whoever misspells.

use super::{Build, Geometry, PolicySpec, Settings, entries, find, nearest};

#[test]
fn every_name_is_unique_and_can_be_typed() {
    let mut names: Vec<_> = entries().map(|e| e.name).collect();
    for name in &names {
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    }
    names.sort_unstable();
    names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
}

#[test]
fn every_policy_builds_from_its_defaults_and_says_what_it_is() {
    for entry in entries() {
        assert!(!entry.summary.is_empty() && !entry.source.is_empty(), "{}", entry.name);
        let settings = Settings::defaults(entry);
        let built = match entry.build {
            Build::Cache(build) => build(&Geometry::for_tests(), &settings).err(),
            Build::Clairvoyant(build) => build(&Geometry::for_tests(), &settings, [].into()).err(),
            Build::Placement(build) => build(&settings).err(),
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
    assert_eq!(nearest("xyzzy-plugh", ["lru"].into_iter()), None);
    assert!(find("lru").is_some());
}
