//! Buffers are aligned, as long as was asked for, and used again.

use super::{ALIGNMENT, Aligned, is_aligned};

#[test]
fn buffers_of_any_length_are_aligned_and_hold_what_was_put_in() {
    for length in [0, 1, 512, 4095, 4096, 4097, 128 << 10, (128 << 10) + 1, 1 << 20] {
        let mut aligned = Aligned::zeroed(length);
        assert!(aligned.as_mut_slice().iter().all(|&byte| byte == 0), "{length}");
        aligned.as_mut_slice().fill(7);
        let shared = aligned.freeze();
        assert!(is_aligned(&shared) && shared.len() == length);
        assert!(shared.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn a_buffer_is_used_again_when_its_last_share_goes_and_not_before() {
    let first = Aligned::zeroed(3 * ALIGNMENT).freeze();
    let address = first.as_ptr();
    let share = first.slice(10..20);
    drop(first);
    let second = Aligned::used(3 * ALIGNMENT);
    assert_ne!(second.as_ref().as_ptr(), address, "a share is still held");
    drop(share);
    let third = Aligned::used(4 * ALIGNMENT);
    assert_eq!(third.as_ref().as_ptr(), address);
}

#[test]
fn zeroed_means_zeroed_also_for_a_buffer_that_was_used() {
    let mut dirty = Aligned::used(ALIGNMENT);
    dirty.as_mut_slice().fill(9);
    drop(dirty);
    assert!(Aligned::zeroed(100).as_ref().iter().all(|&byte| byte == 0));
}

/// Buffers above 128 KiB came from the kernel and went back to it with every request.
#[test]
fn large_buffers_are_used_again_too() {
    let first = Aligned::used(1 << 20);
    let address = first.as_ref().as_ptr();
    drop(first);
    assert_eq!(Aligned::used((512 << 10) + 1).as_ref().as_ptr(), address);
}

#[test]
fn what_is_kept_is_bounded_over_all_sizes() {
    let held: Vec<Aligned> =
        (0..100).flat_map(|_| [Aligned::used(1 << 20), Aligned::used(64 << 10)]).collect();
    drop(held);
    drop(Aligned::used(32 << 20));
    let kept = super::SPARE.with(|spare| spare.borrow().bytes);
    assert!(kept > super::SPARE_BYTES_MAX / 2 && kept <= super::SPARE_BYTES_MAX, "{kept}");
}
