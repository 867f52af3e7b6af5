//! Cost of a store: of new blocks, of memory, of opening after a kill, and of a nearly full device.
//!  `cargo run --release -p thermocline-content --example store_cost -- [write] [open GIB PROFILE]
//! [full]`. The device has contents in memory (of data blocks only with `full`) and the time of a
//! modelled one, if a profile is named. Processor time is this thread's, the model's included.

// A program that measures and reports, not a decision.
#![allow(clippy::print_stdout, clippy::disallowed_types, clippy::disallowed_macros)]

use std::collections::BTreeMap;
use thermocline_content::{
    Action, Answer, BLOCK, Completed, Domain, Quotas, Request, RequestId, Service, Settings, Store,
};
use thermocline_ports::model::{ModelDevice, Profile};
use thermocline_ports::{Completion, Device, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, Rng, VolumeId};

/// A device with the time of a model, or none, and with contents.
struct Disk {
    size: Bytes,
    model: Option<ModelDevice>,
    /// True if data blocks are kept; otherwise only metadata is.
    keeps_data: bool,
    blocks: BTreeMap<u64, Payload>,
    reads: BTreeMap<Ticket, (u64, u32)>,
    ready: Vec<Completion>,
    written: u64,
}

impl Disk {
    fn new(size: Bytes, profile: Option<&str>, keeps_data: bool) -> Disk {
        let model = profile.map(|name| {
            let profile = Profile::built_in(name).expect("a built-in profile");
            ModelDevice::new(&profile.with_size(size).expect("a size that it can have"), 1)
        });
        let (blocks, reads) = (BTreeMap::new(), BTreeMap::new());
        Disk { size, model, keeps_data, blocks, reads, ready: Vec::new(), written: 0 }
    }

    fn contents(&self, first: u64, length: u32) -> Payload {
        let mut bytes = Vec::with_capacity(length as usize);
        for block in first..first + u64::from(length / BLOCK) {
            match self.blocks.get(&block) {
                Some(Payload::Bytes(block)) => bytes.extend_from_slice(block),
                _ => bytes.resize(bytes.len() + BLOCK as usize, 0),
            }
        }
        Payload::from(bytes)
    }

    fn keep(&mut self, first: u64, data: &Payload) {
        for index in 0..data.len() / BLOCK {
            let block = data.slice(index * BLOCK..(index + 1) * BLOCK);
            let at = first + u64::from(index);
            match &block {
                Payload::Bytes(bytes) if self.keeps_data || is_metadata(bytes) => {
                    // A copy: a slice would hold on to all of its request.
                    self.blocks.insert(at, Payload::from(bytes.to_vec()));
                }
                _ => {
                    self.blocks.remove(&at);
                }
            }
        }
    }
}

fn is_metadata(bytes: &[u8]) -> bool {
    bytes.starts_with(b"TCC") || bytes.starts_with(b"THERMOCS")
}

impl Device for Disk {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, discard_zeroes: true, far: false }
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        let mut result = Payload::EMPTY;
        match &io {
            Io::Read { offset, length } => {
                let first = offset.0 / u64::from(BLOCK);
                match self.model {
                    Some(_) => {
                        self.reads.insert(ticket, (first, *length));
                    }
                    None => result = self.contents(first, *length),
                }
            }
            Io::Write { offset, data, .. } => {
                self.written += u64::from(data.len());
                self.keep(offset.0 / u64::from(BLOCK), data);
            }
            _ => {}
        }
        match &mut self.model {
            Some(model) => model.submit(now, ticket, io),
            None => self.ready.push(Completion { ticket, result: Ok(result) }),
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        done.append(&mut self.ready);
        let Some(model) = &mut self.model else { return };
        let first = done.len();
        model.poll(now, done);
        for completion in &mut done[first..] {
            if let Some((first, length)) = self.reads.remove(&completion.ticket) {
                completion.result = Ok(self.contents(first, length));
            }
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        self.model.as_ref().and_then(Device::next_event)
    }
}

/// Serves a store until a condition holds; answers with their times.
fn serve(
    store: &mut Store<Disk>,
    now: &mut Nanos,
    answers: &mut Vec<Answer>,
    done: impl Fn(&Store<Disk>, &[Answer]) -> bool,
) {
    while !done(store, answers) {
        let next = store.next_event().expect("something is under way");
        *now = (*now).max(next);
        store.poll(*now, answers);
    }
}

fn formatted(disk: Disk, settings: Settings, now: &mut Nanos) -> Store<Disk> {
    let mut store = Store::format(*now, disk, settings, 7).expect("it is large enough");
    serve(&mut store, now, &mut Vec::new(), |store, _| *store.service() != Service::Opening);
    assert_eq!(*store.service(), Service::Ready);
    store
}

fn created(store: &mut Store<Disk>, now: &mut Nanos, size: Bytes) -> VolumeId {
    let (name, domain, quotas) = ("v".to_string(), Domain(0), Quotas::default());
    let action = Action::Create { name, size, domain, quotas };
    store.submit(*now, Request { id: RequestId(0), action });
    let mut answers = Vec::new();
    serve(store, now, &mut answers, |_, answers| !answers.is_empty());
    match answers.remove(0).result {
        Ok(Completed::Created(volume)) => volume,
        other => panic!("no volume: {other:?}"),
    }
}

/// A block that nobody else has.
fn unique(number: u64, buffer: &mut [u8]) {
    let (words, _) = buffer.as_chunks_mut::<512>();
    for (at, sector) in words.iter_mut().enumerate() {
        sector[..8].copy_from_slice(&(number << 4 | at as u64 | 1 << 60).to_le_bytes());
    }
}

/// Writes so many blocks one after the other, `per` in a request, with a flush now and then.
fn fill(store: &mut Store<Disk>, now: &mut Nanos, volume: VolumeId, blocks: u64, per: u64) {
    let mut answers = Vec::new();
    for first in (0..blocks).step_by(per as usize) {
        let mut bytes = vec![0; (per * u64::from(BLOCK)) as usize];
        for (index, block) in (first..).zip(bytes.chunks_mut(BLOCK as usize)) {
            unique(index, block);
        }
        let (offset, data) = (Bytes(first * u64::from(BLOCK)), Payload::from(bytes));
        let action = Action::Write { volume, offset, data, fua: false };
        store.submit(*now, Request { id: RequestId(first), action });
        if first % 1024 < per {
            store.submit(*now, Request { id: RequestId(u64::MAX - first), action: Action::Flush });
        }
        serve(store, now, &mut answers, |_, answers| !answers.is_empty());
        for answer in answers.drain(..) {
            answer.result.expect("there is room");
        }
    }
}

fn measure_writes() {
    println!(
        "| blocks a request | new blocks | ns of CPU a block | blocks a CPU second | B of memory a block |"
    );
    println!("|---:|---:|---:|---:|---:|");
    for per in [1, 10, 64, 256] {
        for _ in 0..3 {
            let (mut now, blocks) = (Nanos(0), 512 << 10);
            let disk = Disk::new(Bytes::from_gib(8), None, false);
            let mut store = formatted(disk, Settings::default(), &mut now);
            let volume = created(&mut store, &mut now, Bytes::from_gib(4));
            let begin = processor_time();
            fill(&mut store, &mut now, volume, blocks, per);
            let spent = (processor_time() - begin) / blocks as f64;
            let memory = store.status().block_memory.0 as f64 / blocks as f64;
            println!("| {per} | {blocks} | {spent:.0} | {:.0} | {memory:.1} |", 1e9 / spent);
        }
    }
}

fn measure_opening(gib: u64, profile: &str) {
    let mut now = Nanos(0);
    let size = Bytes(Bytes::from_gib(gib).0 * 5 / 4 + Bytes::from_gib(1).0);
    let settings = Settings::default();
    let mut store = formatted(Disk::new(size, None, false), settings.clone(), &mut now);
    let volume = created(&mut store, &mut now, Bytes::from_gib(gib));
    fill(&mut store, &mut now, volume, gib << 18, 256);
    let mut disk = store.into_device();
    disk.model = Disk::new(size, Some(profile), false).model;
    disk.ready.clear();
    let (begin, start) = (processor_time(), Nanos(0));
    now = start;
    let mut store = Store::open(now, disk, settings).expect("the settings are right");
    serve(&mut store, &mut now, &mut Vec::new(), |store, _| *store.service() != Service::Opening);
    assert_eq!(*store.service(), Service::Ready);
    let status = store.status();
    let spent = (processor_time() - begin) / 1e9;
    let blocks = (status.stored.0 / u64::from(BLOCK)) as f64;
    println!(
        "| {gib} GiB | {profile} | {:.2} s | {spent:.2} s | {:.1} B | {:.1} B |",
        now.0 as f64 / 1e9,
        status.block_memory.0 as f64 / blocks,
        status.map_memory.0 as f64 / blocks
    );
}

/// Random overwrites at 90 % of a store's capacity.
fn measure_full(profile: &str) {
    const DEPTH: u64 = 8;
    let mut now = Nanos(0);
    let settings =
        Settings { segment: Bytes::from_mib(4), journal_blocks: 1024, ..Settings::default() };
    let disk = Disk::new(Bytes::from_gib(1), Some(profile), true);
    let mut store = formatted(disk, settings, &mut now);
    let blocks = store.status().capacity.0 / u64::from(BLOCK) * 9 / 10;
    let volume = created(&mut store, &mut now, Bytes(blocks * u64::from(BLOCK)));
    fill(&mut store, &mut now, volume, blocks / 64 * 64, 64);
    let mut rng = Rng::seeded(5);
    let (mut answers, mut asked): (Vec<Answer>, BTreeMap<u64, Nanos>) =
        (Vec::new(), BTreeMap::new());
    let writes = 2 * blocks;
    let begin = (store.device_mut().written, store.status().counters, now);
    let (mut longest, mut all) = (Nanos(0), thermocline_units::Latencies::default());
    for number in 0..writes {
        let mut bytes = vec![0; BLOCK as usize];
        unique(1 << 40 | number, &mut bytes);
        let offset = Bytes(rng.below(blocks / 64 * 64) * u64::from(BLOCK));
        let data = Payload::from(bytes);
        let action = Action::Write { volume, offset, data, fua: false };
        asked.insert(number, now);
        store.submit(now, Request { id: RequestId(number), action });
        if number % 64 == 0 {
            asked.insert(1 << 50 | number, now);
            store.submit(now, Request { id: RequestId(1 << 50 | number), action: Action::Flush });
        }
        while asked.len() as u64 >= DEPTH {
            serve(&mut store, &mut now, &mut answers, |_, answers| !answers.is_empty());
            for answer in answers.drain(..) {
                answer.result.expect("there is room");
                // Flushes of the filling may still be answered.
                let Some(at) = asked.remove(&answer.id.0) else { continue };
                let took = Nanos(now.0 - at.0);
                longest = longest.max(took);
                all.record(took);
            }
        }
    }
    let (written, before, start) = begin;
    let counters = store.status().counters;
    let bytes = (store.device_mut().written - written) as f64;
    let per = bytes / (writes * u64::from(BLOCK)) as f64;
    let cleaned = (counters.cleaned_blocks - before.cleaned_blocks) as f64 / writes as f64;
    println!(
        "{writes} overwrites of {blocks} blocks on {profile}, depth {DEPTH}, a flush every 64"
    );
    println!("bytes written to the device a byte: {per:.2}; blocks moved a block: {cleaned:.2}");
    println!("{:.0} writes a second", writes as f64 * 1e9 / (now.0 - start.0) as f64);
    println!("p50 {:?}, p99 {:?}, longest {longest:?}", all.quantile(0.5), all.quantile(0.99));
    println!("{counters:?}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write"] => measure_writes(),
        ["open", gib, profile] => measure_opening(gib.parse().expect("a number"), profile),
        ["full", profile] => measure_full(profile),
        _ => println!("write | open GIB PROFILE | full PROFILE"),
    }
}

/// Nanoseconds this thread has run: the first word of its scheduler statistics.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(f64::NAN)
}
