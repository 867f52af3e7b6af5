//! Names and identities of volumes.

use super::{Bench, CHUNK};
use crate::{AdminError, RequestError, is_volume_name};
use thermocline_units::{Bytes, VolumeId};

const SIZE: Bytes = Bytes(4 * CHUNK);

fn create(bench: &mut Bench, name: &str) -> Result<VolumeId, AdminError> {
    let now = bench.now;
    bench.group.create_named_volume(now, Some(name), SIZE)
}

/// (Name, identity) of each volume.
fn told(bench: &Bench) -> Vec<(String, u64)> {
    bench.group.volumes().map(|volume| (volume.name, volume.identity)).collect()
}

#[test]
fn names_and_identities_survive_and_are_never_used_again() {
    let mut bench = Bench::new(&[8, 8]);
    create(&mut bench, "db").expect("a volume");
    create(&mut bench, "logs.2026_a-b").expect("a volume");
    bench.flush();
    let before = told(&bench);
    assert_eq!(
        before.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["db", "logs.2026_a-b"]
    );
    bench.crash();
    assert_eq!(told(&bench), before);
    let now = bench.now;
    bench.group.delete_volume(now, VolumeId(0)).expect("it exists");
    bench.ask_of(VolumeId(1), crate::Action::Flush).expect("flushed");
    bench.crash();
    let again = create(&mut bench, "db").expect("the name is free");
    assert_eq!(again, VolumeId(0), "the number is used again");
    let identity = told(&bench)[0].1;
    assert!(before.iter().all(|(_, old)| *old < identity), "the identity is not");
    bench.group.delete_volume(now, again).expect("it exists");
    bench.run();
    bench.group.close(now);
    bench.run();
    bench.crash();
    create(&mut bench, "db").expect("the name is free");
    assert!(told(&bench)[0].1 > identity, "not after a stop in order either");
}

/// The accident: with its last volume a group lost the way to say when the deletion was durable,
/// and the answer came before that.
#[test]
fn the_last_volumes_deletion_can_be_flushed() {
    let mut bench = Bench::new(&[8, 8]);
    create(&mut bench, "db").expect("a volume");
    bench.flush();
    let now = bench.now;
    bench.group.delete_volume(now, VolumeId(0)).expect("it exists");
    assert_eq!(bench.read(0, 512), Err(RequestError::NoVolume), "others need a volume");
    bench.ask_of(VolumeId(7), crate::Action::Flush).expect("durable");
    bench.crash();
    assert_eq!(told(&bench), []);
    create(&mut bench, "other").expect("a volume");
    let stranger = bench.ask_of(VolumeId(7), crate::Action::Flush);
    assert_eq!(stranger, Err(RequestError::NoVolume), "there is a volume to flush");
}

#[test]
fn names_that_would_be_something_else_elsewhere_are_refused() {
    let mut bench = Bench::new(&[8, 8]);
    let long = "x".repeat(49);
    for name in ["", ".hidden", "-o", "a/b", "a b", "v0?x", "ü", &long] {
        assert!(!is_volume_name(name));
        assert_eq!(create(&mut bench, name), Err(AdminError::VolumeName(name.to_string())));
    }
    create(&mut bench, &long[..48]).expect("as long as a name may be");
    create(&mut bench, "db").expect("a volume");
    assert_eq!(create(&mut bench, "db"), Err(AdminError::NameTaken("db".to_string())));
    assert_eq!(bench.group.volumes().count(), 2);
}

#[test]
fn a_volume_without_a_name_gets_the_first_free_one_of_its_kind() {
    let mut bench = Bench::new(&[8, 8]);
    create(&mut bench, "v1").expect("a volume");
    let now = bench.now;
    bench.group.create_volume(now, SIZE).expect("a volume");
    let names: Vec<String> = told(&bench).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["v1", "v2"]);
    assert_eq!(bench.group.volume_named("v2"), Some(VolumeId(1)));
    assert_eq!(bench.group.volume_named("v0"), None);
}
