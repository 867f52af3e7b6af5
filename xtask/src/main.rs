//! The workshop: everything a person or a gate runs on this repository, started as `cargo xtask`.
//!
//! A table of subcommands and nothing else. Exit status: 0 done, 1 a check failed, 2 the command
//! line is wrong. Unlike the product this program is about a checkout: it reads files and starts
//! processes freely, and it prints as it goes.

#![allow(clippy::print_stdout, clippy::print_stderr)] // A program for a terminal, not a library.

mod api;
mod bench;
mod ci;
mod deny;
mod dist;
mod expectations;
mod hdl;
mod oracle;
mod powerloss;
mod python;
mod simulate;
mod site;
mod tidy;
mod torture;
mod workspace;

use std::process::ExitCode;

/// Ends of a subcommand short of its goal.
#[derive(Debug)]
enum Failure {
    /// A check failed or work could not be done; the text says what to do. Exit status 1.
    Failed(String),
    /// The command line is wrong. Exit status 2.
    Usage(String),
}

impl From<&str> for Failure {
    fn from(message: &str) -> Failure {
        Failure::Failed(message.to_string())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure::Failed(message)
    }
}

/// One subcommand: its name, its arguments, one line of help, and what it does with the arguments.
struct Subcommand {
    name: &'static str,
    arguments: &'static str,
    summary: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "ci",
        arguments: "[--fast] [STEP…]",
        summary: "the gate: every step, or the fast ones, or the named ones",
        run: ci::run,
    },
    Subcommand {
        name: "tidy",
        arguments: "",
        summary: "house rules that no compiler checks",
        run: tidy::run,
    },
    Subcommand {
        name: "deny",
        arguments: "",
        summary: "licences, bans, sources and advisories of dependencies",
        run: deny::run,
    },
    Subcommand {
        name: "oracle",
        arguments: "[TRACE [SIZES]]",
        summary: "miss counts beside libCacheSim's, to the last request",
        run: oracle::run,
    },
    Subcommand {
        name: "api",
        arguments: "check|record",
        summary: "the programs' APIs beside those of the last release; breaks are refused",
        run: api::run,
    },
    Subcommand {
        name: "python",
        arguments: "test|install|wheel …",
        summary: "the Python package: its tests, its installation, a wheel for other machines",
        run: python::run,
    },
    Subcommand {
        name: "bench",
        arguments: "WHAT [ARGUMENT…]",
        summary: "speed beside libCacheSim, NBD servers and the kernel's tierings; redis; readers",
        run: bench::run,
    },
    Subcommand {
        name: "dist",
        arguments: "[try] [--binary FILE] …",
        summary: "a release: static program, .deb, components, checksums; equal inputs, equal bytes",
        run: dist::run,
    },
    Subcommand {
        name: "expectations",
        arguments: "NAME",
        summary: "what an experiment was expected to show, commit by commit",
        run: expectations::run,
    },
    Subcommand {
        name: "hdl",
        arguments: "build|test|place|bench …",
        summary: "the chunking cores: Verilated, held to the reference, placed; offload measured",
        run: hdl::run,
    },
    Subcommand {
        name: "simulate",
        arguments: "[--seeds N] …",
        summary: "the volume machine under faults and crashes, by seed; --mutants: planted bugs",
        run: simulate::run,
    },
    Subcommand {
        name: "site",
        arguments: "[FOLDER]",
        summary: "the documentation as a book to read in a browser, by mdBook",
        run: site::run,
    },
    Subcommand {
        name: "torture",
        arguments: "[--minutes N] …",
        summary: "a real engine, killed again and again under load; nothing may be lost",
        run: torture::run,
    },
    Subcommand {
        name: "powerloss",
        arguments: "[--points N] …",
        summary: "a real engine whose power fails, at many points of its kernel's log",
        run: powerloss::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("help", &[][..]),
    };
    if matches!(name, "help" | "--help" | "-h") {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let result = match SUBCOMMANDS.iter().find(|s| s.name == name) {
        Some(subcommand) => (subcommand.run)(rest),
        None => Err(Failure::Usage(format!("there is no subcommand `{name}`\n\n{}", usage()))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask SUBCOMMAND\n\n");
    for Subcommand { name, arguments, summary, .. } in SUBCOMMANDS {
        let left = format!("{name} {arguments}");
        text.push_str(&format!("  {left:<25} {summary}\n"));
    }
    text.push_str(&format!("\nsteps of `ci`: {}\n", ci::step_names().join(", ")));
    text
}

/// Refuses arguments where a subcommand takes none.
fn no_arguments(arguments: &[String]) -> Result<(), Failure> {
    match arguments.first() {
        None => Ok(()),
        Some(first) => {
            Err(Failure::Usage(format!("`{first}`: this subcommand takes no arguments")))
        }
    }
}
