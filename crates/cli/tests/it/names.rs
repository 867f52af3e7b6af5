//! Volumes under names of their own: everywhere that they are told, across a kill, and from a
//! configuration.

use crate::engine::{ask, json, over_socket, post};
use crate::program;
use crate::up::{Up, clients_are_here};

const ENGINE: &str = "--size 64MiB --no-emulation --policy none";

#[test]
fn a_volume_has_its_name_wherever_it_is_told_also_after_a_kill() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("names");
    let up = Up::start_with(&folder, ENGINE);
    assert_eq!(ask(&up, "volume create db 8MiB").unwrap(), "db, 8 MiB, identity 2\n");
    assert_eq!(ask(&up, "volume create 4MiB").unwrap(), "v2, 4 MiB, identity 3\n");
    let mut client = up.attach("db");
    client.io("write -P 6 0 4M");
    client.leave();
    assert_eq!(ask(&up, "volume grow db 12MiB").unwrap(), "db, 12 MiB, identity 2\n");
    let job = json(&up, "migrate db --to hdd --length 2MiB --wait");
    assert_eq!((job["volume"].as_str(), job["done"].as_u64()), (Some("db"), Some(2)));
    assert!(ask(&up, "volume map db").unwrap().contains("hdd"));
    assert!(ask(&up, "policy explain db 0").unwrap().starts_with("db from 0 B to 1 MiB"));
    ask(&up, "hint give db --length 1MiB --usage archival").unwrap();
    let beyond = ask(&up, "volume map db --offset 1GiB").unwrap_err();
    assert!(beyond.contains("ends beyond db: it has 12 MiB"), "{beyond}");
    assert!(ask(&up, "status").unwrap().contains("volume db, 12 MiB"));
    let events = over_socket(&folder, "/v1/events").1;
    assert!(events.contains("db of 8 MiB was made") && events.contains("db has 12 MiB now"));
    assert!(over_socket(&folder, "/metrics").1.contains("volume=\"db\""));

    assert_eq!(up.stop("-KILL"), None);
    let checked = program::run(&folder, "check --data pools --json").succeeded().stdout();
    let checked: serde_json::Value = serde_json::from_str(&checked).unwrap();
    assert_eq!(
        (&checked["volumes"][1]["name"], &checked["volumes"][1]["identity"]),
        (&"db".into(), &2.into())
    );
    let up = Up::start_with(&folder, ENGINE);
    let listed = ask(&up, "volume list").unwrap();
    assert_eq!(listed, "v0, 64 MiB, identity 1\ndb, 12 MiB, identity 2\nv2, 4 MiB, identity 3\n");
    let mut client = up.attach("db");
    client.io("read -P 6 0 4M");
    client.leave();
    ask(&up, "volume delete db --yes").unwrap();
    assert!(over_socket(&folder, "/v1/events").1.contains("db was deleted"));
    let again = ask(&up, "volume create db 8MiB").unwrap();
    assert_eq!(again, "db, 8 MiB, identity 4\n", "the name is used again, the identity is not");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_name_that_is_taken_unknown_or_none_is_refused_with_what_to_do() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("names-refused");
    let up = Up::start_with(&folder, ENGINE);
    let taken = ask(&up, "volume create v0 1MiB").unwrap_err();
    assert!(taken.contains("there is a volume `v0` already; give another name"), "{taken}");
    for words in ["volume create a/b 1MiB", "volume grow a/b 1GiB", "migrate a/b --to hdd"] {
        let said = ask(&up, words).unwrap_err();
        assert!(said.contains("`a/b` is no name for a volume; give 1 to 48 letters"), "{said}");
    }
    let unknown = ask(&up, "volume grow logs 1GiB").unwrap_err();
    assert!(unknown.contains("there is no volume logs; there are: v0"), "{unknown}");
    let sent = |body: &str| post(&folder, "/v1/volumes", body);
    let (status, said) = sent(r#"{"name": "v0", "size_bytes": 4096}"#);
    assert!(status == 409 && said.contains("there is a volume `v0` already"), "{status} {said}");
    let (status, said) = sent(r#"{"name": "-o", "size_bytes": 4096}"#);
    assert!(status == 422 && said.contains("`-o` is no name for a volume"), "{status} {said}");
    let (status, said) = sent(r#"{"name": "logs", "size_bytes": 4096}"#);
    assert!(status == 201 && said.contains(r#""name":"logs","identity":2"#), "{status} {said}");
    ask(&up, "volume delete logs --yes").unwrap();
    ask(&up, "volume delete v0 --yes").unwrap();
    let none = ask(&up, "volume grow v0 1GiB").unwrap_err();
    assert!(none.contains("there is no volume v0; there are none: make one first"), "{none}");
    assert_eq!(up.stop("-TERM"), Some(0));
}

#[test]
fn a_start_makes_volumes_that_the_configuration_names_and_no_others() {
    if !clients_are_here() {
        return;
    }
    let folder = program::folder("names-configured");
    let config = "data = \"pools\"\n[[pool]]\nname = \"a\"\nsize = \"64MiB\"\n[[volume]]\n\
                  name = \"db\"\nsize = \"8MiB\"\nlatency = \"5ms\"\n[[volume]]\nsize = \"4MiB\"\n";
    std::fs::write(folder.join("up.toml"), config).unwrap();
    let (up, said) = Up::start_config(&folder, "up.toml");
    assert!(said.contains("volume db, 8 MiB: nbd+unix:///db?socket="), "{said}");
    assert!(said.contains("-N db /dev/nbd0"), "{said}");
    let listed = ask(&up, "volume list").unwrap();
    assert!(listed.starts_with("db, 8 MiB, identity 1, SLA 5 ms"), "{listed}");
    assert!(listed.ends_with("\nv1, 4 MiB, identity 2\n"), "{listed}");
    ask(&up, "volume delete v1 --yes").unwrap();
    ask(&up, "volume create v5 1MiB").unwrap();
    assert_eq!(up.stop("-TERM"), Some(0));

    let more = "[[volume]]\nname = \"logs\"\nsize = \"2MiB\"\nlatency = \"7ms\"\n";
    std::fs::write(folder.join("up.toml"), format!("{config}{more}")).unwrap();
    let checked = program::run(&folder, "check up.toml").succeeded().stdout();
    assert!(checked.contains("the next start makes volume logs"), "{checked}");
    let (up, _) = Up::start_config(&folder, "up.toml");
    let listed = json(&up, "volume list");
    let told: Vec<(&str, Option<f64>)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| (volume["name"].as_str().unwrap(), volume["sla"]["latency_us"].as_f64()))
        .collect();
    assert_eq!(told, [("db", Some(5000.0)), ("v5", None), ("logs", Some(7000.0))]);
    assert_eq!(up.stop("-TERM"), Some(0));
}
