//! Changes while requests are under way: another configuration, drains, the end.

use super::servers::ok;
use super::*;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};

#[test]
fn configurations_change_under_load_without_a_failed_request() {
    let servers = [(); 4].map(|()| Server::saying("x"));
    let proxy = proxy(live(&[&servers[0], &servers[1]]));
    let (address, over) = (proxy.addresses[0], Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || {
                let (mut client, mut asked) = (Client::new(address), 0);
                while !over.load(SeqCst) {
                    assert_eq!(client.get("/"), (200, "x".to_string()));
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    let policies = ["water-fill", "least", "rand", "jiq", "ara"];
    for round in 0..40 {
        let (one, other) = (round % 4, (round + 1) % 4);
        let mut next = live(&[&servers[one], &servers[other]]);
        next.policy = policies[round % 5].to_string();
        next.backends[0].weight = 1.0 + round as f64;
        next.upstream.idle_max = 1 + round / 10;
        proxy.reload(&next).unwrap();
        let before = proxy.admin().status().requests;
        wait_until("some more came", || proxy.admin().status().requests > before + 20);
    }
    over.store(true, SeqCst);
    let asked: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert_eq!(proxy.admin().status().requests, asked);
}

#[test]
fn a_configuration_that_cannot_be_changes_nothing() {
    let server = Server::saying("x");
    let proxy = proxy(live(&[&server]));
    let mut wrong = live(&[&server]);
    wrong.policy = "lest".to_string();
    assert!(proxy.reload(&wrong).unwrap_err().to_string().contains("lest"));
    let mut wrong = live(&[]);
    wrong.access_log = Some(thermocline_proxy::config::AccessLog::File("/nowhere/at/all".into()));
    assert!(proxy.reload(&wrong).is_err());
    assert_eq!(proxy.admin().status().backends.len(), 1);
    assert_eq!(client(&proxy).get("/").0, 200);
}

#[test]
fn a_drained_server_finishes_what_it_has_and_gets_nothing() {
    let barrier = Arc::new(Barrier::new(2));
    let of = barrier.clone();
    let server = Server::answering(move |head, _| {
        if head.contains("/slow") {
            of.wait();
        }
        ok("slow")
    });
    let other = Server::saying("other");
    let proxy = proxy(live(&[&server]));
    let mut waiting = client(&proxy);
    waiting.write("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || proxy.admin().status().backends[0].outstanding == 1);
    proxy.reload(&live(&[&server, &other])).unwrap();
    assert_eq!(proxy.admin().drain(&server.name()).unwrap().state, "draining");
    let mut client = client(&proxy);
    assert!((0..20).all(|_| client.get("/").1 == "other"));
    barrier.wait();
    assert_eq!(waiting.answer().1, "slow");
    assert_ne!(proxy.admin().undrain(&server.name()).unwrap().state, "draining");
    let hint = proxy.admin().drain("127.0.0.1").unwrap_err();
    assert_eq!(hint.status, 404);
}

#[test]
fn a_proxy_that_stops_finishes_what_is_under_way_and_takes_nothing_new() {
    let barrier = Arc::new(Barrier::new(2));
    let of = barrier.clone();
    let server = Server::answering(move |head, _| {
        if head.contains("/slow") {
            of.wait();
        }
        ok("done")
    });
    let proxy = proxy(live(&[&server]));
    let (address, admin) = (proxy.addresses[0], proxy.admin());
    let (mut idle, mut new) = (client(&proxy), client(&proxy));
    assert_eq!(idle.get("/").0, 200);
    wait_until("both are let in", || admin.status().connections == 2);
    let mut busy = client(&proxy);
    busy.write("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || admin.status().backends[0].outstanding == 1);
    let stopping = std::thread::spawn(move || proxy.stop());
    assert_eq!(idle.rest(), b"", "an idle client is let go at once");
    wait_until("nobody listens", || std::net::TcpStream::connect(address).is_err());
    assert_eq!(new.get("/"), (200, "done".to_string()), "who was let in may ask once");
    assert_eq!(new.rest(), b"");
    barrier.wait();
    let (head, body) = busy.answer();
    assert_eq!(body, "done", "{head}");
    assert!(stopping.join().unwrap(), "nothing was cut off");
}

/// A connection that had been accepted and was not counted yet was cut off without an answer when
/// its proxy stopped in that moment.
#[test]
fn proxies_follow_each_other_on_one_socket_and_answer_whoever_was_let_in() {
    let server = Server::saying("x");
    let mut proxy = proxy(live(&[&server]));
    let (address, over) = (proxy.addresses[0], Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let over = over.clone();
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    assert_eq!(Client::new(address).get("/"), (200, "x".to_string()));
                }
            })
        })
        .collect();
    for round in 0..100 {
        let sockets = proxy.listeners().unwrap();
        let next = Proxy::start(&config(live(&[&server]), Mode::Http), round, sockets).unwrap();
        assert!(proxy.stop(), "nothing was cut off");
        proxy = next;
        let admin = proxy.admin();
        let dead = || clients.iter().any(|client| client.is_finished());
        wait_until("some came", || admin.status().requests > 4 || dead());
    }
    over.store(true, SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
}

#[test]
fn what_does_not_finish_is_cut_off_when_the_time_is_up() {
    let server = Server::new(|mut connection| while connection.head().is_some() {});
    let mut live = live(&[&server]);
    live.timeouts.drain = Duration::from_millis(50);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || proxy.admin().status().backends[0].outstanding == 1);
    assert!(!proxy.stop());
    assert_eq!(client.rest(), b"");
}

#[test]
fn the_access_log_tells_each_request_once_and_no_secrets() {
    let server = Server::saying("hello");
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut live = live(&[&server]);
    let to = thermocline_proxy::config::AccessLog::File(file.path().to_path_buf());
    live.access_log = Some(to);
    let proxy = proxy(live);
    let request = "GET /path?key=hunter2 HTTP/1.1\r\nHost: shop\r\nAuthorization: hunter2\r\nCookie: hunter2\r\n\r\n";
    let mut client = client(&proxy);
    assert_eq!(client.ask(request).0, 200);
    client.write("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(client.answer().0.split(' ').nth(1), Some("400"));
    let lines = Mutex::new(Vec::new());
    wait_until("both are written", || {
        let text = std::fs::read_to_string(file.path()).unwrap();
        *lines.lock().unwrap() = text.lines().map(str::to_string).collect();
        lines.lock().unwrap().len() == 2 && text.ends_with('\n')
    });
    let lines = lines.into_inner().unwrap();
    assert!(!lines.concat().contains("hunter2"), "{lines:?}");
    let first: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(first["path"], "/path");
    assert_eq!((&first["status"], &first["bytes"]), (&200.into(), &5.into()));
    assert_eq!(first["backend"], server.name());
    let second: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(second["error"], "the request names no host");
}
