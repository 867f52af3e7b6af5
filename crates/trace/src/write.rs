//! Writers: where requests go.

use crate::{Batch, TraceError};

/// A trace being written.
pub trait TraceWriter: Send {
    /// Appends the batch's requests; `volumes` are the names known so far, index is the `VolumeId`.
    /// The caller guarantees that every request's volume has a name.
    ///
    /// # Errors
    /// When the output cannot be written, or the format cannot hold a request.
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError>;

    /// Writes what is still held back and the format's end. Nothing may be written afterwards.
    ///
    /// # Errors
    /// When the output cannot be written.
    fn finish(&mut self) -> Result<(), TraceError>;
}

impl<W: TraceWriter + ?Sized> TraceWriter for Box<W> {
    fn write_batch(&mut self, batch: &Batch, volumes: &[String]) -> Result<(), TraceError> {
        (**self).write_batch(batch, volumes)
    }

    fn finish(&mut self) -> Result<(), TraceError> {
        (**self).finish()
    }
}
