//! A real application on a mounted volume: redis that answers only what it has synced
//! (`appendfsync always`), killed by itself and together with the engine below it.

use crate::mounted::{Mounted, mounting_works, shell};
use crate::program;
use crate::up::{Up, clients_are_here};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ENGINE: &str = "--size 128MiB --no-emulation";
/// Keys that are acknowledged before something is killed.
const BEFORE_KILL: u32 = 300;

/// A redis server with its data on the volume.
struct Redis {
    child: Child,
    socket: PathBuf,
}

impl Redis {
    fn start(folder: &Path) -> Redis {
        let socket = folder.join("redis.sock");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "../redis.sock", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always"])
            .current_dir(folder.join("tree"))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Redis { child, socket };
        let start = Instant::now();
        let answers = |mut client: Client| client.ask("PING").as_deref() == Some("+PONG");
        while !redis.client().is_some_and(answers) {
            assert!(start.elapsed() < Duration::from_secs(20), "redis does not come up");
            std::thread::yield_now();
        }
        redis
    }

    fn client(&self) -> Option<Client> {
        let stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        Some(Client(BufReader::new(stream)))
    }

    fn kill(&mut self) {
        let _ = self.child.kill(); // It may have ended: its disk is gone.
        self.child.wait().unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    /// One command; its answer's first line, or the contents that follow it.
    fn ask(&mut self, words: &str) -> Option<String> {
        self.0.get_mut().write_all(format!("{words}\r\n").as_bytes()).ok()?;
        let first = self.line()?;
        if first.starts_with('$') && first != "$-1" { self.line() } else { Some(first) }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let count = self.0.read_line(&mut line).ok()?;
        (count > 0).then(|| line.trim_end().to_string())
    }

    /// Sets keys from `first` on until one is not acknowledged: the first such.
    fn set_until_it_fails(&mut self, first: u32, mut told: impl FnMut(u32)) -> u32 {
        for key in first.. {
            if self.ask(&format!("SET key{key} value{key}")).as_deref() != Some("+OK") {
                return key;
            }
            told(key + 1);
        }
        unreachable!("there is a last number")
    }
}

/// Writes from a thread of its own while `kill` happens; how many keys were acknowledged.
fn acknowledged_until(redis: &Redis, first: u32, kill: impl FnOnce()) -> u32 {
    let (send, receive) = std::sync::mpsc::channel();
    let mut client = redis.client().unwrap();
    let writer = std::thread::spawn(move || {
        client.set_until_it_fails(first, |count| {
            let _ = send.send(count); // Nobody listens any more after the kill.
        })
    });
    while receive.recv().is_ok_and(|count| count < first + BEFORE_KILL) {}
    kill();
    writer.join().unwrap()
}

/// Every key below `count` has its value.
fn assert_keys(redis: &Redis, count: u32) {
    let mut client = redis.client().unwrap();
    for key in 0..count {
        let value = client.ask(&format!("GET key{key}"));
        assert_eq!(value, Some(format!("value{key}")), "key{key} of {count}");
    }
}

#[test]
fn redis_finds_every_acknowledged_key_after_it_and_the_engine_were_killed() {
    let folder = program::folder("redis");
    if !clients_are_here() || !mounting_works(&folder, "mkfs.ext4 e2fsck redis-server") {
        return;
    }
    let up = Up::start_with(&folder, ENGINE);
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell("mkfs.ext4 -q DEVICE && mount DEVICE tree");

    let mut redis = Redis::start(&folder);
    let pid = redis.child.id();
    let count = acknowledged_until(&redis, 0, || {
        shell(&folder, &format!("kill -9 {pid}")).unwrap();
    });
    redis.kill();
    assert!(count >= BEFORE_KILL);
    let mut redis = Redis::start(&folder);
    assert_keys(&redis, count);

    let count = acknowledged_until(&redis, count, || {
        assert_eq!(up.stop("-KILL"), None);
    });
    redis.kill();
    assert!(count >= 2 * BEFORE_KILL);
    drop(mounted);
    let up = Up::start_with(&folder, ENGINE);
    let mounted = Mounted::new(&folder).unwrap();
    // Replays ext4's journal; then nothing may be left to mend.
    mounted.shell("mount DEVICE tree && umount tree && e2fsck -fn DEVICE && mount DEVICE tree");
    let redis = Redis::start(&folder);
    assert_keys(&redis, count);
    drop(redis);
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}
