//! Several volume groups in one process, each with an event loop on a thread of its own: nothing
//! in the engine is the process's. Real files, real sockets, a client of the NBD protocol.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;
use thermocline_blockcache::PoolDevice;
use thermocline_engine::{Engine, Listeners};
use thermocline_ports::Device;
use thermocline_ports_os::{Disk, OpenOptions, Patience};
use thermocline_units::Bytes;
use thermocline_volume::{Group, PoolSpec, Settings};

const POOL: Bytes = Bytes::from_mib(64);
const VOLUME: Bytes = Bytes::from_mib(8);
const BLOCK: usize = 4096;

/// Serves a new group in `folder` until `stop` can be read; says when clients may come.
fn serve(folder: &Path, identity: u64, stop: &UnixStream, ready: &mpsc::Sender<()>) {
    let options = OpenOptions { create: Some(POOL), buffered: true, patience: Patience::DEFAULT };
    let disk = Disk::open(&folder.join("pool"), options, None).unwrap();
    let geometry = disk.geometry();
    let spec = PoolSpec { name: "file".to_string(), geometry, zeroed: true, reserve_chunks: 0 };
    let group = Group::create(Settings::default(), &[spec], identity).unwrap();
    let disks = vec![Some(PoolDevice::Bare(disk))];
    let mut engine = Engine::start(group, disks, Instant::now(), Box::new(|_| ())).unwrap();
    engine.admin().create_volume(Some("v"), VOLUME).unwrap();
    let unix = vec![folder.join("nbd.sock")];
    engine.open_listeners(&Listeners { unix, ..Listeners::default() }).unwrap();
    ready.send(()).unwrap();
    engine.serve(stop).unwrap();
}

/// A client with one request under way.
struct Client(UnixStream);

impl Client {
    /// Attaches to the volume `v`: fixed newstyle negotiation, `NBD_OPT_EXPORT_NAME`.
    fn attach(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        let no_zeroes = 3u32.to_be_bytes();
        let option = [1u32.to_be_bytes(), 1u32.to_be_bytes()].concat();
        stream.write_all(&[&no_zeroes[..], b"IHAVEOPT", &option, b"v"].concat()).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        assert_eq!(export[..8], VOLUME.0.to_be_bytes());
        Client(stream)
    }

    fn request(&mut self, kind: u16, offset: u64, length: usize, data: &[u8]) {
        let head = [&0x2560_9513u32.to_be_bytes()[..], &[0; 2], &kind.to_be_bytes(), &[7; 8]];
        let place = [&offset.to_be_bytes()[..], &(length as u32).to_be_bytes()].concat();
        self.0.write_all(&[&head.concat()[..], &place, data].concat()).unwrap();
        if kind == DISCONNECT {
            return;
        }
        let mut reply = [0; 16];
        self.0.read_exact(&mut reply).unwrap();
        let good = [&0x6744_6698u32.to_be_bytes()[..], &[0; 4], &[7; 8]].concat();
        assert_eq!(reply[..], good, "kind {kind} at {offset}");
    }

    fn write(&mut self, offset: u64, byte: u8) {
        self.request(WRITE, offset, BLOCK, &[byte; BLOCK]);
    }

    fn read(&mut self, offset: u64) -> Vec<u8> {
        self.request(READ, offset, BLOCK, &[]);
        let mut block = vec![0; BLOCK];
        self.0.read_exact(&mut block).unwrap();
        block
    }
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;

#[test]
fn two_groups_are_served_by_one_process_and_know_nothing_of_each_other() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let paths: Vec<PathBuf> = folders.iter().map(|folder| folder.path().to_path_buf()).collect();
    let mut loops = Vec::new();
    for (identity, path) in (1..).zip(paths.clone()) {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || serve(&path, identity, &stopped, &ready));
        is_ready.recv().expect("the engine starts");
        loops.push((stop, thread));
    }
    let mut clients: Vec<Client> =
        paths.iter().map(|path| Client::attach(&path.join("nbd.sock"))).collect();
    let offsets: Vec<u64> = (0..64).map(|block| block * 31 * BLOCK as u64).collect();
    for &offset in &offsets {
        for (byte, client) in (1..).zip(&mut clients) {
            client.write(offset, byte);
        }
    }
    // One of them ends while the other goes on.
    let (mut stop, thread) = loops.remove(0);
    clients[0].request(FLUSH, 0, 0, &[]);
    clients[0].request(DISCONNECT, 0, 0, &[]);
    stop.write_all(&[1]).unwrap();
    thread.join().expect("it closes its group");
    for &offset in &offsets {
        assert_eq!(clients[1].read(offset), [2; BLOCK], "at {offset}");
    }
    clients[1].request(DISCONNECT, 0, 0, &[]);
    let (mut stop, thread) = loops.remove(0);
    stop.write_all(&[1]).unwrap();
    thread.join().expect("it closes its group");
}
