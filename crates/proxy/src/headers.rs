//! Header fields of a message: those that end at a hop are removed, and a proxy's own are added.
//!
//! 1. Hop-by-hop fields go: those of RFC 9110 §7.6.1 and RFC 9112, and whatever `Connection` names.
//!    Framing is hyper's: it reads one length or chunks, refuses what is ambiguous, and writes its
//!    own on the other side, so that two neighbours cannot disagree on where a message ends.
//!    A length that came several times is passed on once, and two that differ are refused.
//! 2. A request for a whole URI (`GET http://host/path`) becomes one for a path, and its host the
//!    one that counts (RFC 9112 §3.2.2). Requests without a host, or with two, are refused. So are
//!    requests of HTTP/2 whose `:authority` and `host` differ (RFC 9113 §8.3.1).
//! 3. Cookies that HTTP/2 brought in pieces are joined (RFC 9113 §8.2.3).
//! 4. `X-Forwarded-For` and `X-Forwarded-Proto` as the configuration says.
//!
//! 5. The only transfer coding is `chunked`. `Trailer` stays: fields behind a body are passed on
//!    when they were announced.
//!
//! Not here: paths are passed on as they came, letter by letter.

use super::config::Forwarded;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, Uri, Version};

/// Header with the client's address.
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Header with the client's protocol.
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// Load reports in answers.
pub(super) const LOAD: HeaderName = HeaderName::from_static("thermocline-load");
/// Headers between two neighbours (RFC 9110 §7.6.1, RFC 9112), as they are written and as they are
/// known; and `Expect`, because hyper asks a client for the body when it is wanted.
static HOPS: [(&str, HeaderName); 9] = [
    ("connection", CONNECTION),
    ("te", TE),
    ("transfer-encoding", TRANSFER_ENCODING),
    ("keep-alive", HeaderName::from_static("keep-alive")),
    ("proxy-connection", HeaderName::from_static("proxy-connection")),
    ("upgrade", UPGRADE),
    ("expect", EXPECT),
    ("proxy-authenticate", PROXY_AUTHENTICATE),
    ("proxy-authorization", PROXY_AUTHORIZATION),
];

/// Those of [`HOPS`] that a head has, by bit. One pass over a head's names costs less than looking
/// for each of these: a head has few fields, and fewer of them.
#[derive(Clone, Copy)]
struct Hops(u16);

impl Hops {
    const CONNECTION: Hops = Hops(1 << 0);
    const TE: Hops = Hops(1 << 1);
    const CODING: Hops = Hops(1 << 2);
    const UPGRADE: Hops = Hops(1 << 5);

    fn of(headers: &HeaderMap) -> Hops {
        let bit = |name: &HeaderName| {
            let name = name.as_str();
            HOPS.iter().position(|(hop, _)| *hop == name).map_or(0, |at| 1 << at)
        };
        Hops(headers.keys().fold(0, |hops, name| hops | bit(name)))
    }

    fn has(self, one: Hops) -> bool {
        self.0 & one.0 != 0
    }

    /// Takes them out, and whatever `Connection` names.
    fn strip(self, headers: &mut HeaderMap) {
        if self.has(Hops::CONNECTION) {
            strip_named(headers);
        }
        for (at, (_, name)) in HOPS.iter().enumerate() {
            if self.has(Hops(1 << at)) {
                headers.remove(name);
            }
        }
    }
}

fn strip_named(headers: &mut HeaderMap) {
    // Nearly always one of these, which name nothing.
    if tokens(headers, &CONNECTION).all(|word| word == "keep-alive" || word == "close") {
        return;
    }
    let named: Vec<HeaderName> =
        tokens(headers, &CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in named {
        // A host or a length is not for a neighbour to take away.
        if name != HOST && name != CONTENT_LENGTH {
            headers.remove(name);
        }
    }
}

/// Facts about a client that servers are told.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) address: HeaderValue,
    pub(super) protocol: HeaderValue,
}

/// A reason that a request is refused before any server sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadRequest {
    #[error("the request names no host")]
    NoHost,
    #[error("the request names two hosts")]
    TwoHosts,
    #[error("the request's host is no host")]
    NoSuchHost,
    #[error("this is no forward proxy: CONNECT is not served")]
    Connect,
    #[error("the request's target is no path")]
    Target,
    #[error("of all transfer codings only `chunked` is understood")]
    Coding,
    #[error("the request states two lengths")]
    TwoLengths,
}

/// A reason that a server's answer cannot be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadAnswer {
    #[error("answered with a transfer coding that nobody asked for")]
    Coding,
    #[error("answered with two lengths")]
    TwoLengths,
}

/// Framing of a message: how it said where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// Bodies framed in one way.
    Plain,
    /// Bodies framed by a length and in chunks. The chunks count, the length is taken out, and the
    /// connection is not used again: a neighbour may have read it otherwise (RFC 9112 §6.1, §6.3).
    Doubtful,
}

/// Makes a client's head the one that a server gets. `upgrade` is what the client asked to switch
/// to, if anything.
pub(super) fn to_server(
    parts: &mut Parts,
    caller: &Caller,
    forwarded: Forwarded,
) -> Result<Option<HeaderValue>, BadRequest> {
    if parts.method == Method::CONNECT {
        return Err(BadRequest::Connect);
    }
    let hops = Hops::of(&parts.headers);
    if hops.has(Hops::CODING) && !is_chunked(&parts.headers) {
        return Err(BadRequest::Coding);
    }
    if !leave_one_length(&mut parts.headers) {
        return Err(BadRequest::TwoLengths);
    }
    let upgrade = hops.has(Hops::UPGRADE).then(|| wanted_upgrade(parts)).flatten();
    let trailers = hops.has(Hops::TE) && takes_trailers(&parts.headers);
    name_host(parts)?;
    let headers = &mut parts.headers;
    hops.strip(headers);
    if trailers && upgrade.is_none() {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if parts.version == Version::HTTP_2 {
        join_cookies(headers);
    }
    parts.version = Version::HTTP_11;
    match forwarded {
        Forwarded::Keep => {}
        Forwarded::Replace => {
            headers.insert(X_FORWARDED_FOR, caller.address.clone());
            headers.insert(X_FORWARDED_PROTO, caller.protocol.clone());
        }
        Forwarded::Append => {
            headers.append(X_FORWARDED_FOR, caller.address.clone());
            headers.entry(X_FORWARDED_PROTO).or_insert_with(|| caller.protocol.clone());
        }
    }
    if let Some(protocol) = &upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
    Ok(upgrade)
}

/// Makes a server's head the one that a client gets.
///
/// # Errors
///
/// The body is coded in a way that was not asked for and cannot be undone, or has two lengths.
pub(super) fn to_client(headers: &mut HeaderMap, switches: bool) -> Result<Framing, BadAnswer> {
    let upgrade = switches.then(|| headers.get(UPGRADE).cloned()).flatten();
    let hops = Hops::of(headers);
    let mut framing = Framing::Plain;
    if hops.has(Hops::CODING) {
        if !is_chunked(headers) {
            return Err(BadAnswer::Coding);
        }
        if headers.remove(CONTENT_LENGTH).is_some() {
            framing = Framing::Doubtful;
        }
    }
    if !leave_one_length(headers) {
        return Err(BadAnswer::TwoLengths);
    }
    hops.strip(headers);
    if switches {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(upgrade) = upgrade {
            headers.insert(UPGRADE, upgrade);
        }
    }
    Ok(framing)
}

/// Leaves one of several equal lengths. False: they differ.
fn leave_one_length(headers: &mut HeaderMap) -> bool {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let (Some(first), Some(second)) = (lengths.next(), lengths.next()) else { return true };
    if first != second || lengths.any(|length| length != first) {
        return false;
    }
    let length = first.clone();
    headers.insert(CONTENT_LENGTH, length);
    true
}

/// Returns true if `chunked` is the only transfer coding.
fn is_chunked(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let is_it =
        |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    values.next().is_some_and(is_it) && values.next().is_none()
}

/// Protocol that a client wants to switch to: `Connection: upgrade` and what `Upgrade` says
/// (HTTP/1.1 only).
fn wanted_upgrade(parts: &Parts) -> Option<HeaderValue> {
    let wanted = parts.headers.get(UPGRADE)?;
    let named =
        tokens(&parts.headers, &CONNECTION).any(|name| name.eq_ignore_ascii_case("upgrade"));
    // h2c is between neighbours, and refused by being passed over (RFC 9113 §3.1).
    let known =
        parts.version == Version::HTTP_11 && !wanted.as_bytes().eq_ignore_ascii_case(b"h2c");
    (named && known).then(|| wanted.clone())
}

/// True if a client wants fields behind the body.
fn takes_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &TE).any(|word| word.eq_ignore_ascii_case("trailers"))
}

/// The words of a comma-separated field.
fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Leaves a path for the target, and one host.
fn name_host(parts: &mut Parts) -> Result<(), BadRequest> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let named = hosts.next();
    if hosts.next().is_some() {
        return Err(BadRequest::TwoHosts);
    }
    if let Some(authority) = parts.uri.authority() {
        // User and password are not a host's.
        let host = authority.as_str().rsplit('@').next().unwrap_or_default();
        // In HTTP/1.1 the target's host counts, whatever the field says.
        let differs =
            || named.is_some_and(|named| !named.as_bytes().eq_ignore_ascii_case(host.as_bytes()));
        if parts.version == Version::HTTP_2 && differs() {
            return Err(BadRequest::TwoHosts);
        }
        let host = HeaderValue::from_str(host).map_err(|_| BadRequest::Target)?;
        parts.headers.insert(HOST, host);
        let path = parts.uri.path_and_query().cloned();
        let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
        parts.uri = Uri::from(path);
    } else if !parts.uri.path().starts_with('/') && parts.uri.path() != "*" {
        return Err(BadRequest::Target);
    }
    match parts.headers.get(HOST) {
        Some(host) if is_host(host.as_bytes()) => Ok(()),
        Some(_) => Err(BadRequest::NoSuchHost),
        None if parts.version == Version::HTTP_10 => {
            // HTTP/1.1, which servers are spoken to, needs the field, not a name in it.
            parts.headers.insert(HOST, HeaderValue::from_static(""));
            Ok(())
        }
        None => Err(BadRequest::NoHost),
    }
}

/// Returns true if this may name a host, and a port; nobody is named by nothing. A server of HTTP/2
/// is told it in the target, where signs that end a host would mean something else.
fn is_host(host: &[u8]) -> bool {
    host.is_empty() || (!host.contains(&b'@') && Authority::try_from(host).is_ok())
}

fn join_cookies(headers: &mut HeaderMap) {
    let mut cookies = headers.get_all(COOKIE).iter();
    if cookies.next().is_none() || cookies.next().is_none() {
        return;
    }
    let pieces: Vec<&[u8]> = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
    if let Ok(whole) = HeaderValue::from_bytes(&pieces.join(&b"; "[..])) {
        headers.insert(COOKIE, whole);
    }
}

#[cfg(test)]
mod tests;
