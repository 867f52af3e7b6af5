//! Telling a trace's format by its beginning.
//!
//! 1. A beginning with a zero byte is binary: vscsi when its records carry that version,
//!    oracleGeneral when times, sizes and next accesses of all whole records make sense together.
//! 2. Anything else is text. Every text format tries to read the first lines; the one that takes
//!    the most of them, counted up to its first refusal, is it. So a damaged line further down is
//!    reported by the right format's reader, at its line.
//! 3. Two formats that take equally many are an error that names both: guessing would be worse.
//!
//! `csv` is told only by the header that this project writes: a column of numbers does not say
//! what it means.

use super::binary::RecordFormat;
use super::text::{Context, LineFormat};
use super::{ColumnMap, Format, alibaba, arc, blkparse, capture, fio_iolog, first_line};
use super::{fiu, msr, names};
use super::{oracle_general, spc, systor, tencent, vscsi};
use crate::error::{Place, TraceError};
use crate::input::Source;
use crate::numbers::Excerpt;
use crate::volumes::Volumes;

/// Lines every text format tries.
const LINES_TRIED: usize = 64;

/// Bytes at the beginning in which a zero byte means a binary format.
const BINARY_BYTES: usize = 256;

/// The format of `source`.
///
/// # Errors
/// When no format fits, or several do.
pub(crate) fn detect(source: &Source) -> Result<Format, TraceError> {
    let sample = source.sample();
    if sample.iter().take(BINARY_BYTES).any(|byte| *byte == 0) {
        return detect_binary(source);
    }
    if ColumnMap::of_own_header(first_line(sample)).is_some() {
        return Ok(Format::Csv);
    }
    let scores = text_scores(sample);
    let best = scores.iter().map(|(_, taken)| *taken).max().unwrap_or(0);
    let winners: Vec<Format> =
        scores.iter().filter(|(_, taken)| *taken == best).map(|(format, _)| *format).collect();
    match winners[..] {
        _ if best == 0 => Err(source.malformed(
            Place::Line(1),
            format!(
                "no known format begins with `{}`; looked for {}. Name one with --format, or \
                 describe the columns of a text: --columns time=0:us,offset=1:512,size=2:512,op=3",
                Excerpt(first_line(sample)),
                names()
            ),
        )),
        [format] => Ok(format),
        _ => {
            let names: Vec<&str> = winners.iter().map(|format| format.name()).collect();
            Err(source.malformed(
                Place::Line(1),
                format!("this could be {}; name the one it is with --format", names.join(" or ")),
            ))
        }
    }
}

fn detect_binary(source: &Source) -> Result<Format, TraceError> {
    if vscsi::version_of(source.sample()).is_some() {
        return Ok(Format::Vscsi);
    }
    if is_oracle_general(source.sample()) {
        return Ok(Format::OracleGeneral);
    }
    let sample = source.sample();
    Err(source.malformed(
        Place::Byte(0),
        format!(
            "binary, and no known format begins with {:02x?}; looked for vscsi and oracle-general \
             records, Parquet, gzip, zstd and xz. If it is one of them, name it with --format",
            sample.get(..8).unwrap_or(sample)
        ),
    ))
}

/// True if all whole records make sense: times fall no further than reading would repair, not all
/// sizes are zero, a next access lies ahead or nowhere.
fn is_oracle_general(sample: &[u8]) -> bool {
    const NEXT_MAX: i64 = 1 << 40;
    let tolerance_s = oracle_general::OracleGeneral::TOLERANCE.0 / 1_000_000_000;
    let mut newest_s = 0;
    let mut sized = false;
    for (index, bytes) in (0..).zip(sample.chunks_exact(oracle_general::RECORD_BYTES)) {
        let Some(record) = oracle_general::Record::of(bytes) else { return false };
        let ahead = record.next > index && record.next < NEXT_MAX;
        let nowhere = record.next == -1 || record.next == i64::MAX;
        if u64::from(record.seconds) + tolerance_s < newest_s || !(ahead || nowhere) {
            return false;
        }
        newest_s = newest_s.max(record.seconds.into());
        sized |= record.size > 0;
    }
    sized
}

/// Number of the first lines that each text format takes.
fn text_scores(sample: &[u8]) -> Vec<(Format, usize)> {
    let volume = || "volume".to_string();
    vec![
        (Format::Msr, lines_taken(msr::Msr::default(), sample)),
        (Format::Spc, lines_taken(spc::Spc, sample)),
        (Format::Systor17, lines_taken(systor::Systor17, sample)),
        (Format::Alibaba, lines_taken(alibaba::Alibaba, sample)),
        (Format::Tencent, lines_taken(tencent::Tencent, sample)),
        (Format::Fiu, lines_taken(fiu::Fiu, sample)),
        (Format::Blkparse, lines_taken(blkparse::Blkparse::new(None), sample)),
        (Format::FioIolog, lines_taken(fio_iolog::FioIolog::default(), sample)),
        (Format::Arc, lines_taken(arc::ArcLines::new(volume()), sample)),
        (Format::Capture, lines_taken(capture::Capture::new(volume()), sample)),
    ]
}

/// Number of the first lines that `format` takes before it refuses one. The sample's last line
/// counts only when it is the only one, since it may be cut.
fn lines_taken<F: LineFormat>(mut format: F, sample: &[u8]) -> usize {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let whole = memchr::memrchr(b'\n', sample).and_then(|end| sample.get(..end));
    let whole = whole.unwrap_or(sample);
    let mut volumes = Volumes::default();
    let mut hashes = Vec::new();
    let lines = whole
        .split(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty());
    let mut taken = 0;
    for line in lines.take(LINES_TRIED) {
        let mut context = Context { volumes: &mut volumes, hashes: &mut hashes };
        let header = taken == 0 && format.is_header(line);
        if !header && format.read_line(line, &mut context).is_err() {
            break;
        }
        taken += 1;
    }
    taken
}
