//! The rate of copying while volumes have SLAs.

use super::{Bench, CHUNK, tactics};
use crate::Copying;
use crate::Settings;
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_ports::faulty::Faults;
use thermocline_units::{Bytes, Nanos, VolumeId};

const MOST: Bytes = Bytes::from_mib(64);
const RESERVED: Bytes = Bytes::from_mib(4);

/// A volume of which nine of ten answers shall come within 10 ms, on a disk of `mean` microseconds.
fn promised(mean: u64) -> Bench {
    let copying = Copying {
        rate_per_second: Some(MOST),
        reserve_per_second: Some(RESERVED),
        ..Copying::pieces_alone()
    };
    let tactics = tactics(&["aqueduct:percentile=90"]);
    let mut bench =
        Bench::with_settings(&[4, 8], 0, Settings { copying, tactics, ..Bench::settings() });
    bench.group.create_volume(Nanos(0), Bytes(20 * CHUNK)).expect("a volume");
    let sla = Sla { latency: Nanos::from_micros(10_000), class: SlaClass::Strict };
    bench.group.set_sla(VolumeId(0), Some(sla)).expect("it exists");
    bench.write(0, 1, CHUNK as usize);
    slow_down(&mut bench, mean);
    bench
}

fn slow_down(bench: &mut Bench, mean: u64) {
    let latency_mean = Nanos::from_micros(mean);
    bench.disks[0].set_faults(Faults { latency_mean, ..Faults::NONE });
}

/// The rate after some seconds of reads.
fn rate_after(bench: &mut Bench, seconds: u64) -> Bytes {
    for _ in 0..seconds {
        let end = Nanos(bench.now.0 + 1_000_000_000);
        for _ in 0..30 {
            bench.read(0, 4096).expect("readable");
        }
        bench.pass(end.saturating_sub(bench.now));
    }
    bench.group.copy_rate().expect("there is a limit")
}

#[test]
fn copying_slows_down_to_what_is_reserved_while_promises_are_broken_and_comes_back() {
    let mut bench = promised(25_000);
    assert!(rate_after(&mut bench, 2) < MOST);
    assert_eq!(rate_after(&mut bench, 4), RESERVED);
    slow_down(&mut bench, 100);
    let rates: Vec<Bytes> = (0..12).map(|_| rate_after(&mut bench, 1)).collect();
    assert!(rates.is_sorted(), "{rates:?}");
    assert_eq!(rates.last(), Some(&MOST));
}

#[test]
fn kept_promises_and_none_leave_the_rate_alone() {
    assert_eq!(rate_after(&mut promised(100), 5), MOST);
    let mut bench = promised(25_000);
    bench.group.set_sla(VolumeId(0), None).expect("it exists");
    assert_eq!(rate_after(&mut bench, 5), MOST);
}
