//! The second level alone: what it keeps, what it refuses, and what damage does.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::settings::cache;

fn flash(slots: u32, shares_min: u32) -> Flash {
    Flash::new(cache("fifo", slots, 8, 1).unwrap(), slots, shares_min)
}

fn hash_of(bytes: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash[..8].copy_from_slice(bytes);
    hash
}

fn block(value: u8) -> Bytes {
    Bytes::from(vec![value; 8])
}

fn offer(flash: &mut Flash, content: u32) {
    let bytes = block(content as u8);
    flash.offer(content, 1, &bytes, || hash_of(&bytes));
}

/// Carries out the next request on a device that is a list of blocks.
fn serve(flash: &mut Flash, device: &mut [Bytes]) -> Option<FlashRead> {
    let (number, request) = flash.next_request().unwrap();
    let result = match request {
        FlashRequest::Write { slot, bytes } => {
            device[slot as usize] = bytes;
            Bytes::new()
        }
        FlashRequest::Read { slot } => device[slot as usize].clone(),
    };
    flash.ended(number, Ok(result), hash_of)
}

#[test]
fn what_memory_gives_up_comes_back_and_the_oldest_leaves() {
    let (mut flash, mut device) = (flash(2, 0), vec![Bytes::new(); 2]);
    for content in 1..=3 {
        offer(&mut flash, content);
        assert_eq!(flash.find(content), Some(Found::Here(block(content as u8))));
        assert_eq!(serve(&mut flash, &mut device), None);
    }
    assert_eq!(flash.find(1), None, "it made room for the third");
    assert_eq!(flash.find(3), Some(Found::Reading));
    let read = serve(&mut flash, &mut device).unwrap();
    assert_eq!((read.content, read.bytes), (3, Some(block(3))));
    flash.forget(3);
    assert_eq!(flash.find(3), None);
    assert_eq!(flash.counts().blocks, 1);
}

#[test]
fn wrong_bytes_are_dropped_and_counted() {
    let (mut flash, mut device) = (flash(2, 0), vec![Bytes::new(); 2]);
    offer(&mut flash, 7);
    serve(&mut flash, &mut device);
    device[0] = block(8);
    assert_eq!(flash.find(7), Some(Found::Reading));
    let read = serve(&mut flash, &mut device).unwrap();
    assert_eq!((read.content, read.bytes), (7, None));
    assert_eq!((flash.find(7), flash.counts().damaged), (None, 1));
}

#[test]
fn a_slot_under_a_read_is_not_written_before_the_read_has_ended() {
    let (mut flash, mut device) = (flash(1, 0), vec![Bytes::new(); 1]);
    offer(&mut flash, 1);
    serve(&mut flash, &mut device);
    assert_eq!(flash.find(1), Some(Found::Reading));
    offer(&mut flash, 2);
    assert_eq!(flash.find(2), None, "its only slot is being read");
    let read = serve(&mut flash, &mut device).unwrap();
    assert_eq!(read.bytes, Some(block(1)), "what left meanwhile is still right");
    offer(&mut flash, 2);
    assert_eq!(flash.find(2), Some(Found::Here(block(2))));
}

#[test]
fn a_device_that_fails_all_the_time_is_given_up() {
    let mut flash = flash(64, 0);
    for content in 0..FAILURES_MAX {
        assert!(!flash.counts().is_off);
        offer(&mut flash, content);
        let (number, _) = flash.next_request().unwrap();
        assert_eq!(flash.ended(number, Err(FlashFailed), hash_of), None);
    }
    let counts = flash.counts();
    assert!(counts.is_off && counts.blocks == 0 && counts.failed == u64::from(FAILURES_MAX));
    offer(&mut flash, 99);
    assert_eq!((flash.find(99), flash.next_request()), (None, None));
}

#[test]
fn blocks_of_few_shares_and_those_that_come_too_fast_are_passed() {
    let mut flash = flash(1024, 2);
    let bytes = block(1);
    flash.offer(1, 1, &bytes, || hash_of(&bytes));
    assert_eq!((flash.find(1), flash.counts().passed), (None, 1));
    for content in 0..=WRITES_MAX as u32 {
        flash.offer(content, 2, &bytes, || hash_of(&bytes));
    }
    assert_eq!(flash.counts().stored, WRITES_MAX as u64);
    assert_eq!(flash.counts().passed, 2);
}

#[test]
fn answers_to_nothing_are_dropped() {
    let mut flash = flash(2, 0);
    assert_eq!(flash.ended(5, Ok(block(1)), hash_of), None);
}
