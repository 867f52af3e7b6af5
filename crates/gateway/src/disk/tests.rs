//! The file of a cache: what is written comes back, and a disk that fails is told once.

use super::*;
use thermocline_tunnel::Store;

/// Does jobs; their answers.
fn done(file: &File, jobs: Vec<DiskJob>, failed: &mut dyn FnMut(&io::Error)) -> Vec<DiskDone> {
    let mut all = Vec::new();
    work_off(file, jobs, failed, &mut |done| all.push(done));
    all
}

/// A store of 64 KiB in memory and `disk` bytes on a device.
fn store(disk: u64) -> Store {
    Store::new(Bytes::from_kib(64), 7).with_disk(Bytes(disk))
}

fn chunk(number: u64) -> Vec<u8> {
    let mut rng = thermocline_units::Rng::seeded(number);
    (0..1000 + number % 500).map(|_| rng.next_u64() as u8).collect()
}

fn name(number: u64) -> thermocline_tunnel::Name {
    thermocline_tunnel::Name { owner: thermocline_tunnel::Owner::Us, number }
}

fn jobs(store: &mut Store) -> Vec<DiskJob> {
    std::iter::from_fn(|| store.next_disk_job()).collect()
}

#[test]
fn chunks_that_memory_gave_up_come_back_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = nameless_file(folder.path()).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the file has a name");
    let mut store = store(2 << 20);
    for number in 0..1000 {
        store.insert(name(number), number, &chunk(number));
    }
    for done in done(&file, jobs(&mut store), &mut |error| panic!("{error}")) {
        assert_eq!(store.disk_done(done), None);
    }
    let mut wanted = std::collections::BTreeMap::new();
    for number in 100..200 {
        let ticket = store.fetch(name(number), chunk(number).len()).expect("it is on the device");
        wanted.insert(ticket, number);
    }
    let reads = done(&file, jobs(&mut store), &mut |error| panic!("{error}"));
    assert_eq!(reads.len(), 100);
    for read in reads {
        let (ticket, bytes) = store.disk_done(read).expect("it was a read");
        assert_eq!(bytes, Some(chunk(wanted[&ticket])));
    }
}

#[test]
fn neighbours_are_one_read_and_what_is_beyond_the_file_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let file = nameless_file(folder.path()).unwrap();
    file.write_all_at(&[1, 2, 3, 4, 5, 6], 0).unwrap();
    let mut store = store(2 << 20);
    for number in 0..1000 {
        store.insert(name(number), number, &chunk(number));
    }
    let mut ticket = |number| store.fetch(name(number), chunk(number).len()).unwrap();
    let tickets = [ticket(1), ticket(2), ticket(3)];
    let read = |ticket, place, length| DiskJob::Read { ticket, place, length };
    let jobs = vec![read(tickets[0], 0, 2), read(tickets[1], 2, 3), read(tickets[2], 4, 9)];
    let answers = done(&file, jobs, &mut |error| panic!("{error}"));
    let answer = |ticket, bytes| DiskDone::Read { ticket, bytes };
    assert_eq!(
        answers,
        [
            answer(tickets[0], Some(vec![1, 2])),
            answer(tickets[1], Some(vec![3, 4, 5])),
            answer(tickets[2], None)
        ]
    );
}

#[test]
fn a_full_device_is_told_once_and_the_store_goes_on_without_it() {
    let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let mut store = store(2 << 20);
    for number in 0..1000 {
        store.insert(name(number), number, &chunk(number));
    }
    let mut told = 0;
    for done in done(&full, jobs(&mut store), &mut |_| told += 1) {
        store.disk_done(done);
    }
    assert!(told > 0 && store.disk_counts().has_failed);
    let held = (0..1000).filter(|&number| store.fetch(name(number), chunk(number).len()).is_some());
    assert_eq!(held.count(), 0, "the device has chunks");
    for number in 1000..2000 {
        store.insert(name(number), number, &chunk(number));
    }
    assert_eq!(jobs(&mut store), []);
    assert!(store.get(name(1999)).is_some());
}
