//! The device's contract on real files, contents compared with a plain model.

use super::{FileDevice, OpenDeviceError, OpenOptions};
use std::path::Path;
use thermocline_ports::{Completion, Device, DeviceError, Io, Payload, Ticket};
use thermocline_units::{Bytes, Nanos, Rng};

const SIZE: u64 = 1 << 20;

fn open(path: &Path, buffered: bool) -> FileDevice {
    let options = OpenOptions { create: Some(Bytes(SIZE)), buffered };
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
