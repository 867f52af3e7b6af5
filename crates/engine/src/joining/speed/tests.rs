//! Speeds are measured where data is, and lead to the right rank.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn micros(time: u64) -> Option<Nanos> {
    Some(Nanos::from_micros(time))
}

#[test]
fn a_pool_goes_before_the_first_from_which_on_all_are_twice_as_slow() {
    let pools = [("scm", micros(10)), ("ssd", micros(100)), ("hdd", micros(8000))];
    let place = |time| place(Nanos::from_micros(time), &pools);
    assert_eq!(place(4), Some("scm"));
    assert_eq!(place(6), Some("ssd"), "scm is not twice as slow");
    assert_eq!(place(50), Some("ssd"));
    assert_eq!(place(51), Some("hdd"), "what is there stays before its like");
    assert_eq!(place(4000), Some("hdd"));
    assert_eq!(place(4001), None);
}

#[test]
fn a_pool_of_unknown_speed_is_not_passed_over() {
    let pools = [("ssd", micros(100)), ("strange", None), ("hdd", micros(8000))];
    assert_eq!(place(Nanos::from_micros(5), &pools), Some("hdd"));
    let last = [("ssd", micros(100)), ("strange", None)];
    assert_eq!(place(Nanos::from_micros(5), &last), None);
    assert_eq!(place(Nanos::from_micros(5), &[]), None);
}

#[test]
fn pools_out_of_order_are_not_overtaken_one_by_one() {
    // A slow pool that somebody put first: behind it stands one that is as fast as the new one.
    let pools = [("hdd", micros(8000)), ("ssd", micros(100))];
    assert_eq!(place(Nanos::from_micros(90), &pools), None);
}

#[test]
fn a_file_without_data_is_measured_and_nothing_is_written_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.pool");
    let file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    assert_eq!(of_data(&path).unwrap(), None, "holes say nothing about a medium");
    // Who may only read it measures it all the same: a pool in service is not written to.
    file.set_permissions(std::fs::Permissions::from_mode(0o444)).unwrap();
    let before = std::fs::metadata(&path).unwrap();
    let time = of_blank(&path).unwrap().expect("the folder can be written");
    assert!(time > Nanos(0));
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!((after.len(), after.blocks()), (64 << 20, 0));
    let written = |of: &std::fs::Metadata| (of.ctime(), of.ctime_nsec(), of.mtime_nsec());
    assert_eq!(written(&after), written(&before), "writes and holes would have changed its times");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn only_blocks_with_data_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse.pool");
    let file = File::create(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    file.write_all_at(&[7; 16 << 10], 600 << 20).unwrap();
    file.sync_all().unwrap();
    let file = File::open(&path).unwrap();
    let mut rng = Rng::seeded(1);
    let data = (600 << 20)..(600 << 20) + (16 << 10);
    for _ in 0..100 {
        let at = block_with_data(&file, 1 << 30, &mut rng).unwrap().unwrap();
        assert!(data.contains(&at) && at.is_multiple_of(BLOCK), "{at}");
    }
    assert!(of_data(&path).unwrap().is_some());
}

#[test]
fn files_of_one_file_system_are_on_one_medium() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "other"] {
        std::fs::write(folder.path().join(name), [1; 8192]).unwrap();
    }
    let medium = |name: &str| medium_below(&folder.path().join(name));
    assert_eq!(medium("one"), medium("other"));
    assert_eq!(medium_below(Path::new("/proc/version")), None, "no device is below this");
}

#[test]
fn a_device_that_cannot_be_opened_gets_no_rank() {
    assert_eq!(rank(Path::new("/nonexistent/pool"), &[]), None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.pool");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let gone = Speed::Measured(folder.path().join("gone"));
    let pools = [("gone".to_string(), gone), ("far".to_string(), Speed::Known(Nanos(u64::MAX)))];
    let rank = rank(&path, &pools).unwrap();
    assert_eq!(rank.before.as_deref(), Some("far"));
    assert!(rank.why.contains("gone unknown"), "{}", rank.why);
}
