//! Libraries as people write them, right and wrong.

use super::{inlined, policy, read, text};
use crate::config::Config;
use std::path::Path;
use thermocline_policy::placement::chew::library::{Library, Range, Thresholds, Tier};

const SMALLEST: &str = "\
unit = \"4KiB\"
[[level]]
name = \"heat\"
weight = \"write\"
[[level.rule]]
pattern = \"mostly written\"
writes = { above = 0.5 }
intensity = { from = 10, below = 1e3 }
pools = [\"fastest\", \"middle\"]
[[level.rule]]
pattern = \"the rest\"
pools = [\"slowest\"]
";

fn library(text: &str) -> Result<Library, String> {
    read(text, Path::new("/etc/mine.toml")).map_err(|error| error.to_string())
}

#[test]
fn the_built_in_library_is_read_back_as_it_was_printed() {
    let built_in = Library::three_pools(Thresholds::default());
    let printed = text(&built_in);
    assert!(printed.contains("writes = { above = 0.5 }"), "{printed}");
    assert_eq!(library(&printed), Ok(built_in));
}

#[test]
fn a_file_means_what_it_says() {
    let library = library(SMALLEST).unwrap();
    assert_eq!((library.name.as_str(), library.unit.0, library.write), ("mine", 4096, 1.0));
    let rule = &library.levels[0].rules[0];
    assert_eq!(rule.when.writes, Range::from(0.5_f64.next_up()));
    assert_eq!(rule.when.intensity, Range::between(10.0, 1000.0));
    assert_eq!(rule.pools, [Tier::Fastest, Tier::Middle]);
}

#[test]
fn what_is_wrong_names_file_and_line_and_what_would_do() {
    for (from, to, wanted) in [
        ("unit = \"4KiB\"\n", "", "line 1: `unit` is missing"),
        ("\"4KiB\"", "\"4 lines\"", "line 1: `unit` must be the size"),
        ("weight = \"write\"", "weight = \"writes\"", "line 4: `weight` is `writes`; it is one of"),
        ("\"middle\"", "\"centre\"", "line 9: a pool `centre`; those are fastest, middle, slowest"),
        ("writes =", "write =", "line 7: unknown key `write`; did you mean `writes`?"),
        ("{ above = 0.5 }", "{ above = 0.5, from = 1 }", "line 7: `from` takes its number in"),
        ("{ above = 0.5 }", "0.5", "line 7: `writes` is a table"),
        ("below = 1e3", "below = 10", "line 5: `intensity` of `mostly written` goes from 10"),
        (
            "pools = [\"slowest\"]\n",
            "",
            "line 10: pattern `the rest` of level `heat` names no pool",
        ),
        ("the rest\"", "the rest\"\nrandom = { below = 1 }", "line 2: level `heat` must end with"),
        ("the rest", "rest:all", "line 10: the name `rest:all`"),
        ("[[level]]", "[[level]", "line 2: "),
        ("unit =", "weights = { write = 0.5 }\nunit =", "line 1: `write` must be a number from 1"),
    ] {
        let said = library(&SMALLEST.replace(from, to)).expect_err("something is wrong");
        assert!(said.starts_with("/etc/mine.toml, line "), "{said}");
        assert!(said.contains(wanted), "{to} says {said}, not {wanted}");
    }
    let long = |n: usize| SMALLEST.replace("the rest", &format!("{:n$}x", "the rest"));
    assert!(library(&long(80)).unwrap_err().contains("names have 1 to 48 bytes"));
    let many = format!("{SMALLEST}{}", SMALLEST.split_once('\n').unwrap().1.repeat(8));
    assert!(library(&many).unwrap_err().contains("9 levels; it has 1 to 8"));
}

#[test]
fn a_policy_carries_what_is_in_the_file_and_shows_its_name_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, SMALLEST).unwrap();
    let spec = policy(&format!("chew:library={}:peak=0.5", path.display())).unwrap();
    assert_eq!(spec.label, "chew:library=mine:peak=0.5");
    assert_eq!(Library::parse(spec.settings.text("library")), Ok(library(SMALLEST).unwrap()));
    for text in [&spec.written, &spec.spelled_out()] {
        let again = policy(text).unwrap();
        assert_eq!(again.settings, spec.settings);
    }
    let missing = folder.path().join("other.toml");
    let said = inlined(&format!("chew:library={}", missing.display())).unwrap_err();
    assert!(said.contains("other.toml") && said.contains("policies library"), "{said}");
}

#[test]
fn policies_without_a_library_are_left_as_they_are() {
    for text in ["baseline:k=200", "chew:library=three-pools", "nobody:library=x", "larc+arc"] {
        assert_eq!(inlined(text).unwrap(), text);
    }
}

#[test]
fn a_configuration_names_a_library_beside_itself() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), SMALLEST).unwrap();
    let config = folder.path().join("up.toml");
    let of = |library: &str| {
        let pool = |name| format!("[[pool]]\nname = \"{name}\"\nsize = \"1GiB\"\n");
        let (fast, slow) = (pool("a"), pool("b"));
        let policy = format!("[policy]\nname = \"chew\"\nsettings.library = \"{library}\"\n");
        let text = format!("data = \"x\"\n{fast}{slow}[[volume]]\nsize = \"1GiB\"\n{policy}");
        std::fs::write(&config, text).unwrap();
        Config::load(&config)
    };
    let spec = of("mine.toml").unwrap().policy.expect("it has a policy");
    assert_eq!(spec.label, "chew:library=mine");
    assert_eq!(Library::parse(spec.settings.text("library")), Ok(library(SMALLEST).unwrap()));
    let said = of("yours.toml").unwrap_err().to_string();
    assert!(said.contains("up.toml, line 12: ") && said.contains("yours.toml"), "{said}");
}
