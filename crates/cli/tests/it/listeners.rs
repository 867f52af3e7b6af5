//! Listeners under clients that connect and say nothing, that say half of something, and that are
//! too many: nobody else is kept out. The clients are sockets that speak the protocol by hand.

use crate::engine::{json, over_socket};
use crate::program;
use crate::up::Up;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than anything here takes that happens at all.
const PATIENCE: Duration = Duration::from_secs(60);
const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const ACK: u32 = 1;
const POLICY: u32 = 1 << 31 | 2;

/// A socket that waits no longer than [`PATIENCE`].
trait Socket: Read + Write {}
impl Socket for TcpStream {}
impl Socket for UnixStream {}

/// A client that has connected.
struct Client(Box<dyn Socket>);

impl Client {
    fn tcp(address: &str) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(Box::new(stream))
    }

    fn unix(folder: &Path) -> Client {
        let stream = UnixStream::connect(folder.join("pools/nbd.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(Box::new(stream))
    }

    fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.0.read_exact(&mut bytes).map(|()| bytes)
    }

    /// Hears the greeting and answers it.
    fn greet(&mut self) -> io::Result<()> {
        let greeting: [u8; 18] = self.read()?;
        assert_eq!(greeting[..16], *GREETING);
        self.0.write_all(&1_u32.to_be_bytes())
    }

    /// Asks for the volume: the last reply's kind, and what it said.
    fn go(&mut self) -> io::Result<(u32, String)> {
        let mut option = b"IHAVEOPT".to_vec();
        let data = [&2_u32.to_be_bytes()[..], b"v0", &[0, 0]].concat();
        option.extend([7_u32.to_be_bytes(), (data.len() as u32).to_be_bytes()].concat());
        option.extend(data);
        self.0.write_all(&option)?;
        loop {
            let head: [u8; 20] = self.read()?;
            let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            let mut text = vec![0; number(16) as usize];
            self.0.read_exact(&mut text)?;
            if number(12) != 3 {
                return Ok((number(12), String::from_utf8_lossy(&text).into_owned()));
            }
        }
    }

    /// The same client with the volume attached.
    fn attached(mut self) -> Client {
        self.greet().unwrap();
        assert_eq!(self.go().unwrap().0, ACK);
        self
    }

    /// Sends the header of a write, and `sent` of its bytes.
    fn write(&mut self, length: u32, sent: usize) -> io::Result<()> {
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9]);
        request.extend(0_u64.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.resize(request.len() + sent, 7);
        self.0.write_all(&request)
    }

    /// Hears that its write succeeded.
    fn hears_done(&mut self) {
        let reply: [u8; 16] = self.read().unwrap();
        assert_eq!(reply[4..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
    }

    /// True once the engine has closed the connection.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

/// An engine with a TCP listener: the folder, the engine, and the address.
fn engine(test: &str, nbd: &str) -> (PathBuf, Up, String) {
    let folder = program::folder(test);
    let config = format!(
        "data = \"pools\"\n[[pool]]\nname = \"only\"\nsize = \"128MiB\"\n[[volume]]\n\
         size = \"64MiB\"\n[nbd]\ntcp = [\"127.0.0.1:0\"]\n{nbd}"
    );
    std::fs::write(folder.join("up.toml"), config).unwrap();
    let (up, said) = Up::start_config(&folder, "up.toml");
    let address = said.split_once("also nbd://").unwrap().1.split_once('/').unwrap().0.to_string();
    (folder, up, address)
}

/// Waits until the engine's status is as wanted.
fn until(up: &Up, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let start = Instant::now();
    loop {
        let status = json(up, "status");
        if wanted(&status) {
            return status;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: {status:#}");
    }
}

fn events(folder: &Path) -> String {
    over_socket(folder, "/v1/events").1
}

/// 256 connections that said nothing, over TCP, locked every client out for ever, also those of the
/// unix socket; the 257th was not even greeted.
#[test]
fn idle_connections_lock_nobody_out() {
    let (folder, up, address) = engine("listeners-idle", "");
    let mut idle: Vec<Client> = (0..300).map(|_| Client::tcp(&address)).collect();
    let _unix = Client::unix(&folder).attached();
    let _tcp = Client::tcp(&address).attached();
    assert!(idle[0].is_closed(), "the oldest gave way");
    idle.clear();
    let status = json(&up, "status");
    let gave_way = &status["clients"]["listeners"][1]["turned_away"]["gave_way"];
    assert!(gave_way.as_u64().unwrap() >= 300 - 64, "{gave_way}");
    let start = Instant::now();
    while !events(&folder).contains("before the end of the handshake") {
        assert!(start.elapsed() < PATIENCE, "no event tells of them");
    }
    let metrics = over_socket(&folder, "/metrics").1;
    let wanted = format!("turned_away_total{{listener=\"{address}\",reason=\"gave_way\"}} 23");
    assert!(metrics.contains(&wanted), "{metrics}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_handshake_has_a_deadline_and_an_attached_client_has_none() {
    let (folder, up, address) = engine("listeners-late", "handshake-timeout = \"300ms\"\n");
    let mut attached = Client::unix(&folder).attached();
    let mut silent = Client::tcp(&address);
    let mut undecided = Client::unix(&folder);
    undecided.greet().unwrap();
    assert!(silent.is_closed() && undecided.is_closed());
    attached.write(512, 512).unwrap();
    attached.hears_done();
    let late =
        |status: &Value| status["clients"]["listeners"][0]["turned_away"]["handshake_timeout"] == 1;
    until(&up, "one handshake was late on each listener", late);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_client_beyond_the_limit_is_told_and_may_ask_again() {
    let (folder, up, address) = engine("listeners-full", "connections = 2\n");
    let first = Client::tcp(&address).attached();
    let _second = Client::tcp(&address).attached();
    let mut third = Client::tcp(&address);
    third.greet().unwrap();
    let (kind, said) = third.go().unwrap();
    assert_eq!(kind, POLICY);
    assert!(said.contains("all 2 connections of this listener are in use"), "{said}");
    let _other_listener = Client::unix(&folder).attached();
    drop(first);
    until(&up, "the first has left", |status| status["clients"]["listeners"][1]["attached"] == 1);
    assert_eq!(third.go().unwrap().0, ACK);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// 20 writes of 32 MiB that had begun and did not go on held 620 MiB.
#[test]
fn writes_that_do_not_go_on_hold_bounded_memory_and_keep_nobody_waiting_for_ever() {
    let (folder, up, address) =
        engine("listeners-half", "buffers = \"64MiB\"\nstall-timeout = \"1s\"\n");
    let limit = 64 << 20;
    let mut half: Vec<Client> = (0..20).map(|_| Client::tcp(&address).attached()).collect();
    for client in &mut half {
        client.write(32 << 20, 4096).unwrap();
    }
    let status = until(&up, "what does not fit waits", |status| {
        status["clients"]["waiting"].as_u64().is_some_and(|waiting| waiting > 0)
    });
    assert!(status["clients"]["buffer_bytes"].as_u64().unwrap() <= limit);
    let mut small = Client::unix(&folder).attached();
    small.write(4096, 4096).unwrap();
    small.hears_done();
    let mut large = Client::unix(&folder).attached();
    large.write(1 << 20, 1 << 20).unwrap();
    large.hears_done();
    let stalled = &json(&up, "status")["clients"]["listeners"][1]["turned_away"]["stalled"];
    assert!(stalled.as_u64().unwrap() > 0, "{stalled}");
    drop(half);
    until(&up, "all memory has come back", |status| status["clients"]["buffer_bytes"] == 0);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// A listener that the system had no room to accept from kept the loop awake for ever.
#[test]
fn without_open_files_to_spare_an_engine_says_so_and_lets_clients_in_one_by_one() {
    let (folder, up, address) = engine("listeners-files", "");
    let pid = up.pid().to_string();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let limit = format!("--nofile={}:{}", open + 3, open + 3);
    assert!(up.run("prlimit", &["--pid", &pid, &limit]).is_ok());
    let idle: Vec<Client> = (0..10).map(|_| Client::tcp(&address)).collect();
    let _unix = Client::unix(&folder).attached();
    drop(idle);
    let told = "a connection cannot be accepted";
    let start = Instant::now();
    while !events(&folder).contains(told) {
        assert!(start.elapsed() < PATIENCE, "no event says so");
    }
    assert_eq!(up.stop("-TERM"), Some(0));
}
