//! Blocked work of one key beside that of others.

use super::*;
use futures_util::FutureExt;
use std::sync::mpsc::{Sender, channel};

/// A runtime with so many threads for what blocks.
fn runtime(threads: usize) -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.max_blocking_threads(threads).build().unwrap()
}

/// Begins a look-up that lasts until its sender is dropped, and gives up waiting for it.
fn hang(look_ups: &LookUps) -> Sender<()> {
    let (end, until) = channel::<()>();
    let waits = look_ups.run(move || until.recv().is_err()).now_or_never();
    assert!(waits.is_none(), "it hangs");
    end
}

#[test]
fn look_ups_that_nobody_waits_for_count_until_they_have_ended() {
    let runtime = runtime(LOOK_UPS_MAX + 1);
    runtime.block_on(async {
        let (one, other) = (LookUps::new(), LookUps::new());
        let mut hanging: Vec<_> = (0..LOOK_UPS_MAX).map(|_| hang(&one)).collect();
        assert!(one.run(|| ()).now_or_never().is_none());
        assert_eq!(one.0.available_permits(), 0, "a look-up that hangs gave its place back");
        assert_eq!(other.run(|| 5).await.unwrap(), 5, "another key has its own");
        hanging.pop();
        assert_eq!(one.run(|| 6).await.unwrap(), 6, "one has ended");
    });
}

#[test]
fn a_cache_is_read_while_all_threads_for_look_ups_are_blocked() {
    let runtime = runtime(1);
    runtime.block_on(async {
        let look_ups = LookUps::new();
        let _hanging = hang(&look_ups);
        assert_eq!(on_a_thread(|| 7).await.unwrap(), 7);
        assert!(on_a_thread::<()>(|| panic!("it fails")).await.is_err());
    });
}
