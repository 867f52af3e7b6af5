//! Sizes and durations as people write them; the generator against its published stream.

use crate::{Bytes, Nanos, Rng};

#[test]
fn sizes_parse_as_engineers_write_them() {
    for (text, bytes) in [
        ("0", 0),
        ("512", 512),
        ("4KiB", 4096),
        ("64k", 65536),
        ("1.5 GiB", 3 << 29),
        ("2T", 2 << 40),
        ("1_000", 1000),
    ] {
        assert_eq!(text.parse::<Bytes>().unwrap(), Bytes(bytes), "{text}");
    }
}

#[test]
fn sizes_that_would_be_a_guess_are_refused() {
    for text in ["", "GiB", "4MB", "-1KiB", "1e400GiB", "99999999999TiB", "4KiBB", "nan"] {
        let error = text.parse::<Bytes>().unwrap_err();
        assert!(error.to_string().contains("64KiB"), "{text}: {error}");
    }
}

#[test]
fn sizes_print_what_they_parse() {
    for bytes in [0, 1, 1023, 4096, 1 << 20, 5 << 30, 1 << 50] {
        assert_eq!(Bytes(bytes).to_string().parse::<Bytes>().unwrap(), Bytes(bytes));
    }
    assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
}

#[test]
fn durations_need_a_unit() {
    assert_eq!("5m".parse::<Nanos>().unwrap(), Nanos::from_secs(300));
    assert_eq!("1.5ms".parse::<Nanos>().unwrap(), Nanos(1_500_000));
    assert!("5".parse::<Nanos>().is_err());
    assert_eq!(Nanos::from_secs(300).to_string(), "5 min");
}

#[test]
fn the_generator_is_the_same_on_every_machine() {
    // xoshiro256++ seeded by SplitMix64(0): the reference value of the authors' C code.
    let mut rng = Rng::seeded(0);
    assert_eq!(rng.next_u64(), 0x5317_5d61_490b_23df);
    let mut rng = Rng::seeded(1);
    let mean = (0..100_000).map(|_| rng.unit_f64()).sum::<f64>() / 1e5;
    assert!((mean - 0.5).abs() < 0.01, "{mean}");
    assert!((0..1000).all(|_| rng.below(7) < 7));
}

#[test]
fn a_shuffled_list_has_every_item_once_and_every_order_comes() {
    let mut rng = Rng::seeded(2);
    let mut orders = std::collections::BTreeMap::new();
    for _ in 0..6000 {
        let mut list = [0, 1, 2];
        rng.shuffle(&mut list);
        *orders.entry(list).or_insert(0) += 1;
    }
    assert!(orders.keys().all(|order| [0, 1, 2].iter().all(|item| order.contains(item))));
    assert_eq!(orders.len(), 6);
    assert!(orders.values().all(|count| (850..1150).contains(count)), "{orders:?}");
    rng.shuffle::<u8>(&mut []);
}
