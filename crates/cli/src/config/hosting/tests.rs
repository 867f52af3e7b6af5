//! Configurations of storage servers and agents, right and wrong.

#![allow(clippy::unwrap_used)]

use super::*;

fn store(text: &str) -> Result<StoreServe, String> {
    read_store(text, Path::new("conf/store.toml")).map_err(|error| error.to_string())
}

fn host(text: &str) -> Result<HostServe, String> {
    read_host(text, Path::new("conf/host.toml")).map_err(|error| error.to_string())
}

#[test]
fn configurations_are_read_beside_their_files() {
    let text = "device = \"disk.img\"\nlisten = \"10.0.0.1:7600\"\nkey = \"s.key\"\n\
                lease = \"3s\"\nlink = \"1Gbps\"\n[[host]]\nid = 4\nkey = \"h4.pub\"\ndomains = [0, 5]\n";
    let read = store(text).unwrap();
    assert_eq!(read.place, StorePlace::Device(PathBuf::from("conf/disk.img")));
    assert_eq!(read.admin.socket, Path::new("conf/thermocline-store.sock"));
    assert_eq!(read.config.hosts, BTreeMap::from([(HostId(4), 0b10_0001)]));
    assert_eq!(read.config.lease, Nanos::from_secs(3));
    assert_eq!(read.config.link_bytes_per_s, 125_000_000);
    let keys = read.config.keys.unwrap();
    assert_eq!(keys.peers, [(HostId(4), PathBuf::from("conf/h4.pub"))]);

    let text = "id = 2\nstore = \"10.0.0.1:7600\"\nvolumes = [\"vm1\", \"vm2\"]\n\
                cache = \"1GiB\"\n[[peer]]\nid = 3\naddress = \"127.0.0.1:7601\"\n";
    let read = host(text).unwrap();
    assert_eq!(read.config.volumes, ["vm1", "vm2"]);
    assert_eq!(read.config.peers[0].host, HostId(3));
    assert!(read.config.keys.is_none() && read.config.nbd_tcp.is_none());
}

#[test]
fn a_store_may_be_on_a_volume_of_an_engine() {
    let read = store("engine = \"pools.toml\"\nvolume = \"content\"\n").unwrap();
    let (config, volume) = (PathBuf::from("conf/pools.toml"), "content".to_string());
    assert_eq!(read.place, StorePlace::Volume(VolumePlace { config, volume }));
}

#[test]
fn a_second_level_and_a_page_are_read() {
    let text = "id = 2\nflash = \"cache.flash\"\nflash-size = \"2GiB\"\nflash-policy = \"lru\"\n\
                http = \"127.0.0.1:7690\"\ntoken-file = \"token\"\n";
    let read = host(text).unwrap();
    let (path, size) = (PathBuf::from("conf/cache.flash"), Some(Bytes::from_gib(2)));
    assert_eq!(read.flash, Some(FlashPlace { path, size }));
    assert_eq!(read.config.flash_policy, "lru");
    let address = SocketAddr::from(([127, 0, 0, 1], 7690));
    assert_eq!(read.admin.tcp, Some((address, PathBuf::from("conf/token"))));
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let wrong = [
        (store("listen = \"127.0.0.1:1\"").err(), "line 1: there is no `device`"),
        (store("device = \"d\"\nlese = \"3s\"").err(), "line 2: unknown key `lese`; did you mean"),
        (store("device = \"d\"\nlink = \"fast\"").err(), "line 2: `link` must be a bandwidth"),
        (store("engine = \"e.toml\"").err(), "`engine` and `volume` go together"),
        (store("device = \"d\"\nvolume = \"v\"").err(), "name one of them"),
        (store("device = \"d\"\nlease = \"1ms\"").err(), "line 2: `lease` must be from 1 s"),
        (store("device = \"d\"\nprotocol = \"x\"").err(), "line 2: there is no protocol `x`"),
        (store("device = \"d\"\nkey = \"k\"").err(), "no host could come in"),
        (store("device = \"d\"\n[[host]]\nid = 1\n[[host]]\nid = 1").err(), "the number 1"),
        (store("device = \"d\"\n[[host]]\nid = 1\ndomains = [64]").err(), "from 0 to 63"),
        (store("device = \"d\"\n[[host]]\nid = 1\nkey = \"h.pub\"").err(), "no `key` above"),
        (store("device = \"d\"\nhttp = \"127.0.0.1:1\"").err(), "go together"),
        (host("id = 1\nhttp = \"10.0.0.1:1\"\ntoken-file = \"t\"").err(), "not encrypted"),
        (host("id = 1\nflash-size = \"1GiB\"").err(), "there is no `flash`"),
        (host("id = 1\nflash = \"f\"\nflash-size = \"1KiB\"").err(), "from 1 MiB to 8 TiB"),
        (host("volumes = [\"a\"]").err(), "there is no `id`"),
        (
            host("id = 1\nvolumes = [\"vm\", \"größe\"]").err(),
            "line 2: `größe` is no volume's name",
        ),
        (host("id = 0").err(), "line 1: `id` must be a whole number from 1 to 65535"),
        (host("id = 1\nstore = \"x\"").err(), "line 2: `x` is not an address and a port"),
        (host("id = 1\nkey = \"k\"").err(), "go together"),
        (
            host("id = 1\n[[peer]]\nid = 2\naddress = \"127.0.0.1:1\"\nkey = \"h.pub\"").err(),
            "no `key` above",
        ),
        (host("id = 1\n[[peer]]\nid = 1\naddress = \"127.0.0.1:1\"").err(), "another host's"),
    ];
    for (error, part) in wrong {
        let error = error.expect(part);
        assert!(error.starts_with("conf/") && error.contains(part), "{error}");
    }
}
