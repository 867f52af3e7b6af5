//! Real programs through a tunnel: their contents arrive as they are, and TLS is passed on whole.

#![allow(clippy::print_stdout)] // The gate repeats such lines at its end.

use crate::program;
use crate::tunnel::{End, read_all, server, status, wait_until};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thermocline_units::Rng;

const MIB: usize = 1 << 20;

/// A program that runs until it is dropped.
struct Running(Child);

impl Running {
    fn start(program: &str, arguments: &[&str], folder: &Path) -> Running {
        let mut command = Command::new(program);
        // In a group of its own: `git daemon` is a process that waits for another one.
        command.args(arguments).current_dir(folder).stdin(Stdio::null()).process_group(0);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.0);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Both ends; a listener for each target.
pub(crate) struct Tunnel {
    pub(crate) folder: PathBuf,
    pub(crate) listeners: Vec<String>,
    _enter: End,
    exit: End,
}

impl Tunnel {
    pub(crate) fn around(test: &str, targets: &[String], settings: &str) -> Tunnel {
        let folder = program::folder(test);
        for name in ["enter", "exit"] {
            program::run(&folder, &format!("tunnel keys {name}")).succeeded();
        }
        let exit = format!(
            "exit --listen 127.0.0.1:0 --key exit.key --peer enter.pub --allow 127.0.0.1:* \
             --socket exit.sock --log none {settings}"
        );
        let exit = End::start(&folder, &exit);
        let listeners: String =
            targets.iter().map(|target| format!(" --forward 0={target}")).collect();
        let enter = format!(
            "enter --to {} --key enter.key --peer exit.pub --socket enter.sock --log none \
             {settings}{listeners}",
            exit.address()
        );
        let enter = End::start(&folder, &enter);
        wait_until("the link is up", || status(&folder, "enter.sock")["links"][0]["is_up"] == true);
        Tunnel { folder, listeners: enter.addresses(), _enter: enter, exit }
    }

    /// The rest of the exit's line that begins with these words.
    pub(crate) fn said(&self, words: &str) -> String {
        let rest = self.exit.said.split(words).nth(1).unwrap();
        rest.lines().next().unwrap().to_string()
    }

    /// The port of the first listener.
    fn port(&self) -> &str {
        self.listeners[0].rsplit(':').next().unwrap()
    }
}

/// True if these programs are here; says so if not.
pub(crate) fn are_here(programs: &[&str]) -> bool {
    let is_there = |program: &&&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|found| found.status.success())
    };
    let Some(missing) = programs.iter().find(is_there) else { return true };
    println!("SKIPPED: {missing} is not installed; .ci/run installs what this test needs");
    false
}

fn free_address() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap()
}

fn wait_for_server(address: &str) {
    wait_until(&format!("{address} answers"), || TcpStream::connect(address).is_ok());
}

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    (0..length / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

/// Runs a program that has to succeed; what it said.
fn run(program: &str, arguments: &[&str], folder: &Path) -> Vec<u8> {
    let ran = Command::new(program).args(arguments).current_dir(folder).output().unwrap();
    let error = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{program} {arguments:?}: {error}");
    ran.stdout
}

#[test]
fn curl_over_tls_ends_as_a_flow_that_is_not_cut() {
    if !are_here(&["curl", "openssl"]) {
        return;
    }
    let web = free_address();
    let tunnel = Tunnel::around("tunnel-curl", std::slice::from_ref(&web), "");
    let page = noise(1, 16 * MIB);
    fs::write(tunnel.folder.join("page"), &page).unwrap();
    let words =
        "req -x509 -newkey rsa:2048 -nodes -keyout k.pem -out c.pem -days 2 -subj /CN=localhost";
    run("openssl", &words.split(' ').collect::<Vec<_>>(), &tunnel.folder);
    let words = ["s_server", "-accept", &web, "-WWW", "-cert", "c.pem", "-key", "k.pem", "-quiet"];
    let _server = Running::start("openssl", &words, &tunnel.folder);
    wait_for_server(&web);
    let url = format!("https://localhost:{}/page", tunnel.port());
    let choice = || status(&tunnel.folder, "exit.sock")["links"][0]["classes"][0].clone();
    for _ in 0..60 {
        let fetch = ["--silent", "--show-error", "--insecure", "--noproxy", "*", "--ipv4", &url];
        assert!(run("curl", &fetch, &tunnel.folder) == page, "other bytes came");
        if choice()["choice"] == "none" {
            break;
        }
    }
    let class = choice();
    assert_eq!(class["choice"], "none", "{class}");
    println!("{}: after {} bytes: {}", class["choice"], class["bytes"], class["why"]);
}

#[test]
fn git_clones() {
    if !are_here(&["git"]) {
        return;
    }
    let daemon = free_address();
    let tunnel =
        Tunnel::around("tunnel-git", std::slice::from_ref(&daemon), "--policy content:size=2KiB");
    let folder = &tunnel.folder;
    let tree = folder.join("served/tree");
    fs::create_dir_all(&tree).unwrap();
    for number in 0..20 {
        fs::write(tree.join(format!("file-{number}")), noise(number, 200_000)).unwrap();
    }
    let as_somebody = ["-c", "user.name=a", "-c", "user.email=a@b"];
    run("git", &["init", "--quiet"], &tree);
    run("git", &["add", "."], &tree);
    run("git", &[&as_somebody[..], &["commit", "--quiet", "-m", "first"]].concat(), &tree);
    let base = format!("--base-path={}", folder.join("served").display());
    let port = format!("--port={}", port_of(&daemon));
    let words = ["daemon", "--export-all", "--listen=127.0.0.1", "--reuseaddr", &port, &base];
    let _server = Running::start("git", &words, folder);
    wait_for_server(&daemon);
    let url = format!("git://127.0.0.1:{}/tree", tunnel.port());
    let sent = || status(folder, "exit.sock")["links"][0]["sent_bytes"].as_u64().unwrap();
    let mut on_the_link = Vec::new();
    for copy in ["one", "two"] {
        let before = sent();
        run("git", &["clone", "--quiet", &url, copy], folder);
        run("git", &["fsck", "--full"], &folder.join(copy));
        run("diff", &["-r", "--exclude=.git", "served/tree", copy], folder);
        on_the_link.push(sent() - before);
    }
    println!("two clones of 4 MB: {on_the_link:?} bytes on the link");
    // Pauses cut, and a busy machine makes pauses: without, an eighth.
    assert!(on_the_link[1] < on_the_link[0] / 2, "{on_the_link:?}");
}

#[test]
fn rsync_copies() {
    if !are_here(&["rsync"]) {
        return;
    }
    let daemon = free_address();
    let tunnel =
        Tunnel::around("tunnel-rsync", std::slice::from_ref(&daemon), "--policy content:size=2KiB");
    let folder = &tunnel.folder;
    let tree = folder.join("tree");
    fs::create_dir_all(tree.join("below")).unwrap();
    for number in 0..20 {
        fs::write(tree.join(format!("below/{number}")), noise(number, 300_000)).unwrap();
    }
    let config = format!("use chroot = no\n[tree]\npath = {}\n", tree.display());
    fs::write(folder.join("rsyncd.conf"), config).unwrap();
    let words =
        ["--daemon", "--no-detach", "--address=127.0.0.1", "--config=rsyncd.conf", "--port"];
    let words = [&words[..], &[port_of(&daemon)]].concat();
    let _server = Running::start("rsync", &words, folder);
    wait_for_server(&daemon);
    let url = format!("rsync://127.0.0.1:{}/tree/", tunnel.port());
    for round in 0..2 {
        run("rsync", &["-a", "--ignore-times", &url, "copy/"], folder);
        run("diff", &["-r", "tree", "copy"], folder);
        fs::write(tree.join(format!("new-{round}")), noise(100, 500_000)).unwrap();
    }
}

#[test]
fn redis_keeps_what_it_is_told() {
    if !are_here(&["redis-server", "redis-cli"]) {
        return;
    }
    let redis = free_address();
    let tunnel = Tunnel::around("tunnel-redis", std::slice::from_ref(&redis), "");
    let folder = &tunnel.folder;
    let words = ["--port", port_of(&redis), "--bind", "127.0.0.1", "--save", "", "--dir", "."];
    let _server = Running::start("redis-server", &words, folder);
    wait_for_server(&redis);
    let cli = ["-h", "127.0.0.1", "-p", tunnel.port()];
    let ask = |words: &[&str]| run("redis-cli", &[&cli[..], words].concat(), folder);
    for number in 0..50 {
        let (key, value) = (format!("key-{number}"), format!("value-{}", number * number));
        assert_eq!(ask(&["SET", &key, &value]), b"OK\n");
        assert_eq!(ask(&["GET", &key]), format!("{value}\n").as_bytes());
    }
    let mut large = noise(9, 3 * MIB);
    large.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
    let mut child = Command::new("redis-cli");
    child.args(cli).args(["-x", "SET", "large"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(&large).unwrap();
    assert!(child.wait().unwrap().success());
    large.push(b'\n');
    assert!(ask(&["GET", "large"]) == large, "another value came back");
    let benchmark = ["-n", "5000", "-c", "50", "-q", "-t", "set,get,lrange_100"];
    if are_here(&["redis-benchmark"]) {
        run("redis-benchmark", &[&cli[..], &benchmark].concat(), folder);
    }
}

/// A program of PostgreSQL's server, which Debian keeps in folders by version.
fn postgres_program(name: &str) -> String {
    let folders = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let files = folders.map(|folder| folder.path().join("bin").join(name));
    let found = files.filter(|file| file.exists()).max();
    found.map_or(name.to_string(), |file| file.display().to_string())
}

/// A PostgreSQL server in a folder of its own; as its own user if this one is root.
struct Postgres {
    server: Child,
    _folder: tempfile::TempDir,
}

impl Postgres {
    /// `None` where the server cannot be made; says so.
    fn start(address: &str) -> Option<Postgres> {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let data = folder.path().join("data");
        let data = data.to_str().unwrap();
        let is_root = run("id", &["-u"], folder.path()) == b"0\n";
        let command = |program: &str, arguments: &[&str]| {
            let program = postgres_program(program);
            let mut command = Command::new(if is_root { "setpriv" } else { &program });
            if is_root {
                command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", &program]);
            }
            command.args(arguments).current_dir(folder.path());
            command.stdout(Stdio::null());
            command
        };
        let made = command("initdb", &["-D", data, "-A", "trust", "-U", "postgres", "--no-sync"]);
        let made = { made }.output().unwrap();
        if !made.status.success() {
            println!("SKIPPED: initdb: {}", String::from_utf8_lossy(&made.stderr).trim());
            return None;
        }
        let sockets = folder.path().to_str().unwrap();
        let words = ["-D", data, "-h", "127.0.0.1", "-p", port_of(address), "-k", sockets, "-F"];
        let server = command("postgres", &words).stderr(Stdio::null()).spawn().unwrap();
        Some(Postgres { server, _folder: folder })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own processes end with it; a kill would leave them.
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let _ = self.server.wait();
    }
}

#[test]
fn postgresql_answers() {
    if !are_here(&[&postgres_program("initdb"), "psql", "setpriv"]) {
        return;
    }
    let address = free_address();
    let tunnel = Tunnel::around("tunnel-postgres", std::slice::from_ref(&address), "");
    let Some(_server) = Postgres::start(&address) else { return };
    let base = ["-h", "127.0.0.1", "-U", "postgres", "-X", "-A", "-t", "-q", "-p"];
    let direct = [&base[..], &[port_of(&address)]].concat();
    let through = [&base[..], &[tunnel.port()]].concat();
    let folder = &tunnel.folder;
    wait_until("PostgreSQL is up", || {
        let asked = Command::new("psql").args(&direct).args(["-c", "select 1"]).output();
        asked.is_ok_and(|asked| asked.status.success())
    });
    let ask = |of: &[&str], sql: &str| run("psql", &[of, &["-c", sql]].concat(), folder);
    ask(&through, "create table t as select n, md5(n::text) m from generate_series(1, 50000) n");
    let all = "select * from t order by n";
    let rows = ask(&through, all);
    assert!(rows.len() > MIB && rows == ask(&direct, all), "{} bytes of rows", rows.len());
    for number in 0..20 {
        let sql = format!("select m from t where n = {}", 1 + number * 977);
        assert_eq!(ask(&through, &sql), ask(&direct, &sql));
    }
}

#[test]
fn a_thousand_flows_go_on_beside_one_that_nobody_reads() {
    let data = noise(3, 64 << 10);
    let flood = server(noise(4, 64 * MIB));
    let target = server(data.clone());
    let tunnel = Tunnel::around("tunnel-thousand", &[target, flood], "--clients-max 1024");
    let mut idle = TcpStream::connect(&tunnel.listeners[1]).unwrap();
    idle.read_exact(&mut [0]).unwrap();
    let served = std::thread::scope(|scope| {
        let fetch = || (0..10).filter(|_| read_all(&tunnel.listeners[0]) == data).count();
        let clients: Vec<_> = (0..100).map(|_| scope.spawn(fetch)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum::<usize>()
    });
    assert_eq!(served, 1000);
    let mut open: Vec<_> =
        (0..1000).map(|_| TcpStream::connect(&tunnel.listeners[0]).unwrap()).collect();
    for stream in &mut open {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        assert!(bytes == data, "{} bytes came", bytes.len());
    }
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    assert!(rest == noise(4, 64 * MIB)[1..], "{} bytes came", rest.len());
}
