//! Contents of the bucket, requests to it, and answers that are believed.

use super::super::format::{Generation, HEADER_BYTES, Name, Shape, object_bytes};
use super::super::{ObjectError, ObjectSettings, OpenBucketError, Purpose};
use super::rig::{Driver, Fate, Rig, SHAPE, settings};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use thermocline_ports::contract;
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos};

const EXTENT: u64 = 64 << 10;
const LEAD: u64 = 20 << 10;

/// Bytes that a store shows in place of those it has.
type Lie = fn(&[u8]) -> Vec<u8>;

fn made(rig: &Rig) -> Driver {
    rig.open(&settings(1), Purpose::Make(7, SHAPE)).expect("nothing is there")
}

fn reopened(rig: &Rig, owner: u64) -> Driver {
    rig.open(&settings(owner), Purpose::Run).expect("a device is there")
}

#[test]
fn what_was_flushed_is_there_after_reopening_and_the_lock_is_gone() {
    let rig = Rig::default();
    let mut device = made(&rig);
    assert_eq!(device.read(0, 4096).expect("zeroes"), [0; 4096]);
    device.write(LEAD - 512, 1024, 3);
    device.write(LEAD + EXTENT, EXTENT as usize, 4);
    device.flush().expect("the bucket takes it");
    let wanted = device.read(0, (LEAD + 2 * EXTENT) as u32).expect("readable");
    drop(device);
    assert!(!rig.keys().contains(&"lock".to_string()));
    let mut device = reopened(&rig, 2);
    assert_eq!(device.device.geometry().size, SHAPE.size);
    assert!(device.read(0, (LEAD + 2 * EXTENT) as u32).expect("readable") == wanted);
    assert_eq!(rig.extents().len(), 3, "two of the first write, one of the second");
}

#[test]
fn an_extent_has_one_object_once_its_newest_generation_is_named() {
    let rig = Rig::default();
    let mut device = made(&rig);
    for stamp in 1..6 {
        device.write(LEAD, 4096, stamp);
        device.flush().expect("the bucket takes it");
    }
    drop(device);
    assert_eq!(rig.extents().len(), 1);
    assert_eq!(reopened(&rig, 2).read(LEAD, 4096).expect("readable"), [5; 4096]);
}

#[test]
fn a_read_brings_its_blocks_and_no_others() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, EXTENT as usize, 9);
    device.flush().expect("the bucket takes it");
    let before = rig.read_bytes.load(Relaxed);
    assert_eq!(device.read(LEAD + 3 * 4096 + 512, 512).expect("readable"), [9; 512]);
    assert_eq!(rig.read_bytes.load(Relaxed) - before, 4096 + 4, "a block and its checksum");
    device.read(LEAD, 8192).expect("readable");
    assert_eq!(rig.read_bytes.load(Relaxed) - before, 3 * 4100 + HEADER_BYTES);
    device.write(LEAD + 8192, 4096, 1);
    device.read(LEAD + 8192, 4096).expect("readable");
    assert_eq!(rig.read_bytes.load(Relaxed) - before, 3 * 4100 + HEADER_BYTES, "it is in memory");
}

#[test]
pub(super) fn an_answer_that_is_not_what_was_written_is_an_error() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, 2 * EXTENT as usize, 9);
    device.flush().expect("the bucket takes it");
    let lies: [Lie; 4] = [
        |bytes| bytes[..bytes.len() - 1].to_vec(),
        |bytes| vec![0; bytes.len()],
        |bytes| bytes.iter().rev().copied().collect(),
        |_| Vec::new(),
    ];
    for lie in lies {
        rig.script(move |verb, _| if verb == "get" { Fate::Show(lie) } else { Fate::Pass });
        assert_eq!(device.read(LEAD + 4096, 4096), Err(DeviceError::Io));
    }
    // An older generation in the newer one's place is one, too.
    let old = Name { identity: 7, extent: 1, generation: Generation::new(1, 1).expect("small") };
    let now = Name { generation: Generation::new(1, 9).expect("small"), ..old };
    let bytes = old.encode(&[1; 4096]);
    assert_eq!(now.decode(&(0..1), 4096, &bytes), None);
    rig.script(|_, _| Fate::Pass);
    for key in rig.extents() {
        rig.remove(&key);
    }
    assert_eq!(device.read(LEAD, 512), Err(DeviceError::Io), "lost is not zeroes");
    assert_eq!(device.read(0, 512).expect("never written"), [0; 512]);
    let said = device.device.status().last_error.expect("it was noted");
    assert!(said.contains("no object x"), "{said}");
}

#[test]
fn a_lost_object_stops_a_partial_write_and_not_a_whole_one() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, EXTENT as usize, 9);
    device.flush().expect("the bucket takes it");
    rig.remove(&rig.extents()[0]);
    device.write(LEAD, 4096, 1);
    assert_eq!(device.flush(), Err(DeviceError::Io), "the rest of the extent is unknown");
    device.write(LEAD, EXTENT as usize, 2);
    device.flush().expect("nothing else is needed");
    drop(device);
    let extent = reopened(&rig, 2).read(LEAD, EXTENT as u32).expect("readable");
    assert_eq!(extent, [2; EXTENT as usize]);
}

#[test]
pub(super) fn a_discarded_extent_has_no_object_and_reads_as_zeroes() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(0, (LEAD + 2 * EXTENT) as usize, 9);
    device.flush().expect("the bucket takes it");
    let range = (Bytes(LEAD - 4096), Bytes(EXTENT + 8192));
    device.ask(Io::Discard { offset: range.0, length: range.1 }).expect("memory takes it");
    device.flush().expect("the bucket takes it");
    let check = |device: &mut Driver| {
        let all = device.read(0, (LEAD + 2 * EXTENT) as u32).expect("readable");
        let (from, to) = ((LEAD - 4096) as usize, (LEAD + EXTENT + 4096) as usize);
        assert!(all[..from].iter().all(|&byte| byte == 9));
        assert!(all[from..to].iter().all(|&byte| byte == 0));
        assert!(all[to..].iter().all(|&byte| byte == 9));
    };
    check(&mut device);
    drop(device);
    assert_eq!(rig.extents().len(), 2, "the one between has none");
    check(&mut reopened(&rig, 2));
}

#[test]
fn zeroes_where_nothing_was_written_cost_no_request() {
    let rig = Rig::default();
    let mut device = made(&rig);
    let asked = Arc::new(AtomicBool::new(false));
    let (heard, all) = (asked.clone(), SHAPE.size);
    rig.script(move |verb, key| {
        heard.fetch_or(verb != "list" && !key.ends_with("lock"), Relaxed);
        Fate::Pass
    });
    device.ask(Io::WriteZeroes { offset: Bytes(0), length: all }).expect("memory takes it");
    device.ask(Io::Discard { offset: Bytes(512), length: Bytes(1024) }).expect("nothing to do");
    device.flush().expect("nothing to do");
    assert!(!asked.load(Relaxed));
}

#[test]
fn writes_wait_for_room_and_are_turned_away_when_there_will_be_none() {
    let rig = Rig::default();
    let small = ObjectSettings { buffer: Bytes(2 * EXTENT), ..settings(1) };
    let mut device = rig.open(&small, Purpose::Make(7, SHAPE)).expect("nothing is there");
    for extent in 0..12 {
        device.write(LEAD + extent * EXTENT, 32 << 10, extent as u8 + 1);
        assert!(device.device.status().unsent <= Bytes(2 * EXTENT));
    }
    rig.script(|verb, key| match (verb, key.contains("/x")) {
        ("put", true) => Fate::Fail,
        _ => Fate::Pass,
    });
    let refused = (0..12).find_map(|extent| {
        let data = Payload::from(vec![9; 32 << 10]);
        device.ask(Io::Write { offset: Bytes(LEAD + extent * EXTENT), data, fua: false }).err()
    });
    assert_eq!(refused, Some(DeviceError::Io));
    assert_eq!(device.flush(), Err(DeviceError::Io));
    rig.script(|_, _| Fate::Pass);
    device.flush().expect("what memory took goes there once it can");
    let extent = device.read(LEAD + 11 * EXTENT, 512).expect("readable");
    assert!(extent == [9; 512] || extent == [12; 512]);
}

#[test]
fn a_flush_waits_for_a_store_that_comes_back_and_not_for_ever() {
    let rig = Rig::default();
    let patient = ObjectSettings { patience: Nanos::from_secs(60), ..settings(1) };
    let mut device = rig.open(&patient, Purpose::Make(7, SHAPE)).expect("nothing is there");
    device.write(LEAD, 4096, 1);
    let outage = |rig: &Rig| {
        rig.script(|verb, _| if verb == "put" { Fate::Fail } else { Fate::Pass });
    };
    // A moment at which the store will be tried again; nothing was answered by then.
    let held = |device: &mut Driver, now: Nanos| {
        let mut done = Vec::new();
        while device.device.next_event().is_none() && done.is_empty() {
            device.device.wait().expect("the kernel waits");
            device.device.poll(now, &mut done);
        }
        (device.device.next_event(), done)
    };
    outage(&rig);
    device.submit(Io::Flush);
    let (again, done) = held(&mut device, Nanos(0));
    assert!(done.is_empty(), "{done:?}");
    let again = again.expect("it is tried again");
    device.device.poll(Nanos(again.0 - 1), &mut Vec::new());
    assert_eq!(device.device.next_event(), Some(again), "not before");
    rig.script(|_, _| Fate::Pass);
    let (_, done) = held(&mut device, again);
    device.device.poll(again, &mut Vec::new());
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    let now = Nanos(again.0 + 1);
    while !device.device.has_answers() && device.device.status().objects == 0 {
        device.device.wait().expect("the kernel waits");
        device.device.poll(now, &mut Vec::new());
    }
    assert_eq!(device.device.status().objects, 1, "the flush was carried out");

    outage(&rig);
    let data = Payload::from(vec![2; 512]);
    device.device.submit(now, Ticket(900), Io::Write { offset: Bytes(0), data, fua: true });
    let (mut now, mut done) = (now, Vec::new());
    while done.is_empty() {
        let (again, answered) = held(&mut device, now);
        (now, done) = (again.unwrap_or(now), answered);
        device.device.poll(now, &mut done);
    }
    assert_eq!(done[0].result, Err(DeviceError::Io));
    assert!(now >= Nanos::from_secs(60), "after its patience, at {now:?}");
}

#[test]
fn a_record_whose_answer_was_lost_counts_once() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, 4096, 1);
    let mut lost = false;
    rig.script(move |verb, key| match verb == "put" && key.contains("log/") && !lost {
        true => {
            lost = true;
            Fate::LoseAnswer
        }
        false => Fate::Pass,
    });
    assert_eq!(device.flush(), Err(DeviceError::Io), "it may be there or not");
    device.write(LEAD + 4096, 4096, 2);
    device.flush().expect("the bucket takes it");
    drop(device);
    let mut device = reopened(&rig, 2);
    assert_eq!(device.read(LEAD, 512).expect("readable"), [1; 512]);
    assert_eq!(device.read(LEAD + 4096, 512).expect("readable"), [2; 512]);
    assert_eq!(rig.extents().len(), 1);
}

#[test]
pub(super) fn objects_that_no_record_names_are_swept_away_at_the_next_opening() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, 4096, 1);
    device.flush().expect("the bucket takes it");
    device.write(LEAD + EXTENT, EXTENT as usize, 2);
    rig.script(|verb, key| match verb == "put" && key.contains("log/") {
        true => Fate::Hang,
        false => Fate::Pass,
    });
    device.submit(Io::Flush);
    while rig.extents().len() < 2 {
        device.device.poll(Nanos(0), &mut Vec::new());
    }
    device.crash();
    rig.script(|_, _| Fate::Pass);
    let mut device = reopened(&rig, 2);
    assert_eq!(device.read(LEAD + EXTENT, 512).expect("readable"), [0; 512], "never named");
    while rig.extents().len() > 1 {
        device.device.poll(Nanos(0), &mut Vec::new());
    }
    assert_eq!(device.read(LEAD, 512).expect("readable"), [1; 512]);
}

/// A record for nothing would be written at every flush.
#[test]
pub(super) fn nothing_is_told_of_extents_that_were_blank_and_are() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, 4096, 1);
    device.flush().expect("the bucket takes it");
    let records = || rig.keys().into_iter().filter(|key| key.starts_with("log/")).count();
    let before = records();
    device.write(LEAD + EXTENT, 4096, 1);
    let (offset, length) = (Bytes(LEAD + EXTENT), Bytes(EXTENT));
    device.ask(Io::Discard { offset, length }).expect("memory takes it");
    device.flush().expect("there is nothing to do");
    assert_eq!(records(), before);
}

#[test]
fn a_long_log_becomes_a_map_and_openings_stay_in_it() {
    let rig = Rig::default();
    drop(made(&rig));
    let mut device = reopened(&rig, 2);
    for round in 0..200u64 {
        device.write(LEAD + round % 5 * EXTENT, 4096, round as u8);
        device.flush().expect("the bucket takes it");
    }
    drop(device);
    let of = |folder: &str| rig.keys().into_iter().filter(|key| key.starts_with(folder)).count();
    assert_eq!(of("map/"), 1);
    assert!(of("log/") < 200, "{} records", of("log/"));
    for opening in [1, 2] {
        assert!(rig.keys().contains(&super::super::format::log_key(opening)));
    }
    let mut device = reopened(&rig, 3);
    for extent in 0..5 {
        let read = device.read(LEAD + extent * EXTENT, 512).expect("readable");
        assert_eq!(read, [195 + extent as u8; 512]);
    }
}

#[test]
fn a_large_extent_goes_in_parts_and_comes_back() {
    let rig = Rig::default();
    let shape = Shape { size: Bytes(64 << 20), extent: 64 << 20, lead: 0 };
    let roomy = ObjectSettings { buffer: Bytes(256 << 20), ..settings(1) };
    let mut device = rig.open(&roomy, Purpose::Make(7, shape)).expect("nothing is there");
    let parts = Arc::new(AtomicBool::new(false));
    let heard = parts.clone();
    rig.script(move |verb, _| {
        heard.fetch_or(verb == "parts", Relaxed);
        Fate::Pass
    });
    device.write(5 << 20, 12 << 20, 7);
    device.flush().expect("the bucket takes it");
    assert!(parts.load(Relaxed));
    let before = rig.read_bytes.load(Relaxed);
    assert_eq!(device.read((17 << 20) - 512, 1024).expect("readable")[..512], [7; 512]);
    assert_eq!(rig.read_bytes.load(Relaxed) - before, 2 * 4100);
    assert_eq!(object_bytes(64 << 20), HEADER_BYTES + (64 << 20) / 4096 * 4100);
}

#[test]
fn a_bucket_with_something_else_in_it_is_refused() {
    let rig = Rig::default();
    let open = |purpose| rig.open(&settings(1), purpose).map(drop).expect_err("it is refused");
    let nothing = open(Purpose::Run);
    assert!(matches!(nothing, ObjectError::Open(OpenBucketError::Nothing)), "{nothing}");
    rig.put("photo.jpg", b"x");
    for purpose in [Purpose::Run, Purpose::Make(7, SHAPE), Purpose::Look] {
        let strange = open(purpose);
        assert!(matches!(strange, ObjectError::Open(OpenBucketError::Strange)), "{strange}");
    }
    assert_eq!(rig.keys(), ["photo.jpg"], "nothing was changed");
}

#[test]
fn whoever_looks_changes_nothing() {
    let rig = Rig::default();
    let mut device = made(&rig);
    device.write(LEAD, 4096, 1);
    device.flush().expect("the bucket takes it");
    let before = rig.keys();
    let mut looked = rig.open(&settings(2), Purpose::Look).expect("a device is there");
    assert_eq!(looked.read(LEAD, 4096).expect("readable"), [1; 4096]);
    let data = Payload::from(vec![2; 512]);
    let write = Io::Write { offset: Bytes(0), data, fua: false };
    assert_eq!(looked.ask(write), Err(DeviceError::Gone));
    drop(looked);
    assert_eq!(rig.keys(), before);
    device.write(LEAD, 4096, 3);
    device.flush().expect("it is still ours");
}

/// A device whose answers come one after the other, each a nanosecond after the last: what the
/// contract asks of devices in virtual time, on one that lives in real time.
struct Settled {
    inner: Driver,
    ready: Vec<(Nanos, Completion)>,
    last: Nanos,
}

impl Device for Settled {
    fn geometry(&self) -> Geometry {
        self.inner.device.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        self.inner.device.submit(now, ticket, io);
        self.last = Nanos(self.last.0.max(now.0) + 1);
        for completion in self.inner.answers() {
            self.ready.push((self.last, completion));
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        let due = self.ready.iter().take_while(|(at, _)| *at <= now).count();
        done.extend(self.ready.drain(..due).map(|(_, completion)| completion));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.ready.first().map(|(at, _)| *at)
    }
}

#[test]
fn it_keeps_the_contract_of_devices() {
    for seed in 0..4 {
        let make = || Settled { inner: made(&Rig::default()), ready: Vec::new(), last: Nanos(0) };
        contract::check(make, seed, 300);
    }
}

#[test]
fn a_stream_asks_the_bucket_for_each_extent_once_and_random_reads_for_what_they_want() {
    let rig = Rig::default();
    let eager = ObjectSettings { read_ahead: Bytes(256 << 10), ..settings(1) };
    let mut device = rig.open(&eager, Purpose::Make(7, SHAPE)).expect("nothing is there");
    let whole = (LEAD + 12 * EXTENT) as usize;
    device.write(0, whole, 5);
    device.flush().expect("the bucket takes it");
    let gets = Arc::new(AtomicU64::new(0));
    let counted = gets.clone();
    rig.script(move |verb, _| {
        counted.fetch_add(u64::from(verb == "get"), Relaxed);
        Fate::Pass
    });
    let before = rig.read_bytes.load(Relaxed);
    for at in (0..whole as u64).step_by(4096) {
        assert_eq!(device.read(at, 4096).expect("readable"), [5; 4096]);
    }
    let (asked, brought) = (gets.load(Relaxed), rig.read_bytes.load(Relaxed) - before);
    assert!(asked <= 13 + 4, "{asked} requests for 13 objects, {} reads", whole / 4096);
    assert!(brought < whole as u64 * 11 / 10, "{brought} of {whole} bytes");
    gets.store(0, Relaxed);
    for extent in [0, 5, 10] {
        device.read(LEAD + extent * EXTENT + 8192, 4096).expect("readable");
    }
    assert_eq!(gets.load(Relaxed), 3, "each asks for itself");
}

#[test]
fn whoever_waits_for_a_segment_that_cannot_be_had_asks_for_itself() {
    let rig = Rig::default();
    let eager = ObjectSettings { read_ahead: Bytes(256 << 10), ..settings(1) };
    let mut device = rig.open(&eager, Purpose::Make(7, SHAPE)).expect("nothing is there");
    device.write(LEAD, 2 * EXTENT as usize, 5);
    device.flush().expect("the bucket takes it");
    let failed = Arc::new(AtomicU64::new(0));
    let count = failed.clone();
    // The third request for an object is the first that nobody waits for yet.
    let mut reads = 0;
    rig.script(move |verb, _| {
        reads += u64::from(verb == "get");
        let fails = verb == "get" && reads == 3;
        count.fetch_add(u64::from(fails), Relaxed);
        if fails { Fate::Fail } else { Fate::Pass }
    });
    for at in (LEAD..LEAD + 2 * EXTENT).step_by(8192) {
        assert_eq!(device.read(at, 8192).expect("readable"), [5; 8192]);
    }
    assert_eq!(failed.load(Relaxed), 1);
}
