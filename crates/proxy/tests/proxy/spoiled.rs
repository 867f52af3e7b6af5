//! Clients that spoil their own requests: no server is to blame.

use super::clients::status;
use super::servers::ok;
use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const UPLOAD: &str = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhello";

/// Says `ok` to what comes whole.
fn patient() -> Server {
    Server::answering(|_, _| ok("ok"))
}

/// All servers are up, and this many requests were their clients' fault.
fn assert_blameless(proxy: &Proxy, abandoned: u64) {
    let told = || proxy.admin().status().backends.iter().map(|b| b.counters.abandoned).sum::<u64>();
    wait_until("all are counted", || told() == abandoned);
    for backend in proxy.admin().status().backends {
        let counters = backend.counters;
        assert_eq!((backend.state.as_str(), counters.ejections), ("up", 0), "{counters:?}");
        assert_eq!((counters.broken, counters.timed_out), (0, 0), "{counters:?}");
        assert_eq!(backend.last_error, None);
    }
}

/// 100 uploads that were broken off within two seconds ejected five of ten healthy servers.
#[test]
fn uploads_that_clients_break_off_eject_nobody() {
    let servers: Vec<Server> = (0..4).map(|_| patient()).collect();
    let proxy = proxy(live(&servers.iter().collect::<Vec<_>>()));
    for round in 0..60 {
        let mut client = client(&proxy);
        client.write(UPLOAD);
        let began = || proxy.admin().status().requests == round + 1;
        wait_until("it has come", began);
        drop(client);
    }
    assert_blameless(&proxy, 60);
    assert_eq!(client(&proxy).get("/").0, 200);
}

#[test]
fn a_body_that_is_no_http_is_answered_with_400_and_ejects_nobody() {
    let (one, other) = (patient(), patient());
    let proxy = proxy(live(&[&one, &other]));
    let chunks = ["zz\r\nhello\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "fffffffffffffffff\r\n"];
    for round in 0..12 {
        let mut client = client(&proxy);
        let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.write(format!("{head}{}", chunks[round % 3]));
        assert_eq!(status(&client.head()), 400, "{:?}", chunks[round % 3]);
    }
    assert_blameless(&proxy, 12);
}

#[test]
fn an_upload_that_stalls_is_answered_with_408_and_ejects_nobody() {
    let server = patient();
    let mut live = live(&[&server]);
    live.timeouts.first_byte = Duration::from_millis(200);
    let proxy = proxy(live);
    let mut clients: Vec<Client> = (0..8).map(|_| client(&proxy)).collect();
    clients.iter_mut().for_each(|client| client.write(UPLOAD));
    for client in &mut clients {
        let (head, text) = client.answer();
        assert_eq!(status(&head), 408, "{text}");
        assert_eq!(text, "the client took too long to send its request\n");
        assert_eq!(client.rest(), b"", "nothing can follow half a request");
    }
    assert_blameless(&proxy, 8);
}

/// The other way round: what the client sends is there, and the server does not take it.
#[test]
fn a_server_that_does_not_take_an_upload_is_to_blame() {
    let over = Arc::new(AtomicBool::new(false));
    let of = over.clone();
    let server = Server::new(move |mut connection| {
        connection.head();
        while !of.load(SeqCst) {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    });
    let mut live = live(&[&server]);
    live.timeouts.first_byte = Duration::from_millis(300);
    live.settings.outliers.consecutive = 0;
    let proxy = proxy(live);
    let mut client = client(&proxy);
    client.write("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    let mut sender = client.reader.get_ref().try_clone().unwrap();
    let sending =
        std::thread::spawn(
            move || {
                while std::io::Write::write_all(&mut sender, &[b'x'; 65536]).is_ok() {}
            },
        );
    assert_eq!(status(&client.head()), 504);
    assert_eq!(proxy.admin().status().backends[0].counters.timed_out, 1);
    over.store(true, SeqCst);
    drop(client);
    drop(proxy);
    sending.join().unwrap();
}

/// A client stops sending while much of what it sent still waits for a slow server: nothing came
/// for `first-byte`, and the server that took byte after byte all the time was blamed with 504.
#[test]
fn a_client_that_stops_sending_to_a_slow_server_is_to_blame() {
    /// Bytes that the server takes in a second.
    const RATE: f64 = 3_000_000.0;
    let server = Server::new(|mut connection| {
        connection.head();
        let (since, mut taken, mut piece) = (Instant::now(), 0, vec![0; 32 * 1024]);
        loop {
            while (taken as f64) < RATE * since.elapsed().as_secs_f64() {
                match std::io::Read::read(connection.reader.get_mut(), &mut piece) {
                    Ok(count @ 1..) => taken += count,
                    _ => return,
                }
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    });
    let mut live = live(&[&server]);
    live.timeouts.first_byte = Duration::from_secs(1);
    live.settings.outliers.consecutive = 0;
    let proxy = proxy(live);
    let mut client = client(&proxy);
    client.write("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\n");
    client.write(vec![b'x'; 12 << 20]);
    let (head, text) = client.answer();
    assert_eq!(
        (status(&head), text.as_str()),
        (408, "the client took too long to send its request\n")
    );
    assert_blameless(&proxy, 1);
}

/// The answer has begun when the client breaks its upload off.
#[test]
fn an_upload_that_breaks_off_behind_an_early_answer_ejects_nobody() {
    let server = Server::new(|mut connection| {
        connection.head();
        connection.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
        // Until the proxy hangs up.
        let _ = std::io::Read::read_to_end(&mut connection.reader, &mut Vec::new());
    });
    let proxy = proxy(live(&[&server]));
    for _ in 0..8 {
        let mut client = client(&proxy);
        client.write(UPLOAD);
        assert_eq!(status(&client.head()), 200);
        drop(client);
    }
    assert_blameless(&proxy, 8);
}

/// A server that answers before it has the whole request, and closes with some of it unread: its
/// kernel resets the connection. What it said is passed on, and it is not to blame.
#[test]
fn a_server_that_answers_early_and_closes_is_heard() {
    let server = Server::new(|mut connection| {
        if connection.head().is_some() {
            connection.write(
                b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno",
            );
        }
    });
    let proxy = proxy(live(&[&server]));
    let mut heard = 0;
    for _ in 0..30 {
        let mut client = client(&proxy);
        client.write("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
        let mut sender = client.reader.get_ref().try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut sender, &[b'x'; 300_000]);
        });
        // The proxy, too, closes with some of it unread: this client may be reset itself.
        let mut head = String::new();
        let _ = std::io::BufRead::read_line(&mut client.reader, &mut head);
        assert!(head.is_empty() || head.starts_with("HTTP/1.1 413 "), "{head}");
        heard += u32::from(!head.is_empty());
        drop(client);
        sending.join().unwrap();
    }
    let backend = &proxy.admin().status().backends[0];
    assert_eq!((backend.counters.broken, backend.counters.ejections), (0, 0), "{backend:?}");
    assert!(heard > 0, "no client heard the answer");
}

/// An answer that comes to its end while a slow client still takes it was cut off after
/// `keep-alive`.
#[test]
fn a_slow_reader_gets_the_whole_answer() {
    let server = Server::answering(|_, _| ok(&"x".repeat(4_000_000)));
    let mut live = live(&[&server]);
    live.timeouts.keep_alive = Duration::from_millis(300);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(status(&client.head()), 200);
    let (mut piece, mut got) = (vec![0; 64 * 1024], 0);
    while got < 4_000_000 {
        let count = std::io::Read::read(&mut client.reader, &mut piece).unwrap();
        assert!(count > 0, "it was cut off after {got} bytes");
        got += count;
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
