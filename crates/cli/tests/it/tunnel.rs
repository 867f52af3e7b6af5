//! `thermocline tunnel` as a user runs it: keys, two processes, a kill in between, the status.

use crate::program;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A running end; killed with this.
pub(crate) struct End {
    child: Child,
    pub(crate) said: String,
}

impl End {
    pub(crate) fn start(folder: &Path, arguments: &str) -> End {
        End::run(Command::new(env!("CARGO_BIN_EXE_thermocline")), folder, arguments)
    }

    /// The same in a network namespace.
    pub(crate) fn start_in(namespace: &str, folder: &Path, arguments: &str) -> End {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, env!("CARGO_BIN_EXE_thermocline")]);
        End::run(command, folder, arguments)
    }

    fn run(mut command: Command, folder: &Path, arguments: &str) -> End {
        let mut child = command
            .arg("tunnel")
            .args(arguments.split_whitespace())
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("stop with Ctrl-C") {
            said += &lines.next().expect("the end comes up").unwrap();
            said += "\n";
        }
        End { child, said }
    }

    /// Address at which it listens.
    pub(crate) fn address(&self) -> String {
        let rest = self.said.split("listening on ").nth(1).unwrap();
        rest.split([',', '\n']).next().unwrap().to_string()
    }

    /// All places where it listens.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let rest = self.said.split("listening on ").skip(1);
        rest.map(|rest| rest.split([',', '\n']).next().unwrap().to_string()).collect()
    }

    fn ends_after_a_signal(mut self) {
        let signalled = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(signalled.success());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn status(folder: &Path, socket: &str) -> Value {
    let ran = program::run(folder, &format!("tunnel status --json --socket {socket}")).succeeded();
    serde_json::from_str(&ran.stdout()).unwrap()
}

pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// A server that sends `data`.
pub(crate) fn server(data: Vec<u8>) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    // Whoever finds the queue full waits for the system's next try.
    rustix::net::listen(&listener, 4096).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, data) = (stream.unwrap(), data.clone());
            std::thread::spawn(move || stream.write_all(&data));
        }
    });
    address
}

pub(crate) fn read_all(address: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    TcpStream::connect(address).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn two_processes_carry_a_flow_and_one_that_is_killed_comes_back() {
    let folder = program::folder("tunnel");
    for name in ["enter", "exit"] {
        program::run(&folder, &format!("tunnel keys {name}")).succeeded();
    }
    program::run(&folder, "tunnel keys enter")
        .ended_with(2)
        .says("enter.key and enter.pub are there already");
    // More than all buffers on the way hold.
    let data: Vec<u8> =
        (0..48_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let target = server(data.clone());
    let exit_at = |listen: &str| {
        format!(
            "exit --listen {listen} --key exit.key --peer enter.pub --allow {target} \
                 --policy content:size=2KiB --socket exit.sock"
        )
    };
    let exit = End::start(&folder, &exit_at("127.0.0.1:0"));
    let address = exit.address();
    let enter = End::start(
        &folder,
        &format!(
            "enter --to {address} --key enter.key --peer exit.pub --forward 0={target} --socks5 0 \
                  --policy content:size=2KiB --socket enter.sock"
        ),
    );
    let is_up = || status(&folder, "enter.sock")["links"][0]["is_up"] == true;
    wait_until("the link is up", is_up);
    assert!(read_all(&enter.address()) == data, "other bytes came");
    let told = status(&folder, "exit.sock");
    let port: u16 = target.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(told["links"][0]["classes"][0]["class"], port);
    let text = program::run(&folder, "tunnel status --socket exit.sock").succeeded().stdout();
    assert!(text.contains("link up") && text.contains("content 2 KiB"), "{text}");

    // Killed amid a flow: an error for the client, and never an end.
    let mut stream = TcpStream::connect(enter.address()).unwrap();
    stream.read_exact(&mut [0; 4096]).unwrap();
    drop(exit);
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_err(), "{} bytes and an end", rest.len());
    wait_until("the enter knows", || !status(&folder, "enter.sock")["down_for_s"].is_null());
    let text = program::run(&folder, "tunnel status --socket enter.sock").succeeded().stdout();
    assert!(text.contains("link DOWN") && text.contains("clients: refuse"), "{text}");
    let exit = End::start(&folder, &exit_at(&address));
    wait_until("the link is up again", is_up);
    assert!(read_all(&enter.address()) == data, "other bytes came");
    enter.ends_after_a_signal();
    exit.ends_after_a_signal();
    assert!(!folder.join("enter.sock").exists() && !folder.join("exit.sock").exists());
}

#[test]
fn a_worker_cuts_for_an_exit_and_the_status_tells_when_it_failed() {
    let folder = program::folder("tunnel-worker");
    for name in ["enter", "exit"] {
        program::run(&folder, &format!("tunnel keys {name}")).succeeded();
    }
    let mut rng = thermocline_units::Rng::seeded(4);
    let data: Vec<u8> = (0..1 << 20).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let target = server(data.clone());
    let worker = format!(
        "--chunking accelerator --worker {} --worker-arg tunnel --worker-arg worker",
        env!("CARGO_BIN_EXE_thermocline")
    );
    let exit = End::start(
        &folder,
        &format!(
            "exit --listen 127.0.0.1:0 --key exit.key --peer enter.pub --allow {target} {worker} \
                 --policy content:size=2KiB --socket exit.sock --dashboard 0"
        ),
    );
    let to = exit.address();
    let enter = End::start(
        &folder,
        &format!(
            "enter --to {to} --key enter.key --peer exit.pub --forward 0={target} \
                  --socket enter.sock --dashboard 0"
        ),
    );
    wait_until("the link is up", || status(&folder, "enter.sock")["links"][0]["is_up"] == true);
    assert!(read_all(&enter.address()) == data, "other bytes came");
    let accelerator = || status(&folder, "exit.sock")["accelerator"].clone();
    let before = accelerator();
    assert!(before["bytes"].as_u64().unwrap() > 4 << 20, "{before}");
    assert_eq!((&before["is_up"], &before["false_answers"]), (&true.into(), &0.into()));

    let process = before["process"].to_string();
    assert!(Command::new("kill").args(["-KILL", &process]).status().unwrap().success());
    wait_until("the failure is told", || accelerator()["failures"] == 1);
    assert!(read_all(&enter.address()) == data, "other bytes came without it");
    wait_until("it is there again", || accelerator()["is_up"] == true);
    let text = program::run(&folder, "tunnel status --socket exit.sock").succeeded().stdout();
    assert!(text.contains("accelerator up") && text.contains("1 failures"), "{text}");
    enter.ends_after_a_signal();
    exit.ends_after_a_signal();
}

#[test]
fn what_memory_cannot_hold_is_found_on_disk() {
    let folder = program::folder("tunnel-disk");
    for name in ["enter", "exit"] {
        program::run(&folder, &format!("tunnel keys {name}")).succeeded();
    }
    let mut rng = thermocline_units::Rng::seeded(3);
    let data: Vec<u8> = (0..3 << 20).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let target = server(data.clone());
    let with = "--cache 4MiB --disk chunks --disk-cache 64MiB --policy content:size=2KiB";
    let exit = End::start(
        &folder,
        &format!(
            "exit --listen 127.0.0.1:0 --key exit.key --peer enter.pub --allow {target} {with} \
                 --socket exit.sock --dashboard 0"
        ),
    );
    let to = exit.address();
    let enter = End::start(
        &folder,
        &format!(
            "enter --to {to} --key enter.key --peer exit.pub --forward 0={target} {with} \
                  --socket enter.sock --dashboard 0"
        ),
    );
    let links = |socket| status(&folder, socket)["links"][0].clone();
    wait_until("the link is up", || links("enter.sock")["is_up"] == true);
    assert!(read_all(&enter.address()) == data, "other bytes came");
    let sent = || links("exit.sock")["classes"][0]["sent"].as_u64().unwrap();
    let first = sent();
    assert!(read_all(&enter.address()) == data, "other bytes came the second time");
    let second = sent() - first;
    assert!(second < first / 10, "{first} bytes at first and {second} then");
    let read = links("enter.sock")["disk"]["read"].as_u64().unwrap();
    assert!(read > 5000, "{read} chunks were read");
    let text = program::run(&folder, "tunnel status --socket enter.sock").succeeded().stdout();
    assert!(text.contains("disk: ") && text.contains("0 lost, 0 dropped"), "{text}");
    let left: Vec<_> = std::fs::read_dir(folder.join("chunks")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    enter.ends_after_a_signal();
    exit.ends_after_a_signal();
}

#[test]
fn what_cannot_work_is_said_at_the_start() {
    let folder = program::folder("tunnel-refused");
    for name in ["one", "two"] {
        program::run(&folder, &format!("tunnel keys {name}")).succeeded();
    }
    let with = "--key one.key --peer two.pub";
    let to = "tunnel enter --to 127.0.0.1:1";
    program::run(&folder, &format!("{to} {with}")).ended_with(2).says("no client could come in");
    let exposed = format!("{to} {with} --socks5 0.0.0.0:0");
    program::run(&folder, &exposed).ended_with(2).says("pass --expose");
    program::run(&folder, &format!("{to} --key one.pub --peer two.pub --socks5 0"))
        .ended_with(2)
        .says("chmod 600");
    program::run(&folder, &format!("{to} {with} --socks5 0 --policy nonsense"))
        .ended_with(2)
        .says("nonsense");
    program::run(&folder, "tunnel exit --listen 127.0.0.1:0 --key one.key --peer none.pub")
        .ended_with(2)
        .says("none.pub");
    let with_disk = format!("{to} {with} --socks5 0 --disk");
    program::run(&folder, &format!("{with_disk} chunks --disk-cache 1MiB"))
        .ended_with(2)
        .says("16 MiB to 512 GiB");
    program::run(&folder, &format!("{with_disk} one.key")).ended_with(2).says("one.key");
    program::run(&folder, &format!("{with_disk} /")).ended_with(2).says("chmod 700");
    program::run(&folder, &format!("{to} {with} --socks5 0 --disk-cache 1GiB"))
        .ended_with(2)
        .says("--disk <FOLDER>");
    program::run(&folder, &format!("{to} {with} --socks5 0 --chunking accelerator"))
        .ended_with(2)
        .says("--worker <PROGRAM>");
    program::run(&folder, &format!("{to} {with} --socks5 0 --worker /bin/true"))
        .ended_with(2)
        .says("--chunking accelerator");
    let by_worker = format!("{to} {with} --socks5 0 --chunking accelerator --worker");
    program::run(&folder, &format!("{by_worker} /bin/echo")).ended_with(2).says("as a worker does");
    program::run(&folder, &format!("{by_worker} /bin/true --worker-least 1MiB"))
        .ended_with(2)
        .says("256 KiB");
    program::run(&folder, "tunnel worker 4 65536").ended_with(1).says("an end starts it");
    program::run(&folder, "tunnel status").ended_with(1).says("is an end running");
    program::run(&folder, &format!("tunnel exit --listen 127.0.0.1:0 {with} --allow x"))
        .ended_with(2)
        .says("10.0.0.0/8:80");
}
