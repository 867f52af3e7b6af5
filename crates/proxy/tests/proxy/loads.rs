//! Limits, load reports and health checks.

use super::servers::{field, ok};
use super::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use thermocline_balancer::Checks;
use thermocline_proxy::config::Poll;
use thermocline_proxy::report::LoadReportJson;
use thermocline_units::Nanos;

#[test]
fn a_limit_is_kept_and_who_waits_is_served_in_turn() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (of, at_most) = (now.clone(), most.clone());
    let server = Server::answering(move |_, _| {
        let there = of.fetch_add(1, SeqCst) + 1;
        at_most.fetch_max(there, SeqCst);
        std::thread::park_timeout(Duration::from_millis(1));
        of.fetch_sub(1, SeqCst);
        ok("x")
    });
    let mut live = live(&[&server]);
    live.backends[0].requests_max = 3;
    live.settings.queue_patience = Nanos::from_secs(60);
    let proxy = proxy(live);
    let address = proxy.addresses[0];
    let clients: Vec<_> = (0..20)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(address);
                (0..20).all(|_| client.get("/").0 == 200)
            })
        })
        .collect();
    assert!(clients.into_iter().all(|client| client.join().unwrap()));
    assert!((1..=3).contains(&most.load(SeqCst)), "{most:?}");
}

/// A server at work on a request, and another that waits in the only place.
struct Waiting {
    server: Server,
    /// Lets the server answer once.
    barrier: Arc<Barrier>,
    proxy: Proxy,
    first: Client,
    second: Client,
}

fn waiting() -> Waiting {
    let barrier = Arc::new(Barrier::new(2));
    let of = barrier.clone();
    let server = Server::answering(move |_, _| {
        of.wait();
        ok("x")
    });
    let mut live = live(&[&server]);
    live.backends[0].requests_max = 1;
    live.settings.queue_max = 1;
    live.settings.queue_patience = Nanos::from_secs(60);
    let proxy = proxy(live);
    let request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let (mut first, mut second) = (client(&proxy), client(&proxy));
    first.write(request);
    wait_until("it is there", || proxy.admin().status().backends[0].outstanding == 1);
    second.write(request);
    wait_until("it waits", || proxy.admin().status().waiting == 1);
    Waiting { server, barrier, proxy, first, second }
}

#[test]
fn who_finds_no_place_to_wait_is_told() {
    let Waiting { server: _server, barrier, proxy, mut first, mut second } = waiting();
    let (status, text) = client(&proxy).get("/");
    assert_eq!((status, text.starts_with("all servers are busy")), (503, true), "{text}");
    let third = proxy.admin().status();
    assert_eq!((third.turned_away, third.waiting), (1, 1));
    barrier.wait();
    assert_eq!(first.answer().1, "x");
    barrier.wait();
    assert_eq!(second.answer().1, "x");
}

#[test]
fn who_waits_and_goes_away_leaves_its_place() {
    let Waiting { server: _server, barrier, proxy, mut first, second } = waiting();
    drop(second);
    wait_until("it has gone", || proxy.admin().status().waiting == 0);
    barrier.wait();
    assert_eq!(first.answer().1, "x");
    wait_until("nothing is left", || proxy.admin().status().backends[0].outstanding == 0);
}

#[test]
fn a_report_with_an_answer_is_used_and_not_passed_on() {
    let server = Server::answering(|_, _| {
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nThermocline-Load: queue=5, balancers=3\r\n\r\n"
            .to_string()
    });
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, _) = client.answer();
    assert_eq!(field(&head, "thermocline-load"), None);
    let status = proxy.admin().status();
    assert_eq!((status.backends[0].report.unwrap().queue, status.balancers), (5, 3));
}

#[test]
fn a_report_that_is_fetched_or_pushed_is_used() {
    let server = Server::answering(|head, _| match head.starts_with("GET /load ") {
        true => ok("{\"queue\": 9, \"arrivals\": 100, \"balancers\": 2}"),
        false => ok("x"),
    });
    let mut with_poll = live(&[&server]);
    with_poll.poll = Some(Poll { path: "/load".to_string(), interval: Duration::from_millis(50) });
    let polled = proxy(with_poll);
    wait_until("it is fetched", || polled.admin().status().backends[0].report.is_some());
    let report = polled.admin().status().backends[0].report.unwrap();
    assert_eq!(report.queue, 9);
    let pushed = proxy(live(&[&server]));
    let push = LoadReportJson { queue: 4, arrivals: 0, balancers: 1, age_s: 0.0 };
    pushed.admin().report(&server.name(), &push).unwrap();
    assert_eq!(pushed.admin().status().backends[0].report.unwrap().queue, 4);
    let absurd = LoadReportJson { queue: 1 << 40, ..push };
    let refused = pushed.admin().report(&server.name(), &absurd).unwrap_err();
    assert_eq!(refused.status, 422);
    let unknown = pushed.admin().report("127.0.0.1:1", &push).unwrap_err();
    assert!(unknown.status == 404 && unknown.message.contains("there is no backend"));
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    let fit = Arc::new(AtomicBool::new(true));
    let of = fit.clone();
    let server = Server::answering(move |head, _| {
        match !head.starts_with("GET /health ") || of.load(SeqCst) {
            true => ok("x"),
            false => "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_string(),
        }
    });
    let other = Server::saying("other");
    let mut live = live(&[&server, &other]);
    let interval = Nanos::from_micros(50_000);
    live.settings.checks = Some(Checks { interval, ..Checks::default() });
    live.check.path = Some("/health".to_string());
    let proxy = proxy(live);
    let state = || proxy.admin().status().backends[0].state.clone();
    wait_until("both are up", || proxy.admin().status().backends.iter().all(|b| b.state == "up"));
    fit.store(false, SeqCst);
    wait_until("it is down", || state() == "down");
    let mut client = client(&proxy);
    assert!((0..20).all(|_| client.get("/").1 == "other"));
    fit.store(true, SeqCst);
    wait_until("it is back", || state() != "down");
    let told: Vec<String> = proxy.admin().events(0).into_iter().map(|event| event.text).collect();
    wait_until("all is told", || proxy.admin().events(0).len() >= told.len());
    assert!(told.contains(&"checks fail; the last one: answered 503".to_string()), "{told:?}");
}

#[test]
fn the_past_and_the_metrics_tell_what_was_done() {
    let server = Server::saying("x");
    let proxy = proxy(live(&[&server]));
    let mut client = client(&proxy);
    assert!((0..10).all(|_| client.get("/").0 == 200));
    let sent = || -> u64 {
        let seconds = proxy.admin().history(0);
        seconds.iter().flat_map(|second| &second.backends).map(|backend| backend.sent).sum()
    };
    wait_until("a second has ended", || sent() == 10);
}
