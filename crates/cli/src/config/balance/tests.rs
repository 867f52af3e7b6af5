//! Configurations of balancers as people write them, right and wrong.

use super::*;
use std::net::SocketAddr;

/// Every key once; the documentation's example.
const EXAMPLE: &str = include_str!("../../../../../docs/formats/balance.toml");
const REFERENCE: &str = include_str!("../../../../../docs/formats/balance.md");

const SMALLEST: &str =
    "[[listen]]\naddress = \"127.0.0.1:8080\"\n[[backend]]\naddress = \"127.0.0.1:9001\"\n";

fn read_here(text: &str) -> Result<BalanceConfig, ConfigError> {
    read(text, Path::new("/etc/thermocline/b.toml"))
}

/// Error about the smallest configuration with `more` behind it.
fn said_about(more: &str) -> String {
    read_here(&format!("{SMALLEST}{more}")).expect_err("something is wrong with it").to_string()
}

#[test]
fn the_example_is_read_as_it_says() {
    let BalanceConfig { proxy, admin } = read_here(EXAMPLE).unwrap();
    assert_eq!(proxy.listen[0].address, SocketAddr::from(([0, 0, 0, 0], 443)));
    let tls = proxy.listen[0].tls.as_ref().unwrap();
    assert_eq!(tls.key, Path::new("/etc/thermocline/server.key"));
    assert_eq!(proxy.listen[1].tls, None);
    let backend = &proxy.live.backends[0];
    assert_eq!((backend.name.as_str(), backend.requests_max), ("a", 200));
    assert_eq!(proxy.live.backends[1].name, "app-b.internal:8080");
    let tls = proxy.live.upstream.tls.as_ref().unwrap();
    assert_eq!(tls.authority.as_deref(), Some(Path::new("/etc/thermocline/servers.pem")));
    assert_eq!(proxy.live.check.path.as_deref(), Some("/health"));
    let poll = proxy.live.poll.as_ref().unwrap();
    assert_eq!((poll.path.as_str(), poll.interval), ("/load", Duration::from_secs(1)));
    assert_eq!(proxy.live.probe, Some(Probe::new("/load")), "the rest is said to be default");
    let log = AccessLog::File("/etc/thermocline/access.log".into());
    assert_eq!(proxy.live.access_log, Some(log));
    assert_eq!(admin.socket, Path::new("/etc/thermocline/thermocline-balance.sock"));
    assert_eq!(admin.tcp.unwrap().1, Path::new("/etc/thermocline/token"));
}

#[test]
fn what_the_example_calls_a_default_is_one() {
    let (example, smallest) = (read_here(EXAMPLE).unwrap(), read_here(SMALLEST).unwrap());
    let settings = Settings { checks: None, ..example.proxy.live.settings.clone() };
    assert_eq!(settings, Settings::default());
    assert_eq!(example.proxy.live.settings.checks, Some(Checks::default()));
    assert_eq!(smallest.proxy.live.settings, Settings::default());
    assert_eq!(example.proxy.live.timeouts, Timeouts::default());
    assert_eq!(smallest.proxy.live.timeouts, Timeouts::default());
    let upstream = Upstream { tls: None, ..example.proxy.live.upstream.clone() };
    assert_eq!(upstream, Upstream::default());
    assert_eq!(smallest.proxy.live.upstream, Upstream::default());
    assert_eq!(example.proxy.live.check.timeout, smallest.proxy.live.check.timeout);
    assert_eq!(example.proxy.live.policy, smallest.proxy.live.policy);
    assert_eq!(example.proxy.live.forwarded, Forwarded::Replace);
    assert_eq!(smallest.proxy.live.forwarded, Forwarded::Replace);
    assert_eq!((example.proxy.threads, smallest.proxy.threads), (1, 1));
    assert_eq!(example.proxy.connections_max, smallest.proxy.connections_max);
    assert_eq!(example.proxy.listen[0].mode, smallest.proxy.listen[0].mode);
    assert_eq!(example.proxy.live.backends[0].weight, 1.0);
    assert_eq!(smallest.admin.socket, example.admin.socket);
    assert!(smallest.admin.tcp.is_none() && smallest.proxy.live.access_log.is_none());
}

#[test]
fn the_reference_and_the_example_have_the_same_keys() {
    let lines = EXAMPLE.lines().filter(|line| !line.starts_with('#'));
    let mut written: Vec<&str> = lines.filter_map(|line| Some(line.split_once(" =")?.0)).collect();
    let rows = REFERENCE.lines().filter(|line| line.starts_with("| `"));
    let mut told: Vec<&str> = rows
        .flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2))
        .collect();
    for keys in [&mut written, &mut told] {
        keys.sort_unstable();
        keys.dedup();
    }
    assert_eq!(told, written);
}

#[test]
fn a_mistake_is_told_with_its_line_and_what_to_write() {
    for (more, told) in [
        ("polcy = \"least\"", "unknown key `polcy`; known in [[backend]] are"),
        ("wieght = 2", "line 5: unknown key `wieght`; did you mean `weight`?"),
        ("weight = 0", "line 5: `weight` must be a number above 0"),
        ("requests = 0", "`requests` must be a whole number from 1"),
        ("name = \"a/b\"", "a backend's name has"),
        ("[[backend]]\naddress = \"127.0.0.1:9001\"", "two backends are called `127.0.0.1:9001`"),
        ("[[backend]]\naddress = \"127.0.0.1\"", "is not a host and a port"),
        ("[[backend]]\naddress = \"::1:9001\"", "is not a host and a port"),
        ("[[backend]]\naddress = \"http://a:1\"", "is not a host and a port"),
        ("[[backend]]\nname = \"x\"", "`address` is missing"),
        ("[[listen]]\naddress = \"127.0.0.1:8080\"", "is listened on twice"),
        ("[[listen]]\naddress = \"localhost\"", "is not an address and a port"),
        ("[[listen]]\naddress = \"[::1]:80\"\nmode = \"udp\"", "`mode` must be"),
        ("[[listen]]\naddress = \"[::1]:80\"\ntls-cert = \"a\"", "go together"),
        ("[timeouts]\nfirst-byte = 5", "`first-byte` must be a time from 100 ms to 1 d"),
        ("[timeouts]\nfirst-bite = \"5s\"", "did you mean `first-byte`?"),
        ("[timeouts]\nrequest = \"soon\"", "`request` is a time"),
        ("[upstream]\ntls-ca = \"a.pem\"", "this needs `tls = true`"),
        ("[check]\npath = \"health\"", "`path` is a path that servers answer"),
        ("[retries]\nshare = 2", "a share from 0 to 1"),
        ("[outliers]\nejected-percent = 101", "from 0 to 100"),
        ("[load]\npoll = \"\"", "`poll` is a path"),
        ("[probe]\ntimeout = \"1s\"", "`path` is missing"),
        ("[probe]\npath = \"/load\"\ntimeout = \"0s\"", "`timeout` must be a time from 1 ms"),
        ("[probe]\npath = \"/load\"\nunder-way = 0", "`under-way` must be a whole number from 1"),
        ("[access-log]\nto = \"\"", "`to` is a file"),
        ("[admin]\ntcp = \"127.0.0.1:1\"", "TCP needs a `token-file`"),
    ] {
        let said = said_about(more);
        assert!(said.starts_with("/etc/thermocline/b.toml, line "), "{said}");
        assert!(said.contains(told), "{more}: {said}");
    }
    let nothing = read_here("[[listen]]\naddress = \"127.0.0.1:1\"").unwrap_err().to_string();
    assert!(nothing.contains("there is no backend; add a table [[backend]]"), "{nothing}");
}

#[test]
fn policies_are_those_that_a_live_balancer_can_run() {
    let said = |policy: &str| {
        let text = format!("policy = \"{policy}\"\n{SMALLEST}");
        read_here(&text).map_or_else(|error| error.to_string(), |_| "fine".to_string())
    };
    assert_eq!(said("least"), "fine");
    assert_eq!(said("ara:low=2"), "fine");
    assert!(said("waterfill").contains("did you mean `water-fill`?"));
    assert!(said("lru").contains("there is no balancer `lru`"), "{}", said("lru"));
    assert!(said("prequal").contains("line 1: `prequal` probes servers: give `[probe]`"));
    let text = format!("policy = \"prequal\"\n{SMALLEST}[probe]\npath = \"/load\"");
    assert_eq!(read_here(&text).unwrap().proxy.live.probe, Some(Probe::new("/load")));
    assert!(said("jsq").contains("there is no balancer `jsq`"), "{}", said("jsq"));
    assert!(said("least:x=1").contains("line 1"), "{}", said("least:x=1"));
}
