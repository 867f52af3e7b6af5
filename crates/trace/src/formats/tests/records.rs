//! Contents of each format's fixture, to the last field.

use super::{Held, fixtures, read_as, read_with};
use crate::{Format, ReadOptions};
use expect_test::{Expect, expect};

fn check(bytes: &[u8], format: Format, expected: Expect) {
    expected.assert_eq(&read_as(bytes, format).unwrap().shown());
}

fn check_csv(text: &str, columns: &str, expected: Expect) {
    let options = ReadOptions { columns: Some(columns.parse().unwrap()), ..Default::default() };
    expected.assert_eq(&read_with(text.as_bytes(), &options).unwrap().shown());
}

#[test]
fn msr_counts_ticks_and_sorts_what_came_late() {
    check(
        fixtures::MSR,
        Format::Msr,
        expect![[r#"
        0 ns hm.0 Read 383496192 + 32768 took 133100 ns
        1332047100 ns hm.1 Read 4096 + 512 took 8800 ns
        1332052600 ns hm.0 Write 310983168 + 4096
        2332061600 ns src1.0 Write 310987264 + 8192 took 132600 ns
        repaired: 1 request was out of time order by at most 5.5 µs, sorted into place; the first at line 3
    "#]],
    );
}

#[test]
fn spc_counts_sectors_and_seconds() {
    check(
        fixtures::SPC,
        Format::Spc,
        expect![[r#"
        0 ns 0 Write 10721927168 + 8192
        2335000 ns 0 Write 10721198080 + 8192
        460026000 ns 1 Read 1759379456 + 15872
    "#]],
    );
}

#[test]
fn systor17_has_a_header_and_responses_in_seconds() {
    check(
        fixtures::SYSTOR17,
        Format::Systor17,
        expect![[r#"
        0 ns 4 Write 1105965056 + 8192 took 123456 ns
        46000 ns 4 Read 1105973248 + 4096
        854746000 ns 6 Read 0 + 512 took 500000000 ns
    "#]],
    );
}

#[test]
fn alibaba_counts_bytes_and_microseconds() {
    check(
        fixtures::ALIBABA,
        Format::Alibaba,
        expect![[r#"
        0 ns 419 Write 8792731648 + 16384
        46000 ns 725 Read 59110326272 + 360448
        233000 ns 419 Read 8792731648 + 4096
    "#]],
    );
}

#[test]
fn tencent_counts_sectors_and_is_sorted() {
    check(
        fixtures::TENCENT,
        Format::Tencent,
        expect![[r#"
        0 ns 1063 Read 7115202560 + 65536
        0 ns 1063 Read 25299599360 + 8192
        1000000000 ns 1058 Write 2174582784 + 65536
        repaired: 2 requests were out of time order by at most 1 s, sorted into place; the first at line 2
    "#]],
    );
}

#[test]
fn fiu_has_a_hash_for_each_4_kib_whether_digests_are_of_blocks_or_of_sectors() {
    check(
        fixtures::FIU,
        Format::Fiu,
        expect![[r#"
        0 ns 6,0 Write 9512742912 + 4096 #d6c75ba46e82326fefa545b57a12e221
        4980861 ns 6,1 Read 260360536064 + 8192 #88b93b628d84082186026d9da044f173 #b5e9f4e5ab62a4fff5313a606b0ad4e3
        4980861 ns 6,0 Write 4096 + 1024 #4ad69847e9949752b86fca46d8b90b16
    "#]],
    );
}

#[test]
fn blkparse_reads_queued_events_and_passes_over_the_rest() {
    check(
        fixtures::BLKPARSE,
        Format::Blkparse,
        expect![[r#"
        0 ns 8,0 Write 1048576 + 4096
        2000 ns 8,16 Flush 0 + 0
        2500 ns 8,16 Flush 0 + 0
        100000001 ns 8,0 Read 2097152 + 131072
        100000002 ns 8,0 Trim 0 + 4194304
    "#]],
    );
}

#[test]
fn blkparse_takes_a_flush_without_sectors_for_one_and_leaves_out_a_write_without() {
    check(
        b"8,0 0 1 0.000000000 1 Q FWS [jbd2]\n\
          8,0 0 2 0.000000001 1 Q FWFS 8 + 8 [jbd2]\n\
          8,0 0 3 0.000000002 1 Q FWS 0 + 0 [jbd2]\n\
          8,0 0 4 0.000000003 1 Q FWS 0 [0]\n\
          8,0 0 5 0.000000004 1 Q WS [jbd2]\n",
        Format::Blkparse,
        expect![[r#"
        0 ns 8,0 Flush 0 + 0
        1 ns 8,0 Write 4096 + 4096
        2 ns 8,0 Flush 0 + 0
        3 ns 8,0 Flush 0 + 0
        repaired: 1 event was without a range and left out (not reads, writes, discards or flushes)
    "#]],
    );
}

#[test]
fn blkparse_reads_another_event_when_told() {
    let options = ReadOptions { blkparse_event: Some('C'), ..Default::default() };
    expect![[r#"
        0 ns 8,0 Read 2097152 + 131072
    "#]]
    .assert_eq(&read_with(fixtures::BLKPARSE, &options).unwrap().shown());
}

#[test]
fn fio_version_2_takes_its_times_from_waits() {
    check(
        fixtures::FIO_V2,
        Format::FioIolog,
        expect![[r#"
        0 ns /dev/sdb Read 0 + 4096
        4000000 ns /dev/sdb Write 8192 + 512
        4000000 ns /dev/sdb Flush 0 + 0
        4000000 ns /dev/sdb Trim 1048576 + 65536
    "#]],
    );
}

#[test]
fn fio_version_2_without_waits_says_that_it_has_no_times() {
    let text = b"fio version 2 iolog\nf add\nf read 0 512\nf read 512 512\n";
    check(
        text,
        Format::FioIolog,
        expect![[r#"
        0 ns f Read 0 + 512
        0 ns f Read 512 + 512
        repaired: the log is of version 2, without times; all are 0
    "#]],
    );
}

#[test]
fn fio_version_3_has_times_and_files_as_volumes() {
    check(
        fixtures::FIO_V3,
        Format::FioIolog,
        expect![[r#"
        0 ns b Read 16384 + 4096
        6000 ns a Write 0 + 16384
        7000 ns a Flush 0 + 0
    "#]],
    );
}

#[test]
fn arc_has_pages_and_no_times() {
    check(
        fixtures::ARC,
        Format::Arc,
        expect![[r#"
        0 ns t Read 117773824 + 4096
        1 ns t Read 943485440 + 32768
        2 ns t Read 110633984 + 4096
        repaired: the trace has no times; a request's time is its number in the file, in nanoseconds
    "#]],
    );
}

#[test]
fn captures_have_flushes_trims_and_hashes() {
    check(
        fixtures::CAPTURE,
        Format::Capture,
        expect![[r#"
        0 ns t Flush 0 + 0
        1026899738 ns t Write 4096 + 8192 #3190efdeefc369ae0000000000000000 #00000000000000010000000000000000
        1027007589 ns t Read 0 + 512 #3190efdeefc369ae0000000000000000
        1027241688 ns t Trim 8192 + 4096
    "#]],
    );
}

#[test]
fn vscsi_version_1_is_read_by_its_opcodes() {
    check(
        &fixtures::vscsi_one(),
        Format::Vscsi,
        expect![[r#"
        0 ns t Write 21981565440 + 512
        0 ns t Read 4096 + 4096
        101000 ns t Read 8192 + 65536
        198000 ns t Flush 0 + 0
        repaired: 1 request was out of time order by at most 2 µs, so given the time before; the first at byte 32
        repaired: 1 request was of zero bytes and left out; the first at byte 160
        repaired: 1 command was neither read, write nor flush and left out; the first has opcode 0x12
    "#]],
    );
}

#[test]
fn vscsi_version_2_has_responses() {
    check(
        &fixtures::vscsi_two(),
        Format::Vscsi,
        expect![[r#"
        0 ns t Read 4096 + 4096 took 250000 ns
        10000 ns t Write 0 + 512
    "#]],
    );
}

#[test]
fn oracle_general_ids_become_sectors_that_can_be_told_apart() {
    check(
        &fixtures::oracle_general(),
        Format::OracleGeneral,
        expect![[r#"
        0 ns objects Read 21981565440 + 512
        0 ns objects-3 Read 2560 + 4096
        2000000000 ns objects Read 21981565440 + 512
        repaired: 1 request was of zero bytes and left out; the first at byte 48
    "#]],
    );
}

#[test]
fn our_own_csv_is_read_back_with_names_and_hashes() {
    check(
        fixtures::OWN_CSV,
        Format::Csv,
        expect![[r#"
        0 ns hm.0 Read 0 + 4096 took 1500 ns #3190efdeefc369ae0000000000000000
        10 ns a,"b" Write 4096 + 8192 #00000000000000000000000000000001 #00000000000000000000000000000002
        10 ns hm.0 Flush 0 + 0
    "#]],
    );
}

#[test]
fn columns_may_be_named_scaled_and_quoted() {
    let text = "When;Who;Sector;Count;What\n1.5;\"disk;a\";8;1;R\n1.25;b;0;2;erase\n";
    let columns = "sep=semicolon,time=when:ms,volume=who,offset=sector:512,size=count:4KiB,op=what,\
                   trim=erase";
    check_csv(
        text,
        columns,
        expect![[r#"
        0 ns b Trim 0 + 8192
        250000 ns disk;a Read 4096 + 4096
        repaired: 1 request was out of time order by at most 250 µs, sorted into place; the first at line 3
    "#]],
    );
}

#[test]
fn columns_may_lack_times_ops_and_sizes() {
    check_csv(
        "1\n7\n",
        "offset=0:4KiB,size=fixed:4KiB",
        expect![[r#"
        0 ns t Read 4096 + 4096
        1 ns t Read 28672 + 4096
        repaired: the trace has no times; a request's time is its number in the file, in nanoseconds
    "#]],
    );
    check_csv(
        "  0   7  9\n",
        "sep=blank,offset=1,size=2,read=0,op=0",
        expect![[r#"
        0 ns t Read 7 + 9
        repaired: the trace has no times; a request's time is its number in the file, in nanoseconds
    "#]],
    );
}

#[test]
fn a_first_line_without_a_number_is_a_header() {
    check_csv(
        "lba,n\n1,2\n",
        "offset=0:512,size=1:512",
        expect![[r#"
        0 ns t Read 512 + 1024
        repaired: the trace has no times; a request's time is its number in the file, in nanoseconds
    "#]],
    );
}

#[test]
fn every_fixture_is_told_by_its_content() {
    for (format, bytes) in fixtures::all() {
        let told = read_with(&bytes, &ReadOptions::default());
        assert_eq!(told.unwrap(), read_as(&bytes, format).unwrap(), "{format}");
    }
}

#[test]
fn carriage_returns_blank_lines_and_a_byte_order_mark_change_nothing() {
    for (format, bytes) in fixtures::all() {
        if matches!(format, Format::Vscsi | Format::OracleGeneral) {
            continue;
        }
        let text = String::from_utf8(bytes.clone()).unwrap();
        let odd = format!("\u{feff}{}", text.replace('\n', "\r\n\r\n"));
        let (plain, odd) = (read_as(&bytes, format).unwrap(), read_as(odd.as_bytes(), format));
        let odd = odd.unwrap();
        assert_eq!(without_repairs(plain), without_repairs(odd), "{format}");
    }
}

fn without_repairs(held: Held) -> Held {
    Held { repairs: Vec::new(), ..held }
}
