//! The library in C programs, compiled here, and what arrives of what they say. Without a C
//! compiler the tests say SKIPPED.

// A test that cannot go on stops where it is; clippy does not see that these functions are tests'.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt::set_socket_passcred,
};
use std::fs::File;
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use thermocline_advice::{Advice, Datagram, Hint, Priority, SOCKET_VARIABLE, Said};

/// The library that cargo has just built: it lies beside the tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let found = tests.with_file_name("libthermocline_hints.so");
    assert!(found.exists(), "{} is not there", found.display());
    found
}

/// A listener, a file, and a program of `tests/`.
struct Stage {
    folder: TempDir,
    socket: UnixDatagram,
}

/// Messages received, and from whom.
struct Heard {
    datagram: Datagram,
    process: i32,
    inode: Option<u64>,
}

impl Stage {
    /// `None`, and SKIPPED, without a C compiler.
    #[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
    fn new(program: &str, linked: &[&str]) -> Option<Stage> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), [1; 65536]).unwrap();
        let socket = UnixDatagram::bind(folder.path().join("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        set_socket_passcred(&socket, true).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let done = Command::new("cc")
            .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o", "program", "-I"])
            .arg(here.join("include"))
            .arg(here.join("tests").join(program))
            .args(linked)
            .current_dir(folder.path())
            .output();
        let Ok(done) = done else {
            println!("SKIPPED: needs a C compiler, cc");
            return None;
        };
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Some(Stage { folder, socket })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("file")
    }

    /// The program with words; with the library loaded, or as it is.
    fn program(&self, words: &[&str], loaded: bool) -> Command {
        let mut command = Command::new(self.folder.path().join("program"));
        command.args(words).env(SOCKET_VARIABLE, self.folder.path().join("socket"));
        if loaded {
            command.env("LD_PRELOAD", library());
        }
        command
    }

    /// Its output; it ends well.
    fn run(&self, words: &[&str], loaded: bool) -> String {
        let done = self.program(words, loaded).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
        assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// The next datagram, if one is there.
    fn hear(&self) -> Option<Heard> {
        let mut bytes = [0; 100];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1), ScmCredentials(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let came = recvmsg(&self.socket, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC);
        let count = came.ok()?.bytes;
        let (mut process, mut inode) = (0, None);
        for message in beside.drain() {
            match message {
                RecvAncillaryMessage::ScmRights(files) => {
                    inode = files.map(|file| File::from(file).metadata().unwrap().ino()).last();
                }
                RecvAncillaryMessage::ScmCredentials(who) => process = who.pid.as_raw_pid(),
                _ => {}
            }
        }
        let datagram = Datagram::decode(&bytes[..count]).unwrap();
        Some(Heard { datagram, process, inode })
    }
}

#[test]
fn an_unmodified_program_is_heard_and_notices_nothing() {
    let Some(stage) = Stage::new("unmodified.c", &[]) else { return };
    let file = stage.file();
    let words = ["everything", file.to_str().unwrap()];
    let alone = stage.run(&words, false);
    assert!(stage.hear().is_none());
    assert_eq!(stage.run(&words, true), alone, "every answer, and errno after it");

    let inode = file.metadata().unwrap().ino();
    let mut wanted: Vec<(u64, u64, Said, Option<u64>)> = Vec::new();
    for number in 0..6 {
        let advice = Said::Advice(Advice::numbered(number).unwrap());
        wanted.push((4096, 8192, advice, Some(inode)));
    }
    wanted.push((0, 0, Said::Advice(Advice::WillNeed), Some(inode)));
    wanted.push((0, 65536, Said::ReadAhead, Some(inode)));
    if alone.contains("\nlife 0 ") {
        wanted.push((0, 0, Said::Life(4), Some(inode)));
    }
    wanted.push((0, 0, Said::Priority(Priority::Idle), None));
    // The listener's queue may be short (net.unix.max_dgram_qlen): what is there is the beginning.
    let mut heard = 0;
    while let Some(Heard { datagram, inode, .. }) = stage.hear() {
        let Datagram { offset, length, unsent, said } = datagram;
        assert_eq!((offset, length, said, inode), wanted[heard], "number {heard}");
        assert_eq!(unsent, 0);
        heard += 1;
    }
    let queue = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    assert!(heard == wanted.len() || heard > queue, "{heard} of {}", wanted.len());
}

#[test]
fn a_child_is_heard_under_its_own_number_after_its_end() {
    let Some(stage) = Stage::new("unmodified.c", &[]) else { return };
    let said = stage.run(&["child", stage.file().to_str().unwrap()], true);
    let heard = stage.hear().unwrap();
    assert_eq!(heard.process.to_string(), said.trim());
    assert_eq!(heard.inode, Some(stage.file().metadata().unwrap().ino()));
}

#[test]
fn a_listener_that_does_not_keep_up_holds_nobody_up_and_learns_what_it_lost() {
    let Some(stage) = Stage::new("unmodified.c", &[]) else { return };
    let file = stage.file();
    let mut command = stage.program(&["many", file.to_str().unwrap()], true);
    let mut child: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "said\n", "it got to its end although nobody listened");
    let mut heard = 0;
    while let Some(one) = stage.hear() {
        assert_eq!(one.datagram.offset, heard, "the first ones, in order");
        heard += 1;
    }
    assert!(heard > 0 && heard < 5000, "{heard}");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    assert!(child.wait().unwrap().success());
    let last = stage.hear().unwrap().datagram;
    assert_eq!((last.offset, u64::from(last.unsent)), (5000, 5000 - heard));
}

#[test]
fn a_program_gives_hints_itself_by_the_header() {
    let library = library();
    let folder = library.parent().unwrap().to_str().unwrap();
    let run_path = format!("-Wl,-rpath,{folder}");
    let linked = ["-L", folder, "-lthermocline_hints", &run_path];
    let Some(stage) = Stage::new("knowing.c", &linked) else { return };
    let said = stage.run(&[stage.file().to_str().unwrap()], false);
    // ENOENT, EBADF, and EINVAL for what makes no sense.
    assert_eq!(said, "0 0 2 9 22 22 22 22 77\n");
    let hint = Hint {
        pin: true,
        prefetch: true,
        stream: 7,
        usage: 2,
        life: 5,
        background_ms: 500,
        expires_ms: 60_000,
        ..Hint::default()
    };
    for offset in [4096, 0] {
        let heard = stage.hear().unwrap();
        let wanted = Datagram { offset, length: 8192, unsent: 0, said: Said::Hint(hint) };
        assert_eq!(heard.datagram, wanted);
        // What came by its path is no descriptor to read from, but of the same file.
        assert_eq!(heard.inode, Some(stage.file().metadata().unwrap().ino()));
    }
    assert!(stage.hear().is_none());

    let mut alone = stage.program(&[stage.file().to_str().unwrap()], false);
    let done = alone.env_remove(SOCKET_VARIABLE).output().unwrap();
    assert!(done.stdout.starts_with(b"107 107 2 107 22"), "ENOTCONN: {done:?}");
}
