//! Configurations as people write them, right and wrong.

use super::{Config, ConfigError, VolumeConfig, read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use thermocline_policy::migration::Copying;
use thermocline_policy::placement::{Sla, SlaClass};
use thermocline_ports_os::objects::Limits;
use thermocline_units::{Bytes, Nanos, Rng};
use thermocline_volume::Settings;

/// Every key once; the documentation's example.
const EXAMPLE: &str = include_str!("../../../../docs/formats/thermocline.toml");
const REFERENCE: &str = include_str!("../../../../docs/formats/configuration.md");

/// Lines that every configuration needs.
const SMALLEST: &str = "data = \"pools\"\n[[pool]]\nname = \"a\"\nsize = \"1GiB\"\n\
                        [[pool]]\nname = \"b\"\nsize = \"8GiB\"\n[[volume]]\nsize = \"4GiB\"\n";

fn read(text: &str) -> Result<Config, ConfigError> {
    read::config(text, Path::new("/etc/thermocline/a.toml"))
}

/// Error about the smallest configuration with `more` behind it.
fn said_about(more: &str) -> String {
    read(&format!("{SMALLEST}{more}")).expect_err("something is wrong with it").to_string()
}

fn volume(name: &str, named: bool, size: Bytes, sla: Option<Sla>) -> VolumeConfig {
    VolumeConfig { name: name.to_string(), named, size, sla }
}

#[test]
fn the_example_is_read_as_it_says() {
    let config = read(EXAMPLE).unwrap();
    assert_eq!(config.data, Path::new("/etc/thermocline/pools"));
    let names: Vec<_> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["scm", "ssd", "hdd", "cloud"]);
    assert_eq!(config.pools[0].device.path, Path::new("/mnt/pmem0/scm.pool"));
    assert_eq!(config.pools[0].reserve, Bytes::from_mib(256));
    assert_eq!(config.pools[1].device.size, None);
    assert_eq!(config.pools[2].device.path, Path::new("/etc/thermocline/pools/hdd.pool"));
    let emulated = config.pools[2].device.emulate.as_ref().unwrap();
    assert_eq!(emulated.name, "hdd-7200");
    let cache = config.pools[2].cache.as_ref().unwrap();
    assert_eq!(cache.device.path, Path::new("/etc/thermocline/pools/hdd.cache"));
    assert_eq!(cache.device.size, Some(Bytes::from_gib(1)));
    assert_eq!(cache.settings, thermocline_blockcache::Settings::default());
    assert!(config.pools[1].cache.is_none());
    assert_eq!(config.pools[3].device.path, Path::new("s3://my-bucket/thermocline/v0"));
    let bucket = config.pools[3].device.bucket.as_ref().unwrap();
    assert_eq!(bucket.memory, Path::new("/etc/thermocline/pools/cloud.bucket"));
    let options = &bucket.options;
    assert_eq!(options.ca_file.as_deref(), Some(Path::new("/etc/thermocline/store-ca.pem")));
    let link = options.link.unwrap();
    assert_eq!((link.lane.bytes_per_s, link.latency), (125_000_000, Nanos::from_micros(5_000)));
    let told = Limits {
        requests_per_s: Some(1000),
        bytes_per_s: Some(Bytes::from_mib(100)),
        ..Limits::default()
    };
    assert_eq!((options.limits, options.prices.month_gib), (told, 0.023));
    let sla = Sla { latency: Nanos(1_000_000), class: SlaClass::Strict };
    let volumes = [
        volume("db", true, Bytes::from_gib(20), Some(sla)),
        volume("v1", false, Bytes::from_mib(512), None),
    ];
    assert_eq!(config.volumes, volumes);
    assert_eq!(config.volume_bytes(), Bytes::from_mib(20 * 1024 + 512));
    assert_eq!(config.nbd.tcp.len(), 3);
    let tls = config.nbd.tls.unwrap();
    assert_eq!(tls.key, Path::new("/etc/thermocline/server.key"));
    assert_eq!(tls.client_authority.as_deref(), Some(Path::new("/etc/thermocline/clients.pem")));
    let (address, token) = config.http.tcp.unwrap();
    assert_eq!(address, SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(token, Path::new("/etc/thermocline/token"));
    let policy = config.policy.unwrap();
    assert_eq!((policy.entry.name, policy.settings.text("k")), ("baseline", "200"));
    assert_eq!(policy.label, "baseline:k=200");
    assert_eq!(config.settings.epoch, Nanos::from_secs(60));
    assert!(config.settings.checksums);
}

#[test]
fn what_the_example_calls_a_default_is_one() {
    let smallest = read(SMALLEST).unwrap();
    assert_eq!(smallest.settings, Settings::default());
    let example = read(EXAMPLE).unwrap();
    // These three follow the devices by default; a file can only name a number.
    let by_device =
        Copying { piece: None, outstanding: None, yield_above: None, ..example.settings.copying };
    let changed =
        Settings { epoch: Settings::default().epoch, copying: by_device, ..example.settings };
    assert_eq!(changed, Settings::default());
    assert_eq!(smallest.nbd.socket, Path::new("/etc/thermocline/pools/nbd.sock"));
    assert_eq!(smallest.http.socket, Path::new("/etc/thermocline/pools/http.sock"));
    assert_eq!(smallest.nbd.socket, example.nbd.socket);
    assert_eq!((smallest.nbd.limits, example.nbd.limits), Default::default());
    assert!(smallest.policy.is_none() && smallest.nbd.tcp.is_empty());
}

/// Keys at the beginning of lines, and names of tables.
fn keys_of(toml: &str) -> Vec<&str> {
    let lines = toml.lines().filter(|line| !line.starts_with('#'));
    let mut keys: Vec<&str> =
        lines.filter_map(|line| Some(line.split_once(" =")?.0)).filter(|key| *key != "k").collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[test]
fn the_reference_and_the_example_have_the_same_keys() {
    let mut told: Vec<&str> = REFERENCE
        .lines()
        .filter(|line| line.starts_with("| `"))
        .flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2))
        .filter(|key| !key.starts_with('['))
        .collect();
    told.sort_unstable();
    told.dedup();
    assert_eq!(told, keys_of(EXAMPLE));
}

#[test]
fn a_block_cache_s_policy_that_is_none_names_those_there_are() {
    let said = said_about("[[pool]]\nname = \"c\"\n[pool.cache]\npolicy = \"lru\"\n");
    let wanted = "line 13: `lru` is no policy of a block cache; there are srrip, lru-sets, s3-fifo";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn an_unknown_key_names_its_line_and_the_nearest_known_one() {
    for (more, wanted) in [
        (
            "[nbd]\nsoket = \"x\"\n",
            "/etc/thermocline/a.toml, line 11: unknown key `soket`; did you mean `socket`?",
        ),
        ("sise = \"1GiB\"\n", "line 10: unknown key `sise`; did you mean `size`?"),
        ("[copying]\nrato = \"1MiB\"\n", "line 11: unknown key `rato`; did you mean `rate`?"),
        (
            "[metrics]\n",
            "line 10: unknown key `metrics`; known in the configuration are data, chunk-size",
        ),
        (
            "[policy]\nname = \"vfrm\"\n[policy.settings]\nepochz = 1\n",
            "line 13: policy `vfrm` has no setting `epochz`",
        ),
        (
            "[policy]\nname = \"basline\"\n",
            "line 11: there is no placement `basline`; did you mean `baseline`?",
        ),
        ("[policy]\nname = \"lru\"\n", "line 11: there is no placement `lru`"),
        ("[[pool]]\nname = \"c\"\nemulate = \"hdd-720\"\n", "line 12: device profile `hdd-720`"),
    ] {
        let said = said_about(more);
        assert!(said.contains(wanted), "{more} says {said}");
    }
}

#[test]
fn a_value_that_does_not_fit_names_its_line_and_what_would() {
    for (more, wanted) in [
        ("size = 4096\n", "line 10"),
        ("[[volume]]\nsize = \"1000B\"\n", "line 11: `size` must be a multiple of 512 bytes"),
        ("[[volume]]\n", "line 10: `size` is missing"),
        ("name = \"a/b\"\n", "line 10: `a/b` is no name for a volume; give 1 to 48 letters"),
        ("nam = \"db\"\n", "line 10: unknown key `nam`; did you mean `name`?"),
        ("[[volume]]\nsize = \"1MiB\"\nname = \"v0\"\n", "line 12: two volumes are called `v0`"),
        ("name = \"v1\"\n[[volume]]\nsize = \"1MiB\"\n", "line 11: two volumes are called `v1`"),
        ("[[pool]]\nsize = \"1GiB\"\n", "line 10: this pool has no `name`"),
        ("[[pool]]\nname = \"a\"\n", "line 10: two pools are called `a`"),
        ("[[pool]]\nname = \"c\"\npath = \"a.pool\"\n", "line 10: two pools are on /etc"),
        ("[[pool]]\nname = \"0123456789abcdefg\"\n", "line 11: `0123456789abcdefg` is no name"),
        ("[[pool]]\nname = \"../x\"\n", "line 11: `../x` is no name for a pool: 1 to 16"),
        (
            "[[pool]]\nname = \"c\"\n[pool.cache]\npath = \"a.pool\"\n",
            "line 10: two pools are on /etc",
        ),
        ("[[pool]]\nname = \"c\"\ncache = \"x\"\n", "line 12: `cache` is a table"),
        (
            "[[pool]]\nname = \"c\"\n[pool.cache]\ndirty-percent = 100\n",
            "line 13: `dirty-percent` must be a whole number from 0 to 90",
        ),
        (
            "[[pool]]\nname = \"c\"\n[pool.cache]\nsizes = \"1GiB\"\n",
            "line 13: unknown key `sizes`; did you mean `size`?",
        ),
        (
            "[[pool]]\nname = \"c\"\nsize = \"2GiB\"\nreserve = \"2GiB\"\n",
            "line 13: `reserve` must be",
        ),
        ("[nbd]\ntcp = \"127.0.0.1:1\"\n", "line 11: `tcp` is a list of texts"),
        ("[nbd]\ntcp = [\"localhost\"]\n", "line 11: `localhost` is not an address and a port"),
        (
            "[nbd]\ntcp = [\n\"127.0.0.1:1\",\n\"0.0.0.0:1\"]\n",
            "line 13: whoever reaches 0.0.0.0:1",
        ),
        ("[nbd]\ntls-cert = \"x\"\n", "line 11: `tls-cert` and `tls-key` go together"),
        ("[nbd]\ntls-client-ca = \"x\"\n", "line 11: `tls-client-ca` needs `tls-cert`"),
        ("[http]\ntcp = \"127.0.0.1:80\"\n", "line 11: TCP needs a `token-file`"),
        ("[http]\ntoken-file = \"x\"\n", "line 11: a `token-file` is for `tcp` only"),
        ("[policy]\nepoch = \"1ms\"\n", "line 11: `epoch` must be a time from"),
        (
            "[policy]\nname = \"baseline\"\n[policy.settings]\nk = \"many\"\n",
            "line 12: setting `k=many`",
        ),
        ("[policy.settings]\nk = 1\n", "line 10: settings need a policy"),
        ("[copying]\nrate = \"fast\"\n", "line 11: `rate` is bytes a second"),
        (
            "[copying]\nconcurrent = 0\n",
            "line 11: `concurrent` must be a whole number from 1 to 1024",
        ),
        ("[copying]\npiece = \"6KiB\"\n", "line 11: `piece` must be a multiple of 4KiB"),
        ("[copying\n", "line 10"),
        ("latency = \"0s\"\n", "line 10: `latency` must be a time above 0"),
        ("latency = \"1ms\"\nclass = \"strickt\"\n", "line 11: `class` must be \"strict\""),
        ("class = \"strict\"\n", "line 10: a `class` needs a `latency`"),
    ] {
        let said = said_about(more);
        assert!(said.contains(wanted), "{more} says {said}");
        assert!(said.starts_with("/etc/thermocline/a.toml, line "), "{said}");
    }
    let top = |line: &str| read(&format!("{line}\n{SMALLEST}")).expect_err("wrong").to_string();
    assert!(top("chunk-size = \"3MiB\"").contains("line 1: `chunk-size` must be a power of two"));
    assert!(top("journal = \"1GiB\"").contains("line 1: `journal` must be a multiple of 4KiB"));
    let missing = read("data = \"x\"\n[[volume]]\nsize = \"1GiB\"").expect_err("no pool");
    assert!(missing.to_string().contains("there is no pool; add a table [[pool]]"), "{missing}");
}

#[test]
fn tactics_are_checked_and_keys_that_became_tactics_say_so() {
    let top = |line: &str| read(&format!("{line}\n{SMALLEST}")).expect_err("wrong").to_string();
    let retired = "line 1: there is no key `fill` any more; write tactics = [\"slowest-first\"]";
    assert!(top("fill = \"slowest\"").contains(retired));
    let unknown = "line 1: there is no tactic `slowst-first`; did you mean `slowest-first`";
    assert!(top("tactics = [\"slowst-first\"]").contains(unknown));
    let stranger = "`at-once` is of the kind slow start, which a volume never asks";
    assert!(top("tactic-shadows = [\"at-once\"]").contains(stranger));
    let trial = said_about("[copying]\ntrial = 25\n");
    let instead =
        "line 11: there is no key `trial` any more; write tactics = [\"first-part:share=25\"]";
    assert!(trial.contains(instead), "{trial}");
    let two = top("tactics = [\"most-free\", \"slowest-first\"]");
    assert!(two.contains("line 1: `most-free` and `slowest-first` are of one kind"), "{two}");
}

#[test]
fn a_limit_of_clients_that_does_not_fit_names_its_line_and_what_would() {
    for (line, wanted) in [
        ("connections = 0", "`connections` must be a whole number from 1 to 4096"),
        ("handshakes = 5000", "`handshakes` must be a whole number from 1 to 4096"),
        ("handshake-timeout = \"1ms\"", "`handshake-timeout` must be a time from 10ms to 10m"),
        ("buffers = \"1MiB\"", "`buffers` must be from 64MiB to 1TiB"),
        ("stall-timeout = \"2h\"", "`stall-timeout` must be a time from 1s to 1h"),
        ("handshake = \"10s\"", "unknown key `handshake`; did you mean `handshakes`?"),
    ] {
        let said = said_about(&format!("[nbd]\n{line}\n"));
        assert!(said.contains(&format!("line 11: {wanted}")), "{line} says {said}");
    }
}

#[test]
fn a_pool_may_have_a_depth_of_its_own() {
    let of = |more: &str| {
        let text = format!("data = \"pools\"\ndepth = 64\n[[pool]]\nname = \"a\"\n{more}");
        read(&format!("{text}size = \"8GiB\"\n[[volume]]\nsize = \"4GiB\"\n"))
    };
    let config = of("depth = 4\n").unwrap();
    assert_eq!((config.settings.depth, config.pools[0].depth), (64, Some(4)));
    assert_eq!(of("").unwrap().pools[0].depth, None);
    assert!(of("depth = 0\n").unwrap_err().to_string().contains("line 5: `depth` must be"));
}

#[test]
fn the_other_values_are_read_too() {
    let more = "[copying]\nrate = \"none\"\n[nbd]\ntcp = [\"127.0.0.2:1\"]\n";
    let text = format!("tactics = [\"slowest-first\"]\n{SMALLEST}{more}");
    let config = read(&text).unwrap();
    assert_eq!(config.settings.tactics.allocation.name(), "slowest-first");
    assert_eq!(config.settings.copying.rate_per_second, None);
    assert_eq!(config.nbd.tcp, [SocketAddr::from(([127, 0, 0, 2], 1))]);
}

/// Seeded changes of the example, byte by byte and line by line.
#[test]
fn no_text_is_read_with_a_panic_and_every_complaint_names_a_line() {
    let mut rng = Rng::seeded(17);
    let pieces: Vec<&str> = EXAMPLE.split_inclusive(['\n', ' ', '"', '=']).collect();
    for _ in 0..3_000 {
        let mut parts = pieces.clone();
        for _ in 0..=rng.below(3) {
            let (from, to) = (rng.below(parts.len() as u64), rng.below(parts.len() as u64));
            match rng.below(3) {
                0 => parts[from as usize] = pieces[to as usize],
                1 => drop(parts.remove(from as usize)),
                _ => parts.swap(from as usize, to as usize),
            }
        }
        let mut bytes = parts.concat().into_bytes();
        if rng.below(2) == 0 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(128) as u8;
        }
        let text = String::from_utf8(bytes).expect("the example is ASCII");
        if let Err(error) = read(&text) {
            assert!(error.to_string().starts_with("/etc/thermocline/a.toml, line "), "{error}");
        }
    }
}

#[test]
fn secrets_that_everybody_can_read_and_files_of_another_kind_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let write = |name: &str, text: &str, mode: u32| {
        std::fs::write(at(name), text).unwrap();
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let listeners = "[nbd]\ntcp = [\"127.0.0.1:1\"]\ntls-cert = \"c\"\ntls-key = \"k\"\n\
                 [http]\ntcp = \"127.0.0.1:2\"\ntoken-file = \"t\"\n";
    let path = at("a.toml");
    std::fs::write(&path, format!("{SMALLEST}{listeners}")).unwrap();
    let config = Config::load(&path).unwrap();
    let said = || config.check_secrets().expect_err("something is wrong").to_string();
    // One at a time, so that an example that was copied took as many tries as it names files.
    let missing: Vec<bool> = said().lines().map(|line| line.contains("No such file")).collect();
    assert_eq!(missing, [true, true, true], "{}", said());
    write("c", "-----BEGIN PRIVATE KEY-----\n", 0o644);
    assert!(said().contains("BEGIN … CERTIFICATE"), "{}", said());
    write("c", "-----BEGIN CERTIFICATE-----\n", 0o644);
    write("k", "-----BEGIN EC PRIVATE KEY-----\n", 0o644);
    assert!(said().contains("chmod 600"), "{}", said());
    write("k", "-----BEGIN EC PRIVATE KEY-----\n", 0o600);
    write("t", "short\n", 0o600);
    assert!(said().contains("at least 16"), "{}", said());
    write("t", "0123456789abcdef\n", 0o604);
    assert!(said().contains("chmod 600"), "{}", said());
    write("t", "0123456789abcdef\n", 0o600);
    // Each is what it should be; a start would have found behind the making of pools that they do
    // not go together.
    let pair = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        (parameters.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let (one, other) = (pair(), pair());
    write("c", &one.0, 0o644);
    write("k", &other.1, 0o600);
    let told = said();
    assert!(told.contains("the key in") && told.contains("is another certificate's"), "{told}");
    write("k", &one.1, 0o600);
    config.check_secrets().unwrap();
    let missing = Config::load(&at("none.toml")).expect_err("there is none");
    assert!(missing.to_string().contains("none.toml"), "{missing}");
}

/// Error about a pool in a bucket with these lines in its tables.
fn said_about_bucket(pool: &str, s3: &str) -> String {
    let path = "path = \"s3://cold/pool\"\nsize = \"1GiB\"\n";
    said_about(&format!("[[pool]]\nname = \"c\"\n{path}{pool}[pool.s3]\n{s3}"))
}

#[test]
fn a_bucket_that_cannot_be_asked_as_written_is_refused() {
    for (pool, s3, wanted) in [
        ("", "endpoint = \"http://192.0.2.7\"\n", "line 15: `http://192.0.2.7` would send data"),
        ("", "endpoint = \"cold\"\n", "line 15: `cold` is not an address"),
        ("", "link = \"1GB\"\n", "line 15: `link` must be a bandwidth"),
        ("", "link-latency = \"5ms\"\n", "line 15: `link-latency` needs a `link`"),
        ("", "buffer = \"1MiB\"\n", "line 15: `buffer` must be a size from 4 MiB"),
        ("", "read-ahead = \"4KiB\"\n", "`read-ahead` must be a size from 1MiB to 1GiB"),
        ("", "deadlin = \"1s\"\n", "line 15: unknown key `deadlin`; did you mean `deadline`?"),
        ("", "price-put-1000 = -1\n", "line 15: `price-put-1000` must be a price"),
        ("", "secret = \"x\"\n", "line 15: unknown key `secret`"),
        ("emulate = \"s3\"\n", "", "line 10: a pool in a bucket has neither `emulate`"),
        ("[pool.cache]\npath = \"s3://cold/b\"\n", "", "a cache is on a fast device"),
    ] {
        let said = said_about_bucket(pool, s3);
        assert!(said.contains(wanted), "{pool}{s3} says {said}");
    }
    let said = said_about("[[pool]]\nname = \"c\"\npath = \"s3://cold\"\n");
    assert!(said.contains("expected s3://BUCKET/PREFIX"), "{said}");
    let said = said_about("[[pool]]\nname = \"c\"\n[pool.s3]\nregion = \"x\"\n");
    assert!(said.contains("line 12: [pool.s3] needs `path"), "{said}");
    let large = "[[pool]]\nname = \"c\"\npath = \"s3://cold/p\"\nsize = \"1PiB\"\n";
    assert!(said_about(large).contains("with chunks of 1 MiB a bucket takes up to"), "{large}");
}
