//! `thermocline hint`: tell a running engine what is known about data.

mod path;
mod run;
mod watch;
mod watched;

use super::EngineArgs;
use crate::error::CliError;
use crate::{output, table};
use hyper::Method;
use std::fmt::Write;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use thermocline_admin::client::segment;
use thermocline_charts::format::seconds;
use thermocline_engine::api::{
    HINTS_VERSION, HintLevel, HintsStatus, HintsTaken, NewClasses, NewHint, NewHints, PoolPins,
    hints_schema,
};
use thermocline_units::Bytes;
use thermocline_units::text::{count, counted};

const EXAMPLES: &str = "\
Examples:
  thermocline hint give v0 --offset 512MiB --length 256MiB --usage archival
  thermocline hint give v0 --length 64MiB --metadata --pin
  thermocline hint give v0 --offset 768MiB --length 64MiB --prefetch --background 500
  thermocline hint path -r /mnt/photos --usage archival
  thermocline hint run --background 2000 -- rsync -a /mnt/v0/ /backup/
  thermocline hint watch --mount /mnt/v0
  thermocline hint send hints.json       a document; `thermocline hint schema` says its form
  thermocline hint list                  who said what, and how far it was right
  thermocline hint forget cli

Hints may cost speed, never data. docs/guides/hints.md tells what each does.";

/// Hints of data from people, scripts and programs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    engine: EngineArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say something of a range of a volume.
    Give(Box<Give>),
    /// Say something of files of a file system that is mounted from a volume.
    Path(Box<path::Args>),
    /// Run a command, and give hints of the files that it opens and writes.
    Run(Box<run::Args>),
    /// Give hints of every file of a mounted volume that is opened or written, until stopped.
    Watch(Box<watch::Args>),
    /// Send a document of hints in JSON.
    Send {
        /// The file; `-` is the standard input.
        file: PathBuf,
        /// Send it again whenever it changes, until stopped.
        #[arg(long)]
        watch: bool,
    },
    /// List the hints that are held, their sources, and what they led to.
    List,
    /// Withdraw everything that a source said.
    Forget {
        /// Its name.
        source: String,
    },
    /// Print the classes in force, or take others: a table in the form of Open CAS's I/O classes.
    Classes {
        /// The table; hints given before are forgotten.
        file: Option<PathBuf>,
    },
    /// Print the JSON Schema of a document of hints.
    Schema,
}

#[derive(clap::Args)]
struct Give {
    /// The volume.
    #[arg(value_parser = super::volume_name)]
    volume: String,
    /// Name of the source.
    #[arg(long, value_name = "NAME", default_value = "cli")]
    source: String,
    /// From where on.
    #[arg(long, value_name = "SIZE", default_value = "0")]
    offset: Bytes,
    /// Length in bytes; to the volume's end when not given.
    #[arg(long, value_name = "SIZE")]
    length: Option<Bytes>,
    #[command(flatten)]
    saying: Saying,
}

/// Facts about data; shared by all commands that give hints.
#[derive(clap::Args, Clone)]
pub(crate) struct Saying {
    /// The file system's own structures.
    #[arg(long)]
    metadata: bool,
    /// Size of the file that the bytes belong to.
    #[arg(long, value_name = "SIZE")]
    file_size: Option<Bytes>,
    /// A number for what belongs together.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    stream: u16,
    /// Use: read-intensive, write-intensive, random-write, sequential-write, mixed, archival.
    #[arg(long, value_name = "WORD")]
    usage: Option<String>,
    /// Lifetime: none, short, medium, long, extreme.
    #[arg(long, value_name = "WORD")]
    life: Option<String>,
    /// Placements shall leave it where it is.
    #[arg(long)]
    pin: bool,
    /// Not needed soon: to the slowest pool.
    #[arg(long)]
    demote: bool,
    /// Needed soon: copies in the reserve of a faster pool.
    #[arg(long)]
    prefetch: bool,
    /// The same, and it is needed within so many seconds: what is needed first is fetched first.
    #[arg(long, value_name = "SECONDS")]
    prefetch_within: Option<f64>,
    /// Background: requests may wait so many milliseconds.
    #[arg(long, value_name = "MS")]
    background: Option<u32>,
    /// Forget it after so many seconds.
    #[arg(long, value_name = "SECONDS")]
    expires: Option<f64>,
}

impl Saying {
    /// Refuses a hint that says nothing: it would replace what was said of its range before.
    fn check(&self) -> Result<(), CliError> {
        let says = NewHint { expires_seconds: None, ..self.hint() };
        if says != NewHint::default() {
            return Ok(());
        }
        Err(CliError::input(
            "the hint says nothing of the data: give a fact such as --metadata, --usage archival, \
             --pin or --prefetch; `thermocline hint forget SOURCE` takes hints back",
        ))
    }

    /// A hint that says this of nothing yet.
    pub(crate) fn hint(&self) -> NewHint {
        NewHint {
            metadata: self.metadata,
            file_size_bytes: self.file_size.map(|size| size.0),
            stream: self.stream,
            usage: self.usage.clone(),
            life: self.life.clone(),
            pin: self.pin,
            demote: self.demote,
            prefetch: self.prefetch || self.prefetch_within.is_some(),
            prefetch_within_seconds: self.prefetch_within,
            background_ms: self.background,
            expires_seconds: self.expires,
            ..NewHint::default()
        }
    }
}

pub(crate) fn run(args: Args) -> Result<ExitCode, CliError> {
    let engine = &args.engine;
    let client = engine.client();
    let done = match args.command {
        Command::Give(give) => {
            give.saying.check()?;
            let hint = NewHint {
                level: Some(HintLevel::Range),
                volume: Some(give.volume),
                offset_bytes: give.offset.0,
                length_bytes: give.length.map(|length| length.0),
                ..give.saying.hint()
            };
            send(
                engine,
                &NewHints { version: HINTS_VERSION, source: give.source, hints: vec![hint] },
            )
        }
        Command::Path(path) => path::run(engine, *path),
        Command::Run(command) => return run::run(engine, &command),
        Command::Watch(watch) => watch::run(engine, &watch),
        Command::Send { file, watch: true } => watched::run(engine, &file),
        Command::Send { file, watch: false } => send(engine, &document(&file)?),
        Command::List => engine.answer(&client.get::<HintsStatus>("/v1/hints")?, text),
        Command::Forget { source } => {
            client.order(Method::DELETE, &format!("/v1/hints/{}", segment(&source)))?;
            output::print(&format!("what {source} said is forgotten\n"))
        }
        Command::Classes { file: None } => {
            output::print(&client.get::<HintsStatus>("/v1/hints")?.classes)
        }
        Command::Classes { file: Some(file) } => {
            let wish = NewClasses { table: read(&file)? };
            let _: HintsStatus = client.send(Method::PUT, "/v1/hints/classes", &wish)?;
            output::print("the classes are in force; hints given before are forgotten\n")
        }
        Command::Schema => output::print(&hints_schema()),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn read(file: &PathBuf) -> Result<String, CliError> {
    let mut text = String::new();
    let outcome = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(|_| ()),
        false => std::fs::read_to_string(file).map(|found| text = found),
    };
    outcome.map_err(|error| CliError::input(format!("{}: {error}", file.display())))?;
    Ok(text)
}

fn document(file: &PathBuf) -> Result<NewHints, CliError> {
    serde_json::from_str(&read(file)?).map_err(|error| {
        CliError::input(format!(
            "{}: {error}; `thermocline hint schema` says what is expected",
            file.display()
        ))
    })
}

/// Sends a document, and fails when a hint of it was not taken.
pub(crate) fn send(engine: &EngineArgs, document: &NewHints) -> Result<(), CliError> {
    let taken: HintsTaken = engine.client().send(Method::POST, "/v1/hints", document)?;
    engine.answer(&taken, |taken| format!("{}\n", summary(taken)))?;
    all_taken(&taken)
}

/// Says what the user should know while the work goes on.
#[allow(clippy::print_stderr)]
fn note(text: &str) {
    eprintln!("note: {text}");
}

fn summary(taken: &HintsTaken) -> String {
    let mut out = format!("{} taken", counted(taken.taken, "hint"));
    if taken.prefetched_chunks > 0 {
        let chunks = counted(taken.prefetched_chunks, "chunk");
        let _ = write!(out, ", {chunks} to be prefetched");
    }
    out
}

/// Fails when hints were not taken, and says why.
pub(crate) fn all_taken(taken: &HintsTaken) -> Result<(), CliError> {
    if taken.refused == 0 {
        return Ok(());
    }
    let mut message = match taken.refused {
        1 => "1 hint was not taken:".to_string(),
        refused => format!("{} hints were not taken:", count(refused)),
    };
    for refused in taken.reasons.iter().take(5) {
        let _ = write!(message, "\n  hint {}: {}", refused.index, refused.message);
    }
    Err(CliError::input(message))
}

fn text(status: &HintsStatus) -> String {
    let done = &status.done;
    let mut out = format!(
        "{} of at most {}, {}; {} claimed\n",
        counted(status.ranges, "range"),
        count(status.ranges_most),
        Bytes(status.memory_bytes),
        counted(done.claimed_chunks, "chunk")
    );
    let _ = writeln!(
        out,
        "{} first writes placed, {} moves proposed, {} of the policy's dropped, {} redirections",
        done.placed_chunks, done.moves, done.moves_dropped, done.redirected_chunks
    );
    let _ = writeln!(
        out,
        "{} requests let wait, {} chunks to prefetch, {} without room",
        done.requests_waited, done.prefetched_chunks, done.refused_chunks
    );
    if status.sources.is_empty() {
        out.push_str("nobody gave hints\n");
        return out + &pins(status);
    }
    let mut rows = table::plain([
        "source", "taken", "refused", "ranges", "class", "score", "chunks", "accesses", "saved",
        "lost",
    ]);
    for source in &status.sources {
        let [taken, refused, ranges] = [source.taken, source.refused, source.ranges].map(count);
        let mut head = [source.name.clone(), taken, refused, ranges];
        if source.scores.is_empty() {
            let nothing = ["–", "–", "0", "0", "–", "–"].map(String::from);
            rows.add_row(head.iter().cloned().chain(nothing));
        }
        for score in &source.scores {
            let followed = if score.followed { "" } else { ", not followed" };
            let tail = [
                score.class.clone(),
                format!("{:.2}{followed}", score.score),
                count(score.chunks),
                count(score.accesses),
                seconds(score.saved_seconds),
                seconds(score.lost_seconds),
            ];
            rows.add_row(std::mem::take(&mut head).into_iter().chain(tail));
        }
    }
    let _ = writeln!(out, "\n{rows}");
    out + &judged(status) + &pins(status)
}

/// Ranges of which something is known, the wrong ones first.
fn judged(status: &HintsStatus) -> String {
    if status.judged.is_empty() {
        return String::new();
    }
    let heads = ["source", "class", "volume", "at", "length", "score", "saved lately", "lost"];
    let mut rows = table::plain(heads);
    for one in &status.judged {
        let followed = if one.followed { "" } else { ", not followed" };
        rows.add_row([
            one.source.clone(),
            one.class.clone(),
            one.volume.clone(),
            Bytes(one.offset_bytes).to_string(),
            Bytes(one.length_bytes).to_string(),
            format!("{:.2}{followed}", one.score),
            seconds(one.saved_seconds),
            seconds(one.lost_seconds),
        ]);
    }
    format!("\n{rows}\n")
}

/// Pools that have pins.
fn pins(status: &HintsStatus) -> String {
    let some = |pins: &&PoolPins| {
        pins.held_chunks + pins.wrong_chunks + pins.beyond_chunks + pins.by_name_chunks > 0
    };
    let mut rows = table::plain([
        "pins on",
        "held",
        "of at most",
        "wrong",
        "beyond",
        "by name",
        "saved",
        "lost",
    ]);
    for pins in status.pins.iter().filter(some) {
        let counts = [
            pins.held_chunks,
            pins.budget_chunks,
            pins.wrong_chunks,
            pins.beyond_chunks,
            pins.by_name_chunks,
        ];
        let waits = [pins.saved_seconds, pins.lost_seconds].map(seconds);
        rows.add_row([pins.pool.clone()].into_iter().chain(counts.map(count)).chain(waits));
    }
    match status.pins.iter().any(|pins| some(&pins)) {
        true => format!("\n{rows}\n"),
        false => String::new(),
    }
}
