//! `thermocline calibrate` on files: what it makes, what it leaves alone, what it refuses.

use crate::program;
use thermocline_ports::model::Profile;

#[test]
fn a_folder_is_measured_into_a_profile_and_left_as_it_was() {
    let folder = program::folder("calibrate-folder");
    std::fs::create_dir(folder.join("medium")).unwrap();
    let words = "calibrate medium --size 64MiB --time 2ms --out found.toml --json";
    let ran = program::run(&folder, words).succeeded();
    let found: serde_json::Value = serde_json::from_str(&ran.stdout()).unwrap();
    let text = std::fs::read_to_string(folder.join("found.toml")).unwrap();
    let profile = Profile::parse(&text, "found.toml").unwrap();
    assert_eq!(profile.size.0, 64 << 20);
    let loads = found["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 27);
    for load in loads {
        assert!(load["measured"]["iops"].as_f64().unwrap() > 0.0, "{load}");
        assert!(load["modelled"]["iops"].as_f64().unwrap() > 0.0, "{load}");
    }
    assert!(found["weights"]["random_write"].as_f64().unwrap() > 0.0);
    assert_eq!(std::fs::read_dir(folder.join("medium")).unwrap().count(), 0, "nothing is left");
    program::run(&folder, words).ended_with(2).says("found.toml exists");
}

#[test]
fn a_file_is_only_read_unless_it_may_be_destroyed() {
    let folder = program::folder("calibrate-file");
    let file = folder.join("disk");
    let contents = vec![0x5a; 64 << 20];
    std::fs::write(&file, &contents).unwrap();
    let ran = program::run(&folder, "calibrate disk --time 2ms").succeeded();
    assert!(ran.stdout().contains("assumed: writes were not measured"), "{}", ran.stdout());
    assert!(ran.stdout().contains("[parallel"), "{}", ran.stdout());
    assert!(std::fs::read(&file).unwrap() == contents);
    program::run(&folder, "calibrate disk --time 2ms --destroy-contents").succeeded();
    assert!(std::fs::read(&file).unwrap() != contents, "that is what the flag says");
}

#[test]
fn what_cannot_or_must_not_be_measured_is_refused() {
    let folder = program::folder("calibrate-refused");
    let file = std::fs::File::create(folder.join("holes")).unwrap();
    file.set_len(1 << 30).unwrap();
    program::run(&folder, "calibrate holes").ended_with(2).says("mostly holes");
    std::fs::write(folder.join("small"), vec![1; 1 << 20]).unwrap();
    program::run(&folder, "calibrate small").ended_with(2).says("too little to be measured");
    program::run(&folder, "calibrate none").ended_with(2).says("No such file");
    let mut pool = vec![1; 64 << 20];
    pool[..8].copy_from_slice(b"THERMOCL");
    std::fs::write(folder.join("pool"), &pool).unwrap();
    let refused = program::run(&folder, "calibrate pool --destroy-contents").ended_with(2);
    refused.says("is a pool whose superblocks are damaged");
    assert!(std::fs::read(folder.join("pool")).unwrap() == pool);
    let mut store = vec![0; 64 << 20];
    store[4096..4104].copy_from_slice(b"THERMOCS");
    std::fs::write(folder.join("store"), &store).unwrap();
    let refused = program::run(&folder, "calibrate store --destroy-contents").ended_with(2);
    refused.says("is a store of blocks");
    assert!(std::fs::read(folder.join("store")).unwrap() == store);
    program::run(&folder, "calibrate . --destroy-contents").ended_with(2).says("of its own");
}
