//! Packed, cut, damaged and slow inputs: complete traces, or errors that name the place.

use super::{Compression, Lines, Source};
use crate::{Batch, Place, ReadOptions, TraceError, open};
use flate2::write::GzEncoder;
use std::io::{self, Cursor, Read, Write};

const LINE: &[u8] = b"128166372003061629,hm,0,Read,383496192,32768,1331\n";

fn text(lines: usize) -> Vec<u8> {
    let mut rng = thermocline_units::Rng::seeded(3);
    let mut text = Vec::new();
    for tick in 0..lines as u64 {
        writeln!(text, "{},hm,0,Read,{},512,0", 1000 + tick, rng.below(1 << 40)).unwrap();
    }
    text
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 1).unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    // One block of one uncompressed LZMA2 chunk, as the format's specification lays it out.
    let crc32 = |bytes: &[u8]| {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        crc.sum().to_le_bytes()
    };
    assert!(bytes.len() < 1 << 16);
    let mut out = vec![0xfd, b'7', b'z', b'X', b'Z', 0, 0, 1];
    out.extend(crc32(&[0, 1]));
    let header = [2, 0, 0x21, 1, 0, 0, 0, 0];
    out.extend(header);
    out.extend(crc32(&header));
    let mut block = vec![1];
    block.extend(((bytes.len() - 1) as u16).to_be_bytes());
    block.extend(bytes);
    block.push(0);
    let unpadded = 12 + block.len() + 4;
    out.extend(&block);
    out.resize(out.len() + (4 - block.len() % 4) % 4, 0);
    out.extend(crc32(bytes));
    let mut index = vec![0, 1];
    for mut number in [unpadded, bytes.len()] {
        while number >= 0x80 {
            index.push(number as u8 | 0x80);
            number >>= 7;
        }
        index.push(number as u8);
    }
    index.resize(index.len().next_multiple_of(4), 0);
    out.extend(&index);
    out.extend(crc32(&index));
    let backward = ((index.len() + 4) / 4 - 1) as u32;
    let mut footer = backward.to_le_bytes().to_vec();
    footer.extend([0, 1]);
    out.extend(crc32(&footer));
    out.extend(footer);
    out.extend(b"YZ");
    out
}

fn count(bytes: Vec<u8>) -> Result<usize, TraceError> {
    count_from(Box::new(Cursor::new(bytes)))
}

fn count_from(input: Box<dyn Read + Send>) -> Result<usize, TraceError> {
    let mut reader = open(input, "t", &ReadOptions::default())?;
    let (mut batch, mut count) = (Batch::default(), 0);
    loop {
        reader.read_batch(&mut batch)?;
        if batch.requests.is_empty() {
            return Ok(count);
        }
        count += batch.requests.len();
    }
}

#[test]
fn members_frames_and_streams_in_a_row_are_one_trace() {
    let text = text(500);
    for pack in [gzip, zstd_of, xz] {
        assert_eq!(count(pack(&text)).unwrap(), 500);
        let twice = [pack(&text), pack(&text)].concat();
        assert_eq!(count(twice).unwrap(), 1000);
    }
}

#[test]
fn packed_bytes_that_end_early_are_an_error_with_a_line_or_a_name() {
    let text = text(20_000);
    for pack in [gzip, zstd_of] {
        let packed = pack(&text);
        for part in 1..50 {
            let length = packed.len() * part / 50;
            let error = count(packed[..length].to_vec()).unwrap_err().to_string();
            assert!(error.contains("is cut off near its byte"), "{error}");
        }
    }
    let packed = xz(&text[..50_000]);
    for length in (12..packed.len()).step_by(997) {
        let error = count(packed[..length].to_vec()).unwrap_err().to_string();
        assert!(error.contains("the xz data is"), "{error}");
    }
}

#[test]
fn damage_under_a_checksum_is_an_error_or_harmless() {
    let text = text(200);
    for pack in [gzip, xz] {
        let packed = pack(&text);
        for index in 6..packed.len() {
            let mut damaged = packed.clone();
            damaged[index] ^= 0x55;
            if let Ok(mut source) = Source::new(Box::new(Cursor::new(damaged)), "t") {
                let mut unpacked = Vec::new();
                let whole = source.read_to_end(&mut unpacked).is_ok();
                assert!(!whole || unpacked == text, "byte {index} changes the trace silently");
            }
        }
    }
}

#[test]
fn damage_without_a_checksum_is_no_panic() {
    let packed = zstd_of(&text(200));
    for index in 4..packed.len() {
        let mut damaged = packed.clone();
        damaged[index] ^= 0x55;
        let _ = count(damaged);
    }
}

#[test]
fn packed_twice_is_told() {
    let error = count(gzip(&zstd_of(LINE))).unwrap_err().to_string();
    assert_eq!(error, "t: packed twice, zstd inside gzip; unpack it once first");
}

/// Gives its bytes in pieces of odd sizes, then fails.
struct Faulty {
    bytes: Cursor<Vec<u8>>,
    reads: usize,
}

impl Read for Faulty {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reads += 1;
        if self.reads.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let piece = buffer.len().min(1 + self.reads % 11);
        match self.bytes.read(&mut buffer[..piece])? {
            0 => Err(io::Error::other("the disk fell out")),
            count => Ok(count),
        }
    }
}

#[test]
fn the_systems_errors_stay_the_systems_even_below_a_decoder() {
    for bytes in [text(100), gzip(&text(100))[..300].to_vec()] {
        let input = Faulty { bytes: Cursor::new(bytes), reads: 0 };
        let error = count_from(Box::new(input)).unwrap_err();
        assert!(matches!(error, TraceError::Io { .. }), "{error}");
        assert!(error.to_string().contains("the disk fell out"));
    }
}

#[test]
fn lines_come_whole_whatever_the_pieces() {
    let text = text(3000);
    let pieces = Faulty { bytes: Cursor::new(text.clone()), reads: 0 };
    let mut lines = Lines::new(Source::new(Box::new(pieces), "t").unwrap());
    for (index, expected) in text.split(|byte| *byte == b'\n').take(3000).enumerate() {
        assert_eq!(lines.next().unwrap(), Some(expected));
        assert_eq!(lines.number(), index as u64 + 1);
    }
    assert!(lines.next().is_err(), "the pieces end with an error");
}

#[test]
fn a_cut_gzip_trace_names_the_line_it_ends_in() {
    let packed = gzip(&text(20_000));
    let error = count(packed[..packed.len() / 2].to_vec()).unwrap_err();
    let TraceError::Malformed { place: Place::Line(line), .. } = error else {
        panic!("not about the content: {error}")
    };
    assert!((5_000..15_000).contains(&line), "line {line}");
}

#[test]
fn packings_are_told_by_their_first_bytes_only_when_whole() {
    assert_eq!(Compression::of(b"\x1f"), None);
    assert_eq!(Compression::of(b"\xfd7zXZ"), None);
    assert_eq!(Compression::of(b"\x1f\x8b"), Some(Compression::Gzip));
    assert_eq!(Compression::of(b""), None);
}
