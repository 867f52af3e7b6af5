//! Counts of every real trace at hand, as its index gives them.

use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::PathBuf;
use thermocline_trace::{Batch, ContentHash, Op, ReadOptions, Request, TraceReader, open};

/// Opens a shared trace; `None`, said loudly, when it is not there.
pub(crate) fn shared(name: &str) -> Option<Box<dyn TraceReader>> {
    let root = std::env::var_os("THERMOCLINE_SHARED").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    let path = root.join("traces").join(name);
    let Ok(bytes) = std::fs::read(&path) else {
        eprintln!("SKIPPED: {} is not there (set THERMOCLINE_SHARED)", path.display());
        return None;
    };
    Some(
        open(Box::new(Cursor::new(bytes)), name, &ReadOptions::default())
            .expect("a shared trace opens"),
    )
}

/// Calls `visit` with every request and the batch that holds its hashes.
pub(crate) fn for_each(reader: &mut dyn TraceReader, mut visit: impl FnMut(&Request, &Batch)) {
    let mut batch = Batch::default();
    loop {
        reader.read_batch(&mut batch).expect("a shared trace is sound");
        if batch.requests.is_empty() {
            return;
        }
        batch.requests.iter().for_each(|request| visit(request, &batch));
    }
}

/// Counts of a trace's contents.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    reads: u64,
    writes: u64,
    flushes: u64,
    trims: u64,
    volumes: usize,
}

fn counts(reads: u64, writes: u64, volumes: usize) -> Counts {
    Counts { reads, writes, volumes, ..Counts::default() }
}

/// Reads a trace; its span in milliseconds and its repairs come back when it is there.
fn check(name: &str, expected: Counts) -> Option<(u64, Vec<String>)> {
    let mut reader = shared(name)?;
    let mut found = Counts::default();
    let mut last = 0;
    for_each(&mut *reader, |request, _| {
        assert!(request.time.0 >= last, "{name}: time runs backwards");
        last = request.time.0;
        match request.op {
            Op::Read => found.reads += 1,
            Op::Write => found.writes += 1,
            Op::Flush => found.flushes += 1,
            Op::Trim => found.trims += 1,
        }
    });
    found.volumes = reader.volumes().len();
    assert_eq!(found, expected, "{name}");
    Some((last / 1_000_000, reader.repairs()))
}

/// A trace that needs no repair.
fn check_clean(name: &str, expected: Counts, span_ms: u64) {
    if let Some((span, repairs)) = check(name, expected) {
        assert_eq!(repairs, Vec::<String>::new(), "{name}");
        assert_eq!(span, span_ms, "{name}");
    }
}

#[test]
fn traces_in_the_columns_of_msr() {
    check_clean("cloudphysics_2h.csv.gz", counts(46_974, 66_898, 1), 7_200_089);
    check_clean("msr_hm_0_1000lines.csv.gz", counts(508, 492, 1), 127_233);
    check_clean("financial1_head10k.csv.gz", counts(4_077, 5_923, 22), 259_601);
    check_clean("blktrace_hadoop_9s.csv.gz", counts(80, 15_444, 1), 9_378);
    check_clean("blktrace_java_ext4.csv.gz", counts(9_038, 848, 1), 810_379);
    check_clean("blktrace_java_btrfs.csv.gz", counts(1_301, 523, 1), 1_071_280);
    check_clean("systor17_LUN0_1000lines.csv.gz", counts(826, 173, 1), 2_447);
    check_clean("systor17_add_LUN0_1000lines.csv.gz", counts(700, 299, 1), 1_330);
    check_clean("tpcc_small.csv.gz", counts(4_381, 2_618, 16), 136);
}

#[test]
fn our_own_capture_in_the_columns_of_msr() {
    check_clean("capA_srv_pg_ext4.csv.gz", counts(304_331, 292_152, 1), 803_576);
}

#[test]
fn the_tencent_sample_is_sorted_and_the_repair_is_counted() {
    let Some((span, repairs)) = check("tencent_cbs_50k.csv.gz", counts(24_521, 25_479, 2_038))
    else {
        return;
    };
    assert_eq!(span, 1_000);
    // 1,297 lines have a smaller time than one before them: counted on the text itself.
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    let expected = "1297 requests were out of time order by at most 1 s, sorted into place";
    assert!(repairs[0].starts_with(expected), "{repairs:?}");
}

#[test]
fn the_vscsi_trace_is_told_and_counted() {
    check_clean("cloudPhysicsIO.vscsi.zst", counts(46_974, 66_898, 1), 7_200_089);
}

#[test]
fn the_capture_with_flushes_trims_and_hashes() {
    let expected =
        Counts { reads: 304_331, writes: 292_152, flushes: 82_282, trims: 73, volumes: 1 };
    check_clean("capA_srv_pg_ext4.rec.csv.zst", expected, 804_603);
    let Some(mut reader) = shared("capA_srv_pg_ext4.rec.csv.zst") else { return };
    for_each(&mut *reader, |request, batch| {
        let hashes = match request.op {
            Op::Read | Op::Write => request.length.0.div_ceil(4096),
            Op::Flush | Op::Trim => 0,
        };
        assert_eq!(batch.hashes_of(request).len() as u64, hashes);
    });
}

#[test]
fn arc_traces_have_the_published_numbers_of_pages() {
    for (name, requests, pages) in [
        ("arc_P3.lis.zst", 238_578, 3_912_296),
        ("arc_P6.lis.zst", 519_711, 12_672_123),
        ("arc_OLTP.lis.zst", 914_145, 914_145),
    ] {
        let Some((_, repairs)) = check(name, counts(requests, 0, 1)) else { continue };
        assert_eq!(repairs.len(), 1, "a trace without times says so");
        let mut found = 0;
        let mut reader = shared(name).unwrap();
        for_each(&mut *reader, |request, _| found += request.length.0 / 512);
        assert_eq!(found, pages, "{name}");
    }
}

#[test]
fn fiu_mail_has_a_digest_for_each_block() {
    check_clean("fiu_mail_day2_head.blkparse.gz", counts(8_896, 1_102, 1), 23_571);
    let Some(mut reader) = shared("fiu_mail_day2_head.blkparse.gz") else { return };
    let mut distinct = BTreeSet::<ContentHash>::new();
    for_each(&mut *reader, |request, batch| {
        assert_eq!(request.hashes.count, 1);
        distinct.extend(batch.hashes_of(request));
    });
    assert_eq!(distinct.len(), 9_111);
}

#[test]
fn fiu_homes_folds_eight_digests_into_one_and_keeps_them_apart() {
    if check("fiu_homes_1000_lbamod.blkparse.gz", counts(2, 998, 2)).is_none() {
        return;
    }
    let mut reader = shared("fiu_homes_1000_lbamod.blkparse.gz").unwrap();
    let mut distinct = BTreeSet::<ContentHash>::new();
    for_each(&mut *reader, |request, batch| {
        assert_eq!(request.hashes.count, 1);
        distinct.extend(batch.hashes_of(request));
    });
    assert_eq!(distinct.len(), DISTINCT_HOMES_BLOCKS);
}

/// Distinct strings of 256 digits in that file: `zcat … | cut -d' ' -f9 | sort -u | wc -l`.
const DISTINCT_HOMES_BLOCKS: usize = 829;
