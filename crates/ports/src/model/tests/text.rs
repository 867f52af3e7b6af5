//! Profiles written and read again.

use super::super::{Medium, Profile};
use thermocline_units::Bytes;

/// Factors are made to have the mean one on reading, so they agree to the last bits only.
fn same(a: &Profile, b: &Profile) -> bool {
    let spreads = |profile: &Profile| match &profile.medium {
        Medium::Parallel(medium) => Some(medium.spread.clone()),
        Medium::Flash(medium) => Some(medium.spread.clone()),
        _ => None,
    };
    let mut level = b.clone();
    match (&mut level.medium, spreads(a)) {
        (Medium::Parallel(medium), Some(spread)) => medium.spread = spread,
        (Medium::Flash(medium), Some(spread)) => medium.spread = spread,
        _ => {}
    }
    let close = match (spreads(a), spreads(b)) {
        (Some(x), Some(y)) => [0.0, 0.3, 0.9, 0.99, 0.9999, 1.0]
            .iter()
            .all(|&p| (x.quantile(p) / y.quantile(p) - 1.0).abs() < 1e-9),
        (x, y) => x == y,
    };
    close && level == *a
}

#[test]
fn every_profile_reads_back_as_written() {
    for name in Profile::names() {
        let profile = Profile::built_in(name).expect("it is built in");
        let text = profile.to_toml();
        let again = Profile::parse(&text, name).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert!(same(&profile, &again), "{text}");
        let odd =
            Profile { size: Bytes(1_234_567_680), about: "a \"b\"\n\\c\u{7}".into(), ..profile };
        let again = Profile::parse(&odd.to_toml(), name).expect("it is escaped");
        assert_eq!((again.size, again.about.as_str()), (odd.size, "a \"b\" \\c "));
    }
}
