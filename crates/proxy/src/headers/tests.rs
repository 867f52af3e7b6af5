//! Heads as clients and servers send them, and what becomes of them.

use super::*;
use hyper::Request;
use hyper::header::{ACCEPT, CONTENT_LENGTH};

fn told(parts: &mut Parts, forwarded: Forwarded) -> Result<Option<HeaderValue>, BadRequest> {
    let caller = Caller {
        address: HeaderValue::from_static("192.0.2.1"),
        protocol: HeaderValue::from_static("https"),
    };
    to_server(parts, &caller, forwarded)
}

/// A request's head: method and target, and fields as `name: value`.
fn head(request: &str, fields: &[&str]) -> Parts {
    let (method, target) = request.split_once(' ').unwrap();
    let mut builder = Request::builder().method(method).uri(target);
    for field in fields {
        let (name, value) = field.split_once(": ").unwrap();
        builder = builder.header(name, value);
    }
    builder.body(()).unwrap().into_parts().0
}

fn fields(headers: &HeaderMap) -> Vec<String> {
    let told =
        |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
    let mut fields: Vec<String> = headers.iter().map(told).collect();
    fields.sort();
    fields
}

/// Head that a server gets of `GET /` with these fields, its host aside.
fn sent(these: &[&str]) -> Vec<String> {
    let mut parts = head("GET /", &[&["host: a"], these].concat());
    told(&mut parts, Forwarded::Keep).unwrap();
    parts.headers.remove(HOST);
    fields(&parts.headers)
}

#[test]
fn what_is_between_neighbours_stays_there() {
    let gone = [
        "connection: keep-alive, X-Secret",
        "x-secret: 1",
        "keep-alive: timeout=5",
        "proxy-connection: keep-alive",
        "transfer-encoding: chunked",
        "proxy-authorization: Basic eA==",
        "upgrade: h2c",
        "expect: 100-continue",
        "te: deflate",
    ];
    assert_eq!(sent(&gone), [""; 0]);
    assert_eq!(sent(&["accept: */*", "te: trailers, deflate"]), ["accept: */*", "te: trailers"]);
    assert_eq!(sent(&["connection: TE", "te: trailers"]), ["te: trailers"]);
    assert_eq!(sent(&["trailer: x-sum"]), ["trailer: x-sum"], "it is the whole way's");
}

#[test]
fn hops_are_in_their_places() {
    assert!(HOPS.iter().all(|(text, name)| name == text));
    let coding = (Hops::CODING, TRANSFER_ENCODING);
    let places = [(Hops::CONNECTION, CONNECTION), (Hops::TE, TE), (Hops::UPGRADE, UPGRADE), coding];
    for (hop, name) in places {
        let headers = HeaderMap::from_iter([(name, HeaderValue::from_static("x"))]);
        assert_eq!(Hops::of(&headers).0, hop.0);
    }
}

#[test]
fn a_connection_field_cannot_take_away_host_and_length() {
    let mut parts =
        head("POST /", &["host: a", "content-length: 3", "connection: host, content-length"]);
    told(&mut parts, Forwarded::Keep).unwrap();
    assert_eq!(fields(&parts.headers), ["content-length: 3", "host: a"]);
    assert_eq!(parts.headers[CONTENT_LENGTH], "3");
}

#[test]
fn an_upgrade_is_asked_for_again() {
    let wanted = ["host: a", "connection: keep-alive, Upgrade", "upgrade: websocket", "accept: x"];
    let mut parts = head("GET /chat", &wanted);
    let upgrade = told(&mut parts, Forwarded::Keep).unwrap();
    assert_eq!(upgrade.unwrap(), "websocket");
    let told = ["accept: x", "connection: upgrade", "host: a", "upgrade: websocket"];
    assert_eq!(fields(&parts.headers), told);
    assert_eq!(sent(&["upgrade: websocket"]), [""; 0], "`Connection` does not name it");
    assert_eq!(sent(&["connection: upgrade, http2-settings", "upgrade: h2c"]), [""; 0]);
}

#[test]
fn a_whole_uri_becomes_a_path_and_its_host_counts() {
    let mut parts = head("GET http://user@b.example:81/x?y=/%2e%2e", &["host: a"]);
    told(&mut parts, Forwarded::Keep).unwrap();
    assert_eq!(parts.uri, "/x?y=/%2e%2e");
    assert_eq!(fields(&parts.headers), ["host: b.example:81"]);
    let mut parts = head("OPTIONS *", &["host: a"]);
    told(&mut parts, Forwarded::Keep).unwrap();
    assert_eq!(parts.uri, "*");
}

#[test]
fn one_host_is_needed_and_no_connect() {
    let refused =
        |request, fields: &[&str]| told(&mut head(request, fields), Forwarded::Keep).unwrap_err();
    assert_eq!(refused("GET /", &[]), BadRequest::NoHost);
    assert_eq!(refused("GET /", &["host: a", "host: b"]), BadRequest::TwoHosts);
    assert_eq!(refused("CONNECT a:443", &["host: a"]), BadRequest::Connect);
    let mut old = head("GET /", &[]);
    old.version = Version::HTTP_10;
    told(&mut old, Forwarded::Keep).unwrap();
    assert_eq!((old.version, fields(&old.headers)), (Version::HTTP_11, vec!["host: ".to_string()]));
}

#[test]
fn two_hosts_are_refused_over_http_2_too() {
    let host = |version, request, fields: &[&str]| {
        let mut parts = head(request, fields);
        parts.version = version;
        told(&mut parts, Forwarded::Keep).map(|_| parts.headers[HOST].clone())
    };
    let whole = "GET http://A.example/";
    assert_eq!(host(Version::HTTP_2, whole, &[]).unwrap(), "A.example");
    assert_eq!(host(Version::HTTP_2, whole, &["host: a.example"]).unwrap(), "A.example");
    assert_eq!(host(Version::HTTP_2, whole, &["host: b.example"]), Err(BadRequest::TwoHosts));
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let twice = ["host: a.example", "host: a.example"];
        assert_eq!(host(version, whole, &twice), Err(BadRequest::TwoHosts));
    }
}

#[test]
fn a_length_is_passed_on_once() {
    let lengths = ["content-length: 3", "content-length: 3", "content-length: 3"];
    assert_eq!(sent(&lengths), ["content-length: 3"]);
    let mut answer = head("GET /", &lengths).headers;
    assert_eq!(to_client(&mut answer, false), Ok(Framing::Plain));
    assert_eq!(fields(&answer), ["content-length: 3"]);
    let differing = ["host: a", "content-length: 3", "content-length: 3", "content-length: 4"];
    let mut request = head("POST /", &differing);
    assert_eq!(told(&mut request, Forwarded::Keep), Err(BadRequest::TwoLengths));
    let mut answer = head("GET /", &differing).headers;
    assert_eq!(to_client(&mut answer, false), Err(BadAnswer::TwoLengths));
}

#[test]
fn what_servers_are_told_of_clients_is_as_configured() {
    let came = ["host: a", "x-forwarded-for: 10.0.0.9", "x-forwarded-proto: http"];
    let told = |forwarded| {
        let mut parts = head("GET /", &came);
        told(&mut parts, forwarded).unwrap();
        parts.headers.remove(HOST);
        fields(&parts.headers)
    };
    let replaced = ["x-forwarded-for: 192.0.2.1", "x-forwarded-proto: https"];
    assert_eq!(told(Forwarded::Replace), replaced);
    let both =
        ["x-forwarded-for: 10.0.0.9", "x-forwarded-for: 192.0.2.1", "x-forwarded-proto: http"];
    assert_eq!(told(Forwarded::Append), both);
    assert_eq!(told(Forwarded::Keep), ["x-forwarded-for: 10.0.0.9", "x-forwarded-proto: http"]);
}

#[test]
fn cookies_in_pieces_are_joined_for_http_1() {
    let mut parts = head("GET /", &["host: a", "cookie: a=1", "cookie: b=2"]);
    parts.version = Version::HTTP_2;
    told(&mut parts, Forwarded::Keep).unwrap();
    assert_eq!(fields(&parts.headers), ["cookie: a=1; b=2", "host: a"]);
}

#[test]
fn answers_lose_their_hops_and_keep_a_switch() {
    let answer =
        ["connection: close, x-hop", "x-hop: 1", "transfer-encoding: chunked", "accept: a"];
    let mut headers = head("GET /", &answer).headers;
    assert_eq!(to_client(&mut headers, false), Ok(Framing::Plain));
    assert_eq!(headers.len(), 1);
    assert!(headers.contains_key(ACCEPT));
    let mut headers = head("GET /", &["connection: Upgrade", "upgrade: websocket"]).headers;
    to_client(&mut headers, true).unwrap();
    assert_eq!(fields(&headers), ["connection: upgrade", "upgrade: websocket"]);
}
