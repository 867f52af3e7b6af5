//! Characteristics of the real traces at hand, against their index and against counts made by other
//! means.

use crate::real_traces::shared;
use thermocline_trace::stat::{Characterisation, Characteristics};
use thermocline_units::{Bytes, Nanos};

/// The whole workload's characteristics, when the trace is there.
fn characteristics(name: &str) -> Option<Characteristics> {
    let mut reader = shared(name)?;
    let found = Characterisation::read(&mut *reader, &|_| {});
    Some(found.expect("the traces at hand are sound").whole)
}

/// Asserts what a trace's index says: requests by operation and the working set as it prints.
fn check(name: &str, requests: [u64; 4], working_set: &str) -> Option<Characteristics> {
    let found = characteristics(name)?;
    let amounts = [found.reads, found.writes, found.flushes, found.trims];
    assert_eq!(amounts.map(|amount| amount.requests), requests, "{name}");
    assert_eq!(found.footprint.to_string(), working_set, "{name}");
    let parts = found.footprint_read.max(found.footprint_written);
    assert!(parts <= found.footprint, "{name}");
    assert!(found.footprint <= found.size, "{name}");
    Some(found)
}

#[test]
fn cloudphysics_is_as_its_index_says() {
    let expected = [46_974, 66_898, 0, 0];
    let Some(found) = check("cloudphysics_2h.csv.gz", expected, "1.03 GiB") else { return };
    assert_eq!(found.size.to_string(), "31.3 GiB");
    let timing = found.timing.as_ref().unwrap();
    assert_eq!(timing.span.0 / Nanos::from_secs(1).0, 7_200);
    assert_eq!(timing.gaps.count(), 113_871);
    // The same machine, as it was recorded.
    let Some(original) = check("cloudPhysicsIO.vscsi.zst", expected, "1.03 GiB") else { return };
    assert_eq!(original.page_accesses, found.page_accesses);
    assert_eq!(original.sequentiality, found.sequentiality);
    assert_eq!(original.sizes(), found.sizes());
}

#[test]
fn cloudphysics_is_as_a_plain_program_counts_it() {
    let Some(found) = characteristics("cloudphysics_2h.csv.gz") else { return };
    // Forty lines of Python over dictionaries, on the text itself.
    let close = |told: Option<f64>, counted: f64| {
        assert!((told.unwrap() - counted).abs() < 1e-9, "{told:?} for {counted}");
    };
    assert_eq!(found.footprint, Bytes(269_210 * 4096));
    assert_eq!(found.chunks, 2_628);
    close(found.sequentiality.near, 0.35201236486901843);
    close(found.sequentiality.contiguous, 0.2595744307154587);
    close(found.page_accesses.top_5, 0.16482275987876016);
    close(found.page_accesses.top_20, 0.42120943821051277);
    close(found.chunk_accesses.top_5, 0.38788917937052253);
    close(found.chunk_accesses.top_20, 0.7306556208196109);
    close(found.chunk_bytes.top_5, 0.26448041772405684);
    close(found.chunk_bytes.top_20, 0.7163629405021498);
    let timing = found.timing.unwrap();
    close(timing.chunk_reaccess.of_accesses, 112_809.0 / 117_812.0);
    close(timing.rare_chunks, 1_296.0 / 2_628.0);
    close(Some(timing.active_chunks_mean), 6_894.0 / 25.0);
    assert_eq!(timing.active_chunks_max, 1_394);
    // Pages remember their last access to within 4.2 ms.
    let pages = timing.page_reaccess.of_accesses.unwrap();
    assert!((pages - 638_290.0 / 1_141_869.0).abs() < 1e-4, "{pages}");
}

#[test]
fn our_own_capture_is_as_its_index_says() {
    let expected = [304_331, 292_152, 82_282, 73];
    let Some(found) = check("capA_srv_pg_ext4.rec.csv.zst", expected, "4.63 GiB") else { return };
    assert_eq!(found.size, Bytes::from_gib(8));
    let timing = found.timing.as_ref().unwrap();
    assert_eq!(timing.span.0 / Nanos::from_secs(1).0, 804);
}

#[test]
fn the_head_of_tencent_is_as_its_index_says() {
    let Some(found) = check("tencent_cbs_50k.csv.gz", [24_521, 25_479, 0, 0], "1.33 GiB") else {
        return;
    };
    assert_eq!(found.volumes, 2_038);
}

#[test]
fn arc_p6_has_a_working_set_and_no_times() {
    let Some(found) = check("arc_P6.lis.zst", [519_711, 0, 0, 0], "398 MiB") else { return };
    assert_eq!(found.reads.bytes, 12_672_123 * 512);
    assert!(found.timing.is_none());
}

#[test]
fn fiu_mail_touches_9202_blocks() {
    let Some(found) = characteristics("fiu_mail_day2_head.blkparse.gz") else { return };
    assert_eq!(found.footprint, Bytes(9_202 * 4096));
}

#[test]
fn response_times_of_msr_are_those_in_the_file() {
    let Some(found) = characteristics("msr_hm_0_1000lines.csv.gz") else { return };
    assert_eq!(found.responses.count(), 1_000);
    // zcat … | cut -d, -f7 | awk '{s += $1} END {print s * 100 / NR}'
    assert_eq!(found.responses.mean(), Some(RESPONSE_MEAN_NS));
}

/// See the test that uses it.
const RESPONSE_MEAN_NS: f64 = 989_497.5;
