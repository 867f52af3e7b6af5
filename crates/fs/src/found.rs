//! Statements of a survey about files and metadata.
//!
//! The rules that let a listener keep a true picture over several runs of one survey:
//! - [`Found::Anew`] voids everything said before. A first run begins with it.
//! - [`Found::File`] voids what was said of that file before: its size, its extents, and metadata
//!   that it owns. What follows about this file belongs to the new statement.
//! - [`Found::Gone`] voids the same, and the file's name.
//! - [`Found::MetadataGone`] voids one statement of metadata that no file owns.
//! - [`Found::Name`] replaces the file's earlier name. It may come before or after the file itself.
//!   Of several hard links the last one told counts; a name may stay after its link was removed,
//!   until the file is told again or gone.
//! - What is not mentioned in a later run stands.

use thermocline_units::Bytes;

/// Names a file in its file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The subvolume (btrfs), 0 elsewhere.
    pub tree: u64,
    /// The inode's number in it.
    pub inode: u64,
}

/// Bytes of the volume: from `offset`, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch {
    /// Offset from the volume's start; the partition's offset is in it.
    pub offset: Bytes,
    /// Length in bytes.
    pub length: Bytes,
}

impl Stretch {
    /// The first byte behind it.
    pub fn end(&self) -> Bytes {
        Bytes(self.offset.0 + self.length.0)
    }
}

/// Kinds of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The superblock or a copy of it.
    Superblock,
    /// ext: group descriptors, their copies, and blocks kept for more of them.
    GroupDescriptors,
    /// ext: which blocks or clusters are in use.
    BlockBitmap,
    /// ext: which inodes are in use.
    InodeBitmap,
    /// Inodes themselves.
    InodeTable,
    /// ext, XFS: the journal or log.
    Journal,
    /// The contents of a directory.
    Directory,
    /// The map of one file's blocks, where the inode has no room for it.
    ExtentMap,
    /// Extended attributes outside the inode.
    Attributes,
    /// XFS: the headers of an allocation group.
    GroupHeaders,
    /// XFS: blocks kept for the group's own trees.
    FreeList,
    /// XFS, btrfs: a tree of free space.
    FreeSpaceTree,
    /// XFS: a tree of inode clusters.
    InodeTree,
    /// XFS, btrfs: a tree of who owns which extent, and how often it is shared.
    ExtentTree,
    /// btrfs: the map from logical addresses to the device.
    ChunkTree,
    /// btrfs: the tree of trees.
    RootTree,
    /// btrfs: files and directories of a subvolume.
    FileTree,
    /// btrfs: checksums of data.
    ChecksumTree,
    /// btrfs: what was synced since the last commit.
    LogTree,
    /// btrfs: devices, identities, block groups, and trees not listed here.
    OtherTree,
    /// btrfs: free space as version 1 caches it.
    SpaceCache,
    /// Quotas of users.
    Quota,
    /// ext: protection against two hosts, resizing, orphans, blocks known to be bad.
    Reserved,
}

impl What {
    /// All of them, in the order of the enum.
    pub const ALL: [What; 23] = [
        What::Superblock,
        What::GroupDescriptors,
        What::BlockBitmap,
        What::InodeBitmap,
        What::InodeTable,
        What::Journal,
        What::Directory,
        What::ExtentMap,
        What::Attributes,
        What::GroupHeaders,
        What::FreeList,
        What::FreeSpaceTree,
        What::InodeTree,
        What::ExtentTree,
        What::ChunkTree,
        What::RootTree,
        What::FileTree,
        What::ChecksumTree,
        What::LogTree,
        What::OtherTree,
        What::SpaceCache,
        What::Quota,
        What::Reserved,
    ];

    /// Its name, as tables and JSON print it.
    pub fn name(self) -> &'static str {
        match self {
            What::Superblock => "superblock",
            What::GroupDescriptors => "group-descriptors",
            What::BlockBitmap => "block-bitmap",
            What::InodeBitmap => "inode-bitmap",
            What::InodeTable => "inode-table",
            What::Journal => "journal",
            What::Directory => "directory",
            What::ExtentMap => "extent-map",
            What::Attributes => "attributes",
            What::GroupHeaders => "group-headers",
            What::FreeList => "free-list",
            What::FreeSpaceTree => "free-space-tree",
            What::InodeTree => "inode-tree",
            What::ExtentTree => "extent-tree",
            What::ChunkTree => "chunk-tree",
            What::RootTree => "root-tree",
            What::FileTree => "file-tree",
            What::ChecksumTree => "checksum-tree",
            What::LogTree => "log-tree",
            What::OtherTree => "other-tree",
            What::SpaceCache => "space-cache",
            What::Quota => "quota",
            What::Reserved => "reserved",
        }
    }
}

/// Kind of an inode's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// A file with contents.
    Regular,
    /// A directory; its blocks are metadata that it owns.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket, or what the file system keeps in the form of a file.
    Other,
}

impl FileKind {
    /// The kind in the mode bits that all three file systems share with POSIX.
    pub(crate) fn of_mode(mode: u32) -> FileKind {
        match mode & 0o170_000 {
            0o100_000 => FileKind::Regular,
            0o040_000 => FileKind::Directory,
            0o120_000 => FileKind::Symlink,
            _ => FileKind::Other,
        }
    }
}

/// A file, without its name and extents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// The file.
    pub id: FileId,
    /// Its kind.
    pub kind: FileKind,
    /// Its length as `stat` gives it, holes included.
    pub size: Bytes,
    /// Time of the last change of its contents, seconds since 1970 in UTC; before 1970 negative.
    pub modified_s: i64,
}

/// State of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// A stretch that holds what was written.
    Written,
    /// A stretch that is allocated and reads as zeroes.
    Preallocated,
    /// A stretch that holds the contents in compressed form; its length is that on the volume.
    Compressed,
}

/// Bytes of the volume that belong to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The file it belongs to.
    pub file: FileId,
    /// Offset in the file of its first byte.
    pub at: Bytes,
    /// Its place on the volume.
    pub stretch: Stretch,
    /// Its state.
    pub state: State,
}

/// One statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// Everything said before is void.
    Anew,
    /// These bytes are metadata.
    Metadata {
        /// Its place.
        stretch: Stretch,
        /// Its kind.
        what: What,
        /// The file whose statement voids this one; none: [`Found::MetadataGone`] does.
        owner: Option<FileId>,
    },
    /// These bytes are no longer that metadata.
    MetadataGone {
        /// The stretch as it was said.
        stretch: Stretch,
        /// The kind as it was said.
        what: What,
    },
    /// A file.
    File(File),
    /// A part of a file that was told before.
    Extent(Extent),
    /// Name of a file, in one directory.
    Name {
        /// The file.
        file: FileId,
        /// The directory with the name.
        directory: FileId,
        /// The name's bytes, 1 to 255, mostly UTF-8.
        name: &'a [u8],
    },
    /// The file does not exist any more.
    Gone(FileId),
}
