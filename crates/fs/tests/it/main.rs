//! Surveys against the file systems' own programs and the kernel: images with random trees, the
//! answers of dumpe2fs, debugfs, xfs_db and btrfs, and FIEMAP through mounts. What is missing here
//! prints SKIPPED.

// A test that cannot go on stops where it is; clippy does not see that these functions are tests'.
#![allow(clippy::unwrap_used)]

mod btrfs;
mod ext;
mod flips;
mod mount;
mod ranges;
mod tools;
mod tree;
mod written;
mod xfs;
