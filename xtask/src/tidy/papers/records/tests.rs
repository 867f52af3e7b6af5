//! Records in form pass; every way to lose the form is found.

use super::{change, changelog, decisions};

const RECORD: &str = "# 0007: Seeds\n\n## Context\nx\n## Choice\nx\n## Rejected\nx\n\
                      ## How we would know it was wrong\nx\n";

fn messages(records: &[(&str, &str)]) -> String {
    decisions(records.iter().copied()).iter().map(|f| format!("{f}\n")).collect()
}

#[test]
fn decisions_in_form_are_tidy() {
    let second = RECORD.replace("0007", "0008");
    let index = "[Seeds](0007-seeds.md), [More](0008-more.md)";
    let records = [("0007-seeds.md", RECORD), ("0008-more.md", &second), ("README.md", index)];
    assert_eq!(messages(&records), "");
}

#[test]
fn a_decision_that_the_index_does_not_list_is_found() {
    let text = messages(&[("0007-seeds.md", RECORD), ("README.md", "[More](0008-more.md)")]);
    assert!(text.contains("0007-seeds.md: docs/decisions/README.md does not list it"), "{text}");
}

#[test]
fn a_decision_number_is_used_once() {
    let text = messages(&[("0007-seeds.md", RECORD), ("0007-more.md", RECORD)]);
    assert!(text.contains("0007-more.md: number 0007 is taken by 0007-seeds.md"), "{text}");
}

#[test]
fn decisions_out_of_form_are_found() {
    assert!(messages(&[("7-seeds.md", RECORD)]).contains("NNNN-title.md"));
    assert!(messages(&[("0008-seeds.md", RECORD)]).contains("first line"));
    let text = messages(&[("0007-seeds.md", &RECORD.replace("## Rejected", "## Others"))]);
    assert!(text.contains("`## Rejected` is missing"), "{text}");
}

#[test]
fn change_notes_say_what_was_and_what_is_now() {
    let good =
        "Fix: Read empty traces\n\nAn empty trace ended in a panic.\n\nNow it is an error.\n";
    assert_eq!(change("empty-traces.md", good), []);
    assert_eq!(change("README.md", "any"), []);
    for (name, text) in [
        ("Empty traces.md", good),
        ("empty.md", &good.replace("Fix:", "Bugfix:")),
        ("empty.md", &good.replace("Now it is", "It is")),
    ] {
        assert_eq!(change(name, text).len(), 1, "{name}: {text}");
    }
}

#[test]
fn the_change_log_lists_releases_newest_first() {
    let good = "# Changes\n\n## 0.2.0 (2027-01-31)\n### Fixes\n## 0.1.0 (2026-11-30)\n";
    assert_eq!(changelog(good), []);
    for bad in [
        "",
        "# Changes\n## Unreleased\n",
        "# Changes\n## 0.1.0\n",
        "# Changes\n## 0.1.0 (30.11.2026)\n",
        "# Changes\n## 0.1.0 (2026-11-30)\n## 0.2.0 (2027-01-31)\n",
    ] {
        assert_eq!(changelog(bad).len(), 1, "{bad:?}");
    }
}
