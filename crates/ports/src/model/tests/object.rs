//! Time to the first byte, streams, and the link they share.

use super::super::ModelDevice;
use super::{Pattern, RANDOM_READ, built_in, over, run, write};
use crate::{Io, pattern};
use thermocline_units::{Bytes, Nanos};

#[test]
fn one_stream_is_slow_and_many_fill_the_link() {
    let profile = built_in("s3");
    let rate = |depth| {
        let mut device = ModelDevice::new(&profile, 1);
        let pattern = over(&profile, Pattern { block: 64 << 20, depth, ..RANDOM_READ });
        pattern::run(&mut device, &pattern, Nanos(0), 20 * u64::from(depth), 1).mb_per_s()
    };
    let (one, many) = (rate(1), rate(64));
    assert!((45.0..55.0).contains(&one), "one stream moves {one} MB/s");
    assert!((many / 1250.0 - 1.0).abs() < 0.1, "64 streams move {many} MB/s");
}

#[test]
fn a_flush_has_nothing_to_do() {
    let mut device = ModelDevice::new(&built_in("s3"), 1);
    let now = run(&mut device, Nanos(0), write(0, 1 << 20));
    assert!(now > Nanos::from_micros(5_000));
    let flushed = run(&mut device, now, Io::Flush);
    assert!(flushed.0 - now.0 < 1_000);
    let discard = Io::Discard { offset: Bytes(0), length: Bytes::from_mib(1) };
    assert!(run(&mut device, flushed, discard).0 > flushed.0 + 1_000_000);
}
