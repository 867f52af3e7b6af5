//! Files that wait for their hints, and those that are dropped before.

use super::{HintSender, PendingHint};
use crate::files::mounts::Mounts;
use crate::files::{Place, ranges_of};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use thermocline_admin::client::Client;
use thermocline_engine::api::{HintsTaken, NewHint, NewHints};

/// Hints of files in a folder, which last a minute and go to this socket.
fn sender_of(folder: &Path, socket: &Path) -> HintSender {
    let device = folder.metadata().expect("it is there").dev();
    let mount = Mounts::read().expect("the mounts").holding(folder).expect("one holds it");
    let place = Place::on_its_own(mount, device);
    HintSender::new(place, Client::new(socket), "test".to_string(), Duration::from_secs(60))
}

fn whole() -> PendingHint {
    PendingHint { hint: NewHint::default(), within: 0..u64::MAX, is_advice: false }
}

#[test]
fn a_file_that_is_deleted_before_it_had_hints_is_not_held_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut sender = sender_of(folder.path(), &folder.path().join("nobody.sock"));
    let now = Instant::now();
    for name in ["stays", "goes"] {
        let file = File::create(folder.path().join(name)).expect("a file");
        sender.note(now, OwnedFd::from(file), whole());
    }
    assert_eq!(sender.waiting.len(), 2);
    std::fs::remove_file(folder.path().join("goes")).expect("it is there");
    sender.turn(now, false).expect("nothing is due");
    assert_eq!(sender.waiting.len(), 1);
}

/// A stand-in for the engine's API: takes all hints of each document, and counts them.
struct Api {
    path: PathBuf,
    documents: Receiver<Vec<NewHint>>,
}

impl Api {
    fn in_folder(folder: &Path) -> Api {
        let path = folder.join("api.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let (tell, documents) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let Some(hints) = answer(stream) else { continue };
                if tell.send(hints).is_err() {
                    return;
                }
            }
        });
        Api { path, documents }
    }

    /// Hints of all documents that have come: each was answered before its sender went on.
    fn hints(&self) -> Vec<NewHint> {
        let mut all = Vec::new();
        while let Ok(hints) = self.documents.recv_timeout(Duration::from_millis(200)) {
            all.extend(hints);
        }
        all
    }
}

/// Reads a request and says that all of its hints are taken.
fn answer(stream: UnixStream) -> Option<Vec<NewHint>> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().ok()?;
            }
            None if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let document: NewHints = serde_json::from_slice(&body).ok()?;
    let count = document.hints.len() as u64;
    let taken = HintsTaken { taken: count, refused: 0, prefetched_chunks: 0, reasons: Vec::new() };
    let text = serde_json::to_string(&taken).ok()?;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    write!(reader.get_mut(), "{head}content-length: {}\r\n\r\n{text}", text.len()).ok()?;
    Some(document.hints)
}

/// A file of so many extents; `None`: this file system does not say where files lie.
fn scattered(path: &Path, extents: u64) -> Option<File> {
    let file = File::options().create_new(true).read(true).write(true).open(path).expect("a file");
    for extent in 0..extents {
        file.write_all_at(&[7; 8192], extent * 8192).expect("it can be written");
    }
    file.sync_all().expect("it can be written");
    // Blocks that lie side by side count as one; now there is a hole behind each.
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for extent in 0..extents {
        fallocate(&file, hole, extent * 8192 + 4096, 4096).ok()?;
    }
    let found = crate::files::extents::of(&file, 0..u64::MAX).ok()?;
    (found.ranges.len() as u64 >= extents).then_some(file)
}

/// Whoever ended sent one turn's hints and forgot the others, without a word.
#[test]
fn the_end_sends_what_is_beyond_a_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = Api::in_folder(folder.path());
    let mut sender = sender_of(folder.path(), &api.path);
    let now = Instant::now();
    let mut ranges = 0;
    for name in ["a", "b", "c", "d"] {
        let Some(file) = scattered(&folder.path().join(name), 1200) else {
            return eprintln!("SKIPPED: this file system does not say where its files lie");
        };
        let found = ranges_of(&sender.place, &file, 0..u64::MAX).expect("it has a place");
        ranges += found.0.len() as u64;
        sender.note(now, OwnedFd::from(file), whole());
    }
    sender.turn(now, true).expect("the API answers");
    assert_eq!(sender.counts.files, 4);
    assert_eq!((sender.counts.taken, sender.counts.left_out), (ranges, 0));
    assert_eq!(api.hints().len() as u64, ranges);
}

/// The same ranges are not sent again before half of their time is over, and then they are.
#[test]
fn what_was_sent_is_sent_again_when_half_of_its_time_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let api = Api::in_folder(folder.path());
    let mut sender = sender_of(folder.path(), &api.path);
    // More extents than a turn may have: what is left out made it look new each time.
    let Some(file) = scattered(&folder.path().join("file"), 2500) else {
        return eprintln!("SKIPPED: this file system does not say where its files lie");
    };
    let began = Instant::now();
    let mut taken = Vec::new();
    // Advice on a part is remembered beside the hint of the whole file.
    let hint = NewHint { pin: true, ..NewHint::default() };
    let advice = PendingHint { hint, within: 0..8192, is_advice: true };
    for seconds in [0, 10, 29, 31, 40] {
        let now = began + Duration::from_secs(seconds);
        for said in [whole(), advice.clone()] {
            let same = file.try_clone().expect("a descriptor");
            sender.note(now, OwnedFd::from(same), said);
        }
        sender.turn(now + Duration::from_secs(1), false).expect("the API answers");
        sender.turn(now + Duration::from_secs(1), false).expect("the API answers");
        taken.push(sender.counts.taken);
    }
    assert!(taken[0] > 0, "{taken:?}");
    assert_eq!([taken[1], taken[2]], [taken[0]; 2], "it was sent: {taken:?}");
    assert!(taken[3] >= 2 * taken[0] - 1, "its time is half over: {taken:?}");
    assert_eq!(taken[4], taken[3], "{taken:?}");
}
