//! Slowed devices: real files under a hand-driven clock, and a device that answers when it is told.

use super::Emulated;
use crate::{Disk, FileDevice, OpenDeviceError, OpenOptions, Patience};
use std::collections::VecDeque;
use std::path::Path;
use thermocline_ports::model::Profile;
use thermocline_ports::{Completion, Device, DeviceError, Geometry, Io, Payload, Ticket, contract};
use thermocline_units::{Bytes, Nanos};

/// Every read takes 8 ms, every write 2 ms, eight at a time.
const STEADY: &str = r#"
about = "a medium without surprises"
size = "16MiB"
discard-zeroes = false
[parallel]
servers = 8
read-service = "8ms"
write-service = "2ms"
spread = [[0.0, 1.0], [1.0, 1.0]]
[parallel.read]
mb-per-s = 1000000
command = "0ns"
[parallel.write]
mb-per-s = 1000000
command = "0ns"
"#;

const READ: Io = Io::Read { offset: Bytes(4096), length: 4096 };
const OPTIONS: OpenOptions =
    OpenOptions { create: Some(Bytes::from_mib(16)), buffered: false, patience: Patience::DEFAULT };

fn steady() -> Profile {
    Profile::parse(STEADY, "steady").expect("it is written above")
}

fn on_file(path: &Path, profile: &Profile) -> Emulated<FileDevice> {
    let file = FileDevice::open(path, OPTIONS).expect("a file in a folder of ours");
    Emulated::new(file, profile, 1).expect("16 MiB is a size for every medium")
}

/// Lets the file answer everything that was submitted.
fn settle(device: &mut Emulated<FileDevice>, now: Nanos) -> Vec<Completion> {
    let mut done = Vec::new();
    for _ in 0..2 {
        // The first poll hands requests to the kernel; the answers may need waiting for.
        device.poll_device(now, &mut done);
        device.device_mut().wait().expect("the kernel waits");
    }
    device.poll_device(now, &mut done);
    done
}

fn poll(device: &mut impl Device, now: Nanos) -> Vec<Completion> {
    let mut done = Vec::new();
    device.poll(now, &mut done);
    done
}

#[test]
fn a_modelled_read_of_8_ms_is_not_answered_earlier_and_brings_the_files_contents() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = on_file(&folder.path().join("pool"), &steady());
    let data = Payload::from(vec![7; 4096]);
    device.submit(Nanos(0), Ticket(1), Io::Write { offset: Bytes(4096), data, fua: false });
    assert!(settle(&mut device, Nanos(0)).is_empty(), "the model is not done");
    let written = device.next_event().expect("a write is in flight");
    assert!(written >= Nanos::from_micros(2_000));
    assert_eq!(poll(&mut device, written).len(), 1);

    let start = Nanos(written.0 + 500);
    device.submit(start, Ticket(2), READ);
    assert!(settle(&mut device, start).is_empty());
    let due = device.next_event().expect("a read is in flight");
    assert!(due >= Nanos(start.0 + Nanos::from_micros(8_000).0), "counted from submission");
    assert!(poll(&mut device, Nanos(due.0 - 1)).is_empty(), "one nanosecond too early");
    let done = poll(&mut device, due);
    assert_eq!(done, [Completion { ticket: Ticket(2), result: Ok(vec![7; 4096].into()) }]);
    assert_eq!(device.next_event(), None);
}

/// A slowed file whose file has always answered when time goes on: virtual time is all there is.
struct Settled(Emulated<FileDevice>);

impl Device for Settled {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn submit(&mut self, now: Nanos, ticket: Ticket, io: Io) {
        self.0.submit(now, ticket, io);
        while !self.0.halves.contains_key(&ticket) {
            assert!(settle(&mut self.0, now).is_empty(), "no model answers at submission");
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.0.poll(now, done);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.next_event()
    }
}

#[test]
fn a_slowed_file_keeps_the_contract_under_every_profile() {
    for (seed, name) in Profile::names().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let profile = Profile::built_in(name).expect("it is built in");
        let path = folder.path().join("pool");
        contract::check(|| Settled(on_file(&path, &profile)), seed as u64, 150);
    }
}

/// Answers what it is told to, when it is told to.
#[derive(Default)]
struct Told(VecDeque<Completion>);

impl Told {
    fn answer(&mut self, ticket: u64, result: Result<Payload, DeviceError>) {
        self.0.push_back(Completion { ticket: Ticket(ticket), result });
    }
}

impl Device for Told {
    fn geometry(&self) -> Geometry {
        Geometry { size: Bytes::from_mib(16), discard_zeroes: true, far: false }
    }

    fn submit(&mut self, _now: Nanos, _ticket: Ticket, _io: Io) {}

    fn poll(&mut self, _now: Nanos, done: &mut Vec<Completion>) {
        done.extend(self.0.drain(..));
    }

    fn next_event(&self) -> Option<Nanos> {
        None
    }
}

#[test]
fn a_device_slower_than_its_model_stays_as_slow_as_it_is() {
    let mut device = Emulated::new(Told::default(), &steady(), 1).expect("it fits");
    device.submit(Nanos(0), Ticket(1), READ);
    assert!(poll(&mut device, Nanos::from_secs(1)).is_empty(), "the device has not answered");
    assert_eq!(device.next_event(), None, "only the world knows; no busy loop until then");
    device.device_mut().answer(1, Ok(vec![1; 4096].into()));
    assert_eq!(poll(&mut device, Nanos::from_secs(1)).len(), 1);
}

#[test]
fn an_error_comes_when_the_model_is_done_and_its_ticket_can_be_used_again() {
    let mut device = Emulated::new(Told::default(), &steady(), 1).expect("it fits");
    for round in 0..3 {
        let start = Nanos::from_secs(round);
        device.submit(start, Ticket(1), READ);
        device.device_mut().answer(1, Err(DeviceError::Io));
        assert!(poll(&mut device, Nanos(start.0 + 7_999_999)).is_empty());
        let due = device.next_event().expect("the model is not done");
        let failed = Completion { ticket: Ticket(1), result: Err(DeviceError::Io) };
        assert_eq!(poll(&mut device, due), [failed]);
    }
    assert!(device.halves.is_empty());
}

#[test]
fn what_is_discarded_reads_as_the_real_device_says_whatever_the_profile_says() {
    let profile = Profile { discard_zeroes: false, ..steady() };
    let device = Emulated::new(Told::default(), &profile, 1).expect("it fits");
    assert!(device.geometry().discard_zeroes);
}

#[test]
fn a_file_too_small_for_its_profile_is_refused_with_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.pool");
    let options = OpenOptions {
        create: Some(Bytes::from_kib(64)),
        buffered: false,
        patience: Patience::DEFAULT,
    };
    let refused = Disk::open(&path, options, Some(&steady())).err().expect("models begin at 1 MiB");
    assert!(matches!(refused, OpenDeviceError::Emulation { .. }));
    assert!(refused.to_string().contains("tiny.pool"), "{refused}");
    let plain = Disk::open(&path, options, None).expect("plain files may be small");
    assert!(!plain.is_emulated() && plain.path() == path);
}
