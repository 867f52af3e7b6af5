//! The quick parsers against the careful ones.

use crate::formats::text::{Context, LineFormat};
use crate::formats::{alibaba::Alibaba, msr::Msr, tencent::Tencent};
use crate::volumes::Volumes;
use proptest::prelude::*;

/// Checks that the careful parser reads the same where the quick one takes a line; a canonical line
/// it must take.
fn agree(mut quick: impl LineFormat, mut careful: impl LineFormat, line: &str, canonical: bool) {
    let mut volumes = [Volumes::default(), Volumes::default()];
    let text = format!("{line}\nnext");
    let taken = quick.read_quickly(text.as_bytes(), &mut volumes[0]);
    let mut hashes = Vec::new();
    let mut context = Context { volumes: &mut volumes[1], hashes: &mut hashes };
    let read = careful.read_line(line.as_bytes(), &mut context);
    match taken {
        Some((request, bytes)) => {
            assert_eq!(Ok(Some(request)), read, "{line}");
            assert_eq!(bytes, line.len() + 1, "{line}");
            assert_eq!(volumes[0].names(), volumes[1].names(), "{line}");
        }
        None => assert!(!canonical || read.is_err(), "the quick parser refuses {line}"),
    }
}

/// Replaces one byte, where there is one at `at`.
fn spoiled(line: &str, at: usize, by: u8) -> String {
    let mut bytes = line.as_bytes().to_vec();
    if let Some(byte) = bytes.get_mut(at) {
        *byte = by;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn both_parsers_agree(
        numbers in prop::array::uniform4((any::<u64>(), 0u32..64)),
        host in "[a-z]{1,12}",
        writes in any::<bool>(),
        at in 0usize..80,
        by in "[-0-9,. a-zA-Z]",
    ) {
        let [time, offset, size, last] = numbers.map(|(number, shift)| number >> shift);
        let (long, short) = if writes { ("Write", 'W') } else { ("Read", 'R') };
        let by = by.as_bytes()[0];
        let msr = format!("{time},{host},{},{long},{offset},{size},{last}", last % 100);
        let alibaba = format!("{last},{short},{offset},{size},{time}");
        let tencent = format!("{time},{offset},{size},{},{last}", u8::from(writes));
        agree(Msr::default(), Msr::default(), &msr, true);
        agree(Msr::default(), Msr::default(), &spoiled(&msr, at, by), false);
        agree(Alibaba, Alibaba, &alibaba, true);
        agree(Alibaba, Alibaba, &spoiled(&alibaba, at, by), false);
        agree(Tencent, Tencent, &tencent, true);
        agree(Tencent, Tencent, &spoiled(&tencent, at, by), false);
    }
}

#[test]
fn the_remembered_volume_is_not_mistaken_for_one_that_begins_like_it() {
    let mut format = Msr::default();
    let mut volumes = Volumes::default();
    for line in ["1,hm,1,Read,0,512,0\n", "1,hm,11,Read,0,512,0\n", "1,hm,1,Read,0,512,0\n"] {
        format.read_quickly(line.as_bytes(), &mut volumes).unwrap();
    }
    assert_eq!(volumes.names(), ["hm.1", "hm.11"]);
}
