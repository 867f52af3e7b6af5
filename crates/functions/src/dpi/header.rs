//! Addresses and ports of a rule's header: lists with ranges and exceptions.
//!
//! A list matches what one of its members matches, and none of its exceptions; a list of exceptions
//! alone matches everything else. A member or an exception may be a list, which matches by itself.

use std::net::IpAddr;

/// Members and exceptions that a list may have, with those of all lists in it.
const MEMBERS_MAX: usize = 4096;
/// Lists within lists.
const DEPTH_MAX: usize = 8;

/// An address in 128 bits; IPv4 as mapped (RFC 4291, section 2.5.5.2).
pub(super) fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// A range from first to last, or a list within a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part<T> {
    Range(T, T),
    List(List<T>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct List<T> {
    members: Vec<Part<T>>,
    exceptions: Vec<Part<T>>,
}

/// Reads one range.
type Read<T> = fn(&str) -> Result<(T, T), String>;

impl<T: PartialOrd + Copy> List<T> {
    /// Goes down as deep as lists are nested, which [`DEPTH_MAX`] bounds.
    fn includes(&self, value: T) -> bool {
        let within = |parts: &[Part<T>]| {
            parts.iter().any(|part| match part {
                Part::Range(first, last) => *first <= value && value <= *last,
                Part::List(list) => list.includes(value),
            })
        };
        (self.members.is_empty() || within(&self.members)) && !within(&self.exceptions)
    }

    fn parse(text: &str, read: Read<T>) -> Result<List<T>, String> {
        let mut list = List { members: Vec::new(), exceptions: Vec::new() };
        list.add(text.trim(), 0, &mut 0, read)?;
        Ok(list)
    }

    /// Adds one part of a list; `count` is the number of ranges so far, of all lists.
    fn add(
        &mut self,
        text: &str,
        depth: usize,
        count: &mut usize,
        read: Read<T>,
    ) -> Result<(), String> {
        let (text, parts) = match text.strip_prefix('!') {
            Some(rest) if rest == "any" || rest.starts_with('!') => {
                return Err(format!("`{text}` matches nothing, or says no twice"));
            }
            Some(rest) => (rest, &mut self.exceptions),
            None => (text, &mut self.members),
        };
        let Some(inner) = text.strip_prefix('[') else {
            *count += 1;
            if *count > MEMBERS_MAX {
                return Err(format!("more than {MEMBERS_MAX} members"));
            }
            let (first, last) = read(text)?;
            parts.push(Part::Range(first, last));
            return Ok(());
        };
        let inner = inner.strip_suffix(']').ok_or_else(|| format!("`{text}` lacks its `]`"))?;
        if depth == DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} lists within lists"));
        }
        let mut list = List { members: Vec::new(), exceptions: Vec::new() };
        for part in split(inner) {
            list.add(part.trim(), depth + 1, count, read)?;
        }
        parts.push(Part::List(list));
        Ok(())
    }
}

/// Parts between commas that lie in no inner brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Addresses of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Addresses(List<u128>);

impl Addresses {
    pub(super) fn parse(text: &str) -> Result<Addresses, String> {
        List::parse(text, network).map(Addresses)
    }

    pub(super) fn includes(&self, address: u128) -> bool {
        self.0.includes(address)
    }
}

fn network(text: &str) -> Result<(u128, u128), String> {
    let wrong = || format!("`{text}`: expected any, an address, a network such as 10.0.0.0/8");
    if text == "any" {
        return Ok((0, u128::MAX));
    }
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| wrong())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let length = length.unwrap_or(width);
    if length > width {
        return Err(wrong());
    }
    let host = u128::MAX.checked_shr(128 - (width - length)).unwrap_or(0);
    let first = bits(address) & !host;
    Ok((first, first | host))
}

/// Ports of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ports(List<u16>);

impl Ports {
    pub(super) fn parse(text: &str) -> Result<Ports, String> {
        List::parse(text, ports).map(Ports)
    }

    pub(super) fn includes(&self, port: u16) -> bool {
        self.0.includes(port)
    }
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    if text == "any" {
        return Ok((0, u16::MAX));
    }
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let first = if first.is_empty() { Ok(0) } else { first.parse() };
    let last = if last.is_empty() { Ok(u16::MAX) } else { last.parse() };
    match (first, last) {
        (Ok(first), Ok(last)) if first <= last && text != ":" && !text.is_empty() => {
            Ok((first, last))
        }
        _ => Err(format!("`{text}`: expected any, a port, or a range such as 1024:65535")),
    }
}

#[cfg(test)]
mod tests;
