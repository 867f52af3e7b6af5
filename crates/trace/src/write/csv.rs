//! CSV with a header: every column of the native format, for spreadsheets and scripts.
//!
//! `time_ns,volume,op,offset_bytes,length_bytes,response_ns` and, when asked for, `hashes`
//! (hexadecimal, joined by `;`). An unknown response is empty. A volume's name with a comma is
//! quoted; a quote or a line end in it becomes `_`, which no reader of CSV takes amiss.
//! [`crate::open`](mod@crate::open) knows the header again and needs no column map.

use super::{TextOutput, loss};
use crate::native::op_name;
use crate::{Batch, ContentHash, TraceError, TraceWriter};
use std::borrow::Cow;
use std::io::Write;

/// The header, up to the hashes.
pub(crate) const HEADER: &str = "time_ns,volume,op,offset_bytes,length_bytes,response_ns";

/// The column map that reads it.
pub(crate) const COLUMNS: &str = "time=time_ns:ns,volume=volume,op=op,\
     offset=offset_bytes,size=length_bytes,response=response_ns:ns";

/// Choice of a column of content hashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashColumn {
    /// A column of hashes.
    With,
    /// No column of hashes.
    Without,
}

/// A generic CSV file being written.
pub struct CsvWriter<W: Write> {
    text: TextOutput<W>,
    hashes: HashColumn,
    hashes_lost: u64,
}

impl<W: Write + Send> CsvWriter<W> {
    /// Will write to `output`, called `name` in messages.
    pub fn new(output: W, name: &str, hashes: HashColumn) -> CsvWriter<W> {
        let mut text = TextOutput::new(output, name);
        text.add(format_args!("{HEADER}"));
        match hashes {
            HashColumn::With => text.add(format_args!(",hashes\n")),
            HashColumn::Without => text.add(format_args!("\n")),
        }
        CsvWriter { text, hashes, hashes_lost: 0 }
    }

    fn add_hashes(&mut self, hashes: &[ContentHash]) {
        for (index, hash) in hashes.iter().enumerate() {
            let before = if index == 0 { "," } else { ";" };
            self.text.add(format_args!("{before}{:032x}", u128::from_be_bytes(hash.0)));
        }
        if hashes.is_empty() {
            self.text.add(format_args!(","));
        }
    }
}

impl<W: Write + Send> TraceWriter for CsvWriter<W> {
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError> {
        let names: Vec<Cow<'_, str>> = volumes.iter().map(|name| quoted(name)).collect();
        for request in &batch.requests {
            self.text.add(format_args!(
                "{},{},{},{},{},",
                request.time.0,
                names[request.volume.0 as usize],
                op_name(request.op),
                request.offset.0,
                request.length.0,
            ));
            if let Some(response) = request.response {
                self.text.add(format_args!("{}", response.0));
            }
            match self.hashes {
                HashColumn::With => self.add_hashes(batch.hashes_of(request)),
                HashColumn::Without => self.hashes_lost += u64::from(request.hashes.count),
            }
            self.text.add(format_args!("\n"));
        }
        self.text.send()
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        self.text.finish()
    }

    fn losses(&self) -> Vec<String> {
        loss(self.hashes_lost, "content hash", "content hashes").into_iter().collect()
    }
}

/// `name` as a CSV field.
fn quoted(name: &str) -> Cow<'_, str> {
    match name.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", name.replace(['"', '\n', '\r'], "_"))),
        false => Cow::Borrowed(name),
    }
}
