//! Where messages end, and what stands behind their bodies.

use super::clients::status;
use super::servers::{field, ok, read_body, read_head};
use super::*;
use std::sync::Mutex;

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

/// `CL: 2` with a chunk `hello` came out as `he`, `CL: 5` with a chunk `ok` as nothing.
#[test]
fn an_answer_with_a_length_and_chunks_is_what_its_chunks_say() {
    for (length, text) in [(2, "hello"), (5, "ok"), (0, "hello")] {
        let server = Server::new(move |mut connection| {
            while connection.request().is_some() {
                let size = text.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{CHUNKED}\r\n");
                connection.write(format!("{head}{size:x}\r\n{text}\r\n0\r\n\r\n").as_bytes());
            }
        });
        let proxy = proxy(live(&[&server]));
        let mut client = client(&proxy);
        for _ in 0..3 {
            client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
            let (head, body) = client.answer();
            assert_eq!((status(&head), body.as_str()), (200, text), "{head}");
            assert_eq!(field(&head, "content-length"), None);
        }
        let accepted = server.accepted.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(accepted, 3, "a connection whose messages end in two ways is not used again");
    }
}

#[test]
fn transfer_codings_but_chunks_are_not_understood() {
    let server = Server::answering(|head, _| {
        if head.contains("/coded") {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n".into()
        } else {
            ok("ok")
        }
    });
    let proxy = proxy(live(&[&server]));
    for coding in ["gzip, chunked", "chunked, chunked", "identity, chunked"] {
        let mut client = client(&proxy);
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\n\r\n");
        client.write(format!("{head}0\r\n\r\n"));
        assert_eq!(status(&client.head()), 501, "{coding}");
    }
    assert!(server.heads().is_empty());
    assert_eq!(client(&proxy).get("/coded").0, 502, "nobody asked for it");
    assert_eq!(client(&proxy).ask(&chunked_get()), (200, "ok".to_string()));
}

fn chunked_get() -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{CHUNKED}\r\n5\r\nhello\r\n0\r\n\r\n")
}

#[test]
fn a_get_with_a_body_in_chunks_keeps_it() {
    let server = Server::answering(|_, body| ok(std::str::from_utf8(body).unwrap()));
    let proxy = proxy(live(&[&server]));
    assert_eq!(client(&proxy).ask(&chunked_get()), (200, "hello".to_string()));
}

/// The fields behind a body in chunks.
fn trailers(reader: &mut impl std::io::BufRead, head: &str) -> String {
    assert!(field(head, "transfer-encoding").is_some(), "{head}");
    let mut line = String::new();
    loop {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if line == "0\r\n" {
            return read_head(reader).unwrap();
        }
        reader.read_line(&mut line).unwrap(); // the bytes of tests have no ends of lines
    }
}

#[test]
fn trailers_that_were_announced_pass_both_ways() {
    let seen = std::sync::Arc::new(Mutex::new(String::new()));
    let of = seen.clone();
    let server = Server::new(move |mut connection| {
        let head = connection.head().unwrap();
        *of.lock().unwrap() = trailers(&mut connection.reader, &head);
        let head = format!("HTTP/1.1 200 OK\r\n{CHUNKED}Trailer: X-Sum, X-More\r\n\r\n");
        connection.write(format!("{head}2\r\nok\r\n0\r\nX-Sum: 7\r\nX-More: 8\r\n\r\n").as_bytes());
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTrailer: X-T\r\n";
    client.write(format!("{head}{CHUNKED}\r\n5\r\nhello\r\n0\r\nX-T: v\r\nHost: evil\r\n\r\n"));
    let head = client.head();
    let behind = trailers(&mut client.reader, &head).to_ascii_lowercase();
    assert_eq!((field(&behind, "x-more"), behind.contains("x-sum: 7")), (Some("8"), true));
    let seen = seen.lock().unwrap().to_ascii_lowercase();
    assert!(seen.contains("x-t: v") && !seen.contains("evil"), "{seen}");
}

#[test]
fn trailers_that_a_client_does_not_want_are_left_out() {
    let server = Server::answering(|_, _| {
        let head = format!("HTTP/1.1 200 OK\r\n{CHUNKED}Trailer: X-Sum\r\n\r\n");
        format!("{head}2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n")
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert_eq!(trailers(&mut client.reader, &head), "\r\n");
    assert_eq!(client.get("/").0, 200);
}

#[test]
fn heads_may_have_as_many_fields_as_is_configured() {
    let fields = |count| (0..count).map(|at| format!("X-{at}: 1\r\n")).collect::<String>();
    let server = Server::answering(move |_, _| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{}\r\nok", fields(180))
    });
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", fields(180));
    for (fields_max, expected) in [(100, 431), (200, 200)] {
        let mut live = live(&[&server]);
        live.limits.fields_max = fields_max;
        let proxy = proxy(live);
        let mut client = client(&proxy);
        client.write(&request);
        let head = client.head();
        assert_eq!(status(&head), expected, "{fields_max}: {head}");
        if expected == 200 {
            assert_eq!(read_body(&mut client.reader, &head).unwrap(), b"ok");
        }
    }
}

#[test]
fn early_hints_come_before_the_answer() {
    let (told, tell) = std::sync::mpsc::channel::<()>();
    let tell = Mutex::new(tell);
    let server = Server::new(move |mut connection| {
        while connection.head().is_some() {
            let hint =
                "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: x\r\nX: 1\r\n\r\n";
            connection.write(hint.as_bytes());
            // The answer comes when the client has seen the hint.
            if tell.lock().unwrap().recv().is_err() {
                return;
            }
            connection.write(ok("ok").as_bytes());
        }
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    for _ in 0..3 {
        client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let hint = client.head();
        assert!(hint.starts_with("HTTP/1.1 103 Early Hints\r\n"), "{hint}");
        assert_eq!((field(&hint, "link"), field(&hint, "x")), (Some("</a.css>"), None));
        told.send(()).unwrap();
        assert_eq!(client.answer().1, "ok");
    }
    // HTTP/1.0 knows no interim answers.
    told.send(()).unwrap();
    client.write("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(status(&client.head()), 200);
}
