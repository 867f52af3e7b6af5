//! A pool between three network namespaces: a client, the pool and a server, with veth pairs.
//!
//! The pool, the server and a client are processes of this program in a namespace each
//! ([`a_part`]). SKIPPED without root, `ip` or `curl`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::disallowed_macros
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use thermocline_admin::client::Client;
use thermocline_admin::http::{HttpListeners, TcpListen};
use thermocline_admin::notes::Notes;
use thermocline_offload::api::{NewCardState, NewChain, NewCount, PoolSecond, PoolStatus};
use thermocline_offload::saved::decode;
use thermocline_offload::{
    CardConfig, Pool, PoolConfig, Rules, SideConfig, TenantConfig, serve_pool,
};

/// Part of a process that a test starts: `pool`, `server` or `client`.
const PART: &str = "THERMOCLINE_PART";
/// Folder of the pool.
const FOLDER: &str = "THERMOCLINE_FOLDER";
/// Time for what must happen on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(60);
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
const RULES: &str =
    "drop tcp any any -> any 8000 (msg:\"forbidden\"; content:\"/forbidden\"; sid:1;)\n";
const BODY_BYTES: usize = 4 << 20;

fn body() -> Vec<u8> {
    let mut rng = thermocline_units::Rng::seeded(7);
    (0..BODY_BYTES / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

fn tenant(name: &str, last: u8) -> TenantConfig {
    TenantConfig {
        name: name.to_string(),
        networks: vec![(Ipv4Addr::new(10, 0, last, 0), 24)],
        external: vec![Ipv4Addr::new(198, 51, 100, 10 + last)],
        chain: vec!["nat".to_string(), "dpi".to_string()],
        token: Some(format!("token-of-tenant-{name}")),
        slots_max: 64,
    }
}

fn config(folder: &Path) -> PoolConfig {
    let side = |interface: &str, address: [u8; 4], gateway| SideConfig {
        interface: interface.to_string(),
        address: Some((address.into(), 24)),
        gateway,
    };
    PoolConfig {
        inside: side("packet:in0", [10, 0, 0, 1], None),
        outside: side("packet:out0", [198, 51, 100, 1], None),
        tenants: vec![tenant("a", 0), tenant("b", 1)],
        cards: ["card0", "card1"].map(|name| CardConfig { name: name.into(), slots: 2 }).into(),
        scheduler: "by-cost".to_string(),
        shares: 16,
        flows_max: 65_536,
        rules: Some(Rules { file: "rules".to_string(), text: RULES.to_string() }),
        state: folder.join("state"),
    }
}

/// Does the part of a process that a test starts; nothing in a run of all tests.
#[test]
fn a_part() {
    match std::env::var(PART).as_deref() {
        Ok("pool") => pool(),
        Ok("server") => server(),
        Ok("client") => client(),
        _ => {}
    }
}

fn pool() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let notes = Notes::new(|event| eprintln!("{}: {}", event.subject, event.text));
    let pool = Pool::start(config(&folder), notes).unwrap();
    let token = "token-of-the-administrator".to_string();
    let address = ([127, 0, 0, 1], 6666).into();
    let tcp = Some(TcpListen { address, any_port: false, token, tls: None });
    let unix = Some(folder.join("api.sock"));
    let listeners = HttpListeners { unix, tcp, ..HttpListeners::default() };
    let _http = serve_pool(listeners, pool.api()).unwrap();
    say("up");
    let (_never, stop) = std::os::unix::net::UnixStream::pair().unwrap();
    pool.run(&stop).unwrap();
}

/// Port 8000: any path has the body. Port 7: what comes goes back.
fn server() {
    let echo = TcpListener::bind((SERVER, 7)).unwrap();
    let http = TcpListener::bind((SERVER, 8000)).unwrap();
    say("up");
    std::thread::spawn(move || {
        for stream in echo.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    stream.write_all(&buffer[..length]).unwrap();
                }
            });
        }
    });
    for stream in http.incoming() {
        let mut stream = stream.unwrap();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY_BYTES}\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body());
        });
    }
}

/// Sends each line of its input over one connection, and writes what comes back.
fn client() {
    let mut stream = TcpStream::connect((SERVER, 7)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    say("up");
    let mut back = BufReader::new(stream.try_clone().unwrap());
    for line in std::io::stdin().lines() {
        stream.write_all((line.unwrap() + "\n").as_bytes()).unwrap();
        let mut line = String::new();
        back.read_line(&mut line).unwrap();
        say(line.trim_end());
    }
}

fn say(line: &str) {
    println!("<{line}>");
    std::io::stdout().flush().unwrap();
}

/// A process of this program in a namespace; killed with this.
struct Part {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Part {
    fn start(namespace: &str, part: &str, folder: &Path) -> Part {
        let log = std::fs::File::create(folder.join(format!("{part}.log"))).unwrap();
        let mut child = Command::new("ip")
            .args(["netns", "exec", namespace])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "a_part", "--nocapture"])
            .env(PART, part)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut part = Part { child, lines };
        assert_eq!(part.hear(), "up");
        part
    }

    /// The next thing that it says.
    fn hear(&mut self) -> String {
        loop {
            let line = self.lines.next().expect("it goes on").unwrap();
            // The test harness's own words may stand before it on the line.
            if let Some((_, said)) = line.split_once('<') {
                return said.trim_end_matches('>').to_string();
            }
        }
    }

    /// Sends a line over a client's connection and waits for it to come back.
    fn ping(&mut self, text: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{text}").unwrap();
        assert_eq!(self.hear(), text);
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three namespaces, of which the pool's is in the middle.
struct World {
    id: String,
    folder: tempfile::TempDir,
}

fn ip(words: &str) -> bool {
    let done = Command::new("ip").args(words.split(' ')).output();
    done.is_ok_and(|output| output.status.success())
}

impl World {
    /// `None`, loudly, where this cannot be.
    fn new() -> Option<World> {
        static WORLDS: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}-{}", std::process::id(), WORLDS.fetch_add(1, Relaxed));
        let has_curl = Command::new("curl").arg("-V").output().is_ok();
        if !has_curl || !ip(&format!("netns add tc-c{id}")) {
            eprintln!("SKIPPED: three network namespaces need root, `ip` and `curl`");
            return None;
        }
        let world = World { id, folder: tempfile::tempdir().unwrap() };
        let [client, pool, server] = world.names();
        for words in [
            format!("netns add {pool}"),
            format!("netns add {server}"),
            format!("-n {client} link add c0 type veth peer name in0 netns {pool}"),
            format!("-n {server} link add s0 type veth peer name out0 netns {pool}"),
            format!("-n {client} addr add 10.0.0.2/16 dev c0"),
            format!("-n {server} addr add {SERVER}/24 dev s0"),
            format!("-n {client} link set c0 up"),
            format!("-n {server} link set s0 up"),
            format!("-n {pool} link set in0 up"),
            format!("-n {pool} link set out0 up"),
            format!("-n {pool} link set lo up"),
            format!("-n {server} link set lo up"),
            format!("-n {client} route add default via 10.0.0.1"),
        ] {
            assert!(ip(&words), "ip {words}");
        }
        Some(world)
    }

    fn names(&self) -> [String; 3] {
        ["c", "p", "s"].map(|part| format!("tc-{part}{}", self.id))
    }

    fn start(&self, part: &str) -> Part {
        let [client, pool, server] = self.names();
        let namespace = match part {
            "pool" => pool,
            "server" => server,
            _ => client,
        };
        Part::start(&namespace, part, self.folder.path())
    }

    fn api(&self) -> Client {
        Client::of_pool(&self.folder.path().join("api.sock"))
    }

    fn status(&self) -> PoolStatus {
        self.api().get("/v1/status").unwrap()
    }

    /// HTTP status of a path of the pool's API over TCP, without a token.
    fn status_without_token(&self, path: &str) -> String {
        let done = Command::new("ip")
            .args(["netns", "exec", &self.names()[1], "curl", "-s", "-o", "/dev/null"])
            .args(["-w", "%{http_code}", &format!("http://127.0.0.1:6666{path}")])
            .output()
            .unwrap();
        String::from_utf8(done.stdout).unwrap()
    }

    /// Fetches a path with curl; its body, or nothing.
    fn curl(&self, path: &str, seconds: u32) -> Option<Vec<u8>> {
        let done = Command::new("ip")
            .args(["netns", "exec", &self.names()[0], "curl", "-sS", "--max-time"])
            .arg(seconds.to_string())
            .arg(format!("http://{SERVER}:8000{path}"))
            .output()
            .unwrap();
        done.status.success().then_some(done.stdout)
    }

    fn until(&self, what: &str, is_so: impl Fn(&World) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            let log = std::fs::read_to_string(self.folder.path().join("pool.log")).unwrap();
            assert!(begun.elapsed() < PATIENCE, "{what}: {:#?}\n{log}", self.status());
            std::thread::yield_now();
        }
    }
}

impl World {
    /// Waits until the first connection's mapping is saved. Its NAT is made with it.
    fn until_saved(&self) {
        let file = self.folder.path().join("state/mappings");
        self.until("the mapping is saved", |_| {
            let saved = std::fs::read(&file).ok().and_then(|bytes| decode(&bytes).ok());
            saved.is_some_and(|saved| !saved.is_empty())
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for name in self.names() {
            ip(&format!("netns delete {name}"));
        }
    }
}

fn runs(status: &PoolStatus, name: &str) -> u32 {
    status.functions.iter().find(|function| function.name == name).unwrap().running
}

#[test]
fn packets_go_through_a_chain_whose_slots_and_order_change() {
    let Some(world) = World::new() else { return };
    let (_server, pool) = (world.start("server"), world.start("pool"));
    let begun = Instant::now();
    assert!(world.curl("/ok", 60).as_deref() == Some(&body()[..]), "byte-equal");
    let took = begun.elapsed();
    eprintln!("{BODY_BYTES} B through nat and dpi on the processor in {took:?}");
    let mut client = world.start("client");
    client.ping("on the processor");

    // Slots are loaded under the connection, and its state moves there.
    for name in ["nat", "dpi"] {
        let path = format!("/v1/functions/{name}");
        world.api().tell(hyper::Method::PUT, &path, &NewCount { slots: Some(1) }).unwrap();
    }
    world.until("both run on slots", |world| {
        let status = world.status();
        runs(&status, "nat") == 1 && runs(&status, "dpi") == 1
    });
    client.ping("on slots");
    assert!(world.curl("/ok", 60).as_deref() == Some(&body()[..]), "byte-equal");
    assert!(world.status().packets.moved > 0, "state has moved");

    // A rule stops its flow, and no other.
    let before = world.status().packets.dropped_by_rules;
    assert!(world.curl("/forbidden", 3).is_none());
    assert!(world.status().packets.dropped_by_rules > before);
    client.ping("beside a dropped flow");
    assert!(world.curl("/ok", 60).is_some());

    // The chain is turned round while the connection is used.
    for round in 0..6 {
        let chain = if round % 2 == 0 { ["dpi", "nat"] } else { ["nat", "dpi"] };
        let wish = NewChain { functions: chain.map(ToString::to_string).to_vec() };
        world.api().tell(hyper::Method::PUT, "/v1/tenants/a/chain", &wish).unwrap();
        client.ping(&format!("round {round}"));
    }
    assert!(world.curl("/forbidden", 3).is_none());

    // A card is drained: its functions go to the other one.
    let wish = NewCardState { drained: true };
    world.api().tell(hyper::Method::PUT, "/v1/cards/card0", &wish).unwrap();
    world.until("the card is empty", |world| world.status().cards[0].running == 0);
    client.ping("after a drained card");

    // All of it is in the last five minutes.
    world.until("the seconds have what was carried", |world| {
        let seconds: Vec<PoolSecond> = world.api().get("/v1/history").unwrap();
        let of_slots = seconds.iter().flat_map(|second| &second.slots);
        let of_processor = seconds.iter().flat_map(|second| &second.processor);
        of_slots.map(|slot| slot.packets).sum::<u64>() > 0
            && of_processor.map(|one| one.packets).sum::<u64>() > 0
            && seconds.iter().map(|second| second.passed).sum::<u64>() > 0
    });
    // The page is for everybody; what it asks for is not.
    for (path, status) in [("/", "200"), ("/app.js", "200"), ("/v1/history", "401")] {
        assert_eq!(world.status_without_token(path), status, "{path}");
    }
    drop(pool);
}

#[test]
fn a_killed_pool_keeps_mappings_and_what_was_asked_for() {
    let Some(world) = World::new() else { return };
    let (_server, pool) = (world.start("server"), world.start("pool"));
    world
        .api()
        .tell(hyper::Method::PUT, "/v1/functions/nat", &NewCount { slots: Some(1) })
        .unwrap();
    let wish = NewChain { functions: vec!["nat".to_string()] };
    world.api().tell(hyper::Method::PUT, "/v1/tenants/a/chain", &wish).unwrap();
    let mut client = world.start("client");
    client.ping("before");
    world.until_saved();
    pool.kill();
    let _pool = world.start("pool");
    client.ping("after");
    let status = world.status();
    assert_eq!(status.tenants[0].chain, ["nat"]);
    assert_eq!(status.functions[0].wanted, Some(1));
    world.until("the slot is loaded again", |world| runs(&world.status(), "nat") == 1);
    client.ping("on a slot again");
}

/// An interface was deleted, and the pool went on, deaf.
#[test]
fn a_pool_whose_interface_is_gone_ends_and_says_so() {
    let Some(world) = World::new() else { return };
    let mut pool = world.start("pool");
    let log = || std::fs::read_to_string(world.folder.path().join("pool.log")).unwrap();
    let space = &world.names()[1];
    assert!(ip(&format!("-n {space} link set out0 down")));
    world.until("it is told", |_| log().contains("out0 is down"));
    assert!(ip(&format!("-n {space} link set out0 up")));
    assert!(ip(&format!("-n {space} link delete in0")));
    let begun = Instant::now();
    let ended = loop {
        if let Some(ended) = pool.child.try_wait().unwrap() {
            break ended;
        }
        assert!(begun.elapsed() < PATIENCE, "{}", log());
        std::thread::yield_now();
    };
    assert!(!ended.success() && log().contains("packet:in0 is gone"), "{}", log());
}

/// A Python that has openstacksdk.
fn python() -> Option<String> {
    let named = std::env::var("THERMOCLINE_OPENSTACK_PYTHON").ok();
    named.into_iter().chain(["python3".to_string()]).find(|python| {
        let done = Command::new(python).args(["-c", "import openstack"]).output();
        done.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn two_tenants_bind_slots_with_openstacksdk() {
    let Some(python) = python() else {
        eprintln!("SKIPPED: no Python with openstacksdk; pip install openstacksdk");
        return;
    };
    let Some(world) = World::new() else { return };
    let (_server, pool) = (world.start("server"), world.start("pool"));
    let mut child = Command::new("ip")
        .args(["netns", "exec", &world.names()[1], &python])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/two_tenants.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut script = Part { child, lines };
    assert_eq!(script.hear(), "bound");
    let status = world.status();
    let of = |name: &str| status.tenants.iter().find(|tenant| tenant.name == name).unwrap();
    assert_eq!((of("a").slots.len(), of("b").slots.len()), (1, 1));
    let own = of("a").slots[0];
    let mut client = world.start("client");
    client.ping("through a slot of its own");
    assert!(world.status().slots[own].flows > 0, "the tenant's flows use it");

    // A killed pool binds again what was bound.
    world.until_saved();
    pool.kill();
    let _pool = world.start("pool");
    world.until("both are bound again", |world| {
        world.status().tenants.iter().all(|tenant| tenant.slots.len() == 1)
    });
    client.ping("after a restart");
    writeln!(script.child.stdin.as_mut().unwrap()).unwrap();
    assert_eq!(script.hear(), "unbound");
    client.ping("through a slot of all");
    writeln!(script.child.stdin.as_mut().unwrap()).unwrap();
    assert!(script.child.wait().unwrap().success());
    assert!(world.status().tenants[0].slots.is_empty());
}
