//! Requests are taken column by column up to the first that cannot be.

use super::*;
use crate::workload::tests::request;

#[test]
fn plain_requests_end_at_the_first_that_is_not() {
    let most = request(0, Tag::VOLUME_MAX, Op::Write, u64::MAX / 2, u64::from(u32::MAX));
    let strange = [
        request(0, 0, Op::Trim, 0, 512),
        request(0, 0, Op::Flush, 0, 512),
        request(0, 0, Op::Read, 0, 0),
        request(0, 0, Op::Read, 0, 1 << 32),
        request(0, 0, Op::Read, 1 << 63, 512),
        request(0, Tag::VOLUME_MAX + 1, Op::Read, 0, 512),
    ];
    let plain = vec![most; 40];
    assert_eq!(plain_ones(&plain).len(), 40);
    for strange in strange {
        for at in 0..40 {
            let mut requests = plain.clone();
            requests[at] = strange;
            assert_eq!(plain_ones(&requests).len(), at, "{strange:?}");
        }
    }
}
