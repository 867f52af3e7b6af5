//! The NBD protocol, as far as the clients that people use reach it: libnbd's tools, qemu's,
//! nbd-client and fio. The protocol's own document says what it offers (NetworkBlockDevice/nbd,
//! doc/proto.md).

use crate::program;
use crate::up::{URI, Up, clients_are_here, contents};
use serde_json::Value;
use std::path::Path;

/// Two volumes on plain files, small chunks.
const CONFIG: &str = r#"
data = "pools"
chunk-size = "64KiB"
[[pool]]
name = "fast"
size = "24MiB"
[[pool]]
name = "slow"
size = "128MiB"
[[volume]]
size = "64MiB"
[[volume]]
size = "8MiB"
"#;

/// An engine on [`CONFIG`] in a folder of its own; none without clients.
fn engine(test: &str) -> Option<(std::path::PathBuf, Up)> {
    if !clients_are_here() {
        return None;
    }
    let folder = program::folder(test);
    std::fs::write(folder.join("engine.toml"), CONFIG).unwrap();
    let up = Up::start_on(&folder, &["engine.toml"]);
    Some((folder, up))
}

/// True if a client is here; says so when it is not.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
fn is_here(client: &str) -> bool {
    let here = std::process::Command::new(client).arg("-V").output().is_ok();
    if !here {
        println!("SKIPPED: no {client}");
    }
    here
}

fn size(folder: &Path, name: &str) -> u64 {
    std::fs::metadata(folder.join(name)).unwrap().len()
}

#[test]
fn every_way_to_list_exports_lists_them() {
    let Some((folder, up)) = engine("nbd-list") else { return };
    let all = "nbd+unix://?socket=pools/nbd.sock";
    let listed = up.run("nbdinfo", &["--list", "--json", all]).unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let exports = listed["exports"].as_array().unwrap();
    let told: Vec<_> = exports.iter().map(|e| (&e["export-name"], &e["export-size"])).collect();
    assert_eq!(told, [(&"v0".into(), &(64 << 20).into()), (&"v1".into(), &(8 << 20).into())]);
    assert_eq!(exports[1]["contexts"], serde_json::json!(["base:allocation", "thermocline:pool"]));
    let socket = "pools/nbd.sock";
    let absolute = folder.join(socket).display().to_string(); // qemu-nbd takes no other.
    let listed = up.run("qemu-nbd", &["--list", "-k", &absolute]).unwrap();
    for part in ["exports available: 2", "'v1'", "thermocline:pool", "flush fua trim zeroes df"] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
    assert!(up.run("nbdinfo", &["nbd+unix:///v7?socket=pools/nbd.sock"]).is_err());
    if is_here("nbd-client") {
        let listed = up.run("nbd-client", &["-l", "-unix", socket]).unwrap();
        assert!(listed.contains("v0") && listed.contains("v1"), "{listed}");
    }
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn what_an_export_can_do_is_what_it_says() {
    let Some((_, up)) = engine("nbd-flags") else { return };
    let can = [
        "connect",
        "fua",
        "trim",
        "zero",
        "cache",
        "df",
        "flush",
        "multi-conn",
        "structured-reply",
    ];
    for what in can {
        assert!(up.run("nbdinfo", &["--can", what, URI]).is_ok(), "--can {what}");
    }
    for what in ["read-only", "rotational", "tls"] {
        assert!(up.run("nbdinfo", &["--is", what, URI]).is_err(), "--is {what}");
    }
    let told = up.run("nbdinfo", &["--no-content", "--json", URI]).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let export = &told["exports"][0];
    let blocks = ["minimum", "preferred", "maximum"];
    let blocks = blocks.map(|which| export[format!("block_size_{which}")].as_u64().unwrap());
    assert_eq!(blocks, [512, 4096, 32 << 20]);
    assert_eq!(up.run("nbdinfo", &["--size", URI]).unwrap().trim(), (64 << 20).to_string());
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_qcow2_image_goes_in_and_out_again() {
    let Some((folder, up)) = engine("nbd-convert") else { return };
    let mut wanted = contents(20 << 20);
    wanted[5 << 20..9 << 20].fill(0);
    wanted.resize(64 << 20, 0);
    std::fs::write(folder.join("raw"), &wanted).unwrap();
    let run = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        up.run("qemu-img", &words).unwrap()
    };
    run("convert -f raw -O qcow2 raw in.qcow2");
    run(&format!("convert -n -f qcow2 -O raw in.qcow2 {URI}"));
    run(&format!("compare -f qcow2 -F raw in.qcow2 {URI}"));
    run(&format!("convert -f raw -O qcow2 {URI} out.qcow2"));
    run("compare -f raw -F qcow2 raw out.qcow2");
    assert!(size(&folder, "out.qcow2") < 18 << 20, "zeroes are told apart from contents");
    let map: Value = serde_json::from_str(&run(&format!("map --output=json {URI}"))).unwrap();
    let data = map.as_array().unwrap().iter().filter(|run| run["data"] == true);
    let bytes: u64 = data.map(|run| run["length"].as_u64().unwrap()).sum();
    assert_eq!(bytes, 16 << 20);
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn nbdcopy_copies_over_many_connections_and_over_one() {
    let Some((folder, up)) = engine("nbd-copy") else { return };
    let wanted = contents(64 << 20);
    std::fs::write(folder.join("in"), &wanted).unwrap();
    let many = ["--connections=4", "--requests=64", "--threads=2"];
    for ways in [&many[..], &["--synchronous"], &["--request-size=32768", "--sparse=0"]] {
        up.run("nbdcopy", &[ways, &["--flush", "in", URI]].concat()).unwrap();
        up.run("nbdcopy", &[ways, &[URI, "out"]].concat()).unwrap();
        assert!(std::fs::read(folder.join("out")).unwrap() == wanted, "{ways:?}");
    }
    // From one export into the other end of the same engine.
    let small = "nbd+unix:///v1?socket=pools/nbd.sock";
    assert!(up.run("nbdcopy", &[URI, small]).is_err(), "8 MiB do not hold 64 MiB");
    up.run("nbdcopy", &[small, URI]).unwrap();
    up.run("nbdcopy", &["--allocated", "--target-is-zero", small, "null:"]).unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn requests_at_and_beyond_the_edges_are_answered_and_the_connection_goes_on() {
    let Some((_, up)) = engine("nbd-edges") else { return };
    // qemu-io looks at ranges itself, so each of these says what must come out of it.
    let fine = [
        "write -P 3 513 1000",
        "read -P 3 513 1000",
        "read -P 0 0 513",
        "write -P 4 67108352 512",
        "read -P 4 67108352 512",
        "write -f -P 6 65000 70000",
        "read -P 6 65000 70000",
        "write -z -u 0 64M",
        "read -P 0 0 64M",
        "writev -P 8 1M 4k 64k 512 128k",
        "readv -P 8 1M 4k 64k 512 128k",
        "write -z -f 1M 100k",
        "read -P 8 1150976 98816",
        "discard 0 64M",
        "read -P 0 1M 1M",
        "flush",
        "read 0 0",
    ];
    for command in fine {
        let said = up.run("qemu-io", &["-f", "raw", URI, "-c", command]).unwrap();
        assert!(!said.contains("failed") && !said.contains("error"), "{command}: {said}");
    }
    let mut beyond = vec!["-f", "raw", URI];
    for command in ["read 63M 2M", "write 64M 512", "write -z 63M 2M", "read 0 512"] {
        beyond.extend(["-c", command]);
    }
    let said = up.run("qemu-io", &beyond).unwrap_or_else(|said| said);
    assert!(said.contains("read 512/512 bytes at offset 0"), "the last one is served: {said}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn fio_verifies_what_it_wrote_with_many_requests_under_way() {
    let Some((_, up)) = engine("nbd-fio") else { return };
    if !is_here("fio") {
        return;
    }
    let uri = format!("--uri={URI}");
    let job = "--name=v --ioengine=nbd --size=48m --io_size=24m --iodepth=32 --verify=crc32c \
               --verify_fatal=1 --randrepeat=1";
    for load in [
        "--rw=randwrite --bs=4k --fsync=32",
        "--rw=randwrite --bs=512 --io_size=4m --verify_backlog=64",
        "--rw=write --bs=128k --end_fsync=1",
    ] {
        let words: Vec<&str> = job.split_whitespace().chain(load.split_whitespace()).collect();
        up.run("fio", &[&words[..], &[&uri]].concat()).unwrap_or_else(|e| panic!("{load}: {e}"));
    }
    assert_eq!(up.stop("-TERM"), Some(0));
}
