//! Hints from commands themselves: `run --preload`, `watch --socket`, and both without the right to
//! watch files.

use crate::hint_sources::{PROGRAM, beside, ext4, hints_done, source, until};
use crate::mounted::shell;
use crate::program::{self, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Python says that it needs a file soon, and how it will read it.
const WILL_NEED: &str = "python3 -c \"import os, sys; f = os.open(sys.argv[1], os.O_RDONLY); \
    os.posix_fadvise(f, 0, 0, os.POSIX_FADV_WILLNEED)\"";

/// Builds the library beside the program, as the workspace's build does.
fn library() -> PathBuf {
    let program = Path::new(PROGRAM);
    let folder = program.parent().unwrap();
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--package", "thermocline-preload"]);
    build.args(["--target-dir"]).arg(folder.parent().unwrap());
    let profile = folder.file_name().unwrap().to_str().unwrap();
    build.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
    let built = build.current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    folder.join("libthermocline_hints.so")
}

/// Words that run without the right to watch files.
fn without_right(words: &str) -> String {
    format!("setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin -- {words}")
}

fn fetched(folder: &Path) -> u64 {
    hints_done(folder)["prefetched_chunks"].as_u64().unwrap()
}

#[test]
fn what_a_command_says_of_a_file_is_heard_without_the_right_to_watch_files() {
    let Some((folder, up, mounted)) = ext4("preload-run", "setpriv python3") else { return };
    library();
    mounted.shell("head -c 3M /dev/urandom > tree/one && sync -f tree");
    let told =
        format!("{PROGRAM} hint run --keep --preload --mount tree --data pools --stream 4 -- ");
    let words = without_right(&format!("{told} {WILL_NEED} tree/one 2>err"));
    mounted.shell(&words);
    let said = std::fs::read_to_string(folder.join("err")).unwrap();
    assert!(said.contains("only what the command says of its files itself is heard"), "{said}");
    assert!(said.contains("needs CAP_SYS_ADMIN"), "{said}");
    let source = source(&folder, "run-").unwrap_or_else(|| panic!("no hints: {said}"));
    assert!(source["ranges"].as_u64().unwrap() >= 1, "{source}");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn without_the_right_to_watch_files_it_is_said_what_still_works_and_that_works() {
    let Some((folder, up, mounted)) = ext4("preload-right", "setpriv") else { return };
    mounted.shell("head -c 1M /dev/urandom > tree/one && sync -f tree");
    let run = format!("{PROGRAM} hint run --mount tree --data pools -- sh -c 'echo out; exit 7'");
    mounted.shell(&format!("{} >out 2>err || test $? = 7", without_right(&run)));
    let said = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    assert_eq!(said("out"), "out\n");
    let err = said("err");
    for part in ["runs without hints", "CAP_SYS_ADMIN", "--preload", "--device", "hint path"] {
        assert!(err.contains(part), "{part:?} not in {err}");
    }
    let watch = without_right(&format!("{PROGRAM} hint watch --mount tree --data pools"));
    let err = shell(&folder, &watch).unwrap_err();
    for part in ["CAP_SYS_ADMIN", "--socket", "hint path"] {
        assert!(err.contains(part), "{part:?} not in {err}");
    }
    let path = format!("{PROGRAM} hint path --data pools --usage archival tree/one");
    let done = mounted.shell(&without_right(&path));
    assert!(done.contains("1 hint taken"), "{done}");
    let device =
        format!("{PROGRAM} hint run --device DEVICE --keep --pin --data pools -- true 2>&1");
    assert_eq!(mounted.shell(&without_right(&device)), "");
    assert_eq!(source(&folder, "run-device-").unwrap()["taken"], 1);
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_service_that_was_told_of_the_socket_is_heard_by_watch() {
    let Some((folder, up, mounted)) = ext4("preload-watch", "setpriv python3") else { return };
    let library = library();
    mounted.shell("head -c 3M /dev/urandom > tree/one && sync -f tree");
    let mut watch =
        beside(&folder, "hint watch --mount tree --data pools --no-prefetch --socket ears");
    let mut said = BufReader::new(watch.0.stderr.take().unwrap()).lines();
    assert!(said.next().unwrap().unwrap().contains("watching"));
    let taken = || source(&folder, "watch").map_or(0, |one| one["taken"].as_u64().unwrap());
    let loaded = format!("LD_PRELOAD={} THERMOCLINE_HINTS_SOCKET=ears", library.display());
    mounted.shell(&format!("{loaded} {WILL_NEED} tree/one"));
    until("what it said and that it was opened", || taken() >= 2);
    let pid = rustix::process::Pid::from_child(&watch.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
    assert!(!folder.join("ears").exists());
    assert_eq!(fetched(&folder), 0, "it is on the fastest pool already");
    drop(mounted);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_library_that_is_not_there_is_named_and_the_command_runs() {
    let folder = program::folder("preload-missing");
    let words = "hint run --data nowhere --preload-library ./none.so -- true";
    run(&folder, words).succeeded().says("./none.so is not there");
    let words = "hint run --data nowhere --preload-library ./none.so -- true";
    run(&folder, words).succeeded().says("cargo build --release -p thermocline-preload");
}
