//! No room: a full store, and quotas that are used up.

use super::{Scene, image};
use crate::program::run;
use crate::up::clients_are_here;

/// A guest that writes what the store has no room for hears that there is no room, and nothing else
/// happens to it or to its volume.
#[test]
fn a_full_store_refuses_writes_and_all_else_goes_on() {
    if !clients_are_here() {
        return;
    }
    let mut scene = Scene::new("hosting-full", "48MiB");
    image(&scene.folder, 4, 24);
    run(&scene.folder, "store image import image.raw junk").succeeded();
    run(&scene.folder, "store volume create vm 64MiB").succeeded();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    let lease = scene.status(1)["volumes"][0]["fence"].clone();
    scene.io(1, "vm", &["write -P 5 60M 1M"]).unwrap();
    for (seed, mib, name) in [(8, 4, "fill.raw"), (9, 1, "over.raw")] {
        image(&scene.folder, seed, mib);
        std::fs::rename(scene.folder.join("image.raw"), scene.folder.join(name)).unwrap();
    }
    let bytes = image(&scene.folder, 5, 40);
    let uri = "nbd+unix:///vm?socket=1.nbd";
    let copy = ["convert", "-n", "-f", "raw", "-O", "raw", "image.raw", uri];
    let said = scene.client("qemu-img", &copy).unwrap_err();
    assert!(said.contains("No space left on device"), "{said}");
    // Less than a request's piece is free then.
    let no_room = |commands: &[&str]| {
        let said = scene.io(1, "vm", commands).unwrap_err();
        assert!(said.contains("No space left on device"), "{said}");
    };
    no_room(&["write -s fill.raw 50M 4M"]);
    // Over what was acknowledged and not flushed: that stays, and is made durable.
    no_room(&["write -s over.raw 60M 1M"]);
    scene.io(1, "vm", &["read -P 5 60M 1M", "flush", "read -P 5 60M 1M"]).unwrap();
    let status = scene.status(1);
    let volume = &status["volumes"][0];
    assert_eq!((&volume["state"], &volume["fence"]), (&"attached".into(), &lease), "{status}");
    assert!(volume["refused_writes"].as_u64().unwrap() >= 2, "{status}");
    let host = run(&scene.folder, "host status --socket 1.sock").succeeded().stdout();
    assert!(host.contains("the store is full"), "{host}");
    let events = scene.get("1.sock", "/v1/events");
    assert!(events.contains("a write was refused: the store is full"), "{events}");
    let status = scene.store_status();
    assert_eq!(status["room"], "critical", "{status}");
    let text = run(&scene.folder, "store status").succeeded().stdout();
    assert!(text.contains("its room is at 9") || text.contains("its room is at 100 %"), "{text}");
    run(&scene.folder, "store check").succeeded();
    // It survives the death of the store, which then has no room either.
    scene.store.take().unwrap().kill();
    scene.start_store();
    scene.wait_for("the store is back", || scene.status(1)["is_connected"] == true);
    scene.io(1, "vm", &["read -P 5 60M 1M"]).unwrap();
    // The guest makes room by TRIM, the administrator by deleting.
    let again = ["discard 0 40M", "flush", "write -s image.raw 0 8M", "flush"];
    scene.io(1, "vm", &again).unwrap();
    run(&scene.folder, "store delete junk --yes").succeeded();
    scene.client("qemu-img", &copy).unwrap();
    assert!(scene.bytes(1, "vm")[..bytes.len()] == bytes);
    scene.io(1, "vm", &["read -P 5 60M 1M"]).unwrap();
    assert_eq!(scene.status(1)["volumes"][0]["fence"], lease, "it was never given up");
    run(&scene.folder, "store check").succeeded();
    assert_eq!(agent.end(), Some(0));
}

/// Quotas are told before they are reached, refuse with what a guest understands, and are changed
/// while the volume is in use.
#[test]
fn a_quota_refuses_writes_until_it_is_raised() {
    if !clients_are_here() {
        return;
    }
    let scene = Scene::new("hosting-quota", "128MiB");
    image(&scene.folder, 6, 12);
    let words = "store volume create vm 64MiB --logical-quota 10MiB --physical-quota 4MiB";
    run(&scene.folder, words).succeeded();
    let agent = scene.agent(1, &["vm"]);
    scene.wait_attached(1, "vm");
    let no_room = |commands: &[&str]| {
        let said = scene.io(1, "vm", commands).unwrap_err();
        assert!(said.contains("No space left on device"), "{said}");
        // Of a large write some parts are there.
        scene.io(1, "vm", &["discard 12M 8M", "flush"]).unwrap();
    };
    let room = || scene.store_status()["volumes"][0]["room"].clone();
    scene.io(1, "vm", &["write -s image.raw 0 3M"]).unwrap();
    assert_eq!(room(), "ok");
    scene.io(1, "vm", &["write -P 7 8M 1M", "write -P 0xaa 9M 1M"]).unwrap();
    scene.io(1, "vm", &["write -s image.raw 0 3500k"]).unwrap();
    assert_eq!(room(), "warning", "of the physical quota 88 % are used");
    // Beyond the physical quota; what is there already costs nothing of it.
    no_room(&["write -s image.raw 12M 8M"]);
    scene.io(1, "vm", &["write -P 7 30M 1M", "flush"]).unwrap();
    let events = scene.get("1.sock", "/v1/events");
    assert!(events.contains("the volume's physical quota is used up"), "{events}");
    let text = run(&scene.folder, "store volume quota vm --physical 32MiB").succeeded().stdout();
    assert!(text.contains("of 10 MiB") && text.contains("of 32 MiB"), "{text}");
    scene.io(1, "vm", &["write -s image.raw 0 6M"]).unwrap();
    assert_eq!(room(), "warning", "of the logical quota 90 % are used");
    no_room(&["write -s image.raw 12M 8M"]);
    let events = scene.get("1.sock", "/v1/events");
    assert!(events.contains("the volume's logical quota is used up"), "{events}");
    // The store looks at its volumes now and then.
    scene.wait_for("a warning of the store", || {
        scene.get("thermocline-store.sock", "/v1/events").contains("of its logical quota")
    });
    let metrics = scene.get("thermocline-store.sock", "/metrics");
    for name in ["volume_logical_quota_bytes", "volume_physical_quota_bytes", "refused_blocks"] {
        assert!(metrics.contains(&format!("thermocline_store_{name}")), "{metrics}");
    }
    let metrics = scene.get("1.sock", "/metrics");
    assert!(metrics.contains("thermocline_host_volume_refused_writes_total{volume=\"vm\"}"));
    // TRIM gives the quota back; without a bound everything fits.
    scene.io(1, "vm", &["discard 0 6M", "flush", "write -s image.raw 12M 4M"]).unwrap();
    run(&scene.folder, "store volume quota vm --logical none --physical none").succeeded();
    scene.io(1, "vm", &["write -s image.raw 20M 12M", "flush"]).unwrap();
    assert_eq!(room(), "ok");
    // A bound below what is there refuses growth, and nothing else.
    run(&scene.folder, "store volume quota vm --logical 1MiB").succeeded();
    assert_eq!(room(), "full");
    no_room(&["write -P 9 40M 4k"]);
    scene.io(1, "vm", &["write -P 9 20M 1M", "flush", "read -P 9 20M 1M"]).unwrap();
    // Nonsense.
    let refused = |words: &str, why: &str| {
        run(&scene.folder, &format!("store volume quota {words}")).ended_with(2).says(why);
    };
    refused("vm", "--logical");
    refused("vm --logical 5000", "multiple of 4 KiB");
    refused("vm --logical 0", "nothing could be written");
    refused("vm --logical some", "none");
    refused("nobody --logical 1GiB", "no volume");
    run(&scene.folder, "store snapshot vm kept").succeeded();
    refused("kept --physical 1GiB", "snapshot");
    assert_eq!(agent.end(), Some(0));
}
