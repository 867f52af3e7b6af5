//! Libraries in C and Rust beside the built-in policies: the same outcome for every access. Without
//! a C compiler those in C say SKIPPED.

#![allow(clippy::unwrap_used)] // A test that cannot go on stops where it is.

mod libraries;

use libraries::{compiled, example};
use std::path::Path;
use thermocline_policy::cache::{CachePolicy, Outcome, Tag};
use thermocline_policy::registry::{Built, Geometry, PolicySpec};
use thermocline_units::{Bytes, LineId, Rng};

const GEOMETRY: Geometry = Geometry { lines: 300, line_bytes: Bytes(4096), volumes: 1, seed: 1 };

fn cache(spec: &PolicySpec) -> Box<dyn CachePolicy> {
    let Ok(Built::Cache(cache)) = spec.build(&GEOMETRY, None) else { panic!("no cache") };
    cache
}

fn loaded(library: &Path, rest: &str) -> Result<PolicySpec, String> {
    thermocline_plugins::policy(&format!("{}:{rest}", library.display())).unwrap()
}

/// Both caches answer the same to 20,000 accesses, some lines dropped in between.
fn same(own: &PolicySpec, built_in: &str) {
    let (mut own, mut other) = (cache(own), cache(&PolicySpec::parse(built_in).unwrap()));
    own.reserve(1000);
    other.reserve(1000);
    let mut rng = Rng::seeded(7);
    for _ in 0..200 {
        let lines: Vec<LineId> =
            (0..100).map(|_| LineId((rng.below(1000) * rng.below(1000) / 1000) as u32)).collect();
        let tags = vec![Tag::default(); lines.len()];
        let (mut a, mut b) = (vec![Outcome::HIT; 100], vec![Outcome::HIT; 100]);
        own.access_batch(&lines, &tags, &mut a);
        other.access_batch(&lines, &tags, &mut b);
        assert_eq!((own.failure(), a), (None, b));
        let dropped = LineId(rng.below(1000) as u32);
        assert_eq!(own.invalidate(dropped), other.invalidate(dropped));
    }
    assert_eq!(own.resident(), other.resident());
}

#[test]
fn lru_in_c_answers_as_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/lru.c");
    let Some(library) = compiled(&source, &folder) else { return };
    same(&loaded(&library, "lru").unwrap(), "lru");
    let refused = loaded(&library, "lru:size=3").unwrap().build(&GEOMETRY, None).err().unwrap();
    assert!(refused.to_string().contains("no settings, and was given `size=3`"), "{refused}");
    let unknown = loaded(&library, "arc").err().unwrap();
    assert!(unknown.contains("made.so: it has no policy `arc`; it has: lru"), "{unknown}");
}

/// The log is packed, and lines are dropped from its middle, while 300 lines are cached. With 2
/// lines, a word of slots is larger than the cache.
#[test]
fn lru_in_c_by_a_log_answers_as_the_built_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/lru_log.c");
    let Some(library) = compiled(&source, &folder) else { return };
    let own = loaded(&library, "lru").unwrap();
    same(&own, "lru");
    let small = Geometry { lines: 2, ..GEOMETRY };
    let build = |spec: &PolicySpec| match spec.build(&small, None) {
        Ok(Built::Cache(cache)) => cache,
        _ => panic!("no cache"),
    };
    let (mut own, mut other) = (build(&own), build(&PolicySpec::parse("lru").unwrap()));
    own.reserve(4);
    other.reserve(4);
    let mut rng = Rng::seeded(3);
    for _ in 0..5000 {
        let line = LineId(rng.below(4) as u32);
        let answers = [&mut own, &mut other].map(|cache| cache.access(line, Tag::default()));
        assert_eq!((own.failure(), answers[0]), (None, answers[1]));
    }
}

#[test]
fn fifo_in_rust_answers_as_the_built_in_one() {
    let library = example("fifo_policy");
    same(&loaded(&library, "fifo").unwrap(), "fifo");
}

#[test]
fn libraries_that_keep_no_interface_or_another_one_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    assert!(loaded(&text, "a").err().unwrap().contains("it cannot be loaded"));
    let source = folder.path().join("source.c");
    for (code, expected) in [
        ("int other;", "neither a function `thermocline_policies` nor `thermocline_placements`"),
        (
            "#include \"thermocline_policy.h\"\n\
             static const thermocline_policy p = {.version = 9, .struct_bytes = sizeof p};\n\
             static const thermocline_policy *const all[] = {&p, NULL};\n\
             const thermocline_policy *const *thermocline_policies(void) { return all; }",
            "version 9",
        ),
        (
            "#include \"thermocline_policy.h\"\n\
             static const thermocline_policy p = {.version = 1, .struct_bytes = sizeof p,\n\
             .name = \"a\"};\n\
             static const thermocline_policy *const all[] = {&p, NULL};\n\
             const thermocline_policy *const *thermocline_policies(void) { return all; }",
            "policy `a` has no function `create`",
        ),
    ] {
        std::fs::write(&source, code).unwrap();
        let other = tempfile::tempdir().unwrap();
        let Some(library) = compiled(&source, &other) else { return };
        let error = loaded(&library, "a").err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    assert!(thermocline_plugins::policy("lirs:hir=0.02").is_none());
}

#[test]
fn a_filter_may_stand_before_a_policy_of_a_library() {
    let other = tempfile::tempdir().unwrap();
    // A path with a plus in it is no filter.
    let folder = other.path().join("c++");
    std::fs::create_dir(&folder).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/lru.c");
    let Some(made) = compiled(&source, &other) else { return };
    let library = folder.join("own+lru.so");
    std::fs::rename(made, &library).unwrap();
    let named = |filter: &str| {
        let text = format!("{filter}{}:lru", library.display());
        let split = thermocline_plugins::split(&text)
            .map(|(path, rest)| (path.to_string(), rest.to_string()));
        assert_eq!(split, Some((library.display().to_string(), "lru".to_string())));
        thermocline_plugins::policy(&text).unwrap()
    };
    same(&named("").unwrap(), "lru");
    same(&named("larc+").unwrap(), "larc+lru");
    let error = named("larc:nonsense=1+").unwrap_err();
    assert!(error.contains("nonsense"), "{error}");
}
