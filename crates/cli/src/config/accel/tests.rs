//! A configuration of every key, and mistakes with the line that they are on.

use super::read;
use std::path::Path;

const WHOLE: &str = r#"
state = "state"
shares = 8
flows = 4096
scheduler = "first-fit"
[inside]
interface = "packet:in0"
address = "10.0.0.1/24"
[outside]
interface = "packet:out0"
address = "192.0.2.1/24"
gateway = "192.0.2.254"
[[card]]
name = "card0"
slots = 3
[[tenant]]
name = "a"
networks = ["10.0.0.0/24"]
external = ["192.0.2.10"]
chain = ["nat", "dpi"]
[api]
socket = "accel.sock"
"#;

fn problem(from: &str, to: &str) -> String {
    let text = WHOLE.replace(from, to);
    assert_ne!(text, WHOLE, "{from}");
    read(&text, Path::new("p.toml")).expect_err(to).to_string()
}

#[test]
fn a_whole_configuration_is_read() {
    let serve = read(WHOLE, Path::new("/etc/p.toml")).expect("it is right");
    assert_eq!(serve.socket, Path::new("/etc/accel.sock"));
    assert_eq!(serve.pool.tenants[0].chain, ["nat", "dpi"]);
    assert_eq!(serve.pool.tenants[0].slots_max, 64);
    assert_eq!((serve.pool.cards[0].slots, serve.pool.shares), (3, 8));
    assert_eq!(serve.pool.outside.gateway, Some([192, 0, 2, 254].into()));
}

#[test]
fn mistakes_are_named_with_their_line() {
    let cases = [
        ("chain = [\"nat\", \"dpi\"]", "chain = [\"nta\"]", "line 20: no function `nta`"),
        ("chain = [\"nat\", \"dpi\"]", "chain = [\"dpi\", \"dpi\"]", "line 20: `dpi` is twice"),
        ("external = [\"192.0.2.10\"]\n", "", "line 19: a chain with `nat` needs"),
        ("networks = [\"10.0.0.0/24\"]\n", "", "`a` has no `networks`"),
        ("\"10.0.0.1/24\"", "\"10.0.0.1\"", "line 8: `10.0.0.1` is not a network"),
        ("address = \"10.0.0.1/24\"\n", "", "line 6: an Ethernet interface needs"),
        ("packet:in0", "eth0", "line 7: `eth0`: write packet:NAME or tun:NAME"),
        ("shares = 8", "shares = 0", "line 3: `shares` must be"),
        ("shares", "share", "did you mean `shares`?"),
        ("slots = 3", "slots = 65", "line 15: `slots` must be"),
        ("external = [", "slots-max = 65\nexternal = [", "line 19: `slots-max` must be"),
        ("first-fit", "first-fid", "line 5:"),
        ("state = \"state\"\n", "", "`state` is missing"),
        ("[api]", "[api]\ntcp = \"127.0.0.1:1\"", "line 22: TCP needs a `token-file`"),
    ];
    for (from, to, wanted) in cases {
        let found = problem(from, to);
        assert!(found.contains(wanted), "{found}\nwanted {wanted}");
    }
    let second = "[[tenant]]\nname = \"b\"\nnetworks = [\"10.0.0.128/25\"]\n[api]";
    assert!(problem("[api]", second).contains("its networks meet 10.0.0.0/24"));
}

/// The token belonged to the later tenant, which then had what the first one had asked for.
#[test]
fn two_tenants_with_one_token_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    for (name, token) in [("one", "0123456789abcdef"), ("two", "0123456789abcdef\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, token).expect("it is written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("it is ours");
    }
    let second = "token-file = \"one\"\n[[tenant]]\nname = \"b\"\nnetworks = [\"10.0.1.0/24\"]\n\
                  token-file = \"two\"\n[api]";
    let text = WHOLE.replace("[api]", second);
    let found = read(&text, &folder.path().join("p.toml")).expect_err("one token").to_string();
    assert!(found.contains("`a` and `b` have the same token"), "{found}");
}
