//! Sources of hints: files of a mounted ext4, and programs that know nothing of hints.

use crate::mounted::{Mounted, mounting_works};
use crate::program::{self, run};
use crate::up::{Up, clients_are_here};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ENGINE: &str = "--size 128MiB --no-emulation";
/// The program, as a shell calls it from the test's folder.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_thermocline");

/// An engine with ext4 from its volume mounted on `tree`; `None` where that does not work.
pub(crate) fn ext4(test: &str, programs: &str) -> Option<(std::path::PathBuf, Up, Mounted)> {
    let folder = program::folder(test);
    if !clients_are_here() || !mounting_works(&folder, &format!("mkfs.ext4 {programs}")) {
        return None;
    }
    let up = Up::start_with(&folder, ENGINE);
    let mounted = Mounted::new(&folder).unwrap();
    mounted.shell("mkfs.ext4 -q DEVICE && mount DEVICE tree");
    Some((folder, up, mounted))
}

/// Ranges of a document's hints.
pub(crate) fn ranges(document: &str) -> Vec<Range<u64>> {
    let document: Value = serde_json::from_str(document).unwrap();
    let hints = document["hints"].as_array().unwrap();
    let range = |hint: &Value| {
        let start = hint["offset_bytes"].as_u64().unwrap();
        start..start + hint["length_bytes"].as_u64().unwrap()
    };
    hints.iter().map(range).collect()
}

/// Written extents of a file by `filefrag -v -b1`, neighbours as one.
fn told_by_filefrag(text: &str) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for line in text.lines().filter(|line| !line.contains("unwritten")) {
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        let Some((first, last)) = fields.get(2).and_then(|range| range.split_once("..")) else {
            continue;
        };
        let Ok(start) = first.trim().parse::<u64>() else { continue };
        let end = last.trim().parse::<u64>().unwrap() + 1;
        found.push(start..end);
    }
    found.sort_by_key(|range| range.start);
    found.dedup_by(|next, one| {
        let touches = one.end == next.start;
        if touches {
            one.end = next.end;
        }
        touches
    });
    found
}

/// The volume's bytes there.
fn volume(folder: &Path, ranges: &[Range<u64>]) -> Vec<u8> {
    let volume = File::open(folder.join("fuse/nbd")).unwrap();
    let mut bytes = Vec::new();
    for range in ranges {
        let mut part = vec![0; (range.end - range.start) as usize];
        volume.read_exact_at(&mut part, range.start).unwrap();
        bytes.extend(part);
    }
    bytes
}

/// A source as `hint list` tells of it.
pub(crate) fn source(folder: &Path, name: &str) -> Option<Value> {
    let list = run(folder, "hint list --json --data pools").succeeded().stdout();
    let list: Value = serde_json::from_str(&list).unwrap();
    let sources = list["sources"].as_array().unwrap();
    sources.iter().find(|one| one["name"].as_str().unwrap().starts_with(name)).cloned()
}

/// Effects of hints.
pub(crate) fn hints_done(folder: &Path) -> Value {
    let list = run(folder, "hint list --json --data pools").succeeded().stdout();
    serde_json::from_str::<Value>(&list).unwrap()["done"].clone()
}

#[test]
fn hints_of_paths_are_the_ranges_that_filefrag_tells() {
    let Some((folder, up, mounted)) = ext4("sources-path", "filefrag fallocate") else { return };
    mounted.shell(
        "mkdir -p tree/a/b && head -c 5M /dev/urandom > tree/a/b/one.bin \
         && for i in $(seq 40); do head -c 200k /dev/urandom > tree/gap$i; done \
         && for i in $(seq 1 2 39); do rm tree/gap$i; done \
         && head -c 6M /dev/urandom > tree/pieces \
         && truncate -s 3M tree/holes \
         && dd if=/dev/urandom of=tree/holes bs=64k count=1 seek=7 conv=notrunc status=none \
         && fallocate -l 1M tree/unwritten && sync -f tree",
    );
    for file in ["tree/a/b/one.bin", "tree/pieces", "tree/holes", "tree/unwritten"] {
        let words = format!("hint path --dry-run --data pools --usage archival {file}");
        let document = run(&folder, &words).succeeded().stdout();
        let wanted = told_by_filefrag(&mounted.shell(&format!("filefrag -v -b1 {file}")));
        assert_eq!(ranges(&document), wanted, "{file}");
        assert_eq!(wanted.is_empty(), file == "tree/unwritten");
    }
    let document = run(&folder, "hint path --dry-run --data pools tree/a/b/one.bin").stdout();
    assert!(
        volume(&folder, &ranges(&document))
            == std::fs::read(folder.join("tree/a/b/one.bin")).unwrap(),
        "the volume holds the file there"
    );
    let hint = &serde_json::from_str::<Value>(&document).unwrap()["hints"][0];
    assert_eq!(hint["level"], "file");
    assert_eq!(hint["volume"], "v0");
    assert_eq!(hint["file_size_bytes"], 5 << 20);
    assert_eq!(hint["directory"], "/a/b");
    assert_eq!(hint["file_name"], "one.bin");

    run(&folder, "hint path --data pools tree").ended_with(2).says("--recursive");
    let sent = run(&folder, "hint path -r --data pools --json tree").succeeded().stdout();
    let sent: Value = serde_json::from_str(&sent).unwrap();
    assert_eq!(sent["files"], 1 + 20 + 1 + 2);
    assert_eq!(sent["left_out"]["unwritten_bytes"], 1 << 20);
    assert_eq!(sent["taken"]["taken"], sent["ranges"]);
    assert_eq!(source(&folder, "path").unwrap()["taken"], sent["ranges"]);
    run(&folder, "hint path --data pools /etc/hostname").ended_with(2);
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn hints_of_paths_follow_the_offset_of_a_loop_device() {
    let Some((folder, up, mounted)) = ext4("sources-offset", "losetup") else { return };
    // Beside the file system on the whole volume, which is done with: one 32 MiB in.
    let document = mounted.shell(&format!(
        "umount tree; d=$(losetup --find --show --offset 33554432 fuse/nbd); \
         trap 'umount tree; losetup -d $d' EXIT; mkfs.ext4 -q $d; mount $d tree; \
         head -c 2M /dev/urandom > file; cp file tree/file; sync -f tree; \
         {PROGRAM} hint path --dry-run --data pools tree/file"
    ));
    let wanted = std::fs::read(folder.join("file")).unwrap();
    assert!(volume(&folder, &ranges(&document)) == wanted, "the volume holds the file there");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// Runs words under `thermocline hint run --keep`, and asserts that hints came of it.
fn gives_hints(folder: &Path, mounted: &Mounted, words: &str) {
    gives_hints_while(folder, mounted, words, "true");
}

/// The same of a program that goes on until `meanwhile` has ended it.
fn gives_hints_while(folder: &Path, mounted: &Mounted, words: &str, meanwhile: &str) {
    let hints = "--mount tree --data pools --keep --usage mixed --background 500";
    let run = format!("{PROGRAM} hint run {hints} -- {words} >out 2>err & run=$!");
    let pid = mounted.shell(&format!("{run}; {meanwhile} >/dev/null 2>&1; wait $run; echo $run"));
    let said = std::fs::read_to_string(folder.join("err")).unwrap();
    assert!(!said.contains("without hints"), "{said}");
    let source = source(folder, &format!("run-{pid}"));
    let source = source.unwrap_or_else(|| panic!("{words}: no hints; {said}"));
    assert!(source["taken"].as_u64().unwrap() > 0, "{words}: {source}");
}

#[test]
fn unmodified_programs_run_under_hints() {
    let Some((folder, up, mounted)) = ext4("sources-run", "cp dd fio") else { return };
    mounted.shell("head -c 4M /dev/urandom > tree/one && sync -f tree");
    gives_hints(&folder, &mounted, "cp tree/one copy");
    mounted.shell("cmp tree/one copy");
    gives_hints(&folder, &mounted, "dd if=copy of=tree/two bs=64k conv=fsync");
    mounted.shell("cmp tree/two copy");
    let fio = "fio --name=job --directory=tree --size=2M --rw=randrw --bs=4k --end_fsync=1";
    gives_hints(&folder, &mounted, fio);
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn redis_and_fsck_run_under_hints() {
    let Some((folder, up, mounted)) = ext4("sources-redis", "redis-server redis-cli e2fsck") else {
        return;
    };
    let redis = "redis-server --port 0 --unixsocket ../redis.sock --dir tree \
                 --appendonly yes --appendfsync always";
    let ask = "redis-cli -s redis.sock";
    let talk = format!("(until {ask} ping; do :; done; {ask} set key value; {ask} shutdown)");
    gives_hints_while(&folder, &mounted, redis, &talk);
    mounted.shell("grep -r value tree/appendonlydir || grep value tree/appendonly.aof");
    // A check sees the device, not the files: a hint of all of it lets its requests wait.
    let waited = || hints_done(&folder)["requests_waited"].as_u64().unwrap();
    let before = waited();
    let run = "hint run --data pools --device DEVICE --background 50 --keep";
    // Dropped from memory by the loop device's own ioctl, so that the check reads.
    mounted.shell("umount tree && blockdev --flushbufs DEVICE");
    mounted.shell(&format!("{PROGRAM} {run} -- e2fsck -fn DEVICE"));
    let fsck = source(&folder, "run-device-").unwrap();
    assert_eq!((fsck["taken"].as_u64(), fsck["ranges"].as_u64()), (Some(1), Some(1)), "{fsck}");
    assert!(waited() > before, "its requests waited for others");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn rsync_runs_under_hints() {
    let Some((folder, up, mounted)) = ext4("sources-rsync", "rsync") else { return };
    mounted
        .shell("mkdir tree/from; for i in 1 2 3; do head -c 1M /dev/urandom > tree/from/$i; done");
    mounted.shell("sync -f tree");
    gives_hints(&folder, &mounted, "rsync -a tree/from/ tree/to/");
    mounted.shell("diff -r tree/from tree/to");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn hints_are_withdrawn_when_the_command_has_ended() {
    let Some((folder, up, mounted)) = ext4("sources-end", "cat") else { return };
    mounted.shell("head -c 1M /dev/urandom > tree/one && sync -f tree");
    run(&folder, "hint run --mount tree --data pools -- cat tree/one tree/none")
        .command_ended_with(1);
    let source = source(&folder, "run-").unwrap();
    assert!(source["taken"].as_u64().unwrap() > 0, "{source}");
    assert_eq!(source["ranges"], 0, "{source}");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_command_without_an_engine_runs_and_keeps_its_output_and_status() {
    let folder = program::folder("sources-alone");
    let words = "hint run --data nowhere -- sh -c cat;exit$IFS$((6*7))";
    let ran = program::run_with_input(&folder, words, b"in and out").command_ended_with(42);
    assert_eq!(ran.stdout(), "in and out");
    ran.says("runs without hints");
    run(&folder, "hint run --data nowhere -- no-such-program").ended_with(127);
    let killed = run(&folder, "hint run --data nowhere -- sh -c kill$IFS-9$IFS$$");
    killed.command_ended_with(128 + 9);
}

#[test]
fn a_command_gets_the_signals_that_were_meant_for_it() {
    let folder = program::folder("sources-signal");
    let script = "trap 'exit 7' TERM; echo ready; while :; do read -r line; done";
    let mut child = Command::new(PROGRAM)
        .args(["hint", "run", "--data", "nowhere", "--", "bash", "-c", script])
        .current_dir(&folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    // A shell waits for a line before it obeys.
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), Some(7));
}

/// A child that is ended with the test.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It has ended already when the test stopped it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program beside the test, its stderr readable.
pub(crate) fn beside(folder: &Path, words: &str) -> Ended {
    let mut command = Command::new(PROGRAM);
    command.args(words.split_whitespace()).current_dir(folder);
    Ended(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Asks until it is so; fails when it does not come to be.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} does not come to be");
        std::thread::yield_now();
    }
}

#[test]
fn watching_a_mount_gives_hints_of_files_that_are_opened() {
    let Some((folder, up, mounted)) = ext4("sources-watch", "cat") else { return };
    mounted.shell("head -c 3M /dev/urandom > tree/one && sync -f tree");
    let mut watch = beside(&folder, "hint watch --mount tree --data pools");
    let mut said = BufReader::new(watch.0.stderr.take().unwrap()).lines();
    let first = said.next().unwrap().unwrap();
    assert!(first.contains("watching") && first.contains("volume v0"), "{first}");
    mounted.shell("cat tree/one >/dev/null");
    let ranges = || source(&folder, "watch").map_or(0, |one| one["ranges"].as_u64().unwrap());
    until("a hint", || ranges() > 0);
    let pid = rustix::process::Pid::from_child(&watch.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
    assert_eq!(ranges(), 0, "withdrawn at the end");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// A document of one hint.
fn document(offset_mib: u64) -> String {
    format!(
        r#"{{"version": 1, "source": "file", "hints": [{{"volume": "v0", "usage": "archival",
            "offset_bytes": {}, "length_bytes": 1048576}}]}}"#,
        offset_mib << 20
    )
}

#[test]
fn a_watched_document_is_sent_whenever_it_changes() {
    let folder = program::folder("sources-document");
    if !clients_are_here() {
        return;
    }
    let up = Up::start_with(&folder, ENGINE);
    std::fs::write(folder.join("hints.json"), document(0)).unwrap();
    let _watch = beside(&folder, "hint send --watch hints.json --data pools");
    let taken = || source(&folder, "file").map_or(0, |one| one["taken"].as_u64().unwrap());
    until("the first document", || taken() == 1);
    std::fs::write(folder.join("new.json"), document(2)).unwrap();
    std::fs::rename(folder.join("new.json"), folder.join("hints.json")).unwrap();
    until("the second document", || taken() == 2);
    assert_eq!(source(&folder, "file").unwrap()["ranges"], 2);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn python_gives_hints() {
    let folder = program::folder("sources-python");
    let python = Command::new("python3").arg("--version").output();
    if !clients_are_here() || python.is_err() {
        eprintln!("SKIPPED: needs python3");
        return;
    }
    let up = Up::start_with(&folder, ENGINE);
    let script = "\
from engine import Engine, Refused
engine = Engine('pools/http.sock')
taken = engine.give('py', [{'volume': 'v0', 'length_bytes': 4096, 'pin': True}, {'volume': 'v7'}])
assert (taken['taken'], taken['refused']) == (1, 1), taken
assert [one['ranges'] for one in engine.list()['sources'] if one['name'] == 'py'] == [1]
engine.forget('py')
try:
    engine.send({'version': 9, 'source': 'py', 'hints': []})
    raise SystemExit('version 9 was taken')
except Refused as refused:
    assert refused.status == 400 or refused.status == 422, refused.status
";
    // The file alone: the package around it has a compiled part.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/thermocline");
    let done = Command::new("python3")
        .args(["-B", "-c", script])
        .env("PYTHONPATH", path)
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(source(&folder, "py").unwrap()["ranges"], 0);
    assert_eq!(up.stop("-TERM"), Some(0));
}
