//! A sample of what clients ask of a running engine, for `thermocline advise --live`: a recording
//! in memory, of some seconds.
//!
//! 1. [`begin`] lets a recorder hear what an observer hears; its blocks are kept, at most
//!    [`BYTES_MAX`] of them: what comes after that is not in the sample.
//! 2. When the time is up, or whoever asked has gone away, the recorder goes ([`Sampling`]).
//! 3. [`Blocks::file`] makes a recording of the blocks, away from the loop.
//!
//! An engine that records to a file is not sampled: it has one observer.

use crate::mailbox::{Mailbox, Stopped};
use std::sync::{Arc, Mutex, PoisonError};
use thermocline_admin::api::Refused;
use thermocline_recording::Recorder;
use thermocline_trace::recording::Packer;

/// Bytes of a sample, before they are packed.
const BYTES_MAX: usize = 64 << 20;

/// Blocks of a sample so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Blocks(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    blocks: Vec<Vec<u8>>,
    bytes: usize,
}

impl Blocks {
    /// Keeps a block; false when there is no room for it.
    fn take(&self, block: Vec<u8>) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.bytes + block.len() > BYTES_MAX {
            return false;
        }
        held.bytes += block.len();
        held.blocks.push(block);
        true
    }

    /// The recording: a file's bytes.
    pub(crate) fn file(&self) -> Vec<u8> {
        let held = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut packer = Packer::default();
        let mut file = packer.head();
        for block in held.blocks {
            file.extend(packer.pack(&block));
        }
        file
    }
}

/// A sample under way; it ends when this is dropped.
pub(crate) struct Sampling(Mailbox);

impl Drop for Sampling {
    fn drop(&mut self) {
        self.0.send(|admin| admin.end_sample());
    }
}

impl Sampling {
    /// Ends it, and waits until the last block has come.
    ///
    /// # Errors
    /// When the engine stops first.
    pub(crate) async fn end(self) -> Result<(), Stopped> {
        let mailbox = self.0.clone();
        drop(self);
        // Tasks run in their order: the sample has ended when this one runs.
        mailbox.ask(|_| ()).await
    }
}

/// Begins a sample.
///
/// # Errors
/// When the engine is recorded or sampled already, or stops.
pub(crate) async fn begin(mailbox: &Mailbox) -> Result<(Sampling, Blocks), Refused> {
    let blocks = Blocks::default();
    let sink = blocks.clone();
    let begun = mailbox.ask(move |admin| {
        let sink = move |block| sink.take(block);
        admin.begin_sample(|group| Box::new(Recorder::new(group, sink)))
    });
    begun.await.map_err(Refused::unavailable)??;
    Ok((Sampling(mailbox.clone()), blocks))
}
