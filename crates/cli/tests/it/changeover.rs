//! A group that was made without block checksums is given pools that have them, while it runs.

use crate::engine::{ask, json};
use crate::program;
use crate::scrub::rot;
use crate::up::{URI, Up, clients_are_here};
use std::path::Path;

const TWICE: u8 = 0xAB;
const ONCE: u8 = 0xCD;

fn configure(folder: &Path, pools: [&str; 2]) {
    let mut text = "data = \"pools\"\nchecksums = false\n".to_string();
    for name in pools {
        let path = match name {
            "ssd" | "hdd" => format!("pools/{name}.pool"),
            _ => format!("{name}.img"),
        };
        let path = folder.join(path).display().to_string();
        text += &format!("\n[[pool]]\nname = \"{name}\"\npath = {path:?}\nsize = \"64MiB\"\n");
    }
    text += "\n[[volume]]\nsize = \"16MiB\"\n";
    std::fs::write(folder.join("old.toml"), text).unwrap();
}

fn start(folder: &Path) -> Up {
    Up::start_on(folder, &["old.toml"])
}

/// Waits until so many chunks have tables.
fn rests(up: &Up, chunks: i64) {
    up.wait_for(|up| {
        let scrub = json(up, "scrub --show");
        let count = |what: &str| scrub[what].as_i64().unwrap();
        count("written_tables") - count("outdated_tables") >= chunks
    });
}

/// A bit flips on one of two copies: `check` says where, clients do not see it, a scrub mends it.
fn one_copy_is_mended(folder: &Path, name: &str, file: &str) {
    let at = rot(&folder.join(file), TWICE);
    let found = program::run(folder, "check old.toml --scrub").ended_with(1).stdout();
    assert!(found.contains(&format!("the copy on {name} is wrong")), "{found}");
    let up = start(folder);
    let read = format!("read -P {TWICE} 0 1M");
    let said = up.run("qemu-io", &["-f", "raw", "-c", &read, URI]).unwrap();
    assert!(!said.contains("failed"), "{said}");
    up.wait_for(|up| json(up, "scrub --wait")["state"] == "ended");
    assert_eq!(up.stop("-TERM"), Some(0));
    assert_eq!(std::fs::read(folder.join(file)).unwrap()[at], TWICE, "mended on {name}");
    program::run(folder, "check old.toml --scrub").succeeded();
}

#[test]
fn an_old_group_gets_checksums_by_replacing_its_pools_while_it_runs() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("changeover");
    std::fs::create_dir_all(folder.join("pools")).unwrap();
    configure(&folder, ["ssd", "hdd"]);
    let up = start(&folder);
    let mut client = up.attach("v0");
    client.io(&format!("write -f -P {TWICE} 0 1M"));
    client.io(&format!("write -f -P {ONCE} 1M 1M"));
    assert!(ask(&up, "status").unwrap().contains("no block checksums on ssd, hdd\n"));

    // The first of its pools: what moves gets checksums, and they speak for the copy on the other.
    ask(&up, "pool replace ssd new.img --name new --size 256MiB --wait").unwrap();
    client.io(&format!("read -P {ONCE} 1M 1M"));
    client.leave();
    ask(&up, "migrate v0 --do replicate --to hdd --offset 0 --length 1MiB --wait").unwrap();
    rests(&up, 2);
    let listed = json(&up, "pool list");
    let of = |name: &str| {
        let pool = listed.as_array().unwrap().iter().find(|pool| pool["name"] == name);
        pool.unwrap()["checksums"].as_bool().unwrap()
    };
    assert_eq!((of("new"), of("hdd")), (true, false));
    assert!(ask(&up, "status").unwrap().contains("no block checksums on hdd\n"));
    assert_eq!(up.stop("-TERM"), Some(0));
    configure(&folder, ["new", "hdd"]);
    let checked = program::run(&folder, "check old.toml --scrub").succeeded().stdout();
    assert!(checked.contains("pool `hdd` has no block checksums"), "{checked}");
    assert!(!checked.contains("have no checksums"), "{checked}");
    one_copy_is_mended(&folder, "hdd", "pools/hdd.pool");
    one_copy_is_mended(&folder, "new", "new.img");

    // The second: nothing is without.
    let up = start(&folder);
    ask(&up, "pool replace hdd late.img --name late --size 256MiB --wait").unwrap();
    assert!(!ask(&up, "status").unwrap().contains("no block checksums"));
    // What had another copy has lost the one on the pool that went.
    ask(&up, "migrate v0 --do replicate --to late --offset 0 --length 1MiB --wait").unwrap();
    up.wait_for(|up| json(up, "scrub --show")["written_tables"].as_i64() >= Some(1));
    assert_eq!(up.stop("-TERM"), Some(0));
    configure(&folder, ["new", "late"]);
    one_copy_is_mended(&folder, "late", "late.img");

    // What has no other copy is an error, and never wrong data.
    rot(&folder.join("new.img"), ONCE);
    let up = start(&folder);
    let read = |command: &str| match up.run("qemu-io", &["-f", "raw", "-c", command, URI]) {
        Ok(said) | Err(said) => said,
    };
    let said = read(&format!("read -P {ONCE} 1044k 4k"));
    assert!(said.contains("Input/output error"), "{said}");
    let said = read(&format!("read -P {ONCE} 1M 4k"));
    assert!(!said.contains("failed"), "{said}");
    let said = ask(&up, "scrub --wait").unwrap_err();
    assert!(said.contains("1 blocks cannot be repaired"), "{said}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// `pool replace 2` asked for pool number 1, which is what the engine calls the pool `2`, and the
/// engine took that for the pool called `1`.
#[test]
fn pools_that_are_called_by_numbers_are_not_taken_for_others() {
    let folder = program::folder("numbers");
    let mut text = "data = \"pools\"\n".to_string();
    for name in ["1", "2"] {
        let path = folder.join(format!("{name}.img")).display().to_string();
        text += &format!("\n[[pool]]\nname = \"{name}\"\npath = {path:?}\nsize = \"64MiB\"\n");
    }
    text += "\n[[volume]]\nsize = \"16MiB\"\n";
    std::fs::write(folder.join("numbers.toml"), text).unwrap();
    let up = Up::start_on(&folder, &["numbers.toml"]);
    let said = ask(&up, "pool replace 2 new.img --name 9 --size 64MiB --wait").unwrap();
    assert!(said.starts_with("2 is replaced by 9; its device may be taken away"), "{said}");
    let listed = json(&up, "pool list");
    let state = |name: &str| {
        let pool = listed.as_array().unwrap().iter().find(|pool| pool["name"] == name);
        pool.unwrap()["state"].as_str().unwrap().to_string()
    };
    assert_eq!([state("1"), state("2"), state("9")], ["active", "removed", "active"]);
    // A name is one segment of a path, whatever it holds.
    let refused = ask(&up, "pool remove 1#2").unwrap_err();
    assert!(refused.contains("no pool 1#2"), "{refused}");
    assert_eq!(up.stop("-TERM"), Some(0));
}
