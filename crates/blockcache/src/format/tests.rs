//! The bytes: round trips, every bit that matters, and that everything has its place.

use super::*;
use thermocline_units::with_one_bit_changed;

const LABEL: Label = Label { side: Side::Origin, identity: 77, slots: 4096, lines: 1 << 20 };

#[test]
fn a_label_reads_back_and_with_any_byte_changed_not_at_all() {
    let bytes = LABEL.encode();
    assert_eq!(Label::decode(&bytes), Some(LABEL));
    for at in 0..SECTOR as usize {
        let mut changed = bytes.clone();
        changed[at] ^= 0x40;
        assert_eq!(Label::decode(&changed), None, "byte {at}");
        assert_eq!(is_label(&changed), at >= 8);
    }
    assert_eq!(Label::decode(&bytes[..100]), None);
}

#[test]
fn a_sector_of_the_table_is_believed_only_whole_and_in_its_place() {
    let line = |slot: u32| slot.is_multiple_of(3).then_some(slot * 7);
    let mut bytes = Vec::new();
    encode_table(5, 2, line, &mut bytes);
    assert_eq!(bytes.len(), SECTOR as usize);
    let found = decode_table(5, 2, &bytes).expect("it was just written");
    let slots = 2 * SECTOR_SLOTS..3 * SECTOR_SLOTS;
    assert_eq!(found, slots.filter_map(|slot| Some((slot, line(slot)?))).collect::<Vec<_>>());
    assert_eq!(decode_table(6, 2, &bytes), None, "another cache's");
    assert_eq!(decode_table(5, 3, &bytes), None, "another sector's");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(decode_table(5, 2, &changed), None, "byte {at}");
    }
}

/// One bit refused the whole group, the chunks of its other pools too.
#[test]
fn one_flipped_bit_is_set_right_and_two_are_not() {
    let mut table = Vec::new();
    encode_table(5, 2, |slot| slot.is_multiple_of(3).then_some(slot * 7), &mut table);
    let whole = decode_table(5, 2, &table);
    let label = LABEL.encode();
    for bit in (0..SECTOR as usize * 8).step_by(97) {
        let flipped = |bytes: &[u8], bits: &[usize]| {
            let mut bytes = bytes.to_vec();
            bits.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
            bytes
        };
        let named = |bits: &[usize]| {
            with_one_bit_changed(&flipped(&table, bits), |bytes| decode_table(5, 2, bytes))
        };
        assert_eq!(named(&[bit]), whole, "bit {bit}");
        assert_eq!(named(&[bit, (bit + 1001) % 4096]), None, "bits {bit} and another");
        let read = with_one_bit_changed(&flipped(&label, &[bit]), Label::decode);
        assert_eq!(read, Some(LABEL), "bit {bit}");
    }
}

#[test]
fn slots_fill_the_device_and_do_not_end_beyond_it() {
    for kib in [100u64, 1024, 1200, 4096, 131_072, 131_073, 1 << 30] {
        let size = Bytes(kib << 10);
        let slots = slots_on(size);
        if slots == 0 {
            continue;
        }
        assert!(slot_offset(slots, slots) <= size, "{kib} KiB");
        let more = slots + slots / 1000 + 40;
        assert!(slot_offset(more, more) > size, "{kib} KiB: there is room for more");
        let table_end = table_offset(table_sectors(slots)).0;
        assert!(table_end <= slot_offset(slots, 0).0, "the table ends before the slots");
    }
    assert_eq!(slots_on(Bytes(4096)), 0);
}
