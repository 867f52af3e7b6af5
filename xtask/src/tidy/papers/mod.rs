//! Rules about papers: links to files and headings, and names of files, lead somewhere; records
//! keep their form, prose its width; lists that pages show are whole.

mod anchors;
mod kinds;
pub(crate) mod links;
mod picture;
mod places;
mod records;
mod width;

use super::{Finding, LayerTable, Source};
use crate::workspace::TextFile;

/// Every paper rule over the checkout's text files; `exists` answers for a path below the root.
pub(super) fn check(papers: &[TextFile], exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let markdown = || papers.iter().filter(|p| p.path.ends_with(".md"));
    let mut findings: Vec<Finding> =
        markdown().flat_map(|p| links::check(&p.path, &p.text, &exists)).collect();
    findings.extend(anchors::check(&markdown().collect::<Vec<_>>()));
    findings.extend(markdown().flat_map(|p| width::check(&p.path, &p.text)));
    let architecture = markdown().find(|p| p.path == places::PATH);
    findings.extend(architecture.iter().flat_map(|p| places::check(&p.path, &p.text, &exists)));
    let below = |folder: &'static str| {
        markdown().filter_map(move |p| Some((p.path.strip_prefix(folder)?, p.text.as_str())))
    };
    findings.extend(records::decisions(below(records::DECISIONS)));
    findings.extend(below(records::CHANGES).flat_map(|(name, text)| records::change(name, text)));
    let changelog = markdown().find(|p| p.path == records::CHANGELOG);
    findings.extend(records::changelog(changelog.map_or("", |p| &p.text)));
    findings
}

/// Every rule that holds a paper against the code.
pub(super) fn beside_code<'a>(
    text_of: impl Fn(&str) -> Option<&'a str>,
    sources: &[Source],
    table: &LayerTable,
) -> Vec<Finding> {
    let text_of = |path| text_of(path).unwrap_or_default();
    let program = sources.iter().find(|source| source.path == picture::PROGRAM);
    let nothing = Source::read(picture::PROGRAM, "");
    let machines = table.machines();
    let mut findings =
        picture::check(text_of(picture::PATH), program.unwrap_or(&nothing), &machines);
    findings.extend(kinds::check(text_of(kinds::PATH), sources));
    findings
}
