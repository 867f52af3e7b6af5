//! `thermocline tunnel enter` and `exit`: an end that runs until somebody stops it.

use super::SOCKET;
use crate::allocator;
use crate::error::CliError;
use crate::listeners::{self, LogFormat};
use crate::open_files::open_files;
use crate::output;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thermocline_admin::http::{Http, HttpListeners, TcpListen};
use thermocline_gateway::admin::{AdminApi, serve_admin};
use thermocline_gateway::{
    Common, DiskTier, EnterConfig, Event, ExitConfig, Gateway, HostPort, KeyFiles, Rule, Severity,
    StartError, WhenDown, Worker,
};
use thermocline_tunnel::Sharing;
use thermocline_units::Bytes;

const ENTER_EXAMPLES: &str = "\
Examples:
  thermocline tunnel enter --to exit.example:7400 --key enter.key --peer exit.pub \\
    --forward 8080=web.internal:80 --socks5 1080
  curl http://127.0.0.1:8080/
  curl --proxy socks5h://127.0.0.1:1080 http://web.internal/

Keys: `thermocline tunnel keys NAME`. Everything listens on this machine alone; another address
needs --expose. The other end: `thermocline tunnel exit`.";

const EXIT_EXAMPLES: &str = "\
Examples:
  thermocline tunnel exit --listen 0.0.0.0:7400 --key exit.key --peer enter.pub \\
    --allow 10.0.0.0/8:80,10.0.0.0/8:443,*.internal:5432

A rule is HOST:PORT. HOST: an address, a network, a name, *.NAME, or *. PORT: a number, FROM-TO, or
*. Without a rule nothing is reached.";

/// Options of both ends.
#[derive(clap::Args)]
struct CommonArgs {
    /// This end's key, made by `thermocline tunnel keys`.
    #[arg(long, value_name = "NAME.key")]
    key: PathBuf,
    /// A key of the other end; several may be given, and are read anew at each connection.
    #[arg(long, value_name = "NAME.pub", required = true)]
    peer: Vec<PathBuf>,
    /// Memory for chunks; the exit has as much for each key that it meets.
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    cache: Bytes,
    /// Folder in which the cache outlives a stop; without it, each start begins with an empty one.
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Folder for chunks that memory has no room for; files in it vanish with this process.
    #[arg(long, value_name = "FOLDER")]
    disk: Option<PathBuf>,
    /// Room for those; the exit uses as much for each key that it meets.
    #[arg(long, value_name = "BYTES", default_value = "4GiB", requires = "disk")]
    disk_cache: Bytes,
    /// Policy that decides how flows are cut.
    #[arg(long, value_name = "POLICY", default_value = thermocline_policy::tunnel::DEFAULT)]
    policy: String,
    /// The unit that finds where content is cut: this processor, or a worker process.
    #[arg(long, value_name = "UNIT", default_value = "simd", value_parser = ["simd", "accelerator"])]
    chunking: String,
    /// Program of the worker, such as the driver of a card.
    #[arg(long, value_name = "PROGRAM", required_if_eq("chunking", "accelerator"))]
    worker: Option<PathBuf>,
    /// An argument for it; may be given several times.
    #[arg(long, value_name = "ARGUMENT", requires = "worker", allow_hyphen_values = true)]
    worker_arg: Vec<OsString>,
    /// Milliseconds without an answer after which the worker has failed.
    #[arg(long, value_name = "MS", default_value_t = 1000, requires = "worker",
        value_parser = clap::value_parser!(u32).range(1..=600_000))]
    worker_patience_ms: u32,
    /// Length from which on bytes of a flow go to the worker.
    #[arg(long, value_name = "BYTES", default_value = "16KiB", requires = "worker")]
    worker_least: Bytes,
    /// One chunk in so many is cut again to check the worker; 1: all.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "worker",
        value_parser = clap::value_parser!(u32).range(1..))]
    worker_check: u32,
    /// Milliseconds that bytes wait for more of the same flow.
    #[arg(long, value_name = "MS", default_value_t = 1)]
    linger_ms: u64,
    /// Clients or servers connected at once, at most.
    #[arg(long, value_name = "N", default_value_t = 1024,
        value_parser = clap::value_parser!(u16).range(1..=2048))]
    clients_max: u16,
    /// Seconds that flows may take to end when this end is stopped.
    #[arg(long, value_name = "S", default_value_t = 10)]
    drain_s: u32,
    /// Unix socket of the API, for `thermocline tunnel status` and for Prometheus.
    #[arg(long, value_name = "PATH", default_value = SOCKET)]
    socket: PathBuf,
    /// Port of the dashboard on this machine; if it is taken, another one.
    #[arg(long, value_name = "PORT", default_value_t = 8789)]
    dashboard: u16,
    /// Format of events on stderr.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
}

/// Arguments of `enter`.
#[derive(clap::Args)]
#[command(after_help = ENTER_EXAMPLES)]
pub(crate) struct EnterArgs {
    /// The exit.
    #[arg(long, value_name = "HOST:PORT")]
    to: HostPort,
    /// A listener and the server that it leads to.
    #[arg(long, value_name = "[ADDRESS:]PORT=HOST:PORT", value_parser = forward)]
    forward: Vec<(SocketAddr, HostPort)>,
    /// A listener for clients that say where they want to go.
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    socks5: Vec<SocketAddr>,
    /// A listener for clients that the system brings here on their way elsewhere (TPROXY).
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = listen_address)]
    transparent: Vec<SocketAddr>,
    /// Let listeners accept connections from other machines: whoever reaches them reaches the
    /// servers.
    #[arg(long)]
    expose: bool,
    /// Treatment of clients while the exit is not there.
    #[arg(long, value_name = "WHAT", default_value = "refuse", value_parser = ["refuse", "pass"])]
    when_down: String,
    /// Flows that may find each other's chunks.
    #[arg(long, value_name = "FLOWS", default_value = "class",
        value_parser = ["flow", "class", "all"])]
    share: String,
    #[command(flatten)]
    common: CommonArgs,
}

/// Arguments of `exit`.
#[derive(clap::Args)]
#[command(after_help = EXIT_EXAMPLES)]
pub(crate) struct ExitArgs {
    /// Address at which enters come in.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Addresses that may be connected to.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    allow: Vec<Rule>,
    #[command(flatten)]
    common: CommonArgs,
}

/// An address, or a port of this machine.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| "expected a port, or ADDRESS:PORT such as 127.0.0.1:1080".to_string())
}

fn forward(text: &str) -> Result<(SocketAddr, HostPort), String> {
    let expected = "expected [ADDRESS:]PORT=HOST:PORT, such as 8080=web.internal:80";
    let (from, to) = text.split_once('=').ok_or(expected)?;
    Ok((listen_address(from)?, to.parse::<HostPort>().map_err(|error| error.to_string())?))
}

pub(super) fn enter(args: EnterArgs) -> Result<(), CliError> {
    if args.forward.is_empty() && args.socks5.is_empty() && args.transparent.is_empty() {
        let text = "no client could come in; pass --forward 8080=HOST:PORT, --socks5 1080 or \
                    --transparent 7401";
        return Err(CliError::input(text));
    }
    let listeners = args.forward.iter().map(|(address, _)| address);
    let listeners = listeners.chain(&args.socks5).chain(&args.transparent);
    let mut exposed = listeners.filter(|address| !address.ip().is_loopback());
    if let Some(address) = exposed.next().filter(|_| !args.expose) {
        let text = "others than this machine could come in there, and would reach the servers; \
                    pass --expose if they should";
        return Err(CliError::input(format!("{address}: {text}")));
    }
    let mut stop = Stop::new().map_err(CliError::failed)?;
    let (common, admin) = common(&args.common)?;
    let told: Vec<String> = (args.forward.iter().map(|(_, target)| target.to_string()))
        .chain(args.socks5.iter().map(|_| "wherever SOCKS5 clients want".to_string()))
        .chain(args.transparent.iter().map(|_| "where clients wanted to go (TPROXY)".to_string()))
        .collect();
    let to = args.to.clone();
    let gateway = Gateway::enter(EnterConfig {
        common,
        to: args.to,
        forward: args.forward,
        socks5: args.socks5,
        transparent: args.transparent,
        when_down: if args.when_down == "pass" { WhenDown::Pass } else { WhenDown::Refuse },
        sharing: match args.share.as_str() {
            "flow" => Sharing::Flow,
            "all" => Sharing::All,
            _ => Sharing::Class,
        },
    });
    let gateway = gateway.map_err(start_error)?;
    let mut text = String::new();
    for (address, target) in gateway.addresses.iter().zip(told) {
        let _ = writeln!(text, "listening on {address}, leads to {target}");
    }
    let _ = writeln!(text, "through {to}");
    stop.run(gateway, text, &args.common, admin)
}

pub(super) fn exit(args: ExitArgs) -> Result<(), CliError> {
    let mut stop = Stop::new().map_err(CliError::failed)?;
    let (common, admin) = common(&args.common)?;
    let rules = args.allow.len();
    let gateway = Gateway::exit(ExitConfig { common, listen: args.listen, allow: args.allow });
    let gateway = gateway.map_err(start_error)?;
    let mut text = format!("listening on {}\n", gateway.addresses[0]);
    text += &match rules {
        0 => "connects to nothing: pass --allow HOST:PORT\n".to_string(),
        1 => "connects to what 1 rule allows\n".to_string(),
        rules => format!("connects to what {rules} rules allow\n"),
    };
    stop.run(gateway, text, &args.common, admin)
}

fn start_error(error: StartError) -> CliError {
    match error {
        StartError::Listen { .. } | StartError::Transparent { .. } | StartError::System(_) => {
            CliError::failed(error)
        }
        other => CliError::input(other),
    }
}

/// The least cache: one that can keep a chunk of any size.
const CACHE_MIN: Bytes = Bytes::from_mib(4);
/// The least room on disk: sixteen pieces of the greatest size that is written at once.
const DISK_MIN: Bytes = Bytes::from_mib(16);
/// The greatest, of either.
const CACHE_MAX: Bytes = Bytes::from_gib(512);

fn common(args: &CommonArgs) -> Result<(Common, Arc<AdminApi>), CliError> {
    if args.cache < CACHE_MIN || args.cache > CACHE_MAX {
        let given = args.cache;
        return Err(CliError::input(format!("--cache {given}: give {CACHE_MIN} to {CACHE_MAX}")));
    }
    if args.disk_cache < DISK_MIN || args.disk_cache > CACHE_MAX {
        let given = args.disk_cache;
        let message = format!("--disk-cache {given}: give {DISK_MIN} to {CACHE_MAX}");
        return Err(CliError::input(message));
    }
    if let Err(most) = open_files(args.clients_max.into()) {
        let clients = args.clients_max;
        let message = format!(
            "--clients-max {clients}: the system lets this process open {most} files, which is too few \
             (ulimit -n); raise that, or lower --clients-max"
        );
        return Err(CliError::input(message));
    }
    let keys = KeyFiles { key: args.key.clone(), peers: args.peer.clone() };
    let mut common = Common::new(keys);
    common.cache = args.cache;
    common.keep.clone_from(&args.keep);
    let (folder, bytes) = (args.disk.clone(), args.disk_cache);
    common.disk = folder.map(|folder| DiskTier { folder, bytes });
    common.policy.clone_from(&args.policy);
    common.worker = worker(args)?;
    common.linger = Duration::from_millis(args.linger_ms);
    common.limits.clients_max = args.clients_max.into();
    let (log, admin) = (args.log, Arc::new(AdminApi::new()));
    let notes = admin.clone();
    common.on_event = Arc::new(move |event| tell(log, &notes, event));
    Ok((common, admin))
}

/// The greatest length that goes to this processor though a worker is there: what fits into a job.
const LEAST_MAX: Bytes = Bytes::from_kib(256);

fn worker(args: &CommonArgs) -> Result<Option<Worker>, CliError> {
    let Some(program) = &args.worker else { return Ok(None) };
    if args.chunking != "accelerator" {
        return Err(CliError::input(
            "--worker is for --chunking accelerator; pass both, or neither",
        ));
    }
    let least = args.worker_least;
    if least > LEAST_MAX {
        return Err(CliError::input(format!("--worker-least {least}: give 0 B to {LEAST_MAX}")));
    }
    let mut worker = Worker::new(program.clone());
    worker.arguments.clone_from(&args.worker_arg);
    worker.patience = Duration::from_millis(args.worker_patience_ms.into());
    worker.least = least;
    worker.check_one_in = args.worker_check.into();
    Ok(Some(worker))
}

fn tell(log: LogFormat, admin: &AdminApi, event: Event) {
    let severity = match event.severity {
        Severity::Info => thermocline_admin::api::Severity::Info,
        Severity::Warning => thermocline_admin::api::Severity::Warning,
    };
    let Event { subject, text, .. } = event;
    listeners::tell(log, &admin.note(severity, &subject, text));
}

/// Opens the listeners of the API; how they are reached.
fn open_admin(args: &CommonArgs, admin: Arc<AdminApi>) -> Result<(Http, String), CliError> {
    let token = format!("{:016x}{:016x}", listeners::random()?, listeners::random()?);
    let address = SocketAddr::from(([127, 0, 0, 1], args.dashboard));
    let tcp = TcpListen { address, any_port: true, token: token.clone(), tls: None };
    let (unix, tcp) = (Some(args.socket.clone()), Some(tcp));
    let listeners = HttpListeners { unix, tcp, ..HttpListeners::default() };
    let http = serve_admin(listeners, admin).map_err(CliError::failed)?;
    let mut text = format!("API: {}\n", args.socket.display());
    if let Some(address) = http.address {
        text += &listeners::dashboard("http", address, &token);
    }
    Ok((http, text))
}

/// Time between two looks at the signals and the clock.
const GLANCE: Duration = Duration::from_millis(200);

/// SIGTERM and Ctrl-C.
struct Stop {
    /// Readable when one has come.
    wakeup: UnixStream,
    is_told: Arc<AtomicBool>,
}

impl Stop {
    fn new() -> io::Result<Stop> {
        let (wakeup, ring) = UnixStream::pair()?;
        wakeup.set_read_timeout(Some(GLANCE))?;
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The second one does not wait for anything.
            signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
            signal_hook::low_level::pipe::register(signal, ring.try_clone()?)?;
        }
        Ok(Stop { wakeup, is_told: stop })
    }

    /// Says what runs, and runs it until it is to stop.
    fn run(
        &mut self,
        gateway: Gateway,
        mut text: String,
        args: &CommonArgs,
        admin: Arc<AdminApi>,
    ) -> Result<(), CliError> {
        admin.look_at(gateway.view());
        let (http, reached) = open_admin(args, admin.clone())?;
        text.push_str(&reached);
        text.push_str("stop with Ctrl-C or SIGTERM\n");
        output::print(&text)?;
        let mut clients_before = 0;
        while !self.is_told.load(Relaxed) {
            // Whatever ends this, the flag and the clock are looked at.
            let _ = self.wakeup.read(&mut [0]);
            admin.tick(Instant::now());
            // When all clients have gone, so has the use of what they needed.
            let clients = gateway.status().clients;
            if clients == 0 && clients_before > 0 {
                allocator::give_back();
            }
            clients_before = clients;
        }
        let is_clean = gateway.stop(Duration::from_secs(args.drain_s.into()));
        drop(http);
        listeners::say(match is_clean {
            true => "stopped; nothing was cut off",
            false => "stopped; some were cut off",
        });
        Ok(())
    }
}
