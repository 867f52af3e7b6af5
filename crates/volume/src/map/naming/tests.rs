//! Names of volumes: what is one, who has it, and who gets one.

use super::is_volume_name;
use crate::map::ChunkMap;
use thermocline_units::{Bytes, VolumeId};

/// Volumes of these names, by number, with identities from 1 on.
fn map(names: &[&str]) -> ChunkMap {
    let mut map = ChunkMap::new(1);
    for (id, name) in (0..).map(VolumeId).zip(names) {
        map.set_volume(id, Bytes(1 << 20), 1 << 16);
        let identity = map.take_identity();
        map.name_volume(id, identity, name.to_string());
    }
    map
}

#[test]
fn a_name_is_no_path_no_option_and_nothing_hidden() {
    let longest = "a".repeat(48);
    for name in ["v0", "a.b-c_D9", "_x", longest.as_str()] {
        assert!(is_volume_name(name), "{name}");
    }
    let longer = "a".repeat(49);
    for name in ["", ".x", "-x", "a/b", "a b", "a:1", "ä", "a\n", longer.as_str()] {
        assert!(!is_volume_name(name), "{name}");
    }
}

#[test]
fn a_volume_that_is_being_deleted_gives_up_its_name() {
    let mut map = map(&["blue", "red"]);
    assert_eq!(map.volume_named("red"), Some(VolumeId(1)));
    map.begin_deletion(VolumeId(1));
    assert_eq!((map.volume_named("red"), map.volume_named("green")), (None, None));
}

#[test]
fn a_volume_without_a_name_gets_its_number_or_the_next_that_is_free() {
    let map = map(&["v1", "v2", "blue"]);
    assert_eq!(map.default_name(VolumeId(0)), "v0");
    assert_eq!(map.default_name(VolumeId(1)), "v3");
}

#[test]
fn old_volumes_get_what_they_lack_and_others_keep_what_they_have() {
    let mut map = map(&["v1"]);
    map.set_volume(VolumeId(1), Bytes(1 << 20), 1 << 16);
    map.set_volume(VolumeId(4), Bytes(1 << 20), 1 << 16);
    map.name_old_volumes();
    let of = |id| map.volume(VolumeId(id)).map(|volume| (volume.name(), volume.identity()));
    assert_eq!(of(0), Some(("v1", 1)));
    assert_eq!((of(1), of(2), of(4)), (Some(("v2", 2)), None, Some(("v4", 3))));
}
