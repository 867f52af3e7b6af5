//! Hosts and ports as people write them, and what an exit may connect to.
//!
//! A rule is `HOST:PORT`. HOST: `*`, an address, a network (`10.0.0.0/8`, `[fd00::]/8`), a name, or
//! `*.` and a name. PORT: a number, `FROM-TO`, or `*`.
//!
//! A name that a rule names is connected to wherever it leads. Any other name is resolved, and only
//! those of its addresses are tried that a rule allows.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Bytes of a host's name, at most (RFC 1035).
pub const NAME_BYTES_MAX: usize = 253;

/// A host: an address or a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// An address; IPv4 inside IPv6 is told as IPv4.
    Ip(IpAddr),
    /// A name in small letters.
    Name(String),
}

/// A host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// The host.
    pub host: Host,
    /// The port, 1 or more.
    pub port: u16,
}

/// Text that is no address or no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {expected}", text.escape_debug())]
pub struct AddressError {
    text: String,
    expected: &'static str,
}

fn refused(text: &str, expected: &'static str) -> AddressError {
    AddressError { text: text.chars().take(NAME_BYTES_MAX + 7).collect(), expected }
}

impl Host {
    /// Reads an address, in brackets or not, or a name.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Host, AddressError> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Some(inner) = bare {
            let address = inner.parse::<Ipv6Addr>();
            let address = address.map_err(|_| refused(text, "an IPv6 address in brackets"))?;
            return Ok(Host::from(IpAddr::V6(address)));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Host::from(address));
        }
        // The dot of a complete name is dropped. What is told must be read as the same host again.
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_plain);
        let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
        if !is_name || name.parse::<IpAddr>().is_ok() {
            return Err(refused(text, "a host: an address, or a name of at most 253 letters"));
        }
        Ok(Host::Name(name.to_ascii_lowercase()))
    }
}

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Host {
        Host::Ip(address.to_canonical())
    }
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<HostPort, AddressError> {
        let expected = "HOST:PORT, such as db.internal:5432, 10.0.0.7:80 or [fd00::7]:80";
        let (host, port) = text.rsplit_once(':').ok_or_else(|| refused(text, expected))?;
        let port = port.parse().ok().filter(|&port| port > 0);
        let port = port.ok_or_else(|| refused(text, expected))?;
        if host.contains(':') && !host.starts_with('[') {
            return Err(refused(text, expected));
        }
        Ok(HostPort { host: Host::parse(host).map_err(|_| refused(text, expected))?, port })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(address) => SocketAddr::new(*address, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    Network {
        address: IpAddr,
        bits: u8,
    },
    Name(String),
    /// `.` and what names must end in.
    Under(String),
}

/// One rule of what an exit may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    ports: RangeInclusive<u16>,
}

const RULE: &str = "a rule HOST:PORT, such as 10.0.0.0/8:80, *.internal:8000-8099 or db:5432";

impl FromStr for Rule {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Rule, AddressError> {
        let wrong = || refused(text, RULE);
        let (host, ports) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0);
        let ports = match ports.split_once('-') {
            None if ports == "*" => 1..=u16::MAX,
            None => port(ports).map(|port| port..=port).ok_or_else(wrong)?,
            Some((from, to)) => port(from).zip(port(to)).map(|(a, b)| a..=b).ok_or_else(wrong)?,
        };
        if ports.is_empty() || (host.contains(':') && !host.starts_with('[')) {
            return Err(wrong());
        }
        let hosts = match host.split_once('/') {
            Some((network, bits)) => {
                let Ok(Host::Ip(address)) = Host::parse(network) else { return Err(wrong()) };
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.parse().ok().filter(|&bits: &u8| bits <= most);
                Hosts::Network { address, bits: bits.ok_or_else(wrong)? }
            }
            None if host == "*" => Hosts::Any,
            None => match (host.strip_prefix("*."), Host::parse(host)) {
                (Some(rest), _) => match Host::parse(rest) {
                    Ok(Host::Name(name)) => Hosts::Under(format!(".{name}")),
                    _ => return Err(wrong()),
                },
                (None, Ok(Host::Name(name))) => Hosts::Name(name),
                (None, Ok(Host::Ip(address))) => {
                    Hosts::Network { address, bits: if address.is_ipv4() { 32 } else { 128 } }
                }
                (None, Err(_)) => return Err(wrong()),
            },
        };
        Ok(Rule { hosts, ports })
    }
}

impl Rule {
    fn names(&self, target: &HostPort) -> bool {
        let Host::Name(name) = &target.host else { return false };
        self.ports.contains(&target.port)
            && match &self.hosts {
                Hosts::Any => true,
                Hosts::Name(allowed) => name == allowed,
                Hosts::Under(end) => name.ends_with(end.as_str()),
                Hosts::Network { .. } => false,
            }
    }

    fn reaches(&self, address: IpAddr, port: u16) -> bool {
        self.ports.contains(&port)
            && match &self.hosts {
                Hosts::Any => true,
                Hosts::Network { address: network, bits } => same_network(*network, address, *bits),
                Hosts::Name(_) | Hosts::Under(_) => false,
            }
    }
}

fn same_network(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    match (one, other.to_canonical()) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differ = Ipv4Addr::to_bits(one) ^ Ipv4Addr::to_bits(other);
            bits == 0 || differ >> (32 - u32::from(bits)) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differ = Ipv6Addr::to_bits(one) ^ Ipv6Addr::to_bits(other);
            bits == 0 || differ >> (128 - u32::from(bits)) == 0
        }
        _ => false,
    }
}

/// True if a connection to `to` is one to the listener on `own` itself. A listener on all addresses
/// is meant by each of this machine, of which there is no list: its port is enough.
pub(crate) fn is_listener(to: SocketAddr, own: SocketAddr) -> bool {
    let (ip, own_ip) = (to.ip().to_canonical(), own.ip().to_canonical());
    to.port() == own.port() && (own_ip.is_unspecified() || ip == own_ip)
}

/// True if a rule allows this target wherever it leads.
pub(crate) fn is_named(rules: &[Rule], target: &HostPort) -> bool {
    rules.iter().any(|rule| rule.names(target))
}

/// True if a rule allows this address.
pub(crate) fn is_reached(rules: &[Rule], address: IpAddr, port: u16) -> bool {
    rules.iter().any(|rule| rule.reaches(address.to_canonical(), port))
}

#[cfg(test)]
mod tests;
