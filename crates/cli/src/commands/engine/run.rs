//! `thermocline run`: any command, unmodified, under hints.
//!
//! 1. The mount is watched before the command starts, so that its first file is seen.
//! 2. What the command and its descendants open and write becomes hints of the level `process`.
//!    We take over orphans (`PR_SET_CHILD_SUBREAPER`), so that whoever descends from us is theirs.
//! 3. The command's ending is noticed only after the notes before it were read: until then even
//!    who has ended is known by number.
//!
//! The command comes first: where hints cannot be given it runs without them, and that is said once
//! on stderr. Its input, output, signals and exit status are its own.

use super::EngineArgs;
use super::hint::Saying;
use crate::error::CliError;
use crate::files::Place;
use crate::opened::processes::Processes;
use crate::opened::session::{Session, say, wait};
use crate::opened::watch::Note;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  thermocline run --background 2000 --stream 7 -- rsync -a /mnt/v0/ /backup/
  thermocline run --mount /mnt/v0 --usage write-intensive -- redis-server redis.conf
  thermocline run --prefetch -- cp -r /mnt/v0/project /tmp
  thermocline run --keep --usage archival -- cp photos.tar /mnt/v0

Seeing files needs CAP_SYS_ADMIN (root) and a mounted volume; without, the command runs all the same.
docs/guides/hints-from-applications.md tells more.";

/// Signals that are passed on.
const PASSED: [i32; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
/// Of these, those that a terminal sends to everybody in its foreground.
const OF_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];
/// Run a command, and give hints of the files that it opens and writes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    /// Where the volume's file system is mounted.
    #[arg(long, value_name = "DIR", default_value = ".")]
    mount: PathBuf,
    /// The volume, where the device does not tell.
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Let the hints expire instead of withdrawing them when the command has ended.
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    saying: Saying,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    let signals = Signals::new().map_err(|error| CliError::failed(format!("signals: {error}")))?;
    let us = rustix::process::getpid();
    // Without it only orphans are not recognised.
    let _ = rustix::process::set_child_subreaper(Some(us));
    let mut session = begin(&args)
        .inspect_err(|error| say(format!("the command runs without hints: {error}")))
        .ok();
    let program = &args.command[0];
    let child = Command::new(program).args(&args.command[1..]).spawn().map_err(|error| {
        let status = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
        CliError::command(format!("{}: {error}", program.display()), status)
    })?;
    let child = Pid::from_child(&child);
    let mut hint = |processes: &mut Processes, note: &Note| {
        let ours = processes.is_below(Instant::now(), note.process, us.as_raw_nonzero().get());
        ours.then(|| args.saying.hint())
    };
    let status = loop {
        wait(signals.0.iter().map(|(_, pipe)| pipe.as_fd()), session.as_ref());
        if let Some(session) = &mut session {
            session.turn(Instant::now(), &mut hint);
        }
        signals.pass_on(child);
        if let Some(status) = ended(child) {
            break status;
        }
    };
    if let Some(session) = session {
        session.finish(args.keep, &mut hint);
    }
    Ok(exit_code(status))
}

fn begin(args: &Args) -> Result<Session, CliError> {
    let client = args.engine.client();
    let place = Place::of(&args.mount, &client, args.volume.as_deref())?;
    Session::new(place, client, &format!("run-{}", std::process::id()))
}

/// How the command ended, once it has. Orphans that we took over are let go.
fn ended(child: Pid) -> Option<WaitStatus> {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == child {
            return Some(status);
        }
    }
    None
}

/// As shells say it: the command's own status, or 128 and its signal.
fn exit_code(status: WaitStatus) -> ExitCode {
    let signal = || status.terminating_signal().map(|signal| 128 + signal);
    let code = status.exit_status().or_else(signal).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Signals that came for us, readable.
struct Signals(Vec<(i32, UnixStream)>);

impl Signals {
    fn new() -> io::Result<Signals> {
        let mut pipes = Vec::new();
        for signal in PASSED.into_iter().chain([SIGCHLD]) {
            let (reader, writer) = UnixStream::pair()?;
            reader.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, writer)?;
            pipes.push((signal, reader));
        }
        Ok(Signals(pipes))
    }

    /// Sends the command what was sent to us.
    fn pass_on(&self, child: Pid) {
        for (number, pipe) in &self.0 {
            let mut pipe: &UnixStream = pipe;
            let came = matches!(pipe.read(&mut [0; 16]), Ok(count) if count > 0);
            let is_told = OF_TERMINAL.contains(number) && in_foreground();
            let signal = Signal::from_named_raw(*number).filter(|_| *number != SIGCHLD);
            if let Some(signal) = signal.filter(|_| came && !is_told) {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(child, signal);
            }
        }
    }
}

/// Whether a terminal's signals reach us and, being of our group, the command.
fn in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty").ok();
    let group = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group == Some(rustix::process::getpgrp())
}
