//! The configuration of a balancer: what `thermocline balance CONFIG` reads.
//!
//! From TOML to a [`BalanceConfig`], table by table. docs/formats/balance.md tells every key. Paths
//! are beside the configuration file.

use super::keys::{At, ConfigError, File, Keys};
use super::read::{certificates, http, parse_address, quantity_or_none};
use super::{HttpConfig, secrets, tactics};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline_balancer::{BACKENDS_MAX, Checks, Settings};
use thermocline_policy::registry::{self, Build, PolicySpec};
use thermocline_policy::tactics::BalancerTactics;
use thermocline_proxy::config::{
    AccessLog, Backend, Config, Forwarded, Limits, Listen, Live, Mode, Poll, Probe, Timeouts,
    Upstream, UpstreamTls,
};
use thermocline_units::{Nanos, nearest};

/// The API's socket when none is named.
pub(crate) const SOCKET: &str = "thermocline-balance.sock";
/// Clients at the same time, when nothing is said.
pub(crate) const CONNECTIONS_MAX: usize = 16_384;
/// Longer times than this are mistakes.
const DAY: Nanos = Nanos::from_secs(86_400);
/// Shorter intervals than this are load of their own.
const INTERVAL_MIN: Nanos = Nanos(100_000_000);

/// Configuration of a balancer.
#[derive(Debug, Clone)]
pub(crate) struct BalanceConfig {
    /// The proxy.
    pub(crate) proxy: Config,
    /// Addresses of the API, the metrics and the dashboard.
    pub(crate) admin: HttpConfig,
}

impl BalanceConfig {
    /// Reads a configuration file, and looks at the certificates and tokens that it names.
    ///
    /// # Errors
    /// When it cannot be read, a key is unknown, missing or wrong. The message names file and line.
    pub(crate) fn load(path: &Path) -> Result<BalanceConfig, ConfigError> {
        BalanceConfig::read(&BalanceConfig::text(path)?, path)
    }

    /// Text of a configuration file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn text(path: &Path) -> Result<String, ConfigError> {
        std::fs::read_to_string(path).map_err(|error| {
            let path = path.display();
            ConfigError::new(format!("{path}: {error}; docs/formats/balance.md has an example"))
        })
    }

    /// Does as [`BalanceConfig::load`] with the text of the file at `path`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn read(text: &str, path: &Path) -> Result<BalanceConfig, ConfigError> {
        let config = read(text, path)?;
        let encrypted = config.proxy.listen.iter().filter_map(|listen| listen.tls.as_ref());
        let checked = encrypted.map(secrets::check_tls);
        let upstream = config.proxy.live.upstream.tls.iter();
        let authorities = upstream.filter_map(|tls| tls.authority.as_deref());
        secrets::all(checked.chain(authorities.map(secrets::check_authority)))?;
        Ok(config)
    }
}

/// Reads `text`; `path` is what messages call it, and where relative paths begin.
pub(super) fn read(text: &str, path: &Path) -> Result<BalanceConfig, ConfigError> {
    let file = File { text, path };
    let mut keys = Keys::parse(file, "the configuration")?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let listen = listen(&mut keys, beside)?;
    let threads = keys.count("threads", 1..=256)?.unwrap_or(1) as usize;
    let connections = keys.count("connections", 1..=1_000_000)?;
    let connections_max = connections.map_or(CONNECTIONS_MAX, |count| count as usize);
    // Each thread keeps a place for the next client of each listener.
    let waiting = threads * listen.len();
    if connections_max < waiting {
        return Err(keys.problem(format!(
            "`connections` is {connections_max}; {threads} thread(s) that accept clients on {} \
             address(es) need {waiting} at least",
            listen.len()
        )));
    }
    let mut live = Live::new(backends(&mut keys)?);
    let policy = policy(&mut keys)?;
    let policy_line = policy.as_ref().map(|policy| policy.line);
    if let Some(policy) = policy {
        live.policy = policy.value;
    }
    live.settings = settings(&mut keys)?;
    if let Some(forwarded) = keys.text("forwarded")? {
        live.forwarded = parse_forwarded(&keys, &forwarded)?;
    }
    live.upstream = upstream(keys.table("upstream")?, beside)?;
    live.timeouts = timeouts(keys.table("timeouts")?)?;
    if let Some(table) = keys.table_if_any("check")? {
        live.check.path = check(table, &mut live)?;
    }
    live.limits = limits(keys.table("limits")?, connections_max)?;
    load(keys.table("load")?, &mut live)?;
    if let Some(table) = keys.table_if_any("probe")? {
        live.probe = Some(probe(table)?);
    }
    if let Some(line) = policy_line
        && live.probe.is_none()
        && needs_probes(&live.policy)
    {
        let name = live.policy.split(':').next().unwrap_or_default();
        let wanted = format!("`{name}` probes servers: give `[probe]` a `path` that they answer");
        return Err(file.problem(line, wanted));
    }
    live.access_log = access_log(keys.table("access-log")?, beside)?;
    let admin = http(keys.table("admin")?, beside, &beside.join(SOCKET))?;
    keys.finish()?;
    Ok(BalanceConfig { proxy: Config { listen, threads, connections_max, live }, admin })
}

fn listen(keys: &mut Keys<'_>, beside: &Path) -> Result<Vec<Listen>, ConfigError> {
    let mut listeners: Vec<Listen> = Vec::new();
    for mut table in keys.tables("listen")? {
        let missing = "`address` is missing: where clients come in, such as \"127.0.0.1:8080\"";
        let text = table.text("address")?.ok_or_else(|| table.problem(missing))?;
        let address = parse_address(&table, &text, 8080)?;
        let mode = match table.text("mode")? {
            None => Mode::Http,
            Some(mode) => match &*mode.value {
                "http" => Mode::Http,
                "tcp" => Mode::Tcp,
                _ => {
                    let wanted = "`mode` must be \"http\" or \"tcp\": requests or bytes";
                    return Err(table.file.problem(mode.line, wanted));
                }
            },
        };
        let tls = certificates(&mut table, beside)?;
        if listeners.iter().any(|listener| listener.address == address && address.port() != 0) {
            return Err(table.file.problem(text.line, format!("{address} is listened on twice")));
        }
        table.finish()?;
        listeners.push(Listen { address, mode, tls });
    }
    Ok(listeners)
}

fn backends(keys: &mut Keys<'_>) -> Result<Vec<Backend>, ConfigError> {
    let mut backends: Vec<Backend> = Vec::new();
    for mut table in keys.tables("backend")? {
        let missing = "`address` is missing: the server's host and port, as \"10.0.0.1:8080\"";
        let address = table.text("address")?.ok_or_else(|| table.problem(missing))?;
        check_address(&address.value).map_err(|wrong| table.file.problem(address.line, wrong))?;
        let mut backend = Backend::new(&address.value);
        if let Some(name) = table.text("name")? {
            let plain = name.value.chars().all(|c| c.is_ascii_graphic() && c != '/' && c != '"');
            if name.value.is_empty() || name.value.len() > 64 || !plain {
                let wanted = "a backend's name has 1 to 64 letters, digits and signs without /";
                return Err(table.file.problem(name.line, wanted));
            }
            backend.name = name.value;
        }
        let wanted = "a number above 0, at most 1000: how fast it is beside the others";
        if let Some(weight) =
            table.number("weight", wanted, |weight| weight > 0.001 && weight <= 1000.0)?
        {
            backend.weight = weight;
        }
        if let Some(most) = table.count("requests", 1..=1_000_000)? {
            backend.requests_max = most;
        }
        if backends.iter().any(|other| other.name == backend.name) {
            let twice = format!("two backends are called `{}`; give one a `name`", backend.name);
            return Err(table.problem(twice));
        }
        if backends.len() == BACKENDS_MAX {
            return Err(table.problem(format!("there are more than {BACKENDS_MAX} backends")));
        }
        table.finish()?;
        backends.push(backend);
    }
    Ok(backends)
}

/// Checks that a text is a host and a port.
pub(crate) fn check_address(text: &str) -> Result<(), String> {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let bare = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
    let known = !host.is_empty() && bare && !host.contains(['/', ' ']);
    if known && port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Ok(());
    }
    Err(format!("`{text}` is not a host and a port, such as \"127.0.0.1:9001\" or \"app:9001\""))
}

fn policy(keys: &mut Keys<'_>) -> Result<Option<At<String>>, ConfigError> {
    let Some(policy) = keys.text("policy")? else { return Ok(None) };
    check_policy(&policy.value).map_err(|wrong| keys.file.problem(policy.line, wrong))?;
    Ok(Some(policy))
}

/// True if a policy that was checked knows next to nothing without probes.
pub(crate) fn needs_probes(text: &str) -> bool {
    let rule = PolicySpec::parse(text).ok().and_then(|spec| spec.build_rule().ok());
    rule.is_some_and(|rule| rule.needs_probes())
}

/// Checks that a live balancer can run this policy.
pub(crate) fn check_policy(text: &str) -> Result<(), String> {
    let name = text.split(':').next().unwrap_or_default();
    let balancers = || registry::balancers().filter(|e| matches!(e.build, Build::Balancer(_)));
    if !balancers().any(|entry| entry.name == name) {
        let names = || balancers().map(|entry| entry.name);
        let hint = match nearest(name, names()) {
            Some(like) => format!("did you mean `{like}`?"),
            None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        return Err(format!("there is no balancer `{name}`; {hint}"));
    }
    let spec = PolicySpec::parse(text).map_err(|error| error.to_string())?;
    spec.build_rule().map_err(|error| error.to_string())?;
    Ok(())
}

fn time(
    keys: &mut Keys<'_>,
    key: &'static str,
    least: Nanos,
) -> Result<Option<Nanos>, ConfigError> {
    let wanted = format!("a time from {least} to {DAY}, such as \"10s\"");
    let time = keys.quantity(key, &wanted, |time| (least..=DAY).contains(time))?;
    Ok(time.map(|time| time.value))
}

fn duration(time: Nanos) -> Duration {
    Duration::from_nanos(time.0)
}

fn percent(keys: &mut Keys<'_>, key: &'static str, known: u8) -> Result<u8, ConfigError> {
    Ok(keys.count(key, 0..=100)?.map_or(known, |percent| percent as u8))
}

fn settings(keys: &mut Keys<'_>) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    settings.slow_start = time(keys, "slow-start", Nanos(0))?.unwrap_or(settings.slow_start);
    settings.panic = keys.flag("panic")?.unwrap_or(settings.panic);
    settings.tactics =
        tactics::read(keys, BalancerTactics::of, BalancerTactics::parse, BalancerTactics::follow)?;
    let mut queue = keys.table("queue")?;
    settings.queue_max = queue.count("length", 0..=1_000_000)?.unwrap_or(settings.queue_max);
    settings.queue_patience =
        time(&mut queue, "patience", Nanos(0))?.unwrap_or(settings.queue_patience);
    queue.finish()?;
    let mut retries = keys.table("retries")?;
    settings.retries_max = retries.count("most", 0..=16)?.unwrap_or(settings.retries_max);
    let share = retries.number("share", "a share from 0 to 1", |s| (0.0..=1.0).contains(&s))?;
    settings.retry_share = share.unwrap_or(settings.retry_share);
    let wanted = "retries a second that are always allowed, 0 to 1000000";
    let floor = retries.number("floor-per-s", wanted, |floor| (0.0..=1e6).contains(&floor))?;
    settings.retry_floor_per_s = floor.unwrap_or(settings.retry_floor_per_s);
    retries.finish()?;
    let mut table = keys.table("outliers")?;
    let outliers = &mut settings.outliers;
    outliers.consecutive = table.count("consecutive", 0..=1000)?.unwrap_or(outliers.consecutive);
    outliers.interval =
        time(&mut table, "interval", Nanos::from_secs(1))?.unwrap_or(outliers.interval);
    outliers.failed_percent = percent(&mut table, "failed-percent", outliers.failed_percent)?;
    outliers.requests_min =
        table.count("requests", 1..=1_000_000)?.unwrap_or(outliers.requests_min);
    outliers.ejection = time(&mut table, "ejection", INTERVAL_MIN)?.unwrap_or(outliers.ejection);
    outliers.ejection_max =
        time(&mut table, "ejection-most", INTERVAL_MIN)?.unwrap_or(outliers.ejection_max);
    outliers.ejected_percent_max =
        percent(&mut table, "ejected-percent", outliers.ejected_percent_max)?;
    table.finish()?;
    Ok(settings)
}

fn parse_forwarded(keys: &Keys<'_>, text: &At<String>) -> Result<Forwarded, ConfigError> {
    match &*text.value {
        "replace" => Ok(Forwarded::Replace),
        "append" => Ok(Forwarded::Append),
        "keep" => Ok(Forwarded::Keep),
        _ => {
            let wanted = "`forwarded` must be \"replace\", \"append\" or \"keep\": what becomes of \
                          X-Forwarded-For";
            Err(keys.file.problem(text.line, wanted))
        }
    }
}

fn upstream(mut keys: Keys<'_>, beside: &Path) -> Result<Upstream, ConfigError> {
    let mut upstream = Upstream::default();
    let is_encrypted = keys.flag("tls")?.unwrap_or(false);
    let authority = keys.text("tls-ca")?;
    let name = keys.text("tls-name")?;
    if let (false, Some(only)) = (is_encrypted, authority.as_ref().or(name.as_ref())) {
        return Err(keys.file.problem(only.line, "this needs `tls = true`"));
    }
    upstream.tls = is_encrypted.then(|| UpstreamTls {
        authority: authority.map(|path| beside.join(path.value)),
        name: name.map(|name| name.value),
    });
    upstream.http2 = keys.flag("http2")?.unwrap_or(upstream.http2);
    if let Some(most) = keys.count("idle-connections", 0..=100_000)? {
        upstream.idle_max = most as usize;
    }
    if let Some(idle) = time(&mut keys, "idle", INTERVAL_MIN)? {
        upstream.idle = duration(idle);
    }
    keys.finish()?;
    Ok(upstream)
}

fn timeouts(mut keys: Keys<'_>) -> Result<Timeouts, ConfigError> {
    let mut timeouts = Timeouts::default();
    let places = [
        ("header", &mut timeouts.header),
        ("keep-alive", &mut timeouts.keep_alive),
        ("connect", &mut timeouts.connect),
        ("first-byte", &mut timeouts.first_byte),
        ("idle", &mut timeouts.idle),
    ];
    for (key, place) in places {
        if let Some(time) = time(&mut keys, key, INTERVAL_MIN)? {
            *place = duration(time);
        }
    }
    if let Some(drain) = time(&mut keys, "drain", Nanos(0))? {
        timeouts.drain = duration(drain);
    }
    for (key, place) in [("request", &mut timeouts.request), ("try", &mut timeouts.each_try)] {
        let wanted = format!("`{key}` is a time from {INTERVAL_MIN} to {DAY}, or \"none\"");
        let fits = |time: &Nanos| (INTERVAL_MIN..=DAY).contains(time);
        if let Some(time) = quantity_or_none(&mut keys, key, wanted, fits)? {
            *place = time.map(duration);
        }
    }
    keys.finish()?;
    Ok(timeouts)
}

/// Most connections of one address when nothing is said: one client alone cannot keep the others
/// out, and a proxy in front has room.
pub(crate) fn share_of_a_client(connections_max: usize) -> usize {
    (connections_max / 4 * 3).max(1)
}

fn limits(mut keys: Keys<'_>, connections_max: usize) -> Result<Limits, ConfigError> {
    let mut limits =
        Limits { client_connections_max: share_of_a_client(connections_max), ..Limits::default() };
    if let Some(most) = keys.count("fields", 10..=1000)? {
        limits.fields_max = most as usize;
    }
    if let Some(most) = keys.count("client-connections", 1..=1_000_000)? {
        limits.client_connections_max = most as usize;
    }
    keys.finish()?;
    Ok(limits)
}

/// A path that servers are asked for.
fn parse_path(keys: &mut Keys<'_>, key: &'static str) -> Result<Option<String>, ConfigError> {
    let Some(path) = keys.text(key)? else { return Ok(None) };
    let plain = path.value.chars().all(|c| c.is_ascii_graphic());
    if path.value.starts_with('/') && plain {
        return Ok(Some(path.value));
    }
    let wanted = format!("`{key}` is a path that servers answer, such as \"/health\"");
    Err(keys.file.problem(path.line, wanted))
}

fn check(mut keys: Keys<'_>, live: &mut Live) -> Result<Option<String>, ConfigError> {
    let mut checks = Checks::default();
    let path = parse_path(&mut keys, "path")?;
    checks.interval = time(&mut keys, "interval", INTERVAL_MIN)?.unwrap_or(checks.interval);
    checks.rise = keys.count("rise", 1..=100)?.unwrap_or(checks.rise);
    checks.fall = keys.count("fall", 1..=100)?.unwrap_or(checks.fall);
    if let Some(timeout) = time(&mut keys, "timeout", Nanos(1_000_000))? {
        live.check.timeout = duration(timeout);
    }
    keys.finish()?;
    live.settings.checks = Some(checks);
    Ok(path)
}

fn load(mut keys: Keys<'_>, live: &mut Live) -> Result<(), ConfigError> {
    let path = parse_path(&mut keys, "poll")?;
    let interval = time(&mut keys, "interval", Nanos(10_000_000))?;
    if let Some(age) = time(&mut keys, "age-most", Nanos(1_000_000))? {
        live.settings.report_age_max = age;
    }
    let interval = duration(interval.unwrap_or(Nanos::from_secs(1)));
    live.poll = path.map(|path| Poll { path, interval });
    keys.finish()
}

fn probe(mut keys: Keys<'_>) -> Result<Probe, ConfigError> {
    let missing = "`path` is missing: what servers answer with their load, such as \"/load\"";
    let path = parse_path(&mut keys, "path")?.ok_or_else(|| keys.problem(missing))?;
    let mut probe = Probe::new(&path);
    if let Some(timeout) = time(&mut keys, "timeout", Nanos(1_000_000))? {
        probe.timeout = duration(timeout);
    }
    if let Some(most) = keys.count("under-way", 1..=10_000)? {
        probe.under_way_max = most;
    }
    keys.finish()?;
    Ok(probe)
}

fn access_log(mut keys: Keys<'_>, beside: &Path) -> Result<Option<AccessLog>, ConfigError> {
    let to = keys.text("to")?;
    let to = match to {
        None => None,
        Some(to) if to.value == "stdout" => Some(AccessLog::Stdout),
        Some(to) if to.value.is_empty() => {
            return Err(keys.file.problem(to.line, "`to` is a file, or \"stdout\""));
        }
        Some(to) => Some(AccessLog::File(beside.join(PathBuf::from(to.value)))),
    };
    keys.finish()?;
    Ok(to)
}

#[cfg(test)]
mod tests;
