//! Two gateways over loopback, with real sockets: bytes, ends, cuts, keys, rules.

// A test that cannot go on stops where it is; clippy does not see that these functions are tests'.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod accelerator;
mod cuts;
mod hostile;

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thermocline_gateway::{
    Common, EnterConfig, ExitConfig, Gateway, HostPort, KeyFiles, WhenDown, make_keys,
};
use thermocline_tunnel::Sharing;
use thermocline_units::{Bytes, Rng};

const MIB: usize = 1 << 20;
/// Nothing here takes so long unless it hangs.
const FOR_EVER: Duration = Duration::from_secs(60);

/// Events that gateways told.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn has(&self, words: &str) -> bool {
        self.0.lock().unwrap().iter().any(|line| line.contains(words))
    }

    fn wait_for(&self, words: &str) {
        wait_until(&format!("`{words}` is said; so far {self}"), || self.has(words));
    }
}

impl std::fmt::Display for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#?}", self.0.lock().unwrap())
    }
}

/// A folder with keys, and what was said.
struct Scene {
    folder: tempfile::TempDir,
    log: Log,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().unwrap();
        for name in ["enter", "exit"] {
            make_keys(&folder.path().join(name)).unwrap();
        }
        Scene { folder, log: Log::default() }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn common(&self, own: &str, peer: &str) -> Common {
        let file = |name: &str, ending: &str| self.path().join(format!("{name}.{ending}"));
        let keys = KeyFiles { key: file(own, "key"), peers: vec![file(peer, "pub")] };
        let mut common = Common::new(keys);
        common.policy = "content:size=2KiB".to_string();
        common.cache = Bytes::from_mib(64);
        common.limits.back_off_max = Duration::from_millis(400);
        let (log, own) = (self.log.clone(), own.to_string());
        common.on_event = Arc::new(move |event| {
            log.0.lock().unwrap().push(format!("{own} {}: {}", event.subject, event.text));
        });
        common
    }

    fn exit_config(&self, listen: SocketAddr, allow: &str) -> ExitConfig {
        let allow = allow.split(',').filter(|rule| !rule.is_empty());
        let allow = allow.map(|rule| rule.parse().unwrap()).collect();
        ExitConfig { common: self.common("exit", "enter"), listen, allow }
    }

    fn exit(&self, allow: &str) -> Gateway {
        Gateway::exit(self.exit_config(any(), allow)).unwrap()
    }

    /// An enter with one listener to `target`, and one for SOCKS5.
    fn enter_config(&self, to: SocketAddr, target: SocketAddr) -> EnterConfig {
        EnterConfig {
            common: self.common("enter", "exit"),
            to: host_port(to),
            forward: vec![(any(), host_port(target))],
            socks5: vec![any()],
            transparent: Vec::new(),
            when_down: WhenDown::Refuse,
            sharing: Sharing::Class,
        }
    }

    fn enter(&self, to: SocketAddr, target: SocketAddr) -> Gateway {
        let enter = Gateway::enter(self.enter_config(to, target)).unwrap();
        wait_until(&format!("the link is up; said: {}", self.log), || is_up(&enter));
        enter
    }

    /// Both, around a server, which may be reached.
    fn pair(&self, server: SocketAddr) -> (Gateway, Gateway) {
        let exit = self.exit("127.0.0.1:*");
        let enter = self.enter(exit.addresses[0], server);
        (enter, exit)
    }
}

fn any() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// An address that nobody listens on.
fn nowhere() -> SocketAddr {
    TcpListener::bind(any()).unwrap().local_addr().unwrap()
}

fn host_port(address: SocketAddr) -> HostPort {
    address.to_string().parse().unwrap()
}

fn is_up(gateway: &Gateway) -> bool {
    gateway.status().links.first().is_some_and(|link| link.is_up)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < FOR_EVER, "waited in vain until {what}");
        std::thread::yield_now();
    }
}

/// A server that does the same with each connection, on a thread of its own.
fn server(serve: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(any()).unwrap();
    let (address, serve) = (listener.local_addr().unwrap(), Arc::new(serve));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), serve.clone());
            // Clients come and go as they like.
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Bytes that do not repeat and cannot be compressed.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Rng::seeded(seed);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    stream
}

fn read_all(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).map(|_| bytes)
}

/// The reply to a client of SOCKS5 that asks for this address, and its connection.
fn socks5(listener: SocketAddr, target: SocketAddr) -> (u8, TcpStream) {
    let SocketAddr::V4(target) = target else { panic!("an IPv4 address") };
    let mut stream = connect(listener);
    let mut request = vec![5, 1, 0, 5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..3], [5, 0, 5]);
    (answer[3], stream)
}

#[test]
fn what_was_sent_once_is_not_sent_again() {
    let data = noise(1, 20 * MIB);
    let served = data.clone();
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(move |mut stream| stream.write_all(&served)));
    let mut on_the_link = Vec::new();
    for _ in 0..2 {
        let before = exit.status().links[0].sent_bytes;
        assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data, "other bytes came");
        wait_until("the flow is over", || exit.status().clients == 0);
        on_the_link.push(exit.status().links[0].sent_bytes - before);
    }
    println!("20 MiB twice: {on_the_link:?} bytes on the link");
    assert!(on_the_link[0] >= 20 * MIB as u64, "noise cannot be made shorter");
    assert!(on_the_link[1] < MIB as u64, "{} bytes of 20 MiB again", on_the_link[1]);
    let link = &exit.status().links[0];
    let class = &link.classes[0];
    assert!((0.48..0.5).contains(&class.re_ratio.unwrap()), "{class:?}");
    assert_eq!((class.bytes, link.chunks_asked_of_us), (40 * MIB as u64 + 2, 0));
    assert!(enter.stop(FOR_EVER), "nothing was cut off");
    wait_until("the exit knows", || exit.status().links.is_empty());
}

#[test]
fn a_client_that_said_its_last_byte_gets_the_whole_answer() {
    let scene = Scene::new();
    let (enter, _exit) = scene.pair(server(|mut stream| {
        let mut bytes = read_all(&mut stream)?;
        bytes.reverse();
        stream.write_all(&bytes)
    }));
    for length in [0, 1, 100, 3 * MIB] {
        let mut stream = connect(enter.addresses[0]);
        let mut data = noise(length as u64, length);
        stream.write_all(&data).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        data.reverse();
        assert!(read_all(&mut stream).unwrap() == data, "{length} bytes");
    }
}

/// Says every five bytes again.
fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut word = [0; 5];
    loop {
        stream.read_exact(&mut word)?;
        stream.write_all(&word)?;
    }
}

#[test]
fn small_words_go_to_and_fro() {
    let scene = Scene::new();
    let (enter, _exit) = scene.pair(server(echo));
    let mut stream = connect(enter.addresses[0]);
    stream.set_nodelay(true).unwrap();
    let began = Instant::now();
    for round in 0..100_u32 {
        let said = format!("{round:05}");
        stream.write_all(said.as_bytes()).unwrap();
        let mut heard = [0; 5];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, said.as_bytes());
    }
    println!("100 words to and fro: {:?}", began.elapsed());
}

#[test]
fn two_hundred_flows_go_on_beside_one_that_nobody_reads() {
    let data = noise(2, MIB);
    let served = data.clone();
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(move |mut stream| {
        let mut first = [0];
        stream.read_exact(&mut first)?;
        // One client asks for more than all buffers hold.
        for _ in 0..if first[0] == b'*' { 64 } else { 1 } {
            stream.write_all(&served)?;
        }
        Ok(())
    }));
    let mut idle = connect(enter.addresses[0]);
    idle.write_all(b"*").unwrap();
    wait_until("much was sent that nobody reads", || {
        let status = exit.status();
        status.links[0].classes.first().is_some_and(|class| class.bytes > MIB as u64)
    });
    let clients: Vec<_> = (0..200).map(|_| connect(enter.addresses[0])).collect();
    std::thread::scope(|scope| {
        for mut stream in clients {
            let data = &data;
            scope.spawn(move || {
                stream.write_all(b".").unwrap();
                assert!(read_all(&mut stream).unwrap() == *data, "other bytes came");
            });
        }
    });
    assert!(read_all(&mut idle).unwrap() == data.repeat(64), "and the one gets all of its own");
}

#[test]
fn an_exit_that_dies_cuts_flows_and_the_next_one_serves_again() {
    // More than all buffers on the way hold.
    let data = noise(3, 48 * MIB);
    let served = data.clone();
    let scene = Scene::new();
    let target = server(move |mut stream| stream.write_all(&served));
    let (enter, exit) = scene.pair(target);
    let listener = exit.addresses[0];
    let mut stream = connect(enter.addresses[0]);
    let mut got = vec![0; MIB];
    stream.read_exact(&mut got).unwrap();
    drop(exit);
    let mut rest = Vec::new();
    let error = stream.read_to_end(&mut rest).expect_err("an end would look like the last byte");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    got.extend(rest);
    assert!(got.len() < data.len() && data.starts_with(&got), "{} right bytes", got.len());
    wait_until("it is noticed", || enter.status().links.is_empty());
    scene.log.wait_for("cut: the link broke");
    let mut refused = connect(enter.addresses[0]);
    assert_eq!(refused.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
    let status = enter.status();
    assert!(status.down_for_s.is_some() && status.last_error.is_some(), "{status:?}");
    assert_eq!((status.cut, status.refused), (1, 1));

    let exit = Gateway::exit(scene.exit_config(listener, "127.0.0.1:*")).unwrap();
    wait_until("the link is up again", || is_up(&enter));
    assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data, "other bytes came");
    assert_eq!(exit.status().connections, 1);
    assert_eq!(enter.status().connections, 2);
}

#[test]
fn an_enter_that_dies_leaves_nothing_behind() {
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(|mut stream| read_all(&mut stream).map(drop)));
    let mut stream = connect(enter.addresses[0]);
    stream.write_all(b"hello").unwrap();
    wait_until("the server is connected", || exit.status().clients == 1);
    drop(enter);
    assert!(stream.read(&mut [0]).is_err(), "a cut is no end");
    wait_until("the exit let go", || {
        let status = exit.status();
        status.clients == 0 && status.links.is_empty()
    });
    assert!(exit.status().down_for_s.is_some());
}

#[test]
fn a_cache_outlives_its_connection() {
    let data = noise(4, 4 * MIB);
    let served = data.clone();
    let scene = Scene::new();
    // A line that can be cut: it passes on what comes.
    let exit = scene.exit("127.0.0.1:*");
    let line = Line::to(exit.addresses[0]);
    let enter = scene.enter(line.address, server(move |mut stream| stream.write_all(&served)));
    assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data);
    line.cut();
    wait_until("both made a new connection", || enter.status().connections == 2);
    wait_until("it is up", || is_up(&enter) && exit.status().links.len() == 1);
    assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data);
    wait_until("the flow is over", || exit.status().clients == 0);
    let link = exit.status().links[0].clone();
    assert!(link.sent_bytes < data.len() as u64 / 20, "{link:?}");
}

/// The names of saved caches in a folder, which are whole and their owner's alone.
fn saved(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let mut names: Vec<String> = files
        .map(|file| {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            file.file_name().into_string().unwrap()
        })
        .collect();
    names.sort();
    assert!(names.iter().all(|name| name.ends_with(".cache")), "{names:?}");
    names
}

/// Both ends of a tunnel to `target`, which keep their caches in `folder`.
fn keeping(scene: &Scene, folder: &Path, target: SocketAddr) -> (Gateway, Gateway) {
    let mut config = scene.exit_config(any(), "127.0.0.1:*");
    config.common.keep = Some(folder.to_path_buf());
    let exit = Gateway::exit(config).unwrap();
    let mut config = scene.enter_config(exit.addresses[0], target);
    config.common.keep = Some(folder.to_path_buf());
    let enter = Gateway::enter(config).unwrap();
    (exit, enter)
}

#[test]
fn a_kept_cache_outlives_both_ends() {
    let data = noise(8, 4 * MIB);
    let scene = Scene::new();
    let folder = scene.path().join("caches");
    let served = data.clone();
    let target = server(move |mut stream| stream.write_all(&served));
    let sent = || {
        let (exit, enter) = keeping(&scene, &folder, target);
        wait_until("the link is up", || is_up(&enter));
        assert_eq!(saved(&folder), [""; 0], "a file that is in use could be read twice");
        assert!(read_all(&mut connect(enter.addresses[0])).unwrap() == data);
        wait_until("the flow is over", || exit.status().clients == 0);
        let sent = exit.status().links[0].sent_bytes;
        assert!(enter.stop(FOR_EVER) && exit.stop(FOR_EVER));
        sent
    };
    assert!(sent() > data.len() as u64, "random bytes cannot be compressed");
    let names = saved(&folder);
    assert!(names.len() == 2 && names[0].starts_with("enter-") && names[1].starts_with("exit-"));
    assert!(sent() < data.len() as u64 / 20, "{}", scene.log);
    assert_eq!(saved(&folder), names);

    // A bit rots in one of them: that end begins with an empty cache, and says so.
    let path = folder.join(&names[1]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100_000] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert!(sent() > data.len() as u64);
    let log = scene.log.to_string();
    assert!(log.contains("the checksum is not that of the bytes before it; begins with"), "{log}");
}

/// A folder that became read-only, as far as it can be had by root too.
#[test]
fn a_kept_cache_that_cannot_be_removed_is_not_used_and_holds_nothing_up() {
    let scene = Scene::new();
    let folder = scene.path().join("caches");
    let target = server(|mut stream| stream.write_all(b"served"));
    let run = || {
        let (exit, enter) = keeping(&scene, &folder, target);
        wait_until(&format!("the link is up; said: {}", scene.log), || is_up(&enter));
        assert_eq!(read_all(&mut connect(enter.addresses[0])).unwrap(), b"served");
        assert!(enter.stop(FOR_EVER) && exit.stop(FOR_EVER));
    };
    run();
    for name in saved(&folder) {
        // No file to remove, and none to read.
        std::fs::remove_file(folder.join(&name)).unwrap();
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    run();
    for end in ["enter", "exit"] {
        let said = format!("{end} cache: {}/{end}-", folder.display());
        let log = scene.log.0.lock().unwrap();
        let is_told =
            |line: &String| line.starts_with(&said) && line.contains("it cannot be removed");
        assert!(log.iter().any(is_told), "{log:#?}");
    }
}

#[test]
fn a_folder_that_others_may_enter_keeps_no_caches() {
    let scene = Scene::new();
    let folder = scene.path().join("open");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = scene.exit_config(any(), "");
    config.common.keep = Some(folder);
    let error = Gateway::exit(config).err().unwrap().to_string();
    assert!(error.contains("chmod 700"), "{error}");
}

/// A line between two ends that can be cut.
struct Line {
    address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn to(target: SocketAddr) -> Line {
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = streams.clone();
        let address = server(move |mut one| {
            let mut other = TcpStream::connect(target)?;
            let (mut back, mut forth) = (other.try_clone()?, one.try_clone()?);
            all.lock().unwrap().extend([one.try_clone()?, other.try_clone()?]);
            std::thread::spawn(move || io::copy(&mut back, &mut forth));
            io::copy(&mut one, &mut other).map(drop)
        });
        Line { address, streams }
    }

    fn cut(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

#[test]
fn the_tail_of_what_a_server_said_survives_a_stop() {
    let data = noise(5, 24 * MIB);
    let served = data.clone();
    let scene = Scene::new();
    let (enter, exit) = scene.pair(server(move |mut stream| stream.write_all(&served)));
    let mut stream = connect(enter.addresses[0]);
    stream.shutdown(Shutdown::Write).unwrap();
    wait_until("the flow runs", || exit.status().clients == 1);
    let stopping = std::thread::spawn(move || exit.stop(FOR_EVER));
    let mut got = vec![0; MIB];
    stream.read_exact(&mut got).unwrap();
    got.extend(read_all(&mut stream).unwrap());
    assert!(got == data, "{} of {} bytes came", got.len(), data.len());
    assert!(stopping.join().unwrap(), "nothing was cut off");
    assert!(enter.stop(FOR_EVER));
}

#[test]
fn a_key_that_nobody_named_is_refused_and_both_sides_say_so() {
    let scene = Scene::new();
    make_keys(&scene.path().join("stranger")).unwrap();
    let exit = scene.exit("*:*");
    // An enter that the exit does not know.
    let mut config = scene.enter_config(exit.addresses[0], nowhere());
    config.common.keys.key = scene.path().join("stranger.key");
    let stranger = Gateway::enter(config).unwrap();
    scene.log.wait_for("refused this end's key");
    scene.log.wait_for("is none of those that --peer names");
    wait_until("the stranger notes why", || {
        stranger.status().last_error.is_some_and(|error| error.contains("name its .pub there"))
    });
    drop(stranger);
    // An exit that the enter does not know.
    let mut config = scene.enter_config(exit.addresses[0], nowhere());
    config.common.keys.peers = vec![scene.path().join("stranger.pub")];
    let misled = Gateway::enter(config).unwrap();
    scene.log.wait_for("enter link: ");
    wait_until("the exit heard of it", || {
        exit.status().last_error.is_some_and(|error| error.contains("alert"))
    });
    wait_until("the misled enter notes why", || {
        let error = misled.status().last_error;
        error.is_some_and(|error| error.contains("is none of those that --peer names"))
    });
    assert_eq!((exit.status().connections, misled.status().connections), (0, 0));
}

#[test]
fn keys_are_changed_while_both_run() {
    let scene = Scene::new();
    let exit = scene.exit("127.0.0.1:*");
    let line = Line::to(exit.addresses[0]);
    let enter = scene.enter(line.address, server(|mut stream| stream.write_all(b"served")));
    // A new key for the enter, which the exit is told of first.
    make_keys(&scene.path().join("new")).unwrap();
    let file = |name: &str| scene.path().join(name);
    let both = [file("enter.pub"), file("new.pub")].map(|path| std::fs::read(path).unwrap());
    std::fs::write(file("enter.pub"), both.concat()).unwrap();
    std::fs::rename(file("new.key"), file("enter.key")).unwrap();
    line.cut();
    wait_until("a new connection is up", || enter.status().connections == 2 && is_up(&enter));
    assert_eq!(read_all(&mut connect(enter.addresses[0])).unwrap(), b"served");
}

#[test]
fn targets_that_no_rule_names_are_not_reached() {
    let secret = server(|mut stream| stream.write_all(b"secret"));
    for (allow, advice) in [
        ("", format!("no target is allowed; pass --allow {secret}")),
        ("10.0.0.0/8:*,localhost:1", format!("no rule allows it; pass --allow {secret}")),
    ] {
        let scene = Scene::new();
        let exit = scene.exit(allow);
        let enter = scene.enter(exit.addresses[0], secret);
        let mut stream = connect(enter.addresses[0]);
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        assert_eq!(socks5(enter.addresses[1], secret).0, 2, "not allowed by the rules");
        scene.log.wait_for(&advice);
        scene.log.wait_for("the exit does not allow this target");
        assert_eq!(exit.status().refused, 2);
    }
}

#[test]
fn socks5_clients_wait_for_the_servers_answer() {
    let echo = server(|mut stream| {
        let bytes = read_all(&mut stream)?;
        stream.write_all(&bytes)
    });
    let scene = Scene::new();
    let (enter, exit) = scene.pair(echo);
    let (code, mut stream) = socks5(enter.addresses[1], echo);
    assert_eq!(code, 0);
    stream.write_all(b"to and fro").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream).unwrap(), b"to and fro");
    let nobody = nowhere();
    assert_eq!(socks5(enter.addresses[1], nobody).0, 5, "refused");
    let mut stranger = connect(enter.addresses[1]);
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read_all(&mut stranger).unwrap(), b"");
    scene.log.wait_for("does not speak SOCKS5");
    drop(exit);
    wait_until("it is noticed", || enter.status().links.is_empty());
    assert_eq!(socks5(enter.addresses[1], echo).0, 3, "no way");
}

#[test]
fn clients_pass_by_when_that_was_asked_for() {
    let target = server(|mut stream| {
        let bytes = read_all(&mut stream)?;
        stream.write_all(&bytes)
    });
    let scene = Scene::new();
    let nobody = nowhere();
    let mut config = scene.enter_config(nobody, target);
    config.when_down = WhenDown::Pass;
    let enter = Gateway::enter(config).unwrap();
    let mut stream = connect(enter.addresses[0]);
    stream.write_all(b"past it").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut stream).unwrap(), b"past it");
    assert_eq!(socks5(enter.addresses[1], target).0, 0);
    scene.log.wait_for("past the tunnel");
    scene.log.wait_for("clients are connected past it");
    let status = enter.status();
    assert_eq!((status.passed, status.when_down.as_deref()), (2, Some("pass")));
}

#[test]
fn the_silent_hold_no_place_for_long() {
    let scene = Scene::new();
    let mut config = scene.exit_config(any(), "127.0.0.1:*");
    config.common.limits.strangers_max = 1;
    config.common.limits.handshake_within = Duration::from_millis(300);
    let exit = Gateway::exit(config).unwrap();
    let silent = connect(exit.addresses[0]);
    let mut config = scene.enter_config(exit.addresses[0], nowhere());
    config.common.limits.socks5_within = Duration::from_millis(300);
    config.common.limits.clients_max = 1;
    let enter = Gateway::enter(config).unwrap();
    wait_until("the link is up", || is_up(&enter));
    scene.log.wait_for("the handshake took longer than 0.3 s");
    drop(silent);
    let mut slow = connect(enter.addresses[1]);
    slow.write_all(&[5]).unwrap();
    assert!(slow.read(&mut [0]).is_err(), "half a greeting is not enough");
    scene.log.wait_for("SOCKS5 took longer than 0.3 s");
}

#[test]
fn no_more_clients_than_may_be() {
    let scene = Scene::new();
    let exit = scene.exit("127.0.0.1:*");
    let target = server(|mut stream| read_all(&mut stream).map(drop));
    let mut config = scene.enter_config(exit.addresses[0], target);
    config.common.limits.clients_max = 2;
    let enter = Gateway::enter(config).unwrap();
    wait_until("the link is up", || is_up(&enter));
    let two = [connect(enter.addresses[0]), connect(enter.addresses[0])];
    wait_until("both are served", || enter.status().flows == 2);
    assert!(connect(enter.addresses[0]).read(&mut [0]).is_err(), "a third one is refused");
    scene.log.wait_for("as many clients as may be");
    drop(two);
    wait_until("places are free", || enter.status().clients == 0);
    let _third = connect(enter.addresses[0]);
    wait_until("it is served", || enter.status().flows == 3);
}

#[test]
fn curl_gets_a_page_through_socks5() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED: curl is not installed; install it to try a client that is not ours");
        return;
    }
    let page = noise(6, MIB);
    let served = page.clone();
    let web = server(move |mut stream| {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", served.len())?;
        stream.write_all(&served)?;
        read_all(&mut stream).map(drop)
    });
    let scene = Scene::new();
    let exit = scene.exit(&format!("localhost:{}", web.port()));
    let enter = scene.enter(exit.addresses[0], web);
    for scheme in ["socks5h", "socks5"] {
        let ran = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "", "--proxy"])
            .arg(format!("{scheme}://{}", enter.addresses[1]))
            .arg(format!("http://localhost:{}/", web.port()))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&ran.stderr);
        if scheme == "socks5h" {
            assert!(ran.status.success() && ran.stdout == page, "{error}");
        } else {
            // It resolved the name itself, and only the name is allowed.
            assert!(!ran.status.success() && error.contains("(2)"), "{error}");
        }
    }
}
