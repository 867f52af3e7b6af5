//! `thermocline hint watch`: hints of whatever is opened and written on a mount, whoever does it.
//!
//! 1. A file that is opened is copied near, unless who opens it is in the background: a backup that
//!    reads everything must not fetch everything.
//! 2. Files of processes in the background (`ionice -c 3`, nice 10 and above, SCHED_IDLE) are of
//!    the background: their requests may wait.
//! 3. With `--socket`, what programs say themselves through the preloaded library is heard too,
//!    also where opening and writing cannot be watched.
//!
//! Ends with INT or TERM, and then withdraws what it said.

use super::{EngineArgs, note};
use crate::error::CliError;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;
use thermocline_engine::api::NewHint;
use thermocline_filehints::advice_socket::AdviceSocket;
use thermocline_filehints::file_events::FileEvents;
use thermocline_filehints::files::Place;
use thermocline_filehints::processes::Processes;
use thermocline_filehints::session::{Actor, Session, wait};

const EXAMPLES: &str = "\
Examples:
  thermocline hint watch --mount /mnt/v0
  thermocline hint watch --mount /mnt/v0 --background 5000 --no-prefetch
  thermocline hint watch --mount /mnt/v0 --socket /run/hints.sock
  LD_PRELOAD=/usr/lib/libthermocline_hints.so THERMOCLINE_HINTS_SOCKET=/run/hints.sock postgres …

Seeing files needs CAP_SYS_ADMIN (root); --socket does not. docs/guides/hints-from-applications.md
tells more.";

/// Give hints of every file of a mounted volume that is opened or written, until stopped.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Folder where the volume's file system is mounted.
    #[arg(long, value_name = "DIR")]
    mount: PathBuf,
    /// The volume, where the device does not tell.
    #[arg(long, value_name = "NAME")]
    volume: Option<String>,
    /// Name of the source.
    #[arg(long, value_name = "NAME", default_value = "watch")]
    source: String,
    /// Do not fetch files that are opened.
    #[arg(long)]
    no_prefetch: bool,
    /// Listen at this path to what programs say of their files themselves, by
    /// libthermocline_hints.so.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Requests to files of processes in the background may wait so many milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    background: u32,
}

pub(super) fn run(engine: &EngineArgs, args: &Args) -> Result<(), CliError> {
    let stop = stop_signal().map_err(|error| CliError::failed(format!("signals: {error}")))?;
    let client = engine.client();
    let place = Place::of(&args.mount, &client, args.volume.as_deref())?;
    let what = format!("{} (volume {})", place.mount.point.display(), place.volume);
    let sources = sources(&place, args.socket.as_deref())?;
    let mut session = Session::new(place, client, &args.source, sources, note);
    note(&format!("watching {what}; stop with Ctrl-C"));
    let mut rule = |processes: &mut Processes, actor: Actor| {
        let is_background = processes.is_background(Instant::now(), actor.process);
        Some(NewHint {
            background_ms: is_background.then_some(args.background),
            prefetch: !args.no_prefetch && !is_background,
            ..NewHint::default()
        })
    };
    loop {
        wait(std::iter::once(stop.as_fd()), Some(&session));
        session.turn(Instant::now(), &mut rule);
        if matches!((&stop).read(&mut [0]), Ok(count) if count > 0) {
            session.finish(false, &mut rule);
            return Ok(());
        }
    }
}

/// Sources of events: the kernel, and a socket for messages of programs.
fn sources(
    place: &Place,
    socket: Option<&Path>,
) -> Result<(Option<FileEvents>, Option<AdviceSocket>), CliError> {
    let advice = socket.map(AdviceSocket::at).transpose()?;
    match (FileEvents::new(&place.mount.point), advice) {
        (Ok(events), advice) => Ok((Some(events), advice)),
        (Err(error), Some(advice)) => {
            note(&format!("only what programs say of their files themselves is heard: {error}"));
            Ok((None, Some(advice)))
        }
        (Err(error), None) => Err(CliError::failed(format!(
            "{error}. Without it --socket hears what programs say of their files themselves, and \
             `thermocline hint path` speaks of files by name"
        ))),
    }
}

/// Readable when somebody wants us to stop; reading does not block.
fn stop_signal() -> std::io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}
