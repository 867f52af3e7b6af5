//! The configuration of a pool of accelerators: what `thermocline accel up` reads.
//!
//! docs/formats/accel.md tells every key. Paths are beside the configuration file.

use super::keys::{At, ConfigError, File, Keys};
use super::read::{certificates, parse_address};
use super::secrets;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use thermocline_admin::tls::TlsFiles;
use thermocline_offload::{
    CardConfig, FUNCTIONS, NAME_BYTES_MAX, Network, PoolConfig, Rules, SLOTS_MAX, SideConfig,
    TENANTS_MAX, TenantConfig,
};
use thermocline_policy::registry::PolicySpec;
use thermocline_units::nearest;

/// Socket of a pool's API when none is named.
pub(crate) const SOCKET: &str = "thermocline-accel.sock";
/// Parts into which a tenant's hosts are divided when nothing is said.
const SHARES: u32 = 16;
/// Flows of a function and a tenant when nothing is said.
const FLOWS: u32 = 65_536;
/// Bytes of a file of rules.
const RULES_BYTES_MAX: u64 = 16 << 20;

/// Configuration of a pool with its API.
#[derive(Debug, Clone)]
pub(crate) struct AccelServe {
    pub(crate) pool: PoolConfig,
    pub(crate) socket: PathBuf,
    /// TCP address, file of the token, and certificates.
    pub(crate) tcp: Option<(SocketAddr, PathBuf, Option<TlsFiles>)>,
}

/// Reads a pool's configuration.
///
/// # Errors
/// It cannot be read, or a key is unknown, missing or wrong. The message names file and line.
pub(crate) fn load(path: &Path) -> Result<AccelServe, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        ConfigError::new(format!("{path}: {error}; docs/formats/accel.md has an example"))
    })?;
    read(&text, path)
}

fn read(text: &str, path: &Path) -> Result<AccelServe, ConfigError> {
    let beside = path.parent().unwrap_or(Path::new(""));
    let mut keys = Keys::parse(File { text, path }, "the configuration")?;
    let state = keys.text("state")?;
    let state = state
        .ok_or_else(|| keys.problem("`state` is missing: a folder for what survives a restart"))?;
    let inside = side(&mut keys, "inside")?;
    let outside = side(&mut keys, "outside")?;
    if inside.interface == outside.interface {
        return Err(keys.problem(format!(
            "[inside] and [outside] are both {}; a pool stands between two interfaces",
            inside.interface
        )));
    }
    let shares = keys.count("shares", 1..=256)?.unwrap_or(SHARES);
    let flows = keys.count("flows", 1024..=1 << 24)?.unwrap_or(FLOWS);
    let scheduler = keys.text("scheduler")?;
    if let Some(At { value, line }) = &scheduler {
        PolicySpec::parse(value).map_err(|error| keys.file.problem(*line, error))?;
    }
    let rules = match keys.text("rules")? {
        Some(file) => Some(rules(&keys, &file, beside)?),
        None => None,
    };
    let cards = cards(&mut keys)?;
    let tenants = tenants(&mut keys, beside)?;
    let api = keys.table("api")?;
    let (socket, tcp) = api_listeners(api, beside)?;
    keys.finish()?;
    let scheduler = scheduler.map(|scheduler| scheduler.value);
    let pool = PoolConfig {
        inside,
        outside,
        tenants,
        cards,
        scheduler: scheduler.unwrap_or(thermocline_offload::SCHEDULER.to_string()),
        shares,
        flows_max: flows as usize,
        rules,
        state: beside.join(state.value),
    };
    Ok(AccelServe { pool, socket, tcp })
}

fn side(keys: &mut Keys<'_>, key: &'static str) -> Result<SideConfig, ConfigError> {
    let missing = keys.problem(format!("there is no [{key}]; it names an interface"));
    let mut table = keys.table_if_any(key)?.ok_or(missing)?;
    let interface = table.text("interface")?;
    let example = "`interface` is missing: packet:NAME or tun:NAME, such as \"packet:eth1\"";
    let interface = interface.ok_or_else(|| table.problem(example))?;
    let is_tun = interface.value.starts_with("tun:");
    if !is_tun && !interface.value.starts_with("packet:") {
        let text = format!("`{}`: write packet:NAME or tun:NAME", interface.value);
        return Err(table.file.problem(interface.line, text));
    }
    let address = match table.text("address")? {
        Some(text) => Some(network(&table, &text)?),
        None => None,
    };
    if address.is_none() && !is_tun {
        let text = "an Ethernet interface needs an `address`, such as \"10.0.0.1/24\"";
        return Err(table.problem(text));
    }
    let gateway = match table.text("gateway")? {
        Some(text) => Some(ipv4(&table, &text)?),
        None => None,
    };
    table.finish()?;
    Ok(SideConfig { interface: interface.value, address, gateway })
}

fn ipv4(keys: &Keys<'_>, text: &At<String>) -> Result<Ipv4Addr, ConfigError> {
    let wrong = || {
        let text = format!("`{}` is not an IPv4 address, such as 192.0.2.1", text.value);
        text
    };
    text.value.parse().map_err(|_| keys.file.problem(text.line, wrong()))
}

fn network(keys: &Keys<'_>, text: &At<String>) -> Result<Network, ConfigError> {
    let parsed = text.value.split_once('/').and_then(|(address, length)| {
        let length: u8 = length.parse().ok().filter(|length| *length <= 32)?;
        Some((address.parse().ok()?, length))
    });
    let wrong = || format!("`{}` is not a network, such as 10.0.0.0/24", text.value);
    parsed.ok_or_else(|| keys.file.problem(text.line, wrong()))
}

fn rules(keys: &Keys<'_>, file: &At<String>, beside: &Path) -> Result<Rules, ConfigError> {
    let path = beside.join(&file.value);
    let problem =
        |text: String| keys.file.problem(file.line, format!("{}: {text}", path.display()));
    let length = std::fs::metadata(&path).map_err(|error| problem(error.to_string()))?.len();
    if length > RULES_BYTES_MAX {
        return Err(problem("a file of rules has at most 16 MiB".to_string()));
    }
    let text = std::fs::read_to_string(&path).map_err(|error| problem(error.to_string()))?;
    Ok(Rules { file: path.display().to_string(), text })
}

/// A name that can be part of a path.
fn name(table: &mut Keys<'_>, what: &str) -> Result<String, ConfigError> {
    let name = table.text("name")?;
    let name = name.ok_or_else(|| table.problem(format!("this {what} has no `name`")))?;
    let fits = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if !name.value.chars().all(fits) || !(1..=NAME_BYTES_MAX).contains(&name.value.len()) {
        let text = format!("a name has 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`");
        return Err(table.file.problem(name.line, text));
    }
    Ok(name.value)
}

fn cards(keys: &mut Keys<'_>) -> Result<Vec<CardConfig>, ConfigError> {
    let mut cards: Vec<CardConfig> = Vec::new();
    for mut table in keys.tables_if_any("card")? {
        let name = name(&mut table, "card")?;
        let slots = table.count("slots", 1..=SLOTS_MAX as u32)?.unwrap_or(1) as usize;
        if cards.iter().any(|other| other.name == name) {
            return Err(table.problem(format!("two cards are called `{name}`")));
        }
        if cards.iter().map(|card| card.slots).sum::<usize>() + slots > SLOTS_MAX {
            return Err(table.problem(format!("there are more than {SLOTS_MAX} slots")));
        }
        table.finish()?;
        cards.push(CardConfig { name, slots });
    }
    if cards.is_empty() {
        cards.push(CardConfig { name: "card0".to_string(), slots: 2 });
    }
    Ok(cards)
}

fn tenants(keys: &mut Keys<'_>, beside: &Path) -> Result<Vec<TenantConfig>, ConfigError> {
    let mut tenants: Vec<TenantConfig> = Vec::new();
    for mut table in keys.tables("tenant")? {
        let tenant = tenant(&mut table, beside)?;
        let is_twice = |other: &TenantConfig| other.name == tenant.name;
        if tenants.iter().any(is_twice) {
            return Err(table.problem(format!("two tenants are called `{}`", tenant.name)));
        }
        let has_same = |other: &&TenantConfig| other.token.is_some() && other.token == tenant.token;
        if let Some(other) = tenants.iter().find(has_same) {
            let names = format!("`{}` and `{}`", other.name, tenant.name);
            let text = format!("{names} have the same token; give each tenant its own");
            return Err(table.problem(text));
        }
        let external = tenants.iter().flat_map(|other| &other.external);
        let twice = external.clone().find(|address| tenant.external.contains(address));
        if let Some(address) = twice {
            return Err(table.problem(format!("two tenants have the address {address}")));
        }
        let networks = tenants.iter().flat_map(|other| &other.networks);
        for one in networks {
            if tenant.networks.iter().any(|other| meet(*one, *other)) {
                let text = format!("its networks meet {}/{} of another tenant", one.0, one.1);
                return Err(table.problem(text));
            }
        }
        if tenants.len() >= TENANTS_MAX {
            return Err(table.problem(format!("there are more than {TENANTS_MAX} tenants")));
        }
        table.finish()?;
        tenants.push(tenant);
    }
    Ok(tenants)
}

/// True if two networks have an address in common.
fn meet(one: Network, other: Network) -> bool {
    let length = u32::from(one.1.min(other.1));
    let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
    (one.0.to_bits() ^ other.0.to_bits()) & mask == 0
}

fn tenant(table: &mut Keys<'_>, beside: &Path) -> Result<TenantConfig, ConfigError> {
    let name = name(table, "tenant")?;
    let texts = table.texts("networks")?;
    let networks = texts.iter().map(|text| network(table, text)).collect::<Result<Vec<_>, _>>()?;
    if networks.is_empty() {
        let text = format!("`{name}` has no `networks`: those of its hosts, [\"10.0.0.0/24\"]");
        return Err(table.problem(text));
    }
    let texts = table.texts("external")?;
    let external = texts.iter().map(|text| ipv4(table, text)).collect::<Result<Vec<_>, _>>()?;
    let mut sorted = external.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < external.len() || external.len() > 256 {
        return Err(table.problem("`external` has at most 256 addresses, each once"));
    }
    let chain = table.texts("chain")?;
    for (at, function) in chain.iter().enumerate() {
        let known = FUNCTIONS.contains(&function.value.as_str());
        let is_twice = chain[..at].iter().any(|other| other.value == function.value);
        let hint = nearest(&function.value, FUNCTIONS.iter().copied());
        let problem = match hint {
            _ if is_twice => format!("`{}` is twice in the chain", function.value),
            _ if known && function.value == "nat" && external.is_empty() => {
                "a chain with `nat` needs `external` addresses".to_string()
            }
            _ if known => continue,
            Some(like) => format!("no function `{}`; did you mean `{like}`?", function.value),
            None => format!("no function `{}`; there are {}", function.value, FUNCTIONS.join(", ")),
        };
        return Err(table.file.problem(function.line, problem));
    }
    let token = match table.text("token-file")? {
        Some(file) => Some(secrets::token(&beside.join(file.value))?),
        None => None,
    };
    let slots_max = table.count("slots-max", 0..=SLOTS_MAX as u32)?;
    let slots_max = slots_max.map_or(SLOTS_MAX, |most| most as usize);
    let chain = chain.into_iter().map(|function| function.value).collect();
    Ok(TenantConfig { name, networks, external, chain, token, slots_max })
}

type Listeners = (PathBuf, Option<(SocketAddr, PathBuf, Option<TlsFiles>)>);

fn api_listeners(mut keys: Keys<'_>, beside: &Path) -> Result<Listeners, ConfigError> {
    let socket = keys.text("socket")?.map_or(SOCKET.to_string(), |socket| socket.value);
    let tls = certificates(&mut keys, beside)?;
    if let Some(tls) = &tls {
        secrets::check_tls(tls)?;
    }
    let (address, token) = (keys.text("tcp")?, keys.text("token-file")?);
    let tcp = match (address, token) {
        (Some(address), Some(token)) => {
            Some((parse_address(&keys, &address, 6666)?, beside.join(token.value), tls))
        }
        (Some(address), None) => {
            let text = "TCP needs a `token-file`, whose first line is the administrator's token";
            return Err(keys.file.problem(address.line, text));
        }
        (None, Some(token)) => {
            return Err(keys.file.problem(token.line, "a `token-file` is for `tcp` only"));
        }
        (None, None) => None,
    };
    keys.finish()?;
    Ok((beside.join(socket), tcp))
}

#[cfg(test)]
mod tests;
