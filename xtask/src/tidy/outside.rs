//! Crates and modules that read bytes from outside deny what panics on them: indexing, `expect`.
//!
//! A crate denies as a whole, so that a new module does too. Modules that read nothing from outside
//! are listed here, and only they may allow it again. Modules of other crates that read such bytes
//! deny at their own head. A `format.rs` in another crate is the business of [`super::layouts`].

use super::source::{closing, leading_word};
use super::{Finding, Source};

const RULE: &str = "outside";

/// The lints, as the attribute names them.
pub(super) const DENIED: &str = "clippy::indexing_slicing, clippy::expect_used";

/// A crate or a module that reads bytes from outside.
struct Reader {
    /// Its file, or its folder with a `/` behind it, below `crates/`.
    place: &'static str,
    /// Modules that may allow what it denies.
    modules: &'static [&'static str],
}

impl Reader {
    /// True if a file is the one that denies: the file itself, or the head of the folder.
    fn is_headed_by(&self, file: &str) -> bool {
        matches!(file.strip_prefix(self.place), Some("" | "lib.rs" | "mod.rs"))
    }
}

const READERS: [Reader; 9] = [
    Reader { place: "accel/src/nsh.rs", modules: &["tests"] },
    Reader { place: "fs/src/", modules: &["tests"] },
    Reader { place: "functions/src/packet/", modules: &["tests", "build"] },
    Reader { place: "gateway/src/socks5.rs", modules: &["tests"] },
    Reader { place: "nbd/src/", modules: &["tests"] },
    Reader { place: "offload/src/ethernet.rs", modules: &["tests"] },
    Reader { place: "offload/src/side.rs", modules: &["tests"] },
    Reader { place: "offload/src/tenants.rs", modules: &["tests"] },
    Reader {
        place: "trace/src/",
        modules: &[
            "tests", "fixture", "filter", "merge", "packer", "stat", "synth", "write", "writer",
        ],
    },
];

/// Finds such a crate or module that does not deny, and each place where it allows what it may not.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let Some(file) = source.path.strip_prefix("crates/") else { return Vec::new() };
    let Some(reader) = READERS.iter().find(|reader| file.starts_with(reader.place)) else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let denies = format!("#![deny({DENIED})]");
    if reader.is_headed_by(file) && !source.code.contains(&denies) {
        let message = format!("write `{denies}`: bytes from outside never panic");
        findings.push(Finding::new(source.path, 1, RULE, message));
    }
    let levels = ["allow", "expect", "warn"].into_iter().flat_map(|level| source.words(level));
    let opened = |at: &usize| !source.is_test() && opens(&source.code, *at, reader.modules);
    for at in levels.filter(opened) {
        let message = format!(
            "`{}` reads bytes from outside: write `get`, `first_chunk` or a pattern; modules that \
             read none are listed in {}",
            reader.place.trim_end_matches('/'),
            file!()
        );
        findings.push(Finding::new(source.path, source.line_of(at), RULE, message));
    }
    findings
}

/// True if the word at `at` begins a list of one of the lints, before anything but one of
/// `modules`.
fn opens(code: &str, at: usize, modules: &[&str]) -> bool {
    let open = at + leading_word(&code[at..]).len();
    let list = code[open..].starts_with('(').then(|| closing(code.as_bytes(), open)).flatten();
    let Some(close) = list else { return false };
    let lists = |lint: &str| code[open..close].contains(lint);
    let whole_file = code[..at].trim_end().ends_with("#![");
    let may = !whole_file && modules.contains(&module_behind(&code[close..]));
    DENIED.split(", ").any(lists) && !may
}

/// The module that is declared behind an attribute's list; empty where it is something else.
fn module_behind(code: &str) -> &str {
    let declared = code.strip_prefix(")]").map_or("", str::trim_start);
    let public = ["pub ", "pub(crate) "].iter().find_map(|word| declared.strip_prefix(word));
    public.unwrap_or(declared).strip_prefix("mod ").map_or("", leading_word)
}

#[cfg(test)]
mod tests;
