//! `thermocline hint run`: any command, unmodified, under hints.
//!
//! 1. The mount is watched before the command starts, so that its first file is seen.
//! 2. What the command and its descendants open and write becomes hints of the level `process`.
//!    We take over orphans (`PR_SET_CHILD_SUBREAPER`), so that whoever descends from us is theirs.
//! 3. With `--preload` the command is started with a library that passes on what it says of its
//!    files itself ([`preload`]); `--device` speaks of a whole device ([`device`]).
//! 4. The end of the command is noticed only after the events before it were read: until then even
//!    a process that has ended is known by its number.
//!
//! The command comes first: where hints cannot be given it runs without them, and that is said once
//! on stderr. Its input, output, signals and exit status are its own.

mod device;
mod preload;

use super::{EngineArgs, Saying, note};
use crate::error::CliError;
use device::DeviceHint;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;
use thermocline_engine::api::NewHint;
use thermocline_filehints::advice_socket::AdviceSocket;
use thermocline_filehints::file_events::FileEvents;
use thermocline_filehints::files::Place;
use thermocline_filehints::processes::Processes;
use thermocline_filehints::session::{Actor, Session, wait};

const EXAMPLES: &str = "\
Examples:
  thermocline hint run --background 2000 --stream 7 -- rsync -a /mnt/v0/ /backup/
  thermocline hint run --mount /mnt/v0 --usage write-intensive -- redis-server redis.conf
  thermocline hint run --prefetch -- cp -r /mnt/v0/project /tmp
  thermocline hint run --keep --usage archival -- cp photos.tar /mnt/v0
  thermocline hint run --mount /mnt/v0 --preload -- postgres -D /mnt/v0/db
  thermocline hint run --device /dev/loop0 --background 1000 -- e2fsck -fn /dev/loop0

Seeing files needs CAP_SYS_ADMIN (root) and a mounted volume; without, the command runs all the
same, and with --preload what it says of its files itself is heard.
docs/guides/hints-from-applications.md tells more.";

/// Signals that are passed on.
const PASSED: [i32; 6] = [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2];
/// Signals among these that a terminal sends to everybody in its foreground.
const OF_TERMINAL: [i32; 2] = [SIGINT, SIGQUIT];
/// Requests to files of processes that took the idle class may wait so many milliseconds.
const IDLE_MS: u32 = 1000;

/// Run a command, and give hints of the files that it opens and writes.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder where the volume's file system is mounted: the current one, when neither this nor
    /// --device is given.
    #[arg(long, value_name = "DIR")]
    mount: Option<PathBuf>,
    /// A block device that the command works on as a whole: what is said holds for all of it.
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// Listen to what the command says of its files (posix_fadvise, readahead, write-life hints,
    /// I/O priority), by libthermocline_hints.so.
    #[arg(long)]
    preload: bool,
    /// Path of that library, when it is not beside this program; implies --preload.
    #[arg(long, value_name = "FILE")]
    preload_library: Option<PathBuf>,
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

pub(super) fn run(engine: &EngineArgs, args: &Args) -> Result<ExitCode, CliError> {
    let signals = Signals::new().map_err(|error| CliError::failed(format!("signals: {error}")))?;
    let us = rustix::process::getpid();
    // Without it only orphans are not recognised.
    let _ = rustix::process::set_child_subreaper(Some(us));
    let mut hints = Hints::begin(engine, args);
    let program = &args.command[0];
    let mut command = Command::new(program);
    command.args(&args.command[1..]).envs(hints.environment());
    let child = command.spawn().map_err(|error| {
        let status = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
        CliError::command(format!("{}: {error}", program.display()), status)
    })?;
    let child = Pid::from_child(&child);
    let mut rule = |processes: &mut Processes, actor: Actor| {
        let (now, us) = (Instant::now(), us.as_raw_nonzero().get());
        let ours = actor.spoke || processes.is_below(now, actor.process, us);
        let idle = processes.has_said_idle(now, actor.process).then_some(IDLE_MS);
        let said = args.saying.hint();
        ours.then(|| NewHint { background_ms: said.background_ms.or(idle), ..said })
    };
    let status = loop {
        wait(signals.0.iter().map(|(_, pipe)| pipe.as_fd()), hints.session.as_ref());
        let now = Instant::now();
        if let Some(session) = &mut hints.session {
            session.turn(now, &mut rule);
        }
        if let Some(device) = &mut hints.device {
            device.turn(now);
        }
        signals.pass_on(child);
        if let Some(status) = ended(child) {
            break status;
        }
    };
    if let Some(session) = hints.session {
        session.finish(args.keep, &mut rule);
    }
    if let Some(device) = hints.device.filter(|_| !args.keep) {
        device.withdraw();
    }
    Ok(exit_code(status))
}

/// Sources of hints while the command runs; each part that cannot be is missing, and was complained
/// of.
struct Hints {
    session: Option<Session>,
    device: Option<DeviceHint>,
    library: Option<PathBuf>,
}

impl Hints {
    fn begin(engine: &EngineArgs, args: &Args) -> Hints {
        let lost = |error: &CliError| note(&format!("the command runs without hints: {error}"));
        let library = (args.preload || args.preload_library.is_some())
            .then(|| preload::library(args.preload_library.as_deref()))
            .and_then(|found| found.inspect_err(|error| note(&error.to_string())).ok());
        let here = args.device.is_none().then(|| PathBuf::from("."));
        let mount = args.mount.clone().or(here);
        let session = mount
            .map(|mount| begin_session(engine, args, (&mount, library.is_some())))
            .and_then(|begun| begun.inspect_err(lost).ok());
        let device = args.device.as_ref().map(|device| {
            let (client, volume) = (engine.client(), args.volume.as_deref());
            DeviceHint::give(device, client, volume, &source("run-device"), &args.saying)
        });
        let device = device.and_then(|given| given.inspect_err(lost).ok());
        Hints { session, device, library }
    }

    /// Variables of the command's environment beside ours.
    fn environment(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let socket = self.session.as_ref().and_then(Session::socket);
        match (&self.library, socket) {
            (Some(library), Some(socket)) => preload::environment(library, socket),
            _ => Vec::new(),
        }
    }
}

/// The name of what we say.
fn source(what: &str) -> String {
    format!("{what}-{}", std::process::id())
}

fn begin_session(
    engine: &EngineArgs,
    args: &Args,
    (mount, listens): (&Path, bool),
) -> Result<Session, CliError> {
    let client = engine.client();
    let place = Place::of(mount, &client, args.volume.as_deref())?;
    let advice = if listens { Some(AdviceSocket::anywhere()?) } else { None };
    let events = match (FileEvents::new(&place.mount.point), &advice) {
        (Ok(events), _) => Some(events),
        (Err(error), Some(_)) => {
            note(&format!("only what the command says of its files itself is heard: {error}"));
            None
        }
        (Err(error), None) => {
            return Err(CliError::failed(format!(
                "{error}. Without it --preload hears what the command says of its files itself, \
                 --device speaks of a whole device, and `thermocline hint path` of files by name"
            )));
        }
    };
    Ok(Session::new(place, client, &source("run"), (events, advice), note))
}

/// End of the command, once it has ended. Orphans that we took over are let go.
fn ended(child: Pid) -> Option<WaitStatus> {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == child {
            return Some(status);
        }
    }
    None
}

/// Exit code as shells say it: the command's own status, or 128 and its signal.
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

/// True if a terminal's signals reach us and, being of our group, the command.
fn in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty").ok();
    let group = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    group == Some(rustix::process::getpgrp())
}
