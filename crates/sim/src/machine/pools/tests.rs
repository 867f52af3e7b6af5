//! Pools as text: what is read, and how mistakes are told.

use super::{PoolPlan, PoolSize, parse_pools};
use std::path::Path;
use thermocline_units::Bytes;

const TWO: &str = r#"
[[pool]]
name = "fast"
profile = "nvme"
size = "10%"
reserve = "64MiB"

[[pool]]
profile = "hdd-7200"
size = "4GiB"
"#;

fn parse(text: &str) -> Result<Vec<PoolPlan>, String> {
    parse_pools(text, Path::new("p.toml")).map_err(|error| error.to_string())
}

#[test]
fn pools_are_read_in_order_with_what_may_be_left_out() {
    let pools = parse(TWO).unwrap();
    let names: Vec<_> = pools.iter().map(|p| (p.name.as_str(), p.profile_name.as_str())).collect();
    assert_eq!(names, [("fast", "nvme"), ("hdd-7200", "hdd-7200")]);
    assert_eq!(pools[0].size, PoolSize::Share(0.1));
    assert_eq!(pools[1].size, PoolSize::Bytes(Bytes::from_gib(4)));
    assert_eq!((pools[0].reserve, pools[1].reserve), (Bytes::from_mib(64), Bytes(0)));
}

#[test]
fn the_projects_own_pools_are_read() {
    for name in ["pools.toml", "flash.toml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/hintstor");
        let text = std::fs::read_to_string(path.join(name)).unwrap();
        assert!(parse(&text).unwrap().len() >= 2, "{name}");
    }
}

#[test]
fn a_profile_may_stand_in_a_file_beside_the_pools() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ports/profiles/p.toml");
    let pools =
        parse_pools("[[pool]]\nname = \"a\"\nprofile = \"nvme.toml\"\nsize = \"1GiB\"\n", &folder);
    assert_eq!(pools.unwrap()[0].profile.about, PoolPlan::assumed()[0].profile.about);
}

#[test]
fn mistakes_are_told_with_their_line_and_what_would_do() {
    for (from, to, told) in [
        ("name =", "nmae =", "p.toml, line 3: unknown key `nmae`; did you mean `name`?"),
        ("reserve =", "quota =", "p.toml, line 6: unknown key `quota`; a pool has name, profile"),
        ("\"10%\"", "10", "p.toml, line 5: `size` is a text in quotes, such as size = \"10%\""),
        ("\"10%\"", "\"ten\"", "p.toml, line 5: `ten` is not a pool's size; write 4GiB or 10%"),
        ("\"10%\"", "\"0%\"", "line 5: `0%` is not a pool's size"),
        ("size = \"10%\"\n", "", "p.toml, line 2: this pool lacks size = \"10%\""),
        ("profile = \"nvme\"\n", "", "line 2: this pool lacks profile = \"nvme\""),
        ("\"nvme\"", "\"nvne\"", "did you mean `nvme`?"),
        ("\"nvme\"", "\"nowhere.toml\"", "line 4: nowhere.toml: "),
        ("\"fast\"", "\"hdd-7200\"", "two pools are called `hdd-7200`"),
        ("\"fast\"", "\"a name of many letters\"", "a pool's name has 1 to 16 bytes"),
        ("[[pool]]\nname", "[[disk]]\nname", "line 2: unknown key `disk`; pools stand in"),
        ("64MiB", "64 parrots", "line 6: `64 parrots` is not a size"),
    ] {
        assert!(TWO.contains(from), "{from}");
        let error = parse(&TWO.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(told), "{to}: {error}");
    }
    assert!(parse("").unwrap_err().contains("there is no pool; add a table `[[pool]]`"));
    assert!(parse("[pool]\n").unwrap_err().contains("double brackets"));
    assert!(parse("[[pool]\n").unwrap_err().contains("TOML parse error"));
}

#[test]
fn shares_come_to_whole_chunks_and_never_to_none() {
    let chunk = Bytes::from_mib(1);
    let chunks = |size: &str| size.parse::<PoolSize>().unwrap().chunks(chunk, 1000);
    assert_eq!((chunks("10%"), chunks("0.01%"), chunks("100%")), (100, 1, 1000));
    assert_eq!((chunks("1MiB"), chunks("1537KiB"), chunks("1B")), (1, 2, 1));
}
