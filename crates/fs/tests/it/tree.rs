//! Random trees by seed: sparse files, many extents, deep directories, long names, links.

use crate::tools::sh;
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use thermocline_fs::{Catalog, FileKind};
use thermocline_units::Rng;

/// Fills `folder` with about `files` files. With odd seeds no file ends with a hole: mke2fs 1.47
/// loses that where small files may lie in inodes.
pub(crate) fn grow(folder: &Path, seed: u64, files: u64) {
    let mut random = Rng::seeded(seed);
    fs::create_dir_all(folder).unwrap();
    let mut directories = vec![folder.to_path_buf()];
    for number in 0..files {
        let parent = directories[random.below(directories.len() as u64) as usize].clone();
        let path = parent.join(name(&mut random, number));
        match random.below(20) {
            0..3 => {
                fs::create_dir(&path).unwrap();
                directories.push(path);
            }
            3 => symlink("x".repeat(1 + random.below(59) as usize), &path).unwrap(),
            4 => symlink("y".repeat(60 + random.below(900) as usize), &path).unwrap(),
            5 => sparse(&path, &mut random, seed.is_multiple_of(2)),
            6 => {
                let other = parent.join(format!("linked-{number}"));
                File::create(&other).unwrap();
                fs::hard_link(&other, &path).unwrap();
            }
            7 => attributed(&path, &mut random),
            _ => plain(&path, &mut random),
        }
    }
    deep(folder);
}

fn name(random: &mut Rng, number: u64) -> String {
    let ending = ["", ".txt", ".db", ".ü"][random.below(4) as usize];
    let long = if random.below(10) == 0 { 200 } else { random.below(20) as usize };
    format!("{number}-{}{ending}", "n".repeat(long))
}

fn plain(path: &Path, random: &mut Rng) {
    let most = [100, 5_000, 70_000, 600_000][random.below(4) as usize];
    let contents: Vec<u8> =
        random.next_u64().to_le_bytes().into_iter().cycle().take(most).collect();
    fs::write(path, &contents[..random.below(most as u64) as usize]).unwrap();
}

/// A file with extended attributes that an inode may have no room for; without them where the file
/// system below cannot.
fn attributed(path: &Path, random: &mut Rng) {
    plain(path, random);
    for (number, size) in [20, 250, 400].into_iter().enumerate() {
        let name = format!("user.attribute-{number}");
        let _ = rustix::fs::setxattr(path, name, &vec![b'v'; size], XattrFlags::empty());
    }
}

/// A file with a hole behind every piece: one extent each, more than an inode has room for.
fn sparse(path: &Path, random: &mut Rng, ends_with_hole: bool) {
    let file = File::create(path).unwrap();
    let (pieces, far) = (1 + random.below(120), 8192 << random.below(3));
    for piece in 0..pieces {
        file.write_all_at(&[7; 4096], piece * far).unwrap();
    }
    if ends_with_hole {
        file.set_len(pieces * far + random.below(1 << 20)).unwrap();
    }
}

fn deep(folder: &Path) {
    let mut path = folder.join("deep");
    for level in 0..40 {
        path.push(format!("level-{level}"));
    }
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("bottom"), b"at the bottom").unwrap();
}

/// Makes an XFS `image` of this size that holds `folder/tree`, by a prototype file: no mount is
/// needed, and hard links become files. The variables are those of XFS's own tests, for which
/// mkfs.xfs makes small file systems too.
pub(crate) fn make_xfs(folder: &Path, options: &str, size: &str) {
    let mut prototype = "/dev/null\n0 0\nd--755 0 0\n".to_string();
    describe(&folder.join("tree"), &mut prototype);
    fs::write(folder.join("prototype"), prototype).unwrap();
    let variables = "export TEST_DIR=x TEST_DEV=x QA_CHECK_FS=x";
    let make = format!("mkfs.xfs -q {options} -p prototype image 2>&1");
    sh(folder, &format!("{variables}; truncate -s {size} image; {make}"));
}

fn describe(folder: &Path, into: &mut String) {
    use std::fmt::Write;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let status = fs::symlink_metadata(&path).unwrap();
        if status.is_dir() {
            writeln!(into, "{name} d--755 0 0").unwrap();
            describe(&path, into);
        } else if status.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            writeln!(into, "{name} l--777 0 0 {}", target.display()).unwrap();
        } else {
            writeln!(into, "{name} ---644 0 0 {}", path.display()).unwrap();
        }
    }
    into.push_str("$\n");
}

/// Everything below a folder: path from its root, with what `stat` says.
pub(crate) fn listing(folder: &Path) -> BTreeMap<PathBuf, fs::Metadata> {
    let (mut found, mut left) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let status = fs::symlink_metadata(&path).unwrap();
            if status.is_dir() {
                left.push(path.clone());
            }
            found.insert(Path::new("/").join(path.strip_prefix(folder).unwrap()), status);
        }
    }
    found
}

/// Every file of the folder is in the catalog, with its kind and size and under one of its names,
/// and no other file is, but for what `is_own` says belongs to the file system.
pub(crate) fn assert_holds(
    case: &str,
    catalog: &Catalog,
    folder: &Path,
    is_own: fn(&Path) -> bool,
) {
    let files = listing(folder);
    let mut missing: BTreeMap<_, _> = files.iter().filter(|(path, _)| !is_own(path)).collect();
    for entry in catalog.files() {
        let path = as_path(&catalog.path(entry.file.id));
        if is_own(&path) || path == Path::new("/") {
            continue;
        }
        let status = files.get(&path).unwrap_or_else(|| panic!("{case}: {path:?} is not there"));
        let kind = match status {
            status if status.is_dir() => FileKind::Directory,
            status if status.is_symlink() => FileKind::Symlink,
            _ => FileKind::Regular,
        };
        assert_eq!(entry.file.kind, kind, "{case}: {path:?}");
        if kind != FileKind::Directory {
            assert_eq!(entry.file.size.0, status.len(), "{case}: {path:?}");
        }
        missing.retain(|other, s| **other != path && (s.ino() != status.ino() || status.is_dir()));
    }
    assert!(missing.is_empty(), "{case}: not found: {:?}", missing.keys().take(5));
}

fn as_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes)).to_path_buf()
}
