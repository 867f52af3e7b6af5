//! The device's contract on real files, contents compared with a plain model.

mod loops;

use super::{FileDevice, OpenDeviceError, OpenOptions};
use crate::Health;
use crate::ring::Answer;
use rustix::io::Errno;
use std::path::Path;
use thermocline_ports::{Completion, Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, Rng};

const SIZE: u64 = 1 << 20;

fn open(path: &Path, buffered: bool) -> FileDevice {
    let options = OpenOptions { create: Some(Bytes(SIZE)), buffered, ..OpenOptions::default() };
    FileDevice::open(path, options).expect("a file in a folder of ours")
}

/// Runs the requests, all in flight at once; results by ticket.
fn run(device: &mut FileDevice, requests: Vec<Io>) -> Vec<Result<Payload, DeviceError>> {
    let count = requests.len();
    for (ticket, io) in requests.into_iter().enumerate() {
        device.submit(Nanos(0), Ticket(ticket as u64), io);
    }
    let mut done: Vec<Completion> = Vec::new();
    device.poll(Nanos(0), &mut done);
    while done.len() < count {
        device.wait().expect("the kernel waits");
        device.poll(Nanos(0), &mut done);
    }
    done.sort_by_key(|completion| completion.ticket);
    assert!(
        done.iter().enumerate().all(|(at, c)| c.ticket == Ticket(at as u64)),
        "one answer each"
    );
    done.into_iter().map(|completion| completion.result).collect()
}

/// Random requests, a batch of disjoint ranges at a time, against a vector of bytes.
fn agrees_with_a_vector(buffered: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), buffered);
    let mut model = vec![0_u8; SIZE as usize];
    let mut rng = Rng::seeded(3);
    for round in 0..60_u64 {
        let slice = SIZE / 32;
        let mut requests = Vec::new();
        for part in 0..32 {
            let start = part * slice + rng.below(slice / 512) * 512;
            let length = (rng.below(64) + 1) * 512;
            let length = length.min((part + 1) * slice - start);
            let (offset, range) = (Bytes(start), start as usize..(start + length) as usize);
            requests.push(match rng.below(4) {
                0 => Io::Read { offset, length: length as u32 },
                1 => {
                    model[range].fill(0);
                    Io::WriteZeroes { offset, length: Bytes(length) }
                }
                _ => {
                    // Sliced, so that the bytes in memory are not aligned.
                    let bytes = vec![(round + part) as u8; length as usize + 7];
                    model[range].fill((round + part) as u8);
                    let data = Payload::from(bytes).slice(7..length as u32 + 7);
                    Io::Write { offset, data, fua: rng.below(3) == 0 }
                }
            });
        }
        requests.push(Io::Flush);
        let expected: Vec<Option<Vec<u8>>> = requests
            .iter()
            .map(|io| match io {
                Io::Read { offset, length } => {
                    let at = offset.0 as usize;
                    Some(model[at..at + *length as usize].to_vec())
                }
                _ => None,
            })
            .collect();
        for (result, expected) in run(&mut device, requests).into_iter().zip(expected) {
            let payload = result.expect("nothing fails");
            assert_eq!(payload.to_vec(), expected.unwrap_or_default());
        }
    }
}

#[test]
fn requests_past_the_page_cache_keep_the_contract() {
    agrees_with_a_vector(false);
}

#[test]
fn requests_through_the_page_cache_keep_the_contract() {
    agrees_with_a_vector(true);
}

#[test]
fn more_requests_than_the_ring_is_deep_are_all_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    let read = |at: u64| Io::Read { offset: Bytes(at % 200 * 512), length: 512 };
    let results = run(&mut device, (0..2000).map(read).collect());
    assert!(results.iter().all(|result| result.is_ok()));
}

#[test]
fn a_discarded_range_reads_as_zeroes_where_the_geometry_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), false);
    let data = Payload::from(vec![5; 8192]);
    run(&mut device, vec![Io::Write { offset: Bytes(0), data, fua: false }]);
    run(&mut device, vec![Io::Discard { offset: Bytes(512), length: Bytes(4096) }]);
    let read = run(&mut device, vec![Io::Read { offset: Bytes(0), length: 8192 }]);
    let bytes = read[0].as_ref().expect("readable").to_vec();
    assert!(bytes[..512].iter().chain(&bytes[4608..]).all(|&byte| byte == 5));
    if device.geometry().discard_zeroes {
        assert!(bytes[512..4608].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn a_file_that_was_cut_answers_with_an_error_and_not_with_zeroes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let mut device = open(&path, true);
    std::fs::OpenOptions::new().write(true).open(&path).expect("ours").set_len(4096).expect("cut");
    let reads = [0, 8192].map(|at| Io::Read { offset: Bytes(at), length: 4096 });
    let results = run(&mut device, reads.to_vec());
    assert!(results[0].is_ok());
    assert_eq!(results[1], Err(DeviceError::Io));
}

#[test]
fn a_second_instance_a_folder_and_an_empty_file_are_refused_with_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let first = open(&path, false);
    let second = FileDevice::open(&path, OpenOptions::default());
    assert!(matches!(second, Err(OpenDeviceError::InUse { .. })));
    drop(first);
    assert!(
        FileDevice::open(&path, OpenOptions::default()).is_ok(),
        "the lock goes with the device"
    );
    assert!(FileDevice::open(folder.path(), OpenOptions::default()).is_err());
    let empty = folder.path().join("empty");
    std::fs::write(&empty, b"").expect("ours");
    let error = FileDevice::open(&empty, OpenOptions::default()).err().expect("nothing fits");
    assert!(error.to_string().contains("empty has no room"), "{error}");
    let missing = FileDevice::open(&folder.path().join("none"), OpenOptions::default());
    assert!(missing.err().expect("missing").to_string().contains("none"));
}

#[test]
fn a_sparse_files_head_can_be_given_room_and_reads_as_before() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let options = OpenOptions { create: Some(Bytes(8 << 20)), ..OpenOptions::default() };
    let mut device = FileDevice::open(&path, options).expect("a file");
    let room = || std::fs::metadata(&path).expect("it is there").blocks() * 512;
    if room() != 0 || device.allocate(Bytes(1 << 20)).is_err() {
        return eprintln!("SKIPPED: no sparse files here");
    }
    assert!(room() >= 1 << 20, "{}", room());
    let length = 1 << 20;
    let results = run(&mut device, vec![Io::Read { offset: Bytes(0), length }]);
    assert!(results[0].as_ref().expect("readable").to_vec().iter().all(|&byte| byte == 0));
    assert_eq!(std::fs::metadata(&path).expect("it is there").len(), 8 << 20);
}

#[test]
fn a_device_opened_to_read_is_locked_and_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, vec![7; 8192]).expect("ours");
    let before = std::fs::metadata(&path).expect("it is there").modified().expect("a time");
    let mut device = FileDevice::open_to_read(&path).expect("a file");
    let second = FileDevice::open(&path, OpenOptions::default());
    assert!(matches!(second, Err(OpenDeviceError::InUse { .. })));
    let data = Payload::from(vec![1; 512]);
    let asked = vec![
        Io::Read { offset: Bytes(0), length: 8192 },
        Io::Write { offset: Bytes(0), data, fua: false },
        Io::WriteZeroes { offset: Bytes(0), length: Bytes(512) },
    ];
    let results = run(&mut device, asked);
    assert_eq!(results[0].as_ref().expect("readable").to_vec(), [7; 8192]);
    assert!(results[1].is_err() && results[2].is_err());
    drop(device);
    assert_eq!(std::fs::read(&path).expect("ours"), [7; 8192]);
    let after = std::fs::metadata(&path).expect("it is there").modified().expect("a time");
    assert_eq!(before, after, "not even its time");
}

/// A disk that refuses the command for the first time, whatever its queue said.
#[test]
fn a_device_that_takes_back_that_it_can_punch_holes_is_written_zeroes() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    let (offset, length) = (Bytes(4096), Bytes(2 << 12));
    let data = Payload::from(vec![7; 4 << 12]);
    run(&mut device, vec![Io::Write { offset: Bytes(0), data, fua: false }]);
    device.punches = true;
    device.geometry.discard_zeroes = true;
    for io in [Io::WriteZeroes { offset, length }, Io::Discard { offset, length: Bytes(1 << 12) }] {
        device.punches = true;
        device.submit(Nanos(0), Ticket(0), io);
        let tag = device.queue.pop_front().expect("it waits for the ring");
        let result = Err(Errno::OPNOTSUPP.into());
        device.answered(Answer { tag, result, read: None });
        assert!(!device.punches, "it is not asked again");
        let mut done = Vec::new();
        while done.is_empty() {
            device.poll(Nanos(0), &mut done);
            device.wait().expect("the kernel waits");
        }
        assert_eq!(done[0].result, Ok(Payload::EMPTY));
    }
    let discard = Io::Discard { offset: Bytes(3 << 12), length: Bytes(1 << 12) };
    run(&mut device, vec![discard]).remove(0).expect("zeroes were promised, and are written");
    let read = run(&mut device, vec![Io::Read { offset: Bytes(0), length: 4 << 12 }]).remove(0);
    let bytes = read.expect("readable").to_vec();
    assert!(bytes[..1 << 12].iter().all(|&byte| byte == 7));
    assert!(bytes[1 << 12..].iter().all(|&byte| byte == 0));
}

/// The kernel is offered what it did not take without anybody asking for more.
#[test]
fn a_request_that_the_kernel_does_not_take_at_first_is_offered_again_in_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    device.ring.script.refusals.extend([Err(Errno::AGAIN.into()), Ok(0), Err(Errno::BUSY.into())]);
    device.submit(Nanos(5), Ticket(1), Io::Read { offset: Bytes(0), length: 512 });
    let (mut now, mut done) = (Nanos(5), Vec::new());
    device.poll(now, &mut done);
    let mut offers = 0;
    while let Some(next) = device.next_event() {
        assert!(done.is_empty() && next > now, "it is in nobody's hands");
        (now, offers) = (next, offers + 1);
        device.poll(now, &mut done);
    }
    assert_eq!(offers, 3);
    while done.is_empty() {
        device.wait().expect("the kernel waits");
        device.poll(now, &mut done);
    }
    assert_eq!(done[0].ticket, Ticket(1));
}

/// Steps of a second, as an engine takes them.
fn poll_until(device: &mut FileDevice, now: &mut u64, until: u64) -> Vec<Completion> {
    let mut done = Vec::new();
    while *now < until {
        *now += 1;
        device.poll(Nanos::from_secs(*now), &mut done);
    }
    done
}

#[test]
fn a_device_that_does_not_answer_is_suspect_then_given_up_and_late_answers_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    let mut now = 0;
    device.ring.script.withholds = true;
    let data = Payload::from(vec![7; 4096]);
    device.submit(Nanos(0), Ticket(1), Io::Write { offset: Bytes(0), data, fua: true });
    device.submit(Nanos(0), Ticket(2), Io::Read { offset: Bytes(0), length: 4096 });
    assert_eq!(poll_until(&mut device, &mut now, 25), []);
    assert_eq!(device.health(), Health::Well);
    assert_eq!(poll_until(&mut device, &mut now, 40), []);
    let since = Nanos::from_secs(1);
    assert_eq!(device.health(), Health::Suspect { since });
    // More than the ring takes: what waits in front of it is answered as well.
    for ticket in 3..400 {
        device.submit(Nanos(0), Ticket(ticket), Io::Flush);
    }
    assert_eq!(poll_until(&mut device, &mut now, 300), []);
    let mut done = poll_until(&mut device, &mut now, 302);
    done.sort_unstable_by_key(|completion| completion.ticket);
    assert_eq!(device.health(), Health::GivenUp);
    let gone = |ticket: u64| Completion { ticket: Ticket(ticket), result: Err(DeviceError::Gone) };
    assert_eq!(done, (1..400).map(gone).collect::<Vec<_>>());

    // Whoever asks now has an answer at once; a ticket that is used again has its own.
    device.submit(Nanos(0), Ticket(1), Io::Read { offset: Bytes(0), length: 4096 });
    assert_eq!(poll_until(&mut device, &mut now, 303), [gone(1)]);
    device.wait().expect("nobody waits for what is given up");
    assert!(!device.ring.is_idle(), "the kernel has their buffers still");
    device.ring.script.withholds = false;
    while !device.ring.is_idle() {
        device.ring.wait().expect("the kernel waits");
        assert_eq!(poll_until(&mut device, &mut now, 304), [], "late answers are nobody's");
        now = 303;
    }
    device.submit(Nanos(0), Ticket(9), Io::Flush);
    assert_eq!(poll_until(&mut device, &mut now, 305), [gone(9)], "for good");
}

#[test]
fn a_device_that_answers_late_but_answers_is_well_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    let mut now = 0;
    device.ring.script.withholds = true;
    device.submit(Nanos(0), Ticket(1), Io::Read { offset: Bytes(0), length: 512 });
    assert_eq!(poll_until(&mut device, &mut now, 200), []);
    assert!(matches!(device.health(), Health::Suspect { .. }));
    device.ring.script.withholds = false;
    let mut done = Vec::new();
    while done.is_empty() {
        device.wait().expect("the kernel waits");
        device.poll(Nanos::from_secs(200), &mut done);
    }
    assert!(done[0].result.is_ok());
    assert_eq!(poll_until(&mut device, &mut now, 202), []);
    assert_eq!(device.health(), Health::Well);
}

/// A machine that slept has not waited for its disks.
#[test]
fn time_in_which_nobody_looked_does_not_count() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    let mut now = 0;
    device.ring.script.withholds = true;
    device.submit(Nanos(0), Ticket(1), Io::Read { offset: Bytes(0), length: 512 });
    assert_eq!(poll_until(&mut device, &mut now, 20), []);
    now = 3600;
    assert_eq!(poll_until(&mut device, &mut now, 3625), []);
    assert_eq!(device.health(), Health::Well);
    assert_eq!(poll_until(&mut device, &mut now, 3899), []);
    assert_eq!(poll_until(&mut device, &mut now, 3902).len(), 1);
    device.ring.script.withholds = false;
}

#[test]
fn a_device_that_was_given_up_is_dropped_without_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut device = open(&folder.path().join("pool"), true);
    device.ring.script.withholds = true;
    device.submit(Nanos(0), Ticket(1), Io::Read { offset: Bytes(0), length: 512 });
    assert_eq!(poll_until(&mut device, &mut 0, 302).len(), 1);
    drop(device); // With answers withheld it would wait for ever.
}
