//! Costs of a tunnel beside those of a bare TLS relay: processor time (user and system) of both
//! ends, which are this process, for bytes that another process makes and takes.
//!
//! `cargo run --release -p thermocline-gateway --example cost -- ROUNDS MIB POLICY…`
//!
//! In each round every kind runs once, in turn: `relay` (TCP, TLS 1.3, TCP; nothing else), and a
//! tunnel by each POLICY. Bytes are noise, or those of the file that COST_FILE names, once a round
//! with what was sent before kept in the caches.
#![allow(clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thermocline_gateway::{
    Common, EnterConfig, ExitConfig, Gateway, KeyFiles, WhenDown, make_keys,
};
use thermocline_tunnel::Sharing;
use thermocline_units::{Bytes, Rng};

/// Ticks of processor time in a second, as Linux tells them to every program.
const TICKS: f64 = 100.0;

/// Processor time of this process, seconds.
fn spent() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat")
        .expect("a measurement stops at what does not work");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .expect("a measurement stops at what does not work")
        .split_whitespace()
        .collect();
    (fields[11].parse::<f64>().expect("a measurement stops at what does not work")
        + fields[12].parse::<f64>().expect("a measurement stops at what does not work"))
        / TICKS
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status")
        .expect("a measurement stops at what does not work");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .expect("a measurement stops at what does not work");
    line.split_whitespace()
        .nth(1)
        .expect("a measurement stops at what does not work")
        .parse()
        .expect("a measurement stops at what does not work")
}

/// The other process: a server that says its bytes to whoever comes, and clients of `listener`.
fn feed(arguments: &[String]) {
    let (bytes, file) = (
        arguments[0].parse::<usize>().expect("a measurement stops at what does not work"),
        std::env::var("COST_FILE").ok(),
    );
    let listener =
        TcpListener::bind("127.0.0.1:0").expect("a measurement stops at what does not work");
    println!("{}", listener.local_addr().expect("a measurement stops at what does not work"));
    std::thread::spawn(move || {
        let content = file
            .map(|file| std::fs::read(file).expect("a measurement stops at what does not work"));
        for (seed, stream) in listener.incoming().enumerate() {
            let (mut stream, mut left) =
                (stream.expect("a measurement stops at what does not work"), bytes);
            let mut rng = Rng::seeded(seed as u64 + std::process::id() as u64);
            let mut noise = vec![0; 1 << 16];
            while left > 0 {
                let part = match &content {
                    Some(content) => &content[..],
                    None => {
                        for word in noise.chunks_exact_mut(8) {
                            word.copy_from_slice(&rng.next_u64().to_le_bytes());
                        }
                        &noise[..]
                    }
                };
                let part = &part[..part.len().min(left)];
                stream.write_all(part).expect("a measurement stops at what does not work");
                left -= part.len();
            }
        }
    });
    for line in std::io::stdin().lines() {
        let mut stream =
            TcpStream::connect(line.expect("a measurement stops at what does not work"))
                .expect("a measurement stops at what does not work");
        let (mut buffer, mut got) = (vec![0; 1 << 18], 0);
        loop {
            match stream.read(&mut buffer).expect("a measurement stops at what does not work") {
                0 => break,
                length => got += length,
            }
        }
        assert_eq!(got, bytes, "bytes that came");
        println!("{got}");
    }
}

struct Feeder {
    child: Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    server: SocketAddr,
}

impl Feeder {
    fn start(bytes: usize) -> Feeder {
        let mut command = Command::new(
            std::env::current_exe().expect("a measurement stops at what does not work"),
        );
        command.args(["feed", &bytes.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a measurement stops at what does not work");
        let out = std::io::BufReader::new(
            child.stdout.take().expect("a measurement stops at what does not work"),
        );
        let mut lines = std::io::BufRead::lines(out);
        let server = lines
            .next()
            .expect("a measurement stops at what does not work")
            .expect("a measurement stops at what does not work")
            .parse()
            .expect("a measurement stops at what does not work");
        Feeder { child, lines, server }
    }

    /// Processor time and time that a transfer through `listener` takes here.
    fn fetch(&mut self, listener: SocketAddr) -> (f64, f64) {
        let (before, began) = (spent(), Instant::now());
        writeln!(
            self.child.stdin.as_mut().expect("a measurement stops at what does not work"),
            "{listener}"
        )
        .expect("a measurement stops at what does not work");
        self.lines
            .next()
            .expect("a measurement stops at what does not work")
            .expect("a measurement stops at what does not work");
        (spent() - before, began.elapsed().as_secs_f64())
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// TLS 1.3 by the same library and suites as a tunnel's.
fn tls() -> (rustls::ServerConfig, rustls::ClientConfig) {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = rcgen::KeyPair::generate().expect("a measurement stops at what does not work");
    let names = vec!["relay".to_string()];
    let certificate = rcgen::CertificateParams::new(names)
        .expect("a measurement stops at what does not work")
        .self_signed(&pair)
        .expect("a measurement stops at what does not work");
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.serialize_der())
        .expect("a measurement stops at what does not work");
    let of_server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a measurement stops at what does not work")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("a measurement stops at what does not work");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.der().clone()).expect("a measurement stops at what does not work");
    let of_client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a measurement stops at what does not work")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (of_server, of_client)
}

/// Two ends that do nothing but TLS; where clients come in.
fn bare_relay(server: SocketAddr) -> SocketAddr {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a measurement stops at what does not work");
    let (of_server, of_client) = tls();
    let (listener, middle) = runtime.block_on(async {
        let bind = || tokio::net::TcpListener::bind("127.0.0.1:0");
        (
            bind().await.expect("a measurement stops at what does not work"),
            bind().await.expect("a measurement stops at what does not work"),
        )
    });
    let (address, middle_at) = (
        listener.local_addr().expect("a measurement stops at what does not work"),
        middle.local_addr().expect("a measurement stops at what does not work"),
    );
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(of_server));
    let connector = tokio_rustls::TlsConnector::from(Arc::new(of_client));
    let size = 1 << 16;
    std::thread::spawn(move || {
        runtime.block_on(async move {
            tokio::spawn(async move {
                while let Ok((stream, _)) = middle.accept().await {
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        let mut near = acceptor
                            .accept(stream)
                            .await
                            .expect("a measurement stops at what does not work");
                        let mut far = tokio::net::TcpStream::connect(server)
                            .await
                            .expect("a measurement stops at what does not work");
                        let copy = tokio::io::copy_bidirectional_with_sizes;
                        let _ = copy(&mut near, &mut far, size, size).await;
                    });
                }
            });
            while let Ok((mut near, _)) = listener.accept().await {
                let connector = connector.clone();
                tokio::spawn(async move {
                    let stream = tokio::net::TcpStream::connect(middle_at)
                        .await
                        .expect("a measurement stops at what does not work");
                    let name = rustls::pki_types::ServerName::try_from("relay")
                        .expect("a measurement stops at what does not work");
                    let mut far = connector
                        .connect(name, stream)
                        .await
                        .expect("a measurement stops at what does not work");
                    let copy = tokio::io::copy_bidirectional_with_sizes;
                    let _ = copy(&mut near, &mut far, size, size).await;
                });
            }
        });
    });
    address
}

fn tunnel(server: SocketAddr, policy: &str, folder: &std::path::Path) -> (Gateway, Gateway) {
    let common = |own: &str, peer: &str| {
        let file = |name: &str, ending: &str| folder.join(format!("{name}.{ending}"));
        let keys = KeyFiles { key: file(own, "key"), peers: vec![file(peer, "pub")] };
        let mut common = Common::new(keys);
        common.policy = policy.to_string();
        common.cache = Bytes::from_mib(256);
        common
    };
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let allow = vec!["127.0.0.1:*".parse().expect("a measurement stops at what does not work")];
    let exit = ExitConfig { common: common("exit", "enter"), listen: any, allow };
    let exit = Gateway::exit(exit).expect("a measurement stops at what does not work");
    let enter = Gateway::enter(EnterConfig {
        common: common("enter", "exit"),
        to: exit.addresses[0]
            .to_string()
            .parse()
            .expect("a measurement stops at what does not work"),
        forward: vec![(
            any,
            server.to_string().parse().expect("a measurement stops at what does not work"),
        )],
        socks5: Vec::new(),
        transparent: Vec::new(),
        when_down: WhenDown::Refuse,
        sharing: Sharing::Class,
    });
    let enter = enter.expect("a measurement stops at what does not work");
    while !enter.status().links.first().is_some_and(|link| link.is_up) {
        std::thread::sleep(Duration::from_millis(5));
    }
    (enter, exit)
}

/// Memory of both ends for each flow that says nothing, after one byte each way.
fn idle_flows(folder: &std::path::Path) {
    let listener =
        TcpListener::bind("127.0.0.1:0").expect("a measurement stops at what does not work");
    let server = listener.local_addr().expect("a measurement stops at what does not work");
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.expect("a measurement stops at what does not work");
            stream.write_all(b".").expect("a measurement stops at what does not work");
            kept.push(stream);
        }
    });
    let (enter, exit) = tunnel(server, "goodput", folder);
    let open = |count: usize| {
        let streams = (0..count).map(|_| {
            let mut stream = TcpStream::connect(enter.addresses[0])
                .expect("a measurement stops at what does not work");
            stream.write_all(b".").expect("a measurement stops at what does not work");
            stream.read_exact(&mut [0]).expect("a measurement stops at what does not work");
            stream
        });
        streams.collect::<Vec<_>>()
    };
    let _first = open(100);
    let before = resident_kib();
    let _more = open(900);
    let each = (resident_kib() - before) as f64 / 900.0;
    println!("an idle flow: {each:.1} KiB at both ends together");
    drop((enter, exit));
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments[0] == "feed" {
        return feed(&arguments[1..]);
    }
    let (rounds, mib) = (
        arguments[0].parse().expect("a measurement stops at what does not work"),
        arguments[1].parse::<usize>().expect("a measurement stops at what does not work"),
    );
    let folder = tempfile::tempdir().expect("a measurement stops at what does not work");
    for name in ["enter", "exit"] {
        make_keys(&folder.path().join(name)).expect("a measurement stops at what does not work");
    }
    idle_flows(folder.path());
    let mut feeder = Feeder::start(mib << 20);
    let relay = bare_relay(feeder.server);
    let policies = &arguments[2..];
    let tunnels: Vec<_> =
        policies.iter().map(|policy| tunnel(feeder.server, policy, folder.path())).collect();
    let gigabytes = (mib << 20) as f64 / 1e9;
    for round in 0..rounds {
        let (cpu, time) = feeder.fetch(relay);
        let base = cpu / gigabytes;
        println!("{round} relay: {base:.3} CPU s a GB, {time:.2} s");
        for (policy, (enter, exit)) in policies.iter().zip(&tunnels) {
            let (cpu, time) = feeder.fetch(enter.addresses[0]);
            let each = cpu / gigabytes;
            let class = &exit.status().links[0].classes[0];
            let re = class.re_ratio.unwrap_or(0.0);
            let ratio = base / each;
            println!(
                "{round} {policy}: {each:.3} CPU s a GB, {time:.2} s, carries {ratio:.2} of the relay; \
                 saved {re:.3}, cut by {}",
                class.choice
            );
        }
    }
}
