//! Message for each kind of wrong input: where, what was found, what was expected.

use super::{fixtures, read_as, read_with};
use crate::formats::text::LineFormat;
use crate::{Format, ReadOptions};
use expect_test::{Expect, expect};

/// A message as a narrow terminal shows it.
fn wrapped(message: impl std::fmt::Display) -> String {
    const COLUMNS: usize = 76;
    let mut text = String::new();
    let mut column = 0;
    for word in message.to_string().split(' ') {
        let width = word.chars().count() + 1;
        if column > 0 && column + width > COLUMNS {
            text.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
        }
        text.push_str(word);
        column += width;
    }
    text + "\n"
}

fn check(bytes: &[u8], format: Format, expected: Expect) {
    expected.assert_eq(&wrapped(read_as(bytes, format).unwrap_err()));
}

/// One message for each of the texts.
fn check_all(texts: &[&[u8]], format: Format, expected: Expect) {
    let messages: Vec<String> =
        texts.iter().map(|text| wrapped(read_as(text, format).unwrap_err())).collect();
    expected.assert_eq(&messages.concat());
}

fn check_untold(bytes: &[u8], expected: Expect) {
    expected.assert_eq(&wrapped(read_with(bytes, &ReadOptions::default()).unwrap_err()));
}

#[test]
fn msr_lines() {
    check_all(
        &[
            b"1,h,0,Read,0,512",
            b"1,h,0,Read,0,512,0,9",
            b"1,h,0,Peek,0,512,0",
            b"1,h,0,Read,-5,512,0",
            b"1,h,0,Read,5e3,512,0",
            b"1,h,0,Read,,512,0",
            b"1,h,0,Read,9223372036854775807,512,0",
            b"1,h,0,Read,99999999999999999999,512,0",
            b"999999999999999999,h,0,Read,0,512,0",
            b"1,h,x,Read,0,512,0",
            b"1,,0,Read,0,512,0",
            b"1,h\xff,0,Read,0,512,0",
            b"1,h\0,0,Read,0,512,0",
            b"1,h,0,Read,0,512,0\nhello\n",
        ],
        Format::Msr,
        expect![[r#"
            t:1: 6 fields where there should be 7: `1,h,0,Read,0,512`; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: 8 fields where there should be 7: `1,h,0,Read,0,512,0,9`; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: `Peek` is neither a read nor a write; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the offset `-5` is negative; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the offset `5e3` is not a number; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the offset is missing; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: a request of 512 bytes at byte 9223372036854775807 ends beyond 2^63 −
              1; expected `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the offset `99999999999999999999` is too large to be real; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the timestamp `999999999999999999` is too large to be real; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the disk number `x` is not a number; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the host name is missing; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the volume name `h\xff.0` is not printable UTF-8 text; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:1: the volume name `h\x00.0` is not printable UTF-8 text; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
            t:2: 1 field where there should be 7: `hello`; expected
              `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
        "#]],
    );
}

#[test]
fn other_lines() {
    check(
        b"0,1,512,W",
        Format::Spc,
        expect![[r#"
        t:1: fewer than 5 fields: `0,1,512,W`; expected
          `ASU,LBA,Size,Opcode,Timestamp`
    "#]],
    );
    check(
        b"0,1,512,W,1.2.3",
        Format::Spc,
        expect![[r#"
        t:1: the timestamp `1.2.3` is not a number; expected
          `ASU,LBA,Size,Opcode,Timestamp`
    "#]],
    );
    check(
        b"0,1,512,W,-1.5",
        Format::Spc,
        expect![[r#"
        t:1: the timestamp `-1.5` is negative; expected
          `ASU,LBA,Size,Opcode,Timestamp`
    "#]],
    );
    check(
        b"0,36893488147419103,512,W,1",
        Format::Spc,
        expect![[r#"
        t:1: the LBA `36893488147419103` is too large to be real; expected
          `ASU,LBA,Size,Opcode,Timestamp`
    "#]],
    );
    check(
        b"1.,0.1,R,0,0,512",
        Format::Systor17,
        expect![[r#"
        t:1: the timestamp `1.` is not a number; expected
          `Timestamp,Response,IOType,LUN,Offset,Size`
    "#]],
    );
    check(
        b"a,R,0,512,1",
        Format::Alibaba,
        expect![[r#"
        t:1: the device id `a` is not a number; expected
          `device_id,opcode,offset,length,timestamp`
    "#]],
    );
    check(
        b"1,2,3,2,5",
        Format::Tencent,
        expect![[r#"
        t:1: the I/O type `2` is neither 0 (read) nor 1 (write); expected
          `Timestamp,Offset,Size,IOType,VolumeID`
    "#]],
    );
    check(
        b"1 2 3",
        Format::Arc,
        expect![[r#"
        t:1: 3 fields where there should be 4: `1 2 3`; expected `start count
          ignored number`
    "#]],
    );
}

#[test]
fn captured_lines() {
    check(
        b"1,X,0,512,",
        Format::Capture,
        expect![[r#"
        t:1: `X` is none of R (read), W (write), F (flush), T (trim); expected
          `ns,op,offset,len,hashes`
    "#]],
    );
    check(
        b"1,R,0,512,zzzzzzzzzzzzzzzz",
        Format::Capture,
        expect![[r#"
        t:1: the hash `zzzzzzzzzzzzzzzz` is not hexadecimal; expected
          `ns,op,offset,len,hashes`
    "#]],
    );
    check(
        b"1,R,0,8192,0123456789abcdef",
        Format::Capture,
        expect![[r#"
        t:1: 16 digits of hashes for 8192 bytes; there are 16 for each 4 KiB, or
          none; expected `ns,op,offset,len,hashes`
    "#]],
    );
    check(
        b"5,R,0,512,\n4,R,0,512,\n",
        Format::Capture,
        expect![[r#"
        t:2: time runs backwards by 1 ns; is the trace in the order of its times?
    "#]],
    );
}

#[test]
fn fiu_lines() {
    check(
        b"1 2 p 3 8 W 6 0",
        Format::Fiu,
        expect![[r#"
        t:1: fewer than 9 fields: `1 2 p 3 8 W 6 0`; expected `time pid process lba
          size op major minor md5`
    "#]],
    );
    check(
        b"1 2 p 3 16 W 6 0 88b93b628d84082186026d9da044f173",
        Format::Fiu,
        expect![[r#"
        t:1: 32 digits of MD5 for 16 sectors; there are 32 for each 4 KiB or each
          sector; expected `time pid process lba size op major minor md5`
    "#]],
    );
    check(
        b"1 2 p 3 8 W 6 0 x8b93b628d84082186026d9da044f173",
        Format::Fiu,
        expect![[r#"
        t:1: the hash `x8b93b628d84082186026d9da044f173` is not hexadecimal;
          expected `time pid process lba size op major minor md5`
    "#]],
    );
}

#[test]
fn blkparse_lines() {
    check(
        b"8,0 1 1 0.0 5 Q R 2048 + \n",
        Format::Blkparse,
        expect![[r#"
        t:1: no `sector + count` in `8,0 1 1 0.0 5 Q R 2048 + `; expected
          `major,minor cpu number seconds pid event rwbs sector + sectors
          [process]`
    "#]],
    );
    check(
        b"8,0 1 1 0.0 5\n",
        Format::Blkparse,
        expect![[r#"
        t:1: the event is missing; expected `major,minor cpu number seconds pid
          event rwbs sector + sectors [process]`
    "#]],
    );
    check(
        b"sda 1 1 0.0 5 Q R 1 + 1 [p]\n",
        Format::Blkparse,
        expect![[r#"
        t:1: `sda` is not a device like 8,0; expected `major,minor cpu number
          seconds pid event rwbs sector + sectors [process]`
    "#]],
    );
    check(
        b"8,0 1 1 0.0 5 C R 2048 + 8 [0]\n",
        Format::Blkparse,
        expect![[r#"
        t: there is no event `Q` of blkparse with a request, but C × 1; choose one
          of these; expected lines of `major,minor cpu number seconds pid event
          rwbs sector + sectors [process]`
    "#]],
    );
}

#[test]
fn fio_lines() {
    check(
        b"fio version 1 iolog\n",
        Format::FioIolog,
        expect![[r#"
        t:1: the log opens with `fio version 1 iolog`; expected `fio version 3
          iolog`
    "#]],
    );
    check(
        b"fio version 2 iolog\nf read 1\n",
        Format::FioIolog,
        expect![[r#"
        t:2: the offset and the length are missing; expected `filename action
          offset length`
    "#]],
    );
    check(
        b"fio version 2 iolog\nf jump 0 1\n",
        Format::FioIolog,
        expect![[r#"
        t:2: fio has no action `jump`; expected `filename action offset length`
    "#]],
    );
    check(
        b"fio version 2 iolog\nf\n",
        Format::FioIolog,
        expect![[r#"
        t:2: not an action on a file: `f`; expected `filename action offset length`
    "#]],
    );
    check(
        b"fio version 3 iolog\nf read 0 1\n",
        Format::FioIolog,
        expect![[r#"
        t:2: the time `f` is not a number; expected `time filename action offset
          length`
    "#]],
    );
    check(
        b"fio version 3 iolog\n1 f wait 5 0\n",
        Format::FioIolog,
        expect![[r#"
        t:2: there is no wait in version 3; expected `time filename action offset
          length`
    "#]],
    );
    check(
        b"fio version 3 iolog\n1 f add\n",
        Format::FioIolog,
        expect![[r#"
        t: there is no request in its 2 lines; expected lines of `time filename
          action offset length`
    "#]],
    );
}

#[test]
fn csv_lines() {
    let check = |text: &str, columns: &str, expected: Expect| {
        let options = ReadOptions { columns: Some(columns.parse().unwrap()), ..Default::default() };
        let error = read_with(text.as_bytes(), &options).unwrap_err();
        expected.assert_eq(&wrapped(error));
    };
    check(
        "1,2\n1\n",
        "offset=0,size=1",
        expect![[r#"
        t:2: the size is missing: the line has 1 columns and it should be column 1,
          counted from 0; expected `columns as the column map says`
    "#]],
    );
    check(
        "a,b\n1,2\n",
        "offset=a,size=c",
        expect![[r#"
        t:1: the header has no column `c`; it has a, b; expected `columns as the
          column map says`
    "#]],
    );
    check(
        "1,2,0\n",
        "offset=0,size=1,op=2",
        expect![[r#"
        t:1: the op word `0` is not known; say what it means, like read=0; expected
          `columns as the column map says`
    "#]],
    );
    check(
        "1,\"2\n",
        "offset=0,size=1",
        expect![[r#"
        t:1: a quote is not closed: `2`; expected `columns as the column map says`
    "#]],
    );
    check(
        "1,\"2\"3\n",
        "offset=0,size=1",
        expect![[r#"
        t:1: a quoted field goes on behind its quote: `2\"3`; expected `columns as
          the column map says`
    "#]],
    );
    check(
        "1,2,zz\n",
        "offset=0,size=1,hashes=2",
        expect![[r#"
        t:1: the hash `zz` is not hexadecimal; expected `columns as the column map
          says`
    "#]],
    );
}

#[test]
fn column_maps() {
    let messages: Vec<String> = [
        "offset=0",
        "size=1",
        "offset=0,size=1,time=2:fortnight",
        "offset=0,size=1,offset=2",
        "offset=0,size=1,speed=3",
        "offset=0,size=300",
        "offset",
        "offset=lba,size=1,header=no",
        "offset=0,size=1,read=x|x",
        "offset=0,size=fixed:much",
        "offset=0:0,size=1",
        "sep=dot,offset=0,size=1",
    ]
    .iter()
    .map(|map| wrapped(map.parse::<crate::ColumnMap>().unwrap_err()))
    .collect();
    expect![[r#"
        column map: `size` is missing; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `offset` is missing; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `fortnight` in `2:fortnight` is no unit; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `offset` is given twice; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `speed` is none of offset, size, time, op, volume, response,
          hashes, sep, header, read, write, flush, trim; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: there is no column 300; the last may be 255; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `offset` is not key=value; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: columns have names but `header=no` denies them; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: the op word `x` is empty or given twice; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `much` is not a size like 4KiB; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `0` in `0:0` is no unit; write it like
          time=0:us,offset=1:512,size=2:512,op=3,volume=4
        column map: `dot` is none of comma, tab, semicolon, pipe, blank; write it
          like time=0:us,offset=1:512,size=2:512,op=3,volume=4
    "#]]
    .assert_eq(&messages.concat());
}

#[test]
fn binary_records() {
    check(
        &fixtures::vscsi_one()[..80],
        Format::Vscsi,
        expect![[r#"
        t at byte 64: the last record has 16 of 32 bytes; the file is cut off, or
          is not of this format
    "#]],
    );
    check(
        &fixtures::oracle_general()[..30],
        Format::OracleGeneral,
        expect![[r#"
        t at byte 24: the last record has 6 of 24 bytes; the file is cut off, or is
          not of this format
    "#]],
    );
    check(
        b"far too short",
        Format::Vscsi,
        expect![[r#"
        t at byte 0: the first record is neither of version 1 (upper byte of the
          field at byte 14) nor of version 2 (byte 2) of vscsi; name another format
          with --format
    "#]],
    );
    let mut damaged = fixtures::vscsi_one();
    damaged[4 * 32 + 15] = 9;
    check(
        &damaged,
        Format::Vscsi,
        expect![[r#"
        t at byte 128: a record of version 9 with opcode 0x35 where vscsi version 1
          is expected; the file is damaged here
    "#]],
    );
    let mut far = fixtures::vscsi_one();
    far[32 + 23] = 0xff;
    check(
        &far,
        Format::Vscsi,
        expect![[r#"
        t at byte 32: the block 18374686479671623688 is too large to be real
    "#]],
    );
    let mut back = fixtures::vscsi_one();
    back[32 + 28] = 0;
    check(
        &back,
        Format::Vscsi,
        expect![[r#"
        t at byte 32: time runs backwards by 1.54 d (at most 1 s is repaired); is
          the trace in the order of its times?
    "#]],
    );
}

#[test]
fn inputs_without_requests() {
    check_untold(
        b"",
        expect![[r#"
        t: the input is empty
    "#]],
    );
    check_untold(
        b"\n\n",
        expect![[r#"
            t:1: no known format begins with ``; looked for msr, vscsi, oracle-general,
              spc, systor17, alibaba, tencent, fiu, blkparse, fio-iolog, arc, capture,
              csv, parquet, recording. Name one with --format, or describe the columns
              of a text: --columns time=0:us,offset=1:512,size=2:512,op=3
        "#]],
    );
    check_untold(
        b"Timestamp,Response,IOType,LUN,Offset,Size\n",
        expect![[r#"
        t: there is no request in its 1 line; expected lines of
          `Timestamp,Response,IOType,LUN,Offset,Size`
    "#]],
    );
    check(
        b"\n\n",
        Format::Msr,
        expect![[r#"
        t: there is no request in its 2 lines; expected lines of
          `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
    "#]],
    );
    check(
        b"1,h,0,Read,0,0,0\n",
        Format::Msr,
        expect![[r#"
        t: all requests are of zero bytes, 1 of them; expected lines of
          `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`
    "#]],
    );
}

#[test]
fn inputs_of_no_known_format() {
    check_untold(
        b"hello world\n",
        expect![[r#"
            t:1: no known format begins with `hello world`; looked for msr, vscsi,
              oracle-general, spc, systor17, alibaba, tencent, fiu, blkparse,
              fio-iolog, arc, capture, csv, parquet, recording. Name one with --format,
              or describe the columns of a text: --columns
              time=0:us,offset=1:512,size=2:512,op=3
        "#]],
    );
    check_untold(
        b"1,2,3\n",
        expect![[r#"
            t:1: no known format begins with `1,2,3`; looked for msr, vscsi,
              oracle-general, spc, systor17, alibaba, tencent, fiu, blkparse,
              fio-iolog, arc, capture, csv, parquet, recording. Name one with --format,
              or describe the columns of a text: --columns
              time=0:us,offset=1:512,size=2:512,op=3
        "#]],
    );
    check_untold(
        b"\0\0\0\0\0\0",
        expect![[r#"
        t at byte 0: binary, and no known format begins with [00, 00, 00, 00, 00,
          00]; looked for vscsi and oracle-general records, Parquet, gzip, zstd and
          xz. If it is one of them, name it with --format
    "#]],
    );
    check_untold(
        &[0xff, 0xfe, b'a', 0, b'b', 0],
        expect![[r#"
        t at byte 0: binary, and no known format begins with [ff, fe, 61, 00, 62,
          00]; looked for vscsi and oracle-general records, Parquet, gzip, zstd and
          xz. If it is one of them, name it with --format
    "#]],
    );
    check_untold(
        b"1577808144360767,R,0,4096,1577808144360767\n",
        expect![[r#"
        t:1: this could be alibaba or capture; name the one it is with --format
    "#]],
    );
    check_untold(
        b"BZh91AY&SYxx",
        expect![[r#"
        t: bzip2 is not read here; unpack it first: bunzip2 -c FILE | thermocline …
          -
    "#]],
    );
    check(
        b"1,2\n",
        Format::Csv,
        expect![[r#"
        t: a text with columns needs a column map, for example --columns
          time=0:us,offset=1:512,size=2:512,op=3
    "#]],
    );
}

#[test]
fn lines_beyond_the_limit() {
    let long = vec![b'7'; 1 << 20];
    check(
        &long,
        Format::Msr,
        expect![[r#"
        t:1: the line has more than 262144 bytes; is this a text trace with one
          request a line?
    "#]],
    );
    check(
        &[b"1,h,0,Read,0,512,0\n", &long[..]].concat(),
        Format::Msr,
        expect![[r#"
        t:2: the line has more than 262144 bytes; is this a text trace with one
          request a line?
    "#]],
    );
    check_untold(
        &long,
        expect![[r#"
            t:1: no known format begins with
              `777777777777777777777777777777777777777777777777777777777777…`; looked
              for msr, vscsi, oracle-general, spc, systor17, alibaba, tencent, fiu,
              blkparse, fio-iolog, arc, capture, csv, parquet, recording. Name one with
              --format, or describe the columns of a text: --columns
              time=0:us,offset=1:512,size=2:512,op=3
        "#]],
    );
    check_untold(
        &vec![b'\n'; 1 << 20],
        expect![[r#"
            t:1: no known format begins with ``; looked for msr, vscsi, oracle-general,
              spc, systor17, alibaba, tencent, fiu, blkparse, fio-iolog, arc, capture,
              csv, parquet, recording. Name one with --format, or describe the columns
              of a text: --columns time=0:us,offset=1:512,size=2:512,op=3
        "#]],
    );
}

#[test]
fn a_format_that_does_not_exist() {
    expect![[r#"
        `vhd` is not a trace format; choose one of msr, vscsi, oracle-general, spc,
          systor17, alibaba, tencent, fiu, blkparse, fio-iolog, arc, capture, csv,
          parquet, recording
    "#]]
    .assert_eq(&wrapped("vhd".parse::<Format>().unwrap_err()));
}

#[test]
fn a_column_map_with_a_format_that_has_its_own() {
    let columns = Some("offset=0,size=1".parse().unwrap());
    let options = ReadOptions { format: Some(Format::Msr), columns, ..Default::default() };
    expect!["t: a column map was given, but msr has its own columns; leave one out"]
        .assert_eq(&read_with(fixtures::MSR, &options).unwrap_err().to_string());
}

#[test]
fn every_layout_in_a_message_is_a_header_that_is_taken() {
    let header = crate::formats::msr::Msr::default().layout().to_string() + "\n";
    let with_header = [header.as_bytes(), fixtures::MSR].concat();
    let held = read_with(&with_header, &ReadOptions::default()).unwrap();
    assert_eq!(held.requests.len(), 4);
}
