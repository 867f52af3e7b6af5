//! `thermocline balance` as a user runs it: start, ask, change the file, stop.

use crate::program;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A server that answers every request with `text`.
fn server(text: &'static str) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            std::thread::spawn(move || {
                let mut line = String::new();
                while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
                    if line == "\r\n" {
                        let length = text.len();
                        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                        reader.get_mut().write_all((head + text).as_bytes()).unwrap();
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

/// A running balancer; killed with this.
struct Balance {
    child: Child,
    address: String,
    said: String,
}

impl Balance {
    fn start(folder: &Path, arguments: &str) -> Balance {
        let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .arg("balance")
            .args(arguments.split_whitespace())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("stop with Ctrl-C") {
            said += &lines.next().expect("the balancer comes up").unwrap();
            said += "\n";
        }
        let address = said.split("http://").nth(1).unwrap().lines().next().unwrap().to_string();
        Balance { child, address, said }
    }

    /// Asks for a path, and closes.
    fn get(&self, path: &str, headers: &str) -> String {
        get(&self.address, path, headers)
    }
}

impl Drop for Balance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn get(address: &str, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(folder: &Path) -> Value {
    let ran = program::run(folder, "balance status --json").succeeded();
    serde_json::from_str(&ran.stdout()).unwrap()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::yield_now();
    }
}

#[test]
fn two_words_put_a_balancer_before_servers() {
    let folder = program::folder("balance-simple");
    let (one, other) = (server("one"), server("other"));
    let balance = Balance::start(&folder, &format!("--listen 127.0.0.1:0 --to {one},{other}"));
    let answers: Vec<String> = (0..20).map(|_| balance.get("/", "")).collect();
    assert!(answers.iter().any(|answer| answer.ends_with("one")));
    assert!(answers.iter().any(|answer| answer.ends_with("other")));
    let told = status(&folder);
    assert_eq!((&told["requests"], &told["policy"]), (&20.into(), &"water-fill".into()));
    let text = program::run(&folder, "balance status").succeeded().stdout();
    assert!(text.contains(&one.to_string()) && text.contains("picks among"), "{text}");
    program::run(&folder, &format!("balance drain {one}")).succeeded();
    assert!((0..5).all(|_| balance.get("/", "").ends_with("other")));
    let report = format!("balance report {other} --queue 3 --balancers 2");
    program::run(&folder, &report).succeeded();
    assert_eq!(status(&folder)["backends"][1]["report"]["queue"], 3);
    program::run(&folder, "balance drain 127.0.0.1:1").ended_with(2).says("there is no backend");
    let page = balance.said.split("http://").nth(2).unwrap().lines().next().unwrap().to_string();
    let (address, token) = page.split_once("/#token=").unwrap();
    assert!(get(address, "/", "").contains("thermocline balance"));
    assert!(get(address, "/v1/status", "").starts_with("HTTP/1.1 401"));
    let metrics = get(address, "/metrics", &format!("Authorization: Bearer {token}\r\n"));
    assert!(metrics.contains("thermocline_balance_requests_total{} 25"), "{metrics}");
    let body = metrics.split_once("\r\n\r\n").unwrap().1;
    let Some(families) = crate::metrics::parsed(body) else { return };
    for wanted in [
        "histogram thermocline_balance_request_duration_seconds 50",
        "counter thermocline_balance_requests 1",
        "counter thermocline_balance_backend_requests_ended 14",
        "gauge thermocline_balance_backend_requests_in_flight 2",
    ] {
        assert!(families.lines().any(|line| line == wanted), "{wanted} is not in\n{families}");
    }
}

#[test]
fn the_text_says_why_a_server_failed_last() {
    let folder = program::folder("balance-last-error");
    let alive = server("alive");
    // Nobody listens where somebody just did.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let balance = Balance::start(&folder, &format!("--listen 127.0.0.1:0 --to {gone},{alive}"));
    let failed = || !status(&folder)["backends"][0]["last_error"].is_null();
    wait_until("the dead one was tried", || {
        balance.get("/", "");
        failed()
    });
    let text = program::run(&folder, "balance status").succeeded().stdout();
    assert!(text.contains(&format!("{gone}: the last failure, ")), "{text}");
    assert!(!text.contains(&format!("{alive}: the last failure")), "{text}");
}

#[test]
fn a_changed_file_is_followed_and_a_wrong_one_refused_with_its_line() {
    let folder = program::folder("balance-reload");
    let (one, other) = (server("one"), server("other"));
    let config = |backend: SocketAddr, more: &str| {
        let text = format!(
            "[[listen]]\naddress = \"127.0.0.1:0\"\n[[backend]]\naddress = \"{backend}\"\n{more}"
        );
        std::fs::write(folder.join("b.toml"), text).unwrap();
    };
    config(one, "");
    program::run(&folder, "balance check b.toml").succeeded();
    let mut balance = Balance::start(&folder, "b.toml");
    assert!(balance.get("/", "").ends_with("one"));
    config(other, "");
    wait_until("the other serves", || balance.get("/", "").ends_with("other"));
    config(one, "wieght = 2\n");
    let told = || std::fs::read_to_string(folder.join("stderr")).unwrap();
    wait_until("it is refused", || told().contains("did you mean `weight`?"));
    assert!(told().contains("b.toml, line 5: unknown key `wieght`"), "{}", told());
    assert!(balance.get("/", "").ends_with("other"), "the last good one goes on");
    program::run(&folder, "balance check b.toml").ended_with(2).says("line 5");
    let pid = balance.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(balance.child.wait().unwrap().success());
    assert!(told().contains("nothing was cut off"), "{}", told());
    assert!(!folder.join("thermocline-balance.sock").exists());
}

#[test]
fn what_cannot_be_is_told_at_once() {
    let folder = program::folder("balance-wrong");
    program::run(&folder, "balance").ended_with(2);
    program::run(&folder, "balance --to nowhere").ended_with(2).says("is not a host and a port");
    let twice = "balance --to 127.0.0.1:1,127.0.0.1:1";
    program::run(&folder, twice).ended_with(2).says("twice");
    let policy = "balance --to 127.0.0.1:1 --policy leest";
    program::run(&folder, policy).ended_with(2).says("did you mean `least`?");
    program::run(&folder, "balance missing.toml").ended_with(2).says("docs/formats/balance.md");
    let alone = program::run(&folder, "balance status").ended_with(1);
    alone.says("thermocline-balance.sock").says("is a balancer running there?");
}

/// A process that nobody is the parent of; killed with this.
struct Orphan(String);

impl Orphan {
    fn signal(&self, signal: &str) -> bool {
        Command::new("kill").args([signal, &self.0]).status().unwrap().success()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let mut kill = Command::new("kill");
        let _ = kill.args(["-KILL", &self.0]).stderr(Stdio::null()).status();
    }
}

/// The listening socket was closed at once when a balancer stopped: whoever came before the next
/// one listened was refused. A server that an administrator had taken out had requests again.
#[test]
fn a_new_process_takes_over_without_a_refused_connection() {
    let folder = program::folder("balance-upgrade");
    let (one, two) = (server("one"), server("two"));
    let mut balance = Balance::start(&folder, &format!("--listen 127.0.0.1:0 --to {one},{two}"));
    program::run(&folder, &format!("balance drain {two}")).succeeded();
    let (address, over) = (balance.address.clone(), Arc::new(AtomicBool::new(false)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (address, over) = (address.clone(), over.clone());
            std::thread::spawn(move || {
                while !over.load(SeqCst) {
                    let answer = get(&address, "/", "");
                    assert!(answer.ends_with("one"), "{answer:?}");
                }
            })
        })
        .collect();
    let told = || std::fs::read_to_string(folder.join("stderr")).unwrap();
    let pid = balance.child.id().to_string();
    assert!(Command::new("kill").args(["-USR2", &pid]).status().unwrap().success());
    wait_until("another goes on", || told().contains("goes on"));
    let told = told();
    let successor = told.split(" goes on").next().and_then(|text| text.rsplit(' ').next());
    let successor = Orphan(successor.unwrap().to_string());
    assert!(balance.child.wait().unwrap().success());
    let asked = || program::run(&folder, "balance status --json").stdout();
    wait_until("its API answers", || asked().contains("\"requests\""));
    let before = status(&folder)["requests"].as_u64().unwrap();
    wait_until("it serves", || status(&folder)["requests"].as_u64().unwrap() > before + 50);
    over.store(true, SeqCst);
    clients.into_iter().for_each(|client| client.join().unwrap());
    assert!(successor.signal("-TERM"));
    wait_until("it has ended", || !folder.join("thermocline-balance.sock").exists());
}

#[test]
fn when_nobody_can_take_over_the_balancer_goes_on() {
    let folder = program::folder("balance-no-upgrade");
    let one = server("one");
    let text = format!("[[listen]]\naddress = \"127.0.0.1:0\"\n[[backend]]\naddress = \"{one}\"\n");
    std::fs::write(folder.join("b.toml"), &text).unwrap();
    let balance = Balance::start(&folder, "b.toml");
    std::fs::write(folder.join("b.toml"), text + "nonsense = 1\n").unwrap();
    let pid = balance.child.id().to_string();
    assert!(Command::new("kill").args(["-USR2", &pid]).status().unwrap().success());
    let told = || std::fs::read_to_string(folder.join("stderr")).unwrap();
    wait_until("it says so", || told().contains("nobody takes over, this process goes on"));
    assert!(told().contains("unknown key `nonsense`"), "{}", told());
    assert!(balance.get("/", "").ends_with("one"));
    assert_eq!(status(&folder)["requests"], 1);
}

/// The old process had stopped when the new one found that its API could not be opened, and ended.
#[test]
fn a_new_process_without_its_api_goes_on_serving() {
    let folder = program::folder("balance-upgrade-api");
    let one = server("one");
    std::fs::create_dir(folder.join("run")).unwrap();
    let admin = "[admin]\nsocket = \"run/b.sock\"\n";
    let text =
        format!("[[listen]]\naddress = \"127.0.0.1:0\"\n[[backend]]\naddress = \"{one}\"\n{admin}");
    std::fs::write(folder.join("b.toml"), text).unwrap();
    let mut balance = Balance::start(&folder, "b.toml");
    std::fs::remove_dir_all(folder.join("run")).unwrap();
    let pid = balance.child.id().to_string();
    assert!(Command::new("kill").args(["-USR2", &pid]).status().unwrap().success());
    let told = || std::fs::read_to_string(folder.join("stderr")).unwrap();
    wait_until("another goes on", || told().contains("goes on"));
    let text = told();
    let successor = text.split(" goes on").next().and_then(|text| text.rsplit(' ').next());
    let successor = Orphan(successor.unwrap().to_string());
    assert!(balance.child.wait().unwrap().success());
    wait_until("it says what is wrong", || told().contains("the API is not there"));
    assert!(get(&balance.address, "/", "").ends_with("one"));
    std::fs::create_dir(folder.join("run")).unwrap();
    wait_until("the API is there", || folder.join("run/b.sock").exists());
    assert!(successor.signal("-TERM"));
    wait_until("it has ended", || !folder.join("run/b.sock").exists());
}
