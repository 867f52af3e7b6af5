//! A pool in a bucket of a real S3 server, moto's, under real clients.
//!
//! Without `moto_server` (Python's moto with its extra `server`) the tests say SKIPPED.

use crate::engine::{ask, json, over_socket};
use crate::program;
use crate::up::{URI, Up, clients_are_here, contents};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Secrets that nobody may ever see.
pub(crate) const SECRETS: [&str; 3] =
    ["AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMIbPxRfiCY", "FQoGZXIvYXdzToken"];

/// An S3 server with an empty bucket called `cold`.
pub(crate) struct Store {
    child: Child,
    pub(crate) port: u16,
}

impl Store {
    #[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
    pub(crate) fn start() -> Option<Store> {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("moto_server")
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            println!("SKIPPED: no moto_server; pip install 'moto[server]'");
            return None;
        };
        let store = Store { child, port };
        let start = Instant::now();
        while !store.ask("PUT", "/cold").is_some_and(|answer| answer.contains(" 200 ")) {
            assert!(start.elapsed() < Duration::from_secs(120), "the server does not come up");
            std::thread::yield_now();
        }
        Some(store)
    }

    /// Answer of the server to a request without a body; none: it cannot be asked.
    fn ask(&self, verb: &str, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let head = "Host: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        write!(stream, "{verb} {path} HTTP/1.1\r\n{head}").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// Puts an object into a bucket, by its path.
    pub(crate) fn put(&self, path: &str, bytes: &[u8]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = bytes.len();
        let head = format!("Content-Length: {length}\r\nConnection: close\r\n\r\n");
        // Nobody checks the signature; without one, an object may not be written again.
        let signed = "Authorization: AWS4-HMAC-SHA256 \
                      Credential=AKIA/20261130/us-east-1/s3/aws4_request, SignedHeaders=host, \
                      Signature=0\r\n";
        write!(stream, "PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{signed}{head}").unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{path}: {answer}");
    }

    /// Stops the server where it is, or lets it go on.
    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Number of objects of extents.
    fn objects(&self) -> usize {
        let listed = self.ask("GET", "/cold?list-type=2&prefix=pool/x").unwrap();
        listed.matches("<Key>").count()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two pools, one of them in the store's bucket, with what stands in `cache` and `s3`.
fn configure(folder: &Path, store: &Store, cache: &str, s3: &str) {
    let config = format!(
        r#"
data = "pools"
[[pool]]
name = "ssd"
size = "64MiB"
[[pool]]
name = "cloud"
path = "s3://cold/pool"
size = "64MiB"
{cache}
[pool.s3]
endpoint = "http://127.0.0.1:{}"
price-put-1000 = 0.005
price-month-gib = 0.023
{s3}
[[volume]]
size = "48MiB"
[copying]
rate = "none"
piece = "1MiB"
"#,
        store.port
    );
    std::fs::write(folder.join("engine.toml"), config).unwrap();
}

fn up(folder: &Path) -> Up {
    let [id, secret, token] = SECRETS;
    let environment = [
        ("AWS_ACCESS_KEY_ID", id),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_SESSION_TOKEN", token),
    ];
    Up::start_in(folder, &["engine.toml"], &environment)
}

/// Everything that the engine tells about itself, while it runs.
fn told(folder: &Path, up: &Up) -> String {
    let paths = ["/v1/status", "/v1/pools", "/v1/events", "/metrics", "/openapi.json"];
    let mut all: String = paths.iter().map(|path| over_socket(folder, path).1).collect();
    all.push_str(&ask(up, "status").unwrap());
    all.push_str(&std::fs::read_to_string(folder.join("stderr")).unwrap());
    all
}

#[test]
fn chunks_go_to_the_bucket_and_are_there_after_a_kill_and_no_secret_is_told() {
    if !clients_are_here() {
        return;
    }
    let Some(store) = Store::start() else { return };
    let folder = program::folder("cloud-cached");
    configure(&folder, &store, "[pool.cache]\nsize = \"8MiB\"", "");
    let wanted = contents(24 << 20);
    std::fs::write(folder.join("in"), &wanted).unwrap();
    let engine = up(&folder);
    engine.run("nbdcopy", &["--flush", "in", URI]).unwrap();
    let job = json(&engine, "migrate v0 --to cloud --length 16MiB --wait");
    assert_eq!((job["chunks"].as_u64(), job["done"].as_u64()), (Some(16), Some(16)));
    engine.run("qemu-io", &["-f", "raw", "-c", "write -P 7 3M 64k", "-c", "flush", URI]).unwrap();
    let map = ask(&engine, "volume map v0 --length 16MiB").unwrap();
    assert!(map.contains("cloud"), "{map}");
    assert!(store.objects() >= 16, "{} objects", store.objects());
    let status = json(&engine, "status");
    let bucket = &status["pools"][1]["bucket"];
    assert!(bucket["objects"].as_u64() >= Some(16), "{bucket}");
    assert!(bucket["sent_bytes"].as_u64() >= Some(16 << 20), "{bucket}");
    assert!(bucket["cost"].as_f64() > Some(0.0) && bucket["last_error"].is_null(), "{bucket}");
    let all = told(&folder, &engine);
    assert!(all.contains("thermocline_bucket_requests_total{pool=\"cloud\",kind=\"put\"}"));
    assert!(SECRETS.iter().all(|secret| !all.contains(secret)), "{all}");
    assert_eq!(engine.stop("-KILL"), None);

    let engine = up(&folder);
    engine.run("nbdcopy", &[URI, "out"]).unwrap();
    let mut wanted = wanted;
    wanted[3 << 20..][..64 << 10].fill(7);
    let got = std::fs::read(folder.join("out")).unwrap();
    assert!(got[..wanted.len()] == wanted, "after a kill");
    assert_eq!(engine.stop("-TERM"), Some(0));
    let checked = program::run(&folder, "check engine.toml");
    assert!(SECRETS.iter().all(|secret| !checked.stderr().contains(secret)));
}

/// `check` said "to be made" and "no flaws" of a bucket that does not exist, and of a store that
/// nobody can ask.
#[test]
fn a_check_before_the_first_start_asks_the_bucket() {
    let Some(store) = Store::start() else { return };
    let folder = program::folder("cloud-check");
    configure(&folder, &store, "", "retries = 0");
    let [id, secret, token] = SECRETS;
    let check = || {
        Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .args(["check", "engine.toml"])
            .current_dir(&folder)
            .envs([
                ("AWS_ACCESS_KEY_ID", id),
                ("AWS_SECRET_ACCESS_KEY", secret),
                ("AWS_SESSION_TOKEN", token),
            ])
            .output()
            .unwrap()
    };
    let fine = check();
    assert!(fine.status.success(), "{}", String::from_utf8_lossy(&fine.stderr));
    let path = folder.join("engine.toml");
    let config = std::fs::read_to_string(&path).unwrap().replace("s3://cold/", "s3://nowhere/");
    std::fs::write(&path, config).unwrap();
    let missing = check();
    let said = String::from_utf8_lossy(&missing.stderr);
    assert!(missing.status.code() == Some(1) && said.contains("s3://nowhere/pool"), "{said}");
    assert!(said.contains("bucket does not exist"), "{said}");
}

#[test]
fn a_store_that_hangs_fails_reads_and_holds_flushes_and_loses_nothing() {
    if !clients_are_here() {
        return;
    }
    let Some(store) = Store::start() else { return };
    let folder = program::folder("cloud-hangs");
    let impatient = "deadline = \"300ms\"\nretries = 1\nretry-for = \"1s\"";
    configure(&folder, &store, "", impatient);
    let engine = up(&folder);
    let io = |command: &str| engine.run("qemu-io", &["-f", "raw", "-c", command, URI]);
    io("write -P 5 0 2M").unwrap();
    io("flush").unwrap();
    json(&engine, "migrate v0 --to cloud --length 2MiB --wait");
    io("flush").unwrap();
    store.signal("-STOP");
    let said = io("read -P 5 64k 4k").unwrap_or_else(|said| said);
    assert!(said.contains("failed") || said.contains("error"), "{said}");
    let status = json(&engine, "status");
    assert_eq!(status["pools"][1]["state"], "active", "an outage is not the pool's end");
    assert!(status["pools"][1]["bucket"]["failed"].as_u64() > Some(0));
    store.signal("-CONT");
    for command in ["read -P 5 0 2M", "write -P 6 64k 4k", "flush", "read -P 6 64k 4k"] {
        let said = io(command).unwrap();
        assert!(!said.contains("failed"), "{command}: {said}");
    }
    assert_eq!(engine.stop("-KILL"), None);
    let engine = up(&folder);
    let read = ["-c", "read -P 6 64k 4k", "-c", "read -P 5 68k 1M"];
    let said = engine.run("qemu-io", &[&["-f", "raw"], &read[..], &[URI]].concat()).unwrap();
    assert!(!said.contains("failed"), "{said}");
    assert_eq!(engine.stop("-TERM"), Some(0));
}
