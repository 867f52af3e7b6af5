//! Files that wait for their hints, and those that are dropped before.

use super::{HintSender, PendingHint};
use crate::files::Place;
use crate::files::mounts::Mounts;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use thermocline_admin::client::Client;
use thermocline_engine::api::NewHint;

#[test]
fn a_file_that_is_deleted_before_it_had_hints_is_not_held_open() {
    let folder = tempfile::tempdir().expect("a folder");
    let device = folder.path().metadata().expect("it is there").dev();
    let mount = Mounts::read().expect("the mounts").holding(folder.path()).expect("one holds it");
    let client = Client::new(&folder.path().join("nobody.sock"));
    let place = Place::on_its_own(mount, device);
    let mut sender = HintSender::new(place, client, "test".to_string(), Duration::from_secs(60));
    let said = PendingHint { hint: NewHint::default(), within: 0..u64::MAX, is_advice: false };
    let now = Instant::now();
    for name in ["stays", "goes"] {
        let file = File::create(folder.path().join(name)).expect("a file");
        sender.note(now, OwnedFd::from(file), said.clone());
    }
    assert_eq!(sender.waiting.len(), 2);
    std::fs::remove_file(folder.path().join("goes")).expect("it is there");
    sender.turn(now, false).expect("nothing is due");
    assert_eq!(sender.waiting.len(), 1);
}
