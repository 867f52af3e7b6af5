//! Numbers are read where they are, and nowhere else.

use super::{put_at, u16_at, u32_at, u64_at};

#[test]
fn numbers_come_back_from_where_they_were_put() {
    let mut bytes = [0; 16];
    put_at(&mut bytes, 1, &0x0201_u16.to_le_bytes());
    put_at(&mut bytes, 3, &0x0605_0403_u32.to_le_bytes());
    put_at(&mut bytes, 7, &u64::MAX.to_le_bytes());
    assert_eq!((u16_at(&bytes, 1), u32_at(&bytes, 3)), (Some(0x0201), Some(0x0605_0403)));
    assert_eq!(u64_at(&bytes, 7), Some(u64::MAX));
    assert_eq!(bytes[..3], [0, 1, 2]);
}

#[test]
fn what_is_not_all_there_is_none() {
    let bytes = [1; 8];
    assert_eq!((u16_at(&bytes, 7), u32_at(&bytes, 5), u64_at(&bytes, 1)), (None, None, None));
    assert_eq!((u16_at(&bytes, 99), u64_at(&bytes, usize::MAX)), (None, None));
    assert_eq!((u16_at(&bytes, 6), u64_at(&bytes, 0)), (Some(257), Some(0x0101_0101_0101_0101)));
}
