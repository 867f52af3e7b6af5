//! Two programs on one prefix, and buckets that have forgotten.

use super::super::format::log_key;
use super::super::{Beats, ObjectError, ObjectSettings, OpenBucketError, Purpose};
use super::rig::{Driver, Fate, Rig, SHAPE, settings};
use std::time::Duration;
use thermocline_ports::{Device, DeviceError};
use thermocline_units::Nanos;

fn made(rig: &Rig, settings: &ObjectSettings) -> Driver {
    rig.open(settings, Purpose::Make(7, SHAPE)).expect("nothing is there")
}

fn refused(rig: &Rig, settings: &ObjectSettings) -> OpenBucketError {
    match rig.open(settings, Purpose::Run).map(drop).expect_err("it is refused") {
        ObjectError::Open(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
pub(super) fn a_second_program_is_refused_while_the_first_one_lives() {
    let rig = Rig::default();
    let mut first = made(&rig, &settings(1));
    let error = refused(&rig, &settings(2));
    assert!(matches!(&error, OpenBucketError::InUse(who) if who.contains("process")), "{error}");
    first.write(0, 512, 1);
    first.flush().expect("nobody took it");
}

#[test]
pub(super) fn after_a_crash_another_machine_watches_the_lock_and_this_one_need_not() {
    let rig = Rig::default();
    let folder = tempfile::tempdir().expect("a folder");
    let memory = Some(folder.path().join("pool.bucket"));
    let long = Beats { every: Duration::from_secs(3600), watch: Duration::from_secs(3600) };
    let here = |owner| ObjectSettings { memory: memory.clone(), beats: long, ..settings(owner) };
    let mut device = made(&rig, &here(1));
    device.write(0, 512, 1);
    device.flush().expect("the bucket takes it");
    device.crash();
    let device = rig.open(&here(2), Purpose::Run).expect("its memory says who it was");
    device.crash();
    let mut device = rig.open(&settings(3), Purpose::Run).expect("the lock does not beat");
    assert_eq!(device.read(0, 512).expect("readable"), [1; 512]);
}

#[test]
pub(super) fn a_program_that_was_held_up_finds_its_device_gone_and_changes_nothing() {
    let rig = Rig::default();
    // It never beats, so the other one takes it for dead.
    let silent = Beats { every: Duration::from_secs(3600), ..settings(1).beats };
    let mut held_up = made(&rig, &ObjectSettings { beats: silent, ..settings(1) });
    held_up.write(0, 512, 1);
    held_up.flush().expect("the bucket takes it");
    let mut other = rig.open(&settings(2), Purpose::Run).expect("the lock does not beat");
    held_up.write(0, 512, 2);
    assert_eq!(held_up.flush(), Err(DeviceError::Gone));
    assert_eq!(held_up.flush(), Err(DeviceError::Gone), "it stays gone");
    assert_eq!(other.read(0, 512).expect("readable"), [1; 512]);
    other.write(512, 512, 3);
    other.flush().expect("it is the other one's");
    drop((held_up, other));
    let mut device = rig.open(&settings(3), Purpose::Run).expect("the lock was let go");
    assert_eq!(device.read(0, 512).expect("readable"), [1; 512]);
    assert_eq!(device.read(512, 512).expect("readable"), [3; 512]);
}

#[test]
pub(super) fn whoever_finds_another_ones_lock_in_place_of_its_own_has_lost_the_device() {
    let rig = Rig::default();
    let mut device = made(&rig, &settings(1));
    let foreign = b"owner 00000000000000aa\nbeat 1\nholder somebody else\n";
    rig.put("lock", foreign);
    while !device.device.lost {
        device.device.poll(Nanos(0), &mut Vec::new());
        assert_eq!(rig.bytes("lock"), foreign, "nobody writes over it");
    }
    assert_eq!(device.flush(), Err(DeviceError::Gone));
}

#[test]
pub(super) fn a_bucket_that_lost_its_newest_records_is_refused_where_they_are_remembered() {
    let rig = Rig::default();
    let folder = tempfile::tempdir().expect("a folder");
    let memory = Some(folder.path().join("pool.bucket"));
    let here = |owner| ObjectSettings { memory: memory.clone(), ..settings(owner) };
    let mut device = made(&rig, &here(1));
    for stamp in 1..4 {
        device.write(0, 512, stamp);
        device.flush().expect("the bucket takes it");
    }
    drop(device);
    rig.remove(&log_key(4));
    let error = refused(&rig, &here(2));
    let wanted = OpenBucketError::Stale { found: 3, remembered: 4 };
    assert_eq!(error.to_string(), wanted.to_string());
    assert!(!rig.keys().contains(&"lock".to_string()), "nobody waits for who was refused");
}

#[test]
pub(super) fn a_gap_in_the_log_and_a_damaged_record_are_refused() {
    let rig = Rig::default();
    let mut device = made(&rig, &settings(1));
    for stamp in 1..4 {
        device.write(0, 512, stamp);
        device.flush().expect("the bucket takes it");
    }
    drop(device);
    rig.script(|verb, key| match verb == "get" && key.ends_with("3") {
        true => Fate::Show(|bytes| bytes[..bytes.len() - 1].to_vec()),
        false => Fate::Pass,
    });
    assert!(matches!(refused(&rig, &settings(2)), OpenBucketError::Bucket(_)));
    rig.script(|_, _| Fate::Pass);
    rig.remove(&log_key(3));
    assert!(matches!(refused(&rig, &settings(2)), OpenBucketError::Gap(3)));
}

#[test]
pub(super) fn a_listing_that_lacks_the_newest_record_is_noticed() {
    let rig = Rig::default();
    let mut device = made(&rig, &settings(1));
    device.write(0, 512, 1);
    device.flush().expect("the bucket takes it");
    drop(device);
    rig.script(|verb, _| match verb {
        "list" => Fate::Hide("0000000000000002"),
        _ => Fate::Pass,
    });
    let error = refused(&rig, &settings(2));
    assert!(matches!(error, OpenBucketError::InUse(_)), "{error}");
}
