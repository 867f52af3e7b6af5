//! A survey: which reader runs, what is kept between runs, and how a run ended.
//!
//! 1. The file system is detected; its superblock says who it is.
//! 2. When that is not who it was in the last run, or the last run failed, everything is begun
//!    anew.
//! 3. The reader says what changed since, and remembers.

use crate::detect::{Kind, detect};
use crate::memory::Standing;
use crate::pass::Pass;
use crate::{Blocks, Found, FsError, Limits, btrfs, ext, xfs};
use thermocline_units::Bytes;

/// Summary of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Kind of the file system.
    pub kind: Kind,
    /// Offset of its beginning on the volume.
    pub at: Bytes,
    /// Length by its own account.
    pub size: Bytes,
    /// Bytes that were read.
    pub read: Bytes,
    /// Reads that were made.
    pub reads: u64,
    /// Regular files told in this run.
    pub files: u64,
    /// Directories told in this run.
    pub directories: u64,
    /// Symbolic links told in this run.
    pub symlinks: u64,
    /// Devices, pipes, sockets and the file system's own files told in this run.
    pub others: u64,
    /// Extents told in this run.
    pub extents: u64,
    /// Files told to be gone.
    pub gone: u64,
    /// Number of items looked at that had not changed: inodes (ext, XFS), tree nodes (btrfs).
    pub unchanged: u64,
    /// Tree nodes of btrfs that an earlier subvolume had told already: snapshots share them.
    pub shared: u64,
    /// Structures that contradicted themselves and were skipped; the next run tries again.
    pub torn: u64,
    /// Extents beyond [`Limits::extents_per_file`], not told.
    pub cut: u64,
}

impl Summary {
    fn begin(kind: Kind, at: Bytes) -> Summary {
        Summary {
            kind,
            at,
            size: Bytes(0),
            read: Bytes(0),
            reads: 0,
            files: 0,
            directories: 0,
            symlinks: 0,
            others: 0,
            extents: 0,
            gone: 0,
            unchanged: 0,
            shared: 0,
            torn: 0,
            cut: 0,
        }
    }
}

/// State of a reader.
enum Reader {
    Ext(ext::Reader),
    Btrfs(Box<btrfs::Reader>),
    Xfs(xfs::Reader),
}

impl Reader {
    fn of(kind: Kind) -> Reader {
        match kind {
            Kind::Ext2 | Kind::Ext3 | Kind::Ext4 => Reader::Ext(ext::Reader::default()),
            Kind::Btrfs => Reader::Btrfs(Box::default()),
            Kind::Xfs => Reader::Xfs(xfs::Reader::default()),
        }
    }

    fn run(&mut self, pass: &mut Pass<'_>) -> Result<(), FsError> {
        match self {
            Reader::Ext(reader) => reader.run(pass),
            Reader::Btrfs(reader) => reader.run(pass),
            Reader::Xfs(reader) => reader.run(pass),
        }
    }
}

/// A file system that is looked at again and again.
///
/// ```
/// use thermocline_fs::{FsError, Image, Limits, Survey};
/// use thermocline_units::Bytes;
/// let mut nothing = Image(vec![0; 1 << 20]);
/// let mut survey = Survey::new(Bytes(0), Limits::default());
/// let said = survey.run(&mut nothing, &mut |_| {});
/// assert!(matches!(said, Err(FsError::Unknown { .. })));
/// ```
pub struct Survey {
    at: Bytes,
    limits: Limits,
    kept: Option<Kept>,
}

/// Findings that stand after a run.
struct Kept {
    kind: Kind,
    identity: u64,
    runs: u32,
    reader: Reader,
    standing: Standing,
}

impl Survey {
    /// A survey of the file system that begins at byte `at` of its volume.
    pub fn new(at: Bytes, limits: Limits) -> Survey {
        Survey { at, limits, kept: None }
    }

    /// Looks at the file system and says what changed since the last run; all of it the first time.
    ///
    /// # Errors
    /// When there is no file system that can be read, the medium fails, or a limit is reached. What
    /// was said until then stands; the next run begins anew.
    pub fn run(
        &mut self,
        blocks: &mut dyn Blocks,
        sink: &mut dyn FnMut(Found<'_>),
    ) -> Result<Summary, FsError> {
        let kept = self.kept.take();
        let system = detect(blocks, self.at)?.ok_or(FsError::Unknown { at: self.at })?;
        let same = |kept: &Kept| (kept.kind, kept.identity) == (system.kind, system.identity);
        let (fresh, mut kept) = match kept.filter(same) {
            Some(kept) => (false, kept),
            None => (true, Kept::of(system.kind, system.identity)),
        };
        kept.runs += 1;
        let begin = (self.limits, Summary::begin(system.kind, self.at), kept.runs);
        let mut pass = Pass::new(blocks, sink, &mut kept.standing, begin);
        if fresh {
            pass.anew();
        }
        kept.reader.run(&mut pass)?;
        let summary = pass.summary;
        self.kept = Some(kept);
        Ok(summary)
    }
}

impl Kept {
    fn of(kind: Kind, identity: u64) -> Kept {
        let (reader, standing) = (Reader::of(kind), Standing::default());
        Kept { kind, identity, runs: 0, reader, standing }
    }
}

/// Looks once at the file system that begins at byte `at`: [`Survey::run`] without a memory.
///
/// # Errors
/// As [`Survey::run`].
pub fn survey(
    blocks: &mut dyn Blocks,
    at: Bytes,
    sink: &mut dyn FnMut(Found<'_>),
    limits: Limits,
) -> Result<Summary, FsError> {
    Survey::new(at, limits).run(blocks, sink)
}
