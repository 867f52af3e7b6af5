//! Servers that die, hang and talk rubbish, and clients that are slow.

use super::clients::status;
use super::servers::field;
use super::*;
use std::net::TcpListener;
use std::sync::atomic::Ordering::SeqCst;

/// An address at which nobody listens.
fn nobody() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// A server that reads a request and hangs up.
fn hanging_up() -> Server {
    Server::new(|mut connection| {
        connection.request();
    })
}

fn without_ejection(mut live: Live) -> Live {
    live.settings.outliers.consecutive = 0;
    live
}

#[test]
fn a_server_that_is_not_there_costs_nothing_but_a_retry() {
    let server = Server::saying("here");
    let mut live = live(&[&server]);
    live.backends.push(Backend::new(&nobody().to_string()));
    let proxy = proxy(live);
    let mut client = client(&proxy);
    for _ in 0..50 {
        assert_eq!(client.get("/"), (200, "here".to_string()));
    }
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(client.ask(post).0, 200, "nothing of it had been sent");
    let dead = &proxy.admin().status().backends[1];
    assert!(dead.counters.unreachable > 0 && dead.counters.unreachable < 10, "{dead:?}");
    assert_eq!(dead.state, "ejected");
}

#[test]
fn without_any_server_a_sentence_says_so() {
    let mut live = Live::new(vec![Backend::new(&nobody().to_string())]);
    live.settings.retries_max = 0;
    let proxy = proxy(live);
    let mut client = client(&proxy);
    let (status, text) = client.get("/");
    assert_eq!((status, text.as_str()), (502, "no server could be reached\n"));
    proxy.admin().drain(&proxy.admin().status().backends[0].name).unwrap();
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, text) = client.answer();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(
        (field(&head, "retry-after"), text.as_str()),
        (Some("1"), "no server is there to answer\n")
    );
}

#[test]
fn what_may_be_repeated_goes_elsewhere_and_what_may_not_is_told() {
    let (bad, good) = (hanging_up(), Server::saying("good"));
    let proxy = proxy(without_ejection(live(&[&bad, &good])));
    let mut client = client(&proxy);
    while bad.accepted.load(SeqCst) < 3 {
        assert_eq!(client.get("/"), (200, "good".to_string()));
    }
    let (mut seen, before) = ([0, 0], bad.heads().len());
    for _ in 0..200 {
        match client.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody") {
            (200, _) => seen[0] += 1,
            (502, text) => {
                assert!(text.contains("broke the connection off"), "{text}");
                seen[1] += 1;
            }
            other => panic!("{other:?}"),
        }
        if seen[1] == 3 {
            break;
        }
    }
    assert_eq!(seen[1], 3, "{seen:?}");
    assert_eq!(bad.heads().len() - before, 3, "none was sent there twice");
}

#[test]
fn an_answer_that_breaks_off_is_cut_off_and_not_completed() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let server = Server::new(move |mut connection| {
            connection.head();
            connection.write(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\nhello").as_bytes());
        });
        let proxy = proxy(live(&[&server]));
        let mut client = client(&proxy);
        client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(status(&client.head()), 200);
        let rest = String::from_utf8(client.rest()).unwrap();
        assert!(
            rest.contains("hello") && rest.len() < 20 && !rest.contains("0\r\n\r\n"),
            "{rest:?}"
        );
        wait_until("it is counted", || proxy.admin().status().backends[0].counters.broken == 1);
    }
}

#[test]
fn an_answer_that_is_none_is_told_and_counted() {
    for garbage in [
        "\x00\x01\x02\x03 garbage \r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    ] {
        let server = Server::new(move |mut connection| {
            connection.head();
            connection.write(garbage.as_bytes());
        });
        let mut live = live(&[&server]);
        live.settings.retries_max = 0;
        let proxy = proxy(live);
        let (status, text) = client(&proxy).get("/");
        assert_eq!(status, 502, "{garbage:?}: {text}");
        assert_eq!(proxy.admin().status().backends[0].counters.broken, 1, "{garbage:?}");
    }
}

#[test]
fn a_server_that_hangs_is_given_up_and_ejected() {
    let hanging = Server::new(|mut connection| while connection.head().is_some() {});
    let good = Server::saying("good");
    let mut live = live(&[&hanging, &good]);
    // Enough for the good server on a busy machine.
    live.timeouts.first_byte = Duration::from_millis(500);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    let mut late = 0;
    while proxy.admin().status().backends[0].state == "up" {
        match client.get("/") {
            (200, _) => {}
            (504, text) => {
                assert_eq!(text, "the server took too long to answer\n");
                late += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((late, proxy.admin().status().backends[0].counters.timed_out), (5, 5));
    assert!((0..20).all(|_| client.get("/").0 == 200));
}

#[test]
fn an_answer_that_stops_is_cut_off() {
    let server = Server::new(|mut connection| {
        connection.head();
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbeginning");
        connection.head();
    });
    let mut live = live(&[&server]);
    live.timeouts.idle = Duration::from_millis(100);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.rest(), b"beginning");
    wait_until("it is given back", || proxy.admin().status().backends[0].outstanding == 0);
}

#[test]
fn a_client_that_dawdles_with_its_head_is_let_go() {
    let server = Server::saying("x");
    let mut live = live(&[&server]);
    live.timeouts.header = Duration::from_millis(100);
    live.timeouts.keep_alive = PATIENCE;
    let proxy = proxy(live);
    let mut silent = client(&proxy);
    assert_eq!(silent.rest(), b"", "it never said anything");
    let mut slow = client(&proxy);
    slow.write("GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ");
    assert_eq!(slow.rest(), b"");
    let mut second = client(&proxy);
    assert_eq!(second.get("/").0, 200);
    second.write("GET / HTTP/1.1\r\nHo");
    assert_eq!(second.rest(), b"");
    assert_eq!(server.heads().len(), 1);
    wait_until("all are gone", || proxy.admin().status().connections == 0);
}

#[test]
fn an_idle_client_is_let_go() {
    let server = Server::saying("x");
    let mut live = live(&[&server]);
    live.timeouts.keep_alive = Duration::from_millis(100);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    assert_eq!(client.get("/").0, 200);
    assert_eq!(client.rest(), b"");
}

#[test]
fn a_server_that_closes_between_requests_fails_none() {
    let server = Server::new(|mut connection| {
        // It says nothing of closing.
        if connection.request().is_some() {
            connection.write(super::servers::ok("once").as_bytes());
        }
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    for _ in 0..100 {
        assert_eq!(client.get("/"), (200, "once".to_string()));
    }
    let counters = proxy.admin().status().backends[0].counters;
    assert_eq!((counters.served, counters.broken), (100, 0));
}

#[test]
fn a_client_that_goes_away_takes_its_request_along() {
    let server = Server::new(|mut connection| while connection.head().is_some() {});
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it is there", || proxy.admin().status().backends[0].outstanding == 1);
    drop(client);
    wait_until("it is given up", || proxy.admin().status().backends[0].outstanding == 0);
    let backend = &proxy.admin().status().backends[0];
    assert_eq!((backend.counters.abandoned, backend.state.as_str()), (1, "up"));
}

#[test]
fn a_whole_request_has_its_limit() {
    let server = Server::new(|mut connection| {
        connection.head();
        connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
        while std::io::Write::write_all(connection.reader.get_mut(), b".").is_ok() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
    });
    let mut live = live(&[&server]);
    live.timeouts.request = Some(Duration::from_millis(300));
    let proxy = proxy(live);
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert!(!client.rest().is_empty(), "it moved all the time, and ended all the same");
}

#[test]
fn each_try_may_have_its_own_limit() {
    let hanging = Server::new(|mut connection| while connection.head().is_some() {});
    let good = Server::saying("good");
    let mut live = without_ejection(live(&[&hanging, &good]));
    live.policy = "round-robin".to_string();
    live.timeouts.each_try = Some(Duration::from_millis(300));
    let proxy = proxy(live);
    let mut client = client(&proxy);
    while proxy.admin().status().backends[0].counters.timed_out < 3 {
        assert_eq!(client.get("/"), (200, "good".to_string()));
    }
}

#[test]
fn why_a_server_cannot_be_reached_is_told() {
    let server = Server::saying("here");
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut live = live(&[&server]);
    live.backends.push(Backend::new(&nobody().to_string()));
    let to = thermocline_proxy::config::AccessLog::File(file.path().to_path_buf());
    live.access_log = Some(to);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    while proxy.admin().status().backends[1].state != "ejected" {
        assert_eq!(client.get("/").0, 200);
    }
    let error = proxy.admin().status().backends[1].last_error.clone().unwrap();
    assert!(error.text.contains("cannot be reached: Connection refused"), "{error:?}");
    let events = || proxy.admin().events(0);
    let told = |text: &str| events().iter().any(|event| event.text.contains(text));
    wait_until("an event says why", || {
        told("left alone for 10 s; the last one: cannot be reached")
    });
    let log = || std::fs::read_to_string(file.path()).unwrap();
    wait_until("the log says why", || log().contains("\"cause\":\"cannot be reached: Conn"));
    assert_eq!(proxy.admin().status().backends[0].last_error, None);
}

#[test]
fn every_address_of_a_name_is_tried() {
    // `localhost` has two addresses where there is IPv6; the server listens on one of them.
    let server = Server::saying("here");
    let name = format!("localhost:{}", server.address.port());
    let proxy = proxy(Live::new(vec![Backend::new(&name)]));
    assert_eq!(client(&proxy).get("/"), (200, "here".to_string()));
}
