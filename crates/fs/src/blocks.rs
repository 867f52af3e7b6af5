//! Source of the bytes of a survey: the caller owns the device.
//!
//! Readers ask for whole structures at once (a run of inode tables, a tree node), never for more
//! than [`READ_MAX`] in one request, and never outside the size that was told.

use thermocline_units::Bytes;

/// The longest single read: 1 MiB.
pub(crate) const READ_MAX: u64 = 1 << 20;

/// A volume to read. Offsets are bytes from its start; any alignment may be asked for.
pub trait Blocks {
    /// Bytes that can be read. Constant during a survey.
    fn size(&self) -> Bytes;

    /// Fills `into` from `offset`. The caller guarantees that the range lies inside
    /// [`Blocks::size`] and is at most 1 MiB. The implementer must answer with what a client of the
    /// volume would read now; a file system that is mounted may write at the same time.
    ///
    /// # Errors
    /// When the medium cannot; that ends the survey.
    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError>;
}

/// The medium could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(
    /// The medium's error.
    pub String,
);

/// A volume in memory.
#[derive(Debug, Clone, Default)]
pub struct Image(
    /// Its bytes, from offset 0.
    pub Vec<u8>,
);

impl Blocks for Image {
    fn size(&self) -> Bytes {
        Bytes(self.0.len() as u64)
    }

    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
        let from = usize::try_from(offset.0).ok();
        let whole = from.and_then(|from| self.0.get(from..from.checked_add(into.len())?));
        let whole = whole.ok_or_else(|| {
            ReadError(format!("{} B at byte {} lie outside the image", into.len(), offset.0))
        })?;
        into.copy_from_slice(whole);
        Ok(())
    }
}
