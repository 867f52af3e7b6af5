//! HTTP/2 clients that stop in the middle of something, and clients that come in crowds.

use super::*;
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// GET / of authority `a`.
const GET: &[u8] = b"\x82\x86\x84\x41\x01a";
/// POST / of authority `a`.
const POST: &[u8] = b"\x83\x86\x84\x41\x01a";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The next frame: kind, flags, stream, payload; `None` at the end.
fn read_frame(reader: &mut impl Read) -> Option<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    reader.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    reader.read_exact(&mut payload).ok()?;
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], head[4], stream, payload))
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.addresses[0]).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Times that are over soon, but for `keep_alive`.
fn hasty(servers: &[&Server]) -> Live {
    let mut live = live(servers);
    live.timeouts.header = Duration::from_millis(200);
    live.timeouts.first_byte = Duration::from_millis(200);
    live.timeouts.idle = Duration::from_millis(200);
    live.timeouts.keep_alive = PATIENCE;
    live
}

/// Three hundred such clients, with `connections = 300`, locked everybody out for ever.
#[test]
fn a_client_that_does_not_get_to_its_first_request_is_let_go() {
    let server = Server::saying("x");
    let proxy = proxy(hasty(&[&server]));
    let settings = frame(SETTINGS, 0, 0, b"");
    let beginnings: [&[u8]; 5] = [
        b"P",
        b"PRI * HTTP/2.0\r\n",
        PREFACE,
        &[PREFACE, &settings].concat(),
        &[PREFACE, &settings, &frame(HEADERS, 1, 1, b"\x82")].concat(),
    ];
    for beginning in beginnings {
        let mut stream = connect(&proxy);
        stream.write_all(beginning).unwrap();
        // A reset is an end too.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!(server.heads().is_empty());
    wait_until("all are gone", || proxy.admin().status().connections == 0);
}

#[test]
fn frames_that_are_no_request_do_not_keep_a_client() {
    let server = Server::saying("x");
    let proxy = proxy(hasty(&[&server]));
    let begun = [PREFACE, &frame(SETTINGS, 0, 0, b"")].concat();
    let half = [&begun[..], &frame(HEADERS, 1, 1, b"\x82")].concat();
    for (beginning, drip) in
        [(&begun, frame(PING, 0, 0, b"12345678")), (&half, frame(CONTINUATION, 0, 1, b""))]
    {
        let mut stream = connect(&proxy);
        stream.write_all(beginning).unwrap();
        // Until the proxy has closed.
        while stream.write_all(&drip).is_ok() {
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
    wait_until("all are gone", || proxy.admin().status().connections == 0);
}

#[test]
fn an_idle_client_of_http2_is_told_goodbye() {
    let server = Server::saying("x");
    let mut live = hasty(&[&server]);
    // Also the time for its own goodbye, which never comes.
    live.timeouts.header = Duration::from_secs(3);
    live.timeouts.keep_alive = Duration::from_millis(200);
    let proxy = proxy(live);
    let mut stream = connect(&proxy);
    let request = frame(HEADERS, 5, 1, GET);
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b""), &request].concat()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut kinds = Vec::new();
    while let Some((kind, ..)) = read_frame(&mut reader) {
        kinds.push(kind);
    }
    assert!(kinds.contains(&DATA), "the answer came: {kinds:?}");
    assert!(kinds.contains(&7), "GOAWAY came: {kinds:?}");
}

#[test]
fn a_body_that_never_comes_is_answered_with_408() {
    let server = Server::saying("x");
    let proxy = proxy(hasty(&[&server]));
    let mut stream = connect(&proxy);
    let request = frame(HEADERS, 4, 1, POST);
    stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, b""), &request].concat()).unwrap();
    let mut reader = BufReader::new(stream);
    let head = loop {
        let (kind, _, _, payload) = read_frame(&mut reader).expect("an answer");
        if kind == HEADERS {
            break payload;
        }
    };
    // HPACK: `:status` by its number in the static table, and `408` in Huffman's code.
    assert!(head.starts_with(b"\x48\x83\x68\x0f\x7f"), "{head:x?}");
    let backend = &proxy.admin().status().backends[0];
    assert_eq!((backend.counters.timed_out, backend.counters.abandoned), (0, 1));
}

#[test]
fn an_answer_that_a_client_does_not_take_is_given_up() {
    let server = Server::answering(|_, _| super::servers::ok(&"x".repeat(200_000)));
    let proxy = proxy(hasty(&[&server]));
    let mut stream = connect(&proxy);
    // The window of a stream is nothing at first.
    let settings = frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0");
    stream.write_all(&[PREFACE, &settings, &frame(HEADERS, 5, 1, GET)].concat()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (kind, flags, _, _) = read_frame(&mut reader).expect("the stream is reset");
        if kind == PING && flags == 0 {
            stream.write_all(&frame(PING, 1, 0, b"12345678")).unwrap();
        }
        if kind == RST_STREAM {
            break;
        }
    }
    wait_until("it is given up", || proxy.admin().status().backends[0].outstanding == 0);
    // The connection itself is as good as before: a window was given, and another request served.
    stream.write_all(&frame(SETTINGS, 0, 0, b"\0\x04\0\x0f\xff\xff")).unwrap();
    stream.write_all(&frame(HEADERS, 5, 3, GET)).unwrap();
    wait_until("the next is served", || proxy.admin().status().backends[0].counters.sent == 2);
}

#[test]
fn an_address_has_no_more_connections_than_it_may() {
    let server = Server::saying("x");
    let mut live = live(&[&server]);
    live.limits.client_connections_max = 3;
    let proxy = proxy(live);
    let mut clients: Vec<Client> = (0..3).map(|_| client(&proxy)).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.get("/").0, 200));
    assert_eq!(client(&proxy).rest(), b"", "the fourth is closed at once");
    assert_eq!(proxy.admin().status().connections_refused, 1);
    clients.pop();
    wait_until("one has gone", || proxy.admin().status().connections == 2);
    assert_eq!(client(&proxy).get("/").0, 200);
}

/// A server of HTTP/2 that answers each request with what `answer` makes of its stream's number.
fn answering(answer: fn(u32) -> Vec<u8>) -> Server {
    Server::new(move |mut connection| {
        let mut preface = [0; PREFACE.len()];
        if connection.reader.read_exact(&mut preface).is_err() {
            return;
        }
        connection.write(&frame(SETTINGS, 0, 0, b""));
        while let Some((kind, _, stream, _)) = read_frame(&mut connection.reader) {
            if kind == HEADERS {
                connection.write(&answer(stream));
            }
        }
    })
}

/// One that refuses streams before anything is done with them.
fn refusing() -> Server {
    answering(|stream| frame(RST_STREAM, 0, stream, &7u32.to_be_bytes()))
}

/// One that says 200 to everything.
fn agreeing() -> Server {
    answering(|stream| frame(HEADERS, 5, stream, b"\x88"))
}

#[test]
fn a_refused_stream_goes_elsewhere_and_ejects_nobody() {
    let (busy, free) = (refusing(), agreeing());
    let mut live = live(&[&busy, &free]);
    live.upstream.http2 = true;
    live.policy = "round-robin".to_string();
    live.settings.retry_share = 1.0;
    let proxy = proxy(live);
    let mut client = client(&proxy);
    let declined = || proxy.admin().status().backends[0].counters.declined;
    while declined() < 12 {
        // A POST may not be repeated, but nothing was done with this one.
        client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(clients::status(&client.head()), 200);
    }
    let backend = &proxy.admin().status().backends[0];
    assert_eq!((backend.state.as_str(), backend.counters.broken), ("up", 0));
}

/// The target of HTTP/2 could not be made of such a host, and the server was blamed: five of these
/// ejected it.
#[test]
fn a_host_that_is_none_is_refused_and_ejects_nobody() {
    let server = agreeing();
    let mut live = live(&[&server]);
    live.upstream.http2 = true;
    let proxy = proxy(live);
    for host in ["a b", "x/y", "a?b", "u@a", "a#b", "<a>"] {
        let mut client = client(&proxy);
        client.write(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(clients::status(&client.head()), 400, "{host}");
    }
    for host in ["", "a", "a:80", "[::1]:80", "10.0.0.1"] {
        let mut client = client(&proxy);
        client.write(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(clients::status(&client.head()), 200, "{host}");
    }
    let backend = &proxy.admin().status().backends[0];
    assert_eq!((backend.state.as_str(), backend.counters.broken), ("up", 0));
}

#[test]
fn tunnels_count_among_the_connections_of_an_address() {
    let server = Server::new(|mut connection| {
        connection.head();
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
        connection.write(head.as_bytes());
        let _ = connection.reader.read_to_end(&mut Vec::new());
    });
    let mut live = live(&[&server]);
    live.limits.client_connections_max = 3;
    let proxy = proxy(live);
    let switch = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
    let mut tunnels: Vec<Client> = (0..3).map(|_| client(&proxy)).collect();
    for tunnel in &mut tunnels {
        tunnel.write(switch);
        assert_eq!(clients::status(&tunnel.head()), 101);
    }
    assert_eq!(client(&proxy).rest(), b"", "the fourth is closed at once");
    tunnels.pop();
    wait_until("one has gone", || proxy.admin().status().connections == 2);
    let mut again = client(&proxy);
    again.write(switch);
    assert_eq!(clients::status(&again.head()), 101);
}
