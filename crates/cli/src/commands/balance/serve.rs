//! Running a balancer until somebody stops it.

use super::SimpleArgs;
use super::reload::{self, Reload};
use super::upgrade;
use crate::config::HttpConfig;
use crate::config::balance::{
    BalanceConfig, CONNECTIONS_MAX, check_address, check_policy, needs_probes, share_of_a_client,
};
use crate::error::CliError;
use crate::listeners::{self, LogFormat};
use crate::open_files::open_files;
use crate::output;
use crate::service::{self, State};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::fmt::Write as _;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thermocline_admin::api::Severity;
use thermocline_admin::http::{Http, HttpListeners, TcpListen};
use thermocline_balancer::Checks;
use thermocline_proxy::config::{AccessLog, Backend, Config, Listen, Live, Mode};
use thermocline_proxy::{AdminApi, Proxy, serve_admin};

/// Address of the dashboard without a configuration, when the port is free.
const PAGE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8788);
/// Time between two looks at signals, events and the configuration's file.
const GLANCE: Duration = Duration::from_millis(200);

/// Signals, as they come.
struct Signals {
    /// Readable when one has come.
    wakeup: UnixStream,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    upgrade: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        let (wakeup, ring) = UnixStream::pair()?;
        wakeup.set_read_timeout(Some(GLANCE))?;
        let flag = || Arc::new(AtomicBool::new(false));
        let (stop, reload, upgrade) = (flag(), flag(), flag());
        for signal in [SIGINT, SIGTERM] {
            // The second one does not wait for anything.
            signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        signal_hook::flag::register(SIGHUP, reload.clone())?;
        signal_hook::flag::register(SIGUSR2, upgrade.clone())?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR2] {
            signal_hook::low_level::pipe::register(signal, ring.try_clone()?)?;
        }
        Ok(Signals { wakeup, stop, reload, upgrade })
    }

    /// Waits for a signal, or a moment.
    fn wait(&mut self) {
        // Whatever ends this, flags and files are looked at.
        let _ = self.wakeup.read(&mut [0; 16]);
    }
}

pub(super) fn run(
    path: Option<PathBuf>,
    simple: &SimpleArgs,
    log: LogFormat,
) -> Result<(), CliError> {
    let mut signals = Signals::new().map_err(CliError::failed)?;
    // The mark first: what changes while the file is read is then noticed.
    let mark = path.as_deref().and_then(reload::mark);
    let (config, text) = match &path {
        Some(path) => {
            let text = BalanceConfig::text(path).map_err(CliError::input)?;
            (BalanceConfig::read(&text, path).map_err(CliError::input)?, text)
        }
        None => (simple.config()?, String::new()),
    };
    let mut running = Running::start(config, path.is_none())?;
    let started = running.config.proxy.clone();
    let mut reload = path.map(|path| Reload::new(path, mark, text, started));
    let mut told_until = 0;
    while !signals.stop.load(Ordering::Relaxed) {
        signals.wait();
        if let Some(reload) = &mut reload {
            reload.look(&running.proxy, signals.reload.swap(false, Ordering::Relaxed));
        }
        told_until = tell_events(&running.admin, told_until, log);
        running.open_api_again();
        if signals.upgrade.swap(false, Ordering::Relaxed) && running.hand_over() {
            break;
        }
    }
    if signals.stop.load(Ordering::Relaxed) {
        service::tell(State::Stopping); // whom another process follows does not stop the service
    }
    let is_clean = running.proxy.stop();
    tell_events(&running.admin, told_until, log);
    drop(running.http);
    let text = if is_clean { "stopped; nothing was cut off" } else { "stopped; some were cut off" };
    listeners::say(text);
    Ok(())
}

/// A balancer that runs.
struct Running {
    config: BalanceConfig,
    /// True if there is no configuration file.
    is_simple: bool,
    proxy: Proxy,
    admin: Arc<AdminApi>,
    /// The API; `None`: it could not be opened when this process took over, or another one has it.
    http: Option<Http>,
}

impl Running {
    /// Listens, or takes over from another process, and says what runs.
    fn start(config: BalanceConfig, is_simple: bool) -> Result<Running, CliError> {
        let enough = open_files(config.proxy.connections_max);
        let inherited = upgrade::inherit().map_err(CliError::failed)?;
        let (predecessor, sockets) = inherited.unzip();
        let memories = predecessor.as_ref().and_then(|predecessor| predecessor.memories.as_deref());
        let sockets = sockets.unwrap_or_default();
        let proxy = Proxy::take_over(&config.proxy, listeners::random()?, sockets, memories);
        let proxy = proxy.map_err(CliError::failed)?;
        let admin = proxy.admin();
        let mut running = Running { config, is_simple, proxy, admin, http: None };
        match predecessor {
            None => {
                let (http, told) = running.open_api()?;
                running.http = Some(http);
                tell(&running.config.proxy, &running.proxy, &told)?;
            }
            Some(predecessor) => running.follow(predecessor),
        }
        service::tell(State::Ready { status: "serving" });
        if let Err(files) = enough {
            let text = format!("only {files} files may be open: too few for all connections");
            running.admin.note(Severity::Warning, "balancer", text);
        }
        Ok(running)
    }

    /// Takes over. This process serves already: nothing that fails from here on may end it.
    fn follow(&mut self, predecessor: upgrade::Predecessor) {
        // Whoever read what the first process said need not be there any more.
        let text = format!("follows process {}", predecessor.process);
        self.admin.note(Severity::Info, "balancer", text);
        if let Err(error) = predecessor.take_over() {
            let text = format!("the process before did not say that it has ended: {error}");
            self.admin.note(Severity::Warning, "balancer", text);
        }
        match self.open_api() {
            Ok((http, _)) => self.http = Some(http),
            Err(error) => {
                let text = format!("the API is not there, and is tried again: {error}");
                self.admin.note(Severity::Error, "balancer", text);
            }
        }
    }

    fn open_api(&self) -> Result<(Http, String), CliError> {
        open_admin(&self.config, self.is_simple, self.admin.clone())
    }

    /// Opens the API where that failed before.
    fn open_api_again(&mut self) {
        if self.http.is_none()
            && let Ok((opened, _)) = self.open_api()
        {
            self.http = Some(opened);
            self.admin.note(Severity::Info, "balancer", "the API is there".to_string());
        }
    }

    /// Has a new process take over; `false`: it did not come up, and this one goes on.
    fn hand_over(&mut self) -> bool {
        let memories = self.admin.memories();
        match self.proxy.listeners().and_then(|sockets| upgrade::start(&sockets, &memories)) {
            Ok(successor) => {
                let text = format!("process {} goes on", successor.process);
                self.admin.note(Severity::Info, "balancer", text);
                self.http = None;
                successor.release();
                true
            }
            Err(error) => {
                let text = format!("nobody takes over, this process goes on: {error}");
                self.admin.note(Severity::Error, "balancer", text);
                false
            }
        }
    }
}

impl SimpleArgs {
    fn config(&self) -> Result<BalanceConfig, CliError> {
        let mut backends: Vec<Backend> = Vec::new();
        for address in &self.to {
            check_address(address).map_err(CliError::input)?;
            if backends.iter().any(|backend| backend.name == *address) {
                return Err(CliError::input(format!("--to names {address} twice")));
            }
            backends.push(Backend::new(address));
        }
        check_policy(&self.policy).map_err(CliError::input)?;
        if needs_probes(&self.policy) {
            let text = "probes servers: write a configuration with `[probe]` and the path that \
                        they answer (docs/formats/balance.md)";
            return Err(CliError::input(format!("--policy {} {text}", self.policy)));
        }
        let mut live = Live::new(backends);
        live.policy.clone_from(&self.policy);
        if let Some(path) = &self.check {
            if !path.starts_with('/') || !path.chars().all(|c| c.is_ascii_graphic()) {
                let text = format!("--check: `{path}` is not a path, such as /health");
                return Err(CliError::input(text));
            }
            live.check.path = Some(path.clone());
            live.settings.checks = Some(Checks::default());
        }
        live.access_log = self.access_log.as_ref().map(|path| match path.to_str() {
            Some("stdout") => AccessLog::Stdout,
            _ => AccessLog::File(path.clone()),
        });
        live.limits.client_connections_max = share_of_a_client(CONNECTIONS_MAX);
        let mode = if self.tcp { Mode::Tcp } else { Mode::Http };
        let proxy = Config {
            listen: vec![Listen { address: self.listen, mode, tls: None }],
            threads: self.threads.into(),
            connections_max: CONNECTIONS_MAX,
            live,
        };
        Ok(BalanceConfig { proxy, admin: HttpConfig { socket: self.api.clone(), tcp: None } })
    }
}

/// Opens the listeners of the API; how they are reached.
fn open_admin(
    config: &BalanceConfig,
    is_simple: bool,
    admin: Arc<AdminApi>,
) -> Result<(Http, String), CliError> {
    let socket = &config.admin.socket;
    let tcp = match &config.admin.tcp {
        Some((address, token_file)) => Some((*address, listeners::token(token_file)?)),
        None if is_simple => {
            Some((PAGE, format!("{:016x}{:016x}", listeners::random()?, listeners::random()?)))
        }
        None => None,
    };
    let token = tcp.as_ref().map(|(_, token)| token.clone());
    let tcp =
        tcp.map(|(address, token)| TcpListen { address, any_port: is_simple, token, tls: None });
    let listeners = HttpListeners { unix: Some(socket.clone()), tcp, ..Default::default() };
    let http = serve_admin(listeners, admin).map_err(CliError::failed)?;
    let mut text = format!("API: {}\n", socket.display());
    if let (Some(address), Some(token)) = (http.address, token) {
        text += &listeners::dashboard("http", address, &token);
    }
    Ok((http, text))
}

/// Says what runs; on stderr, when requests are logged to stdout.
fn tell(config: &Config, proxy: &Proxy, listeners_told: &str) -> Result<(), CliError> {
    let mut text = String::new();
    for (listen, address) in config.listen.iter().zip(&proxy.addresses) {
        let scheme = match (listen.mode, listen.tls.is_some()) {
            (Mode::Http, false) => "http",
            (Mode::Http, true) => "https",
            (Mode::Tcp, false) => "tcp",
            (Mode::Tcp, true) => "tls",
        };
        let _ = writeln!(text, "listening on {scheme}://{address}");
    }
    let names: Vec<&str> =
        config.live.backends.iter().map(|backend| backend.name.as_str()).collect();
    let _ = writeln!(text, "{} picks among {}", config.live.policy, names.join(", "));
    text.push_str(listeners_told);
    text.push_str("stop with Ctrl-C or SIGTERM\n");
    if config.live.access_log == Some(AccessLog::Stdout) {
        listeners::say(text.trim_end());
        return Ok(());
    }
    output::print(&text)
}

/// Tells events on stderr; up to which number.
fn tell_events(admin: &AdminApi, from: u64, log: LogFormat) -> u64 {
    let events = admin.events(from);
    events.iter().for_each(|event| listeners::tell(log, event));
    events.last().map_or(from, |event| event.id + 1)
}
