//! `thermocline tunnel worker`: a worker for `--chunking accelerator` that is this processor.

use crate::error::CliError;
use thermocline_ports::accelerator::Fingerprint;
use thermocline_ports_os::worker::{Serving, simd};
use thermocline_units::Bytes;

const EXAMPLES: &str = "\
Example:
  thermocline tunnel exit … --chunking accelerator --worker /usr/bin/thermocline \\
    --worker-arg tunnel --worker-arg worker

An end starts it; it is of no use in a shell. Its standard input is a socket and its standard
output shared memory (docs/formats/accelerator.md).";

/// Arguments.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The only fingerprint that it computes; without it, all.
    #[arg(long, value_name = "NAME", value_parser = ["rabin16", "rabin-source"])]
    fingerprint: Option<String>,
    /// Number of slots in the memory.
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: u32,
    /// Bytes of a slot's buffer.
    #[arg(value_parser = clap::value_parser!(u64).range(64..1 << 24))]
    buffer: u64,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let only = args.fingerprint.as_deref().map(|name| match name {
        "rabin16" => Fingerprint::Rabin16,
        _ => Fingerprint::RabinSource,
    });
    let serving = Serving::standard(args.slots, Bytes(args.buffer), only);
    let served = serving.and_then(|serving| serving.run(&mut |job| simd(job)));
    served.map_err(|error| {
        let text = "an end starts it, with a socket as its standard input and shared memory as its \
                    standard output; see `thermocline tunnel worker --help`";
        CliError::failed(format!("the host cannot be served: {error}; {text}"))
    })
}
