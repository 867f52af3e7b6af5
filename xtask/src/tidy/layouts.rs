//! Layouts of bytes are drawn: each `format.rs` names its page in docs/formats, and the page knows
//! the file's magic numbers and the version that it writes. Its bytes come from outside, so it
//! denies what panics on them: indexing, and `expect`.
//!
//! Files called `format.rs` that encode no numbers are no layouts, and not looked at. Files in the
//! folder `format/` beside one are parts of its layout: the module above them denies for them.
//!
//! Nothing else turns numbers into bytes or back, or this rule would not see it. [`ELSEWHERE`] has
//! the exceptions.

use super::outside::DENIED;
use super::{Finding, Source};

const RULE: &str = "layouts";
const PAGES: &str = "docs/formats/";

/// Conversions of numbers to bytes and back.
const CONVERSIONS: [&str; 4] = ["to_le_bytes", "from_le_bytes", "to_be_bytes", "from_be_bytes"];

/// Beginnings of paths that may convert numbers outside of a `format.rs`, each with the reason.
const ELSEWHERE: [(&str, &str); 28] = [
    ("crates/accel/src/nsh.rs", "a header of RFC 8300"),
    ("crates/chunking/src/rabin16/avx2.rs", "halves of numbers for registers"),
    ("crates/cli/src/commands/calibrate/", "random contents"),
    ("crates/content/src/name.rs", "a number out of a hash"),
    ("crates/fs/src/", "layouts of file systems, which others define"),
    ("crates/functions/src/dpi/automaton.rs", "input of a checksum"),
    ("crates/functions/src/dpi/filter.rs", "words to compare"),
    ("crates/functions/src/packet/", "headers of RFCs"),
    ("crates/gateway/src/socks5.rs", "messages of RFC 1928"),
    ("crates/hostcache/src/agent/contents.rs", "a number out of a hash"),
    (
        "crates/hostcache/src/link.rs",
        "four bytes of parameters, drawn in docs/formats/hostcache.md",
    ),
    ("crates/nbd/src/wire.rs", "the protocol of NBD"),
    ("crates/offload/src/ethernet.rs", "frames of RFC 826"),
    ("crates/offload/src/side.rs", "a header of RFC 791"),
    ("crates/ports-os/src/interface.rs", "checksums of packets"),
    ("crates/ports/src/contract/packets.rs", "packets of a test"),
    ("crates/ports/src/faulty/image.rs", "random contents"),
    ("crates/sim/src/accel/stage.rs", "contents of modelled packets"),
    ("crates/sim/src/hostcache/mod.rs", "contents of modelled blocks"),
    ("crates/trace/src/formats/", "traces, whose layouts others define"),
    ("crates/trace/src/native/", "values of Parquet"),
    ("crates/trace/src/numbers.rs", "digits of a text, eight at a time"),
    ("crates/trace/src/volumes.rs", "words to compare"),
    ("crates/trace/src/write/csv.rs", "a hash as digits"),
    ("crates/tunnel/src/config.rs", "headers of flows, drawn in docs/formats/tunnel.md"),
    ("crates/tunnel/src/store/disk.rs", "a key and a number out of a hash"),
    ("crates/units/src/digest.rs", "words of a digest"),
    ("crates/units/src/fields.rs", "numbers at fixed places, for layouts"),
];

/// Finds the first number that a crate turns into bytes, or back, where no layout is.
pub(super) fn elsewhere(source: &Source) -> Option<Finding> {
    let is_code = source.path.starts_with("crates/") && !source.is_test() && !source.is_program();
    let may = ELSEWHERE.iter().any(|(path, _)| source.path.starts_with(path));
    if !is_code || may || is_in_layout(source.path) {
        return None;
    }
    let at = CONVERSIONS.iter().filter_map(|word| source.words(word).next()).min()?;
    let message = format!(
        "numbers become bytes in a `format.rs`, so that the layout is drawn; what is no layout of \
         ours is listed in {}",
        file!()
    );
    Some(Finding::new(source.path, source.line_of(at), RULE, message))
}

/// True for a `format.rs`, and for a file in the folder beside it.
fn is_in_layout(path: &str) -> bool {
    path.ends_with("/format.rs") || path.contains("/format/")
}

/// Finds layouts without a page, and pages that lag behind; `page` gives the text of a paper.
pub(super) fn check<'a>(
    source: &Source,
    page: impl Fn(&str) -> Option<&'a str>,
) -> Option<Finding> {
    let is_layout = is_in_layout(source.path)
        && !source.is_test()
        && ["_le_bytes", "_be_bytes", "put_u"].iter().any(|word| source.text.contains(word));
    if !is_layout {
        return None;
    }
    let denies = format!("#![deny({DENIED})]");
    let found = |message: String| Some(Finding::new(source.path, 1, RULE, message));
    if source.path.ends_with("/format.rs") && !source.text.contains(&denies) {
        return found(format!("write `{denies}`: bytes from outside never panic"));
    }
    let head = source.text.lines().take_while(|line| line.starts_with("//!"));
    let Some(name) = head.into_iter().find_map(page_in) else {
        return found(format!("names no page: draw the layout in `{PAGES}`, and say where"));
    };
    let Some(text) = page(name) else {
        return found(format!("`{name}` is not there: draw the layout"));
    };
    let lacking: Vec<&str> = magics(source.text).filter(|magic| !text.contains(magic)).collect();
    if let Some(magic) = lacking.first() {
        return found(format!("`{name}` does not know `{magic}`: draw what has it"));
    }
    match version(source.text).filter(|version| !tells(text, version)) {
        Some(version) => found(format!("`{name}` does not tell of version {version}")),
        None => None,
    }
}

/// The page that a line of the head names.
fn page_in(line: &str) -> Option<&str> {
    let at = line.find(PAGES)?;
    let name = &line[at..];
    Some(&name[..name.find(".md")? + ".md".len()])
}

/// Magic numbers: byte strings of four to eight capital letters.
fn magics(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("b\"").filter_map(|(at, open)| {
        let rest = &text[at + open.len()..];
        let magic = &rest[..rest.find('"')?];
        let letters = magic.bytes().all(|byte| byte.is_ascii_uppercase());
        (letters && (4..=8).contains(&magic.len())).then_some(magic)
    })
}

/// The version that is written: the constant `VERSION` or `VERSION_MAX`.
fn version(text: &str) -> Option<&str> {
    let constant = ["const VERSION: ", "const VERSION_MAX: "];
    let at = constant.iter().find_map(|constant| text.find(constant))?;
    let value = text[at..].split_once("= ")?.1;
    Some(&value[..value.find(';')?])
}

/// True if a line speaks of this version or layout.
fn tells(page: &str, version: &str) -> bool {
    page.lines().any(|line| {
        let lower = line.to_lowercase();
        let after = ["version", "layout"].iter().filter_map(|word| lower.find(word)).min();
        let words = after.map_or("", |at| &lower[at..]);
        words.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == version)
    })
}

#[cfg(test)]
mod tests;
