//! Output of `trace convert` and `trace synth`: the arguments, the format, the copying, the
//! summary.

use crate::error::CliError;
use crate::output::{self, OutputFile, Readers};
use crate::progress::Progress;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use thermocline_trace::native::{ParquetSettings, ParquetWriter};
use thermocline_trace::{
    Batch, CsvWriter, FioWriter, HashColumn, MsrWriter, TraceError, TraceReader, TraceWriter,
};
use thermocline_units::Bytes;
use thermocline_units::text::counted;

/// File to write, and its format.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct TargetArgs {
    /// The file to write; `-` for the standard output.
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Its format; told from its name (.parquet, .csv, .fio, .iolog) when not given.
    #[arg(long, value_name = "FORMAT")]
    to: Option<TargetFormat>,
    /// Keep content hashes or leave them out; kept when the trace begins with some, unless given.
    #[arg(long, value_name = "KEEP")]
    hashes: Option<Hashes>,
    /// Replace the file when it exists.
    #[arg(long)]
    force: bool,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

/// Formats that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TargetFormat {
    /// The native format: Parquet, for pandas, polars, DuckDB and this program.
    Parquet,
    /// CSV with a header, all columns.
    Csv,
    /// CSV in the layout of the MSR Cambridge traces: reads and writes only.
    Msr,
    /// fio's I/O log, version 3, for fio --read_iolog.
    Fio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Hashes {
    /// Keep them.
    Yes,
    /// Leave them out.
    No,
}

/// Output that was written; the file gets its name by [`TargetArgs::finish`].
pub(super) struct Written {
    file: Option<OutputFile>,
    requests: u64,
    volumes: usize,
    losses: Vec<String>,
}

impl TargetArgs {
    fn is_stdout(&self) -> bool {
        self.output == Path::new("-")
    }

    fn format(&self) -> Result<TargetFormat, CliError> {
        if let Some(format) = self.to {
            return Ok(format);
        }
        match self.output.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => Ok(TargetFormat::Parquet),
            Some("csv") => Ok(TargetFormat::Csv),
            Some("fio" | "iolog") => Ok(TargetFormat::Fio),
            _ => Err(CliError::input(format!(
                "{}: the name does not tell the format; add --to parquet, csv, msr or fio",
                self.output.display()
            ))),
        }
    }

    /// Copies everything from `reader`. The file says `about` itself, where its format has room.
    ///
    /// # Errors
    /// Status 2 when the input is wrong or the output exists, 1 when it cannot be written.
    pub(super) fn copy(
        &self,
        reader: &mut dyn TraceReader,
        about: Vec<(String, String)>,
        progress: &dyn Fn(&dyn TraceReader, u64),
    ) -> Result<Written, CliError> {
        let format = self.format()?;
        if self.is_stdout() {
            let stdout = std::io::stdout();
            if format == TargetFormat::Parquet && stdout.is_terminal() {
                return Err(CliError::input("Parquet is not for a terminal; name a file with -o"));
            }
            return self.copy_to(std::io::BufWriter::new(stdout), format, reader, about, progress);
        }
        let mut file = OutputFile::create(&self.output, self.force, Readers::Anyone)?;
        let written = self.copy_to(&mut file, format, reader, about, progress)?;
        Ok(Written { file: Some(file), ..written })
    }

    fn copy_to<W: Write + Send>(
        &self,
        output: W,
        format: TargetFormat,
        reader: &mut dyn TraceReader,
        about: Vec<(String, String)>,
        progress: &dyn Fn(&dyn TraceReader, u64),
    ) -> Result<Written, CliError> {
        let mut batch = Batch::default();
        reader.read_batch(&mut batch).map_err(CliError::input)?;
        let mut writer = self.writer(output, format, about, !batch.hashes.is_empty());
        let mut requests = 0;
        while !batch.requests.is_empty() {
            match writer.write_batch(&batch, reader.volumes()) {
                // Whoever read our output has seen enough.
                Err(error) if self.is_stdout() && is_broken_pipe(&error) => break,
                result => result.map_err(CliError::failed)?,
            }
            requests += batch.requests.len() as u64;
            progress(reader, requests);
            reader.read_batch(&mut batch).map_err(CliError::input)?;
        }
        match writer.finish() {
            Err(error) if self.is_stdout() && is_broken_pipe(&error) => {}
            result => result.map_err(CliError::failed)?,
        }
        let (volumes, losses) = (reader.volumes().len(), writer.losses());
        Ok(Written { file: None, requests, volumes, losses })
    }

    fn writer<'a, W: Write + Send + 'a>(
        &self,
        output: W,
        format: TargetFormat,
        about: Vec<(String, String)>,
        begins_with_hashes: bool,
    ) -> Box<dyn TraceWriter + 'a> {
        let name = if self.is_stdout() { "<stdout>" } else { &self.output.to_string_lossy() };
        let hashes = self.hashes.map(|hashes| hashes == Hashes::Yes);
        match format {
            TargetFormat::Parquet => {
                let settings = ParquetSettings { about, hashes };
                Box::new(ParquetWriter::new(output, name, settings))
            }
            TargetFormat::Csv => {
                let column = match hashes.unwrap_or(begins_with_hashes) {
                    true => HashColumn::With,
                    false => HashColumn::Without,
                };
                Box::new(CsvWriter::new(output, name, column))
            }
            TargetFormat::Msr => Box::new(MsrWriter::new(output, name)),
            TargetFormat::Fio => Box::new(FioWriter::new(output, name)),
        }
    }

    /// Gives the file its name and says what was written: JSON on stdout when asked for, lines on
    /// stderr otherwise; what was repaired and what was lost in either.
    #[allow(clippy::print_stderr)]
    ///
    /// # Errors
    /// Status 1 when the system refuses.
    pub(super) fn finish(&self, mut written: Written, repairs: &[String]) -> Result<(), CliError> {
        if let Some(file) = written.file.take() {
            file.finish()?;
        }
        let bytes = std::fs::metadata(&self.output).map(|metadata| metadata.len()).ok();
        if self.json && !self.is_stdout() {
            let summary = serde_json::json!({
                "output": self.output.display().to_string(),
                "requests": written.requests,
                "volumes": written.volumes,
                "bytes": bytes,
                "repairs": repairs,
                "losses": written.losses,
            });
            return output::print(&format!("{summary:#}\n"));
        }
        for repair in repairs {
            eprintln!("note: {repair}");
        }
        for loss in &written.losses {
            eprintln!("note: the output has no room for {loss}: left out");
        }
        if !self.is_stdout() {
            let size = bytes.map(|bytes| format!(", {}", Bytes(bytes))).unwrap_or_default();
            let (requests, volumes) = (counted(written.requests, "request"), written.volumes);
            let name = self.output.display();
            eprintln!("{name}: {requests}, volumes: {volumes}{size}");
        }
        Ok(())
    }
}

fn is_broken_pipe(error: &TraceError) -> bool {
    matches!(error, TraceError::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe)
}

/// Progress by bytes of input where they are known, by requests otherwise.
pub(super) fn show(bar: &Progress, total_bytes: Option<u64>) -> impl Fn(&dyn TraceReader, u64) {
    move |reader, requests| {
        bar.at(if total_bytes.is_some() { reader.bytes_read() } else { requests })
    }
}
