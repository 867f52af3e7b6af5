//! Labels of devices, read before anybody opens them.

use super::Bench;
use crate::pools::label::{LABEL_BYTES, Label};
use thermocline_ports::{Device, Io, Ticket};
use thermocline_units::{Bytes, Nanos, PoolId, Rng};

/// The first bytes of a pool's device.
fn head(bench: &mut Bench, pool: usize) -> Vec<u8> {
    let disk = &mut bench.disks[pool];
    let now = bench.now;
    disk.submit(now, Ticket(u64::MAX), Io::Read { offset: Bytes(0), length: LABEL_BYTES as u32 });
    let mut done = Vec::new();
    while done.is_empty() {
        bench.now = disk.next_event().expect("a read is in flight");
        disk.poll(bench.now, &mut done);
    }
    done.remove(0).result.expect("nothing fails").to_vec()
}

#[test]
fn every_device_knows_which_pool_it_is_and_who_the_others_are() {
    let mut bench = Bench::new(&[8, 16]);
    for pool in 0..2 {
        let Label::Pool(label) = Label::read(&head(&mut bench, pool)) else { panic!("a pool") };
        assert_eq!((label.identity, label.pool), (42, PoolId(pool as u16)));
        let names: Vec<_> = label.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["pool0", "pool1"]);
        assert!(label.members.iter().all(|member| member.wanted));
        for (member, disk) in label.members.iter().zip(&bench.disks) {
            let size = disk.geometry().size;
            assert!(member.bytes <= size && member.bytes.0 + (1 << 20) > size.0, "{member:?}");
        }
    }
}

#[test]
fn a_removed_pool_is_not_wanted_any_more() {
    let mut bench = Bench::new(&[8, 16, 16]);
    bench.group.drain_pool(bench.now, PoolId(0)).expect("two others are there");
    bench.pass(Nanos::from_secs(1));
    bench.group.remove_pool(bench.now, PoolId(0)).expect("it is empty");
    bench.pass(Nanos::from_secs(1));
    let Label::Pool(label) = Label::read(&head(&mut bench, 1)) else { panic!("a pool") };
    let wanted: Vec<_> = label.members.iter().map(|member| member.wanted).collect();
    assert_eq!(wanted, [false, true, true]);
}

#[test]
fn what_is_no_label_is_nothing_and_what_is_broken_is_unreadable() {
    assert_eq!(Label::read(&[0; LABEL_BYTES]), Label::Nothing);
    assert_eq!(Label::read(b"THERMOCL"), Label::Nothing, "cut short");
    let mut bench = Bench::new(&[8, 16]);
    let mut head = head(&mut bench, 0);
    let newest = Label::read(&head);
    for block in 0..2 {
        let mut one = head.clone();
        one[block * 4096 + 100] ^= 1;
        one[block * 4096 + 200] ^= 1;
        assert!(matches!(Label::read(&one), Label::Pool(_) | Label::Unreadable));
        one[(1 - block) * 4096..][..4096].fill(0);
        assert_ne!(Label::read(&one), newest, "the broken one does not count");
    }
    for at in [100, 200, 4196, 4296] {
        head[at] ^= 1;
    }
    assert_eq!(Label::read(&head), Label::Unreadable);
}

/// Such devices were said to hold nothing that is known here, and people were told to erase them.
#[test]
fn a_device_is_known_although_a_bit_of_each_superblock_flipped() {
    let mut bench = Bench::new(&[8, 16]);
    let head = head(&mut bench, 0);
    let newest = Label::read(&head);
    for at in [2, 8, 12, 24, 100, 4000] {
        let mut damaged = head.clone();
        damaged[at] ^= 0x10;
        damaged[4096 + at] ^= 0x10;
        assert_eq!(Label::read(&damaged), newest, "byte {at}");
    }
}

#[test]
fn no_bytes_are_read_with_a_panic() {
    let mut bench = Bench::new(&[8]);
    let head = head(&mut bench, 0);
    let mut rng = Rng::seeded(1);
    for _ in 0..2_000 {
        let mut bytes = head.clone();
        for _ in 0..rng.below(8) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        // The checksum is made right again, so that what it protects is read.
        for block in bytes.chunks_mut(4096) {
            let crc = crc32c::crc32c(&block[12..]);
            block[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        bytes.truncate(rng.below(LABEL_BYTES as u64 + 1) as usize);
        Label::read(&bytes);
    }
}
