//! CSV in the layout of the MSR Cambridge traces, which most trace tools read.
//!
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, no header; times in units of 100
//! ns, rounded down. Timestamps count from the trace's time zero, not from 1601 as in the original,
//! since a trace's date is not part of a request; an unknown response is 0. The layout has neither
//! flushes nor trims nor hashes: they are left out and counted.

use super::{TextOutput, loss};
use crate::{Batch, Op, TraceError, TraceWriter};
use std::io::Write;

/// Nanoseconds of one tick of Windows' file time.
const TICK_NS: u64 = 100;

/// An MSR Cambridge file being written.
pub struct MsrWriter<W: Write> {
    text: TextOutput<W>,
    /// `host,disk` of each volume.
    volumes: Vec<String>,
    flushes: u64,
    trims: u64,
    hashes: u64,
}

impl<W: Write + Send> MsrWriter<W> {
    /// Will write to `output`, called `name` in messages.
    pub fn new(output: W, name: &str) -> MsrWriter<W> {
        let text = TextOutput::new(output, name);
        MsrWriter { text, volumes: Vec::new(), flushes: 0, trims: 0, hashes: 0 }
    }
}

impl<W: Write + Send> TraceWriter for MsrWriter<W> {
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError> {
        let known = self.volumes.len();
        self.volumes.extend(volumes.iter().skip(known).map(|name| host_and_disk(name)));
        for request in &batch.requests {
            let kind = match request.op {
                Op::Read => "Read",
                Op::Write => "Write",
                Op::Flush => {
                    self.flushes += 1;
                    continue;
                }
                Op::Trim => {
                    self.trims += 1;
                    continue;
                }
            };
            self.hashes += u64::from(request.hashes.count);
            self.text.add(format_args!(
                "{},{},{kind},{},{},{}\n",
                request.time.0 / TICK_NS,
                self.volumes[request.volume.0 as usize],
                request.offset.0,
                request.length.0,
                request.response.map_or(0, |response| response.0 / TICK_NS),
            ));
        }
        self.text.send()
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.text.finish()
    }

    fn losses(&self) -> Vec<String> {
        let losses = [
            loss(self.flushes, "flush", "flushes"),
            loss(self.trims, "trim", "trims"),
            loss(self.hashes, "content hash", "content hashes"),
        ];
        losses.into_iter().flatten().collect()
    }
}

/// A volume's name as host and disk: `usr.1` and `usr_1` are disk 1 of `usr`, any other name is
/// disk 0 of a host of that name.
fn host_and_disk(name: &str) -> String {
    let safe = name.replace([',', '"', '\n', '\r'], "_");
    match safe.rsplit_once(['.', '_']) {
        Some((host, disk)) if !host.is_empty() && disk.parse::<u32>().is_ok() => {
            format!("{host},{disk}")
        }
        _ => format!("{safe},0"),
    }
}
