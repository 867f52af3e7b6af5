//! An administrator's hour: one engine, real clients, and the mistakes that people make. Each step
//! begins where the one before has ended, and leaves what volumes hold as it was.

use crate::engine::{ask, json, over_socket};
use crate::mounted::{Mounted, mounting_works, shell};
use crate::program;
use crate::scrub::rot;
use crate::up::{Up, clients_are_here};
use std::path::{Path, PathBuf};

/// A disk that is slow; what is asked for often has somewhere to go only later.
const CONFIG: &str = r#"
data = "pools"
[[pool]]
name = "disk"
size = "192MiB"
emulate = "hdd-7200"
[[volume]]
size = "96MiB"
[policy]
name = "static"
epoch = "1s"
[copying]
rate = "none"
"#;

/// The engine with a file system on v0, which is mounted, and v1 without one.
struct Hour {
    folder: PathBuf,
    up: Up,
    mounted: Mounted,
}

impl Hour {
    /// Creates, attaches, makes a file system and puts files on it.
    fn begin(folder: &Path) -> Hour {
        std::fs::write(folder.join("hour.toml"), CONFIG).unwrap();
        let up = Up::start_on(folder, &["hour.toml"]);
        assert_eq!(ask(&up, "volume create 8MiB").unwrap(), "v1, 8 MiB, identity 2\n");
        let mounted = Mounted::new(folder).unwrap();
        mounted.shell("mkfs.ext4 -q DEVICE && mount DEVICE tree");
        mounted.shell("head -c 12M /dev/urandom > tree/data && sync -f tree");
        mounted.shell("cd tree && sha256sum data > ../sums");
        Hour { folder: folder.to_path_buf(), up, mounted }
    }

    /// Asks for the same few chunks again and again, and sees them rise.
    fn adds_a_faster_pool(&self) {
        let up = &self.up;
        let mut client = up.attach("v1");
        client.io("write -f -P 5 0 8M");
        ask(up, "pool add flash flash.img --size 64MiB --emulate ssd-sata").unwrap();
        ask(up, "policy set benefit").unwrap();
        let mut at = 0_u64;
        up.wait_for(|up| {
            // A disk reads anywhere else in a hundredth of a second.
            for _ in 0..32 {
                at = (at + 7) % 8;
                client.io(&format!("read -P 5 {at}M 4k"));
            }
            ask(up, "volume map v1").unwrap().contains("flash")
        });
        client.leave();
        self.is_told("move", "from disk to flash");
        self.is_told("move", "has moved");
        let status = ask(up, "status").unwrap();
        assert!(status.contains("benefit moved") || status.contains("benefit moves"), "{status}");
        let v1 = "nbd+unix:///v1?socket=pools/nbd.sock";
        let said = up.run("qemu-io", &["-f", "raw", v1, "-c", "read -P 5 0 8M"]).unwrap();
        assert!(!said.contains("failed"), "{said}");
    }

    /// Waits until an event says something.
    fn is_told(&self, subject: &str, part: &str) {
        self.up.wait_for(|_| {
            let events: serde_json::Value =
                serde_json::from_str(&over_socket(&self.folder, "/v1/events").1).unwrap();
            let mut events = events.as_array().unwrap().iter();
            events.any(|event| {
                event["subject"] == subject && event["text"].as_str().unwrap().contains(part)
            })
        });
    }

    /// Mistakes: the wrong disk, a mounted one (it is the engine's own volume), a typing error.
    fn adds_what_must_not_be_added(&self) {
        let refused = |words: &str| ask(&self.up, &format!("pool add {words}")).unwrap_err();
        shell(&self.folder, "truncate -s 64M wrong.img && mkfs.ext4 -q wrong.img").unwrap();
        let before = std::fs::read(self.folder.join("wrong.img")).unwrap();
        let said = refused("more wrong.img");
        assert!(
            said.contains("wrong.img holds an ext4 file system; nothing was changed"),
            "{said}"
        );
        assert!(std::fs::read(self.folder.join("wrong.img")).unwrap() == before, "not a byte");
        let device = self.mounted.device();
        let said = refused(&format!("more {device} --erase"));
        assert!(said.contains("is in use"), "{said}");
        let said = refused("flash other.img --size 64MiB");
        assert!(said.contains("two pools are called `flash`"), "{said}");
        let said = refused("more other.img --size 4PiB");
        assert!(said.contains("no size for a pool"), "{said}");
        assert!(!self.folder.join("other.img").exists(), "nothing is left behind");
        let said = refused("more s3://bucket/pool --size 64MiB");
        assert!(said.contains("in the configuration from the first start on"), "{said}");
        // The engine replaces its own files as a whole, and took pools for them.
        for own in ["learnt", "hints.json", "scrubbed.new", "added-pools.toml", "token"] {
            let said = refused(&format!("more pools/{own} --size 64MiB"));
            assert!(said.contains("the engine keeps a file of its own there"), "{own}: {said}");
        }
        self.holds_its_files();
    }

    /// Fills all pools by a volume that is larger than they are, and makes room again.
    fn fills_the_pools(&self) {
        let up = &self.up;
        ask(up, "volume create 512MiB").unwrap();
        let mut client = up.attach("v2");
        let v2 = "nbd+unix:///v2?socket=pools/nbd.sock";
        let write = |at: u64| {
            let command = format!("write -P 7 {at}M 16M");
            let said = up.run("qemu-io", &["-f", "raw", v2, "-c", &command]);
            said.unwrap_or_else(|said| said)
        };
        let said = (0..32).map(|part| write(part * 16)).find(|said| !said.contains("ops;"));
        let said = said.expect("512 MiB are more than there is");
        assert!(said.contains("No space left on device"), "{said}");
        self.holds_its_files();
        client.io("read -P 7 0 16M");

        let refused = ask(up, "volume delete v2 --yes").unwrap_err();
        let who = format!("process {}", client.number());
        assert!(refused.contains("attached") && refused.contains(&who), "{refused}");
        client.io("read -P 7 16M 16M");
        client.leave();
        ask(up, "volume delete v2 --yes").unwrap();
        let used = || {
            let pools = json(up, "pool list");
            let used = pools.as_array().unwrap().iter().map(|p| p["chunks_used"].as_u64().unwrap());
            used.sum::<u64>()
        };
        up.wait_for(|_| used() < 150);
        self.mounted.shell("head -c 4M /dev/urandom > tree/more && sync -f tree && rm tree/more");
    }

    /// Replaces the disk while files are written. The device that comes is told too small first.
    fn replaces_the_disk(&self) {
        let up = &self.up;
        let small = ask(up, "pool replace disk late.img --name late --size 8MiB").unwrap_err();
        assert!(small.contains("name a larger device"), "{small}");
        assert!(!self.folder.join("late.img").exists(), "nothing is left behind");
        let words =
            "pool replace disk late.img --name late --size 192MiB --emulate hdd-7200 --wait";
        std::thread::scope(|scope| {
            let replaced = scope.spawn(|| ask(up, words).unwrap());
            for round in 0.. {
                self.mounted.shell(&format!(
                    "cd tree && head -c 1M /dev/urandom > busy-{round} && sync busy-{round} && \
                     sha256sum busy-{round} >> ../sums"
                ));
                if round >= 2 && replaced.is_finished() {
                    break;
                }
                if round >= 8 {
                    self.mounted
                        .shell(&format!("rm tree/busy-{0} && sed -i /busy-{0}$/d sums", round - 6));
                }
            }
            let said = replaced.join().unwrap();
            assert!(said.starts_with("disk is replaced by late; its device may be"), "{said}");
        });
        self.holds_its_files();
    }

    /// The old disk is taken away. A start that still looks for it does without, and says so.
    fn takes_the_disk_away(self) -> Hour {
        let Hour { folder, up, mounted } = self;
        drop(mounted);
        assert_eq!(up.stop("-TERM"), Some(0));
        std::fs::remove_file(folder.join("pools/disk.pool")).unwrap();
        let up = Up::start_on(&folder, &["hour.toml"]);
        assert_eq!(up.stop("-TERM"), Some(0));
        let said = std::fs::read_to_string(folder.join("stderr")).unwrap();
        let is_missed = said.contains("disk.pool is missing or empty");
        assert!(is_missed && said.contains("take it out of the configuration"), "{said}");
        let path = folder.join("late.img");
        let late = format!("name = \"late\"\npath = {:?}", path.display().to_string());
        std::fs::write(folder.join("hour.toml"), CONFIG.replace("name = \"disk\"", &late)).unwrap();
        let up = Up::start_on(&folder, &["hour.toml"]);
        let mounted = Mounted::new(&folder).unwrap();
        mounted.shell("mount DEVICE tree");
        let hour = Hour { folder, up, mounted };
        hour.holds_its_files();
        hour
    }

    fn holds_its_files(&self) {
        let dropped = "sync -f tree; echo 1 > /proc/sys/vm/drop_caches || true";
        self.mounted.shell(&format!("{dropped}; cd tree && sha256sum --check --quiet ../sums"));
    }

    /// Ends the engine and starts it again; everything is in place.
    fn restarts(self, signal: &str) -> Hour {
        let Hour { folder, up, mounted } = self;
        match signal {
            "-KILL" => {
                mounted.shell("head -c 3M /dev/urandom > tree/late && sync -f tree");
                mounted.shell("cd tree && sha256sum late >> ../sums");
                assert_eq!(up.stop(signal), None);
                drop(mounted);
            }
            _ => {
                drop(mounted);
                assert_eq!(up.stop(signal), Some(0));
                program::run(&folder, "check hour.toml").succeeded();
            }
        }
        let up = Up::start_on(&folder, &["hour.toml"]);
        let mounted = Mounted::new(&folder).unwrap();
        mounted.shell("mount DEVICE tree");
        let pools = json(&up, "pool list");
        let there = pools.as_array().unwrap().iter().filter(|pool| pool["state"] != "removed");
        let pools: Vec<_> = there.map(|pool| &pool["name"]).collect();
        // The flash came later, and its profile is the faster one.
        assert_eq!(pools, ["flash", "late"], "after {signal}");
        let volumes = "v0, 96 MiB, identity 1\nv1, 8 MiB, identity 2\n";
        assert_eq!(ask(&up, "volume list").unwrap(), volumes);
        let hour = Hour { folder, up, mounted };
        hour.holds_its_files();
        hour
    }

    fn ends(self) {
        let Hour { folder, up, mounted } = self;
        mounted.shell("umount tree && e2fsck -fn DEVICE");
        drop(mounted);
        json(&up, "migrate v1 --to late --wait");
        json(&up, "migrate v1 --do replicate --to flash --wait");
        assert_eq!(up.stop("-TERM"), Some(0));
        loses_a_bit(&folder);
        program::run(&folder, "check hour.toml --scrub").succeeded();
    }
}

/// Chunks of which `check` says that they have no checksums; none when it says nothing.
fn bare_chunks(checked: &str) -> Option<u64> {
    let line = checked.lines().find(|line| line.contains("have no checksums"))?;
    let count = line.split_whitespace().find_map(|word| word.parse().ok());
    Some(count.unwrap_or_else(|| panic!("{line} has a number")))
}

/// A bit flips on one of two copies: `check` finds it, clients do not see it, a scrub mends it.
fn loses_a_bit(folder: &Path) {
    let check = || program::run(folder, "check hour.toml --scrub");
    let start = || Up::start_on(folder, &["hour.toml"]);
    // Chunks get their checksums when they have rested.
    while let Some(bare) = bare_chunks(&check().succeeded().stdout()) {
        let up = start();
        up.wait_for(|up| json(up, "scrub --show")["written_tables"].as_u64() >= Some(bare));
        assert_eq!(up.stop("-TERM"), Some(0));
    }
    let flash = folder.join("flash.img");
    let at = rot(&flash, 5);
    let found = check().ended_with(1).stdout();
    assert!(found.contains("the copy on flash is wrong"), "{found}");

    let up = start();
    let scrub = json(&up, "scrub --wait");
    let count = |what: &str| scrub[what].as_u64().unwrap();
    assert_eq!((count("repaired_blocks"), count("unrepairable_blocks")), (1, 0), "{scrub}");
    up.wait_for(|_| {
        over_socket(folder, "/v1/events").1.contains("on flash was wrong and is repaired")
    });
    let mut client = up.attach("v1");
    client.io("read -P 5 0 8M");
    client.leave();
    assert_eq!(up.stop("-TERM"), Some(0));
    assert_eq!(std::fs::read(&flash).unwrap()[at], 5);
}

#[test]
fn an_administrators_hour_loses_nothing_and_every_mistake_is_refused() {
    let folder = program::folder("administrator");
    if !clients_are_here() || !mounting_works(&folder, "mkfs.ext4 e2fsck") {
        return;
    }
    let hour = Hour::begin(&folder);
    hour.adds_a_faster_pool();
    hour.adds_what_must_not_be_added();
    hour.fills_the_pools();
    hour.replaces_the_disk();
    hour.takes_the_disk_away().restarts("-TERM").restarts("-KILL").ends();
}
