//! A kernel that does not take what it is given, by a script in front of the system call.

use super::{Answer, Ask, DEPTH, Ring};
use crate::buffer::Aligned;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use thermocline_units::Nanos;

/// Behaviour of a ring in place of the right one.
#[derive(Default)]
pub(crate) struct Script {
    /// Results of the next system calls, which take nothing.
    pub(crate) refusals: VecDeque<io::Result<usize>>,
    /// True if answers stay where they are, as if the kernel gave none.
    pub(crate) withholds: bool,
}

fn ring() -> (Ring, File) {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(1 << 20).expect("room");
    (Ring::new().expect("a ring"), file)
}

fn push(ring: &mut Ring, file: &File, tag: u32) {
    let ask = Ask::Read { offset: u64::from(tag) * 512, into: Aligned::used(512) };
    ring.push(Nanos(0), file.as_fd(), tag, ask);
}

/// Hands over and waits until `count` requests were answered.
fn answers(ring: &mut Ring, count: usize) -> Vec<u32> {
    let mut tags = Vec::new();
    while tags.len() < count {
        ring.wait().expect("the kernel waits");
        while let Some(Answer { tag, result, .. }) = ring.take() {
            assert_eq!(result.expect("readable"), 512);
            tags.push(tag);
        }
    }
    tags.sort_unstable();
    tags
}

/// A request that the kernel did not take was forgotten until the next request came along, and so
/// for ever where none did; and EBUSY ended the process.
#[test]
fn what_the_kernel_does_not_take_is_handed_over_later_and_in_its_order() {
    let refuse = |errno: Errno| Err(io::Error::from(errno));
    let again = [Errno::AGAIN, Errno::BUSY, Errno::INTR];
    for refusal in again.into_iter().map(refuse).chain([Ok(0)]) {
        let (mut ring, file) = ring();
        push(&mut ring, &file, 1);
        push(&mut ring, &file, 2);
        ring.script.refusals.push_back(refusal);
        assert!(!ring.submit().expect("it passes"), "none of it was taken");
        push(&mut ring, &file, 3);
        assert!(ring.submit().expect("the kernel is there"), "all of it was taken");
        assert_eq!(answers(&mut ring, 3), [1, 2, 3]);
        assert!(ring.is_idle() && ring.submit().expect("nothing to hand over"));
    }
}

#[test]
fn waiting_hands_over_what_was_left() {
    let (mut ring, file) = ring();
    push(&mut ring, &file, 7);
    ring.script.refusals.extend([Ok(0), Err(Errno::AGAIN.into()), Err(Errno::BUSY.into())]);
    assert_eq!(answers(&mut ring, 1), [7]);
}

#[test]
fn a_refusal_that_does_not_pass_is_told() {
    let (mut ring, file) = ring();
    push(&mut ring, &file, 1);
    ring.script.refusals.push_back(Err(Errno::NXIO.into()));
    assert!(ring.submit().is_err());
}

#[test]
fn as_many_requests_as_the_ring_is_deep_are_answered_though_none_was_taken_at_first() {
    let (mut ring, file) = ring();
    for round in 0..3 {
        for tag in 0..DEPTH {
            push(&mut ring, &file, tag);
            ring.script.refusals.push_back(Ok(0));
            assert!(!ring.submit().expect("it passes"), "round {round}");
        }
        assert!(!ring.has_room());
        assert_eq!(answers(&mut ring, DEPTH as usize), (0..DEPTH).collect::<Vec<_>>());
    }
}
