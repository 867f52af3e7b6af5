//! Surveys an image or a device three times and prints what each run cost.
//!
//! `cargo run --release -p thermocline-fs --example survey -- IMAGE`. Between the runs it waits for
//! a line on standard input, so that a file can be changed. Memory: run it under `/usr/bin/time
//! -v`.

// A program for people, not part of the library.
#![allow(clippy::disallowed_macros, clippy::disallowed_types, clippy::print_stdout)]

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use thermocline_fs::{Blocks, Found, Limits, ReadError, Survey, systems};
use thermocline_units::Bytes;

struct Volume(File, u64);

impl Blocks for Volume {
    fn size(&self) -> Bytes {
        Bytes(self.1)
    }

    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_exact_at(into, offset.0).map_err(|error| ReadError(error.to_string()))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("name an image or a device")?;
    let mut file = File::open(path)?;
    let size = std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
    let mut volume = Volume(file, size);
    for system in systems(&mut volume)? {
        let mut survey = Survey::new(system.at, Limits::default());
        for run in 1..=3 {
            if run > 1 {
                std::io::stdin().read_line(&mut String::new())?;
            }
            let (mut statements, mut metadata) = (0_u64, 0);
            let start = Instant::now();
            let summary = survey.run(&mut volume, &mut |found| {
                statements += 1;
                if let Found::Metadata { stretch, .. } = found {
                    metadata += stretch.length.0;
                }
            })?;
            let took = start.elapsed();
            println!(
                "run {run}: {took:.1?}, {statements} statements, {} metadata",
                Bytes(metadata)
            );
            println!("  {} in {} reads; {summary:?}", summary.read, summary.reads);
        }
    }
    Ok(())
}
