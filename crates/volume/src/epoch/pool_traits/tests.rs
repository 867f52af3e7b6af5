//! Traits worked out from profiles, and what the machine tells its placement of pools.

use super::traits_of;
use crate::tests::Bench;
use crate::{Decision, Observer, Request, RequestId, Settings};
use std::sync::{Arc, Mutex};
use thermocline_policy::placement::{
    ChunkAccess, Pattern, PoolChange, PoolLoad, PoolTraits, Route,
};
use thermocline_policy::registry::PolicySpec;
use thermocline_ports::model::Profile;
use thermocline_units::{Bytes, Nanos, PoolId};

fn traits(profile: &str) -> PoolTraits {
    traits_of(&Profile::built_in(profile).expect("it is built in"))
}

#[test]
fn what_is_assumed_of_a_pool_is_what_the_built_in_profiles_come_to() {
    let near = |one: u64, other: u64| one.abs_diff(other) * 10 <= one.max(other);
    for (pool, profile) in [(0, "nvme"), (1, "ssd-sata"), (2, "hdd-7200")] {
        let (assumed, found) = (PoolTraits::assumed(PoolId(pool), 3), traits(profile));
        for pattern in Pattern::ALL {
            let (assumed, found) = (assumed.of(pattern), found.of(pattern));
            let what = format!("{profile}, {pattern:?}: {assumed:?}, {found:?}");
            assert!(near(assumed.latency.0, found.latency.0), "{what}");
            assert!(near(assumed.per_second, found.per_second), "{what}");
        }
    }
}

#[test]
fn a_disk_is_worked_out_as_by_hand() {
    // 0.8 + 13.9 × 8/15 = 8.213 ms of seek, 4.167 of turn, 0.05 of overhead, 0.029 of transfer.
    let random = traits("hdd-7200").of(Pattern::RandomRead);
    assert!((12_450_000..12_470_000).contains(&random.latency.0), "{random:?}");
    assert_eq!(random.per_second, 80);
    // 143 MB/s are 34,912 units of 4 KiB a second.
    assert_eq!(traits("hdd-7200").of(Pattern::SequentialWrite).per_second, 34_912);
}

#[test]
fn every_built_in_profile_can_do_something_and_streams_no_slower_than_it_jumps() {
    for name in Profile::names() {
        let traits = traits(name);
        for (random, sequential) in [
            (Pattern::RandomRead, Pattern::SequentialRead),
            (Pattern::RandomWrite, Pattern::SequentialWrite),
        ] {
            let (random, sequential) = (traits.of(random), traits.of(sequential));
            assert!(random.latency.0 > 0 && random.per_second > 1, "{name}: {random:?}");
            assert!(sequential.per_second >= random.per_second, "{name}");
            assert!(sequential.latency <= random.latency, "{name}");
        }
    }
}

/// The length of an epoch, loads of all pools, traits of the second.
type Sight = (Nanos, Vec<PoolLoad>, PoolTraits);

/// Keeps what a placement could read at each decision.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Sight>>>);

impl Observer for Seen {
    fn asked(&mut self, _: Nanos, _: &Request) {}
    fn answered(&mut self, _: Nanos, _: RequestId, _: bool) {}
    fn placed(&mut self, _: Nanos, _: &str) {}
    fn pools_changed(&mut self, _: Nanos, _: PoolChange) {}
    fn accessed(&mut self, _: &ChunkAccess) {}

    fn routed(&mut self, _: Nanos, _: &[PoolLoad], _: Route) {}

    fn decided(&mut self, decision: &Decision<'_>) {
        let view = decision.view;
        let loads = (0..view.pool_count()).map(|pool| view.load(PoolId(pool))).collect();
        let seen = (view.epoch(), loads, view.traits(PoolId(1)));
        self.0.lock().expect("nobody panics with it").push(seen);
    }
}

#[test]
fn a_placement_sees_the_load_of_the_epoch_that_ends_and_not_of_those_before() {
    let settings = Settings { epoch: Nanos::from_secs(10), ..Bench::settings() };
    let mut bench = Bench::with_settings(&[4, 8], 0, settings);
    bench.group.create_volume(Nanos(0), Bytes(1 << 20)).expect("a volume");
    let seen = Seen::default();
    bench.group.set_observer(Some(Box::new(seen.clone())));
    let spec = PolicySpec::parse("static").expect("it is in the registry");
    bench.group.set_named_placement("static", spec.build_placement().expect("no settings"));
    let disk = traits("hdd-15k");
    bench.group.set_traits(PoolId(1), Some(disk));
    bench.group.set_traits(PoolId(7), Some(disk));
    // The first write of a chunk also makes its slot ready, so the second epoch is the one to look
    // at.
    bench.write(0, 1, 4096);
    bench.pass(Nanos::from_secs(10));
    bench.write(0, 2, 4096);
    bench.read(0, 4096).expect("readable");
    bench.read(0, 512).expect("readable");
    bench.pass(Nanos::from_secs(20));
    let seen = seen.0.lock().expect("nobody panics with it");
    let [_, (length, second, traits), (_, third, _)] = &seen[..] else {
        panic!("{} decisions", seen.len());
    };
    assert_eq!((*length, *traits), (Nanos::from_secs(10), disk));
    assert_eq!((second[0].reads, second[0].writes), (2, 1));
    assert_eq!((second[0].read_bytes, second[0].written_bytes), (Bytes(4608), Bytes(4096)));
    assert_eq!(second[1], PoolLoad::default(), "nothing went to the second pool");
    assert_eq!(*third, [PoolLoad::default(); 2]);
}
