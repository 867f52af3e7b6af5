//! `thermocline up` with the clients that people use: libnbd's and qemu's own tools.
//!
//! They come from the packages libnbd-bin and qemu-utils; without them the tests say SKIPPED.

use crate::program;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The volume, as seen from the test's folder.
pub(crate) const URI: &str = "nbd+unix:///v0?socket=pools/nbd.sock";

/// A running engine in a folder of its own.
pub(crate) struct Up {
    child: Child,
    folder: PathBuf,
}

impl Up {
    /// Starts it and waits for its socket.
    fn start(folder: &Path) -> Up {
        Up::start_with(folder, "--size 64MiB")
    }

    /// The same, with these arguments.
    pub(crate) fn start_with(folder: &Path, arguments: &str) -> Up {
        let arguments = arguments.split_whitespace();
        Up::start_on(folder, &["--data", "pools"].into_iter().chain(arguments).collect::<Vec<_>>())
    }

    /// Starts what has its data in `pools`, with these arguments and no others.
    pub(crate) fn start_on(folder: &Path, arguments: &[&str]) -> Up {
        Up::start_in(folder, arguments, &[])
    }

    /// The same, in this environment; what it complains about goes to the file `stderr`.
    pub(crate) fn start_in(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Up {
        let complaints = std::fs::File::create(folder.join("stderr")).unwrap();
        let socket = folder.join("pools/nbd.sock");
        let _ = std::fs::remove_file(&socket);
        let child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .arg("up")
            .args(arguments)
            .args(["--log", "none"])
            .current_dir(folder)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(complaints)
            .spawn()
            .unwrap();
        let up = Up { child, folder: folder.to_path_buf() };
        let start = Instant::now();
        while !(socket.exists() && up.run("nbdinfo", &["--size", URI]).is_ok()) {
            assert!(start.elapsed() < Duration::from_secs(20), "the engine does not come up");
            std::thread::yield_now();
        }
        up
    }

    /// Starts what a configuration says, and tells what the start told.
    pub(crate) fn start_config(folder: &Path, config: &str) -> (Up, String) {
        Up::start_with_arguments(folder, &[config])
    }

    /// Starts with these arguments, and tells what the start told.
    pub(crate) fn start_with_arguments(folder: &Path, arguments: &[&str]) -> (Up, String) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
            .arg("up")
            .args(arguments)
            .args(["--log", "none"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said = String::new();
        while !said.contains("stop with Ctrl-C") {
            said += &lines.next().expect("the engine comes up").unwrap();
            said += "\n";
        }
        // What it says at its end goes somewhere too.
        std::thread::spawn(move || lines.for_each(drop));
        (Up { child, folder: folder.to_path_buf() }, said)
    }

    /// Runs a client to its end: its output, or what it complained about.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        let done = command.args(arguments).current_dir(&self.folder).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if done.status.success() {
            return Ok(text(&done.stdout));
        }
        // qemu-io complains on its standard output.
        Err(text(&done.stdout) + &text(&done.stderr))
    }

    /// Waits until something is so.
    pub(crate) fn wait_for(&self, mut is_so: impl FnMut(&Up) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < Duration::from_secs(120), "it does not come to it");
            std::thread::yield_now();
        }
    }

    /// A client that has a volume attached until it leaves.
    pub(crate) fn attach(&self, volume: &str) -> Attached {
        let uri = format!("nbd+unix:///{volume}?socket=pools/nbd.sock");
        let mut child = Command::new("qemu-io")
            .args(["-f", "raw", &uri])
            .current_dir(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut client = Attached { child, said };
        client.io("read 0 512");
        client
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal and waits for the end: the exit status.
    pub(crate) fn stop(mut self, signal: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

/// See [`Up::attach`].
pub(crate) struct Attached {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Attached {
    /// The number of its process.
    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Runs a command of qemu-io that must succeed.
    pub(crate) fn io(&mut self, command: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{command}").unwrap();
        let mut told = String::new();
        // The last line of a request that succeeded counts operations.
        while !told.contains("ops;") {
            let count = self.said.read_line(&mut told).unwrap();
            assert!(count > 0 && !told.contains("failed"), "{command}: {told}");
        }
    }

    /// Detaches.
    pub(crate) fn leave(mut self) {
        writeln!(self.child.stdin.as_mut().unwrap(), "quit").unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Already ended when it has left; not when a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Already ended when it was stopped; not when a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// True if the clients are here; says so when they are not.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
pub(crate) fn clients_are_here() -> bool {
    let here = ["nbdinfo", "nbdcopy", "qemu-io"]
        .iter()
        .all(|program| Command::new(program).arg("--version").output().is_ok());
    if !here {
        println!("SKIPPED: no NBD clients; install libnbd-bin and qemu-utils");
    }
    here
}

/// Bytes that do not repeat at any distance that matters.
pub(crate) fn contents(length: usize) -> Vec<u8> {
    let mut rng = thermocline_units::Rng::seeded(11);
    (0..length / 8).flat_map(|_| rng.next_u64().to_le_bytes()).collect()
}

#[test]
fn what_nbdcopy_puts_in_comes_out_after_a_stop_and_after_a_kill() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("up-nbdcopy");
    let wanted = contents(20 << 20);
    std::fs::write(folder.join("in"), &wanted).unwrap();
    let mut up = Up::start(&folder);
    up.run("nbdcopy", &["--flush", "in", URI]).unwrap();
    for (signal, status) in [("-TERM", Some(0)), ("-KILL", None)] {
        assert_eq!(up.stop(signal), status);
        up = Up::start(&folder);
        up.run("nbdcopy", &[URI, "out"]).unwrap();
        let got = std::fs::read(folder.join("out")).unwrap();
        assert!(got[..wanted.len()] == wanted, "after {signal}");
        assert!(got[wanted.len()..].iter().all(|&byte| byte == 0), "after {signal}");
    }
    assert_eq!(up.stop("-INT"), Some(0));
}

#[test]
fn qemu_reads_what_it_wrote_zeroed_and_discarded() {
    if !clients_are_here() {
        return;
    }
    let up = Up::start(&program::folder("up-qemu"));
    let commands = [
        "write -P 7 1M 3M",
        "read -P 7 1M 3M",
        "read -P 0 0 1M",
        "discard 2M 1M",
        "read -P 0 2M 1M",
        "write -z 1536k 4k",
        "read -P 0 1536k 4k",
        "read -P 7 1540k 484k",
        "write -f -P 9 63M 512",
        "read -P 9 63M 512",
        "flush",
    ];
    let mut arguments = vec!["-f", "raw", URI];
    for command in &commands {
        arguments.extend(["-c", command]);
    }
    let said = up.run("qemu-io", &arguments).unwrap();
    assert!(!said.contains("failed"), "{said}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn block_status_tells_holes_and_pools() {
    if !clients_are_here() {
        return;
    }
    let up = Up::start(&program::folder("up-status"));
    up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 1 4M 2M"]).unwrap();
    let words = |text: String| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_string).collect()).collect()
    };
    let map = words(up.run("nbdinfo", &["--map", URI]).unwrap());
    let expected = [
        vec!["0", "4194304", "3", "hole,zero"],
        vec!["4194304", "2097152", "0", "data"],
        vec!["6291456", "60817408", "3", "hole,zero"],
    ];
    assert_eq!(map, expected);
    let pools = words(up.run("nbdinfo", &["--map=thermocline:pool", URI]).unwrap());
    assert_eq!(pools[1][..3], ["4194304", "2097152", "1"], "the fastest pool is the first");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// The pools of a start without a configuration, with another data folder.
const OTHER: &str = r#"
data = "other"
[[pool]]
name = "scm"
path = "../pools/scm.pool"
[[volume]]
size = "64MiB"
"#;

#[test]
fn a_second_engine_and_a_missing_pool_are_refused() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("up-refused");
    let up = Up::start(&folder);
    program::run(&folder, "up --data pools").ended_with(1).says("with the data folder pools");
    std::fs::write(folder.join("other.toml"), OTHER).unwrap();
    program::run(&folder, "up other.toml").ended_with(1).says("in use by another process");
    assert_eq!(up.stop("-TERM"), Some(0));
    std::fs::rename(folder.join("pools/ssd.pool"), folder.join("away")).unwrap();
    program::run(&folder, "up --data pools").ended_with(2).says("ssd.pool is missing or empty");
    assert!(!folder.join("pools/ssd.pool").exists(), "nothing was made in its place");
}

/// Three starts met in an empty folder: one served, and another, which was refused, deleted a pool
/// of it.
#[test]
fn of_several_first_starts_at_once_one_serves_and_loses_no_file() {
    if !clients_are_here() {
        return;
    }
    for round in 0..8 {
        let folder = program::folder(&format!("up-at-once-{round}"));
        let start = || {
            Command::new(env!("CARGO_BIN_EXE_thermocline"))
                .args([
                    "up",
                    "--data",
                    "pools",
                    "--size",
                    "16MiB",
                    "--no-emulation",
                    "--log",
                    "none",
                ])
                .current_dir(&folder)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        };
        let mut starts = [start(), start(), start()];
        let running = |starts: &mut [Child; 3]| {
            let alive = starts.iter_mut().map(|start| start.try_wait().unwrap().is_none());
            alive.filter(|&alive| alive).count()
        };
        let began = Instant::now();
        let pools = ["scm", "ssd", "hdd"].map(|pool| folder.join(format!("pools/{pool}.pool")));
        // The socket alone says little: a start tries it out before it makes pools.
        let is_up = || folder.join("pools/nbd.sock").exists() && pools.iter().all(|p| p.exists());
        while running(&mut starts) > 1 || !is_up() {
            assert!(
                began.elapsed() < Duration::from_secs(120),
                "round {round}: not one, or no pool"
            );
            std::thread::yield_now();
        }
        for pool in &pools {
            assert!(pool.exists(), "round {round}: {}", pool.display());
        }
        for start in &mut starts {
            let pid = start.id().to_string();
            let _ = Command::new("kill").args(["-TERM", &pid]).status();
            start.wait().unwrap();
        }
        program::run(&folder, "check --data pools").succeeded();
    }
}

/// A pipe that nobody read, or a terminal that was stopped, stopped the engine with its clients.
#[test]
fn an_engine_whose_events_nobody_reads_serves_and_stops() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("up-unread");
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(&[b'.'; 64 << 10]).unwrap(); // As much as a pipe takes.
    let child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(["up", "--data", "pools", "--size", "16MiB", "--no-emulation"])
        .current_dir(&folder)
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let up = Up { child, folder: folder.clone() };
    up.wait_for(|up| up.run("nbdinfo", &["--size", URI]).is_ok());
    for _ in 0..3 {
        up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 1 0 1M", "-c", "flush"]).unwrap();
    }
    program::run(&folder, "status --data pools").succeeded();
    assert_eq!(up.stop("-TERM"), Some(0));
    drop(reader);
}

/// `--degraded` was refused, because the configuration still named the pool that was missing.
#[test]
fn a_missing_pool_is_given_up_when_that_is_said_and_the_rest_is_served() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("up-degraded");
    let arguments = ["--data", "pools", "--size", "64MiB", "--no-emulation"];
    let up = Up::start_on(&folder, &arguments);
    // 32 MiB of the fastest pool are less than 40.
    up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 1 0 40M", "-c", "flush"]).unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
    std::fs::remove_file(folder.join("pools/ssd.pool")).unwrap();
    let up = Up::start_on(&folder, &[&arguments[..], &["--degraded"]].concat());
    let ask = |commands: &[&str]| {
        let words = commands.iter().flat_map(|command| ["-c", command]);
        let words: Vec<&str> = ["-f", "raw", URI].into_iter().chain(words).collect();
        up.run("qemu-io", &words)
    };
    ask(&["read -P 1 0 16M", "write -P 2 50M 4M", "read -P 2 50M 4M", "flush"]).unwrap();
    let lost = ask(&["read 39M 1M"]).unwrap_or_else(|said| said);
    assert!(lost.contains("Input/output error"), "{lost}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// The API answered before the journal did.
#[test]
fn a_volume_that_was_made_grown_or_deleted_is_so_after_a_kill() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("up-volumes");
    let up = Up::start(&folder);
    for words in ["create 1MiB", "create 2MiB", "grow v1 3MiB", "delete v2 --yes"] {
        program::run(&folder, &format!("volume {words} --data pools")).succeeded();
    }
    assert_eq!(up.stop("-KILL"), None);
    let up = Up::start(&folder);
    let listed = program::run(&folder, "volume list --data pools").succeeded().stdout();
    assert_eq!(listed, "v0, 64 MiB, identity 1\nv1, 3 MiB, identity 2\n");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// `up --data pools` on a group of a configuration opened its pool `hdd` "as slow as hdd-7200",
/// because its file is called hdd.pool, and with another policy than the configured one.
#[test]
fn a_group_of_a_configuration_is_not_opened_without_it() {
    let folder = program::folder("up-configured");
    let pools =
        ["fast", "hdd"].map(|name| format!("[[pool]]\nname = \"{name}\"\nsize = \"32MiB\"\n"));
    let text = format!("data = \"pools\"\n{}[[volume]]\nsize = \"16MiB\"\n", pools.concat());
    std::fs::write(folder.join("engine.toml"), &text).unwrap();
    let (up, said) = Up::start_config(&folder, "engine.toml");
    // Nothing moved by itself, and nothing said so; nor how to get a dashboard.
    assert!(said.contains("no [policy] in engine.toml: no data moves by itself"), "{said}");
    assert!(said.contains("no dashboard: `tcp` and `token-file` under [http]"), "{said}");
    assert_eq!(up.stop("-TERM"), Some(0));
    let file = folder.join("engine.toml").display().to_string();
    let refused = program::run(&folder, "up --data pools").ended_with(2);
    refused.says(&format!("was started with a configuration, {file}"));
    assert!(!folder.join("pools/scm.pool").exists(), "nothing is made");

    let decided = format!("{text}[policy]\nname = \"static\"\n");
    std::fs::write(folder.join("engine.toml"), decided).unwrap();
    for arguments in [&["engine.toml"][..], &["engine.toml", "--policy", "none"]] {
        let (up, said) = Up::start_with_arguments(&folder, arguments);
        assert!(!said.contains("no [policy]"), "{said}");
        assert_eq!(up.stop("-TERM"), Some(0));
    }
    // And the other way round: pools for demonstration may become somebody's own.
    let (up, _) = Up::start_with_arguments(&folder, &["--data", "mine", "--size", "64MiB"]);
    assert_eq!(up.stop("-TERM"), Some(0));
    assert!(!folder.join("mine/started-with").exists());
}

/// A start whose socket was taken had made a new group before it failed; a size that was asked for
/// a volume that is there was ignored without a word.
#[test]
fn a_start_that_cannot_listen_makes_nothing_and_a_size_that_has_no_effect_is_told() {
    let folder = program::folder("up-sockets");
    let (up, _) = Up::start_with_arguments(&folder, &["--data", "pools", "--size", "64MiB"]);
    let busy = program::run(&folder, "up --data other --socket pools/nbd.sock").ended_with(1);
    busy.says("pools/nbd.sock: ");
    assert!(!folder.join("other").exists(), "nothing is left behind");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = format!(
        "data = \"other\"\n[[pool]]\nname = \"a\"\nsize = \"32MiB\"\n[[volume]]\n\
         size = \"8MiB\"\n[nbd]\ntcp = [\"{address}\"]\n"
    );
    std::fs::write(folder.join("other.toml"), config).unwrap();
    program::run(&folder, "up other.toml").ended_with(1).says(&format!("{address}: "));
    assert!(!folder.join("other").exists(), "nothing is left behind");
    assert_eq!(up.stop("-TERM"), Some(0));

    let (up, said) = Up::start_with_arguments(&folder, &["--data", "pools", "--size", "64MiB"]);
    assert!(!said.contains("--size"), "{said}");
    assert_eq!(up.stop("-TERM"), Some(0));
    let (up, said) = Up::start_with_arguments(&folder, &["--data", "pools", "--size", "128MiB"]);
    let told = "--size 128 MiB is for a volume that is made, and v0 has 64 MiB";
    assert!(said.contains(told), "{said}");
    assert_eq!(up.stop("-TERM"), Some(0));
}
