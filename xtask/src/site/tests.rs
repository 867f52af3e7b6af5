//! Every page is a chapter once, in the part that names it first.

use super::{TextFile, linked, linking, summary};

fn page(path: &str, text: &str) -> TextFile {
    TextFile { path: path.to_string(), text: text.to_string() }
}

#[test]
fn parts_are_the_indexs_and_every_page_is_listed_once() {
    let index = "# Documentation\n\nWords: [glossary](glossary.md).\n\n## Start\n\n\
                 - [Up](guides/up.md), [again](guides/up.md)\n\n## Internals\n\n\
                 - [Decisions](decisions/README.md), [the map](../ARCHITECTURE.md), [up](guides/up.md)\n";
    let pages = [
        page("ARCHITECTURE.md", "# Architecture\n"),
        page("README.md", "# thermocline\n"),
        page("changes/README.md", "# Notes\n"),
        page("changes/a-fix.md", "Fix: a thing\n"),
        page("docs/README.md", index),
        page("docs/decisions/0001-why.md", "# 0001: why [and] `how`\n"),
        page("docs/decisions/README.md", "# Decisions\n"),
        page("docs/glossary.md", "# Glossary\n"),
        page("docs/guides/up.md", "# A volume\n"),
    ];
    let expected = "# Summary\n\n[thermocline](index.md)\n\n- [Glossary](docs/glossary.md)\n\n# Start\n\n\
                    - [A volume](docs/guides/up.md)\n\n# Internals\n\n\
                    - [Decisions](docs/decisions/index.md)\n  - [0001: why and how](docs/decisions/0001-why.md)\n\
                    - [Architecture](ARCHITECTURE.md)\n\n# More\n\n\
                    - [Notes](changes/index.md)\n  - [changes/a-fix.md](changes/a-fix.md)\n\
                    - [Documentation](docs/index.md)\n";
    assert_eq!(summary(&pages), expected);
}

#[test]
fn links_to_a_folders_page_lead_to_its_index() {
    let text = "[Results](results/README.md), [how](README.md#how), `README.md`\n";
    let linked = "[Results](results/index.md), [how](index.md#how), `README.md`\n";
    assert_eq!(linking(text), linked);
}

#[test]
fn files_that_pages_link_to_come_along() {
    let pages = [
        page("docs/guides/up.md", "[the gate](../../xtask/src/main.rs#L1), [none](../none.svg)\n"),
        page("README.md", "[up](docs/guides/up.md) [elsewhere](https://example.com/a.svg)\n"),
    ];
    assert_eq!(linked(&pages).into_iter().collect::<Vec<_>>(), ["xtask/src/main.rs"]);
}
