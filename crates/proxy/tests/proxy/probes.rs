//! Probes out of band: real servers are asked how busy they are, and requests go where it is quiet.

use super::servers::{field, ok};
use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use thermocline_proxy::config::Probe;

/// Answers of a server with a load, and counts of the questions.
#[derive(Default)]
struct Told {
    queue: AtomicU64,
    probes: AtomicU64,
    requests: AtomicU64,
}

/// A server that tells its load at `/load` and serves everything else.
fn loaded(queue: u64) -> (Server, Arc<Told>) {
    let told = Arc::new(Told { queue: queue.into(), ..Told::default() });
    let of = told.clone();
    let server = Server::answering(move |head, _| {
        if head.starts_with("GET /load ") {
            of.probes.fetch_add(1, SeqCst);
            let queue = of.queue.load(SeqCst);
            return ok(&format!("{{\"queue\": {queue}, \"latency_s\": 0.001}}"));
        }
        of.requests.fetch_add(1, SeqCst);
        ok("served")
    });
    (server, told)
}

fn probing(servers: &[&Server], policy: &str) -> Live {
    let mut live = live(servers);
    live.policy = policy.to_string();
    live.probe = Some(Probe { timeout: Duration::from_secs(30), ..Probe::new("/load") });
    live
}

#[test]
fn requests_go_to_the_server_that_probes_find_quiet() {
    let (quiet, told_quiet) = loaded(0);
    let (busy, told_busy) = loaded(50);
    let proxy = proxy(probing(&[&quiet, &busy], "prequal:mode=sync:probes=2"));
    let mut client = client(&proxy);
    for _ in 0..40 {
        assert_eq!(client.get("/").1, "served");
    }
    assert_eq!([told_quiet.requests.load(SeqCst), told_busy.requests.load(SeqCst)], [40, 0]);
    // It changes, and the next request knows: it waits for its answers.
    told_quiet.queue.store(90, SeqCst);
    assert_eq!(client.get("/").1, "served");
    assert_eq!(told_busy.requests.load(SeqCst), 1);
    assert_eq!(told_busy.probes.load(SeqCst), 41);
    let status = proxy.admin().status();
    assert_eq!((status.requests, status.probes.sent, status.probes.answered), (41, 82, 82));
    let served: u64 = status.backends.iter().map(|backend| backend.counters.served).sum();
    assert_eq!(served, 41, "probes are no requests");
    assert!(status.backends.iter().all(|backend| backend.outstanding == 0));
}

#[test]
fn probes_keep_their_connections_and_do_not_hold_requests_up() {
    let (server, told) = loaded(3);
    let proxy = proxy(probing(&[&server], "prequal"));
    let mut client = client(&proxy);
    for sent in 1..=30 {
        assert_eq!(client.get("/").1, "served");
        wait_until("it is answered", || proxy.admin().status().probes.answered == sent);
    }
    assert_eq!(told.probes.load(SeqCst), 30);
    let connections = server.accepted.load(SeqCst);
    assert_eq!(connections, 2, "one of requests and one of probes");
}

#[test]
fn the_field_of_an_answer_tells_as_well_and_what_is_no_report_is_counted() {
    let is_good = Arc::new(AtomicBool::new(true));
    let of = is_good.clone();
    let server = Server::answering(move |head, _| match head.starts_with("GET /load ") {
        false => ok("served"),
        true if of.load(SeqCst) => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nThermocline-Load: \
                                    queue=4, latency=0.002\r\n\r\nxx"
            .to_string(),
        true => ok("busy, thanks"),
    });
    let proxy = proxy(probing(&[&server], "water-fill:probes=1"));
    let mut client = client(&proxy);
    assert_eq!(client.get("/").1, "served");
    wait_until("it is used", || proxy.admin().status().probes.answered == 1);
    is_good.store(false, SeqCst);
    assert_eq!(client.get("/").1, "served");
    wait_until("it is counted", || proxy.admin().status().probes.failed == 1);
    let status = proxy.admin().status();
    assert_eq!(status.backends[0].counters.broken, 0, "no server fails by its probes");
    assert_eq!(status.backends[0].state, "up");
}

#[test]
fn a_server_that_does_not_answer_probes_is_late_and_requests_are_served() {
    let server = Server::new(|mut connection| {
        while let Some(head) = connection.head() {
            if !head.starts_with("GET /load ") {
                connection.write(ok("served").as_bytes());
            }
        }
    });
    let mut live = probing(&[&server], "prequal:mode=sync:probes=1");
    live.probe.as_mut().unwrap().timeout = Duration::from_millis(20);
    let proxy = proxy(live);
    let mut client = client(&proxy);
    for late in 1..=5 {
        assert_eq!(client.get("/").1, "served");
        wait_until("it is late", || proxy.admin().status().probes.late == late);
    }
    assert_eq!(proxy.admin().status().backends[0].counters.served, 5);
}

#[test]
fn no_more_probes_of_a_server_are_under_way_than_may_be() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let of = gate.clone();
    let server = Server::answering(move |head, _| {
        if head.starts_with("GET /load ") {
            let (is_open, opened) = &*of;
            let guard = opened.wait_while(is_open.lock().unwrap(), |is_open| !*is_open);
            drop(guard.unwrap());
        }
        ok("{\"queue\": 1}")
    });
    let mut live = probing(&[&server], "prequal");
    live.probe.as_mut().unwrap().under_way_max = 2;
    let proxy = proxy(live);
    let mut client = client(&proxy);
    for _ in 0..6 {
        assert_eq!(client.get("/").0, 200);
    }
    wait_until("four are too many", || {
        let probes = proxy.admin().status().probes;
        (probes.sent, probes.skipped) == (2, 4)
    });
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    wait_until("the two are answered", || proxy.admin().status().probes.answered == 2);
}

#[test]
fn without_a_path_nobody_is_probed_and_a_reload_begins_it() {
    let (server, told) = loaded(1);
    let mut live = probing(&[&server], "water-fill");
    let probe = live.probe.take();
    let proxy = proxy(live.clone());
    let mut client = client(&proxy);
    (0..5).for_each(|_| assert_eq!(client.get("/").0, 200));
    assert_eq!((told.probes.load(SeqCst), proxy.admin().status().probes.sent), (0, 0));
    live.probe = probe;
    proxy.reload(&live).unwrap();
    assert_eq!(client.get("/").0, 200);
    wait_until("it is answered", || proxy.admin().status().probes.answered == 1);
    let heads = server.heads();
    let probe = heads.iter().find(|head| head.starts_with("GET /load ")).unwrap();
    assert_eq!(field(probe, "user-agent"), Some("thermocline-balance"));
}
