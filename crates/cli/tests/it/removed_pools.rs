//! Pools that were removed: the next start does without them, and no list or figure names them.

use crate::engine::{ask, json, over_socket};
use crate::pools::{io, pools};
use crate::program;
use crate::up::Up;
use serde_json::Value;
use std::path::Path;

/// A configuration with three pools and a volume of 16 MiB, in the file up.toml.
fn three_pools(folder: &Path) {
    let pools = ["scm", "ssd", "hdd"]
        .map(|name| format!("[[pool]]\nname = \"{name}\"\nsize = \"32MiB\"\n"));
    let text = format!("data = \"pools\"\n{}[[volume]]\nsize = \"16MiB\"\n", pools.concat());
    std::fs::write(folder.join("up.toml"), text).unwrap();
}

/// After `pool replace ssd … --wait` had said that the old device may be taken away, the next start
/// was refused because of it: "take it out of the configuration".
#[test]
fn a_configured_pool_that_was_removed_is_not_missed_at_the_next_start() {
    let folder = program::folder("pools-configured");
    three_pools(&folder);
    let (up, _) = Up::start_config(&folder, "up.toml");
    io(&up, "write -P 7 0 4M");
    let said = ask(&up, "pool replace ssd new.img --name new --size 32MiB --wait").unwrap();
    assert!(said.contains("where a configuration names it, take it out there"), "{said}");
    let told = "ssd is removed; its device may be taken away; where a configuration names it";
    up.wait_for(|_| over_socket(&folder, "/v1/events").1.contains(told));
    assert_eq!(up.stop("-TERM"), Some(0));

    // Left where it is, and taken away: the group does without it, and says what to do.
    let remedy = "the volume group has removed pool `ssd`, or given it up: take it out of the \
                  configuration";
    let ssd = folder.join("pools/ssd.pool");
    let notes = vec![b'n'; 1 << 20];
    for (found, change) in [
        ("ssd.pool is left over", None),
        ("ssd.pool holds no pool", Some(&notes[..])),
        ("ssd.pool is missing or empty", Some(&b""[..])),
    ] {
        change.into_iter().for_each(|bytes| std::fs::write(&ssd, bytes).unwrap());
        let checked = program::run(&folder, "check up.toml").succeeded();
        checked.says_on_stdout(&format!("note: pools/{found}; {remedy}"));
        let up = Up::start_in(&folder, &["up.toml"], &[]);
        assert_eq!(pools_there(&up), ["scm", "new", "hdd"]);
        io(&up, "read -P 7 0 4M");
        assert_eq!(up.stop("-TERM"), Some(0));
        let said = std::fs::read_to_string(folder.join("stderr")).unwrap();
        assert!(said.contains(&format!("{found}; {remedy}")), "{said}");
    }
    assert_eq!(std::fs::metadata(&ssd).unwrap().len(), 0, "nothing is made");
    // In other hands, and in use there.
    let other = std::fs::File::create(&ssd).unwrap();
    other.set_len(32 << 20).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let up = Up::start_in(&folder, &["up.toml"], &[]);
    assert_eq!(pools_there(&up), ["scm", "new", "hdd"]);
    assert_eq!(up.stop("-TERM"), Some(0));
    let said = std::fs::read_to_string(folder.join("stderr")).unwrap();
    assert!(said.contains("in use by another process") && said.contains(remedy), "{said}");
    drop(other);
    std::fs::File::create(&ssd).unwrap();

    // What is no pool of the group and never was one is refused as ever; `check` says the same.
    let with_more = std::fs::read_to_string(folder.join("up.toml")).unwrap();
    let with_more = with_more.replace("[[volume]]", "[[pool]]\nname = \"more\"\n[[volume]]");
    std::fs::write(folder.join("more.toml"), with_more).unwrap();
    let remedy =
        "more.pool is missing or empty, and its volume group does not need it; take it out";
    program::run(&folder, "up more.toml").ended_with(2).says(remedy);
    program::run(&folder, "check more.toml").ended_with(1).says_on_stdout(remedy);
    // One that the group needs is missed.
    std::fs::remove_file(folder.join("pools/hdd.pool")).unwrap();
    program::run(&folder, "up up.toml").ended_with(2).says("pool `hdd` (number 2) is not there");
}

/// Names of the pools that were not removed.
fn pools_there(up: &Up) -> Vec<String> {
    let pools = json(up, "pool list");
    let there = pools.as_array().unwrap().iter().filter(|pool| pool["state"] != "removed");
    there.map(|pool| pool["name"].as_str().unwrap().to_string()).collect()
}

/// A pool that was removed was "down" for ever; one that got its name doubled all its series, which
/// is no OpenMetrics. Lists and messages named it, too.
#[test]
fn a_removed_pool_is_in_no_list_and_has_no_figures() {
    let folder = program::folder("pools-removed");
    three_pools(&folder);
    let (up, _) = Up::start_config(&folder, "up.toml");
    ask(&up, "shadow add lmst").unwrap();
    let remove = |name: &str| {
        ask(&up, &format!("pool drain {name} --wait")).unwrap();
        ask(&up, &format!("pool remove {name}")).unwrap();
        up.wait_for(|up| !pools_there(up).contains(&name.to_string()));
    };
    let series = |metrics: &str| -> Vec<String> {
        let lines = metrics.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_string()).collect()
    };
    remove("ssd");
    let metrics = over_socket(&folder, "/metrics").1;
    assert!(metrics.contains("thermocline_pool_up{pool=\"scm\"} 1"), "{metrics}");
    assert!(!metrics.contains("pool=\"ssd\""), "{metrics}");
    let unknown = ask(&up, "pool drain tape").unwrap_err();
    assert!(unknown.ends_with("there are: scm, hdd\n"), "{unknown}");
    for list in ["pool list", "status"] {
        let text = ask(&up, list).unwrap();
        assert!(!text.lines().any(|line| line.trim_start().starts_with("ssd ")), "{text}");
    }
    assert_eq!(pools(&up), ["scm", "ssd", "hdd"], "for programs it is there, as removed");

    for round in 0..2 {
        ask(&up, &format!("pool add ssd again{round}.img --size 32MiB --before hdd")).unwrap();
        up.wait_for(|up| {
            let pools = json(up, "pool list");
            let is_new = |pool: &Value| pool["name"] == "ssd" && pool["state"] == "active";
            pools.as_array().unwrap().iter().any(is_new)
        });
        let metrics = over_socket(&folder, "/metrics").1;
        let mut all = series(&metrics);
        let ssd = all.iter().filter(|series| series.contains("pool=\"ssd\"")).count();
        assert!(ssd > 40, "{ssd} series\n{metrics}");
        all.sort();
        let doubled = all.windows(2).find(|two| two[0] == two[1]);
        assert_eq!(doubled, None, "with other numbers: no OpenMetrics");
        if round == 0 {
            remove("ssd");
        }
    }
    assert_eq!(up.stop("-TERM"), Some(0));
}

/// After the fastest pool was removed, placements went on to want chunks on it: nothing moved
/// between those that were left.
#[test]
fn a_placement_decides_about_the_pools_that_are_left_and_is_replayed_so() {
    let folder = program::folder("pools-removed-decides");
    three_pools(&folder);
    let words = "up.toml --policy hemem:hot-reads=1 --epoch 100ms --record r.tcr";
    let words: Vec<&str> = words.split(' ').collect();
    let up = Up::start_in(&folder, &words, &[]);
    io(&up, "write -P 7 0 4M");
    let used = |up: &Up, name: &str| -> u64 {
        let pools = json(up, "pool list");
        let pool = pools.as_array().unwrap().iter().find(|pool| pool["name"] == name).unwrap();
        pool["chunks_used"].as_u64().unwrap()
    };
    // Reads make chunks hot, and hot ones come to the fastest pool that there is.
    let comes_to = |name: &str| {
        up.wait_for(|up| {
            io(up, "read -P 7 0 4M");
            used(up, name) >= 4
        });
    };
    comes_to("scm");
    ask(&up, "pool drain scm --wait").unwrap();
    ask(&up, "pool remove scm").unwrap();
    up.wait_for(|up| !pools_there(up).contains(&"scm".to_string()));
    ask(&up, "pool drain ssd --wait").unwrap();
    assert_eq!(used(&up, "hdd"), 4);
    ask(&up, "pool undrain ssd").unwrap();
    comes_to("ssd");
    ask(&up, "pool add new new.img --size 32MiB --before ssd").unwrap();
    comes_to("new");
    assert_eq!(up.stop("-TERM"), Some(0));
    let words = "lab volume --replay r.tcr --policy hemem:hot-reads=1,auto --json";
    program::run(&folder, words).succeeded();
    let told = program::run(&folder, "lab volume --replay r.tcr --json").succeeded().stdout();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["equal"], true, "{told:#}");
    let moved = told["epochs"].as_array().unwrap().iter();
    assert!(moved.map(|row| row["recorded"].as_u64().unwrap()).sum::<u64>() >= 8, "{told:#}");
}
