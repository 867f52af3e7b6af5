//! Tables as sfdisk and sgdisk write them, built here byte by byte, and broken ones.

use super::*;
use crate::Image;

const SIZE: usize = 8 << 20;
const LINUX: [u8; 16] = *b"\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4";

fn mbr_entry(sector: &mut [u8], index: usize, kind: u8, first: u32, count: u32) {
    let entry = &mut sector[446 + index * 16..462 + index * 16];
    entry[4] = kind;
    entry[8..12].copy_from_slice(&first.to_le_bytes());
    entry[12..16].copy_from_slice(&count.to_le_bytes());
    sector[510..512].copy_from_slice(&[0x55, 0xaa]);
}

/// A GPT with two partitions and its copy, in sectors of `sector` bytes.
fn gpt_image(sector: usize) -> Vec<u8> {
    let mut image = vec![0; SIZE];
    mbr_entry(&mut image[..512], 0, PROTECTIVE, 1, u32::MAX);
    let mut table = vec![0; 128 * 128];
    for (index, (first, last)) in [(64_u64, 127_u64), (512, 1023)].into_iter().enumerate() {
        let entry = &mut table[index * 128..];
        entry[..16].copy_from_slice(&LINUX);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
    }
    let last = SIZE / sector - 1;
    for (place, at) in [(1, 2), (last, last - table.len().div_ceil(sector))] {
        let mut head = vec![0; 92];
        head[..8].copy_from_slice(b"EFI PART");
        head[12..16].copy_from_slice(&92_u32.to_le_bytes());
        head[72..80].copy_from_slice(&(at as u64).to_le_bytes());
        head[80..84].copy_from_slice(&128_u32.to_le_bytes());
        head[84..88].copy_from_slice(&128_u32.to_le_bytes());
        head[88..92].copy_from_slice(&crc32(&table).to_le_bytes());
        let sum = crc32(&head);
        head[16..20].copy_from_slice(&sum.to_le_bytes());
        image[place * sector..][..92].copy_from_slice(&head);
        image[at * sector..][..table.len()].copy_from_slice(&table);
    }
    image
}

fn places(image: Vec<u8>) -> Vec<(u64, u64)> {
    let found = partitions(&mut Image(image)).unwrap();
    found.iter().map(|partition| (partition.start.0, partition.length.0)).collect()
}

#[test]
fn the_checksum_is_that_of_ieee_802_3() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn primary_and_logical_partitions_of_an_mbr_are_found() {
    let mut image = vec![0; SIZE];
    mbr_entry(&mut image, 0, 0x83, 2048, 1024);
    mbr_entry(&mut image, 1, 0x05, 4096, 8192);
    mbr_entry(&mut image[4096 * 512..], 0, 0x83, 63, 100);
    mbr_entry(&mut image[4096 * 512..], 1, 0x05, 1000, 1000);
    mbr_entry(&mut image[5096 * 512..], 0, 0x8e, 63, 200);
    let sectors = |first: u64, count: u64| (first * 512, count * 512);
    assert_eq!(places(image), [sectors(2048, 1024), sectors(4159, 100), sectors(5159, 200)]);
}

#[test]
fn a_chain_that_goes_back_ends() {
    let mut image = vec![0; SIZE];
    mbr_entry(&mut image, 0, 0x0f, 100, 8192);
    mbr_entry(&mut image[100 * 512..], 0, 0x83, 1, 1);
    mbr_entry(&mut image[100 * 512..], 1, 0x05, 50, 100);
    mbr_entry(&mut image[150 * 512..], 1, 0x05, 0, 100);
    assert_eq!(places(image), [(101 * 512, 512)]);
}

#[test]
fn a_gpt_is_read_in_both_sizes_of_sectors_and_from_its_copy() {
    for sector in [512, 4096] {
        let expected = [(64, 64), (512, 512)]
            .map(|(first, count)| (first * sector as u64, count * sector as u64));
        assert_eq!(places(gpt_image(sector)), expected);
        let mut first_is_damaged = gpt_image(sector);
        first_is_damaged[sector + 40] ^= 1;
        assert_eq!(places(first_is_damaged), expected);
        let mut table_is_damaged = gpt_image(sector);
        table_is_damaged[2 * sector] ^= 1;
        assert_eq!(places(table_is_damaged), expected);
    }
}

#[test]
fn what_is_no_table_has_no_partitions_and_every_cut_is_survived() {
    assert_eq!(places(vec![0; SIZE]), []);
    assert_eq!(places(Vec::new()), []);
    let whole = gpt_image(512);
    for length in [0, 1, 511, 512, 513, 1024, 1100, 4096, 17_920, 20_000, SIZE / 2] {
        let found = partitions(&mut Image(whole[..length].to_vec())).unwrap();
        assert!(
            found.iter().all(|partition| partition.start.0 + partition.length.0 <= length as u64)
        );
    }
}

#[test]
fn no_flipped_byte_of_a_table_makes_a_partition_outside_the_volume() {
    let mut image = Image(gpt_image(512));
    let end = image.0.len() as u64;
    for at in (0..2048).chain(SIZE - 1024..SIZE) {
        let byte = image.0[at];
        image.0[at] = !byte;
        let found = partitions(&mut image).unwrap();
        assert!(found.iter().all(|partition| partition.start.0 + partition.length.0 <= end));
        image.0[at] = byte;
    }
}
