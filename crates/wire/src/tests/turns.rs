//! Turns: no stream holds another one back.

use super::{NOW, events, exchange, greeted, output, say};
use crate::{Event, FRAME_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, StreamId};
use bytes::Bytes;
use std::collections::VecDeque;

/// Streams whose window and queue hold 10 MiB.
fn roomy(config: &mut crate::Config) {
    config.streams_max = 4;
    config.window_floor_bytes = 16 << 20;
    config.window_max_bytes = 16 << 20;
    config.queue_floor_bytes = 16 << 20;
    config.queue_max_bytes = 16 << 20;
}

pub(super) fn a_short_message_leaves_within_one_round_beside_a_long_one() {
    let (mut a, mut b) = greeted(roomy);
    let long = a.open(b"").unwrap();
    say(&mut a, long, &vec![1; 10 << 20]);
    let mut out = VecDeque::new();
    a.transmit(NOW, &mut out, 100_000); // The long one is under way.
    let short = a.open(b"").unwrap();
    say(&mut a, short, &[2; 1024]);
    let open = FRAME_HEADER_BYTES;
    let rounds = 2 * (FRAME_HEADER_BYTES + FRAME_PAYLOAD_BYTES_MAX) + FRAME_HEADER_BYTES + 1024;
    a.transmit(NOW, &mut out, open + rounds);
    out.iter().for_each(|segment| b.receive(NOW, segment).unwrap());
    let of_short = |event: &Event| matches!(event, Event::Data { stream, .. } if *stream == short);
    assert!(events(&mut b).iter().any(of_short), "the short one waits for the long one");
}

#[test]
fn a_short_message_does_not_wait_for_a_long_one() {
    a_short_message_leaves_within_one_round_beside_a_long_one();
}

#[test]
fn streams_with_much_to_send_get_equal_shares() {
    let (mut a, mut b) = greeted(roomy);
    let streams: Vec<StreamId> = (0..4).map(|_| a.open(b"").unwrap()).collect();
    streams.iter().for_each(|stream| say(&mut a, *stream, &vec![3; 4 << 20]));
    let mut out = VecDeque::new();
    // Calls of an odd size, which cut turns.
    (0..100).for_each(|_| assert!(a.transmit(NOW, &mut out, 40_961) > 0));
    out.iter().for_each(|segment| b.receive(NOW, segment).unwrap());
    let mut bytes = [0; 4];
    for event in events(&mut b) {
        if let Event::Data { stream, bytes: more } = event {
            bytes[streams.iter().position(|s| *s == stream).unwrap()] += more.len();
        }
    }
    let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
    assert!(most - least <= 2 * FRAME_PAYLOAD_BYTES_MAX, "{bytes:?}");
}

#[test]
fn a_stream_that_nobody_reads_does_not_stall_the_others() {
    let (mut a, mut b) = greeted(|config| {
        config.streams_max = 8;
        config.received_bytes_max = 16 * u64::from(config.window_floor_bytes) + (1 << 20);
        config.queued_bytes_max = 16 * u64::from(config.queue_floor_bytes) + (64 << 10);
    });
    // Seven whose readers have stopped fill their windows and their queues.
    let stuck: Vec<StreamId> = (0..7).map(|_| a.open(b"stuck").unwrap()).collect();
    loop {
        let mut taken = 0;
        for stream in &stuck {
            taken += a.send(*stream, &mut Bytes::from(vec![4; 64 << 10])).unwrap();
        }
        exchange(&mut a, &mut b);
        if taken == 0 {
            break;
        }
    }
    events(&mut b);
    let free = a.open(b"free").unwrap();
    let (mut sent, mut arrived) = (0, 0);
    for _ in 0..1000 {
        sent += a.send(free, &mut Bytes::from(vec![5; 8 << 10])).unwrap();
        exchange(&mut a, &mut b);
        for event in events(&mut b) {
            if let Event::Data { stream, bytes } = event {
                assert_eq!(stream, free);
                arrived += bytes.len();
                b.consumed(stream, bytes.len());
            }
        }
        assert!(b.adds_up());
    }
    assert_eq!((sent, arrived), (1000 * (8 << 10), 1000 * (8 << 10)));
    stuck.iter().for_each(|stream| assert!(a.queued_bytes(*stream) > 0, "it is not stuck"));
}

#[test]
fn payload_is_handed_out_without_a_copy() {
    let (mut a, _) = greeted(roomy);
    let stream = a.open(b"").unwrap();
    output(&mut a);
    let bytes = Bytes::from(vec![6; 40_000]);
    a.send(stream, &mut bytes.clone()).unwrap();
    let mut out = VecDeque::new();
    assert_eq!(a.transmit(NOW, &mut out, 1 << 20), 40_000 + 3 * FRAME_HEADER_BYTES);
    let range = bytes.as_ptr_range();
    let shared = out.iter().filter(|segment| range.contains(&segment.as_ptr()));
    assert_eq!(shared.map(Bytes::len).sum::<usize>(), 40_000);
}
