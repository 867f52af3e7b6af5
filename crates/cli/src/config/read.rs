//! From TOML to a [`Config`], table by table. docs/formats/configuration.md tells every key.

use super::keys::{At, ConfigError, File, Keys};
use super::{Config, HttpConfig, NbdConfig, Origin};
use super::{bucket, hints, library, scrub, tactics, volumes};
use crate::deciding::own_epoch;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thermocline_admin::tls::TlsFiles;
use thermocline_engine::ClientLimits;
use thermocline_engine::joining::is_pool_size;
use thermocline_engine::pools::{
    CacheConfig, DeviceConfig, Emulation, MovesADay, NamedBy, PoolConfig, is_same_place,
    refuse_own_file,
};
use thermocline_policy::migration::{
    CONCURRENTS, OUTSTANDINGS, PATIENCE_MAX, PIECE_UNIT, PIECES, RATE_MIN, YIELDS,
};
use thermocline_policy::registry::{self, PolicySpec, Settings as PolicySettings, nearest};
use thermocline_policy::tactics::{CacheTactics, VolumeTactics};
use thermocline_ports::model::Profile;
use thermocline_ports_os::Patience;
use thermocline_units::{Bytes, Nanos};
use thermocline_volume::settings::{BLOCK, CHUNK_MAX, CHUNK_MIN, JOURNAL_BLOCKS, POOLS_MAX};
use thermocline_volume::{Settings, check_pool_name};

/// Epochs: shorter ones cost more than they tell.
const EPOCH: std::ops::RangeInclusive<Nanos> = Nanos::from_secs(1)..=Nanos::from_secs(86_400);
/// Parts of requests on a pool at once.
const DEPTHS: std::ops::RangeInclusive<u32> = 1..=4096;
/// Times after which a device that does not answer may be called suspect.
const SUSPECT_AFTER: std::ops::RangeInclusive<Nanos> =
    Nanos::from_secs(1)..=Nanos::from_secs(86_400);

/// Bytes of a unix socket's path (`sun_path` of unix(7), without the zero at its end).
const SOCKET_NAME_BYTES_MAX: usize = 107;

/// Time for a handshake over a slow network; tests have less.
const HANDSHAKE: std::ops::RangeInclusive<Nanos> = Nanos(10_000_000)..=Nanos::from_secs(600);
/// Memory for requests: from the two largest ones that there are.
const BUFFERS: std::ops::RangeInclusive<Bytes> = Bytes::from_mib(64)..=Bytes::from_gib(1024);
/// Time before a client that keeps others waiting is cut off; looked at once a second.
const STALL: std::ops::RangeInclusive<Nanos> = Nanos::from_secs(1)..=Nanos::from_secs(3600);

/// Reads `text`; `path` is what messages call it, and where relative paths begin.
pub(super) fn config(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let file = File { text, path };
    let mut keys = Keys::parse(file, "the configuration")?;
    let beside = path.parent().unwrap_or(Path::new(""));
    let data = keys.text("data")?.ok_or_else(|| keys.problem("`data` is missing: a folder"))?;
    if data.value.is_empty() {
        return Err(file.problem(data.line, "`data` is empty; `.` is this file's folder"));
    }
    let data = beside.join(data.value);
    let mut settings = group(&mut keys)?;
    let pools = pools(&mut keys, beside, &data, settings.chunk_size)?;
    let volumes = volumes::volumes(&mut keys)?;
    let nbd = nbd(keys.table("nbd")?, beside, &data)?;
    let http = http(keys.table("http")?, beside, &data.join("http.sock"))?;
    encrypted(&keys, &nbd, &http)?;
    sockets(&keys, &nbd.socket, &http.socket, &pools)?;
    for path in pools.iter().flat_map(PoolConfig::paths) {
        refuse_own_file(&data, path).map_err(|why| keys.problem(why))?;
    }
    let policy = policy(keys.table("policy")?, beside, pools.len(), &mut settings)?;
    copying(keys.table("copying")?, &mut settings)?;
    let hints = hints::hints(keys.table("hints")?, beside)?;
    let scrub = scrub::scrub(keys.table("scrub")?)?;
    keys.finish()?;
    let origin = Origin::File(path.to_path_buf());
    Ok(Config { data, pools, volumes, nbd, http, policy, hints, scrub, settings, origin })
}

/// Checks that the API's token does not cross a network in the clear.
fn encrypted(keys: &Keys<'_>, nbd: &NbdConfig, http: &HttpConfig) -> Result<(), ConfigError> {
    match &http.tcp {
        Some((address, _)) if !address.ip().is_loopback() && nbd.tls.is_none() => Err(keys
            .problem(format!(
                "requests to {address} carry a token that opens everything; add `tls-cert` and \
                 `tls-key` under [nbd], which the API uses too, or listen on 127.0.0.1 under [http]"
            ))),
        _ => Ok(()),
    }
}

/// Checks that both sockets have names of their own, which a socket can have.
fn sockets(
    keys: &Keys<'_>,
    nbd: &Path,
    http: &Path,
    pools: &[PoolConfig],
) -> Result<(), ConfigError> {
    for path in [nbd, http] {
        let (name, bytes) = (path.display(), path.as_os_str().len());
        if bytes > SOCKET_NAME_BYTES_MAX {
            return Err(keys.problem(format!(
                "the socket {name} has a path of {bytes} bytes, and {SOCKET_NAME_BYTES_MAX} are the \
                 most; name a shorter `socket` under [nbd] or [http], or a shorter `data`"
            )));
        }
        if pools.iter().flat_map(PoolConfig::paths).any(|pool| is_same_place(pool, path)) {
            return Err(keys.problem(format!("the socket {name} is the path of a pool")));
        }
    }
    match is_same_place(nbd, http) {
        true => Err(keys.problem(format!("[nbd] and [http] have one socket, {}", nbd.display()))),
        false => Ok(()),
    }
}

/// Reads the record of pools that were added while an engine ran: tables `[[pool]]`, as in a
/// configuration.
pub(super) fn added_pools(
    text: &str,
    path: &Path,
    data: &Path,
    chunk_size: Bytes,
) -> Result<Vec<PoolConfig>, ConfigError> {
    let mut keys = Keys::parse(File { text, path }, "the record of added pools")?;
    let mut pools = Vec::new();
    for table in keys.tables_if_any("pool")? {
        pools
            .push(PoolConfig { named_by: NamedBy::Record, ..pool(table, data, data, chunk_size)? });
    }
    keys.finish()?;
    Ok(pools)
}

/// Reads the keys at the top, beside `data`.
fn group(keys: &mut Keys<'_>) -> Result<Settings, ConfigError> {
    let mut settings = Settings::default();
    let wanted = format!("a power of two from {CHUNK_MIN} to {CHUNK_MAX}, such as \"1MiB\"");
    let fits = |size: &Bytes| size.0.is_power_of_two() && (CHUNK_MIN..=CHUNK_MAX).contains(size);
    if let Some(size) = keys.quantity("chunk-size", &wanted, fits)? {
        settings.chunk_size = size.value;
    }
    let block = u64::from(BLOCK);
    let (low, high) = (u64::from(*JOURNAL_BLOCKS.start()), u64::from(*JOURNAL_BLOCKS.end()));
    let (low, high) = (Bytes(low * block), Bytes(high * block));
    let wanted = format!("a multiple of 4KiB from {low} to {high}, such as \"8MiB\"");
    let fits = |size: &Bytes| (low..=high).contains(size) && size.0.is_multiple_of(block);
    if let Some(size) = keys.quantity("journal", &wanted, fits)? {
        settings.journal_blocks = (size.value.0 / block) as u32;
    }
    settings.checksums = keys.flag("checksums")?.unwrap_or(settings.checksums);
    let added = keys.flag("added-checksums")?;
    settings.added_checksums = added.unwrap_or(settings.added_checksums);
    settings.depth = keys.count("depth", DEPTHS)?.unwrap_or(settings.depth);
    if let Some(text) = keys.text("lines")? {
        settings.lent_percent = percent(&text.value).ok_or_else(|| {
            let wanted = "`lines` is a share from \"0%\" to \"100%\", such as \"25%\"";
            keys.file.problem(text.line, wanted)
        })?;
    }
    keys.retired("fill", |value| match value {
        "fastest" => "nothing: it is the default".to_string(),
        "slowest" => "tactics = [\"slowest-first\"]".to_string(),
        _ => "a tactic of allocation, such as tactics = [\"slowest-first\"]".to_string(),
    })?;
    settings.tactics =
        tactics::read(keys, VolumeTactics::of, VolumeTactics::parse, VolumeTactics::follow)?;
    Ok(settings)
}

/// A share in whole per cent, as `25%`; `None`: it is none.
fn percent(text: &str) -> Option<u8> {
    let percent = text.strip_suffix('%')?.trim().parse().ok()?;
    (percent <= 100).then_some(percent)
}

fn pools(
    keys: &mut Keys<'_>,
    beside: &Path,
    data: &Path,
    chunk_size: Bytes,
) -> Result<Vec<PoolConfig>, ConfigError> {
    let tables = keys.tables("pool")?;
    let mut pools: Vec<PoolConfig> = Vec::new();
    for table in tables {
        let (file, line) = (table.file, table.line);
        let pool = pool(table, beside, data, chunk_size)?;
        if pools.iter().any(|other| other.name == pool.name) {
            return Err(file.problem(line, format!("two pools are called `{}`", pool.name)));
        }
        for path in pool.paths() {
            let taken = pools.iter().flat_map(PoolConfig::paths).chain(pool.paths());
            if taken.filter(|other| is_same_place(other, path)).count() > 1 {
                return Err(file.problem(line, format!("two pools are on {}", path.display())));
            }
        }
        pools.push(pool);
        if pools.len() > POOLS_MAX {
            return Err(file.problem(line, format!("there are more than {POOLS_MAX} pools")));
        }
    }
    Ok(pools)
}

fn pool(
    mut keys: Keys<'_>,
    beside: &Path,
    data: &Path,
    chunk_size: Bytes,
) -> Result<PoolConfig, ConfigError> {
    let missing = "this pool has no `name`; give it one of 1 to 16 bytes";
    let name = keys.text("name")?.ok_or_else(|| keys.problem(missing))?;
    check_pool_name(&name.value).map_err(|error| keys.file.problem(name.line, error))?;
    let name = name.value;
    let mut device = device(&mut keys, beside, data, &format!("{name}.pool"))?;
    let memory = data.join(format!("{name}.bucket"));
    device.bucket = bucket::bucket(&mut keys, &device, beside, memory, chunk_size)?;
    let cache = match keys.table_if_any("cache")? {
        Some(table) => Some(cache(table, beside, data, &format!("{name}.cache"))?),
        None => None,
    };
    let profile = match keys.text("profile")? {
        Some(name) => Some(emulation(&keys, name, beside, None)?.profile),
        None => None,
    };
    let limit = device.size.unwrap_or(Bytes(1 << 50));
    let fits = |reserve: &Bytes| *reserve < limit;
    let reserve = keys.quantity("reserve", "less than the pool's size, as \"1GiB\"", fits)?;
    let reserve = reserve.map_or(Bytes(0), |reserve| reserve.value);
    let depth = keys.count("depth", DEPTHS)?;
    let moves_a_day = moves_a_day(&mut keys, profile.as_ref().or(device.profile()))?;
    keys.finish()?;
    let named_by = NamedBy::Configuration;
    Ok(PoolConfig { name, device, cache, profile, reserve, depth, moves_a_day, named_by })
}

/// `moves-a-day` of a pool that counts as `profile`.
fn moves_a_day(
    keys: &mut Keys<'_>,
    profile: Option<&Profile>,
) -> Result<Option<MovesADay>, ConfigError> {
    const WANTED: &str = "bytes from 1 MiB, such as \"100GiB\", or \"endurance\"";
    let Some(said) = keys.text("moves-a-day")? else { return Ok(None) };
    if said.value != "endurance" {
        let bytes = said.value.parse().ok().filter(|bytes| *bytes >= Bytes::from_mib(1));
        let wrong = || format!("`moves-a-day` is {WANTED}");
        let bytes = bytes.ok_or_else(|| keys.file.problem(said.line, wrong()))?;
        return Ok(Some(MovesADay::Bytes(bytes)));
    }
    match profile.map(|profile| profile.writes_a_day) {
        Some(Some(times)) => Ok(Some(MovesADay::Sizes(times / 2.0))),
        Some(None) => Err(keys.file.problem(
            said.line,
            "the pool's profile does not say `writes-a-day`; give `moves-a-day` bytes, or add it to a \
             profile of your own",
        )),
        None => Err(keys.file.problem(
            said.line,
            "`moves-a-day = \"endurance\"` needs a `profile` that says `writes-a-day`",
        )),
    }
}

/// The keys that say where something is; `file` is its name unless `path` tells another.
fn device(
    keys: &mut Keys<'_>,
    beside: &Path,
    data: &Path,
    file: &str,
) -> Result<DeviceConfig, ConfigError> {
    let path = match keys.text("path")? {
        Some(path) if path.value.is_empty() => {
            return Err(keys.file.problem(path.line, "`path` is empty"));
        }
        Some(path) if path.value.starts_with(bucket::SCHEME) => PathBuf::from(path.value),
        Some(path) => data.join(path.value),
        None => data.join(file),
    };
    let wanted = "a multiple of 512 bytes from 1 MiB to 1 PiB, such as \"40GiB\"";
    let size = keys.quantity("size", wanted, |size| is_pool_size(*size))?.map(|size| size.value);
    let emulate = match keys.text("emulate")? {
        Some(name) => Some(emulation(keys, name, beside, size)?),
        None => None,
    };
    let buffered = keys.flag("buffered")?.unwrap_or(false);
    let patience = patience(keys)?;
    Ok(DeviceConfig { path, size, emulate, buffered, patience, bucket: None })
}

/// Reads the time that a device may take for one request.
fn patience(keys: &mut Keys<'_>) -> Result<Patience, ConfigError> {
    let mut patience = Patience::DEFAULT;
    let wanted = "a time from 1s to 24h, such as \"30s\"";
    let fits = |span: &Nanos| SUSPECT_AFTER.contains(span);
    if let Some(span) = keys.quantity("suspect-after", wanted, fits)? {
        patience.suspect_after = span.value;
    }
    let first = patience.suspect_after;
    let wanted = format!(
        "`fail-after` is a time longer than `suspect-after`, which is {first}, as \"5m\", or \"none\""
    );
    let fits = |span: &Nanos| *span > first;
    if let Some(span) = quantity_or_none(keys, "fail-after", wanted.clone(), fits)? {
        patience.fail_after = span.unwrap_or(Nanos(u64::MAX));
    }
    if patience.fail_after <= first {
        return Err(keys.problem(wanted));
    }
    Ok(patience)
}

fn cache(
    mut keys: Keys<'_>,
    beside: &Path,
    data: &Path,
    file: &str,
) -> Result<CacheConfig, ConfigError> {
    let device = device(&mut keys, beside, data, file)?;
    if bucket::is_in_one(&device) {
        return Err(keys.problem("a cache is on a fast device; a bucket is none"));
    }
    let mut settings = thermocline_blockcache::Settings::default();
    let line = u64::from(thermocline_blockcache::LINE);
    let fits = |from: &Bytes| (line..=1 << 30).contains(&from.0);
    if let Some(from) = keys.quantity("around-from", "a size from 4KiB to 1GiB", fits)? {
        settings.around_from = from.value.0 as u32;
    }
    if let Some(percent) = keys.count("dirty-percent", 0..=90)? {
        settings.dirty_percent = percent as u8;
    }
    settings.writers_max = keys.count("writers", 1..=256)?.unwrap_or(settings.writers_max);
    if let Some(policy) = keys.text("policy")? {
        let parsed = policy.value.parse();
        settings.policy = parsed.map_err(|problem| keys.file.problem(policy.line, problem))?;
    }
    settings.tactics = tactics::in_force(&mut keys, CacheTactics::of)?;
    keys.finish()?;
    Ok(CacheConfig { device, settings })
}

/// A built-in profile, or one in a file.
fn emulation(
    keys: &Keys<'_>,
    name: At<String>,
    beside: &Path,
    size: Option<Bytes>,
) -> Result<Emulation, ConfigError> {
    let At { value: name, line } = name;
    let wrong = |problem: &dyn Display| keys.file.problem(line, problem);
    let profile = if name.ends_with(".toml") {
        let path = beside.join(&name);
        let text = std::fs::read_to_string(&path)
            .map_err(|error| wrong(&format!("{}: {error}", path.display())))?;
        Profile::parse(&text, &path.display().to_string()).map_err(|error| wrong(&error))?
    } else {
        Profile::built_in(&name).map_err(|error| {
            let known = Profile::names().collect::<Vec<_>>().join(", ");
            wrong(&format!("{error}; there are {known}, or name a file *.toml"))
        })?
    };
    if let Some(size) = size {
        profile.with_size(size).map_err(|error| wrong(&error))?;
    }
    Ok(Emulation { name, profile })
}

fn nbd(mut keys: Keys<'_>, beside: &Path, data: &Path) -> Result<NbdConfig, ConfigError> {
    let socket = socket(&mut keys, data, "nbd.sock")?;
    let mut tcp: Vec<SocketAddr> = Vec::new();
    let addresses = keys.texts("tcp")?;
    for address in &addresses {
        tcp.push(parse_address(&keys, address, 10809)?);
    }
    let tls = certificates(&mut keys, beside)?;
    let reachable = addresses.iter().zip(&tcp).find(|(_, address)| !address.ip().is_loopback());
    if let (Some((written, _)), None) = (reachable, &tls) {
        let problem = format!(
            "whoever reaches {} could read and write every volume; add `tls-cert` and `tls-key`, or \
             listen on 127.0.0.1",
            written.value
        );
        return Err(keys.file.problem(written.line, problem));
    }
    let limits = client_limits(&mut keys)?;
    keys.finish()?;
    Ok(NbdConfig { socket, tcp, tls, limits })
}

/// Bounds of what clients may take.
fn client_limits(keys: &mut Keys<'_>) -> Result<ClientLimits, ConfigError> {
    let mut limits = ClientLimits::default();
    limits.connections = keys.count("connections", 1..=4096)?.unwrap_or(limits.connections);
    limits.handshakes = keys.count("handshakes", 1..=4096)?.unwrap_or(limits.handshakes);
    let wanted = "a time from 10ms to 10m, such as \"10s\"";
    let fits = |time: &Nanos| HANDSHAKE.contains(time);
    if let Some(time) = keys.quantity("handshake-timeout", wanted, fits)? {
        limits.handshake = time.value;
    }
    let wanted = "from 64MiB to 1TiB, such as \"256MiB\"";
    if let Some(bytes) = keys.quantity("buffers", wanted, |size| BUFFERS.contains(size))? {
        limits.buffers = bytes.value;
    }
    let wanted = "a time from 1s to 1h, such as \"30s\"";
    if let Some(time) = keys.quantity("stall-timeout", wanted, |time| STALL.contains(time))? {
        limits.stall = time.value;
    }
    Ok(limits)
}

/// The certificates of a listener: `tls-cert`, `tls-key` and `tls-client-ca`.
pub(super) fn certificates(
    keys: &mut Keys<'_>,
    beside: &Path,
) -> Result<Option<TlsFiles>, ConfigError> {
    let cert = keys.text("tls-cert")?;
    let key = keys.text("tls-key")?;
    let client_ca = keys.text("tls-client-ca")?;
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some(TlsFiles {
            certificate: beside.join(cert.value),
            key: beside.join(key.value),
            client_authority: client_ca.map(|path| beside.join(path.value)),
        })),
        (None, None) => match client_ca {
            Some(path) => {
                let wanted = "`tls-client-ca` needs `tls-cert` and `tls-key`";
                Err(keys.file.problem(path.line, wanted))
            }
            None => Ok(None),
        },
        (Some(only), None) | (None, Some(only)) => {
            Err(keys.file.problem(only.line, "`tls-cert` and `tls-key` go together"))
        }
    }
}

/// An API's listeners; `default` is its socket when none is named, and others are in the same
/// folder.
pub(super) fn http(
    mut keys: Keys<'_>,
    beside: &Path,
    default: &Path,
) -> Result<HttpConfig, ConfigError> {
    let folder = default.parent().unwrap_or(Path::new(""));
    let name = default.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let socket = socket(&mut keys, folder, name)?;
    let address = keys.text("tcp")?;
    let token = keys.text("token-file")?;
    let tcp = match (address, token) {
        (Some(address), Some(token)) => {
            Some((parse_address(&keys, &address, 8080)?, beside.join(token.value)))
        }
        (Some(address), None) => {
            let problem = "TCP needs a `token-file`: a file whose first line is a secret that \
                           requests must carry";
            return Err(keys.file.problem(address.line, problem));
        }
        (None, Some(token)) => {
            return Err(keys.file.problem(token.line, "a `token-file` is for `tcp` only"));
        }
        (None, None) => None,
    };
    keys.finish()?;
    Ok(HttpConfig { socket, tcp })
}

fn socket(keys: &mut Keys<'_>, data: &Path, name: &str) -> Result<PathBuf, ConfigError> {
    match keys.text("socket")? {
        Some(path) if path.value.is_empty() => {
            Err(keys.file.problem(path.line, "`socket` is empty; leave it out for the default"))
        }
        Some(path) => Ok(data.join(path.value)),
        None => Ok(data.join(name)),
    }
}

pub(super) fn parse_address(
    keys: &Keys<'_>,
    text: &At<String>,
    example: u16,
) -> Result<SocketAddr, ConfigError> {
    text.value.parse().map_err(|_| {
        let problem = format!(
            "`{}` is not an address and a port, such as \"127.0.0.1:{example}\" or \
             \"[::1]:{example}\"",
            text.value
        );
        keys.file.problem(text.line, problem)
    })
}

fn policy(
    mut keys: Keys<'_>,
    beside: &Path,
    pools: usize,
    settings: &mut Settings,
) -> Result<Option<PolicySpec>, ConfigError> {
    let (low, high) = (EPOCH.start(), EPOCH.end());
    let wanted = format!("a time from {low} to {high}, such as \"5m\"");
    let epoch = keys.quantity("epoch", &wanted, |epoch| EPOCH.contains(epoch))?;
    let stated = epoch.is_some();
    settings.epoch = epoch.map_or(settings.epoch, |epoch| epoch.value);
    let name = keys.text("name")?;
    let chosen = keys.table("settings")?;
    keys.finish()?;
    let file = chosen.file;
    let line = chosen.line;
    let given = chosen.rest()?;
    let Some(name) = name else {
        return match given.first() {
            Some(_) => Err(file.problem(line, "settings need a policy: add its `name`")),
            None => Ok(None),
        };
    };
    let entry = registry::placements().find(|entry| entry.name == name.value);
    let Some(entry) = entry else {
        return Err(file.problem(name.line, unknown_placement(&name.value)));
    };
    let mut values = PolicySettings::defaults(entry);
    let mut written = name.value.clone();
    for (key, text) in &given {
        let value = library::value(entry, key, &text.value, beside)
            .map_err(|error| file.problem(text.line, error))?;
        values.set(entry, key, &value).map_err(|error| file.problem(text.line, error))?;
        written.push_str(&format!(":{key}={value}"));
    }
    let spec = PolicySpec::new(written, entry, values, None);
    spec.check_pools(pools).map_err(|error| file.problem(name.line, error))?;
    spec.build_placement().map_err(|error| file.problem(line, error))?;
    let own = own_epoch(&spec).filter(|_| !stated);
    settings.epoch = own.unwrap_or(settings.epoch);
    Ok(Some(spec))
}

fn unknown_placement(name: &str) -> String {
    let names = || registry::placements().map(|entry| entry.name);
    let hint = match nearest(name, names()) {
        Some(like) => format!("did you mean `{like}`?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("there is no placement `{name}`; {hint}")
}

fn copying(mut keys: Keys<'_>, settings: &mut Settings) -> Result<(), ConfigError> {
    let copying = &mut settings.copying;
    let wanted =
        |key, such| format!("`{key}` is bytes a second from 4KiB on, as {such}, or \"none\"");
    let fits = |rate: &Bytes| *rate >= RATE_MIN;
    let rate = quantity_or_none(&mut keys, "rate", wanted("rate", "\"64MiB\""), fits)?;
    copying.rate_per_second = rate.unwrap_or(copying.rate_per_second);
    let reserve = quantity_or_none(&mut keys, "reserve", wanted("reserve", "\"4MiB\""), fits)?;
    copying.reserve_per_second = reserve.unwrap_or(copying.reserve_per_second);
    let wanted = "`deadline` is a time from 1ms on, as \"30s\", or \"none\"".to_string();
    let fits = |span: &Nanos| span.0 >= 1_000_000;
    let deadline = quantity_or_none(&mut keys, "deadline", wanted, fits)?;
    copying.deadline = deadline.unwrap_or(copying.deadline);
    for (key, tactic) in [("percentile", "aqueduct:percentile"), ("trial", "first-part:share")] {
        let instead = |value: &str| match value.parse() {
            Ok(0) => "nothing: it is the default".to_string(),
            Ok(1..=99_u32) => format!("tactics = [\"{tactic}={value}\"] at the top level"),
            _ => format!("a tactic, such as tactics = [\"{tactic}=50\"] at the top level"),
        };
        keys.retired(key, instead)?;
    }
    let (low, high) = (PIECES.start(), PIECES.end());
    let wanted = format!("a multiple of 4KiB from {low} to {high}, such as \"128KiB\"");
    let fits = |size: &Bytes| PIECES.contains(size) && size.0.is_multiple_of(PIECE_UNIT.0);
    if let Some(piece) = keys.quantity("piece", &wanted, fits)? {
        copying.piece = Some(piece.value);
    }
    let wanted = format!("a time up to {PATIENCE_MAX}, such as \"50ms\"");
    if let Some(time) = keys.quantity("patience", &wanted, |time| *time <= PATIENCE_MAX)? {
        copying.patience = time.value;
    }
    copying.outstanding = keys.count("outstanding", OUTSTANDINGS)?;
    copying.yield_above = keys.count("yield-above", YIELDS)?;
    copying.concurrent = keys.count("concurrent", CONCURRENTS)?.unwrap_or(copying.concurrent);
    copying.feeds = keys.flag("feed")?.unwrap_or(copying.feeds);
    copying.keeps = keys.flag("keep")?.unwrap_or(copying.keeps);
    keys.finish()
}

/// A quantity, or "none"; `None` when the key is not there.
pub(super) fn quantity_or_none<T: std::str::FromStr>(
    keys: &mut Keys<'_>,
    key: &'static str,
    wanted: String,
    fits: impl Fn(&T) -> bool,
) -> Result<Option<Option<T>>, ConfigError> {
    let Some(text) = keys.text(key)? else { return Ok(None) };
    match (&*text.value, text.value.parse::<T>()) {
        ("none", _) => Ok(Some(None)),
        (_, Ok(value)) if fits(&value) => Ok(Some(Some(value))),
        _ => Err(keys.file.problem(text.line, wanted)),
    }
}
