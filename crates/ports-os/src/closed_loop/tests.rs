//! Loads on files, on a clock that goes by hand.

use super::{Budget, LoadError, run_load};
use crate::{FileDevice, OpenOptions, Patience};
use thermocline_ports::Payload;
use thermocline_ports::pattern::{Load, Order, Pattern};
use thermocline_units::{Bytes, Nanos};

const MIX: Pattern = Pattern {
    order: Order::Random,
    block: 4096,
    reads: 0.5,
    depth: 8,
    range: Bytes::from_kib(512),
};
const OPTIONS: OpenOptions =
    OpenOptions { create: Some(Bytes::from_mib(1)), buffered: false, patience: Patience::DEFAULT };

/// A clock that goes on by a microsecond each time it is looked at.
fn ticking() -> impl FnMut() -> Nanos {
    let mut now = Nanos(0);
    move || {
        now.0 += 1_000;
        now
    }
}

#[test]
fn a_load_is_run_to_its_end_within_its_range() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut device = FileDevice::open(&path, OPTIONS).expect("a file");
    let contents = Payload::from(vec![9; 64 << 10]);
    let load = Load::new(&MIX, Nanos(0), 500, 1).writing(contents);
    let load = load.beginning_at(Bytes::from_kib(512));
    let outcome = run_load(&mut device, load, Budget { time: Nanos::from_secs(60) }, ticking())
        .expect("nothing fails");
    assert_eq!(outcome.reads.len() + outcome.writes.len(), 500);
    assert!(outcome.reads.len() > 150 && outcome.writes.len() > 150);
    assert!(outcome.reads[0] > Nanos(0) && outcome.span > Nanos(0));
    let bytes = std::fs::read(&path).expect("ours");
    assert!(bytes[..512 << 10].iter().all(|&byte| byte == 0), "outside the range");
    assert!(bytes[512 << 10..].contains(&9));
}

#[test]
fn a_load_ends_when_its_time_is_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = FileDevice::open(&folder.path().join("pool"), OPTIONS).expect("a file");
    let load = Load::new(&MIX, Nanos(0), u64::MAX, 1);
    let budget = Budget { time: Nanos::from_micros(100) };
    let outcome = run_load(&mut device, load, budget, ticking()).expect("nothing fails");
    let count = outcome.reads.len() + outcome.writes.len();
    assert!((8..=900).contains(&count), "{count} requests in a hundred rounds of at most eight");
}

#[test]
fn a_failing_device_ends_the_load_with_its_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut device = FileDevice::open(&path, OPTIONS).expect("a file");
    std::fs::OpenOptions::new().write(true).open(&path).expect("ours").set_len(0).expect("cut");
    let load = Load::new(&Pattern { reads: 1.0, ..MIX }, Nanos(0), 100, 1);
    let ended = run_load(&mut device, load, Budget { time: Nanos::from_secs(1) }, ticking());
    assert!(matches!(ended, Err(LoadError::Device(_))));
}
