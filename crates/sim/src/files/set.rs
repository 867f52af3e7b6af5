//! Sets of files: so many of each size, dealt to directories at random.

use super::{FileId, Tree};
use crate::machine::Step;
use thermocline_policy::hints::Usage;
use thermocline_units::{Bytes, Rng};

/// Files of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// Number of files.
    pub count: u32,
    /// A size for each is drawn of these, all alike likely; not empty.
    pub sizes: Vec<Bytes>,
    /// Use of their stream.
    pub usage: Usage,
}

/// The volume is too small for the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the volume has no room for file {0} of the set; make it larger, or the set smaller")]
pub struct NoRoom(pub u32);

/// Makes the files of all batches in one shuffled order, and appends what is said of them. Nothing
/// is written. One list of files a batch.
///
/// # Errors
/// When the volume is too small.
pub fn make(
    tree: &mut Tree,
    batches: &[Batch],
    directories: u32,
    rng: &mut Rng,
    out: &mut Vec<Step>,
) -> Result<Vec<Vec<FileId>>, NoRoom> {
    let numbers = batches.iter().enumerate();
    let mut order: Vec<usize> =
        numbers.flat_map(|(at, batch)| vec![at; batch.count as usize]).collect();
    rng.shuffle(&mut order);
    let mut made = vec![Vec::new(); batches.len()];
    for (number, at) in (0..).zip(order) {
        let batch = &batches[at];
        let size = batch.sizes[rng.below(batch.sizes.len() as u64) as usize];
        let directory = rng.below(u64::from(directories)) as u32;
        let file = tree.create(directory, size.0.max(1), batch.usage, out);
        made[at].push(file.ok_or(NoRoom(number))?);
    }
    Ok(made)
}
