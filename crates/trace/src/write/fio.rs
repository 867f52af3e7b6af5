//! fio's I/O log, version 3, for `fio --read_iolog`.
//!
//! Times in µs, rounded down, from 1 on; a volume becomes a file of its name in the folder where
//! fio runs, without what fio takes apart (blanks, `/`, `:`). Needs fio 3.31 or later; fio 3.33
//! leaves trims out and says `bad ddir: 2` for each. Responses and hashes are not part of a log;
//! hashes are counted as left out.
//!
//! Source: fio(1), "TRACE FILE FORMAT", version 3; units measured with fio 3.33.

use super::{TextOutput, loss};
use crate::{Batch, Op, TraceError, TraceWriter};
use std::io::Write;

/// Nanoseconds of one unit of the log's time.
const TICK_NS: u64 = 1_000;

/// Beginning of the log's time, in µs: fio 3.33 takes a timestamp of 0 for "none yet" and then
/// skips the wait that follows it.
const START_US: u64 = 1;

/// A fio I/O log being written.
pub struct FioWriter<W: Write> {
    text: TextOutput<W>,
    /// The file of each volume; one is added and opened when the trace first names it.
    files: Vec<String>,
    latest_us: u64,
    hashes: u64,
}

impl<W: Write + Send> FioWriter<W> {
    /// Will write to `output`, called `name` in messages.
    pub fn new(output: W, name: &str) -> FioWriter<W> {
        let mut text = TextOutput::new(output, name);
        text.add(format_args!("fio version 3 iolog\n"));
        FioWriter { text, files: Vec::new(), latest_us: START_US, hashes: 0 }
    }

    /// Adds and opens the files of volumes that are new.
    fn open_files(&mut self, volumes: &[String]) {
        for name in volumes.iter().skip(self.files.len()) {
            let mut file = file_name(name);
            while self.files.contains(&file) {
                file.push('+');
            }
            self.text.add(format_args!("{} {file} add\n", self.latest_us));
            self.text.add(format_args!("{} {file} open\n", self.latest_us));
            self.files.push(file);
        }
    }
}

impl<W: Write + Send> TraceWriter for FioWriter<W> {
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError> {
        self.open_files(volumes);
        for request in &batch.requests {
            let action = match request.op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Flush => "sync",
                Op::Trim => "trim",
            };
            self.latest_us = START_US + request.time.0 / TICK_NS;
            self.hashes += u64::from(request.hashes.count);
            self.text.add(format_args!(
                "{} {} {action} {} {}\n",
                self.latest_us,
                self.files[request.volume.0 as usize],
                request.offset.0,
                request.length.0,
            ));
        }
        self.text.send()
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        for file in &self.files {
            self.text.add(format_args!("{} {file} close\n", self.latest_us));
        }
        self.text.finish()
    }

    fn losses(&self) -> Vec<String> {
        loss(self.hashes, "content hash", "content hashes").into_iter().collect()
    }
}

/// A volume's name as one word that fio takes for one file.
fn file_name(volume: &str) -> String {
    let word: String = volume
        .chars()
        .map(|c| if c.is_whitespace() || matches!(c, '/' | ':' | ',') { '_' } else { c })
        .collect();
    if word.is_empty() { "volume".to_string() } else { word }
}
