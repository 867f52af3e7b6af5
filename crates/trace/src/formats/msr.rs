//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Source: D. Narayanan, A. Donnelly, A. Rowstron, "Write Off-Loading", FAST 2008, and the
//! traces' own README (SNIA IOTTA 388). Timestamp and ResponseTime count 100 ns (Windows file
//! time), Offset and Size bytes; a volume is `Hostname.DiskNumber`; a response time of 0 means
//! unknown. Many other published traces were converted to these columns.
//!
//! Two parsers. The quick one takes the canonical spelling only: digits, `Read` or `Write`,
//! nothing else; it scans each byte once. Whatever it does not take goes to the careful one,
//! which splits at the commas and can say what is wrong. `both_parsers_agree` holds them
//! together.

use super::Problem;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, Scanner, Word, scaled_field, scan_whole, whole_field};
use crate::order::OrderRule;
use crate::request::{Op, Request};
use crate::volumes::Volumes;
use memchr::memchr2;
use thermocline_units::{Nanos, VolumeId};

/// Nanoseconds of one tick of Windows file time.
const TICK_NS: u64 = 100;

/// Bytes of a volume name that are put together without allocation.
const KEY_BYTES_MAX: usize = 64;

/// The ops and the comma behind them.
const READ: Word = Word::of(b"Read,");
const WRITE: Word = Word::of(b"Write,");

/// Parser of MSR Cambridge's traces.
#[derive(Debug, Default)]
pub(crate) struct Msr {
    /// The last line's `Hostname,DiskNumber,`, and its volume.
    last: (Vec<u8>, VolumeId),
}

impl Msr {
    /// The volume that comes next, and the comma behind it.
    #[inline(always)]
    fn scan_volume(
        &mut self,
        scanner: &mut Scanner<'_>,
        volumes: &mut Volumes,
    ) -> Option<VolumeId> {
        let rest = scanner.rest()?;
        if !self.last.0.is_empty() && rest.starts_with(&self.last.0) {
            scanner.skip(self.last.0.len());
            return Some(self.last.1);
        }
        let (host, [b',', ..]) = rest.split_at_checked(memchr2(b',', b'\n', rest)?)? else {
            return None;
        };
        if host.trim_ascii().len() != host.len() {
            return None;
        }
        let disk_start = host.len() + 1;
        let (_, disk_end) = scan_whole(rest, disk_start)?;
        let (key, [b',', ..]) = rest.split_at_checked(disk_end)? else { return None };
        let volume = volume_of(host, key.get(disk_start..)?, volumes).ok()?;
        self.last.0.clear();
        self.last.0.extend_from_slice(key);
        self.last.0.push(b',');
        self.last.1 = volume;
        scanner.skip(disk_end + 1);
        Some(volume)
    }
}

/// The volume `host.disk`.
fn volume_of(host: &[u8], disk: &[u8], volumes: &mut Volumes) -> Result<VolumeId, Problem> {
    if host.is_empty() {
        return Err(Problem::new("the host name is missing".to_string()));
    }
    whole_field("the disk number", disk)?;
    let mut name = [0; KEY_BYTES_MAX];
    let bytes = host.len() + 1 + disk.len();
    let Some(name) = name.get_mut(..bytes) else {
        return volumes.id_of(&[host, b".", disk].concat());
    };
    if let Some((before, [point, behind @ ..])) = name.split_at_mut_checked(host.len()) {
        before.copy_from_slice(host);
        *point = b'.';
        behind.copy_from_slice(disk);
    }
    volumes.id_of(name)
}

/// Splits at commas into exactly `N` fields.
pub(super) fn split_commas<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Problem> {
    let mut fields: [&[u8]; N] = [&[]; N];
    let mut count = 0;
    for field in line.split(|byte| *byte == b',') {
        if let Some(place) = fields.get_mut(count) {
            *place = field.trim_ascii();
        }
        count += 1;
    }
    if count != N {
        let found = if count == 1 { "1 field".to_string() } else { format!("{count} fields") };
        return Err(Problem::new(format!(
            "{found} where there should be {N}: `{}`",
            Excerpt(line)
        )));
    }
    Ok(fields)
}

/// `Read`, `Write`, `R` or `W`, in any case.
pub(super) fn read_or_write(word: &[u8]) -> Result<Op, Problem> {
    if word.eq_ignore_ascii_case(b"r") || word.eq_ignore_ascii_case(b"read") {
        Ok(Op::Read)
    } else if word.eq_ignore_ascii_case(b"w") || word.eq_ignore_ascii_case(b"write") {
        Ok(Op::Write)
    } else {
        Err(Problem::new(format!("`{}` is neither a read nor a write", Excerpt(word))))
    }
}

impl LineFormat for Msr {
    fn layout(&self) -> &str {
        "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime"
    }

    fn order(&self) -> OrderRule {
        OrderRule::Window(Nanos(0))
    }

    #[inline(always)]
    fn read_quickly(&mut self, text: &[u8], volumes: &mut Volumes) -> Option<(Request, usize)> {
        let mut scanner = Scanner::new(text);
        let time = scanner.number_then(b',')?.checked_mul(TICK_NS)?;
        let volume = self.scan_volume(&mut scanner, volumes)?;
        let op = match scanner.accept_either(READ, WRITE)? {
            true => Op::Read,
            false => Op::Write,
        };
        let offset = scanner.number_then(b',')?;
        let length = scanner.number_then(b',')?;
        let response = scanner.number_then(b'\n')?.checked_mul(TICK_NS)?;
        let mut found = request(time, volume, op, offset, length);
        found.response = (response > 0).then_some(Nanos(response));
        Some((found, scanner.position()))
    }

    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        let [time, host, disk, op, offset, size, response] = split_commas(line)?;
        let time = scaled_field("the timestamp", time, TICK_NS)?;
        let op = read_or_write(op)?;
        let offset = whole_field("the offset", offset)?;
        let length = whole_field("the size", size)?;
        let response = scaled_field("the response time", response, TICK_NS)?;
        let volume = volume_of(host, disk, context.volumes)?;
        let mut found = request(time, volume, op, offset, length);
        found.response = (response > 0).then_some(Nanos(response));
        Ok(Some(found))
    }
}
