//! The proxy with real sockets: clients and servers of raw bytes on both sides of it.

// A test that cannot go on stops where it is; clippy does not see that these functions are tests'.
#![allow(clippy::unwrap_used)]

mod changing;
mod clients;
mod curl;
mod encrypted;
mod failing;
mod framing;
mod http;
mod loads;
mod probes;
mod servers;
mod smuggling;
mod spoiled;
mod stalled;
mod streams;
mod tcp;

use clients::Client;
use servers::Server;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use thermocline_proxy::Proxy;
use thermocline_proxy::config::{Backend, Config, Listen, Live, Mode};

/// A test that waits longer than this for something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Configuration of a proxy before these servers, by default.
fn live(servers: &[&Server]) -> Live {
    Live::new(servers.iter().map(|server| Backend::new(&server.address.to_string())).collect())
}

fn config(live: Live, mode: Mode) -> Config {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listen = vec![Listen { address, mode, tls: None }];
    Config { listen, threads: 1, connections_max: 1000, live }
}

/// A proxy for HTTP.
fn proxy(live: Live) -> Proxy {
    Proxy::start(&config(live, Mode::Http), 7, Vec::new()).unwrap()
}

fn client(proxy: &Proxy) -> Client {
    Client::new(proxy.addresses[0])
}

/// Waits until something is so.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
