//! The persistent cache, the cliff behind it, and the way back.

use super::super::{Medium, ModelDevice, Profile};
use super::{Pattern, RANDOM_READ, built_in, over};
use crate::pattern::{self, Order};
use thermocline_units::{Bytes, Nanos};

/// A shingled disk whose cache is soon full.
fn profile() -> Profile {
    let mut profile = Profile { size: Bytes::from_gib(500), ..built_in("smr-7200") };
    if let Medium::Disk(disk) = &mut profile.medium {
        let shingles = disk.shingles.as_mut().expect("it is shingled");
        shingles.cache = Bytes::from_mib(16);
    }
    profile
}

fn random_writes(profile: &Profile) -> Pattern {
    over(profile, Pattern { reads: 0.0, ..RANDOM_READ })
}

#[test]
fn random_writes_are_fast_until_the_cache_is_full_and_then_a_few_a_second() {
    let profile = profile();
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = random_writes(&profile);
    let cached = pattern::run(&mut device, &pattern, Nanos(0), 4_000, 1);
    assert!(cached.iops() > 100.0, "{} IOPS into the cache", cached.iops());
    assert_eq!(device.counters().shingles.bands_cleaned, 0);
    let full = pattern::run(&mut device, &pattern, cached.span, 1_000, 2);
    assert!((1.5..6.0).contains(&full.iops()), "{} IOPS with a full cache", full.iops());
    let shingles = device.counters().shingles;
    assert!(shingles.bands_cleaned > 700);
    assert!(shingles.cached > Bytes(4_990 * 4096), "few writes begin a band by chance");
}

#[test]
fn sequential_writes_stream_past_the_cache() {
    let profile = profile();
    let mut device = ModelDevice::new(&profile, 1);
    let order = Order::Sequential;
    let pattern = Pattern { order, block: 1 << 20, depth: 4, ..random_writes(&profile) };
    let outcome = pattern::run(&mut device, &pattern, Nanos(0), 2_000, 1);
    assert!((outcome.mb_per_s() / 150.0 - 1.0).abs() < 0.05, "{} MB/s", outcome.mb_per_s());
    assert_eq!(device.counters().shingles.cached, Bytes(0));
}

#[test]
fn an_idle_disk_cleans_up_and_takes_random_writes_again() {
    let profile = profile();
    let mut device = ModelDevice::new(&profile, 1);
    let pattern = random_writes(&profile);
    let first = pattern::run(&mut device, &pattern, Nanos(0), 4_000, 1);
    let later = Nanos(first.span.0 + 4_000_000_000_000);
    let second = pattern::run(&mut device, &pattern, later, 1_000, 2);
    assert!(second.iops() > 100.0, "{} IOPS after a rest", second.iops());
    let cleaning = device.counters().shingles.cleaning;
    assert!(device.counters().busy > cleaning && cleaning > Nanos::from_secs(1000));
}
