//! A group of very many chunks in several volumes, whose metadata grows while it lives.
//!
//! ```text
//! cargo run --release -p thermocline-volume --example large_group -- CHUNKS FOLDER
//! ```
//!
//! A group of one pool with room for a hundredth of the chunks is made; pools are added and volumes
//! created as it fills, until every one of `CHUNKS` (100 million unless told otherwise) was
//! written. Then the power fails, and the group is opened again and checked. Devices answer at
//! once and in virtual time; contents of chunks are zeroes and not kept,
//! metadata goes into one sparse file in `FOLDER`. Prints processor time and memory of the process.

// A program for a terminal.
#![allow(clippy::disallowed_macros, clippy::disallowed_types, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use thermocline_ports::{Completion, Geometry, Io, Payload};
use thermocline_units::{Bytes, Nanos, PoolId, VolumeId};
use thermocline_volume::{
    Action, Group, PoolSpec, Priority, Request, RequestId, Service, Settings,
};

const MIB: u64 = 1 << 20;
const VOLUMES: u64 = 8;
/// Writes between two flushes.
const ROUND: u64 = 4096;
/// Blocks of the largest journal: a checkpoint writes the whole map, and half of the ring must
/// fill before the next one.
const JOURNAL_BLOCKS: u32 = 65_536;

/// Metadata of all pools, by MiB, in one file; what nobody wrote reads as zeroes.
struct Store {
    file: File,
    places: BTreeMap<(u16, u64), u64>,
    written: u64,
    read: u64,
}

impl Store {
    fn new(folder: &Path) -> Store {
        let path = folder.join("large_group.metadata");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).expect("the folder can be written");
        std::fs::remove_file(&path).expect("it was just made"); // Gone with the process.
        Store { file, places: BTreeMap::new(), written: 0, read: 0 }
    }

    fn write(&mut self, pool: u16, offset: Bytes, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        for (at, piece) in pieces(offset, bytes.len()) {
            let next = self.places.len() as u64;
            let place = *self.places.entry((pool, at / MIB)).or_insert(next);
            let to = place * MIB + at % MIB;
            self.file.write_all_at(&bytes[piece], to).expect("there is room");
        }
    }

    fn read(&mut self, pool: u16, offset: Bytes, length: u32) -> Payload {
        let known = pieces(offset, length as usize)
            .any(|(at, _)| self.places.contains_key(&(pool, at / MIB)));
        if !known {
            return Payload::Zeroes(length);
        }
        self.read += u64::from(length);
        let mut bytes = vec![0; length as usize];
        for (at, piece) in pieces(offset, length as usize) {
            if let Some(place) = self.places.get(&(pool, at / MIB)) {
                // What lies behind the file's end was never written.
                let mut into = &mut bytes[piece];
                let mut from = place * MIB + at % MIB;
                while !into.is_empty() {
                    match self.file.read_at(into, from).expect("it was written") {
                        0 => break,
                        n => (into, from) = (&mut into[n..], from + n as u64),
                    }
                }
            }
        }
        Payload::from(bytes)
    }
}

/// A range of bytes by MiB: where each piece begins, and its range within the whole.
fn pieces(offset: Bytes, length: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset.0 + done as u64;
        let most = (MIB - at % MIB) as usize;
        let piece = done..length.min(done + most);
        done = piece.end;
        (!piece.is_empty()).then_some((at, piece))
    })
}

/// Answers everything that is asked, until nothing more is.
fn settle(group: &mut Group, store: &mut Store, now: Nanos) {
    let mut out = Vec::new();
    loop {
        group.take_io(&mut out);
        if out.is_empty() {
            return;
        }
        for (pool, ticket, io) in out.drain(..) {
            let data = match io {
                Io::Read { offset, length } => store.read(pool.0, offset, length),
                Io::Write { offset, data, .. } => {
                    if !matches!(data, Payload::Zeroes(_)) {
                        store.write(pool.0, offset, &data.to_vec());
                    }
                    Payload::EMPTY
                }
                _ => Payload::EMPTY,
            };
            group.complete(now, pool, Completion { ticket, result: Ok(data) });
        }
    }
}

/// Asks, lets it be answered, and tells how many requests failed.
fn ask(group: &mut Group, store: &mut Store, now: Nanos, volume: u32, action: Action) {
    let volume = VolumeId(volume);
    let request = Request { id: RequestId(0), volume, action, priority: Priority::Foreground };
    group.submit(now, request).expect("one at a time");
    settle(group, store, now);
    let mut replies = Vec::new();
    group.take_replies(&mut replies);
    assert!(replies.len() == 1 && replies[0].result.is_ok(), "{replies:?}");
}

/// A line of `/proc/self/status`, in MiB.
fn memory(which: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = text.lines().find(|line| line.starts_with(which)).expect("it is always there");
    let kib: u64 = line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("KiB");
    kib / 1024
}

/// Processor time of this process, in seconds: user and system.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let fields: Vec<&str> = text[text.rfind(')').expect("a name") + 2..].split(' ').collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
    (ticks(11) + ticks(12)) / 100.0
}

fn spec(name: String, chunks: u64) -> PoolSpec {
    let size = Bytes((chunks + chunks / 8) * MIB + Bytes::from_gib(8).0);
    let geometry = Geometry { size, discard_zeroes: true, far: false };
    PoolSpec { name, geometry, zeroed: true, reserve_chunks: 0 }
}

fn tell(what: &str, group: &Group, store: &Store, chunks: u64, since: f64) {
    let seconds = processor() - since;
    println!(
        "{what}: {seconds:.1} s of processor time, {:.2} us a chunk; map {}, resident {} MiB, at \
         most {} MiB; metadata written {}, read {}",
        seconds * 1e6 / chunks.max(1) as f64,
        group.map_memory(),
        memory("VmRSS:"),
        memory("VmHWM:"),
        Bytes(store.written),
        Bytes(store.read)
    );
}

fn fill(group: &mut Group, store: &mut Store, volume: u32, chunks: u64) {
    let mut now = Nanos(1);
    for chunk in 0..chunks {
        now.0 += 1000;
        let (offset, payload) = (Bytes(chunk * MIB), Payload::Zeroes(4096));
        ask(group, store, now, volume, Action::Write { offset, payload, fua: false });
        if chunk % ROUND == ROUND - 1 {
            ask(group, store, now, volume, Action::Flush);
        }
    }
    ask(group, store, now, volume, Action::Flush);
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let chunks: u64 = arguments.next().map_or(100_000_000, |text| text.parse().expect("a number"));
    let folder = arguments.next().unwrap_or_else(|| ".".to_string());
    let mut store = Store::new(Path::new(&folder));
    let each = chunks / VOLUMES;
    let settings = Settings { journal_blocks: JOURNAL_BLOCKS, ..Settings::default() };
    let pools = [spec("first".to_string(), chunks / 100)];
    let mut group = Group::create(settings.clone(), &pools, 1).expect("the pool is large");
    settle(&mut group, &mut store, Nanos(0));
    assert_eq!(*group.service(), Service::Ready);
    let start = processor();
    let mut sizes = vec![Some(pools[0].geometry)];
    for volume in 0..VOLUMES as u32 {
        let pool = spec(format!("pool{volume}"), each);
        sizes.push(Some(pool.geometry));
        group.add_pool(Nanos(1), pool).expect("the metadata grows");
        settle(&mut group, &mut store, Nanos(1));
        let made = group.create_volume(Nanos(1), Bytes(each * MIB)).expect("there is room");
        assert_eq!(made, VolumeId(volume));
        settle(&mut group, &mut store, Nanos(1));
        fill(&mut group, &mut store, volume, each);
        let so_far = u64::from(volume + 1) * each;
        tell(&format!("{so_far} chunks written"), &group, &store, so_far, start);
    }
    drop(group); // The power fails.
    let (start, written) = (processor(), std::mem::take(&mut store.written));
    store.read = 0;
    let mut group = Group::open(settings, &sizes);
    settle(&mut group, &mut store, Nanos(2));
    assert_eq!(*group.service(), Service::Ready);
    let all = each * VOLUMES;
    tell(&format!("{all} chunks opened ({} before)", Bytes(written)), &group, &store, all, start);
    assert!(group.fsck().is_empty(), "{:?}", group.fsck());
    let used: u64 = (0..sizes.len() as u16)
        .map(|pool| u64::from(group.pool_status(PoolId(pool)).expect("a member").slots_used))
        .sum();
    assert_eq!(used, all, "each chunk has its slot");
    println!("fsck finds no flaw, {used} slots are in use");
}
