//! MSR Cambridge: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Source: D. Narayanan, A. Donnelly, A. Rowstron, "Write Off-Loading", FAST 2008, and the traces'
//! own README (SNIA IOTTA 388). Timestamp and ResponseTime count 100 ns (Windows file time), Offset
//! and Size bytes; a volume is `Hostname.DiskNumber`; a response time of 0 means unknown. Many other
//! published traces were converted to these columns.
//!
//! Two parsers. The quick one takes the canonical spelling only: digits, `Read` or `Write`, nothing
//! else; it scans each byte once. Whatever it does not take goes to the careful one, which splits at
//! the commas and can say what is wrong. `both_parsers_agree` holds them together.

use super::Problem;
use super::text::{Context, LineFormat, request};
use crate::numbers::{Excerpt, scaled_field, scan_whole, whole_field};
use crate::order::OrderRule;
use crate::request::{Op, Request};
use crate::volumes::Volumes;
use memchr::memchr;
use thermocline_units::{Nanos, VolumeId};

/// Nanoseconds of one tick of Windows file time.
const TICK_NS: u64 = 100;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Msr {
    /// The last line's `Hostname,DiskNumber,`, and its volume.
    last: (Vec<u8>, VolumeId),
}

impl Msr {
    /// The canonical line; `None` when anything at all is unusual.
    #[inline(always)]
    fn read_quickly(&mut self, line: &[u8], volumes: &mut Volumes) -> Option<Request> {
        let (ticks, at) = scan_whole(line, 0)?;
        let (volume, at) = self.volume_at(line, at + 1, volumes)?;
        if line[at - 1] != b',' || line.get(at - self.last.0.len() - 1) != Some(&b',') {
            return None;
        }
        let (op, at) = match line.get(at..)? {
            [b'R', b'e', b'a', b'd', b',', ..] => (Op::Read, at + 5),
            [b'W', b'r', b'i', b't', b'e', b',', ..] => (Op::Write, at + 6),
            _ => return None,
        };
        let (offset, at) = scan_whole(line, at)?;
        if line.get(at) != Some(&b',') {
            return None;
        }
        let (length, at) = scan_whole(line, at + 1)?;
        if line.get(at) != Some(&b',') {
            return None;
        }
        let (response, at) = scan_whole(line, at + 1)?;
        if at != line.len() {
            return None;
        }
        let mut found = request(ticks.checked_mul(TICK_NS)?, volume, op, offset, length);
        if response > 0 {
            found.response = Some(Nanos(response.checked_mul(TICK_NS)?));
        }
        Some(found)
    }

    /// The volume spelled at `start` and where the field after it starts.
    #[inline(always)]
    fn volume_at(
        &mut self,
        line: &[u8],
        start: usize,
        volumes: &mut Volumes,
    ) -> Option<(VolumeId, usize)> {
        let rest = line.get(start..)?;
        if rest.starts_with(&self.last.0) && !self.last.0.is_empty() {
            return Some((self.last.1, start + self.last.0.len()));
        }
        let host_end = memchr(b',', rest)?;
        let disk_end = host_end + 1 + memchr(b',', &rest[host_end + 1..])?;
        let volume = volume_of(&rest[..host_end], &rest[host_end + 1..disk_end], volumes).ok()?;
        self.last.0.clear();
        self.last.0.extend_from_slice(&rest[..=disk_end]);
        self.last.1 = volume;
        Some((volume, start + disk_end + 1))
    }
}

/// The volume `host.disk`.
fn volume_of(host: &[u8], disk: &[u8], volumes: &mut Volumes) -> Result<VolumeId, Problem> {
    if host.is_empty() {
        return Err(Problem::new("the host name is missing".to_string()));
    }
    whole_field("the disk number", disk)?;
    let mut name = Vec::with_capacity(host.len() + 1 + disk.len());
    name.extend_from_slice(host);
    name.push(b'.');
    name.extend_from_slice(disk);
    volumes.id_of(&name)
}

/// Splits at commas into exactly `N` fields.
pub(super) fn split_commas<const N: usize>(line: &[u8]) -> Result<[&[u8]; N], Problem> {
    let mut fields = [&line[..0]; N];
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
    fn read_line(
        &mut self,
        line: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Option<Request>, Problem> {
        match self.read_quickly(line, context.volumes) {
            Some(found) => Ok(Some(found)),
            None => read_carefully(line, context.volumes).map(Some),
        }
    }
}

#[cold]
fn read_carefully(line: &[u8], volumes: &mut Volumes) -> Result<Request, Problem> {
    let [time, host, disk, op, offset, size, response] = split_commas(line)?;
    let time = scaled_field("the timestamp", time, TICK_NS)?;
    let volume = volume_of(host, disk, volumes)?;
    let op = read_or_write(op)?;
    let offset = whole_field("the offset", offset)?;
    let length = whole_field("the size", size)?;
    let response = scaled_field("the response time", response, TICK_NS)?;
    let mut found = request(time, volume, op, offset, length);
    found.response = (response > 0).then_some(Nanos(response));
    Ok(found)
}

#[cfg(test)]
mod tests;
