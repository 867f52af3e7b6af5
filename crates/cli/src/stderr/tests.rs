//! The thread's part; that an engine goes on while nobody reads is tested with the program.

use super::{Message, run};
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;

#[test]
fn dropped_lines_are_counted_in_front_of_the_next_one() {
    let (queue, messages) = sync_channel(4);
    for line in ["one", "two"] {
        queue.send(Message::Line(line.to_string())).unwrap();
    }
    let (done, written) = sync_channel(1);
    queue.send(Message::Flush(done)).unwrap();
    drop(queue);
    let mut out = Vec::new();
    run(&messages, &mut out, &AtomicU64::new(3));
    written.recv().unwrap();
    let text = String::from_utf8(out).unwrap();
    assert_eq!(text, "3 lines were dropped here: nobody read fast enough\none\ntwo\n");
}
