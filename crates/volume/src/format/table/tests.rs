//! Tables of checksums: read back, damaged, and of another chunk.

use super::{TableName, decode_table, encode_table};
use crate::map::Table;
use crate::pools::layout::table_bytes;
use thermocline_units::{ChunkId, VolumeId};

const CHUNK: u32 = 64 << 10;

fn name(volume: u32, index: u32) -> TableName {
    TableName { group: 42, chunk: ChunkId { volume: VolumeId(volume), index }, volume: 0 }
}

fn sums() -> Vec<u32> {
    (0..16).map(|block| 0x9E37_79B9_u32.wrapping_mul(block + 1)).collect()
}

/// A table as layouts 1 and 2 wrote it.
fn plain(index: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&index.to_le_bytes());
    bytes.extend(sums().iter().flat_map(|sum| sum.to_le_bytes()));
    bytes.resize(table_bytes(CHUNK) as usize, 0);
    let crc = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_table_reads_back_as_written_and_with_any_bit_flipped_not_at_all() {
    let (payload, sum) = encode_table(name(1, 7), &sums(), CHUNK);
    let bytes = payload.to_vec();
    let table = Table::Summed(sum);
    assert_eq!(decode_table(name(1, 7), table, &bytes, CHUNK).as_deref(), Some(&*sums()));
    for bit in 0..bytes.len() * 8 {
        let mut broken = bytes.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_table(name(1, 7), table, &broken, CHUNK), None, "bit {bit}");
    }
    assert_eq!(decode_table(name(1, 7), table, &bytes[..bytes.len() - 1], CHUNK), None);
    assert_eq!(decode_table(name(1, 7), table, &[], CHUNK), None);
}

#[test]
fn another_chunks_table_and_an_earlier_one_are_not_taken_for_this_one() {
    let (payload, sum) = encode_table(name(1, 7), &sums(), CHUNK);
    let bytes = payload.to_vec();
    let others = [
        name(1, 8),
        name(2, 7),
        TableName { group: 43, ..name(1, 7) },
        TableName { volume: 9, ..name(1, 7) },
    ];
    for other in others {
        // Even where the journal means a table with the same sums.
        let (_, own) = encode_table(other, &sums(), CHUNK);
        for table in [Table::Summed(sum), Table::Summed(own)] {
            assert_eq!(decode_table(other, table, &bytes, CHUNK), None, "{other:?}");
        }
    }
    let mut later = sums();
    later[3] ^= 1;
    let (_, later) = encode_table(name(1, 7), &later, CHUNK);
    assert_eq!(decode_table(name(1, 7), Table::Summed(later), &bytes, CHUNK), None);
}

#[test]
fn tables_of_earlier_layouts_are_read_where_the_journal_means_one() {
    let bytes = plain(7);
    assert_eq!(decode_table(name(1, 7), Table::Plain, &bytes, CHUNK).as_deref(), Some(&*sums()));
    assert_eq!(decode_table(name(1, 8), Table::Plain, &bytes, CHUNK), None);
    assert_eq!(decode_table(name(1, 7), Table::Summed(0), &bytes, CHUNK), None);
    for bit in 0..bytes.len() * 8 {
        let mut broken = bytes.clone();
        broken[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode_table(name(1, 7), Table::Plain, &broken, CHUNK), None, "bit {bit}");
    }
}
