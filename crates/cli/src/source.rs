//! The arguments by which every command takes its traces, and their opening.

use crate::error::CliError;
use std::convert::Infallible;
use thermocline_sim::source::{Source, Traces};
use thermocline_sim::synth::from_words;
use thermocline_trace::synth::SynthSpec;
use thermocline_trace::{ColumnMap, Format, ReadOptions, TraceReader};

/// Traces to read, and how.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(crate) struct SourceArgs {
    /// Traces to read, `-` for the standard input; several are merged into one multi-VM workload,
    /// each from its own time zero.
    #[arg(value_name = "TRACE", value_parser = source)]
    traces: Vec<Source>,
    /// A trace, like a bare TRACE; may be repeated.
    #[arg(long = "trace", short = 't', value_name = "TRACE", value_parser = source, id = "more")]
    more: Vec<Source>,
    /// Make a workload instead of reading one: oltp, web, vdi, backup, mixed or fileserver, with
    /// settings if wanted (mixed,requests=1M,vms=4,seed=1).
    #[arg(long, value_name = "PRESET", value_parser = from_words)]
    synth: Option<SynthSpec>,
    /// The format of all of them, when it should not be found from the content.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The columns of a text in columns, like time=0:us,offset=1:512,size=2:512,op=3,volume=4; a
    /// column is counted from 0 or named as in the header. Columns are separated by commas unless
    /// sep= says tab, semicolon, pipe or blank; header=yes skips the first line.
    #[arg(long, value_name = "MAP")]
    columns: Option<ColumnMap>,
    /// The event of a blkparse trace that counts as a request, like C for completed; Q when not
    /// given.
    #[arg(long, value_name = "EVENT")]
    blkparse_event: Option<char>,
}

fn source(text: &str) -> Result<Source, Infallible> {
    text.parse()
}

impl SourceArgs {
    /// The traces, in the order in which the command line names them.
    pub(crate) fn sources(&self) -> Vec<Source> {
        let made = self.synth.iter().map(|spec| Source::Synth(Box::new(spec.clone())));
        self.traces.iter().chain(&self.more).cloned().chain(made).collect()
    }

    /// The traces, with their format and columns.
    pub(crate) fn traces(&self) -> Traces {
        let options = ReadOptions {
            format: self.format,
            columns: self.columns.clone(),
            blkparse_event: self.blkparse_event,
        };
        Traces { sources: self.sources(), options }
    }

    /// Opens the one trace, or all of them merged.
    ///
    /// # Errors
    /// Status 2, naming the trace that could not be opened and why.
    pub(crate) fn open(&self) -> Result<Box<dyn TraceReader>, CliError> {
        self.traces().open().map_err(CliError::input)
    }

    /// Bytes of all files together, for progress; `None` where one is not known beforehand.
    pub(crate) fn size_bytes(&self) -> Option<u64> {
        self.traces().size_bytes()
    }
}
