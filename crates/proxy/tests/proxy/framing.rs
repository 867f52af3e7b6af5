//! Ends of messages, and the trailers behind their bodies.

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
    assert_eq!((behind.contains("x-more: 8"), behind.contains("x-sum: 7")), (true, true));
    let seen = seen.lock().unwrap().to_ascii_lowercase();
    assert!(seen.contains("x-t: v") && !seen.contains("evil"), "{seen}");
}

/// hyper drops fields that `Trailer` did not announce, and a proxy cannot announce what it does not
/// know yet. What broke the rest of the exchange: a request whose answer ended in trailers counted
/// as given up by its client, and the server's connection was not used again.
#[test]
fn trailers_that_nobody_announced_pass_both_ways() {
    let seen = std::sync::Arc::new(Mutex::new(Vec::new()));
    let of = seen.clone();
    let server = Server::new(move |mut connection| {
        while let Some(head) = connection.head() {
            of.lock().unwrap().push(trailers(&mut connection.reader, &head));
            let head = format!("HTTP/1.1 200 OK\r\n{CHUNKED}\r\n");
            let body = "2\r\nok\r\n0\r\nX-Sum: 7\r\nX-Sum: 8\r\n\r\n";
            connection.write(format!("{head}{body}").as_bytes());
        }
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n";
    for round in 0..3 {
        client.write(format!("{head}{CHUNKED}\r\n5\r\nhello\r\n0\r\nX-T: {round}\r\n\r\n"));
        let head = client.head();
        let behind = trailers(&mut client.reader, &head);
        assert_eq!(behind, "x-sum: 7\r\nx-sum: 8\r\n\r\n", "{head}");
    }
    assert_eq!(*seen.lock().unwrap(), [0, 1, 2].map(|round| format!("x-t: {round}\r\n\r\n")));
    assert_eq!(server.accepted.load(std::sync::atomic::Ordering::SeqCst), 1);
    let counters = proxy.admin().status().backends[0].counters;
    assert_eq!((counters.served, counters.abandoned), (3, 0), "{counters:?}");
}

/// A reader that joins them with the head would read the next message in another way.
#[test]
fn fields_that_belong_into_a_head_do_not_stand_behind_a_body() {
    let evil = "Content-Length: 40\r\nTransfer-Encoding: chunked\r\nHost: evil\r\n\
                Connection: close\r\nX-Forwarded-For: 6.6.6.6\r\nX-Fine: 1\r\n";
    let seen = std::sync::Arc::new(Mutex::new(String::new()));
    let of = seen.clone();
    let server = Server::new(move |mut connection| {
        let head = connection.head().unwrap();
        *of.lock().unwrap() = trailers(&mut connection.reader, &head);
        let head = format!("HTTP/1.1 200 OK\r\n{CHUNKED}\r\n");
        connection.write(format!("{head}2\r\nok\r\n0\r\n{evil}\r\n").as_bytes());
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n";
    client.write(format!("{head}{CHUNKED}\r\n5\r\nhello\r\n0\r\n{evil}\r\n"));
    let head = client.head();
    assert_eq!(trailers(&mut client.reader, &head), "x-fine: 1\r\n\r\n");
    assert_eq!(*seen.lock().unwrap(), "x-fine: 1\r\n\r\n");
}

/// Big bodies, requests without waiting, and a body with a length that ends as one in chunks would:
/// what is left for one body must not come into another.
#[test]
fn trailers_stay_with_their_message() {
    const SIZE: usize = 300_000;
    let server = Server::new(move |mut connection| {
        while let Some((head, body)) = connection.request() {
            if field(&head, "x-last").is_some() {
                // Bytes that look like the end of a body in chunks.
                let body = "0\r\n\r\n";
                connection.write(ok(body).as_bytes());
                continue;
            }
            let size = body.len();
            let head = format!("HTTP/1.1 200 OK\r\n{CHUNKED}\r\n{size:x}\r\n");
            connection.write(head.as_bytes());
            connection.write(&body);
            connection.write(b"\r\n0\r\nX-Sum: 7\r\n\r\n");
        }
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    let mut sender = client.reader.get_ref().try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let body = "0\r\n\r\n".repeat(SIZE / 5);
        let size = body.len();
        let te = "TE: trailers\r\nConnection: TE\r\n";
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{te}{CHUNKED}\r\n{size:x}\r\n");
        let last = format!("GET /last HTTP/1.1\r\nHost: a\r\n{te}X-Last: 1\r\n\r\n");
        for _ in 0..4 {
            let request = format!("{head}{body}\r\n0\r\nX-T: 1\r\n\r\n{last}");
            std::io::Write::write_all(&mut sender, request.as_bytes()).unwrap();
        }
    });
    for _ in 0..4 {
        let head = client.head();
        assert_eq!(status(&head), 200);
        let body = read_body(&mut client.reader, &head).unwrap();
        assert!(body == "0\r\n\r\n".repeat(SIZE / 5).as_bytes(), "{}", body.len());
        let (head, body) = client.answer();
        assert_eq!((field(&head, "content-length"), body.as_str()), (Some("5"), "0\r\n\r\n"));
    }
    sending.join().unwrap();
    assert_eq!(server.accepted.load(std::sync::atomic::Ordering::SeqCst), 1);
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
