//! Lines on stderr that never hold up whoever says them.
//!
//! 1. A line goes into a queue of bounded length; a thread of its own writes it. A pipe that nobody
//!    reads, or a terminal that was stopped, holds that thread up and no one else.
//! 2. What finds the queue full is dropped and counted, and the count is written with the next line
//!    that gets through. Events are kept by the engine besides, and can be asked for.
//! 3. At its end a command waits a moment for the lines that are still to be written.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines that wait to be written, at most.
const QUEUE: usize = 1024;
/// Longest wait at the end of a command.
const PATIENCE: Duration = Duration::from_millis(500);

/// The way to the thread; `None` in it when no thread could be started.
static WRITER: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
/// Lines that found the queue full and were not told of yet.
static DROPPED: AtomicU64 = AtomicU64::new(0);

enum Message {
    Line(String),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

/// Writes a line, some time; a reader that has gone away is nobody's fault.
pub(crate) fn say(line: String) {
    let Some(queue) = WRITER.get_or_init(start) else { return write(&mut io::stderr(), &line) };
    if queue.try_send(Message::Line(line)).is_err() {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until the lines that were said are written, half a second at most.
pub(crate) fn flush() {
    let Some(Some(queue)) = WRITER.get() else { return };
    let (done, written) = sync_channel(1);
    if queue.try_send(Message::Flush(done)).is_ok() {
        let _ = written.recv_timeout(PATIENCE);
    }
}

fn start() -> Option<SyncSender<Message>> {
    let (queue, lines) = sync_channel(QUEUE);
    let thread = std::thread::Builder::new().name("stderr".to_string());
    thread.spawn(move || run(&lines, &mut io::stderr(), &DROPPED)).ok().map(|_| queue)
}

fn run(messages: &Receiver<Message>, to: &mut impl Write, dropped: &AtomicU64) {
    while let Ok(message) = messages.recv() {
        match dropped.swap(0, Ordering::Relaxed) {
            0 => {}
            count => {
                write(to, &format!("{count} lines were dropped here: nobody read fast enough"))
            }
        }
        match message {
            Message::Line(line) => write(to, &line),
            Message::Flush(done) => drop(done.send(())),
        }
    }
}

fn write(to: &mut impl Write, line: &str) {
    let _ = to.write_all(format!("{line}\n").as_bytes());
}

#[cfg(test)]
mod tests;
