//! File systems that are written to while they are surveyed: what is torn costs a statement until
//! the next run, and once all is quiet, nothing is missing.

use crate::mount::{self, Mount};
use crate::tools::{ImageFile, are_here, folder, sh, survey};
use crate::tree;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use thermocline_fs::{Catalog, Limits, Survey};
use thermocline_units::Bytes;

/// Makes and deletes files until told to end, and syncs now and then.
fn disturb(folder: &Path, ends: &AtomicBool) {
    let mut round = 0_u64;
    while !ends.load(Ordering::Relaxed) {
        let place = folder.join(format!("busy-{}", round % 7));
        let _ = std::fs::remove_dir_all(&place);
        std::fs::create_dir(&place).unwrap();
        for number in 0..40 {
            std::fs::write(place.join(format!("file-{number}")), vec![9; 3000]).unwrap();
        }
        if round.is_multiple_of(3) {
            sh(folder, "sync -f .");
        }
        round += 1;
    }
}

fn survey_while_written(kind: &str, make: &str) {
    if !are_here(&[make.split(' ').next().unwrap()]) || !mount::works(kind) {
        return;
    }
    let folder = folder();
    let (folder, image) = (folder.path(), folder.path().join("image"));
    {
        let _turn = mount::turn();
        sh(folder, &format!("truncate -s 300M image; {make} image"));
    }
    let mounted = Mount::new(&image, "");
    tree::grow(&mounted.tree.join("quiet"), 77, 150);
    mounted.sh("sync -f .");
    let (mut survey_of, mut catalog) =
        (Survey::new(Bytes(0), Limits::default()), Catalog::default());
    let ends = AtomicBool::new(false);
    let mut failed = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(&mounted.tree, &ends));
        let mut blocks = ImageFile::open(&image);
        for _ in 0..15 {
            let run = survey_of.run(&mut blocks, &mut |found| catalog.apply(&found));
            failed += u32::from(run.is_err());
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed, 0, "{kind}: no run ended early");
    let tree = mounted.tree.clone();
    mounted.end();
    let mut blocks = ImageFile::open(&image);
    let summary = survey_of.run(&mut blocks, &mut |found| catalog.apply(&found)).unwrap();
    assert_eq!(summary.torn, 0, "{kind}");
    let (fresh, _) = survey(&image);
    for entry in fresh.files() {
        assert_eq!(catalog.file(entry.file.id), Some(entry), "{kind}");
        assert_eq!(catalog.path(entry.file.id), fresh.path(entry.file.id), "{kind}");
    }
    assert_eq!(catalog.files().count(), fresh.files().count(), "{kind}: nothing gone is left");
    assert!(catalog.metadata().eq(fresh.metadata()), "{kind}");
    let mounted = Mount::new(&image, ",ro");
    assert_eq!(mounted.tree, tree);
    tree::assert_holds(kind, &catalog, &mounted.tree, |path| path == Path::new("/lost+found"));
}

#[test]
fn ext4_that_is_written_to_is_known_once_it_is_quiet() {
    survey_while_written("ext4", "mke2fs -q -F -t ext4");
}

#[test]
fn xfs_that_is_written_to_is_known_once_it_is_quiet() {
    survey_while_written("xfs", "mkfs.xfs -q");
}

#[test]
fn btrfs_that_is_written_to_is_known_once_it_is_quiet() {
    survey_while_written("btrfs", "mkfs.btrfs -q -n 4096");
}
