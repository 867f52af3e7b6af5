//! Pools that join a running engine: what is refused, what is destroyed when that is said, and what
//! the next start knows of them.

use crate::engine::{ask, json, over_socket, post};
use crate::mounted::shell;
use crate::program;
use crate::up::{URI, Up, clients_are_here};
use std::path::{Path, PathBuf};

const ENGINE: &str = "--size 64MiB --no-emulation --policy none";

/// A loop device on a file, with a file system that is mounted; both go away when this is dropped.
struct Loop {
    folder: PathBuf,
    device: String,
}

impl Loop {
    /// A file system on a loop device; `None`, which it says, where loop devices or mounts cannot
    /// be made.
    fn with_ext4(folder: &Path) -> Option<Loop> {
        Loop::on(folder, "truncate -s 64M disk.img && mkfs.ext4 -q disk.img && mkdir -p mnt")
    }

    /// The same, on the `disk.img` that a command makes.
    #[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
    fn on(folder: &Path, made: &str) -> Option<Loop> {
        let device = shell(folder, made).and_then(|_| shell(folder, "losetup -f --show disk.img"));
        let Ok(device) = device else {
            println!("SKIPPED: needs root, loop devices and mkfs.ext4");
            return None;
        };
        Some(Loop { folder: folder.to_path_buf(), device })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = shell(&self.folder, "mountpoint -q mnt && umount mnt");
        let _ = shell(&self.folder, &format!("losetup -d {}", self.device));
    }
}

/// Checks that a wish by both ways, the command line and the API, is refused for this reason.
fn is_refused(up: &Up, folder: &Path, path: &str, erase: bool, why: &[&str]) {
    let flag = if erase { " --erase" } else { "" };
    let by_command = ask(up, &format!("pool add bad {path}{flag}")).unwrap_err();
    let absolute = folder.join(path).display().to_string();
    let body = format!(r#"{{"name": "bad", "path": "{absolute}", "erase": {erase}}}"#);
    let (status, by_api) = post(folder, "/v1/pools", &body);
    assert_eq!(status, 409, "{by_api}");
    for part in why {
        assert!(by_command.contains(part), "{part:?} is not in {by_command}");
        assert!(by_api.contains(part), "{part:?} is not in {by_api}");
    }
}

pub(crate) fn pools(up: &Up) -> Vec<String> {
    let pools = json(up, "pool list");
    let pools = pools.as_array().unwrap().iter();
    pools.map(|pool| pool["name"].as_str().unwrap().to_string()).collect()
}

/// "is joining", exit status 0, and the file system was gone; so was one that was mounted.
#[test]
fn a_device_that_holds_something_does_not_join_unless_that_may_be_destroyed() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-occupied");
    let other = folder.join("other");
    std::fs::create_dir_all(&other).unwrap();
    let engine = Up::start_with(&other, ENGINE);
    assert_eq!(engine.stop("-TERM"), Some(0));
    let mut image = vec![0; 64 << 20];
    image[1024 + 0x38..1024 + 0x3a].copy_from_slice(&[0x53, 0xef]); // ext, as far as marks go.
    std::fs::write(folder.join("ext.img"), &image).unwrap();
    let up = Up::start_with(&folder, ENGINE);
    let read = |path: &str| std::fs::read(folder.join(path)).unwrap();
    let before = [read("ext.img"), read("other/pools/hdd.pool")];

    let ways_on = ["nothing was changed", "--erase"];
    is_refused(&up, &folder, "ext.img", false, &[&ways_on[..], &["file system"]].concat());
    let pool = "a pool of a volume group: `hdd`";
    is_refused(&up, &folder, "other/pools/hdd.pool", false, &[&ways_on[..], &[pool]].concat());
    let ours = "is pool ssd of this engine already";
    is_refused(&up, &folder, "pools/ssd.pool", true, &[ours]);
    assert!(before == [read("ext.img"), read("other/pools/hdd.pool")], "not a byte");
    assert_eq!(pools(&up), ["scm", "ssd", "hdd"]);

    // An engine that runs has its pools locked.
    let engine = Up::start_with(&other, ENGINE);
    is_refused(&up, &folder, "other/pools/hdd.pool", true, &["in use by another process"]);
    assert_eq!(engine.stop("-TERM"), Some(0));

    ask(&up, "pool add extra ext.img --erase --slowest").unwrap();
    let (_, events) = over_socket(&folder, "/v1/events");
    let told = "ext.img held an ext2 file system: destroyed, as was asked for";
    assert!(events.contains(told), "{events}");
    assert_eq!(pools(&up), ["scm", "ssd", "hdd", "extra"]);
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// An engine on a loop device and one on its file ran side by side, and said that all was durable;
/// what clients of the one had flushed was gone with what the other wrote.
#[test]
fn bytes_have_one_engine_by_whatever_name_they_are_reached() {
    let folder = program::folder("pools-names");
    if !clients_are_here() {
        return;
    }
    let Some(first) = Loop::on(&folder, "truncate -s 64M disk.img") else { return };
    let second = Loop::on(&folder, "true").expect("the first one could be made");
    let config = |name: &str, path: &str| {
        let data = if name == "first" { "pools" } else { name };
        let text = format!(
            "data = \"{data}\"\n[[pool]]\nname = \"only\"\npath = \"{path}\"\n\
             [[volume]]\nname = \"v0\"\nsize = \"16MiB\"\n"
        );
        std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    };
    let file = folder.join("disk.img").display().to_string();
    config("first", &first.device);
    config("second", &second.device);
    config("file", &file);
    let (up, _) = Up::start_config(&folder, "first.toml");
    let by_loop = "in use by the loop device";
    program::run(&folder, "up file.toml").ended_with(1).says(by_loop);
    program::run(&folder, "check file.toml").ended_with(1).says("in use by another process");
    for command in ["up second.toml", "check second.toml", "export v0 second.toml -o x.img"] {
        program::run(&folder, command).ended_with(1).says("itself or through another loop device");
    }
    assert_eq!(up.stop("-TERM"), Some(0));
    program::run(&folder, "up file.toml").ended_with(1).says(by_loop);
    let (up, _) = Up::start_config(&folder, "first.toml");
    assert_eq!(up.stop("-TERM"), Some(0));
    program::run(&folder, "check second.toml").succeeded();
}

/// The refused one of several wishes for one file emptied the file of the one that joined.
#[test]
fn wishes_for_one_path_at_a_time_leave_the_pool_that_joined_whole() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-one-path");
    let up = Up::start_with(&folder, ENGINE);
    for round in 0..12 {
        let path = folder.join(format!("extra{round}.pool")).display().to_string();
        let wish = |name: usize| {
            let body = format!(
                r#"{{"name": "n{round}-{name}", "path": "{path}", "size_bytes": 16777216, "slowest": true}}"#
            );
            let folder = folder.clone();
            std::thread::spawn(move || post(&folder, "/v1/pools", &body))
        };
        let wishes: Vec<_> = (0..4).map(wish).collect();
        let answers: Vec<_> = wishes.into_iter().map(|wish| wish.join().unwrap()).collect();
        let joined: Vec<usize> = (0..4).filter(|&at| answers[at].0 < 300).collect();
        assert_eq!(joined.len(), 1, "round {round}: {answers:?}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 16 << 20);
    }
    assert_eq!(up.stop("-TERM"), Some(0));
    let up = Up::start_with(&folder, ENGINE);
    assert_eq!(pools(&up).len(), 3 + 12, "the next start finds them all");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_device_that_is_mounted_does_not_join_whatever_is_said() {
    let folder = program::folder("pools-mounted");
    if !clients_are_here() {
        return;
    }
    let Some(disk) = Loop::with_ext4(&folder) else { return };
    let up = Up::start_with(&folder, ENGINE);
    let mount = format!("mount {} mnt && echo hello > mnt/file && sync -f mnt", disk.device);
    shell(&folder, &mount).unwrap();
    let sum = || shell(&folder, "sync -f mnt; sha256sum < disk.img").unwrap();
    let before = sum();
    for erase in [false, true] {
        is_refused(&up, &folder, &disk.device, erase, &["is in use", "mounted"]);
        is_refused(&up, &folder, "disk.img", erase, &["is in use by the loop device"]);
    }
    let config = format!(
        "data = \"fresh\"\n[[pool]]\nname = \"a\"\nsize = \"64MiB\"\n[[pool]]\nname = \"b\"\n\
         path = \"{}\"\n[[volume]]\nsize = \"8MiB\"\n",
        disk.device
    );
    std::fs::write(folder.join("fresh.toml"), config).unwrap();
    let erase = format!("up fresh.toml --erase {}", disk.device);
    program::run(&folder, &erase).ended_with(1).says("is in use");
    assert_eq!(before, sum(), "not a byte");
    assert_eq!(shell(&folder, "cat mnt/file").unwrap(), "hello");

    shell(&folder, "umount mnt").unwrap();
    is_refused(&up, &folder, &disk.device, false, &["an ext4 file system", "--erase"]);
    program::run(&folder, "up fresh.toml").ended_with(2).says("an ext4 file system");
    assert_eq!(pools(&up), ["scm", "ssd", "hdd"]);
    ask(&up, &format!("pool add disk {} --erase", disk.device)).unwrap();
    // And the other way round: what is ours cannot be mounted, nor made a file system.
    assert!(shell(&folder, &format!("mkfs.ext4 -q {}", disk.device)).is_err());
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_first_start_destroys_only_what_it_was_told_to() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-first-start");
    let config = "data = \"pools\"\n[[pool]]\nname = \"a\"\npath = \"a.img\"\n[[pool]]\n\
                  name = \"b\"\npath = \"b.img\"\n[[volume]]\nsize = \"8MiB\"\n";
    std::fs::write(folder.join("up.toml"), config).unwrap();
    std::fs::create_dir_all(folder.join("pools")).unwrap();
    let image = |name: &str| folder.join("pools").join(name);
    for name in ["a.img", "b.img"] {
        let mut bytes = vec![0; 64 << 20];
        bytes[..6].copy_from_slice(b"LUKS\xba\xbe");
        std::fs::write(image(name), bytes).unwrap();
    }
    let refused = program::run(&folder, "up up.toml").ended_with(2);
    refused.says("a.img holds an encrypted volume (LUKS)").says("--erase");
    let half = program::run(&folder, "up up.toml --erase pools/a.img").ended_with(2);
    half.says("b.img holds an encrypted volume (LUKS)");
    assert!(std::fs::read(image("a.img")).unwrap().starts_with(b"LUKS"), "not a byte yet");
    let nowhere = program::run(&folder, "up up.toml --erase pools/c.img").ended_with(2);
    nowhere.says("no pool of the configuration is there");
    let both = ["up.toml", "--erase", "pools/a.img", "--erase", "pools/b.img"];
    let up = Up::start_on(&folder, &both);
    assert_eq!(up.stop("-TERM"), Some(0));
    let up = Up::start_on(&folder, &both);
    assert_eq!(pools(&up), ["a", "b"], "what is ours now is not erased again");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// Erasing destroys a device's ends only; the rest of a block that a client writes in part, and all
/// that nobody wrote, reads as zeroes all the same.
#[test]
fn what_an_erased_device_held_is_never_read() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-erased");
    let config = "data = \"pools\"\n[[pool]]\nname = \"a\"\npath = \"a.img\"\n[[volume]]\n\
                  name = \"v0\"\nsize = \"32MiB\"\n";
    std::fs::write(folder.join("up.toml"), config).unwrap();
    std::fs::create_dir_all(folder.join("pools")).unwrap();
    for name in ["pools/a.img", "b.img"] {
        let mut bytes = vec![0x5a; 64 << 20];
        bytes[..6].copy_from_slice(b"LUKS\xba\xbe");
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let up = Up::start_on(&folder, &["up.toml", "--erase", "pools/a.img"]);
    let write_a_part = |at: u64| {
        let part = format!("write -P 9 {at} 512");
        let (beside, length) = (at + 512, (2 << 20) - 512);
        let rest = format!("read -P 0 {beside} {length}");
        let said = up.run("qemu-io", &["-f", "raw", URI, "-c", &part, "-c", &rest]).unwrap();
        assert!(!said.contains("failed"), "{said}");
    };
    let used = || {
        let pools = json(&up, "pool list");
        let used =
            pools.as_array().unwrap().iter().map(|pool| pool["chunks_used"].as_u64().unwrap());
        used.collect::<Vec<u64>>()
    };
    write_a_part(0);
    ask(&up, "pool add b b.img --erase --before a").unwrap();
    let before = used();
    write_a_part(8 << 20);
    let after = used();
    let grown = before.iter().zip(&after).filter(|(before, after)| before < after).count();
    assert_eq!((grown, after.len()), (1, 2));
    let on_a = pools(&up).iter().position(|name| name == "a").unwrap();
    assert_eq!(before[on_a], after[on_a], "it went to the new pool");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// The next start failed: "the configuration does not name its device".
#[test]
fn an_added_pool_is_known_to_the_next_start_and_forgotten_when_it_is_removed() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-added");
    let up = Up::start_with(&folder, ENGINE);
    ask(&up, "pool add extra extra.img --size 64MiB --buffered --slowest").unwrap();
    up.run("qemu-io", &["-f", "raw", URI, "-c", "write -P 9 0 8M", "-c", "flush"]).unwrap();
    json(&up, "migrate v0 --to extra --wait");
    assert_eq!(up.stop("-KILL"), None);

    let up = Up::start_with(&folder, ENGINE);
    assert_eq!(pools(&up), ["scm", "ssd", "hdd", "extra"]);
    let said = up.run("qemu-io", &["-f", "raw", URI, "-c", "read -P 9 0 8M"]).unwrap();
    assert!(!said.contains("failed"), "{said}");
    program::run(&folder, "check --data pools").ended_with(1).says("in use");
    ask(&up, "pool drain extra --wait").unwrap();
    ask(&up, "pool remove extra").unwrap();
    up.wait_for(|_| over_socket(&folder, "/v1/events").1.contains("extra is removed"));
    assert_eq!(up.stop("-TERM"), Some(0));
    std::fs::remove_file(folder.join("extra.img")).unwrap();
    let path = folder.join("pools/added-pools.toml");
    let record = std::fs::read_to_string(&path).unwrap();
    assert!(!record.contains("[[pool]]"), "{record}");

    // Written down, and then the power failed: it never joined, and nobody misses it.
    let ghost = format!("{record}\n[[pool]]\nname = \"ghost\"\npath = \"/nowhere/ghost.img\"\n");
    std::fs::write(&path, ghost).unwrap();
    let up = Up::start_with(&folder, ENGINE);
    assert_eq!(up.stop("-TERM"), Some(0));
    let checked = program::run(&folder, "check --data pools").succeeded();
    assert!(checked.stdout().contains("ghost.img is missing"), "{}", checked.stdout());
}

/// `pool add --size 2TiB` was refused and left its file, which the next try took as it was.
#[test]
fn a_pool_that_is_refused_leaves_nothing_behind() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-refused");
    let up = Up::start_with(&folder, ENGINE);
    let refused = |words: &str| ask(&up, &format!("pool add {words}")).unwrap_err();
    // A file of that size cannot be made, or the group has no room for the map of its chunks.
    assert!(!refused("big big.img --size 512TiB").is_empty());
    assert!(refused("big big.img --size 1000").contains("no size for a pool"));
    assert!(refused("big big.img").contains("no size to make it with"));
    assert!(refused("ssd more.img --size 64MiB").contains("two pools are called `ssd`"));
    assert!(refused("a/b more.img --size 64MiB").contains("no name for a pool"));
    assert!(refused("seventeen-bytes!! more.img --size 64MiB").contains("no name for a pool"));
    assert!(refused("new nowhere/more.img --size 64MiB").contains("No such file"));
    assert!(refused("new more.img --size 64MiB --emulate tape").contains("tape"));
    let body = r#"{"name": "new", "path": "/x", "sise_bytes": 67108864}"#;
    let (status, said) = post(&folder, "/v1/pools", body);
    assert!(status == 400 && said.contains("did you mean `size_bytes`"), "{status} {said}");
    for left in ["big.img", "more.img", "pools/added-pools.toml"] {
        let record = std::fs::read_to_string(folder.join(left)).unwrap_or_default();
        assert!(!record.contains("[[pool]]"), "{left} was left: {record}");
        assert!(left.ends_with(".toml") || !folder.join(left).exists(), "{left} was left");
    }
    std::fs::File::create(folder.join("there.img")).unwrap().set_len(32 << 20).unwrap();
    let said = refused("there there.img --size 64MiB");
    assert!(said.contains("is there with 32 MiB, and 64 MiB were asked for"), "{said}");
    ask(&up, "pool add there there.img --size 32MiB --slowest").unwrap();
    assert_eq!(pools(&up), ["scm", "ssd", "hdd", "there"]);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_pool_takes_chunks_again_when_its_drain_is_taken_back() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-undrain");
    let up = Up::start_with(&folder, ENGINE);
    let io = |up: &Up, command: &str| {
        let said = up.run("qemu-io", &["-f", "raw", URI, "-c", command, "-c", "flush"]).unwrap();
        assert!(!said.contains("failed"), "{said}");
    };
    io(&up, "write -P 4 0 8M");
    assert!(ask(&up, "pool undrain scm").unwrap_err().contains("Active; only one that is"));
    assert_eq!(ask(&up, "pool drain scm --wait").unwrap(), "scm is drained\n");
    assert_eq!(ask(&up, "pool undrain scm").unwrap(), "scm is active\n");
    assert!(over_socket(&folder, "/v1/events").1.contains("scm takes chunks again"));
    io(&up, "write -P 5 16M 4M");
    let map = ask(&up, "volume map v0 --offset 16MiB --length 4MiB").unwrap();
    assert!(map.contains("scm") && !map.contains("ssd"), "{map}");
    assert_eq!(up.stop("-TERM"), Some(0));

    let up = Up::start_with(&folder, ENGINE);
    assert_eq!(json(&up, "pool list")[0]["state"], "active");
    io(&up, "read -P 4 0 8M");
    io(&up, "read -P 5 16M 4M");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// A volume was deleted under its writer, whose requests failed from then on.
#[test]
fn a_volume_is_not_deleted_while_clients_have_it_attached() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-attached");
    let up = Up::start_with(&folder, ENGINE);
    ask(&up, "volume create 8MiB").unwrap();
    let mut client = up.attach("v1");
    let refused = ask(&up, "volume delete v1 --yes").unwrap_err();
    let process = format!("process {}", client.number());
    assert!(refused.contains("v1 is attached by client"), "{refused}");
    assert!(refused.contains(&process), "{process} is not in {refused}");
    client.io("write -P 3 0 1M");
    client.leave();
    ask(&up, "volume delete v1 --yes").unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// `--socket notes.txt` deleted notes.txt.
#[test]
fn a_start_does_not_delete_a_file_to_listen_in_its_place() {
    let folder = program::folder("pools-sockets");
    std::fs::write(folder.join("notes.txt"), "dear").unwrap();
    let refused = program::run(&folder, "up --data pools --size 64MiB --socket notes.txt");
    refused.ended_with(1).says("notes.txt: a file is there, and no socket");
    for table in ["nbd", "http"] {
        let config = format!(
            "data = \"{table}\"\n[[pool]]\nname = \"a\"\nsize = \"64MiB\"\n[[volume]]\n\
             size = \"8MiB\"\n[{table}]\nsocket = \"../notes.txt\"\n"
        );
        std::fs::write(folder.join("up.toml"), config).unwrap();
        let refused = program::run(&folder, "up up.toml").ended_with(1);
        refused.says("notes.txt: a file is there, and no socket");
    }
    assert_eq!(std::fs::read_to_string(folder.join("notes.txt")).unwrap(), "dear");
}

/// A pool that was added later was the slowest for ever: `baseline` never filled it.
#[test]
fn a_fast_pool_is_added_before_a_slow_one_and_data_rises_to_it() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-before");
    let options = "--size 64MiB --no-emulation --policy baseline:k=4 --epoch 1s";
    let up = Up::start_with(&folder, options);
    let refused = ask(&up, "pool add fast fast.img --size 64MiB --before tape").unwrap_err();
    assert!(refused.contains("there is no pool tape; there are: scm, ssd, hdd"), "{refused}");
    assert!(!folder.join("fast.img").exists(), "what is refused leaves nothing behind");
    ask(&up, "pool add slow slow.img --size 64MiB --slowest").unwrap();
    ask(&up, "pool add fast fast.img --size 64MiB --before scm").unwrap();
    assert_eq!(pools(&up), ["fast", "scm", "ssd", "hdd", "slow"]);
    let io = |up: &Up, command: &str| {
        let said = up.run("qemu-io", &["-f", "raw", URI, "-c", command, "-c", "flush"]).unwrap();
        assert!(!said.contains("failed"), "{said}");
    };
    io(&up, "write -P 6 0 2M");
    json(&up, "migrate v0 --to hdd --wait");
    // It reads, and the epochs pass.
    up.wait_for(|up| {
        io(up, "read -P 6 0 2M");
        let map = ask(up, "volume map v0 --length 2MiB").unwrap();
        // The slow copies stay behind what has risen, until their room is wanted.
        map.contains("fast, old copy kept on hdd")
            && map.lines().all(|row| !row.contains("hdd") || row.contains("fast"))
    });
    assert_eq!(up.stop("-KILL"), None);

    let up = Up::start_with(&folder, options);
    assert_eq!(pools(&up), ["fast", "scm", "ssd", "hdd", "slow"], "as it was before");
    let listed = json(&up, "pool list");
    let numbers: Vec<_> = listed.as_array().unwrap().iter().map(|pool| &pool["id"]).collect();
    assert_eq!(format!("{numbers:?}"), "[Number(4), Number(0), Number(1), Number(2), Number(3)]");
    assert!(listed[0]["rank"] == 0 && listed[4]["rank"] == 4);
    io(&up, "read -P 6 0 2M");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// A pool that was added without a word about its place was the slowest for ever, however fast.
#[test]
fn a_pool_gets_the_rank_that_its_measured_speed_gives_it() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        println!("SKIPPED: no file system in memory at /dev/shm");
        return;
    }
    let folder = program::folder("pools-speed");
    let memory = tempfile::tempdir_in(shm).unwrap();
    let up = Up::start_with(&folder, "--size 64MiB");
    let path = memory.path().join("memory.pool").display().to_string();
    let both = ask(&up, &format!("pool add memory {path} --size 64MiB --before hdd --slowest"));
    assert!(both.unwrap_err().contains("cannot be used with"));
    ask(&up, &format!("pool add memory {path} --size 64MiB")).unwrap();
    // The others are slowed to what an SSD and a disk take; memory takes a microsecond or two.
    let pools = pools(&up);
    let rank = |name: &str| pools.iter().position(|pool| pool == name).unwrap();
    assert!(rank("memory") < rank("ssd") && rank("ssd") < rank("hdd"), "{pools:?}");
    let (_, events) = over_socket(&folder, "/v1/events");
    assert!(events.contains("; a random read takes"), "{events}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// Without a configuration the next start was refused, because the file of a pool was gone that the
/// group did not have any more.
#[test]
fn a_standard_pool_that_was_replaced_or_removed_is_not_missed_at_the_next_start() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-standard");
    let up = Up::start_with(&folder, ENGINE);
    let io = |up: &Up, command: &str| {
        let said = up.run("qemu-io", &["-f", "raw", URI, "-c", command, "-c", "flush"]).unwrap();
        assert!(!said.contains("failed"), "{said}");
    };
    io(&up, "write -P 7 0 4M");
    json(&up, "migrate v0 --to ssd --wait");
    ask(&up, "pool replace ssd new.img --name new --size 64MiB --wait").unwrap();
    ask(&up, "pool drain scm --wait").unwrap();
    ask(&up, "pool remove scm").unwrap();
    up.wait_for(|_| over_socket(&folder, "/v1/events").1.contains("scm is removed"));
    assert_eq!(up.stop("-TERM"), Some(0));
    std::fs::remove_file(folder.join("pools/ssd.pool")).unwrap();
    // What is there now is somebody else's.
    std::fs::write(folder.join("pools/scm.pool"), "notes, which are dear to somebody").unwrap();

    let up = Up::start_with(&folder, ENGINE);
    let listed = json(&up, "pool list");
    let there = listed.as_array().unwrap().iter().filter(|pool| pool["state"] != "removed");
    assert_eq!(there.map(|pool| &pool["name"]).collect::<Vec<_>>(), ["new", "hdd"]);
    io(&up, "read -P 7 0 4M");
    assert_eq!(up.stop("-TERM"), Some(0));
    let checked = program::run(&folder, "check --data pools").succeeded().stdout();
    assert!(checked.contains("ssd.pool is missing or empty"), "{checked}");
    assert!(!folder.join("pools/ssd.pool").exists(), "nothing is made");
    let notes = std::fs::read_to_string(folder.join("pools/scm.pool")).unwrap();
    assert_eq!(notes, "notes, which are dear to somebody");

    // One that the group needs is missed as ever.
    std::fs::rename(folder.join("pools/hdd.pool"), folder.join("elsewhere")).unwrap();
    let refused = program::run(&folder, &format!("up --data pools {ENGINE}"));
    refused.ended_with(2).says("pool `hdd` (number 2) is not there");
    assert!(!folder.join("pools/hdd.pool").exists(), "nothing is made");
}

#[test]
fn a_pool_is_replaced_while_a_client_writes_and_not_a_byte_changes() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("pools-replace");
    let up = Up::start_with(&folder, ENGINE);
    let mut client = up.attach("v0");
    for mib in 0..16 {
        client.io(&format!("write -P {} {mib}M 1M", mib + 1));
    }
    json(&up, "migrate v0 --to ssd --wait");
    let small = ask(&up, "pool replace ssd new.img --name new --size 8MiB").unwrap_err();
    assert!(small.contains("ssd holds") && small.contains("name a larger device"), "{small}");
    let itself = ask(&up, "pool replace ssd pools/ssd.pool --name new").unwrap_err();
    assert!(itself.contains("ssd of this engine") || itself.contains("ssd itself"), "{itself}");
    let nameless = ask(&up, "pool replace ssd new.img --size 64MiB").unwrap_err();
    assert!(nameless.contains("--name"), "{nameless}");
    assert_eq!(pools(&up), ["scm", "ssd", "hdd"]);

    // Broken off after its first step, by a kill of the engine; the same command goes on.
    let command = "pool replace ssd new.img --name new --size 64MiB";
    ask(&up, command).unwrap();
    client.io("write -P 99 0 1M");
    for mib in 1..16 {
        client.io(&format!("write -P {} {mib}M 512k", mib + 1));
        client.io(&format!("read -P {} {mib}M 1M", mib + 1));
    }
    client.leave();
    assert_eq!(up.stop("-KILL"), None);
    let up = Up::start_with(&folder, ENGINE);
    assert_eq!(pools(&up), ["scm", "new", "ssd", "hdd"]);
    let mut client = up.attach("v0");
    std::thread::scope(|scope| {
        let replaced = scope.spawn(|| ask(&up, &format!("{command} --wait")).unwrap());
        for round in 0..8 {
            for mib in 8..12 {
                client.io(&format!("write -P {} {mib}M 1M", 100 + round * 4 + mib));
                client.io(&format!("read -P {} {mib}M 1M", 100 + round * 4 + mib));
            }
        }
        let said = replaced.join().unwrap();
        assert!(said.starts_with("ssd is replaced by new; its device may be taken away"), "{said}");
    });
    let holds = |client: &mut crate::up::Attached| {
        client.io("read -P 99 0 1M");
        for mib in 1..16 {
            let pattern = if (8..12).contains(&mib) { 128 + mib } else { mib + 1 };
            client.io(&format!("read -P {pattern} {mib}M 1M"));
        }
    };
    holds(&mut client);
    let map = ask(&up, "volume map v0 --length 16MiB").unwrap();
    assert!(map.contains("new") && !map.contains("ssd"), "{map}");
    let again = ask(&up, command).unwrap_err();
    assert!(again.contains("pool new is on") && again.contains("it is replaced"), "{again}");
    client.leave();
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// Does I/O, where there are clients to do it.
pub(crate) fn io(up: &Up, command: &str) {
    if !clients_are_here() {
        return;
    }
    let said = up.run("qemu-io", &["-f", "raw", URI, "-c", command, "-c", "flush"]).unwrap();
    assert!(!said.contains("failed"), "{said}");
}

/// Chunks that the first pool has room for, once they are more than that.
fn chunks_beyond(up: &Up, before: u64) -> u64 {
    let now = |up: &Up| json(up, "pool list")[0]["chunks_total"].as_u64().unwrap();
    up.wait_for(|up| now(up) > before);
    now(up)
}

#[test]
fn a_pool_grows_in_use_and_is_as_large_at_the_next_start() {
    let folder = program::folder("pools-grow");
    let engine = ["--data", "pools", "--size", "256MiB", "--no-emulation", "--policy", "none"];
    let (up, _) = Up::start_with_arguments(&folder, &engine);
    let first = json(&up, "pool list")[0].clone();
    let (name, chunks) = (first["name"].as_str().unwrap(), first["chunks_total"].as_u64().unwrap());
    let path = folder.join(first["path"].as_str().unwrap());
    let size = std::fs::metadata(&path).unwrap().len();
    io(&up, "write -P 4 0 32M");

    let smaller = ask(&up, &format!("pool grow {name} --size 1MiB")).unwrap_err();
    assert!(smaller.contains("a pool never shrinks"), "{smaller}");
    let same = ask(&up, &format!("pool grow {name}")).unwrap_err();
    assert!(same.contains("no room for another chunk"), "{same}");
    let (status, unknown) = post(&folder, &format!("/v1/pools/{name}/grow"), r#"{"size": 1}"#);
    assert_eq!((status, unknown.contains("size_bytes")), (400, true), "{unknown}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), size, "refused, and nothing has changed");

    let wanted = size + (512 << 20);
    let told = ask(&up, &format!("pool grow {name} --size {}MiB", wanted >> 20)).unwrap();
    assert!(told.contains("512 MiB more for chunks") || told.contains("511"), "{told}");
    let grown = chunks_beyond(&up, chunks);
    assert!((511..=512).contains(&(grown - chunks)), "{chunks}, then {grown}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), wanted);
    assert!(over_socket(&folder, "/v1/events").1.contains(&format!("{name} grows")));
    io(&up, "write -P 5 32M 160M");
    io(&up, "read -P 4 0 32M");

    // Somebody else made the file larger.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(wanted + (64 << 20)).unwrap();
    ask(&up, &format!("pool grow {name}")).unwrap();
    let last = chunks_beyond(&up, grown);
    assert_eq!(last, grown + 64);
    assert_eq!(up.stop("-KILL"), None);

    let (up, _) = Up::start_with_arguments(&folder, &engine);
    assert_eq!(chunks_beyond(&up, 0), last);
    io(&up, "read -P 4 0 32M");
    io(&up, "read -P 5 32M 160M");
    assert_eq!(up.stop("-TERM"), Some(0));
    file.set_len(size).unwrap();
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .arg("up")
        .args(engine)
        .current_dir(&folder)
        .output()
        .unwrap();
    let refused = String::from_utf8_lossy(&program.stderr);
    assert!(!program.status.success() && refused.contains("was cut short"), "{refused}");
}

#[test]
fn a_pool_that_is_slowed_to_a_profile_does_not_grow() {
    let folder = program::folder("pools-grow-slowed");
    let (up, _) = Up::start_with_arguments(&folder, &["--data", "pools", "--size", "64MiB"]);
    let name = json(&up, "pool list")[0]["name"].as_str().unwrap().to_string();
    let refused = ask(&up, &format!("pool grow {name} --size 2GiB")).unwrap_err();
    assert!(refused.contains("slowed to a profile"), "{refused}");
    assert_eq!(up.stop("-TERM"), Some(0));
}
