//! Pools are taken for devices of like speed.

use super::kind;
use thermocline_admin::api::Latency;
use thermocline_engine::api::{Counters, Pool};

fn pool(name: &str, rank: u16, reads: u64, p50_us: f64) -> Pool {
    Pool {
        id: rank,
        rank,
        name: name.to_string(),
        state: "active".to_string(),
        unanswered_seconds: None,
        full: false,
        path: None,
        direct: true,
        emulated: false,
        checksums: true,
        chunks_total: 10,
        chunks_used: 0,
        chunks_prefetched: 0,
        chunks_kept: 0,
        in_flight: 0,
        counters: Counters::default(),
        read_latency: Latency { count: reads, p50_us, ..Latency::default() },
        write_latency: Latency::default(),
        cache: None,
        bucket: None,
        backing: None,
    }
}

#[test]
fn a_pool_is_what_its_reads_take_or_what_its_place_says() {
    let of = |p50_us| kind(&pool("p", 0, 1000, p50_us), 0, 2);
    assert_eq!([9.0, 70.0, 110.0, 8_000.0].map(of), ["scm", "nvme", "ssd-sata", "hdd-7200"]);
    let unread = |place| kind(&pool("p", place, 3, 9.0), place.into(), 2);
    assert_eq!([0, 1, 2].map(unread), ["nvme", "ssd-sata", "hdd-7200"]);
}
