//! Duties of an HTTP proxy when nothing goes wrong.

use super::clients::status;
use super::servers::{field, ok, read_body};
use super::*;
use std::io::Read;
use std::sync::atomic::Ordering::SeqCst;

#[test]
fn connections_are_kept_on_both_sides() {
    let server = Server::saying("hello");
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    for _ in 0..20 {
        assert_eq!(client.get("/"), (200, "hello".to_string()));
    }
    assert_eq!(server.accepted.load(SeqCst), 1);
    let status = proxy.admin().status();
    assert_eq!((status.requests, status.accepted), (20, 1));
    assert_eq!(status.backends[0].counters.served, 20);
}

#[test]
fn a_server_is_told_the_path_the_host_and_the_client_and_nothing_of_the_hop() {
    let server = Server::saying("");
    let proxy = proxy(live(&[&server]));
    let request = "GET /a%2Fb/../c?x=%20;y HTTP/1.1\r\nHost: shop.example\r\nConnection: x-hop\r\n\
                   X-Hop: 1\r\nX-Forwarded-For: 6.6.6.6\r\nAccept: */*\r\n\r\n";
    assert_eq!(client(&proxy).ask(request).0, 200);
    let head = server.heads().remove(0);
    assert!(head.starts_with("GET /a%2Fb/../c?x=%20;y HTTP/1.1\r\n"), "{head}");
    assert_eq!(field(&head, "host"), Some("shop.example"));
    assert_eq!(field(&head, "x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(field(&head, "x-forwarded-proto"), Some("http"));
    assert_eq!(field(&head, "accept"), Some("*/*"));
    assert_eq!((field(&head, "connection"), field(&head, "x-hop")), (None, None));
}

#[test]
fn big_bodies_stream_both_ways_by_length_and_in_chunks() {
    const SIZE: usize = 20 << 20;
    let server = Server::new(|mut connection| {
        while let Some((head, body)) = connection.request() {
            assert_eq!(body.len(), SIZE);
            assert!(body.iter().enumerate().all(|(at, byte)| *byte == at as u8));
            if field(&head, "transfer-encoding").is_none() {
                connection
                    .write(format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes());
                connection.write(&body);
                continue;
            }
            connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            for piece in body.chunks(100_000) {
                connection.write(format!("{:x}\r\n", piece.len()).as_bytes());
                connection.write(piece);
                connection.write(b"\r\n");
            }
            connection.write(b"0\r\n\r\n");
        }
    });
    let proxy = proxy(live(&[&server]));
    let body: Vec<u8> = (0..SIZE).map(|at| at as u8).collect();
    let mut client = client(&proxy);
    client.write(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {SIZE}\r\n\r\n"));
    client.write(&body);
    let head = client.head();
    assert!(read_body(&mut client.reader, &head).unwrap() == body);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for piece in body.chunks(77_777) {
        client.write(format!("{:x}\r\n", piece.len()));
        client.write(piece);
        client.write("\r\n");
    }
    client.write("0\r\n\r\n");
    let head = client.head();
    assert!(read_body(&mut client.reader, &head).unwrap() == body);
    assert_eq!(server.accepted.load(SeqCst), 1, "the connection was kept after each");
}

#[test]
fn a_client_that_does_not_read_stops_the_server_and_not_the_memory() {
    const MOST: usize = 64 << 20;
    let (tell, told) = std::sync::mpsc::channel();
    let server = Server::new(move |mut connection| {
        connection.head();
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        let stream = connection.reader.get_mut();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let (block, mut written) = (vec![0; 1 << 16], 0);
        while let Ok(count) = std::io::Write::write(stream, &block) {
            written += count;
            if written > MOST {
                break;
            }
        }
        tell.send(written).unwrap();
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let written = told.recv_timeout(PATIENCE).unwrap();
    assert!(written < MOST, "the server could send {written} bytes to nobody");
    let mut start = [0; 1000];
    client.reader.read_exact(&mut start).unwrap();
}

#[test]
fn answers_without_a_body_end_where_they_must() {
    let server = Server::answering(|head, _| {
        match head.split(' ').nth(1).unwrap() {
            "/head" => "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 77\r\n\r\n",
            "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
            "/empty" => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            _ => "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        }
        .to_string()
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("HEAD /head HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert_eq!((status(&head), field(&head, "content-length")), (200, Some("1000")));
    client.write("GET /304 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert_eq!((status(&head), field(&head, "etag")), (304, Some("\"x\"")));
    client.write("GET /204 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert_eq!(status(&head), 204);
    assert_eq!(field(&head, "transfer-encoding"), None);
    assert_eq!(client.get("/empty"), (200, String::new()));
    assert_eq!(client.get("/last"), (103, String::new()), "all stayed in step");
    assert_eq!(client.answer().1, "ok");
    assert_eq!(server.accepted.load(SeqCst), 1);
}

#[test]
fn a_body_that_waits_for_leave_gets_it() {
    let server = Server::answering(|head, body| {
        assert_eq!(field(head, "expect"), None);
        ok(std::str::from_utf8(body).unwrap())
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    let leave = client.head();
    assert_eq!(status(&leave), 100);
    client.write("hello");
    assert_eq!(client.answer().1, "hello");
}

#[test]
fn an_answer_before_the_body_is_passed_on() {
    let server = Server::new(|mut connection| {
        connection.head();
        connection
            .write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        let _ = connection.reader.read_to_end(&mut Vec::new());
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nbeginning");
    let (head, body) = client.answer();
    assert_eq!((status(&head), body.as_str()), (413, "no"));
}

#[test]
fn requests_in_a_row_without_waiting_are_answered_in_order() {
    let server = Server::answering(|head, _| ok(head.split(' ').nth(1).unwrap()));
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    let requests: String =
        (0..10).map(|at| format!("GET /{at} HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    client.write(requests);
    for at in 0..10 {
        assert_eq!(client.answer().1, format!("/{at}"));
    }
}

#[test]
fn an_old_client_is_served_and_closed() {
    let server = Server::saying("hello");
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.0\r\n\r\n");
    let answer = String::from_utf8(client.rest()).unwrap();
    assert!(answer.starts_with("HTTP/1.0 200") && answer.ends_with("hello"), "{answer}");
    assert!(server.heads()[0].starts_with("GET / HTTP/1.1"));
}

#[test]
fn an_upgrade_becomes_a_tunnel_whose_sides_end_by_themselves() {
    let server = Server::new(|mut connection| {
        let head = connection.head().unwrap();
        assert_eq!(field(&head, "upgrade"), Some("echo"));
        assert_eq!(field(&head, "connection"), Some("upgrade"));
        connection.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ",
        );
        let mut all = Vec::new();
        connection.reader.read_to_end(&mut all).unwrap();
        connection.write(&all);
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n",
    );
    let head = client.head();
    assert_eq!((status(&head), field(&head, "upgrade")), (101, Some("echo")));
    assert_eq!(proxy.admin().status().backends[0].outstanding, 1);
    client.write("one two three");
    client.close_writing();
    assert_eq!(client.rest(), b"early one two three");
    wait_until("the tunnel is over", || proxy.admin().status().backends[0].outstanding == 0);
    assert_eq!(proxy.admin().status().backends[0].counters.served, 1);
}

#[test]
fn many_clients_at_once_are_spread_over_all_servers() {
    let servers = [(); 4].map(|()| Server::saying("x"));
    let proxy = proxy(live(&[&servers[0], &servers[1], &servers[2], &servers[3]]));
    let address = proxy.addresses[0];
    let clients: Vec<_> = (0..16)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(address);
                (0..50).all(|_| client.get("/").0 == 200)
            })
        })
        .collect();
    assert!(clients.into_iter().all(|client| client.join().unwrap()));
    let status = proxy.admin().status();
    assert!(status.backends.iter().all(|backend| backend.counters.served > 50), "{status:?}");
    assert!(status.backends.iter().all(|backend| backend.outstanding == 0));
}
