//! `thermocline up` with listeners that a service manager hands over. A shell stands in for the
//! manager: it puts sockets at the numbers of sd_listen_fds(3), and becomes the engine.

use crate::program::{self, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Longer than anything here takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);

const CONFIG: &str = "data = \"pools\"\n[[pool]]\nname = \"only\"\nsize = \"128MiB\"\n[[volume]]\n\
                      size = \"64MiB\"\n[nbd]\n";

/// A folder with a configuration, to which `more` is added.
fn prepared(test: &str, more: &str) -> std::path::PathBuf {
    let folder = program::folder(test);
    let socket = folder.join("nbd.sock");
    let text = format!("{CONFIG}socket = \"{}\"\n{more}", socket.display());
    std::fs::write(folder.join("up.toml"), text).unwrap();
    folder
}

/// The shell with these sockets as its first ones: it becomes `thermocline up up.toml`.
fn manager(folder: &Path, first: OwnedFd, second: Option<OwnedFd>) -> Command {
    let count = if second.is_some() { 2 } else { 1 };
    let script = "exec 3<&0 4<&2 0</dev/null 2>stderr; export LISTEN_PID=$$ LISTEN_FDS=$1; \
                  shift; exec \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh", &count.to_string(), env!("CARGO_BIN_EXE_thermocline")]);
    shell.args(["up", "up.toml", "--log", "none"]).current_dir(folder);
    shell.env("LISTEN_FDNAMES", "nbd:more").stdin(first).stdout(Stdio::piped());
    shell.stderr(second.map_or(Stdio::null(), Stdio::from));
    shell
}

/// An engine that ends with the test.
struct Engine(Child);

impl Engine {
    /// Starts it; it has told how to attach its volumes when this returns.
    fn start(mut manager: Command) -> (Engine, String) {
        let mut child = manager.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let engine = Engine(child);
        let mut said = String::new();
        while !said.contains("stop with Ctrl-C") {
            said += &lines.next().expect("the engine comes up").unwrap();
            said += "\n";
        }
        std::thread::spawn(move || lines.for_each(drop));
        (engine, said)
    }

    fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that has connected, to be served some time.
fn client(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn hears_greeting(mut stream: impl Read) {
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT");
}

#[test]
fn clients_wait_in_the_socket_until_the_engine_serves_and_while_it_is_restarted() {
    let folder = prepared("activation", "");
    let path = folder.join("nbd.sock");
    let held = UnixListener::bind(&path).unwrap();
    let before = client(&path);
    let handed = || held.try_clone().unwrap().into();
    let (engine, said) = Engine::start(manager(&folder, handed(), None));
    assert!(said.contains("nbd+unix:///v0?socket="), "{said}");
    hears_greeting(before);
    hears_greeting(client(&path));
    engine.stop();
    assert!(path.exists(), "the name is the manager's");
    let between = client(&path);
    let (engine, _) = Engine::start(manager(&folder, handed(), None));
    hears_greeting(between);
    engine.stop();
}

#[test]
fn the_api_and_tcp_may_be_handed_over_too() {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = tcp.local_addr().unwrap();
    let path = program::folder("activation_api").join("api.sock");
    let http = path.display();
    let more = format!("tcp = [\"{address}\"]\n[http]\nsocket = \"{http}\"\n");
    let folder = prepared("activation_api", &more);
    let held = UnixListener::bind(&path).unwrap();
    let handed = tcp.try_clone().unwrap().into();
    let shell = manager(&folder, handed, Some(held.try_clone().unwrap().into()));
    let (engine, said) = Engine::start(shell);
    assert!(said.contains(&format!("also nbd://{address}/v0")), "{said}");
    let network = std::net::TcpStream::connect(address).unwrap();
    network.set_read_timeout(Some(PATIENCE)).unwrap();
    hears_greeting(network);
    // What was not handed over is made as ever.
    hears_greeting(client(&folder.join("nbd.sock")));
    let mut api = client(&path);
    api.write_all(b"GET /v1/status HTTP/1.1\r\nhost: engine\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    api.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    engine.stop();
    assert!(path.exists() && !folder.join("nbd.sock").exists());
}

#[test]
fn what_is_not_configured_or_listens_to_nothing_is_refused_before_a_pool_is_made() {
    let folder = prepared("activation_refused", "");
    let refused = |socket: OwnedFd| {
        let mut shell = manager(&folder, socket, None);
        let ended = shell.spawn().unwrap().wait().unwrap();
        (ended.code(), std::fs::read_to_string(folder.join("stderr")).unwrap())
    };
    let other = UnixListener::bind(folder.join("other.sock")).unwrap();
    let (status, said) = refused(other.into());
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("other.sock, which is not configured"), "{said}");
    let (_one, pair) = UnixStream::pair().unwrap();
    let (status, said) = refused(pair.into());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("`nbd`, and it cannot be used: not a stream socket"), "{said}");
    assert!(!folder.join("pools").exists());
}

#[test]
fn variables_that_mean_another_process_are_left_alone() {
    let folder = prepared("activation_other", "");
    let mut check = Command::new(env!("CARGO_BIN_EXE_thermocline"));
    check.args(["up", "none.toml"]).current_dir(&folder);
    check.env("LISTEN_PID", "1").env("LISTEN_FDS", "7");
    let said = String::from_utf8(check.output().unwrap().stderr).unwrap();
    assert!(said.contains("none.toml") && !said.contains("LISTEN"), "{said}");
    run(&folder, "check up.toml").succeeded();
}
