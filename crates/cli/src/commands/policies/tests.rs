//! Policies that `thermocline policies` finds, and its output.

use super::{as_json, detail, list, select};

fn names(word: &str) -> Vec<&'static str> {
    select(Some(word)).expect("something is found").iter().map(|entry| entry.name).collect()
}

#[test]
fn a_name_shows_one_policy_even_when_other_texts_contain_it() {
    assert_eq!(names("lru"), ["lru"]);
    assert_eq!(names("LARC"), ["larc"]);
    assert!(names("filter").len() > 4 && names("filter").contains(&"random"));
}

#[test]
fn an_unknown_word_names_the_nearest_policy() {
    let error = select(Some("s3fifoo")).err().expect("no such policy");
    assert!(error.contains("`s3-fifo`"), "{error}");
    let error = select(Some("xyzzy-plugh")).err().expect("no such policy");
    assert!(error.contains("lists all"), "{error}");
}

#[test]
fn every_policy_and_setting_is_listed() {
    let all = select(None).unwrap();
    let text = list(&all);
    let json: Vec<_> = all.iter().map(|entry| as_json(entry)).collect();
    for (entry, json) in all.iter().zip(&json) {
        assert!(text.contains(entry.name), "{}", entry.name);
        assert_eq!(json["kind"], entry.build.kind());
        let page = detail(entry);
        for (i, setting) in entry.settings.iter().enumerate() {
            assert!(page.contains(setting.name) && page.contains(setting.default), "{page}");
            assert_eq!(json["settings"][i]["default"], setting.default);
        }
    }
}
